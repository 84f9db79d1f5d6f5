"""How the K blocks of a tile are dealt out to its parts, where K is split."""

from __future__ import annotations

from itertools import pairwise

from scalec.ir.schedule import Schedule
from scalec.passes.problem import Problem


def k_blocks(problem: Problem, schedule: Schedule) -> int:
    """K blocks of a whole tile; 0 where K is not known."""
    assert schedule.tile is not None
    return problem.k.tiles(schedule.tile[2], 0)


def parts(problem: Problem, schedule: Schedule) -> list[range]:
    """The K blocks of each part: part p begins at p * blocks / split, rounded down. One part where K is not split."""
    blocks, split = k_blocks(problem, schedule), schedule.split or 1
    return [range(low, high) for low, high in pairwise(p * blocks // split for p in range(split + 1))]


def part_blocks(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """The fewest and the most K blocks of a part: at most one apart; (0, 0) where K is not known."""
    lengths = [len(p) for p in parts(problem, schedule)]
    return min(lengths), max(lengths)
