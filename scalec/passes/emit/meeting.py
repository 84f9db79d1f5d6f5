"""Programs without a contraction whose threads meet: for the scales of blocks, and for what is found of whole rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from typing import Any

from scalec.formats import DRAWN, TRANSFORMED
from scalec.ir.mlir import ir
from scalec.passes.emit.body import inverse_of
from scalec.passes.emit.pointwise import Point, of_group
from scalec.passes.emit.row_stores import RowStoringKernel
from scalec.passes.emit.scaling import Scale
from scalec.passes.problem.access import Dim, Index
from scalec.passes.problem.pointwise import Blocks, Body, Output, Reduction

MOST_FIRST = 64
"""Elements that a thread loads before it computes, at most: each is a register."""

FUNCTIONS = {"math.exp", "math.tanh", "scale.sigmoid", "scale.silu", "scale.gelu"}
"""Each of them takes more instructions than its exact kind would, beside another one of the same number."""

EMPTY = {"sum": 0.0, "max": -inf, "min": inf}
"""What a reduction of no terms is."""

Known = list[ir.Value | None]
"""The program's reductions, by number, as far as they are known."""


@dataclass(frozen=True)
class Row:
    """What a thread has of a row: where it is (`edge`, for what a row has one of), its columns, none where a loop gives
    them, and the reductions that are known of it."""

    edge: Point
    points: list[Point]
    known: Known


class MeetingKernel(RowStoringKernel):
    """All threads of a CTA go the same way, also those of rows and columns that are not there: what they load is zeros,
    what they find does not count, and they store nothing."""

    def begin(self) -> None:
        """The reciprocals of the scales of whole results."""
        super().begin()
        e = self.e
        self.inverses: dict[int, ir.Value] = {}
        for o in self.p.outputs:
            whole = o.scale.outer if o.scale is not None else None
            if whole is not None:
                source = self.pointer(whole.name, whole.argument_index, whole.element.bits // 8)
                made = e.op("tile.input", [e.type("operand")], [source, []], kind="scalar", axes=(), pair=0).result
                self.inverses[o.index] = inverse_of(e, made)
        self.exchanged, self.room = [], self.spread.exchanged_bytes(self.p) // 2
        self.largest: dict[Any, ir.Value] = {}
        self.begun, self.numbers = {}, {}
        self.scales: dict[Any, Scale] = {}
        turned = self.p.turned
        if turned is not None:
            self.turned = copy(self)
            self.turned.p, self.turned.spread = turned, self.spread.turned(self.p)
            self.turned.stored_at = self.spread.stored_at(self.p)
            self.rows_aligned = None if self.turned.spread.whole else self.turned.aligned()
            self.turned.aligned_ = self.rows_aligned

    def tile(
        self, outer: dict[str, ir.Value], row: ir.Value, column: ir.Value, inside: ir.Value, aligned: ir.Value | None
    ) -> None:
        """Rows one after the other, or blocks of several; where groups are apart, nothing in a tile of no group."""
        if aligned is not None and not self.p.meets and not self.p.folds:
            whole = self.whole(aligned)
            with self.e.region("tile.when", [self.e.negated(whole)]):
                self.by_turns(outer, row, column)
            with self.e.region("tile.when", [whole]):
                self.vectors(outer, row, column, None)
            return
        self.vectors(outer, row, column, aligned)

    def vectors(self, outer: dict[str, ir.Value], row: ir.Value, column: ir.Value, aligned: ir.Value | None) -> None:
        """Likewise, with vectors of columns."""
        self.aligned_, self.column = aligned, column
        self.exchanged.clear()
        self.laid = False
        self.largest.clear()
        self.scales.clear()
        self.groups, self.group = {}, {}
        e, p = self.e, self.p
        d = p.apart
        if d is None:
            self.rows(outer, row, column)
            return
        moved, high = self.in_group(d, outer, p.rows[-1], self.corner[0])
        first, row = (e.arith("arith.addi", x, moved) for x in (self.corner[0], row))
        self.limits[d.dim] = e.arith("arith.minui", high, self.size(p.rows[-1]))
        if p.turned is not None:  # columns of what is turned begin there
            self.corner = first, self.corner[1]
            self.turned.corner, self.turned.anywhere = self.corner[::-1], d.step % DRAWN != 0
            begins = e.compare("eq", e.arith("arith.andi", first, e.i32(self.spread.vector - 1)), e.i32(0))
            self.turned.aligned_ = e.arith("arith.andi", self.rows_aligned, begins)
        with e.region("tile.when", [e.compare("lt", first, self.limits[d.dim])]):
            self.rows(outer, row, column)

    def rows(self, outer: dict[str, ir.Value], row: ir.Value, column: ir.Value) -> None:
        """What a thread does from a row and a column of a tile on."""
        e, s, p, rows = self.e, self.spread, self.p, list[Row]()
        shared: dict[Any, ir.Value] | None = None if s.looped or p.skips else {}
        for i in range(s.down):
            where = dict(outer)
            if p.rows:
                where[p.rows[-1].name] = self.further(row, i * s.step[0])
            columns = [] if s.looped else [self.further(column, j * s.step[1]) for j in range(s.along)]
            points = [replace(self.point(where | {p.columns.name: x}, s.vector), shared=shared) for x in columns]
            rows.append(Row(self.point(where, 1), points, [None] * len(p.reductions)))
        if not s.looped:
            self.load_first([at for r in rows for at in r.points])
        for r in rows:
            self.reduce_row(r)
        if s.looped:
            self.write_looped(rows[0])
        else:
            for o in p.outputs:
                if p.is_turned(o):
                    self.write_turned(o, rows, outer)
                elif not p.is_row(o):
                    self.write_blocks(
                        o, rows, [self.result(o, r, at) for r in rows for at in r.points], self.what(o.body)
                    )
        for o in p.outputs:
            if p.is_row(o):
                for r in rows:
                    first = e.arith("arith.andi", r.edge.valid, e.compare("eq", column, e.i32(0)))
                    made = self.value(o.body, r.edge, self.sums(r.edge, o.body, r.known), o.exact, o.alone)
                    with e.region("tile.when", [first]):
                        self.store(o, made, r.edge)

    def walked(self, d: Dim) -> ir.Value:
        """Where groups are apart each has tiles of its own: one more than all rows, or columns, have, at most."""
        e, size = self.e, self.size(d)
        found = next((x for x in self.p.by_tile if x.dim == d.name), None)
        if found is None:
            return size
        own, groups = self.tile_of(d), self.size(next(x for x in self.p.groups if x.name == found.group))
        tiles = e.arith("arith.divui", e.arith("arith.addi", size, e.i32(own - 1)), e.i32(own))
        return e.arith("arith.muli", e.arith("arith.addi", tiles, groups), e.i32(own))

    def load_first(self, points: list[Point]) -> None:
        """All loads that depend on no term of a sum, before threads meet and before anything is stored: loads behind
        either wait (docs/notes/pointwise.md)."""
        bodies = [*(o.body for o in self.p.outputs), *(r.body for r in self.p.reductions if self.p.of_row(r))]
        reads = {x.key: x for body in bodies for x in body.all_reads if not x.scalar}
        if len(reads) * len(points) * self.spread.vector > MOST_FIRST:
            return
        for at in points:
            for x in reads.values():
                self.load(x, at)

    def point(self, where: dict[str, ir.Value], vector: int) -> Point:
        """What a thread has there; without a column, what goes with the row."""
        e, p, name = self.e, self.p, self.p.columns.name
        ends = {d.name: self.until(d) for d in (*p.rows[-1:], p.columns) if d.name in where}
        valid = e.i1(1)
        for dim, end in ends.items():
            valid = e.arith("arith.andi", valid, e.compare("lt", where[dim], end))
        within = valid
        for d in p.domains:
            if d in p.by_tile:  # up to where the group ends, all are there
                where = where | self.group
                continue
            if d.group and d.group not in {x.name for x in p.rows}:
                group, low, inside = self.group_of(d, where)
                where = where | {d.group: group} | of_group(d.dim, group, low)
            else:
                inside = self.in_range(d, where)
                if d.group and self.p.counted_apart and isinstance(d.low, Index):
                    begin = self.read_index(d.low, self.clamped(d.low, where))
                    where = where | of_group(d.dim, where[d.group], begin)
            valid = e.arith("arith.andi", valid, inside)
        gates = [x for x in p.gates if name in where or all(c.dim != name for c in x.index.coords)]
        where, valid = self.looked_up(gates, where, valid)
        if self.aligned_ is None or name not in where:
            return Point(where, vector, valid, within=within)
        column, end = where[name], ends[name]
        left = e.arith("arith.minui", e.arith("arith.subi", end, column), e.i32(vector))
        count = e.op("arith.select", [left.type], [valid, left, e.i32(0)]).result
        whole = e.arith("arith.andi", self.aligned_, e.compare("lt", e.i32(vector - 1), count))
        return Point(where, vector, valid, count, whole, within=within)

    @contextmanager
    def over_row(self, r: Row) -> Iterator[Point]:
        """A loop over the columns of a row that is walked."""
        e, s, n = self.e, self.spread, self.size(self.p.columns)
        i32 = ir.IntegerType.get_signless(32)
        with (
            e.region("tile.when", [e.compare("lt", e.i32(0), n)]),
            e.region("tile.steps", [n, []], (i32,), start=0, step=s.step[1], unroll=1) as loop,
        ):
            column = e.arith("arith.addi", self.column, loop.arguments[0])
            own = {d.name: r.edge.where[d.name] for d in self.p.rows}
            yield self.point(own | {self.p.columns.name: column}, s.vector)

    # ------------------------------------------------------------------------------------------ what threads meet for

    def counted(self, value: ir.Value, at: Point, kind: str) -> ir.Value:
        """The columns that are there."""
        e, count = self.e, at.count
        if count is not None and at.masked:
            none = ir.FloatAttr.get(ir.F32Type.get(), EMPTY.get(kind, 0.0))
            return e.op("tile.filled", [value.type], [value, count], otherwise=none).result
        if count is None:
            all_, none = e.i32(at.vector), e.i32(0)
            count = e.op("arith.select", [none.type], [at.valid, all_, none]).result
        return e.op("tile.counted", [value.type], [value, count], kind=kind).result

    def reduce(self, kind: str, values: list[ir.Value], rows: int, columns: int) -> ir.Value:
        """A reduction of values of all threads that share a block."""
        facts = self.sharing(rows, columns)
        return self.e.op("tile.reduce_lanes", [ir.F32Type.get()], [values], kind=kind, **facts).result

    def sums(self, at: Point, body: Body, known: Known) -> list[ir.Value]:
        """The reductions that a body reads at a point: those of its row, which are known, and its own."""
        made: Known = list(known)

        def need(body: Body) -> None:
            for i in body.all_sums:
                r = self.p.reductions[i]
                if made[i] is None and ("sum", i) in at.cache:
                    made[i] = at.cache["sum", i]
                if made[i] is None:
                    need(r.body)
                    at.cache["sum", i] = made[i] = self.terms(r, at, made)  # pyright: ignore

        need(body)
        return made  # pyright: ignore

    def reduce_row(self, r: Row) -> None:
        """The reductions over a row, each of those before it."""
        p, s = self.p, self.spread
        left = [i for i, x in enumerate(p.reductions) if p.of_row(x)]
        while left:
            ready = [i for i in left if all(self.ready(k, r.known) for k in p.reductions[i].body.all_sums)]
            if not s.looped:
                ready = ready[:1]
            left = [i for i in left if i not in ready]
            if s.looped:
                running = {i: self.running(p.reductions[i].kind) for i in ready}
                with self.over_row(r) as at:
                    for i in ready:
                        value = self.row_value(p.reductions[i], at, r.known)
                        self.term(running[i], value, at, p.reductions[i].kind)
                for i in ready:
                    r.known[i] = self.reduce(p.reductions[i].kind, [running[i]], 1, 0)
                continue
            (i,) = ready
            kind, values = p.reductions[i].kind, []
            for at in r.points:
                value = self.row_value(p.reductions[i], at, r.known)
                values.append(self.counted(value, at, kind) if self.ragged(1, 0) else value)
            r.known[i] = self.reduce(kind, values, 1, 0)

    def ready(self, i: int, known: Known) -> bool:
        """Whether all of a row that a reduction depends on is known."""
        r = self.p.reductions[i]
        return known[i] is not None or (not self.p.of_row(r) and all(self.ready(k, known) for k in r.body.all_sums))

    def row_value(self, r: Reduction, at: Point, known: Known) -> ir.Value:
        """A term of a reduction over a row: what is outside of its range is what one begins with."""
        value = self.value(r.body, at, self.sums(at, r.body, known), exact=True)
        return value if r.within is None else self.filled(value, (r.within,), EMPTY[r.kind], at)

    def running(self, kind: str) -> ir.Value:
        """Registers for a reduction that a loop goes through."""
        return self.e.op("tile.running", [self.columns(self.spread.vector)], kind=kind).result

    def term(self, running: ir.Value, value: ir.Value, at: Point, kind: str) -> None:
        """A point's columns, taken into it."""
        if at.count is not None:
            value = self.counted(value, at, kind)
        self.e.op("tile.term", operands=[running, value, at.valid], kind=kind)

    # -------------------------------------------------------------------------------------------------------- results

    def ragged(self, rows: int, columns: int) -> bool:
        """Whether threads that share a block may have columns, or rows, that are not there."""
        n, s = self.p.columns.size, self.spread
        return rows > 1 or not n or bool(n % (columns or s.columns))

    def is_zeros(self, o: Output) -> bool:
        """Whether a result has zeros where nothing is there: a transform has other numbers."""
        return not o.hadamard and self.p.reads_zeros(o.body)

    def result(self, o: Output, r: Row, at: Point) -> ir.Value:
        """What a result is at a point, before it is scaled and rounded; of a turned one before it is transformed."""
        exact = o.exact or self.shares_functions(o.body)
        made = self.value(o.body, at, self.sums(at, o.body, r.known), exact)
        return made if self.p.is_turned(o) else self.transformed(o, made, at)

    def shares_functions(self, body: Body) -> bool:
        """Whether a reduction of a row takes some function too, which is then the same one, and computed once."""
        found = [self.functions(r.body) for r in self.p.reductions if self.p.of_row(r)]
        return bool(self.functions(body) & set[str]().union(*found))

    def functions(self, body: Body) -> set[str]:
        """Those of a body that have an approximation."""
        blocks = [self.block_of(x) for x in body.every if x.op >= 0]
        return {x.operation.name for block in blocks for x in block.operations} & FUNCTIONS

    def transformed(self, o: Output, value: ir.Value, at: Point) -> ir.Value:
        """Columns of a result that is, by all threads that have some of the same ones; what is not there is 0."""
        if not o.hadamard:
            return value
        if self.ragged(1, TRANSFORMED) and not self.p.reads_zeros(o.body):
            value = self.counted(value, at, "sum")
        return self.e.op("tile.hadamard", [value.type], [value]).result

    def write_turned(self, o: Output, rows: list[Row], outer: dict[str, ir.Value]) -> None:
        """A result with another index last: threads leave their columns of a square tile in shared memory, take rows of
        it, and write these as any others."""
        e, p, s, other = self.e, self.p, self.spread, self.turned
        (m0, n0), (row, column), i32 = self.corner, (p.rows[-1], p.columns), ir.IntegerType.get_signless(32)
        whole: dict[str, Any] = {"rows": s.rows, "columns": s.columns, "at": s.exchanged_bytes(p)}
        if s.halves(p):
            whole["halves"] = ir.TypeAttr.get(ir.Type.parse(o.body.reads[0].element.mlir))
        values = [self.result(o, r, at) for r in rows for at in r.points]
        if not self.p.reads_zeros(o.body):  # what is not there does not count
            values = [self.counted(x, r.points[0], "absmax") for x, r in zip(values, rows, strict=True)]
        if self.laid:  # what was turned before has been taken
            e.op("tile.sync", scope="cta", releases=0)
        self.laid = True
        for place, value in enumerate(values):
            e.op("tile.lay_columns", operands=[value], place=place, **whole)
        named: dict[str, Any] = {"vector": s.vector, "at": s.named_at(p)}
        for place, r in enumerate(rows if p.holes else ()):
            e.op("tile.lay_named", operands=[r.edge.valid], place=place, columns=s.columns, **named)
        e.op("tile.sync", scope="cta", releases=0)
        taken = [e.op("tile.take_turned", [x.type], place=i, **whole).result for i, x in enumerate(values)]
        ends = [n0, m0, self.size(column), self.size(row)]
        lanes = other.spread.across * s.vector
        made = e.op("tile.point", [i32, i32, ir.IntegerType.get_signless(1)], ends, columns=lanes, vector=s.vector)
        turned, mask = [], ()
        if p.holes:
            block = max(s.vector, o.scale.columns if o.scale is not None else 0)
            mask = e.op(
                "tile.take_named", [i32, ir.IntegerType.get_signless(1)], block=block, rows=s.rows, **named
            ).results
        for i in range(other.spread.down):
            where = outer | self.group | {column.name: self.further(made.results[0], i * other.spread.step[0])}
            beside = [self.further(made.results[1], j * other.spread.step[1]) for j in range(other.spread.along)]
            points = [other.point(where | {row.name: x}, s.vector) for x in beside]
            turned.append(Row(other.point(where, 1), [other.masked(at, *mask) if mask else at for at in points], []))
        of = self.what(o.body)
        (o,) = (x for x in other.p.outputs if x.index == o.index)
        every = [at for r in turned for at in r.points]
        taken = [other.transformed(o, x, at) for x, at in zip(taken, every, strict=True)]
        other.write_blocks(o, turned, taken, of)

    def what(self, body: Body) -> Any:
        """The tensor that a body has elements of as they are, and where; None where it computes."""
        read = body.reads[0] if self.p.reads_zeros(body) and body.reads else None
        return read and (read.argument_index, read.coords)

    def write_blocks(self, o: Output, rows: list[Row], made: list[ir.Value], of: Any) -> None:
        """A result of which a thread has `made` all its points at once: block by block. Where a block is all of a tile,
        its largest magnitude is that of whatever else is `of` the same tensor, turned or not."""
        s, scale = self.spread, o.scale
        down = along = 1
        if scale is not None and scale.largest is None:
            down = max(1, scale.rows // s.step[0])
            along = max(1, scale.columns // s.step[1]) if scale.columns else s.along
        shared = scale is not None and scale.rows == 1 and s.sharing(1, scale.columns) & 1
        step = 2 * along if s.turns and shared and s.along > along else along
        self.numbers = {id(r.points): i for i, r in enumerate(rows)}
        for i, j in product(range(0, s.down, down), range(0, s.along, step)):
            with self.reached(j):
                pair: list[tuple[ir.Value, Point]] = []
                for x in range(j, j + step, along):
                    group = [(r, at) for r in rows[i : i + down] for at in r.points[x : x + along]]
                    values = [v for y in range(i, i + down) for v in made[y * s.along + x :][:along]]
                    self.write_block(o, values, group, of, pair if step > along else None)
            if j + step == s.along:
                for r in rows[i : i + down]:
                    self.end_row(r.points)

    def reached(self, place: int) -> AbstractContextManager[Any]:
        """Where a tile may end in front of a thread's places beside each other, from that number on: if it does not."""
        e, name = self.e, self.p.columns.name
        if not place or name not in self.limits:
            return nullcontext()
        first = self.further(self.corner[1], place * self.spread.step[1])
        return e.region("tile.when", [e.compare("lt", first, self.limits[name])])

    def write_block(
        self,
        o: Output,
        values: list[ir.Value],
        group: list[tuple[Row, Point]],
        of: Any,
        pair: list[tuple[ir.Value, Point]] | None,
    ) -> None:
        """A block of a result, or what a thread has in one place. Its scale is the first or the second of a `pair`, or
        stored by itself."""
        s, scale = self.spread, o.scale
        if scale is not None and scale.largest is not None:
            ((_, at),) = group
            values = [self.product(values[0], self.given(o, scale, scale.largest, at))]
        elif scale is not None:
            found = values
            if self.ragged(scale.rows, scale.columns) and not self.is_zeros(o):
                found = [self.counted(x, at, "absmax") for x, (_, at) in zip(values, group, strict=True)]
            first = self.first_of(scale, [at for _, at in group])
            if scale.columns == 1:
                factors = self.scales_of_columns(o, scale, found, first)
                self.write(o, [self.product(x, factors) for x in values], group)
                return
            known = of if (scale.rows, scale.columns) == (s.rows, s.columns) and not o.hadamard else None
            largest = self.largest.get(known) or self.reduce("absmax", found, scale.rows, scale.columns)
            if known is not None:
                self.largest[known] = largest
            code, reciprocal = self.find_scale(o, scale, largest)
            values = [self.product(x, reciprocal) for x in values]
            scaled = code, first if scale.columns else group[0][0].edge
            if pair is None:
                self.store_scale(o, scale, *scaled)
            elif pair:
                self.store_pair(o, scale, [*pair, scaled], group[0][0].edge)
            else:
                pair.append(scaled)
        self.write(o, values, group)

    def first_of(self, scale: Blocks, points: list[Point]) -> Point:
        """A thread's first point of a block, valid where any of the block's is: of several rows the first may be left
        out, unless blocks begin where groups do."""
        e, p = self.e, self.p
        if scale.rows == 1 or not p.skips or (p.apart is not None and not p.gates):
            return points[0]
        facts = self.sharing(scale.rows, scale.columns)
        i1, valid = ir.IntegerType.get_signless(1), [[at.valid for at in points]]
        some = e.op("tile.some", [i1], valid, **facts).result
        return replace(points[0], valid=some)

    def write(self, o: Output, values: list[ir.Value], group: list[tuple[Row, Point]]) -> None:
        """Values of a result at the points that are there."""
        for x, (r, at) in zip(values, group, strict=True):
            if self.stores_rows(o):
                self.put(o, x, r.points, next(i for i, other in enumerate(r.points) if other is at))
                continue
            at = self.windowed(o, at)
            with self.e.region("tile.when", [at.valid]):
                self.store(o, x, at)

    def write_looped(self, r: Row) -> None:
        """Results of a row that is walked: scales of all of it first."""
        p, scales = self.p, {}
        whole = [o for o in p.outputs if o.scale is not None and o.scale.largest is None and not o.scale.columns]
        if whole:
            running = {o.index: self.running("absmax") for o in whole}
            with self.over_row(r) as at:
                for o in whole:
                    value = self.result(o, r, at)
                    self.term(running[o.index], value, at, "absmax")
            for o in whole:
                assert o.scale is not None
                scales[o.index] = self.find_scale(o, o.scale, self.reduce("absmax", [running[o.index]], 1, 0))
                self.store_scale(o, o.scale, scales[o.index][0], r.edge)
        written = [o for o in p.outputs if not p.is_row(o)]
        if not written:
            return
        with self.over_row(r) as at:
            for o in written:
                value = self.result(o, r, at)
                if o.scale is not None and o.scale.largest is not None:
                    value = self.product(value, self.given(o, o.scale, o.scale.largest, at))
                elif o.index in scales:
                    value = self.product(value, scales[o.index][1])
                elif o.scale is not None:
                    found = value
                    if self.ragged(o.scale.rows, o.scale.columns) and not self.is_zeros(o):
                        found = self.counted(value, at, "absmax")
                    largest = self.reduce("absmax", [found], o.scale.rows, o.scale.columns)
                    code, reciprocal = self.find_scale(o, o.scale, largest)
                    value = self.product(value, reciprocal)
                    self.store_scale(o, o.scale, code, at)
                to = self.windowed(o, at)
                with self.e.region("tile.when", [to.valid]):
                    self.store(o, value, to)
