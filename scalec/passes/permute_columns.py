"""Whether copies bring B's rows in an order that gives each thread adjacent columns of the result."""

from __future__ import annotations

from scalec.formats import WHOLE
from scalec.ir.mlir import ir
from scalec.ir.schedule import LANES, PERMUTED, Schedule
from scalec.passes.base import decide
from scalec.passes.column_factors import step_of
from scalec.passes.problem import Problem
from scalec.targets import Target


class PermuteColumns:
    """Decides `permute_n`: 16 wherever results of 8 bits are staged and copies can bring B's rows so, 32 of 4 bits.

    A register then holds four or eight adjacent columns, and one `stmatrix` stages what eight 2-byte stores would, 16
    rows by 32 columns, or sixteen 1-byte stores, 16 rows by 64.

        #scale.schedule<{tile = array<i64: 256, 128, 128>, epilogue = "bulk", ...}>    (an mxfp8 result on sm_90a)
    -->
        #scale.schedule<{..., permute_n = 16 : i64}>
    """

    name = "permute-columns"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(module, target, self._choose, needs=("tile", "epilogue"))

    @staticmethod
    def _choose(problem: Problem, schedule: Schedule) -> Schedule:
        within = PERMUTED.get(problem.result.element.bits, 0)
        return schedule.with_fields(permute_n=0 if no_permuted_columns(problem, schedule, within) else within)


def no_permuted_columns(problem: Problem, schedule: Schedule, within: int) -> str:
    """Why the columns of an accumulator cannot be permuted within so many, or why nothing is gained, "" where they
    can."""
    assert schedule.tile is not None
    family, b, n, result = problem.family, problem.rhs, problem.n, problem.result
    if family.kernel != "shared":
        return f"{problem.target.name} does not multiply from shared memory into registers"
    if PERMUTED.get(result.element.bits) != within:
        rows = " and ".join(f"{columns // LANES} of {bits} bits" for bits, columns in PERMUTED.items())
        return f"{result.name} has {result.element.bits}-bit elements, and a register holds {rows}"
    if problem.swapped:
        return f"swap=1: columns of a tile are rows of {result.name}"
    if schedule.epilogue != "bulk":
        return f"{result.name} does not go through shared memory (epilogue={schedule.epilogue})"
    if b.mn_major:
        return f"{b.name} is contiguous along {n.name}, and copies permute whole rows"
    if n.size is None or n.size % within:
        return f"{n.name} is {n.size or 'not known'}, and copies permute whole groups of {within} rows of {b.name}"
    if schedule.tile[1] % within:
        return f"tile N = {schedule.tile[1]} is not a multiple of {within}"
    for scale in b.promoted:
        if scale.rows not in (1, WHOLE) and step_of(schedule.tile[1], scale.rows) % within:
            return (
                f"{scale.name} changes within {within} columns of a tile: blocks have {scale.rows} rows, a tile has "
                f"{schedule.tile[1]} columns"
            )
    if result.scale is not None and result.scale.block % within and within != LANES // 2 * result.scale.block:
        return f"blocks of {result.scale.block} are no multiple of {within} columns, and no half of them"
    return ""
