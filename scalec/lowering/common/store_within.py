"""Results of which a window is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.schedule import LANES
from scalec.lowering.builder import Variable
from scalec.lowering.common import rounding
from scalec.lowering.common.epilogue import places_of, reader_of
from scalec.lowering.common.fold_columns import Held
from scalec.lowering.common.gather import named
from scalec.lowering.common.global_elements import address_of
from scalec.lowering.common.state import COMMON, State
from scalec.lowering.common.stores import store_one


@COMMON.lowers("tile.store_within")
def store_within(s: State, op: ir.OpView) -> None:
    """Of a row's columns the first alone has an address, from which others are known distances, where these are not
    counted from where the window begins. LLVM's strength reduction compares each two addresses of 64 bits that it sees:
    1.9 s for 256 of them (sm_100a, docs/notes/toolchain.md), so that what steps are is hidden from it."""
    b, fragment, attributes = s.b, s.get(op.accumulator), op.operation.attributes
    element = str(op.target.type.element_type)
    strides, target = (s.get(op.row_stride), s.get(op.column_stride)), s.get(op.target)
    readers = [reader_of(s, v) for v in op.bounds]
    otherwise = ir.FloatAttr(attributes["otherwise"]).value if "otherwise" in attributes else None
    along = tile.str_of(op.along)
    known = strides[1] if isinstance(strides[1], int) else None
    for wave, registers in enumerate(fragment.waves):
        reads = [r.of_wave(wave) for r in readers]
        rows: list[ir.Value] = []
        ends = None
        if "known" in attributes:
            ends = (_of_run if fragment.lanes else _before_run)(s, op, readers, wave)
        size = max(1, rounding.bits_of(element) // 8)
        bases: dict[int, tuple[ir.Value, int]] = {}  # of each row: the address of its last column, and which that is
        for g, place in places_of(s, op, fragment, wave):
            values = [v.get() for v in fragment.of_group(registers, g)]
            if ends is not None:
                for i in range(0, len(values), 2 if fragment.one else 1):
                    if i % 2 == len(ends[g]):  # an odd number of columns
                        continue
                    (begin, end, column), row = ends[g][i % 2], b.add(place.row, 8 * (i // 2))
                    inside = b.and_(b.compare("sle", begin, row), b.compare("slt", row, end))
                    address = b.add(column, b.mul(b.mul(b.widen(row), strides[0]), size))
                    store_one(s, address, 0, element, values[i], inside)
                continue
            low, high = _bounds(op, [read(g, place) for read in reads])
            at_rows = tuple(b.add(place.row, 8 * i) for i in range(len(place.row_inside)))
            rows = rows or _named(s, op, "m", at_rows, place.row_inside)
            columns = _named(s, op, "n", (place.column, b.add(place.column, 1)), place.column_inside)
            for i in range(0, len(values), 2 if fragment.one else 1):
                row, column = b.add(place.row, 8 * (i // 2)), b.add(place.column, i % 2)
                at, value = row if along == "m" else column, values[i]
                within = b.and_(b.compare("sle", low[i], at), b.compare("slt", at, high[i]))
                for names in (rows[i // 2], columns[i % 2]) if len(op.names) else ():
                    within = b.and_(within, names)
                inside = b.and_(place.row_inside[i // 2], place.column_inside[i % 2])
                if otherwise is None:
                    inside = b.and_(inside, within)
                else:
                    value = b.select(within, value, b.constant(otherwise))
                for width in op.width:
                    away = b.sub(at, low[i])
                    row, column = (away, column) if along == "m" else (row, away)
                    inside = b.and_(
                        inside, b.and_(b.compare("sle", b.constant(0), low[i]), b.compare("slt", away, s.get(width)))
                    )
                distance = i % 2 + (2 * g if fragment.lanes else s.geometry.column(g))
                if i // 2 not in bases or len(op.width):
                    index = b.add(b.mul(b.widen(row), strides[0]), b.mul(b.widen(column), strides[1]))
                    bases[i // 2] = address_of(s, target, index, element), distance
                address, before = bases[i // 2]
                if known is None and distance != before:
                    step = b.mul(strides[1], (distance - before) * size)
                    address = b.pure("add.s64 $0, $1, $2;", b.i64, address, step)
                    bases[i // 2] = address, distance
                store_one(s, address, (distance - before) * size * (known or 0), element, value, inside)


def _of_run(s: State, op: ir.OpView, readers: Sequence[Held], wave: int) -> list[list[tuple[ir.Value, ...]]]:
    """Likewise where a lane has all of a row's columns, once a run of the tiles that are walked."""
    b, fragment, element = s.b, s.get(op.accumulator), str(op.target.type.element_type)
    live = fragment.live

    def made() -> list[Variable]:
        first, known = b.add(s.get(op.n0), b.mul(s.unit(1), live)), [r.now()[wave] for r in readers]
        kept = []
        for column in range(live):
            low, high = _bounds(op, [x[column // 2] for x in known])
            at = b.add(first, column)
            end = b.op("arith.minsi", [b.i32], [b.value(high[column % 2]), b.value(s.get(op.m))])
            end = b.select(b.compare("lt", at, s.get(op.n)), end, b.constant(0))
            index = b.mul(b.widen(at), s.get(op.column_stride))
            address = address_of(s, s.get(op.target), index, element)
            kept += [b.variable(x.type, x) for x in (b.value(low[column % 2]), end, address)]
        return kept

    values = [v.get() for v in s.once_a_run(("columns", op.accumulator, wave), made)]
    of_columns = [tuple(values[i : i + 3]) for i in range(0, len(values), 3)]
    return [of_columns[i : i + 2] for i in range(0, live, 2)]


def _before_run(s: State, op: ir.OpView, readers: Sequence[Held], wave: int) -> list[list[tuple[ir.Value, ...]]]:
    """Of each group's two columns: the rows where what is stored begins and ends, and the column's address. Computed
    once, behind the bounds: else ptxas 13.0 computes it for each tile."""
    b, fragment, element = s.b, s.get(op.accumulator), str(op.target.type.element_type)
    live = fragment.live
    last = readers[-1].waves[wave][-1][-1]

    def made() -> list[list[tuple[ir.Value, ...]]]:
        first = b.add(s.get(op.n0), b.mul(s.unit(1), live))
        n = b.min(s.get(op.n), b.add(first, live))
        start = b.add(first, b.and_(s.lane, LANES - 1) if fragment.one else s.first_column)
        ends = []
        for g in range(fragment.columns // 8):
            bounds, of_columns = _bounds(op, [r.waves[wave][g] for r in readers]), []
            for i, (low, high) in enumerate(list(zip(*bounds, strict=True))[:2]):
                column = b.add(start, s.geometry.column(g) + i)
                end = b.op("arith.minsi", [b.i32], [b.value(high), b.value(s.get(op.m))])
                end = b.select(b.compare("lt", column, n), end, b.constant(0))
                index = b.mul(b.widen(column), s.get(op.column_stride))
                of_columns.append((low, end, address_of(s, s.get(op.target), index, element)))
            ends.append(of_columns)
        return ends

    return s.once(("columns", op.accumulator, wave), made, behind=last)


def _named(
    s: State, op: ir.OpView, axis: str, at: tuple[ir.Value, ...], inside: tuple[ir.Value, ...]
) -> list[ir.Value]:
    """Whether rows, or columns, that are inside have all that is to name something for them."""
    indices = [s.get(x) for x in op.names]
    return [named(s.b, indices, axis, x, y) for x, y in zip(at, inside, strict=True)]


def _bounds(op: ir.OpView, read: Sequence[list[Any]]) -> list[list[Any]]:
    """Both ends at a place's four elements."""
    attributes, values = op.operation.attributes, iter(read)
    return [[tile.int_of(attributes[name])] * 4 if name in attributes else next(values) for name in ("low", "high")]
