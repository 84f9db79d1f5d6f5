"""The order in which tiles are worked on, so that neighbours in time share operands in L2."""

from __future__ import annotations

from math import prod

from scalec.ir.schedule import Request, Schedule
from scalec.passes.base import Decision
from scalec.passes.plan.draft import draft
from scalec.passes.plan.joined_folds import held_columns
from scalec.passes.plan.parts import at_once
from scalec.passes.plan.turns import no_run
from scalec.passes.problem.types import ASSUMED, Problem

GROUP = 8
"""Cluster tiles along N whose B stays in L2 while M is walked: what the fastest kernels on H200 (2026-11-21) had."""

ORDERS = ("n", "m")

RUN = 16
"""Tiles that a cluster takes one after the other where an index is reduced within a tile: what is read for each column,
a quarter of as many registers as a tile is wide, takes L1 as long as the tensor core a tile."""

DEALT_RUN = 4
"""Likewise where a queue deals out the tiles of ranges: clusters end within four tiles of each other."""

DEALT_COLUMNS = 64
"""Of each of which a lane reads something, where tiles are dealt out in runs: of 64 W takes 130 of a tile's 445 stalls,
of 16 as many as it takes to know a run (sm_100a, ptxas 13.0, 2026-11-28)."""

STATIONARY_RUN = 64
"""Likewise where B's tile stays: 0.93 to 1.01 of the time with 16, 0.97 in the mean (MQA logits of eight sizes and
windows, H100, 2026-11-27)."""

STATIONARY_BAND = 1
"""Likewise: runs of the same columns follow each other, so that clusters have of all rows. Where windows end later and
later, or all half way, clusters have at most 1.18 of the mean from 1024 rows of the result on, by what a simulation
counts; in bands of 8, runs that begin at the same rows may all be one cluster's, and that has up to 2.2."""


class TileOrder(Decision):
    """Decides `order` and `band`: M is walked within a band of N tiles, or the other way round where that reads less.

    The band is the largest of 4 to 9 that divides the cluster tiles along N (or M), so that no band is short; 8 where
    none does. What is walked is read again in each band, unless L2 keeps it beside the band's own operand.

        #scale.schedule<{tile = array<i64: 256, 128, 128>, cluster = array<i64: 1, 2>, ...}>    (n = 7168)
    -->
        #scale.schedule<{..., order = "n", band = 7 : i64}>
    """

    name = "tile-order"
    needs = ("tile", "cluster")

    def choose(self, problem: Problem, given: Request) -> Request:
        schedule = draft(problem, given)
        order = given.order or (ORDERS[0] if schedule.stationary else _order(problem, schedule))
        keeps = problem.column_fold is not None and not no_run(problem, schedule)
        run = STATIONARY_RUN if schedule.stationary else RUN
        if schedule.scheduler == "queue" and not schedule.stationary:
            run = DEALT_RUN if held_columns(problem, schedule) >= DEALT_COLUMNS else 1
        return given.with_fields(order=order, band=_band(problem, schedule, order), run=run if keeps else 1)


def _order(problem: Problem, schedule: Schedule) -> str:
    """The first where all tiles run at once, a size is not known, or both read as much."""
    summed = [d for x in problem.products for d in (x.k, *x.summed)]
    sizes = [d.largest for d in (problem.m, problem.n, *summed)]
    if at_once(problem, schedule) or None in sizes:
        return ORDERS[0]
    return min(ORDERS, key=lambda order: _read(problem, schedule, order))


def _blocks(problem: Problem, schedule: Schedule, order: str) -> int:
    """Cluster tiles along the banded dimension."""
    dim, axis = (problem.n, 1) if order == "n" else (problem.m, 0)
    return -(-dim.tiles(schedule.tile[axis], ASSUMED) // schedule.cluster[axis])


def _band(problem: Problem, schedule: Schedule, order: str) -> int:
    if schedule.stationary:
        return STATIONARY_BAND
    if (problem.n if order == "n" else problem.m).largest is None:
        return GROUP
    return group_of(_blocks(problem, schedule, order))


def _read(problem: Problem, schedule: Schedule, order: str) -> float:
    """Bytes of both operands that cross from device memory."""
    k = sum(prod(d.tiles(1, ASSUMED) for d in (x.k, *x.summed)) for x in problem.products)
    of = {"m": problem.m.tiles(1, ASSUMED) * problem.lhs.stored.bits * k / 8}
    of["n"] = problem.n.tiles(1, ASSUMED) * problem.rhs.stored.bits * k / 8
    walked, banded = of["m" if order == "n" else "n"], of[order]
    blocks, band = _blocks(problem, schedule, order), _band(problem, schedule, order)
    stays = walked + banded * min(1, band / blocks) <= problem.target.rates.l2_kept
    return banded + walked * (1 if stays else -(-blocks // band))


def group_of(tiles: int) -> int:
    """The band for `tiles` cluster tiles along the banded dimension."""
    return next((g for g in range(9, 3, -1) if tiles % g == 0), GROUP)
