"""Launches of data/nvcc/arithmetic.cu and narrow.cu: results by Python's integers or fractions, rounded as asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from tests.emulator.nvcc_control import FULL, case, signed, truncated
from tests.emulator.operands import E2M1
from tests.emulator.programs import Case, Expected, blank

COUNT = 150


def _words(rng: np.random.Generator) -> np.ndarray:
    """uint32: random bits, few bits, and the ends of the range."""
    values = rng.integers(0, 2**32, COUNT, np.uint64)
    values &= rng.integers(0, 2**32, COUNT, np.uint64) >> rng.integers(0, 30, COUNT, np.uint64)
    values[:6] = 0, FULL, 0x80000000, 0x7FFFFFFF, 1, 0x8000
    return rng.permutation(values).astype(np.uint32)


def _rows(compute: Callable[[int, int, int], list[int]], x: Iterable, y: Iterable, dtype: Any) -> np.ndarray:
    """compute(a, b, i) for every thread, as rows of results of a type."""
    columns = [compute(int(a), int(b), i) for i, (a, b) in enumerate(zip(x, y, strict=True))]
    bits = np.dtype(dtype).itemsize * 8
    wrapped = [[value & ((1 << bits) - 1) for value in column] for column in columns]
    return np.array(wrapped, f"u{bits // 8}").T.copy().view(dtype)


def _permute(a: int, b: int, picks: list[int]) -> int:
    source = (b << 32 | a).to_bytes(8, "little")
    out = 0
    for place, pick in enumerate(picks):
        byte = source[pick & 7]
        out |= (0xFF * (byte >> 7) if pick & 8 else byte) << 8 * place
    return out


def _field(a: int, start: int, length: int, sign: bool) -> int:
    """bfe: PTX ISA 9.7.1.20; bits beyond the word are zeros, or copies of the sign."""
    top = min(start + length - 1, 31)
    if length == 0:
        return 0
    fill = sign and a >> top & 1
    value = a >> start & ((1 << length) - 1) if start < 32 else 0
    kept = max(0, min(length, 32 - start))
    value &= (1 << kept) - 1
    return value | ((FULL << kept) & FULL if fill else 0)


def _bits(rng: np.random.Generator) -> Case:
    x, y = _words(rng), _words(rng)

    def nth(mask: int, base: int, offset: int) -> int:
        """fns: PTX ISA 9.7.1.18."""
        step, left = (1 if offset >= 0 else -1), abs(offset)
        if offset == 0:
            return base if mask >> base & 1 else FULL
        at = base
        while 0 <= at < 32:
            if mask >> at & 1:
                left -= 1
                if left == 0:
                    return at
            at += step
        return FULL

    def thread(a: int, b: int, i: int) -> list[int]:
        start, length = b & 31, b >> 8 & 31
        mask = ((1 << length) - 1) << start & FULL
        third = i * 0x01010101
        signed_a = signed(a)
        other = signed_a if signed_a >= 0 else ~signed_a
        width = (b & 31) | 1
        low = a & ((1 << width) - 1)
        return [
            a.bit_count(),
            32 - a.bit_length(),
            int(f"{a:032b}"[::-1], 2),
            (a & -a).bit_length(),
            # __byte_perm takes three bits of each selector
            _permute(a, b, [(i * 0x1357 >> 4 * place) & 7 for place in range(4)]),
            # __funnelshift_l(low, high, shift): the upper word of high:low shifted left
            ((b << 32 | a) << (i & 31)) >> 32,
            (b << 32 | a) >> min(i, 32),
            (a & b) | (~a & third),
            _field(a, b & 63, b >> 8 & 63, False),
            _field(a, b & 31, b >> 8 & 31, True),
            (b & ~mask) | (a << start & mask),
            a.bit_length() - 1,
            (32 - other.bit_length()) if other else FULL,
            nth(a, i & 31, i % 5 - 2),
            signed_a >> min(b & 63, 31),
            a << (b & 63) if b & 63 < 32 else 0,
            mask,
            low - (1 << width if low >> width - 1 & 1 else 0),
            _permute(a, b, [(i & 3) + place for place in range(4)]),
            _permute(a, b, [2 * (i >> 0 & 1) + (place & 1) for place in range(4)]),
        ]

    want = _rows(thread, x, y, np.uint32)
    return case({"x": x, "y": y, "out": blank(want.shape, np.uint32)}, {"out": Expected(want)}, np.int32(COUNT), grid=3)


def _wide_integers(rng: np.random.Generator) -> Case:
    whole = (1 << 64) - 1
    x, y = (rng.integers(-(2**63), 2**63, COUNT) >> rng.integers(0, 60, COUNT) for _ in range(2))
    y[y == 0] = 13
    y[y == -1] = -17
    x[:2] = -(2**63), 2**63 - 1

    def thread(a: int, b: int, i: int) -> list[int]:
        ua, ub = a & whole, b & whole
        ia, ib = signed(a), signed(b)
        half = lambda value: (value & 0xFFFF) - ((value & 0x8000) << 1)  # noqa: E731
        shift = b & 63
        return [
            a + b,
            a * b,
            truncated(a, b),
            a - truncated(a, b) * b,
            ua // ub,
            a * b >> 64,
            ua * ub >> 64,
            ia * ib,
            ua.bit_count() + 100 * (64 - ub.bit_length()),
            int(f"{ua:064b}"[::-1], 2),
            min(a, b),
            (a >> shift) ^ (ua >> (a & 63)) ^ (b << (a & 31)),
            half(a) * half(b) + (a & 255),
            ((ua + ub) & whole) ^ (ua + (ua + ub >> 64)),
            # borrows between the two halves: the difference of the 64-bit numbers
            a - b,
            # __sad is unsigned: |a - b| + 5 in 32 bits; the product's upper half is signed
            ((abs(ia - ib) + 5) & FULL) + signed(ia * ib >> 32),
        ]

    want = _rows(thread, x, y, np.int64)
    return case({"x": x, "y": y, "out": blank(want.shape, np.int64)}, {"out": Expected(want)}, np.int32(COUNT), grid=3)


def _dot_integers(rng: np.random.Generator) -> Case:
    x, y = _words(rng).view(np.int32), _words(rng).view(np.int32)

    def parts(value: int, bits: int, sign: bool) -> list[int]:
        pieces = [(value & FULL) >> at & ((1 << bits) - 1) for at in range(0, 32, bits)]
        return [p - (1 << bits if sign and p >> bits - 1 else 0) for p in pieces]

    def join(pieces: list[int], bits: int) -> int:
        return sum((p & ((1 << bits) - 1)) << bits * place for place, p in enumerate(pieces))

    def thread(a: int, b: int, i: int) -> list[int]:
        bytes_a, bytes_b = parts(a, 8, True), parts(b, 8, True)
        plain_a, plain_b = parts(a, 8, False), parts(b, 8, False)
        halves_a, halves_b = parts(a, 16, True), parts(b, 16, True)
        low24 = lambda v: (v & 0xFFFFFF) - ((v & 0x800000) << 1)  # noqa: E731
        dot = lambda p, q: sum(s * t for s, t in zip(p, q, strict=True))  # noqa: E731
        return [
            dot(bytes_a, bytes_b) + i,
            dot(plain_a, plain_b) + i,
            dot(plain_a, bytes_b) - i,
            dot(halves_a, bytes_b[:2]) + i,
            dot(halves_a, bytes_b[2:]) + i,
            a * b + i,
            low24(a) * low24(b) + i,
            join([max(min(s, t), 0) for s, t in zip(halves_a, halves_b, strict=True)], 16),
            join([s + t for s, t in zip(halves_a, halves_b, strict=True)], 16),
            min(max(a + b, -(2**31)), 2**31 - 1),
            max(signed(a + b), i, 0),
            abs(a >> 1) + (a + b + 1 >> 1),
        ]

    want = _rows(thread, x, y, np.int32)
    return case({"x": x, "y": y, "out": blank(want.shape, np.int32)}, {"out": Expected(want)}, np.int32(COUNT), grid=3)


# -- floats ------------------------------------------------------------------------------------------------------------


def rounded(value: Fraction, how: str, dtype: Any = np.float32) -> float:
    """A rational number in a floating type: "n" nearest even, "z" toward zero, "u" up, "d" down."""
    facts = ml_dtypes.finfo(dtype)
    if value == 0:
        return 0.0
    sign, size = (-1 if value < 0 else 1), abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** (max(exponent, int(facts.minexp)) - int(facts.nmant))
    units, rest = divmod(size, unit)
    up = {
        "n": rest * 2 > unit or (rest * 2 == unit and units % 2 == 1),
        "z": False,
        "u": rest > 0 and sign > 0,
        "d": rest > 0 and sign < 0,
    }[how]
    units += up
    result = units * unit
    if result > Fraction(float(facts.max)):
        infinite = how == "n" or (how == "u" and sign > 0) or (how == "d" and sign < 0)
        return sign * (float("inf") if infinite else float(facts.max))
    return float(sign * result)


def _spread(rng: np.random.Generator, dtype: Any, spread: int, shape: Any = COUNT) -> np.ndarray:
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread, shape)).astype(dtype)


def _floats(rng: np.random.Generator) -> Case:
    x, y = _spread(rng, np.float32, 20), _spread(rng, np.float32, 20)
    x[:4], y[:4] = [1e-30, -3e38, 0.5, 1e-38], [1e-15, 2e38, 0.5, 0.25]
    rows = []
    for i, (p, q) in enumerate(zip(x, y, strict=True)):
        a, b = float(p), float(q)
        fa, fb = Fraction(a), Fraction(b)
        size = np.float32
        product = np.float32(rounded(fa * fb, "n"))
        whole = rounded(Fraction(int(np.rint(a)) + int(b)), "n")
        bits_a = int(p.view(np.int32))
        fraction = int(q.view(np.int32)) & 0x7FFFFF | 0x3F800000
        mantissa = float(np.array(fraction, np.int32).view(np.float32))
        low = min(abs(a), abs(b))
        rows.append([
            rounded(fa + fb, "n"),
            rounded(fa + fb, "z"),
            rounded(fa * fb, "u"),
            rounded(fa * fb, "d"),
            rounded(fa * fb + 1, "n"),
            rounded(fa * fb - fa, "z"),
            rounded(fa / fb, "n"),
            float(np.sqrt(np.abs(p))),
            min(a, b),
            max(abs(a), -b),
            float(np.copysign(p, q)),
            min(max(rounded(fa + fb, "n"), 0.0), 1.0),
            float(product) if abs(float(product)) >= 2.0**-126 else 0.0,
            whole,
            rounded(Fraction(rounded(Fraction(int(np.floor(a))), "n")) / 2 - int(np.ceil(b)), "n"),
            rounded(1 / fb, "n"),
            rounded(fa * Fraction(2) ** ((i & 15) - 8), "n"),
            rounded(Fraction(rounded(Fraction(bits_a), "n")) + Fraction(mantissa), "n"),
            float(np.fmod(size(a), size(0.75))),
            max(a, b) if i % 7 else float("nan"),
            (a < b) + 2 * (a <= b) + 4 * (not a >= b) + 16 * bool(np.signbit(p)),
            -low if np.signbit(p) != np.signbit(q) else low,
        ])  # fmt: skip
    want = np.array(rows).T
    return case(
        {"x": x, "y": y, "out": blank(want.shape, np.float32)}, {"out": Expected(want)}, np.int32(COUNT), grid=3
    )


def _doubles(rng: np.random.Generator) -> Case:
    x, y = _spread(rng, np.float64, 20), _spread(rng, np.float64, 20)
    rows = []
    for p, q in zip(x, y, strict=True):
        a, b = float(p), float(q)
        fa, fb = Fraction(a), Fraction(b)
        high = int(p.view(np.uint64)) >> 32 << 32 | int(q.view(np.uint64)) & FULL
        rows.append([
            a + b,
            rounded(fa * fb, "z", np.float64),
            rounded(fa * fb + fa, "n", np.float64),
            a / b,
            float(np.sqrt(abs(a))),
            min(a, b) + float(np.floor(a)),
            float(np.float32(a)),
            float(int(a * 1000.0)) + float(int(abs(b))),
            float(np.array(high, np.uint64).view(np.float64)),
        ])  # fmt: skip
    want = np.array(rows).T
    return case(
        {"x": x, "y": y, "out": blank(want.shape, np.float64)}, {"out": Expected(want)}, np.int32(COUNT), grid=3
    )


def _packed(rng: np.random.Generator, dtype: Any, spread: int, half: bool) -> Case:
    """halves and brains: rows of pairs."""
    x, y = _spread(rng, dtype, spread, (COUNT, 2)), _spread(rng, dtype, spread, (COUNT, 2))
    x[3] = y[3]
    rows: list[list] = []
    for p, q in zip(x, y, strict=True):
        a, b = [float(v) for v in p], [float(v) for v in q]
        exact = [(Fraction(s), Fraction(t)) for s, t in zip(a, b, strict=True)]
        total = [rounded(s + t, "n", dtype) for s, t in exact]
        times = [rounded(s * t, "n", dtype) for s, t in exact]
        fused = [rounded(s * t + s, "n", dtype) for s, t in exact]
        (a0, b0), (a1, b1) = exact
        mixed = [rounded(a0 - b1, "n", dtype), rounded(a1 * b0, "n", dtype)]
        third = [
            rounded(Fraction(rounded(a0 * 3, "n")), "n", dtype),
            rounded(Fraction(rounded(b1 / 3, "n")), "n", dtype),
        ]
        rows.append([
            total, times, fused, [max(v, 0.0) for v in fused],
            [max(s, t) for s, t in zip(a, b, strict=True)], [min(s, -t) for s, t in zip(a, b, strict=True)],
            [abs(v) for v in a],
        ])  # fmt: skip
        if half:
            mask = [v == v and u >= v for u, v in zip(a, b, strict=True)]
            rows[-1] += [
                [min(max(v, 0.0), 1.0) for v in total], mixed, a[::-1],
                [float(s < t) for s, t in zip(a, b, strict=True)], [float(np.floor(v)) for v in a], third,
                # a mask of ones is a not-a-number
                [float("nan") if m else 0.0 for m in mask],
            ]  # fmt: skip
        else:
            rows[-1] += [mixed, third, [float(s > t) for s, t in zip(a, b, strict=True)]]
    want = np.array(rows).transpose(1, 0, 2)
    return case({"x": x, "y": y, "out": blank(want.shape, dtype)}, {"out": Expected(want)}, np.int32(COUNT), grid=3)


def _code(value: float, dtype: Any) -> int:
    array = np.array(value, dtype)
    return int(array.view(f"u{array.itemsize}"))


def _conversions(rng: np.random.Generator) -> Case:
    x, y = _spread(rng, np.float32, 30), _words(rng).view(np.int32)
    x[:3] = 0.5, 1.5, -2.5

    def clamp(value: int, low: int = -(2**31), high: int = 2**31 - 1) -> int:
        return min(max(value, low), high)

    def thread(p: np.float32, b: int) -> list[int]:
        a = float(p)
        exact, unsigned = Fraction(a), b & FULL

        def half(how: str) -> int:
            """Overflow included; float16 of an exact number."""
            return _code(rounded(exact, how, np.float16), np.float16) | (0x8000 if np.signbit(p) else 0)

        def brain(how: str) -> int:
            return _code(rounded(exact, how, ml_dtypes.bfloat16), ml_dtypes.bfloat16)

        single = lambda value, how: _code(rounded(Fraction(value), how), np.float32)  # noqa: E731
        near = float(np.array(half("n"), np.uint16).view(np.float16))
        short = clamp(int(near), -(2**15), 2**15 - 1) if np.isfinite(near) else (2**15 - 1 if near > 0 else -(2**15))
        tf32 = int(p.view(np.uint32)) + 0x1000 & 0xFFFFE000
        pack = [clamp(b >> 20, -128, 127) & 255, clamp(b, -128, 127) & 255]
        return [
            clamp(int(np.rint(a))),
            clamp(int(a)),
            clamp(int(np.ceil(a))),
            clamp(int(np.floor(a))),
            clamp(int(a), 0, FULL),
            single(b, "n"),
            single(b, "z"),
            single(unsigned, "u"),
            half("n") | half("z") << 16,
            half("u") | half("d") << 16,
            brain("n") | brain("z") << 16,
            _code(rounded(Fraction(b >> 12), "n", np.float16), np.float16) | (short & 0xFFFF) << 16,
            int(np.floor(a)) >> 3,
            tf32,
            clamp(b, -128, 127),
            # a 16-bit register read as signed
            signed_short(clamp(b, 0, 0xFFFF)),
            # the second operand's byte is the lower one, the lower half of c the upper
            pack[0] | pack[1] << 8 | (b & 0xFFFF) << 16,
        ]

    want = np.array([[v & FULL for v in thread(p, int(b))] for p, b in zip(x, y, strict=True)], np.uint32).T.copy()
    return case({"x": x, "y": y, "out": blank(want.shape, np.uint32)}, {"out": Expected(want)}, np.int32(COUNT), grid=3)


def signed_short(value: int) -> int:
    return (value & 0xFFFF) - ((value & 0x8000) << 1)


def table(exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """The non-negative values of a format without infinities, by code (OCP Microscaling Formats v1.0, 5.3)."""
    bias = (1 << exponent_bits - 1) - 1
    codes = np.arange(1 << exponent_bits + mantissa_bits)
    exponents, fractions = codes >> mantissa_bits, codes & (1 << mantissa_bits) - 1
    normal = (1 + fractions / (1 << mantissa_bits)) * 2.0 ** (exponents - bias)
    return np.where(exponents == 0, fractions / (1 << mantissa_bits) * 2.0 ** (1 - bias), normal)


def _size(values: np.ndarray) -> int:
    """Codes of one sign: a power of two, also where the last ones mean something else."""
    return 1 << (len(values) - 1).bit_length()


def nearest(values: np.ndarray, number: float) -> int:
    """The code of the nearest value, ties to an even code, and the sign above it."""
    distance = np.abs(values - min(abs(number), float(values[-1])))
    found = np.flatnonzero(distance == distance.min())
    code = int(next((c for c in found if c % 2 == 0), found[0]))
    return code | (_size(values) if np.signbit(number) else 0)


def _halves(codes: list[int], values: np.ndarray) -> int:
    """What two codes mean, as a pair of float16."""
    size = _size(values)
    first, second = (_code(np.copysign(values[c % size], -1.0 if c >= size else 1.0), np.float16) for c in codes)
    return first | second << 16


def _narrow_conversions(rng: np.random.Generator) -> Case:
    x = _spread(rng, np.float32, 9, (COUNT, 2))
    x[:3] = [[0.25, 0.75], [5.0, -7.0], [-0.0, 1e9]]
    four, five = table(4, 3)[:-1], table(5, 2)[:-4]  # without the codes of infinity and not-a-number
    rows = []
    for p in x:
        numbers = [float(v) for v in p]
        with np.errstate(over="ignore"):
            half = p.astype(np.float16)
        e4m3, e5m2 = ([nearest(values, v) for v in numbers] for values in (four, five))
        from_half = [nearest(five, float(v)) for v in half]
        # the instruction's first operand, the first of the pair, becomes the upper byte
        relu = [nearest(four, v) if v > 0 else 0 for v in numbers]
        rows.append([
            e4m3[0] | e4m3[1] << 8, e5m2[0] | e5m2[1] << 8, int(half.view(np.uint32)[0]), _halves(e4m3, four),
            _halves(e5m2, five), relu[1] | relu[0] << 8, from_half[0] | from_half[1] << 8,
        ])  # fmt: skip
    want = np.array(rows, np.int64).T
    return case({"x": x, "out": blank(want.shape, np.uint32)}, {"out": Expected(want)}, np.int32(COUNT), grid=3)


def _tiny_conversions(rng: np.random.Generator) -> Case:
    x = _spread(rng, np.float32, 5, (COUNT, 2))
    x[:3] = [[0.25, 0.75], [5.0, -7.0], [-0.0, 1e9]]
    rows = []
    for p in x:
        numbers = [float(v) for v in p[::-1]]  # the first operand becomes the upper part
        row: list[int] = []
        for values, bits in ((E2M1[:8], 4), (table(2, 3), 8), (table(3, 2), 8)):
            codes = [nearest(values, v) for v in numbers]
            row += [codes[0] | codes[1] << bits, _halves(codes, values)]
        down, up = ([_power(abs(v), upwards) for v in numbers] for upwards in (False, True))
        first, second = (_code(2.0 ** (code - 127), ml_dtypes.bfloat16) for code in up)
        rows.append([*row, down[0] | down[1] << 8, up[0] | up[1] << 8, first | second << 16])
    want = np.array(rows, np.int64).T
    return case({"x": x, "out": blank(want.shape, np.uint32)}, {"out": Expected(want)}, np.int32(COUNT), grid=3)


def _power(size: float, up: bool) -> int:
    """ue8m0: the exponent of the power of two at or below (above) a number, plus 127, as far as 254."""
    if size == 0:
        return 0
    mantissa, exponent = np.frexp(size)
    code = int(exponent) - 1 + (up and mantissa > 0.5) + 127
    return min(max(code, 0), 254)


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "bits": _bits,
    "wide_integers": _wide_integers,
    "dot_integers": _dot_integers,
    "floats": _floats,
    "doubles": _doubles,
    "halves": lambda rng: _packed(rng, np.float16, 4, True),
    "brains": lambda rng: _packed(rng, ml_dtypes.bfloat16, 20, False),
    "conversions": _conversions,
    "narrow_conversions": _narrow_conversions,
    "tiny_conversions": _tiny_conversions,
}
