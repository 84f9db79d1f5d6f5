"""Warps of a CTA that stand at the same instruction, and go on together: straight runs of code are one step for all.

Instructions that read and write registers, and loads that wait for nothing, have no effect that another warp could
see, but that the judge knows of a load; weak stores, which nothing in the run reads, happen when it is over. A run of
them is executed once on arrays of shape (warps, 32), by the functions that else take (32,): a crew is a Warp to them.
Where something is wrong each warp repeats the run by itself, and finds it. Everything else each warp does by itself
(machine.py), or has a function of its own for several of them (table.Grouped).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from operator import is_
from typing import TYPE_CHECKING

import numpy as np

from scalec.emulator.findings import EmulatorError
from scalec.emulator.instructions.batch import batches
from scalec.emulator.machine import stores
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Imm, Instruction, Special, Vector, is_full

if TYPE_CHECKING:
    from scalec.emulator.instructions.table import Step
    from scalec.emulator.machine.kernel import Kernel

# whose functions take registers of any shape (..., 32) that broadcast against each other, and touch nothing else
_REGISTERS_ONLY = {
    "abs", "add", "and", "bfe", "bfi", "clz", "cnot", "cvt", "cvta", "div", "ex2", "fma", "lg2", "lop3", "mad", "max",
    "min", "mov", "mul", "neg", "not", "or", "popc", "prmt", "rcp", "rem", "rsqrt", "selp", "setp", "shf", "shl", "shr",
    "sqrt", "sub", "tanh", "xor",
}  # fmt: skip
# loads and stores that another warp could see happen at another time, or that may differ in what they touch
_APART = {"relaxed", "acquire", "release", "volatile", "mmio", "local", "async", "bulk"}
_OWN_SHARED = {"shared", "shared::cta"}
_CONSTANT = {"nc", "param", "const"}  # loads of what no store changes


def _polls(load: Instruction) -> bool:
    return True


def in_runs(instruction: Instruction, may_poll: Callable[[Instruction], bool] = _polls) -> bool:
    """Whether its function takes a Crew: it reads and writes registers, or loads.

    Args:
        may_poll: of a strong load, whether a warp may repeat it until another one has written something.
    """
    parts = [e for o in instruction.operands for e in (o.elements if isinstance(o, Vector) else (o,))]
    if any(isinstance(part, Special) for part in parts):
        return False
    match instruction.opcode:
        case "ld":
            apart = _APART.intersection(instruction.modifiers)
            if apart == {"volatile"}:  # of the CTA's own factors, whose order the compiler keeps by that
                return not _OWN_SHARED.isdisjoint(instruction.modifiers) and not may_poll(instruction)
            return not apart
        case "st":
            return _APART.isdisjoint(instruction.modifiers) and None not in parts and "b128" not in instruction.types
        case "ldmatrix" | "stmatrix":
            return True
        case "tcgen05":
            return instruction.modifiers[0] == "ld"
        case "mma":
            return "f64" not in instruction.types and not instruction.guard
        case "shfl":  # from lanes that are known
            return all(isinstance(part, Imm) for part in parts[-3:]) and is_full(parts[-1]) and not instruction.guard
        case "bar":  # where all lanes are, none waits
            return instruction.modifiers == ("warp", "sync") and is_full(parts[-1]) and not instruction.guard
    registers_only = instruction.opcode in _REGISTERS_ONLY
    return registers_only and "b128" not in instruction.types and not instruction.has("cc")  # .cc is a carry


def ends(code: Sequence[Instruction], apart: Set[int], may_poll: Callable[[Instruction], bool]) -> list[int]:
    """For each instruction the first one from there on that is no part of a run; those in `apart` are none."""
    found = list(range(len(code) + 1))
    behind_stores = found.copy()  # where a run ends that has stored: before the first load
    for at in reversed(range(len(code))):
        if at not in apart and in_runs(code[at], may_poll):
            stores = code[at].opcode in ("st", "stmatrix")
            found[at] = behind_stores[at + 1] if stores else found[at + 1]
            loads = code[at].opcode in ("ld", "ldmatrix") and _CONSTANT.isdisjoint(code[at].modifiers)
            behind_stores[at] = at if loads else behind_stores[at + 1]
    return found[:-1]


_WARM = 2  # times that a run is executed instruction by instruction: batches take as long to make as some executions


class Run:
    """Instructions that follow each other, which a Crew executes.

    Attributes:
        end: behind the last one.
        reads: registers whose values from before it uses; writes: those it changes, and then those that are used
            after it.
        watched: those that asynchronous tensor instructions use too.
    """

    def __init__(self, kernel: Kernel, start: int, end: int) -> None:
        self.kernel, self.start, self.end, self.length = kernel, start, end, end - start
        self._executed = 0
        self._steps = list(enumerate(kernel.plain[start:end], start))
        reads, writes = set[int](), set[int]()
        for at in range(start, end):
            reads |= kernel.reads[at] - writes
            if kernel.code[at].guard:
                reads |= kernel.writes[at] - writes
            writes |= kernel.writes[at]
        self.reads, self.writes = tuple(reads), tuple(writes)
        self.watched = kernel.shared_registers & (reads | writes)

    def steps(self) -> list[tuple[int, Step]]:
        """What to execute now, each with the first of the instructions that it stands for."""
        self._executed += 1
        if self._executed == _WARM + 1:
            self._steps = batches(self.kernel, self.start, self.end)
            live = self.kernel.live[self.end]
            self.writes = tuple(register for register in self.writes if live >> register & 1)
        return self._steps


class Crew(Warp):
    """Warps in lockstep, which look like one to the functions that execute runs: all of their lanes are active.

    Attributes:
        warps: in the order of their indices; there may be one alone.
        registers: by index, (warps, 32), or (32,) where all warps hold the same.
        rows: register -> the last such array, and the rows of it that the warps were given.
        stores: what the run has stored so far.
    """

    def __init__(self, warps: list[Warp]) -> None:
        self.warps, self.cta, self.kernel, self.machine = warps, warps[0].cta, warps[0].kernel, warps[0].machine
        self.pc = self.end = 0
        self.mask, self.full = np.ones((len(warps), 32) if len(warps) > 1 else 32, bool), True
        self.units = {}
        self.files = [warp.registers for warp in warps]
        self.registers = list(self.kernel.initial_registers)
        self.rows: dict[int, tuple[np.ndarray, tuple[np.ndarray, ...]]] = {}
        self.stores: list[stores.Stored] = []

    def execute(self, run: Run) -> bool:
        """A run, by all; False where something is wrong, with the instruction before `pc`, or in flight: then no
        register has changed."""
        self.pc = run.start
        if run.watched:
            if any(warp.inflight and not run.watched.isdisjoint(warp.inflight) for warp in self.warps):
                return False
            for warp in self.warps:
                warp.touched |= run.watched
        self._gather(run.reads)
        self.end, stats = run.end, self.machine.stats
        counted = dict(stats.bytes), dict(stats.counts)
        try:
            for at, step in run.steps():
                self.pc = at + 1
                step(self)
            if self.stores:
                stores.commit(self, self.stores)
        except EmulatorError:
            stats.bytes, stats.counts = map(Counter, counted)  # the warps count what they repeat
            return False
        finally:
            self.stores = []
        self._scatter(run.writes)
        return True

    def _gather(self, reads: tuple[int, ...]) -> None:
        """What the warps hold in their registers becomes what the crew holds."""
        if len(self.files) == 1:
            self.registers = list(self.files[0])
            return
        registers, rows = self.registers, self.rows
        files = [map(file.__getitem__, reads) for file in self.files]
        for at, values in zip(reads, zip(*files, strict=True), strict=True):
            known = rows.get(at)
            if known is None or not all(map(is_, values, known[1])):
                if all(map(is_, values, values[1:])):
                    registers[at] = values[0]
                    continue
                known = rows[at] = np.concatenate(values).reshape(len(values), 32), values
            registers[at] = known[0]

    def _scatter(self, writes: tuple[int, ...]) -> None:
        """What the crew holds in its registers becomes what the warps hold."""
        if len(self.files) == 1:
            self.files[0][:] = self.registers
            return
        registers, rows = self.registers, self.rows
        for at in writes:
            value = registers[at]
            if value.ndim == 1:
                for file in self.files:
                    file[at] = value
                continue
            each = tuple(value)
            rows[at] = value, each
            for file, row in zip(self.files, each, strict=True):
                file[at] = row
