"""Scales that a program copies from one layout to another: a thread has those of adjacent columns of one row."""

from __future__ import annotations

from scalec.formats import ELEMENT_TYPES, UNITS
from scalec.ir.mlir import ir
from scalec.passes.emit.emitter import Source
from scalec.passes.emit.meeting import MeetingKernel
from scalec.passes.emit.pointwise import Point
from scalec.passes.problem.access import Dim
from scalec.passes.problem.pointwise import Level, Output

WORD = UNITS["packed"][1]
"""Scales of a byte that lie in a word, in the layouts that have them."""


class CopyingKernel(MeetingKernel):
    """Threads do not meet. Which rows and columns there are they find as those do who quantise, and where scales lie of
    groups that are apart. A row, or a column, is of as many indices as one scale (`Spread.blocks`): `where` has the
    first of these."""

    def tile(
        self, outer: dict[str, ir.Value], row: ir.Value, column: ir.Value, inside: ir.Value, aligned: ir.Value | None
    ) -> None:
        """All columns at once where they are there, else by words, and those of the last one by one."""
        e, p, s, i32 = self.e, self.p, self.spread, ir.IntegerType.get_signless(32)
        self.aligned_, self.groups, self.group, self.limits = None, {}, {}, {}
        where = dict(outer)
        for d in p.rows[-1:]:
            where[d.name] = self.element(d, self.corner[0], row, outer)
        where[p.columns.name] = self.element(p.columns, self.corner[1], column, outer)
        at, name, (_, block) = self.point(where, s.vector), p.columns.name, s.blocks
        if s.whole or s.vector == 1:
            with e.region("tile.when", [at.valid]):
                self.copy(at)
            return
        begin, end = at.where[name], self.until(p.columns)
        whole = e.compare("lt", self.further(begin, (s.vector - 1) * block), end)
        with e.region("tile.when", [e.arith("arith.andi", at.valid, whole)]):
            self.copy(at)
        with e.region("tile.when", [e.arith("arith.andi", at.valid, e.negated(whole))]):
            left = e.arith("arith.divui", self.further(e.arith("arith.subi", end, begin), block - 1), e.i32(block))
            parts = [(e.i32(0), left, 1)]
            if s.vector > WORD and s.vector % WORD == 0:
                words = e.arith("arith.andi", left, e.i32(-WORD))
                parts = [(e.i32(0), words, WORD), (words, left, 1)]
            for first, last, step in parts:
                count = e.arith("arith.subi", last, first)
                with (
                    e.region("tile.when", [e.compare("lt", first, last)]),
                    e.region("tile.steps", [count, []], (i32,), start=0, step=step, unroll=1) as loop,
                ):
                    passed = e.arith("arith.addi", first, loop.arguments[0])
                    further = e.arith("arith.muli", passed, e.i32(block)) if block > 1 else passed
                    self.copy(Point(at.where | {name: e.arith("arith.addi", begin, further)}, step, at.valid))

    def element(self, d: Dim, first: ir.Value, own: ir.Value, outer: dict[str, ir.Value]) -> ir.Value:
        """The index that a row, or column, begins at which is number `own` - `first` of a tile. It notes where those
        of the tile's group end, where that has one."""
        e, p, block = self.e, self.p, self.spread.blocks[d.name == self.p.columns.name]
        if block > 1:
            own = e.arith("arith.addi", first, e.arith("arith.muli", e.arith("arith.subi", own, first), e.i32(block)))
        found = next((x for x in p.by_tile if x.dim == d.name), None)
        if found is None:
            return own
        moved, high = self.in_group(found, outer, d, first)
        self.limits[d.name] = e.arith("arith.minui", high, self.size(d))
        return e.arith("arith.addi", own, moved)

    def copy(self, at: Point) -> None:
        """The scales of a point's columns, of every result."""
        for o in self.p.outputs:
            self.copy_scales(o, at)

    def copy_scales(self, o: Output, at: Point) -> None:
        """Those of one; words are read and written whole."""
        e, copied = self.e, o.copied
        assert copied is not None
        source, target = copied.source, copied.target

        def align(x: Level) -> int:
            return max(ELEMENT_TYPES[x.type].bits // 8, 4 * (x.layout in UNITS))

        result = e.memory(self.returned(o.index).type)
        written = e.parameter(self.body, result, Source("pointer", o.name, align=align(target)))
        ends = self.pointer(source.name, source.argument_index, align(source)), written
        operands, places = list[ir.Value](), list[list[ir.Value]]()
        for x, memory in zip((source, target), ends, strict=True):
            row, memory = self.scale_row(x.name, memory, x.coords, at)
            operands += [memory, e.i64(0) if x.axis < 0 else self.stride(x.name, x.axis)]
            places.append([row, self.counted_at(x.along, at.where), self.count(x)])
        size, block = self.p.columns.size, self.spread.blocks[1]
        words = target.layout in UNITS and not target.along.apart
        e.op(
            "tile.copy_scales",
            operands=[*operands, *places],
            columns=at.vector,
            scale=source.type,
            layout=source.layout,
            to=target.type,
            to_layout=target.layout,
            padding=int(words and (size is None or -(-size // block) % 4 != 0)),
        )

    def count(self, x: Level) -> ir.Value:
        """How many scales there are along the last index: as many more as groups that are apart are padded by."""
        e, at = self.e, x.along
        if at.dim != self.p.columns.name:  # an index from memory: nothing is counted
            return e.i32(0)
        unit, size = at.apart or at.divisor, self.size(self.p.columns)
        units = e.arith("arith.divui", self.further(size, unit - 1), e.i32(unit)) if unit > 1 else size
        if at.apart:
            group = next(d.group for d in self.p.by_tile if d.dim == at.dim)
            units = e.arith("arith.addi", units, self.size(next(d for d in self.p.groups if d.name == group)))
        return e.arith("arith.muli", units, e.i32(unit // at.divisor)) if unit > at.divisor else units
