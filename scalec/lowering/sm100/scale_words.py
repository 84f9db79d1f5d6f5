"""Scale words from threads to shared memory, as tcgen05.cp reads them, and on to tensor memory (PTX ISA 9.7.16.9.2).

The copy .32x128b takes 32 rows of 16 bytes: lane i of tensor memory gets the words of rows i, i + 32, i + 64 and
i + 96, one a column, which is where the products look for them (9.7.16.10.7).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common import control
from scalec.lowering.common import scale_bytes as common
from scalec.lowering.common.copies import RowScales
from scalec.lowering.common.state import State
from scalec.lowering.sm100.multiply import fence_first, issuer, joined, place_of, start_of
from scalec.lowering.sm100.table import TABLE

_BYTES = 4 * tile.WORD_ROWS  # of one copy
_COLUMNS = 4  # that it fills
_OWN = 4  # copies of a stage whose descriptors have registers of their own
_UPPER = (
    1 << 14 | 8 * 16 >> 4
)  # half of the matrix descriptor: no swizzle; 8 rows of 16 bytes lie 128 bytes from the next 8


@dataclass(frozen=True)
class QuadRows(RowScales):
    """Rows dealt out so that the words of a warp's lanes are adjacent in shared memory, and meet no bank conflict: of
    each 128, lane i has row 32 (i % 4) + i / 4, in the next turn that plus 8. Of fewer rows they have them in order."""

    def mine(self, s: State) -> Iterator[tuple[ir.Value, ir.Value | None, list[Variable]]]:
        b = s.b
        if self.rows % tile.WORD_ROWS:
            yield from super().mine(s)
            return
        for index, is_row, registers in super().mine(s):
            high, turn = b.and_(index, -tile.WORD_ROWS), b.and_(b.shr(index, 5), 3)
            row = b.add(b.shl(b.and_(index, 3), 5), b.add(b.and_(b.shr(index, 2), 7), b.shl(turn, 3)))
            yield b.add(high, row), is_row, registers

    def place(self, b: Builder, row: ir.Value) -> ir.Value:
        group, within = b.shr(row, 7), b.and_(row, tile.WORD_ROWS - 1)
        return b.add(b.mul(group, _BYTES), b.add(b.shl(b.and_(within, 31), 4), b.shl(b.shr(within, 5), 2)))


@TABLE.lowers("tile.byte_scales")
def byte_scales(s: State, op: ir.OpView) -> None:
    common.byte_scales(s, op)
    if any(use.owner.name == "tile.store_factors" for use in op.result.uses):  # as f32, by the rows of the tile
        return
    made = s.get(op.result)
    s.values[op.result] = QuadRows(made.rows, made.threads, made.registers, made.indices)


# Of a pair the leader's thread has tcgen05.cp read what threads of both CTAs stored: proxy fences at the cluster's
# scope, of shared memory alone (PTX ISA 9.7.13.4, fence.proxy, .sync_restrict), and a relaxed arrival between. ptxas
# 13.0 and 13.5 make of the first what they make of fence.proxy.async.shared::cta, and of the second nothing, so that
# the loop goes without (docs/notes/sm_100a.md).
_RELEASE = "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;"
_ACQUIRE = "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;"


@TABLE.lowers("tile.commit")
def commit(s: State, op: ir.OpView) -> None:
    """What threads stored, the async proxy reads: tcgen05.cp (PTX ISA 9.7.13.4, fence.proxy).

    At a leader one thread arrives for its warp: an arrival there goes through the cluster's network. Its fence stands
    behind the other threads' stores, which it publishes too.
    """
    b, ring = s.b, s.get(op.ring)
    if not ring.of_leader:
        b.asm("fence.proxy.async.shared::cta;")
        control.commit(s, op)
        return
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    b.asm(_RELEASE)
    barrier = b.add(ring.full, b.shl(s.get(op.cursor).at(), 3))
    text = "@$1 mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [$0];"
    b.asm(text, [], [barrier, b.compare("eq", s.lane, 0)])


@TABLE.lowers("tile.copy_words")
def copy_words(s: State, op: ir.OpView) -> None:
    """No wait: products issued after it by the same thread are done after it (9.7.16.6.2, pairs that are pipelined)."""
    b, source, made = s.b, s.get(op.source), s.get(op.sums)
    words, rows = tile.words_of(op.source.type)
    start = start_of(s, source, s.get(op.cursor))
    fence_first(s, op)
    groups, as_tiles = rows // tile.WORD_ROWS, tile.bits_of(tile.element_of(op.source.type)) == 64
    for i, (word, group) in enumerate(itertools.product(range(words), range(groups))):
        place = group * words + word if as_tiles else i
        upper = made.constant(s, _UPPER, (tile.int_of(op.column) // _COLUMNS + i) % _OWN)
        matrix = joined(s, b.add(start, place * _BYTES >> 4), upper)
        at = made.beside(s, tile.int_of(op.column) + i * _COLUMNS)
        b.asm(f"@$2 tcgen05.cp.cta_group::{s.cta_group}.32x128b.warpx4 [$0], $1;", [], [at, matrix, issuer(s)])


@TABLE.lowers("tile.copied")
def copied(s: State, op: ir.OpView) -> None:
    """tcgen05.commit speaks of what was copied alone (9.7.16.12): that the thread has seen the stage full, it says
    itself."""
    b = s.b
    barrier = b.add(s.get(op.ring).full, b.shl(s.get(op.cursor).at(), 3))
    text = f"@$1 tcgen05.commit.cta_group::{s.cta_group}.mbarrier::arrive::one.shared::cluster.b64 [$0];"
    b.asm(text, [], [barrier, issuer(s)])
    b.asm("@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", [], [barrier, issuer(s)])


@TABLE.lowers("tile.ones")
def ones(s: State, op: ir.OpView) -> None:
    b = s.b
    with b.when(b.compare("eq", s.warp, 0)):
        place = b.add(s.get(op.target).base, b.shl(s.lane, 4))
        word = b.constant(common.ONES[tile.str_of(op.scale)])
        b.asm("st.shared.v4.b32 [$0], {$1, $1, $1, $1};", [], [place, word])
        b.asm(_RELEASE)  # tcgen05.cp reads it


@TABLE.lowers("tile.fill_words")
def fill_words(s: State, op: ir.OpView) -> None:
    b, made = s.b, s.get(op.sums)
    if s.cta_group > 1:
        b.asm(_ACQUIRE)
    matrix = joined(s, place_of(b, s.get(op.through).base), b.constant(_UPPER))
    for column in range(0, tile.int_of(op.columns), _COLUMNS):
        at = made.beside(s, tile.int_of(op.column) + column)
        b.asm(f"@$2 tcgen05.cp.cta_group::{s.cta_group}.32x128b.warpx4 [$0], $1;", [], [at, matrix, issuer(s)])
