"""How tiles lie in shared memory, and whether results go through it."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
from scalec.passes.base import decide
from scalec.passes.problem import Operand, Problem
from scalec.passes.resources import copied_columns, path_of_scales, staged_columns, stages_that_fit, units
from scalec.targets import PADDED_ROW, Target

STAGES_BESIDE_STAGING = 3
"""With fewer stages beside the staged result, at most one K block is on its way while one is multiplied."""


class ChooseSwizzle:
    """Decides `swizzle_a`, `swizzle_b`, `swizzle_c`, `epilogue` and `staged`.

    Operand tiles take the widest swizzle that divides a row of the tile, along the operand's contiguous index. Results
    are staged in shared memory and leave by bulk copy where they have 16 bits or less, the copy's alignment is known to
    hold and three stages still fit; otherwise registers are stored directly and there is no `swizzle_c` (0).

        #scale.schedule<{tile = array<i64: 256, 128, 128>}>
    -->
        #scale.schedule<{tile = ..., swizzle_a = 128, swizzle_b = 128, swizzle_c = 128, epilogue = "bulk"}>
    """

    name = "choose-swizzle"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(module, target, self._choose, needs=("tile",))

    @staticmethod
    def _choose(problem: Problem, schedule: Schedule) -> Schedule:
        assert schedule.tile is not None
        epilogue = schedule.epilogue
        staged = schedule.staged
        beside = schedule.with_fields(scale_path=schedule.scale_path or path_of_scales(problem, schedule))
        if staged is None:
            staged = 0 if epilogue == "direct" else staged_waves(problem, beside)
        if epilogue is None:
            plan = beside.with_fields(epilogue="bulk", staged=staged)
            most = stages_that_fit(problem, beside.with_fields(epilogue="direct"))
            fits = stages_that_fit(problem, plan) >= (schedule.stages or min(most, STAGES_BESIDE_STAGING))
            able = fits and problem.result.element.bits <= STAGED_BITS and not no_bulk_epilogue(problem, schedule)
            epilogue = "bulk" if able else "direct"
        return schedule.with_fields(
            staged=staged if epilogue == "bulk" else 0,
            swizzle_a=widest(problem.target, tile_row(problem.lhs, schedule.tile[0], schedule.tile[2])),
            swizzle_b=widest(problem.target, tile_row(problem.rhs, copied_columns(schedule), schedule.tile[2])),
            swizzle_c=widest(problem.target, staged_row(problem, schedule)) if epilogue == "bulk" else 0,
            epilogue=epilogue,
        )


STAGED_BITS = 16
"""Of elements that are staged unless decided: nobody has measured whether the room that wider ones take is worth it."""


def staged_waves(problem: Problem, schedule: Schedule) -> int:
    """Waves staged at once: all (0) where that costs no stage, else one, where units do not wait for each other or
    elements are wide."""
    if problem.family.warps > 1 and problem.result.element.bits <= STAGED_BITS:
        return 0
    all_, one, none = (
        stages_that_fit(problem, schedule.with_fields(epilogue=epilogue, staged=staged))
        for epilogue, staged in (("bulk", 0), ("bulk", 1), ("direct", 0))
    )
    return 0 if all_ >= min(one, none) else 1


def widest(target: Target, row: int) -> int:
    """The widest swizzle that divides a row of `row` bytes."""
    return next(s for s in target.swizzles if s == 0 or row % s == 0)


def tile_row(operand: Operand, rows: int, depth: int) -> int:
    """Bytes of a row of an operand's tile in shared memory, of `rows` rows of the operand by `depth` of K."""
    return operand.shared_bytes(rows if operand.mn_major else depth)


def no_panels(target: Target, operand: Operand, rows: int) -> str:
    """Why a tile of `rows` rows cannot be copied panel by panel where K is outermost, "" where it can."""
    row = operand.shared_bytes(rows)
    if operand.padded and rows % PADDED_ROW:
        return f"a tile of {rows} of {operand.rows}: {operand.name} is copied {PADDED_ROW} at a time"
    if not operand.padded and not widest(target, row):
        return f"a tile of {rows} of {operand.rows}, {row} bytes of {operand.name}: no swizzle divides it"
    return ""


def staged_row(problem: Problem, schedule: Schedule) -> int:
    """Bytes of a row of the result that one warpgroup, or warp, stages."""
    assert schedule.tile is not None
    return problem.result.element.bytes(staged_columns(problem, schedule) // units(problem, schedule)[1])


def no_bulk_epilogue(problem: Problem, schedule: Schedule) -> str:
    """Why results cannot leave by bulk copy, "" where they can."""
    result, n, target = problem.result, problem.n, problem.target
    if problem.swapped:
        return f"swap=1 computes {result.name} by columns, and a bulk copy stores rows"
    if n.size is None:
        return f"{n.name} is not known at compile time: a row of {result.name} may be misaligned"
    if result.element.bytes(n.size) % target.tma_align:
        row = result.element.bytes(n.size)
        return f"a row of {result.name} is {row} bytes ({n.name} = {n.size}), not a multiple of {target.tma_align}"
    row = staged_row(problem, schedule)
    if not widest(target, row):
        return f"a row of the staged tile is {row} bytes: no swizzle divides it"
    return ""
