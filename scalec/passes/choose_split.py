"""How many CTAs share the K of one tile."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.ir.schedule import MAX_SPLIT, Schedule
from scalec.passes.base import decide
from scalec.passes.choose_tiling import ASSUMED
from scalec.passes.parts import part_blocks
from scalec.passes.problem import Problem
from scalec.targets import Target

FEWEST_BLOCKS = 4
"""K blocks of a part, at the least: fewer do not fill the ring of stages before the sums are exchanged."""


class ChooseSplit:
    """Decides `split`: the largest power of two whose parts all run at once, each with FEWEST_BLOCKS K blocks or more.

    So K is split only where more than half of the SMs would have no tile. 1 where the size of K is not known, and where
    the tensor core reads shared memory: not measured there.

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
    if problem.k.size is None or problem.family.operands_in != "registers":
        return 1
    (m, n, _), (along_m, along_n) = schedule.tile, schedule.cluster
    clusters = -(-problem.m.tiles(m, ASSUMED) // along_m) * -(-problem.n.tiles(n, ASSUMED) // along_n)
    room = problem.target.sms // (along_m * along_n)
    split = 1
    while 2 * split <= min(MAX_SPLIT, room // clusters) and _long_enough(problem, schedule, 2 * split):
        split *= 2
    return split


def _long_enough(problem: Problem, schedule: Schedule, split: int) -> bool:
    return part_blocks(problem, schedule.with_fields(split=split))[0] >= FEWEST_BLOCKS
