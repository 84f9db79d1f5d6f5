"""Whether copies bring B's rows in an order that gives each thread adjacent columns of the result."""

from __future__ import annotations

from scalec.ir.schedule import PERMUTED, Request
from scalec.passes.base import Decision
from scalec.passes.plan.column_factors import no_permuted_columns
from scalec.passes.plan.draft import draft
from scalec.passes.problem.types import Problem


class PermuteColumns(Decision):
    """Decides `permute_n`: 16 wherever results of 8 bits are staged and copies can bring B's rows so, 32 of 4 bits.

    A register then holds four or eight adjacent columns, and one `stmatrix` stages what eight 2-byte stores would, 16
    rows by 32 columns, or sixteen 1-byte stores, 16 rows by 64.

        #scale.schedule<{tile = array<i64: 256, 128, 128>, epilogue = "bulk", ...}>    (an mxfp8 result on sm_90a)
    -->
        #scale.schedule<{..., permute_n = 16 : i64}>
    """

    name = "permute-columns"
    needs = ("tile", "epilogue")

    def choose(self, problem: Problem, given: Request) -> Request:
        within = PERMUTED.get(problem.results[0].element.bits, 0) if problem.results else 0
        no = no_permuted_columns(problem, draft(problem, given), within)
        return given.with_fields(permute_n=0 if no else within)
