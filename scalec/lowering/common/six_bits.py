"""Elements of 6 bits as they lie in memory, four in three bytes, and as f32."""

from __future__ import annotations

import math

from scalec.formats import ELEMENT_TYPES, GRIDS, element_spelled
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common.state import State

BITS, WORD = 6, 32
DIGITS, BIAS = 23, 127
"""Of f32: bits of the mantissa, and the bias of the exponent."""


def packed(s: State, element: str, values: list[ir.Value]) -> list[ir.Value]:
    """Values rounded to nearest even, and saturating, as words of adjacent elements; of an even number of them. NaN
    becomes the largest number (PTX ISA 9.7.9.21)."""
    b = s.b
    words, size = [], 2 * BITS
    for i in range(0, len(values), 2):
        pair, at = _pair(s, element, values[i], values[i + 1]), i * BITS
        if not at % WORD:
            words.append(pair)
            continue
        words[-1] = b.or_(words[-1], b.shl(pair, at % WORD))
        if at % WORD + size > WORD:
            words.append(b.shr(pair, WORD - at % WORD))
    return words


def _pair(s: State, element: str, low: ir.Value, high: ir.Value) -> ir.Value:
    """Two values as 12 bits.

    A target without an instruction for it has one for a type of 8 bits with the same mantissa, whose numbers, the
    subnormal ones too, are those of this type times a power of two, as far as these go: bits but the sign are the same.
    """
    b, row = s.b, element_spelled(element)
    assert row is not None
    own = row.name in s.target.converts
    to = row.name
    if not own:
        mantissa, least = GRIDS[row.name]
        to = next(x for x, (digits, _) in GRIDS.items() if digits == mantissa and ELEMENT_TYPES[x].bits == 8)
        limits = [("min", row.max), ("max", -row.max)]  # of NaN and a number the number (PTX ISA 9.7.3.11, min)
        factor = b.constant(math.ldexp(1.0, GRIDS[to][1] - least))
        for nearer, limit in limits:
            low, high = (b.pure(f"{nearer}.f32 $0, $1, $2;", b.f32, x, b.constant(limit)) for x in (low, high))
        low, high = (b.fmul(x, factor) for x in (low, high))
    text = f"{{\n.reg .b16 P;\ncvt.rn.satfinite.{to}x2.f32 P, $2, $1;\ncvt.u32.u16 $0, P;\n}}"
    found = b.pure(text, b.i32, low, high)
    if own:  # a byte each
        return b.or_(b.and_(found, 0x3F), b.and_(b.shr(found, 2), 0xFC0))
    made = b.or_(b.and_(found, 0x1F), b.and_(b.shr(found, 2), 0x7E0))
    return b.or_(made, b.and_(b.shr(found, 4), 0x800))


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
        made.append(b.fmul(b.op("llvm.bitcast", [b.f32], [bits]), factor))
    return made
