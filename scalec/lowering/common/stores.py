"""Stores of results out of registers (those through shared memory: staging)."""

from __future__ import annotations

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common import rounding, six_bits
from scalec.lowering.common.epilogue import Place, exchange, places_of
from scalec.lowering.common.gather import goes_to
from scalec.lowering.common.global_elements import address_of, around
from scalec.lowering.common.state import COMMON, State


@COMMON.lowers("tile.store_direct")
def store_direct(s: State, op: ir.OpView) -> None:
    """Where columns are adjacent, their distances are offsets of the instructions, not addresses in registers."""
    b, fragment = s.b, s.get(op.accumulator)
    element = str(op.target.type.element_type)
    pair, bits = bool(tile.int_of(op.pair)), rounding.bits_of(element)
    strides = s.get(op.row_stride), s.get(op.column_stride)
    store = _ADD if "adds" in op.operation.attributes else "st.global"
    gaps, of_rows = tile.gaps_of(op), None
    if "rows" in op.operation.attributes:
        gaps, of_rows = None, gaps
    to = goes_to(s, op)
    adjacent = isinstance(strides[1], int) and strides[1] == 1 and "n" not in to
    together = tile.int_of(op.operation.attributes["together"]) if gaps is not None else fragment.columns
    adjacent = adjacent and together % max(8, s.geometry.permuted) == 0

    def address(row: ir.Value, column: ir.Value) -> ir.Value:
        unit = max(1, 8 // bits)  # strides count bytes of packed elements
        column = b.widen(b.div(column, unit)) if gaps is None else b.div(around(b, column, gaps), unit)
        index = b.add(b.mul(around(b, row, of_rows), strides[0]), b.mul(column, strides[1]))
        return address_of(s, s.get(op.target), index, element)

    for wave, registers in enumerate(fragment.waves):
        first: list[ir.Value] = []
        groups = places_of(s, op, fragment, wave)
        if bits == six_bits.BITS:
            _store_sixes(s, op, element, [(x, [v.get() for v in registers[4 * g :][:4]]) for g, x in groups])
            continue
        for g, place in groups:
            rows = place.row_to or [b.add(place.row, 8 * half) if half else place.row for half in (0, 1)]
            column = place.column_to[0] if place.column_to else place.column
            within = s.geometry.column(g) % together
            if adjacent and not within:
                first = [address(row, column) for row in rows]
            for half in range(len(place.row_inside)):
                values = [v.get() for v in fragment.of_group(registers, g)[2 * half :][:2]]
                at, offset = (first[half], within * bits // 8) if adjacent else (address(rows[half], column), 0)
                inside = [b.and_(place.row_inside[half], c) for c in place.column_inside]
                if bits < 8 and not pair:
                    _store_rows(s, op, element, rows[half], place, values)
                elif pair and element == "f32":
                    b.asm(f"@$3 {store}.v2.f32 [$0 + {offset}], {{$1, $2}};", [], [at, *values, inside[0]])
                elif pair:
                    packed = rounding.pair(s, element, *values)
                    b.asm(f"@$2 st.global.b{2 * bits} [$0 + {offset}], $1;", [], [at, packed, inside[0]])
                else:
                    for i in (0, 1):
                        step = b.add(at, b.mul(strides[1], i * bits // 8))
                        if i and place.column_to:
                            step = address(rows[half], place.column_to[1])
                        elif i and together % 2:  # two columns of a thread, the first an even one
                            step = address(rows[half], b.add(place.column, 1))
                        store_one(s, step, offset, element, values[i], inside[i], store)


_ADD = "red.relaxed.gpu.global.add"  # nobody else adds to an element, so that no order shows


def both_of_a_column(s: State, values: list[ir.Value]) -> tuple[ir.Value, ir.Value, tuple[ir.Value, ir.Value]]:
    """What lanes of two adjacent rows have of two columns, exchanged: which column this lane then has (an index, and
    whether it is the second), and its elements of both rows, the even one's first."""
    b = s.b
    odd = b.and_(b.shr(s.lane, 2), 1)
    second = b.compare("eq", odd, 1)
    sent = b.select(second, values[0], values[1])
    other = b.butterfly(sent, 4)
    return odd, second, (b.select(second, other, values[0]), b.select(second, values[1], other))


def _store_rows(s: State, op: ir.OpView, element: str, row: ir.Value, place: Place, values: list[ir.Value]) -> None:
    """Packed elements of which two rows share a byte: lanes of two adjacent rows exchange, so that the even row's has
    both elements of its first column, the odd one's both of its second. Both store where the even row is inside: behind
    an odd number of rows, half a byte is padding."""
    b = s.b
    odd, second, both = both_of_a_column(s, values)
    packed = rounding.pair(s, element, *both)
    column = b.select(second, *place.column_to[::-1]) if place.column_to else b.add(place.column, odd)
    at = b.mul(b.widen(column), s.get(op.column_stride))
    address = address_of(s, s.get(op.target), b.add(b.widen(b.div(row, 2)), at), element)
    inside = b.select(second, place.column_inside[1], place.column_inside[0])
    inside = b.and_(b.compare("lt", b.sub(row, odd), s.get(op.m)), inside)
    b.asm("@$2 st.global.b8 [$0], $1;", [], [address, packed, inside])


Groups = list[tuple[Place, list[ir.Value]]]
"""Places of a thread in groups of 8 columns, and what it has there."""


def _store_sixes(s: State, op: ir.OpView, element: str, groups: Groups) -> None:
    """Elements of which four fill three bytes: lanes that have four adjacent ones exchange, so that each has them all
    of as many rows, or columns, as it has had some of."""
    if not tile.int_of(op.pair):
        for place, values in groups:
            _store_fours(s, op, *_four_rows(s, op, element, place, values))
    elif "words" not in op.operation.attributes:
        for place, values in groups:
            _store_fours(s, op, *_four_columns(s, op, element, place, values))
    else:
        for first in range(0, len(groups), 4):
            _store_sixteen(s, op, [_four_columns(s, op, element, *x) for x in groups[first:][:4]])


Four = tuple[ir.Value, ir.Value, ir.Value, ir.Value, ir.Value]
"""Four elements as the lower bits of an i32; where the first is among those that lie side by side, and before which of
these the last one is; where what they are of begins, an i64 of bytes, and whether it is there."""


def _four_columns(s: State, op: ir.OpView, element: str, place: Place, values: list[ir.Value]) -> Four:
    """Two lanes that follow each other have four columns of two rows: one takes each row."""
    b = s.b
    odd = b.compare("ne", b.and_(s.lane, 1), 0)
    low, high = exchange(s, odd, 1, *(six_bits.packed(s, element, values[i : i + 2])[0] for i in (0, 2)))
    rows = place.row_to or (place.row, b.add(place.row, 8))
    row, inside = (b.select(odd, *reversed(x)) for x in (rows, place.row_inside))
    at = b.mul(b.widen(row), s.get(op.row_stride))
    return _joined(b, low, high), b.and_(place.column, _FOURS), s.get(op.n), at, inside


def _four_rows(s: State, op: ir.OpView, element: str, place: Place, values: list[ir.Value]) -> Four:
    """Four lanes, of rows that follow each other, have two columns, and of those 8 rows on: each takes four rows of
    one."""
    b = s.b
    second, below = (b.compare("ne", b.and_(s.lane, bit), 0) for bit in (4, 8))
    codes = [six_bits.packed(s, element, [*exchange(s, second, 4, *values[i : i + 2])])[0] for i in (0, 2)]
    low, high = exchange(s, below, 8, *codes)
    columns = place.column_to or (place.column, b.add(place.column, 1))
    column, inside = (b.select(second, *reversed(x)) for x in (columns, place.column_inside))
    row = b.and_(b.select(below, b.add(place.row, 8), place.row), _FOURS)
    at = b.mul(b.widen(column), s.get(op.column_stride))
    return _joined(b, low, high), row, s.get(op.m), at, inside


_FOURS = 0xFFFFFFFC


def _joined(b: Builder, low: ir.Value, high: ir.Value) -> ir.Value:
    return b.or_(low, b.shl(high, 2 * six_bits.BITS))


def _at_four(s: State, op: ir.OpView, first: ir.Value, at: ir.Value) -> ir.Value:
    """Address of elements from `first` on, a multiple of four."""
    b = s.b
    return address_of(s, s.get(op.target), b.add(b.widen(b.mul(b.div(first, 4), 3)), at), "f8E4M3FN")


def _store_fours(
    s: State, op: ir.OpView, word: ir.Value, first: ir.Value, end: ir.Value, at: ir.Value, inside: ir.Value
) -> None:
    """Byte by byte: rows begin anywhere, and the last byte of one is that of its last element."""
    b, address = s.b, _at_four(s, op, first, at)
    for i in range(3):
        there = b.and_(inside, b.compare("lt", b.add(first, i), end))
        b.asm(f"@$2 st.global.b8 [$0 + {i}], $1;", [], [address, b.shr(word, 8 * i), there])


def _store_sixteen(s: State, op: ir.OpView, fours: list[Four]) -> None:
    """Of each four groups, whose columns four lanes have, each stores two of one row, as words."""
    b, size = s.b, 4 * six_bits.BITS
    upper = b.compare("ne", b.and_(s.lane, 2), 0)
    (a, c), (d, e) = (exchange(s, upper, 2, fours[i][0], fours[i + 2][0]) for i in (0, 1))
    words = [b.or_(a, b.shl(c, size)), b.or_(b.shr(c, 8), b.shl(d, 16)), b.or_(b.shr(d, 16), b.shl(e, 8))]
    _, first, end, at, inside = fours[0]
    first = b.add(b.and_(first, 0xFFFFFFF8), b.select(upper, 16, b.constant(0)))
    address, there = _at_four(s, op, first, at), b.and_(inside, b.compare("lt", first, end))
    for i, word in enumerate(words):
        b.asm(f"@$2 st.global.b32 [$0 + {4 * i}], $1;", [], [address, word, there])


def store_one(
    s: State, address: ir.Value, offset: int, element: str, value: ir.Value, inside: ir.Value, by: str = "st.global"
) -> None:
    """Rounds and stores an element, where it is inside."""
    b, bits = s.b, rounding.bits_of(element)
    rounded = value if element == "f32" else rounding.one(s, element, value)
    width = "f32" if element == "f32" else f"b{bits}"
    b.asm(f"@$2 {by}.{width} [$0 + {offset}], $1;", [], [address, rounded, inside])
