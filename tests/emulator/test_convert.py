"""cvt among integers and floats, pairs of narrow floats, tf32, cvt.pack (PTX ISA 9.7.9.21, 9.7.9.22)."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from scalec.emulator.findings import Finding, NotModelled

from .elementwise import apply, f32, u16
from .rational import nearest

INF, NAN = math.inf, math.nan
ROUNDINGS = ("rn", "rz", "rm", "rp")
DTYPES = {"f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype("f4"), "f64": np.dtype("f8")}
BLACKWELL = {"target": "sm_100a"}


def hexes(values: np.ndarray) -> list[str]:
    return [f"{int(v):x}" for v in values]


# -- integers ----------------------------------------------------------------------------------------------------------


def test_integers_wrap_or_saturate() -> None:
    a = np.array([300, -300, 70000, -1, 127, -128], "i4")
    assert apply("cvt.s16.s32", "i2", a).tolist() == [300, -300, 70000 - 65536, -1, 127, -128]
    assert apply("cvt.sat.s16.s32", "i2", a).tolist() == [300, -300, 32767, -1, 127, -128]
    assert apply("cvt.sat.u16.s32", "u2", a).tolist() == [300, 0, 65535, 0, 127, 0]
    assert apply("cvt.sat.u32.s32", "u4", a).tolist() == [300, 0, 70000, 0, 127, 0]
    assert apply("cvt.s64.s32", "i8", a).tolist() == a.tolist()
    assert apply("cvt.u64.u32", "u8", a.view("u4")).tolist() == [300, 2**32 - 300, 70000, 2**32 - 1, 127, 2**32 - 128]
    # 8 bits live in wider registers: signed results are extended by their sign (9.7.9.21, Notes)
    assert apply("cvt.s8.s32", "i4", a).tolist() == [44, -44, 112, -1, 127, -128]
    assert apply("cvt.u8.s32", "i4", a).tolist() == [44, 212, 112, 255, 127, 128]
    assert apply("cvt.sat.s8.s32", "i4", a).tolist() == [127, -128, 127, -1, 127, -128]
    assert apply("cvt.s32.s8", "i4", u16(0x1FF, 0x80, 0x7F)).tolist() == [-1, -128, 127]
    assert apply("cvt.u32.u8", "u4", u16(0x1FF, 0x80, 0x7F)).tolist() == [255, 128, 127]
    big = np.array([2**63 - 1, -(2**63), 5], "i8")
    assert apply("cvt.sat.s32.s64", "i4", big).tolist() == [2**31 - 1, -(2**31), 5]
    assert apply("cvt.sat.u32.u64", "u4", big.view("u8")).tolist() == [2**32 - 1, 2**32 - 1, 5]
    assert apply("cvt.sat.s64.u64", "i8", big.view("u8")).tolist() == [2**63 - 1, 2**63 - 1, 5]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64"])
def test_integers_to_floats(source: str, kind: str, rounding: str) -> None:
    generator = np.random.default_rng(3)
    bits = int(source[1:])
    pattern = generator.integers(0, 2**63, 128, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    pattern >>= generator.integers(64 - bits, 64, 128).astype(np.uint64)
    pattern[:4] = [1, (1 << (bits - 1)) + 1, (1 << bits) - 1, (1 << 25) + 1]
    a = pattern.astype(f"u{bits // 8}").view(f"{'i' if source[0] == 's' else 'u'}{bits // 8}")
    got = apply(f"cvt.{rounding}.{kind}.{source}", f"u{DTYPES[kind].itemsize}", a).view(DTYPES[kind]).astype("f8")
    assert got.tolist() == [nearest(Fraction(v), kind, rounding) for v in a.tolist()]


def test_floats_to_integers() -> None:
    a = f32(2.5, 3.5, -2.5, -0.5, 3e9, -3e9, INF, -INF, NAN)
    top, low = 2**31 - 1, -(2**31)
    assert apply("cvt.rni.s32.f32", "i4", a).tolist() == [2, 4, -2, 0, top, low, top, low, 0]
    assert apply("cvt.rzi.s32.f32", "i4", a).tolist() == [2, 3, -2, 0, top, low, top, low, 0]
    assert apply("cvt.rmi.s32.f32", "i4", a).tolist() == [2, 3, -3, -1, top, low, top, low, 0]
    assert apply("cvt.rpi.s32.f32", "i4", a).tolist() == [3, 4, -2, 0, top, low, top, low, 0]
    assert apply("cvt.rni.u32.f32", "u4", a).tolist() == [2, 4, 0, 0, 3 * 10**9, 0, 2**32 - 1, 0, 0]
    assert apply("cvt.rzi.s8.f32", "i4", a).tolist() == [2, 3, -2, 0, 127, -128, 127, -128, 0]
    # 64 bits, or from f64: NaN is the highest bit alone
    assert apply("cvt.rzi.s64.f32", "i8", a)[4:].tolist() == [3 * 10**9, -3 * 10**9, 2**63 - 1, -(2**63), -(2**63)]
    assert apply("cvt.rzi.u64.f32", "u8", a)[4:].tolist() == [3 * 10**9, 0, 2**64 - 1, 0, 2**63]
    d = np.array([2.0**63, 2.0**63 - 1024, -(2.0**63), 1e300, NAN, 2.0**64 - 2048])
    assert apply("cvt.rzi.s64.f64", "i8", d).tolist() == [
        2**63 - 1, 2**63 - 1024, -(2**63), 2**63 - 1, -(2**63), 2**63 - 1,
    ]  # fmt: skip
    assert apply("cvt.rzi.u64.f64", "u8", d).tolist() == [2**63, 2**63 - 1024, 0, 2**64 - 1, 2**63, 2**64 - 2048]
    assert apply("cvt.rzi.s32.f64", "i4", d)[4] == low
    assert apply("cvt.rni.u16.f16", "u2", np.array([2.5, -1, INF, NAN], "f2").view("u2")).tolist() == [2, 0, 65535, 0]
    tiny = f32(2.0**-130, -(2.0**-130))
    assert apply("cvt.rpi.s32.f32", "i4", tiny).tolist() == [1, 0]
    assert apply("cvt.rpi.ftz.s32.f32", "i4", tiny).tolist() == [0, 0]


# -- floats ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(
    ("source", "to"),
    [
        ("f32", "f16"),
        ("f32", "bf16"),
        ("f64", "f32"),
        ("f64", "f16"),
        ("f64", "bf16"),
        ("f16", "bf16"),
        ("bf16", "f16"),
    ],
)
def test_floats_to_floats(source: str, to: str, rounding: str) -> None:
    generator = np.random.default_rng(4)
    value = generator.standard_normal(256) * np.exp2(generator.uniform(-30, 18, 256))
    value[::3] = np.round(value[::3] * 2.0**12) * 2.0**-12 + 2.0**-40  # next to ties
    with np.errstate(over="ignore"):
        a = value.astype(DTYPES[source])
    a[(a == 0) | np.isinf(a)] = 1
    got = apply(f"cvt.{rounding}.{to}.{source}", f"u{DTYPES[to].itemsize}", a.view(f"u{a.itemsize}"))
    expected = [nearest(Fraction(float(v)), to, rounding) for v in a.astype("f8").tolist()]
    assert got.view(DTYPES[to]).astype("f8").tolist() == expected


def test_double_rounding() -> None:
    """1 + 2^-8 + 2^-40 is over the middle of two bf16; float32 does not see the 2^-40."""
    a = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40, 1 + 2.0**-8, 1 + 3 * 2.0**-8])
    assert hexes(apply("cvt.rn.bf16.f64", "u2", a)) == ["3f81", "3f80", "3f80", "3f82"]
    a = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11 - 2.0**-40])
    assert hexes(apply("cvt.rn.f16.f64", "u2", a)) == ["3c01", "3c00"]


def test_integral_values() -> None:
    a = f32(2.5, -2.5, -0.25, 0.75, INF, 1e10)
    for rounding, expected in {
        "rni": f32(2, -2, -0.0, 1, INF, 1e10),
        "rzi": f32(2, -2, -0.0, 0, INF, 1e10),
        "rmi": f32(2, -3, -1, 0, INF, 1e10),
        "rpi": f32(3, -2, -0.0, 1, INF, 1e10),
    }.items():
        assert hexes(apply(f"cvt.{rounding}.f32.f32", "u4", a)) == hexes(expected.view("u4"))
    assert hexes(apply("cvt.rmi.f16.f16", "u2", u16(0xC100, 0x7C01))) == ["c200", "7fff"]
    assert apply("cvt.rpi.f64.f64", "f8", np.array([-1.5, 1.5])).tolist() == [-1, 2]


def test_modifiers() -> None:
    a = f32(2, -1, 0.5, NAN, 1e30, -1e30, -0.0)
    assert hexes(apply("cvt.rn.sat.f16.f32", "u2", a)) == ["3c00", "0", "3800", "0", "3c00", "0", "0"]
    assert hexes(apply("cvt.rn.relu.f16.f32", "u2", a)) == ["4000", "0", "3800", "7fff", "7c00", "0", "0"]
    assert hexes(apply("cvt.rn.satfinite.f16.f32", "u2", a)) == ["4000", "bc00", "3800", "7fff", "7bff", "fbff", "8000"]
    assert hexes(apply("cvt.rn.relu.satfinite.bf16.f32", "u2", f32(INF, -INF, NAN))) == ["7f7f", "0", "7fff"]
    assert hexes(apply("cvt.rz.f16.f32", "u2", a[4:6])) == ["7bff", "fbff"]
    assert apply("cvt.sat.f32.f32", "f4", a).tolist() == [1, 0, 0.5, 0, 1, 0, 0]
    tiny = 2.0**-130
    assert hexes(apply("cvt.ftz.f32.f32", "u4", f32(tiny, -tiny))) == ["0", "80000000"]
    assert apply("cvt.ftz.f64.f32", "f8", f32(tiny, 1)).tolist() == [0, 1]
    assert apply("cvt.rn.ftz.f32.f64", "f4", np.array([tiny, 1.0])).tolist() == [0, 1]
    # 2^-126 (1 - 2^-24) is subnormal, though it is rounded to 2^-126; 2^-126 (1 - 2^-26) is 2^-126 in 24 bits
    edge = np.array([2.0**-126 * (1 - 2.0**-24), 2.0**-126 * (1 - 2.0**-26)])
    assert apply("cvt.rn.ftz.f32.f64", "f4", edge).tolist() == [0, 2.0**-126]


def test_widening() -> None:
    a = u16(0x3C00, 0x0001, 0x7C00, 0xFE01, 0x8000)
    assert hexes(apply("cvt.f32.f16", "u4", a)) == ["3f800000", "33800000", "7f800000", "7fffffff", "80000000"]
    assert hexes(apply("cvt.f32.bf16", "u4", u16(0x3F80, 0x0001, 0xFF80))) == ["3f800000", "10000", "ff800000"]
    assert apply("cvt.f64.f16", "f8", a)[:3].tolist() == [1, 2.0**-24, INF]


def test_tf32() -> None:
    """10 bits of mantissa: 2^-11 is half a unit of 1."""
    a = f32(1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-11 - 2.0**-23, -1 - 2.0**-11)
    one = 0x3F800000
    unit = 0x2000
    assert apply("cvt.rna.tf32.f32", "u4", a).tolist() == [one + unit, one + 2 * unit, one, one + unit | 1 << 31]
    assert apply("cvt.rn.tf32.f32", "u4", a).tolist() == [one, one + 2 * unit, one, one | 1 << 31]
    assert apply("cvt.rz.relu.tf32.f32", "u4", a).tolist() == [one, one + unit, one, 0]
    ends = f32(float.fromhex("0x1.fffffep127"), -INF)
    assert hexes(apply("cvt.rna.tf32.f32", "u4", ends)) == ["7f800000", "ff800000"]
    assert hexes(apply("cvt.rna.satfinite.tf32.f32", "u4", ends)) == ["7f7fe000", "ff7fe000"]
    assert hexes(apply("cvt.rn.satfinite.tf32.f32", "u4", f32(INF, NAN), **BLACKWELL)) == ["7f7fe000", "7fffe000"]


@pytest.mark.parametrize(
    "name",
    [
        "cvt.f32.s32",
        "cvt.s32.f32",
        "cvt.rn.f32.f16",
        "cvt.f16.f32",
        "cvt.rni.f16.f32",
        "cvt.rn.s32.u32",
        "cvt.tf32.f32",
    ],
)
def test_roundings_that_are_missing_or_too_many(name: str) -> None:
    to, source = name.split(".")[-2:]
    dtype = {"f16": "u2"}.get(source, "u4")
    with pytest.raises(Finding, match="illegal"):
        apply(name, {"f16": "u2"}.get(to, "u4"), np.zeros(1, dtype))


# -- pairs -------------------------------------------------------------------------------------------------------------


def test_first_operand_is_the_upper_half() -> None:
    a, b = f32(1, NAN, 1 + 2.0**-8, -1), f32(2, 0.5, -INF, 1e30)
    assert hexes(apply("cvt.rn.f16x2.f32", "u4", a, b)) == ["3c004000", "7fff3800", "3c04fc00", "bc007c00"]
    assert hexes(apply("cvt.rn.bf16x2.f32", "u4", a, b)) == ["3f804000", "7fff3f00", "3f80ff80", "bf80714a"]
    assert hexes(apply("cvt.rz.relu.satfinite.f16x2.f32", "u4", a, b)) == ["3c004000", "7fff3800", "3c040000", "7bff"]


def encode(name: str, a: list[float], b: list[float], result: str = "u2", **options: str) -> list[str]:
    return hexes(apply(name, result, f32(*a), f32(*b), **options))


def test_fp8() -> None:
    """e4m3: largest 448 = 0x7E, NaN 0x7F, units 2^-9 below 2^-6. e5m2: largest 57344 = 0x7B, units 2^-16."""
    name = "cvt.rn.satfinite.e4m3x2.f32"
    assert encode(name, [1, 448, 1e9, NAN, -0.0], [-2, 2.0**-9, -INF, 464, 2.0**-10]) == [
        "38c0", "7e01", "7efe", "7f7e", "8000",
    ]  # fmt: skip
    # ties: 1.0625 is between 1 and 1.125, 1.1875 between 1.125 and 1.25
    assert encode(name, [1.0625, 3 * 2.0**-10], [1.1875, -5 * 2.0**-10]) == ["383a", "282"]
    assert encode("cvt.rn.satfinite.relu.e4m3x2.f32", [-1, NAN, -0.0], [1, -INF, -1e-9]) == ["38", "7f00", "0"]
    assert encode("cvt.rn.satfinite.e5m2x2.f32", [1, INF, NAN], [-57344, -1e9, 2.0**-16]) == ["3cfb", "7bfb", "7f01"]
    halves = np.array([0x3C00C000, 0x7C00FE00, 0x5F400001], "u4")  # {1, -2}, {infinity, NaN}, {464, 2^-24}
    assert hexes(apply("cvt.rn.satfinite.e4m3x2.f16x2", "u2", halves)) == ["38c0", "7e7f", "7e00"]
    brains = np.array([0x3F80C000, 0x7F80FFC0], "u4")
    assert hexes(apply("cvt.rn.satfinite.e5m2x2.bf16x2", "u2", brains, **BLACKWELL)) == ["3cc0", "7b7f"]
    got = apply("cvt.rn.f16x2.e4m3x2", "u4", u16(0x38C0, 0x7F01, 0xFE08))
    assert hexes(got) == ["3c00c000", "7fff1800", "df002400"]
    assert hexes(apply("cvt.rn.f16x2.e5m2x2", "u4", u16(0x3CC0, 0x7CFD, 0x0180))) == ["3c00c000", "7c007fff", "1008000"]
    assert hexes(apply("cvt.rn.relu.f16x2.e4m3x2", "u4", u16(0x38C0))) == ["3c000000"]
    got = apply("cvt.rn.bf16x2.e4m3x2", "u4", u16(0x38C0, 0x7F01, 0xFE08), **BLACKWELL)
    assert hexes(got) == ["3f80c000", "7fff3b00", "c3e03c80"]
    got = apply("cvt.rn.relu.bf16x2.e5m2x2", "u4", u16(0x3CC0, 0x7CFD, 0x0180), **BLACKWELL)
    assert hexes(got) == ["3f800000", "7f807fff", "37800000"]


def test_fp6_and_fp4() -> None:
    """e2m3: largest 7.5 = 0x1F, units 1/8. e3m2: largest 28, units 1/16. e2m1: largest 6 = 7, units 1/2; no NaN."""
    assert encode("cvt.rn.satfinite.e2m3x2.f32", [1, 9, NAN], [-0.125, -7.5, 0.0625], **BLACKWELL) == [
        "821", "1f3f", "1f00",
    ]  # fmt: skip
    assert encode("cvt.rn.satfinite.e3m2x2.f32", [1, 99, NAN], [-0.0625, -28, 14], **BLACKWELL) == [
        "c21", "1f3f", "1f1b",
    ]  # fmt: skip
    name = "cvt.rn.satfinite.e2m1x2.f32"
    text = "{{ .reg .b8 e; " + name + " e, {0}, {1}; cvt.u32.u8 {d}, e; }}"
    got = apply(text, "u4", f32(1, 5, NAN, 0.25, 0.75), f32(-6, 2.5, -9, -0.25, 3.5), **BLACKWELL)
    # 5 is a tie of 4 and 6, 2.5 of 2 and 3, 0.25 of 0 and 0.5, 0.75 of 0.5 and 1, 3.5 of 3 and 4: to even mantissas
    assert hexes(got) == ["2f", "64", "7f", "8", "26"]
    text = "{{ .reg .b8 e; cvt.u8.u32 e, {0}; cvt.rn.f16x2.e2m1x2 {d}, e; }}"
    assert hexes(apply(text, "u4", np.array([0x2F, 0x91], "u4"), **BLACKWELL)) == ["3c00c600", "b8003800"]
    text = text.replace("f16x2", "bf16x2")
    assert hexes(apply(text, "u4", np.array([0x2F, 0x91], "u4"), **BLACKWELL)) == ["3f80c0c0", "bf003f00"]
    text = "{{ .reg .b8 e; cvt.rn.satfinite.e2m1x2.bf16x2 e, {0}; cvt.u32.u8 {d}, e; }}"
    assert hexes(apply(text, "u4", np.array([0x3F80C0C0, 0x40A04020], "u4"), **BLACKWELL)) == ["2f", "64"]
    assert hexes(apply("cvt.rn.satfinite.e2m3x2.f16x2", "u2", np.array([0x3C00B000], "u4"), **BLACKWELL)) == ["821"]
    assert hexes(apply("cvt.rn.f16x2.e2m3x2", "u4", u16(0x0821, 0x1F3F), **BLACKWELL)) == ["3c00b000", "4780c780"]
    assert hexes(apply("cvt.rn.relu.f16x2.e3m2x2", "u4", u16(0x0C21), **BLACKWELL)) == ["3c000000"]
    with pytest.raises(Finding, match="sm_90a"):
        apply("cvt.rn.f16x2.e2m3x2", "u4", u16(0))


def test_scales() -> None:
    """ue8m0 is 2^(byte - 127); .rz and .rp of the magnitude; 0xFF is NaN."""
    least = 2.0**-127
    a = [1.0, 1.5, -3.0, 0.0, least, least * 1.25, INF, NAN, 2.0**127 * 1.5]
    zero = [0.0] * len(a)
    down = ["7f", "7f", "80", "0", "0", "0", "ff", "ff", "fe"]
    up = ["7f", "80", "81", "0", "0", "1", "ff", "ff", "ff"]
    assert encode("cvt.rz.ue8m0x2.f32", zero, a, **BLACKWELL) == down
    assert encode("cvt.rp.ue8m0x2.f32", zero, a, **BLACKWELL) == up
    limited = ["7f00", "8000", "8100", "0", "0", "100", "fe00", "ff00", "fe00"]
    assert encode("cvt.rp.satfinite.ue8m0x2.f32", a, zero, **BLACKWELL) == limited
    brains = np.array([0x3F803FC0, 0x7F8000C0], "u4")  # {1, 1.5}, {infinity, 1.5 * 2^-126}
    assert hexes(apply("cvt.rp.satfinite.ue8m0x2.bf16x2", "u2", brains, **BLACKWELL)) == ["7f80", "fe02"]
    got = apply("cvt.rn.bf16x2.ue8m0x2", "u4", u16(0x7F80, 0x00FF, 0x01FE), **BLACKWELL)
    assert hexes(got) == ["3f804000", "407fff", "807f00"]


def test_stochastic_rounding_is_not_modelled() -> None:
    with pytest.raises(NotModelled, match="rs"):
        apply("cvt.rs.bf16x2.f32", "u4", f32(1), f32(1), np.zeros(1, "u4"), **BLACKWELL)


def test_pack() -> None:
    """b is lowest; c moves up (the figures are the ISA's example of u8 by four)."""
    a, b = np.array([70000, -5], "i4"), np.array([1, -70000], "i4")
    assert hexes(apply("cvt.pack.sat.s16.s32", "u4", a, b)) == ["7fff0001", "fffb8000"]
    assert hexes(apply("cvt.pack.sat.u16.s32", "u4", a, b)) == ["ffff0001", "0"]
    c = np.array([0x11223344, 0x11223344], "u4")
    assert hexes(apply("cvt.pack.sat.u8.s32.b32", "u4", a, b, c)) == ["3344ff01", "33440000"]
    assert hexes(apply("cvt.pack.sat.s8.s32.b32", "u4", a, b, c)) == ["33447f01", "3344fb80"]
    assert hexes(apply("cvt.pack.sat.s4.s32.b32", "u4", a, b, c)) == ["22334471", "223344b8"]
    assert hexes(apply("cvt.pack.sat.u2.s32.b32", "u4", a, b, c)) == ["1223344d", "12233440"]
