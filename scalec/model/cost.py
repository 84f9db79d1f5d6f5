"""What a launch takes by a schedule, of a kind of kernel whose launches were measured: the model that schedules are
ranked by.

The SMs work on the tiles, or their parts of K, in waves. A wave takes as long as what one SM does for a tile, and the
memory for all of theirs, the two half hidden behind each other (`overlap`); within an SM a K block likewise takes as
long as its products, a warpgroup's chain of product and promotion, and its copies. Beside the target's documented
rates a few constants are fitted to measured launches (benchmarks/fit_costs.py), a set for each kind of kernel.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field

from scalec.formats import PACKED_BITS, WHOLE
from scalec.ir.schedule import Schedule
from scalec.meetings import FAN_IN, meetings
from scalec.passes.plan.column_factors import fetched
from scalec.passes.plan.converted import could_interleave, in_registers
from scalec.passes.plan.few_rows import rows_there
from scalec.passes.plan.parts import cluster_ctas, meets_by_steps, part_columns, stored_parts
from scalec.passes.plan.promotion import slices
from scalec.passes.plan.resources import part_rooms, turns, units
from scalec.passes.plan.warps import scales_apart
from scalec.passes.problem.access import elements
from scalec.passes.problem.fragments import scales_of_word
from scalec.passes.problem.types import FAR, UNEVEN, Problem

CONVERTED = 0.032
"""Nanoseconds of a byte that warpgroups convert operands to. H100, 2026-11-25, one of them, tiles of 64x16 at
8192x8192: 0.030 (e4m3 to bf16), 0.037 (e2m1 to bf16 with its scales, e2m1 to e4m3); 128x128 turned: 0.039. With two
tiles of 64x16 took 0.83 to 0.92 of the time, of 128x128 0.90 to 1.02: what shared memory gives is shared."""


TURNED = (1 << 14, 430)
"""Bytes that threads of a warpgroup make at once of 4 bits whose rows are contiguous, each of a word of eight rows, and
nanoseconds that one warpgroup takes for these, or fewer. Fitted to 436 schedules of 30 programs and sizes, of 1 to 4096
rows: what is now chosen takes 1.04 of the fastest of each in the mean, 1.26 at most; by CONVERTED it took 1.23 and 1.69
(H200, 2026-11-30-h200-turned-words-schedules.json)."""

WIDENED = (30, 0.012)
"""Nanoseconds of a stage, and of a byte of tf32 that a warpgroup makes of 16 bits there, whatever it reduces beside
that; WRITTEN is not of such kernels. Prenorm, n = 24, k = 28672 (2026-11-29-h200-prenorm.json): 27 schedules of 4096
and 8192 rows are predicted to 0.87 to 1.08."""

ANEW = (0.105, 0.09)
"""Likewise of a byte that one warpgroup quantises, and two; products are not hidden behind it. H100, 2026-11-28, at
8192x8192: blocks of 128x256x128 of which one makes 128x128 took 2300 ns, products 580 of these; of which two make
64x128 764 beside 16 columns and 1240 beside 256 rows, products 20 and 290."""

FINE = 0.018
"""Nanoseconds of a sum of a tile for each time beyond the first that sums leave a K block. H100, 2026-11-28, mxfp8 by
mxfp8 and by mxfp4, where they do four times: blocks of 128x128x128, 192x128x128, 128x192x128 and 128x256x128 took 1390,
1900, 2200 and 3070 ns, of which 500 to 900 are predicted without."""


IN_REGISTERS = {
    (4, False, 8): 0.0138,
    (4, False, 16): 0.0147,
    (4, True, 16): 0.0281,
    (8, False, 16): 0.018,
    (16, False, 16): 0.0015,
    (16, False, 32): 0.0093,
}
"""Nanoseconds of an element of A that consumers convert in registers, by its bits, whether scales are folded in, and
the bits that are made of it; of others those of e4m3. To these a share of the products' time is added, and what
promotion takes of each sum: neither hides behind a conversion. Where one warpgroup converts, it takes LONE of the time.
Fitted to 530 schedules of 1 to 32768 rows, dense and in groups, together with BEHIND, PROMOTED, IN_ADDENDS, AS_STORED
and LONE (H200, 2026-11-29, 2026-11-29-h200-converted-choices.json, 2026-11-29-h200-batched.json): 0.85 to 1.15 of what
is predicted for nine in ten of them. Of 157 pairs of schedules it now chooses the faster, or one that takes 1.013 of it
in the mean; with constants of H100s that hid products behind conversions 1.09. Those of e4m3 are of 45 programs and
sizes (2026-11-30-h200-converted-8-bits.json): of what was measured the first choice takes 1.009 of the fastest."""

REORDERED = {(0, 8): 0.89, (0, 16): 0.83, (1, 16): 0.9, (2, 16): 1.01}
"""Of all that what elements take that are reordered (scalec.formats.FRAGMENTS), by how many scales are folded into
those of a word, and the bits that are made. Of 42 programs of up to 64 rows reordered weights are predicted 0.93 to
1.05 of the time of those as stored, and took 0.85 to 1.04 (H200, 2026-11-30, 2026-11-30-h200-reordered.json)."""

IN_ADDENDS = 0.0229
"""Likewise of addends; AS_STORED of it where nobody interleaves the other operand's rows, of which a thread then has
elements apart. LONE also where a warpgroup has several waves, unless scales come by a warpgroup of their own: tiles of
256x40 took 1.08 and 1.12 of the time of 128x40, of 256x24 then 0.94 and 0.96 of 128x24 (H200, 2026-11-29)."""

BEHIND = {8: 0.61, 16: 0.61, 32: 0.3}
"""The share of products, by the bits that they are of."""

PROMOTED = 0.006
AS_STORED = 1.05
LONE = 1.34

CLUSTERED, CLUSTERED_COLUMNS = 0.975, 128
"""Times as long as this says that clusters take where consumers convert, in several waves of tiles of so many columns:
eight pairs of 128x128 to 128x256 took 0.967 to 0.981 of the time of single CTAs, predicted alike; in one wave, and of
fewer columns, 0.98 to 1.02 (the same results)."""

HANDED = 200
"""Nanoseconds that a K block's conversion takes beyond its bytes, of B beside A in registers: blocks of 128x128x64 of
e4m3 by nvfp4 took 800, of 128x128x128 1230 to 1310, of 256x96x64, for which A and products are the longer, 1190 (H100,
2026-11-27, n = k = 8192)."""

WRITTEN, NARROW = 1.2, 1.05
"""Times as long as this says that an SM takes whose warps write what they convert to shared memory: 1.14 to 1.26 of
nvfp4, mxfp4 and i4 as 16 bits at 256 and 4096 rows (same run); and as e4m3, 0.95 to 1.1 of what it is without
(2026-11-29-h200-converted-choices.json). Memory's time is as it was: with it, e4m3 of few rows beside bf16 was
predicted to take 1.2 of what it took (2026-11-30-h200-converted-8-bits.json)."""

BOTH = 1.12
"""Likewise of one whose consumers convert A in registers, and warps B: mxfp4 by mxfp4 and nvfp4 by nvfp4 took 1.06 to
1.36 of what this says without, 1.15 in the mean of 16 sizes from 256 rows on (H100, 2026-11-28)."""

ANSWER = 1000
"""Nanoseconds until memory answers: no stage is filled again sooner."""

AT_ONCE = 8
"""Stages that are on their way at most."""

STEPS = 2
"""Factors of a row of a tile that cost nothing beside the products: those of 128 columns have two at the most."""


SPREAD = 4
"""CTAs of the clusters that `Costs.spread` is of. H200, 2026-11-22, 16 rows: clusters of four took 0.93 to 0.97 of the
time of single CTAs with 72 to 116 CTAs, clusters of two 1.00, of eight 0.95 to 0.97; with up to 66, one for each pair
of SMs, clusters of four took 1.06 to 1.16, and with 120, which is all that run at once, 0.99 to 1.00. Whether four
rows are shared or sixteen is the same: it is not what they share, but perhaps where they are put."""


@dataclass(frozen=True)
class Costs:
    """The constants, fitted to a kind of kernel. In nanoseconds where nothing else is said."""

    launch: float  # of a launch, whatever its size
    warpgroup: float  # that each consumer warpgroup adds to it
    cluster: float  # that a cluster of several CTAs adds to it
    tensor: float  # times the documented time of the products
    chain: float  # after each product of a warpgroup's wave, or of some of its columns, until it can issue the next
    step: float  # for each factor of a row of the tile, where there are more than STEPS
    fill: float  # a byte of a K block that copies write to shared memory
    empty: float  # a row of a K block beyond the tensor, which copies fill with zeros
    l2: float  # a byte of a K block that an SM asks L2 for, all SMs asking
    block: float  # of a K block, beside these
    tile: float  # of a tile, beside its K blocks
    column: float  # of a tile, for each column of each wave of a warpgroup: the results' way to memory
    turned: float  # likewise, where the transposed result is computed
    memory: float  # times the documented time of the bytes that cross device memory
    stream: float  # of a byte that crosses device memory for an SM, where both of a pair have a CTA
    lone: float  # likewise, where one of a pair has
    # times these two and what is asked of L2, where a lone wave of clusters of SPREAD CTAs leaves SMs idle.
    spread: float
    split: float  # of a launch whose parts of K meet in memory
    exchange: float  # likewise, for each accumulator of each part of a tile
    sent: float  # of a wave whose parts meet in a cluster, for each accumulator of other parts that a CTA adds
    overlap: float  # exponent of the norm that SM and memory are combined by
    bound: float  # exponent of the norm that products, chain and copies are combined by
    # by swap, and rows and columns of the tile, what the whole is multiplied by: what the rest leaves over.
    tiles: Mapping[tuple[int, int, int], float] = field(default_factory=dict)


FITTED = {
    ("wgmma", "blocks"): Costs(
        launch=1390, warpgroup=364, cluster=382, tensor=1.03, chain=46.8, step=10.7, fill=0.00492, empty=3.02,
        l2=0.00763, block=42.2, tile=577, column=2.27, turned=23.4, memory=1.16, stream=0.025, lone=0.0165,
        spread=0.98, split=1090, exchange=0.0985, sent=0.14, overlap=3.52, bound=2.8,
        tiles={(0, 64, 16): 1.15, (0, 64, 24): 0.95, (0, 64, 32): 1.09, (0, 64, 40): 0.89, (0, 64, 48): 1.02,
               (0, 64, 56): 0.88, (0, 64, 64): 1.04, (0, 64, 80): 0.98, (0, 64, 112): 0.98, (0, 64, 128): 1.02,
               (0, 64, 192): 0.98, (0, 128, 16): 1.1, (0, 128, 32): 1.07, (0, 128, 48): 1.03, (0, 128, 64): 1.03,
               (0, 128, 80): 1.03, (0, 128, 96): 0.97, (0, 128, 128): 0.96, (0, 128, 144): 1.02, (0, 128, 160): 0.98,
               (0, 128, 176): 1.08, (0, 128, 192): 0.96, (0, 128, 256): 0.98, (0, 192, 48): 1.04, (0, 192, 64): 1.03,
               (0, 192, 80): 1.06, (0, 192, 96): 1.02, (0, 192, 112): 1.07, (0, 192, 128): 0.98, (0, 256, 32): 1.13,
               (0, 256, 48): 1.06, (0, 256, 80): 0.97, (1, 64, 8): 0.97, (1, 64, 64): 0.98, (1, 64, 80): 0.97,
               (1, 64, 128): 0.96, (1, 64, 160): 1.04, (1, 64, 192): 1.04, (1, 128, 8): 0.97, (1, 128, 48): 1.02,
               (1, 128, 64): 1.04, (1, 128, 80): 1.03, (1, 128, 96): 1.02, (1, 128, 112): 1.07, (1, 128, 160): 1.03,
               (1, 128, 192): 1.09, (1, 192, 8): 0.97, (1, 192, 32): 1.03, (1, 192, 48): 1.05, (1, 192, 64): 1.07,
               (1, 192, 80): 1.1, (1, 192, 96): 1.11, (1, 192, 112): 1.14, (1, 192, 128): 1.04, (1, 256, 32): 1.04,
               (1, 256, 48): 1.05, (1, 256, 64): 1.04, (1, 256, 80): 1.08, (1, 256, 96): 1.08, (1, 256, 112): 1.07},
    ),
    ("wgmma", "rows"): Costs(
        launch=0, warpgroup=1030, cluster=190, tensor=1.58, chain=32.6, step=11.3, fill=0.0117, empty=0, l2=0.00822,
        block=0, tile=606, column=27.7, turned=37.1, memory=0.713, stream=0, lone=0, spread=1, split=751,
        exchange=0.0877, sent=0.14, overlap=1.49, bound=4.55,
        tiles={(0, 64, 48): 1.04, (0, 64, 96): 0.97, (0, 64, 128): 0.97, (0, 64, 160): 0.92, (0, 64, 192): 0.93, (0,
               128, 32): 0.97, (0, 128, 48): 0.98, (0, 128, 64): 0.98, (0, 128, 96): 0.97, (0, 128, 112): 1.04, (0,
               128, 128): 0.98, (0, 128, 160): 0.97, (0, 128, 192): 0.97, (0, 192, 48): 0.96, (0, 192, 80): 1.05,
               (0, 192, 112): 1.02, (0, 256, 64): 1.03, (0, 256, 80): 1.05, (0, 256, 96): 1.03, (0, 256, 112): 1.05,
               (1, 64, 32): 1.04, (1, 64, 64): 1.02, (1, 64, 128): 0.98, (1, 64, 160): 0.96, (1, 128, 48): 0.97, (1,
               128, 64): 1.03, (1, 128, 80): 0.98, (1, 128, 112): 1.04, (1, 128, 128): 0.97, (1, 192, 80): 1.03, (1,
               192, 96): 1.04},
    ),
    ("wgmma", "whole"): Costs(
        launch=1240, warpgroup=366, cluster=367, tensor=1.18, chain=80.4, step=0, fill=0.00801, empty=5, l2=0.00783,
        block=0, tile=385, column=2.5, turned=0, memory=1.11, stream=0.024, lone=0.0165, spread=0.98,
        split=1180, exchange=0.11, sent=0.14, overlap=2.58, bound=6.39,
        tiles={(0, 64, 16): 1.45, (0, 64, 32): 1.15, (0, 64, 48): 1.07, (0, 64, 64): 1.03, (0, 64, 112): 0.97,
               (0, 64, 128): 0.94, (0, 64, 160): 0.97, (0, 64, 192): 0.94, (0, 64, 224): 0.95, (0, 64, 256): 0.96,
               (0, 128, 32): 1.28, (0, 128, 48): 1.13, (0, 128, 64): 1.06, (0, 128, 80): 1.06, (0, 128, 112): 1.02,
               (0, 128, 160): 0.98, (0, 128, 192): 0.98, (0, 128, 224): 1.02, (0, 128, 256): 0.98, (0, 192, 48): 1.03,
               (0, 192, 64): 1.04, (0, 192, 80): 1.07, (0, 192, 96): 1.02, (0, 192, 112): 1.03, (0, 192, 128): 0.98,
               (0, 192, 160): 1.05, (0, 256, 32): 1.04, (0, 256, 48): 1.08, (0, 256, 64): 1.07, (0, 256, 80): 1.03,
               (0, 256, 96): 0.98, (0, 256, 112): 1.14, (0, 256, 128): 1.06, (0, 256, 144): 1.02, (0, 256, 192): 1.03,
               (1, 64, 16): 0.97, (1, 64, 32): 0.98, (1, 64, 48): 0.98, (1, 64, 80): 0.88, (1, 64, 96): 0.92,
               (1, 64, 112): 1.08, (1, 64, 128): 1.02, (1, 64, 160): 0.88, (1, 64, 192): 0.9, (1, 128, 16): 0.96,
               (1, 128, 64): 1.05, (1, 128, 80): 0.98, (1, 128, 112): 1.07, (1, 128, 128): 1.1, (1, 128, 160): 0.95,
               (1, 128, 192): 1.07, (1, 192, 16): 0.94, (1, 192, 48): 1.02, (1, 192, 64): 1.06, (1, 192, 112): 1.11,
               (1, 192, 128): 1.1, (1, 256, 16): 0.98, (1, 256, 32): 1.03, (1, 256, 48): 1.02, (1, 256, 64): 1.08,
               (1, 256, 96): 1.07, (1, 256, 112): 1.12, (1, 256, 128): 1.02},
    ),
}  # fmt: skip
"""By `kind_of`: of FP8 1x128 by 128x128, of FP8 1x128 by 1x128 added to f32, and of BF16. H200, 2026-11-21 and 22,
1403, 118 and 340 shapes with some 20 schedules each (benchmarks/results, *-schedules-*.json; before tiles of 8 columns
one warpgroup promoted one K block an iteration, not two). The fastest of a shape is among the first five in 91, 78 and
82 of 100, and the first one 2.0, 1.5 and 3.1 % slower than it in the geometric mean. The first were fitted to all but
the 170 shapes of up to 64 rows of 2026-11-22-h200-schedules-fp8-few.json (86 of 100, 2.2 %) and the 214 of -fp8-parts
and -fp8-parts-suite, which alone have parts of K that meet in a cluster (91 of 100, 2.1 %). Transposed results were
stored from registers then; with these turned in shared memory, at 150 shapes of 16 to 64 rows to which nothing was
fitted (2026-11-23-h200-schedules-fp8-few.json), 79 of 100 and 2.7 %, 0.4 % with the database's entries. By hand:
`sent`, by these, and `lone`, by all; of the first, 0.98 of 128x256, where the fit had 1.00 and the choice at K = 512
was another; of BF16, empty, stream, lone and spread, which the first had (3, and 5 as transposed tiles were faster
wherever both were timed). The second and BF16 have the first's `sent`, as their parts were not timed in a cluster; of
few rows the second knows nothing else, as few were timed."""


def kind_of(problem: Problem, promote: int) -> tuple[str, str]:
    """The kind of kernel that a problem has: its Kind, and how sums come about: "whole" in the tensor core,
    or promoted by "blocks", or by "rows" where both sides have a scale for each of theirs: two multiplications an
    accumulator, not one."""
    if not promote:
        return problem.kind.name, "whole"
    both = all(any(s.rows == 1 for s in side.promoted) for side in (problem.lhs, problem.rhs))
    return problem.kind.name, "rows" if both else "blocks"


def costs_of(problem: Problem, promote: int) -> Costs | None:
    """The constants of the kind of kernel that a problem has, None where nobody has measured it."""
    return FITTED.get(kind_of(problem, promote))


def run_of(problem: Problem, sizes: Mapping[str, int]) -> tuple[int, int]:
    """How many elements of K a sum has, of these sizes of all dimensions, and over how many times so many it runs."""
    own = [(sizes[x.k.name], math.prod(sizes[d.name] for d in x.summed)) for x in problem.products]
    return own[0] if len(own) == 1 else (sum(k * times for k, times in own), 1)


@dataclass(frozen=True)
class Load:
    """What a launch is to do, whatever its schedule."""

    sizes: tuple[int, int, int]  # of M, N and K of the program; of several contractions the columns of all
    bytes: int  # of operands and result, without scales and other inputs: what the constants were fitted with
    walks: int = 1  # how many times M by N is walked (Problem.walks)
    sums: int = 1  # over how many times K a sum runs (run_of)

    @property
    def flop(self) -> int:
        return 2 * self.walks * self.sums * math.prod(self.sizes)

    @staticmethod
    def of(problem: Problem, sizes: Mapping[str, int] | None = None) -> Load:
        """Of a problem that is not transposed; dimensions of no size have that of `sizes`, or the largest of
        their range, or are assumed large."""
        every = problem.sizes(sizes)
        m, n, (k, sums) = every[problem.m.name], every[problem.n.name], run_of(problem, every)
        read = [(x.stored, x.coords) for p in problem.products for x in (p.lhs, *p.rhs.panes)]
        moved = sum(
            x.bytes(elements(coords, every)) for x, coords in [*read, *((r.element, r.coords) for r in problem.bodies)]
        )
        return Load((m, n * problem.panes, k), moved, problem.walks(every), sums)


def seconds(problem: Problem, schedule: Schedule, load: Load, costs: Costs) -> float:
    """What a launch takes.

    Args:
        problem: as the schedule sees it.
        schedule: of which swap, tile, cluster, split, parts, promote, mma_n, consumers and warps count.
        load: of the launch.
        costs: of the kind of kernel.
    """
    time, waves = _launch(problem, schedule, load, costs)
    if waves > SEVERAL or not (problem.uneven(problem.m) or problem.uneven(problem.n)):
        return time
    far, _ = _launch(problem, schedule, load, costs, FAR)
    return time + FAR_SHARE * (far - time)


OFF_LINES = 4.0
"""Times as much asked of L2 where rows of copies lie in two lines of it: with K blocks at any 16 bytes 192x128 took
1.15 to 1.24 of the time, 256x128 1.04 and 1.05 (FP8, 1x128 by 1x128, f32; H100, 2026-11-27). So much that it
chooses the latter there; it then predicts a quarter too much."""

FAR_SHARE = 0.25
"""Share of launches whose ranges are as long as FAR has them, where another wave is much of a few: what lies beyond a
tile then takes one. Eight groups of 16 to 48 rows, 4096x7168, took 95 µs with 256x40, 84 with 128x48 (H100,
2026-11-27)."""


def _launch(
    problem: Problem, schedule: Schedule, load: Load, costs: Costs, lengths: tuple[float, ...] = UNEVEN
) -> tuple[float, float]:
    """Likewise, with ranges of these `lengths`, and in how many waves."""
    c, target, family = costs, problem.target, problem.family
    (bm, bn, bk), (along_m, along_n), parts = schedule.tile, schedule.cluster, schedule.split
    m, n, k = load.sizes
    if schedule.swap:
        m, n = n, m
    tiles = problem.covering(problem.m, m, bm, lengths) * problem.covering(problem.n, n, bn, lengths) * load.walks
    together = schedule.parts == "cluster"
    size = cluster_ctas(schedule.cluster, parts, schedule.parts)
    rows = problem.covering(problem.m, m, bm * along_m, lengths)
    columns = problem.covering(problem.n, n, bn * along_n, lengths)
    clusters = load.walks * rows * columns * (1 if together else parts)
    at_once = target.at_once(size)
    waves = -(-clusters // at_once)
    last = clusters - (waves - 1) * at_once
    blocks = math.ceil(load.sums * math.ceil(k / bk) / parts)
    sharing, taking = units(problem, schedule)[0], turns(schedule)
    waves_each = bm // (family.m * sharing)

    rates = target.rates
    rate = rates.flop_per_clock(problem.lhs.element.name, problem.rhs.element.name) * rates.clock
    flop = 2 * bn * bk * max(1, problem.lhs.addends) / rate * 1e9
    products = bm * flop * c.tensor
    goes = bn // (schedule.mma_n or bn) * slices(schedule)
    chain = waves_each * (family.m * flop * c.tensor + goes * c.chain + c.step * _steps(problem, schedule))
    row, column = problem.lhs.shared_bytes(bk), problem.rhs.shared_bytes(bk)
    # of one contraction, whose transposed tiles are faster at few rows, this stays as it was fitted
    there = rows_there(problem, schedule) if problem.panes > 1 else bm
    filled = (there * row + bn * column) * c.fill + (max(there - m, 0) + max(bn - n, 0)) * c.empty
    made = bm * row * problem.lhs.converted, bn * column * problem.rhs.converted
    anew = [x.made is not None for x in (problem.lhs, problem.rhs)]
    widened = [x.stored.bits == 16 and x.element.bits == 32 for x in (problem.lhs, problem.rhs)]
    rates_of = [
        ANEW[schedule.converters - 1] if x else WIDENED[1] if wide else CONVERTED
        for x, wide in zip(anew, widened, strict=True)
    ]
    for number, x in enumerate((problem.lhs, problem.rhs)):
        if x.turned and x.stored.bits == PACKED_BITS:
            sharing_out = max(1, schedule.converters)  # none are refused, behind a choice of tiles
            rates_of[number] = math.ceil(made[number] / TURNED[0]) * TURNED[1] / sharing_out / made[number]
    beside, converted = 0.0, sum(map(operator.mul, made, rates_of)) + any(anew) * products + any(widened) * WIDENED[0]
    if in_registers(schedule):
        row = problem.lhs.copied_bytes(bk)
        stages = min(AT_ONCE, target.shared_bytes // (bm * row + bn * column))
        kind = problem.lhs.stored.bits, problem.lhs.folded is not None, problem.lhs.element.bits
        each = IN_REGISTERS.get(kind, IN_REGISTERS[8, False, 16]) * (LONE if sharing == 1 else 1)
        if problem.lhs.addends:
            several = waves_each > 1 and not scales_apart(problem, schedule)
            each = IN_ADDENDS * (LONE if sharing == 1 or several else 1)
            each *= 1 if could_interleave(problem, schedule) else AS_STORED
        taken = bm * bk * each * (bn // (schedule.mma_n or bn))
        taken += BEHIND[problem.lhs.element.bits] * products + PROMOTED * bm * bn * bool(schedule.promote)
        if problem.lhs.in_fragments:
            taken *= REORDERED[scales_of_word(problem.lhs), problem.lhs.element.bits]
        converted = max(taken, ANSWER / max(1, stages - 1))
        if problem.rhs.converted:  # by other warps, and what is promoted was waited for
            converted = max(converted, bn * column * CONVERTED + HANDED, taken + products * bool(schedule.promote))
    beside += FINE * bm * bn * (slices(schedule) - 1)
    lines = [OFF_LINES if problem.off_lines(x) else 1.0 for x in (problem.lhs, problem.rhs)]
    asked = (min(bm, m) * row / along_n * lines[0] + min(bn, n) * column / along_m * lines[1]) * c.l2
    stored = c.tile + (c.turned if schedule.swap else c.column) * waves_each * bn
    moved = load.bytes / (tiles * parts)
    spread = size == SPREAD and not together and target.sms < 2 * clusters * size and clusters < at_once
    if spread:
        asked, moved = asked * c.spread, moved * c.spread

    in_both = in_registers(schedule) and problem.rhs.converted and not problem.lhs.addends
    written = 1.0
    if in_both:
        written = BOTH
    elif problem.converts and not (in_registers(schedule) or any(anew) or any(widened)):
        wide = any(x.converted and (x.turned or x.element.bits > 8) for x in (problem.lhs, problem.rhs))
        written = WRITTEN if wide else NARROW

    def memory(ctas: float) -> float:
        """For all CTAs together, and for one of a pair of SMs, where two share what brings it."""
        return moved * max(ctas * c.memory / rates.memory * 1e9, c.stream if 2 * ctas > target.sms else c.lone)

    def wave(ctas: float) -> float:
        if taking > 1:  # another tile is multiplied while one is stored, and between a warpgroup's products
            block = _norm(c.bound, products, filled, converted, asked * ctas / target.sms) + beside + c.block
            own = max(blocks * block, (blocks * block + stored) / taking)
            return _norm(c.overlap, own * written, memory(ctas))
        block = _norm(c.bound, products, chain, filled, converted, asked * ctas / target.sms) + beside + c.block
        return _norm(c.overlap, (blocks * block + stored) * written, memory(ctas))

    whole = wave(at_once * size) if waves > 1 else 0
    total = (waves - 1) * whole + wave(last * size) + c.launch + c.warpgroup * sharing * taking
    half_empty = 1 < waves <= SEVERAL and last <= HALF * at_once
    if size > 1 and not spread and not half_empty:
        total += c.cluster
    if together:
        total += waves * c.sent * math.prod(part_rooms(problem, schedule))
    elif schedule.parts == "columns":
        shares = sharing * bn // part_columns(bn, parts)  # each of a unit's columns
        if rows * columns > 1 and blocks >= APART:
            total *= DRIFT
        total += c.split + COLUMNWISE * c.exchange * bm * bn * (1 + max(1, parts / shares))
    elif parts > 1:
        steps = meetings(parts) if meets_by_steps(problem) else [stored_parts(problem, schedule)]
        if len(steps) > 1:
            moved = sum(min(left, FAN_IN) + 1 for left in steps) - 1
            total += c.split * len(steps) + STEPWISE * c.exchange * moved * bm * bn
        else:
            total += c.split * problem.segments + c.exchange * steps[0] * bm * bn  # of one behind the other
    # what tiles take beyond this was found with kernels that convert nothing
    own = 1.0 if problem.converts else c.tiles.get((schedule.swap, bm, bn), 1.0)
    by_both = all(any(s.rows == 1 for s in x.promoted) for x in (problem.lhs, problem.rhs))
    if by_both and bm * bn < ENOUGH_SUMS and waves > SEVERAL:
        own *= FEW_SUMS
    if in_registers(schedule) and size > 1 and bn >= CLUSTERED_COLUMNS and waves > SEVERAL:
        own *= CLUSTERED
    return total * 1e-9 * own, waves


HALF = 0.5
"""Of the clusters that run at once, up to which those of the last of a few waves add nothing: pairs took 0.991 to
0.994 of the time of single CTAs with 1 to 1.5 waves of tiles (330 pairs of schedules of 1553 shapes, predicted 0.99 to
1.02; H200, 2026-11-21 to 23), gates of 64 rows of 2 x 18432 0.94 (64x192, 2026-11-29). The model's first choices are
2.0 % slower than the fastest so, 2.1 % without."""


ENOUGH_SUMS, FEW_SUMS, SEVERAL = 192 * 128, 1.1, 3
"""Of a tile, and times as long as this says with fewer, where sums are promoted by factors of rows and of columns, in
more than so many waves: 128x128 took 1.17 of it, 128x160 1.03 to 1.15, 192x128 and 128x256 0.94 to 1.00 (1x128 by
1x128, f32, 8192 summed to 7168x2048 and 4096x7168, 7 and 11 waves; H100, 2026-11-27)."""


COLUMNWISE = 1.5
"""Of `exchange`, where a CTA stores its sums and adds its share of all: 64x64 in 11 parts took 2.4 µs beyond its
products, 64x128 in 22 parts 3.4, 128x192 in 64 parts 8 and 15 with long sums (H100, 2026-11-27)."""

DRIFT, APART = 1.08, 128
"""Times as long where clusters read the same rows of an operand, in parts of so many K blocks: they drift apart, and
L2 keeps less of it. With b = 4096 and 8192, three clusters or two took 1.03 to 1.16 of the time of one that covers
the result (ibid.)."""

STEPWISE = 0.6
"""Of `exchange`, where parts meet by steps: threads of large tiles have more loads under way at a time. 64 parts of
128x192, 192x128 and 128x256 sums took 28, 32 and 34 µs that did not grow with the length of the sums (H200,
2026-11-24)."""


def _norm(exponent: float, *values: float) -> float:
    """The maximum at a large exponent, the sum at 1."""
    most = max(values)
    return most * sum((v / most) ** exponent for v in values) ** (1 / exponent)


def _steps(problem: Problem, schedule: Schedule) -> int:
    """Factors of a row of a tile beyond STEPS: one for each columns that lie in one block wherever the tile begins, or
    for each block."""
    blocks = [s.rows for s in problem.rhs.promoted if s.rows not in (1, WHOLE)]
    steps = max((fetched(schedule, schedule.tile[1], b)[0] for b in blocks), default=1)
    return steps if steps > STEPS else 0
