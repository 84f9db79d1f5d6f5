"""What a launch takes by a schedule, of a kind of kernel whose launches were measured: the model that schedules are
ranked by.

The SMs work on the tiles, or their parts of K, in waves. A wave takes as long as what one SM does for a tile, and the
memory for all of theirs, the two half hidden behind each other (`overlap`); within an SM a K block likewise takes as
long as its products, a warpgroup's chain of product and promotion, and its copies. Beside the target's documented
rates a few constants are fitted to measured launches (benchmarks/fit_costs.py), a set for each kind of kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from scalec.formats import WHOLE
from scalec.ir.schedule import Schedule
from scalec.passes.column_factors import fetched
from scalec.passes.parts import most_shares
from scalec.passes.problem import ASSUMED, Problem
from scalec.passes.resources import turns, units

STEPS = 2
"""Factors of a row of a tile that cost nothing beside the products: those of 128 columns have two at the most."""


FITTED_COLUMNS = 16
"""The fewest columns of the tiles whose launches the constants are fitted to: narrower ones have its factor."""

EXCHANGED = 2
"""Sums of a tile that a CTA stores or adds where tiles are cut into shares: those of one, and of another. As those of
two parts where K is split: launches were slower than that (docs/decisions.md), and nothing is fitted to them."""


@dataclass(frozen=True)
class Costs:
    """The constants, fitted to a kind of kernel. In nanoseconds where nothing else is said.

    Attributes:
        launch: of a launch, whatever its size.
        warpgroup: that each consumer warpgroup adds to it.
        cluster: that a cluster of several CTAs adds to it.
        tensor: times the documented time of the products.
        chain: after each product of a warpgroup's wave, or of some of its columns, until it can issue the next.
        step: for each factor of a row of the tile, where there are more than STEPS.
        fill: a byte of a K block that copies write to shared memory.
        l2: a byte of a K block that an SM asks L2 for, all SMs asking.
        block: of a K block, beside these.
        tile: of a tile, beside its K blocks.
        column: of a tile, for each column of each wave of a warpgroup: the results' way to memory.
        turned: likewise, where the transposed result is computed.
        memory: times the documented time of the bytes that cross device memory.
        split: of a launch whose K is split.
        exchange: likewise, for each accumulator of each part of a tile.
        overlap: exponent of the norm that SM and memory are combined by.
        bound: exponent of the norm that products, chain and copies are combined by.
        tiles: by swap, and rows and columns of the tile, what the whole is multiplied by: what the rest leaves over.
    """

    launch: float
    warpgroup: float
    cluster: float
    tensor: float
    chain: float
    step: float
    fill: float
    l2: float
    block: float
    tile: float
    column: float
    turned: float
    memory: float
    split: float
    exchange: float
    overlap: float
    bound: float
    tiles: Mapping[tuple[int, int, int], float] = field(default_factory=dict)


FITTED = {
    ("shared", "blocks"): Costs(
        launch=1530, warpgroup=230, cluster=384, tensor=0.953, chain=48, step=10.5, fill=0.00613, l2=0.00568,
        block=27.4, tile=741, column=1.76, turned=17.9, memory=1.12, split=932, exchange=0.102, overlap=2.33,
        bound=2.39,
        tiles={(0, 64, 16): 1.34, (0, 64, 32): 1.23, (0, 64, 48): 1.07, (0, 64, 64): 1.08, (0, 64, 112): 0.97,
               (0, 64, 160): 0.96, (0, 64, 192): 0.95, (0, 128, 16): 1.2, (0, 128, 32): 1.17, (0, 128, 48): 1.08,
               (0, 128, 64): 1.05, (0, 128, 80): 1.04, (0, 128, 96): 0.97, (0, 128, 112): 1.02, (0, 128, 128): 0.97,
               (0, 128, 144): 1.02, (0, 128, 176): 1.09, (0, 128, 192): 0.97, (0, 192, 32): 1.08, (0, 192, 48): 1.06,
               (0, 192, 64): 1.04, (0, 192, 80): 1.06, (0, 192, 96): 1.03, (0, 192, 112): 1.07, (0, 256, 32): 1.16,
               (0, 256, 48): 1.04, (0, 256, 80): 0.96, (1, 64, 16): 0.94, (1, 64, 32): 0.98, (1, 64, 80): 0.97,
               (1, 64, 96): 1.02, (1, 64, 128): 1.02, (1, 64, 160): 1.04, (1, 64, 192): 1.05, (1, 128, 16): 0.95,
               (1, 128, 64): 1.06, (1, 128, 80): 1.04, (1, 128, 96): 1.03, (1, 128, 112): 1.09, (1, 128, 128): 1.03,
               (1, 128, 160): 1.04, (1, 128, 192): 1.11, (1, 192, 16): 0.96, (1, 192, 32): 1.04, (1, 192, 48): 1.04,
               (1, 192, 64): 1.08, (1, 192, 80): 1.1, (1, 192, 96): 1.12, (1, 192, 112): 1.17, (1, 192, 128): 1.06,
               (1, 256, 16): 0.96, (1, 256, 32): 1.04, (1, 256, 48): 1.07, (1, 256, 64): 1.07, (1, 256, 80): 1.1,
               (1, 256, 96): 1.11, (1, 256, 112): 1.09, (1, 256, 128): 1.03},
    ),
    ("shared", "rows"): Costs(
        launch=0, warpgroup=1030, cluster=190, tensor=1.58, chain=32.6, step=11.3, fill=0.0117, l2=0.00822, block=0,
        tile=606, column=27.7, turned=37.1, memory=0.713, split=751, exchange=0.0877, overlap=1.49, bound=4.55,
        tiles={(0, 64, 48): 1.04, (0, 64, 96): 0.97, (0, 64, 128): 0.97, (0, 64, 160): 0.92, (0, 64, 192): 0.93, (0,
               128, 32): 0.97, (0, 128, 48): 0.98, (0, 128, 64): 0.98, (0, 128, 96): 0.97, (0, 128, 112): 1.04, (0,
               128, 128): 0.98, (0, 128, 160): 0.97, (0, 128, 192): 0.97, (0, 192, 48): 0.96, (0, 192, 80): 1.05,
               (0, 192, 112): 1.02, (0, 256, 64): 1.03, (0, 256, 80): 1.05, (0, 256, 96): 1.03, (0, 256, 112): 1.05,
               (1, 64, 32): 1.04, (1, 64, 64): 1.02, (1, 64, 128): 0.98, (1, 64, 160): 0.96, (1, 128, 48): 0.97, (1,
               128, 64): 1.03, (1, 128, 80): 0.98, (1, 128, 112): 1.04, (1, 128, 128): 0.97, (1, 192, 80): 1.03, (1,
               192, 96): 1.04},
    ),
    ("shared", "whole"): Costs(
        launch=1240, warpgroup=366, cluster=367, tensor=1.18, chain=80.4, step=0, fill=0.00801, l2=0.00783, block=0,
        tile=385, column=2.5, turned=0, memory=1.11, split=1180, exchange=0.11, overlap=2.58, bound=6.39,
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
975, 118 and 340 shapes with some 20 schedules each (benchmarks/results, *-schedules-*.json). The fastest of a shape is
among the first five in 90, 78 and 80 of 100, and the first one 2.8, 1.5 and 3.4 % slower than it in the geometric mean.
By hand: of the first, 384 of a cluster, where the fit had 371 and 0.2 of 100 less, 48 of chain, where it had 46.9
before shapes of K up to 2048 were timed again, and 1.00 of 128x256, where it had 1.03."""


def kind_of(problem: Problem, promote: int) -> tuple[str, str]:
    """The kind of kernel that a problem has: MmaShape.kernel, and how sums come about: "whole" in the tensor core,
    or promoted by "blocks", or by "rows" where both sides have a scale for each of theirs: two multiplications an
    accumulator, not one."""
    if not promote:
        return problem.family.kernel, "whole"
    both = all(any(s.rows == 1 for s in side.promoted) for side in (problem.lhs, problem.rhs))
    return problem.family.kernel, "rows" if both else "blocks"


def costs_of(problem: Problem, promote: int) -> Costs | None:
    """The constants of the kind of kernel that a problem has, None where nobody has measured it."""
    return FITTED.get(kind_of(problem, promote))


@dataclass(frozen=True)
class Load:
    """What a launch is to do, whatever its schedule.

    Attributes:
        sizes: of M, N and K of the program.
        bytes: of operands and result, without scales and other inputs: what the constants were fitted with.
    """

    sizes: tuple[int, int, int]
    bytes: int

    @staticmethod
    def of(problem: Problem, sizes: Mapping[str, int] | None = None) -> Load:
        """Of a problem that is not transposed; dimensions of no size have that of `sizes`, or the largest of
        their range, or are assumed large."""
        m, n, k = (
            d.size if d.size is not None else (sizes or {}).get(d.name, d.most or ASSUMED)
            for d in (problem.m, problem.n, problem.k)
        )
        moved = problem.lhs.element.bytes(m * k) + problem.rhs.element.bytes(n * k)
        return Load((m, n, k), moved + problem.result.element.bytes(m * n))


def seconds(problem: Problem, schedule: Schedule, load: Load, costs: Costs) -> float:
    """What a launch takes.

    Args:
        problem: as the schedule sees it.
        schedule: with swap, tile, cluster, split and promote decided, and stream_k and consumers where they are not as
            most are.
        load: of the launch.
        costs: of the kind of kernel.
    """
    assert schedule.tile is not None
    assert schedule.cluster is not None
    c, target, family = costs, problem.target, problem.family
    (bm, bn, bk), (along_m, along_n), parts = schedule.tile, schedule.cluster, schedule.split or 1
    m, n, k = load.sizes
    if schedule.swap:
        m, n = n, m
    tiles = -(-m // bm) * -(-n // bn)
    clusters = -(-m // (bm * along_m)) * -(-n // (bn * along_n)) * parts
    at_once = target.at_once(along_m * along_n)
    waves = -(-clusters // at_once)
    last = clusters - (waves - 1) * at_once
    blocks = math.ceil(math.ceil(k / bk) / parts)
    sharing, taking = units(problem, schedule)[0], turns(problem, schedule)
    waves_each = bm // (family.m * sharing)

    rates = target.rates
    flop = 2 * bn * bk / rates.flop_per_clock(problem.lhs.element.name, problem.rhs.element.name) / rates.clock * 1e9
    products = bm * flop * c.tensor
    goes = bn // (schedule.mma_n or bn)
    chain = waves_each * (family.m * flop * c.tensor + goes * c.chain + c.step * _steps(problem, schedule))
    row, column = problem.lhs.shared_bytes(bk), problem.rhs.shared_bytes(bk)
    filled = (bm * row + bn * column) * c.fill
    asked = (min(bm, m) * row / along_n + min(bn, n) * column / along_m) * c.l2
    stored = c.tile + (c.turned if schedule.swap else c.column) * waves_each * bn
    moved = load.bytes / (tiles * parts) * c.memory / rates.memory * 1e9

    def wave(ctas: int) -> float:
        if taking > 1:  # another tile is multiplied while one is stored, and between a warpgroup's products
            block = _norm(c.bound, products, filled, asked * ctas / target.sms) + c.block
            return _norm(c.overlap, max(blocks * block, (blocks * block + stored) / taking), ctas * moved)
        block = _norm(c.bound, products, chain, filled, asked * ctas / target.sms) + c.block
        return _norm(c.overlap, blocks * block + stored, ctas * moved)

    size = along_m * along_n
    total = (waves - 1) * wave(at_once * size) + wave(last * size) + c.launch + c.warpgroup * sharing * taking
    if schedule.stream_k and last < at_once:
        running = min(at_once, clusters * most_shares(problem, schedule))
        total += clusters / running * wave(running * size) - (waves - 1) * wave(at_once * size) - wave(last * size)
        total += c.split + c.exchange * EXCHANGED * bm * bn
    if size > 1:
        total += c.cluster
    if parts > 1:
        total += c.split + c.exchange * parts * bm * bn
    return total * 1e-9 * c.tiles.get((schedule.swap or 0, bm, max(bn, FITTED_COLUMNS)), 1.0)


def _norm(exponent: float, *values: float) -> float:
    """The maximum at a large exponent, the sum at 1."""
    most = max(values)
    return most * sum((v / most) ** exponent for v in values) ** (1 / exponent)


def _steps(problem: Problem, schedule: Schedule) -> int:
    """Factors of a row of a tile beyond STEPS: one for each columns that lie in one block wherever the tile begins, or
    for each block."""
    assert schedule.tile is not None
    blocks = [s.rows for s in problem.rhs.promoted if s.rows not in (1, WHOLE)]
    steps = max((fetched(schedule, schedule.tile[1], b)[0] for b in blocks), default=1)
    return steps if steps > STEPS else 0
