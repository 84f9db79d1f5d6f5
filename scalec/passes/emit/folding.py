"""Programs without a contraction that reduce an index which no result has, and of which threads take parts by turns.

    S[k] = max[m](X[m,k])                                       D[g,n] = sum[m](X[m,n]) for m in off[g]:off[g+1]

The threads of a CTA have the same columns in as many rows as there are such threads: each goes on by that many, and
what they have of a column is put together in the order of their numbers, so that two launches have the same bits.
"""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.ir.tile_pointwise import LANES
from scalec.passes.emit.meeting import MeetingKernel
from scalec.passes.emit.pointwise import Point
from scalec.passes.problem.pointwise import Reduction


class FoldingKernel(MeetingKernel):
    """All threads of a CTA go the same way, as they meet."""

    def tile(
        self, outer: dict[str, ir.Value], row: ir.Value, column: ir.Value, inside: ir.Value, aligned: ir.Value | None
    ) -> None:
        """Adjacent columns of one index of each further dimension."""
        e, p = self.e, self.p
        self.aligned_, self.column = aligned, column
        first, sums = e.arith("arith.subi", row, self.corner[0]), list[ir.Value]()
        where = outer | ({p.rows[-1].name: self.corner[0]} if p.rows else {}) | {p.columns.name: column}
        at = self.point(where, self.spread.vector)
        for r in p.reductions:
            sums.append(self.folded(r, at, first, sums))
        mine = e.arith("arith.andi", at.valid, e.compare("eq", first, e.i32(0)))
        made = [self.value(o.body, at, sums, o.exact) for o in p.outputs]
        with e.region("tile.when", [mine]):
            for o, x in zip(p.outputs, made, strict=True):
                self.store(o, x, at)

    def folded(self, r: Reduction, at: Point, first: ir.Value, before: list[ir.Value]) -> ir.Value:
        """A reduction, of those `before` it: each thread has the terms from number `first` on, in steps of as many as
        there are such threads. Terms that an index skips are left out."""
        e, s, i32 = self.e, self.spread, ir.IntegerType.get_signless(32)
        count = s.threads // s.across
        low, high = self.bounds(r, at)
        sums = self.running(r.kind)
        varying, once = self.read_once(r, at, before)
        terms = e.arith("arith.subi", high, low)
        with (
            e.region("tile.when", [e.compare("lt", low, high)]),
            e.region("tile.steps", [terms, []], (i32,), start=0, step=count * s.together, unroll=1) as loop,
        ):
            begin = e.arith("arith.addi", e.arith("arith.addi", low, loop.arguments[0]), first)
            points = []
            for i in range(s.together):
                j, valid = self.within(self.further(begin, i * count), high, at.valid)
                where, valid = self.looked_up(varying, at.where | {r.dim.name: j}, valid)
                points.append(Point(where, at.vector, valid, at.count, at.whole))
            self.take(r, sums, points, once)
        sharing = (count - 1) * s.across
        exchange = 0 if sharing >= LANES else -1
        facts = {"kind": r.kind, "sharing": sharing, "exchange": exchange}
        return e.op("tile.reduce_each", [sums.type], [[sums]], **facts).result

    def bounds(self, r: Reduction, at: Point) -> tuple[ir.Value, ir.Value]:
        """The first index that is reduced, and the one behind the last: of a range as memory has it, within the
        dimension."""
        e, extent = self.e, self.size(r.dim)
        if r.within is None:
            return e.i32(0), extent
        found = []
        for end in (r.within.low, r.within.high):
            made = self.end(end, at.where)
            negative = e.negated(e.compare("lt", made, e.i32(-(1 << 31))))
            made = e.op("arith.select", [made.type], [negative, e.i32(0), made]).result
            found.append(e.arith("arith.minui", made, extent))
        return found[0], found[1]
