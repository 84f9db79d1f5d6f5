"""mbarrier.* (PTX ISA 9.7.13.15.7 to 9.7.13.15.17) and the fences of proxies and initialisations (9.7.13.4)."""

from __future__ import annotations

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.instructions.table import Decoder, Sink, Source, Step, op
from scalec.emulator.machine import mbarrier
from scalec.emulator.machine.order import View
from scalec.emulator.machine.signals import Blocked
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction, Operand

_SPACES = ("shared", "shared::cta", "shared::cluster")
_SCOPES = ("cta", "cluster")
_PHASE_SHIFT = 20  # our opaque state: the pending count below, the phase above


def space_of(instruction: Instruction) -> str:
    """The state space of the mbarrier operand; "" for a generic address."""
    return "shared" if any(m in _SPACES for m in instruction.modifiers) else ""


def lanes(warp: Warp, addresses: np.ndarray) -> list[tuple[int, int]]:
    """(lane, address) of the active lanes."""
    return [(lane, int(addresses[lane])) for lane in np.flatnonzero(warp.mask).tolist()]


@op("mbarrier.init")
def init(instruction: Instruction, decoder: Decoder) -> Step:
    """mbarrier.init: 9.7.13.15.7."""
    decoder.only(instruction, "init", _SPACES)
    space = space_of(instruction)
    where, count = decoder.address(instruction.operands[0]), decoder.source(instruction.operands[1], "u32")

    def run(warp: Warp) -> None:
        counts = count(warp)
        for lane, address in lanes(warp, where(warp)):
            mbarrier.initialise(warp, space, address, int(counts[lane]))

    return run


@op("mbarrier.inval")
def inval(instruction: Instruction, decoder: Decoder) -> Step:
    """mbarrier.inval: 9.7.13.15.8; the memory may be used for other things after it."""
    decoder.only(instruction, "inval", _SPACES)
    space = space_of(instruction)
    where = decoder.address(instruction.operands[0])

    def run(warp: Warp) -> None:
        for _, address in lanes(warp, where(warp)):
            mbarrier.invalidate(warp, space, address)

    return run


@op("mbarrier.arrive", "mbarrier.arrive_drop")
def arrive(instruction: Instruction, decoder: Decoder) -> Step:
    """mbarrier.arrive{.expect_tx}{.noComplete}, mbarrier.arrive_drop: 9.7.13.15.11, 9.7.13.15.12."""
    decoder.only(
        instruction, ("arrive", "arrive_drop", "expect_tx", "noComplete", "release", "relaxed"), _SPACES, _SCOPES
    )
    state, where, count, transaction = _arrive_operands(instruction, decoder)
    space = space_of(instruction)
    drop, relaxed, partial = (instruction.has(m) for m in ("arrive_drop", "relaxed", "noComplete"))
    drop = drop or instruction.modifiers[0] == "arrive_drop"
    plain = not (count or transaction or partial or drop)

    def run(warp: Warp) -> None:
        addresses = where(warp)
        counts = count(warp) if count else None
        sizes = transaction(warp) if transaction else None
        states = np.zeros(32, np.uint64)
        # .relaxed: nothing is published but what tcgen05.fence::before_thread_sync orders
        view = warp.units.get("relaxed release") if relaxed else warp.agent
        known: dict[int, mbarrier.MBarrier] = {}
        found = lanes(warp, addresses)
        for _, address in found:
            if address not in known:
                known[address] = mbarrier.find(warp.cta.cluster, space, address, warp, asynchronous=False)
        for barrier in known.values():
            clock = int(warp.agent.seen[warp.agent.index])
            if barrier.cta is not warp.cta and relaxed:  # who sees the phase complete knows of it, and of nothing else
                end = barrier.epochs_before + barrier.phase + 1
                barrier.cta.callers[warp.agent.index, barrier.agent] = clock, end
            elif barrier.cta is not warp.cta:
                barrier.cta.visitors[warp.agent.index] = clock
        first = known[found[0][1]]
        if plain and len(known) == 1 and first.pending > len(found):  # all at once, as none completes the phase
            states[warp.mask] = first.phase << _PHASE_SHIFT | first.pending - np.arange(len(found))
            first.arrive(len(found), f"{warp.name}, {warp.lanes_text()}", view)
            found = []
        phases = {address: barrier.phase for address, barrier in known.items()}
        for lane, address in found:
            barrier = known[address]
            if barrier.phase != phases[address]:
                _apart(warp, lane, barrier)
            states[lane] = barrier.phase << _PHASE_SHIFT | barrier.pending
            who = f"{warp.name} lane {lane}"
            if sizes is not None:
                barrier.expect(int(sizes[lane]), who)
            arriving = 1 if counts is None else int(counts[lane])
            if partial and arriving >= barrier.pending:
                raise Finding("barrier", f"mbarrier.arrive.noComplete by {who} completes the phase of {barrier.name}")
            if drop:
                barrier.expected = max(0, barrier.expected - arriving)
            barrier.arrive(arriving, who, view)
        if not relaxed:
            warp.agent.seen[warp.agent.index] += 1  # what comes later is not part of what was released
        state(warp, states)

    return run


def _apart(warp: Warp, lane: int, barrier: mbarrier.MBarrier) -> None:
    """No rule of the ISA: lanes arrive in no order, so that it is left to chance which of them are too late."""
    warp.machine.report(
        Finding(
            "barrier",
            f"the arrivals of {warp.name} complete phase {barrier.phase - 1} of {barrier.name}, of {barrier.expected}"
            f" arrivals, before lane {lane} has arrived, whose arrival counts for the next",
            expected="all lanes of one instruction arrive in one phase",
            fix="as many arrivals in mbarrier.init as threads arrive",
        )
    )


def _arrive_operands(instruction: Instruction, decoder: Decoder) -> tuple[Sink, Source, Source | None, Source | None]:
    """state{, }[address]{, count or tx-count}: a state of `_`, or none at all, goes nowhere."""
    operands = list(instruction.operands)
    state: Operand | None = None
    if operands[0] is None or not hasattr(operands[0], "base"):
        state = operands.pop(0)
    where = decoder.address(operands[0])
    number = decoder.source(operands[1], "u32") if len(operands) > 1 else None
    if instruction.has("expect_tx"):
        return decoder.sink(state, "b64"), where, None, number
    return decoder.sink(state, "b64"), where, number, None


@op("mbarrier.expect_tx")
def expect_tx(instruction: Instruction, decoder: Decoder) -> Step:
    """mbarrier.expect_tx: 9.7.13.15.9."""
    decoder.only(instruction, "expect_tx", "relaxed", _SPACES, _SCOPES)
    return _transaction(instruction, decoder, expect=True)


@op("mbarrier.complete_tx")
def complete_tx(instruction: Instruction, decoder: Decoder) -> Step:
    """mbarrier.complete_tx: 9.7.13.15.10: as if a copy had completed; .relaxed, so that it publishes what the warp's
    last releasing fence did."""
    decoder.only(instruction, "complete_tx", "relaxed", _SPACES, _SCOPES)
    return _transaction(instruction, decoder, expect=False)


def _transaction(instruction: Instruction, decoder: Decoder, *, expect: bool) -> Step:
    space = space_of(instruction)
    where, size = decoder.address(instruction.operands[0]), decoder.source(instruction.operands[1], "u32")

    def run(warp: Warp) -> None:
        sizes = size(warp)
        for lane, address in lanes(warp, where(warp)):
            barrier = mbarrier.find(warp.cta.cluster, space, address, warp)
            if expect:
                barrier.expect(int(sizes[lane]), f"{warp.name} lane {lane}")
            else:
                barrier.complete(int(sizes[lane]), warp.units.get("relaxed release"))

    return run


@op("mbarrier.test_wait", "mbarrier.try_wait")
def wait(instruction: Instruction, decoder: Decoder) -> Step:
    """mbarrier.test_wait, mbarrier.try_wait, by state or by parity: 9.7.13.15.16.

    try_wait may suspend the thread for a time that the system limits, so it waits here until the phase completes, and
    now and then returns false too early, as the ISA allows. A test_wait that finds the phase incomplete returns false;
    when the warp has nothing else in hand and asks again, it is put aside until something changes.

    Neither waits for anything but by its answer. A phase that has completed without the warp's knowing of it may just
    as well not have, so that for some phases false is a warp's first answer; and an answer that nothing looks at hands
    on nothing.
    """
    decoder.only(instruction, ("test_wait", "try_wait", "parity", "acquire", "relaxed"), _SPACES, _SCOPES)
    space = space_of(instruction)
    suspends, by_parity = instruction.modifiers[0] == "try_wait", instruction.has("parity")
    relaxed = instruction.has("relaxed")
    done, where = decoder.sink(instruction.operands[0], "pred"), decoder.address(instruction.operands[1])
    which = decoder.source(instruction.operands[2], "u32" if by_parity else "b64")

    asked = decoder.result_matters(instruction)

    def run(warp: Warp) -> Blocked | None:
        wanted = which(warp)
        complete = np.zeros(32, bool)
        late: mbarrier.MBarrier | None = None
        seen: dict[int, mbarrier.MBarrier] = {}
        addresses = where(warp)
        if not asked:
            for _, address in lanes(warp, addresses):
                mbarrier.find(warp.cta.cluster, space, address, warp)
            return None
        # the first lane asks for all, where they ask the same
        alone = warp.full and 1 not in ((addresses != addresses[0]) | (wanted != wanted[0])).tobytes()
        for lane, address in ((0, int(addresses[0])),) if alone else lanes(warp, addresses):
            barrier = seen.get(address)
            if barrier is None:
                barrier = seen[address] = mbarrier.find(warp.cta.cluster, space, address, warp)
            if by_parity:
                parity = int(wanted[lane]) & 1  # the ISA asks for 0 or 1; ptxas shifts out all other bits
                complete[lane] = of_last = (barrier.phase & 1) != parity
                phase = barrier.phase - 1
            else:
                phase = int(wanted[lane]) >> _PHASE_SHIFT
                complete[lane], of_last = barrier.phase > phase, barrier.phase == phase + 1
            if complete[lane] and barrier.hides(warp, phase):
                complete[lane] = False
                continue
            barrier.waited |= of_last
            if not complete[lane]:
                late = barrier
            elif not relaxed:
                warp.agent.join(barrier.done)
            else:  # for tcgen05.fence::after_thread_sync
                warp.units.setdefault("relaxed acquire", View(warp.agent.order.capacity)).join(barrier.done)
        if alone:
            complete[:] = complete[0]
        if late is not None:
            polls = warp.units.setdefault("polls", {})
            here = warp.pc
            again = polls.get(here) == warp.machine.changes
            polls[here] = warp.machine.changes
            # else false at once, which the ISA allows, and now and then needs: a thread may do something in between
            patient = suspends and not warp.machine.polling and warp.machine.random.random() < 0.5
            if not complete.any() and (patient or again):
                text = f"for parity {int(wanted[np.argmax(warp.mask)])}" if by_parity else "for a phase"
                return Blocked(late.condition, text, poll=True)
        done(warp, complete)
        return None

    return run


@op("mbarrier.pending_count")
def pending_count(instruction: Instruction, decoder: Decoder) -> Step:
    """mbarrier.pending_count: 9.7.13.15.17: the pending count that a state holds."""
    put, state = decoder.sink(instruction.operands[0], "b32"), decoder.source(instruction.operands[1], "b64")

    def run(warp: Warp) -> None:
        put(warp, (state(warp) & np.uint64(mbarrier.MAX_COUNT)).astype(np.uint32))

    return run


@op("fence.mbarrier_init")
def fence_init(instruction: Instruction, decoder: Decoder) -> Step:
    """fence.mbarrier_init.release.cluster: earlier initialisations are seen by the cluster and by all proxies."""
    decoder.only(instruction, "mbarrier_init", "release", "cluster")

    def run(warp: Warp) -> None:
        show_initialisations(warp)
        # the fence with a relaxed arrival at the cluster's barrier is a release (9.7.13.4, example)
        warp.agent.release(warp.units.setdefault("relaxed release", View(warp.agent.order.capacity)))

    return run


def show_initialisations(warp: Warp) -> None:
    for barrier in mbarrier.table(warp.cta).values():
        if not warp.cta.cluster.order.unseen(barrier.initialised, warp.agent.seen):
            barrier.visible = True


@op("fence.proxy")
def fence_proxy(instruction: Instruction, decoder: Decoder) -> Step:
    """fence.proxy.async and .alias: 9.7.13.4; the judge does not tell shared from global memory here.

    With .release, what relaxed arrivals behind it publish; with .acquire, what relaxed waits before it have seen.
    """
    decoder.only(
        instruction,
        ("proxy", "async", "alias", "async::generic", "acquire", "release", "cluster", "cta", "global", *_SPACES),
        ("sync_restrict::shared::cta", "sync_restrict::shared::cluster"),
    )
    if instruction.has("alias"):
        return lambda warp: None

    acquires, releases = instruction.has("acquire"), instruction.has("release")

    def run(warp: Warp) -> None:
        if acquires and (seen := warp.units.get("relaxed acquire")) is not None:
            warp.agent.join(seen)
        warp.agent.fence()
        show_initialisations(warp)
        if releases:
            warp.agent.release(warp.units.setdefault("relaxed release", View(warp.agent.order.capacity)))

    return run
