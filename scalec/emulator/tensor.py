"""The arithmetic of tensor cores: operands decoded, products and sums exact, one rounding.

The ISA fixes neither the order of the sum nor its precision (9.7.14.5.14, 9.7.15.5.2: "at least single precision"). In
mode "exact" the products, block scales and accumulator of one instruction are summed exactly and rounded once, to the
nearest (ties to even): what any hardware approximates, and the same on every machine. An exact zero is +0; a NaN comes
out as 0x7FFFFFFF, or 0x7FFF. What a GPU does with fewer bits is a mode of its own: see MODES.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

from scalec.emulator import arithmetic
from scalec.emulator.findings import NotModelled
from scalec.emulator.layouts.tensor_memory import from_containers, unpack_bits


@dataclass(frozen=True)
class Operand:
    """An operand type."""

    bits: int  # of an element; those of less than 8 lie in a byte each (a container), or packed
    dtype: np.dtype  # numpy's, of an element of at least 8 bits, or of the lowest bits of a byte
    unit: float = 0.0  # of a type of at most 8 bits: all finite numbers are multiples of it


OPERANDS = {
    "f16": Operand(16, np.dtype(np.float16)),
    "bf16": Operand(16, np.dtype(ml_dtypes.bfloat16)),
    "tf32": Operand(32, np.dtype(np.float32)),
    "e4m3": Operand(8, np.dtype(ml_dtypes.float8_e4m3fn), 2.0**-9),
    "e5m2": Operand(8, np.dtype(ml_dtypes.float8_e5m2), 2.0**-16),
    "e2m3": Operand(6, np.dtype(ml_dtypes.float6_e2m3fn), 2.0**-3),
    "e3m2": Operand(6, np.dtype(ml_dtypes.float6_e3m2fn), 2.0**-4),
    "e2m1": Operand(4, np.dtype(ml_dtypes.float4_e2m1fn), 2.0**-1),
    "s8": Operand(8, np.dtype(np.int8), 1.0),
    "u8": Operand(8, np.dtype(np.uint8), 1.0),
}
_SCALES = {  # -> numpy's type, the bits that count (5.2.3: ue4m3 has 7)
    "ue8m0": (np.dtype(ml_dtypes.float8_e8m0fnu), np.uint8(0xFF)),
    "ue4m3": (np.dtype(ml_dtypes.float8_e4m3fn), np.uint8(0x7F)),
}
Pairs = tuple[np.ndarray, np.ndarray]  # of indices

_RESULTS = {"f32": arithmetic.F32, "f16": arithmetic.F16}
_TF32_MASK = np.uint32(0xFFFFE000)  # the low 13 bits of a tf32 operand are not looked at (PTX ISA 5.2.3)
# mode -> the module of multiply(a (m, k), b (n, k), c (m, n) or None, A's type, result type, b_kind=B's type,
# instruction="wgmma" or "mma") -> (m, n), or None where the mode has nothing to say, which then is exact
MODES: dict[str, str] = {"exact": "", "hopper": "scalec.emulator.tensor_hopper"}


# -- operands ----------------------------------------------------------------------------------------------------------


@cache
def _table(kind: str) -> np.ndarray:
    """float64 (256,): the value of each byte of a type of at most 8 bits."""
    codes = np.arange(256, dtype=np.uint8)
    if kind in _SCALES:
        dtype, mask = _SCALES[kind]
        return (codes & mask).view(dtype).astype(np.float64)
    form = OPERANDS[kind]
    if form.bits < 8:
        codes = from_containers(codes, form.bits)
    return codes.view(form.dtype).astype(np.float64)


def decode(data: np.ndarray, kind: str, packed: bool = False) -> np.ndarray:
    """Operand bytes -> float64, exactly: uint8 (..., bytes of K) -> (..., K).

    Args:
        kind: a name of OPERANDS. Elements of 6 and 4 bits are in 8-bit containers, as mma.sync.kind::f8f6f4 and
            .kind::mxf8f6f4 have them (9.7.14.5.14).
        packed: e2m1, two to a byte, the first in the lower half (.kind::mxf4, .kind::mxf4nvf4).
    """
    if packed:
        return _table(kind)[unpack_bits(data, 4) << 2]
    if OPERANDS[kind].bits <= 8:
        return _table(kind)[data]
    data = np.ascontiguousarray(data)
    if kind == "tf32":
        return (data.view(np.uint32) & _TF32_MASK).view(np.float32).astype(np.float64)
    return data.view(OPERANDS[kind].dtype).astype(np.float64)


def scaled(matrix: np.ndarray, factors: np.ndarray, kind: str) -> np.ndarray:
    """A matrix with block scales, exactly: each row is cut into as many blocks as it has factors (9.7.14.3).

    An element and its factor have at most 8 bits together, and reach from 2^-136 to 2^136, which float64 holds, as it
    does the product of two.

    Args:
        matrix: float64 (..., rows, K).
        factors: uint8 (..., rows, blocks).
        kind: of the factors: "ue8m0" or "ue4m3".
    """
    return (matrix.reshape(*factors.shape, -1) * _table(kind)[factors][..., None]).reshape(matrix.shape)


def scaled_unit(operand: str, factors: np.ndarray, kind: str) -> float:
    """A number that all finite elements of a `scaled` matrix of a type of at most 8 bits are multiples of."""
    # a ue8m0 is a power of two, ue4m3 has the elements of e4m3
    return OPERANDS[operand].unit * float(_table(kind)[factors].min() if kind == "ue8m0" else OPERANDS["e4m3"].unit)


# -- the product -------------------------------------------------------------------------------------------------------


def multiply(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray | None,
    kind: str,
    result: str,
    mode: str = "exact",
    *,
    b_kind: str = "",
    instruction: str = "wgmma",
    saturate: bool = False,
    unit: float = 0.0,
    pairs: Pairs | None = None,
) -> np.ndarray:
    """One instruction: a @ b.T + c; or several, each of which takes one of the matrices of A and one of B.

    Args:
        a, b: float64 (m, k), (n, k), of `decode`; or of `scaled`, with kind "".
        c: (m, n) of the result's type, or None for zero.
        kind: operand type of A.
        result: "f32", "f16" or "s32".
        mode: a name of MODES; not for block scales.
        b_kind: operand type of B, if it is another.
        instruction: "wgmma" or "mma" (mma.sync).
        saturate: .satfinite of an s32, which wraps otherwise.
        unit: of `scaled` matrices, the product of their units.
        pairs: of several instructions, which matrix of A and which of B each takes; then a, b and c have one dimension
            more in front, and so has the result. What comes out is what each gives by itself.

    Returns:
        (m, n) of the result's type.
    """
    function = _mode(mode) if kind else None
    if function is not None and result in ("f32", "f16"):
        found = _each(function, a, b, c, kind, result, pairs, b_kind=b_kind or kind, instruction=instruction)
        if found is not None:
            return found
    with np.errstate(all="ignore"):
        if result == "s32":
            whole = _products(a, b, pairs).astype(np.int64)
            if c is not None:
                whole += c
            if saturate:
                np.clip(whole, -(2**31), 2**31 - 1, out=whole)
            return whole.astype(np.int32)
        if kind:
            unit = OPERANDS[kind].unit * OPERANDS[b_kind or kind].unit
        return _exact(a, b, c, unit, _RESULTS[result], pairs)


def multiply_sparse(
    a: np.ndarray,
    stored: np.ndarray,
    b: np.ndarray,
    c: np.ndarray | None,
    kind: str,
    result: str,
    pairs: Pairs | None = None,
    **given: Any,
) -> np.ndarray:
    """`multiply` of one instruction whose A is sparse, or of several, in the mode "exact".

    What is not stored of A meets nothing of B, not even an infinity or a NaN there.

    Args:
        a: float64 (m, k), with its zeros.
        stored: bool (m, k), half of each row: the elements that take part.
    """
    if np.isfinite(b).all():
        return multiply(a, b, c, kind, result, pairs=pairs, **given)
    if pairs is not None:
        each = zip(*pairs, [None] * len(pairs[0]) if c is None else c, strict=True)
        return np.stack([multiply_sparse(a[i], stored[i], b[j], d, kind, result, **given) for i, j, d in each])
    rows = [
        multiply(a[i : i + 1, at], b[:, at], None if c is None else c[i : i + 1], kind, result, **given)
        for i, at in enumerate(stored)
    ]
    return np.concatenate(rows)


def _each(
    function: Callable,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray | None,
    kind: str,
    result: str,
    pairs: Pairs | None,
    **given: str,
) -> np.ndarray | None:
    """A mode's result of each product; None where it has nothing to say."""
    if pairs is None:
        return function(a, b, c, kind, result, **given)
    assert c is not None
    found = [function(a[i], b[j], d, kind, result, **given) for i, j, d in zip(*pairs, c, strict=True)]
    return None if found[0] is None else np.array(found)


def _products(a: np.ndarray, b: np.ndarray, pairs: Pairs | None) -> np.ndarray:
    if pairs is None:
        return a @ b.T
    return a[pairs[0]] @ b[pairs[1]].swapaxes(1, 2)


def _exact(
    a: np.ndarray, b: np.ndarray, c: np.ndarray | None, unit: float, dtype: np.dtype, pairs: Pairs | None
) -> np.ndarray:
    """a @ b.T + c, rounded once; all products are multiples of `unit`, if it is not 0.

    Where the products' sum is exact in float64, its sum with c is known with its error, and rounded to odd with it. In
    the few other places the error is bounded; where the sum less the bound and the sum plus the bound round to the same
    number, that is the result. What remains is summed anew.
    """
    total = _products(a, b, pairs)
    total += 0.0  # no -0, which would depend on the order of the sum
    slack = _slack(a, b, unit, pairs)
    if slack is None and dtype == arithmetic.F32 and c is not None:
        return arithmetic.canonical32(arithmetic.sum_f32(total, c.astype(np.float64)))
    if c is not None:
        total, error = arithmetic.two_sum(total, c.astype(np.float64))
        if error.any():
            total = arithmetic.to_odd(total, error)
    result = total.astype(dtype)
    if slack is not None:
        slack = np.where(slack > 0, slack + np.abs(total) * 2.0**-51, 0.0)  # total, and the two sums here, are rounded
        unsure = ((total - slack).astype(dtype) != (total + slack).astype(dtype)) & np.isfinite(total)
        if unsure.any():
            where = np.nonzero(unsure)
            *which, rows, columns = where
            left = a[rows] if pairs is None else a[pairs[0][which[0]], rows]
            right = b[columns] if pairs is None else b[pairs[1][which[0]], columns]
            result[where] = _settled(left * right, None if c is None else c[where]).astype(dtype)
    return arithmetic.canonical32(result) if dtype == arithmetic.F32 else arithmetic.canonical(result)


def _slack(a: np.ndarray, b: np.ndarray, unit: float, pairs: Pairs | None) -> np.ndarray | None:
    """A bound of the error of a @ b.T in float64, whatever the order of the sum: like it, 0 where it is exact.

    It is exact where the products are multiples of some number, and 2^53 of that number are more than their magnitudes
    together. Otherwise the sum of k products is wrong by less than (k - 1) 2^-53 times those (Higham, "Accuracy and
    stability of numerical algorithms", 4.2); four times that leaves room for the arithmetic with the bound itself.

    Returns:
        None where all is exact.
    """
    k = a.shape[-1]
    size_a, size_b = np.abs(a), np.abs(b)
    most_a, most_b = size_a.max(axis=-1), size_b.max(axis=-1)
    if k * most_a.max() * most_b.max() < unit * 2.0**53:
        return None
    left, right = k * most_a / _units(size_a), most_b / _units(size_b)
    if left.max() * right.max() < 2.0**53:
        return None
    if pairs is not None:
        most_a, left, most_b, right = most_a[pairs[0]], left[pairs[0]], most_b[pairs[1]], right[pairs[1]]
    exact = left[..., :, None] * right[..., None, :] < 2.0**53
    if exact.all():
        return None
    return np.where(exact, 0.0, (most_a * (k * k * 2.0**-51))[..., :, None] * most_b[..., None, :])


def _units(size: np.ndarray) -> np.ndarray:
    """For each row of magnitudes a power of two that divides all of them: no operand has more than 11 bits."""
    least = size.min(axis=-1, initial=np.inf, where=size > 0)
    return np.ldexp(1.0, np.frexp(least)[1] - 11)


def _settled(terms: np.ndarray, c: np.ndarray | None) -> np.ndarray:
    """The sums of rows of terms, and of c, as float64, exact or rounded to odd: a second rounding then does no harm."""
    if c is not None:
        terms = np.concatenate([terms, c.astype(np.float64)[:, None]], axis=1)
    sums = np.array([math.fsum(row) for row in terms.tolist()])
    errors = np.array([math.fsum(row) for row in np.concatenate([terms, -sums[:, None]], axis=1).tolist()])
    return arithmetic.to_odd(sums, errors)


@cache
def _mode(mode: str) -> Callable | None:
    if mode not in MODES:
        raise NotModelled(f"tensor-core mode {mode!r}; there are {', '.join(MODES)}")
    return import_module(MODES[mode]).multiply if MODES[mode] else None
