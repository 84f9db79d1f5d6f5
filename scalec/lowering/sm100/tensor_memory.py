"""Tensor memory: its allocation, and the way from it to registers (PTX ISA 9.7.16.7 and 9.7.16.8)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common.state import Cursor, Fragment, State
from scalec.lowering.sm100.table import TABLE

_LEAST = 32  # columns of the smallest allocation; all are powers of two (9.7.16.7.1)
_EMPTY = range(9, 31)  # bits that are 0 in the address of an allocation: lane 0, columns below 512 (9.7.16.1)
_HALF = 16  # lanes of a warp's 32 that one tcgen05.ld of shape .16x256b reads (9.7.16.8.1)


@dataclass(frozen=True)
class WordSlot:
    """Scale words of several K blocks: `columns` of each from `column` on, those at the cursor."""

    cursor: Cursor
    column: int
    columns: int

    def has(self, column: int) -> bool:
        """Whether a column is one of them."""
        return self.column <= column < self.column + self.columns


@dataclass(frozen=True)
class Sums:
    """A ring of accumulators: the shared address of the word that keeps their address, the columns of each, and those
    beside them; which of these are a K block's of several."""

    kept: ir.Value | int
    columns: int
    slots: int
    more: int
    slot: WordSlot | None = None

    @property
    def allocated(self) -> int:
        """Columns to ask for."""
        return max(_LEAST, 1 << (self.columns * self.slots + self.more - 1).bit_length())

    def at(self, s: State, slot: Cursor) -> ir.Value:
        """Address of the accumulator of a slot: lanes in the upper half, columns in the lower (9.7.16.1)."""
        return s.b.add(self.first(s), s.b.mul(slot.at(), self.columns))

    def beside(self, s: State, column: int, before: ir.Value | None = None) -> ir.Value | int:
        """Address of a column beside the accumulators, `before` columns further on.

        Those of a slot that a round knows are sums of its own: the registers of all would be most of the uniform ones
        that there are, and ptxas would keep others elsewhere (NVFP4 with tile=128x128x256: 13.4 instructions a product
        instead of 7.3, ptxas 13.0).
        """
        b, slot, first = s.b, self.slot, self.columns * self.slots
        if slot is None or not slot.has(column):
            if before is not None:
                return self._of_tile(s, before, first + column)
            return s.once(("beside", self.kept, column), lambda: b.add(self.first(s), first + column))
        if before is not None:  # and a zero that ptxas finds late: 7.64 instructions a product, else 8.14 (ptxas 13.5)
            words = b.add(self._of_tile(s, before, first), b.shr(s.lane, 5))
        else:
            words = s.in_round(s.once(("words", self.kept), lambda: b.add(self.first(s), first)))
        return b.add(b.add(words, column), b.mul(slot.cursor.at(), slot.columns))

    def _of_tile(self, s: State, before: ir.Value, column: int) -> ir.Value:
        """Address of a column and `before` more, which a tile says: made where that is known, of what stays in a
        register anyway. Left to ptxas 13.0, two registers stay for it, and each K block moves constants for want of
        them (docs/notes/sm_100a.md)."""

        def made() -> ir.Value:
            return s.b.asm("add.u32 $0, $1, $2;", [s.b.i32], [self.first(s), s.b.add(before, column)])[0]

        return s.once(("of tile", self.kept, column), made, behind=before)

    def first(self, s: State) -> ir.Value:
        """Address of the first accumulator."""
        return s.once(("sums", self.kept), lambda: s.b.asm("ld.shared.b32 $0, [$1];", [s.b.i32], [self.kept])[0])

    def constant(self, s: State, value: int, index: int, behind: ir.Value | None = None) -> ir.Value:
        """A constant that stays in a register of its own for the whole role, or `behind` a value, one for each `index`.

        A tensor instruction takes descriptors in pairs of uniform registers. A constant half of one ptxas would write
        again before each instruction, and so it would the copies of one value: half of the issuing loop (ptxas 13.0).
        So each has something added that is 0, which ptxas does not know: an empty bit of the address of the sums.
        """
        bit, first = _EMPTY[index % len(_EMPTY)], self.first(s)
        return s.once(("constant", value, bit), lambda: s.b.add(s.b.shr(first, bit), s.b.constant(value)), behind)


@TABLE.lowers("tile.sums")
def sums(s: State, op: ir.OpView) -> None:
    b = s.b
    columns, slots = tile.shape_of(op.result.type)[1], tile.int_of(op.result.type.slots)
    made = Sums(b.add(s.shared, tile.int_of(op.offset)), columns, slots, tile.int_of(op.beside))
    s.values[op.result] = made
    s.varied = lambda: b.and_(s.lane, b.shr(made.first(s), _EMPTY[0]))
    s.cta_group = group = tile.int_of(op.ctas)
    s.shares_runs = True  # 12 comparisons took 170 of 880 stalls of a tile of logits (ptxas 13.0)
    with b.when(b.compare("eq", s.warp, 0)):
        b.asm(
            f"tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [$0], $1;",
            [],
            [made.kept, b.constant(made.allocated)],
        )
        b.asm(f"tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;")


@TABLE.lowers("tile.word_slot")
def word_slot(s: State, op: ir.OpView) -> None:
    slot = WordSlot(s.get(op.cursor), tile.int_of(op.column), tile.int_of(op.columns))
    s.values[op.result] = replace(s.get(op.sums), slot=slot)


@TABLE.lowers("tile.free_sums")
def free_sums(s: State, op: ir.OpView) -> None:
    b, made = s.b, s.get(op.sums)
    with b.when(b.compare("eq", s.warp, 0)):
        b.asm("tcgen05.fence::after_thread_sync;")
        address = b.asm("ld.shared.b32 $0, [$1];", [b.i32], [made.kept])[0]
        text = f"tcgen05.dealloc.cta_group::{s.cta_group}.sync.aligned.b32 $0, $1;"
        b.asm(text, [], [address, b.constant(made.allocated)])


@TABLE.lowers("tile.vacate")
def vacate(s: State, op: ir.OpView) -> None:
    b, c, ring = s.b, s.get(op.cursor), s.get(op.ring)
    barrier = b.add(ring.empty, b.shl(c.at(), 3))
    where = "relaxed.cluster.shared::cluster" if ring.of_leader else "shared::cta"  # 9.7.16.6.4.4, example
    b.asm("tcgen05.fence::before_thread_sync;")
    b.asm(f"@$1 mbarrier.arrive.{where}.b64 _, [$0];", [], [barrier, b.compare("eq", s.lane, 0)])


@TABLE.lowers("tile.take")
def take(s: State, op: ir.OpView) -> None:
    """.16x256b lies in registers as an m16n8 accumulator does, 8 columns in four of them; of .32x32b each lane has a
    row (9.7.16.8.1, figures)."""
    b, made, fragment = s.b, s.get(op.sums), s.get(op.target)
    column, columns, apart = tile.int_of(op.column), fragment.columns, tile.int_of(op.apart)
    if column == 0:
        b.asm("tcgen05.fence::after_thread_sync;")
    lanes = s.once("lanes", lambda: b.shl(b.and_(s.warp, 3), 21))  # 32 lanes a warp, in bits 16 and up
    mine = s.once(("mine", apart), lambda: b.add(lanes, b.mul(s.unit(1), apart))) if s.geometry.units[1] > 1 else lanes
    at = b.add(made.at(s, s.get(op.slot)), mine)
    count, shape = (columns, f"32x32b.x{columns}") if fragment.lanes else (columns // 2, f"16x256b.x{columns // 8}")
    names = ", ".join(f"${i}" for i in range(count))
    taken = []
    for wave, _ in enumerate(fragment.waves):
        text = f"tcgen05.ld.sync.aligned.{shape}.b32 {{{names}}}, [${count}];"
        taken += b.asm(text, [b.f32] * count, [b.add(at, (wave * _HALF << 16) + column)])
    _fill(fragment, taken)


@TABLE.lowers("tile.taken")
def taken(s: State, op: ir.OpView) -> None:
    """What uses the registers must stand after the wait, so they pass through it (9.7.16.8.5)."""
    values = [v.get() for wave in s.get(op.target).waves for v in wave]
    _fill(
        s.get(op.target), s.b.asm("tcgen05.wait::ld.sync.aligned;", [s.b.f32] * len(values), values, tied=len(values))
    )


@TABLE.lowers("tile.has_rows")
def has_rows(s: State, op: ir.OpView) -> None:
    b = s.b
    first = b.add(s.get(op.m0), b.mul(s.unit(0), tile.int_of(op.rows)))
    s.values[op.result] = b.compare("lt", first, s.get(op.m))


def _fill(fragment: Fragment, values: list[ir.Value]) -> None:
    for v, x in zip((v for wave in fragment.waves for v in wave), values, strict=True):
        v.set(x)
