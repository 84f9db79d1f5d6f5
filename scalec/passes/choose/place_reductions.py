"""Where a reduction of a product is taken: within a tile, or in memory where tiles meet."""

from __future__ import annotations

from typing import Any

from scalec.errors import UnsupportedError
from scalec.ir.mlir import ir
from scalec.ir.schedule import Request
from scalec.passes.base import programs
from scalec.passes.choose import every_tile
from scalec.passes.choose.tiling import promotion
from scalec.passes.plan.resources import deepest
from scalec.passes.plan.tiles import must_swap, planned
from scalec.passes.problem.contraction import contractions
from scalec.passes.problem.read import read
from scalec.passes.problem.reduced import MEET
from scalec.passes.problem.types import Problem
from scalec.targets import Target


class PlaceReductions:
    """Notes on a program that its reductions are taken where tiles meet, though a tile could have all of the index
    that they run over: where no tile of that many columns can be, as a thread has no registers for them and none that
    share a row meet. A range that the program has is none of tiles that meet, so those stay within a tile.

        func.func @R(...) attributes {...}
    -->
        func.func @R(...) attributes {..., scale.meet}
    """

    name = "place-reductions"

    def run(self, module: ir.Module, target: Target) -> None:
        for function in programs(module):
            if contractions(function) and MEET not in function.attributes and _meets(function, target):
                function.attributes[MEET] = ir.UnitAttr.get()


def _meets(function: Any, target: Target) -> bool:
    problem = read(function, target)
    if problem.column_fold is None or any(r.window is not None for r in problem.results) or _has_tile(problem):
        return False
    function.attributes[MEET] = ir.UnitAttr.get()
    try:
        return read(function, target).column_fold is None
    except UnsupportedError:  # what tiles that meet do not do either: that no tile fits is the nearer reason
        return False
    finally:
        del function.attributes[MEET]


def _has_tile(problem: Problem) -> bool:
    """Whether the program has a tile at all, whatever the estimates say."""
    seen = problem.transposed() if must_swap(problem) else problem
    tiles = every_tile.tiles(seen, Request(swap=int(seen.swapped)), deepest(seen), promotion(seen))
    return any(not planned(seen, plan)[1] for plan in tiles)
