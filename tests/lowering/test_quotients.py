"""A scale's quotient in two products and a remainder, as the epilogue makes it, is that of a division."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.formats import ELEMENT_TYPES


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
