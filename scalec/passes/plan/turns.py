"""Consumer warpgroups that take whole tiles by turns: where they can."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.problem.types import Problem


def no_pingpong(problem: Problem, schedule: Schedule) -> str:
    """Why consumer warpgroups cannot take whole tiles by turns, "" where they can."""
    target = problem.target.name
    if problem.family.sums_in == "tensor":
        return f"sums are in tensor memory on {target}: the next tile's are summed while one's are stored anyway"
    if problem.family.warps == 1:
        return f"each warp multiplies by itself on {target}, and those of all warpgroups share a tile"
    if schedule.warpgroups < 2:
        return "one consumer warpgroup, which has nobody to take turns with"
    highest = max(r.block for r in problem.results)
    if problem.swapped and highest > problem.family.adjacent_rows:
        return f"swap=1, and warps of all warpgroups find the scales of {highest} rows of a tile together"
    if schedule.split > 1:
        return f"split = {schedule.split}, and the parts of a tile are added up by all consumer warpgroups together"
    return ""


def no_dynamic(problem: Problem) -> str:
    """Why tiles cannot be dealt out dynamically, "" where they can."""
    if problem.target.launch_control:
        return ""
    return f"{problem.target.name} has no cluster launch control"
