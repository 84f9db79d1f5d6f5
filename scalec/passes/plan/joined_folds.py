"""Columns that are reduced out of tensor memory: what the parts of a tile come to is joined, and stored, once."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.plan.tensor_columns import MOST_TAKEN, TAKEN_COLUMNS, taken_columns
from scalec.passes.problem.types import Problem

MOST_HELD = 128
"""Columns of a warp's part of a tile, for each of which a thread has what is read of it."""


FEW = 4
"""Columns of what is folded whose addresses and ends a thread of one warpgroup keeps for a run, four registers each:
with 8, beside what is read of 128 columns, FP4 with 16 heads spilled 31 (ptxas 13.0, 2026-11-28)."""


def halves_folds(problem: Problem, tile: tuple[int, ...], promote: int) -> bool:
    """Whether two warpgroups fold a tile's columns by halves, as a thread of one would find no registers for what is
    read of each column."""
    fold, half = problem.column_fold, tile[1] // 2
    if fold is None or not problem.kind.tensor_memory or promote:
        return False
    many = tile[1] > MOST_HELD or tile[1] // fold.size > FEW
    return many and half <= MOST_HELD and half % fold.size == 0 and half % TAKEN_COLUMNS == 0


def joins_folds(problem: Problem, schedule: Schedule) -> bool:
    """Whether a warp folds all parts of a tile before it stores, each lane a row of its own: what is read of rows,
    columns and windows is read before the tile's products are there, once, and lanes exchange nothing. A thread has
    what is read of each column of its warp's. Not where terms take functions: 64 of them at once spilled (silu, 240
    registers, ptxas 13.0, 2026-11-28), and are most of the work anyway."""
    return _able(problem, schedule) and held_columns(problem, schedule) <= MOST_HELD


def held_columns(problem: Problem, schedule: Schedule) -> int:
    """Values of columns that a thread has where lanes have rows, or none and its columns; 0 where lanes cannot."""
    if not _able(problem, schedule):
        return 0
    inputs = sum(x.kind == "col" for x in problem.results[0].inputs)
    return max(1, inputs) * schedule.tile[1] // schedule.warpgroups


def _able(problem: Problem, schedule: Schedule) -> bool:
    """Whether lanes may have rows, as far as registers go."""
    fold, columns = problem.column_fold, schedule.tile[1]
    if fold is None or not problem.kind.tensor_memory or schedule.promote or schedule.split > 1:
        return False
    if problem.panes > 1 or problem.segments > 1 or len(problem.bodies) > 1 or problem.reductions:
        return False
    (result,) = problem.results
    if not all(op.startswith("arith.") or op in PLAIN for op in result.body):
        return False
    few = taken_columns(problem, columns, 0) <= MOST_TAKEN
    return few and all(x.kind != "both" for x in result.inputs)


PLAIN = ("math.absf", "scale.yield")
"""Ops of a body beside those of arith that are an instruction each, or none."""
