"""What a program adds to a result that is there, or computes it of, and whether that can be loaded into the result's
place while a tile is multiplied."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.plan.items import cut_along
from scalec.passes.plan.loaded_inputs import in_place, no_free_warp
from scalec.passes.plan.resources import turns
from scalec.passes.plan.tensor_columns import by_parts
from scalec.passes.problem.types import Problem

ONLY_REDUCED = "the program has reductions alone, and no result of each point"
"""Why nothing leaves a tile."""


def no_loaded_result(problem: Problem, schedule: Schedule) -> str:
    """Why the result that is there cannot be loaded beside the products, "" where it can."""
    if not problem.results:
        return ONLY_REDUCED
    if len(problem.results) > 1:
        return f"{problem.names} are results of one contraction, and one warp loads and stores the tiles of one"
    result, kept = problem.result.name, problem.result.added is not None
    if not kept and in_place(problem) is None:
        return f"the last step of the program does not add f32 sums to {result}, and reads nothing that lies as it does"
    if schedule.epilogue != "bulk":
        return f"no copy stores {result} (epilogue={schedule.epilogue})"
    named = {x.name for x in problem.lookups}
    if at := next((c.dim for c in problem.result.coords if c.dim in named), ""):
        return f"two tiles of {result} may be one, at the same {at}, and each would store its own sums alone"
    if not kept and (schedule.staged or schedule.panels):
        return f"staged = {schedule.staged}, panels = {schedule.panels}: a whole tile is read before some is stored"
    cut = cut_along(problem, schedule) or next((x.name for x in problem.row_lookups), "")
    if not kept and cut:
        return f"tiles may be cut along {cut}, and the warp stores whole ones"
    if schedule.split > 1:
        return f"split = {schedule.split}: which CTA adds a tile's sums to {result} shows when its products are done"
    if turns(schedule) > 1:
        return f"consumers=pingpong: one warp loads and stores the tiles of {result} one after the other"
    if by_parts(problem, schedule):
        return "sums come out of tensor memory by parts, of which shared memory has room for one"
    return no_free_warp(problem, schedule, f"load and store {result}")
