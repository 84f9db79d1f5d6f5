"""Rows that an index read from memory names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import CLUSTER, SHARED, Builder, Variable
from scalec.lowering.common.copies import NOTHING, MapView, RowScales
from scalec.lowering.common.row_copies import Chunks
from scalec.lowering.common.state import COMMON, State


@dataclass(frozen=True)
class RowIndex:
    """An index in memory for each row or column, along `axis` ("m" or "n"): its address, its stride in elements, and
    from where on it names nothing."""

    source: ir.Value
    stride: ir.Value | int
    extent: ir.Value | int
    axis: str
    block: int = 1

    def load(self, b: Builder, row: ir.Value, inside: ir.Value, otherwise: int = NOTHING) -> ir.Value:
        """What memory has for a row or column that is `inside`, `otherwise` for others."""
        address = b.integer(b.offset(self.source, b.strided(b.div(row, self.block), self.stride), b.i32))
        operands = [address, inside, b.constant(otherwise)]
        return b.asm("@$2 ld.global.nc.b32 $0, [$1];", [b.i32], operands, tied=1)[0]

    def names(self, b: Builder, found: ir.Value) -> ir.Value:
        """Whether what memory has names something."""
        return b.compare("lt", found, self.extent)

    def at(self, b: Builder, row: ir.Value, inside: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The index of a row or column that is `inside`, and whether it is and names something."""
        found = self.load(b, row, inside)
        return found, self.names(b, found)


def named(b: Builder, indices: Sequence[RowIndex | OwnIndex], axis: str, row: ir.Value, inside: ir.Value) -> ir.Value:
    """Whether a row or column is `inside`, and all of these that are along `axis` name something for it."""
    for index in indices:
        if index.axis == axis:
            _, inside = index.at(b, row, inside)
    return inside


def goes_to(s: State, op: ir.OpView) -> dict[str, RowIndex]:
    """The indices that say where rows and columns go which the op stores, by axis; none where these stay in their
    places."""
    return {index.axis: index for index in (s.get(op.skips[number]) for number in tile.optional(op, "to", ()))}


def placed(s: State, op: ir.OpView, axis: str, row: ir.Value, inside: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where a row or column goes that is `inside`, and whether it is stored: all that the op skips by name something
    for it."""
    to, b, at = goes_to(s, op).get(axis), s.b, row
    if to is not None:
        at, inside = to.at(b, row, inside)
    others = (x for x in map(s.get, op.skips) if x is not to)
    return at, named(b, list(others), axis, row, inside)


@COMMON.lowers("tile.row_index")
def row_index(s: State, op: ir.OpView) -> None:
    b, (first, *others) = s.b, [s.get(x) for x in op.extents]
    for other in others:
        first = b.min(first, other)
    block = tile.optional(op, "block", 1)
    s.values[op.result] = RowIndex(s.get(op.source), s.get(op.stride), first, tile.str_of(op.axis), block)


@dataclass(frozen=True)
class OwnIndex:
    """Likewise where a lane has what was `found` for its own row; `NOTHING` for one that is not there."""

    index: RowIndex
    found: ir.Value

    @property
    def axis(self) -> str:
        return self.index.axis

    def at(self, b: Builder, _row: ir.Value, _inside: ir.Value) -> tuple[ir.Value, ir.Value]:
        return self.found, self.index.names(b, self.found)


@COMMON.lowers("tile.own_index")
def own_index(s: State, op: ir.OpView) -> None:
    b, index = s.b, s.get(op.index)
    row = b.add(b.add(s.get(op.m0), b.mul(s.unit(0), tile.LANES)), s.lane)
    s.values[op.result] = OwnIndex(index, index.load(b, row, b.compare("lt", row, s.get(op.m))))


@dataclass(frozen=True)
class Asked:
    """What an index has for some rows or columns, each lane some of them, and 0 for those that are not there."""

    index: RowIndex
    found: list[ir.Value]


@COMMON.lowers("tile.ask_named")
def ask_named(s: State, op: ir.OpView) -> None:
    """Lanes ask for a row each. Beyond the end there is nothing to name."""
    b, count, index, found = s.b, tile.int_of(op.count), s.get(op.index), []
    first = b.add(s.get(op.first), b.mul(s.unit(0), count)) if index.axis == "m" else s.get(op.first)
    for i in range(0, count, tile.LANES):
        row = b.add(s.lane, i)
        at = b.add(first, row)
        inside = b.compare("lt", at, s.get(op.end))
        if i + tile.LANES > count:
            inside = b.and_(inside, b.compare("lt", row, count))
        found.append(index.load(b, at, inside, 0))
    s.values[op.result] = Asked(index, found)


@COMMON.lowers("tile.all_named")
def all_named(s: State, op: ir.OpView) -> None:
    b, asked = s.b, s.get(op.asked)
    first, *others = (asked.index.names(b, x) for x in asked.found)
    every = reduce(b.and_, others, first)
    text = (
        "{\n.reg .pred P1;\nsetp.ne.b32 P1, $1, 0;\nvote.sync.all.pred P1, P1, 0xFFFFFFFF;\nselp.b32 $0, 1, 0, P1;\n}"
    )
    (all_,) = b.asm(text, [b.i32], [b.select(every, b.constant(1), 0)])
    s.values[op.result] = b.compare("ne", all_, 0)


@dataclass(frozen=True)
class Gathered:
    """Indices of a tile's rows: a thread has those of `together` adjacent rows, then of as many a warp's further on. Of
    pages of `page` rows, 0 without, each is followed by which row of its page it is."""

    rows: int
    together: int
    indices: list[list[Variable]]
    page: int = 0

    def first(self, s: State, i: int) -> tuple[ir.Value, ir.Value | None]:
        """The first row within the tile of a thread's i-th ones, and whether it is one."""
        b, step = s.b, self.together * tile.LANES
        row = b.add(b.mul(s.lane, self.together), i * step)
        return row, b.compare("lt", row, self.rows) if (i + 1) * step > self.rows else None


@COMMON.lowers("tile.gathered")
def gathered(s: State, op: ir.OpView) -> None:
    rows, together = tile.int_of(op.rows), tile.int_of(op.together)
    count = -(-rows // (together * tile.LANES))
    page = tile.optional(op, "page", 0)
    indices = [[s.b.variable(s.b.i32, NOTHING) for _ in range(together + (page > 0))] for _ in range(count)]
    s.values[op.result] = Gathered(rows, together, indices, page)


@COMMON.lowers("tile.look_up")
def look_up(s: State, op: ir.OpView) -> None:
    """What names nothing is `NOTHING`, below 0 for copies."""
    b, into, index = s.b, s.get(op.into), s.get(op.index)

    def load(variable: Variable, row: ir.Value, is_row: ir.Value | None) -> None:
        at = b.add(s.get(op.row0), row)
        inside = b.compare("lt", at, s.get(op.rows))
        found, names = index.at(b, at, b.both(inside, is_row))
        variable.set(b.select(names, found, b.constant(NOTHING)))

    if isinstance(into, Chunks):
        row, missing = into.place(s)[0], b.constant(0)
        for i, behind, is_row in into.each(s):
            at = b.add(s.get(op.row0), b.add(row, behind))
            inside = b.compare("lt", at, s.get(op.rows))
            found, names = index.at(b, at, b.both(inside, is_row))
            into.offsets[i].set(b.select(names, into.offset(b, found), b.constant(0, b.i64)))
            missing = b.or_(missing, b.select(names, b.constant(0), 1 << i))
        into.missing.set(missing)
        return
    if isinstance(into, RowScales):
        for variable, (row, is_row, _) in zip(into.indices or [], into.mine(s), strict=True):
            load(variable, row, is_row)
        return
    for i, variables in enumerate(into.indices):
        first, is_row = into.first(s, i)
        for j, variable in enumerate(variables[: into.together]):
            load(variable, b.add(first, j), is_row)
        if into.page:
            at = b.add(s.get(op.row0), first)
            variables[-1].set(b.sub(at, b.mul(b.div(at, into.page), into.page)))


@COMMON.lowers("tile.gather")
def gather(s: State, op: ir.OpView) -> None:
    b, cursor, rows = s.b, s.get(op.cursor), s.get(op.rows)
    ring, source = s.get(op.ring), MapView.of(s, op.source)
    target, barrier = s.get(op.target).address(b, cursor), b.add(ring.full, b.shl(cursor.at(), 3))
    space = CLUSTER if s.target.max_cluster > 1 else SHARED  # as tile.copy
    group = {"group": ir.Attribute.parse("#nvvm.cta_group<cta_2>")} if ring.of_leader else {}
    mode = "tile" if rows.together == 1 else "tile_gather4"
    pitch = tile.shape_of(op.target.type)[1] * tile.bits_of(tile.element_of(op.target.type)) // 8

    def issue(first: ir.Value, indices: list[Variable]) -> None:
        coordinates = [s.get(op.x), *(x.get() for x in (reversed(indices) if rows.page else indices)), *source.at]
        place = b.address(space, b.add(target, b.mul(first, pitch)))
        operands = [place, source.map, *coordinates, b.address(SHARED, barrier)]
        b.op(
            "nvvm.cp.async.bulk.tensor.shared.cluster.global",
            [],
            [b.value(v) for v in operands],
            isCTAOnly=ir.BoolAttr.get(space == SHARED),
            mode=ir.Attribute.parse(f"#nvvm.tma_load_mode<{mode}>"),
            operandSegmentSizes=ir.DenseI32ArrayAttr.get([1, 1, len(coordinates), 1, 0, 0, 0, 0]),
            **group,
        )

    for i, indices in enumerate(rows.indices):
        first, is_row = rows.first(s, i)
        if is_row is None:
            issue(first, indices)
            continue
        with b.when(is_row):
            issue(first, indices)


@COMMON.lowers("tile.elect")
def elect(s: State, op: ir.OpView) -> None:
    b = s.b
    with b.when(b.op("nvvm.elect.sync", [b.i1], [])):
        s.table.block(s, op.body.blocks[0])


@COMMON.lowers("tile.input_at")
def input_at(s: State, op: ir.OpView) -> None:
    source = s.get(op.source)
    s.values[op.result] = replace(source, lookups={**source.lookups, tile.int_of(op.axis): s.get(op.index)})
