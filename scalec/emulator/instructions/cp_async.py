"""cp.async and its groups (PTX ISA 9.7.9.27.3): copies of 4, 8 or 16 bytes a thread, of the generic proxy."""

from __future__ import annotations

from typing import Any

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.instructions.mbarrier import lanes, space_of
from scalec.emulator.instructions.table import Decoder, Step, op, uniform
from scalec.emulator.machine import access, mbarrier
from scalec.emulator.machine.order import View
from scalec.emulator.machine.signals import Blocked, Condition
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction


class _Copies:
    """The copies of a warp in flight. Groups are a thread's own; the warps that we know commit them together.

    Attributes:
        tick: clock of the copies issued now; a commit or an arrive ends it.
        left: clock -> copies not landed.
        groups: clocks of the committed groups, oldest first.
    """

    def __init__(self, warp: Warp) -> None:
        self.agent = warp.cta.cluster.order.add(f"cp.async of {warp.name}")
        self.tick = 1
        self.left: dict[int, int] = {}
        self.groups: list[int] = []
        self.condition = Condition(lambda: f"{warp.name} has {sum(self.left.values())} cp.async in flight")
        self.after: list[tuple[int, Any]] = []

    def settled(self, upto: int) -> bool:
        return not any(count for clock, count in self.left.items() if clock <= upto)

    def landed(self, clock: int) -> None:
        self.left[clock] -= 1
        ready = [action for upto, action in self.after if self.settled(upto)]
        self.after = [(upto, action) for upto, action in self.after if not self.settled(upto)]
        for action in ready:
            action()
        self.condition.notify()


def _copies(warp: Warp) -> _Copies:
    state = warp.units.get("cp.async")
    if state is None:
        state = warp.units["cp.async"] = _Copies(warp)
    return state


@op("cp.async.ca", "cp.async.cg")
def copy(instruction: Instruction, decoder: Decoder) -> Step:
    """cp.async.{ca,cg}.shared.global [dst], [src], size{, src-size | ignore-src}: 9.7.9.27.3.1."""
    decoder.only(
        instruction,
        ("async", "ca", "cg", "shared", "shared::cta", "global", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"),
    )
    operands = list(instruction.operands)
    if instruction.has("L2::cache_hint"):
        operands.pop()
    target, source = decoder.address(operands[0]), decoder.address(operands[1])
    size = decoder.integer(operands[2])
    if size not in (4, 8, 16) or (instruction.has("cg") and size != 16):
        raise Finding("illegal", f"cp.async of {size} bytes", expected="4, 8 or 16; 16 with .cg")
    partial = ignore = None
    if len(operands) > 3:
        if getattr(operands[3], "type", "") == "pred":
            ignore = decoder.source(operands[3], "pred")
        else:
            partial = decoder.source(operands[3], "u32")

    def run(warp: Warp) -> None:
        state, machine, order = _copies(warp), warp.machine, warp.cta.cluster.order
        number = machine.operation(f"{instruction.where}, issued by {warp.name}")
        targets, origins = target(warp), source(warp)
        valid = np.full(32, size)
        if partial is not None:
            valid = np.minimum(partial(warp).astype(np.int64), size)
        if ignore is not None:
            valid = np.where(ignore(warp), 0, valid)
        mask, full = warp.mask, warp.full
        values = np.zeros((32, size), np.uint8)
        try:
            for count in np.unique(valid[mask]).tolist():
                if count:
                    warp.set_mask(mask & (valid == count))
                    part = access.load(warp, "global", origins, size if count == size else int(count))
                    values[:, : int(count)] |= part
        finally:
            warp.mask, warp.full = mask, full
        clock = state.tick
        pieces = access.split(warp, "shared", targets, size)
        for segment, _, offsets in pieces:
            at = offsets[:, None] + np.arange(size)
            machine.judge.writes(segment, at, order, warp.agent, own=warp.agent.index)
            machine.judge.note_pending(segment, at, number)
        state.left[clock] = state.left.get(clock, 0) + 1
        machine.stats.bytes["global -> shared (cp.async)"] += size * int(np.count_nonzero(mask))

        def land() -> None:
            for segment, chosen, offsets in pieces:
                at = offsets[:, None] + np.arange(size)
                segment.data[at] = values[chosen]
                segment.written[at] = True
                machine.judge.note_write(segment, at, order.epoch(state.agent, clock), generic=True)
            state.landed(clock)

        machine.later(land)

    return run


@op("cp.async.commit_group")
def commit(instruction: Instruction, decoder: Decoder) -> Step:
    """cp.async.commit_group: 9.7.9.27.3.2."""

    def run(warp: Warp) -> None:
        state = _copies(warp)
        state.groups.append(state.tick)
        state.tick += 1

    return run


@op("cp.async.wait_group", "cp.async.wait_all")
def wait(instruction: Instruction, decoder: Decoder) -> Step:
    """cp.async.wait_group N, cp.async.wait_all: 9.7.9.27.3.3."""
    everything = instruction.has("wait_all")
    allowed = 0 if everything else decoder.integer(instruction.operands[0])

    def run(warp: Warp) -> Blocked | None:
        state = _copies(warp)
        if everything:
            upto = state.tick
        elif len(state.groups) > allowed:
            upto = state.groups[-1 - allowed]
        else:
            return None
        if not state.settled(upto):
            return Blocked(state.condition, f"for its cp.async groups but {allowed}")
        if everything:
            state.tick += 1
        warp.agent.seen[state.agent] = max(int(warp.agent.seen[state.agent]), upto)
        return None

    return run


@op("cp.async.mbarrier.arrive")
def arrive(instruction: Instruction, decoder: Decoder) -> Step:
    """cp.async.mbarrier.arrive{.noinc}: 9.7.13.15.13: an arrival once the thread's earlier cp.async have landed."""
    decoder.only(instruction, ("async", "mbarrier", "arrive", "noinc"), ("shared", "shared::cta"))
    space, counted = space_of(instruction), instruction.has("noinc")
    where = decoder.address(instruction.operands[0])

    def run(warp: Warp) -> None:
        state, machine = _copies(warp), warp.machine
        upto = state.tick
        state.tick += 1
        view = View(warp.cta.cluster.order.capacity)
        view.seen[state.agent] = upto
        addresses = where(warp)
        barrier = mbarrier.find(warp.cta.cluster, space, uniform(warp, addresses, "the mbarrier"), warp)
        count = len(lanes(warp, addresses))
        if not counted:  # the pending count grows by what arrives later
            barrier.pending += count

        def fire() -> None:
            barrier.arrive(count, f"cp.async of {warp.name}", view)

        if state.settled(upto):
            machine.later(fire)
        else:
            state.after.append((upto, fire))

    return run
