"""CTAs and clusters: shared memory, barriers, warps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.machine import set_up
from scalec.emulator.machine.memory import RANK_SHIFT, Segment
from scalec.emulator.machine.order import Order, View
from scalec.emulator.machine.signals import Condition
from scalec.emulator.machine.warp import Warp

if TYPE_CHECKING:
    from scalec.emulator.machine.crew import Crew
    from scalec.emulator.machine.kernel import Kernel
    from scalec.emulator.machine.machine import Machine

NAMED_BARRIERS = 16  # PTX ISA 9.7.13.1 "bar{.cta}, barrier{.cta}": barriers 0 to 15
_BARRIERS_PER_CTA = 256  # places in the order's vectors for mbarriers and other objects, per CTA
_AGENTS_PER_WARP, _AGENTS_PER_CLUSTER = 6, 17


@dataclass
class Phase:
    """What those who came to one phase of a barrier have given to it: their views, and the value of a reduction."""

    view: View
    value: Any = None
    complete: bool = False
    set_up: dict[int, int] = field(default_factory=dict)  # what relaxed arrivals tell of (set_up.py): place -> clock


class Barrier:
    """A barrier with a number of threads to come, and what those who came have given to it.

    Attributes:
        expected: threads; 0: nobody has come yet.
        arrived: threads.
        generation: how often it has completed.
        everyone: whether the threads to come are all that there are, so that those who exit are not waited for.
        phase, done: the one under way, the last one that has completed.
        came: bool (32,) by warp, the lanes that have come to it, or had exited when others of their warp came.
    """

    def __init__(self, name: str, capacity: int) -> None:
        self.name, self.capacity = name, capacity
        self.expected = self.arrived = self.generation = 0
        self.everyone = False
        self.phase = Phase(View(capacity))
        self.came: dict[Warp, np.ndarray] = {}
        self.done = self.phase
        self.who: list[str] = []
        self.condition = Condition(self.describe, rank=self.rank)

    def rank(self) -> int:
        """Among barriers that never complete (deadlock.py): who has not come to this one may wait elsewhere."""
        there = {w for warp in self.came for w in warp.cta.warps}
        return 3 if any(not w.done and w not in self.came and w.blocked for w in there) else 1

    def describe(self) -> str:
        who = ", ".join(sorted(self.who)) or "none"
        return f"{self.name}: {self.arrived} of {self.expected} threads have arrived ({who})"

    def arrive(
        self,
        warp: Warp,
        threads: int,
        expected: int,
        *,
        everyone: bool = False,
        relaxed: bool = False,
        whole: bool = False,
    ) -> None:
        """`threads` of a warp arrive at a barrier of `expected` threads; completes it when they are all.

        Args:
            relaxed: publishes what the warp's last releasing fence did, and nothing later.
            whole: the warp arrives, with all of its lanes.

        Raises:
            Finding: barrier, when the counts do not fit.
        """
        if self.expected and self.expected != expected:
            warp.machine.report(
                Finding(
                    "barrier",
                    f"{self.name} is used with {expected} threads, {', '.join(self.who)} used it with {self.expected}",
                    expected="the same thread count in every bar of one barrier phase",
                )
            )
        self.expected, self.everyone = expected, everyone
        self.arrived += threads
        self.came[warp] = self.came.get(warp, False) | warp.mask | ~warp.live | whole
        self.who.append(warp.name)
        if not relaxed:
            warp.agent.release(self.phase.view)
        else:
            set_up.arrived(warp, self.phase)
            if "relaxed release" in warp.units:
                self.phase.view.join(warp.units["relaxed release"])
        if self.arrived > expected:
            text = f"{self.name}: {self.arrived} threads arrive ({', '.join(self.who)}), {expected} expected"
            warp.machine.report(Finding("barrier", text))
        if self.arrived >= expected:
            self.complete()

    def missing(self, threads: int) -> None:
        """Of all that there are so many threads have neither come nor exited: an exit counts as an arrival."""
        if self.everyone and self.arrived:
            self.expected = self.arrived + threads
            if not threads:
                self.complete()

    def complete(self) -> None:
        self.phase.complete = True
        self.done, self.phase = self.phase, Phase(View(self.capacity))
        self.expected = self.arrived = 0
        self.who, self.came = [], {}
        self.generation += 1
        self.condition.notify()


class Cluster:
    """CTAs that share an order and can reach each other's shared memory.

    Attributes:
        number: linear index of the cluster in the grid.
        units: state that instruction families keep per cluster, by family name.
    """

    def __init__(self, machine: Machine, number: int, size: int, warps: int) -> None:
        self.machine, self.number = machine, number
        self.order = Order(number + 1, _AGENTS_PER_CLUSTER + size * (warps * _AGENTS_PER_WARP + _BARRIERS_PER_CTA))
        self.order.add("the launch before")  # order.LAUNCH
        self.ctas: list[Cta] = []
        self.barrier = Barrier(f"the barrier of cluster {number}", self.order.capacity)
        self.units: dict[str, Any] = {}

    def before(self, warp: Warp) -> int:
        """The phase of its barrier that completes after all that a warp has executed by now, as an arrival, relaxed or
        not, is executed after it."""
        came = warp.units.get("cluster")
        now = self.barrier.generation
        return now + (came is not None and bool((came == now).any()))

    def behind(self, warp: Warp) -> int:
        """How many phases of its barrier a warp knows to have completed."""
        came = warp.units.get("cluster")
        waits_for = -1 if came is None else int(came.max())
        return waits_for if waits_for >= 0 else self.barrier.generation

    def missing_threads(self) -> int:
        """Those that have neither exited nor come to the cluster's barrier."""
        now = self.barrier.generation
        return sum(
            int(np.count_nonzero(w.live & (w.units.get("cluster", -1) != now))) for cta in self.ctas for w in cta.warps
        )


class Cta:
    """A CTA.

    Attributes:
        id: (x, y, z) in the grid; number: linear; rank: in its cluster.
        shared: its shared memory; offsets count from the window's start, whose first bytes are the system's.
        barriers: the named barriers.
        crews: warps that ran in lockstep, by their indices.
        exited: whether all of its threads have.
        start: place in the order of its beginning: 1 in what knows of that.
        visitors: of other CTAs' warps that used its shared memory: place in the order -> clock of the last use.
        callers: of such warps that arrived at its mbarriers and released nothing: places of warp and mbarrier -> clocks
            of the last arrival, and of the mbarrier where its phase has ended. To know of either is to know of it.
        units: state that instruction families keep per CTA, by family name.
    """

    def __init__(
        self, cluster: Cluster, number: int, position: tuple[int, int, int], rank: int, kernel: Kernel
    ) -> None:
        self.cluster, self.machine, self.kernel = cluster, cluster.machine, kernel
        self.number, self.id, self.rank = number, position, rank
        start = self.machine.shared_start
        self.shared = Segment(
            f"shared memory of CTA {number}", "shared", rank << RANK_SHIFT, start + kernel.shared_bytes, start=start
        )
        capacity = cluster.order.capacity
        self.barriers = [Barrier(f"barrier {i} of CTA {number}", capacity) for i in range(NAMED_BARRIERS)]
        self.units: dict[str, Any] = {}
        self.crews: dict[tuple[int, ...], Crew] = {}
        self.exited = False
        self.visitors: dict[int, int] = {}
        self.callers: dict[tuple[int, int], tuple[int, int]] = {}
        self.start = cluster.order.add(f"the start of CTA {number}")
        threads = kernel.threads
        self.warps = [Warp(self, i, min(32, threads - 32 * i), kernel) for i in range(-(-threads // 32))]
        for variable, offset in kernel.shared_layout:
            if variable.init is not None:
                at = start + offset
                self.shared.data[at : at + variable.size] = np.frombuffer(variable.init, np.uint8)
                self.shared.written[at : at + variable.size] = True

    def left(self, warp: Warp, lanes: np.ndarray) -> None:
        """Lanes of a warp have exited: barriers count only the threads that are still there."""
        if self.cluster.barrier.arrived:
            self.cluster.barrier.missing(self.cluster.missing_threads())
        there = sum(bool(w.live.any()) for w in self.warps)
        for barrier in self.barriers:
            if not barrier.arrived:
                continue
            if warp in barrier.came:
                barrier.arrived += int(np.count_nonzero(lanes & ~barrier.came[warp]))
                barrier.came[warp] = barrier.came[warp] | lanes
                if barrier.arrived == barrier.expected:
                    barrier.complete()
            elif barrier.everyone:
                barrier.missing(32 * there - barrier.arrived)

    def exit(self) -> None:
        """The last thread has exited: nobody may use the shared memory from now on, and all use so far must be known.

        Raises:
            Finding: race or in-flight.
        """
        self.exited = True
        if self.shared.shadow.pending.any():
            self.machine.report(
                Finding(
                    "in-flight",
                    f"CTA {self.number} exits while copies into its shared memory are in flight",
                    expected="a wait for every copy before the exit",
                )
            )
        seen = np.max([w.agent.seen for w in self.warps], axis=0)
        late = [agent for agent, clock in self.visitors.items() if seen[agent] < clock]
        late += [a for (a, b), (clock, end) in self.callers.items() if seen[a] < clock and seen[b] < end]
        if late:
            raise Finding(
                "race",
                f"CTA {self.number} exits, and nothing orders that after the last use of its shared memory by"
                f" {self.cluster.order.names[late[0]]}",
                expected="every CTA stays until the others are done with its shared memory",
                fix="barrier.cluster.arrive and wait before the exit",
            )
