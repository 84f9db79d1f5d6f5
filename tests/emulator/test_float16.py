"""Arithmetic of f16 and bf16, scalar and packed: rounded once, special values, modifiers (PTX ISA 9.7.4)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from scalec.emulator.findings import NotModelled

from .elementwise import apply, u16
from .rational import nearest

DTYPES = {"f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16)}
OPERATIONS: dict[str, Callable[..., Fraction]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "fma.rn": lambda x, y, z: x * y + z,
}


def number(pattern: int, kind: str) -> float:
    return float(np.array([pattern], "u2").view(DTYPES[kind])[0])


def pattern(value: float, kind: str) -> int:
    """Of a number of the format."""
    result = np.array([value], "f4").astype(DTYPES[kind])
    assert float(result[0]) == value
    return int(result.view("u2")[0])


def finite(count: int, operands: int, kind: str, seed: int) -> list[np.ndarray]:
    """Bit patterns of nonzero finite numbers: half of all exponents, half of near ones."""
    generator = np.random.default_rng(seed)
    mantissa, top = {"f16": (10, 31), "bf16": (7, 255)}[kind]
    result = []
    for _ in range(operands):
        exponent = generator.integers(0, top, count)
        exponent[::2] = top // 2 + generator.integers(-8, 9, exponent[::2].size)
        fraction = generator.integers(1, 1 << mantissa, count)
        result.append((generator.integers(0, 2, count) << 15 | exponent << mantissa | fraction).astype("u2"))
    return result


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_one_rounding(name: str, kind: str) -> None:
    function = OPERATIONS[name]
    operands = finite(768, 3 if name == "fma.rn" else 2, kind, 7)
    got = apply(f"{name}.{kind}", "u2", *operands)
    for i in range(got.size):
        values = [number(int(x[i]), kind) for x in operands]
        exact = function(*[Fraction(v) for v in values])
        expected = nearest(exact, kind, "rn") if exact else 0.0
        assert number(int(got[i]), kind) == expected, (name, values)


def test_fma_decided_by_the_last_bit() -> None:
    """Products in the middle of two numbers, and a c far below them: 53 bits do not hold their sum."""
    b = lambda v: pattern(v, "bf16")  # noqa: E731
    # (1 + 2^-7)(1 + 2^-1) = 1.5 + 3 * 2^-8: between 1.5 + 2^-7 and 1.5 + 2^-6, even is the latter
    x, y, tiny = b(1 + 2.0**-7), b(1.5), b(2.0**-100)
    got = apply("fma.rn.bf16", "u2", u16(x, x, x), u16(y, y, y), u16(0, tiny, tiny | 0x8000))
    assert [number(int(g), "bf16") for g in got] == [1.5 + 2.0**-6, 1.5 + 2.0**-6, 1.5 + 2.0**-7]
    # 2^-67 * 2^-67 * 1.5 is three quarters of the least subnormal number, 2^-133; 2^-134 is its half, a tie
    x, y = b(2.0**-67), b(2.0**-67 * 1.5)
    got = apply("mul.bf16", "u2", u16(x, x), u16(y, x))
    assert got.tolist() == [1, 0]
    h = lambda v: pattern(v, "f16")  # noqa: E731
    # (1 + 2^-10)^2 = 1 + 2^-9 + 2^-20; 1.5 (1 + 2^-10) = 1.5 + 3 * 2^-11, a tie, up to the even 1.5 + 2^-9
    x, y = h(1 + 2.0**-10), h(1.5)
    got = apply("fma.rn.f16", "u2", u16(x, x, x), u16(x, y, y), u16(0, 0x8001, 0))
    assert [number(int(g), "f16") for g in got] == [1 + 2.0**-9, 1.5 + 2.0**-10, 1.5 + 2.0**-9]


@pytest.mark.parametrize(("kind", "one", "infinity"), [("f16", 0x3C00, 0x7C00), ("bf16", 0x3F80, 0x7F80)])
def test_special_values(kind: str, one: int, infinity: int) -> None:
    """The NaN that comes out is 0x7FFF."""
    minus = 0x8000
    a = u16(infinity | 1, infinity, infinity, minus, one)
    b = u16(one, infinity | minus, one, minus, one | minus)
    assert apply(f"add.{kind}", "u2", a, b).tolist() == [0x7FFF, 0x7FFF, infinity, minus, 0]
    assert apply(f"mul.{kind}", "u2", a, b).tolist() == [0x7FFF, infinity | minus, infinity, 0, one | minus]
    assert apply(f"fma.rn.relu.{kind}", "u2", a, b, u16(0, 0, 0, 0, 0)).tolist() == [0x7FFF, 0, infinity, 0, 0]
    assert apply(f"min.{kind}", "u2", a, b).tolist() == [one, infinity | minus, one, minus, one | minus]
    assert apply(f"max.NaN.{kind}", "u2", a, b).tolist() == [0x7FFF, infinity, infinity, minus, one]
    assert apply(f"max.{kind}", "u2", u16(0, minus), u16(minus, 0)).tolist() == [0, 0]
    got = apply(f"min.xorsign.abs.{kind}", "u2", u16(one | minus, one, infinity | 1), u16(infinity, one, infinity | 3))
    assert got.tolist() == [one | minus, one, 0x7FFF]
    assert apply(f"neg.{kind}", "u2", a).tolist() == [0x7FFF, infinity | minus, infinity | minus, 0, one | minus]
    assert apply(f"abs.{kind}", "u2", b).tolist() == [one, infinity, one, 0, one]


def test_flush_and_saturate() -> None:
    """2^-14 is the least normal f16: 0x0400. 2^-14 (1 - 2^-11) is subnormal, and flushed, as on an H200."""
    a = u16(0x03FF, 0x83FF, 0x3BFF, 0xBBFF, 0x4000, 0xC000, 0x7C01)
    b = u16(0x3C00, 0x3C00, 0x0400, 0x0400, 0x3C00, 0x3C00, 0x3C00)
    # 0x3BFF is 1 - 2^-11: times 2^-14 it rounds to 2^-14
    assert apply("mul.f16", "u2", a, b).tolist() == [0x3FF, 0x83FF, 0x400, 0x8400, 0x4000, 0xC000, 0x7FFF]
    assert apply("mul.ftz.f16", "u2", a, b).tolist() == [0, 0x8000, 0, 0x8000, 0x4000, 0xC000, 0x7FFF]
    assert apply("mul.ftz.sat.f16", "u2", a, b).tolist() == [0, 0, 0, 0, 0x3C00, 0, 0]
    assert apply("mul.sat.f16", "u2", a, b).tolist() == [0x3FF, 0, 0x400, 0, 0x3C00, 0, 0]
    zero = np.zeros(7, "u2")
    assert apply("fma.rn.ftz.sat.f16", "u2", a, b, zero).tolist() == [0, 0, 0, 0, 0x3C00, 0, 0]
    # 2^-14 (1 + 2^-6)(1 - 2^-6) is 2^-14 in 11 bits, which is no subnormal number
    a, b = u16(pattern(2.0**-4 * (1 + 2.0**-6), "f16")), u16(pattern(2.0**-10 * (1 - 2.0**-6), "f16"))
    assert apply("mul.ftz.f16", "u2", a, b).tolist() == [0x400]
    assert apply("neg.ftz.f16", "u2", u16(0x3FF, 0x83FF)).tolist() == [0x8000, 0]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_packed_is_two_scalars(kind: str) -> None:
    a, b, c = finite(128, 3, kind, 9)
    for name in ("add", "mul", "sub", "min", "max.NaN", "fma.rn", "fma.rn.relu"):
        operands = [a, b, c] if name.startswith("fma") else [a, b]
        got = apply(f"{name}.{kind}x2", "u4", *[x.view("u4") for x in operands])
        assert (got.view("u2") == apply(f"{name}.{kind}", "u2", *operands)).all()
    for name in ("neg", "abs", "tanh.approx"):
        got = apply(f"{name}.{kind}x2", "u4", a.view("u4"))
        assert (got.view("u2") == apply(f"{name}.{kind}", "u2", a)).all()


def test_halves_by_hand() -> None:
    """{1, 2} + {3, -0.5}: the first element is in the lower half."""
    a, b = np.array([0x40003C00], "u4"), np.array([0xB8004200], "u4")
    assert apply("add.f16x2", "u4", a, b).tolist() == [0x3E004400]
    a, b = np.array([0x40003F80], "u4"), np.array([0xBF004040], "u4")
    assert apply("add.rn.bf16x2", "u4", a, b).tolist() == [0x3FC04080]


@pytest.mark.parametrize("name", ["add.ftz.bf16", "add.rz.f16", "mul.sat.bf16", "fma.rn.sat.bf16"])
def test_what_the_isa_does_not_have(name: str) -> None:
    operands = [u16(0)] * (3 if name.startswith("fma") else 2)
    with pytest.raises(NotModelled):
        apply(name, "u2", *operands)


@pytest.mark.parametrize(("kind", "one"), [("f16", 0x3C00), ("bf16", 0x3F80)])
def test_out_of_bounds(kind: str, one: int) -> None:
    """0x7FF7 of either sign is what a tensor copy fills with; as c it is any NaN."""
    a, b = u16(0x7FF7, one, 0xFFF7, one, 0x7FF6), u16(one, 0x7FF7, one, one, one)
    c = u16(one, one, 0x7FF7, 0x7FF7, one)
    assert apply(f"fma.rn.oob.{kind}", "u2", a, b, c).tolist() == [0, 0, 0, 0x7FFF, 0x7FFF]
    assert apply(f"fma.rn.oob.relu.{kind}", "u2", a, b | u16(0x8000), c).tolist() == [0, 0, 0, 0x7FFF, 0x7FFF]
