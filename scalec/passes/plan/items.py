"""What is to be done where tensors say it: the items that a warp posts, and which tiles they can be."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.ir.tile import ITEM_ALIGN, LANES
from scalec.passes.plan.converted import interleaves
from scalec.passes.plan.gather import gatherers
from scalec.passes.plan.warps import WARPS
from scalec.passes.problem.types import Problem

ITEMS = 4
"""Items that are posted ahead. Who copies is at most two tiles ahead of who stores results (a ring of stages, and
accumulators in tensor memory), and the next item is found meanwhile."""

ITEM_WARP = WARPS - 1
"""The producer warpgroup's warp that finds items: others issue copies, products, and copies of scales."""


def cut_warp(problem: Problem) -> int:
    """Likewise the one that changes K blocks that copies brought."""
    return ITEM_WARP - problem.queued


RANGE_OF_K = ("k0", "k", "k_low", "k_high")
"""Of an item with a range of K: the first element that is walked, how many are, and the range within."""


MOST_GROUPS = 4
"""Groups of a lane of that warp that it looks at together: of sequences, of which there may be thousands with a tile
each. It waits for memory once for all of them: 45 us in place of 75 for 4096 of up to 64 keys, with eight too. For 256
groups of products it makes no difference (H100, 2026-11-27)."""


def groups_of_lane(problem: Problem) -> int:
    """How many those are."""
    ragged = problem.ragged
    if ragged is None or problem.column_fold is None:
        return 1
    size = next((d.size for d in problem.outer if d.name == ragged.group), None)
    return MOST_GROUPS if size is None else min(MOST_GROUPS, max(1, -(-size // LANES)))


def range_of_k(problem: Problem) -> tuple[str, ...]:
    """What an item says of a range of K, by the names that Work has: where K blocks are wrapped (`Problem.wraps`), how
    many elements are multiplied, too."""
    return (*RANGE_OF_K, *("k_own",) * problem.wraps) if problem.range_of_k is not None else ()


def item_words(problem: Problem, schedule: Schedule) -> tuple[str, ...]:
    """What an item says: the tile's first row and column, where its rows or columns end if that may be within the tile,
    where those of a run of tiles do, a range of K, and an index for each of `outer` and each lookup."""
    ends: tuple[str, ...] = ("end",) if cut_along(problem, schedule) else ()
    ends += ("stop",) if schedule.stationary else ()
    if problem.ragged is not None and (problem.apart(problem.ragged.dim) or problem.reduces_ranges):
        ends = ("low", *ends)
    k = range_of_k(problem)
    return ("m0", "n0", *ends, *k, *(d.name for d in problem.outer), *(x.name for x in problem.constant_lookups))


def run_words(problem: Problem, schedule: Schedule) -> tuple[int, ...] | None:
    """Of items that are tiles of runs those words, by number, that tell runs apart: where a range begins and ends, its
    group says. None where tiles are dealt out one by one, or runs as a whole."""
    if schedule.run == 1 or schedule.stationary:
        return None
    same = {"m0"} | ({"low", "end"} if problem.ragged is not None else set())
    return tuple(i for i, name in enumerate(item_words(problem, schedule)) if name not in same)


def cuts_k(problem: Problem, depth: int) -> bool:
    """Whether a range of K may begin or end within a K block of so many elements; at the end of K copies make zeros of
    what is beyond, but of half a byte, of pages, and of scales where those of another group may follow."""
    domain, size = problem.range_of_k, problem.k.size
    if domain is None or problem.k_lookups:  # who copies rows of K leaves out those outside
        return False
    operands = (problem.lhs, problem.rhs)
    several = any(s.k_apart and s.within(depth) > 1 for x in operands for s in x.scales)
    return (
        domain.step % depth != 0
        or any((size or 0) * x.stored.bits % 8 for x in operands)
        or ((several or bool(problem.paged_k)) and (size is None or size % depth != 0))
    )


def free_warps(problem: Problem, schedule: Schedule) -> int:
    """How many warps of that warpgroup, the first ones, have no such role. Where threads copy rows, the next one hands
    their stages over."""
    return WARPS - problem.queued - changes_blocks(problem, schedule) - gatherers(problem)


def changes_blocks(problem: Problem, schedule: Schedule) -> bool:
    """Whether a warp changes K blocks that copies brought, before they are multiplied."""
    return cuts_k(problem, schedule.tile[2]) or interleaves(problem, schedule)


def item_bytes(problem: Problem, schedule: Schedule) -> int:
    """Of an item in shared memory."""
    return -(-4 * len(item_words(problem, schedule)) // ITEM_ALIGN) * ITEM_ALIGN


def cut_along(problem: Problem, schedule: Schedule) -> str:
    """The dimension of which a tile may have fewer indices than it has room for, though more follow: that of a range,
    or of blocks of lookups of which tiles of a cluster are no divisor; "" where there is none."""
    if problem.ragged is not None:
        return problem.ragged.dim
    dim, block = problem.blocks
    if not dim:
        return ""
    axis = int(dim == problem.n.name)
    cluster = max(schedule.cluster, (schedule.cta_group, 1))
    extent = schedule.tile[axis] // (problem.panes if axis else 1)
    return dim if block % (extent * cluster[axis]) else ""
