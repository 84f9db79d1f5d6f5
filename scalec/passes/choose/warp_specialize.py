"""Which warps do what: how many warpgroups multiply, and how, who else there is, and how registers are shared out."""

from __future__ import annotations

from scalec.ir.schedule import Request
from scalec.passes.base import Decision
from scalec.passes.plan.draft import draft
from scalec.passes.problem.types import Problem

DECIDED = ("warpgroups", "warps", "consumers", "convert", "converters", "scale_copier", "registers")


class WarpSpecialize(Decision):
    """Decides `warpgroups` and `warps` (of consumers), `consumers`, `convert`, `converters`, `scale_copier`, and
    `registers` (of a producer's and a consumer's threads), as drafts have them.

    Consumer warpgroups share each tile where the search of schedules (scalec.model.space) has not said otherwise: where
    sums are promoted, turns took 1.09 to 1.36 times as long with tiles of 128x128, and longer with others (H200,
    2026-11-21, FP8 1x128 by 128x128, four sizes). A warp of its own copies scales to tensor memory where copies are
    many and that has room for two K blocks' (nvfp4: 12 copies for 4 products).

        #scale.schedule<{tile = array<i64: 192, 128, 128>, promote = 128}>
    -->
        #scale.schedule<{tile = ..., warpgroups = 3 : i64, warps = array<i64: 12, 1>, consumers = "cooperative",
                         convert = "shared", converters = 0 : i64, scale_copier = 0 : i64,
                         registers = array<i64: 32, 160>, ...}>
    """

    name = "warp-specialize"
    needs = ("tile", "promote")

    def choose(self, problem: Problem, given: Request) -> Request:
        plan = draft(problem, given)
        return given.with_fields(**{name: getattr(plan, name) for name in DECIDED})
