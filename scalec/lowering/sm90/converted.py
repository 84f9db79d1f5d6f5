"""A of wgmma out of registers, where threads convert what copies brought (PTX ISA 9.7.15.5.1.1).

A register of A holds 4 bytes of K of a row: thread q of the four that share a row has bytes 4q to 4q + 3 of each 16, a
chunk. Of narrower stored elements that is a byte, or two, of each word, or two words, that all four load.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from scalec.formats import ELEMENT_TYPES, ElementType, element_spelled, fragments
from scalec.ir import tile
from scalec.ir.mlir import ir, nvvm
from scalec.ir.tile_cut import PAIRS_APART
from scalec.lowering.builder import Builder
from scalec.lowering.common.differences import differences, table_of_number
from scalec.lowering.common.elements import (
    APART,
    converted,
    half_of_e2m1,
    scaled,
    smaller,
    smaller_in_order,
    taken_away,
)
from scalec.lowering.common.state import State, swizzle
from scalec.lowering.common.words import Words, held
from scalec.lowering.sm90.addends import FACTORS, Kind, both, byte_of, is_low
from scalec.lowering.sm90.loaded import (
    BELOW,
    WORD_BYTES,
    Loaded,
    element_in,
    factor_at,
    interleaved,
    quarter_of,
    table_at,
)
from scalec.lowering.sm90.multiply import MMA_TYPE, Matrix, renewed
from scalec.lowering.sm90.powers import Powers, looked_up, plain_tables, tables_of
from scalec.lowering.sm90.table import TABLE
from scalec.targets import WAVES
from scalec.zero_points import LOOKED_UP, NUMBERS, added, takes_zeros

INSTRUCTION = 256  # bits of K of a row that an instruction multiplies


def _part(stored: ElementType, made: ElementType) -> int:
    """Bits of what becomes a register."""
    return stored.bits * 32 // made.bits


@TABLE.lowers("tile.load_stored")
def load_stored(s: State, op: ir.OpView) -> None:
    b, cursor = s.b, s.get(op.cursor)
    stored, made = element_in(op.result.type), element_spelled(str(ir.TypeAttr(op.made).value))
    assert made is not None
    (wave, depth), (rows, width) = tile.shape_of(op.result.type), tile.shape_of(op.source.type)
    if "interleaved" in op.operation.attributes or "fragments" in op.operation.attributes:
        s.values[op.result] = interleaved(s, op, stored, made)
        return
    waves, number, above = tile.int_of(op.waves), tile.int_of(op.number), tile.int_of(op.a_wave) * wave
    in_words = "in_words" in op.operation.attributes
    if in_words:
        rows, width = width, rows
    pitch, part = width * tile.bits_of(tile.element_of(op.source.type)) // 8, _part(stored, made)
    row = s.once(("converted row", waves), lambda: b.add(b.mul(s.unit(0), waves * wave), s.row_in_wave))
    turned, scaled_words = bool(tile.swizzle_of(op.source.type)), "words" in op.operation.attributes

    def own() -> ir.Value:
        at = b.add(s.get(op.source).base, b.mul(row, WORD_BYTES if in_words else pitch))
        if in_words:
            return b.add(at, b.mul(b.shr(quarter_of(s), 1), WORD_BYTES * rows)) if part > 8 else at
        if scaled_words:
            at = b.add(at, b.shl(quarter_of(s), 1))
        elif part > 8:
            at = b.add(at, b.shl(b.shr(quarter_of(s), 1) if part == 16 else quarter_of(s), 2))
        return b.add(at, b.shl(swizzle(b, row, pitch), 4)) if turned else at

    at = s.get(op.source).at(b, cursor, s.once(("converted", op.source, waves), own))
    chunks = depth * made.bits // 128
    first = number * depth * stored.bits // 8
    load = _halves if scaled_words else _words
    if in_words:
        # of each 16 bytes of what is made one word, or of two the one that `own` says
        each = part // 8
        lines = range(number * chunks * each, (number + 1) * chunks * each, each)
        words = [_of_lines(b, at, [line * rows + above + r for line in lines]) for r in (0, BELOW)]
    else:
        words = [load(b, at, part, first, chunks, (above + r) * pitch, turned) for r in (0, BELOW)]

    def beside(source: ir.Value, in_word: int) -> tuple[list[int], list[dict[int, Any]]]:
        """The number of each chunk's factor, and for both rows words by the number of the first one in it, or tables
        of several words."""
        planes = tile.shape_of(source.type)[0]
        planes = in_word * (planes - 1) if in_word > 1 else planes
        each = depth * tile.int_of(op.count) // planes  # elements of K that share a factor
        size = 4 * tile.shape_of(source.type)[1] // rows  # of a row's
        place = s.once(("factors", source, waves), lambda: b.add(s.get(source).base, b.mul(row, size)))
        place = s.get(source).at(b, cursor, place)
        which = [k // each for k in range(number * depth, (number + 1) * depth, 128 // made.bits)]
        held = dict.fromkeys(n // in_word for n in which)
        offsets = ({n: size * (n * rows + above + r) for n in held} for r in (0, BELOW))

        def one(offset: int) -> Any:
            return table_at(s, place, offset) if size > 4 else factor_at(s, source, place, offset, made.name)

        return which, [{n: one(x) for n, x in some.items()} for some in offsets]

    found = Loaded((words[0], words[1]), ([], []))
    if op.zeros is not None:
        which, (one, other) = beside(op.zeros, 1)
        found = replace(found, zeros=([one[n] for n in which], [other[n] for n in which]))
    if scaled_words:
        which, (one, other) = beside(op.factors, 4)
        scales = [(one[n // 4], n % 4) for n in which], [(other[n // 4], n % 4) for n in which]
        found = replace(found, scales=scales, numbers=which)
    elif op.factors is not None:
        which, (one, other) = beside(op.factors, 1)
        found = replace(found, factors=([one[n] for n in which], [other[n] for n in which]))
    s.values[op.result] = found


def _halves(b: Builder, at: ir.Value, part: int, first: int, chunks: int, offset: int, turned: bool) -> Words:
    """The thread's 16 bits of each chunk of what is made, of the row at `offset`."""
    found: Words = []
    for chunk in range(first, first + chunks * part // 2, 16):
        place = b.xor(at, chunk) if turned else b.add(at, chunk)
        for i in (0, 8):
            text = f"{{ .reg .b16 H; ld.shared.b16 H, [$1 + {offset + i}]; cvt.u32.u16 $0, H; }}"
            found += b.asm(text, [b.i32], [place])
    return found


def _of_lines(b: Builder, at: ir.Value, places: Sequence[int]) -> Words:
    """Words so many words behind an address."""
    return [b.asm(f"ld.shared.b32 $0, [$1 + {WORD_BYTES * x}];", [b.i32], [at])[0] for x in places]


def _words(b: Builder, at: ir.Value, part: int, first: int, chunks: int, offset: int, turned: bool) -> Words:
    """A word of each chunk of what is made, in which the thread's part of the row at `offset` is."""
    found: Words = []
    each = part // 2  # bytes that become a chunk
    for chunk in range(first, first + chunks * each, 16):
        place = b.xor(at, chunk) if turned else b.add(at, chunk)
        if part == 8:
            found += b.asm(f"ld.shared.v4.b32 {{$0, $1, $2, $3}}, [$4 + {offset}];", [b.i32] * 4, [place])
        else:
            each_8 = (0, 8) if part == 16 else (0,)
            found += [b.asm(f"ld.shared.b32 $0, [$1 + {offset + i}];", [b.i32], [place])[0] for i in each_8]
    return found


@TABLE.lowers("tile.converted")
def convert(s: State, op: ir.OpView) -> None:
    """The registers are tied behind the conversion, so that none of it is sunk behind the fence."""
    b, loaded = s.b, s.get(op.stored)
    stored, made = element_in(op.stored.type), element_in(op.result.type)
    attributes, loaded = op.operation.attributes, loaded.slice(*tile.slice_of(op))
    if "scales" in attributes:
        kind, known = tile.str_of(attributes["scales"]), s.get(op.known) if op.known is not None else None
        s.values[op.result] = (
            _addends(b, loaded, FACTORS[kind], None if known is None else is_low(b, known))
            if kind in FACTORS
            else _one_each(b, loaded, known, tile.int_of(attributes["only"]) if "only" in attributes else None)
        )
        return
    name, looked_up = stored.name, takes_zeros(stored.name, made.name) and made.name == LOOKED_UP
    halves = loaded.fragments and fragments(name, made) == "halves"
    made_of: list[Words] = []
    for words, factors, zeros in zip(loaded.words, loaded.factors, loaded.zeros, strict=True):
        less = _subtrahends(b, op, stored, made, zeros or [None] * len(words))
        if loaded.several == PAIRS_APART:
            pairs = zip(words, less, strict=True)
            values = [x for word, y in pairs for x in APART[name, made.name](b, word, *([y] if y else []))]
        elif (name, made.name) in _BY_BYTE:
            values = _BY_BYTE[name, made.name](s, words, less)
        else:
            tables = zeros
            if looked_up and "added" not in attributes:
                number = tile.optional(op, "less")
                tables = [table_of_number(b, name, number)] * len(words)
            tables = tables if looked_up else None
            if "smaller" in attributes:
                own = words if loaded.several else own_parts(s, words, ELEMENT_TYPES[name], made)
                # consumers of few columns wait for what they make: by products 1.05 of the time (H200, 2026-11-30)
                make = smaller if halves else partial(smaller_in_order, shifted=True)
                values = [x for word in own for x in make(b, word)]
            elif loaded.several:
                values = adjacent(b, words, name, made.name, tables)
                values = _halves_of(b, values) if halves else values
            else:
                values = together(s, words, ELEMENT_TYPES[name], made, tables)
        factors = [x for x in factors for _ in range(len(values) // len(factors))]
        made_of.append(
            [scaled(b, x, f, made.name) for x, f in zip(values, factors, strict=True)] if factors else values
        )
    s.values[op.result] = tied(b, registers(made_of))


def _subtrahends(
    b: Builder, op: ir.OpView, stored: ElementType, made: ElementType, zeros: Sequence[Any]
) -> list[Words]:
    """What each word's integers are less behind their conversion, one after the other: nothing but the number that this
    takes away where there are no zero points."""
    attributes, key = op.operation.attributes, (stored.name, made.name)
    if key not in NUMBERS or not ("less" in attributes or "added" in attributes):
        return [[] for _ in zeros]

    def constant(number: int) -> ir.Value:
        return b.constant(0x10001 * bits_of_16(number, made.name))

    if "less" in attributes:
        number = tile.int_of(attributes["less"])
        together = added(*key, number, number)
        return [[constant(x) for x in ((together + number,) if together else (NUMBERS[key], number))]] * len(zeros)
    before = [] if tile.int_of(attributes["added"]) else [constant(NUMBERS[key])]
    return [[*before, x] for x in zeros if x is not None]


def bits_of_16(number: int, made: str) -> int:
    """A number as bf16 or f16, which has it."""
    if made == "f16":
        return int.from_bytes(struct.pack("<e", number), "little")
    return int.from_bytes(struct.pack("<f", number), "little") >> 16


def registers(rows: list[Words]) -> list[Words]:
    """Those of each instruction, of the chunks of a thread's two rows."""
    return [[rows[i % 2][2 * step + i // 2] for i in range(4)] for step in range(len(rows[0]) // 2)]


def tied(b: Builder, steps: list[Words]) -> list[Words]:
    every = [x for step in steps for x in step]
    same = b.asm("", [b.i32] * len(every), every, tied=len(every), memory=False)
    return [same[i : i + 4] for i in range(0, len(same), 4)]


def _addends(b: Builder, loaded: Loaded, factor: Kind, low: ir.Value | None) -> list[Words]:
    """Those of each instruction, the one addend's behind the other's."""
    rows = [
        both(b, words, loaded.several or 1, [factor(b, word, number, low) for word, number in scales])
        for words, scales in zip(loaded.words, loaded.scales, strict=True)
    ]
    one, other = (registers([row[i] for row in rows]) for i in (0, 1))
    return tied(b, [x for pair in zip(one, other, strict=True) for x in pair])


def _one_each(b: Builder, loaded: Loaded, powers: Powers | None, only: int | None) -> list[Words]:
    """Those of each instruction, of a K block whose `powers` are known, or of elements without their scales, of which
    those of one alone may count."""
    rows = []
    for words, scales in zip(loaded.words, loaded.scales, strict=True):
        if powers is None:
            tables = [plain_tables(b)] * len(words)
        else:
            own = {x: tables_of(b, powers, byte_of(b, *x)) for x in dict.fromkeys(scales)}
            tables = [own[x] for x in scales]
        some = words
        if only is not None:
            some = [_if_of(b, word, number, only) for word, number in zip(words, loaded.numbers, strict=True)]
        pairs = zip(some, tables, strict=True)
        rows.append([x for word, table in pairs for x in looked_up(b, word, loaded.several or 1, table)])
    return tied(b, registers(rows))


def _if_of(b: Builder, word: ir.Value, number: ir.Value | int, only: int) -> ir.Value:
    """A word, if its scale's number is that; else 0."""
    if isinstance(number, int):
        return word if number == only else b.constant(0)
    return b.select(b.compare("eq", number, only), word, b.constant(0))


def together(
    s: State, words: Words, stored: ElementType, made: ElementType, tables: list[Words] | None = None
) -> Words:
    """The parts of several words side by side in one, converted as any other, or by tables of each."""
    per, found = 32 // _part(stored, made), []
    for first, word in enumerate(own_parts(s, words, stored, made)):
        if tables is not None:
            found += differences(s.b, word, (tables[per * first], tables[per * first + 1]))
        else:
            found += converted(s.b, [word], stored.name, made.name)
    return found


def _halves_of(b: Builder, values: Words) -> Words:
    """Of each eight elements, two registers, those that lower halves of bytes were, and those that upper ones were."""
    pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
    return [b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, *pair, which) for pair in pairs for which in (0x6420, 0x7531)]


def adjacent(b: Builder, words: Words, stored: str, made: str, tables: list[Words] | None) -> Words:
    """Likewise of words that are the thread's alone."""
    if tables is None:
        return [x for word in words for x in converted(b, [word], stored, made)]
    return [x for word, table in zip(words, tables, strict=True) for x in differences(b, word, (table, table))]


def own_parts(s: State, words: Words, stored: ElementType, made: ElementType) -> Iterator[ir.Value]:
    """The thread's part of each word, those of several side by side in one."""
    b, part = s.b, _part(stored, made)
    per = 32 // part
    for first in range(0, len(words), per):
        some = words[first : first + per]
        while len(some) > 1:
            how = _selector(s, part) if len(some) == per else 0x5410
            some = [b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, *some[i : i + 2], how) for i in range(0, len(some), 2)]
        yield some[0]


def _selector(s: State, part: int) -> ir.Value:
    """Of `prmt`, that takes the thread's part of each of two words."""
    b = s.b

    def emit() -> ir.Value:
        if part == 8:
            return b.add(b.mul(quarter_of(s), 0x11), 0x40)
        return b.add(b.mul(b.and_(quarter_of(s), 1), 0x2222), 0x5410)

    return s.once(("selector", part), emit)


def _spread(s: State, word: ir.Value, other: ir.Value) -> ir.Value:
    """The thread's byte of a word in both bytes of the lower half, and that of another in the upper half's."""
    selector = s.once("spread", lambda: s.b.add(s.b.mul(quarter_of(s), 0x1111), 0x4400))
    return s.b.pure("prmt.b32 $0, $1, $2, $3;", s.b.i32, word, other, selector)


def _e2m1_by_byte(made: str) -> Callable[[State, Words, list[Words]], Words]:
    """The thread's two e2m1 of each word, those of two words together: 4.5 instructions for two elements."""

    def convert(s: State, words: Words, _: list[Words]) -> Words:
        b, found = s.b, []
        for i in range(0, len(words), 2):
            four = b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, *words[i : i + 2], _selector(s, 8))
            found += half_of_e2m1(b, four, 0, made)
        return found

    return convert


def _4_by_byte(made: str, number: int) -> Callable[[State, Words, list[Words]], Words]:
    """The thread's two integers of 4 bits of each word, as scalec.lowering.common.convert.four_as has it."""

    def convert(s: State, words: Words, less: list[Words]) -> Words:
        b, both, nibbles, found = s.b, 0x10001 * number, held(s.b, 0x000F000F), []
        for word, some in zip(words, less, strict=True):
            value = b.xor(b.and_(_spread(s, word, b.shr(word, 4)), nibbles), both)
            found.append(taken_away(b, value, some or [b.constant(both)], made))
        return found

    return convert


_BY_BYTE: dict[tuple[str, str], Callable[[State, Words, list[Words]], Words]] = {
    ("e2m1", "bf16"): _e2m1_by_byte("bf16"),
    ("e2m1", "f16"): _e2m1_by_byte("f16"),
    ("i4", "bf16"): _4_by_byte("bf16", 0x4308),
    ("i4", "f16"): _4_by_byte("f16", 0x6408),
    ("u4", "bf16"): _4_by_byte("bf16", 0x4300),
    ("u4", "f16"): _4_by_byte("f16", 0x6400),
}
"""By the types before and behind: conversions of a byte of each word."""

assert all(_part(ELEMENT_TYPES[stored], ELEMENT_TYPES[made]) == 8 for stored, made in _BY_BYTE)


@TABLE.lowers("tile.mma_converted")
def mma(s: State, op: ir.OpView) -> None:
    b, cursor, bb = s.b, s.get(op.cursor), s.get(op.b)
    registers = s.get(op.accumulator).waves[tile.int_of(op.wave)]
    matrix, kinds = Matrix.of(op, "b"), [MMA_TYPE[str(tile.element_of(x.type))] for x in (op.a, op.b)]
    steps = s.get(op.a)
    number, _ = tile.slice_of(op)
    start = bb.at(b, cursor, s.once(("b", op.b), lambda: matrix.place(b, bb.base)), 16)
    start = b.add(start, tile.int_of(op.column) * matrix.row // 16)
    count, row = len(registers), tile.shape_of(op.a.type)[1] * tile.bits_of(tile.element_of(op.a.type))
    each = len(steps) * INSTRUCTION // row  # two of addends
    sums, a = (", ".join(f"${i}" for i in some) for some in (range(count), range(count, count + 4)))
    shape = f"m{WAVES['registers']}n{2 * count}k{tile.shape_of(op.a.type)[1] * each // len(steps)}"
    turned = f", {int(matrix.mn)}" if kinds[1] in ("bf16", "f16") else ""
    values = renewed(b, registers)
    nvvm.WgmmaFenceAlignedOp()
    for i, step in enumerate(steps):
        adds = int(bool(tile.int_of(op.accumulate)) or i > 0)
        text = (
            f"{{ .reg .pred p; setp.ne.b32 p, {adds}, 0; wgmma.mma_async.sync.aligned.{shape}.f32.{'.'.join(kinds)} "
            f"{{{sums}}}, {{{a}}}, ${count + 4}, p, 1, 1{turned}; }}"
        )
        descriptor = matrix.descriptor(s, start, number * (len(steps) // each) + i // each)
        values = b.asm(text, [b.f32] * count, [*step, descriptor, *values], tied=count)
    nvvm.WgmmaGroupSyncAlignedOp()
    for v, x in zip(registers, values, strict=True):
        v.set(x)
