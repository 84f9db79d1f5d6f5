"""How the K blocks of a tile are dealt out to its parts, where K is split."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import prod

from scalec.ir.schedule import Schedule
from scalec.meetings import ALONE
from scalec.passes.plan.shared_blocks import together
from scalec.passes.problem.products import in_order
from scalec.passes.problem.types import ASSUMED, Problem


def k_blocks(problem: Problem, schedule: Schedule) -> int:
    """K blocks of a whole tile; 0 where it is not known how many."""
    if problem.depth is None:
        return 0
    return sum(_own_blocks(x, schedule) for x in problem.products)


def _own_blocks(product: Problem, schedule: Schedule) -> int:
    return product.k.tiles(schedule.tile[2], 0) * prod(d.tiles(1, 0) for d in product.summed)


def unknown(problem: Problem) -> list[str]:
    """The dimensions of K whose sizes are not known."""
    return list(dict.fromkeys(d.name for x in problem.products for d in (*x.summed, x.k) if d.size is None))


def not_known(problem: Problem) -> str:
    """That they are not known."""
    if problem.range_of_k is not None:
        return f"{problem.k.name} has a range"
    names = unknown(problem)
    return f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} not known"


def sums(problem: Problem) -> str:
    """The dimensions of K with their sizes, where these are known: for messages."""
    return " and ".join(" by ".join(f"{d.name} = {d.size}" for d in (*x.summed, x.k)) for x in problem.products)


def parts(problem: Problem, schedule: Schedule) -> list[range]:
    """The K blocks of each part: part p begins at p * blocks / split, rounded down. One part where K is not split."""
    blocks, split = k_blocks(problem, schedule), schedule.split
    return [range(low, high) for low, high in pairwise(p * blocks // split for p in range(split + 1))]


def part_blocks(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """The fewest and the most K blocks of a part: at most one apart; (0, 0) where K is not known."""
    lengths = [len(p) for p in parts(problem, schedule)]
    return min(lengths), max(lengths)


def segments(problem: Problem, schedule: Schedule) -> list[range]:
    """The K blocks of each part of a tile's K that is summed by itself (`Problem.segments`), where K is known."""
    own, last = [_own_blocks(problem.products[x], schedule) for x in in_order(problem)], problem.segments - 1
    ends = [0, *accumulate((*own[:last], sum(own[last:])))]
    return [range(low, high) for low, high in pairwise(ends)]


def sharers(problem: Problem, schedule: Schedule) -> list[range]:
    """The parts that have K blocks of each of these."""
    dealt, found = parts(problem, schedule), list[range]()
    for blocks in segments(problem, schedule):
        some = [p for p, x in enumerate(dealt) if x.start < blocks.stop and blocks.start < x.stop]
        found.append(range(some[0], some[-1] + 1))
    return found


def stored_parts(problem: Problem, schedule: Schedule) -> int:
    """Sums of a tile that the workspace has room for: part p's of segment s are number p + s. K blocks of parts and of
    segments are in one order, so no two have one number."""
    return schedule.split + problem.segments - 1


def meets_by_steps(problem: Problem) -> bool:
    """Whether more parts than meetings.ALONE meet by steps: sums that go through one fragment of a thread."""
    return not (problem.kind.tensor_memory or problem.terms)


def no_unroll(problem: Problem, schedule: Schedule) -> str:
    """Why the loop over K, or over a part of it, cannot be unrolled as decided, "" where it can.

    A remainder's loop might not run, and accumulators would come from two places; and the blocks of an iteration over a
    part lie in one half of a window of scales.
    """
    unroll = schedule.unroll
    if unroll > 1 and problem.depth is None and not problem.kind.tensor_memory:
        return not_known(problem)
    lengths = sorted({len(p) for p in parts(problem, schedule)})
    if unroll == 1 or schedule.split == 1:
        return ""
    if problem.terms:
        return "parts may have K blocks of several products, of each of which something is computed by itself"
    if len(lengths) == 1 and lengths[0] % unroll == 0:
        return ""
    return f"parts of {problem.k.name} have {' or '.join(map(str, lengths))} K blocks"


COMPUTED_BEFORE = "something is computed of one product's sums before others are added: each's meet by themselves"


def cluster_ctas(cluster: tuple[int, int], split: int, parts: str) -> int:
    """CTAs of a cluster: those that share copies, and where the parts of K meet in a cluster, those of all parts."""
    return prod(cluster) * (split if parts == "cluster" else 1)


def clusters_of(problem: Problem, tile: tuple[int, ...], cluster: tuple[int, int]) -> int:
    """Clusters' worth of tiles of a launch: of M by N, as often as the kernel walks these."""
    pairs = zip((problem.m, problem.n), tile, cluster, strict=False)
    return problem.walks() * prod(-(-d.tiles(extent, ASSUMED) // along) for d, extent, along in pairs)


def at_once(problem: Problem, schedule: Schedule) -> bool:
    """Whether the clusters of all tiles, or of their parts, run at once."""
    clusters = clusters_of(problem, schedule.tile, schedule.cluster)
    size = cluster_ctas(schedule.cluster, schedule.split, schedule.parts)
    return clusters * (1 if schedule.parts == "cluster" else schedule.split) <= problem.target.at_once(size)


def no_meeting(problem: Problem, cluster: tuple[int, int], split: int, scheduler: str) -> str:
    """Why the parts of K cannot meet in a cluster, "" where they can; room in shared memory apart."""
    target = problem.target
    if split == 1:
        return "split = 1: there are no parts"
    if problem.reductions:
        return f"{problem.reductions[0].name} is a reduction over tiles, of which each is finished by one CTA"
    if problem.kind.tensor_memory:
        return f"{target.name} sums in tensor memory, from where parts do not meet in a cluster yet"
    if problem.terms:
        return COMPUTED_BEFORE
    ctas = cluster_ctas(cluster, split, "cluster")
    if ctas > target.max_cluster:
        return f"{split} parts make clusters of {ctas} CTAs, of at most {target.max_cluster} on {target.name}"
    if scheduler == "dynamic":
        return "scheduler=dynamic: whether another tile follows, and somebody must be told of room, shows too late"
    return ""


COLUMNS = 8
"""Of a tile, that a thread has four sums of a wave's rows of: VECTOR of scalec/lowering/common/parts.py."""


def part_columns(columns: int, split: int) -> int:
    """Columns of a tile's that each CTA adds (`parts=columns`): equal shares, for no more than as many as there are."""
    return next(x for x in range(COLUMNS, columns + 1, COLUMNS) if columns % x == 0 and columns // x <= split)


def no_columns(problem: Problem, schedule: Schedule) -> str:
    """Why CTAs cannot add some columns each of the parts of K, "" where they can."""
    if schedule.split == 1:
        return "split = 1: there are no parts"
    if problem.kind.tensor_memory:
        return f"{problem.target.name} sums in tensor memory, which sums leave some columns at a time already"
    if schedule.warps[1] > 1:
        return f"warps = {schedule.warps[0]}x{schedule.warps[1]} share a tile's columns"
    if problem.terms:
        return COMPUTED_BEFORE
    if problem.reductions:
        return f"{problem.reductions[0].name} is a reduction over tiles, of which each is finished by one CTA"
    if problem.panes > 1 or problem.column_fold is not None:
        return f"{problem.names} is computed of several columns of a tile"
    whole = (r.name for r in problem.results if r.scale is not None or r.chance is not None or r.transformed)
    if of := next(whole, ""):
        return f"{of} is transformed, or rounded, by more columns than a CTA adds"
    if schedule.epilogue == "turned":
        return "epilogue=turned stores whole tiles"
    if schedule.scheduler != "static":
        return f"scheduler={schedule.scheduler}: whether all parts have begun shows where CTAs know their tiles"
    return ""


def no_parts(problem: Problem) -> str:
    """Why K cannot be split, whatever its size, "" where it can."""
    return "what there is to do is read from memory" if problem.queued else ""


def no_memory(problem: Problem) -> str:
    """Why the parts of K cannot meet in memory, "" where they can: who comes last finishes a tile there, and of the
    tiles of one cluster that are CTAs of several. In a cluster those with part 0 finish all."""
    reason = together(problem)
    return f"{reason}, and parts that meet in memory are finished by CTAs of several clusters" if reason else ""


FEWEST_BLOCKS = 4
"""K blocks of a part, at the least: fewer do not fill the ring of stages before the sums are exchanged."""


def split_of(problem: Problem, schedule: Schedule) -> int:
    """The parts that the K of a tile is split into."""
    if problem.depth is None or no_parts(problem) or no_memory(problem):
        return 1
    if schedule.consumers == "pingpong" or schedule.adds == "loaded" or schedule.inputs:
        return 1
    clusters = clusters_of(problem, schedule.tile, schedule.cluster)
    most = min(ALONE, problem.target.at_once(prod(schedule.cluster)) // clusters)
    splits = [2**i for i in range(1, most.bit_length()) if _fits(problem, schedule, 2**i)] if most > 1 else []
    return min([1, *splits], key=lambda split: moved(problem, schedule, split))


def moved(problem: Problem, schedule: Schedule, split: int) -> int:
    """Bytes that the last CTA of a tile copies and exchanges: its part of A and B, its sums and everyone's, in f32."""
    (m, n, _), k = schedule.tile, problem.depth or 0
    copied = m * problem.lhs.stored.bytes(k) + n * problem.rhs.stored.bytes(k)
    return copied // split + (4 * m * n * (split + 1) if split > 1 else 0)


def _fits(problem: Problem, schedule: Schedule, split: int) -> bool:
    """Whether the parts are long enough, and of lengths that a decided `unroll` divides."""
    parted = schedule.with_fields(split=split)
    return part_blocks(problem, parted)[0] >= FEWEST_BLOCKS and not no_unroll(problem, parted)


FEWEST_STAGES = 4
"""Of the ring, beside the room for the sums of parts: else these meet in memory."""
