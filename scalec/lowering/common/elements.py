"""Elements in registers converted to other types, exactly, a few words at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import product

from scalec.formats import ELEMENT_TYPES
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common import six_bits
from scalec.lowering.common.differences import differences, table_of_number
from scalec.lowering.common.words import Words, held


def converted(b: Builder, words: Words, stored: str, made: str) -> Words:
    """The same elements as another type, or as they are."""
    return words if stored == made else _CONVERSIONS[stored, made](b, words)


def widened(b: Builder, words: Words, stored: str, count: int) -> list[ir.Value]:
    """The first `count` elements of some words, as f32."""
    bits = words
    if ELEMENT_TYPES[stored].bits == six_bits.BITS:
        return six_bits.widened(b, words, stored, count)
    if ELEMENT_TYPES[stored].bits < 8:  # eight elements of a word
        pairs = [x for word in words for x in _CONVERSIONS[stored, "bf16"](b, [word])]
        bits = bf16_to_tf32(b, pairs[: count // 2])
    elif stored in ("i8", "i32"):
        return [of_integer(b, x) for word in words for x in _integers(b, word, ELEMENT_TYPES[stored].bits)][:count]
    elif stored not in ("f32", "tf32"):
        bits = _CONVERSIONS[stored, "tf32"](b, words)
    return [b.float_of(x) for x in bits[:count]]


def of_integer(b: Builder, x: ir.Value) -> ir.Value:
    """An i32 as f32, to nearest."""
    return b.pure("cvt.rn.f32.s32 $0, $1;", b.f32, x)


def _integers(b: Builder, word: ir.Value, bits: int) -> Words:
    """Those of a word, each as an i32. bfe: PTX ISA 9.7.1.19."""
    if bits == 32:
        return [word]
    return [b.pure(f"bfe.s32 $0, $1, {at}, {bits};", b.i32, word) for at in range(0, 32, bits)]


def pair_of(b: Builder, factor: ir.Value, made: str) -> ir.Value:
    """An f32 that the type has too as one multiplies a word by it."""
    return factor if made == "tf32" else b.pure(f"cvt.rn.{made}x2.f32 $0, $1, $1;", b.i32, factor)


def scaled(b: Builder, word: ir.Value, factor: ir.Value, made: str) -> ir.Value:
    """The elements of a word times a factor (`pair_of`)."""
    return b.pure(f"mul.rn.{'f32' if made == 'tf32' else made + 'x2'} $0, $1, $2;", b.i32, word, factor)


# e2m1: sign, and one of 0, 0.5, 1, 1.5, 2, 3, 4, 6. PTX ISA 9.7.9.7, prmt: each of four bytes by a selector of 4 bits,
# whose highest one would replicate a sign, so that the e2m1's is masked out and set behind.
_BYTES = {
    ("e4m3", 1): (0x3C383000, 0x4C484440),
    ("bf16", 1): (0x3F3F3F00, 0x40404040),
    ("bf16", 0): (0xC0800000, 0xC0804000),
    ("f16", 1): (0x3E3C3800, 0x46444240),
}
"""By type and byte (1: the highest) that byte of the eight magnitudes, the least first. That byte of f16 is all."""


def _picked(b: Builder, table: tuple[int, int], selectors: ir.Value, *, kept: bool = False) -> ir.Value:
    """One word of a table may be a constant of `prmt`; the other is a register's for a whole loop, if `kept`."""
    first, second = held(b, table[0]) if kept else b.constant(table[0]), table[1]
    return b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, first, second, selectors)


def _narrow(b: Builder, word: ir.Value, half: int, made: str) -> tuple[ir.Value, ir.Value | None]:
    """Of four e2m1, a half of a word, the highest bytes and the lowest ones, None where these are 0, or the same."""
    magnitudes = b.and_(b.shr(word, 16) if half else word, 0x7777)
    spread = b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, b.shl(word, 4), word, 0x7362 if half else 0x5140)
    signs = b.and_(spread, 0x80808080)
    low = _BYTES.get((made, 0))
    kept = made != "e4m3"  # whose sums are promoted, by threads that have no more registers
    high = b.or_(_picked(b, _BYTES[made, 1], magnitudes, kept=kept), signs)
    return high, _picked(b, low, magnitudes, kept=kept) if low is not None else None


def _e2m1_to_e4m3(b: Builder, words: Words) -> Words:
    return [_narrow(b, word, half, "e4m3")[0] for word in words for half in (0, 1)]


def smaller(b: Builder, word: ir.Value, *, shifted: bool = False) -> tuple[ir.Value, ir.Value]:
    """Of eight e2m1 the even ones and the odd ones as e4m3, 2^-6 times them (scalec.formats.SMALLER): S00EEM00. Six
    instructions, of which ptxas makes one of `and` and `or`. Of an even one 00SEEM00 is a product, to which 0x60 is
    added: that carries the sign to its place, or stays where there is none, and is masked out. With `shifted` the sign
    is moved by itself: an instruction more, none of them a product, which takes longer to be there."""
    odd = _sign_and_rest(b, word, b.shr(word, 2))
    if shifted:
        return _sign_and_rest(b, b.shl(word, 4), b.shl(word, 2)), odd
    alone = b.and_(word, 0x0F0F0F0F)
    return b.and_(b.pure("mad.lo.u32 $0, $1, $2, 0x60606060;", b.i32, alone, held(b, 4)), 0x9C9C9C9C), odd


def _sign_and_rest(b: Builder, signs: ir.Value, rest: ir.Value) -> ir.Value:
    return b.or_(b.and_(signs, 0x80808080), b.and_(rest, 0x1C1C1C1C))


def smaller_in_order(b: Builder, word: ir.Value, *, shifted: bool = False) -> Words:
    """Likewise the first four and the last four."""
    both = smaller(b, word, shifted=shifted)
    return [b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, *both, which) for which in (0x5140, 0x7362)]


def half_of_e2m1(b: Builder, word: ir.Value, half: int, made: str) -> Words:
    """Two pairs of 16 bits of half a word."""
    high, low = _narrow(b, word, half, made)
    low = b.constant(0) if low is None else low
    return [b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, low, high, which) for which in (0x5140, 0x7362)]


def _e2m1_to_16(made: str) -> Callable[[Builder, Words], Words]:
    return lambda b, words: [pair for half in (0, 1) for pair in half_of_e2m1(b, words[0], half, made)]


def _8_to_f16(stored: str) -> Callable[[Builder, Words], Words]:
    """PTX ISA 9.7.9.21, cvt: .f16x2 of two adjacent bytes, from sm_89 on."""
    text = f"cvt.rn.f16x2.{stored}x2 $0, H; }}"

    def convert(b: Builder, words: Words) -> Words:
        halves = (("cvt.u16.u32 H, $1;"), ("{ .reg .b32 W; shr.b32 W, $1, 16; cvt.u16.u32 H, W; }"))
        return [b.pure(f"{{ .reg .b16 H; {half} {text}", b.i32, word) for word in words for half in halves]

    return convert


def _8_to_bf16(stored: str) -> Callable[[Builder, Words], Words]:
    """By way of f16 and f32, each of which holds them."""
    to_f16 = _8_to_f16(stored)
    text = "{ .reg .b16 L, H; .reg .f32 A, B; mov.b32 {L, H}, $1; cvt.f32.f16 A, L; cvt.f32.f16 B, H; "

    def convert(b: Builder, words: Words) -> Words:
        return [b.pure(text + "cvt.rn.bf16x2.f32 $0, B, A; }", b.i32, x) for x in to_f16(b, words)]

    return convert


def bf16_to_tf32(b: Builder, words: Words) -> Words:
    """Their bits are the upper half of those of f32."""
    return [made for word in words for made in (b.shl(word, 16), b.and_(word, 0xFFFF0000))]


def bytes_of_halves(b: Builder, pairs: Words) -> Words:
    """Pairs of f16 as e4m3, of whole numbers of words, exactly where that type has them. PTX ISA 9.7.9.21, cvt."""
    text = "{ .reg .b16 L, H; cvt.rn.satfinite.e4m3x2.f16x2 L, $1; cvt.rn.satfinite.e4m3x2.f16x2 H, $2; "
    return [b.pure(text + "mov.b32 $0, {L, H}; }", b.i32, *pairs[i : i + 2]) for i in range(0, len(pairs), 2)]


def halves_to_tf32(b: Builder, words: Words) -> Words:
    text = "{{ .reg .b16 L, H; mov.b32 {{L, H}}, $1; cvt.f32.f16 $0, {}; }}"
    return [b.pure(text.format(half), b.i32, word) for word in words for half in "LH"]


def _8_to_tf32(stored: str) -> Callable[[Builder, Words], Words]:
    to_f16 = _8_to_f16(stored)
    return lambda b, words: halves_to_tf32(b, to_f16(b, words))


def _i8_to_f16(b: Builder, words: Words) -> Words:
    """With its sign turned an i8 is the lowest bits of 1024 more than it is above -128: 5 instructions for four."""
    found = []
    for word in words:
        bytes_, less = b.xor(word, 0x80808080), b.constant(0x64806480)
        pairs = [b.pure("prmt.b32 $0, $1, 0x64646464, $2;", b.i32, bytes_, b.constant(x)) for x in _PAIRS]
        found += [taken_away(b, x, [less], "f16") for x in pairs]
    return found


def _i8_to_bf16(b: Builder, words: Words) -> Words:
    """Its lower seven bits are those of 128 and more; with its sign bit alone that is 128, or 256. 8 instructions for
    four."""
    found = []
    for word in words:
        pairs = [b.pure("prmt.b32 $0, $1, 0x43434343, $2;", b.i32, word, b.constant(x)) for x in _PAIRS]
        found += [taken_away(b, b.and_(x, 0xFF7FFF7F), [b.and_(x, 0xFF80FF80)], "bf16") for x in pairs]
    return found


def _i8_to_tf32(b: Builder, words: Words) -> Words:
    return bf16_to_tf32(b, _i8_to_bf16(b, words))


_PAIRS = 0x4140, 0x4342
"""What `prmt` takes to put each two bytes of a word below one of another."""


def _e2m1_to_tf32(b: Builder, words: Words) -> Words:
    """Four of them, of half a word."""
    return bf16_to_tf32(b, _e2m1_to_16("bf16")(b, words)[:2])


def four_as(b: Builder, word: ir.Value, number: int, made: str, less: Words | None = None) -> Words:
    """Eight integers of 4 bits, a word, as pairs of 16 bits. In the lowest bits of a `number` of these whose last bit
    is worth one, the bits of v and one xor make that number plus v: `less` the number it is v, exactly. 13 instructions
    for eight elements."""
    both = 0x10001 * number
    odd, found = b.shr(word, 4), []
    for byte in range(4):
        pair = b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, word, odd, 0x0400 + 0x1111 * byte)
        more = b.xor(b.and_(pair, 0x000F000F), both)
        found.append(taken_away(b, more, less or [b.constant(both)], made))
    return found


def _4_to_16(made: str, number: int) -> Callable[[Builder, Words], Words]:
    """Of an i4 the number is 136 as bf16, or 1032 as f16, as its sign is turned; of a u4 128 or 1024."""
    return lambda b, words: four_as(b, words[0], number, made)


def _e2m1_apart(b: Builder, word: ir.Value, made: str) -> Words:
    """Eight e2m1 as pairs of 16 bits, each of two that are four apart: their bits where the type has a sign, and the
    ends of its exponent and of its fraction, times what that lacks of the exponent's bias. Products are not of the pipe
    that `prmt` and logic wait for (sm_90a issues those every other clock): 21 instructions for eight elements, 12 of
    them there."""
    (fraction, bias), (times, more) = {"bf16": (7, 127), "f16": (10, 15)}[made], _PLACES[made]
    kept, factor = 0x8000 | 7 << (fraction - 1), b.constant(0x10001 * (2 * bias - 1 << fraction))  # 2^(bias - 1)
    found = []
    for byte, at in product((word, b.shr(word, 8)), (0, 4)):
        alone, by = b.and_(byte, 0x000F000F << at), times >> at
        by = held(b, by) if more else b.constant(by)
        bits = b.pure("mad.lo.u32 $0, $1, $2, $3;", b.i32, alone, by, b.constant(0x10001 * more))
        found.append(scaled(b, b.and_(bits, 0x10001 * kept), factor, made))
    return found


_PLACES = {"bf16": (0x1040, 0), "f16": (0x200, 0x7000)}
"""What SEEM, times that and more by that, has in the places of a type's sign and of EEM. Of bf16 these are two copies;
of f16, where they would overlap, one, whose sign the addition carries to its place (a power of two is `held`, as ptxas
would make it a shift)."""


def _moved(b: Builder, word: ir.Value, by: int) -> ir.Value:
    """To the left by so many bits, or to the right."""
    return b.shl(word, by) if by > 0 else b.shr(word, -by) if by else word


def _integers_apart(b: Builder, word: ir.Value, less: Words | None = None, *, number: int, made: str) -> Words:
    """Likewise eight integers of 4 bits, as `four_as` has them: 11 instructions."""
    return integers_apart(b, word, [less or [b.constant(0x10001 * number)]] * 4, number, made)


def integers_apart(b: Builder, word: ir.Value, less: Sequence[Words], number: int, made: str) -> Words:
    """Likewise, of each pair what is taken away from it."""
    both, nibbles = 0x10001 * number, held(b, 0x000F000F)
    bits = [b.xor(b.and_(_moved(b, word, -4 * i), nibbles), both) for i in range(4)]
    return [taken_away(b, x, own, made) for x, own in zip(bits, less, strict=True)]


def taken_away(b: Builder, pair: ir.Value, less: Words, made: str) -> ir.Value:
    """A pair of 16 bits less others, one after the other."""
    return reduce(lambda x, y: b.pure(f"sub.rn.{made}x2 $0, $1, $2;", b.i32, x, y), less, pair)


def _4_to_e4m3(stored: str) -> Callable[[Builder, Words], Words]:
    def convert(b: Builder, words: Words) -> Words:
        table = table_of_number(b, stored, 0)
        return [x for word in words for x in differences(b, word, (table, table))]

    return convert


def _4_to_tf32(number: int) -> Callable[[Builder, Words], Words]:
    """Four of them, of half a word."""
    return lambda b, words: bf16_to_tf32(b, four_as(b, words[0], number, "bf16")[:2])


_CONVERSIONS: dict[tuple[str, str], Callable[[Builder, Words], Words]] = {
    ("e2m1", "e4m3"): _e2m1_to_e4m3,
    ("e2m1", "bf16"): _e2m1_to_16("bf16"),
    ("e2m1", "f16"): _e2m1_to_16("f16"),
    ("i4", "e4m3"): _4_to_e4m3("i4"),
    ("i4", "bf16"): _4_to_16("bf16", 0x4308),
    ("i4", "f16"): _4_to_16("f16", 0x6408),
    ("i4", "tf32"): _4_to_tf32(0x4308),
    ("u4", "e4m3"): _4_to_e4m3("u4"),
    ("u4", "bf16"): _4_to_16("bf16", 0x4300),
    ("u4", "f16"): _4_to_16("f16", 0x6400),
    ("u4", "tf32"): _4_to_tf32(0x4300),
    ("e4m3", "f16"): _8_to_f16("e4m3"),
    ("e5m2", "f16"): _8_to_f16("e5m2"),
    ("e4m3", "bf16"): _8_to_bf16("e4m3"),
    ("e5m2", "bf16"): _8_to_bf16("e5m2"),
    ("e2m1", "tf32"): _e2m1_to_tf32,
    ("e4m3", "tf32"): _8_to_tf32("e4m3"),
    ("e5m2", "tf32"): _8_to_tf32("e5m2"),
    ("i8", "bf16"): _i8_to_bf16,
    ("i8", "f16"): _i8_to_f16,
    ("i8", "tf32"): _i8_to_tf32,
    ("bf16", "tf32"): bf16_to_tf32,
    ("f16", "tf32"): halves_to_tf32,
}
"""By the types before and behind (scalec.formats.CONVERTED)."""

APART: dict[tuple[str, str], Callable[..., Words]] = {
    ("e2m1", "bf16"): partial(_e2m1_apart, made="bf16"),
    ("e2m1", "f16"): partial(_e2m1_apart, made="f16"),
    ("i4", "bf16"): partial(_integers_apart, number=0x4308, made="bf16"),
    ("i4", "f16"): partial(_integers_apart, number=0x6408, made="f16"),
    ("u4", "bf16"): partial(_integers_apart, number=0x4300, made="bf16"),
    ("u4", "f16"): partial(_integers_apart, number=0x6400, made="f16"),
}
"""Likewise, of a word of eight elements of 4 bits, as pairs of two that are four apart; of integers less others, where
these are given."""
