"""Where the sums of parts of K meet."""

from __future__ import annotations

from scalec.ir.schedule import Request
from scalec.passes.base import Decision
from scalec.passes.plan.draft import draft
from scalec.passes.plan.parts import FEWEST_STAGES, at_once, no_meeting, no_memory
from scalec.passes.plan.shared_memory import SharedPlan
from scalec.passes.problem.types import Problem


class ChooseParts(Decision):
    """Decides `parts`: "cluster" where K is split, all clusters of parts run at once, and the sums have room, or where
    they cannot meet in memory.

        #scale.schedule<{tile = array<i64: 128, 64, 128>, split = 2 : i64, ...}>
    -->
        #scale.schedule<{..., parts = "cluster"}>
    """

    name = "choose-parts"
    needs = ("tile", "cluster", "split", "scheduler", "warpgroups", "epilogue")

    def choose(self, problem: Problem, given: Request) -> Request:
        return given.with_fields(parts=meeting(problem, given))


def meeting(problem: Problem, given: Request) -> str:
    """Where they meet, of a request that has not decided it; beside scales that take the least room."""
    schedule = draft(problem, given.with_fields(scale_path=given.scale_path or "thread"))
    together = schedule.with_fields(parts="cluster", stages=schedule.stages or FEWEST_STAGES)
    no = no_meeting(problem, schedule.cluster, schedule.split, schedule.scheduler)
    if not no and no_memory(problem):
        return "cluster"
    if no or not at_once(problem, together):
        return "memory"
    fits = SharedPlan.of(problem, together).total <= problem.target.shared_bytes
    return "cluster" if fits else "memory"
