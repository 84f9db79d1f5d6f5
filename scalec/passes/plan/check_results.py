"""How results leave, checked: refuses a schedule whose staged tile, panels, additions or columns cannot exist."""

from __future__ import annotations

from scalec.errors import ScheduleError
from scalec.formats import TRANSFORMED
from scalec.ir.schedule import STAGED, Schedule
from scalec.passes.plan.column_factors import no_permuted_columns
from scalec.passes.plan.converted import in_registers
from scalec.passes.plan.loaded_inputs import no_loaded_inputs
from scalec.passes.plan.reductions import no_invariant
from scalec.passes.plan.resources import staged_widths, units
from scalec.passes.plan.results import no_loaded_result
from scalec.passes.plan.swizzle import no_bulk_epilogue, no_rows_epilogue, no_turned_epilogue, staged_swizzle
from scalec.passes.plan.tiles import cuts_blocks, cuts_column_fold, cuts_lookups, cuts_pages, cuts_transforms, no_swap
from scalec.passes.problem.types import Problem


def result_blocks(problem: Problem, schedule: Schedule) -> None:
    for scale in (r.scale for r in problem.results if r.scale is not None):
        if not (reason := cuts_blocks(problem, scale, schedule)):
            continue
        axis = 0 if problem.swapped else 1  # which blocks run along
        alone = problem.kind.warps == 1 or not problem.swapped
        step = scale.block * (schedule.warps[axis] if alone else 1) * (problem.panes if axis else 1)
        extent = schedule.tile[axis]
        fits = f"tile {'MN'[axis]} = {-(-extent // step) * step}"
        raise ScheduleError(
            f"a tile of {reason}",
            got=f"tile {'MN'[axis]} = {extent}",
            fix=fits + (", or other warps" if alone else "" if in_registers(schedule) else ", or swap=0"),
        )

    if reason := cuts_transforms(problem, schedule):
        step = TRANSFORMED * units(problem, schedule)[1] * problem.panes
        fix = f"tile N = {-(-schedule.tile[1] // step) * step}, or other warps"
        raise ScheduleError(f"a tile of {reason}", got=f"tile N = {schedule.tile[1]}", fix=fix)
    if reason := cuts_lookups(problem, schedule):
        axis = "MN"[0 if problem.swapped else 1]
        raise ScheduleError(
            reason,
            expected=f"tiles, and clusters of them, that divide {problem.blocks[1]}",
            fix=f"tile {axis} = {problem.blocks[1]} or a divisor, cluster=1x1",
        )


def whole_pages(problem: Problem, schedule: Schedule) -> None:
    if reason := cuts_pages(problem, schedule):
        raise ScheduleError(
            f"a tile of {reason}",
            got=f"tile M = {schedule.tile[0]}, tile N = {schedule.tile[1]}",
            expected="whole pages, whole tiles of a page, or parts of pages that few copies bring",
            fix="another tile",
        )


def folded_columns(problem: Problem, schedule: Schedule) -> None:
    if problem.column_fold is not None and (reason := cuts_column_fold(problem, schedule)):
        step = problem.column_fold.size * max(schedule.cta_group, units(problem, schedule)[1])
        raise ScheduleError(
            f"a tile of {reason}",
            got=f"tile N = {schedule.tile[1]}",
            fix=f"tile N = {-(-schedule.tile[1] // step) * step}",
        )


def staged_epilogue(problem: Problem, schedule: Schedule) -> None:
    if schedule.epilogue == "turned":
        reason = no_turned_epilogue(problem)
        if reason:
            other = "direct" if no_bulk_epilogue(problem, schedule) else "bulk"
            turn = not problem.swapped and not no_turned_epilogue(problem.transposed()) and not no_swap(problem)
            fix = "swap=1, or " * turn + f"epilogue={other}"
            raise ScheduleError("epilogue=turned is not possible", got=reason, fix=fix)
    if schedule.epilogue not in STAGED:
        for name in ("staged", "panels"):
            if getattr(schedule, name):
                reason = no_bulk_epilogue(problem, schedule)
                path = f"epilogue={schedule.epilogue}"
                raise ScheduleError(
                    f"{name} = {getattr(schedule, name)}, and no copy stores {problem.names} ({path})",
                    got=reason,
                    expected="0",
                    fix=f"leave {name} out" if reason else f"epilogue=bulk, or leave {name} out",
                )
        return
    ways = {"bulk": no_bulk_epilogue(problem, schedule), "rows": no_rows_epilogue(problem, schedule)}
    if reason := ways[schedule.epilogue]:
        able = next((way for way, no in ways.items() if not no), "direct" if no_turned_epilogue(problem) else "turned")
        raise ScheduleError(f"epilogue={schedule.epilogue} is not possible", got=reason, fix=f"epilogue={able}")
    waves = schedule.tile[0] // (problem.family.wave * units(problem, schedule)[0])
    if schedule.staged and waves % schedule.staged:
        who = "warp" if problem.kind.warps == 1 else "warpgroup"
        raise ScheduleError(
            f"staged = {schedule.staged} does not divide the {waves} waves of a {who}",
            expected="0 for all of them, or a divisor",
            fix="staged=0",
        )
    rows = staged_widths(problem, schedule)
    able, row = staged_swizzle(problem.target, rows), rows[0]
    if schedule.swizzle_c:
        row = next((row for row in rows if row % schedule.swizzle_c), 0)
    if row if schedule.swizzle_c else able:
        raise ScheduleError(
            f"swizzle_c = {schedule.swizzle_c} does not divide a row of the staged tile, {row} bytes",
            fix=f"swizzle_c={able}",
        )
    room_for_panels(problem, schedule)


def adds(problem: Problem, schedule: Schedule) -> None:
    reason = no_loaded_result(problem, schedule) if schedule.adds == "loaded" else ""
    if not reason:
        return
    expected, fixes = "", ["adds=memory"]
    if schedule.epilogue != "bulk" and not no_loaded_result(problem, schedule.with_fields(epilogue="bulk")):
        unable, unknown = no_bulk_epilogue(problem, schedule), problem.n.size is None
        if unable:
            reason = f"{unable}, so no copy stores {problem.names} (epilogue={schedule.epilogue})"
        expected = f"epilogue=bulk: copies load rows of {problem.names} as they store them"
        turned, known = ["swap=0"] * problem.swapped, [f"give {problem.n.name} in dims"] * unknown
        fixes = [*(turned or known if unable else ["epilogue=bulk"]), *fixes]
    raise ScheduleError("adds=loaded is not possible", got=reason, expected=expected, fix=", or ".join(fixes))


def inputs(problem: Problem, schedule: Schedule) -> None:
    reason = no_loaded_inputs(problem, schedule) if schedule.inputs else ""
    if reason:
        raise ScheduleError(f"inputs = {schedule.inputs} is not possible", got=reason, fix="inputs=0")


def room_for_panels(problem: Problem, schedule: Schedule) -> None:
    if not schedule.panels:
        return
    row, what = min(staged_widths(problem, schedule)), f"panels = {schedule.panels}"
    if problem.kind.tensor_memory:
        raise ScheduleError(f"{what}, and results come out of tensor memory by parts anyway", fix="panels=0")
    if schedule.staged != 1:
        raise ScheduleError(f"{what} are a wave's, and staged = {schedule.staged}", fix="staged=1, or panels=0")
    wide = schedule.swizzle_c or row
    if schedule.panels * wide >= row:
        raise ScheduleError(
            f"{what} of {wide} bytes, and a row of a staged wave is {row} bytes",
            expected="fewer panels than make up the row, or 0 for all",
            fix=f"panels={(row - 1) // wide}",
        )


def permuted_columns(problem: Problem, schedule: Schedule) -> None:
    reason = no_permuted_columns(problem, schedule, schedule.permute_n) if schedule.permute_n else ""
    if reason:
        raise ScheduleError(f"permute_n = {schedule.permute_n} is not possible", got=reason, fix="permute_n=0")


def invariant(problem: Problem, schedule: Schedule) -> None:
    reason = no_invariant(problem) if schedule.invariant else ""
    if reason:
        raise ScheduleError(
            "invariant is not possible",
            got=reason,
            expected="a max or a min, whose order does not show",
            fix="leave invariant out, or take the sum after the call",
        )
