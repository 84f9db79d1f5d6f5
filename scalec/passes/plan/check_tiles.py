"""Tiles of operands, checked: refuses a schedule whose K, swizzles or panels copies cannot bring."""

from __future__ import annotations

from scalec.errors import ScheduleError
from scalec.ir.schedule import Schedule
from scalec.passes.plan.converted import in_registers, registers_make
from scalec.passes.plan.panes import strip_columns
from scalec.passes.plan.swizzle import no_deep_rows, no_panels, no_turned
from scalec.passes.plan.tiles import cuts_new_scales, narrow_boxes
from scalec.passes.problem.operand import PROMOTION_BLOCK, Operand
from scalec.passes.problem.types import Problem
from scalec.targets import MAX_BOX, PADDED_ROW


def tile_k(problem: Problem, schedule: Schedule) -> None:
    family, k = problem.family, schedule.tile[2]
    if k % family.k:
        raise ScheduleError(
            f"tile K = {k} is not a multiple of {family.k}, the K of one tensor-core instruction",
            fix=f"tile K = {-(-k // family.k) * family.k}",
        )
    if family.kind.loads_operands and k % (2 * family.k):
        raise ScheduleError(
            f"tile K = {k} is not a multiple of {2 * family.k}: instructions take turns with two sets of registers",
            fix=f"tile K = {k + family.k}",
        )
    for operand in (problem.lhs, problem.rhs):
        if operand.padded and not operand.mn_major and k != PADDED_ROW:
            raise ScheduleError(
                f"tile K = {k}, and copies that pad {operand.element.name} ({operand.name}) to a byte bring "
                f"{PADDED_ROW} elements of a row",
                fix=f"tile K = {PADDED_ROW}",
            )
    if reason := narrow_boxes(problem, k):
        raise ScheduleError(f"a tile has {reason}", fix=f"tile K = {2 * k}")
    if reason := cuts_new_scales(problem, schedule.tile):
        raise ScheduleError(f"a tile has {reason}", fix=f"tile K = {PROMOTION_BLOCK}")
    for operand, swizzle, field in (
        (problem.lhs, schedule.swizzle_a, "swizzle_a"),
        (problem.rhs, schedule.swizzle_b, "swizzle_b"),
    ):
        if operand.mn_major:
            _panels(problem, operand, schedule, field)
            continue
        axis = int(operand is problem.rhs)
        if reason := no_turned(problem.target, operand, schedule.tile[axis]):
            step = 8 * problem.target.tma_align // operand.stored.bits
            raise ScheduleError(reason, fix=f"tile {'MN'[axis]} a multiple of {step}")
        row = operand.shared_bytes(k)
        if operand.converted and registers_make(problem, schedule, operand):
            continue
        deep = in_registers(schedule) and swizzle and row > swizzle and row % swizzle == 0
        reason = no_deep_rows(problem, operand, k, swizzle) if deep else ""
        if reason or not (deep or row == swizzle):
            raise ScheduleError(
                f"a row of the tile of {operand.name} is {row} bytes and {field} = {swizzle}",
                got=reason,
                expected="equal: one box of the bulk copy is one swizzled row",
                fix=f"tile K = {problem.target.swizzles[0] * 8 // operand.shared_bits}, "
                f"{field}={problem.target.swizzles[0]}",
            )


def _panels(problem: Problem, operand: Operand, schedule: Schedule, field: str) -> None:
    """Refuses a tile with K outermost that is no whole number of panels."""
    axis, swizzle = int(operand is problem.rhs), getattr(schedule, field)
    rows, k = strip_columns(problem, schedule) if axis else schedule.tile[0], schedule.tile[2]
    reason, row = no_panels(problem.target, operand, rows), operand.shared_bytes(rows)
    if reason:
        step = _panel(problem, operand) * (schedule.tile[1] // rows if axis else 1)
        raise ScheduleError(reason, fix=f"tile {'MN'[axis]} a multiple of {step}")
    able = (s for s in operand.swizzles(problem.target) if s and not (operand.padded and s < PADDED_ROW))
    fitting = [s for s in able if row % s == 0]
    if swizzle not in fitting:
        raise ScheduleError(
            f"a row of the tile of {operand.name}, contiguous along {operand.rows}, is {row} bytes and {field} = "
            f"{swizzle}",
            expected="a divisor of the row: a box of the bulk copy is as wide as the swizzle",
            fix=f"{field}={fitting[0]}",
        )
    if k > MAX_BOX:
        raise ScheduleError(
            f"tile K = {k} is more rows of {operand.name} than one bulk copy brings",
            expected=f"at most {MAX_BOX}",
            fix=f"tile K = {MAX_BOX}",
        )


def _panel(problem: Problem, operand: Operand) -> int:
    """Rows of the narrowest panel."""
    narrowest = min(s for s in operand.swizzles(problem.target) if s)
    return PADDED_ROW if operand.padded else narrowest * 8 // operand.shared_bits
