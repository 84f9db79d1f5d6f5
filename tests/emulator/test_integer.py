"""Integer arithmetic: PTX ISA 9.7.1 and 9.7.2, values worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import NotModelled
from tests.emulator.lanewise import lanes, u16, u32, u64

MOST = 0x7FFFFFFF
LEAST = -0x80000000


def test_sums_wrap():
    d = lanes("add.s32 d, a, b;", a=u32(1, MOST, -1, 5), b=u32(2, 1, 1, -7), d="s32")
    assert d.tolist() == [3, LEAST, 0, -2]
    d = lanes("sub.u32 d, a, b;", a=u32(1, 0), b=u32(2, 0x80000000), d="u32")
    assert d.tolist() == [0xFFFFFFFF, 0x80000000]
    d = lanes("add.u64 d, a, b;", a=u64(0xFFFFFFFF, -1), b=u64(1, 2), d="u64")
    assert d.tolist() == [1 << 32, 1]
    d = lanes("sub.s16 d, a, b;", a=u16(-32768, 3), b=u16(1, 5), d="s16")
    assert d.tolist() == [32767, -2]


def test_saturating_sums():
    d = lanes("add.sat.s32 d, a, b;", a=u32(MOST, LEAST, 5), b=u32(1, -1, -7), d="s32")
    assert d.tolist() == [MOST, LEAST, -2]
    d = lanes("sub.sat.s32 d, a, b;", a=u32(LEAST, MOST, 5), b=u32(1, -1, 7), d="s32")
    assert d.tolist() == [LEAST, MOST, -2]


def test_packed_sums():
    # halves do not carry into each other
    d = lanes("add.u16x2 d, a, b;", a=u32(0x0001_FFFF, 0xFFFF_0001), b=u32(0x0002_0001, 0x0001_0001), d="u32")
    assert d.tolist() == [0x0003_0000, 0x0000_0002]
    d = lanes("add.s16x2 d, a, b;", a=u32(0x0000_8000), b=u32(0xFFFF_8000), d="u32")
    assert d.tolist() == [0xFFFF_0000]


def test_products():
    a, b = u32(0xFFFFFFFF, 0x80000000, 0x10001), u32(0xFFFFFFFF, 2, 0x10001)
    assert lanes("mul.lo.u32 d, a, b;", a=a, b=b, d="u32").tolist() == [1, 0, 0x20001]
    # (2^32-1)^2 = 2^64 - 2^33 + 1
    assert lanes("mul.hi.u32 d, a, b;", a=a, b=b, d="u32").tolist() == [0xFFFFFFFE, 1, 1]
    # -1 * -1 = 1; -2^31 * 2 = -2^32; 0x10001^2 = 2^32 + 2^17 + 1
    assert lanes("mul.hi.s32 d, a, b;", a=a, b=b, d="s32").tolist() == [0, -1, 1]
    assert lanes("mul.wide.s32 d, a, b;", a=a, b=b, d="s64").tolist() == [1, -(1 << 32), 0x100020001]
    assert lanes("mul.wide.u32 d, a, b;", a=a, b=b, d="u64").tolist() == [
        0xFFFFFFFE00000001, 1 << 32, 0x100020001,
    ]  # fmt: skip
    assert lanes("mul.wide.u16 d, a, b;", a=u16(0xFFFF), b=u16(0xFFFF), d="u32").tolist() == [0xFFFE0001]
    assert lanes("mul.wide.s16 d, a, b;", a=u16(-32768), b=u16(-32768), d="s32").tolist() == [1 << 30]
    assert lanes("mul.hi.s16 d, a, b;", a=u16(-32768, 300), b=u16(-32768, 300), d="s16").tolist() == [1 << 14, 1]


def test_high_products_of_64_bits():
    big = (1 << 64) - 1
    d = lanes("mul.hi.u64 d, a, b;", a=u64(big, 1 << 63, 3), b=u64(big, 6, 5), d="u64")
    assert d.tolist() == [big - 1, 3, 0]
    # -1 * -1 = 1; -2^63 * 6 = -3 * 2^64; -3 * 5 = -15
    d = lanes("mul.hi.s64 d, a, b;", a=u64(-1, -(1 << 63), -3), b=u64(-1, 6, 5), d="s64")
    assert d.tolist() == [0, -3, -1]
    # all four partial products and their carries: 0x123456789abcdef0 * 0xfedcba9876543210
    a, b = 0x123456789ABCDEF0, 0xFEDCBA9876543210
    assert lanes("mul.hi.u64 d, a, b;", a=u64(a), b=u64(b), d="u64").tolist() == [a * b >> 64]
    assert lanes("mul.lo.s64 d, a, b;", a=u64(a), b=u64(b), d="u64").tolist() == [a * b & big]


def test_multiply_add():
    assert lanes("mad.lo.s32 d, a, b, c;", a=u32(3, -3), b=u32(5, 5), c=u32(-16, 1), d="s32").tolist() == [-1, -14]
    d = lanes("mad.hi.u32 d, a, b, c;", a=u32(0x80000000), b=u32(6), c=u32(0xFFFFFFFF), d="u32")
    assert d.tolist() == [2]
    d = lanes("mad.wide.s32 d, a, b, c;", a=u32(-2), b=u32(0x40000000), c=u64(1), d="s64")
    assert d.tolist() == [1 - (1 << 31)]
    d = lanes("mad.wide.u16 d, a, b, c;", a=u16(0xFFFF), b=u16(2), c=u32(3), d="u32")
    assert d.tolist() == [0x20001]
    # high half 0x3fffffff; plus c saturates at 2^31 - 1
    d = lanes("mad.hi.sat.s32 d, a, b, c;", a=u32(MOST, 1), b=u32(MOST, 1), c=u32(MOST, LEAST), d="s32")
    assert d.tolist() == [MOST, LEAST]


def test_24_bits():
    # the upper 8 bits of the operands do not count; -1 in 24 bits is 0xffffff
    a, b = u32(0xAB000003, 0x00FFFFFF), u32(0xCD000005, 0x00FFFFFF)
    assert lanes("mul24.lo.u32 d, a, b;", a=a, b=b, d="u32").tolist() == [15, 0xFE000001]
    # (2^24-1)^2 = 0xfffffe000001, bits 47..16
    assert lanes("mul24.hi.u32 d, a, b;", a=a, b=b, d="u32").tolist() == [0, 0xFFFFFE00]
    assert lanes("mul24.lo.s32 d, a, b;", a=a, b=b, d="s32").tolist() == [15, 1]
    d = lanes("mad24.lo.s32 d, a, b, c;", a=u32(0x00FFFFFF), b=u32(7), c=u32(10), d="s32")
    assert d.tolist() == [3]
    d = lanes("mad24.hi.sat.s32 d, a, b, c;", a=u32(0x7FFFFF), b=u32(0x7FFFFF), c=u32(MOST), d="s32")
    assert d.tolist() == [MOST]


def test_sum_of_absolute_differences():
    d = lanes("sad.s32 d, a, b, c;", a=u32(-5, LEAST), b=u32(3, MOST), c=u32(10, 1), d="u32")
    assert d.tolist() == [18, 0]  # 2^32 - 1 + 1 wraps
    assert lanes("sad.u32 d, a, b, c;", a=u32(1), b=u32(-1), c=u32(2), d="u32").tolist() == [0]


def test_quotients_go_towards_zero():
    a, b = u32(7, -7, 7, -7, LEAST, LEAST), u32(2, 2, -2, -2, 3, -1)
    assert lanes("div.s32 d, a, b;", a=a, b=b, d="s32").tolist() == [3, -3, -3, 3, -715827882, LEAST]
    assert lanes("rem.s32 d, a, b;", a=a, b=b, d="s32").tolist() == [1, -1, 1, -1, -2, 0]
    a, b = u32(7, 0xFFFFFFFE, 5), u32(2, 0xFFFFFFFF, 5)
    assert lanes("div.u32 d, a, b;", a=a, b=b, d="u32").tolist() == [3, 0, 1]
    assert lanes("rem.u32 d, a, b;", a=a, b=b, d="u32").tolist() == [1, 0xFFFFFFFE, 0]
    assert lanes("div.s64 d, a, b;", a=u64(-(10**18)), b=u64(7), d="s64").tolist() == [-142857142857142857]
    assert lanes("rem.u16 d, a, b;", a=u16(65535), b=u16(10), d="u16").tolist() == [5]


def test_absolute_and_negative():
    a = u32(-3, 3, LEAST)
    assert lanes("abs.s32 d, a;", a=a, d="s32").tolist() == [3, 3, LEAST]
    assert lanes("neg.s32 d, a;", a=a, d="s32").tolist() == [3, -3, LEAST]
    assert lanes("neg.s64 d, a;", a=u64(5), d="s64").tolist() == [-5]
    assert lanes("abs.s16 d, a;", a=u16(-9), d="s16").tolist() == [9]


def test_least_and_greatest():
    a, b = u32(-1, 5), u32(1, 4)
    assert lanes("min.s32 d, a, b;", a=a, b=b, d="s32").tolist() == [-1, 4]
    assert lanes("min.u32 d, a, b;", a=a, b=b, d="u32").tolist() == [1, 4]
    assert lanes("max.u32 d, a, b;", a=a, b=b, d="u32").tolist() == [0xFFFFFFFF, 5]
    assert lanes("max.s64 d, a, b;", a=u64(-1), b=u64(1), d="s64").tolist() == [1]
    assert lanes("min.relu.s32 d, a, b;", a=a, b=b, d="s32").tolist() == [0, 4]
    assert lanes("max.relu.s32 d, a, b;", a=u32(-4, -1), b=u32(-9, 2), d="s32").tolist() == [0, 2]
    # halves -1 and 2 against 1 and -3
    a, b = u32(0xFFFF_0002), u32(0x0001_FFFD)
    assert lanes("min.s16x2 d, a, b;", a=a, b=b, d="u32").tolist() == [0xFFFF_FFFD]
    assert lanes("min.u16x2 d, a, b;", a=a, b=b, d="u32").tolist() == [0x0001_0002]
    assert lanes("max.s16x2 d, a, b;", a=a, b=b, d="u32").tolist() == [0x0001_0002]
    assert lanes("min.relu.s16x2 d, a, b;", a=a, b=b, d="u32").tolist() == [0]


def test_dot_products():
    a, b = u32(0x01020304, 0xFF7F8001), u32(0x05060708, 0x02030405)
    # 4*8 + 3*7 + 2*6 + 1*5 = 70; unsigned 1*5 + 128*4 + 127*3 + 255*2 = 1408
    assert lanes("dp4a.u32.u32 d, a, b, c;", a=a, b=b, c=u32(1), d="u32").tolist() == [71, 1409]
    # signed a: 1*5 - 128*4 + 127*3 - 1*2 = -128
    assert lanes("dp4a.s32.u32 d, a, b, c;", a=a, b=b, c=u32(0), d="s32").tolist() == [70, -128]
    a, b = u32(0xFFFF_0002), u32(0x80_7F_FE_03)
    # .lo takes bytes 0 and 1 of b: 2*3 + 65535*254; .hi bytes 2 and 3: 2*127 + -1*-128
    assert lanes("dp2a.lo.u32.u32 d, a, b, c;", a=a, b=b, c=u32(0), d="u32").tolist() == [6 + 65535 * 254]
    assert lanes("dp2a.hi.s32.s32 d, a, b, c;", a=a, b=b, c=u32(-1), d="s32").tolist() == [381]


def test_carries():
    # 128-bit sum and difference out of 32-bit and 64-bit parts
    low, high = lanes(
        "add.cc.u32 d, a, b; addc.u32 e, f, g;",
        a=u32(0xFFFFFFFF, 1), b=u32(1, 1), f=u32(5, 5), g=u32(6, 6), d="u32", e="u32",
    )  # fmt: skip
    assert low.tolist() == [0, 2]
    assert high.tolist() == [12, 11]
    # a carry goes through a middle word of all ones
    top = lanes(
        "add.cc.u64 d, a, b; addc.cc.u64 e, c, 0; addc.u64 f, 0, 0; mov.u64 g, f;",
        a=u64(-1), b=u64(1), c=u64(-1), d="u64", e="u64", f="u64", g="u64",
    )  # fmt: skip
    assert [v.tolist() for v in top] == [[0], [0], [1], [1]]
    low, high = lanes(
        "sub.cc.u32 d, a, b; subc.u32 e, f, g;",
        a=u32(0, 3), b=u32(1, 1), f=u32(5, 5), g=u32(2, 2), d="u32", e="u32",
    )  # fmt: skip
    assert low.tolist() == [0xFFFFFFFF, 2]
    assert high.tolist() == [2, 3]
    # subc.cc borrows again when the borrow itself underflows
    borrow = lanes("sub.cc.u32 d, a, 1; subc.cc.u32 e, a, 0; subc.u32 f, a, 0;", a=u32(0), d="u32", e="u32", f="u32")
    assert [v.tolist() for v in borrow] == [[0xFFFFFFFF]] * 3


def test_a_carry_where_a_difference_follows_a_sum():
    # as on an H200: no carry of the sum is a borrow of the difference
    d, e = lanes("add.cc.u32 d, a, 1; subc.u32 e, 9, 2;", a=u32(0, -1), d="u32", e="u32")
    assert (d.tolist(), e.tolist()) == ([1, 0], [6, 7])


def test_long_multiplication_with_carries():
    # (2^32 + 3) * (2^32 + 5) = 2^64 + 8 * 2^32 + 15, by rows
    parts = lanes(
        """mul.lo.u32 d0, 3, 5; mul.hi.u32 d1, 3, 5; mad.lo.cc.u32 d1, 3, 1, d1; madc.hi.u32 d2, 3, 1, 0;
        mad.lo.cc.u32 d1, 1, 5, d1; madc.hi.cc.u32 d2, 1, 5, d2;
        mad.lo.cc.u32 d2, 1, 1, d2; madc.hi.u32 d3, 1, 1, 0;""",
        a=u32(0), d0="u32", d1="u32", d2="u32", d3="u32",
    )  # fmt: skip
    assert [v.tolist() for v in parts] == [[15], [8], [1], [0]]
    # the carry out of the low half: 0xffffffff + 0xffffffff * 1
    d, e = lanes("mad.lo.cc.u32 d, a, 1, a; madc.lo.u32 e, 0, 0, 7;", a=u32(-1), d="u32", e="u32")
    assert (d.tolist(), e.tolist()) == ([0xFFFFFFFE], [8])


def test_carry_is_kept_per_lane():
    d, e = lanes(
        "setp.eq.u32 %p0, c, 1; mov.u32 d, 0; add.cc.u32 d, a, a; @%p0 add.cc.u32 d, 0, 0; addc.u32 e, 0, 0;",
        a=u32(0x80000000, 0x80000000), c=u32(0, 1), d="u32", e="u32",
    )  # fmt: skip
    assert e.tolist() == [1, 0]
    assert d.tolist() == [0, 0]


def test_inactive_lanes_keep_their_registers():
    d = lanes("mov.u32 d, 9; @p add.u32 d, a, 1;", a=u32(1, 2, 3), p=np.array([True, False, True]), d="u32")
    assert d.tolist() == [2, 9, 4]
    # a division by zero in a lane that does not execute it says nothing
    assert lanes("mov.u32 d, 9; @p div.s32 d, 6, a;", a=u32(2, 0), p=np.array([True, False]), d="u32").tolist() == [
        3,
        9,
    ]


def test_unknown_modifiers_stop():
    with pytest.raises(NotModelled):
        lanes("add.s32.sideways d, a, a;", a=u32(1), d="u32")
