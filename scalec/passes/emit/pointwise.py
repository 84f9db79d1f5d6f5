"""A program without a contraction becomes a kernel in which each thread has adjacent columns of a row."""

from __future__ import annotations

from typing import Any

from scalec.abi import entry_name
from scalec.ir.mlir import ir
from scalec.ir.tile_pointwise import MOST_BYTES, ColumnsType
from scalec.passes.emit.body import copied
from scalec.passes.emit.emitter import Emitter, Source, attribute
from scalec.passes.emit.tensors import Tensors
from scalec.passes.plan.pointwise import Spread
from scalec.passes.problem.access import Lookup
from scalec.passes.problem.pointwise import Pointwise, Read


class PointwiseKernel(Tensors):
    """One kernel being built.

    A tile's threads have a vector of columns each. Where all rows begin at multiples of a vector's bytes and a thread's
    vector lies inside, it loads and stores whole vectors; else column by column.
    """

    def __init__(self, problem: Pointwise, spread: Spread, function: ir.OpView) -> None:
        self.p, self.spread, self.function, self.e = problem, spread, function, Emitter()
        self.lookups = {x.name: x for x in problem.lookups}

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
            shared_bytes=0,
            arguments=ir.ArrayAttr.get([]),
        )
        self.body = made.regions[0].blocks.append()
        i32 = ir.IntegerType.get_signless(32)
        with ir.InsertionPoint(self.body):
            *outer, row = [None, *p.rows] if not p.rows else p.rows
            outer = [d for d in outer if d]
            m, n = (self.size(row) if row else e.i32(1)), self.size(p.columns)
            aligned = None if s.whole or s.vector == 1 else self.aligned()
            with e.region(
                "tile.tiles",
                [m, n, *(self.size(d) for d in outer)],
                (i32,) * (2 + len(outer)),
                segments=(1, 1, len(outer)),
                tile=(s.rows, s.columns),
                cluster=(1, 1),
                order="m",
                band=1,
                split=1,
                turns=1,
            ) as block:
                m0, n0, *indices = block.arguments
                i1 = ir.IntegerType.get_signless(1)
                point = e.op("tile.point", [i32, i32, i1], [m0, n0, m, n], columns=s.columns, vector=s.vector)
                at, column, inside = point.results
                where = dict(zip([d.name for d in outer], indices, strict=True)) | ({row.name: at} if row else {})
                with e.region("tile.when", [inside]):
                    if aligned is None:
                        self.points(where | {p.columns.name: column}, s.vector)
                    else:
                        last = e.arith("arith.addi", column, e.i32(s.vector - 1))
                        whole = e.arith("arith.andi", aligned, e.compare("lt", last, n))
                        with e.region("tile.when", [whole]):
                            self.points(where | {p.columns.name: column}, s.vector)
                        with e.region("tile.when", [e.arith("arith.xori", whole, e.i1(1))]):
                            count = e.arith("arith.minui", e.arith("arith.subi", n, column), e.i32(s.vector))
                            with e.region(
                                "tile.steps", [count], (i32,), segments=(1, 0), start=0, step=1, unroll=1
                            ) as loop:
                                one = e.arith("arith.addi", column, loop.arguments[0])
                                self.points(where | {p.columns.name: one}, 1)
        made.attributes["arguments"] = e.arguments_attribute()

    def together(self, element: Any, vector: int) -> int:
        """Elements of one load or store, of a vector of so many."""
        return min(vector, 8 * MOST_BYTES // element.bits)

    def aligned(self) -> ir.Value:
        """Whether every tensor that is read or written along the columns has rows that vectors can begin in, an i1."""
        p, every = self.p, self.e.i1(1)
        reads = [x for x in p.every if p.along(x)]
        found = {x.name: (x.argument_index, x.element, len(x.coords)) for x in reads}
        for name, (index, element, rank) in found.items():
            every = self.also(every, self.pointer(name, index, element.bits // 8), name, element, rank)
        target = self.target()
        return self.also(every, target, p.name, p.element, len(p.rows) + 1)

    def also(self, every: ir.Value, source: ir.Value, name: str, element: Any, rank: int) -> ir.Value:
        """`every`, and whether one tensor of so many indices has such rows."""
        strides = [self.stride(name, axis) for axis in range(rank - 1)]
        size = self.together(element, self.spread.vector) * element.bits // 8
        one = self.e.op(
            "tile.aligned", [ir.IntegerType.get_signless(1)], [source, *strides], segments=(1, len(strides)), bytes=size
        ).result
        return self.e.arith("arith.andi", every, one)

    def target(self) -> ir.Value:
        """The result's memory."""
        p, s = self.p, self.spread
        align = self.together(p.element, s.vector) * p.element.bits // 8 if s.whole else p.element.bits // 8
        return self.e.parameter(self.body, self.e.memory(self.returned(0).type), Source("pointer", p.name, align=align))

    def strided(self, name: str, rank: int) -> list[ir.Value]:
        """The strides of a tensor of so many indices, the last of which lies side by side."""
        return [self.stride(name, axis) for axis in range(rank - 1)] + ([self.e.i64(1)] if rank else [])

    def look_up(self, x: Lookup, where: dict[str, ir.Value]) -> tuple[ir.Value, ir.Value]:
        """The index, and whether it names something."""
        e, rank = self.e, len(x.index.coords)
        source = self.pointer(x.index.tensor, x.index.argument_index, 4)
        at, strides = [self.placed(c, where) for c in x.index.coords], self.strided(x.index.tensor, rank)
        i32 = ir.IntegerType.get_signless(32)
        found = e.op("tile.load_index", [i32], [source, *at, *strides], segments=(1, rank, rank)).result
        valid = None
        for extent in x.extents:
            below = e.compare("lt", found, self.size(extent))
            valid = below if valid is None else e.arith("arith.andi", valid, below)
        assert valid is not None
        return found, valid

    def columns(self, count: int) -> ir.Type:
        """`!tile.columns`."""
        return ColumnsType.get(attribute(count))

    def load(self, x: Read, where: dict[str, ir.Value], vector: int, valid: ir.Value) -> ir.Value:
        """What is read at a point, for `vector` columns, zeros unless `valid`; a scalar as it is."""
        e = self.e
        if x.scalar:
            return e.parameter(self.body, ir.F32Type.get(), Source("scalar", x.name))
        along, rank = self.p.along(x), len(x.coords)
        together = self.together(x.element, vector) if along else 1
        align = together * x.element.bits // 8 if self.spread.whole else x.element.bits // 8
        source = self.pointer(x.name, x.argument_index, align)
        at = [self.placed(c, where) for c in x.coords]
        operands, segments = [source, *at, *self.strided(x.name, rank), valid], (1, rank, rank, 1)
        return e.op(
            "tile.load_columns",
            [self.columns(vector)],
            operands,
            segments=segments,
            along=int(along),
            together=together,
        ).result

    def compute(self, block: ir.Block, values: dict[int, ir.Value], vector: int, exact: bool) -> ir.Value:
        """A body of `scale`, of what its arguments are by their numbers, for each column; the conversions at its ends
        are those of loads and stores. Unless `exact`, functions may be off as results of 16 bits allow."""
        e, f32 = self.e, ir.F32Type.get()
        order = sorted(values, key=lambda i: (values[i].type == f32, i))  # scalars last
        scalars = sum(values[i].type == f32 for i in order)
        narrow = {} if exact else {"approximate": ir.UnitAttr.get()}
        made = e.op(
            "tile.compute",
            [self.columns(vector)],
            [values[i] for i in order],
            segments=(len(order) - scalars, scalars),
            regions=1,
            **narrow,
        )
        body = made.regions[0].blocks.append(*(f32,) * len(order))
        known = {block.arguments[i]: body.arguments[n] for n, i in enumerate(order)}
        with ir.InsertionPoint(body):
            for op in block.operations:
                operands = [known[v] for v in op.operands]
                if op.operation.name == "scale.yield":
                    e.op("tile.yield", operands=operands)
                elif op.operation.name in ("arith.extf", "arith.truncf"):
                    known[op.result] = operands[0]
                else:
                    known[op.result] = copied(op, operands)
        return made.result

    def points(self, where: dict[str, ir.Value], vector: int) -> None:
        """What one thread does for `vector` columns: nothing, where an index names nothing whatever is summed over."""
        summed = self.p.reduction.dim.name if self.p.reduction else None
        gates = [x for x in self.p.lookups if all(c.dim != summed for c in x.index.coords)]
        where, valid = self.looked_up(gates, where, self.e.i1(1))
        if not gates:
            self.named(where, vector)
            return
        with self.e.region("tile.when", [valid]):
            self.named(where, vector)

    def looked_up(
        self, lookups: list[Lookup], where: dict[str, ir.Value], valid: ir.Value
    ) -> tuple[dict[str, ir.Value], ir.Value]:
        """`where` with these too, and whether it is `valid` and all of them name something."""
        made = dict(where)
        for x in lookups:
            made[x.name], named = self.look_up(x, where)
            valid = self.e.arith("arith.andi", valid, named)
        return made, valid

    def named(self, where: dict[str, ir.Value], vector: int) -> None:
        """The result at `vector` columns, all of whose own indices name something."""
        e, p, always = self.e, self.p, self.e.i1(1)
        final = self.returned(0).owner.opview
        values = {x.view: self.load(x, where, vector, always) for x in p.reads}
        if p.reduction is not None:
            sums = self.reduced(where, vector)
            values |= dict.fromkeys(p.sums, sums)
        made = self.compute(final.body.blocks[0], values, vector, exact=p.element.bits > 16)
        names = [d.name for d in (*p.rows, p.columns)]
        operands = [made, self.target(), *(where[x] for x in names), *self.strided(p.name, len(names))]
        e.op(
            "tile.store_columns",
            operands=operands,
            segments=(1, 1, len(names), len(names)),
            together=self.together(p.element, vector),
        )

    def reduced(self, where: dict[str, ir.Value], vector: int) -> ir.Value:
        """The sums at `vector` columns: terms that an index skips are left out, and none at all are what a reduction
        begins with."""
        e, r, s = self.e, self.p.reduction, self.spread
        assert r is not None
        sums = e.op("tile.running", [self.columns(vector)], kind=r.kind).result
        varying, always = [x for x in self.p.lookups if x.name not in where], e.i1(1)
        names = {x.name for x in varying} | {r.dim.name}
        once = {x.view: self.load(x, where, vector, always) for x in r.reads if not {c.dim for c in x.coords} & names}
        extent = self.size(r.dim)

        def terms(first: ir.Value | int, count: int, bounded: bool) -> None:
            points = []
            for i in range(count):
                j = e.i32(first + i) if isinstance(first, int) else e.arith("arith.addi", first, e.i32(i))
                valid = always
                if bounded:
                    valid = e.arith("arith.andi", valid, e.compare("lt", j, extent))
                    j = e.arith("arith.minui", j, e.arith("arith.subi", extent, e.i32(1)))
                points.append((where | {r.dim.name: j}, valid))
            points = [self.looked_up(varying, at, valid) for at, valid in points]
            values = [
                {x.view: self.load(x, at, vector, valid) for x in r.reads if x.view not in once} for at, valid in points
            ]
            for read, (_, valid) in zip(values, points, strict=True):
                value = self.compute(self.inner(), read | once, vector, exact=True) if r.mapped else (read | once)[0]
                e.op("tile.term", operands=[sums, value, valid], kind=r.kind)

        if r.dim.size is not None and r.dim.size <= 2 * s.together:
            for first in range(0, r.dim.size, s.together):
                terms(first, min(s.together, r.dim.size - first), False)
            return sums
        with e.region("tile.when", [e.compare("lt", e.i32(0), extent)]):
            i32 = ir.IntegerType.get_signless(32)
            with e.region("tile.steps", [extent], (i32,), segments=(1, 0), start=0, step=s.together, unroll=1) as loop:
                terms(loop.arguments[0], s.together, True)
        return sums

    def inner(self) -> ir.Block:
        """The body that the reduction's terms are computed by."""
        final = self.returned(0).owner.opview
        source = next(
            v.owner.opview.source for v in final.views if not isinstance(v.owner.opview.source.owner, ir.Block)
        )
        return source.owner.opview.input.owner.opview.body.blocks[0]
