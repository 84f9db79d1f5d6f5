"""The machine: clusters in waves, warps in turns, asynchronous work at times drawn from a seed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Any

from scalec.emulator.findings import EmulatorError, Finding
from scalec.emulator.machine import deadlock
from scalec.emulator.machine.crew import Crew
from scalec.emulator.machine.cta import Cluster, Cta
from scalec.emulator.machine.judge import Judge
from scalec.emulator.machine.kernel import Kernel
from scalec.emulator.machine.memory import SHARED_RESERVED, GlobalMemory, Segment
from scalec.emulator.machine.options import Options
from scalec.emulator.machine.signals import YIELD, Blocked, Signal
from scalec.emulator.machine.warp import Warp
from scalec.emulator.stats import Stats

_Placed = tuple[int, list[tuple[int, int, int]]]  # a cluster: its number, and where its CTAs are
_PATIENCE = 50_000  # instructions until the latest events happen although warps go on: one may be waiting in a loop
# How often a warp has a turn without those that stand where it does, by the seed. Warps in lockstep seldom overtake
# each other, and what only overtaking brings about, such as wrong numbers between clusters, is found when all go alone.
_ALONE = (1 / 16, 1 / 16, 1 / 16, 1 / 16, 1 / 16, 1.0)
_STARTS = 4  # places where shared memory may begin
_HOPELESS = 4  # times that all spin and nothing happens until lanes that wait for others of their warp go on
_SLICE = 400  # instructions that a warp executes at most before another has its turn
_REPORTED = 64  # turns between two reports of progress: some ten a second


class Machine:
    """One launch.

    Attributes:
        clock: instructions executed so far by all warps: the time that events are put on.
        judge: checks the order of accesses.
        memory: the device's global memory.
        params, consts: the segments of the state spaces .param (the kernel's) and .const.
        operations: descriptions of asynchronous operations, by number.
        shared_start: address of the first byte of a CTA's variables in shared memory, behind the system's. The ISA does
            not say where they lie: at a multiple of their greatest alignment, and of 1024, as swizzles of 128 bytes
            rely on in Triton's kernels, which declare 16, and in CUTLASS's, which declare 128.
        units: state that instruction families keep per launch.
        polling: nothing goes on, and the waits that need not wait try again.
    """

    def __init__(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        cluster: tuple[int, int, int],
        memory: GlobalMemory,
        params: Segment,
        consts: Segment | None,
        options: Options,
    ) -> None:
        self.kernel, self.grid, self.cluster_shape = kernel, grid, cluster
        self.memory, self.params, self.consts = memory, params, consts
        self.options = options
        self.random = Random(options.seed)
        aligned = max((variable.align for variable, _ in kernel.shared_layout), default=1)
        step = max(aligned, SHARED_RESERVED)
        self.shared_start = step * (1 + self.random.randrange(_STARTS))
        self.clock = 0
        self.stats = Stats()
        self.operations: list[str] = [""]
        self.passed = options.passed
        self.judge = Judge(lambda number: self.operations[number], self.passed)
        self.units: dict[Any, Any] = {}
        self.runnable: list[Warp] = []
        self.parked: set[Warp] = set()
        self.live: list[Cluster] = []
        self.changes = 0  # counts what may let a waiting warp go on
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._late: list[tuple[int, int, Callable[[], None]]] = []
        self._idle = 0  # turns in a row in which a warp did nothing, or let others run as it may be spinning
        self._hopeless = 0  # how often in a row that went on although nothing was left to happen
        self.polling = False
        self._ends = list(kernel.ends)
        self._alone = _ALONE[options.seed % len(_ALONE)]
        self._serial = 0
        self._waiting: Iterator[_Placed] = iter(())

    # -- asynchronous work -----------------------------------------------------------------------------------------

    def operation(self, text: str) -> int:
        """A number for an asynchronous operation; `text` describes it in findings."""
        self.operations.append(text)
        return len(self.operations) - 1

    def later(self, action: Callable[[], None]) -> None:
        """Does something at a time that the seed chooses: at once, soon, or only when nothing else can go on."""
        draw = self.random.random()
        if draw < 0.25:
            delay = self.random.randrange(4)
        elif draw < 0.75:
            delay = self.random.randrange(3000)
        else:
            delay = _PATIENCE + self.random.randrange(1000)
        self._serial += 1
        heap = self._events if delay < _PATIENCE else self._late
        heapq.heappush(heap, (self.clock + delay, self._serial, action))

    def ignores(self, kind: str) -> bool:
        return kind in self.passed

    def report(self, finding: Finding) -> None:
        """Raises a finding, unless its kind is passed over: then what was found goes on as if it were allowed."""
        if finding.kind not in self.passed:
            raise finding

    def _passes(self, error: EmulatorError) -> bool:
        """Whether an instruction, or an event, with this error has no effect instead of stopping the run."""
        return isinstance(error, Finding) and error.kind in self.passed

    # -- waking ----------------------------------------------------------------------------------------------------

    def wake(self, warp: Warp) -> None:
        if warp in self.parked:
            self.parked.discard(warp)
            warp.blocked.clear()
            self.runnable.append(warp)
            self.changes += 1

    def _park(self, warp: Warp) -> None:
        """None of the warp's paths can go on; whatever wakes one of them wakes the warp."""
        for signal in warp.blocked.values():
            if warp not in signal.condition.waiting:
                signal.condition.waiting.append(warp)
        self.parked.add(warp)

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs the whole grid.

        Raises:
            EmulatorError: the program is wrong, or not modelled; `where` names instruction and thread.
        """
        size = self.cluster_shape[0] * self.cluster_shape[1] * self.cluster_shape[2]
        at_once, following, turns = max(1, self.options.sms // size), None, 0
        mine = islice(enumerate(self._positions()), self.options.part[0], None, self.options.part[1])
        self._waiting = self._mixed(mine, at_once)
        while True:
            while len(self.live) < at_once and (following := next(self._waiting, None)):
                self._start(*following)
            if not self.live:
                break
            self._turn()
            self._retire()
            if self.options.progress and (turns := turns + 1) % _REPORTED == 0:
                self.options.progress(self.stats)
        while self._events or self._late:  # a copy that has read has yet to write
            self._event(self._events or self._late)
        self.stats.spread()

    def take_cluster(self) -> tuple[int, int, int] | None:
        """Takes a cluster that has not begun out of the grid: the position of its first CTA; None if all have begun."""
        following = next(self._waiting, None)
        if following is None:
            return None
        return following[1][0]

    def _positions(self) -> Iterator[list[tuple[int, int, int]]]:
        """For each cluster the positions of its CTAs, in the order of their ranks (PTX ISA, %cluster_ctarank), made
        when it begins."""
        (gx, gy, gz), (cx, cy, cz) = self.grid, self.cluster_shape
        if gx % cx or gy % cy or gz % cz:
            raise Finding(
                "resources", f"a grid of {self.grid} CTAs cannot be cut into clusters of {self.cluster_shape}"
            )
        for z in range(0, gz, cz):
            for y in range(0, gy, cy):
                for x in range(0, gx, cx):
                    yield [(x + i, y + j, z + k) for k in range(cz) for j in range(cy) for i in range(cx)]

    def _mixed(self, clusters: Iterator[_Placed], at_once: int) -> Iterator[_Placed]:
        """Clusters in an order of the seed's, which the ISA leaves open, with one exception: those that run at once are
        those of a wave, as kernels that wait for CTAs of lower numbers rely on."""
        while wave := list(islice(clusters, at_once)):
            self.random.shuffle(wave)
            yield from wave

    def _start(self, number: int, positions: list[tuple[int, int, int]]) -> None:
        kernel = self.kernel
        cluster = Cluster(self, number, len(positions), -(-kernel.threads // 32))
        if len(positions) > 1 and not self.ignores("cta-ids"):
            positions = Random(f"{self.options.seed} {number}").sample(positions, len(positions))
        for rank, position in enumerate(positions):
            linear = position[0] + self.grid[0] * (position[1] + self.grid[1] * position[2])
            cluster.ctas.append(Cta(cluster, linear, position, rank, kernel))
        self.live.append(cluster)
        for cta in cluster.ctas:
            self.runnable += cta.warps

    def _retire(self) -> None:
        for cluster in [c for c in self.live if all(w.done for cta in c.ctas for w in cta.warps)]:
            self.live.remove(cluster)
            for check in cluster.units.get("at exit", ()):
                self._try(check, cluster)

    def _turn(self) -> None:
        """One warp's turn, or, when none can run, the next event."""
        for heap in (self._events, self._late):
            while heap and heap[0][0] <= self.clock:
                self._event(heap)
        if not self.runnable or self._idle > 4 * len(self.runnable) + 16:
            self._idle = 0
            if self._events or self._late:
                self._event(self._events or self._late)
                return
            self._hopeless += 1
            if self._hopeless > _HOPELESS:
                self._hopeless = 0
                for warp in self.runnable:
                    warp.go_ahead()
            self._try_polls()
            if not self.runnable:
                return
        at = self.random.randrange(len(self.runnable))
        warp = self.runnable[at]
        last = self.runnable.pop()
        if at < len(self.runnable):
            self.runnable[at] = last
        budget = self.random.randrange(_SLICE // 8, _SLICE)
        mates = self._mates(warp) if self.random.random() > self._alone else []
        if mates:
            self.runnable = [w for w in self.runnable if w not in mates]
            self._together(sorted([warp, *mates], key=lambda w: w.index), budget)
            return
        before = warp.executed
        signal = self._slice(warp, budget)
        self._put_back(warp, signal, moved=warp.executed > before)

    def _put_back(self, warp: Warp, signal: Signal | None, *, moved: bool) -> None:
        """A warp's turn is over: it exits, is put aside, or waits for its next turn."""
        self._idle = 0 if moved and signal is not YIELD else self._idle + 1
        self._hopeless = self._hopeless if self._idle else 0
        if warp.done:
            self.changes += 1
            self._exited(warp)
        elif isinstance(signal, Blocked) and not warp.rotate():
            self.stats.waits[self.kernel.code[warp.pc].name] += 1
            self._park(warp)
        else:
            if signal is YIELD and self._idle > len(self.runnable):  # perhaps for other lanes of the warp
                warp.blocked.clear()
                warp.rotate()
            self.runnable.append(warp)

    def _event(self, heap: list[tuple[int, int, Callable[[], None]]]) -> None:
        time, _, action = heapq.heappop(heap)
        if heap is self._events:
            self.clock = max(self.clock, time)
        self._try(action)
        self.changes += 1

    def _try(self, action: Callable[..., None], *arguments: Any) -> None:
        try:
            action(*arguments)
        except Finding as finding:
            self.report(finding)

    def _exited(self, warp: Warp) -> None:
        for check in warp.units.get("at exit", ()):
            self._located(warp, check, warp)
        if all(w.done for w in warp.cta.warps):
            self._located(warp, lambda w: w.cta.exit(), warp)

    def _try_polls(self) -> None:
        """Nothing is left to happen: warps that poll try once more; if that changes nothing, the program is dead."""
        polling = [w for w in self.parked if any(signal.poll for signal in w.blocked.values())]
        polling.sort(key=lambda w: (w.cta.number, w.index))
        for warp in polling:
            warp.units.pop("polls", None)
        before = self.changes
        for warp in polling:
            for signal in warp.blocked.values():
                if warp in signal.condition.waiting:
                    signal.condition.waiting.remove(warp)
            warp.blocked.clear()
            self.parked.discard(warp)
        self.polling = True
        for warp in polling:
            stuck = False
            for _ in range(64):
                stuck = isinstance(self._slice(warp, _SLICE), Blocked) and not warp.rotate()
                if warp.done or stuck:
                    break
            if warp.done:
                self.changes += 1
                self._exited(warp)
            elif stuck:
                self._park(warp)
            else:
                self.runnable.append(warp)
                self.changes += 1
        self.polling = False
        if self.changes == before and not self.runnable and not self._events and not self._late:
            self._dead()

    def _dead(self) -> None:
        self.report(deadlock.report(self.parked, self.kernel.code))
        self.live.clear()  # they stay as they are
        self.parked.clear()

    # -- a warp's turn ---------------------------------------------------------------------------------------------

    def _slice(self, warp: Warp, budget: int) -> Signal | None:
        """Runs a warp for up to `budget` instructions; what it is blocked on, if it is, or that it lets others run."""
        steps, pc = self.kernel.careful if warp.undefined.bits else self.kernel.steps, warp.pc
        ends = self._ends
        counts = self.stats.executed
        executed, apart = 0, range(0)  # instructions of a run that the warp executes one by one
        signal = None
        try:
            while executed < budget:
                if pc == warp.join:
                    warp.arrive()
                    if warp.done:
                        break
                    pc = warp.pc
                    continue
                if ends[pc] > pc + 1 and warp.full and pc not in apart and not warp.undefined.bits:
                    end = ends[pc]
                    if self._run(self._crew([warp]), pc, end):
                        self.stats.runs[pc, end] += 1
                        executed += end - pc
                        warp.pc = pc = end
                        continue
                    apart = range(pc, end)
                warp.pc = pc + 1
                signal = steps[pc](warp)
                executed += 1
                counts[pc] += 1
                if signal is not None:
                    if signal is YIELD:
                        break
                    warp.pc = pc
                    counts[pc] -= 1
                    executed -= 1
                    break
                if warp.done:
                    break
                pc = warp.pc
        except EmulatorError as error:
            if not self._passes(error):
                self._locate(warp, pc, error)
                raise
            warp.pc, signal, executed = pc + 1, None, executed + 1
            counts[pc] += 1
        except IndexError:
            if pc >= len(steps):
                error = Finding(
                    "illegal", "control runs past the end of the function", fix="end the code with ret or exit"
                )
                error.where = f"{warp.name}, {warp.lanes_text()}"
                raise error from None
            raise
        self._stopped(warp, signal, executed)
        return signal

    def _stopped(self, warp: Warp, signal: Signal | None, executed: int) -> None:
        """A warp has had its turn, in which it executed so many instructions, and stands at warp.pc."""
        self.clock += executed
        warp.executed += executed
        if isinstance(signal, Blocked):
            if executed or warp.blocked_at != self.changes:
                warp.blocked.clear()
            warp.blocked_at = self.changes
            warp.blocked[warp.place] = signal
        if warp.executed > self.options.max_instructions:
            at = self.kernel.code[min(warp.pc, len(self.kernel.code) - 1)]
            self.report(
                Finding(
                    "deadlock",
                    f"{warp.name} has executed {warp.executed} instructions and is at line {at.line}",
                    expected="an end of the kernel",
                    fix="raise max_instructions (--max-instructions) if the kernel really is that long",
                )
            )
            warp.splits.clear()
            warp.leave(warp.live)  # it goes no further

    def _mates(self, warp: Warp) -> list[Warp]:
        """The warps of its CTA that can run and stand where it does, none of their lanes elsewhere."""
        if not warp.full or warp.undefined.bits:
            return []
        at, cta = warp.pc, warp.cta
        return [w for w in self.runnable if w.pc == at and w.cta is cta and w.full and not w.undefined.bits]

    def _together(self, warps: list[Warp], budget: int) -> None:
        """Runs warps in lockstep for up to `budget` instructions; one that stops, or comes to stand elsewhere, is put
        back at once."""
        kernel, counts = self.kernel, self.stats.executed
        pc, executed, crew = warps[0].pc, 0, self._crew(warps)
        while executed < budget and len(warps) > 1 and pc < len(kernel.steps):
            end = self._ends[pc]
            if end > pc and self._run(crew, pc, end):
                self.stats.runs[pc, end] += len(warps)
                executed, pc = executed + end - pc, end
                for warp in warps:
                    warp.pc = pc
                continue
            step, stay, through = kernel.steps[pc], list[Warp](), self._grouped(pc, warps)
            for warp in warps:
                warp.pc = pc + 1
                try:
                    signal = None if warp in through else step(warp)
                except EmulatorError as error:
                    if not self._passes(error):
                        self._locate(warp, pc, error)
                        raise
                    signal = None
                done = not isinstance(signal, Blocked)
                counts[pc] += done
                if signal is None and not warp.done and warp.full and (not stay or warp.pc == stay[0].pc):
                    stay.append(warp)
                    continue
                if not done:
                    warp.pc = pc
                self._stopped(warp, signal, executed + done)
                self._put_back(warp, signal, moved=executed + done > 0)
            if stay and (end > pc or len(stay) < len(warps)):
                crew = self._crew(stay)
            warps, executed = stay, executed + 1
            pc = warps[0].pc if warps else pc
        for warp in warps:
            self._stopped(warp, None, executed)
            self._put_back(warp, None, moved=True)

    def _run(self, crew: Crew, start: int, end: int) -> bool:
        """Executes a run by a crew; what fails once every warp does by itself from then on."""
        if crew.execute(self.kernel.run(start, end)):
            return True
        failed = crew.pc - 1
        for pc in range(start, failed + 1):
            self._ends[pc] = failed
        return False

    def _grouped(self, pc: int, warps: list[Warp]) -> list[Warp]:
        """Those for which the instruction was executed at once."""
        together = self.kernel.grouped.get(pc)
        try:
            return [] if together is None else together(warps)
        except EmulatorError:  # then one of them raises it by itself
            return []

    def _crew(self, warps: list[Warp]) -> Crew:
        """What executes steps for warps at once; what they, or it, computed ahead in other company is forgotten."""
        crews = warps[0].cta.crews
        who = tuple(warp.index for warp in warps)
        if who not in crews:
            crews[who] = Crew(warps)
        for one in (crews[who], *warps):
            one.units.pop("ahead", None)
        return crews[who]

    def _located(self, warp: Warp, action: Callable[[Warp], None], argument: Warp) -> None:
        try:
            action(argument)
        except EmulatorError as error:
            if self._passes(error):
                return
            error.where = error.where or f"the exit of {warp.name}"
            raise

    def _locate(self, warp: Warp, pc: int, error: EmulatorError) -> None:
        if not error.where:
            instruction = self.kernel.code[pc]
            error.where = f"{instruction.where}\n      {warp.name}, {warp.lanes_text()}, seed {self.options.seed}"
