"""A program without a contraction becomes a kernel in which each thread has adjacent columns of rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from scalec.abi import entry_name
from scalec.formats import ELEMENT_TYPES
from scalec.ir.mlir import arith, ir
from scalec.ir.scale_functions import CONVERSIONS
from scalec.ir.tile_pointwise import MOST_BYTES, ColumnsType
from scalec.passes.emit.emitter import Emitter, Source, attribute, copied
from scalec.passes.emit.tensors import Tensors
from scalec.passes.plan.pointwise import Spread
from scalec.passes.problem.access import Coord, Lookup
from scalec.passes.problem.pointwise import Body, Dim, Level, Output, Pointwise, Read, Reduction

TURNS = 2
"""Single columns of a row that a thread loads at once (`by_turns`; docs/notes/pointwise.md)."""


def of_group(dim: str, group: ir.Value, begin: ir.Value) -> dict[str, ir.Value]:
    """Among the indices of a point: of a dimension in groups which one its index is in, and where that begins."""
    return {f"group of {dim}": group, f"begin of {dim}": begin}


@dataclass(frozen=True)
class Point:
    """Adjacent columns of a row that a thread has.

    Attributes:
        where: the index along each dimension, and each lookup, by name.
        vector: how many columns.
        valid: whether they are there, an i1.
        within: whether they would be, were no row left out, an i1; None where that is the same.
        count, whole: how many of them are, and whether all, in memory where vectors may begin; None where that is known
            of those that are there. Where they are `masked`, `count` has a bit for each that is there.
        cache: what has been loaded.
        shared: what has been, by where, for all points of a thread's tile; None where one may be there, and not
            another that comes first.
    """

    where: dict[str, ir.Value]
    vector: int
    valid: ir.Value
    count: ir.Value | None = None
    whole: ir.Value | None = None
    masked: bool = False
    within: ir.Value | None = None
    cache: dict[Any, ir.Value] = field(default_factory=dict)
    shared: dict[Any, ir.Value] | None = None

    @property
    def tail(self) -> list[ir.Value]:
        """What loads and stores are told of it."""
        return [] if self.count is None or self.whole is None else [self.count, self.whole]


class Columns(Tensors):
    """What threads load, compute and store of adjacent columns."""

    p: Pointwise
    spread: Spread
    lookups: dict[str, Lookup]
    anywhere: bool = False  # whether a thread's columns of what is rounded by chance may begin within four

    def together(self, element: Any, vector: int) -> int:
        """Elements of one load or store, or three (`ElementType.accessed`), of a vector of so many: a power of two."""
        most = min(vector, 8 * MOST_BYTES // (element.bits & -element.bits))
        return min(1 << most.bit_length() - 1, vector & -vector)

    def aligned(self) -> ir.Value:
        """Whether every tensor that is read or written along the columns has rows that vectors can begin in, an i1."""
        p, every = self.p, self.e.i1(1)
        for x in {x.name: x for x in p.every if p.along(x)}.values():
            source = self.pointer(x.name, x.argument_index, max(1, x.element.bits // 8))
            every = self.also(every, source, x.name, x.element, len(x.stored), len(x.permuted))
        for o in p.outputs:
            if not p.is_row(o) and not p.is_turned(o):
                every = self.also(every, self.target(o), o.name, o.element, len(o.coords))
        return every

    def also(self, every: ir.Value, source: ir.Value, name: str, element: Any, rank: int, word: int = 0) -> ir.Value:
        """`every`, and whether one tensor of so many indices has such rows; where elements lie in another order in
        words of so many, whole ones are loaded."""
        strides = [self.stride(name, axis) for axis in range(rank - 1)]
        size = element.accessed(self.together(element, max(self.spread.vector, word)))
        one = self.e.op("tile.aligned", [ir.IntegerType.get_signless(1)], [source, strides], bytes=size).result
        return self.e.arith("arith.andi", every, one)

    def alignment(self, element: Any, vector: int) -> int:
        """Bytes that memory must begin at a multiple of."""
        elements = self.together(element, vector) if self.spread.whole else 1
        return max(1, element.accessed(elements))

    def target(self, o: Output) -> ir.Value:
        """A result's memory."""
        vector = 1 if self.p.is_row(o) else self.spread.vector
        align = self.alignment(o.element, vector)
        return self.e.parameter(
            self.body, self.e.memory(self.returned(o.index).type), Source("pointer", o.name, align=align)
        )

    def look_up(self, x: Lookup, where: dict[str, ir.Value]) -> tuple[ir.Value, ir.Value]:
        """The index, and whether it names something."""
        e, found, valid = self.e, self.read_index(x.index, where), None
        for extent in x.extents:
            below = e.compare("lt", found, self.size(extent))
            valid = below if valid is None else e.arith("arith.andi", valid, below)
        assert valid is not None
        return found, valid

    def columns(self, count: int) -> ir.Type:
        return ColumnsType.get(attribute(count))

    def load(self, x: Read, at: Point) -> ir.Value:
        """What is read at a point, zeros where nothing is there; a scalar as it is."""
        e = self.e
        if x.scalar:
            return e.parameter(self.body, ir.F32Type.get(), Source("scalar", x.name))
        cache, key = at.cache, x.key
        if at.shared is not None:
            cache, key = at.shared, (*key, at.vector, *(at.where[c.dim] for c in x.coords if c.dim))
        if key in cache:
            return cache[key]
        along, coords = self.p.along(x), x.stored
        order = x.permuted if along and at.vector > 1 else ()
        together = self.together(x.element, max(at.vector, len(order))) if along else 1
        source = self.pointer(x.name, x.argument_index, self.alignment(x.element, together))
        tail = at.tail if along else []
        coords = (*coords[:-1], replace(coords[-1], order=None)) if order else coords
        indices = [self.placed(c, at.where) for c in coords]
        made = e.op(
            "tile.load_columns",
            [self.columns(at.vector)],
            [source, indices, self.strided(x.name, len(coords)), at.valid, tail[:1], tail[1:]],
            along=int(along),
            together=together,
            **({"order": ir.DenseI64ArrayAttr.get(order)} if order else {}),
        ).result
        if x.less is not None:
            made = self.combined(arith.SubFOp, made, self.load(x.less, at), x.plus)
        elif x.plus:
            made = self.combined(arith.SubFOp, made, plus=x.plus)
        for factor in x.factors:
            made = self.product(made, self.load(factor, at))
        for level in x.levels:
            made = self.product(made, self.load_scales(level, at))
        cache[key] = made
        return made

    def load_scales(self, level: Level, at: Point) -> ir.Value:
        """Those of a point's columns."""
        e, rank = self.e, len(level.coords) + 1
        memory = self.pointer(level.name, level.argument_index, ELEMENT_TYPES[level.type].bits // 8)
        row, source = self.scale_row(level.name, memory, level.coords, at)
        stride, block = self.scale_stride(level.name, level.layout, rank), level.columns or 1
        n = self.size(self.p.columns) if level.columns else e.i32(1)
        column = at.where[self.p.columns.name] if level.columns else e.i32(0)
        return e.op(
            "tile.load_scales",
            [self.columns(at.vector)],
            [source, row, column, n, stride, at.valid],
            block=block if level.columns else at.vector,
            scale=level.type,
            layout=level.layout,
        ).result

    def scale_row(self, name: str, memory: ir.Value, coords: tuple[Coord, ...], at: Point) -> tuple[ir.Value, ir.Value]:
        """The row of scales, and their memory, where a tensor is at some coordinates along all indices but the last."""
        e, leading = self.e, range(len(coords) - 1)
        row = self.counted_at(coords[-1], at.where) if coords else e.i32(0)
        if leading:
            indices = [self.counted_at(coords[axis], at.where) for axis in leading]
            strides = [self.stride(name, axis) for axis in leading]
            memory = e.op("tile.view", [memory.type], [memory, indices, strides]).result
        return row, memory

    def counted_at(self, c: Coord, where: dict[str, ir.Value]) -> ir.Value:
        """`placed`, of scales: where groups are apart, counted from where the index's own begins."""
        if not c.apart:
            return self.placed(c, where)
        e, group, low = self.e, where[f"group of {c.dim}"], where[f"begin of {c.dim}"]
        unit = e.arith("arith.addi", e.arith("arith.divui", low, e.i32(c.apart)), group)
        moved = e.arith("arith.subi", e.arith("arith.muli", unit, e.i32(c.apart)), low)
        return self.placed(c, where | {c.dim: e.arith("arith.addi", where[c.dim], moved)})

    def scale_stride(self, name: str, layout: str, rank: int) -> ir.Value:
        """The stride of scales that is not 1, of a tensor of so many indices."""
        axis = {"row": rank - 2, "col": rank - 1, "packed": rank - 1}.get(layout, -1)
        return self.e.i64(0) if axis < 0 else self.stride(name, axis)

    def product(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """Columns times columns, or times one number."""
        return self.combined(arith.MulFOp, one, other)

    def combined(self, op: Any, one: ir.Value, other: ir.Value | None = None, plus: int = 0) -> ir.Value:
        """What an op makes of columns and others, which are `plus` more; of a number alone without others."""
        f32, every = ir.F32Type.get(), [one] if other is None else [one, other]
        columns, numbers = [x for x in every if x.type != f32], [x for x in every if x.type == f32]
        made = self.e.op("tile.compute", [one.type], [columns, numbers], regions=1)
        block = made.regions[0].blocks.append(*(f32,) * len(every))
        with ir.InsertionPoint(block):
            first, *further = block.arguments
            if plus:
                number = arith.ConstantOp(f32, ir.FloatAttr.get(f32, plus)).result
                further = [arith.AddFOp(*further, number).result if further else number]
            self.e.op("tile.yield", operands=[op(first, *further).result])
        return made.result

    def value(self, body: Body, at: Point, sums: list[ir.Value], exact: bool, once: bool = False) -> ir.Value:
        """What a body computes at a point, of the reductions `sums`."""
        values = {x.view: self.load(x, at) for x in body.reads} | {view: sums[i] for view, i in body.sums}
        values |= {view: self.value(x, at, sums, exact) for view, x in body.inner}
        return values[0] if body.op < 0 else self.compute(self.block_of(body), values, at.vector, exact, once)

    def block_of(self, body: Body) -> ir.Block:
        """The body of `scale` that it is."""
        return self.function.body.blocks[0].operations[body.op].opview.body.blocks[0]

    def compute(
        self, block: ir.Block, values: dict[int, ir.Value], vector: int, exact: bool, once: bool = False
    ) -> ir.Value:
        """A body of `scale`, of what its arguments are by their numbers, for each column; the conversions at its ends
        are those of loads and stores. Unless `exact`, functions may be off as results of 16 bits allow; quotients of
        what is computed `once` are rounded as IEEE 754 says."""
        e, f32 = self.e, ir.F32Type.get()
        order = sorted(values, key=lambda i: (values[i].type == f32, i))  # scalars last
        columns, scalars = ([values[i] for i in order if (values[i].type == f32) == x] for x in (False, True))
        made = e.op(
            "tile.compute",
            [self.columns(vector)],
            [columns, scalars],
            regions=1,
            approximate=not exact,
            once=once,
        )
        body = made.regions[0].blocks.append(*(f32,) * len(order))
        known = {block.arguments[i]: body.arguments[n] for n, i in enumerate(order)}
        with ir.InsertionPoint(body):
            for op in block.operations:
                operands = [known[v] for v in op.operands]
                if op.operation.name == "scale.yield":
                    e.op("tile.yield", operands=operands)
                elif op.operation.name in CONVERSIONS:
                    known[op.result] = operands[0]
                else:
                    known[op.result] = copied(op, operands)
        return made.result

    def looked_up(
        self, lookups: list[Lookup], where: dict[str, ir.Value], valid: ir.Value
    ) -> tuple[dict[str, ir.Value], ir.Value]:
        """`where` with these too, and whether it is `valid` and all of them name something."""
        made = dict(where)
        for x in lookups:
            made[x.name], named = self.look_up(x, where)
            valid = self.e.arith("arith.andi", valid, named)
        return made, valid

    def store(self, o: Output, made: ir.Value, at: Point) -> None:
        """A result at a point that is there."""
        rank = len(o.coords)
        indices = [self.placed(c, at.where) for c in o.coords]
        made = self.rounded(o, made, indices)
        tail = [] if self.p.is_row(o) else at.tail
        self.e.op(
            "tile.store_columns",
            operands=[made, self.target(o), indices, self.strided(o.name, rank), tail[:1], tail[1:]],
            together=1 if self.p.is_row(o) else self.together(o.element, at.vector),
            masked=at.masked,
        )

    def rounded(self, o: Output, made: ir.Value, indices: list[ir.Value]) -> ir.Value:
        """A result that is stored at some indices: if it is rounded by chance, so."""
        if o.chance is None:
            return made
        words = [self.drawn[x] for x in o.chance.words]
        operands = [made, indices, [self.size(x) for x in o.chance.extents[1:]], words]
        element = ir.TypeAttr.get(ir.Type.parse(o.element.mlir))
        return self.e.op("tile.round_columns", [made.type], operands, element=element, anywhere=self.anywhere).result

    def read_once(self, r: Reduction, at: Point, before: list[ir.Value]) -> tuple[list[Lookup], dict[int, ir.Value]]:
        """The lookups that differ from term to term, and what no term reads anew, by view. Those of other reductions
        are none: they may be of another index, and leave none of these terms out."""
        named = {c.dim for x in r.body.all_reads for c in x.coords}
        varying = [x for x in self.p.lookups if x.name in named and x.name not in at.where]
        names = {x.name for x in varying} | {r.dim.name}
        once = {x.view: self.load(x, at) for x in r.body.reads if not {c.dim for c in x.coords} & names}
        return varying, once | {view: before[i] for view, i in r.body.sums}

    def within(self, j: ir.Value, high: ir.Value, valid: ir.Value) -> tuple[ir.Value, ir.Value]:
        """An index, or the last one below `high` where it is beyond, and whether it is `valid` and not."""
        e = self.e
        valid = e.arith("arith.andi", valid, e.compare("lt", j, high))
        return e.arith("arith.minui", j, e.arith("arith.subi", high, e.i32(1))), valid

    def take(self, r: Reduction, sums: ir.Value, points: list[Point], once: dict[int, ir.Value]) -> None:
        """Takes the terms at these points into a reduction: all are loaded before the first one is computed."""
        values = [{x.view: self.load(x, to) for x in r.body.reads if x.view not in once} for to in points]
        for read, to in zip(values, points, strict=True):
            every = read | once
            mapped = r.body.op >= 0
            value = self.compute(self.block_of(r.body), every, to.vector, exact=True) if mapped else every[0]
            self.e.op("tile.term", operands=[sums, value, to.valid], kind=r.kind)

    def terms(self, r: Reduction, at: Point, before: list[ir.Value]) -> ir.Value:
        """A reduction over an index that no result has, at a point, of the reductions `before` it: terms that an index
        skips are left out, and none at all are what a reduction begins with."""
        e, s = self.e, self.spread
        sums = e.op("tile.running", [self.columns(at.vector)], kind=r.kind).result
        varying, once = self.read_once(r, at, before)
        extent = self.size(r.dim)

        def terms(first: ir.Value | int, count: int, bounded: bool) -> None:
            points = []
            for i in range(count):
                j = e.i32(first + i) if isinstance(first, int) else e.arith("arith.addi", first, e.i32(i))
                points.append(self.within(j, extent, at.valid) if bounded else (j, at.valid))
            found = [self.looked_up(varying, at.where | {r.dim.name: j}, valid) for j, valid in points]
            self.take(r, sums, [Point(where, at.vector, valid, at.count, at.whole) for where, valid in found], once)

        if r.dim.size is not None and r.dim.size <= 2 * s.together:
            for first in range(0, r.dim.size, s.together):
                terms(first, min(s.together, r.dim.size - first), False)
            return sums
        with e.region("tile.when", [e.compare("lt", e.i32(0), extent)]):
            i32 = ir.IntegerType.get_signless(32)
            with e.region("tile.steps", [extent, []], (i32,), start=0, step=s.together, unroll=1) as loop:
                terms(loop.arguments[0], s.together, True)
        return sums


class PointwiseKernel(Columns):
    """One kernel being built.

    A tile's threads have a vector of columns each. Where all rows begin at multiples of a vector's bytes and none of
    the tile's is cut by the end, they load and store whole vectors; else single columns, which threads that follow one
    another have by turns.
    """

    def __init__(self, problem: Pointwise, spread: Spread, function: ir.OpView, registers: int) -> None:
        self.p, self.spread, self.function, self.e = problem, spread, function, Emitter()
        self.registers = registers
        self.lookups = {x.name: x for x in problem.lookups}
        self.limits: dict[str, ir.Value] = {}

    def until(self, d: Dim) -> ir.Value:
        """Where a dimension ends for a tile: with all of it, or with the tile's group."""
        return self.limits[d.name] if d.name in self.limits else self.size(d)

    def build(self) -> None:
        """The `tile.kernel`, before the function that it is made from."""
        e, p, s = self.e, self.p, self.spread
        name = entry_name(ir.StringAttr(self.function.attributes["sym_name"]).value)
        made = e.op(
            "tile.kernel",
            regions=1,
            sym_name=name,
            threads=s.threads,
            cluster=(1, 1),
            shared_bytes=s.shared_bytes(p),
            arguments=ir.ArrayAttr.get([]),
        )
        if self.registers:
            made.attributes["registers"] = attribute(self.registers)
        self.body = made.regions[0].blocks.append()
        i32 = ir.IntegerType.get_signless(32)
        with ir.InsertionPoint(self.body):
            *outer, row = p.rows or (None,)
            m, n = (self.walked(row) if row else e.i32(1)), self.walked(p.columns)
            self.begin()
            aligned = None if s.whole or s.vector == 1 or p.copies else self.aligned()
            with e.region(
                "tile.tiles",
                [m, e.i32(1) if p.spans else n, [self.size(d) for d in outer if d]],
                (i32,) * (2 + len(outer)),
                tile=(s.rows * s.blocks[0], 1 if p.spans else s.columns * s.blocks[1]),
                cluster=(1, 1),
                order=s.order(p),
                band=1,
                split=1,
                turns=1,
                alone=True,
            ) as block:
                m0, n0, *indices = block.arguments
                self.corner = m0, n0
                i1 = ir.IntegerType.get_signless(1)
                columns = s.across * s.vector
                point = e.op("tile.point", [i32, i32, i1], [m0, n0, m, n], columns=columns, vector=s.vector)
                at, column, inside = point.results
                where = dict(zip([d.name for d in outer if d], indices, strict=True))
                self.tile(where, at, column, inside, aligned)
        made.attributes["arguments"] = e.arguments_attribute()

    def walked(self, d: Dim) -> ir.Value:
        """How many rows, or columns, tiles are of."""
        return self.size(d)

    def begin(self) -> None:
        """What is known before the first tile."""
        self.drawn = self.read_words(self.p.outputs)

    def tile(
        self, outer: dict[str, ir.Value], row: ir.Value, column: ir.Value, inside: ir.Value, aligned: ir.Value | None
    ) -> None:
        """What a thread does in a tile that is at some indices of `outer`."""
        e, p, s = self.e, self.p, self.spread
        where = outer | ({p.rows[-1].name: row} if p.rows else {})
        if aligned is None:
            with e.region("tile.when", [inside]):
                self.points(where | {p.columns.name: column}, s.vector)
            return
        whole = self.whole(aligned)
        with e.region("tile.when", [e.arith("arith.andi", inside, whole)]):
            self.points(where | {p.columns.name: column}, s.vector)
        with e.region("tile.when", [e.negated(whole)]):
            self.by_turns(outer, row, column)

    def whole(self, aligned: ir.Value) -> ir.Value:
        """Whether a tile's vectors can begin where they do, and none has columns that are there and others."""
        e, s, n = self.e, self.spread, self.size(self.p.columns)
        ends = e.compare("lt", n, e.arith("arith.addi", self.corner[1], e.i32(s.columns)))
        vectors = e.arith("arith.muli", e.arith("arith.divui", n, e.i32(s.vector)), e.i32(s.vector))
        cut = e.compare("lt", vectors, n)
        return e.arith("arith.andi", aligned, e.negated(e.arith("arith.andi", ends, cut)))

    def by_turns(self, outer: dict[str, ir.Value], row: ir.Value, column: ir.Value) -> None:
        """Single columns of a tile, of which adjacent threads have adjacent ones; a thread's loads of a step come
        first."""
        e, p, s, i32 = self.e, self.p, self.spread, ir.IntegerType.get_signless(32)
        first, n, across = self.corner[1], self.size(p.columns), e.i32(s.across)
        own = e.arith("arith.divui", e.arith("arith.subi", column, first), e.i32(s.vector))
        left = e.arith("arith.addi", e.arith("arith.subi", n, first), e.i32(s.across - 1))
        turns = e.arith("arith.minui", e.arith("arith.divui", left, across), e.i32(s.vector * s.along))
        own, step = e.arith("arith.addi", first, own), min(TURNS, s.vector * s.along)
        with e.region("tile.steps", [turns, []], (i32,), start=0, step=step, unroll=1) as loop:
            points = list[Point]()
            for i, turn in product(range(s.down), range(step)):
                at = e.arith("arith.muli", e.arith("arith.addi", loop.arguments[0], e.i32(turn)), across)
                where = outer | {p.columns.name: e.arith("arith.addi", own, at)}
                valid = e.compare("lt", where[p.columns.name], n)
                if p.rows:
                    where[p.rows[-1].name] = mine = e.arith("arith.addi", row, e.i32(i * s.step[0]))
                    valid = e.arith("arith.andi", valid, e.compare("lt", mine, self.size(p.rows[-1])))
                where, valid = self.looked_up(list(p.gates), where, valid)
                points.append(Point(where, 1, valid))
            self.load_before(points)
            for at in points:
                with e.region("tile.when", [at.valid]):
                    self.named(at)

    def load_before(self, points: list[Point]) -> None:
        """Loads at these points what depends on no index that is summed over."""
        summed = {r.dim.name for r in self.p.reductions}
        every = (x for o in self.p.outputs for x in o.body.all_reads if not x.scalar)
        reads = {x.key: x for x in every}
        for at in points:
            for x in reads.values():
                if all(not c.dim or c.dim in at.where for c in x.coords) and not x.dims(self.lookups) & summed:
                    self.load(x, at)

    def points(self, where: dict[str, ir.Value], vector: int) -> None:
        """What one thread does for `vector` columns: nothing, where an index names nothing whatever is summed over."""
        gates, always = list(self.p.gates), self.e.i1(1)
        where, valid = self.looked_up(gates, where, always)
        at = Point(where, vector, always)
        if not gates:
            self.named(at)
            return
        with self.e.region("tile.when", [valid]):
            self.named(at)

    def named(self, at: Point) -> None:
        """The results at columns all of whose own indices name something."""
        sums: list[ir.Value] = []
        for r in self.p.reductions:
            sums.append(self.terms(r, at, sums))
        for o in self.p.outputs:
            self.store(o, self.value(o.body, at, sums, o.exact), at)
