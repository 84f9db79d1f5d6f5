"""Which registers an instruction reads and writes, and what follows for whole functions: whose value is ever looked at.

Sets of registers are ints, a bit for each.
"""

from __future__ import annotations

from collections.abc import Sequence

from scalec.emulator.flow import END, successors
from scalec.emulator.program import Address, Function, Group, Instruction, Operand, named

# whose first operand is no result, though it may be a register
_NO_RESULT = {"bar", "barrier", "bra", "brx", "nanosleep", "pmevent", "setmaxnreg"}
_NO_RESULT_OF = {"tcgen05": ("dealloc",)}
_TWO_RESULTS = ("tcgen05.ld.red",)  # what was loaded, and the least or greatest of it


def results(instruction: Instruction) -> tuple[Operand | None, ...]:
    """The operands that an instruction writes registers of: the first one, if any, or two (tcgen05.ld.red)."""
    opcode, operands = instruction.opcode, instruction.operands
    if not operands or isinstance(operands[0], Address):
        return ()
    if opcode == "call":
        return operands[:1] if isinstance(operands[0], Group) else ()
    if opcode in _NO_RESULT and not instruction.has("red"):
        return ()
    if instruction.modifiers[:1] and instruction.modifiers[0] in _NO_RESULT_OF.get(opcode, ()):
        return ()
    return operands[: 2 if instruction.name.startswith(_TWO_RESULTS) else 1]


def reads(instruction: Instruction) -> int:
    """The registers that an instruction reads. (wgmma reads its accumulators, too, or not: they are not among them.)"""
    first = len(results(instruction))
    return _bits(named((instruction.guard, *instruction.operands[first:])))


def writes(instruction: Instruction) -> int:
    return _bits(named(results(instruction)))


def _bits(registers: set[int]) -> int:
    return sum(1 << r for r in registers)


def members(bits: int) -> list[int]:
    """The registers of a set."""
    return [i for i, c in enumerate(reversed(bin(bits)[2:])) if c == "1"]


def looked_at(function: Function) -> list[int]:
    """For each instruction the registers whose values some path behind it reads before it writes them anew."""
    code = function.code
    following = [successors(function, pc) for pc in range(len(code))]
    uses = [reads(i) for i in code]
    kills = [0 if i.guard else writes(i) for i in code]
    before, behind = [0] * len(code), [0] * len(code)
    changed = True
    while changed:
        changed = False
        for pc in reversed(range(len(code))):
            out = 0
            for to in following[pc]:
                if to != END:
                    out |= before[to]
            new = out & ~kills[pc] | uses[pc]
            behind[pc] = out
            if new != before[pc]:
                before[pc], changed = new, True
    return behind


def maybe_undefined(function: Function) -> list[int]:
    """For each instruction those of the registers it reads that some path to it has not written, or with a guard."""
    code = function.code
    every = (1 << len(function.registers)) - 1
    uses, defines = [reads(i) for i in code], [0 if i.guard else writes(i) for i in code]
    at: list[int] = [0] * len(code)
    todo: Sequence[int] = [0] if code else []
    if code:
        at[0] = every
    seen = [False] * len(code)
    while todo:
        following = set[int]()
        for pc in sorted(todo):
            seen[pc] = True
            out = at[pc] & ~defines[pc]
            for to in successors(function, pc):
                if to != END and (out & ~at[to] or not seen[to]):
                    at[to] |= out
                    following.add(to)
        todo = list(following)
    return [a & b for a, b in zip(at, uses, strict=True)]
