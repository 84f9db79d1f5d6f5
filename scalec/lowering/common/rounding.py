"""Rounding of f32 to the types of results, to nearest even; types of 8 bits and less saturate, and of NaN integers are
0 (PTX ISA 9.7.9.21, 9.7.9.22)."""

from __future__ import annotations

import math
from functools import reduce

from scalec.formats import element_spelled
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common.state import State

# two f32 to two elements, the first operand in the upper bits: text, and the type of the register
_PAIRS = {
    "bf16": ("cvt.rn.bf16x2.f32 $0, $1, $2;", "i32"),
    "f16": ("cvt.rn.f16x2.f32 $0, $1, $2;", "i32"),
    "f8E4M3FN": ("cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", "i16"),
    "f8E5M2": ("cvt.rn.satfinite.e5m2x2.f32 $0, $1, $2;", "i16"),
    "f6E3M2FN": ("cvt.rn.satfinite.e3m2x2.f32 $0, $1, $2;", "i16"),  # a byte each, as the next one
    "f6E2M3FN": ("cvt.rn.satfinite.e2m3x2.f32 $0, $1, $2;", "i16"),
    "f4E2M1FN": ("{\n.reg .b8 P;\ncvt.rn.satfinite.e2m1x2.f32 P, $1, $2;\nmov.b16 $0, {P, 0};\n}", "i16"),
    "i8": (
        "{\n.reg .b32 P, Q;\ncvt.rni.s32.f32 P, $1;\ncvt.rni.s32.f32 Q, $2;\n"
        "cvt.pack.sat.s8.s32.b32 P, P, Q, 0;\ncvt.u16.u32 $0, P;\n}",
        "i16",
    ),
}
# as many as fill an i32 at once, the first operand in the lowest bits
_WORDS = {
    "f4E2M1FN": "\n".join(
        [
            "{\n.reg .b8 P0, P1, P2, P3;",
            *(f"cvt.rn.satfinite.e2m1x2.f32 P{i}, ${2 * i + 2}, ${2 * i + 1};" for i in range(4)),
            "mov.b32 $0, {P0, P1, P2, P3};\n}",
        ]
    ),
    "i8": "\n".join(
        [
            "{\n.reg .b32 P<4>;",
            *(f"cvt.rni.s32.f32 P{i}, ${i + 1};" for i in range(4)),
            "cvt.pack.sat.s8.s32.b32 P2, P3, P2, 0;\ncvt.pack.sat.s8.s32.b32 $0, P1, P0, P2;\n}",
        ]
    ),
}
_ONE = {"bf16": "cvt.rn.bf16.f32 $0, $1;", "f16": "cvt.rn.f16.f32 $0, $1;"}
# types of 4 bits without such an instruction: bits of the mantissa, exponents of the smallest and largest normal number
_GRIDS = {"f4E2M1FN": (1, 0, 2)}
_DIGITS, _BIAS, _LEAST = 24, 127, -149  # of f32: significant bits, bias, and the exponent of the smallest subnormal


def bits_of(element: str) -> int:
    """Bits of an element, by its name in MLIR."""
    row = element_spelled(element)
    assert row is not None
    return row.bits


def _converts(s: State, element: str) -> bool:
    """Whether the target has an instruction."""
    row = element_spelled(element)
    assert row is not None
    return row.bits > 8 or row.name in s.target.converts


def pair(s: State, element: str, low: ir.Value, high: ir.Value) -> ir.Value:
    """Two values as adjacent elements: i32 for 16 bits each, i16 for less (in its lower bits)."""
    if _converts(s, element):
        text, type = _PAIRS[element]
        return s.b.pure(text, getattr(s.b, type), high, low)
    return s.b.op("arith.trunci", [s.b.i16], [_packed(s.b, element, [low, high])])


def word(s: State, element: str, values: list[ir.Value]) -> ir.Value:
    """Values as adjacent elements that fill an i32: two of 16 bits, four of 8, or of 6 in a byte each, or eight of 4
    without an instruction."""
    if not _converts(s, element):
        return _packed(s.b, element, values)
    if element in _WORDS:
        return s.b.pure(_WORDS[element], s.b.i32, *values)
    pairs = [pair(s, element, *values[i : i + 2]) for i in range(0, len(values), 2)]
    if len(pairs) == 1:
        return pairs[0]
    return s.b.pure("mov.b32 $0, {$1, $2};", s.b.i32, *pairs)


def one(s: State, element: str, value: ir.Value) -> ir.Value:
    """One value as an element, i16."""
    if element in _ONE:
        return s.b.pure(_ONE[element], s.b.i16, value)
    return pair(s, element, value, s.b.constant(0.0))


def of_memory(s: State, element: str, x: ir.Value) -> ir.Value:
    """A value that may be as memory has it, so that what rounds it takes the sign of no NaN: where a sequence of
    instructions does, NaN is made 0x7FFFFFFF, which has none, by what computes (PTX ISA 9.7.3.12, min.NaN)."""
    made = not isinstance(x.owner, ir.Block) and x.owner.name.startswith("arith.")
    if made or element not in _GRIDS or _converts(s, element):
        return x
    return s.b.pure("min.NaN.f32 $0, $1, 0f7F800000;", s.b.f32, x)


def _packed(b: Builder, element: str, values: list[ir.Value]) -> ir.Value:
    """Values as adjacent elements of 4 bits in the lower bits of an i32, in additions and products of f32 and integers.

    An even number of values. cvt.pack.sat.s4 (PTX ISA 9.7.9.22) brings two codes to 4 bits of their own and shifts
    earlier ones up; codes above the largest number's, which has all lower bits, become it. Of a value's own bits it
    leaves the sign in the upper bit: those of a negative number are the least integer, those of others are 0 or more,
    NaN's too, which has no sign (`of_memory`).
    """
    codes, signs = b.constant(0), b.constant(0)
    for low, high in zip(values[-2::-2], values[::-2], strict=True):
        codes = _shifted_in(b, codes, _magnitude(b, element, low), _magnitude(b, element, high))
        signs = _shifted_in(b, signs, b.bits(low), b.bits(high))
    return b.or_(codes, b.and_(signs, sum(8 << 4 * i for i in range(len(values)))))


def _shifted_in(b: Builder, words: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """Two i32 as integers of 4 bits, which saturate, below those that are there."""
    return b.pure("cvt.pack.sat.s4.s32.b32 $0, $1, $2, $3;", b.i32, high, low, words)


def _magnitude(b: Builder, element: str, x: ir.Value) -> ir.Value:
    """The code of |x|, i32; one above the largest number's where |x| is beyond it, or NaN (PTX ISA 9.7.9.21).

    Codes count the numbers from 0 on. Made a multiple of the smallest subnormal f32 by a product, |x| is rounded to a
    multiple of the element's own smallest number, and its bits are the code, up to the end of its least exponent. An
    addition does the same with the sum's unit in the last place, and where the sum comes to a power of two that unit
    doubles, as the element's numbers lie twice as far apart in the next exponent: it counts for two exponents. The
    exponent that |x| has gives the least code of all: below its numbers a narrower spacing would count fewer, above
    them a wider one.
    """
    mantissa, least, most = _GRIDS[element]
    magnitude = b.pure("abs.f32 $0, $1;", b.f32, x)
    subnormal = b.constant(math.ldexp(1.0, _LEAST + mantissa - least))
    counts = [b.bits(b.fmul(magnitude, subnormal))]
    for exponent in range(least + 1, most + 1, 2):
        doubled = exponent + _DIGITS - mantissa  # the exponent of the sum, where |x| has the next exponent
        total = b.fadd(magnitude, b.constant(math.ldexp(1.0, doubled) - math.ldexp(1.0, exponent + 1)))
        counts.append(b.add(b.bits(total), (exponent - least + 2 << mantissa) - (doubled + _BIAS << _DIGITS - 1)))
    return reduce(b.min, counts)
