"""Who copies the scales that the tensor core applies from shared to tensor memory."""

from __future__ import annotations

from scalec.ir.schedule import Request
from scalec.passes.base import Decision
from scalec.passes.plan.draft import draft
from scalec.passes.problem.types import Problem


class CopyScales(Decision):
    """Decides `scale_copier`: a warp of its own where copies are many and tensor memory has room for two K blocks'.

        #scale.schedule<{tile = array<i64: 128, 256, 256>, promote = 0, ...}>    (nvfp4: 12 copies for 4 products)
    -->
        #scale.schedule<{..., scale_copier = 1 : i64}>
    """

    name = "copy-scales"
    needs = ("tile", "promote")

    def choose(self, problem: Problem, given: Request) -> Request:
        return given.with_fields(scale_copier=draft(problem, given).scale_copier)
