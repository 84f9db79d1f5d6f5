"""The schedules among which a launch's is chosen, where the kind of kernel has been measured."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from scalec.ir.schedule import MAX_SPLIT, Request, Schedule, Value
from scalec.ir.tile_cut import LINE
from scalec.model.cost import Costs, Load, costs_of, seconds
from scalec.passes.plan.converted import no_registers
from scalec.passes.plan.draft import draft
from scalec.passes.plan.gather import no_shared_gather
from scalec.passes.plan.mma_n import mma_n_of, no_mma_n
from scalec.passes.plan.parts import (
    FEWEST_BLOCKS,
    FEWEST_STAGES,
    at_once,
    k_blocks,
    meets_by_steps,
    no_columns,
    no_meeting,
    no_memory,
    no_parts,
    no_unroll,
)
from scalec.passes.plan.promotion import promotions
from scalec.passes.plan.resources import deepest, part_rooms
from scalec.passes.plan.shared_memory import stages_that_fit
from scalec.passes.plan.stationary import no_stationary
from scalec.passes.plan.swizzle import no_deep_rows
from scalec.passes.plan.tiles import keeps_sides, misfit, must_swap, no_swap
from scalec.passes.plan.turns import no_pingpong
from scalec.passes.plan.windows import WINDOW
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.types import ASSUMED, Problem

ROWS = (64, 128, 192, 256)
"""Of tiles: one to three warpgroups of one wave, or two of two waves."""

COLUMNS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256)
"""Of tiles: multiples of 16, so that bf16 results are staged whole swizzle atoms wide. 144 was the fastest at 2 of 737
shapes, 176 at none: with eleven factors, ptxas 13.0 spilled it wherever K was split (H200, 2026-11-21)."""

FEWEST_COLUMNS = 8
"""Of tiles of a transposed problem that so many columns cover: 64x8 took 0.935 to 0.994 of the time of 64x16 at 1, 4
and 8 rows (H200, 2026-11-22; docs/notes/tuning.md)."""

BETWEEN = (24, 40, 56)
"""Of tiles too: where the lowest tile covers M and M is more than half of it, stored from registers, as N more often
has as many tiles as there are SMs. At 64 rows 64x40 took 0.92 of the time of 64x80 in two parts (5120x8192), 64x24 0.94
of 64x32, transposed (3072x4096), and 64x56 1.03 of 64x64 in clusters of four (7168x16384; H200, 2026-11-22). Of
transposed results of up to 64 rows: 24 and 40 rows took 0.94 and 0.95 of the time of wider or narrower tiles whose
results were stored from registers (77 programs, 2026-11-23). Rows of A beyond M, which copies fill with zeros, take
three nanoseconds each a K block: at 16 rows such tiles took 1.3 to 2.8 of the time of transposed ones."""

BY_GOES = ((128, 256),)
"""Tiles whose columns are multiplied in several goes (`mma_n`) where sums are promoted, as threads have no registers
for the partial sums of all at once: 128x256 in clusters of 2x1 took 0.97 to 1.01 of the time of the fastest other at
eight sizes. 128x224, 192x144, 192x160, 192x176 and 192x192 took 1.04 to 1.5, even where they fill the last wave
(192x176, 4096x2112x7168: 1.04), so they are not looked at (H200, 2026-11-22). Where contractions share a tile's
columns, tiles of fewer rows are multiplied so too: with results in blocks of 128 there is no other of 64 rows."""

SPLITS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
"""Parts of K: of 737 shapes one was the fastest with 8, none with 12 or 16."""

MORE_SPLITS, LONG = (20, 24, 32), 64
"""Parts of K beyond those, where each still has so many K blocks: of long sums, as over batches, to few results. With
f32 results of bf16 and b = 4096 of 128x384x128 and 384x128x384 predicted to take 0.97 and 0.91 of the time; no dense
program that was measured is as long."""

BY_STEPS = 64
"""Parts likewise that meet by steps (meetings), where two large tiles are all of the result, so that they fill the
GPU at once and share copies. With b = 8192, 128x192, 128x256 and 192x128 so took 0.81, 0.75 and 0.77 of the time of the
fastest with up to 32 parts before; without shared copies 192x128 took 1.15 times as long (H200, 2026-11-24)."""

CLUSTERS = ((1, 1), (1, 2), (2, 1))
"""CTAs that share copies, in pairs."""

LARGER = ((1, 4), (4, 1))
"""Where all tiles run at once: else they leave more SMs idle than they save copies."""

SWAP = 192
"""Rows up to which the transposed result is considered."""

SWAP_TOGETHER = 32
"""Rows up to which it is where warps then find scales of the result together: blocks of 128 took 0.81 to 0.88 of the
time of the other way at 1 and 16 rows of 7168x2048, 1.03 to 1.07 at 64 and 128 (H200, 2026-11-22)."""

OVERFULL = 2
"""Waves up to which K is split: the parts of more tiles would not begin together."""


PAIRED = 2
"""Parts that meet in a cluster in any number of waves, of contractions side by side whose rows are one tile's: waves
are fuller then, and tiles wider. Gates of 64 rows of 2 x 18432, k = 7168: 64x192 in pairs took 0.98 of the time of
64x192 in clusters of 1x2, 0.93 of 1x1; of results in blocks of 128, 64x128 in clusters of 1x2 and pairs 0.955 of 64x64
in clusters of 1x4. Three parts took 1.04 to 1.09 of two, parts in memory 1.17 (H200, 2026-11-29)."""


Plan = tuple[dict[str, Value], Schedule]
"""What a schedule decides beyond what is given, and a draft of it."""


def plans(problem: Problem, given: Request, tile_k: int, promote: int, larger: bool = False) -> Iterator[Plan]:
    """The schedules with swap, tile, cluster, cta_group, split and promote decided, and `parts` where K is split, that
    agree with what is `given`.

    Args:
        problem: as the program states it, or transposed if that was decided.
        given: what is decided; its tile is not.
        tile_k: K of a tile.
        promote: K elements that are promoted at a time.
        larger: whether tiles come too that are larger than one that covers a dimension.
    """
    for swap in _ways(problem, given):
        seen = problem.transposed() if swap and not problem.swapped else problem
        m, n = (d.tiles(1, ASSUMED) for d in (seen.m, seen.n))
        longest = seen.longest(seen.m, m), seen.longest(seen.n, n)
        columns = COLUMNS
        if swap and n <= FEWEST_COLUMNS:
            columns = (FEWEST_COLUMNS, *columns)
        elif n <= ROWS[0] if swap else ROWS[0] // 2 < m <= ROWS[0]:
            columns = tuple(sorted((*columns, *BETWEEN)))
        for bm, bn in product(ROWS, columns):
            if not larger and (_too_large(bm, longest[0], ROWS) or _too_large(bn, longest[1], columns)):
                continue
            for tile in _ways_to_convert(seen, given, {"swap": swap, "cta_group": 1}, (bm, bn, tile_k), promote):
                own = (seen.in_addends if tile.get("convert") == "addends" else None) or seen
                yield from _of_tile(own, given, tile, (bm, bn), (-(-m // bm), -(-n // bn)))


DEEPER = (1, 2, 4)
"""Times the K of a tile: of one whose A is converted in registers, which has so few bytes that with eight stages less
is on its way than memory takes to answer."""

NARROW, BYTE = 4, 8
"""Bits of an element that registers convert where nothing else is asked for: of any, and beside an operand that is
multiplied as it is. e4m3 that became bf16 took 0.53 to 1.00 of shared memory's time in 35 of 45 programs and sizes of 1
to 4096 rows, in the others, most where its rows were the few ones, 1.01 to 1.33 (H200, 2026-11-30)."""

FEW_COLUMNS = 32
"""Of a tile, up to which elements of more bits than NARROW have none that is deeper. e4m3 took 0.87 to 0.96 of the time
with K blocks of 64 where tiles had 8 and 16 columns, 1.12 to 1.27 where they had 64 (ibid.)."""


def _ways_to_convert(
    problem: Problem, given: Request, fields: dict[str, Value], tile: tuple[int, int, int], promote: int
) -> Iterator[dict[str, Value]]:
    """The fields of a tile, with `convert` where an operand is, and a deeper one where that may be."""
    if not problem.converts:
        yield {**fields, "tile": tile, "promote": promote}
        return
    where = given.convert or ("shared" if given.converters else None)
    if where in (None, "addends"):
        yield from _in_addends(problem if where else problem.in_addends, given, fields, tile)
    if where == "addends":
        return
    if not (where == "registers" or problem.lhs.in_fragments or (fields["swap"] and _turned_alone(problem, given))):
        yield {**fields, "tile": tile, "promote": promote, "convert": "shared"}
    a = problem.lhs
    alone = a.stored.bits <= (NARROW if problem.rhs.converted else BYTE) or a.transformed
    for times in DEEPER if where == "registers" or (where is None and alone) else ():
        deep = (*tile[:2], times * tile[2])
        if times > 1 and NARROW < a.stored.bits <= BYTE and tile[1] <= FEW_COLUMNS:
            continue
        if times > 1 and a.stored.bits * deep[2] > 8 * LINE:
            continue  # rows of two lines: prenorm took 2.0 to 2.5 times as long, e4m3 1.9 (H200, 2026-11-29 and -30)
        most = min(problem.constant_k, deep[2]) if promote and problem.has_scales else promote
        made: dict[str, Value] = {**fields, "tile": deep, "promote": most, "convert": "registers"}
        plan = draft(problem, given.with_fields(**made))
        if no_registers(problem, plan) or (times > 1 and no_deep_rows(problem, problem.rhs, deep[2])):
            continue
        fewest = FEWEST_STAGES - problem.rhs.converted  # whose conversion takes as long as memory
        if times > 1 and stages_that_fit(problem, plan) < fewest:
            continue
        if most in promotions(problem, deep[2]):
            yield made


def _in_addends(
    problem: Problem | None, given: Request, fields: dict[str, Value], tile: tuple[int, int, int]
) -> Iterator[dict[str, Value]]:
    """Those of a problem whose elements are sums of addends, if there is one."""
    if problem is None or not problem.lhs.addends:
        return
    depth = deepest(problem)
    made: dict[str, Value] = {**fields, "tile": (*tile[:2], depth), "promote": promotions(problem, depth)[0]}
    plan = draft(problem, given.with_fields(**made, convert="addends"))
    if not no_registers(problem, plan):
        yield {**made, "convert": "addends"}


def _of_tile(
    seen: Problem, given: Request, tile: dict[str, Value], extents: tuple[int, int], along: tuple[int, int]
) -> Iterator[Plan]:
    """The plans of a tile, of which a result has so many `along` M and N."""
    whole = draft(seen, given.with_fields(**tile))
    goes = extents in BY_GOES or (seen.panes > 1 and extents[1] == BY_GOES[0][1])
    if given.mma_n is None and goes and not no_mma_n(seen, whole.promote):
        tile["mma_n"] = mma_n_of(seen, whole)
    tiles = seen.walks() * prod(along)
    splits = _splits(seen, given, whole, tiles)
    # a pair copies A's tiles once while B's stay: 0.97 of the time of logits, all windows (H100, 2026-11-27)
    stays = seen.kind.warpgroup_sums and given.stationary != 0 and given.run != 1
    pairs = along[1] > 1 and stays and not no_stationary(seen, whole)
    for cluster in [given.cluster] if given.cluster else (*CLUSTERS, *LARGER):
        if not given.cluster and any(c > max(1, t) for c, t in zip(cluster, along, strict=True)):
            continue
        if not given.cluster and (no_shared_gather(seen, cluster) or (cluster[1] == 1 and pairs)):
            continue
        for split in splits:
            if split == BY_STEPS and not given.split and not given.cluster and prod(cluster) == 1:
                continue
            fields: dict[str, Value] = {**tile, "cluster": cluster, "split": split}
            parted = whole.with_fields(**fields)
            together = parted.with_fields(parts="cluster")
            late = split > 1 and _late(seen, tiles, split)
            if _together(seen, given, together, late):
                yield {**fields, "parts": "cluster"}, together
            if late and not given.split:
                continue
            if _by_columns(seen, given, parted):
                yield {**fields, "parts": "columns"}, parted.with_fields(parts="columns")
            if given.parts in ("cluster", "columns") or (split > 1 and no_memory(seen)):
                continue
            if not given.cluster and cluster in LARGER and not at_once(seen, parted):
                continue
            if split > 1:
                fields["parts"] = "memory"
            yield fields, parted
            if _by_turns(seen, given, parted, tiles):
                fields = {**fields, "consumers": "pingpong"}
                yield fields, draft(seen, given.with_fields(**fields))


def ranked(
    problem: Problem,
    given: Request,
    tile_k: int,
    promote: int,
    costs: Costs,
    spare: int = 0,
    larger: bool = False,
) -> Iterator[tuple[float, Request, str]]:
    """The plans, the fastest first: seconds of a launch, what is decided, and why it cannot be, "" where it can.

    Args:
        problem, given, tile_k, promote, larger: as `plans` takes them.
        costs: of the kind of kernel.
        spare: registers that a consumer thread must have beyond those that are estimated.
    """
    load = Load.of(problem.transposed() if problem.swapped else problem)
    seen: dict[tuple[bool, bool], tuple[Problem, Costs]] = {}

    def way(plan: Request | Schedule) -> tuple[Problem, Costs]:
        """The program as a plan sees it, and the constants of its kind."""
        key = bool(plan.swap), plan.convert == "addends"
        if key not in seen:
            own = problem.turned_for(plan)
            seen[key] = own, (costs_of(own, plan.promote or 0) if key[1] else None) or costs
        return seen[key]

    timed = []
    for fields, plan in plans(problem, given, tile_k, promote, larger):
        own, constants = way(plan)
        timed.append((seconds(own, plan, load, constants), fields))
    for time, fields in sorted(timed, key=lambda x: x[0]):
        request = given.with_fields(**fields)
        yield time, request, misfit(way(request)[0], request, spare)


def _ways(problem: Problem, given: Request) -> tuple[int, ...]:
    """The values of swap: what is decided; else 1 too for few rows, unless a field was decided that it would turn."""
    if given.swap is not None:
        return (given.swap,)
    if must_swap(problem):
        return (1,)
    if keeps_sides(given):
        return (0,)
    columns_alone = _by_row(problem.rhs) and not _by_row(problem.lhs)
    if columns_alone and not (_few(problem.transposed()) or no_swap(problem)):
        return (1,)
    wide = not problem.lhs.converted or problem.rhs.stored.bits <= NARROW < problem.lhs.stored.bits
    turned = problem.rhs.converted and wide and given.convert != "shared"
    return (0, 1) if (turned or _few(problem)) and not no_swap(problem) else (0,)


def _by_row(operand: Operand) -> bool:
    """Whether sums are promoted by a factor for each row of an operand. One of each column of a tile is a register and
    a product more for each sum: with them alone tiles took 1.18 and 1.42 of the time of transposed ones (128x128 by
    1x128, f32, 8192 summed to 7168x2048 and 4096x7168; H100, 2026-11-27)."""
    return any(s.rows == 1 for s in operand.promoted)


def _few(problem: Problem) -> bool:
    """Whether a program's rows are so few that the transposed result is considered, whatever is converted."""
    together = any(r.block > problem.family.adjacent_rows for r in problem.results)
    return problem.m.largest is not None and problem.m.largest <= (SWAP_TOGETHER if together else SWAP)


def _turned_alone(problem: Problem, given: Request) -> bool:
    """Whether a transposed problem is looked at because of A alone, which registers could be loaded with."""
    return given.swap is None and not must_swap(problem.transposed()) and not _few(problem.transposed())


def _too_large(extent: int, size: int, extents: tuple[int, ...]) -> bool:
    """Whether a smaller extent covers the dimension too."""
    return any(size <= e < extent for e in extents)


def _late(problem: Problem, tiles: int, split: int) -> bool:
    """Whether so many parts of so many tiles would not begin in the first waves."""
    return tiles * split > OVERFULL * problem.target.sms


def _together(problem: Problem, given: Request, plan: Schedule, late: bool = False) -> bool:
    """Whether it is worth looking at parts of K that meet in a cluster: where all clusters run at once, or some begin
    `late`, and their sums leave room for some stages."""
    if given.parts == "memory" or no_meeting(problem, plan.cluster, plan.split, plan.scheduler):
        return False
    if given.parts == "cluster" or no_memory(problem):  # decided: any that fits
        return True
    if not (late or at_once(problem, plan)):
        return False
    bm, bn, bk = plan.tile
    stage = bm * problem.lhs.shared_bytes(bk) + bn * problem.rhs.shared_bytes(bk)
    staged = 0 if problem.swapped else bm * sum(r.element.bytes(bn // problem.panes) for r in problem.results)
    sides = ((problem.lhs, bm), (problem.rhs, bn))
    windows = sum(2 * 4 * WINDOW * rows for x, rows in sides if any(scale.rows == 1 for scale in x.promoted))
    sums = 4 * prod(part_rooms(problem, plan))
    return FEWEST_STAGES * stage + sums + staged + windows <= problem.target.shared_bytes


def _by_columns(problem: Problem, given: Request, plan: Schedule) -> bool:
    """Whether it is worth looking at parts of which each CTA adds some columns: of sums over several dimensions, where
    all CTAs run at once, so that none of a tile has begun too late to wait for."""
    if given.parts not in (None, "columns") or given.epilogue not in (None, "direct"):
        return False
    if not given.cluster and prod(plan.cluster) == 1:  # 1.03 to 1.1 of a pair's time (H100, 2026-11-27)
        return False
    plan = plan.with_fields(parts="columns")
    return bool(given.parts or problem.summed) and at_once(problem, plan) and not no_columns(problem, plan)


def _splits(problem: Problem, given: Request, plan: Schedule, tiles: int) -> list[int]:
    """The parts of K that are worth looking at: all begin in the first waves, and none is short."""
    if given.split or given.consumers == "pingpong" or given.adds == "loaded" or given.inputs:
        return [given.split or 1]
    if problem.depth is None or no_parts(problem):
        return [1]
    blocks = k_blocks(problem, plan)
    able = [s for s in SPLITS if s == 1 or (not _late(problem, tiles, s) and blocks // s >= FEWEST_BLOCKS)]
    able += [s for s in MORE_SPLITS if not _late(problem, tiles, s) and blocks // s >= LONG]
    few = plan.tile[0] == ROWS[0] and problem.m.tiles(ROWS[0], ASSUMED) == 1
    if PAIRED not in able and problem.panes > 1 and few and blocks // PAIRED >= FEWEST_BLOCKS:
        able.append(PAIRED)
    if meets_by_steps(problem) and tiles * BY_STEPS <= problem.target.sms and blocks // BY_STEPS >= LONG:
        able.append(BY_STEPS)
    every = min(MAX_SPLIT, problem.target.sms // tiles)  # fill the GPU
    # prenorm of 13 rows of 28672 took 11.0, 8.1 and 7.5 us with 16, 32 and 64 parts (H100, 2026-11-28)
    if (problem.summed or problem.folds) and every > 1 and blocks // every >= FEWEST_BLOCKS:
        able.append(every)
    return [s for s in dict.fromkeys(able) if not no_unroll(problem, plan.with_fields(split=s))]


TURNS = 2048
"""Bytes of K of a row up to which warpgroups that take tiles by turns are looked at. H200, 2026-11-21, times as fast as
the fastest other schedule timed, with tiles of 128x128 in clusters of 1x2, without promotion: FP8 1.07 to 1.11 at K =
512 to 1536, 1.06 at 2048, 1.00 at 4096, 0.98 and 0.95 at 7168 and 16384; BF16 1.10 at 512, 1.00 at 1536, 0.99 at
2048."""

TURNS_TILES = {(128, 128), (128, 160), (128, 192)}
"""What a warpgroup has registers for, and enough of for its copies."""


def _by_turns(problem: Problem, given: Request, plan: Schedule, tiles: int) -> bool:
    """Whether it is worth looking at warpgroups that take tiles by turns, of which a CTA has several."""
    if given.consumers or given.adds == "loaded" or given.inputs:
        return False
    if given.warpgroups not in (None, 2) or problem.depth is None:
        return False
    if plan.promote or plan.swap or plan.tile[:2] not in TURNS_TILES or tiles < 2 * problem.target.sms:
        return False
    few = max(x.shared_bytes(problem.depth) for x in (problem.lhs, problem.rhs)) <= TURNS
    return few and not no_pingpong(problem, plan)
