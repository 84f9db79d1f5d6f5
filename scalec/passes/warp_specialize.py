"""How many warpgroups multiply, and how the register file is shared out."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
from scalec.passes.base import decide
from scalec.passes.problem import Problem
from scalec.targets import WAVE, Target

MAX_WARPGROUPS = 3

REGISTERS = {1: (40, 232), 2: (40, 232), 3: (32, 160)}
"""(producer, consumer) registers by consumer warpgroups. Two and three: no spills at 256x128 and 192x128 with
promotion, and the fastest of the splits tried; H200, 2026-11-21. One takes what two take."""


def warpgroups_for(rows: int) -> int:
    """The most warpgroups, up to three, that share `rows` in whole waves: 256 rows are two waves for each of two."""
    return next((w for w in range(MAX_WARPGROUPS, 1, -1) if rows % (WAVE * w) == 0), 1)


class WarpSpecialize:
    """Decides `warpgroups` (consumers) and `registers` (of producer and consumer threads).

        #scale.schedule<{tile = array<i64: 192, 128, 128>}>
    -->
        #scale.schedule<{tile = ..., warpgroups = 3 : i64, registers = array<i64: 32, 160>}>
    """

    name = "warp-specialize"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(module, target, self._choose, needs=("tile",))

    @staticmethod
    def _choose(problem: Problem, schedule: Schedule) -> Schedule:
        assert schedule.tile is not None
        warpgroups = schedule.warpgroups or warpgroups_for(schedule.tile[0])
        return schedule.with_fields(warpgroups=warpgroups, registers=REGISTERS[warpgroups])
