"""Where a reduction of a product is taken: within a tile, or in memory where tiles meet."""

from __future__ import annotations

from typing import Any

from scalec.errors import UnsupportedError
from scalec.ir.mlir import ir
from scalec.ir.schedule import Request
from scalec.passes.base import programs
from scalec.passes.choose import every_tile
from scalec.passes.choose.promotion import promotion
from scalec.passes.plan.resources import deepest
from scalec.passes.plan.tiles import must_swap, planned
from scalec.passes.problem.contraction import contractions
from scalec.passes.problem.read import read
from scalec.passes.problem.reduced import MEET
from scalec.passes.problem.types import Problem
from scalec.targets import Target


class PlaceReductions:
    """Notes on a program that its reductions are taken where tiles meet, though they are such that a tile could have
    all of the index that they run over: where that is longer than a tile or of unknown size, and where no tile of that
    many columns can be, as a thread has no registers for them and none that share a row meet.

        func.func @R(...) attributes {...}
    -->
        func.func @R(...) attributes {..., scale.meet}
    """

    name = "place-reductions"

    def __init__(self, crowded: bool = False) -> None:
        """`crowded`: ptxas has refused the tiles that have all of the index."""
        self.crowded = crowded

    def run(self, module: ir.Module, target: Target) -> None:
        for function in programs(module):
            if contractions(function) and MEET not in function.attributes and _meets(function, target, self.crowded):
                function.attributes[MEET] = ir.UnitAttr.get()


def _meets(function: Any, target: Target, crowded: bool) -> bool:
    if not any(op.operation.name == "scale.reduce" for op in function.body.blocks[0].operations):
        return False
    try:
        problem = read(function, target)
        if problem.column_fold is None or (_has_tile(problem) and not crowded):
            return False
    except UnsupportedError:  # which a later pass says again, unless tiles that meet have a way
        pass
    function.attributes[MEET] = ir.UnitAttr.get()
    try:
        return bool(read(function, target).reductions)
    except UnsupportedError:  # what tiles that meet do not do either: why no tile has it is the nearer reason
        return False
    finally:
        del function.attributes[MEET]


def _has_tile(problem: Problem) -> bool:
    """Whether the program has a tile at all, whatever the estimates say."""
    seen = problem.transposed() if must_swap(problem) else problem
    tiles = every_tile.tiles(seen, Request(swap=int(seen.swapped)), deepest(seen), promotion(seen))
    return any(not planned(seen, plan)[1] for plan in tiles)
