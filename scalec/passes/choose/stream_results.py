"""Programs that read and write more of their results than of anything else."""

from __future__ import annotations

from scalec.ir.schedule import Request
from scalec.passes.base import Decision
from scalec.passes.plan.streams import STREAMED, streams
from scalec.passes.problem.types import Problem


class StreamResults(Decision):
    """Decides `tile`, `cluster` and `adds` of sums in short ranges of K that are added to f32 results, where nothing
    else of the schedule is decided (scalec.passes.plan.streams).

        #scale.schedule<{}>
    -->
        #scale.schedule<{tile = array<i64: 128, 256, 128>, cluster = array<i64: 1, 1>, adds = "loaded"}>
    """

    name = "stream-results"

    def choose(self, problem: Problem, given: Request) -> Request:
        return given.with_fields(**STREAMED.decided()) if streams(problem, given) else given
