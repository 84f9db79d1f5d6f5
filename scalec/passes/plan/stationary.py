"""B's tile that stays in shared memory for a run of tiles, each of which begins while the one before is folded."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.plan.parts import k_blocks
from scalec.passes.plan.resources import units
from scalec.passes.plan.turns import no_run
from scalec.passes.problem.types import Problem

SLOTS = 2
"""B's tiles that have room: the next run's comes while this one's is multiplied."""


def no_stationary(problem: Problem, schedule: Schedule) -> str:
    """Why the columns' operand cannot stay (`Schedule.stationary`), "" where it can."""
    fold, target = problem.column_fold, problem.target.name
    if not problem.kind.runs:
        return f"tiles of a run begin one after the other on {target}"
    if fold is None:
        return "no index is reduced in a tile: tiles of the same columns do not follow each other"
    if reason := _no_runs_of_ranges(problem, schedule) if problem.queued else no_run(problem, schedule):
        return reason
    if schedule.promote or k_blocks(problem, schedule) != 1:
        return f"a tile has more than one block of {schedule.tile[2]} of {problem.k.name}, or nobody knows"
    if problem.converts or any(x.gathered or x.gathered_k for x in (problem.lhs, problem.rhs)) or problem.rhs.pages:
        return "operands are converted or gathered, or columns are in pages, by tiles"
    if problem.panes > 1 or len(problem.bodies) > 1:
        return "a tile has several contractions or results"
    if problem.kind.loads_operands:
        return _not_in_registers(problem, schedule)
    if not run_goes(problem, schedule):
        return f"a tile of {schedule.tile[1]} columns is one go: what is reduced has {fold.size}"
    return ""


def run_goes(problem: Problem, schedule: Schedule) -> list[int]:
    """What `mma_n` may be, the widest instruction first: columns of one of several goes, 0 where each wave is a go, of
    tiles that a queue deals out: others gained nothing by it (windows, H200, 2026-11-29)."""
    if problem.kind.loads_operands:
        return [0]
    waves = schedule.tile[0] // units(problem, schedule)[0] // problem.family.m
    return [*([0] if problem.queued and waves > 1 else []), *goes_of(problem, schedule)]


def _no_runs_of_ranges(problem: Problem, schedule: Schedule) -> str:
    """Why a queue cannot deal out tiles of the same columns together."""
    if problem.ragged is None or problem.ragged.dim != problem.m.name or not problem.kind.warpgroup_sums:
        return "tiles are dealt out by what memory says, which is no range of rows"
    if (schedule.order, schedule.band) != ("n", 1):
        return f"order={schedule.order}, band={schedule.band}: runs of a range have one column, order=n, band=1"
    return ""


def _not_in_registers(problem: Problem, schedule: Schedule) -> str:
    """Why warps cannot keep their columns of it in registers while they multiply some rows and fold others."""
    if row_goes(problem, schedule) < 2:
        return f"a warp's {schedule.tile[0] // schedule.warps[0]} rows of a tile are one go"
    if any(x.mn_major for x in (problem.lhs, problem.rhs)) or problem.half_bytes:
        return "operands are transposed, or end in half a byte, as they are loaded"
    return ""


def row_goes(problem: Problem, schedule: Schedule) -> int:
    """Goes of one instruction's rows each that a warp shares out its rows of a tile in."""
    return schedule.tile[0] // schedule.warps[0] // problem.family.m


def goes_of(problem: Problem, schedule: Schedule) -> list[int]:
    """Columns of an instruction that share out a tile's in several goes, each whole reductions, the widest first."""
    fold, columns = problem.column_fold, schedule.tile[1]
    if fold is None:
        return []
    return [n for n in reversed(problem.family.n) if columns % n == 0 and n % fold.size == 0 and n < columns]
