"""The arithmetic of Hopper's tensor cores, bit for bit: `--tensor-core=hopper`.

NVIDIA does not publish it. The rule below was found on an H200 and reproduces every one of 1.5 million results of
random and extreme operands (tests/emulator/h200/calibration.py; a part of them is stored and compared by CI). It agrees
with what others inferred for FP8 (DeepSeek-V3 technical report, 3.3.2) and for all types (arXiv:2511.10909,
arXiv:2512.07004).

One instruction is one sum over its whole K, the accumulator a term of it like the products:

1. The exponent of a product is the sum of its factors' exponents; a subnormal factor counts with its format's least
   exponent, it is not normalised first.
2. All terms are aligned to the greatest exponent among them and cut off, toward zero, `fraction` bits after its point:
   13 bits for wgmma of FP8, 25 bits for all else. Zeros take no part. The exponent is at least -133: no term keeps
   bits below 2^-158.
3. The cut terms are added exactly.
4. A float32 result is cut off toward zero: to 13 fraction bits for wgmma of FP8, to 23 for all else; a float16 result
   is rounded to nearest even. Beyond the greatest number comes infinity. A zero is +0 always.
5. NaN, infinity times zero, and infinities of both signs give NaN, 0x7FFFFFFF or 0x7FFF; else infinity wins.

mma.sync of FP8 has no tensor instruction on Hopper: ptxas turns the operands into float16 and multiplies twice, first
the elements of K whose number is 0 or 1 modulo 4, then 2 and 3, from zero, and adds C last, rounding to nearest even.
"""

from __future__ import annotations

import numpy as np

# type -> least exponent of a normal number: PTX ISA 5.2.3, IEEE 754-2019 table 3.5
_LEAST_EXPONENT = {"e4m3": -6, "e5m2": -14, "f16": -14, "bf16": -126, "tf32": -126, "f32": -126}
_NARROW = ("e4m3", "e5m2")
_FRACTION_NARROW, _FRACTION = 13, 25  # bits that alignment keeps; H200, 2026-11-21
_RESULT_NARROW, _RESULT = 13, 23  # fraction bits of a float32 result; H200, 2026-11-21
_LEAST_ALIGNMENT = -133  # found with bf16 and tf32, whose products go below; H200, 2026-11-21
_NOTHING = -(1 << 13)  # the exponent of zero


def multiply(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray | None,
    kind: str,
    result: str,
    *,
    b_kind: str | None = None,
    instruction: str = "wgmma",
) -> np.ndarray | None:
    """a @ b.T + c as one tensor instruction of an H200 computes it.

    Args:
        a, b: float64 (m, k), (n, k); k is that of the instruction.
        c: (m, n) float32 or float16, or None for zero.
        kind: operand type of A: e4m3, e5m2, f16, bf16 or tf32.
        result: "f32" or "f16", the type of the accumulator and the result.
        b_kind: operand type of B; that of A if not given.
        instruction: "wgmma" or "mma".

    Returns:
        (m, n) float32 or float16; None for types that Hopper's tensor cores do not have.
    """
    kinds = kind, b_kind or kind
    if kinds[0] not in _LEAST_EXPONENT or kinds[1] not in _LEAST_EXPONENT:
        return None
    narrow = kinds[0] in _NARROW
    if instruction == "mma" and narrow:
        return _through_halves(a, b, c, result)
    start = np.zeros((len(a), len(b))) if c is None else c.astype(np.float64)
    fraction, bits = (_FRACTION_NARROW, _RESULT_NARROW) if narrow else (_FRACTION, _RESULT)
    return _step(a, b, start, (*kinds, result), fraction, bits)


def _through_halves(a: np.ndarray, b: np.ndarray, c: np.ndarray | None, result: str) -> np.ndarray:
    """mma.sync of FP8: two products of float16 and an addition."""
    dtype = np.float32 if result == "f32" else np.float16
    total = np.zeros((len(a), len(b)), dtype)
    position = np.arange(a.shape[1]) % 4 // 2
    for half in (0, 1):
        part = position == half
        total = _step(a[:, part], b[:, part], total.astype(np.float64), ("f16", "f16", result), _FRACTION, _RESULT)
    if c is None:
        return total
    with np.errstate(over="ignore", invalid="ignore"):
        return _canonical(total + c)


def _step(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, kinds: tuple[str, str, str], fraction: int, bits: int
) -> np.ndarray:
    """One fused sum over all of k.

    Args:
        a, b, c: float64 (m, k), (n, k), (m, n).
        kinds: types of A, B and of the result.
        fraction: bits kept after the point of the greatest exponent.
        bits: fraction bits of a float32 result.
    """
    special = None
    if not (np.isfinite(a).all() and np.isfinite(b).all() and np.isfinite(c).all()):
        with np.errstate(invalid="ignore"):
            special = a @ b.T + c
        a, b, c = (np.where(np.isfinite(x), x, 0.0) for x in (a, b, c))
    at, bt = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    ea, eb = _exponents(at, kinds[0]), _exponents(bt, kinds[1])
    highest = _exponents(c, kinds[2])
    sums = np.empty_like(highest)
    for x, y in zip(ea, eb, strict=True):
        np.add(x[:, None], y, out=sums)
        np.maximum(highest, sums, out=highest)
    np.maximum(highest, _LEAST_ALIGNMENT, out=highest)
    shift = np.ldexp(1.0, fraction - highest)
    # Terms of FP8 have 8 bits, cut terms at most 13 + 2, their sums 20: float32 holds them. Its range does not hold the
    # scale where all products are zero and c is tiny, where any scale will do.
    narrow = fraction == _FRACTION_NARROW
    scale = np.minimum(shift, 2.0**100).astype(np.float32) if narrow else shift
    at, bt = at.astype(scale.dtype), bt.astype(scale.dtype)
    total, term = np.zeros_like(scale), np.empty_like(scale)
    for x, y in zip(at, bt, strict=True):
        np.multiply(x[:, None], y, out=term)
        term *= scale
        np.trunc(term, out=term)
        total += term
    exact = np.ldexp(total + np.trunc(c * shift), highest - fraction)
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float16) if kinds[2] == "f16" else _cut(exact, bits).astype(np.float32)
    rounded += rounded.dtype.type(0)  # -0 to +0
    if special is not None:
        rounded = _canonical(np.where(np.isfinite(special), rounded, special).astype(rounded.dtype))
    return rounded


def _exponents(x: np.ndarray, kind: str) -> np.ndarray:
    """int16: of float64 numbers, floor(log2) but not below the format's least exponent; _NOTHING for zero."""
    exponents = np.maximum(np.frexp(x)[1] - 1, _LEAST_EXPONENT[kind])
    return np.where(x == 0, _NOTHING, exponents).astype(np.int16)


def _cut(x: np.ndarray, bits: int) -> np.ndarray:
    """Finite float64 toward zero to `bits` fraction bits, and to float32's subnormals below 2**-126."""
    cut = (x.view(np.int64) & (-1 << (52 - bits))).view(np.float64)
    small = np.abs(x) < 2.0**-126
    if small.any():
        quantum = 2.0 ** (-126 - bits)
        cut = np.where(small, np.trunc(x / quantum) * quantum, cut)
    return cut


def _canonical(x: np.ndarray) -> np.ndarray:
    """x with NVIDIA's only NaN in place of every NaN."""
    pattern = np.array(0x7FFFFFFF, np.uint32) if x.dtype == np.float32 else np.array(0x7FFF, np.uint16)
    return np.where(np.isnan(x), pattern.view(x.dtype), x)
