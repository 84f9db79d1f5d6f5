"""Elements of 4 bits times powers of two as an e4m3 each, and a power of two that all of a K block have in common.

From 2^-5 on the seven magnitudes of an e2m1 that are not 0 are normal e4m3, up to 2^REACH times that. So of a scale the
tables that `prmt` looks four elements up in (PTX ISA 9.7.9.7) are those of the least one, in the exponent of each byte
what the scale is more: a product and a sum, of a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_powers import REACH
from scalec.lowering.builder import Builder
from scalec.lowering.common.copies import widened
from scalec.lowering.common.promote import RowFactors, UniformFactors
from scalec.lowering.common.scale_bytes import what_warps_saw
from scalec.lowering.common.state import State
from scalec.lowering.common.words import Words
from scalec.lowering.sm90.addends import fours
from scalec.lowering.sm90.table import TABLE

MANTISSA = 23  # bits of an f32

SHIFT = 5
"""The power of two by which elements of the least scale are smaller, so that 0.5 is the least normal e4m3."""

TABLES = ((0x08080800, 0x14100800), (0x08080808, 0x24201C18))
"""The lower and the upper four magnitudes: by what a scale's exponent is multiplied that is beyond the least one's, and
what that is added to, 2^-SHIFT times each; 0 stays 0."""

PLAIN = (0x3C383000, 0x4C484440)
"""Those of elements without a scale."""


@dataclass(frozen=True)
class Powers:
    """Of a K block: whether its scales are in REACH; what is added to products of these for the two tables; by what
    sums are promoted."""

    reaches: ir.Value
    added: tuple[ir.Value, ir.Value]
    factor: ir.Value


@TABLE.lowers("tile.seen_powers")
def seen_powers(s: State, op: ir.OpView) -> None:
    b = s.b
    both = reduce(lambda x, y: b.pure("max.u16x2 $0, $1, $2;", b.i32, x, y), what_warps_saw(s, op))
    largest, below = b.shr(both, 16), b.and_(both, 0xFFFF)
    reaches = b.compare("lt", b.add(largest, below), 255 + REACH + 1)
    least = b.sub(b.pure(f"max.u32 $0, $1, {REACH};", b.i32, largest), REACH)
    first, second = (b.pure("mad.lo.u32 $0, $1, $2, $3;", b.i32, least, -by, more) for by, more in TABLES)
    bits = b.shl(b.add(least, SHIFT), MANTISSA)  # a ue8m0 and an f32 have the same bias
    s.values[op.result] = Powers(reaches, (first, second), b.float_of(bits))


@TABLE.lowers("tile.in_reach")
def in_reach(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.get(op.powers).reaches


@TABLE.lowers("tile.power_factors")
def power_factors(s: State, op: ir.OpView) -> None:
    value = s.b.constant(1.0) if op.powers is None else s.get(op.powers).factor
    s.values[op.result] = UniformFactors([value], 0)


@TABLE.lowers("tile.multiply_rows")
def multiply_rows(s: State, op: ir.OpView) -> None:
    rows = s.get(op.factors).rows
    for wave in s.get(op.partial).waves:
        for number, v in enumerate(wave):  # of each four two are of the row below
            v.set(s.b.fmul(v.get(), rows[number // 2 % 2]))


@TABLE.lowers("tile.word_factors")
def word_factors(s: State, op: ir.OpView) -> None:
    b, source, waves = s.b, s.get(op.source), tile.int_of(op.waves)
    rows = tile.shape_of(op.source.type)[1]

    def emit() -> ir.Value:
        return b.add(source.base, b.shl(b.add(b.mul(s.unit(0), waves * s.geometry.wave), s.row_in_wave), 2))

    at = source.at(b, s.get(op.cursor), s.once(("rows", op.source, waves), emit))
    word, byte = divmod(tile.int_of(op.byte), 4)
    first = 4 * (word * rows + tile.int_of(op.wave) * s.geometry.wave)
    loaded = [b.asm(f"ld.shared.b32 $0, [$1 + {first + 4 * below}];", [b.i32], [at])[0] for below in (0, 8)]
    one, other = (widened(b, x, byte, tile.str_of(op.element)) for x in loaded)
    s.values[op.result] = RowFactors((one, other))


def tables_of(b: Builder, powers: Powers, scale: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The two tables of a scale of the block, a byte."""
    (low, _), (high, _) = TABLES
    first, second = powers.added
    return (
        b.pure("mad.lo.u32 $0, $1, $2, $3;", b.i32, scale, low, first),
        b.pure("mad.lo.u32 $0, $1, $2, $3;", b.i32, scale, high, second),
    )


def plain_tables(b: Builder) -> tuple[ir.Value, ir.Value]:
    """Those of all elements without a scale."""
    return b.constant(PLAIN[0]), b.constant(PLAIN[1])


def looked_up(b: Builder, word: ir.Value, count: int, tables: tuple[ir.Value, ir.Value]) -> Words:
    """Of so many times four e2m1 of a word registers of e4m3."""
    found = []
    for magnitudes, signs in fours(b, word, count):
        value = b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, *tables, magnitudes)
        found.append(b.pure("lop3.b32 $0, $1, $2, 0x80808080, 0xf8;", b.i32, value, signs))  # a | b & c
    return found
