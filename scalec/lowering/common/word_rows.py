"""How a warpgroup shares out what it makes of words of adjacent K, those of adjacent rows beside each other.

A thread makes 16 bytes of a row at a time. Adjacent threads have adjacent rows of one place along K: they load adjacent
words, and of eight that store at once each has another place in the swizzle. So neither meets a bank conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from scalec.formats import PER_WORD
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.targets import WARPGROUP


@dataclass(frozen=True)
class WordRows:
    """The chunks of 16 bytes that a thread makes, of the rows `row`, `row + at_once`, ... each the chunks `chunk`,
    `chunk + beside`, ...

    Attributes:
        rows, strip: of the tile, and of each of its strips, whose words lie one strip's behind the other's.
        chunks, each: of a row, and elements of each.
    """

    rows: int
    strip: int
    chunks: int
    each: int
    row: ir.Value
    chunk: ir.Value | int

    @staticmethod
    def of(b: Builder, thread: ir.Value, target: ir.Type, strip: int) -> WordRows:
        """Those of a tile of rows as wide as its swizzle."""
        (rows, depth), bits = tile.shape_of(target), tile.bits_of(tile.element_of(target))
        each = 8 * tile.CHUNK // bits
        chunks = depth // each
        at_once = _rows_at_once(strip, chunks)
        chunk = b.div(thread, at_once) if at_once < WARPGROUP else 0
        return WordRows(rows, strip, chunks, each, b.and_(thread, at_once - 1), chunk)

    @property
    def at_once(self) -> int:
        """Rows that a warpgroup makes chunks of at once."""
        return _rows_at_once(self.strip, self.chunks)

    @property
    def beside(self) -> int:
        """Chunks of each of these."""
        return WARPGROUP // self.at_once

    @property
    def steps(self) -> int:
        """Chunks of a thread in each of its rows."""
        return self.chunks // self.beside

    def sharing(self, k_block: int) -> int:
        """How many of these, one after the other, lie in one block of so many elements of K."""
        depth, step = self.chunks * self.each, self.beside * self.each
        if k_block % depth == 0:
            return self.steps
        return k_block // step if depth % k_block == k_block % step == 0 else 1

    def firsts(self) -> Iterator[tuple[int, bool]]:
        """How far the thread's rows are behind its first, and whether some thread has no such."""
        for first in range(0, self.rows, self.at_once):
            yield first, first + self.at_once > self.rows

    def source(self, b: Builder, base: ir.Value, first: int) -> tuple[ir.Value, int]:
        """Where the words of such a row are, for the thread's first chunk: an address and bytes from there."""
        own, half = self.chunk, 0
        if self.each < PER_WORD:  # of which a word has two
            own, half = b.div(self.chunk, 2), 0 if isinstance(self.chunk, int) else b.shl(b.and_(self.chunk, 1), 1)
        line = b.mul(own, 4 * self.strip * max(1, self.each // PER_WORD))
        at = b.add(b.add(base, line), half)
        whole = self.chunks * self.each // PER_WORD * self.strip
        if self.strip % self.at_once == 0:
            number, behind = divmod(first, self.strip)
            return b.add(at, b.shl(self.row, 2)), 4 * (number * whole + behind)
        row = b.add(self.row, first)
        number = b.div(row, self.strip)
        words = b.add(b.mul(number, whole), b.sub(row, b.mul(number, self.strip)))
        return b.add(at, b.shl(words, 2)), 0

    def places(self, step: int) -> list[int]:
        """Bytes from there to the words of a thread's further chunk, or to the half of one."""
        chunk, line = step * self.beside, 4 * self.strip
        if self.each < PER_WORD:
            return [chunk // 2 * line + chunk % 2 * 2]
        words = self.each // PER_WORD
        return [(chunk * words + i) * line for i in range(words)]


def _rows_at_once(strip: int, chunks: int) -> int:
    return max(gcd(strip, WARPGROUP), WARPGROUP // chunks)
