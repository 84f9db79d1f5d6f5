"""Rounding of f32 to the types of results, to nearest even; types of 8 bits and less saturate (PTX ISA 9.7.9.22)."""

from __future__ import annotations

from typing import Any

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
# without such an instruction: bits of the mantissa, exponent of the smallest normal number, code of the largest number,
# and a power of two above it
_GRIDS = {"f4E2M1FN": (1, 0, 7, 8.0)}
_MANTISSA, _BIAS = 23, 127


def bits_of(element: str) -> int:
    """Bits of an element, by its name in MLIR."""
    row = element_spelled(element)
    assert row is not None
    return row.bits


def pair(s: State, element: str, low: ir.Value, high: ir.Value) -> ir.Value:
    """Two values as adjacent elements: i32 for 16 bits each, i16 for less (in its lower bits)."""
    row = element_spelled(element)
    assert row is not None
    if row.bits > 8 or row.name in s.target.converts:
        text, type = _PAIRS[element]
        return s.b.asm(text, [getattr(s.b, type)], [high, low], volatile=False, memory=False)[0]
    b = s.b
    both = b.or_(_code(b, element, low), b.shl(_code(b, element, high), row.bits))
    return b.op("arith.trunci", [b.i16], [both])


def word(s: State, element: str, values: list[ir.Value]) -> ir.Value:
    """Values as adjacent elements that fill an i32: two of 16 bits, four of 8."""
    pairs = [pair(s, element, *values[i : i + 2]) for i in range(0, len(values), 2)]
    if len(pairs) == 1:
        return pairs[0]
    return s.b.asm("mov.b32 $0, {$1, $2};", [s.b.i32], pairs, volatile=False, memory=False)[0]


def one(s: State, element: str, value: ir.Value) -> ir.Value:
    """One value as an element, i16."""
    if element in _ONE:
        return s.b.asm(_ONE[element], [s.b.i16], [value], volatile=False, memory=False)[0]
    return pair(s, element, value, s.b.constant(0.0))


def _code(b: Builder, element: str, x: ir.Value) -> ir.Value:
    """The code of a value, in integers and one addition of f32.

    Added to a power of two whose unit in the last place is the spacing of the element's numbers around |x|, |x| is
    rounded to a multiple of that. Codes count the numbers from 0 on: multiples of the spacing, and as many for each
    exponent below. NaN becomes the largest number (ibid.).
    """

    def pure(text: str, result: Any, *operands: ir.Value) -> ir.Value:
        return b.asm(text, [result], operands, volatile=False, memory=False)[0]

    mantissa, least, largest, above = _GRIDS[element]
    magnitude = pure("{\n.reg .f32 A;\nabs.f32 A, $1;\nmin.f32 $0, A, $2;\n}", b.f32, x, b.constant(above))
    bits = b.op("llvm.bitcast", [b.i32], [magnitude])
    exponent = pure("max.u32 $0, $1, $2;", b.i32, b.shr(bits, _MANTISSA), b.constant(_BIAS + least))
    unit = b.shl(b.add(exponent, _MANTISSA - mantissa), _MANTISSA)
    total = b.op("llvm.bitcast", [b.i32], [b.fadd(magnitude, b.op("llvm.bitcast", [b.f32], [unit]))])
    steps = b.add(b.sub(total, unit), b.shl(b.sub(exponent, _BIAS + least), mantissa))
    sign = b.shr(b.op("llvm.bitcast", [b.i32], [x]), 31)
    return b.or_(b.min(steps, largest), b.shl(sign, largest.bit_length()))
