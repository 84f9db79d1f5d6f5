"""Floating-point arithmetic on numpy arrays, every result rounded once (PTX ISA 9.7.3 to 9.7.5).

float32, float16 and bfloat16 are computed in float64. Where that is not exact, the error of the float64 operation is
known too, and the float64 result is rounded to odd with it: its last bit says "inexact", so that a second rounding, to
a format with at least two bits less and in any direction, gives what one rounding of the exact result would have given
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008). float64 itself is in exact.py.

All functions are elementwise on arrays of any one shape. A NaN that comes out is the canonical one, 0x7FFFFFFF, or
0x7FFF of float16 and bfloat16. float64 keeps payloads (PTX ISA 9.7.3), those of the operand that an H200 prefers.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from scalec.emulator import exact

Operation = Callable[..., np.ndarray]

F16, F32, F64 = np.dtype("f2"), np.dtype("f4"), np.dtype("f8")
BF16 = np.dtype(ml_dtypes.bfloat16)
U16, U32, U64, I64 = np.dtype("u2"), np.dtype("u4"), np.dtype("u8"), np.dtype("i8")

UNSIGNED = {F16: U16, BF16: U16, F32: U32, F64: U64}
SIGN = {t: UNSIGNED[t].type(1 << (8 * t.itemsize - 1)) for t in UNSIGNED}
INFINITY = {F16: U16.type(0x7C00), BF16: U16.type(0x7F80), F32: U32.type(0x7F800000), F64: U64.type(0x7FF << 52)}
NAN = {F16: U16.type(0x7FFF), BF16: U16.type(0x7FFF), F32: U32.type(0x7FFFFFFF), F64: U64.type(0xFFF8 << 48)}
NAN32 = NAN[F32].view(F32)

ROUNDINGS = ("rn", "rz", "rm", "rp")
_ABOVE = {F16: U16.type(0x7800), F32: U32.type(0x7F000000)}  # not 0: twice the least normal number, or more
_LOW16, _HALF16 = np.uint32(0xFFFF), np.uint32(0x8000)
_LOW28 = np.uint64((1 << 28) - 1)
_ONE = np.int64(1)


# -- what is done to one value -----------------------------------------------------------------------------------------


def canonical32(value: np.ndarray) -> np.ndarray:
    """float32 with every NaN canonical."""
    flat = value.reshape(-1)
    square = np.dot(flat, flat)  # NaN only if an element is: squares do not cancel
    return value if square == square else np.where(value == value, value, NAN32)


def canonical(value: np.ndarray) -> np.ndarray:
    """Any float format with every NaN canonical."""
    bits = value.view(UNSIGNED[value.dtype])
    nan = (bits & ~SIGN[value.dtype]) > INFINITY[value.dtype]
    return np.where(nan, NAN[value.dtype], bits).view(value.dtype) if nan.any() else value


def flush(value: np.ndarray) -> np.ndarray:
    """.ftz: subnormal numbers become zeros of their sign."""
    bits = value.view(UNSIGNED[value.dtype])
    normal = bits & INFINITY[value.dtype]
    if np.count_nonzero(normal) == normal.size:
        return value
    return np.where(normal != 0, bits, bits & SIGN[value.dtype]).view(value.dtype)


def saturate(value: np.ndarray) -> np.ndarray:
    """.sat: into [0, 1]; NaN and -0 become +0."""
    one, zero = value.dtype.type(1), value.dtype.type(0)
    return np.fmin(np.fmax(value, zero), one) + zero


def finite(value: np.ndarray) -> np.ndarray:
    """.satfinite: infinities become the largest number of their sign."""
    bits = value.view(UNSIGNED[value.dtype])
    infinite = (bits & ~SIGN[value.dtype]) == INFINITY[value.dtype]
    return (bits - infinite).view(value.dtype)


def relu(value: np.ndarray) -> np.ndarray:
    """.relu: what is negative becomes +0; NaNs must be canonical and stay."""
    bits = value.view(UNSIGNED[value.dtype])
    return np.where(bits < SIGN[value.dtype], bits, UNSIGNED[value.dtype].type(0)).view(value.dtype)


# -- rounding ----------------------------------------------------------------------------------------------------------


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float64 a + b rounded to nearest, and its exact error (Knuth); the error is NaN where the sum is not finite."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def to_odd(value: np.ndarray, error: np.ndarray) -> np.ndarray:
    """float64 rounded to nearest, with its error -> rounded to odd: what is inexact gets an odd last bit."""
    bits = value.view(I64)
    even = (np.abs(error) > 0) & ((bits & _ONE) == 0)
    return (bits + np.where(even, np.where((error > 0) == (value > 0), _ONE, -_ONE), 0)).view(F64)


def directed(nearest: np.ndarray, error: np.ndarray, rounding: str) -> np.ndarray:
    """A result rounded to nearest, and the sign of (exact - nearest) -> rounded as `rounding`."""
    if rounding == "rn":
        return nearest
    infinity = nearest.dtype.type(np.inf)
    if rounding == "rm":
        return np.where(error < 0, np.nextafter(nearest, -infinity), nearest)
    if rounding == "rp":
        return np.where(error > 0, np.nextafter(nearest, infinity), nearest)
    away = ((error < 0) & (nearest > 0)) | ((error > 0) & (nearest < 0))
    return np.where(away, np.nextafter(nearest, nearest.dtype.type(0)), nearest)


def odd32(wide: np.ndarray) -> np.ndarray:
    """float64 -> float32, to odd: a NaN or infinity stays, what is too large becomes the largest number."""
    nearest = wide.astype(F32)
    back = nearest.astype(F64)
    bits = nearest.view(np.int32)
    even = (back != wide) & ((bits & 1) == 0) & (wide == wide)
    outwards = np.abs(back) < np.abs(wide)
    return (bits + np.where(even, np.where(outwards, np.int32(1), np.int32(-1)), np.int32(0))).view(F32)


def _bf16(single: np.ndarray) -> np.ndarray:
    result = single.astype(BF16)
    flat = single.reshape(-1)
    square = np.dot(flat, flat)
    return result if square == square else canonical(result)


def _has_middles(single: np.ndarray) -> bool:
    """Whether an element lies in the middle of two bfloat16 numbers: only there a second rounding does harm."""
    return bool(((single.view(U32) & _LOW16) == _HALF16).any())


def round_bf16(wide: np.ndarray) -> np.ndarray:
    """float64 -> bfloat16, to nearest."""
    single = wide.astype(F32)
    if _has_middles(single) and (single.astype(F64) != wide).any():
        single = odd32(wide)
    return _bf16(single)


def narrow(wide: np.ndarray, dtype: np.dtype, rounding: str = "rn") -> np.ndarray:
    """float64, exact or rounded to odd -> float32, float16 or bfloat16, rounded once."""
    nearest = round_bf16(wide) if dtype == BF16 else wide.astype(dtype)
    if rounding != "rn":
        nearest = directed(nearest, wide - nearest.astype(F64), rounding)
    return canonical32(nearest) if dtype == F32 else canonical(nearest)


def flush_rounded(result: np.ndarray, wide: Callable[[], np.ndarray], rounding: str) -> np.ndarray:
    """.ftz of a result of narrow(wide(), ...).

    A number is subnormal if it would be one when rounded with as many bits as normal numbers have (measured on an
    H200): 2^-126 (1 - 2^-24) is flushed, though as a float32 it is rounded to 2^-126; 2^-126 (1 - 2^-25) is not.
    """
    dtype = result.dtype
    above = result.view(UNSIGNED[dtype]) & _ABOVE[dtype]
    if np.count_nonzero(above) == above.size:
        return result
    least = float(np.finfo(dtype).smallest_normal)
    if (np.abs(result) == least).any():
        tiny = np.abs(narrow(wide() * 256, dtype, rounding).astype(F64)) < least * 256
        result = np.where(tiny, np.copysign(dtype.type(0), result), result)
    return flush(result)


# -- float32, to nearest -----------------------------------------------------------------------------------------------


def add32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return canonical32(a + b)


def sub32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return canonical32(a - b)


def mul32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return canonical32(a * b)


def div32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return canonical32(a / b)


def sqrt32(a: np.ndarray) -> np.ndarray:
    return canonical32(np.sqrt(a))


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """float32 a * b + c, to nearest.

    The product is exact in float64. The sum is rounded there and again to float32, which goes wrong only where the
    float64 sum is inexact and lies in the middle of two float32 numbers. Its 28 lowest bits are then 0, as they are
    where it is a float32 number, infinite or NaN; without such an element all is done.
    """
    return sum_f32(a.astype(F64) * b.astype(F64), c.astype(F64))


def sum_f32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """float64 a + b -> float32, rounded once.

    Rounded to float64 first, it lies on the same side of every middle of two float32, unless it is that middle: only
    there does its error matter.
    """
    wide = a + b
    result = wide.astype(F32)
    low = wide.view(U64) & _LOW28
    if np.count_nonzero(low) == low.size:
        return result
    middle = (low == 0) & (result.astype(F64) != wide)
    if not middle.any():
        return result
    middle &= (wide - a != b) | (wide - b != a)  # the sum is inexact
    if not middle.any():
        return result
    return canonical32(to_odd(*two_sum(a, b)).astype(F32))


# -- bfloat16, to nearest ----------------------------------------------------------------------------------------------


def add_bf16(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """bfloat16 a + b; rounding to float32 first is harmless, since 24 >= 2 * 8 + 2 (Figueroa 1995)."""
    return _bf16(a.astype(F32) + b.astype(F32))


def sub_bf16(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _bf16(a.astype(F32) - b.astype(F32))


def mul_bf16(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return round_bf16(a.astype(F64) * b.astype(F64))


def fma_bf16(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    single = (a.astype(F64) * b.astype(F64) + c.astype(F64)).astype(F32)
    return _bf16(odd32(wide_fma(a, b, c)) if _has_middles(single) else single)


# -- float64 results, rounded to odd, of operands of the narrower formats ----------------------------------------------


def wide_add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return to_odd(*two_sum(a.astype(F64), b.astype(F64)))


def wide_sub(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return to_odd(*two_sum(a.astype(F64), -b.astype(F64)))


def wide_mul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Exact: 48 bits at most, and far from float64's least and largest."""
    return a.astype(F64) * b.astype(F64)


def wide_fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return to_odd(*two_sum(a.astype(F64) * b.astype(F64), c.astype(F64)))


def wide_div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """To nearest, which is enough: x = a/b of 24-bit a, b is a 25-bit number or at least 2^-49 x away from all of them,
    so that rounding to 53 bits does not move it onto or across one."""
    return a.astype(F64) / b.astype(F64)


def wide_sqrt(a: np.ndarray) -> np.ndarray:
    """To nearest, which is enough: the root of a 24-bit number is a 25-bit number or 2^-51 of itself away from all."""
    return np.sqrt(a.astype(F64))


def _down(operation: Operation) -> Operation:
    """Sums rounded down: an exact zero is -0, unless both terms are +0 (IEEE 754-2019, 6.3)."""

    def run(*operands: np.ndarray) -> np.ndarray:
        result = operation(*operands)
        if operation is wide_fma:
            negative = np.signbit(operands[0]) ^ np.signbit(operands[1]) | np.signbit(operands[2])
        else:
            negative = np.signbit(operands[0]) | (np.signbit(operands[1]) ^ (operation is wide_sub))
        return np.where((result == 0) & negative, -0.0, result)

    return run


_WIDE = {"add": wide_add, "sub": wide_sub, "mul": wide_mul, "fma": wide_fma, "div": wide_div, "sqrt": wide_sqrt}
_BRAIN = {"add": add_bf16, "sub": sub_bf16, "mul": mul_bf16, "fma": fma_bf16}
_NEAREST32 = {"add": add32, "sub": sub32, "mul": mul32, "fma": fma32, "div": div32, "sqrt": sqrt32}
# Rounding float16 results twice is harmless. Sums and products: float32 has more than 2 * 11 + 2 bits (Figueroa 1995).
# fma: the float64 sum of an 11-bit c and a product of 22 bits is inexact only if 53 bits do not reach from the leading
# bit of one to the last of the other. Both last bits are at least 2^-48, so the larger is over 2^4. If that is c, the
# product is under 2^-30 c, and the result is c either way. If it is the product, it is over 2^28, since c's last bit is
# at least 2^-24, and the sum is infinite either way.
_HALF: dict[str, Operation] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: (a.astype(F64) * b.astype(F64) + c.astype(F64)).astype(F16),
}
_DOUBLE: dict[str, Operation] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "sqrt": np.sqrt,
}


# Whose payload a float64 NaN has: that of the last of these operands that is one (measured on an H200).
_PAYLOADS = {"add": (0, 1), "sub": (0, 1), "mul": (0, 1), "fma": (0, 2, 1), "div": (1, 0), "sqrt": (0,)}
_QUIET = np.uint64(1 << 51)


def quiet(value: np.ndarray) -> np.ndarray:
    """float64 whose NaNs are quiet ones, payload and sign kept."""
    nan = np.isnan(value)
    return np.where(nan, value.view(U64) | _QUIET, value.view(U64)).view(F64) if nan.any() else value


def _with_payloads(compute: Operation, order: tuple[int, ...]) -> Operation:
    def run(*operands: np.ndarray) -> np.ndarray:
        result = compute(*operands)
        if np.isnan(result).any():
            for i in order:
                result = np.where(np.isnan(operands[i]), quiet(operands[i]), result)
        return result

    return run


def operation(name: str, dtype: np.dtype, rounding: str = "rn", ftz: bool = False) -> Operation:
    """add, sub, mul, fma, div or sqrt with results of a format; float32 results take operands of float16, too.

    Args:
        rounding: float16 and bfloat16 have rn, and no div and sqrt.
        ftz: subnormal operands and results become zeros of their sign; of float32 and float16.
    """
    compute = _rounded(name, dtype, rounding)
    if not ftz:
        return compute
    wide = _WIDE[name]

    def flushing(*operands: np.ndarray) -> np.ndarray:
        operands = tuple(flush(x) for x in operands)
        return flush_rounded(compute(*operands), lambda: wide(*operands), rounding)

    return flushing


def _rounded(name: str, dtype: np.dtype, rounding: str) -> Operation:
    if dtype == F64:
        compute = _DOUBLE[name] if rounding == "rn" and name in _DOUBLE else exact.operation(name, rounding)
        return _with_payloads(compute, _PAYLOADS[name])
    if dtype == F16:
        half = _HALF[name]
        return lambda *operands: canonical(half(*operands))
    if dtype == BF16:
        return _BRAIN[name]
    if rounding == "rn":
        return _NEAREST32[name]
    wide = _WIDE[name]
    if rounding == "rm" and name in ("add", "sub", "fma"):
        wide = _down(wide)
    return lambda *operands: narrow(wide(*operands), F32, rounding)


# -- minimum and maximum -----------------------------------------------------------------------------------------------


def minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """float32 or float64: -0 is less than +0; the other operand where one is NaN, b where both are."""
    result = np.fmin(b, a)
    if np.count_nonzero(result) != result.size:
        bits = UNSIGNED[result.dtype]
        result = np.where(a == b, (a.view(bits) | b.view(bits)).view(result.dtype), result)
    return result


def maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """float32 or float64: -0 is less than +0; the other operand where one is NaN, b where both are."""
    result = np.fmax(b, a)
    if np.count_nonzero(result) != result.size:
        bits = UNSIGNED[result.dtype]
        result = np.where(a == b, (a.view(bits) & b.view(bits)).view(result.dtype), result)
    return result
