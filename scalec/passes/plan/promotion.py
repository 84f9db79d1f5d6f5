"""How often sums leave the tensor core: which `promote` there can be, and which part of a K tile has which scale."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.problem.operand import PROMOTION_BLOCK, Scale
from scalec.passes.problem.types import Problem


def slices(schedule: Schedule) -> int:
    """Parts of a K tile whose sums leave the tensor core one after the other; one, where the tile is shorter than
    `promote`, which check-schedule refuses."""
    return max(1, schedule.tile[2] // schedule.promote) if schedule.promote else 1


def promoted_one_by_one(problem: Problem, schedule: Schedule) -> bool:
    """Whether each instruction of a warpgroup has sums of its own, which leave it behind that one."""
    return problem.kind.warpgroup_sums and schedule.promote == problem.family.k


def plane(schedule: Schedule, scale: Scale, number: int) -> int:
    """Which of a row's scales in a K tile (Scale.within) is that of part `number` of the tile."""
    return number * scale.within(schedule.tile[2]) // slices(schedule)


def no_planes(problem: Problem, scale: Scale) -> str:
    """Why one bulk copy does not bring a row's scales of a K tile, where it has several, "" where it does."""
    if scale.within(PROMOTION_BLOCK) == 1:
        return ""
    if PROMOTION_BLOCK % scale.k:
        why = f"{PROMOTION_BLOCK} elements of a K tile are no whole number of blocks"
    elif problem.range_of_k is not None:
        why = f"those of a K tile that are outside of a range of {problem.k.name} may be NaN"
    else:
        return ""
    return f"{scale.name} has one scale for each {scale.k} elements of {problem.k.name}, and {why}"


def promotions(problem: Problem, k: int) -> tuple[int, ...]:
    """The `promote` that a tile with so much K can have, the largest first; none where it can have no such K."""
    family, constant = problem.family, problem.constant_k if problem.has_scales else k
    if problem.has_scales and PROMOTION_BLOCK % k:
        return ()
    if family.whole_sums and not problem.has_scales:  # f32 would round what i32 has
        return (0,)
    if not family.kind.promotes_slices:
        return (k, 0) if not problem.has_scales else () if constant % k else (k,)
    parts = [n for n in range(min(constant, k), 0, -family.k) if constant % n == 0 and k % n == 0]
    return (*parts, *(() if problem.has_scales else (0,)))
