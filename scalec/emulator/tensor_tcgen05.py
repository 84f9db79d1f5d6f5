"""The arithmetic of one tcgen05.mma, as a function of gathered operands (PTX ISA 9.7.16.10).

    D = A * B + D * 2^-scale_d,    with block scaling    D = sum over blocks of (A_block * B_block * sA * sB) + D

The ISA fixes neither the order of the sum nor its precision. Here products, scales and the sum with D are exact and one
rounding to the nearest (ties to even) makes the result: what any hardware approximates. NaNs come out as 0x7FFFFFFF
(0x7FFF for a float16 accumulator). Sums of integers wrap, or stay within 32 bits where the descriptor says so.
"""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

from scalec.emulator import arithmetic
from scalec.emulator.findings import Finding
from scalec.emulator.layouts.instruction_descriptor import BITS, InstructionDescriptor
from scalec.emulator.layouts.tensor_memory import from_containers, unpack_bits

_PIECE = 1 << 18  # products that numpy's BLAS takes on one core
ROW_BYTES = 32  # of K in one instruction, for every dense kind

_NARROW = {  # numpy's type of an element, and the bits of its byte that count
    "e4m3": (ml_dtypes.float8_e4m3fn, 0xFF),
    "e5m2": (ml_dtypes.float8_e5m2, 0xFF),
    "e2m3": (ml_dtypes.float6_e2m3fn, 0x3F),
    "e3m2": (ml_dtypes.float6_e3m2fn, 0x3F),
    "e2m1": (ml_dtypes.float4_e2m1fn, 0x0F),
    "ue8m0": (ml_dtypes.float8_e8m0fnu, 0xFF),
    "ue4m3": (ml_dtypes.float8_e4m3fn, 0x7F),  # unsigned, of seven bits: 5.2.3
}
_SIGNIFICAND = {"e4m3": 4, "e5m2": 3, "e2m3": 4, "e3m2": 3, "e2m1": 2, "f16": 11, "bf16": 8, "tf32": 11}  # bits


# -- elements ----------------------------------------------------------------------------------------------------------


def elements(
    rows: np.ndarray, type_: str, kind: str, *, tensor_memory: bool = False, transposed: bool = False
) -> np.ndarray:
    """The elements of A or B, in the order of K, out of the 32 bytes of each row that an instruction reads.

    Args:
        rows: (..., 32) uint8.
        type_: e.g. "e2m1".
        tensor_memory: .kind::f8f6f4 and .kind::mxf8f6f4 have elements of 4 and 6 bits in 8-bit containers there
            (9.7.16.10.4.3), while in shared memory 16 of them are contiguous and padded to 16 bytes (9.7.16.10.4.4).
        transposed: those 16 follow one another along M or N, so that the bytes of 16 rows hold them together.

    Returns:
        (..., K) codes: uint8, or uint16 for f16 and bf16, uint32 for tf32.
    """
    bits = BITS[type_]
    if bits >= 16:
        return np.ascontiguousarray(rows).view(f"<u{bits // 8}")
    if bits == 8:
        return rows
    if kind.startswith("mxf4"):  # two elements to a byte, no padding (9.7.16.10.4.5, 9.7.16.10.4.6)
        return unpack_bits(rows, 4)
    if tensor_memory:
        return from_containers(rows, bits)
    if transposed:
        along = np.swapaxes(rows.reshape(*rows.shape[:-2], -1, 16, rows.shape[-1]), -1, -2)
        codes = unpack_bits(np.ascontiguousarray(along[..., : 2 * bits]), bits)
        return np.swapaxes(codes, -1, -2).reshape(rows.shape)
    chunks = rows.reshape(*rows.shape[:-1], -1, 16)
    return unpack_bits(chunks[..., : 2 * bits], bits).reshape(*rows.shape[:-1], -1)


@cache
def _table(type_: str) -> np.ndarray:
    dtype, mask = _NARROW[type_]
    codes = np.arange(256, dtype=np.uint8) & np.uint8(mask)
    return codes.view(dtype).astype(np.float64)


def decode(codes: np.ndarray, type_: str) -> np.ndarray:
    """Codes of floats as float64. tf32 is the upper 19 bits of a float32; the others are ignored (9.7.16.10)."""
    if type_ in _NARROW:
        return _table(type_)[codes]
    if type_ == "tf32":
        return (codes & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    return codes.view(np.float16 if type_ == "f16" else ml_dtypes.bfloat16).astype(np.float64)


# -- the operation -----------------------------------------------------------------------------------------------------


def multiply(
    descriptor: InstructionDescriptor,
    a: np.ndarray,
    b: np.ndarray,
    d: np.ndarray | None = None,
    *,
    scale_a: np.ndarray | None = None,
    scale_b: np.ndarray | None = None,
    scale_d: int = 0,
    stored: np.ndarray | None = None,
) -> np.ndarray:
    """The new matrix D, or a part of it: M and N here are those of the arrays.

    Args:
        a: (M, K) codes of `elements`.
        b: (N, K) codes.
        d: (M, N) uint32, the words of tensor memory; None when enable-input-d is false.
        scale_a: (M, factors) uint8 with block scaling.
        scale_b: (N, factors) uint8 with block scaling.
        scale_d: scale-input-d.
        stored: bool (M, K), the elements of a sparse A that take part: where it has none, nothing of B is met.

    Returns:
        (M, N) uint32 words of tensor memory; a float16 in the lower half of each (9.7.16.10.4.1).

    Raises:
        Finding: illegal, a scale-input-d that the kind or the ISA does not allow.
    """
    if scale_d and (descriptor.kind not in ("f16", "tf32") or not 0 <= scale_d <= 15):
        raise Finding(
            "illegal",
            f"scale-input-d of {scale_d} with .kind::{descriptor.kind}",
            expected="0 to 15, with .kind::f16 and .kind::tf32",
        )
    if descriptor.d_type == "s32":
        return _integers(descriptor, a, b, d)
    left, right = decode(a, descriptor.a_type), decode(b, descriptor.b_type)
    if stored is not None and not np.isfinite(right).all():
        rows = []
        for i, at in enumerate(stored):
            old, scale = (None if x is None else x[i : i + 1] for x in (d, scale_a))
            row = multiply(descriptor, a[i : i + 1, at], b[:, at], old, scale_a=scale, scale_b=scale_b, scale_d=scale_d)
            rows.append(row)
        return np.concatenate(rows)
    if descriptor.negate_a != descriptor.negate_b:
        left = -left
    start = np.zeros((len(a), len(b))) if d is None else _accumulator(d, descriptor.d_type) * 2.0**-scale_d
    significands = _SIGNIFICAND[descriptor.a_type] + _SIGNIFICAND[descriptor.b_type]
    narrow = _span(descriptor.a_type) + _span(descriptor.b_type) + (left.shape[1] - 1).bit_length() <= 53
    if scale_a is None or scale_b is None:
        terms = products(left, right, significands, narrow)
    else:
        rows, columns = decode(scale_a, descriptor.scale_type), decode(scale_b, descriptor.scale_type)
        block = left.shape[1] // descriptor.factors
        blocks = [slice(i * block, (i + 1) * block) for i in range(descriptor.factors)]
        # exact: few bits each, and far from the ends of float64
        if descriptor.scale_type == "ue8m0" and narrow:  # a power of two, for each row and column one
            terms = [
                term
                for i, k in enumerate(blocks)
                for term in products(left[:, k] * rows[:, i, None], right[:, k] * columns[:, i, None], 0, narrow)
            ]
        else:
            terms = [
                term * rows[:, i, None] * columns[:, i]
                for i, k in enumerate(blocks)
                for term in products(left[:, k], right[:, k], significands, narrow)
            ]
    return _rounded(start, terms, descriptor.d_type)


def _integers(descriptor: InstructionDescriptor, a: np.ndarray, b: np.ndarray, d: np.ndarray | None) -> np.ndarray:
    """The same of .kind::i8."""
    left, right = (
        codes.view(np.int8 if type_ == "s8" else np.uint8).astype(np.float64)
        for codes, type_ in ((a, descriptor.a_type), (b, descriptor.b_type))
    )
    total = _product(left, right).astype(np.int64)
    if d is not None:
        total += np.ascontiguousarray(d, np.uint32).view(np.int32)
    if descriptor.saturate:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return (total & 0xFFFFFFFF).astype(np.uint32)


def _accumulator(words: np.ndarray, type_: str) -> np.ndarray:
    if type_ == "f16":
        return (words & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float64)
    return np.ascontiguousarray(words, np.uint32).view(np.float32).astype(np.float64)


@cache
def _span(type_: str) -> float:
    """Bits from the lowest of the smallest element to the highest of the largest; infinite of more than 8 bits."""
    if type_ not in _NARROW:
        return np.inf
    size = np.abs(_table(type_))
    size = size[np.isfinite(size) & (size > 0)]
    return int(np.ceil(np.log2(size.max() / size.min())))


def products(a: np.ndarray, b: np.ndarray, significands: int, narrow: bool = False) -> list[np.ndarray]:
    """A * B^T as a sum of float64 matrices, each of them exact.

    The elements are split by exponent into bands so narrow that every sum of products of two bands fits the 53 bits of
    float64; then no order of summation changes it.

    Args:
        a: (M, K) float64.
        b: (N, K) float64.
        significands: bits of an element of A and of an element of B, together.
        narrow: every sum of products of finite elements fits 53 bits.

    Returns:
        (M, N) float64 matrices. Where one is infinite or NaN, all of the result is that.
    """
    finite = bool(np.isfinite(a).all() and np.isfinite(b).all())
    special = [] if finite else [_special(a, b)]
    if not finite:
        a, b = np.where(np.isfinite(a), a, 0.0), np.where(np.isfinite(b), b, 0.0)
    if narrow:
        return [*special, _product(a, b)]
    width = (53 - significands - (a.shape[1] - 1).bit_length()) // 2
    return special + [_product(x, y) for x in _bands(a, width) for y in _bands(b, width)]


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A * B^T in pieces so small that numpy's BLAS does not start threads, which on busy cores wait for each other.

    128 x 256 x 32 takes 0.1 ms instead of 8 to 16 ms (2 busy cores, OpenBLAS 0.3.31, 2026-11-21)."""
    step = max(1, _PIECE // b.size)
    if step >= len(a):
        return a @ b.T
    found = np.empty((len(a), len(b)))
    for i in range(0, len(a), step):
        np.matmul(a[i : i + step], b.T, out=found[i : i + step])
    return found


def _special(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Infinities and NaNs of A * B^T, zero elsewhere."""
    with np.errstate(invalid="ignore"):
        found = a @ b.T
    return np.where(np.isfinite(found), 0.0, found)


def _bands(x: np.ndarray, width: int) -> list[np.ndarray]:
    """x as a sum of matrices whose elements other than zero have exponents that differ by less than `width`."""
    exponents = np.frexp(x)[1]
    nonzero = x != 0
    if not nonzero.any():
        return [x]
    highest = int(exponents.max(initial=-(1 << 20), where=nonzero))
    if highest - int(exponents.min(initial=1 << 20, where=nonzero)) < width:
        return [x]
    band = (highest - exponents) // width
    return [np.where(nonzero & (band == i), x, 0.0) for i in np.unique(band[nonzero])]


def _rounded(start: np.ndarray, terms: list[np.ndarray], type_: str) -> np.ndarray:
    """start + sum(terms) rounded once, as words."""
    with np.errstate(invalid="ignore", over="ignore"):
        if len(terms) == 1 and type_ == "f32":
            return arithmetic.canonical32(arithmetic.sum_f32(start, terms[0] + 0.0)).view(np.uint32)
        result, error = _two_sum(start, terms[0])
        if len(terms) > 1 or np.count_nonzero(error):  # as it is, too, where the sum is no number
            result = _summed(start, terms)
        result = result + 0.0
        if type_ == "f16":
            half = result.astype(np.float16)
            return np.where(np.isnan(half), np.uint16(0x7FFF), half.view(np.uint16)).astype(np.uint32)
        single = result.astype(np.float32)
    return np.where(np.isnan(single), np.uint32(0x7FFFFFFF), single.view(np.uint32))


def _summed(start: np.ndarray, terms: list[np.ndarray]) -> np.ndarray:
    """start + sum(terms), as float64 rounded to odd.

    The sum is kept as an unevaluated sum of three float64: total + error + rest. Rounded to odd and then to the type it
    is rounded once in effect, for float64 has two bits more than the type (Boldo and Melquiond, "Emulation of FMA and
    correctly rounded sums", 2008).
    """
    total, error, rest = start, np.zeros_like(start), np.zeros_like(start)
    for term in terms:
        total, low = _two_sum(total, term)
        error, low = _two_sum(error, low)
        rest += low
    error, rest = _two_sum(error, rest)
    total, error = _two_sum(total, error)
    error += rest
    total, error = _two_sum(total, error)
    bits = total.view(np.int64)
    odd = bits + np.where((error > 0) == (total > 0), 1, -1)
    total = np.where((error != 0) & (bits & 1 == 0), odd, bits).view(np.float64)
    plain = start.copy()
    for term in terms:
        plain += term
    return np.where(np.isfinite(plain), total, plain)


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b rounded, and its error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
