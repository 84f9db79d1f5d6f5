"""Rounding by chance, in numpy: the random bits of each element (docs/language.md, Stochastic rounding).

Source: J. K. Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011): Philox 4x32-10, section 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
INCREMENTS = (0x9E3779B9, 0xBB67AE85)  # of the key, from round to round: the golden ratio, and sqrt(3) - 1
LOW = 0xFFFFFFFF


def philox4x32(counter: Array, key: Sequence[int]) -> Array:
    """Ten rounds of Philox 4x32.

    Args:
        counter: [..., 4], the words of counters, each below 2^32.
        key: two words.

    Returns:
        [..., 4], uint32.
    """
    c0, c1, c2, c3 = np.moveaxis(counter.astype(np.uint64), -1, 0)
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = (np.uint64(m) * c for m, c in zip(MULTIPLIERS, (c0, c2), strict=True))
        high, low = first >> np.uint64(32), second >> np.uint64(32)
        c0, c1, c2, c3 = (
            low ^ c1 ^ np.uint64(k0),
            second & np.uint64(LOW),
            high ^ c3 ^ np.uint64(k1),
            first & np.uint64(LOW),
        )
        k0, k1 = (k0 + INCREMENTS[0]) & LOW, (k1 + INCREMENTS[1]) & LOW
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def random_bits(shape: Sequence[int], words: Sequence[int]) -> Array:
    """The 32 random bits of each element of a tensor, uint32.

    Four elements that follow one another in a row have the words of one counter, whose lower half counts these fours:
    number r * ceil(n / 4) + j / 4 has element j of row r, of n each, rows counted through all other indices.

    Args:
        words: up to four: the key, and the counter's upper half; those left out are 0.
    """
    *outer, n = shape
    rows, fours = math.prod(outer), -(-n // 4)
    given = [w & LOW for w in (*words, 0, 0, 0, 0)[:4]]
    number = np.arange(rows * fours, dtype=np.uint64)
    halves = [number & np.uint64(LOW), number >> np.uint64(32)]
    counter = np.stack([*halves, *(np.full_like(number, w) for w in given[2:])], axis=-1)
    return philox4x32(counter, given[:2]).reshape(rows, 4 * fours)[:, :n].reshape(shape)


def rounded(x: Array, mantissa: int, least: int, bits: Array) -> Array:
    """f32 rounded to one of the two numbers around it of a type that has no largest one, in float64.

    A type's numbers around x lie `spacing` apart: 2^-mantissa of the power of two below |x|, or of 2^least, its
    smallest normal number. How far |x| is above a multiple of that, in units of 2^-d of it and rounded down, is added
    to the upper d = 23 - mantissa of an element's random bits. From 2^d on x is rounded away from 0, else towards 0.
    """
    v = np.asarray(x, np.float32).astype(np.float64)
    magnitude, d = np.abs(v), 23 - mantissa
    exponent = np.maximum(np.frexp(np.where(np.isfinite(v), magnitude, 0))[1] - 1, least)
    spacing = np.ldexp(1.0, exponent - mantissa)
    with np.errstate(invalid="ignore"):
        below = np.floor(magnitude / spacing)
        rest = np.floor(np.where(np.isfinite(v), magnitude / spacing - below, 0) * 2.0**d)
    up = rest + (bits >> np.uint32(32 - d)) >= 2.0**d
    return np.where(np.isfinite(v), np.copysign((below + up) * spacing, v), v)
