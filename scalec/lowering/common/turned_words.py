"""How a warpgroup turns rows of 4 bits that are contiguous along M or N: eight adjacent rows of an element of K are a
word.

A thread has a word of each of as many lines of K as become 16 bytes of a row, and makes these of all eight rows. Of two
adjacent lines half a word each makes one whose elements four apart are those two of K, of one row: pairs of 16 bits
without another `prmt` (`elements.APART`). Adjacent threads load adjacent words, and begin with another row each, so
that of eight that store at once each has another place in the swizzle: neither meets a bank conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from scalec.formats import ELEMENT_TYPES, PER_WORD, ElementType
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_words import ordered_in
from scalec.lowering.builder import Builder
from scalec.lowering.common.elements import (
    APART,
    Words,
    bf16_to_tf32,
    bytes_of_halves,
    halves_to_tf32,
    pair_of,
    scaled,
)
from scalec.lowering.common.state import State, swizzle
from scalec.targets import WARPGROUP

BANKS = 32
"""Of shared memory, a word wide each (CUDA C++ programming guide 5.1, shared memory)."""


@dataclass(frozen=True)
class TurnedWords:
    """What a thread turns at a time: a word of each of `each` lines, for `times` times.

    Attributes:
        words: of a line, each of PER_WORD rows; chunks: of 16 bytes, of a row; each: elements of these.
        order: the row of each element of a word.
        thread: its number in the warpgroup.
    """

    words: int
    chunks: int
    each: int
    order: tuple[int, ...]
    thread: ir.Value

    @staticmethod
    def of(thread: ir.Value, target: ir.Type, order: Sequence[int]) -> TurnedWords:
        """For a tile [rows, K] that is made."""
        (rows, depth), bits = tile.shape_of(target), tile.bits_of(tile.element_of(target))
        each = 8 * tile.CHUNK // bits
        return TurnedWords(rows // PER_WORD, depth // each, each, tuple(order), thread)

    @property
    def times(self) -> int:
        return -(-self.words * self.chunks // WARPGROUP)

    def sharing(self, k_block: int) -> bool:
        """Whether a thread has the same rows each time, and one block of so many elements of K."""
        return WARPGROUP % self.words == 0 and k_block % (self.chunks * self.each) == 0

    def place(self, b: Builder, time: int) -> tuple[ir.Value, ir.Value]:
        """The thread's word, and its chunk of 16 bytes."""
        number = b.add(self.thread, time * WARPGROUP)
        chunk = b.div(number, self.words)
        return b.sub(number, b.mul(chunk, self.words)), chunk

    def some(self, b: Builder, time: int) -> ir.Value | None:
        """Whether the thread has one then; None where all have."""
        if (time + 1) * WARPGROUP <= self.words * self.chunks:
            return None
        return b.compare("lt", b.add(self.thread, time * WARPGROUP), self.words * self.chunks)

    def turned(self, b: Builder, word: ir.Value | int) -> ir.Value:
        """A word with the element that the thread begins with in the lowest bits. shf: PTX ISA 9.7.8.8."""
        by = b.shl(b.and_(self.thread, PER_WORD - 1), 2)
        return b.pure("shf.r.wrap.b32 $0, $1, $1, $2;", b.i32, b.value(word), by)

    def rows(self, b: Builder) -> list[ir.Value]:
        """The rows of a word that the thread makes, in the order in which it does."""
        all_ = self.turned(b, sum(row << 4 * i for i, row in enumerate(self.order)))
        return [b.and_(b.shr(all_, 4 * i) if i else all_, PER_WORD - 1) for i in range(PER_WORD)]

    @property
    def swaps(self) -> bool:
        """Whether threads of a warp with another chunk would load words of the same banks: those of odd ones load each
        two lines in the other order."""
        return self.words < BANKS and BANKS % self.words == 0

    def load(self, b: Builder, source: ir.Value, word: ir.Value, chunk: ir.Value) -> list[tuple[ir.Value, ir.Value]]:
        """Of each two adjacent lines the first four rows that the thread makes, and the other four, as pairs that are
        four apart."""
        line = 4 * self.words
        first = b.add(b.add(source, b.mul(chunk, self.each * line)), b.shl(word, 2))
        at, select = [first, first], [b.constant(x) for x in (0x5410, 0x7632)]
        if self.swaps:
            odd = b.and_(chunk, 1)
            by = b.mul(odd, line)
            at = [b.add(first, by), b.sub(first, by)]
            select = [b.xor(b.mul(odd, 0x4444), x) for x in select]
        found = [b.asm(f"ld.shared.b32 $0, [$1 + {k * line}];", [b.i32], [at[k % 2]])[0] for k in range(self.each)]
        mine = [self.turned(b, x) for x in found]
        text = "prmt.b32 $0, $1, $2, $3;"
        pairs = [mine[k : k + 2] for k in range(0, self.each, 2)]
        return [(b.pure(text, b.i32, *two, select[0]), b.pure(text, b.i32, *two, select[1])) for two in pairs]


def turn_words(s: State, op: ir.OpView, thread: ir.Value, stored: ElementType, made: ElementType) -> None:
    """`tile.convert` of rows of 4 bits that are turned."""
    b, cursor = s.b, s.get(op.cursor)
    c = TurnedWords.of(thread, op.target.type, ordered_in(op))
    pitch = tile.swizzle_of(op.target.type)
    source, target = (s.get(x).address(b, cursor) for x in (op.source, op.target))
    rows, known = c.rows(b), dict[Any, Words]()

    def one(time: int) -> None:
        word, chunk = c.place(b, time)
        pairs = c.load(b, source, word, chunk)
        zeros = None if op.zeros is None else s.get(op.zeros)
        for half in (0, 1):
            own = range(4 * half, 4 * half + 4)
            columns: list[Words] = [[] for _ in own]
            for two in pairs:
                if zeros is None:
                    found = APART[stored.name, _between(made.name)](b, two[half])
                else:
                    less = [zeros.of_turned(b, (time, i), stored.name, made.name, known) for i in own]
                    found = zeros.apart(b, two[half], less, stored.name, made.name)
                for column, pair in zip(columns, found, strict=True):
                    column.append(pair)
            for i, column in zip(own, columns, strict=True):
                row = b.add(b.shl(word, 3), rows[i])
                values = _made(b, column, made.name, zeros is not None)
                if op.factors is not None:
                    by = pair_of(b, _factor(s, op, c, row, chunk), made.name)
                    values = [scaled(b, x, by, made.name) for x in values]
                place = b.add(b.mul(row, pitch), b.shl(b.xor(chunk, swizzle(b, row, pitch)), 4))
                b.asm("st.shared.v4.b32 [$0], {$1, $2, $3, $4};", [], [b.add(target, place), *values])

    for time in range(c.times):
        some = c.some(b, time)
        with nullcontext() if some is None else b.when(some):
            one(time)


def _between(made: str) -> str:
    """The type of 16 bits by way of which an element becomes another, without zero points."""
    if ELEMENT_TYPES[made].bits == 16:
        return made
    return "bf16" if made == "tf32" else "f16"


def _made(b: Builder, pairs: Words, made: str, less: bool) -> Words:
    """16 bytes of pairs of 16 bits; those that are `less` zero points are of f16, if not of bf16 for bf16."""
    if made == "tf32":
        return halves_to_tf32(b, pairs) if less else bf16_to_tf32(b, pairs)
    return bytes_of_halves(b, pairs) if made == "e4m3" else pairs


def _factor(s: State, op: ir.OpView, c: TurnedWords, row: ir.Value, chunk: ir.Value) -> ir.Value:
    """That of a row and a chunk's block of K."""
    b, (planes, count) = s.b, tile.shape_of(op.factors.type)
    plane = b.div(b.mul(chunk, c.each), c.chunks * c.each // planes)
    index = b.add(b.add(b.mul(plane, count), row), tile.optional(op, "first", 0))
    address = b.add(s.get(op.factors).address(b, s.get(op.cursor)), b.shl(index, 2))
    return b.asm("ld.shared.f32 $0, [$1];", [b.f32], [address])[0]
