"""A warp: registers, the active lanes, divergence and reconvergence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.machine.order import Agent
from scalec.emulator.machine.poison import Undefined
from scalec.emulator.machine.signals import Blocked

if TYPE_CHECKING:
    from scalec.emulator.machine.cta import Cta
    from scalec.emulator.machine.kernel import Kernel

LANES = np.arange(32)
Place = tuple[int, bytes]  # of a path: instruction and lanes
END = -1  # the point where paths join that only meet at the end of the kernel


class _Path(NamedTuple):
    """Lanes that do not run now: where they go on, and the divergences among them."""

    pc: int
    mask: np.ndarray
    inner: tuple[_Split, ...] = ()

    def places(self) -> Iterator[Place]:
        """Every path among these lanes."""
        yield self.pc, self.mask.tobytes()
        for split in self.inner:
            for path in split.waiting:
                yield from path.places()


class _Split:
    """A divergence: where its paths join, those that wait to run, and the lanes that have arrived."""

    __slots__ = ("arrived", "join", "waiting")

    def __init__(self, join: int) -> None:
        self.join = join
        self.waiting: list[_Path] = []
        self.arrived = np.zeros(32, bool)


class Warp:
    """32 lanes.

    Registers hold arrays of 32 lanes that nobody changes in place: a write puts a new array there. Their dtypes are
    bool for predicates and the unsigned integer of the register's width otherwise ((32, 2) uint64 for b128).

    Attributes:
        cta: the CTA.
        index: in the CTA.
        registers: by register index.
        pc: the next instruction; end: the first one that must not be looked at ahead (of a Crew, its run's).
        mask: bool (32,), the lanes that execute; `full` says that it is all 32.
        live: bool (32,), the lanes that exist and have not exited.
        agent: its place in the order of the cluster.
        inflight: register index -> what will write or still reads it (asynchronous tensor instructions).
        settle: completes what is in flight.
        touched: of the registers that such instructions use, those that others have used since the last wgmma.fence.
        undefined: the bits of registers that have no value.
        units: state that instruction families keep per warp, by family name.
        blocked: those of its paths that cannot go on, since `blocked_at` changes of the machine.
    """

    end = 1 << 62

    def __init__(self, cta: Cta, index: int, threads: int, kernel: Kernel) -> None:
        self.cta, self.index, self.kernel = cta, index, kernel
        self.machine = cta.machine
        self.registers: list[np.ndarray] = list(kernel.initial_registers)
        self.pc = 0
        self.live = threads > LANES
        self.mask = self.live
        self.full = bool(self.mask.all())
        self.agent = Agent(cta.cluster.order, f"warp {index} of CTA {cta.number}")
        self.agent.seen[cta.start] = 1
        self.inflight: dict[int, str] = {}
        self.settle: Callable[[], None] = lambda: None
        self.touched: set[int] = set()
        self.undefined = Undefined()
        self.units: dict[str, Any] = {}
        self.splits: list[_Split] = []
        self.join = END
        self.done = False
        self.executed = 0
        self.blocked: dict[Place, Blocked] = {}
        self.blocked_at = 0
        self.local: np.ndarray | None = None
        self.local_written: np.ndarray | None = None

    # -- who we are ------------------------------------------------------------------------------------------------

    @property
    def thread(self) -> np.ndarray:
        """int64 (32,): linear thread index in the CTA."""
        return self.index * 32 + LANES

    @property
    def name(self) -> str:
        return f"CTA {self.cta.number} warp {self.index}"

    def lanes_text(self, mask: np.ndarray | None = None) -> str:
        """Lanes for people: "all lanes", "lane 0", "lanes 0-3,7"."""
        lanes = np.flatnonzero(self.mask if mask is None else mask).tolist()
        if len(lanes) == 32:
            return "all lanes"
        runs: list[list[int]] = []
        for lane in lanes:
            if runs and runs[-1][-1] == lane - 1:
                runs[-1][-1] = lane
            else:
                runs.append([lane, lane])
        text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
        return f"lane {text}" if len(lanes) == 1 else f"lanes {text}"

    # -- control ---------------------------------------------------------------------------------------------------

    def set_mask(self, mask: np.ndarray) -> None:
        self.mask = mask
        self.full = 0 not in mask.tobytes()  # on 32 lanes faster than numpy's all()

    def branch(self, taken: np.ndarray, target: int) -> None:
        """Of the active lanes those in `taken` go to `target`, the others to the next instruction (pc)."""
        taken = taken & self.mask
        lanes = taken.tobytes()
        if 1 not in lanes:
            return
        if lanes == self.mask.tobytes():
            self.pc = target
            return
        self.split([(target, taken), (self.pc, self.mask & ~taken)])

    def split(self, paths: list[tuple[int, np.ndarray]]) -> None:
        """The active lanes part ways, and join again at the immediate post-dominator of the instruction before pc."""
        join = self.kernel.joins[self.pc - 1]
        if not (self.splits and self.splits[-1].join == join):
            self.splits.append(_Split(join))
            self.join = join
        top, leaving = self.splits[-1], self.kernel.leaving
        # the last one runs first: those who leave are not in the way of the others' barriers
        paths = sorted(paths, key=lambda path: path[0] < len(leaving) and leaving[path[0]])
        top.waiting += [_Path(pc, mask) for pc, mask in paths if pc != join]
        for pc, mask in paths:
            if pc == join:
                top.arrived = top.arrived | mask
        self._next_path()

    def arrive(self) -> None:
        """The active lanes stand at the join: they wait there until the other paths have come."""
        top = self.splits[-1]
        top.arrived = top.arrived | self.mask
        self._next_path()

    def leave(self, lanes: np.ndarray) -> None:
        """Lanes exit."""
        self.live = self.live & ~lanes
        self.cta.left(self, lanes)
        rest = self.mask & ~lanes
        if rest.any():
            self.set_mask(rest)
        else:
            self._next_path()

    def _next_path(self) -> None:
        while self.splits:
            top = self.splits[-1]
            if top.waiting:
                self._resume(top.waiting.pop())
                return
            self.splits.pop()
            self.join = self.splits[-1].join if self.splits else END
            if top.arrived.any():
                self.pc = top.join
                self.set_mask(top.arrived)
                return
        self.done = True

    def _resume(self, path: _Path) -> None:
        self.splits += path.inner
        self.join = self.splits[-1].join
        self.pc = path.pc
        self.set_mask(path.mask)

    def rotate(self) -> bool:
        """Lets another path that is not known to be blocked run while the active one waits; whether there is one."""
        for depth in reversed(range(len(self.splits))):
            waiting = self.splits[depth].waiting
            for at in reversed(range(len(waiting))):
                if any(place not in self.blocked for place in waiting[at].places()):
                    path = waiting.pop(at)
                    waiting.insert(0, _Path(self.pc, self.mask, tuple(self.splits[depth + 1 :])))
                    del self.splits[depth + 1 :]
                    self._resume(path)
                    return True
        return False

    def go_ahead(self) -> bool:
        """Lets lanes that wait where paths join go on, as the others may spin until these have done something: no lane
        has to wait for another where nothing synchronises them. They meet again at the next instruction that all
        execute together, of those that all paths come to. Whether there are such lanes."""
        for depth in reversed(range(len(self.splits))):
            split = self.splits[depth]
            if split.join == END or self.kernel.together(split.join) or not split.arrived.any():
                continue
            meeting = self.kernel.meeting(split.join)
            if not (depth and self.splits[depth - 1].join == meeting):
                self.splits.insert(depth, _Split(meeting))
                depth += 1
            self.splits[depth - 1].waiting.append(_Path(split.join, split.arrived))
            split.arrived = np.zeros(32, bool)
            return True
        return False

    @property
    def place(self) -> Place:
        """The active path."""
        return self.pc, self.mask.tobytes()

    def need_converged(self, what: str, whole: bool = False) -> None:
        """All lanes that have not exited must be active (`whole`: and none has exited).

        Raises:
            Finding: divergence.
        """
        if self.full:
            return
        missing = (np.ones(32, bool) if whole else self.live) & ~self.mask
        if missing.any():
            self.machine.report(
                Finding(
                    "divergence",
                    f"{what} is executed by {self.lanes_text()} only; {self.lanes_text(missing)} "
                    + ("have exited or are elsewhere" if whole else "are elsewhere"),
                    expected="all threads of the warp execute the same .aligned instruction (PTX ISA 9.7, .aligned)",
                    fix="reconverge first: bar.warp.sync, or take the instruction out of the conditional code",
                )
            )
