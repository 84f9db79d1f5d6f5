"""The order in which tiles are worked on, so that neighbours in time share operands in L2."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
from scalec.passes.base import decide
from scalec.passes.problem import ASSUMED, Problem
from scalec.targets import Target

GROUP = 8
"""Cluster tiles along N whose B stays in L2 while M is walked: what the fastest kernels on H200 (2026-11-21) had."""


class TileOrder:
    """Decides `order` and `group`: M is walked within a group of N tiles.

    The group is the largest of 4 to 9 that divides the cluster tiles along N, so that no group is short; 8 where
    none does.

        #scale.schedule<{tile = array<i64: 256, 128, 128>, cluster = array<i64: 1, 2>, ...}>    (n = 7168)
    -->
        #scale.schedule<{..., order = "n", group = 7 : i64}>
    """

    name = "tile-order"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(module, target, self._choose, needs=("tile", "cluster"))

    @staticmethod
    def _choose(problem: Problem, schedule: Schedule) -> Schedule:
        assert schedule.tile is not None
        assert schedule.cluster is not None
        order = schedule.order or "n"
        axis = 1 if order == "n" else 0
        dim = problem.n if order == "n" else problem.m
        if dim.largest is None:
            return schedule.with_fields(order=order, group=GROUP)
        tiles = -(-dim.tiles(schedule.tile[axis], ASSUMED) // schedule.cluster[axis])
        return schedule.with_fields(order=order, group=group_of(tiles))


def group_of(tiles: int) -> int:
    """The group for `tiles` cluster tiles along the grouped dimension."""
    return next((g for g in range(9, 3, -1) if tiles % g == 0), GROUP)
