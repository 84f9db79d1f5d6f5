"""Which registers an instruction reads and writes, and what follows for whole functions: whose value is ever looked at.

Sets of registers are ints, a bit for each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from scalec.emulator.flow import END, successors_of
from scalec.emulator.program import Function, Instruction


def reads(instruction: Instruction) -> int:
    """The registers that an instruction reads."""
    return _bits(instruction.reads)


def writes(instruction: Instruction) -> int:
    return _bits(instruction.writes)


def _bits(registers: frozenset[int]) -> int:
    found = 0
    for register in registers:
        found |= 1 << register
    return found


def members(bits: int) -> list[int]:
    """The registers of a set."""
    return [i for i, c in enumerate(reversed(bin(bits)[2:])) if c == "1"]


def looked_at(function: Function) -> list[int]:
    """For each instruction the registers whose values some path behind it reads before it writes them anew."""
    code = function.code
    following = successors_of(function)
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


_CONTROL = {"bra", "brx", "call", "exit", "ret", "trap"}
_SHARED = {"global", "shared", "shared::cta", "shared::cluster"}  # memory that is not a thread's own


def deciding(function: Function) -> frozenset[int]:
    """The registers on whose values it may depend where control goes: those that branches read, and those that such
    values are computed from, anywhere in the function. What a thread keeps in memory of its own may come back."""
    makers: dict[int, list[Instruction]] = defaultdict(list)
    found, todo = set[int](), list[int]()
    for instruction in function.code:
        for register in instruction.writes:
            makers[register].append(instruction)
        kept = instruction.opcode == "st" and _SHARED.isdisjoint(instruction.modifiers)
        if kept or instruction.opcode in _CONTROL:
            todo += instruction.reads
    while todo:
        register = todo.pop()
        if register not in found:
            found.add(register)
            for instruction in makers[register]:
                todo += instruction.reads
    return frozenset(found)


def maybe_undefined(function: Function) -> list[int]:
    """For each instruction those of the registers it reads that some path to it has not written, or with a guard."""
    code = function.code
    every = (1 << len(function.registers)) - 1
    following = successors_of(function)
    uses, defines = [reads(i) for i in code], [0 if i.guard else writes(i) for i in code]
    at: list[int] = [0] * len(code)
    todo: Sequence[int] = [0] if code else []
    if code:
        at[0] = every
    seen = [False] * len(code)
    while todo:
        changed = set[int]()
        for pc in sorted(todo):
            seen[pc] = True
            out = at[pc] & ~defines[pc]
            for to in following[pc]:
                if to != END and (out & ~at[to] or not seen[to]):
                    at[to] |= out
                    changed.add(to)
        todo = list(changed)
    return [a & b for a, b in zip(at, uses, strict=True)]
