"""Arithmetic of f32 and f64: rounded once, special values, modifiers (PTX ISA 9.7.3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from scalec.emulator.findings import Finding, NotModelled

from .elementwise import apply, f32
from .rational import nearest

ROUNDINGS = ("rn", "rz", "rm", "rp")
INF, NAN = math.inf, math.nan


def bits(*values: int) -> np.ndarray:
    return np.array(values, "u4")


def same(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal bit for bit."""
    unsigned = f"u{expected.itemsize}"
    different = np.flatnonzero(got.view(unsigned) != expected.view(unsigned))
    assert not different.size, f"at {different[:5]}: got {got[different[:5]]}, expected {expected[different[:5]]}"


def operands(count: int, number: int, seed: int, width: int = 32, spread: int = 4) -> list[np.ndarray]:
    """Finite numbers: of near size, a quarter of them next to the subnormal range, some with few bits (ties)."""
    generator = np.random.default_rng(seed)
    mantissa, bias = {32: (23, 127), 64: (52, 1023)}[width]
    result = []
    for _ in range(number):
        exponent = bias + generator.integers(-spread, spread + 1, count)
        exponent[: count // 4] = generator.integers(0, 40, count // 4)
        exponent[count // 4 : count // 3] = generator.integers(2 * bias - 3, 2 * bias + 1, count // 3 - count // 4)
        fraction = generator.integers(0, 1 << mantissa, count, dtype=np.uint64)
        few = generator.integers(0, 3, count) == 0
        fraction[few] &= np.uint64(0x7FF << (mantissa - 11))
        sign = generator.integers(0, 2, count).astype(np.uint64)
        pattern = (sign << np.uint64(width - 1)) | (exponent.astype(np.uint64) << np.uint64(mantissa)) | fraction
        result.append(pattern.astype(f"u{width // 8}").view(f"f{width // 8}"))
    return result


def exactly(function: Callable[..., Fraction], arrays: list[np.ndarray], rounding: str) -> np.ndarray:
    """Elementwise with rational numbers; an exact zero has the sign that IEEE 754 gives a difference."""
    form = {4: "f32", 8: "f64"}[arrays[0].itemsize]
    result = []
    for values in zip(*arrays, strict=True):
        value = function(*[Fraction(float(v)) for v in values])
        result.append(nearest(value, form, rounding) if value else (-0.0 if rounding == "rm" else 0.0))
    return np.array(result).astype(arrays[0].dtype)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_one_rounding(name: str, rounding: str) -> None:
    function = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "div": lambda x, y: x / y,
    }[name]
    a, b = operands(512, 2, 1)
    b[b == 0] = 3
    a[a == 0] = 5
    same(apply(f"{name}.{rounding}.f32", "f4", a, b), exactly(function, [a, b], rounding))


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_fma_is_fused(rounding: str) -> None:
    """Random operands, cancellation, and sums that lie next to the middle of two float32 numbers."""
    a, b, c = operands(512, 3, 2)
    a, b, c = (np.where(x == 0, np.float32(7), x) for x in (a, b, c))
    with np.errstate(over="ignore"):
        c[::4] = -(a * b)[::4]
    c[~np.isfinite(c)] = 1
    # 1 * (1 + 2^-23) +- a tie of 2^-24 and a little of 2^-60 and 2^-120: float64 does not see the little
    a[:4], b[:4] = f32(2.0**-24, 2.0**-24, -(2.0**-24), 2.0**-30), f32(1 + 2.0**-23, 1 - 2.0**-23, 1, 2.0**-30)
    c[:4] = f32(1 + 2.0**-23, 1 + 2.0**-23, 1, 1)
    a[4:8] = f32(1 + 2.0**-12, 1 + 2.0**-12, 2.0**12 + 1, 2.0**12 + 1)
    b[4:8] = f32(1 + 2.0**-12, 1 + 2.0**-12, 2.0**12 + 1, 2.0**12 + 1)  # squares in the middle of two numbers
    c[4:8] = f32(2.0**-80, -(2.0**-80), 2.0**-149, -(2.0**-149))
    a[8:10], b[8:10], c[8:10] = f32(2.0**-75, 2.0**-75), f32(2.0**-75, -(2.0**-75)), f32(2.0**-149, 2.0**-149)
    got = apply(f"fma.{rounding}.f32", "f4", a, b, c)
    same(got, exactly(lambda x, y, z: x * y + z, [a, b, c], rounding))
    same(apply(f"mad.{rounding}.f32", "f4", a, b, c), got)


def test_fma_by_hand() -> None:
    """(1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: a tie between ...2^-11 and ...2^-11 + 2^-23, decided by what is added."""
    x = f32(1 + 2.0**-12, 1 + 2.0**-12, 1 + 2.0**-12)
    c = f32(0, 2.0**-100, -(2.0**-100))
    same(apply("fma.rn.f32", "f4", x, x, c), f32(1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-23, 1 + 2.0**-11))


def test_special_values() -> None:
    """NaNs are 0x7FFFFFFF whatever comes in; infinities and zeros as in IEEE 754."""
    one, nan = 0x3F800000, 0x7FFFFFFF
    a = bits(0x7FC12345, 0xFF800001, one, 0x7F800000, 0x7F800000, 0x80000000, one)
    b = bits(one, one, 0xFFFFFFFF, 0xFF800000, one, 0x80000000, 0xBF800000)
    same(apply("add.f32", "u4", a, b), bits(nan, nan, nan, nan, 0x7F800000, 0x80000000, 0))
    same(apply("add.rm.f32", "u4", a, b), bits(nan, nan, nan, nan, 0x7F800000, 0x80000000, 0x80000000))
    same(apply("mul.f32", "u4", a, b), bits(nan, nan, nan, 0xFF800000, 0x7F800000, 0, 0xBF800000))
    c = bits(one, one, one, 0x7F800000, 0xFF800000, 0x80000000, one)
    same(apply("fma.rn.f32", "u4", a, b, c), bits(nan, nan, nan, nan, nan, 0, 0))
    same(apply("fma.rm.f32", "u4", a, b, c), bits(nan, nan, nan, nan, nan, 0x80000000, 0x80000000))
    same(apply("div.rn.f32", "u4", bits(0, one, one), bits(0, 0x80000000, 0x7F800000)), bits(nan, 0xFF800000, 0))
    same(apply("sqrt.rn.f32", "u4", bits(0xBF800000, 0x80000000, 0x40800000)), bits(nan, 0x80000000, 0x40000000))


def test_largest_number() -> None:
    """Overflow: infinity when rounding outwards, else the largest finite number (IEEE 754, 7.4)."""
    largest = float.fromhex("0x1.fffffep127")
    x = f32(largest, -largest)
    for rounding, expected in {
        "rn": f32(INF, -INF),
        "rz": f32(largest, -largest),
        "rm": f32(largest, -INF),
        "rp": f32(INF, -largest),
    }.items():
        same(apply(f"add.{rounding}.f32", "f4", x, x), expected)
        same(apply(f"mul.{rounding}.f32", "f4", x, f32(4, 4)), expected)


def test_flush_and_saturate() -> None:
    least = 2.0**-126
    a = f32(least / 2, -least / 2, least, -least, 0.5, -0.5, 3, NAN)
    b = f32(1, 1, 0.5, 0.5, 0.25, 1, 1, 1)
    same(apply("mul.ftz.f32", "f4", a, b)[:7], f32(0, -0.0, 0, -0.0, 0.125, -0.5, 3))
    same(apply("mul.sat.f32", "f4", a, b), f32(least / 2, 0, least / 2, 0, 0.125, 0, 1, 0))
    same(apply("mul.rz.ftz.sat.f32", "f4", a, b), f32(0, 0, 0, 0, 0.125, 0, 1, 0))
    c = f32(-0.0, -0.0, 1, least)
    same(apply("fma.rn.ftz.f32", "f4", a[:4], b[:4], c), f32(0, -0.0, 1, 0))
    same(apply("fma.rn.f32", "f4", a[:4], b[:4], c), f32(least / 2, -least / 2, 1, least / 2))


def test_flush_of_what_is_rounded_to_the_least_normal_number() -> None:
    """2^-126 (1 - 2^-24) is subnormal; 2^-126 (1 - 2^-30) is 2^-126 in 24 bits (both as on an H200)."""
    least = 2.0**-126
    a, b = f32(least, -least, 2.0**-20 * (1 + 2.0**-15)), f32(1 - 2.0**-24, 1 - 2.0**-24, 2.0**-106 * (1 - 2.0**-15))
    same(apply("mul.f32", "f4", a, b), f32(least, -least, least))
    same(apply("mul.ftz.f32", "f4", a, b), f32(0, -0.0, least))
    same(apply("fma.rn.ftz.f32", "f4", a, b, f32(0, 0, 0)), f32(0, -0.0, least))
    same(apply("mul.rz.ftz.f32", "f4", a, b), f32(0, -0.0, 0))
    same(apply("div.rp.ftz.f32", "f4", f32(least), f32(1 + 2.0**-23)), f32(0))


def test_payloads_of_double() -> None:
    """f64 keeps the payload of a NaN and makes it quiet; of two it takes the second one's (as an H200 does)."""
    a = np.array([0x7FF0000000000001, 0x3FF0000000000000, 0x7FF8000000000005, 0x7FF0000000000000], "u8")
    b = np.array([0x3FF0000000000000, 0xFFF0000000000002, 0x7FF8000000000007, 0xFFF0000000000000], "u8")
    expected = np.array([0x7FF8000000000001, 0xFFF8000000000002, 0x7FF8000000000007, 0xFFF8000000000000], "u8")
    for rounding in ROUNDINGS:
        same(apply(f"add.{rounding}.f64", "u8", a, b), expected)
    same(apply("neg.f64", "u8", a[:3]), np.array([0x7FF8000000000001, 0xBFF0000000000000, 0x7FF8000000000005], "u8"))
    same(apply("fma.rn.f64", "u8", a[:2], b[:2], np.array([3, 0x7FF0000000000003], "u8")), expected[:2])


def test_rcp_and_sqrt() -> None:
    (a,) = operands(256, 1, 3)
    a = np.where(a == 0, np.float32(3), np.abs(a))
    for rounding in ROUNDINGS:
        same(apply(f"rcp.{rounding}.f32", "f4", a), exactly(lambda x: 1 / x, [a], rounding))
        root = apply(f"sqrt.{rounding}.f32", "f4", a)
        below = apply("sqrt.rm.f32", "f4", a)
        for x, low, got in zip(a.tolist(), below.tolist(), root.tolist(), strict=True):
            high = float(np.nextafter(np.float32(low), np.float32(INF)))
            assert Fraction(low) ** 2 <= Fraction(x) < Fraction(high) ** 2
            exact = Fraction(low) ** 2 == Fraction(x)
            middle = (Fraction(low) + Fraction(high)) / 2
            up = {"rn": middle**2 < Fraction(x), "rz": False, "rm": False, "rp": not exact}[rounding]
            assert got == (high if up else low)


def test_minimum_and_maximum() -> None:
    """-0 is less than +0; a NaN yields to a number; .NaN: it does not; two give 0x7FFFFFFF (9.7.3.11)."""
    a = f32(1, -0.0, 0.0, NAN, 2, NAN, -INF)
    b = f32(2, 0.0, -0.0, 3, NAN, -NAN, 5)
    nan = bits(0x7FFFFFFF).view("f4")[0]
    same(apply("min.f32", "f4", a, b), f32(1, -0.0, -0.0, 3, 2, nan, -INF))
    same(apply("max.f32", "f4", a, b), f32(2, 0, 0, 3, 2, nan, 5))
    same(apply("min.NaN.f32", "f4", a, b), f32(1, -0.0, -0.0, nan, nan, nan, -INF))
    same(apply("max.NaN.ftz.f32", "f4", a, b), f32(2, 0, 0, nan, nan, nan, 5))
    c, d = f32(-3, 3, -3, NAN), f32(2, -5, -1, -7)
    same(apply("min.xorsign.abs.f32", "f4", c, d), f32(-2, -3, 1, -7))
    same(apply("max.NaN.xorsign.abs.f32", "f4", c, d), f32(-3, -5, 3, nan))


def test_three_operands() -> None:
    a, b, c = f32(1, NAN, NAN, -4), f32(2, 5, NAN, 3), f32(-3, 4, NAN, NAN)
    nan = bits(0x7FFFFFFF).view("f4")[0]
    same(apply("min.f32", "f4", a, b, c, target="sm_100a"), f32(-3, 4, nan, -4))
    same(apply("max.NaN.f32", "f4", a, b, c, target="sm_100a"), f32(2, nan, nan, nan))
    same(apply("max.abs.f32", "f4", a, b, c, target="sm_100a"), f32(3, 5, nan, 4))


def test_signs_and_classes() -> None:
    a = f32(-2, 0.0, -0.0, 2.0**-130, -INF, NAN)
    nan = bits(0x7FFFFFFF).view("f4")[0]
    same(apply("abs.f32", "f4", a), f32(2, 0, 0, 2.0**-130, INF, nan))
    same(apply("neg.f32", "f4", a), f32(2, -0.0, 0, -(2.0**-130), INF, nan))
    same(apply("neg.ftz.f32", "f4", a)[:5], f32(2, -0.0, 0, -0.0, INF))
    same(apply("copysign.f32", "f4", a[:3], f32(-1, -3, 4)), f32(-1, 3, -4))
    for name, expected in {
        "finite": (1, 1, 1, 1, 0, 0),
        "infinite": (0, 0, 0, 0, 1, 0),
        "number": (1, 1, 1, 1, 1, 0),
        "notanumber": (0, 0, 0, 0, 0, 1),
        "normal": (1, 1, 1, 0, 0, 0),
        "subnormal": (0, 0, 0, 1, 0, 0),
    }.items():
        text = f"testp.{name}.f32 %p3, {{0}}; selp.u32 {{d}}, 1, 0, %p3;"
        same(apply(text, "u4", a), bits(*expected))


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_double(rounding: str) -> None:
    a, b, c = (np.where(x == 0, 3.0, x) for x in operands(192, 3, 4, width=64, spread=60))
    with np.errstate(over="ignore"):
        c[::4] = -(a * b)[::4]
    c[~np.isfinite(c)] = 1
    for name, function in {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "div": lambda x, y: x / y,
    }.items():
        same(apply(f"{name}.{rounding}.f64", "f8", a, b), exactly(function, [a, b], rounding))
    same(apply(f"fma.{rounding}.f64", "f8", a, b, c), exactly(lambda x, y, z: x * y + z, [a, b, c], rounding))
    square = a[-32:] * a[-32:]
    same(apply("sqrt.rn.f64", "f8", square), np.sqrt(square))
    assert (apply("sqrt.rm.f64", "f8", square) <= np.sqrt(square)).all()


def test_double_fma_by_hand() -> None:
    """(1 + 2^-52)(1 - 2^-52) - 1 = -2^-104, which two roundings would lose; 1e600 - infinity is no NaN."""
    a, b, c = np.array([1 + 2.0**-52, 1e300]), np.array([1 - 2.0**-52, 1e300]), np.array([-1.0, -INF])
    same(apply("fma.rn.f64", "f8", a, b, c), np.array([-(2.0**-104), -INF]))


@pytest.mark.parametrize(
    "modifiers", [f"{r}{ftz}" for r in (*(f".{r}" for r in ROUNDINGS), "") for ftz in ("", ".ftz")]
)
def test_packed_single(modifiers: str) -> None:
    """Each half as by itself (PTX ISA 9.7.3.3 to 9.7.3.6); fma has no default rounding."""
    a, b, c = (x.view("u8") for x in operands(64, 3, 5))
    for name in ("add", "sub", "mul"):
        got = apply(f"{name}{modifiers}.f32x2", "u8", a, b, target="sm_100a").view("f4")
        same(got, apply(f"{name}{modifiers}.f32", "f4", a.view("f4"), b.view("f4")))
    if modifiers in ("", ".ftz"):
        return
    got = apply(f"fma{modifiers}.f32x2", "u8", a, b, c, target="sm_100a").view("f4")
    same(got, apply(f"fma{modifiers}.f32", "f4", a.view("f4"), b.view("f4"), c.view("f4")))


def test_packed_single_by_hand() -> None:
    """1 + 2^-24 is a tie of f32, 2^-126 / 2 subnormal; the first element is the lower half."""
    ones, small = f32(1, 2.0**-126, 3, 1).view("u8"), f32(2.0**-24, -(2.0**-127), 4, 1).view("u8")
    same(apply("add.rn.f32x2", "u8", ones, small, target="sm_100a").view("f4"), f32(1, 2.0**-127, 7, 2))
    same(apply("add.rp.f32x2", "u8", ones, small, target="sm_100a").view("f4"), f32(1 + 2.0**-23, 2.0**-127, 7, 2))
    same(apply("add.rp.ftz.f32x2", "u8", ones, small, target="sm_100a").view("f4"), f32(1 + 2.0**-23, 2.0**-126, 7, 2))


@pytest.mark.parametrize(
    "name", ["add.sat.f32x2", "fma.f32x2", "fma.rn.sat.f32x2", "mul.rn.relu.f32x2", "div.rn.f32x2"]
)
def test_packed_single_has_no_other_forms(name: str) -> None:
    a = f32(1, 2).view("u8")
    with pytest.raises(NotModelled):
        apply(name, "u8", *[a] * (3 if name.startswith("fma") else 2), target="sm_100a")


def test_packed_single_needs_sm_100() -> None:
    a = f32(1, 2).view("u8")
    with pytest.raises(Finding, match="illegal: the instruction needs sm_100"):
        apply("mul.rn.f32x2", "u8", a, a, target="sm_90a")


@pytest.mark.parametrize("narrow", ["f16", "bf16"])
def test_mixed_precision(narrow: str) -> None:
    """1.5 is 0x3E00 in f16, 0x3FC0 in bf16; 1.5 + 2^-24 is a tie."""
    h = np.array([0x3E00 if narrow == "f16" else 0x3FC0] * 3, "u2")
    c = f32(2.0**-24, 2.0**-24 + 2.0**-40, -1.5)
    up = 1.5 + 2.0**-23
    for name, expected in {
        "add": f32(1.5, up, 0),
        "add.rp": f32(up, up, 0),
        "sub.rm": f32(1.5 - 2.0**-23, 1.5 - 2.0**-23, 3),
        "sub.sat": f32(1, 1, 1),
    }.items():
        same(apply(f"{name}.f32.{narrow}", "f4", h, c, target="sm_100a"), expected)
    same(apply(f"fma.rn.f32.{narrow}", "f4", h, h, c, target="sm_100a"), f32(2.25, 2.25, 0.75))
