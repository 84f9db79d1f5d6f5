"""Stores of adjacent columns that a thread has: whole vectors, or those of them that are there."""

from __future__ import annotations

from scalec.formats import element_spelled
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common import rounding, six_bits
from scalec.lowering.common.pointwise import address_of, now
from scalec.lowering.common.state import COMMON, State


@COMMON.lowers("tile.store_columns")
def store_columns(s: State, op: ir.OpView) -> None:
    """As loads: words of several elements whole, others one by one; of a byte of several, all, or where they are masked
    those that are there, beside what memory has of the others: no other thread has some of that byte."""
    b, element, together = s.b, str(op.target.type.element_type), tile.int_of(op.together)
    address, row = address_of(s, op.target, op.at, op.strides, element), element_spelled(element)
    values = [rounding.of_memory(s, element, now(x)) for x in s.get(op.value)]
    assert row is not None
    bits, masked = row.bits, "masked" in op.operation.attributes

    def is_there(column: int, there: ir.Value) -> ir.Value:
        return b.compare("ne", b.and_(there, 1 << column), 0) if masked else b.compare("lt", column, there)

    def store(first: int, together: int, there: ir.Value | None = None) -> None:
        own, start, size = values[first : first + together], first * bits // 8, row.accessed(together)
        words, strings = size // 4, six_bits.packed(s, element, own) if row.unit > 2 else []
        shares = masked and bits < 8 and there is not None
        for at in range(0, row.bytes(together), size):
            only = None if there is None or shares else is_there(first + 8 * at // bits, there)
            if not words:
                made = [b.shr(strings[at // 4], at % 4 * 8) if strings else _few(s, element, own)]
                shape = f".b{size * 8} [$0 + {start + at}], $1"
            else:
                each = 32 // bits
                parts = range(0, together, each)
                made = strings[at // 4 : at // 4 + words] or (
                    own if bits == 32 else [rounding.word(s, element, own[i : i + each]) for i in parts]
                )
                names, kind = ", ".join(f"${1 + i}" for i in range(words)), "f32" if bits == 32 else "b32"
                shape = f".v{words}.{kind} [$0 + {start + at}], {{{names}}}"
                shape = shape if words > 1 else f".{kind} [$0 + {start + at}], $1"
            if shares and there is not None:
                _merge(s, b.add(address, start + at), made[0], _bits_of_byte(s, there, first, bits, at, together))
            else:
                b.asm(f"st.global{shape};", [], [address, *made], only=only)

    def whole() -> None:
        for first in range(0, len(values), together):
            store(first, together)

    if not op.count:
        whole()
        return
    there = b.value(s.get(op.count[0]))

    def some() -> None:
        for first in range(0, len(values), row.unit):
            store(first, row.unit, there)

    b.either(b.value(s.get(op.whole[0]), b.i1), whole, some)


def _bits_of_byte(s: State, there: ir.Value, first: int, bits: int, byte: int, count: int) -> ir.Value:
    """The bits of a byte that belong to elements which are there, of `count` elements from number `first` on: `there`
    has a bit for each."""
    b, every = s.b, s.b.constant(0)
    for i in range(count):
        at = bits * i - 8 * byte
        own = ((1 << bits) - 1 << at if at >= 0 else (1 << bits) - 1 >> -at) & 0xFF
        if own:
            every = b.or_(every, b.select(b.compare("ne", b.and_(there, 1 << first + i), 0), b.constant(own), 0))
    return every


def _merge(s: State, address: ir.Value, byte: ir.Value, mask: ir.Value) -> None:
    """Stores the bits of a byte that a mask has, beside what memory has of the others."""
    b = s.b
    byte = byte if byte.type == b.i32 else b.op("arith.extui", [b.i32], [byte])
    part, some = b.compare("ne", mask, 0xFF), b.compare("ne", mask, 0)
    (before,) = b.asm("@$2 ld.global.u8 $0, [$1];", [b.i32], [address, b.and_(part, some), 0], tied=1)
    made = b.or_(b.and_(byte, mask), b.and_(before, b.xor(mask, 0xFF)))
    b.asm("st.global.b8 [$0], $1;", [], [address, made], only=some)


def _few(s: State, element: str, values: list[ir.Value]) -> ir.Value:
    """Elements that are less than a word, in the lower bits of an i16."""
    if len(values) == 1:
        return rounding.one(s, element, values[0])
    low, *high = [rounding.pair(s, element, *values[i : i + 2]) for i in range(0, len(values), 2)]
    return s.b.or_(low, s.b.shl(high[0], 8)) if high else low
