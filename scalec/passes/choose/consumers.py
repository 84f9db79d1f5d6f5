"""Whether consumer warpgroups share each tile or take whole tiles by turns."""

from __future__ import annotations

from scalec.ir.schedule import Request
from scalec.passes.base import Decision
from scalec.passes.problem.types import Problem


class ChooseConsumers(Decision):
    """Decides `consumers` where the search of schedules (scalec.model.space) has not: that they share each tile. Where
    sums are promoted, turns took 1.09 to 1.36 times as long with tiles of 128x128, and longer with others (H200,
    2026-11-21, FP8 1x128 by 128x128, four sizes).

        #scale.schedule<{tile = array<i64: 128, 128, 128>, ...}>
    -->
        #scale.schedule<{..., consumers = "cooperative"}>
    """

    name = "choose-consumers"
    needs = ("tile",)

    def choose(self, problem: Problem, given: Request) -> Request:
        return given.with_fields(consumers=DEFAULT)


DEFAULT = "cooperative"
