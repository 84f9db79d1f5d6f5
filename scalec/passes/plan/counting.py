"""Who counts the tiles of reductions: a warp beside the consumers, or these."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from scalec.ir.schedule import Schedule
from scalec.passes.plan.reductions import Partial, idle_warp, partials
from scalec.passes.plan.shared_memory import SharedPlan
from scalec.passes.problem.types import Problem


def counting_warp(problem: Problem, schedule: Schedule) -> int | None:
    """The producer warpgroup's warp that adds up what consumer warps have of a tile, stores and counts it, and finishes
    bands, while consumers work on the next tile. None where no warp is idle, or where shared memory has no room for
    what consumers leave beside the stages: they do it then, as they do of a CTA's last tile, behind which they wait for
    nothing else."""
    has_room = SharedPlan.of(problem, schedule).buffer("totals") is not None
    return idle_warp(problem, schedule) if has_room else None


def stored_partials(problem: Problem, schedule: Schedule) -> list[Partial]:
    """Of each reduction, what a tile has in the workspace: where a warp counts, all slots are made one before."""
    found = partials(problem, schedule)
    if counting_warp(problem, schedule) is None:
        return found
    found = [replace(p, slots=1) for p in found]
    ends = accumulate((p.words for p in found), initial=0)
    return [replace(p, offset=offset) for p, offset in zip(found, ends, strict=False)]


def partial_words(problem: Problem, schedule: Schedule) -> int:
    """f32 of the workspace that a tile has for reductions."""
    return sum(p.words for p in stored_partials(problem, schedule))
