"""Programs without a contraction that have ranges, or indices from memory: which rows and columns there are."""

from __future__ import annotations

from functools import reduce

from scalec.ir.mlir import ir
from scalec.passes.emit.pointwise import Point, of_group
from scalec.passes.emit.scaling import ScalingKernel
from scalec.passes.problem.access import Coord, Dim, Domain, Index, Lookup
from scalec.passes.problem.pointwise import Body, Output


class RangedKernel(ScalingKernel):
    """Rows and columns that a range has or an index names; the others are not there."""

    # what was found of each index in ranges of groups, within a tile.
    groups: dict[tuple[ir.Value, ...], tuple[ir.Value, ir.Value, ir.Value]]
    aligned_: ir.Value | None  # whether loads are aligned, None where they all are
    # where groups are apart: which one a tile has rows of, and where it begins, among the indices of a point.
    group: dict[str, ir.Value]

    def tile_of(self, d: Dim) -> int:
        """How many indices of a dimension a tile has."""
        s, column = self.spread, d.name == self.p.columns.name
        return (s.rows, s.columns)[column] * s.blocks[column]

    def in_group(self, d: Domain, outer: dict[str, ir.Value], along: Dim, first: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where groups are apart: how many rows, or columns, behind those from `first` on a tile's own stand, which are
        its group's, and where the group ends."""
        e, i32, rows = self.e, ir.IntegerType.get_signless(32), self.tile_of(along)
        operands = self.offsets(d, outer | {d.dim: first})
        group, low, high = e.op("tile.group_of_tile", [i32] * 3, operands, rows=rows).results
        self.group |= {d.group: group} | of_group(d.dim, group, low)
        unit = e.arith("arith.addi", e.arith("arith.divui", low, e.i32(rows)), group)
        return e.arith("arith.subi", low, e.arith("arith.muli", unit, e.i32(rows))), high

    def group_of(self, d: Domain, where: dict[str, ir.Value]) -> tuple[ir.Value, ir.Value, ir.Value]:
        """The group whose range has an index, where it begins, and whether there is one: once for each row."""
        row = tuple(where[x] for x in (d.dim, *d.beside))
        if row not in self.groups:
            self.groups[row] = self.search(d, where)
        return self.groups[row]

    def search(self, d: Domain, where: dict[str, ir.Value]) -> tuple[ir.Value, ir.Value, ir.Value]:
        """What `tile.find_group` finds of an index."""
        i32, i1 = (ir.IntegerType.get_signless(bits) for bits in (32, 1))
        return tuple(self.e.op("tile.find_group", [i32, i32, i1], self.offsets(d, where)).results)

    def offsets(self, d: Domain, where: dict[str, ir.Value]) -> list[ir.Value]:
        """What a search is told: the offsets, their stride, how many groups there are, and what is looked for."""
        assert isinstance(d.low, Index)
        source, coords = self.pointer(d.low.tensor, d.low.argument_index, 4), d.low.coords
        at, strides = self.clamped(d.low, where), self.strided(d.low.tensor, len(coords))
        along = [c.dim for c in coords].index(d.group)
        if len(coords) > 1 or coords[along].offset:
            first = [self.e.i32(c.offset) if i == along else self.placed(c, at) for i, c in enumerate(coords)]
            source = self.e.op("tile.view", [source.type], [source, first, strides]).result
        count = self.size(next(x for x in self.p.groups if x.name == d.group))
        return [source, strides[along], count, where[d.dim]]

    def in_range(self, d: Domain, where: dict[str, ir.Value]) -> ir.Value:
        """Whether an index lies in a range."""
        e, at, (low, high) = self.e, where[d.dim], self.ends(d, where)
        return e.arith("arith.andi", e.negated(e.compare("lt", at, low)), e.compare("lt", at, high))

    def ends(self, d: Domain, where: dict[str, ir.Value]) -> list[ir.Value]:
        """Of a range: they may be any i32, whose sign unsigned comparisons do not see."""
        e, i32, ends = self.e, ir.IntegerType.get_signless(32), []
        for end in (d.low, d.high):
            value = self.end(end, where)
            below = e.compare("lt", value, e.i32(-(1 << 31)))
            ends.append(e.op("arith.select", [i32], [below, value, e.i32(0)]).result)
        return ends

    def end(self, x: Index | Coord | int, where: dict[str, ir.Value]) -> ir.Value:
        """One of them, as it is said."""
        if isinstance(x, Index):
            return self.read_index(x, self.clamped(x, where))
        return self.placed(x, where) if isinstance(x, Coord) else self.e.i32(x)

    def columns_within(self, domains: tuple[Domain, ...], at: Point) -> ir.Value:
        """A bit for each column of a point that all of some ranges have, once for each point."""
        key = "within", domains
        if key in at.cache:
            return at.cache[key]
        e, i32, every = self.e, ir.IntegerType.get_signless(32), list[ir.Value]()
        for d in domains:
            if d.dim == self.p.columns.name:
                operands = [at.where[d.dim], *self.ends(d, at.where)]
                every.append(e.op("tile.within", [i32], operands, columns=at.vector).result)
            else:
                operands = [self.in_range(d, at.where), e.i32(-1), e.i32(0)]
                every.append(e.op("arith.select", [i32], operands).result)
        made = at.cache[key] = reduce(lambda x, y: e.arith("arith.andi", x, y), every)
        return made

    def filled(self, value: ir.Value, domains: tuple[Domain, ...], otherwise: float, at: Point) -> ir.Value:
        """What is outside of some ranges is `otherwise`."""
        number = ir.FloatAttr.get(ir.F32Type.get(), otherwise)
        return self.e.op(
            "tile.filled", [value.type], [value, self.columns_within(domains, at)], otherwise=number
        ).result

    def value(self, body: Body, at: Point, sums: list[ir.Value], exact: bool, once: bool = False) -> ir.Value:
        """Also of what is filled outside a range."""
        made = super().value(body, at, sums, exact, once)
        return made if body.otherwise is None else self.filled(made, body.within, body.otherwise, at)

    def windowed(self, o: Output, at: Point) -> Point:
        """A point of whose columns those are there that a result's own ranges have."""
        if not o.within:
            return at
        e, mask = self.e, self.columns_within(o.within, at)
        if at.count is not None:
            there = [e.i32(0), e.i32(0), at.count]
            inside = e.op("tile.within", [mask.type], there, columns=at.vector).result
            mask = e.arith("arith.andi", mask, inside)
        some = e.negated(e.compare("eq", mask, e.i32(0)))
        return self.masked(at, mask, some)

    def look_up(self, x: Lookup, where: dict[str, ir.Value]) -> tuple[ir.Value, ir.Value]:
        """Where there is no such row, or column, the index of the last one."""
        return super().look_up(x, self.clamped(x.index, where))

    def clamped(self, x: Index, where: dict[str, ir.Value]) -> dict[str, ir.Value]:
        """Indices at which there is something for an index to read."""
        e, safe = self.e, dict(where)
        for d in (*self.p.rows[-1:], self.p.columns):
            if d.name in where and d.name in {c.dim for c in x.coords}:
                safe[d.name] = e.arith("arith.minui", where[d.name], e.arith("arith.subi", self.size(d), e.i32(1)))
        return safe

    def masked(self, at: Point, mask: ir.Value, some: ir.Value) -> Point:
        """A point of which the columns of a mask are there, and whether `some` of them, or of their block, are."""
        e, every = self.e, (1 << at.vector) - 1
        whole = e.compare("eq", mask, e.i32(every - (every >> 31 << 32)))
        if self.aligned_ is not None:
            whole = e.arith("arith.andi", self.aligned_, whole)
        valid = e.arith("arith.andi", at.valid, some)
        return Point(at.where, at.vector, valid, mask, whole, masked=True, within=at.within)
