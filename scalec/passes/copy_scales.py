"""Who copies the scales that the tensor core applies from shared to tensor memory."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
from scalec.passes.base import decide
from scalec.passes.problem import Problem
from scalec.passes.tensor_columns import most_scale_slots, scale_copies
from scalec.targets import Target

COPIES = 0.75
"""Copies for each product that the thread which issues products makes beside them: at so many, three for four products
of MXFP8, its loop has 8.0 instructions a product, at twice as many 12.4 (MXFP4; ptxas 13.0, 2026-11-21)."""


class CopyScales:
    """Decides `scale_copier`: a warp of its own where copies are many and tensor memory has room for two K blocks'.

        #scale.schedule<{tile = array<i64: 128, 256, 256>, promote = 0, ...}>    (nvfp4: 12 copies for 4 products)
    -->
        #scale.schedule<{..., scale_copier = 1 : i64}>
    """

    name = "copy-scales"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(module, target, self._choose, needs=("tile", "promote"))

    @staticmethod
    def _choose(problem: Problem, schedule: Schedule) -> Schedule:
        return schedule.with_fields(scale_copier=copier_for(problem, schedule))


def copier_for(problem: Problem, schedule: Schedule) -> int:
    """The `scale_copier` of a schedule that leaves it undecided; its tile and `promote` are decided."""
    assert schedule.tile is not None
    if problem.family.sums_in != "tensor":
        return 0
    many = scale_copies(problem, schedule) > COPIES * (schedule.tile[2] // problem.family.k)
    return int(many and most_scale_slots(problem, schedule) >= 2)
