"""Elements of 6 bits as they lie in memory, four in three bytes, and as f32."""

from __future__ import annotations

import math

from scalec.formats import ELEMENT_TYPES, GRIDS, element_spelled
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common import rounding
from scalec.lowering.common.state import State

BITS, WORD = 6, 32
DIGITS, BIAS = 23, 127
"""Of f32: bits of the mantissa, and the bias of the exponent."""


def packed(s: State, element: str, values: list[ir.Value]) -> list[ir.Value]:
    """Values rounded to nearest even, and saturating, as words of adjacent elements; of two, or a multiple of four. NaN
    becomes the largest number (PTX ISA 9.7.9.21)."""
    b = s.b
    fours = [_four(s, element, values[i : i + 4]) for i in range(0, len(values), 4)]
    if len(values) == 2:
        return [b.and_(b.shr(fours[0], 8), (1 << 2 * BITS) - 1)]
    words, size = [], 4 * BITS // 8
    for at in range(0, size * len(fours), 4):
        own, first = fours[at // size : at // size + 2], at % size + 1
        if at + 4 <= size * len(fours):  # bytes 1 to 3 of each
            chosen = [x if x < 4 else x + 1 for x in range(first, first + 4)]
            words.append(b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, *own, sum(x << 4 * i for i, x in enumerate(chosen))))
        else:
            words.append(b.shr(own[0], 8 * first))
    return words


def _four(s: State, element: str, values: list[ir.Value]) -> ir.Value:
    """Four values in the upper 24 bits of an i32, or two in its bits 8 to 19; the others are undefined.

    A target without an instruction for it has one for a type of 8 bits with the same mantissa, whose numbers, the
    subnormal ones too, are those of this type times a power of two, as far as these go: bits but the sign are the same.
    Where a code has more bits than this type's it is beyond the largest number, whose bits are all set. Bits move up
    alone: a product can do that, which has another part of the SM than logic does.
    """
    b, row = s.b, element_spelled(element)
    assert row is not None
    own, to = row.name in s.target.converts, element
    if not own:
        mantissa, least = GRIDS[row.name]
        name = next(x for x, (digits, _) in GRIDS.items() if digits == mantissa and ELEMENT_TYPES[x].bits == 8)
        factor, to = b.constant(math.ldexp(1.0, GRIDS[name][1] - least)), ELEMENT_TYPES[name].mlir
        values = [b.fmul(x, factor) for x in values]
    if len(values) == 4:
        found = rounding.word(s, to, values)
    else:
        found = b.op("arith.extui", [b.i32], [rounding.pair(s, to, *values)])
    top = b.shl(found, 2)  # of each byte the upper bits
    if not own:
        beyond = b.pure("lop3.b32 $0, $1, $2, 0x40404040, 0xA8;", b.i32, found, b.shl(found, 1))  # (a | b) & c
        top = _chosen(b, found, b.or_(top, b.mul(b.shr(beyond, 4), 0x1F)), 0x80808080)
    for bits, step in ((0xFC00FC00, 2), (0xFFF00000, 4)):
        top = _chosen(b, top, b.shl(top, step), bits)
    return top


def _chosen(b: Builder, one: ir.Value, other: ir.Value, bits: int) -> ir.Value:
    """Some bits of one, and the others of another."""
    return b.pure(f"lop3.b32 $0, $1, $2, {bits:#010x}, 0xE4;", b.i32, one, other)


def widened(b: Builder, words: list[ir.Value], element: str, count: int) -> list[ir.Value]:
    """The first `count` elements of some words as f32: their bits where f32 has its own make subnormal numbers too, a
    power of two below what they stand for."""
    mantissa, least = GRIDS[element]
    kept = 1 << WORD - 1 | 0x1F << DIGITS - mantissa
    factor, made = b.constant(math.ldexp(1.0, BIAS - 1 + least)), []
    for at in range(0, count * BITS, BITS):
        word, shift = words[at // WORD], at % WORD
        if shift + BITS > WORD:
            low = b.shr(word, shift - (WORD - BITS))
            top = b.or_(low, b.shl(words[at // WORD + 1], 2 * WORD - BITS - shift))
        else:
            top = b.shl(word, WORD - BITS - shift) if shift < WORD - BITS else word
        apart = WORD - 2 - (DIGITS + 4 - mantissa)  # from the highest bit of the magnitude to where f32 has it
        bits = b.and_(b.op("arith.shrsi", [b.i32], [top, b.constant(apart)]), kept)
        made.append(b.fmul(b.float_of(bits), factor))
    return made
