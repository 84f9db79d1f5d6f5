"""A block's scale, and what its values are multiplied by, from its largest magnitude: a row of SCALES each type."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from scalec.formats import ELEMENT_TYPES
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder

_INFINITY, _NAN = 0x7F800000, 0x7FFFFFFF
_MANTISSA = 23


@dataclass(frozen=True)
class Found:
    """A block's scale as it is stored (in `code`, i32 or f32), and what its values are multiplied by."""

    code: ir.Value
    reciprocal: ir.Value


def _over_largest(b: Builder, amax: ir.Value, element: str) -> ir.Value:
    """amax / the largest number of an element type, rounded to nearest even as `div.rn.f32` does.

    The product with the reciprocal and one correction by the remainder, which is exact: a multiple of the quotient's
    unit in the last place. Its neighbours are all that the product can be. Infinity has no remainder.
    """
    largest = ELEMENT_TYPES[element].max
    inverse = b.constant(1 / largest)
    quotient = b.fmul(amax, inverse)
    corrected = b.fma(b.fma(quotient, b.constant(-largest), amax), inverse, quotient)
    return b.select(b.compare("lt", b.bits(amax), _INFINITY), corrected, quotient)


def _near_over_largest(b: Builder, amax: ir.Value, element: str) -> ir.Value:
    """amax / the largest number of an element type, off by half a unit in the last place and 2^-46 of it.

    Of quotients below 2^-100 the lower product may lose all its bits.
    """
    upper, lower = inverse_of_largest(element)
    return b.fma(amax, b.constant(upper), b.fmul(amax, b.constant(lower)))


def inverse_of_largest(element: str) -> tuple[float, float]:
    """1 / the largest number of an element type in two numbers, an f32 (rounded down) and the rest, which f32 rounds.

    Both are positive, so that infinity times them stays infinite.
    """
    exact = 1 / Fraction(ELEMENT_TYPES[element].max)
    digits = _MANTISSA - math.floor(math.log2(exact))
    upper = math.floor(exact * 2**digits) / 2**digits
    return upper, float(exact - Fraction(upper))


def _reciprocal(b: Builder, x: ir.Value) -> ir.Value:
    return b.pure("rcp.rn.f32 $0, $1;", b.f32, x)


def _reciprocal_of_few_bits(b: Builder, x: ir.Value) -> ir.Value:
    """1 / x as `rcp.rn.f32` rounds it, for a normal x of four bits of mantissa: no branch for other numbers.

    `rcp.approx` is off by one unit in the last place at most (PTX ISA 9.7.3.13), so one step of Newton's is off by
    2^-46 before it is rounded; 1 / x is a power of two, or no closer than 2^-29 to where rounding changes.
    """
    near = b.pure("rcp.approx.ftz.f32 $0, $1;", b.f32, x)
    return b.fma(b.fma(b.pure("neg.f32 $0, $1;", b.f32, x), near, b.constant(1.0)), near, near)


def _ue8m0(b: Builder, amax: ir.Value, element: str) -> Found:
    """2^(floor(log2 amax) - emax): the biased exponents are those of f32; infinity takes 2^127, NaN the code 255. emax
    is the exponent of the type's largest number (OCP MX 1.0, section 6.3: emax_elem).

    The reciprocal of 2^(code - 127) has the biased exponent 254 - code; that of 2^127 is a subnormal f32.
    """
    bits, emax = b.bits(amax), math.floor(math.log2(ELEMENT_TYPES[element].max))
    code = b.pure("max.s32 $0, $1, 0;", b.i32, b.sub(b.shr(bits, _MANTISSA), emax))
    finite, nan = b.compare("lt", bits, _INFINITY), b.compare("gt", bits, _INFINITY)
    code = b.select(finite, code, b.select(nan, b.constant(255), 254))
    other = b.select(nan, b.constant(_NAN), 1 << (_MANTISSA - 1))
    inverse = b.select(finite, b.shl(b.sub(b.constant(254), code), _MANTISSA), other)
    return Found(code, b.float_of(inverse))


def _ue4m3(b: Builder, amax: ir.Value, element: str) -> Found:
    """amax / largest, rounded; the quotient must fall on the same side of ties of e4m3 as the exact one.

    A tie times the largest number has 8 bits or fewer. It is found exactly, and any other amax is so far from it, one
    unit in its last place, that the quotient, off by little more than half a unit in its own, is no tie. The least tie
    is 2^-10.
    """
    quotient, zero = _near_over_largest(b, amax, element), b.constant(0.0)
    text = "{\n.reg .b16 P;\ncvt.rn.satfinite.e4m3x2.f32 P, $2, $1;\ncvt.u32.u16 $0, P;\n}"
    code = b.pure(text, b.i32, quotient, zero)
    text = (
        "{\n.reg .b16 P, H, L;\n.reg .b32 W;\ncvt.u16.u32 P, $1;\ncvt.rn.f16x2.e4m3x2 W, P;\n"
        "mov.b32 {L, H}, W;\ncvt.f32.f16 $0, L;\n}"
    )
    value = b.pure(text, b.f32, code)
    inverse = b.select(b.compare("eq", b.bits(value), 0), zero, _reciprocal_of_few_bits(b, value))
    return Found(code, inverse)


def _f32(b: Builder, amax: ir.Value, element: str) -> Found:
    """amax / largest, at least 2^-126 so that its reciprocal is finite, and 1 for a block of zeros."""
    quotient = _over_largest(b, amax, element)
    quotient = b.pure("max.NaN.f32 $0, $1, $2;", b.f32, quotient, b.float_of(b.constant(1 << _MANTISSA)))
    none = b.compare("eq", b.bits(amax), 0)
    scale = b.select(none, b.constant(1.0), quotient)
    return Found(scale, _reciprocal(b, scale))


SCALES = {"ue8m0": _ue8m0, "ue4m3": _ue4m3, "f32": _f32}
BOUNDED = ("ue4m3",)
"""Those whose reciprocals, at most 2^9, are finite times that of a scale of the whole result."""
