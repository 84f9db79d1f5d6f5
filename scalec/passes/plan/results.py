"""What a program adds to a result that is there, and whether it can be loaded while a tile is multiplied."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.plan.resources import producer_warpgroups, scale_warps, threaded, turns
from scalec.passes.plan.warps import WARPS
from scalec.passes.problem.types import EpilogueInput, Problem, Result

RESULT_WARP = WARPS - 1
"""The producer warpgroup's warp that loads and stores results: others issue copies, products, and copies of scales."""


def added_input(result: Result) -> EpilogueInput | None:
    """The result itself, where the last thing that the body does is to add it, in f32: bulk copies can do so."""
    if not result.inout or result.element.name != "f32":
        return None
    body = result.epilogue.body.blocks[0]
    last = body.operations[len(body.operations) - 1].operands[0]
    mine = next((x for x in result.inputs if x.name == result.name), None)
    if mine is None or last.owner.name != "arith.addf" or len(list(last.uses)) != 1:
        return None
    read = body.arguments[mine.view]
    return mine if list(last.owner.operands).count(read) == 1 and len(list(read.uses)) == 1 else None


def no_loaded_result(problem: Problem, schedule: Schedule) -> str:
    """Why the result that is there cannot be loaded beside the products, "" where it can."""
    if len(problem.results) > 1:
        return f"{problem.names} are results of one contraction, and one warp loads and stores the tiles of one"
    result = problem.result.name
    if added_input(problem.result) is None:
        return f"the last step of the program does not add f32 sums to {result}"
    if schedule.epilogue != "bulk":
        return f"no copy stores {result} (epilogue={schedule.epilogue})"
    if schedule.split > 1:
        return f"split = {schedule.split}: which CTA adds a tile's sums to {result} shows when its products are done"
    if turns(schedule) > 1:
        return f"consumers=pingpong: one warp loads and stores the tiles of {result} one after the other"
    if problem.family.sums_in == "tensor" and not schedule.promote:
        return "sums come out of tensor memory by parts, of which shared memory has room for one"
    first, count = scale_warps(problem, schedule)
    sides = (problem.lhs, problem.rhs)
    busy = producer_warpgroups(problem, schedule) == 1 and any(threaded(problem, x, schedule) for x in sides)
    if busy and first <= RESULT_WARP < first + count:
        return f"threads bring scales, and no warp is left that could load and store {result}"
    return ""
