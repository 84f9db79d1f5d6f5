"""Integers less their zero points, on their way to what is multiplied: exactly, as few instructions as without.

A number of 4 bits in the lowest bits of one whose last bit is worth 1 is that number plus it; less the number plus the
zero point, it is the difference. So the subtraction that takes the number away takes the zero point with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scalec.formats import element_spelled
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_zero_points import along_in, bounds_in, order_in, stored_in, strips_in
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common.convert import place_of
from scalec.lowering.common.copies import RowScales, store_vectors
from scalec.lowering.common.differences import differences, table_of, table_of_number
from scalec.lowering.common.elements import (
    bytes_of_halves,
    four_as,
    halves_to_tf32,
    integers_apart,
)
from scalec.lowering.common.state import COMMON, State, thread_of
from scalec.lowering.common.turned_words import TurnedWords
from scalec.lowering.common.word_rows import WordRows
from scalec.lowering.common.words import Words
from scalec.targets import WARPGROUP
from scalec.zero_points import LOOKED_UP, Order

_NUMBERS = {("u4", "f16"): 0x6600, ("i4", "f16"): 0x6608, ("u4", "bf16"): 0x4340, ("i4", "bf16"): 0x4348}
"""1536 and 192, of an i4 plus 8, as its sign bit is turned: half way between two powers of two, of numbers whose last
bit is worth 1."""

_WITHIN = {"f16": (-256, 256), "bf16": (-56, 56)}
"""Zero points for which the number plus them still has such a last bit."""


Place = int | tuple[int, int]
"""Of a thread's rows the first that it converts together, and of words which block of K."""


@dataclass(frozen=True)
class ZeroPoints:
    """A thread's zero points by the first row of those that it converts together, or one number for all. Of words they
    are by that row and the number of a block of K, of the thread's chunks in which as many as are `sharing` lie. Of
    what is turned they are by the time and the row of a word (`TurnedWords`); `sharing` times, one after the other,
    have the same.

    Attributes:
        loaded: as they were loaded, a byte each. What follows from a byte is computed where it is used: before, it
            would wait for memory.
        shifts: of each the lowest bit of a zero point of 4 bits; none where all 8 are one.
        signed: whether the highest of these is its sign.
        plus: what each is more than was loaded.
        bounds: between what zero points lie.
        words: whether eight are in a word, those of the rows of a word that is turned, in the order of its elements.
    """

    loaded: Mapping[Place, ir.Value] | int
    bounds: tuple[int, int]
    shifts: Mapping[Place, ir.Value] = field(default_factory=dict)
    signed: bool = False
    plus: int = 0
    sharing: int = 1
    words: bool = False

    def of(self, b: Builder, first: Place) -> ir.Value | int:
        """That of a row, an i32."""
        if isinstance(self.loaded, int):
            return self.loaded
        value = self.loaded[first]
        if first in self.shifts:
            value = b.and_(b.op("arith.shrui", [b.i32], [value, self.shifts[first]]), 15)
            value = b.sub(b.xor(value, 8), 8) if self.signed else value
        return b.add(value, self.plus)

    def of_words(
        self, b: Builder, words: Words, at: tuple[int, int], stored: str, made: str, known: dict[Any, Words]
    ) -> Words:
        """`convert` of a chunk that was made of words, `at` a row and a place in it; `known`: what is subtracted of
        others in the same block of the program."""
        return self.convert(b, words, (at[0], at[1] // self.sharing), stored, made, known)

    def convert(
        self, b: Builder, words: Words, first: Place, stored: str, made: str, known: dict[Any, Words] | None = None
    ) -> Words:
        """Adjacent elements of a row, `words` of them, less its zero point, as `made`."""
        if made == LOOKED_UP and isinstance(self.loaded, int):
            table = table_of_number(b, stored, self.loaded)
            return [x for word in words for x in differences(b, word, (table, table))]
        kind, known = "bf16" if made == "bf16" else "f16", {} if known is None else known
        if first not in known:
            known[first] = self.less(b, self.of(b, first), stored, kind)
        less, pairs = known[first], []
        for word in words:
            pairs += four_as(b, word, _NUMBERS[stored, kind], kind, less)
        if made == "tf32":
            return halves_to_tf32(b, pairs[: 4 // 2])  # half a word was loaded
        return bytes_of_halves(b, pairs) if made == "e4m3" else pairs

    def of_turned(self, b: Builder, at: tuple[int, int], stored: str, made: str, known: dict[Any, Words]) -> Words:
        """What is subtracted of a row that a thread turns, one after the other: `at` says which time, and which of the
        rows that it makes of a word."""
        key, kind = (at[0] // self.sharing, at[1]), "bf16" if made == "bf16" else "f16"
        if key not in known:
            of_words = self.words and not isinstance(self.loaded, int)
            known[key] = (
                self._of_pairs(b, key, stored, kind) if of_words else self.less(b, self.of(b, key), stored, kind)
            )
        return known[key]

    def _of_pairs(self, b: Builder, key: tuple[int, int], stored: str, kind: str) -> Words:
        """What is subtracted of row `key[1]` of a word: its zero point twice, with the number, as `integers_apart` has
        elements."""
        assert not isinstance(self.loaded, int)
        (time, i), number = key, _NUMBERS[stored, kind]
        both = b.pure(f"prmt.b32 $0, $1, $1, {0x3232 if i > 3 else 0x1010};", b.i32, self.loaded[time, 0])
        pair = b.and_(b.shr(both, 4 * (i % 4)) if i % 4 else both, 0x000F000F)
        if self.signed:
            pair = b.sub(b.xor(pair, 0x00080008), 0x00080008)
        return [b.add(pair, 0x10001 * (number + self.plus))]

    @staticmethod
    def apart(b: Builder, word: ir.Value, less: Sequence[Words], stored: str, made: str) -> Words:
        """Pairs of 16 bits of two elements of a word that are four apart, less what is subtracted of each."""
        kind = "bf16" if made == "bf16" else "f16"
        return integers_apart(b, word, less, _NUMBERS[stored, kind], kind)

    def less(self, b: Builder, zero: ir.Value | int, stored: str, kind: str) -> Words:
        """What is subtracted, one after the other: the number and the zero point, together where that is exact."""
        number, (low, high) = _NUMBERS[stored, kind], _WITHIN[kind]
        both = b.constant(0x10001 * number)
        if low <= self.bounds[0] and self.bounds[1] <= high:
            if isinstance(zero, int):
                return [b.constant(0x10001 * (number + zero))]
            return [b.add(b.mul(zero, 0x10001), both)]
        text = "{ .reg .f32 F; cvt.rn.f32.s32 F, $1; "
        return [both, b.pure(text + f"cvt.rn.{kind}x2.f32 $0, F, F; }}", b.i32, zero)]


@COMMON.lowers("tile.zero_points")
def zero_points(s: State, op: ir.OpView) -> None:
    attributes = op.operation.attributes
    if "number" in attributes:
        s.values[op.result] = ZeroPoints(tile.int_of(attributes["number"]), bounds_in(op))
        return
    b, made = s.b, element_spelled(str(tile.element_of(op.target.type)))
    assert made is not None
    k_block, each = tile.int_of(attributes["k_block"]), 8 * tile.CHUNK // made.bits
    plus, signed = tile.optional(op, "plus"), stored_in(op) != "u4"
    if strip := tile.optional(op, "in_words"):
        c = WordRows.of(b, thread_of(s), op.target.type, strip)
        sharing = c.sharing(k_block)
        columns = [b.mul(b.add(c.chunk, step * c.beside), each) for step in range(0, c.steps, sharing)]
        loaded, shifts = _load(s, op, c.row, c.at_once, dict(enumerate(columns)))
        s.values[op.result] = ZeroPoints(loaded, bounds_in(op), shifts, signed, plus, sharing)
        return
    if "turned" in attributes:
        t = TurnedWords.of(s, op.target.type, tile.ints_of(attributes["turned"]))
        s.values[op.result] = (_words_of_turned if "words" in attributes else _of_turned)(
            s, op, t, t.times if t.sharing(k_block) else 1
        )
        return
    chunks = tile.swizzle_of(op.target.type) // tile.CHUNK  # of a row, as `tile.convert` makes them
    own, chunk = place_of(b, thread_of(s), chunks)
    loaded, shifts = _load(s, op, own, WARPGROUP // chunks, {None: b.mul(chunk, each)})
    s.values[op.result] = ZeroPoints(loaded, bounds_in(op), shifts, signed, plus)


def _of_turned(s: State, op: ir.OpView, t: TurnedWords, sharing: int) -> ZeroPoints:
    """Those of all rows of a thread's words."""
    b, loaded, shifts, rows = s.b, dict[Place, ir.Value](), dict[Place, ir.Value](), tile.shape_of(op.target.type)[0]
    for time in range(0, t.times, sharing):
        word, chunk = t.place(time)
        for i, row in enumerate(t.rows()):
            own = b.add(b.shl(word, 3), row)
            found, lowest = _load(s, op, own, rows, {None: b.mul(chunk, t.each)})
            loaded[time // sharing, i] = found[0]
            shifts |= {(time // sharing, i): lowest[0]} if lowest else {}
    plus, signed = tile.optional(op, "plus"), stored_in(op) != "u4"
    return ZeroPoints(loaded, bounds_in(op), shifts, signed, plus, sharing)


def _words_of_turned(s: State, op: ir.OpView, t: TurnedWords, sharing: int) -> ZeroPoints:
    """Likewise, eight in a word, which lie as the elements of the operand's words do."""
    b, loaded = s.b, dict[Place, ir.Value]()
    row0, rows, k0, k = map(s.get, op.place)
    k_stride, k_block = s.get(op.strides[1]), tile.int_of(op.operation.attributes["k_block"])
    for time in range(0, t.times, sharing):
        word, chunk = t.place(time)
        at, row = b.add(k0, b.mul(chunk, t.each)), b.add(row0, b.shl(word, 3))
        block = _placed(b, b.div(at, k_block), order_in(op, "k"))
        address = b.offset(s.get(op.source[0]), _bytes(b, block, k_stride, False), b.i8)
        address = b.offset(address, b.widen(b.div(row, 2)), b.i8)
        mine = b.and_(b.compare("lt", row, rows), b.compare("lt", at, k))
        operands = [b.integer(address), mine, b.constant(0)]
        found = b.asm("@$2 ld.global.nc.b32 $0, [$1];", [b.i32], operands, tied=1)[0]
        loaded[time // sharing, 0] = found
    plus, signed = tile.optional(op, "plus"), stored_in(op) != "u4"
    made = {key: t.turned(x) for key, x in loaded.items()}
    return ZeroPoints(made, bounds_in(op), {}, signed, plus, sharing, words=True)


def _load(
    s: State, op: ir.OpView, own: ir.Value, at_once: int, columns: Mapping[int | None, ir.Value | int]
) -> tuple[dict[Place, ir.Value], dict[Place, ir.Value]]:
    """The zero points of a thread's rows, of which its first is `own` and the next is `at_once` further, and their
    lowest bits; of each of some elements along K, which say which block it is (None: there is one)."""
    b, attributes = s.b, op.operation.attributes
    row0, rows, k0, k = map(s.get, op.place)
    row_stride, k_stride = map(s.get, op.strides)
    row_block, k_block = (tile.int_of(attributes[name]) for name in ("row_block", "k_block"))
    narrow, along = tile.bits_of(op.source[0].type.element_type) == 4, along_in(op)
    row_order, k_order = (order_in(op, x) for x in ("row", "k"))
    load = f"@$2 ld.global.nc.{'s8' if stored_in(op) != 'u4' and not narrow else 'u8'} $0, [$1];"
    loaded: dict[Place, ir.Value] = {}
    shifts: dict[Place, ir.Value] = {}
    packed = narrow and along == "rows"
    further = _further(at_once, row_block, row_order, packed)
    before = s.get(op.before) if op.before is not None else None
    for number, column in columns.items():
        at = b.add(k0, column)
        inside, block = b.compare("lt", at, k), _placed(b, b.div(at, k_block), k_order)
        source = b.offset(s.get(op.source[0]), _bytes(b, block, k_stride, narrow and along == "k"), b.i8)
        address, last = source, None
        for first in range(0, tile.shape_of(op.target.type)[0], at_once):
            key = first if number is None else (first, number)
            nothing = b.constant(0)
            value, shift = (
                (nothing, nothing) if before is None else (before.loaded[key], before.shifts.get(key, nothing))
            )
            for strip in strips_in(op):
                begin, count, ahead = strip
                if begin >= first + at_once or begin + count <= first:
                    continue
                place = first - begin + ahead
                row = b.add(row0, b.add(own, place) if place else own)
                index, here = _placed(b, b.div(row, row_block), row_order), None
                if strip == last and further is not None:
                    step = b.constant(further // 2, b.i64) if packed else b.mul(b.constant(further, b.i64), row_stride)
                    address = b.offset(address, step, b.i8)
                else:
                    address = b.offset(source, _bytes(b, index, row_stride, packed), b.i8)
                last = strip if place >= 0 else None  # of rows in front of the strip no address follows
                mine = b.and_(b.compare("lt", row, rows), inside)
                if begin > first:
                    here = b.compare("ge", own, begin - first)
                if begin + count < first + at_once:
                    below = b.compare("lt", own, begin + count - first)
                    here = below if here is None else b.and_(here, below)
                mine = mine if here is None else b.and_(mine, here)
                value = b.asm(load, [b.i32], [b.integer(address), mine, value], tied=1)[0]
                if narrow:
                    own_shift = b.value(b.shl(b.and_(b.value(block if along == "k" else index), 1), 2))
                    shift = own_shift if here is None else b.select(here, own_shift, shift)
            loaded[key] = value
            if narrow:
                shifts[key] = shift
    return loaded, shifts


@dataclass(frozen=True)
class RowZeros:
    """`threads` threads hold, each for the rows thread, thread + threads, ..., a register for each block, with what
    memory has: a byte. Of zero points of 4 bits `shifts` are their lowest bits in it, by row (`along` "rows") or by
    block."""

    scales: RowScales
    shifts: list[Variable]


@COMMON.lowers("tile.row_zeros")
def row_zeros(s: State, op: ir.OpView) -> None:
    rows, threads, blocks = (tile.int_of(x) for x in (op.rows, op.warps, op.blocks))
    threads *= tile.LANES
    registers = [[s.b.variable(s.b.i32, 0) for _ in range(blocks)] for _ in range(-(-rows // threads))]
    shifts = [s.b.variable(s.b.i32, 0) for _ in range(max(len(registers), blocks))]
    s.values[op.result] = RowZeros(RowScales(rows, threads, registers), shifts)


@COMMON.lowers("tile.load_zeros")
def load_zeros(s: State, op: ir.OpView) -> None:
    """Predicated loads: a register keeps its value where its row or block does not exist."""
    b, room = s.b, s.get(op.into)
    row0, rows, k0, k = map(s.get, op.place)
    row_stride, k_stride = map(s.get, op.strides)
    step, row_block, k_block = (tile.int_of(x) for x in (op.step, op.row_block, op.k_block))
    narrow, along = tile.bits_of(op.source[0].type.element_type) == 4, along_in(op)
    signed, last = stored_in(op) != "u4" and not narrow, b.sub(rows, 1)
    row_order, k_order = (order_in(op, x) for x in ("row", "k"))
    for i, (row, is_row, registers) in enumerate(room.scales.mine(s)):
        index = _placed(b, b.div(b.min(b.add(row0, row), last), row_block), row_order)
        at_row = b.offset(s.get(op.source[0]), _bytes(b, index, row_stride, narrow and along == "rows"), b.i8)
        if narrow and along == "rows":
            room.shifts[i].set(b.shl(b.and_(index, 1), 2))
        for j, register in enumerate(registers):
            at = b.add(k0, j * step)
            block = _placed(b, b.div(at, k_block), k_order)
            if narrow and along == "k" and i == 0:
                room.shifts[j].set(b.value(b.shl(b.and_(b.value(block), 1), 2)))
            address = b.offset(at_row, _bytes(b, block, k_stride, narrow and along == "k"), b.i8)
            inside = b.both(b.compare("lt", at, k), is_row)
            text = f"@$2 ld.global.nc.{'s8' if signed else 'u8'} $0, [$1];"
            register.set(b.asm(text, [b.i32], [b.integer(address), inside, register.get()], tied=1)[0])


@COMMON.lowers("tile.store_zeros")
def store_zeros(s: State, op: ir.OpView) -> None:
    b, room, element, made = s.b, s.get(op.source), tile.str_of(op.element), tile.str_of(op.made)
    base, (count, of_block) = s.get(op.target).address(b, s.get(op.cursor)), tile.shape_of(op.target.type)
    first = tile.int_of(op.index) * count
    by_row = any(use.owner.name == "tile.load_zeros" and along_in(use.owner) == "rows" for use in op.source.uses)
    for i, (row, is_row, registers) in enumerate(room.scales.mine(s)):
        words, table = [], made == LOOKED_UP
        for j, register in enumerate(registers[first : first + count], first):
            value = register.get()
            if element != "i8":
                value = b.and_(b.op("arith.shrui", [b.i32], [value, room.shifts[i if by_row else j].get()]), 15)
                value = b.sub(b.xor(value, 8), 8) if element == "i4" else value
            value = b.add(value, tile.int_of(op.added))
            if table:
                words.append(table_of(b, tile.str_of(op.stored), value))
                continue
            text = "{ .reg .f32 F; cvt.rn.f32.s32 F, $1; "
            words.append(b.pure(text + f"cvt.rn.{made}x2.f32 $0, F, F; }}", b.i32, value))
        if not table:
            store_vectors(s, op, b.add(base, b.shl(row, 2)), is_row, words)
            continue
        for j, four in enumerate(words):
            text = f"st.shared.v4.b32 [$0 + {4 * of_block * j}], {{$1, $2, $3, $4}};"
            b.asm(text, [], [b.add(base, b.shl(row, 4)), *four], only=is_row)


def _further(rows: int, row_block: int, order: Order | None, packed: bool) -> int | None:
    """How much further the zero points of a thread's next rows lie, which are an even number of `rows` apart; None
    where that differs, or they share a byte in another way."""
    step = (rows if order is None else order.step(rows)) if row_block == 1 else None
    return None if step is None or (packed and step % 2) else step


def _placed(b: Builder, block: ir.Value | int, order: Order | None) -> ir.Value | int:
    """Where a block along rows or K lies."""
    if order is None:
        return block
    total: ir.Value | int = order.constant
    for factor, divisor, modulus in order.terms:
        part = b.div(block, divisor)
        if modulus:
            part = b.sub(part, b.mul(b.div(part, modulus), modulus))
        total = b.add(total, b.mul(part, factor))
    return total


def _bytes(b: Builder, index: ir.Value | int, stride: ir.Value | int, packed: bool) -> ir.Value:
    """How far an index along one axis is, an i64; where two share a byte along it, half as far."""
    return b.widen(b.div(index, 2)) if packed else b.mul(b.widen(index), stride)
