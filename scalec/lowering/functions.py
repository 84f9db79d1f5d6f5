"""The functions of the language on f32: sequences of sums, products and approximate instructions (PTX ISA 9.7.3).

Two of each. The first is within 4 ulp of the real function for every f32, subnormal results among them; the second,
for results of 16 bits or fewer, within 2^-15 of the result or a sixteenth of bf16's smallest subnormal number, and
short. The errors of ex2.approx and rcp.approx (2 and 1 ulp, 9.7.3.24, 9.7.3.13) are within these bounds. LLVM's NVPTX
back end has no libm to call. docs/language.md has the largest error of each.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Protocol

from scalec.ir.mlir import ir


class Arithmetic(Protocol):
    """What computes: a Builder with single values, or one with several at once."""

    @property
    def f32(self) -> ir.Type: ...
    def constant(self, value: float, /) -> Any: ...
    def fadd(self, a: Any, b: Any, /) -> Any: ...
    def fmul(self, a: Any, b: Any, /) -> Any: ...
    def fma(self, a: Any, b: Any, c: Any, /) -> Any: ...
    def op(self, name: str, results: Sequence[ir.Type], operands: Sequence[Any], /) -> Any: ...
    def asm(
        self, text: str, results: Sequence[ir.Type], operands: Sequence[Any], /, *, volatile: bool, memory: bool
    ) -> list[Any]: ...


def asm(b: Arithmetic, text: str, *operands: Any) -> Any:
    """PTX of one f32 that depends on its operands alone."""
    return b.asm(text, [b.f32], operands, volatile=False, memory=False)[0]


def absolute(b: Arithmetic, x: Any) -> Any:
    return asm(b, "abs.f32 $0, $1;", x)


def negate(b: Arithmetic, x: Any) -> Any:
    return asm(b, "neg.f32 $0, $1;", x)


def maximum(b: Arithmetic, x: Any, y: Any) -> Any:
    return asm(b, "max.NaN.f32 $0, $1, $2;", x, y)


def minimum(b: Arithmetic, x: Any, y: Any) -> Any:
    return asm(b, "min.NaN.f32 $0, $1, $2;", x, y)


def _reciprocal(b: Arithmetic, x: Any) -> Any:
    return asm(b, "rcp.approx.ftz.f32 $0, $1;", x)


def _exp2(b: Arithmetic, x: Any) -> Any:
    """2^x, 0 where that is subnormal: without .ftz ptxas adds three instructions."""
    return asm(b, "ex2.approx.ftz.f32 $0, $1;", x)


def _quotient(b: Arithmetic, x: Any, y: Any) -> Any:
    """x / y, both normal: by the reciprocal, and what that leaves of x."""
    inverse = _reciprocal(b, y)
    found = b.fmul(x, inverse)
    return b.fma(inverse, b.fma(negate(b, y), found, x), found)


def quotient(b: Arithmetic, x: Any, y: Any) -> Any:
    """x / y, as div.full.f32 computes it. What depends on y alone is computed once for all x that are divided by it:
    two products are left for each."""
    bounds = "setp.gt.f32 P, A, 0f7E800000;\nsetp.lt.f32 Q, A, 0f00800000;"  # 2^126, 2^-126
    factors = "selp.f32 A, 0f3E800000, 0f3F800000, P;\nselp.f32 $0, 0f4B800000, A, Q;"  # 1/4, 1; 2^24
    factor = asm(b, "{\n.reg .pred P, Q;\n.reg .f32 A;\nabs.f32 A, $1;\n" + bounds + "\n" + factors + "\n}", y)
    return b.fmul(b.fmul(x, factor), _reciprocal(b, b.fmul(y, factor)))


def quotient_by_root(b: Arithmetic, x: Any, y: Any) -> Any:
    """Likewise, of a square root: it is 0, infinite, no number, or from 2^-75 to 2^64, and so has a reciprocal."""
    return b.fmul(x, _reciprocal(b, y))


def _where_less(b: Arithmetic, x: Any, bound: float, then: Any, otherwise: Any) -> Any:
    text = "{\n.reg .pred P;\nsetp.lt.f32 P, $1, $2;\nselp.f32 $0, $3, $4, P;\n}"
    return asm(b, text, x, b.constant(bound), then, otherwise)


def _polynomial(b: Arithmetic, x: Any, coefficients: Sequence[float]) -> Any:
    """The sum of coefficients[i] * x^i."""
    value = b.constant(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = b.fma(value, x, b.constant(c))
    return value


# ---------------------------------------------------------------------------------------------------- powers of two

_LOG2_E = math.log2(math.e)
(_HIGH,) = struct.unpack("f", struct.pack("f", _LOG2_E))
_LOW = _LOG2_E - _HIGH
_INTEGERS = 1.5 * 2.0**23
"""Added to a number below 2^22, rounds it to an integer, which is then in the lower bits of the sum."""
_BIAS = 127  # of the exponent of an f32
_LIFT = 64  # powers of two are multiplied by 2^64, so that those that are subnormal keep all digits
_FRACTION = (0.69314718246, 0.24022649229, 0.05550357327, 0.00961823761, 0.00133907353, 0.00015403512)
"""(2^r - 1) / r for |r| <= 1/2: minimax, within 2^-26.4 of it."""


def _power_of_two(b: Arithmetic, shifted: Any) -> Any:
    """2^n, of the sum _INTEGERS + 127 + n: the bits of n are those of the exponent."""
    return asm(b, "shl.b32 $0, $1, 23;", shifted)


def _rounded(b: Arithmetic, x: Any, factor: float, lift: int) -> tuple[Any, Any]:
    """n = x * factor rounded to an integer, as what _power_of_two takes for 2^(n + lift), and as a number."""
    start = _INTEGERS + _BIAS + lift
    shifted = b.fma(x, b.constant(factor), b.constant(start))
    return shifted, b.fadd(shifted, b.constant(-start))


def _fraction(b: Arithmetic, n: Any, terms: Sequence[tuple[Any, float]]) -> tuple[Any, Any]:
    """The factors of 2^r - 1, for r = the sum of x * factor - n, which is within 1/2."""
    r = negate(b, n)
    for x, factor in terms:
        r = b.fma(x, b.constant(factor), r)
    return r, _polynomial(b, r, _FRACTION)


_LEAST, _POWERS = -126, 253
"""Of the exponents of normal powers of two: the first, and how many steps there are to the last one, 127."""


def exp(b: Arithmetic, x: Any) -> Any:
    """2^n * 2^r, with x * log2 e = n + r, by two terms of log2 e. n is a share of all exponents, which .sat keeps it
    within without an instruction. What lies beyond is r's: 2^r is infinite then, or 0, or the product is subnormal."""
    share = "fma.rn.sat.f32 $0, $1, $2, $3;"
    share = asm(b, share, x, b.constant(_LOG2_E / _POWERS), b.constant(-_LEAST / _POWERS))
    shifted = b.fma(share, b.constant(float(_POWERS)), b.constant(_INTEGERS + _BIAS + _LEAST))
    n = b.fadd(shifted, b.constant(-_INTEGERS - _BIAS))
    r = b.fma(x, b.constant(_LOW), b.fma(x, b.constant(_HIGH), negate(b, n)))
    return b.fmul(_exp2(b, r), _power_of_two(b, shifted))


def exp_approximate(b: Arithmetic, x: Any) -> Any:
    return asm(b, "ex2.approx.f32 $0, $1;", b.fmul(x, b.constant(_LOG2_E)))


def exp_below(b: Arithmetic, x: Any) -> Any:
    """exp(x) for x of 0 or less, as a term beside a 1: within a relative 2^-22 + |x| 2^-23.7, where x is itself a
    difference that is off by |x| 2^-24, and 0 below 2^-126. Of 0 it is 1."""
    return _exp2(b, b.fmul(x, b.constant(_LOG2_E)))


# ------------------------------------------------------------------------------------------------- sigmoid and silu


def _sigmoid_of_magnitude(b: Arithmetic, x: Any) -> tuple[Any, Any]:
    """sigmoid(|x|), and 2^64 exp(-|x|). Beyond 128 both are what they are there, but for less than 2^-184."""
    a = minimum(b, absolute(b, x), b.constant(128.0))
    shifted, n = _rounded(b, a, -_HIGH, _LIFT)
    one = b.constant(1.0)
    value = b.fma(*_fraction(b, n, [(a, -_HIGH), (a, -_LOW)]), one)
    lifted = b.fmul(value, _power_of_two(b, shifted))
    return _quotient(b, one, b.fma(lifted, b.constant(2.0**-_LIFT), one)), lifted


def sigmoid(b: Arithmetic, x: Any) -> Any:
    """1 / (1 + exp(-x)), and exp(x) times that of -x where x < 0."""
    above, lifted = _sigmoid_of_magnitude(b, x)
    return _where_less(b, x, 0.0, b.fmul(b.fmul(above, lifted), b.constant(2.0**-_LIFT)), above)


def silu(b: Arithmetic, x: Any) -> Any:
    """x * sigmoid(x), whose sigmoid may be less than any f32; 0 from -128 on."""
    above, lifted = _sigmoid_of_magnitude(b, x)
    above = b.fmul(above, maximum(b, x, b.constant(-128.0)))
    return _where_less(b, x, 0.0, b.fmul(b.fmul(above, lifted), b.constant(2.0**-_LIFT)), above)


def sigmoid_approximate(b: Arithmetic, x: Any) -> Any:
    """2^-24 / (2^-24 + 2^-24 exp(-x)): exp(-x) and the reciprocal are normal f32 where the result is above 2^-150."""
    lifted = _exp2(b, b.fma(x, b.constant(-_LOG2_E), b.constant(-24.0)))
    return b.fmul(_reciprocal(b, b.fadd(lifted, b.constant(2.0**-24))), b.constant(2.0**-24))


def silu_approximate(b: Arithmetic, x: Any) -> Any:
    x = maximum(b, x, b.constant(-128.0))
    return b.fmul(x, sigmoid_approximate(b, x))


# ---------------------------------------------------------------------------------------------------------- gelu

# exp(x^2/2) Phi(-x) for 0 <= x <= 16, minimax; Phi is the normal distribution's. x times it is s + s^2 p(s) with
# s = (x/2) / (1 + x/2), within 2^-28.1 of it. It is a polynomial in 1 / (1 + x/4), within 2^-15.18 of it.
_TAIL = (  # each rounded to f32 before the next is fitted
    *(-0.595769763, -0.1914982647, 0.08412694931, 0.1156907827, -0.01823199727),
    *(0.2298877239, -0.6296083331, 0.9769957066, -1.030168891, 0.5933892131, -0.1358706802),
)
_TAIL_APPROXIMATE = (-0.00022038256, 0.10384778678, 0.0698056967, 0.20206445456, -0.12459562719, 0.24911150336)


def gelu(b: Arithmetic, x: Any) -> Any:
    """max(x, 0) - |x| Phi(-|x|): nothing cancels. x^2 is two f32, and s a quotient with its remainder."""
    a = minimum(b, absolute(b, x), b.constant(16.0))  # from there on the second term is less than 2^-184
    square = b.fmul(a, a)
    rest = b.fma(a, a, negate(b, square))
    shifted, n = _rounded(b, square, -_HIGH / 2, _LIFT)
    decay = b.fmul(*_fraction(b, n, [(square, -_HIGH / 2), (square, -_LOW / 2), (rest, -_HIGH / 2)]))
    y = b.fmul(a, b.constant(0.5))
    s = _quotient(b, y, b.fadd(y, b.constant(1.0)))
    tail = b.fma(b.fmul(_polynomial(b, s, _TAIL), s), s, s)
    tail = b.fmul(b.fma(tail, decay, tail), _power_of_two(b, shifted))
    return b.fma(tail, b.constant(-(2.0**-_LIFT)), maximum(b, x, b.constant(0.0)))


def gelu_approximate(b: Arithmetic, x: Any) -> Any:
    """Likewise; 2^32 exp(-x^2/2) is a normal f32 where the result is not 0 in bf16."""
    a = minimum(b, absolute(b, x), b.constant(16.0))
    t = _reciprocal(b, b.fma(a, b.constant(0.25), b.constant(1.0)))
    tail = _polynomial(b, t, [-c * 2.0**-32 for c in _TAIL_APPROXIMATE])
    decay = _exp2(b, b.fma(b.fmul(a, a), b.constant(-_LOG2_E / 2), b.constant(32.0)))
    return b.fma(a, b.fmul(tail, decay), maximum(b, x, b.constant(0.0)))


# ---------------------------------------------------------------------------------------------------------- tanh

_TANH = (-0.33333313465, 0.13332480192, -0.053840518, 0.02102055587, -0.00619872566)
"""(tanh(x)/x - 1) / x^2 in x^2, for |x| < 0.55: minimax, tanh within 2^-29.5."""


def tanh(b: Arithmetic, x: Any) -> Any:
    """x + x^3 p(x^2), and from 0.55 on, where the difference is above 1/2, 1 - 2 / (1 + exp(2|x|))."""
    return _tanh(b, x, 0.55, _TANH)


def tanh_approximate(b: Arithmetic, x: Any) -> Any:
    """x - x^3/3 below 1/16."""
    return _tanh(b, x, 1 / 16, [-1 / 3])


def _tanh(b: Arithmetic, x: Any, bound: float, near: Sequence[float]) -> Any:
    magnitude, square = absolute(b, x), b.fmul(x, x)
    small = b.fma(b.fmul(_polynomial(b, square, near), square), x, x)
    power = _exp2(b, b.fmul(magnitude, b.constant(2 * _LOG2_E)))
    large = b.fma(_reciprocal(b, b.fadd(power, b.constant(1.0))), b.constant(-2.0), b.constant(1.0))
    large = asm(b, "copysign.f32 $0, $1, $2;", x, large)
    return _where_less(b, magnitude, bound, small, large)


# ------------------------------------------------------------------------------------------------------ integer powers

_PLAIN = 5
"""Largest exponent of plain products: n factors are within n - 1 half ulps."""
_LARGE = 2.0**120  # above the rounding error of any finite f32


def power(b: Arithmetic, x: Any, exponent: int) -> Any:
    """x^exponent for 1 and more, by repeated squaring of x and its rounding error."""
    if exponent <= _PLAIN:
        return power_approximate(b, x, exponent)

    def product(x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
        high = b.fmul(x[0], y[0])
        rest = b.fma(x[0], y[0], negate(b, high))
        return high, b.fma(x[0], y[1], b.fma(x[1], y[0], rest))

    high, rest = _repeated(product, (x, b.constant(0.0)), exponent)
    for bound, nearer in ((_LARGE, "min"), (-_LARGE, "max")):  # the rest of an infinite product is NaN: a number
        rest = asm(b, f"{nearer}.f32 $0, $1, $2;", rest, b.constant(bound))
    return b.fadd(high, rest)


def power_approximate(b: Arithmetic, x: Any, exponent: int) -> Any:
    return _repeated(b.fmul, x, exponent)


def _repeated(product: Any, x: Any, exponent: int) -> Any:
    result = None
    while True:
        if exponent & 1:
            result = x if result is None else product(result, x)
        exponent >>= 1
        if not exponent:
            return result
        x = product(x, x)
