"""mbarrier objects (PTX ISA 9.7.13.15): phases, arrivals, transaction counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.machine import set_up
from scalec.emulator.machine.access import locate
from scalec.emulator.machine.order import View
from scalec.emulator.machine.signals import Condition

if TYPE_CHECKING:
    from scalec.emulator.machine.cta import Cluster, Cta
    from scalec.emulator.machine.memory import Segment
    from scalec.emulator.machine.warp import Warp

SIZE = 8
MAX_COUNT = (1 << 20) - 1  # 9.7.13.15.2: counts of 1 to 2^20 - 1; 9.7.13.15.5.1: as much for the tx-count
_HIDDEN = 8  # one phase in so many
_MAGIC = 0x6D62_6172_0000_0000  # what stands in shared memory, so that an overwritten object is noticed


class MBarrier:
    """An mbarrier object.

    Attributes:
        expected: arrivals of every phase; pending: those that the current one still waits for.
        tx: outstanding bytes of the current phase; below zero while completions came before their expect_tx.
        phase: number of completed phases.
        agent: place in the order; its clock is the number of completed phases, and `epochs_before` those of an object
            that was initialised at this place earlier.
        visible: whether the initialisation was fenced for other CTAs.
        waited: whether anybody has waited for the last phase that completed.
        arrivals: who arrived in the current phase, for messages.
        users: where the kernel invalidates any, the agents that used the object: their clock at the last use, and the
            phase of the cluster's barrier after it.
    """

    def __init__(self, cta: Cta, offset: int, count: int, agent: int, warp: Warp) -> None:
        self.cta, self.offset, self.agent = cta, offset, agent
        self.expected = self.pending = count
        self.tx = self.phase = self.epochs_before = 0
        order = cta.cluster.order
        self.gathering, self.done = View(order.capacity), View(order.capacity)
        self.initialised = set_up.epoch(warp)
        self.by = warp
        self.visible, self.waited = False, True
        self.arrivals: list[str] = []
        self.users: dict[int, tuple[int, int]] = {}
        self.condition = Condition(self.describe, rank=self.rank)

    @property
    def name(self) -> str:
        return f"mbarrier at {self.offset - self.cta.shared.start} of the shared memory of CTA {self.cta.number}"

    def describe(self) -> str:
        who = f"; arrived: {', '.join(self.arrivals[-4:])}" if self.arrivals else ""
        return (
            f"{self.name}: phase {self.phase} (parity {self.phase & 1}) lacks {self.pending} of {self.expected}"
            f" arrivals and {self.tx} bytes{who}"
        )

    def rank(self) -> int:
        """Among barriers that never complete (deadlock.py): of one that has begun to, somebody came short."""
        return 0 if self.tx or self.pending < self.expected else 2

    def arrive(self, count: int, who: str, view: View | None) -> None:
        """`count` arrivals, with what the arriving agent has observed; None: it publishes nothing (.relaxed).

        Raises:
            Finding: barrier, more arrivals than the phase expects.
        """
        if view is not None:
            self.gathering.join(view)
        if count > self.pending:
            self.cta.machine.report(
                Finding(
                    "barrier",
                    f"{count} arrivals by {who} at {self.name}, whose phase {self.phase} waits for {self.pending} of"
                    f" {self.expected}; arrived before: {', '.join(self.arrivals[-8:]) or 'none'}",
                    expected="as many arrivals in a phase as mbarrier.init was given",
                )
            )
            count = self.pending
        self.pending -= count
        self.arrivals.append(who)
        self.advance()

    def expect(self, size: int, who: str) -> None:
        """expect-tx: 9.7.13.15.5.1. Raises Finding for a tx-count out of range."""
        self.tx += size
        if abs(self.tx) > MAX_COUNT:
            raise Finding(
                "barrier",
                f"expect_tx of {size} bytes by {who} takes the tx-count to {self.tx}",
                expected=f"<= {MAX_COUNT}",
            )

    def complete(self, size: int, view: View | None = None) -> None:
        """complete-tx: 9.7.13.15.5.2, with what a thread that executes it publishes."""
        if view is not None:
            self.gathering.join(view)
        self.tx -= size
        if abs(self.tx) > MAX_COUNT:
            raise Finding("barrier", f"{self.name}: complete_tx takes the tx-count to {self.tx}")
        self.advance()

    def advance(self) -> None:
        if self.pending or self.tx:
            return
        if not self.waited:  # no rule of the ISA; where compute-sanitizer says "missing wait", it is broken
            self.cta.machine.report(
                Finding(
                    "barrier",
                    f"{self.name}: phase {self.phase} completes, and nobody has waited for phase {self.phase - 1}",
                    expected="a wait between two phases, without which the first one orders nothing",
                )
            )
        self.phase += 1
        self.waited = False
        self.done.join(self.gathering)
        self.done.seen[self.agent] = self.epochs_before + self.phase
        self.gathering = View(self.cta.cluster.order.capacity)
        self.pending = self.expected
        self.arrivals = []
        self.cta.machine.changes += 1
        self.condition.notify()

    def hides(self, warp: Warp, phase: int) -> bool:
        """Whether a warp that does not know of a phase's completion is told once that it has not completed, as may be.

        The seed says of which phases that holds; warps that go together get one answer, and still do.
        """
        machine = warp.machine
        if machine.polling or hash((machine.options.seed, self.offset, self.cta.number, phase)) % _HIDDEN:
            return False
        told, now = warp.units.setdefault("hidden phases", {}), self.epochs_before + phase
        if told.get(self) == now or warp.agent.seen[self.agent] > now:
            return False
        told[self] = now
        return True

    @property
    def epoch(self) -> int:
        """The epoch of what an asynchronous operation does that completes on the current phase."""
        return self.cta.cluster.order.epoch(self.agent, self.epochs_before + self.phase + 1)


def table(cta: Cta) -> dict[int, MBarrier]:
    """The mbarriers of a CTA, by offset."""
    return cta.units.setdefault("mbarrier", {})


def initialise(warp: Warp, space: str, address: int, count: int) -> None:
    """mbarrier.init: 9.7.13.15.7.

    Raises:
        Finding: misplaced, or a bad count.
    """
    cluster = warp.cta.cluster
    segment, offset = place(cluster, space, address)
    cta = next(c for c in cluster.ctas if c.shared is segment)
    if not 1 <= count <= MAX_COUNT:
        raise Finding("barrier", f"mbarrier.init with a count of {count}", expected=f"1 to {MAX_COUNT}")
    if cta is not warp.cta:
        raise Finding("barrier", "mbarrier.init of an object in another CTA", expected="an address of the own CTA")
    agents = cta.units.setdefault("mbarrier agents", {})
    if offset not in agents:
        agents[offset] = cluster.order.add(
            f"what completes on the mbarrier at {offset - segment.start} of CTA {cta.number}"
        )
    at = slice(offset, offset + SIZE)
    order = cluster.order
    warp.machine.judge.writes(segment, at, order, warp.agent, own=warp.agent.index)
    old = table(cta).get(offset)
    if old is not None and _intact(segment, offset):
        text = f"mbarrier.init by {warp.name} where an mbarrier is that {old.by.name} initialised"
        expected = "one mbarrier.init, by one thread, and mbarrier.inval before the next (9.7.13.15.7)"
        warp.machine.report(Finding("barrier", text, expected=expected))
    new = table(cta)[offset] = MBarrier(cta, offset, count, agents[offset], warp)
    if old is not None:  # the clock of an agent never goes back
        new.epochs_before = old.epochs_before + old.phase + 1
    segment.data[at] = np.frombuffer((_MAGIC | offset).to_bytes(8, "little"), np.uint8)
    segment.written[at] = True
    warp.machine.judge.note_write(segment, at, new.initialised, generic=True)


def _intact(segment: Segment, offset: int) -> bool:
    return int(segment.data[offset : offset + SIZE].view(np.uint64)[0]) == _MAGIC | offset


def invalidate(warp: Warp, space: str, address: int) -> None:
    """mbarrier.inval: 9.7.13.15.8; the memory may be used for other things after it.

    Raises:
        Finding: barrier: others use the object, or may.
    """
    barrier = find(warp.cta.cluster, space, address, warp)
    cluster, seen = warp.cta.cluster, warp.agent.seen
    names, met = cluster.order.names, cluster.behind(warp)
    for agent, (clock, phase) in barrier.users.items():
        if seen[agent] < clock and phase >= met:
            text = f"{barrier.name} is invalidated by {warp.name}, and nothing orders that after its use by"
            expected = "a barrier between the last use of the object by any thread and mbarrier.inval"
            warp.machine.report(Finding("barrier", f"{text} {names[agent]}", expected=expected, fix="bar.sync"))
    if barrier.tx:
        text = f"{barrier.name} is invalidated by {warp.name} while {barrier.tx} bytes are on their way to it"
        warp.machine.report(Finding("barrier", text, expected="a wait for the phase that they belong to"))
    del table(barrier.cta)[barrier.offset]


def place(cluster: Cluster, space: str, address: int):
    """The segment and offset of an mbarrier's address.

    Raises:
        Finding: alignment or bounds.
    """
    if address % SIZE:
        raise Finding("alignment", f"an mbarrier at {address:#x}", expected="a multiple of 8")
    segment, offset = locate(cluster, space, address, SIZE)
    if segment.space != "shared":
        raise Finding("barrier", f"an mbarrier at {address:#x}, in {segment.name}", expected="shared memory")
    return segment, offset


def find(cluster: Cluster, space: str, address: int, warp: Warp | None, *, asynchronous: bool = True) -> MBarrier:
    """The mbarrier at an address, checked to be initialised before this use.

    `warp` is the user, by itself or by an asynchronous operation that it issues (None: one that was checked then).
    `asynchronous`: such an operation completes on it, perhaps; a thread that arrives is of the generic proxy.

    Raises:
        Finding: barrier or proxy.
    """
    segment, offset = place(cluster, space, address)
    cta = next(c for c in cluster.ctas if c.shared is segment)
    barrier = table(cta).get(offset)
    if barrier is None:
        raise Finding(
            "barrier",
            f"there is no mbarrier at {address:#x}, {offset - segment.start} of CTA {cta.number}'s shared memory",
            expected="mbarrier.init before its use",
        )
    if not _intact(segment, offset):
        raise Finding("barrier", f"{barrier.name} was overwritten by something else", expected="no other write to it")
    if warp is not None:
        order, agent = cluster.order, warp.agent
        if warp.kernel.invalidates:
            barrier.users[agent.index] = int(agent.seen[agent.index]), cluster.before(warp)
        if order.unseen(barrier.initialised, warp.agent.seen):
            warp.machine.report(
                Finding(
                    order.kind(barrier.initialised, "barrier"),
                    f"{barrier.name} is used by {warp.name}, and nothing orders that after its mbarrier.init by"
                    f" {barrier.by.name}",
                    expected="a barrier between mbarrier.init and the first use by another warp",
                    fix="bar.sync, or barrier.cluster for other CTAs, after fence.mbarrier_init",
                )
            )
        # for the own CTA a barrier will do, also for what completes on the object: Triton's kernels have no fence there
        if not barrier.visible and warp.cta is not cta:
            warp.machine.report(
                Finding(
                    "proxy" if asynchronous else "init-fence",
                    f"{barrier.name} is used by {warp.name}, and its initialisation was not fenced for other CTAs",
                    expected="fence.mbarrier_init.release.cluster, or fence.proxy.async, after mbarrier.init",
                    fix="add fence.mbarrier_init.release.cluster after the last mbarrier.init",
                )
            )
    return barrier
