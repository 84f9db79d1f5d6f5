"""Operands of matrix products whose every row and K block has its own scale, and what the products must give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

DTYPES: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp32": np.float32,
    "fp64": np.float64,
    "fp8e4nv": ml_dtypes.float8_e4m3fn,
    "fp8e5": ml_dtypes.float8_e5m2,
    "u8": np.uint8,
    "i32": np.int32,
}
# the values of e2m1, by code (OCP Microscaling Formats v1.0, 5.3.3)
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
_BLOCK = 32  # elements of K that a scale of `operand` covers


def operand(rng: np.random.Generator, rows: int, k: int, kind: str) -> np.ndarray:
    """(rows, k) of a type, every row and every 32 elements of K scaled by their own power of two.

    float32 holds TF32 values, so that nobody has to round.
    """
    spread = {"fp8e4nv": 2, "fp8e5": 4}.get(kind, 3)
    values = rng.standard_normal((rows, k))
    values *= 2.0 ** rng.integers(-spread, spread + 1, (rows, 1))
    values *= 2.0 ** np.repeat(rng.integers(-spread, spread + 1, (rows, -(-k // _BLOCK))), _BLOCK, 1)[:, :k]
    if kind == "fp32":
        bits = values.astype(np.float32).view(np.uint32)
        return (bits & np.uint32(0xFFFFE000)).view(np.float32)
    dtype = DTYPES[kind]
    top = float(ml_dtypes.finfo(dtype).max)
    return np.clip(values, -top, top).astype(dtype)


@dataclass(frozen=True)
class Scaled:
    """One operand of a block-scaled product."""

    data: np.ndarray  # what lies in memory: FP8, or uint8 with two e2m1 elements, the first in the low half
    scales: np.ndarray  # (rows, k // group), ue8m0 codes in uint8 or e4m3
    values: np.ndarray  # (rows, k) in float64, the scales multiplied in


def scaled(rng: np.random.Generator, rows: int, k: int, form: str, group: int) -> Scaled:
    """Random codes of every kind (no not-a-number), and scales of a dozen powers of two, or any e4m3 beside 16."""
    if form == "e2m1":
        codes = rng.integers(0, 16, (rows, k), np.uint8)
        data, elements = codes[:, ::2] | codes[:, 1::2] << 4, E2M1[codes]
    else:
        dtype = DTYPES[{"e4m3": "fp8e4nv", "e5m2": "fp8e5"}[form]]
        # no infinity, no not-a-number: the codes below the largest finite one, with either sign
        largest = np.array(ml_dtypes.finfo(dtype).max, dtype).view(np.uint8)
        codes = rng.integers(0, int(largest) + 1, (rows, k), np.uint8) | rng.integers(0, 2, (rows, k), np.uint8) << 7
        # keep most of them near one
        small = rng.standard_normal((rows, k)).astype(dtype)
        data = np.where(rng.random((rows, k)) < 0.2, codes.view(dtype), small)
        if form == "e5m2":
            data = np.clip(data.astype(np.float32), -512, 512).astype(dtype)
        elements = data.astype(np.float64)
    if group == 32:
        scales = rng.integers(121, 134, (rows, k // group), np.uint8)
        factors = 2.0 ** (scales.astype(np.float64) - 127)
    else:
        scales = (2.0 ** rng.uniform(-5, 5, (rows, k // group))).astype(ml_dtypes.float8_e4m3fn)
        factors = scales.astype(np.float64)
    return Scaled(data, scales, elements * np.repeat(factors, group, 1))


def product(a: np.ndarray, b: np.ndarray, out: Any, accumulator: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """a (m, k) times b (n, k) transposed in float64, and how far the sums in `accumulator`, stored as `out`, may be.

    Each of k additions rounds or cuts off at most one unit in the last place of the largest partial sum, which the sum
    of the terms' magnitudes bounds.
    """
    left, right = a.astype(np.float64), b.astype(np.float64)
    values = left @ right.T
    magnitude = np.abs(left) @ np.abs(right).T
    unit = {np.float32: 2.0**-23, np.float16: 2.0**-10, np.float64: 2.0**-52}[accumulator]
    tolerance = magnitude * unit * max(8.0, left.shape[1] / 8)
    half = float(ml_dtypes.finfo(out).eps) / 2
    return values, tolerance + np.abs(values) * half + (0 if out == accumulator else 1e-7 * magnitude)
