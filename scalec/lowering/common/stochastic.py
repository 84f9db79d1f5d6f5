"""Rounding by chance: an element's random bits, and what they make of a value, in integer arithmetic on every target.

Source: J. K. Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011): Philox 4x32-10, section 4.3.
"""

from __future__ import annotations

import math

from scalec.formats import GRIDS, element_spelled
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common.state import COMMON, State

FOUR, ROUNDS = 4, 10
PRODUCT = "{\n.reg .b64 P;\nmul.wide.u32 P, $2, $3;\nmov.b64 {$0, $1}, P;\n}"
"""Of two i32, as two: LLVM would compute all behind it in i64."""
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
STEPS = (0x9E3779B9, 0xBB67AE85)
"""Of the two words of the key, from round to round."""
DIGITS, BIAS, SIGN, NAN = 23, 127, 1 << 31, 0x7FC00000
"""Of f32: bits of the mantissa, bias of the exponent, the bit of the sign, and a NaN."""


def philox(b: Builder, number: ir.Value, words: list[ir.Value | int]) -> list[ir.Value]:
    """Four words of 32 random bits of counter `number`, an i64, by the words of the key and of the counter's rest."""
    low, high = (b.op("arith.trunci", [b.i32], [x]) for x in (number, b.shr(number, 32)))
    c, keys, pure = [low, high, *words[2:]], words[:2], {"volatile": False, "memory": False}
    for round_ in range(ROUNDS):
        products = [b.asm(PRODUCT, [b.i32, b.i32], [c[2 * i], MULTIPLIERS[i]], **pure) for i in (0, 1)]
        lows, highs = zip(*products, strict=True)
        key = [b.value(b.add(x, round_ * step & 0xFFFFFFFF)) for x, step in zip(keys, STEPS, strict=True)]
        c = [b.xor(b.xor(highs[1], c[1]), key[0]), lows[1], b.xor(b.xor(highs[0], c[3]), key[1]), lows[0]]
    return [b.value(x) for x in c]


@COMMON.lowers("tile.round_columns")
def round_columns(s: State, op: ir.OpView) -> None:
    """Random words for four columns at a time, of which a thread with fewer takes its own: it begins at a multiple of
    what it has."""
    b, row = s.b, element_spelled(str(op.element.value))
    assert row is not None
    values = [x.get() if isinstance(x, Variable) else x for x in s.get(op.value)]
    *outer, column = (b.value(s.get(x)) for x in op.at)
    extents = [b.value(s.get(x)) for x in op.extents]
    words: list[ir.Value | int] = [b.value(s.get(x)) for x in op.words]
    words += [0] * (4 - len(words))
    first_row = b.widen(outer[0]) if outer else None
    for index, extent in zip(outer[1:], extents, strict=False):
        first_row = b.add(b.mul(first_row, b.widen(extent)), b.widen(index))
    if first_row is not None:
        first_row = b.mul(first_row, b.widen(b.ceildiv(extents[-1], FOUR)))
    made, each = [], math.gcd(len(values), FOUR)
    for first in range(0, len(values), each):
        at = b.value(b.add(column, first))
        number = b.widen(b.div(at, FOUR))
        random = philox(b, number if first_row is None else b.add(first_row, number), words)
        if each < FOUR:
            place = b.and_(at, FOUR - 1)
            for i in range(each, FOUR, each):
                found = b.compare("eq", place, i)
                random[:each] = [b.select(found, random[i + j], random[j]) for j in range(each)]
        made += [rounded(b, x, *GRIDS[row.name], bits) for x, bits in zip(values[first:], random[:each], strict=False)]
    s.values[op.result] = made


def rounded(b: Builder, x: ir.Value, mantissa: int, least: int, bits: ir.Value) -> ir.Value:
    """x rounded to a multiple of what numbers with such a mantissa lie apart, and least exponent of normal ones.

    The bits of f32 count its numbers from 0 on, so that to add to them below those that are kept, and to cut these off,
    rounds up or down. Below the least exponent numbers lie as far apart as above it: |x| is moved there for that long.
    No sum is beyond NaN but that of a NaN, which stays one; infinity stays, as there is less to add than is between.
    A product with 1 or -1 gives the sign back, and NaN none, which targets without an instruction would keep.
    """
    dropped = DIGITS - mantissa
    own = b.op("llvm.bitcast", [b.i32], [x])
    magnitude = b.and_(own, SIGN - 1)
    below = b.compare("lt", magnitude, least + BIAS << DIGITS)
    moved = b.select(below, math.ldexp(1.0, least), 0.0)
    total = b.pure("add.rz.f32 $0, $1, $2;", b.f32, b.op("llvm.bitcast", [b.f32], [magnitude]), moved)
    bits = b.add(b.op("llvm.bitcast", [b.i32], [total]), b.shr(bits, 32 - dropped))
    kept = b.op("llvm.bitcast", [b.f32], [b.and_(b.min(bits, NAN), (1 << 32) - (1 << dropped))])
    sign = b.op("llvm.bitcast", [b.f32], [b.or_(b.and_(own, SIGN), BIAS << DIGITS)])
    return b.fmul(b.op("arith.subf", [b.f32], [kept, moved]), sign)
