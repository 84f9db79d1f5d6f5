"""NaN of either sign, as memory has it, in types that have none: the largest number above 0, and the integer 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.emulator.pointwise import TARGETS, bit_equal

BITS = [0xFFC00000, 0x7FC00000, 0xFF810000, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0, 0xFF800000, 0x7F800000, 0xC0400000]
"""NaN, zeros, infinities and -3 in f32: the upper halves are those of bf16."""


def given(values: dict[str, Any]) -> None:
    x = values["X"]
    bits = np.resize(np.array(BITS, np.uint32), x.shape) >> (0 if x.itemsize == 4 else 16)
    x.view(f"u{x.itemsize}")[...] = bits


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "source",
    [
        "Q[m,k]:e2m1 = X[m,k]:f32; P[m,k]:e3m2 = X[m,k]; O[m,k]:e2m3 = X[m,k]; N[m,k]:i8 = X[m,k]",
        "Q[m,k]:e2m1 = X[m,k]:bf16; P[m,k]:nvfp4 = X[m,k]",
        "T[k,m]:e2m1 = X[m,k]:f32",
        "Q[m,k]:e2m1 = stochastic(X[m,k]:f32, s[0])",
        "Q[m,k]:e2m1 = -X[m,k]:f32",
    ],
)
def test_bits(source: str, target: str) -> None:
    bit_equal(source, {"m": 3, "k": 36}, "k", target, change=given)
