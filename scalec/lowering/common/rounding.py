"""Rounding of f32 to the types of results, to nearest even; types of 8 bits and less saturate (PTX ISA 9.7.9.22)."""

from __future__ import annotations

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
    "f4E2M1FN": ("{\n.reg .b8 P;\ncvt.rn.satfinite.e2m1x2.f32 P, $1, $2;\nmov.b16 $0, {P, 0};\n}", "i16"),
}
_ONE = {"bf16": "cvt.rn.bf16.f32 $0, $1;", "f16": "cvt.rn.f16.f32 $0, $1;"}
# without such an instruction: bits of the mantissa, exponents of the smallest and of the largest normal number, and the
# code of the largest number
_GRIDS = {"f4E2M1FN": (1, 0, 2, 7)}
_MANTISSA, _BIAS = 23, 127


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
    """Values as adjacent elements that fill an i32: two of 16 bits, four of 8, or eight of 4 without an instruction."""
    if not _converts(s, element):
        return _packed(s.b, element, values)
    pairs = [pair(s, element, *values[i : i + 2]) for i in range(0, len(values), 2)]
    if len(pairs) == 1:
        return pairs[0]
    return s.b.pure("mov.b32 $0, {$1, $2};", s.b.i32, *pairs)


def one(s: State, element: str, value: ir.Value) -> ir.Value:
    """One value as an element, i16."""
    if element in _ONE:
        return s.b.pure(_ONE[element], s.b.i16, value)
    return pair(s, element, value, s.b.constant(0.0))


def _packed(b: Builder, element: str, values: list[ir.Value]) -> ir.Value:
    """Values as adjacent elements in the lower bits of an i32, in integers and additions of f32.

    A multiply-add shifts a code in; signs are shifted in as the upper bits of values, of which the others are masked.
    """
    bits, (*others, last) = bits_of(element), values
    codes, signs = _magnitude(b, element, last), b.shr(b.op("llvm.bitcast", [b.i32], [last]), 32 - bits)
    for x in reversed(others):
        codes = b.pure(f"mad.lo.u32 $0, $1, {1 << bits}, $2;", b.i32, codes, _magnitude(b, element, x))
        signs = b.pure(f"shf.l.wrap.b32 $0, $1, $2, {bits};", b.i32, b.op("llvm.bitcast", [b.i32], [x]), signs)
    upper = sum(1 << bits * (i + 1) - 1 for i in range(len(values)))
    return b.or_(codes, b.and_(signs, upper))


def _magnitude(b: Builder, element: str, x: ir.Value) -> ir.Value:
    """The code of |x|, i32.

    Added to a power of two whose unit in the last place is the spacing of the element's numbers of an exponent, |x| is
    rounded to a multiple of that, and the sum's bits count the multiples. Codes count the numbers from 0 on: multiples
    of the spacing, and as many for each exponent below. The exponent that |x| has gives the least code of all: below
    its numbers a narrower spacing would count fewer, above them a wider one. NaN becomes the largest number
    (PTX ISA 9.7.9.22).
    """
    mantissa, least, most, largest = _GRIDS[element]
    magnitude = b.pure("abs.f32 $0, $1;", b.f32, x)
    units = [(_BIAS + exponent + _MANTISSA - mantissa) << _MANTISSA for exponent in range(least, most + 1)]
    counts = []
    for above, unit in enumerate(units):
        total = b.fadd(magnitude, b.op("llvm.bitcast", [b.f32], [b.constant(unit)]))
        counts.append(b.add(b.op("llvm.bitcast", [b.i32], [total]), (above << mantissa) + units[0] - unit))
    return b.min(b.sub(reduce(b.min, counts), units[0]), largest)
