"""What a program adds to a result that is there, and whether it can be loaded while a tile is multiplied."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.plan.gather import gatherers
from scalec.passes.plan.items import free_warps
from scalec.passes.plan.resources import producer_warpgroups, scale_warps, threaded, turns
from scalec.passes.plan.tensor_columns import by_parts
from scalec.passes.plan.turns import READ
from scalec.passes.plan.warps import SCALE_WARPS
from scalec.passes.problem.types import Problem

ONLY_REDUCED = "the program has reductions alone, and no result of each point"
"""Why nothing leaves a tile."""


def result_warp(problem: Problem, schedule: Schedule) -> int:
    """The producer warpgroup's warp that loads and stores results, the last that has no other role: others issue
    copies, products, and copies of scales, find items and cut K blocks."""
    return free_warps(problem, schedule) - 1


def no_loaded_result(problem: Problem, schedule: Schedule) -> str:
    """Why the result that is there cannot be loaded beside the products, "" where it can."""
    if not problem.results:
        return ONLY_REDUCED
    if len(problem.results) > 1:
        return f"{problem.names} are results of one contraction, and one warp loads and stores the tiles of one"
    result = problem.result.name
    if problem.result.added is None:
        return f"the last step of the program does not add f32 sums to {result}"
    if schedule.epilogue != "bulk":
        return f"no copy stores {result} (epilogue={schedule.epilogue})"
    named = {x.name for x in problem.lookups}
    if at := next((c.dim for c in problem.result.coords if c.dim in named), ""):
        return f"two tiles of {result} may be one, at the same {at}, and each would store its own sums alone"
    if schedule.split > 1:
        return f"split = {schedule.split}: which CTA adds a tile's sums to {result} shows when its products are done"
    if turns(schedule) > 1:
        return f"consumers=pingpong: one warp loads and stores the tiles of {result} one after the other"
    if by_parts(problem, schedule):
        return "sums come out of tensor memory by parts, of which shared memory has room for one"
    if gatherers(problem):
        return f"a warp hands over the rows that threads copy, and none is left that could load and store {result}"
    warp, (first, count) = result_warp(problem, schedule), scale_warps(problem, schedule)
    sides = (problem.lhs, problem.rhs)
    busy = producer_warpgroups(problem, schedule) == 1 and any(threaded(problem, x, schedule) for x in sides)
    if busy and first <= warp < first + count:
        return f"threads bring scales, and no warp is left that could load and store {result}"
    if warp < SCALE_WARPS[problem.kind.name][0] + schedule.scale_copier:
        return f"{READ}, by a warp, and none is left that could load and store {result}"
    return ""
