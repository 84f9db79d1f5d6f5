"""Columns of an accumulator that are reduced, and results of which a window is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering import functions
from scalec.lowering.builder import Builder
from scalec.lowering.common.epilogue import Place, Reader, address_of, store_one
from scalec.lowering.common.epilogue import places as places_of
from scalec.lowering.common.gather import named
from scalec.lowering.common.state import COMMON, Fragment, State

_COMBINED: dict[str, Callable[[Builder, ir.Value, ir.Value], ir.Value]] = {
    "sum": lambda b, x, y: b.fadd(x, y),
    "max": functions.maximum,
    "min": functions.minimum,
}

_QUAD = (1, 2)
"""Distances at which the four lanes that share a row exchange."""


@COMMON.lowers("tile.fold_columns")
def fold_columns(s: State, op: ir.OpView) -> None:
    """A thread reduces what it has of a row's block, by halves; then the four lanes of the row exchange, and each keeps
    what it has of a row of the smaller accumulator: of each eight columns two."""
    b, given, size = s.b, s.get(op.accumulator), tile.int_of(op.size)
    combined, (_, columns) = _COMBINED[tile.str_of(op.kind)], tile.shape_of(op.result.type)
    lane, blocks, waves = b.and_(s.lane, 3), given.columns // size, []
    for registers in given.waves:
        made: list[Any] = [None] * (columns // 2)
        for half in (0, 1):
            totals = [_total(b, combined, registers, half, i * size // 8, size // 8) for i in range(blocks)]
            for group in range(columns // 8):
                for i in (0, 1):
                    own = [totals[c] for c in range(8 * group + i, 8 * group + 8, 2) if c < blocks]
                    value = own[0] if own else b.constant(0.0)
                    for j, other in enumerate(own[1:], 1):
                        value = b.select(b.compare("eq", lane, j), other, value)
                    made[4 * group + 2 * half + i] = b.variable(b.f32, value)
        waves.append(made)
    s.values[op.result] = Fragment(waves, columns, live=blocks)


def _total(
    b: Builder, combined: Callable[..., ir.Value], registers: Sequence[Any], half: int, first: int, groups: int
) -> ir.Value:
    """What a row's block of so many groups of 8 columns comes to, in all four lanes of the row."""
    values = [registers[4 * g + 2 * half + i].get() for g in range(first, first + groups) for i in (0, 1)]
    while len(values) > 1:
        pairs = [combined(b, x, y) for x, y in zip(values[::2], values[1::2], strict=False)]
        values = [*pairs, *values[2 * len(pairs) :]]
    (total,) = values
    for distance in _QUAD:
        (other,) = b.asm(f"shfl.sync.bfly.b32 $0, $1, {distance}, 31, -1;", [b.f32], [total])
        total = combined(b, total, other)
    return total


@COMMON.lowers("tile.store_within")
def store_within(s: State, op: ir.OpView) -> None:
    b, fragment, attributes = s.b, s.get(op.accumulator), op.operation.attributes
    element = str(op.target.type.element_type)
    strides, target = (s.get(op.row_stride), s.get(op.column_stride)), s.get(op.target)
    readers = [Reader(s, s.get(v)) for v in op.bounds]
    otherwise = ir.FloatAttr(attributes["otherwise"]).value if "otherwise" in attributes else None
    along = tile.str_of(op.along)
    for wave, registers in enumerate(fragment.waves):
        for r in readers:
            r.of_wave(wave)
        rows: list[ir.Value] = []
        for g, place in places_of(s, op, wave, len(fragment.waves), fragment.columns, fragment.live):
            low, high = _bounds(s, op, readers, place)
            rows = rows or _named(s, op, "m", (place.row, b.add(place.row, 8)), place.row_inside)
            columns = _named(s, op, "n", (place.column, b.add(place.column, 1)), place.column_inside)
            for i in range(4):
                row, column = b.add(place.row, 8 * (i // 2)), b.add(place.column, i % 2)
                at, value = row if along == "m" else column, registers[4 * g + i].get()
                within = b.and_(b.compare("sle", low[i], at), b.compare("slt", at, high[i]))
                for names in (rows[i // 2], columns[i % 2]) if len(op.names) else ():
                    within = b.and_(within, names)
                inside = b.and_(place.row_inside[i // 2], place.column_inside[i % 2])
                if otherwise is None:
                    inside = b.and_(inside, within)
                else:
                    value = b.select(within, value, b.constant(otherwise))
                index = b.add(b.mul(b.widen(row), strides[0]), b.mul(b.widen(column), strides[1]))
                store_one(s, address_of(s, target, index, element), 0, element, value, inside)


def _named(
    s: State, op: ir.OpView, axis: str, at: tuple[ir.Value, ...], inside: tuple[ir.Value, ...]
) -> list[ir.Value]:
    """Whether rows, or columns, that are inside have all that is to name something for them."""
    indices = [s.get(x) for x in op.names]
    return [named(s.b, indices, axis, x, y) for x, y in zip(at, inside, strict=True)]


def _bounds(s: State, op: ir.OpView, readers: Sequence[Reader], place: Place) -> list[list[Any]]:
    """Both ends at a place's four elements."""
    attributes, read = op.operation.attributes, iter(readers)
    return [
        [tile.int_of(attributes[name])] * 4 if name in attributes else next(read).at(place) for name in ("low", "high")
    ]
