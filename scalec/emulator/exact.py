"""float64 arithmetic with rational numbers, lane by lane: what numpy has no instruction for (fma, directed roundings).

Slow and plain. Results are those of IEEE 754-2019: the exact result, rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np


def to_double(value: Fraction, rounding: str) -> float:
    """A nonzero rational number -> float64: "rn", "rz", "rm", "rp"."""
    try:
        nearest = value.numerator / value.denominator  # rounds once, to nearest even
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if rounding == "rn":
        return nearest
    below = nearest == -math.inf or (nearest != math.inf and Fraction(nearest) < value)
    above = nearest == math.inf or (nearest != -math.inf and Fraction(nearest) > value)
    if below and (rounding == "rp" or (rounding == "rz" and value < 0)):
        return math.nextafter(nearest, math.inf)
    if above and (rounding == "rm" or (rounding == "rz" and value > 0)):
        return math.nextafter(nearest, -math.inf)
    if nearest == 0:
        return math.copysign(0.0, value)
    return nearest


def _root(value: float) -> Fraction:
    """The square root of a positive number to at least 64 bits, rounded to odd."""
    numerator, denominator = value.as_integer_ratio()
    shift = 2200  # even, and more than float64's least exponent: the root has over 500 bits
    scaled = (numerator << shift) // denominator
    root = math.isqrt(scaled)
    inexact = root * root * denominator != numerator << shift
    return Fraction(2 * root + inexact, 1 << (shift // 2 + 1))


def _fma(a: float, b: float, c: float) -> float | Fraction:
    if not math.isfinite(a) or not math.isfinite(b):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    if not math.isfinite(c):
        return c
    return Fraction(a) * Fraction(b) + Fraction(c)


def _add(a: float, b: float) -> float | Fraction:
    return _fma(a, 1.0, b)


def _mul(a: float, b: float) -> float | Fraction:
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return float(np.float64(a) * np.float64(b))
    return Fraction(a) * Fraction(b)


def _div(a: float, b: float) -> float | Fraction:
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return float(np.float64(a) / np.float64(b))
    return Fraction(a) / Fraction(b)


def _sqrt(a: float) -> float | Fraction:
    return _root(a) if 0 < a < math.inf else float(np.sqrt(np.float64(a)))


_EXACT: dict[str, Callable[..., float | Fraction]] = {
    "add": _add,
    "sub": lambda a, b: _add(a, -b),
    "mul": _mul,
    "fma": _fma,
    "div": _div,
    "sqrt": _sqrt,
}


def _zero(name: str, operands: tuple[float, ...], rounding: str) -> float:
    """A sum that is exactly zero (IEEE 754-2019, 6.3)."""
    signs = [math.copysign(1, x) for x in operands]
    left = signs[0] * signs[1] if name == "fma" else signs[0]
    right = -signs[1] if name == "sub" else signs[-1]
    if left == right:
        return math.copysign(0.0, left)
    return -0.0 if rounding == "rm" else 0.0


def operation(name: str, rounding: str) -> Callable[..., np.ndarray]:
    """add, sub, mul, fma, div or sqrt of float64 arrays."""
    function = _EXACT[name]

    def one(*operands: float) -> float:
        result = function(*operands)
        if not isinstance(result, Fraction):
            return result
        return to_double(result, rounding) if result else _zero(name, operands, rounding)

    def run(*operands: np.ndarray) -> np.ndarray:
        operands = tuple(np.broadcast_arrays(*operands))
        lanes = [x.reshape(-1).tolist() for x in operands]
        return np.array([one(*values) for values in zip(*lanes, strict=True)]).reshape(operands[0].shape)

    return run
