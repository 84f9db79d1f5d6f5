"""Who uses tensor memory: warps that load and store, threads that issue copies and products, the pipe that runs these.

The pipe of a CTA (of a pair, with .cta_group::2) takes its operations in the order in which they were issued, at times
that the seed draws. Nothing else would show: what the ISA leaves unordered is judged when it is issued.

tcgen05.fence::before_thread_sync and ::after_thread_sync carry the order of tcgen05 instructions over a synchronisation
of threads; but "the standard memory consistency model synchronization mechanisms also apply" (9.7.16.6.3). So a barrier
with .release and .acquire semantics needs no fence, and Triton and CUTLASS have none; a .relaxed one does. A program
that has a tcgen05.fence anywhere, though, is taken to keep to the patterns of 9.7.16.6.4, and is held to them: there
the fences are needed in every place (Options.tensor_fences).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from scalec.emulator.findings import EmulatorError, Finding
from scalec.emulator.machine.order import View
from scalec.emulator.machine.tensor_memory import Source, TensorMemory, Write

if TYPE_CHECKING:
    from scalec.emulator.machine.cta import Cluster, Cta
    from scalec.emulator.machine.kernel import Kernel
    from scalec.emulator.machine.machine import Machine
    from scalec.emulator.machine.warp import Warp


class Pipe:
    """Operations that were issued and have not happened."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.queue: deque[tuple[str, Callable[[], None]]] = deque()

    def push(self, text: str, action: Callable[[], None]) -> None:
        """Takes an operation; `text` describes it in findings."""
        self.queue.append((text, action))
        if len(self.queue) == 1:
            self.machine.later(self._run)

    def _run(self) -> None:
        count = len(self.queue)
        if self.machine.random.random() < 0.5:
            count = self.machine.random.randrange(1, count + 1)
        for _ in range(count):
            text, action = self.queue[0]
            try:
                action()
            except EmulatorError as error:
                error.where = error.where or text
                raise
            self.queue.popleft()
        if self.queue:
            self.machine.later(self._run)


class Shared:
    """What the CTAs of a cluster share.

    Attributes:
        agents: places in the order that belong to tensor memory.
        writes: all writes to tensor memory, by number.
        pipes: by the rank of the CTA, of a pair's even one.
        collective: what the first of a pair's two warps waits for, see tcgen05_alloc.
    """

    def __init__(self) -> None:
        self.agents: list[int] = []
        self.writes: list[Write | None] = [None]
        self.pipes: dict[int, Pipe] = {}
        self.collective: dict = {}


def shared(cluster: Cluster) -> Shared:
    found = cluster.units.get("tcgen05")
    if found is None:
        found = cluster.units["tcgen05"] = Shared()
        cluster.units.setdefault("at exit", []).append(_check_leaks)
    return found


def memory(cta: Cta) -> TensorMemory:
    """The tensor memory of a CTA."""
    found = cta.units.get("tensor memory")
    if found is None:
        found = cta.units["tensor memory"] = TensorMemory(cta, shared(cta.cluster).writes)
    return found


def _check_leaks(cluster: Cluster) -> None:
    for cta in cluster.ctas:
        found = cta.units.get("tensor memory")
        if found is not None and found.allocations.taken and not cluster.machine.ignores("tensor-memory"):
            raise Finding(
                "tensor-memory",
                f"CTA {cta.number} exits with tensor memory allocated: {found.describe()}",
                expected="tcgen05.dealloc of all that was allocated, before the kernel exits (9.7.16.7.1)",
                where=found.alloc_text,
            )


class Thread(Source):
    """A thread that issues copies and products; `count` of them so far."""

    def __init__(self, state: State, lane: int) -> None:
        name = f"a tcgen05 operation of {state.warp.name} lane {lane}"
        agent = state.add(name)
        super().__init__(name, agent, agent, state.add(f"the issue of {name}"))
        self.count = 0


class State:
    """What a warp does with tensor memory, and knows of it.

    Attributes:
        agent: the warp's.
        view: what its tcgen05 instructions are ordered after: the agent's own, unless fences are demanded.
        loads, stores: its tcgen05.ld and tcgen05.st; clocks count the waits for them, from 1.
        loaded: place that counts the loads issued; tcgen05.fence::before_thread_sync and a relaxed barrier tell of it.
        threads: those that issue copies and products, by lane.
    """

    def __init__(self, warp: Warp) -> None:
        self.warp, self.agent = warp, warp.agent
        self.shared = shared(warp.cta.cluster)
        self.strict = demands_fences(warp.kernel, warp.machine)
        self.view: View = warp.agent.order.view() if self.strict else warp.agent
        self.loads = self._source(f"tcgen05.ld of {warp.name}")
        self.stores = self._source(f"tcgen05.st of {warp.name}")
        self.loaded = self.add(f"tcgen05.ld of {warp.name}, issued")
        self.load_clock = self.store_clock = 1
        self.threads: dict[int, Thread] = {}

    def add(self, name: str) -> int:
        index = self.warp.cta.cluster.order.add(name)
        self.shared.agents.append(index)
        return index

    def _source(self, name: str) -> Source:
        agent = self.add(name)
        return Source(name, agent, self.add(name) if self.strict else agent)

    def thread(self, lane: int) -> Thread:
        if lane not in self.threads:
            self.threads[lane] = Thread(self, lane)
        return self.threads[lane]

    def issue(self, lane: int, text: str) -> Thread:
        """A thread issues an asynchronous operation; its number is then `count`."""
        thread = self.thread(lane)
        thread.count += 1
        thread.texts[thread.count] = text
        self.view.seen[thread.issued] = thread.count
        return thread

    def load(self, text: str) -> None:
        """The warp issues tcgen05.ld."""
        count = int(self.agent.seen[self.loaded]) + 1
        self.agent.seen[self.loaded] = self.view.seen[self.loaded] = count
        self.loads.texts[self.load_clock], self.loads.epochs[self.load_clock] = text, (self.loaded, count)

    def waited(self, source: Source, clock: int) -> None:
        """All that `source` did up to a clock is complete."""
        self.view.seen[source.agent] = clock
        self.agent.seen[source.done] = clock

    # -- order over the synchronisation of threads -----------------------------------------------------------------

    def before_thread_sync(self) -> None:
        """tcgen05.fence::before_thread_sync."""
        agents = self.shared.agents
        self.agent.seen[agents] = np.maximum(self.agent.seen[agents], self.view.seen[agents])
        published = View(self.agent.order.capacity)
        published.seen[agents] = self.view.seen[agents]
        done = [self.loads.done, self.stores.done]  # whose completion tcgen05.dealloc asks for
        published.seen[done] = self.agent.seen[done]
        self.warp.units["relaxed release"] = published

    def after_thread_sync(self) -> None:
        """tcgen05.fence::after_thread_sync."""
        agents = self.shared.agents
        known = self.agent.seen[agents]
        relaxed = self.warp.units.pop("relaxed acquire", None)
        if relaxed is not None:
            relaxed.grow(self.agent.order.capacity)
            known = np.maximum(known, relaxed.seen[agents])
        self.view.seen[agents] = np.maximum(self.view.seen[agents], known)

    def relaxed_seen(self, agent: int) -> int:
        relaxed = self.warp.units.get("relaxed acquire")
        return 0 if relaxed is None or agent >= len(relaxed.seen) else int(relaxed.seen[agent])

    def committed(self, lane: int) -> View:
        """What tcgen05.commit gives to its mbarriers: all that the thread has issued, complete. It implies
        tcgen05.fence::before_thread_sync (9.7.16.6.4.2)."""
        thread = self.thread(lane)
        given = View(self.agent.order.capacity)
        self.agent.release(given)
        agents = self.shared.agents
        given.seen[agents] = np.maximum(given.seen[agents], self.view.seen[agents])
        given.seen[thread.agent] = thread.count
        return given


def state(warp: Warp) -> State:
    found = warp.units.get("tcgen05")
    if found is None:
        found = warp.units["tcgen05"] = State(warp)
    return found


def demands_fences(kernel: Kernel, machine: Machine) -> bool:
    """Whether the patterns with tcgen05.fence are asked for."""
    wanted = machine.options.tensor_fences
    if wanted is None:
        found = machine.units.get("tcgen05 fences")
        if found is None:
            found = any(i.opcode == "tcgen05" and i.modifiers[0].startswith("fence::") for i in kernel.code)
            machine.units["tcgen05 fences"] = found
        return found
    return wanted


def pair(warp: Warp, cta_group: int) -> list[Cta]:
    """The CTAs that an instruction works on: the warp's own, or its pair, the even one first (9.7.16.5.1).

    Raises:
        Finding: illegal, there is no pair; bounds, the peer has exited.
    """
    own = warp.cta
    if cta_group == 1:
        return [own]
    ctas = own.cluster.ctas
    even = own.rank & ~1
    if even + 1 >= len(ctas):
        raise Finding(
            "illegal",
            f".cta_group::2 in CTA rank {own.rank} of a cluster of {len(ctas)}, which has no peer",
            expected="a cluster with an even number of CTAs",
        )
    both = ctas[even : even + 2]
    if any(cta.exited for cta in both):
        raise Finding("bounds", "the peer CTA has exited", expected="both CTAs of a pair stay (9.7.16.5, table 46)")
    return both


def pipe(warp: Warp, cta_group: int) -> Pipe:
    pipes = shared(warp.cta.cluster).pipes
    key = warp.cta.rank if cta_group == 1 else warp.cta.rank & ~1
    if key not in pipes:
        pipes[key] = Pipe(warp.machine)
    return pipes[key]
