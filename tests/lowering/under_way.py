"""Registers of what a warp has under way with the tensor core, in machine code as nvdisasm prints it.

From a wgmma to the wait that covers its group nothing else may read or write its sums, nor A's registers (PTX ISA,
wgmma.mma_async). Our PTX says so; whether ptxas kept to it only its code shows. Loads from tensor memory ptxas counts
on a scoreboard like other loads, so registers are safe even without tcgen05.wait::ld, which becomes a wait for that
scoreboard. What needs the wait are the columns: the next product writes them once the warp has told that it has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.fold_loops import taken
from benchmarks.sass_flow import Function, Instruction, successors

_SHAPE = re.compile(r"^[HQI]GMMA\.(?:SP\.)?64x(\d+)x\d+\.(F16|\w+)")
_REGISTER = re.compile(r"\bR(\d+)(\.64|\.F32x2)?")
_FRAGMENT = re.compile(r"^R\d+, R(\d+), gdesc")  # of A, four registers (PTX ISA 9.7.15.5.1.1)
_WIDE = {"64": 2, "128": 4}
_TELLS = ("SYNCS.ARRIVE", "BAR", "UCGABAR_ARV", "EXIT")
_MOST = 16  # loads at a time
_NONE = frozenset[int]()


@dataclass(frozen=True)
class Products:
    """Registers of wgmma: those of the group that is open, and of each group that was closed, newest first."""

    open: frozenset[int] = _NONE
    closed: tuple[frozenset[int], ...] = ()

    def behind(self, x: Instruction) -> Products:
        """A product that closes a group says gsb0."""
        if shape := _SHAPE.match(x.opcode):
            here = self.open | _run(x, int(shape[1]) // (4 if shape[2] == "F16" else 2))
            if fragment := _FRAGMENT.match(x.operands):
                here |= set(range(int(fragment[1]), int(fragment[1]) + 4))
            return Products(_NONE, (here, *self.closed)) if "gsb0" in x.operands else Products(here, self.closed)
        if x.opcode.startswith("WARPGROUP.DEPBAR"):
            return Products(self.open, self.closed[: int(x.operands.rpartition("0x")[2], 16)])
        return self

    def join(self, other: Products) -> Products:
        count = max(len(self.closed), len(other.closed))
        closed = tuple(_NONE.union(*(x.closed[i] for x in (self, other) if i < len(x.closed))) for i in range(count))
        return Products(self.open | other.open, closed)

    def wrong(self, x: Instruction) -> set[int]:
        """The registers that an instruction must wait for, and does not."""
        return set() if _SHAPE.match(x.opcode) else _touched(x) & self.open.union(*self.closed)


@dataclass(frozen=True)
class Loads:
    """Registers of loads from tensor memory and their scoreboards, oldest first, on each way to here.

    They come in order, as ptxas has it: of adjacent ones often the last alone has a scoreboard, and a wait is for that.
    """

    ways: frozenset[tuple[tuple[int, frozenset[int]], ...]] = frozenset([()])

    def behind(self, x: Instruction) -> Loads:
        new = ((x.board, _run(x, taken(x))),) if x.stem == "LDTM" else ()
        return Loads(frozenset((*way, *new)[-_MOST:] for way in self._awaited(x)))

    def join(self, other: Loads) -> Loads:
        return Loads(self.ways | other.ways)

    def wrong(self, x: Instruction) -> set[int]:
        """Likewise; all, where it tells other threads that the warp is done."""
        under_way = {r for way in self._awaited(x) for _, registers in way for r in registers}
        return under_way if x.opcode.startswith(_TELLS) else under_way & _touched(x)

    def _awaited(self, x: Instruction) -> Iterator[tuple[tuple[int, frozenset[int]], ...]]:
        """What is left under way once the instruction is issued."""
        emptied = re.match(r"SB(\d), 0x0\b", x.operands) if x.stem == "DEPBAR" else None
        awaited = x.awaited | (1 << int(emptied[1]) if emptied else 0)
        for way in self.ways:
            done = max((i + 1 for i, (board, _) in enumerate(way) if awaited >> board & 1), default=0)
            yield way[done:]


def _run(x: Instruction, count: int) -> frozenset[int]:
    """So many registers from the first that it names."""
    first = _REGISTER.search(x.operands)
    return frozenset(range(int(first[1]), int(first[1]) + count)) if first else _NONE


def _touched(x: Instruction) -> set[int]:
    """Registers that it reads or writes."""
    found = [(int(r), 2 if wide else 1) for r, wide in _REGISTER.findall(x.operands)]
    if found and x.stem in ("LDS", "LDG", "LD", "LDL", "STS", "STG", "ST", "STL"):
        at = 0 if x.stem.startswith("L") else -1
        found[at] = found[at][0], next((n for name, n in _WIDE.items() if name in x.opcode.split(".")), 1)
    elif found and x.stem == "LDTM":
        found[0] = found[0][0], taken(x)
    return {r + i for r, count in found for i in range(count)}


def states(function: Function, start: Products | Loads) -> list[Any]:
    """What is under way before each instruction, None where none leads to it."""
    code, following = function.instructions, successors(function)
    before: list[Any] = [start, *[None] * (len(code) - 1)]
    work = [0]
    while work:
        at = work.pop()
        behind = before[at].behind(code[at])
        for i in following[at]:
            old = before[i]
            new = behind if old is None else old.join(behind)
            if new != old:
                before[i] = new
                work.append(i)
    return before


def wrong_under_way(function: Function, start: Products | Loads) -> list[tuple[Instruction, list[int]]]:
    """The instructions that do not wait for registers that may be under way, and which."""
    code, before = function.instructions, states(function, start)
    found = ((x, here.wrong(x)) for x, here in zip(code, before, strict=True) if here is not None)
    return [(x, sorted(hit)) for x, hit in found if hit]
