"""How many warpgroups multiply, and how the register file is shared out."""

from __future__ import annotations

from scalec.ir.schedule import Request
from scalec.passes.base import Decision
from scalec.passes.plan.draft import draft
from scalec.passes.problem.types import Problem


class WarpSpecialize(Decision):
    """Decides `warpgroups` and `warps` (of consumers), `convert`, `converters`, and `registers` (of a producer's and a
    consumer's threads).

        #scale.schedule<{tile = array<i64: 192, 128, 128>}>
    -->
        #scale.schedule<{tile = ..., warpgroups = 3 : i64, warps = array<i64: 12, 1>, convert = "shared",
                         converters = 0 : i64, registers = array<i64: 32, 160>}>
    """

    name = "warp-specialize"
    needs = ("tile",)

    def choose(self, problem: Problem, given: Request) -> Request:
        plan = draft(problem, given)
        return given.with_fields(
            warpgroups=plan.warpgroups,
            warps=plan.warps,
            convert=plan.convert,
            converters=plan.converters,
            registers=plan.registers,
        )
