"""Approximations: within the ISA's bounds, special values as in its tables (PTX ISA 9.7.3.13 to 9.7.3.22, 9.7.4.9)."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from .elementwise import apply, f32

INF, NAN = math.inf, math.nan
LEAST = 2.0**-126
SUBNORMAL = 2.0**-130


def check(name: str, cases: dict[float, float], kind: str = "f4") -> None:
    """Results by operand; NaN stands for 0x7FFFFFFF."""
    got = apply(name, kind, np.array(list(cases), kind))
    for (operand, expected), value in zip(cases.items(), got, strict=True):
        if math.isnan(expected):
            assert np.array([value], kind).view("u4")[0] == 0x7FFFFFFF, (name, operand)
        else:
            assert (value, np.signbit(value)) == (expected, np.signbit(expected)), (name, operand)


@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_tables(ftz: str) -> None:
    check(f"rcp.approx{ftz}.f32", {-INF: -0.0, 0.0: INF, INF: 0.0, NAN: NAN, 4.0: 0.25, -LEAST: -(2.0**126)})
    check(f"sqrt.approx{ftz}.f32", {-INF: NAN, -1.0: NAN, 0.0: 0.0, INF: INF, NAN: NAN, 16.0: 4.0})
    check(f"rsqrt.approx{ftz}.f32", {-INF: NAN, -1.0: NAN, 0.0: INF, INF: 0.0, NAN: NAN, 16.0: 0.25})
    check(f"sin.approx{ftz}.f32", {-INF: NAN, 0.0: 0.0, INF: NAN, NAN: NAN})
    check(f"cos.approx{ftz}.f32", {-INF: NAN, 0.0: 1.0, INF: NAN, NAN: NAN})
    check(f"lg2.approx{ftz}.f32", {-INF: NAN, -1.0: NAN, 0.0: -INF, INF: INF, NAN: NAN, 1.0: 0.0, 0.125: -3.0})
    check(f"ex2.approx{ftz}.f32", {-INF: 0.0, 0.0: 1.0, INF: INF, NAN: NAN, 3.0: 8.0, -2.0: 0.25, 128.0: INF})
    for name, zero in (("rcp", -INF), ("sqrt", -0.0), ("rsqrt", -INF), ("sin", -0.0), ("cos", 1.0), ("lg2", -INF)):
        check(f"{name}.approx{ftz}.f32", {-0.0: zero})
    check("tanh.approx.f32", {-INF: -1.0, 0.0: 0.0, INF: 1.0, NAN: NAN, SUBNORMAL: SUBNORMAL})
    check("tanh.approx.f32", {-0.0: -0.0})


def test_subnormal_operands_and_results() -> None:
    check("rcp.approx.f32", {2.0**127: 2.0**-127, 2.0**-127: 2.0**127})
    check("rcp.approx.ftz.f32", {2.0**127: 0.0, -(2.0**127): -0.0, 2.0**-127: INF, -(2.0**-127): -INF})
    check("ex2.approx.f32", {-127.0: 2.0**-127, -150.0: 0.0, -SUBNORMAL: 1.0})
    check("ex2.approx.ftz.f32", {-127.0: 0.0, -SUBNORMAL: 1.0})
    check("lg2.approx.f32", {2.0**-130: -130.0})
    check("lg2.approx.ftz.f32", {2.0**-130: -INF})
    check("sqrt.approx.f32", {2.0**-130: 2.0**-65})
    check("sqrt.approx.ftz.f32", {2.0**-130: 0.0})


def ulps(got: np.ndarray, exact: np.ndarray) -> float:
    """The largest error in units of the last place of the exact result."""
    unit = np.spacing(np.abs(exact).astype(got.dtype)).astype("f8")
    return float(np.max(np.abs(got.astype("f8") - exact) / unit))


@pytest.mark.parametrize(
    ("name", "function", "low", "high", "bound"),
    [
        ("rcp", lambda x: 1 / x, 1e-30, 1e30, 1),
        ("rsqrt", lambda x: x**-0.5, 1e-30, 1e30, 2),
        ("sqrt", lambda x: x**0.5, 1e-30, 1e30, 1),
        ("ex2", lambda x: 2.0**x, -120, 120, 2),
        ("lg2", lambda x: np.log(x) / math.log(2), 2, 1e30, 4),
    ],
)
def test_bounds(name: str, function: Callable, low: float, high: float, bound: float) -> None:
    a = np.random.default_rng(1).uniform(low, high, 512).astype("f4")
    assert ulps(apply(f"{name}.approx.f32", "f4", a), function(a.astype("f8"))) <= bound


def test_angles() -> None:
    a = np.linspace(-6.25, 6.25, 512, dtype="f4")
    for name, function in (("sin", np.sin), ("cos", np.cos)):
        assert np.max(np.abs(apply(f"{name}.approx.f32", "f4", a) - function(a.astype("f8")))) < 2.0**-20.5
    tanh = np.tanh(a.astype("f8"))
    assert np.max(np.abs(apply("tanh.approx.f32", "f4", a) / tanh - 1)) < 2.0**-11


def test_quotients() -> None:
    """|b| over 2^126: div.approx gives 0, and NaN of infinity; div.full divides."""
    a = f32(6, -6, 1, INF, 2.0**127, -1, 1, INF)
    b = f32(3, 4, 2.0**127, 2.0**127, 2.0**127, 2.0**127, 0, 2.0**100)
    got = apply("div.approx.f32", "f4", a, b)
    assert got[[0, 1, 2, 4, 6, 7]].tolist() == [2, -1.5, 0, 0, INF, INF]
    assert got.view("u4")[3] == 0x7FFFFFFF
    assert got.view("u4")[5] == 0x80000000
    got = apply("div.full.f32", "f4", a, b)
    assert got.tolist() == [2, -1.5, 2.0**-127, INF, 1, -(2.0**-127), INF, INF]
    got = apply("div.full.ftz.f32", "f4", a, b)
    assert got.tolist() == [2, -1.5, 0, INF, 1, 0, INF, INF]


def test_halves() -> None:
    """Operands 1, -infinity, infinity, NaN, -0, 2."""
    a = np.array([0x3C00, 0xFC00, 0x7C00, 0x7E01, 0x8000, 0x4000], "u2")
    assert apply("ex2.approx.f16", "u2", a).tolist() == [0x4000, 0, 0x7C00, 0x7FFF, 0x3C00, 0x4400]
    got = apply("tanh.approx.f16", "u2", a)
    assert got[1:5].tolist() == [0xBC00, 0x3C00, 0x7FFF, 0x8000]
    assert abs(float(got.view("f2")[0]) - math.tanh(1)) < 2.0**-10.987
    a = np.array([0x3F80, 0xFF80, 0x7F80, 0x7F81, 0x8001, 0x4000, 0xC2FE], "u2")  # the last one is -127
    assert apply("ex2.approx.ftz.bf16", "u2", a).tolist() == [0x4000, 0, 0x7F80, 0x7FFF, 0x3F80, 0x4080, 0]
    got = apply("tanh.approx.bf16", "u2", a)
    assert got[1:5].tolist() == [0xBF80, 0x3F80, 0x7FFF, 0x8001]
    assert abs(float(got.view(ml_dtypes.bfloat16)[0]) - math.tanh(1)) < 2.0**-8


def test_doubles() -> None:
    """Only the upper words count; NaN is 0x7FFFFFFF00000000; subnormal numbers are zeros."""
    a = np.array(
        [0x3FF8000000000000, 0x7FEFFFFFFFFFFFFF, 0x8000000000000001, 0x7FF8000000000005, 0x7FF0000000000001], "u8"
    )
    got = apply("rcp.approx.ftz.f64", "u8", a)
    assert got.tolist() == [0x3FE5555500000000, 0, 0xFFF0000000000000, 0x7FFFFFFF00000000, 0]
    a = np.array([0x4010000000000000, 0xC010000000000000, 0x8000000000000001, 0x0000000000000001], "u8")
    got = apply("rsqrt.approx.ftz.f64", "u8", a)
    assert got.tolist() == [0x3FE0000000000000, 0x7FFFFFFF00000000, 0xFFF0000000000000, 0x7FF0000000000000]
    assert apply("rsqrt.approx.f64", "f8", np.array([0.25, 2.0**-1074 * 4])).tolist() == [2.0, 2.0**536]
