"""Blocks of a result's scales that no tile has: CTAs of a cluster, along the columns, find their scales together."""

from __future__ import annotations

from collections.abc import Iterator

from scalec.ir.schedule import Schedule
from scalec.passes.problem.types import Problem
from scalec.targets import MAX_BOX

MEETINGS = 2
"""Places that tiles take turns with. Whoever sends for a tile has read what came for the one before the last: all have
sent for the last one since, which they do behind their own reading."""


def shares_block(problem: Problem) -> bool:
    """Whether CTAs of a cluster find the scales of a lone result together."""
    scale = problem.result.scale
    return scale is not None and scale.ctas > 1


def together(problem: Problem) -> str:
    """What CTAs of a cluster do together at the end of each tile, "" where each finishes its own."""
    shared = next((r.scale for r in problem.results if r.scale is not None and r.scale.ctas > 1), None)
    return f"{shared.ctas} CTAs find {shared.name} together" if shared is not None else ""


def sharing(problem: Problem, whole: bool = True) -> Iterator[tuple[Problem, tuple[int, int]]]:
    """The problem as clusters see it whose CTAs share blocks that no tile has, and the clusters, the smallest first;
    none where tiles may have whole blocks, unless it turned out that none has (`whole` False)."""
    ctas = 2
    while ctas <= problem.target.max_cluster:
        shared = problem.shared(ctas, MAX_BOX if whole else 1)
        if shared is not problem:
            yield shared, (1, ctas)
        ctas *= 2


def met_bytes(problem: Problem, schedule: Schedule, along_n: int) -> int:
    """Of a tile of a lone result whose scales CTAs find together: an f32 for each row, of each who has columns of it
    (`along_n` in a CTA)."""
    scale = problem.result.scale
    return 4 * schedule.tile[0] * along_n * (scale.ctas if scale is not None else 1)
