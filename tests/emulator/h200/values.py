"""Operands: bit patterns of extreme, close and random numbers, drawn from a seed."""

from __future__ import annotations

import numpy as np

_EXPONENT = {16: 5, 32: 8, 64: 11, "bf16": 8}  # bits of the exponent by format
_UNSIGNED = {16: np.uint16, 32: np.uint32, 64: np.uint64, "bf16": np.uint16}


def extremes(form: int | str) -> np.ndarray:
    """Bit patterns of a float format's landmarks, both signs.

    Zero, least and largest subnormal, least normal, one and its neighbours, 1.5, two, three, a third, a half, largest
    finite and its half, infinity, a quiet NaN with a payload and a signalling one.
    """
    width = 16 if form == "bf16" else int(form)
    exponent = _EXPONENT[form]
    mantissa = width - 1 - exponent
    bias = (1 << (exponent - 1)) - 1
    one, top, full = bias << mantissa, ((1 << exponent) - 1) << mantissa, (1 << mantissa) - 1
    half = 1 << (mantissa - 1)
    positive = [0, 1, full, 1 << mantissa, one - 1, one, one + 1, one + half, one + (1 << mantissa)]
    positive += [one + (1 << mantissa) + half, one - (1 << mantissa), one - (2 << mantissa) + full // 3, top - 1]
    positive += [top - 1 - (1 << mantissa), top, top | half | 5, top | 1]
    sign = 1 << (width - 1)
    return np.array([p | s for s in (0, sign) for p in positive], dtype=np.uint64).astype(_UNSIGNED[form])


def floats(form: int | str, operands: int, count: int, seed: int) -> list[np.ndarray]:
    """`operands` arrays of `count` bit patterns: a quarter random bits, a half of near magnitude, else landmarks."""
    generator = np.random.default_rng(seed)
    width = 16 if form == "bf16" else int(form)
    unsigned = _UNSIGNED[form]
    exponent = _EXPONENT[form]
    mantissa = width - 1 - exponent
    marks = extremes(form)
    result = []
    close = generator.integers(1, (1 << exponent) - 1, count)
    quarter = count // 4
    for _ in range(operands):
        bits = generator.integers(0, 1 << 63, count, dtype=np.uint64) << np.uint64(1)
        bits |= generator.integers(0, 2, count, dtype=np.uint64)
        bits >>= np.uint64(64 - width)
        near = np.clip(close + generator.integers(-3, 4, count), 0, (1 << exponent) - 2).astype(np.uint64)
        centre = np.where(np.arange(count) % 2 == 0, near, near // np.uint64(4) + np.uint64(3 << (exponent - 3)))
        keep = np.uint64(((1 << width) - 1) ^ (((1 << exponent) - 1) << mantissa))
        shaped = (bits & keep) | (centre << np.uint64(mantissa))
        chosen = marks[generator.integers(0, marks.size, count)].astype(np.uint64)
        which = np.arange(count) // quarter
        result.append(np.where(which == 0, bits, np.where(which < 3, shaped, chosen)).astype(unsigned))
    return result


def pairs(form: int | str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays: landmarks against landmarks as far as they fit in three quarters, then as `floats`."""
    a, b = floats(form, 2, count, seed)
    marks = extremes(form)
    left, right = np.meshgrid(marks, marks, indexing="ij")
    order = np.random.default_rng(seed + 1).permutation(left.size)[: count * 3 // 4]
    a[: order.size], b[: order.size] = left.ravel()[order], right.ravel()[order]
    return a, b


def integers(width: int, operands: int, count: int, seed: int) -> list[np.ndarray]:
    """Integers of `width` bits: random bits, small ones of both signs, powers of two and their neighbours."""
    generator = np.random.default_rng(seed)
    unsigned = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[width]
    mask = (1 << width) - 1
    marks = [0, 1, 2, 3, mask, mask - 1, mask >> 1, (mask >> 1) + 1, (mask >> 1) + 2]
    marks += [(1 << i) + d for i in (7, 8, 15, 16, 24, 31, 32, 53) if i < width for d in (-1, 0, 1)]
    table = np.array([m & mask for m in marks], dtype=np.uint64)
    result = []
    for _ in range(operands):
        bits = generator.integers(0, 1 << 63, count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        bits ^= generator.integers(0, 2, count, dtype=np.uint64)
        bits >>= np.uint64(64 - width)
        shifted = bits >> generator.integers(0, width, count, dtype=np.uint64)
        chosen = table[generator.integers(0, table.size, count)]
        which = generator.integers(0, 3, count)
        result.append(np.where(which == 0, bits, np.where(which == 1, shifted, chosen)).astype(unsigned))
    return result


def spread(generator: np.random.Generator, low: int, high: int, shape: int | tuple[int, ...]) -> np.ndarray:
    """float64 of both signs, of magnitude 2**low to 2**high.

    No transcendental function and no sum in a library's order takes part here: every machine draws the same bits.
    """
    magnitude = np.ldexp(1.0 + generator.random(shape), generator.integers(low, high, shape))
    return np.where(generator.integers(0, 2, shape) == 0, magnitude, -magnitude)


def bell(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """About normal, standard deviation one: sums of twelve uniform integers."""
    return (generator.integers(0, 4096, (12, *shape)).sum(axis=0) - 6 * 4095) / 4096.0


def packed(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Two arrays of 16 bits as one of 32 bits."""
    return low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))
