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
    bf16_to_tf32,
    bytes_of_halves,
    halves_to_tf32,
    pair_of,
    scaled,
)
from scalec.lowering.common.state import State, swizzle, thread_of
from scalec.lowering.common.words import Words
from scalec.targets import WARPGROUP

HALVES = 0x5410, 0x7632
"""What `prmt` takes of two words: the lower halves of both, or the upper ones (PTX ISA 9.7.9.7)."""

BANKS = 32
"""Of shared memory, a word wide each (CUDA C++ programming guide 5.1, shared memory)."""


@dataclass(frozen=True)
class TurnedWords:
    """What a thread turns at a time: a word of each of `each` lines, for `times` times. What follows from its number
    alone is computed once (`State.once`).

    Attributes:
        words: of a line, each of PER_WORD rows; chunks: of 16 bytes, of a row; each: elements of these.
        pitch: bytes of a row, which are those of its swizzle.
        order: the row of each element of a word.
    """

    s: State
    words: int
    chunks: int
    each: int
    pitch: int
    order: tuple[int, ...]

    @staticmethod
    def of(s: State, target: ir.Type, order: Sequence[int]) -> TurnedWords:
        """For a tile [rows, K] that is made."""
        (rows, depth), bits = tile.shape_of(target), tile.bits_of(tile.element_of(target))
        each, pitch = 8 * tile.CHUNK // bits, tile.swizzle_of(target)
        return TurnedWords(s, rows // PER_WORD, depth // each, each, pitch, tuple(order))

    @property
    def times(self) -> int:
        return -(-self.words * self.chunks // WARPGROUP)

    def sharing(self, k_block: int) -> bool:
        """Whether a thread has the same rows each time, and one block of so many elements of K."""
        return WARPGROUP % self.words == 0 and k_block % (self.chunks * self.each) == 0

    def place(self, time: int) -> tuple[ir.Value, ir.Value]:
        """The thread's word, and its chunk of 16 bytes."""

        def found() -> tuple[ir.Value, ir.Value]:
            b = self.s.b
            number = b.add(thread_of(self.s), time * WARPGROUP)
            chunk = b.div(number, self.words)
            return b.sub(number, b.mul(chunk, self.words)), chunk

        return self.s.once(("turned word", self.words, time), found)

    def some(self, time: int) -> ir.Value | None:
        """Whether the thread has one then; None where all have."""
        b = self.s.b
        if (time + 1) * WARPGROUP <= self.words * self.chunks:
            return None
        return b.compare("lt", b.add(thread_of(self.s), time * WARPGROUP), self.words * self.chunks)

    def turned(self, word: ir.Value | int) -> ir.Value:
        """A word with the element that the thread begins with in the lowest bits. shf: PTX ISA 9.7.8.8."""
        b, s = self.s.b, self.s
        by = s.once("turned by", lambda: b.shl(b.and_(thread_of(s), PER_WORD - 1), 2))
        return b.pure("shf.r.wrap.b32 $0, $1, $1, $2;", b.i32, b.value(word), by)

    def rows(self) -> list[ir.Value]:
        """The rows of a word that the thread makes, in the order in which it does. What they are of is one register."""
        b, order = self.s.b, sum(row << 4 * i for i, row in enumerate(self.order))
        all_ = self.s.once(("turned rows", order), lambda: self.turned(order))
        return [b.and_(b.shr(all_, 4 * i) if i else all_, PER_WORD - 1) for i in range(PER_WORD)]

    def source(self, time: int) -> ir.Value:
        """Bytes from a stage's first line to the thread's word of its first one."""
        b, line, (word, chunk) = self.s.b, 4 * self.words, self.place(time)
        found = lambda: b.add(b.mul(chunk, self.each * line), b.shl(word, 2))  # noqa: E731
        return self.s.once(("turned source", self.words, self.each, time), found)

    def targets(self, base: ir.Value, time: int) -> list[ir.Value]:
        """Where the thread's chunk is of the rows of its word, in their order. Those lie at a multiple of eight rows,
        within which the place of a row and the swizzle of its chunks are bits of their own."""
        b, s, (word, chunk) = self.s.b, self.s, self.place(time)
        first = lambda: b.add(b.mul(word, PER_WORD * self.pitch), b.shl(chunk, 4))  # noqa: E731
        turn = lambda: [b.or_(b.mul(x, self.pitch), b.shl(swizzle(b, x, self.pitch), 4)) for x in self.rows()]  # noqa: E731
        own = b.add(base, s.once(("turned target", self.words, self.pitch, time), first))
        return [b.xor(own, x) for x in s.once(("turned places", self.order, self.pitch), turn)]

    def load(self, base: ir.Value, time: int) -> list[tuple[ir.Value, ir.Value]]:
        """Of each two adjacent lines the first four rows that the thread makes, and the other four, as pairs that are
        four apart."""
        b, line = self.s.b, 4 * self.words
        first = b.add(base, self.source(time))
        at, select = [first, first], [b.constant(x) for x in HALVES]
        if self.words < BANKS and BANKS % self.words == 0:
            by, select = self.s.once(("turned odd", self.words), lambda: self._swapped(line))
            at = [b.add(first, by), b.sub(first, by)]
        found = [b.asm(f"ld.shared.b32 $0, [$1 + {k * line}];", [b.i32], [at[k % 2]])[0] for k in range(self.each)]
        mine = [self.turned(x) for x in found]
        text = "prmt.b32 $0, $1, $2, $3;"
        pairs = [mine[k : k + 2] for k in range(0, self.each, 2)]
        return [(b.pure(text, b.i32, *two, select[0]), b.pure(text, b.i32, *two, select[1])) for two in pairs]

    def _swapped(self, line: int) -> tuple[ir.Value, list[ir.Value]]:
        """Threads of a warp with another chunk would load words of the same banks: those of odd ones load each two
        lines in the other order. How much further that begins, and what takes halves of the two."""
        b = self.s.b
        odd = b.and_(self.place(0)[1], 1)
        return b.mul(odd, line), [b.xor(b.mul(odd, 0x4444), x) for x in HALVES]


def turn_words(s: State, op: ir.OpView, stored: ElementType, made: ElementType) -> None:
    """`tile.convert` of rows of 4 bits that are turned."""
    b, cursor = s.b, s.get(op.cursor)
    c = TurnedWords.of(s, op.target.type, ordered_in(op))
    source, target = (s.get(x).address(b, cursor) for x in (op.source, op.target))
    known, zeros = dict[Any, Words](), None if op.zeros is None else s.get(op.zeros)

    def one(time: int) -> None:
        pairs, targets = c.load(source, time), c.targets(target, time)
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
                values = _made(b, column, made.name, zeros is not None)
                if op.factors is not None:
                    by = pair_of(b, _factor(s, op, c, time, i), made.name)
                    values = [scaled(b, x, by, made.name) for x in values]
                b.asm("st.shared.v4.b32 [$0], {$1, $2, $3, $4};", [], [targets[i], *values])

    for time in range(c.times):
        some = c.some(time)
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


def _factor(s: State, op: ir.OpView, c: TurnedWords, time: int, number: int) -> ir.Value:
    """That of one of the thread's rows, and of its chunk's block of K."""
    b, (planes, count) = s.b, tile.shape_of(op.factors.type)
    first = tile.optional(op, "first", 0)

    def found() -> ir.Value:
        word, chunk = c.place(time)
        plane = b.div(b.mul(chunk, c.each), c.chunks * c.each // planes)
        return b.shl(b.add(b.add(b.mul(plane, count), b.shl(word, 3)), first), 2)

    begin = s.once(("turned factor", c.words, c.each, planes, count, first, time), found)
    at = b.add(b.add(s.get(op.factors).address(b, s.get(op.cursor)), begin), b.shl(c.rows()[number], 2))
    return b.asm("ld.shared.f32 $0, [$1];", [b.f32], [at])[0]
