"""Which launches begin before the kernel before them has ended."""

from __future__ import annotations

from scalec.ir.schedule import Request
from scalec.passes.base import Decision
from scalec.passes.problem.types import Problem

DEPENDENT = 8
"""Units of 2^30 multiplications. H200, 2026-11-21, FP8 1x128 by 128x128 in CUDA graphs, times as fast with it:
1x7168x2048 1.11, 64x7168x2048 1.10, 16x2112x7168 1.08, 64x2112x7168 1.07, 128x24576x1536 (4.5 units) 1.02; but
128x7168x16384 (14) and 4096x2112x7168 (58) 0.97, three larger ones 1.00. On other GPUs nothing has been measured."""

OF_PAGES = 1 << 20
"""Likewise of programs that read an operand by pages, so each element for a few columns alone: memory bounds these
whatever their size. 256 sequences of up to 8192 keys take 0.98 to 0.99 of the time, of ten larger cases the least took
0.98 and the most 1.005 (H100, 2026-11-27)."""


class ChooseDependent(Decision):
    """Decides `dependent`: launches up to a size that gained by it. What precedes the first copy (barriers, tensor
    maps, the cluster's meeting, tensor memory) takes as long whatever the size; CTAs that wait take room from those
    that still work.

        #scale.schedule<{...}>
    -->
        #scale.schedule<{..., dependent = 8 : i64}>
    """

    name = "choose-dependent"

    def choose(self, problem: Problem, given: Request) -> Request:
        pages = any(x.page for x in (problem.lhs, problem.rhs))
        return given.with_fields(dependent=OF_PAGES if pages else DEPENDENT)
