"""Consumer warpgroups that take whole tiles by turns: where they can."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.plan.converted import warps_make
from scalec.passes.plan.shared_blocks import together
from scalec.passes.problem.types import Problem


def no_pingpong(problem: Problem, schedule: Schedule) -> str:
    """Why consumer warpgroups cannot take whole tiles by turns, "" where they can."""
    target = problem.target.name
    if problem.queued:
        return f"{READ}: a warpgroup does not know how many K blocks and windows of others' it passes over"
    if warps_make(problem, schedule):
        return "operands are converted, by warps that walk all tiles"
    if problem.kind.tensor_memory:
        return f"sums are in tensor memory on {target}: the next tile's are summed while one's are stored anyway"
    if problem.kind.warps == 1:
        return f"each warp multiplies by itself on {target}, and those of all warpgroups share a tile"
    if schedule.warpgroups < 2:
        return "one consumer warpgroup, which has nobody to take turns with"
    if reason := together(problem):
        return f"{reason}, all consumers of each"
    highest = max((r.block for r in problem.results), default=1)
    if problem.swapped and highest > problem.family.adjacent_rows:
        return f"swap=1, and warps of all warpgroups find the scales of {highest} rows of a tile together"
    if schedule.split > 1:
        return f"split = {schedule.split}, and the parts of a tile are added up by all consumer warpgroups together"
    return ""


READ = "what there is to do is read from memory"
"""Why much cannot be with lookups and ranges (Problem.queued)."""


def no_run(problem: Problem, schedule: Schedule) -> str:
    """Why a cluster cannot take tiles of the same columns one after the other (`Schedule.run`), "" where it can: those
    of a range too, where nobody has timed that they are dealt out one by one."""
    timed = problem.kind.tensor_memory or schedule.stationary
    dealt = schedule.scheduler == "queue" and problem.ragged is not None and timed
    if schedule.scheduler != "static" and not (dealt and problem.column_fold is not None):
        return f"scheduler={schedule.scheduler}: the next tile is whichever is left"
    if schedule.split > 1:
        return f"split = {schedule.split}: the parts of a tile follow each other"
    if schedule.consumers == "pingpong":
        return "consumers=pingpong: warpgroups take the tiles by turns"
    return ""


def no_scheduler(problem: Problem, scheduler: str) -> str:
    """Why tiles cannot be dealt out so (`Schedule.scheduler`), "" where they can."""
    if problem.queued:
        return "" if scheduler == "queue" else f"{READ}, by a warp that tells the others"
    if scheduler == "queue":
        return "all there is to do is known without reading memory"
    return no_dynamic(problem) if scheduler == "dynamic" else ""


def no_dynamic(problem: Problem) -> str:
    """Why tiles cannot be dealt out by cluster launch control, "" where they can."""
    if problem.queued:
        return READ
    if problem.target.launch_control:
        return ""
    return f"{problem.target.name} has no cluster launch control"
