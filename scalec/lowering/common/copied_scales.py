"""Scales on their way from one layout to another, by way of registers."""

from __future__ import annotations

from scalec.formats import ELEMENT_TYPES
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common import copies, global_elements, quantize, rounding
from scalec.lowering.common.state import COMMON, State

WORD = 4
"""Scales of a byte that lie in a word, in the layouts that have them (scalec.formats.UNITS)."""

_NAN, _LEAST = 0xFF, 0x00400000  # of ue8m0; 2^-127 in f32, a subnormal


@COMMON.lowers("tile.copy_scales")
def copy_scales(s: State, op: ir.OpView) -> None:
    """All loads come first."""
    b, columns = s.b, tile.int_of(op.columns)
    kind, to = tile.str_of(op.scale), tile.str_of(op.to)
    begin, end = ([b.value(s.get(x)) for x in at] for at in (op.begin, op.end))
    source = quantize.ScalePlace(tile.str_of(op.layout), kind, s.get(op.source_stride))
    target = quantize.ScalePlace(tile.str_of(op.to_layout), to, s.get(op.target_stride))
    whole = columns % WORD == 0

    def address(place: quantize.ScalePlace, memory: ir.Value, where: list[ir.Value], further: int) -> ir.Value:
        row, column, n = where
        return place.address(b, b.integer(s.get(memory)), row, b.add(column, further), lambda: n)

    def step(place: quantize.ScalePlace) -> int:
        return WORD if whole and place.layout in ("packed", "blocked") else 1

    loaded, each = [], step(source)
    for first in range(0, columns, each):
        at = address(source, op.source, begin, first)
        size = each * ELEMENT_TYPES[kind].bits
        loaded.append(b.asm(f"ld.global.{'b32' if size == 32 else f'u{size}'} $0, [$1];", [b.i32], [at])[0])
    codes = [b.shr(loaded[i // each], 8 * (i % each)) if i % each else loaded[i // each] for i in range(columns)]
    made = codes if kind == to else [code_of(s, to, number_of(s, kind, x)) for x in codes]
    made = [b.and_(x, 0xFF) for x in made] if each > 1 and kind == to else made

    each = step(target)
    for first in range(0, columns, each):
        at, code = address(target, op.target, end, first), made[first]
        for i in range(1, each):
            code = b.or_(code, b.shl(made[first + i], 8 * i))
        b.asm(f"st.global.b{each * ELEMENT_TYPES[to].bits} [$0], $1;", [], [at, code])
    if tile.int_of(op.padding) and each == 1:
        row, column, n = end
        last = b.add(column, columns - 1)
        with b.when(b.compare("ge", b.add(last, 1), n)):
            quantize.store_padding(s, last, 1, lambda at: address(target, op.target, [row, at, n], 0))


def number_of(s: State, kind: str, code: ir.Value) -> ir.Value:
    """A scale in the lower bits of a register as f32, exactly."""
    if kind == "f32":
        return s.b.float_of(code)
    if ELEMENT_TYPES[kind].bits == 16:
        return global_elements.unpack(s, code, ELEMENT_TYPES[kind].mlir, 0)
    return copies.widened(s.b, s.b.and_(code, 0xFF), 0, kind)


def code_of(s: State, to: str, number: ir.Value) -> ir.Value:
    """The bits of an f32 as a scale, of NaN where the type has not that number: it is not rounded."""
    b, bits = s.b, s.b.bits(number)
    if to == "f32":
        return bits
    if to == "ue8m0":
        return _power(b, bits)
    code = b.and_(b.op("arith.extui", [b.i32], [rounding.one(s, ELEMENT_TYPES[to].mlir, number)]), 0xFF)
    same = b.compare("eq", b.bits(copies.widened(b, code, 0, to)), bits)
    return b.select(b.and_(same, b.compare("eq", b.shr(bits, 31), 0)), code, b.constant(0x7F))


def _power(b: Builder, bits: ir.Value) -> ir.Value:
    """The exponent of a power of two, of 2^-127 too, which f32 has as a subnormal."""
    exponent = b.shr(bits, 23)  # 256 and more of negative numbers
    plain = b.compare("eq", b.and_(bits, 0x7FFFFF), 0)
    within = b.compare("lt", b.sub(exponent, 1), _NAN - 1)
    code = b.select(b.and_(plain, within), exponent, b.constant(_NAN))
    return b.select(b.compare("eq", bits, _LEAST), b.constant(0), code)
