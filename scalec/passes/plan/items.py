"""What is to be done where tensors say it: the items that a warp posts, and which tiles they can be."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.ir.tile import ITEM_ALIGN
from scalec.passes.plan.warps import WARPS
from scalec.passes.problem.types import Problem

ITEMS = 4
"""Items that are posted ahead. Who copies is at most two tiles ahead of who stores results (a ring of stages, and
accumulators in tensor memory), and the next item is found meanwhile."""

ITEM_WARP = WARPS - 1
"""The producer warpgroup's warp that finds items: others issue copies, products, and copies of scales."""

RANGE_OF_K = ("k0", "k", "k_low", "k_high")
"""Of an item with a range of K: the first element that is walked, how many are, and the range within."""


def item_words(problem: Problem) -> tuple[str, ...]:
    """What an item says: the tile's first row and column, where its rows or columns end if there is a range of these,
    a range of K, and an index for each of `outer` and each lookup."""
    ends = ("end",) if problem.ragged is not None else ()
    k = RANGE_OF_K if problem.range_of_k is not None else ()
    return ("m0", "n0", *ends, *k, *(d.name for d in problem.outer), *(x.name for x in problem.constant_lookups))


def item_bytes(problem: Problem) -> int:
    """Of an item in shared memory."""
    return -(-4 * len(item_words(problem)) // ITEM_ALIGN) * ITEM_ALIGN


def cuts_lookup(problem: Problem, schedule: Schedule) -> str:
    """Why an index that is read from memory may differ within the tiles of a cluster, "" where it cannot."""
    along = {problem.m.name: 0, problem.n.name: 1}
    cluster = max(schedule.cluster, (schedule.cta_group, 1))
    for lookup in problem.constant_lookups:
        if lookup.dim not in along:
            continue
        axis = along[lookup.dim]
        extent = schedule.tile[axis] * cluster[axis]
        if lookup.block % extent:
            what, of = "rows" if axis == 0 else "columns", "tile" if cluster[axis] == 1 else "cluster's tiles"
            return f"{extent} {what} of a {of}, and {lookup.name} is one index for each {lookup.block} of {lookup.dim}"
    return ""
