"""Registers of wgmma's sums while a product is under way, in machine code as nvdisasm prints it.

From a wgmma to the wait that covers its group nothing else may read or write its sums (PTX ISA, wgmma.mma_async). Our
PTX says so; whether ptxas kept to it only its code shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchmarks.sass_flow import Function, Instruction, successors

_SHAPE = re.compile(r"^[HQI]GMMA\.(?:SP\.)?64x(\d+)x\d+\.(F16|\w+)")
_REGISTER = re.compile(r"\bR(\d+)(\.64)?")
_WIDE = {"64": 2, "128": 4}


@dataclass(frozen=True)
class Flight:
    """Sums under way: those of products of the group that is open, and of each group that was closed, newest first."""

    open: frozenset[int] = frozenset()
    closed: tuple[frozenset[int], ...] = ()

    @property
    def sums(self) -> frozenset[int]:
        return self.open.union(*self.closed)

    def behind(self, x: Instruction) -> Flight:
        """What is under way behind an instruction. A product that closes a group says gsb0."""
        if shape := _SHAPE.match(x.opcode):
            first = _REGISTER.search(x.operands)
            if first is None:
                return self
            count = int(shape[1]) // (4 if shape[2] == "F16" else 2)
            here = self.open | frozenset(range(int(first[1]), int(first[1]) + count))
            return Flight(frozenset(), (here, *self.closed)) if "gsb0" in x.operands else Flight(here, self.closed)
        if x.opcode.startswith("WARPGROUP.DEPBAR"):
            return Flight(self.open, self.closed[: int(x.operands.rpartition("0x")[2], 16)])
        return self

    def join(self, other: Flight) -> Flight:
        count = max(len(self.closed), len(other.closed))
        closed = tuple(
            frozenset().union(*(x.closed[i] for x in (self, other) if i < len(x.closed))) for i in range(count)
        )
        return Flight(self.open | other.open, closed)


def _touched(x: Instruction) -> set[int]:
    """Registers that it reads or writes."""
    found = [(int(r), 2 if wide else 1) for r, wide in _REGISTER.findall(x.operands)]
    if found and x.stem in ("LDS", "LDG", "LD", "LDL", "STS", "STG", "ST", "STL"):
        at = 0 if x.stem.startswith("L") else -1
        found[at] = found[at][0], next((n for name, n in _WIDE.items() if name in x.opcode.split(".")), 1)
    return {r + i for r, count in found for i in range(count)}


def touched_under_way(function: Function) -> list[tuple[Instruction, list[int]]]:
    """The instructions that touch sums of a product that may be under way, and which."""
    code, following = function.instructions, successors(function)
    before: list[Flight | None] = [Flight(), *[None] * (len(code) - 1)]
    work = [0]
    while work:
        at = work.pop()
        here = before[at]
        assert here is not None
        behind = here.behind(code[at])
        for i in following[at]:
            old = before[i]
            new = behind if old is None else old.join(behind)
            if new != old:
                before[i] = new
                work.append(i)
    wrong = []
    for x, here in zip(code, before, strict=True):
        if here is not None and not _SHAPE.match(x.opcode) and (hit := sorted(_touched(x) & here.sums)):
            wrong.append((x, hit))
    return wrong
