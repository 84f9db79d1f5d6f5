"""Whether copies bring B's rows in an order that gives each thread adjacent columns of the result."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.ir.schedule import PERMUTED, Schedule
from scalec.passes.base import decide
from scalec.passes.problem import Problem
from scalec.targets import Target

PERMUTED_BITS = 8
"""Of the elements of which a register holds as many as a thread then has adjacent columns: four. Of 16 bits it holds
the two that are adjacent anyway."""


class PermuteColumns:
    """Decides `permute_n`: 16 wherever results of 8 bits are staged and copies can bring B's rows so.

    A register then holds four adjacent columns, and one `stmatrix` stages what eight 2-byte stores would, 16 rows by 32
    columns.

        #scale.schedule<{tile = array<i64: 256, 128, 128>, epilogue = "bulk", ...}>    (an mxfp8 result on sm_90a)
    -->
        #scale.schedule<{..., permute_n = 16 : i64}>
    """

    name = "permute-columns"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(module, target, self._choose, needs=("tile", "epilogue"))

    @staticmethod
    def _choose(problem: Problem, schedule: Schedule) -> Schedule:
        return schedule.with_fields(permute_n=0 if no_permuted_columns(problem, schedule) else PERMUTED)


def no_permuted_columns(problem: Problem, schedule: Schedule) -> str:
    """Why the columns of an accumulator cannot be permuted, or why nothing is gained, "" where they can."""
    assert schedule.tile is not None
    family, b, n, result = problem.family, problem.rhs, problem.n, problem.result
    if family.kernel != "shared":
        return f"{problem.target.name} does not multiply from shared memory into registers"
    if result.element.bits != PERMUTED_BITS:
        return (
            f"{result.name} has {result.element.bits}-bit elements, and a register holds four of {PERMUTED_BITS} bits"
        )
    if schedule.epilogue != "bulk":
        return f"{result.name} does not go through shared memory (epilogue={schedule.epilogue})"
    if b.mn_major:
        return f"{b.name} is contiguous along {n.name}, and copies permute whole rows"
    if n.size is None or n.size % PERMUTED:
        return f"{n.name} is {n.size or 'not known'}, and copies permute whole groups of {PERMUTED} rows of {b.name}"
    if schedule.tile[1] % PERMUTED:
        return f"tile N = {schedule.tile[1]} is not a multiple of {PERMUTED}"
    if result.scale is not None and result.scale.block % PERMUTED:
        return f"{PERMUTED} columns are no whole number of blocks of {result.scale.block}"
    return ""
