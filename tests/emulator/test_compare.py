"""set, setp, selp, slct: PTX ISA 9.7.6 and 9.7.7, 9.3.1 for comparisons with NaN."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import PtxSyntaxError
from tests.emulator.lanewise import f32, lanes, u16, u32, u64

NAN = float("nan")
T, F = True, False


@pytest.mark.parametrize(
    ("operator", "expected"),
    [("eq", [F, F, T]), ("ne", [T, T, F]), ("lt", [T, F, F]), ("le", [T, F, T]), ("gt", [F, T, F]), ("ge", [F, T, T])],
)
def test_signed(operator, expected):
    assert lanes(f"setp.{operator}.s32 d, a, b;", a=u32(-1, 1, 7), b=u32(1, -1, 7), d="pred").tolist() == expected


@pytest.mark.parametrize(
    ("operator", "expected"),
    [("lt", [F, T, F]), ("lo", [F, T, F]), ("ls", [F, T, T]), ("hi", [T, F, F]), ("hs", [T, F, T]), ("ge", [T, F, T])],
)
def test_unsigned(operator, expected):
    assert lanes(f"setp.{operator}.u32 d, a, b;", a=u32(-1, 1, 7), b=u32(1, -1, 7), d="pred").tolist() == expected


@pytest.mark.parametrize(
    ("operator", "expected"),  # of (1, 2), (2, 2), (3, 2), (NaN, 2), (-0, 0)
    [
        ("eq", [F, T, F, F, T]), ("ne", [T, F, T, F, F]), ("lt", [T, F, F, F, F]), ("le", [T, T, F, F, T]),
        ("gt", [F, F, T, F, F]), ("ge", [F, T, T, F, T]), ("equ", [F, T, F, T, T]), ("neu", [T, F, T, T, F]),
        ("ltu", [T, F, F, T, F]), ("leu", [T, T, F, T, T]), ("gtu", [F, F, T, T, F]), ("geu", [F, T, T, T, T]),
        ("num", [T, T, T, F, T]), ("nan", [F, F, F, T, F]),
    ],
)  # fmt: skip
def test_floats_with_nan(operator, expected):
    a, b = [1, 2, 3, NAN, -0.0], [2, 2, 2, 2, 0.0]
    assert lanes(f"setp.{operator}.f32 d, a, b;", a=f32(*a), b=f32(*b), d="pred").tolist() == expected
    assert lanes(f"setp.{operator}.f64 d, a, b;", a=np.array(a), b=np.array(b), d="pred").tolist() == expected
    half, brain = u16(0x3C00, 0x4000, 0x4200, 0x7E00, 0x8000), u16(0x3F80, 0x4000, 0x4040, 0x7FC0, 0x8000)
    d = lanes(f"setp.{operator}.f16 d, a, b;", a=half, b=u16(*[0x4000] * 4, 0), d="pred")
    assert d.tolist() == expected
    d = lanes(f"setp.{operator}.bf16 d, a, b;", a=brain, b=u16(*[0x4000] * 4, 0), d="pred")
    assert d.tolist() == expected


def test_subnormals_are_zeros_with_ftz():
    tiny = u32(1, 0x80000001)
    assert lanes("setp.eq.f32 d, a, b;", a=tiny, b=u32(0), d="pred").tolist() == [F, F]
    assert lanes("setp.eq.ftz.f32 d, a, b;", a=tiny, b=u32(0), d="pred").tolist() == [T, T]
    assert lanes("setp.eq.ftz.f16 d, a, b;", a=u16(1, 0x0400), b=u16(0), d="pred").tolist() == [T, F]


def test_boolean_operators_and_the_second_predicate():
    # p = (a < b) op c, q = !(a < b) op c
    a, b, c = u32(1, 1, 3, 3), u32(2, 2, 2, 2), np.array([F, T, F, T])
    for operator, p, q in (
        ("and", [F, T, F, F], [F, F, F, T]),
        ("or", [T, T, F, T], [F, T, T, T]),
        ("xor", [T, F, F, T], [F, T, T, F]),
    ):
        found = lanes(f"setp.lt.{operator}.s32 d|e, a, b, c;", a=a, b=b, c=c, d="pred", e="pred")
        assert [v.tolist() for v in found] == [p, q]
    assert lanes("setp.lt.and.s32 d, a, b, !c;", a=a, b=b, c=c, d="pred").tolist() == [T, F, F, F]
    d, e = lanes("setp.lt.s32 d|e, a, b;", a=a, b=b, d="pred", e="pred")
    assert (d.tolist(), e.tolist()) == ([T, T, F, F], [F, F, T, T])
    assert lanes("setp.lt.s32 _|e, a, b;", a=a, b=b, e="pred").tolist() == [F, F, T, T]


def test_packed_halves_give_two_predicates():
    # low halves 1.0 < 2.0, high 2.0 < 1.0
    d, e = lanes("setp.lt.f16x2 d|e, a, b;", a=u32(0x4000_3C00), b=u32(0x3C00_4000), d="pred", e="pred")
    assert (d.tolist(), e.tolist()) == ([T], [F])
    d, e = lanes("setp.gt.bf16x2 d|e, a, b;", a=u32(0x4000_3F80), b=u32(0x3F80_4000), d="pred", e="pred")
    assert (d.tolist(), e.tolist()) == ([F], [T])


def test_set():
    a, b = u32(1, 3), u32(2, 2)
    assert lanes("set.lt.u32.s32 d, a, b;", a=a, b=b, d="u32").tolist() == [0xFFFFFFFF, 0]
    assert lanes("set.lt.f32.s32 d, a, b;", a=a, b=b, d="f32").tolist() == [1.0, 0.0]
    assert lanes("set.geu.s32.f32 d, a, b;", a=f32(NAN, 1), b=f32(0, 2), d="s32").tolist() == [-1, 0]
    d = lanes("set.lt.xor.u32.s32 d, a, b, c;", a=a, b=b, c=np.array([T, T]), d="u32")
    assert d.tolist() == [0, 0xFFFFFFFF]
    # 9.7.7.1: halves
    d = lanes("set.lt.f16x2.f16x2 d, a, b;", a=u32(0x4000_3C00), b=u32(0x3C00_4000), d="u32")
    assert d.tolist() == [0x0000_3C00]
    d = lanes("set.lt.u32.f16x2 d, a, b;", a=u32(0x4000_3C00), b=u32(0x3C00_4000), d="u32")
    assert d.tolist() == [0x0000_FFFF]
    assert lanes("set.gt.bf16.bf16 d, a, b;", a=u16(0x4000), b=u16(0x3F80), d="u16").tolist() == [0x3F80]
    assert lanes("set.gt.u16.f16 d, a, b;", a=u16(0x4000), b=u16(0x3C00), d="u16").tolist() == [0xFFFF]


def test_selp():
    c = np.array([T, F])
    assert lanes("selp.b32 d, a, b, c;", a=u32(1), b=u32(2), c=c, d="u32").tolist() == [1, 2]
    assert lanes("selp.f32 d, a, 0f40000000, c;", a=f32(1), c=c, d="f32").tolist() == [1, 2]
    assert lanes("selp.f64 d, 1.5, a, !c;", a=np.array([9.0]), c=c, d="f64").tolist() == [9.0, 1.5]
    assert lanes("selp.s32 d, -1, 5, c;", c=c, d="s32").tolist() == [-1, 5]
    assert lanes("selp.b64 d, a, b, c;", a=u64(-1), b=u64(2), c=c, d="s64").tolist() == [-1, 2]
    assert lanes("selp.u16 d, a, b, c;", a=u16(7), b=u16(8), c=c, d="u16").tolist() == [7, 8]


def test_slct():
    a, b = u32(1), u32(2)
    assert lanes("slct.u32.s32 d, a, b, c;", a=a, b=b, c=u32(0, 5, -1), d="u32").tolist() == [1, 1, 2]
    # -0.0 >= 0 holds, NaN >= 0 does not
    c = f32(-0.0, 1, -1, NAN)
    assert lanes("slct.u32.f32 d, a, b, c;", a=a, b=b, c=c, d="u32").tolist() == [1, 1, 2, 2]
    # -2^-149 is below zero, and with .ftz it is -0.0
    c = u32(0x80000001)
    assert lanes("slct.u32.f32 d, a, b, c;", a=a, b=b, c=c, d="u32").tolist() == [2]
    assert lanes("slct.ftz.u32.f32 d, a, b, c;", a=a, b=b, c=c, d="u32").tolist() == [1]


def test_comparisons_that_do_not_exist():
    with pytest.raises(PtxSyntaxError):
        lanes("setp.ltu.s32 d, a, a;", a=u32(1), d="pred")
    with pytest.raises(PtxSyntaxError):
        lanes("setp.lo.s32 d, a, a;", a=u32(1), d="pred")
