"""How many warpgroups multiply, and how the register file is shared out."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
from scalec.passes.base import decide
from scalec.passes.plan.warps import given_warpgroups, registers_for, turns_of, warpgroups_for, warps_for
from scalec.passes.problem.types import Problem
from scalec.targets import Target


class WarpSpecialize:
    """Decides `warpgroups` and `warps` (of consumers) and `registers` (of producer and consumer threads).

        #scale.schedule<{tile = array<i64: 192, 128, 128>}>
    -->
        #scale.schedule<{tile = ..., warpgroups = 3 : i64, warps = array<i64: 12, 1>, registers = array<i64: 32, 160>}>
    """

    name = "warp-specialize"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(module, target, self._choose, needs=("tile",))

    @staticmethod
    def _choose(problem: Problem, schedule: Schedule) -> Schedule:
        assert schedule.tile is not None
        warpgroups = given_warpgroups(schedule) or warpgroups_for(problem.family, schedule.tile, schedule.promote)
        sharing = warpgroups // turns_of(schedule, warpgroups)
        warps = schedule.warps or warps_for(problem, schedule.tile, sharing)
        registers = registers_for(problem, schedule, warpgroups)
        return schedule.with_fields(warpgroups=warpgroups, warps=warps, registers=registers)
