"""How many CTAs share the K of one tile."""

from __future__ import annotations

from scalec.ir.schedule import Request
from scalec.passes.base import Decision
from scalec.passes.plan.draft import draft
from scalec.passes.plan.parts import split_of
from scalec.passes.problem.types import Problem


class ChooseSplit(Decision):
    """Decides `split`: a power of two whose parts all run at once, each with FEWEST_BLOCKS K blocks or more, that moves
    the fewest bytes through one CTA.

    So K is split only where more than half of the SMs would have no tile; never where its size is not known. H200,
    2026-11-21, FP8 1x128 by 128x128, one row, times as fast as cuBLASLt: 2112x7168, 33 tiles, 1.37, 1.87, 2.20 and 1.67
    with 1, 2, 4 and 8 parts, of which 8 do not all run at once, nor do two of 7168x2048, 112 tiles: 1.50 and 1.05 with
    1 and 2.

        #scale.schedule<{tile = array<i64: 16, 128, 128>, cluster = array<i64: 1, 1>, ...}>    (32 tiles, k = 7168)
    -->
        #scale.schedule<{..., split = 4 : i64}>    (188 SMs)
    """

    name = "choose-split"
    needs = ("tile", "cluster")

    def choose(self, problem: Problem, given: Request) -> Request:
        return given.with_fields(split=split_of(problem, draft(problem, given)))
