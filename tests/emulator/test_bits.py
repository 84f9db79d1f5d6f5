"""Logic, shifts and bits: PTX ISA 9.7.1.14 to 9.7.1.22, 9.7.8, 9.7.9.7, values worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from tests.emulator.lanewise import lanes, u16, u32, u64

T, F = True, False
ONES = 0xFFFFFFFF


def test_logic():
    a, b = u32(0b1100), u32(0b1010)
    for name, expected in (("and", 0b1000), ("or", 0b1110), ("xor", 0b0110)):
        assert lanes(f"{name}.b32 d, a, b;", a=a, b=b, d="u32").tolist() == [expected]
    p, q = np.array([T, T, F, F]), np.array([T, F, T, F])
    assert lanes("and.pred d, p, !q;", p=p, q=q, d="pred").tolist() == [F, T, F, F]
    assert lanes("xor.pred d, p, q;", p=p, q=q, d="pred").tolist() == [F, T, T, F]
    assert lanes("not.pred d, p;", p=p, d="pred").tolist() == [F, F, T, T]
    assert lanes("not.b16 d, a;", a=u16(0x00F0), d="u16").tolist() == [0xFF0F]
    assert lanes("xor.b64 d, a, -1;", a=u64(1), d="u64").tolist() == [0xFFFFFFFFFFFFFFFE]
    assert lanes("cnot.b32 d, a;", a=u32(0, 1, 0x80000000), d="u32").tolist() == [1, 0, 0]


def test_lop3_over_its_whole_table():
    # with the constants of 9.7.8.6 as operands, the low byte of the result is the table itself
    body = "\n".join(f"lop3.b32 %r0, 0xF0, 0xCC, 0xAA, {lut}; and.b32 %r0, %r0, 0xFF; setp.ne.u32 %p0, %r0, {lut};"
                     " @%p0 add.u32 d, d, 1;" for lut in range(256))  # fmt: skip
    assert lanes(f"mov.u32 d, 0; {body}", d="u32").tolist() == [0] * 32


def test_lop3_of_registers():
    a, b, c = u32(0xFFFF0000), u32(0xFF00FF00), u32(0xF0F0F0F0)
    # 0x40 = a & b & ~c, 0x96 = a ^ b ^ c, 0xe8 = the majority, 0x1a = (a & b | c) ^ a
    assert lanes("lop3.b32 d, a, b, c, 0x40;", a=a, b=b, c=c, d="u32").tolist() == [0x0F000000]
    assert lanes("lop3.b32 d, a, b, c, 0x96;", a=a, b=b, c=c, d="u32").tolist() == [0xF00F0FF0]
    assert lanes("lop3.b32 d, a, b, c, 0xe8;", a=a, b=b, c=c, d="u32").tolist() == [0xFFF0F000]
    assert lanes("lop3.b32 d, a, b, c, 0x1a;", a=a, b=b, c=c, d="u32").tolist() == [0x000FF0F0]


def test_lop3_with_a_predicate():
    a, q = u32(0, 1, 0, 1), np.array([F, F, T, T])
    d, p = lanes("lop3.or.b32 d|p, a, a, a, 0x80, q;", a=a, q=q, d="u32", p="pred")
    assert (d.tolist(), p.tolist()) == ([0, 1, 0, 1], [F, T, T, T])
    assert lanes("lop3.and.b32 _|p, a, a, a, 0x80, q;", a=a, q=q, p="pred").tolist() == [F, F, F, T]


def test_shifts_clamp():
    a, n = u32(0x80000001), u32(0, 1, 31, 32, 33, 0xFFFFFFFF)
    assert lanes("shl.b32 d, a, n;", a=a, n=n, d="u32").tolist() == [0x80000001, 2, 0x80000000, 0, 0, 0]
    assert lanes("shr.u32 d, a, n;", a=a, n=n, d="u32").tolist() == [0x80000001, 0x40000000, 1, 0, 0, 0]
    assert lanes("shr.b32 d, a, n;", a=a, n=n, d="u32").tolist() == [0x80000001, 0x40000000, 1, 0, 0, 0]
    assert lanes("shr.s32 d, a, n;", a=a, n=n, d="u32").tolist() == [0x80000001, 0xC0000000] + [ONES] * 4
    n = u32(0, 1, 63, 64, 0xFFFFFFFF)
    assert lanes("shr.s64 d, a, n;", a=u64(1 << 63), n=n, d="s64").tolist() == [-(1 << 63), -(1 << 62), -1, -1, -1]
    assert lanes("shl.b64 d, a, n;", a=u64(1), n=n, d="u64").tolist() == [1, 2, 1 << 63, 0, 0]
    n = u32(1, 16, 0x10001)  # not taken modulo 2^16
    assert lanes("shl.b16 d, a, n;", a=u16(3), n=n, d="u16").tolist() == [6, 0, 0]
    assert lanes("shr.s16 d, a, n;", a=u16(-4), n=n, d="s16").tolist() == [-2, -1, -1]
    # constants too
    assert lanes("shl.b32 d, a, 32;", a=a, d="u32").tolist() == [0]
    assert lanes("shr.s32 d, a, 99;", a=a, d="s32").tolist() == [-1]


def test_funnel_shifts():
    a, b, n = u32(0x89ABCDEF), u32(0x01234567), u32(0, 4, 31, 32, 36)
    expected = {
        "l.clamp": [0x01234567, 0x12345678, 0xC4D5E6F7, 0x89ABCDEF, 0x89ABCDEF],
        "l.wrap": [0x01234567, 0x12345678, 0xC4D5E6F7, 0x01234567, 0x12345678],
        "r.clamp": [0x89ABCDEF, 0x789ABCDE, 0x02468ACF, 0x01234567, 0x01234567],
        "r.wrap": [0x89ABCDEF, 0x789ABCDE, 0x02468ACF, 0x89ABCDEF, 0x789ABCDE],
    }
    for mode, values in expected.items():
        assert lanes(f"shf.{mode}.b32 d, a, b, n;", a=a, b=b, n=n, d="u32").tolist() == values, mode


def test_counts():
    a = u32(0, 1, 0xF0F0, ONES)
    assert lanes("popc.b32 d, a;", a=a, d="u32").tolist() == [0, 1, 8, 32]
    assert lanes("clz.b32 d, a;", a=a, d="u32").tolist() == [32, 31, 16, 0]
    a = u64(0, 1 << 32, (1 << 53) - 1, (1 << 64) - 1, ONES)
    assert lanes("popc.b64 d, a;", a=a, d="u32").tolist() == [0, 1, 53, 64, 32]
    assert lanes("clz.b64 d, a;", a=a, d="u32").tolist() == [64, 31, 11, 0, 32]


def test_highest_bit():
    a = u32(0, 1, 0x80000000, -1, -2, 0x7FFFFFFF)
    assert lanes("bfind.u32 d, a;", a=a, d="s32").tolist() == [-1, 0, 31, 31, 31, 30]
    assert lanes("bfind.s32 d, a;", a=a, d="s32").tolist() == [-1, 0, 30, -1, 0, 30]
    assert lanes("bfind.shiftamt.u32 d, a;", a=a, d="s32").tolist() == [-1, 31, 0, 0, 0, 1]
    assert lanes("bfind.s64 d, a;", a=u64(-1, 1 << 40, -(1 << 40)), d="s32").tolist() == [-1, 40, 39]
    assert lanes("bfind.shiftamt.s64 d, a;", a=u64(1 << 40), d="s32").tolist() == [23]


def test_nth_set_bit():
    # the examples of 9.7.1.17, and offset zero
    base, offset = u32(3, 3, 2, 2, 3, 2, 0), u32(1, -1, 1, -1, 0, 0, 17)
    d = lanes("fns.b32 d, 0xaaaaaaaa, b, o;", b=base, o=offset, d="u32")
    assert d.tolist() == [3, 3, 3, 1, 3, ONES, ONES]
    d = lanes("fns.b32 d, 0xaaaaaaaa, b, o;", b=u32(0, 31, 31, 0), o=u32(3, -2, -16, -1), d="u32")
    assert d.tolist() == [5, 29, 1, ONES]
    with pytest.raises(Finding) as found:
        lanes("fns.b32 d, 1, b, 1;", b=u32(32), d="u32")
    assert found.value.kind == "illegal"


def test_reversal():
    assert lanes("brev.b32 d, a;", a=u32(1, 0x80000003, 0x12345678), d="u32").tolist() == [
        0x80000000, 0xC0000001, 0x1E6A2C48,
    ]  # fmt: skip
    assert lanes("brev.b64 d, a;", a=u64(1, 0x12345678), d="u64").tolist() == [1 << 63, 0x1E6A2C48 << 32]


def test_bit_fields_out():
    a, pos, n = u32(0x12345678), u32(8, 8, 28, 40, 0, 4, 0), u32(8, 0, 8, 4, 32, 255, 1)
    # 0x56; nothing; 0x1; past the end; all; 0x1234567; bit 0
    d = lanes("bfe.u32 d, a, b, c;", a=a, b=pos, c=n, d="u32")
    assert d.tolist() == [0x56, 0, 1, 0, 0x12345678, 0x1234567, 0]
    a = u32(0x82F45678)
    # the field 0xf4 at bit 16 is -12; the sign is that of bit 31 where the field passes the end
    d = lanes("bfe.s32 d, a, b, c;", a=a, b=u32(16, 28, 40, 16, 256), c=u32(8, 8, 4, 0, 4), d="s32")
    assert d.tolist() == [-12, -8, -1, 0, -8]
    d = lanes("bfe.s64 d, a, b, c;", a=u64(0xF << 40), b=u32(40, 41), c=u32(4, 4), d="s64")
    assert d.tolist() == [-1, 7]
    assert lanes("bfe.u64 d, a, 60, 10;", a=u64(0xA << 60), d="u64").tolist() == [0xA]


def test_bit_fields_in():
    a, b = u32(0xAB), u32(0x11111111)
    d = lanes("bfi.b32 d, a, b, c, n;", a=a, b=b, c=u32(8, 28, 32, 4, 0), n=u32(8, 8, 8, 0, 64), d="u32")
    assert d.tolist() == [0x1111AB11, 0xB1111111, 0x11111111, 0x11111111, 0x000000AB]
    assert lanes("bfi.b64 d, a, b, 60, 4;", a=u64(0xC), b=u64(5), d="u64").tolist() == [(0xC << 60) + 5]


def test_extension_to_n_bits():
    a, n = u32(0xFFFFFF85), u32(8, 7, 0, 31, 32, 40)
    assert lanes("szext.clamp.u32 d, a, n;", a=a, n=n, d="u32").tolist() == [
        0x85, 0x05, 0, 0x7FFFFF85, 0xFFFFFF85, 0xFFFFFF85,
    ]  # fmt: skip
    assert lanes("szext.clamp.s32 d, a, n;", a=a, n=n, d="s32").tolist() == [-123, 5, 0, -123, -123, -123]
    # 32 and 40 count as 0 and 8
    assert lanes("szext.wrap.s32 d, a, n;", a=a, n=n, d="s32").tolist() == [-123, 5, 0, -123, 0, -123]


def test_masks_of_bits():
    a, b = u32(1, 4, 28, 0, 32, 3), u32(2, 0, 8, 32, 4, 35)
    assert lanes("bmsk.clamp.b32 d, a, b;", a=a, b=b, d="u32").tolist() == [6, 0, 0xF0000000, ONES, 0, 0xFFFFFFF8]
    assert lanes("bmsk.wrap.b32 d, a, b;", a=a, b=b, d="u32").tolist() == [6, 0, 0xF0000000, 0, 0xF, 0x38]


def test_permutation_of_bytes():
    a, b = u32(0x83828180), u32(0x77767574)  # byte i is 0x80 + i, then 0x74 + (i - 4)
    assert lanes("prmt.b32 d, a, b, 0x7531;", a=a, b=b, d="u32").tolist() == [0x77758381]
    assert lanes("prmt.b32 d, a, b, 0x0123;", a=a, b=b, d="u32").tolist() == [0x80818283]
    # the highest bit of a selector replicates the byte's sign
    assert lanes("prmt.b32 d, a, b, 0xC48B;", a=a, b=b, d="u32").tolist() == [0x0074FFFF]
    d = lanes("prmt.b32 d, a, b, c;", a=a, b=b, c=u32(0x7531, 0xC48B, 0xFFFF3210), d="u32")
    assert d.tolist() == [0x77758381, 0x0074FFFF, 0x83828180]


@pytest.mark.parametrize(
    ("mode", "expected"),  # 9.7.9.7, the table of modes: bytes d.b3 d.b2 d.b1 d.b0 for c = 0 to 3
    [
        ("f4e", ["3210", "4321", "5432", "6543"]),
        ("b4e", ["5670", "6701", "7012", "0123"]),
        ("rc8", ["0000", "1111", "2222", "3333"]),
        ("ecl", ["3210", "3211", "3222", "3333"]),
        ("ecr", ["0000", "1110", "2210", "3210"]),
        ("rc16", ["1010", "3232", "1010", "3232"]),
    ],
)
def test_permutation_modes(mode, expected):
    a, b = u32(0x03020100), u32(0x07060504)
    values = [int("".join(f"0{digit}" for digit in text), 16) for text in expected]
    # only the two lowest bits of c count
    d = lanes(f"prmt.b32.{mode} d, a, b, c;", a=a, b=b, c=u32(0, 1, 2, 0xFFFFFFF3), d="u32")
    assert d.tolist() == values
    assert lanes(f"prmt.b32.{mode} d, a, b, 2;", a=a, b=b, d="u32").tolist() == [values[2]]
