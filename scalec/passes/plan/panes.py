"""How a tile of B is shared out where a program has several contractions: strips of each, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.ir.schedule import Schedule
from scalec.passes.plan.resources import copied_columns, scale_copy, units
from scalec.passes.plan.swizzle import no_panels
from scalec.passes.plan.tensor_columns import by_parts
from scalec.passes.problem.types import Problem

GROUP = 8
"""Columns that a thread's sums come in groups of (PTX ISA 9.7.15.5.1, figure D), and rows of a swizzle's pattern."""

TAKEN = 16
"""Columns, a multiple of which a warp takes out of tensor memory at once (`tile.take`)."""

TURNED = 16
"""Bytes of a line that a thread turns at once (`tile.convert`)."""

COPIED = 128
"""Bytes whose multiples copies of boxes begin at in shared memory (PTX ISA 9.7.9.25.5.2)."""


@dataclass(frozen=True)
class Strip:
    """Rows of a tile of B that one copy brings: `rows` from `first` on, of the operand of contraction `pane`, from
    `ahead` behind the tile's first column on."""

    pane: int
    first: int
    rows: int
    ahead: int


def strips(problem: Problem, schedule: Schedule) -> tuple[Strip, ...]:
    """Those of a tile, in order: each warp that holds sums has those of all contractions for its columns."""
    panes, rows = problem.panes, strip_columns(problem, schedule)
    across = sharing(problem, schedule) if panes > 1 else 1
    return tuple(Strip(p, (unit * panes + p) * rows, rows, unit * rows) for unit in range(across) for p in range(panes))


def sharing(problem: Problem, schedule: Schedule) -> int:
    """Warps or warpgroups along N that each have all contractions' sums for some columns; those that take sums out of
    tensor memory part by part take each contraction's where it is."""
    return 1 if by_parts(problem, schedule) else units(problem, schedule)[1]


def strip_columns(problem: Problem, schedule: Schedule) -> int:
    """Rows of a strip."""
    if problem.panes == 1:
        return copied_columns(schedule)
    return copied_columns(schedule) // (problem.panes * sharing(problem, schedule))


def no_panes(problem: Problem, schedule: Schedule) -> str:
    """Why a tile cannot have the columns of several contractions side by side, "" where it can, or has those of one."""
    if problem.panes == 1:
        return ""
    rhs, names = problem.rhs, " and ".join(x.name for x in problem.rhs.panes)
    columns, along_n = schedule.tile[1], units(problem, schedule)[1]
    if schedule.cta_group > 1:
        return f"{names} lie side by side in a tile, and of {schedule.cta_group} CTAs each copies a part of its rows"
    least = (TAKEN if by_parts(problem, schedule) else GROUP) * problem.panes * along_n
    if columns % least:
        return f"{columns} columns, and {names} need a multiple of {least}"
    rows = strip_columns(problem, schedule)
    if rhs.mn_major and (reason := no_panels(problem.target, rhs, rows)):
        return reason
    if rhs.turned and rows * rhs.stored.bits % (8 * TURNED):
        return f"{rows} rows of {rhs.name}, of which warps turn {TURNED * 8 // rhs.stored.bits} at a time"
    return _uneven_scales(problem, schedule, rows)


def _uneven_scales(problem: Problem, schedule: Schedule, rows: int) -> str:
    """Why copies cannot bring scales of strips of so many rows, "" where they can, or threads do."""
    scale = problem.rhs.by_row
    copied = scale is not None and scale_copy(problem, scale, schedule) == "vector"
    if scale is None or not copied or rows * 4 % COPIED == 0:
        return ""
    return f"{rows} rows of {problem.rhs.name}, of which {scale.name} is copied {COPIED // 4} at a time"
