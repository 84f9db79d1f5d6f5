"""Integers of 4 bits less a zero point as e4m3, looked up: a table has those of all 16 integers, a byte each, in
four words: of integers whose bits are 0 to 3, 4 to 7, ..., the first in the lowest byte.

`prmt` takes four of eight bytes (PTX ISA 9.7.9.7). So one gives what four integers are if they are among the first
eight, another if they are among the last; a third spreads the bits that say which, and one instruction selects.
"""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common.words import Words, held


def _values(stored: str) -> list[int]:
    """What the integers are, by their bits."""
    return [x - 16 if stored == "i4" and x > 7 else x for x in range(16)]


def table_of(b: Builder, stored: str, zero: ir.Value) -> Words:
    """That of a zero point, an i32: in f16, which has all differences."""
    pair = b.pure("{ .reg .f32 F; cvt.rn.f32.s32 F, $1; cvt.rn.f16x2.f32 $0, F, F; }", b.i32, zero)
    text = "{ .reg .b16 L, H; cvt.rn.satfinite.e4m3x2.f16x2 L, $1; cvt.rn.satfinite.e4m3x2.f16x2 H, $2; "
    values, found = _values(stored), []
    for first in range(0, 16, 4):
        halves = [_f16(values[i]) | _f16(values[i + 1]) << 16 for i in (first, first + 2)]
        less = [b.pure("sub.rn.f16x2 $0, $1, $2;", b.i32, b.constant(x), pair) for x in halves]
        found.append(b.pure(text + "mov.b32 $0, {L, H}; }", b.i32, *less))
    return found


def table_of_number(b: Builder, stored: str, zero: int) -> Words:
    """That of a zero point that is known, in registers of a thread."""
    made = [_e4m3(x - zero) for x in _values(stored)]
    return [held(b, int.from_bytes(bytes(made[i : i + 4]), "little")) for i in range(0, 16, 4)]


def differences(b: Builder, word: ir.Value, tables: tuple[Words, Words]) -> Words:
    """Eight integers, a word, as e4m3: each half of them by a table of its own. 11 instructions."""
    plain, odd, found = b.and_(word, 0x77777777), b.shl(word, 4), []
    for half, (table, highest) in enumerate(zip(tables, (0xD9C8, 0xFBEA), strict=True)):
        selectors = b.shr(plain, 16) if half else plain
        low, high = (b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, *table[i : i + 2], selectors) for i in (0, 2))
        # the highest bits of the integers, each eight times: of `odd` those of even ones are the highest of bytes
        last = b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, odd, word, highest)
        found.append(b.pure("lop3.b32 $0, $1, $2, $3, 0xCA;", b.i32, last, high, low))
    return found


def _f16(number: int) -> int:
    """A number below 16 as f16."""
    return (number < 0) << 15 | _bits(abs(number), 10, 15)


def _e4m3(number: int) -> int:
    return (number < 0) << 7 | _bits(abs(number), 3, 7)


def _bits(number: int, fraction: int, bias: int) -> int:
    """A number that a type of that fraction and bias has, without sign."""
    if not number:
        return 0
    exponent = number.bit_length() - 1
    return (exponent + bias << fraction) + ((number << fraction >> exponent) - (1 << fraction))
