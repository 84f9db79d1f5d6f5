"""Reductions of operands whose K is split: what parts of a tile have of each in the workspace."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.ir.schedule import Schedule
from scalec.passes.problem.types import Problem

WARPS = 4
"""Of a warpgroup."""


@dataclass(frozen=True)
class FoldParts:
    """What the parts of a tile have of an operand's fold: one f32 for each of `rows` rows and each part, from `offset`
    on; `counter`: the tile's first one for it, of one for each warp of a warpgroup."""

    rows: int
    offset: int
    counter: int


def fold_parts(problem: Problem, schedule: Schedule) -> list[FoldParts]:
    """Of each of `Problem.folds`; none where K is not split."""
    found, offset = list[FoldParts](), 0
    for side, rows in zip((problem.lhs, problem.rhs), schedule.tile[:2], strict=True):
        for _ in side.folds if schedule.split > 1 else ():
            found.append(FoldParts(rows, offset, WARPS * len(found)))
            offset += schedule.split * rows
    return found


def fold_words(problem: Problem, schedule: Schedule) -> int:
    """f32 of the workspace that a tile has for all."""
    return sum(schedule.split * x.rows for x in fold_parts(problem, schedule))


def fold_counters(problem: Problem, schedule: Schedule) -> int:
    """Counters that a tile has for all."""
    return WARPS * len(fold_parts(problem, schedule))
