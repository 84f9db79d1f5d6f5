"""How tiles lie in shared memory, and whether results go through it."""

from __future__ import annotations

from scalec.ir.schedule import PERMUTED, STAGED, Request
from scalec.passes.base import Decision
from scalec.passes.plan.column_factors import no_permuted_columns
from scalec.passes.plan.draft import draft
from scalec.passes.plan.panes import strip_columns
from scalec.passes.plan.resources import staged_widths
from scalec.passes.plan.shared_memory import stages_that_fit
from scalec.passes.plan.swizzle import (
    STAGES_BESIDE_STAGING,
    no_bulk_epilogue,
    no_rows_epilogue,
    no_turned_epilogue,
    not_worth_turning,
    operand_swizzle,
    staged_swizzle,
    staging,
    with_inputs,
    worth_loading,
    worth_staging,
)
from scalec.passes.problem.types import Problem


class ChooseSwizzle(Decision):
    """Decides `swizzle_a`, `swizzle_b`, `swizzle_c`, `epilogue`, `staged`, `panels`, `adds` and `permute_n`.

    Operand tiles take the widest swizzle that divides a row of the tile, along the operand's contiguous index. Results
    are staged in shared memory and leave by bulk copy where that is known to be worth it (`worth_staging`), the copy's
    alignment is known to hold and three stages still fit; likewise, where they are scattered, row by row; transposed
    ones are turned there (`not_worth_turning`); otherwise registers are stored directly. Only what is staged has a
    `swizzle_c` (else 0). What results are added to is loaded where K is short (LOADED_K), else copies add in memory.
    What results are computed of at each row and column comes by copies where tiles follow each other (`with_inputs`).
    Where results of 8 or 4 bits are staged and copies can bring B's rows so, columns are permuted: a register then
    holds four or eight adjacent ones, and one `stmatrix` stages what eight 2-byte stores would, or sixteen of a byte.

        #scale.schedule<{tile = array<i64: 256, 128, 128>}>
    -->
        #scale.schedule<{tile = ..., swizzle_a = 128, swizzle_b = 128, swizzle_c = 128, epilogue = "bulk", ...}>
    """

    name = "choose-swizzle"
    needs = ("tile",)

    def choose(self, problem: Problem, given: Request) -> Request:
        plain, epilogue = draft(problem, given), given.epilogue
        adds = given.adds or ("loaded" if worth_loading(problem, given, plain) else "memory")
        plain = plain.with_fields(adds=adds)
        plan = staging(problem, given, plain.with_fields(epilogue="bulk"))
        if epilogue is None and problem.swapped:
            able = not no_turned_epilogue(problem) and not not_worth_turning(problem, plain)
            able = able and plain.parts != "columns"
            epilogue = "turned" if able else "direct"
        elif epilogue is None:
            most = stages_that_fit(problem, plain.with_fields(epilogue="direct"))
            fits = stages_that_fit(problem, plan) >= (plan.stages or min(most, STAGES_BESIDE_STAGING))
            worth = (fits and worth_staging(problem, given, plan)) or adds == "loaded"
            scattered = any(r.scattered for r in problem.results)
            able = {"bulk": no_bulk_epilogue(problem, plain), "rows": no_rows_epilogue(problem, plain)}
            ways = [way for way, no in able.items() if worth and not no and (way == "bulk" or scattered)]
            epilogue = ways[0] if ways else "direct"
        plan = with_inputs(problem, given, plan.with_fields(epilogue=epilogue, inputs=given.inputs or 0))
        rows, _, depth = plain.tile
        made = given.with_fields(
            adds=adds,
            inputs=plan.inputs,
            staged=plan.staged if epilogue in STAGED else 0,
            panels=plan.panels if epilogue in STAGED else 0,
            swizzle_a=operand_swizzle(problem, problem.lhs, rows, depth),
            swizzle_b=operand_swizzle(problem, problem.rhs, strip_columns(problem, plain), depth),
            swizzle_c=staged_swizzle(problem.target, staged_widths(problem, plain)) if epilogue in STAGED else 0,
            epilogue=epilogue,
        )
        within = PERMUTED.get(problem.results[0].element.bits, 0) if problem.results else 0
        decided = draft(problem, made.with_fields(**given.decided()))
        return made.with_fields(permute_n=0 if no_permuted_columns(problem, decided, within) else within)
