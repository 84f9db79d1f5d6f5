"""The loop over K: which of its forms a schedule has."""

from __future__ import annotations

import math

from scalec.ir.schedule import Schedule
from scalec.passes.plan.parts import clusters_of, part_blocks
from scalec.passes.plan.promotion import slices
from scalec.passes.plan.warps import UNROLL
from scalec.passes.problem.types import Problem

WHOLE = 4
"""K blocks of a tile up to which they are walked without a loop, where a cluster works on several tiles and sums are
promoted with one factor each: 0.99 of the time at K = 512, and quantised results cost nothing there, where MXFP8 cost
3.6 % (128x256, 4096x32768, H200, 2026-11-22). 0.98 to 1.00 at K = 1024 to 2048 too, but compiling takes 2 s instead of
0.4 with eight blocks, and 10 s with sixteen: for who tunes. With two factors 1.00 to 1.01 of the time at the tiles that
are chosen, 0.98 to 1.05 at others; with none 1.07 at K = 512."""


def few_blocks(problem: Problem, schedule: Schedule, limit: int = WHOLE) -> bool:
    """Whether the K blocks of a tile are so few that they are walked without a loop, and it is worth it."""
    fewest, most = part_blocks(problem, schedule)
    if fewest != most or not 0 < most * slices(schedule) <= limit:
        return False
    return promoted_at_once(problem, schedule) and several_tiles(problem, schedule)


def several_tiles(problem: Problem, schedule: Schedule) -> bool:
    """Whether a cluster works on several tiles, one after the other."""
    clusters = clusters_of(problem, schedule.tile, schedule.cluster)
    return clusters > problem.target.at_once(math.prod(schedule.cluster))


def promoted_at_once(problem: Problem, schedule: Schedule) -> bool:
    """Whether each product of a whole tile is promoted behind it, with one factor for each sum: where walking its K
    blocks without a loop gains (WHOLE). Where nothing is promoted ptxas 13.0 injects a warpgroup.arrive (C7519)."""
    two = all(any(s.rows == 1 for s in side.promoted) for side in (problem.lhs, problem.rhs))
    whole = schedule.split == 1 and not problem.terms  # K blocks of several loops
    return problem.kind.warpgroup_sums and bool(schedule.promote) and whole and not two


def without_loop(problem: Problem, schedule: Schedule) -> bool:
    """Whether the K blocks of a tile are walked without a loop."""
    fewest, most = part_blocks(problem, schedule)
    return 1 < fewest == most == schedule.unroll and promoted_at_once(problem, schedule)


def usual_unroll(schedule: Schedule) -> int:
    """K blocks in one iteration, where their number is known: with several promotions each, so many fewer."""
    return max(1, UNROLL[schedule.warpgroups] // slices(schedule))


def in_a_loop(problem: Problem, schedule: Schedule) -> int:
    """K blocks in one iteration of a loop, where the schedule walks all of a tile's without one; 0 where it has one."""
    if not without_loop(problem, schedule):
        return 0
    whole, usual = part_blocks(problem, schedule)[0], usual_unroll(schedule)
    return usual if usual < whole else whole // 2


def no_early_wait(problem: Problem, promote: int) -> str:
    """Why the next stage is not waited for before a promotion, "" where it can be."""
    if problem.kind.loads_operands:
        return "looks ahead to the next stage, for which the loop waits before its last products anyway"
    return "" if promote else "looks ahead before each promotion, and with promote = 0 there is none"
