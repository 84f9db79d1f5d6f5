"""Copies of the async proxy (PTX ISA 9.7.9.27 "Data Movement and Conversion: Asynchronous copy"): in flight, completed.

A copy is judged when it is issued: it may read and write at any moment from then on. It happens at times of the seed.
Copies into shared memory complete on mbarriers, copies out of it in the bulk groups of the thread that issued them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.machine.access import need_begun, need_written
from scalec.emulator.machine.mbarrier import MBarrier
from scalec.emulator.machine.memory import Segment
from scalec.emulator.machine.pieces import Where, fill, pick
from scalec.emulator.machine.signals import Condition

if TYPE_CHECKING:
    from scalec.emulator.machine.cta import Cta
    from scalec.emulator.machine.warp import Warp

Bytes = tuple[Segment, Where]


@dataclass(frozen=True)
class Target:
    """Where a copy goes: bytes of a CTA's shared memory, and the mbarrier that counts `size` of them as complete."""

    cta: Cta
    at: Where
    barrier: MBarrier
    size: int


def into_shared(
    warp: Warp,
    sources: Sequence[Bytes],
    data: Callable[[], np.ndarray],
    targets: Sequence[Target],
    path: str,
    combine: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> None:
    """Issues a copy into shared memory; `data` reads the sources, when the copy happens, in the shape of Target.at.

    A reduction `combine`s what is there with what comes; several of them may have the same target.

    Raises:
        Finding: a source or target is not in order, now.
    """
    machine, order = warp.machine, warp.cta.cluster.order
    instruction = machine.kernel.code[warp.pc - 1]
    number = machine.operation(f"{instruction.where}, issued by {warp.name}")
    first = targets[0].barrier
    order.causes[first.epoch] = machine.operations[number]
    for segment, at in sources:
        known = False
        if segment.space in ("global", "shared"):
            known = machine.judge.reads(segment, at, order, warp.agent, asynchronous=True)
            machine.judge.note_read(segment, at, order, first.agent, first.epochs_before + first.phase + 1)
        if not known:
            need_written(warp, segment, at)
    for target in targets:
        if target.cta is not warp.cta:
            need_begun(warp, target.cta)
        elif not target.barrier.visible:
            text = f"a copy completes on {target.barrier.name}, whose initialisation was not fenced"
            expected = "fence.mbarrier_init.release.cluster, or fence.proxy.async, after mbarrier.init"
            machine.report(Finding("init-fence", text, expected=expected, fix="add the fence behind the last init"))
        if combine is None:
            machine.judge.writes(target.cta.shared, target.at, order, warp.agent, asynchronous=True)
            machine.judge.note_pending(target.cta.shared, target.at, number)
        else:  # reductions of several threads into the same bytes are what the instruction is for
            need_written(warp, target.cta.shared, target.at)
        machine.stats.bytes[path] += target.size

        def land(target: Target = target) -> None:
            if target.cta.exited:  # where that is passed over, the bytes go nowhere
                raise Finding(
                    "in-flight",
                    f"a copy into {target.cta.shared.name} completes after that CTA has exited",
                    expected="every CTA stays until all that is sent to it has come",
                    fix="wait for the copy, or barrier.cluster before the exit",
                    where=machine.operations[number],
                )
            shared = target.cta.shared
            fill(shared.data, target.at, data() if combine is None else combine(pick(shared.data, target.at), data()))
            fill(shared.written, target.at, value=True)
            order.causes[target.barrier.epoch] = machine.operations[number]
            machine.judge.note_write(shared, target.at, target.barrier.epoch, generic=False)
            target.barrier.complete(target.size)

        machine.later(land)


class Group:
    """A bulk group: how many of its copies still read, and still write."""

    __slots__ = ("number", "reads", "writes")

    def __init__(self, number: int) -> None:
        self.number = number
        self.reads = self.writes = 0


class Groups:
    """The bulk groups of one thread (PTX ISA 9.7.9.27.1.2 "Async-group mechanism").

    Attributes:
        open: the group that copies go to; done: those committed, oldest first.
        reader, writer: places in the order; their clocks are group numbers, from 1.
    """

    def __init__(self, warp: Warp, lane: int) -> None:
        order = warp.cta.cluster.order
        who = f"{warp.name} lane {lane}"
        self.reader = order.add(f"the bulk copies of {who}")
        self.writer = order.add(f"the bulk copies of {who}")
        self.open = Group(1)
        self.done: list[Group] = []
        self.condition = Condition(lambda: f"{who} has {len(self.done)} bulk groups not waited for")

    def commit(self) -> None:
        self.done.append(self.open)
        self.open = Group(self.open.number + 1)

    def settled(self, allowed: int, read: bool) -> bool:
        """Whether all but the `allowed` youngest groups have been read from (`read`), or are complete."""
        return all((g.reads if read else g.writes) == 0 for g in self.done[: max(0, len(self.done) - allowed)])

    def observe(self, warp: Warp, allowed: int, read: bool) -> None:
        """The warp knows that those groups are settled."""
        upto = self.done[: max(0, len(self.done) - allowed)]
        if upto:
            last = upto[-1].number
            warp.agent.seen[self.reader] = max(warp.agent.seen[self.reader], last)
            if not read:
                warp.agent.seen[self.writer] = max(warp.agent.seen[self.writer], last)
                self.done = self.done[len(upto) :]


def groups(warp: Warp, lane: int) -> Groups:
    """The bulk groups of a thread."""
    table: dict[int, Groups] = warp.units.setdefault("bulk", {})
    if lane not in table:
        if not table:
            warp.units.setdefault("at exit", []).append(check_exit)
        table[lane] = Groups(warp, lane)
    return table[lane]


def check_exit(warp: Warp) -> None:
    """Shared memory is gone when its CTA exits: copies out of it must have read it by then, and the thread know it.

    Raises:
        Finding: in-flight.
    """
    for lane, state in warp.units["bulk"].items():
        newest = state.open.number if state.open.reads or state.open.writes else state.open.number - 1
        if newest > 0 and warp.agent.seen[state.reader] < newest:
            text = f"{warp.name} lane {lane} exits while its bulk copies may still read shared memory"
            expected = "cp.async.bulk.wait_group.read 0 (or wait_group 0) before the exit"
            fix = "commit the copies and wait for them"
            warp.machine.report(Finding("exit-read", text, expected=expected, fix=fix))


def alike(warp: Warp, operands: Sequence[np.ndarray], *, apart: bool) -> list[list[int]]:
    """The active lanes, those with the same operands together, or each by itself.

    Threads of a warp that execute the same store write the same bytes once: CUTLASS's epilogues for sm_100a let a whole
    warp do so (`issue_tma_store = warp_idx == 0`).
    """
    lanes = np.flatnonzero(warp.mask).tolist()
    if apart:
        return [[lane] for lane in lanes]
    found: dict[tuple[int, ...], list[int]] = {}
    for lane in lanes:
        found.setdefault(tuple(int(operand[lane]) for operand in operands), []).append(lane)
    return [*found.values()]


def out_of_shared(
    warp: Warp,
    lanes: Sequence[int],
    sources: Sequence[Bytes],
    read: Callable[[], np.ndarray],
    targets: Sequence[Bytes],
    write: Callable[[np.ndarray], None],
    path: str,
    *,
    reduces: bool = False,
) -> None:
    """Issues a copy out of shared memory in the open bulk groups of threads; `write` puts what `read` gave.

    Raises:
        Finding: a source or target is not in order, now.
    """
    machine, order = warp.machine, warp.cta.cluster.order
    instruction = machine.kernel.code[warp.pc - 1]
    number = machine.operation(f"{instruction.where}, issued by {warp.name} lane {lanes[0]}")
    states = [groups(warp, lane) for lane in lanes]
    opened = [(state, state.open) for state in states]
    for segment, at in sources:
        machine.judge.reads(segment, at, order, warp.agent, asynchronous=True)
        for state, group in opened:
            machine.judge.note_read(segment, at, order, state.reader, group.number)
        need_written(warp, segment, at)
        machine.stats.bytes[path] += _count(at)
    for segment, at in targets:
        if reduces:  # reductions of several threads into the same bytes are what the instruction is for
            need_written(warp, segment, at)
        else:
            machine.judge.writes(segment, at, order, warp.agent, asynchronous=True)
            machine.judge.note_pending(segment, at, number)
    for _, group in opened:
        group.reads += 1
        group.writes += 1
    writer = order.epoch(states[0].writer, opened[0][1].number)

    def take() -> None:
        data = read()
        for state, group in opened:
            group.reads -= 1
            state.condition.notify()

        def put() -> None:
            write(data)
            for segment, at in targets:
                fill(segment.written, at, value=True)
                machine.judge.note_write(segment, at, writer, generic=False)
            for state, group in opened:
                group.writes -= 1
                state.condition.notify()

        machine.later(put)

    machine.later(take)


def _count(at: Where) -> int:
    return at.stop - (at.start or 0) if isinstance(at, slice) else at.size
