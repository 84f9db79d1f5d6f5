"""The scales of blocks that threads find, or whose largest magnitudes are given, and their stores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scalec.formats import ELEMENT_TYPES
from scalec.ir.mlir import ir
from scalec.ir.tile_pointwise import LANES
from scalec.passes.emit.emitter import Source
from scalec.passes.emit.pointwise import Point, PointwiseKernel
from scalec.passes.plan.pointwise import SECTOR
from scalec.passes.problem.access import Coord
from scalec.passes.problem.pointwise import Blocks, Output, Read

Scale = tuple[ir.Value, ir.Value]
"""That of a block as it is stored, and what values are multiplied by."""


class ScalingKernel(PointwiseKernel):
    """Attributes:
    inverses: of results with a scale of the whole, its reciprocal.
    scales: those that have been found of magnitudes which are given.
    exchanged: of each time that warps have exchanged numbers in this tile, where.
    room: bytes that they do it in, of which there are twice as many.
    aligned_: whether vectors may begin where rows do, an i1; None where all do.
    """

    inverses: dict[int, ir.Value]
    scales: dict[Any, Scale]
    exchanged: list[int]
    room: int
    aligned_: ir.Value | None

    def sharing(self, rows: int, columns: int) -> dict[str, Any]:
        """What an op is told of the threads that share a block. Each number of times warps use the other of two rooms:
        who writes there has met those who have read it since. Where a loop comes here again, they meet before."""
        s, sharing = self.spread, self.spread.sharing(rows, columns)
        if sharing < LANES:
            return {"sharing": sharing, "exchange": -1}
        if s.looped:
            return {"sharing": sharing, "exchange": 0}
        self.exchanged.append(len(self.exchanged) % 2 * self.room)
        return {"sharing": sharing, "exchange": self.exchanged[-1], "fresh": True}

    def further(self, index: ir.Value, by: int) -> ir.Value:
        """An index, so many further."""
        return self.e.arith("arith.addi", index, self.e.i32(by)) if by else index

    def scales_of_columns(self, o: Output, scale: Blocks, values: list[ir.Value], at: Point) -> ir.Value:
        """What columns are multiplied by of which each has its own blocks, of several rows: found, and stored by who is
        at a block's first point."""
        e, vector = self.e, at.vector
        facts = self.sharing(scale.rows, 1)
        made = e.op("tile.reduce_each", [self.columns(vector)], [values], kind="absmax", **facts).result
        return self.each_column(o, scale, made, at)

    def each_column(self, o: Output, scale: Blocks, largest: ir.Value, at: Point) -> ir.Value:
        """The reciprocals of the scales of adjacent columns with these largest magnitudes, which are stored."""
        e, f32, name = self.e, ir.F32Type.get(), self.p.columns.name
        reciprocals, end = [], self.until(self.p.columns)
        for i in range(at.vector):
            own = e.op("tile.column", [f32], [largest], at=i).result
            code, reciprocal = self.find_scale(o, scale, own)
            column = self.further(at.where[name], i)
            inside = e.arith("arith.andi", at.valid, e.compare("lt", column, end))
            if at.masked and at.count is not None:
                own = e.arith("arith.andi", at.count, e.i32(1 << i))
                inside = e.arith("arith.andi", inside, e.negated(e.compare("eq", own, e.i32(0))))
            store = self.store_scale if scale.largest is None else self.store_given
            store(o, scale, code, replace(at, where=at.where | {name: column}, valid=inside))
            reciprocals.append(reciprocal)
        return e.op("tile.columns_of", [largest.type], [reciprocals]).result

    def find_scale(self, o: Output, scale: Blocks, largest: ir.Value) -> Scale:
        """That of a block with this largest magnitude."""
        i32, inverse = ir.IntegerType.get_signless(32), [x for i, x in self.inverses.items() if i == o.index]
        made = self.e.op(
            "tile.find_scale",
            [i32, ir.F32Type.get()],
            [largest, inverse],
            element=ir.TypeAttr.get(ir.Type.parse(o.element.mlir)),
            scale=scale.type,
        )
        return made.results[0], made.results[1]

    def store_pair(self, o: Output, scale: Blocks, pair: list[tuple[ir.Value, Point]], edge: Point) -> None:
        """Those of two blocks of a row, each by one of two threads that share both: at once, as what warps store to one
        sector at a time is one access of L2. Of the second block the second thread may have no columns."""
        e, name = self.e, self.p.columns.name
        (code, at), (other, beside) = pair
        turn = e.op("tile.own_turn", [code.type], threads=2).result
        second = e.compare("eq", turn, e.i32(1))

        def either(x: ir.Value, y: ir.Value) -> ir.Value:
            return e.op("arith.select", [x.type], [second, y, x]).result

        own = e.arith("arith.muli", turn, e.i32(at.vector))
        first = e.arith("arith.subi", either(at.where[name], beside.where[name]), own)
        valid = e.arith("arith.andi", edge.valid, e.compare("lt", first, self.until(self.p.columns)))
        at = replace(at, where=at.where | {name: first}, valid=valid)
        self.store_scale(o, scale, either(code, other), at, turns=2)

    def store_scale(self, o: Output, scale: Blocks, code: ir.Value, at: Point, turns: int = 1) -> None:
        """That of the block whose first point this is, by one of its threads, or by so many, each of which has a block;
        of all of a row, its edge. L2 keeps sectors of which a tile has a part: both orders in mxfp8 take 0.91 of the
        time (H200, docs/notes/pointwise.md)."""
        e, rank = self.e, len(o.coords)
        memory = e.memory(self.returned(scale.index).type)
        target = e.parameter(self.body, memory, Source("pointer", scale.name, align=1))
        coords = o.coords[:-1]
        if scale.rows > 1 or scale.apart:
            own = replace(coords[-1], divisor=coords[-1].divisor * scale.rows, apart=scale.apart)
            coords = (*coords[:-1], own)
        row, target = self.scale_row(scale.name, target, coords, at)
        stride = self.scale_stride(scale.name, scale.layout, rank)
        n, block = (self.size(self.p.columns), scale.columns) if scale.columns else (e.i32(1), 1)
        column = at.where[self.p.columns.name] if scale.columns else e.i32(0)
        fits = scale.beside or self.fits(scale)
        if scale.beside:
            column = self.counted_at(Coord(self.p.columns.name, apart=scale.beside), at.where)
            units = e.arith("arith.divui", self.further(n, scale.beside - 1), e.i32(scale.beside))
            n = e.arith("arith.muli", e.arith("arith.addi", units, self.size(self.p.groups[0])), e.i32(scale.beside))
        of_tile = self.spread.columns // block * ELEMENT_TYPES[scale.type].bits // 8
        e.op(
            "tile.store_scale",
            operands=[code, target, stride, row, e.arith("arith.divui", column, e.i32(block)), n, at.valid],
            block=block,
            sharing=self.spread.sharing(scale.rows, scale.columns) & -turns,
            scale=scale.type,
            layout=scale.layout,
            padding=int(not fits),
            kept=scale.layout == "row" and scale.rows == 1 and scale.columns > 0 and of_tile < SECTOR,
        )

    def fits(self, scale: Blocks) -> bool:
        """Whether nothing pads a row of scales: words of the layouts that have them are of four."""
        size = self.p.columns.size if scale.columns else 1
        whole = size is not None and -(-size // (scale.columns or 1)) % 4 == 0
        return whole or scale.layout not in ("packed", "blocked")

    def given(self, o: Output, scale: Blocks, largest: Read, at: Point) -> ir.Value:
        """What the columns of a point are multiplied by, of a block whose largest magnitude is given: once for each
        index that it differs by. Who is at the first point of a block stores its scale, of one of all rows also where
        that row is left out."""
        e, at = self.e, self.unskipped(scale, at)
        key = (o.index, *[at.where[c.dim] for c in largest.coords if c.dim])
        if key not in self.scales:
            each = scale.columns == 1
            source = self.pointer(largest.name, largest.argument_index, 4)
            indices = [self.placed(c, at.where) for c in largest.coords]
            tail = at.tail if each else []
            operands = [source, indices, self.strided(largest.name, len(indices)), at.valid, tail[:1], tail[1:]]
            columns = self.columns(at.vector if each else 1)
            one = e.op("tile.load_columns", [columns], operands, along=int(each), together=1).result
            if each:
                found = e.op("tile.reduce_each", [columns], [[one]], kind="absmax", sharing=0, exchange=-1).result
                return self.each_column(o, scale, found, at)
            made = e.op("tile.reduce_lanes", [ir.F32Type.get()], [[one]], kind="absmax", sharing=0, exchange=-1).result
            self.scales[key] = self.find_scale(o, scale, made)
        code, reciprocal = self.scales[key]
        self.store_given(o, scale, code, at)
        return reciprocal

    def unskipped(self, scale: Blocks, at: Point) -> Point:
        """A point as a block of all rows (columns, of what is turned) has it, whether its own is left out or not."""
        e, name = self.e, self.p.columns.name
        every = not scale.columns if at.masked else self.p.skips and not scale.rows
        if at.within is None or not every:
            return at
        if at.count is None or at.masked:
            return replace(at, valid=at.within)
        left = e.arith("arith.subi", self.until(self.p.columns), at.where[name])
        left = e.arith("arith.minui", left, e.i32(at.vector))
        count = e.op("arith.select", [left.type], [at.within, left, e.i32(0)]).result
        whole = e.compare("lt", e.i32(at.vector - 1), count)
        whole = whole if self.aligned_ is None else e.arith("arith.andi", self.aligned_, whole)
        return replace(at, valid=at.within, count=count, whole=whole)

    def store_given(self, o: Output, scale: Blocks, code: ir.Value, at: Point) -> None:
        """The scale of a block, by who is at its first point."""
        e, blocks = self.e, (*scale.leading, scale.rows, scale.columns)[-len(o.coords) :]
        coords = [replace(c, divisor=size) if size else Coord() for c, size in zip(o.coords, blocks, strict=True)]
        first = at.valid
        for c, size in zip(o.coords, blocks, strict=True):
            if size == 1:
                continue
            place = at.where[c.dim]
            if size:
                begins = e.arith("arith.muli", e.arith("arith.divui", place, e.i32(size)), e.i32(size))
                place = e.arith("arith.subi", place, begins)
            first = e.arith("arith.andi", first, e.compare("eq", place, e.i32(0)))
        target = e.parameter(
            self.body, e.memory(self.returned(scale.index).type), Source("pointer", scale.name, align=1)
        )
        row, target = self.scale_row(scale.name, target, tuple(coords[:-1]), at)
        stride = self.scale_stride(scale.name, scale.layout, len(o.coords))
        n, block = (self.size(self.p.columns), scale.columns) if scale.columns else (e.i32(1), 1)
        column = self.placed(coords[-1], at.where)
        facts: dict[str, Any] = {"sharing": 0, "scale": scale.type, "layout": scale.layout}
        facts["padding"] = int(not self.fits(scale))
        e.op("tile.store_scale", operands=[code, target, stride, row, column, n, first], block=block, **facts)
