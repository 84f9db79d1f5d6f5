"""How many columns one tensor-core instruction multiplies."""

from __future__ import annotations

from scalec.ir.schedule import Request
from scalec.passes.base import Decision
from scalec.passes.plan.draft import draft
from scalec.passes.plan.mma_n import mma_n_of
from scalec.passes.plan.stationary import no_stationary
from scalec.passes.problem.types import Problem

DEALT_COLUMNS = 128
"""Of tiles whose columns' operand stays where a queue deals out ranges: with 64 memory binds FP8 logits in pages, and
they take 1.01 to 1.25 of the time (docs/notes/logits.md)."""


class ChooseMmaN(Decision):
    """Decides `stationary`, 1 where B's tile can stay for a run of tiles; and `mma_n`: then the widest instruction that
    shares a tile out in goes of whole reductions; else 0, all columns of the tile, where a consumer thread has
    registers for the partial sums of as many; else the widest for which it has. A narrower one reads A's tile more
    often.

        #scale.schedule<{tile = array<i64: 192, 176, 128>, ..., registers = array<i64: 32, 160>, promote = 128 : i64}>
    -->
        #scale.schedule<{..., mma_n = 88 : i64}>
    """

    name = "choose-mma-n"
    needs = ("tile", "warps", "registers", "promote")

    def choose(self, problem: Problem, given: Request) -> Request:
        plan = draft(problem, given)
        if given.stationary is None:
            gains = not problem.queued or plan.tile[1] >= DEALT_COLUMNS
            given = given.with_fields(stationary=int(given.run != 1 and gains and not no_stationary(problem, plan)))
        return given.with_fields(mma_n=mma_n_of(problem, draft(problem, given)))
