"""Rounding of rational numbers to binary formats: the tests' own, independent of the emulator's."""

from __future__ import annotations

import math
from fractions import Fraction

# bits of mantissa, exponent of the least normal number, largest finite number
FORMATS = {
    "f16": (10, -14, 65504.0),
    "bf16": (7, -126, float.fromhex("0x1.fep127")),
    "f32": (23, -126, float.fromhex("0x1.fffffep127")),
    "f64": (52, -1022, float.fromhex("0x1.fffffffffffffp1023")),
}


def nearest(value: Fraction, form: str, rounding: str) -> float:
    """The number of a format that a nonzero rational is rounded to: rn (ties to even), rz, rm (down), rp (up)."""
    mantissa, least, largest = FORMATS[form]
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - mantissa)
    count, rest = divmod(size, unit)
    outwards = {
        "rn": 2 * rest > unit or (2 * rest == unit and count % 2 == 1),
        "rz": False,
        "rm": rest > 0 and value < 0,
        "rp": rest > 0 and value > 0,
    }[rounding]
    result = (count + outwards) * unit
    if result > Fraction(largest):
        inwards = rounding == "rz" or (rounding == "rm" and value > 0) or (rounding == "rp" and value < 0)
        result = largest if inwards else math.inf
    return float(result) if value > 0 else -float(result)
