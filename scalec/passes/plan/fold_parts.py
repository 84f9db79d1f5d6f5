"""Reductions of operands whose K is split: what parts of a tile have of each in the workspace."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.ir.schedule import Schedule
from scalec.passes.plan.converted import in_registers
from scalec.passes.plan.resources import units
from scalec.passes.problem.types import Problem

WARPS = 4
"""Of a warpgroup."""


def fold_warps(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """Warps that share a tile's rows of each side: those of the warpgroup that converts it, or all that multiply."""
    return WARPS * (units(problem, schedule)[0] if in_registers(schedule) else 1), WARPS


@dataclass(frozen=True)
class FoldParts:
    """What the parts of a tile have of an operand's fold: one f32 for each of `rows` rows and each part, from `offset`
    on; `counter`: the tile's first one for it, of one for each of `warps`."""

    rows: int
    offset: int
    counter: int
    warps: int


def fold_parts(problem: Problem, schedule: Schedule) -> list[FoldParts]:
    """Of each of `Problem.folds`; none where K is not split."""
    found, offset, counter = list[FoldParts](), 0, 0
    both = zip((problem.lhs, problem.rhs), schedule.tile[:2], fold_warps(problem, schedule), strict=True)
    for side, rows, warps in both:
        for _ in side.folds if schedule.split > 1 else ():
            found.append(FoldParts(rows, offset, counter, warps))
            offset, counter = offset + schedule.split * rows, counter + warps
    return found


def fold_words(problem: Problem, schedule: Schedule) -> int:
    """f32 of the workspace that a tile has for all."""
    return sum(schedule.split * x.rows for x in fold_parts(problem, schedule))


def fold_counters(problem: Problem, schedule: Schedule) -> int:
    """Counters that a tile has for all."""
    return sum(x.warps for x in fold_parts(problem, schedule))
