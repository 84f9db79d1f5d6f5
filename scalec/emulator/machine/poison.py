"""Registers without a value, bit by bit: what nothing wrote on the way, and what was loaded of bytes never written.

A read of such bits is no mistake: compilers pack registers of which a part is never used, and load more than they need.
It is one when the bits decide anything: an address, a predicate of a branch or of an instruction that does more than
write registers, which lane another reads, what is stored to global memory or multiplied, an operand of a barrier. Until
then they spread as far as they reach, to another lane (shfl) and through a CTA's own memory too, as in Memcheck (Seward
and Nethercote, "Using Valgrind to detect undefined value errors with bit-precision", 2005).

It costs nothing where there are none. Which reads may find a register unwritten is known when a kernel is decoded
(dataflow.py): few or none. There, and at writes of the same registers, a warp notes which lanes have been written. Once
a warp holds undefined bits, it executes `careful` steps until it has lost them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from scalec.emulator import dataflow
from scalec.emulator.findings import Finding
from scalec.emulator.instructions.table import Decoder, decode
from scalec.emulator.machine.signals import YIELD, Blocked, Signal
from scalec.emulator.program import TYPE_BITS, Imm, Instruction, Operand, Reg, Vector, named

if TYPE_CHECKING:
    from scalec.emulator.instructions.table import Step
    from scalec.emulator.machine.kernel import Kernel
    from scalec.emulator.machine.warp import Warp

# whose results depend on their operands lane by lane, and that do nothing else
_PURE = {
    "abs", "add", "addc", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign", "cos", "cvt",
    "cvta", "div", "dp2a", "dp4a", "ex2", "fma", "fns", "lg2", "lop3", "mad", "madc", "max", "min", "mov", "mul",
    "mul24", "neg", "not", "or", "popc", "prmt", "rcp", "rem", "rsqrt", "sad", "selp", "set", "setp", "shf", "shl",
    "shr", "sin", "slct", "sqrt", "sub", "subc", "szext", "tanh", "testp", "xor",
}  # fmt: skip
# whose bits go where the last so many operands say, whatever they are
_MOVES = {"bfe": 2, "bfi": 2, "cvt": 0, "mov": 0, "prmt": 1, "shf": 1, "shfl": 3, "shl": 1, "shr": 1}
_LOGIC = {"and": 0xC0, "not": 0x0F, "or": 0xFC, "xor": 0x3C}  # as lop3 has it: of operands 0xF0, 0xCC and 0xAA
_PACKED = {"e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2", "f16x2", "bf16x2"}  # two that fill a register
_ALL, _NONE = np.ones(32, bool), np.zeros(32, bool)
_PRIVATE = {"local", "param", "param::func", "shared", "shared::cta", "shared::cluster"}


class Undefined:
    """The undefined bits of a warp's registers.

    Attributes:
        bits: register index -> an array like the register's, with ones where it has no value; where: why that is.
        written: of the registers that some read may find unwritten, the lanes that have been: bool (32,).
        kept: which bytes of what is being stored have a value, (32, bytes), or cells, (32, registers); None: all.
    """

    __slots__ = ("bits", "kept", "where", "written")

    def __init__(self) -> None:
        self.bits: dict[int, np.ndarray] = {}
        self.where: dict[int, str] = {}
        self.written: dict[int, np.ndarray] = {}
        self.kept: np.ndarray | None = None

    def add(self, register: int, bits: np.ndarray, why: str) -> None:
        """More bits of a register have no value."""
        if register in self.bits:
            bits = bits | self.bits[register]
        self.bits[register], self.where[register] = bits, why

    def put(self, register: int, lanes: np.ndarray, bits: np.ndarray, why: str) -> None:
        """What a write leaves in some lanes."""
        lanes = lanes.reshape(32, *(1,) * (bits.ndim - 1))
        old = self.bits.get(register)
        new = np.where(lanes, bits, 0 if old is None else old).astype(bits.dtype)
        if new.any():
            self.bits[register] = new
            self.where[register] = why or self.where[register]
        else:
            self.bits.pop(register, None)


class _Bits:
    """What a step sees of a warp that is to move the undefined bits instead of the values."""

    def __init__(self, kernel: Kernel, bits: dict[int, np.ndarray]) -> None:
        self.registers = _Registers(kernel, bits)
        self.mask, self.full = _ALL, True


class _Registers(dict):
    def __init__(self, kernel: Kernel, bits: dict[int, np.ndarray]) -> None:
        super().__init__(bits)
        self.kernel = kernel

    def __missing__(self, register: int) -> np.ndarray:
        return np.zeros_like(self.kernel.initial_registers[register])


def ones(kernel: Kernel, register: int) -> np.ndarray:
    """All bits of a register."""
    return ~np.zeros_like(kernel.initial_registers[register])


def tracked(kernel: Kernel) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Instruction -> the registers that it may find unwritten; instruction -> those among all these that it writes."""
    reads = {pc: dataflow.members(r) for pc, r in enumerate(dataflow.maybe_undefined(kernel.function)) if r}
    every = {r for registers in reads.values() for r in registers}
    if not every:
        return {}, {}
    writes = {}
    for pc, instruction in enumerate(kernel.code):
        found = every & instruction.writes
        if found:
            writes[pc] = sorted(found)
    return reads, writes


def noting(step: Step, instruction: Instruction, registers: list[int]) -> Step:
    """A step that remembers which lanes of registers it has written."""

    def run(warp: Warp) -> Signal | None:
        written = warp.undefined.written
        if all(written.get(r) is _ALL for r in registers):
            return step(warp)
        lanes = _executing(warp, instruction)
        signal = step(warp)
        if not isinstance(signal, Blocked):
            for r in registers:
                both = lanes | written.get(r, False)
                written[r] = _ALL if both.all() else both
        return signal

    return run


def entering(kernel: Kernel, pc: int, step: Step, registers: list[int]) -> Step:
    """A step whose instruction may find registers unwritten."""

    def run(warp: Warp) -> Signal | None:
        if find_unwritten(warp, registers):
            signal = kernel.careful[pc](warp)
            return YIELD if signal is None and warp.undefined.bits else signal
        return step(warp)

    return run


def find_unwritten(warp: Warp, registers: list[int]) -> bool:
    """Notes the lanes of registers that have not been written, of those that execute; whether there are any."""
    undefined, found = warp.undefined, False
    for r in registers:
        written = undefined.written.get(r)
        if written is _ALL:
            continue
        missing = warp.mask if written is None else warp.mask & ~written
        if missing.any() and not warp.machine.ignores("uninitialised"):
            bits = ones(warp.kernel, r)
            lanes = missing.reshape(32, *(1,) * (bits.ndim - 1))
            undefined.add(r, np.where(lanes, bits, 0).astype(bits.dtype), "nothing wrote it on the way here")
            found = True
    return found


def _executing(warp: Warp, instruction: Instruction) -> np.ndarray:
    guard = instruction.guard
    if guard is None:
        return warp.mask
    chosen = warp.registers[guard.index]
    return warp.mask & (~chosen if guard.negated else chosen)


def careful(kernel: Kernel, pc: int, step: Step, unwritten: list[int]) -> Step:
    """The step of an instruction in a warp that holds undefined bits.

    Args:
        step: as it is where there are none.
        unwritten: registers that the instruction may find unwritten.
    """
    instruction = kernel.code[pc]
    results = sorted(instruction.writes)
    sources = sorted(instruction.reads)
    touched = frozenset((*results, *sources))
    guard = instruction.guard
    operands = [r for r in sources if guard is None or r != guard.index or r in _named(instruction)]
    # a value goes to other lanes as it is, unless which lane gives it is not known, or is asked for
    exchanged = instruction.opcode == "shfl" and len(results) == 1 and not named(instruction.operands[2:])
    spread = _spread(kernel, instruction) if exchanged or instruction.opcode in _PURE else None
    private = _private(instruction)
    ignored = getattr(step, "ignored", {})
    stored = named(instruction.operands[-1:])
    byte = instruction.opcode == "st" and instruction.types[-1:] in (("b8",), ("u8",), ("s8",))

    def run(warp: Warp) -> Signal | None:
        undefined = warp.undefined
        find_unwritten(warp, unwritten)
        bits = undefined.bits
        if touched.isdisjoint(bits):
            return step(warp)
        lanes = _executing(warp, instruction)
        if guard is not None and guard.index in bits:
            unsure = bits[guard.index] & warp.mask
            if unsure.any():
                if spread is None:
                    raise _finding(warp, guard.index, unsure, "decides whether this is executed")
                step(warp)
                why = undefined.where[guard.index]
                for r in results:
                    undefined.put(r, unsure, ones(kernel, r), why)
                return None
        held = [r for r in operands if r in bits and _lanes(bits[r])[lanes & ~ignored.get(r, _NONE)].any()]
        if spread is not None:
            found = spread(warp, bits) if held else {}
            why = undefined.where[held[0]] if held else ""
            signal = step(warp)
            for r in results:
                undefined.put(r, lanes, found.get(r, np.zeros_like(kernel.initial_registers[r])), why)
            return signal
        if byte:  # the rest of the register is not stored
            held = [r for r in held if r not in stored or _lanes(bits[r] & 0xFF)[lanes].any()]
        if held and private and stored.issuperset(held):
            return _kept(warp, instruction, step)
        if held:
            raise _finding(warp, held[0], _lanes(bits[held[0]]) & lanes, "is used here")
        before = {r: bits[r] for r in results if r in bits}
        for r in before:
            undefined.put(r, lanes, np.zeros_like(bits[r]), "")
        signal = step(warp)
        if isinstance(signal, Blocked):
            bits.update(before)
        return signal

    return run


def _private(instruction: Instruction) -> bool:
    """Whether it stores registers to memory that ends with the kernel."""
    if instruction.opcode == "tcgen05":
        return instruction.modifiers[0] == "st"
    skips = any(isinstance(o, Vector) and None in o.elements for o in instruction.operands)
    return instruction.opcode == "st" and not _PRIVATE.isdisjoint(instruction.modifiers) and not skips


def _named(instruction: Instruction) -> set[int]:
    """The registers that an instruction names as operands, not as its guard."""
    return named(instruction.operands[len(instruction.results) :])


def _lanes(bits: np.ndarray) -> np.ndarray:
    """Which lanes have any: bool (32,)."""
    return np.any(bits.reshape(32, -1), axis=1)


def _finding(warp: Warp, register: int, lanes: np.ndarray, verb: str) -> Finding:
    name = warp.kernel.function.registers[register][0]
    return Finding(
        "uninitialised",
        f"register {name} has no value in {warp.lanes_text(lanes)}, and {verb}: {warp.undefined.where[register]}",
        expected="a value on every way to a use that matters",
    )


_Spread = Callable[["Warp", dict[int, np.ndarray]], dict[int, np.ndarray]]


def _spread(kernel: Kernel, instruction: Instruction) -> _Spread:
    """How undefined bits get from the operands of an instruction into its results."""
    results = sorted(instruction.writes)
    sources = sorted(_named(instruction))
    opcode, operands = instruction.opcode, instruction.operands

    def everywhere(warp: Warp, bits: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        lanes = np.zeros(32, bool)
        for r in sources:
            if r in bits:
                lanes |= _lanes(bits[r])
        found = {}
        for r in results:
            full = ones(kernel, r)
            found[r] = np.where(lanes.reshape(32, *(1,) * (full.ndim - 1)), full, 0).astype(full.dtype)
        return found

    def moved(warp: Warp, bits: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        if not bits.keys().isdisjoint(where_to):
            return everywhere(warp, bits)
        known = {r: warp.registers[r] for r in where_to}
        other = _Bits(kernel, known | {r: bits[r] for r in sources if r in bits})
        move(other)  # type: ignore[arg-type]
        return {r: other.registers[r] for r in results}

    def combined(warp: Warp, bits: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        """A bit has no value if it may be 0 and may be 1: of `and`, a defined 0 of one operand decides."""
        (to,) = results
        full = ones(kernel, to)
        may_be = []  # of each operand, the bits that may be 0, and those that may be 1
        for operand in logical:
            if isinstance(operand, Imm):
                value = full & np.array(operand.value & (1 << 64) - 1, np.uint64).astype(full.dtype)
                unknown = full & 0
            else:
                value = warp.registers[operand.index]
                value = ~value if operand.negated else value
                unknown = bits.get(operand.index, full & 0)
            may_be.append((~value | unknown, value | unknown))
        found = [full & 0, full & 0]
        for case in range(1 << len(logical)):
            values = [case >> i & 1 for i in reversed(range(len(logical)))]
            possible = np.bitwise_and.reduce([both[v] for both, v in zip(may_be, values, strict=True)])
            found[table >> (case << 3 - len(logical)) & 1] |= possible
        return {to: found[0] & found[1]}

    def chosen(warp: Warp, bits: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        (to,) = results
        full = ones(kernel, to)
        first, second, which = operands[1:4]
        assert isinstance(which, Reg)
        taken = warp.registers[which.index]
        taken = ~taken if which.negated else taken
        each = [bits.get(o.index, full & 0) if isinstance(o, Reg) else full & 0 for o in (first, second)]
        picked = np.where(taken, each[0].astype(full.dtype), each[1].astype(full.dtype))
        return {to: np.where(bits.get(which.index, ~_ALL), full, picked)}

    def packed(warp: Warp, bits: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        """Two elements, each converted by itself: of two registers (the upper half's first) or of one's halves."""
        (to,) = results
        full = ones(kernel, to)
        low = full >> full.itemsize * 4
        halves = []
        for operand in operands[1:]:
            lacks = bits.get(operand.index) if isinstance(operand, Reg) else None
            lacks = full & 0 if lacks is None else lacks
            size = lacks.itemsize * 4
            halves += [lacks] if len(operands) == 3 else [lacks >> size, lacks & (1 << size) - 1]
        upper, lower = (h != 0 for h in halves)
        return {to: np.where(upper, full ^ low, 0).astype(full.dtype) | np.where(lower, low, 0).astype(full.dtype)}

    kinds = instruction.types[:1] if len(operands) == 3 else instruction.types
    if opcode == "cvt" and len(operands) in (2, 3) and len(results) == 1 and _PACKED.issuperset(kinds):
        return packed
    same = len({kernel.initial_registers[r].dtype for r in (*results, *sources)}) == 1
    floats = any(t.startswith(("f", "bf", "tf", "e", "ue")) for t in instruction.types)
    integers = not floats and not instruction.has("sat")
    if opcode == "selp":
        return chosen
    data, places = operands[: len(operands) - _MOVES.get(opcode, 0)], operands[len(operands) - _MOVES.get(opcode, 0) :]
    where_to = named(places)
    if opcode in _MOVES and where_to.isdisjoint(named(data[1:])) and (opcode != "cvt" or integers):
        zeros = tuple(map(_without_constants, data))
        move = decode(replace(instruction, guard=None, operands=(*zeros, *places)), Decoder(kernel))
        return moved
    logical = [o for o in operands[1:4] if isinstance(o, Reg | Imm)]
    last = operands[-1]
    table = last.value if opcode == "lop3" and isinstance(last, Imm) else _LOGIC.get(opcode, -1)
    plain = len(logical) == len(operands[1:4]) and len(operands) - (opcode == "lop3") == 1 + len(logical)
    return combined if table >= 0 and same and plain else everywhere


def _without_constants(operand: Operand | None) -> Operand | None:
    """An operand whose constants are zeros: none of their bits lacks a value."""
    if isinstance(operand, Vector):
        return replace(operand, elements=tuple(map(_without_constants, operand.elements)))
    return Imm(0, operand.float_bits) if isinstance(operand, Imm) else operand


def _kept(warp: Warp, instruction: Instruction, step: Step) -> Signal | None:
    """A store to memory that the kernel alone sees: what has no value there is as if it had not been written, byte by
    byte, or, in tensor memory, cell by cell."""
    undefined, cells = warp.undefined, instruction.opcode == "tcgen05"
    source = instruction.operands[-1 if cells else 1]
    elements = source.elements if isinstance(source, Vector) else (source,)
    width = 4 if cells else TYPE_BITS[instruction.types[-1]] // 8
    parts = []
    for element in elements:
        known = np.ones((32, width), bool)
        if isinstance(element, Reg) and element.index in undefined.bits:
            raw = np.ascontiguousarray(undefined.bits[element.index]).view(np.uint8).reshape(32, -1)
            known = raw[:, :width] != 0xFF if cells else raw[:, :width] == 0
        parts.append(known.any(axis=1, keepdims=True) if cells else known)
    undefined.kept = np.concatenate(parts, axis=1)
    try:
        return step(warp)
    finally:
        undefined.kept = None
