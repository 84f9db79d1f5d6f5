"""Who copies the scales that the tensor core applies from shared to tensor memory."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.plan.items import cuts_k
from scalec.passes.plan.tensor_columns import most_scale_slots, scale_copies
from scalec.passes.problem.types import Problem

COPIES = 0.75
"""Copies for each product that the thread which issues products makes beside them: at so many, three for four products
of MXFP8, its loop has 8.0 instructions a product, at twice as many 12.4 (MXFP4; ptxas 13.0, 2026-11-21)."""


def no_copier(problem: Problem, schedule: Schedule) -> str:
    """Why no warp of its own can copy scales to tensor memory, "" where one can."""
    if not problem.kind.tensor_memory or not scale_copies(problem, schedule):
        what = "no scales of this program" if problem.kind.tensor_memory else "no scales"
        return f"{what} are copied to tensor memory on {problem.target.name}"
    if cuts_k(problem, schedule.tile[2]):
        return f"its warp cuts K blocks where a range of {problem.k.name} begins and ends"
    slots = most_scale_slots(problem, schedule)
    if slots >= 2:
        return ""
    return (
        f"tensor memory has room for the scales of {slots} K block, not of two, one's copied while another's are "
        "multiplied"
    )


def copier_for(problem: Problem, schedule: Schedule) -> int:
    """The `scale_copier` of a schedule that leaves it undecided."""
    if no_copier(problem, schedule):
        return 0
    return int(scale_copies(problem, schedule) > COPIES * (schedule.tile[2] // problem.family.k))
