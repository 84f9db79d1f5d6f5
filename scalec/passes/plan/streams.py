"""Sums in short ranges of K that are added to f32 results: what these take of memory is what such a kernel takes."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from scalec.ir.schedule import Request, Schedule
from scalec.passes.plan.draft import draft
from scalec.passes.plan.items import cuts_k
from scalec.passes.plan.results import no_loaded_result
from scalec.passes.plan.swizzle import no_bulk_epilogue
from scalec.passes.problem.types import Problem

SHORT = {"wgmma": 2432}
"""K of a range, in the mean, up to which results take about as long as products: a tile of 128x256 is read and written
once for 16 K blocks. 16 groups of some 2048 took 0.90 and 0.98 of the time, 8 of 4096 0.99 and 1.01 (H100, 2026-11-28,
docs/notes/groups.md). By kinds of kernels that were measured."""

TILE = 128, 256, 128
STREAMED = Request(tile=TILE, cluster=(1, 1), adds="loaded")
"""What such a program has: the tile that asks L2 for the least, results that are loaded while a tile is multiplied (L2
adds at 1.1 TB/s), and CTAs that do not wait for each other's stores."""

TILES = 8
"""Tiles of an SM, from which on it has so many: with fewer, it matters how evenly they are shared out."""

BITS = 8
"""Of the operands of which that was measured."""

PART = 0.5
"""Of what a tile takes, the time within which the first ones begin: 0.90 of the time; with 0.4 of it 0.90, 0.8 0.89,
1.5 0.92, and where all begin at once 0.94 (same run)."""


def mean_k(problem: Problem) -> float | None:
    """Elements of a range of K, in the mean; None where there is none, or that is not known."""
    domain = problem.range_of_k
    if domain is None:
        return None
    groups = next((d.size for d in problem.outer if d.name == domain.group), None)
    if domain.typical:
        return domain.typical
    return problem.k.size / groups if problem.k.size and groups else None


def streams(problem: Problem, given: Request) -> bool:
    """Whether a program, of whose schedule so much is decided, has what STREAMED says."""
    mean, sides, (rows, columns, depth) = mean_k(problem), (problem.lhs, problem.rhs), TILE
    if mean is None or mean > SHORT.get(problem.kind.name, 0) or problem.k_lookups or not problem.has_scales:
        return False
    if any(x.stored.bits != BITS or x.converted or x.turned for x in sides) or cuts_k(problem, depth):
        return False
    if problem.panes > 1 or problem.segments > 1:
        return False
    if len(problem.results) > 1 or problem.reductions or problem.result.added is None or problem.swapped:
        return False
    sizes = [d.size for d in (*problem.outer, problem.m, problem.n)]
    if any(size is None for size in sizes) or (problem.n.size or 0) % columns:
        return False
    tiles = prod(size or 0 for size in sizes) / (rows * columns)
    if tiles < TILES * problem.target.rates.sms or replace(given, invariant=None).decided():
        return False
    plan = draft(problem, given.with_fields(**STREAMED.decided())).with_fields(epilogue="bulk")
    return not no_bulk_epilogue(problem, plan) and not no_loaded_result(problem, plan)


def stagger(problem: Problem, schedule: Schedule) -> int:
    """Cycles by which a cluster begins later than the one before it, so that their results come to memory by turns: all
    would else multiply at once, and then all wait for memory. 0 where all begin at once."""
    mean = mean_k(problem)
    if mean is None or schedule.adds != "loaded":
        return 0
    rates, (rows, columns, _) = problem.target.rates, schedule.tile
    products = 2 * rows * columns * mean / rates.flop_per_clock(problem.lhs.element.name, problem.rhs.element.name)
    moved = 2 * 4 * rows * columns * rates.sms / rates.memory * rates.clock
    return round(PART * (products + moved) * prod(schedule.cluster) / rates.sms)
