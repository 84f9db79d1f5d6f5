"""The tile of one CTA, the cluster, and how often sums leave the tensor core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scalec.errors import ScheduleError
from scalec.formats import WHOLE
from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
from scalec.passes.base import decide
from scalec.passes.choose_swizzle import no_panels
from scalec.passes.parts import split_of
from scalec.passes.problem import ASSUMED, PROMOTION_BLOCK, Problem
from scalec.passes.resources import Registers, free_registers, most_accumulators, staged_columns, stages_that_fit, units
from scalec.passes.warp_specialize import REGISTERS, shared_out, warpgroups_for, warps_for
from scalec.targets import MAX_BOX, WAVES, MmaShape, Target

TILE_K_BYTES = 128
"""Bytes of K in a tile: one row of the widest swizzle, four instructions, and for FP8 one scale step."""


@dataclass(frozen=True)
class Candidate:
    """A tile (M, N) of one CTA, the share of a fast tile's rate that it reaches with all SMs busy, and how many CTAs
    multiply together."""

    m: int
    n: int
    efficiency: float
    ctas: int = 1


_SHARED = (
    # H200, 2026-11-21, FP8 1x128 by 128x128: at equal waves x area 192x128 was 1 % ahead of 256x128 (4096x24576x1536),
    # and the faster of the two on all of six shapes was the one this model names.
    Candidate(192, 128, 1.01),
    Candidate(256, 128, 1.00),
    # Not measured: set in the order of bytes copied for a product, (1/m + 1/n), so that at equal waves x area the
    # larger tile wins and a smaller one is taken where it leaves fewer SMs idle.
    Candidate(128, 256, 0.99),
    Candidate(128, 192, 0.95),
    Candidate(128, 128, 0.90),
    Candidate(64, 256, 0.85),
    Candidate(128, 64, 0.75),
    Candidate(64, 128, 0.74),
    Candidate(64, 64, 0.60),
    Candidate(64, 32, 0.45),
    Candidate(64, 16, 0.30),
)

# Predicted: by bytes that warps load of shared memory for a product, 1/rows + 1/columns of a warp.
_REGISTERS = (
    Candidate(128, 128, 1.00),
    Candidate(128, 64, 0.85),
    Candidate(64, 128, 0.85),
    Candidate(64, 64, 0.70),
    Candidate(32, 128, 0.65),
    Candidate(32, 64, 0.50),
    Candidate(128, 32, 0.45),
    Candidate(16, 128, 0.40),
    Candidate(128, 16, 0.30),
    Candidate(64, 32, 0.30),
    Candidate(64, 16, 0.20),
)

# Predicted: by bytes that L2 gives for a product. Of one CTA, whose A another takes from the same copy, 1/2n + 1/m; of
# two that multiply together, each with half of B, 1/n + 1/2m. The line through the former's values has the latter's,
# down to 128x64, below which it would be 0; at 128x128 both copy as much, and two take less of shared memory.
_TENSOR = (
    Candidate(128, 256, 1.10, 2),
    Candidate(128, 192, 1.03, 2),
    Candidate(128, 128, 0.91, 2),
    Candidate(128, 64, 0.50, 2),
    Candidate(128, 32, 0.25, 2),
    Candidate(128, 256, 1.00),
    Candidate(128, 192, 0.97),
    Candidate(128, 128, 0.90),
    Candidate(128, 64, 0.70),
    Candidate(128, 32, 0.40),
    Candidate(128, 16, 0.25),
)

CANDIDATES = {"shared": _SHARED, "registers": _REGISTERS, "tensor": _TENSOR}
"""By MmaShape.kernel."""


ROWS = (64, 128, 192, 256)
"""Rows of the tiles that are made for scale blocks which no candidate cuts evenly."""


@dataclass(frozen=True)
class ChooseTiling:
    """Decides `swap`, `tile`, `cluster`, `cta_group` and `promote`: the candidate that keeps the tensor cores busy the
    shortest.

    A launch takes ceil(clusters of tiles / clusters that run at once) waves, each as long as one tile takes; the
    candidates must fit registers and shared memory and cut the scale blocks of B evenly. Where none does, tiles are
    made as wide as some blocks of B. Two CTAs along N share their A tile where N has two tiles; two that multiply
    together lie along M. FP8 sums leave the tensor core every 128 of K (its accumulator keeps fewer bits than FP32),
    16-bit ones at the end.

    Attributes:
        spare: registers that a consumer thread must have beyond those that are estimated: where ptxas spilled, the
            compiler asks for more.

        #scale.schedule<{}>
    -->
        #scale.schedule<{tile = array<i64: 256, 128, 128>, cluster = array<i64: 1, 2>, cta_group = 1 : i64,
                         promote = 128 : i64}>
    """

    spare: int = 0

    name = "choose-tiling"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(module, target, lambda problem, schedule: choose(problem, schedule, self.spare))


def choose(problem: Problem, schedule: Schedule, spare: int = 0) -> Schedule:
    """The schedule with tile, cluster, cta_group and promote decided.

    Raises:
        ScheduleError: the fields decided leave no candidate.
    """
    bits = max(problem.lhs.shared_bits, problem.rhs.shared_bits)
    swap = schedule.swap if schedule.swap is not None else int(_swaps(problem, schedule))
    if swap and not problem.swapped:
        problem = problem.transposed()
    promote = schedule.promote
    if promote is None:
        promote = PROMOTION_BLOCK if problem.has_scales or problem.family.short_sums else 0
    if schedule.tile is not None:
        tile, ctas = schedule.tile, _ctas_of(problem, schedule, schedule.tile)
    else:
        tile_k = PROMOTION_BLOCK if problem.has_scales else TILE_K_BYTES * 8 // bits
        fitting = _fitting(problem, schedule, tile_k, promote, spare)
        best = min(fitting, key=lambda c: cost(problem, schedule, c))
        best = _split_better(problem, schedule.with_fields(promote=promote), fitting, best, tile_k, spare)
        tile, ctas = (best.m, best.n, tile_k), best.ctas
        tile = (best.m, best.n, _depth(problem, schedule.with_fields(cta_group=ctas), tile, promote))
    cluster = _cluster(problem, schedule, tile[1], ctas)
    return schedule.with_fields(swap=swap, tile=tile, cluster=cluster, cta_group=ctas, promote=promote)


PAIR = (2, 1)
"""The cluster of two CTAs that multiply together: they share the columns of a product (PTX ISA 9.7.16.5.1)."""


def _groups(problem: Problem, schedule: Schedule) -> tuple[int, ...]:
    """How many CTAs may multiply together: what is decided, else two as well where M has two tiles for them.

    One where what is decided does not exist: check-schedule says so.
    """
    family = problem.family
    if schedule.cta_group is not None:
        return (schedule.cta_group,) if family.columns(schedule.cta_group) else (1,)
    pairs = family.pair_n and (schedule.cluster or PAIR)[0] % 2 == 0 and problem.target.max_cluster >= 2
    return (1, 2) if pairs and problem.m.tiles(family.m, ASSUMED) >= 2 else (1,)


def _ctas_of(problem: Problem, schedule: Schedule, tile: tuple[int, int, int]) -> int:
    """How many CTAs multiply a decided tile together: as takes the fewest waves, then copies the fewest rows."""

    def key(ctas: int) -> tuple[int, float, int]:
        along_m, along_n = _cluster(problem, schedule, tile[1], ctas)
        return _waves(problem, schedule, tile, ctas), tile[0] / along_n + tile[1] / along_m, -ctas

    able = [g for g in _groups(problem, schedule) if g == 1 or not no_halves(problem, tile, g)]
    return min(able, key=key, default=schedule.cta_group or 1)


def no_halves(problem: Problem, tile: tuple[int, ...], ctas: int) -> str:
    """Why the columns of a tile cannot be shared out to so many CTAs that multiply together, "" where they can."""
    columns = problem.family.columns(ctas)
    if ctas > 1 and tile[1] not in columns:
        return f"{tile[1]} columns, and a product of {ctas} CTAs has a multiple of {columns.step} up to {columns[-1]}"
    return no_panels(problem.target, problem.rhs, tile[1] // ctas) if problem.rhs.mn_major else ""


@dataclass(frozen=True)
class SplitTimes:
    """What a launch takes whose K may be split, fitted on a kind of kernel.

    Attributes:
        product: seconds for an accumulator element and one of K, at the fastest tile's rate.
        exchange: seconds for an accumulator element of a part, moved to memory and back.
        fixed: seconds that a split adds.
        memory: what the memory's documented time is multiplied by; below that nothing is gained.
        gain: the least share of the time that a split must save over the tile chosen without regard to it.
        rows: rows of the result up to which this was measured.
        more: candidates that are for parts of K alone.
    """

    product: float
    exchange: float
    fixed: float
    memory: float
    gain: float
    rows: int
    more: tuple[Candidate, ...]


SPLIT_TIMES = {"shared": SplitTimes(2.9e-13, 6.9e-11, 0.5e-6, 1.3, 0.03, 128, (Candidate(128, 32, 0.58),))}
"""By MmaShape.kernel; kinds that are not here choose the tile without regard to splits. H200, 2026-11-21, FP8 1x128 by
128x128, 15 shapes of 16, 64 and 128 rows with up to 40 schedules each: fitted to 64x2112x7168 (64x16 whole 11.9 us,
64x32 in two parts 10.3). Of the others it changes 128x2112x7168 (13.7 to 11.9 us), 64x4096x7168 (13.6 to 13.0),
128x4096x7168 (15.3 to 14.9) and 128x7168x16384 (39.9 and 38.9 to 39.4). At 256 rows it would be wrong: 256x4096x7168
20.5 us for 19.2, 256x7168x16384 61.0 for 54.5."""


def _split_better(
    problem: Problem, schedule: Schedule, fitting: list[Candidate], best: Candidate, tile_k: int, spare: int
) -> Candidate:
    """A candidate whose K is split, where that is faster than `best`: a larger tile copies less for each product."""
    times = SPLIT_TIMES.get(problem.family.kernel)
    if times is None or problem.k.size is None or schedule.split is not None:
        return best
    if problem.m.size is None or problem.m.size > times.rows:
        return best

    def time(c: Candidate) -> tuple[float, float, int]:
        tile = (c.m, c.n, tile_k)
        split = split_of(problem, schedule.with_fields(tile=tile, cluster=_cluster(problem, schedule, c.n, c.ctas)))
        k, target = problem.k.tiles(1, 0), problem.target
        busy = cost(problem, schedule, c) / split * k * times.product
        if split > 1:
            busy += times.fixed + split * c.m * c.n * times.exchange
        return max(busy, times.memory * _moved(problem) / target.rates.memory), busy, split

    at_best, promote = time(best), schedule.promote or 0
    large = problem.m.size > max(WAVES["registers"], problem.family.m)
    more = [c for c in times.more if large and not _misfit(problem, schedule, (c.m, c.n, tile_k), promote, spare)]
    split = [c for c in (*fitting, *more) if time(c)[2] > 1]
    found = min(split, key=time, default=best)
    return found if time(found)[0] < (1 - times.gain) * at_best[0] else best


DEEP = 4
"""Stages with which copies are far enough ahead: where memory is the bound, a shallower K tile makes up for fewer."""


def _depth(problem: Problem, schedule: Schedule, tile: tuple[int, int, int], promote: int) -> int:
    """K of a tile: the widest swizzle's, or half where that leaves fewer than DEEP stages and memory is the bound.

    Half the depth costs 3 % of the issue slots (sum of stall counts of the loop, 1.06 against 1.03 times the tensor
    core's, ptxas 13.0 for sm_120a), which a kernel that waits for memory does not need.
    """
    halves = tile[2] // 2
    if promote or problem.lhs.padded or problem.rhs.padded or problem.family.operands_in != "registers":
        return tile[2]
    plan = schedule.with_fields(tile=tile, epilogue=schedule.epilogue or "direct")
    return tile[2] if stages_that_fit(problem, plan) >= DEEP or not _memory_bound(problem) else halves


def _memory_bound(problem: Problem) -> bool:
    """Whether operands and result, moved once, take longer than the products, all SMs busy, by the documented rates."""
    target, (m, n, k) = problem.target, (d.tiles(1, ASSUMED) for d in (problem.m, problem.n, problem.k))
    rate = target.rates.flop_per_clock(problem.lhs.element.name, problem.rhs.element.name)
    return _moved(problem) / target.rates.memory > 2 * m * n * k / (rate * target.rates.clock * target.sms)


def _moved(problem: Problem) -> int:
    """Bytes of operands and result, each moved once."""
    m, n, k = (d.tiles(1, ASSUMED) for d in (problem.m, problem.n, problem.k))
    return m * problem.lhs.element.bytes(k) + n * problem.rhs.element.bytes(k) + m * problem.result.element.bytes(n)


SWAP = 32
"""Rows up to which they are columns of the transposed result: a tile may be 16 columns wide, but is 64 rows high at the
least. H200, 2026-11-21, FP8 1x128 by 128x128, 7168x2048, times as fast as cuBLASLt: 1.51 against 0.94 at one row, 1.40
against 1.05 at 16; at 64 rows 1.20 against 1.22, and 1.31 against 1.69 at 2112x7168."""


TURNED = ("tile", "cluster", "swizzle_a", "swizzle_b", "warps", "order")
"""Fields that mean another dimension or operand in the transposed problem: who decided one meant the program's."""


def _swaps(problem: Problem, schedule: Schedule) -> bool:
    """Whether the transposed result is computed: few rows, which instructions are narrower than high for.

    Not where a field was decided that would change its meaning, nor where results are to leave by bulk copies of rows.
    """
    if schedule.epilogue == "bulk" or schedule.staged or any(getattr(schedule, name) is not None for name in TURNED):
        return False
    return problem.m.size is not None and problem.m.size <= SWAP and not no_swap(problem)


def no_swap(problem: Problem) -> str:
    """Why a program cannot be computed transposed, "" where it can."""
    step, result = problem.family.m, problem.result
    if result.group > 1:
        what = f"blocks of {result.block} columns" if result.scale else "whole bytes of a row"
        return f"{result.name} is {result.element.name} in {what}, which are rows of the transposed tile"
    for scale in problem.rhs.promoted:
        if scale.rows not in (1, WHOLE) and scale.rows % step:
            return f"{scale.name} has one scale for each {scale.rows} of {problem.rhs.rows}, not a multiple of {step}"
    return ""


def _fitting(problem: Problem, schedule: Schedule, tile_k: int, promote: int, spare: int) -> list[Candidate]:
    """The candidates that fit; those made for the scale blocks of B where no other does."""
    refused: dict[str, list[str]] = {}
    for candidates in (CANDIDATES[problem.family.kernel], _cut_to_blocks(problem, schedule)):
        found = []
        for c in candidates:
            if c.ctas not in _groups(problem, schedule):
                continue
            if problem.m.size is not None and problem.m.size <= max(WAVES["registers"], problem.family.m) < c.m:
                continue
            own = schedule.with_fields(cta_group=c.ctas)
            reason = _misfit(problem, own, (c.m, c.n, tile_k), promote, spare)
            if reason:
                refused.setdefault(reason, []).append(f"{c.m}x{c.n}x{tile_k}")
            else:
                found.append(c)
        if found:
            return found
    raise ScheduleError(
        f"no tile fits {problem.target.name}" + (f" with {schedule}" if schedule.decided() else ""),
        got="; ".join(f"{_some(tiles)}: {reason}" for reason, tiles in refused.items()),
        expected="a tile for which none of these holds",
        fix="decide tile too, or leave more to the compiler",
    )


def _some(tiles: list[str]) -> str:
    """A few of many."""
    shown = ", ".join(tiles[:3])
    return f"{shown} and {len(tiles) - 3} more" if len(tiles) > 3 else shown


def cost(problem: Problem, schedule: Schedule, candidate: Candidate) -> float:
    """How long a launch takes, in units of one accumulator element at the fastest tile's rate."""
    waves = _waves(problem, schedule, (candidate.m, candidate.n), candidate.ctas)
    return waves * candidate.m * candidate.n / candidate.efficiency


def _waves(problem: Problem, schedule: Schedule, tile: tuple[int, ...], ctas: int) -> int:
    """Rounds in which the SMs work on all tiles."""
    along_m, along_n = _cluster(problem, schedule, tile[1], ctas)
    clusters = -(-problem.m.tiles(tile[0], ASSUMED) // along_m) * -(-problem.n.tiles(tile[1], ASSUMED) // along_n)
    return -(-clusters // (max(1, problem.target.sms // (along_m * along_n))))


def cuts_scales(problem: Problem, schedule: Schedule, tile: tuple[int, ...]) -> bool:
    """Whether a unit's columns of a tile are whole scale blocks of B, or lie within one: none straddles a block's edge.

    A unit is a warpgroup, which has all columns, or a warp.
    """
    blocks = [s.rows for s in problem.rhs.promoted if s.rows not in (1, WHOLE)]
    own = tile[1] // units(problem, schedule.with_fields(tile=tile))[1]
    return all(own % b == 0 or b % own == 0 for b in blocks)


def cuts_result(problem: Problem, schedule: Schedule, tile: tuple[int, ...]) -> str:
    """Why a tile's columns do not hold whole blocks of the result's scales, "" where they do, and each unit's too."""
    scale, along_n = problem.result.scale, units(problem, schedule.with_fields(tile=tile))[1]
    if scale is None:
        return ""
    if tile[1] % scale.block:
        return f"columns that are no multiple of {scale.block}: {scale.name} has one for each {scale.block}"
    own = tile[1] // along_n
    if own % scale.block and scale.block % own:
        return f"{tile[1]} columns for {along_n} warps: {scale.name} has one for each {scale.block} columns"
    if along_n > 1 and scale.block % own == 0:  # warps find a scale together
        return ""
    together = staged_columns(problem, schedule.with_fields(tile=tile)) // along_n
    if together % scale.block:
        return f"columns converted {together} at a time: {scale.name} has one for each {scale.block}"
    return ""


def _cluster(problem: Problem, schedule: Schedule, tile_n: int, ctas: int) -> tuple[int, int]:
    if schedule.cluster is not None or ctas > 1:
        return schedule.cluster or PAIR
    return (1, 2) if problem.n.tiles(tile_n, ASSUMED) >= 2 and problem.target.max_cluster >= 2 else (1, 1)


def _cut_to_blocks(problem: Problem, schedule: Schedule) -> Iterator[Candidate]:
    """Tiles whose columns are whole scale blocks of B, or a part of one that divides it; none without such blocks."""
    blocks = [s.rows for s in problem.rhs.promoted if s.rows not in (1, WHOLE)]
    known = {(c.m, c.n, c.ctas) for c in CANDIDATES[problem.family.kernel]}
    for m in ROWS if blocks else ():
        for ctas in _groups(problem, schedule):
            for n in widths(problem.family, ctas):
                if (m, n, ctas) not in known and cuts_scales(problem, schedule, (m, n, TILE_K_BYTES)):
                    yield Candidate(m, n, _efficiency(m, n), ctas)


def widths(family: MmaShape, ctas: int = 1) -> range:
    """The columns that a tile may have: those of one instruction, or of pairs of them, where a warp takes several."""
    pair = 2 * family.n[0]
    return family.columns(ctas) if family.warps > 1 else range(pair, MAX_BOX + 1, pair)


def _efficiency(m: int, n: int) -> float:
    """That of a tile which is no candidate, from the bytes it copies for a product: lines through CANDIDATES."""
    side = 2 * m * n / (m + n)  # of the square tile that copies as much
    return min(0.0105 * side, 0.15 + 0.0070 * side, 0.65 + 0.0020 * side)


def _misfit(problem: Problem, schedule: Schedule, tile: tuple[int, int, int], promote: int, spare: int) -> str:
    """Why a tile cannot be chosen, "" where it can: registers, two stages (without a staged epilogue, unless decided)
    and scales that are cut evenly."""
    family = problem.family
    warpgroups = schedule.warpgroups or warpgroups_for(family, tile)
    warps = schedule.warps or warps_for(problem, tile, warpgroups)
    reason = shared_out(family, tile, warpgroups, warps)
    if reason:
        return reason
    if not cuts_scales(problem, schedule, tile):
        scale = problem.rhs.promoted[0]
        return f"columns that straddle the blocks of {scale.name}, one for each {scale.rows} of {problem.rhs.rows}"
    reason = cuts_result(problem, schedule.with_fields(warpgroups=warpgroups, warps=warps, promote=promote), tile)
    if reason:
        return reason
    reason = no_panels(problem.target, problem.lhs, tile[0]) if problem.lhs.mn_major else ""
    reason = reason or no_halves(problem, tile, schedule.cta_group or 1)
    if reason:
        return reason
    plan = schedule.with_fields(
        tile=tile,
        warpgroups=warpgroups,
        warps=warps,
        registers=schedule.registers or REGISTERS[warpgroups],
        promote=promote,
        epilogue=schedule.epilogue or "direct",
    )
    if free_registers(problem, plan, schedule.unroll or 1) < spare:
        return f"more than the {(plan.registers or (0, 0))[1]} registers of a consumer thread"
    if Registers.of(problem, tile, warps, promote).accumulators > most_accumulators(problem):
        return "too few registers of a thread beside the sums for the elementwise expression"
    stages = schedule.stages or 2
    if stages_that_fit(problem, plan) < stages:
        return f"{stages} stages do not fit into {problem.target.shared_bytes} bytes of shared memory"
    return ""
