"""How many CTAs share the K of one tile."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.ir.schedule import MAX_SPLIT, Schedule
from scalec.passes.base import decide
from scalec.passes.choose_stages import no_unroll_of_parts
from scalec.passes.choose_tiling import ASSUMED
from scalec.passes.parts import part_blocks
from scalec.passes.problem import Problem
from scalec.targets import Target

FEWEST_BLOCKS = 4
"""K blocks of a part, at the least: fewer do not fill the ring of stages before the sums are exchanged."""


class ChooseSplit:
    """Decides `split`: a power of two whose parts all run at once, each with FEWEST_BLOCKS K blocks or more, that moves
    the fewest bytes through one CTA.

    So K is split only where more than half of the SMs would have no tile; never where its size is not known. H200,
    2026-11-21, FP8 1x128 by 128x128, one row, times as fast as cuBLASLt: 2112x7168, 33 tiles, 1.37, 1.87, 2.20 and 1.67
    with 1, 2, 4 and 8 parts, of which 8 do not all run at once, nor do two of 7168x2048, 112 tiles: 1.50 and 1.05 with
    1 and 2.

        #scale.schedule<{tile = array<i64: 16, 128, 128>, cluster = array<i64: 1, 1>, ...}>    (32 tiles, k = 7168)
    -->
        #scale.schedule<{..., split = 4 : i64}>    (188 SMs)
    """

    name = "choose-split"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(module, target, lambda problem, schedule: schedule.with_fields(split=split_of(problem, schedule)),
               needs=("tile", "cluster"))  # fmt: skip


def split_of(problem: Problem, schedule: Schedule) -> int:
    """The parts that the K of a tile is split into."""
    assert schedule.tile is not None
    assert schedule.cluster is not None
    if problem.k.size is None:
        return 1
    (m, n, _), (along_m, along_n) = schedule.tile, schedule.cluster
    clusters = -(-problem.m.tiles(m, ASSUMED) // along_m) * -(-problem.n.tiles(n, ASSUMED) // along_n)
    most = min(MAX_SPLIT, problem.target.sms // (along_m * along_n) // clusters)
    splits = [2**i for i in range(1, most.bit_length()) if _fits(problem, schedule, 2**i)] if most > 1 else []
    return min([1, *splits], key=lambda split: moved(problem, schedule, split))


def moved(problem: Problem, schedule: Schedule, split: int) -> int:
    """Bytes that the last CTA of a tile copies and exchanges: its part of A and B, its sums and everyone's, in f32."""
    assert schedule.tile is not None
    (m, n, _), k = schedule.tile, problem.k.tiles(1, 0)
    copied = m * problem.lhs.element.bytes(k) + n * problem.rhs.element.bytes(k)
    return copied // split + (4 * m * n * (split + 1) if split > 1 else 0)


def _fits(problem: Problem, schedule: Schedule, split: int) -> bool:
    """Whether the parts are long enough, and of lengths that a decided `unroll` divides."""
    parted = schedule.with_fields(split=split)
    return part_blocks(problem, parted)[0] >= FEWEST_BLOCKS and not no_unroll_of_parts(
        problem, parted, schedule.unroll or 1
    )
