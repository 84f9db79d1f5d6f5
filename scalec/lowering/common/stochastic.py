"""Rounding by chance: an element's random bits, and what they make of a value, in integer arithmetic on every target.

Source: J. K. Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011): Philox 4x32-10, section 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from scalec.formats import DRAWN, GRIDS, element_spelled
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common.epilogue import PIECE, Place, exchange, has_rows, places
from scalec.lowering.common.state import COMMON, State

ROUNDS = 10
PRODUCT = "{\n.reg .b64 P;\nmul.wide.u32 P, $2, $3;\nmov.b64 {$0, $1}, P;\n}"
"""Of two i32, as two: LLVM would compute all behind it in i64."""
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
STEPS = (0x9E3779B9, 0xBB67AE85)
"""Of the two words of the key, from round to round."""
DIGITS, BIAS, SIGN, NAN = 23, 127, 1 << 31, 0x7FC00000
"""Of f32: bits of the mantissa, bias of the exponent, the bit of the sign, and a NaN."""


def philox(b: Builder, number: ir.Value, words: list[ir.Value | int]) -> list[ir.Value]:
    """Four words of 32 random bits of counter `number`, an i64, by the words of the key and of the counter's rest."""
    low, high = (b.op("arith.trunci", [b.i32], [x]) for x in (number, b.shr(number, 32)))
    c, keys, pure = [low, high, *words[2:]], words[:2], {"volatile": False, "memory": False}
    for round_ in range(ROUNDS):
        products = [b.asm(PRODUCT, [b.i32, b.i32], [c[2 * i], MULTIPLIERS[i]], **pure) for i in (0, 1)]
        lows, highs = zip(*products, strict=True)
        key = [b.value(b.add(x, round_ * step & 0xFFFFFFFF)) for x, step in zip(keys, STEPS, strict=True)]
        c = [b.xor(b.xor(highs[1], c[1]), key[0]), lows[1], b.xor(b.xor(highs[0], c[3]), key[1]), lows[0]]
    return [b.value(x) for x in c]


@COMMON.lowers("tile.round_columns")
def round_columns(s: State, op: ir.OpView) -> None:
    """Random words for four columns at a time, of which a thread with fewer takes its own: it begins at a multiple of
    what it has, or anywhere, and then takes its words of one four more."""
    b, row = s.b, element_spelled(str(op.element.value))
    assert row is not None
    values = [x.get() if isinstance(x, Variable) else x for x in s.get(op.value)]
    *outer, column = (b.value(s.get(x)) for x in op.at)
    extents, words = [b.value(s.get(x)) for x in op.extents], _words(s, op)
    first_row, made, each = _fours_before(b, outer, extents), [], math.gcd(len(values), DRAWN)

    def of_four(at: ir.Value) -> list[ir.Value]:
        number = b.widen(b.div(at, DRAWN))
        return philox(b, number if first_row is None else b.add(first_row, number), words)

    anywhere, random = "anywhere" in op.operation.attributes, list[ir.Value]()
    for first in range(0, len(values), each):
        at = b.value(b.add(column, first))
        if anywhere:
            random = (random[DRAWN:] if each == DRAWN else []) or of_four(at)
            random += of_four(b.value(b.add(at, DRAWN)))
            own = _shifted(b, random, b.and_(at, DRAWN - 1))
        else:
            own, place = of_four(at), b.and_(at, DRAWN - 1)
            for i in range(each, DRAWN, each):
                found = b.compare("eq", place, i)
                own[:each] = [b.select(found, own[i + j], own[j]) for j in range(each)]
        made += [rounded(b, x, *GRIDS[row.name], bits) for x, bits in zip(values[first:], own[:each], strict=False)]
    s.values[op.result] = made


def _shifted(b: Builder, words: list[ir.Value], place: ir.Value) -> list[ir.Value]:
    """Four of eight words, from a number of 0 to 3 on."""
    for bit in (2, 1):
        beyond = b.compare("ne", b.and_(place, bit), 0)
        words = [b.select(beyond, words[i + bit], x) for i, x in enumerate(words[:-bit])]
    return words[:DRAWN]


def _words(s: State, op: ir.OpView) -> list[ir.Value | int]:
    """Those that bits are made of, the ones that are left out too."""
    words: list[ir.Value | int] = [s.b.value(s.get(x)) for x in op.words]
    return words + [0] * (DRAWN - len(words))


def _fours_before(b: Builder, outer: list[ir.Value], extents: list[ir.Value]) -> ir.Value | None:
    """The fours of all rows before the one at these indices, an i64; None where there is only one row."""
    if not outer:
        return None
    row = b.widen(outer[0])
    for index, extent in zip(outer[1:], extents, strict=False):
        row = b.add(b.mul(row, b.widen(extent)), b.widen(index))
    return b.mul(row, b.widen(b.ceildiv(extents[-1], DRAWN)))


@COMMON.lowers("tile.round_sums")
def round_sums(s: State, op: ir.OpView) -> None:
    """Lanes that have some of the same four elements find the words of one row's each, and exchange them."""
    fragment, row = s.get(op.accumulator), element_spelled(str(op.element.value))
    assert row is not None
    find = _of_rows if tile.int_of(op.by_rows) else _of_columns if s.geometry.adjacent < DRAWN else _of_own
    fours, inside = _Fours(s, op), has_rows(s, op, len(fragment.waves))
    for wave, registers in enumerate(fragment.waves):
        groups = list(places(s, op, wave, len(fragment.waves), fragment.columns, fragment.live))
        for first in range(0, len(groups), PIECE):
            with s.b.when(inside):
                for i, bits in find(s, fours, groups[first : first + PIECE]):
                    v = registers[i]
                    v.set(rounded(s.b, v.get(), *GRIDS[row.name], bits))


class _Fours:
    """The random words of four adjacent elements of a result."""

    def __init__(self, s: State, op: ir.OpView) -> None:
        self.b, self.along, self.words = s.b, tile.int_of(op.along), _words(s, op)
        self.at, self.extents = ([s.b.value(s.get(x)) for x in xs] for xs in (op.at, op.extents))

    def random(self, row: ir.Value, first: ir.Value) -> list[ir.Value]:
        """Of the fours in which element `first` of a row is."""
        outer = list(self.at)
        if self.along >= 0:
            outer.insert(self.along, row)
        before, number = _fours_before(self.b, outer, self.extents), self.b.widen(self.b.div(first, DRAWN))
        return philox(self.b, number if before is None else self.b.add(before, number), self.words)


Groups = list[tuple[int, Place]]
Bits = Iterator[tuple[int, ir.Value]]
"""By numbers of registers, the bits of what they hold."""


def _of_own(_s: State, fours: _Fours, groups: Groups) -> Bits:
    """A thread has four adjacent columns of each row in two groups."""
    for g, place in groups[::2]:
        for half, row in enumerate(_both(fours.b, place.row, 8, place.row_to)):
            for i, bits in enumerate(fours.random(row, place.column)):
                yield 4 * (g + i // 2) + 2 * half + i % 2, bits


def _of_columns(s: State, fours: _Fours, groups: Groups) -> Bits:
    """Two lanes that follow each other have four adjacent columns of two rows: one finds the words of each row."""
    b = s.b
    odd = b.compare("ne", b.and_(s.lane, 1), 0)
    for g, place in groups:
        upper, lower = _both(b, place.row, 8, place.row_to)
        random = fours.random(b.select(odd, lower, upper), place.column)
        for i in (0, 1):
            own, other = exchange(s, odd, 1, random[i], random[i + 2])
            yield 4 * g + i, own
            yield 4 * g + 2 + i, other


def _of_rows(s: State, fours: _Fours, groups: Groups) -> Bits:
    """Four lanes, of rows that follow each other, have four adjacent elements of two columns, and of the same 8 rows
    on: each finds the words of one of these, and they exchange what is a matrix of words by lanes."""
    b = s.b
    second, below = (b.compare("ne", b.and_(s.lane, bit), 0) for bit in (4, 8))
    for g, place in groups:
        left, right = _both(b, place.column, 1, place.column_to)
        first = b.select(below, b.add(place.row, 8), place.row)
        random = fours.random(b.select(second, right, left), first)
        for bit, distance, pairs in ((second, 4, ((0, 1), (2, 3))), (below, 8, ((0, 2), (1, 3)))):
            for i, j in pairs:
                random[i], random[j] = exchange(s, bit, distance, random[i], random[j])
        for i, bits in enumerate(random):
            yield 4 * g + i, bits


def _both(b: Builder, first: ir.Value, step: int, to: tuple[ir.Value, ir.Value] | None) -> tuple[ir.Value, ir.Value]:
    """A place's two rows, or columns, where they are stored."""
    return to or (first, b.value(b.add(first, step)))


def rounded(b: Builder, x: ir.Value, mantissa: int, least: int, bits: ir.Value) -> ir.Value:
    """x rounded to a multiple of what numbers with such a mantissa lie apart, and least exponent of normal ones.

    The bits of f32 count its numbers from 0 on, so that to add to them below those that are kept, and to cut these off,
    rounds up or down. Below the least exponent numbers lie as far apart as above it: |x| is moved there for that long.
    No sum is beyond NaN but that of a NaN, which stays one; infinity stays, as there is less to add than is between.
    A product with 1 or -1 gives the sign back, and NaN none, which targets without an instruction would keep.
    """
    dropped = DIGITS - mantissa
    own = b.bits(x)
    magnitude = b.and_(own, SIGN - 1)
    below = b.compare("lt", magnitude, least + BIAS << DIGITS)
    moved = b.select(below, math.ldexp(1.0, least), 0.0)
    total = b.pure("add.rz.f32 $0, $1, $2;", b.f32, b.float_of(magnitude), moved)
    bits = b.add(b.bits(total), b.shr(bits, 32 - dropped))
    kept = b.float_of(b.and_(b.min(bits, NAN), (1 << 32) - (1 << dropped)))
    sign = b.float_of(b.or_(b.and_(own, SIGN), BIAS << DIGITS))
    return b.fmul(b.op("arith.subf", [b.f32], [kept, moved]), sign)
