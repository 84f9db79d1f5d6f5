"""The tile of one CTA, the cluster, and how often sums leave the tensor core."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.errors import ScheduleError
from scalec.formats import WHOLE
from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
from scalec.passes.base import decide
from scalec.passes.problem import PROMOTION_BLOCK, Problem
from scalec.passes.resources import Registers, stages_that_fit
from scalec.passes.warp_specialize import REGISTERS, WAVE, warpgroups_for
from scalec.targets import Target

TILE_K_BYTES = 128
"""Bytes of K in a tile: one row of the widest swizzle, four instructions, and for FP8 one scale step."""

ASSUMED = 4096
"""Elements of a dimension whose size is not known: large, as in training and prefill."""


@dataclass(frozen=True)
class Candidate:
    """A tile (M, N), and the share of the fastest tile's rate that it reaches with all SMs busy."""

    m: int
    n: int
    efficiency: float


CANDIDATES = (
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
)


class ChooseTiling:
    """Decides `tile`, `cluster` and `promote`: the candidate that keeps the tensor cores busy the shortest.

    A launch takes ceil(clusters of tiles / clusters that run at once) waves, each as long as one tile takes; the
    candidates must fit registers and shared memory and cut the scale blocks of B evenly. Two CTAs along N share
    their A tile where N has two tiles. FP8 sums leave the tensor core every 128 of K (its accumulator keeps fewer
    bits than FP32), 16-bit ones at the end.

        #scale.schedule<{}>
    -->
        #scale.schedule<{tile = array<i64: 256, 128, 128>, cluster = array<i64: 1, 2>, promote = 128 : i64}>
    """

    name = "choose-tiling"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(module, target, choose)


def choose(problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule with tile, cluster and promote decided.

    Raises:
        ScheduleError: the fields decided leave no candidate.
    """
    bits = max(problem.lhs.element.bits, problem.rhs.element.bits)
    promote = schedule.promote if schedule.promote is not None else (PROMOTION_BLOCK if bits == 8 else 0)
    if schedule.tile is not None:
        tile = schedule.tile
    else:
        tile_k = TILE_K_BYTES * 8 // bits
        rows = [c for c in CANDIDATES if problem.m.size is None or problem.m.size > WAVE or c.m == WAVE]
        fitting = [c for c in rows if _fits(problem, schedule, (c.m, c.n, tile_k), promote)]
        if not fitting:
            raise ScheduleError(
                f"no tile fits {problem.target.name} with {schedule}",
                expected="one of " + ", ".join(f"{c.m}x{c.n}x{tile_k}" for c in rows),
                fix="decide tile too, or leave more to the compiler",
            )
        best = min(fitting, key=lambda c: cost(problem, schedule, c))
        tile = (best.m, best.n, tile_k)
    return schedule.with_fields(tile=tile, cluster=_cluster(problem, schedule, tile[1]), promote=promote)


def cost(problem: Problem, schedule: Schedule, candidate: Candidate) -> float:
    """How long a launch takes, in units of one accumulator element at the fastest tile's rate."""
    along_m, along_n = _cluster(problem, schedule, candidate.n)
    clusters = -(-problem.m.tiles(candidate.m, ASSUMED) // along_m) * -(
        -problem.n.tiles(candidate.n, ASSUMED) // along_n
    )
    waves = -(-clusters // (max(1, problem.target.sms // (along_m * along_n))))
    return waves * candidate.m * candidate.n / candidate.efficiency


def cuts_scales(problem: Problem, tile: tuple[int, ...]) -> bool:
    """Whether a tile holds whole scale blocks of B, or lies within one, so that no tile straddles a block's edge."""
    blocks = [s.rows for s in problem.rhs.scales if s.rows not in (1, WHOLE)]
    return all(tile[1] % b == 0 or b % tile[1] == 0 for b in blocks)


def _cluster(problem: Problem, schedule: Schedule, tile_n: int) -> tuple[int, int]:
    if schedule.cluster is not None:
        return schedule.cluster
    return (1, 2) if problem.n.tiles(tile_n, ASSUMED) >= 2 and problem.target.max_cluster >= 2 else (1, 1)


def _fits(problem: Problem, schedule: Schedule, tile: tuple[int, int, int], promote: int) -> bool:
    """Whether registers and two stages (without a staged epilogue, unless decided) fit, and scales are cut evenly."""
    warpgroups = schedule.warpgroups or warpgroups_for(tile[0])
    if tile[0] % (WAVE * warpgroups) or not cuts_scales(problem, tile):
        return False
    _, consumer = schedule.registers or REGISTERS[warpgroups]
    if Registers.of(tile, warpgroups, promote).total > consumer:
        return False
    plan = schedule.with_fields(tile=tile, epilogue=schedule.epilogue or "direct")
    return stages_that_fit(problem, plan) >= (schedule.stages or 2)
