"""Consumers that fold all columns of a tile before what they come to is joined."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from scalec.ir.mlir import ir
from scalec.passes.emit.consumer import Consumer
from scalec.passes.emit.row_factors import times
from scalec.passes.problem.types import Problem


class FoldsAtOnce(Consumer):
    """What these have in common."""

    def surely(self, of: Problem, reads: list[dict[int, dict[Any, ir.Value]]]) -> list[ir.Value]:
        """Where terms are sums of finite numbers times one value of a column each: whether these are small enough for
        terms and sums to be finite, for each part of a tile; nothing elsewhere, or without factors of rows."""
        split, factors = self.without_factors(of.result, self.split[0])
        if not factors:
            return []
        value = times(split.left, self.body_of(of.result).arguments[of.result.accumulators[0]])
        operands, fold = (self.problem.lhs, self.problem.rhs), of.result.column_fold
        held = split.held.get(value) if value is not None else None
        if held is None or fold is None or fold.kind != "sum":
            return []
        if not all(x.element.finite for x in operands) or not all(held in made[0] for made in reads):
            return []
        most = math.prod(x.element.max for x in operands) * self.schedule.tile[2] * fold.size
        limit = ir.FloatAttr.get(ir.F32Type.get(), 2.0 ** (126 - math.ceil(math.log2(most))))
        i1 = ir.IntegerType.get_signless(1)
        each = [self.e.op("tile.at_most", [i1], [made[0][held]], limit=limit).result for made in reads]
        if not self.problem.kind.tensor_memory:
            return each
        return [reduce(lambda x, y: self.e.arith("arith.andi", x, y), each)] * len(each)  # one branch decides for all
