"""How often sums leave the tensor core."""

from __future__ import annotations

from scalec.passes.plan.promotion import promotions
from scalec.passes.plan.resources import deepest
from scalec.passes.problem.operand import PROMOTION_BLOCK
from scalec.passes.problem.types import Problem


def promotion(problem: Problem, depth: int = 0) -> int:
    """K elements that the tensor core sums by itself: a scale step, or as many as it has bits for; 0: all, as where
    there are no more than that. Those of a tile where parts that warps take out of tensor memory, of 2^i columns, would
    cut blocks of the result's scales. `depth`: K of a tile that is decided; of one that is less deep than others, the
    most that it can have."""
    long = problem.depth is None or problem.depth > PROMOTION_BLOCK
    uneven = problem.block_columns & (problem.block_columns - 1)
    if problem.has_scales or (problem.family.short_sums and long):
        usual = min(problem.constant_k, max(deepest(problem), depth))
    else:
        able = problem.kind.tensor_memory and not problem.family.whole_sums
        usual = deepest(problem) if able and uneven else 0
    return next((n for n in promotions(problem, depth) if n <= usual), usual) if depth else usual
