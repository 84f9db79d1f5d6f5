"""Operands of tensor-core probes: bit patterns by regime, and where PTX wants each element.

The layouts here are the PTX ISA's figures written as index formulas once more, apart from the emulator's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from .values import bell, spread


@dataclass(frozen=True)
class Format:
    """An operand format of tensor cores: sign, exponent and mantissa bits, and how it sits in memory."""

    name: str
    bits: int  # of storage
    exponent: int
    mantissa: int
    dtype: np.dtype

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def unsigned(self) -> np.dtype:
        return np.dtype(f"u{self.bits // 8}")

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Bit patterns of the nearest numbers (tf32: cut off below the 10th mantissa bit)."""
        with np.errstate(over="ignore"):
            patterns = values.astype(self.dtype).view(self.unsigned)
        return patterns & np.uint32(0xFFFFE000) if self.name == "tf32" else patterns

    def decode(self, patterns: np.ndarray) -> np.ndarray:
        """float64 values of bit patterns."""
        if self.name == "tf32":
            patterns = patterns & np.uint32(0xFFFFE000)
        with np.errstate(invalid="ignore"):
            return patterns.astype(self.unsigned).view(self.dtype).astype(np.float64)


FORMATS = {
    f.name: f
    for f in (
        Format("e4m3", 8, 4, 3, np.dtype(ml_dtypes.float8_e4m3fn)),
        Format("e5m2", 8, 5, 2, np.dtype(ml_dtypes.float8_e5m2)),
        Format("f16", 16, 5, 10, np.dtype(np.float16)),
        Format("bf16", 16, 8, 7, np.dtype(ml_dtypes.bfloat16)),
        Format("tf32", 32, 8, 10, np.dtype(np.float32)),
        Format("f32", 32, 8, 23, np.dtype(np.float32)),
    )
}

REGIMES = ("bits", "normal", "sparse", "cancel", "special", "tiny", "large", "zeros", "alone")


def _patterns(form: Format, generator: np.random.Generator, shape: tuple[int, ...], low: int, high: int) -> np.ndarray:
    """Random signs and mantissas, biased exponents in [low, high)."""
    exponent = generator.integers(low, high, shape)
    pattern = (exponent << form.mantissa) | generator.integers(0, 1 << form.mantissa, shape)
    pattern |= generator.integers(0, 2, shape) << (form.exponent + form.mantissa)
    if form.name == "tf32":
        pattern <<= 13
    return pattern.astype(form.unsigned)


def _finite_top(form: Format) -> int:
    """The biased exponent after the greatest whose every mantissa is finite."""
    return (1 << form.exponent) - 1


def draw(
    regime: str, a: Format, b: Format, accumulator: Format, shape: tuple[int, int, int], seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bit patterns of a (m, k), b (n, k) and c (m, n).

    bits     every finite pattern alike, c of any size around the products
    normal   Gaussian values, as in training
    sparse   one to three products per row, far apart in size
    cancel   products that cancel in pairs, and c against their sum
    special  some infinities, NaNs and zeros among moderate numbers
    tiny     least exponents and subnormals on both sides (bf16 and tf32: products about 2^-149), c likewise
    large    greatest exponents on both sides, c near its greatest
    zeros    zeros of both signs nearly everywhere
    alone    all products zero, c any finite pattern
    """
    m, n, k = shape
    generator = np.random.default_rng([seed, REGIMES.index(regime), m, n, k])
    sides = []
    for side, (form, rows) in enumerate(((a, m), (b, n))):
        top = _finite_top(form)
        low, high = 0, top
        if form.exponent == 8:  # products of arbitrary bf16 and tf32 nearly always over- or underflow
            low, high = form.bias - 20, form.bias + 20
        if regime == "tiny":
            low, high = 0, 4
            if form.exponent == 8:
                low, high = (0, 12) if side == 0 else (form.bias - 36, form.bias - 12)  # products about 2^-149
        if regime == "large":
            low, high = top - 4, top
            if form.exponent == 8:
                low, high = form.bias + 55, form.bias + 66
        x = _patterns(form, generator, (rows, k), low, high)
        if regime == "normal":
            x = form.encode(bell(generator, (rows, k)))
        if regime == "special":
            x = form.encode(bell(generator, (rows, k)))
            odd = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0])
            if form.name == "e4m3":
                odd = np.array([448.0, -448.0, np.nan, 0.0, -0.0, 1.0])
            where = generator.random((rows, k)) < 0.2 / k
            x = np.where(where, form.encode(odd[generator.integers(0, odd.size, (rows, k))]), x)
        if regime == "zeros":
            keep = generator.random((rows, k)) < 0.05
            x = np.where(keep, x, x & form.unsigned.type(1 << (form.bits - 1)))
        if regime == "alone" and side == 0:
            x &= form.unsigned.type(1 << (form.bits - 1))
        sides.append(x)
    x, y = sides
    if regime == "sparse":
        count = generator.integers(1, 4, (m, 1))
        rank = np.argsort(np.argsort(generator.random((m, k)), axis=1), axis=1)
        x = np.where(rank < count, x, 0).astype(a.unsigned)
    if regime == "cancel":
        half = k // 2
        order = generator.permutation(k)
        first, second = order[:half], order[half : 2 * half]
        x[:, second] = x[:, first] ^ a.unsigned.type(1 << (a.bits - 1))
        y[:, second] = y[:, first]
        drop = generator.integers(0, k, m)
        x[np.arange(m), drop] = 0
    with np.errstate(all="ignore"):
        left, right = a.decode(x), b.decode(y)
        product, size = np.zeros((m, n)), np.zeros((m, n))
        for i in range(k):  # in this order on every machine
            term = left[:, i, None] * right[None, :, i]
            product, size = product + term, np.maximum(size, np.abs(term))
        scale = np.where(np.isfinite(size) & (size > 0), size, 1.0)
        c = scale * spread(generator, -36 if accumulator.mantissa == 23 else -16, 12, (m, n))
        c = np.where(generator.random((m, n)) < 0.1, 0.0, c)
        if regime == "normal":
            c = bell(generator, (m, n)) * 8
        elif regime == "cancel":
            c = np.where(generator.random((m, n)) < 0.5, -product * (1 + spread(generator, -26, 0, (m, n))), c)
        elif regime == "zeros":
            c = np.where(generator.random((m, n)) < 0.8, np.copysign(0.0, c), c)
        elif regime == "special":
            odd = np.array([np.inf, -np.inf, np.nan])
            c = np.where(generator.random((m, n)) < 0.03, odd[generator.integers(0, 3, (m, n))], c)
        patterns = accumulator.encode(c)
    if regime in ("tiny", "large", "alone"):
        low, high = {"tiny": (0, 4 if a.exponent == 8 else 30), "large": (254 - 12, 255), "alone": (0, 255)}[regime]
        if accumulator.name == "f16":
            low, high = {"tiny": (0, 6), "large": (24, 31), "alone": (0, 31)}[regime]
        other = _patterns(accumulator, generator, (m, n), low, high)
        some = generator.random((m, n))
        if regime == "alone":  # half of them subnormal or little more
            low_ones = _patterns(accumulator, generator, (m, n), 0, 3)
            patterns = np.where(some < 0.5, low_ones, other)
        else:
            patterns = np.where(some < 0.6, other, patterns)
    return x, y, patterns.astype(accumulator.unsigned)


def integers(form: Format, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Bit patterns of integers from -2 to 2: their sums of products are exact however a tensor core rounds."""
    return form.encode(np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32))


def core_matrices(x: np.ndarray) -> np.ndarray:
    """(rows, k) of any width -> bytes, K-major without swizzle: PTX ISA 9.7.15.5.1, core matrices of 8 x 16 bytes.

    Core matrices that follow in k are 128 bytes apart; groups of 8 rows, k bytes times 8.
    """
    data = np.ascontiguousarray(x).view(np.uint8)
    rows, width = data.shape
    return data.reshape(rows // 8, 8, width // 16, 16).transpose(0, 2, 1, 3).ravel()


def rows_of_fragment(registers: np.ndarray, form_bits: int, columns: int) -> np.ndarray:
    """m64nN accumulators (thread, register as 32 bits) of a warpgroup -> (64, N): PTX ISA 9.7.15.5.1, figure of D."""
    threads, count = registers.shape
    per = 32 // form_bits
    values = np.ascontiguousarray(registers).view({16: np.uint16, 32: np.uint32}[form_bits])
    thread, index = np.meshgrid(np.arange(threads), np.arange(count * per), indexing="ij")
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (index // 2 % 2)
    column = 8 * (index // 4) + thread % 4 * 2 + index % 2
    result = np.zeros((threads // 2, columns), values.dtype)
    result[row, column] = values
    return result


def fragment_of_rows(x: np.ndarray) -> np.ndarray:
    """The inverse of `rows_of_fragment`: (64, N) of 16 or 32 bits -> (128, registers) of 32 bits."""
    rows, columns = x.shape
    thread, index = np.meshgrid(np.arange(2 * rows), np.arange(columns // 2), indexing="ij")
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (index // 2 % 2)
    column = 8 * (index // 4) + thread % 4 * 2 + index % 2
    return np.ascontiguousarray(x[row, column]).view(np.uint32)


def mma_operand(x: np.ndarray) -> np.ndarray:
    """A (16, k) or B (8, k) of mma.sync -> (32, registers) of 32 bits: PTX ISA 9.7.14.5, figures of A and B.

    Each register holds 4 bytes of k; lane l holds group l / 4 of the rows. A register covers k bytes 4 * (l % 4) of
    each 16; with 16 rows, registers go row group first, then the next 16 bytes of k. tf32 and f16, bf16, 8 bits alike.
    """
    data = np.ascontiguousarray(x).view(np.uint32)
    rows, words = data.shape
    lane = np.arange(32)[:, None]
    index = np.arange(rows // 8 * (words // 4))[None, :]
    return data[lane // 4 + 8 * (index % (rows // 8)), lane % 4 + 4 * (index // (rows // 8))]


def mma_accumulator(x: np.ndarray) -> np.ndarray:
    """C or D (16, 8) of 16 or 32 bits -> (32, registers) of 32 bits: PTX ISA 9.7.14.5, figures of C and D."""
    lane, index = np.meshgrid(np.arange(32), np.arange(4), indexing="ij")
    return np.ascontiguousarray(x[lane // 4 + 8 * (index // 2), lane % 4 * 2 + index % 2]).view(np.uint32)


def mma_result(registers: np.ndarray, bits: int) -> np.ndarray:
    """The inverse of `mma_accumulator`."""
    values = np.ascontiguousarray(registers).view({16: np.uint16, 32: np.uint32}[bits])
    lane, index = np.meshgrid(np.arange(32), np.arange(4), indexing="ij")
    result = np.zeros((16, 8), values.dtype)
    result[lane // 4 + 8 * (index // 2), lane % 4 * 2 + index % 2] = values
    return result
