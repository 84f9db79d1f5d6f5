"""Elements of 4 bits times their scales as two e4m3 each, in the registers out of which wgmma takes A.

A word of a row's scales, a ue4m3 each, is one load, of which a byte belongs to the four elements that a thread has of a
chunk. The eight magnitudes of an e2m1 are 0, 0.5, 1, 1, 2, 2, 4, 4 and 0, 0, 0, 0.5, 0, 1, 0, 2 in sum, powers of two,
by which a scale is multiplied where its exponent is added to: products by a constant, of which each byte is one of
those, are the two tables that `prmt` looks four elements up in (PTX ISA 9.7.9.7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scalec.ir.mlir import ir
from scalec.ir.tile_scales import LOW_SHIFT, ORDINARY, SEEN, SMALL_SHIFT
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common.state import Fragment, State
from scalec.lowering.common.words import Words
from scalec.lowering.sm90.table import TABLE

TABLES = (
    ((0x01010100, -0x10101800), (0x01010101, -0x00000808)),
    ((0x01000000, -0x18000000), (0x01000100, -0x08001000)),
)
"""Of either addend the tables of the lower and the upper four magnitudes: by what a scale is multiplied, and what is
added, eight for each power of two, of 2^-2 times the element."""

RAISED = LOW_SHIFT * 8
"""What is added beside that to each byte of a table of LOW scales, but to those that stay 0."""

SHIFT = -2
"""The power of two by which addends are smaller than elements times their scales (scalec.formats.ADDENDS)."""

SUBNORMAL = 0x2C282000, 0x36343230  # the bytes of 0 to 7 times 2^-9, times 2^SMALL_SHIFT

EVERY = 0x77777777  # bits of the magnitudes of eight elements
NAN = 0x7F


@dataclass(frozen=True)
class Factor:
    """Of a chunk's scale: the byte that its tables are made of, which of the bits of magnitudes count, and what all
    bytes of the tables are changed by; None where nothing is to be changed. `nan`: whether all elements are NaN; `low`:
    whether the scale is LOW."""

    byte: ir.Value
    kept: ir.Value | None = None
    sign: ir.Value | None = None
    nan: ir.Value | None = None
    low: ir.Value | None = None


def alike(b: Builder, word: ir.Value, number: ir.Value | int, low: ir.Value | None = None) -> Factor:
    """Of a scale that all others of its rows are like; `low`: whether these are LOW."""
    return Factor(byte_of(b, word, number), low=low)


def ordinary(b: Builder, word: ir.Value, number: ir.Value | int, _: ir.Value | None = None) -> Factor:
    """Where some may be smaller, or NaN: those count as 0."""
    byte, sign = _signed(b, word, number)
    inside = b.compare("lt", b.sub(byte, ORDINARY[0]), ORDINARY[1] + 1 - ORDINARY[0])
    return Factor(byte, b.select(inside, b.constant(EVERY), 0), sign)


def small(b: Builder, word: ir.Value, number: ir.Value | int, _: ir.Value | None = None) -> Factor:
    """Those alone, times 2^SMALL_SHIFT: to exponents of normal ones that is added, others are looked up."""
    byte, sign = _signed(b, word, number)
    least = b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, b.constant(SUBNORMAL[0]), SUBNORMAL[1], byte)
    made = b.select(b.compare("lt", byte, 8), b.and_(least, 0xFF), b.add(byte, SMALL_SHIFT * 8))
    kept = b.select(b.compare("lt", byte, ORDINARY[0]), b.constant(EVERY), 0)
    kept = b.select(b.compare("eq", byte, 0), b.constant(0), kept)
    return Factor(made, kept, sign, b.compare("eq", byte, NAN))


Kind = Callable[[Builder, ir.Value, ir.Value | int, ir.Value | None], Factor]

FACTORS: dict[str, Kind] = {"alike": alike, "ordinary": ordinary, "small": small}
"""By the `scales` of a `tile.converted`."""


def fours(b: Builder, word: ir.Value, count: int, kept: ir.Value | int = EVERY) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Of so many times four e2m1, from a word's lowest bits on, the magnitudes that are `kept`, selectors of `prmt`,
    and the signs, the highest bits of four bytes."""
    shifted, magnitudes = b.shl(word, 4), b.and_(word, kept)
    for number, spread in zip(range(count), (0x5140, 0x7362), strict=False):
        signs = b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, shifted, word, spread)
        yield b.shr(magnitudes, 16) if number else magnitudes, signs


def addends(b: Builder, word: ir.Value, count: int, factor: Factor) -> tuple[Words, Words]:
    """Of so many times four e2m1 of a word a register of each addend. 6 instructions of the integer unit for four,
    beside those of the scale, and 5 products."""
    tables = [[_table(b, factor, by, more) for by, more in pair] for pair in TABLES]
    made: tuple[Words, Words] = [], []
    for magnitudes, signs in fours(b, word, count, EVERY if factor.kept is None else factor.kept):
        for found, halves in zip(made, tables, strict=True):
            value = b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, *halves, magnitudes)
            found.append(b.pure("lop3.b32 $0, $1, $2, 0x80808080, 0x78;", b.i32, value, signs))  # a ^ (b & c)
    return made


def both(b: Builder, words: Words, count: int, factors: list[Factor]) -> tuple[Words, Words]:
    """Of several words of a row."""
    pairs = [addends(b, word, count, factor) for word, factor in zip(words, factors, strict=True)]
    return [x for one, _ in pairs for x in one], [x for _, other in pairs for x in other]


def _table(b: Builder, factor: Factor, by: int, more: int) -> ir.Value:
    added: ir.Value | int = more & 0xFFFFFFFF
    if factor.low is not None:
        added = b.select(factor.low, b.constant((more + RAISED * by) & 0xFFFFFFFF), added)
    made = b.pure("mad.lo.u32 $0, $1, $2, $3;", b.i32, factor.byte, by, added)
    if factor.sign is not None:
        made = b.xor(made, factor.sign)
    return made if factor.nan is None else b.select(factor.nan, b.constant(0x01010101 * NAN), made)


def byte_of(b: Builder, word: ir.Value, number: ir.Value | int) -> ir.Value:
    """That byte of a word; `number`: or what selects it, with zeros above (`selector`)."""
    which = 0x4440 + number if isinstance(number, int) else number
    return b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, word, 0, which)


def selector(b: Builder, number: ir.Value) -> ir.Value:
    """Of `byte_of`."""
    return b.or_(number, 0x4440)


def _signed(b: Builder, word: ir.Value, number: ir.Value | int) -> tuple[ir.Value, ir.Value]:
    """Of a byte what is below its highest bit, and that in each byte of a word."""
    byte = byte_of(b, word, number)
    return b.and_(byte, 0x7F), b.mul(b.and_(byte, 0x80), 0x01010101)


@TABLE.lowers("tile.start_addends")
def start(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.b.variable(s.b.i32, 0)


def is_low(b: Builder, variable: Variable) -> ir.Value:
    """Of a `tile.start_addends`."""
    return b.compare("ne", variable.get(), 0)


@TABLE.lowers("tile.are_alike")
def are_alike(s: State, op: ir.OpView) -> None:
    b = s.b
    masks = [b.constant(SEEN[kind] | SEEN["zero"]) for kind in ("not low", "not ordinary")]
    asked = b.select(is_low(b, s.get(op.addends)), *masks)
    s.values[op.result] = b.compare("eq", b.and_(s.get(op.seen), asked), 0)


@TABLE.lowers("tile.turn_addends")
def turn(s: State, op: ir.OpView) -> None:
    b, variable = s.b, s.get(op.addends)
    was, low = is_low(b, variable), s.get(op.low)
    change = b.select(low, b.constant(2.0**LOW_SHIFT), b.constant(2.0**-LOW_SHIFT))
    power = b.select(b.compare("eq", was, low), b.constant(1.0), change)
    _multiply(b, s.get(op.accumulator), power)
    variable.set(b.select(low, b.constant(1), 0))


@TABLE.lowers("tile.end_addends")
def end(s: State, op: ir.OpView) -> None:
    b = s.b
    powers = (b.constant(2.0**power) for power in (-SHIFT - LOW_SHIFT, -SHIFT))
    _multiply(b, s.get(op.accumulator), b.select(is_low(b, s.get(op.addends)), *powers))


def _multiply(b: Builder, sums: Fragment, power: ir.Value) -> None:
    for wave in sums.waves:
        for v in wave:
            v.set(b.fmul(v.get(), power))
