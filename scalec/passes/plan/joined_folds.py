"""Columns that are reduced out of tensor memory: what the parts of a tile come to is joined, and stored, once."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.plan.tensor_columns import taken_columns
from scalec.passes.problem.types import Problem


def joins_folds(problem: Problem, schedule: Schedule) -> bool:
    """Whether a warp folds all parts of a tile before its lanes exchange what each has, and store. What is read of
    rows, columns and windows is then read before the tile's products are there, once; logits of 64 heads took 4.41
    instructions a term with 128x256 tiles where each part did all of that (ptxas 13.0, 2026-11-28)."""
    fold, columns = problem.column_fold, schedule.tile[1]
    if fold is None or not problem.kind.tensor_memory or schedule.promote or schedule.split > 1:
        return False
    if problem.panes > 1 or problem.segments > 1 or len(problem.bodies) > 1 or problem.reductions:
        return False
    if problem.ragged is not None or problem.lhs.pages or problem.rhs.pages:
        return False
    return schedule.warpgroups == 1 and columns > taken_columns(problem, columns, 0)
