"""Quotients of scales as epilogues make them: in two products and a remainder, that of a division; in two products, one
that rounds to e4m3 as that does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scalec.formats import ELEMENT_TYPES
from scalec.lowering.common.block_scales import inverse_of_largest
from scalec.lowering.common.walk import inverse
from scalec.reference import round_to


@pytest.mark.parametrize("element", ["e4m3", "e5m2", "e2m1"])
def test_every_mantissa(element: str) -> None:
    """In float64, which holds the remainder and the correction without rounding; exponents change nothing."""
    largest, numbers = ELEMENT_TYPES[element].max, np.arange(1 << 23, dtype=np.uint32) + 0x3F800000
    amax = numbers.view(np.float32)
    inverse = np.float32(1 / largest)
    quotient = amax * inverse
    remainder = amax.astype(np.float64) - quotient.astype(np.float64) * largest
    assert (remainder == remainder.astype(np.float32)).all()
    corrected = (quotient + remainder * np.float64(inverse)).astype(np.float32)
    wanted = (amax / np.float64(largest)).astype(np.float32)
    assert (corrected == wanted).all()
    assert (quotient != wanted).any(), "the correction does something"


@pytest.mark.parametrize("element", ["e4m3", "e5m2", "e2m1"])
def test_scales_of_four_bits(element: str) -> None:
    """Around all that a tie is the quotient of, and many in between; f32 rounds what longdouble has."""
    largest = ELEMENT_TYPES[element].max
    ties = np.concatenate(
        [(np.arange(8) + 0.5) * 2.0**-9, np.ldexp(np.arange(17, 32, 2) / 16, [[x] for x in range(-6, 9)]).ravel()]
    )
    exactly = (ties * largest).astype(np.float32)
    assert (exactly == ties * largest).all()
    near = (exactly.view(np.uint32)[:, None] + np.arange(-3, 4)).astype(np.uint32).ravel()
    some = np.arange(np.float32(largest * 2.0**-11).view(np.uint32), np.float32(largest * 512).view(np.uint32), 1 << 9)
    amax = np.concatenate([near, some.astype(np.uint32)]).view(np.float32)
    upper, lower = (np.float32(x) for x in inverse_of_largest(element))
    assert upper > 0
    assert lower > 0

    def code(times_upper: np.ndarray, plus: np.ndarray) -> np.ndarray:
        quotient = (times_upper.astype(np.longdouble) * np.longdouble(upper) + plus).astype(np.float32)
        return round_to(quotient, "ue4m3")

    wanted = round_to(amax.astype(np.float64) / largest, "ue4m3")
    assert (code(amax, amax * lower) == wanted).all()
    assert (code(amax, np.zeros_like(amax)) != wanted).any(), "the lower product does something"


def test_quotients_by_an_inverse() -> None:
    """Of all 32 bits: they are right, or one less, which is seen by what is left."""
    builder: Any = None  # numbers that are known need none
    near = [x + d for x in (1, 5, 7, 1 << 8, 1 << 16, 1 << 31, 1 << 32, 0xAAAAAAAA) for d in range(-3, 4)]
    numbers = [x for x in near if 0 < x < 1 << 32]
    less = set()
    for by in numbers:
        known = inverse(builder, by)
        assert isinstance(known, int)
        assert known < 1 << 32
        products = [by * x + d for x in (1, 2, 9, 1000) for d in (-1, 0)]
        less |= {x // by - (x * known >> 32) for x in (*numbers, *products) if x < 1 << 32}
    assert less == {0, 1}
