"""Results through shared memory: staged in boxes, which bulk copies store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Self

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import SHARED
from scalec.lowering.common import rounding
from scalec.lowering.common.copies import MapView
from scalec.lowering.common.state import COMMON, State


@dataclass(frozen=True)
class Load:
    """What goes through shared memory at once.

    Attributes:
        waves, boxes: which, of the unit's waves and of the boxes beside each other.
        above: bytes in front of it in the unit's part.
        pending: bulk copies issued since those that read what was there, which need not be waited for.
    """

    waves: range
    boxes: range
    above: int
    pending: int


@dataclass(frozen=True)
class Staging:
    """Where this thread's unit keeps results in shared memory until bulk copies have read them.

    They lie in boxes, as copies write them: the waves of one lie under each other, beside it the next columns' box.

    Attributes:
        own, at: shared addresses of the unit's part, and of this lane's first elements in it.
        element: MLIR's name of their type.
        columns: of a wave.
        swizzle: bytes, 0 for none.
        width, tall: columns and rows of a box; its rows are a wave, or several.
        rows: of a wave.
        waves, staged: the unit's, and how many of them are staged at once.
        panels: boxes of a wave that have room, to be filled in turn; 0 where all have.
    """

    own: ir.Value
    at: ir.Value
    element: str
    columns: int
    swizzle: int
    width: int
    tall: int
    rows: int
    waves: int
    staged: int
    panels: int

    @classmethod
    def of(cls, s: State, op: ir.OpView, box: tuple[int, ...] = ()) -> Self:
        """That of an op, in boxes of so many columns and rows, or in those that its copies store."""
        b, fragment, staging = s.b, s.get(op.accumulator), s.get(op.staging)
        element = str(tile.element_of(op.staging.type))
        bits, (width, tall) = rounding.bits_of(element), box or tile.shape_of(op.target.type)
        waves, columns, rows = len(fragment.waves), fragment.columns, s.geometry.wave
        height, across = tile.shape_of(op.staging.type)
        staged, room = height // (s.geometry.units[0] * rows), across // s.geometry.units[1]
        own = b.add(staging.base, b.mul(s.unit_index, staged * rows * room * bits // 8))
        if s.geometry.turns > 1:
            own = b.add(own, b.mul(s.turn, tile.stage_bytes(op.staging.type)))
        swizzle = tile.swizzle_of(op.staging.type)
        at = _of_lane(s, own, width * bits // 8, swizzle, bits, by_matrix(s, bits))
        panels = room // width if room < columns else 0
        return cls(own, at, element, columns, swizzle, width, tall, rows, waves, staged, panels)

    @property
    def bits(self) -> int:
        return rounding.bits_of(self.element)

    @property
    def pitch(self) -> int:
        """Bytes of a box's row: its swizzle, if there is one."""
        return self.width * self.bits // 8

    def loads(self) -> Iterator[Load]:
        """What goes through shared memory at once, in turn: waves, or a panel of one."""
        if not self.panels:
            for i in range(0, self.waves, self.staged):
                waves = range(i, min(i + self.staged, self.waves))
                yield Load(waves, range(self.columns // self.width), 0, 0)
            return
        across = self.columns // self.width
        slots = [i % self.panels for i in range(self.waves * across)]
        for i, slot in enumerate(slots):
            # the tile before left in the same order
            since = next(d for d in range(1, len(slots) + 1) if slots[(i - d) % len(slots)] == slot)
            wave, box = divmod(i, across)
            yield Load(range(wave, wave + 1), range(box, box + 1), slot * self.tall * self.pitch, since - 1)

    @staticmethod
    def await_copies(s: State, lead: ir.Value, pending: int) -> None:
        """Until all but the last `pending` bulk copies that a unit's `lead` issued have read what they store."""
        b = s.b
        with b.when(lead):
            group = ir.IntegerAttr.get(b.i32, pending)
            b.op("nvvm.cp.async.bulk.wait_group", [], [], group=group, read=ir.UnitAttr.get())
        s.unit_barrier()

    def put(self, s: State, fragment: Any, load: Load) -> None:
        """Rounds what is loaded, and stores it."""
        narrow = _stage_wide if self.bits == 32 else _stage_narrow
        for registers, above in self._waves(fragment, load):
            (_stage if by_matrix(s, self.bits) else narrow)(s, registers, self, above)

    def _waves(self, fragment: Any, load: Load) -> Iterator[tuple[list[Any], int]]:
        """Each wave's registers of a load, and how far below this lane's first elements they are staged."""
        quarter = self.width // 2  # registers of a thread for a box's rows
        for i, wave in enumerate(load.waves):
            box, within = divmod(i * self.rows, self.tall)
            above = (box * self.tall * self.columns // self.width + within) * self.pitch + load.above
            yield fragment.waves[wave][load.boxes.start * quarter : load.boxes.stop * quarter], above

    def pairs(self, s: State, fragment: Any, load: Load) -> Iterator[tuple[ir.Value, int, list[Any]]]:
        """Where each two adjacent elements of 32 bits of a load are staged: an address, bytes below it, their
        registers."""
        for registers, above in self._waves(fragment, load):
            yield from _wide_pairs(s, registers, self, above)

    def place(self, s: State, across: int, above: int) -> ir.Value:
        """Where this lane stages elements `across` bytes along a box's row and `above` bytes below its first."""
        moved = s.b.xor if self.swizzle else s.b.add
        return s.b.add(moved(self.at, across), above)

    def first_column(self, s: State, op: ir.OpView) -> ir.Value:
        """Of the first box, as copies count columns: narrow elements in bytes."""
        b = s.b
        x = b.add(s.get(op.n0), b.mul(s.unit(1), self.columns))
        return b.div(x, 8 // self.bits) if self.bits < 8 else x

    @staticmethod
    def column(s: State, op: ir.OpView, x: ir.Value) -> ir.Value:
        """Where a box that begins at column `x` goes: around gaps, if there are any."""
        b, gaps = s.b, tile.gaps_of(op)
        if gaps is None:
            return x
        size, every, phase = gaps
        return b.add(x, b.mul(b.div(b.add(x, phase), every), size))

    @staticmethod
    def inside(s: State, op: ir.OpView, x: ir.Value, columns: int) -> ir.Value | None:
        """Whether a box `columns` behind column `x` has columns of the result at all; None without gaps, which it could
        be in, as copies then see that by themselves."""
        if tile.gaps_of(op) is None:
            return None
        return s.b.compare("lt", s.b.add(x, columns), tile.int_of(op.operation.attributes["columns"]))

    def boxes(self, s: State, op: ir.OpView, load: Load) -> Iterator[tuple[int, ir.Value, ir.Value]]:
        """The boxes of a load: (columns behind the first, first row, shared address)."""
        b = s.b
        for wave in load.waves[:: self.tall // self.rows]:
            y = b.add(s.get(op.m0), b.add(b.mul(s.unit(0), self.waves * self.rows), wave * self.rows))
            above = (wave - load.waves[0]) * self.rows * self.columns * self.bits // 8 + load.above
            for i, box in enumerate(load.boxes):
                step = self.pitch if self.bits < 8 else self.width
                yield box * step, y, b.add(self.own, above + i * self.tall * self.pitch)


def instruction(op: ir.OpView, rank: int) -> str:
    """The instruction that stores a box, or adds it to what is there (PTX ISA 9.7.9.27.5.2 and 9.7.9.27.5.3): its
    operands are the tensor map, `rank` indices innermost first, and a shared address."""
    kind, adds = ("reduce.async", ".add") if tile.int_of(op.adds) else ("async", "")
    indices = ", ".join(f"${1 + i}" for i in range(rank))
    return f"cp.{kind}.bulk.tensor.{rank}d.global.shared::cta{adds}.tile.bulk_group [$0, {{{indices}}}], [${1 + rank}];"


def store_box(
    s: State, target: MapView, source: ir.Value, *at: ir.Value | int, policy: Sequence[ir.Value] = ()
) -> None:
    """Stores a box, from a pointer to shared memory, at indices innermost first, by a cache policy if there is one."""
    b = s.b
    b.op(
        "nvvm.cp.async.bulk.tensor.global.shared.cta",
        [],
        [b.value(v) for v in (target.map, source, *at, *target.at, *policy)],
        mode=ir.Attribute.parse("#nvvm.tma_store_mode<tile>"),
        operandSegmentSizes=ir.DenseI32ArrayAttr.get([1, 1, len(at) + len(target.at), len(policy), 0]),
    )


@COMMON.lowers("tile.store")
def store(s: State, op: ir.OpView) -> None:
    """Registers to shared memory, then bulk stores, as much at once as is staged.

    Before what is staged is overwritten, the bulk stores before must have read it.
    """
    b, fragment, staging, lead = s.b, s.get(op.accumulator), Staging.of(s, op), s.lead
    target = MapView.of(s, op.target)
    for load in staging.loads():
        staging.await_copies(s, lead, load.pending)
        staging.put(s, fragment, load)
        kind, space = (ir.Attribute.parse(f"#nvvm.{t}") for t in ("proxy_kind<async.shared>", "shared_space<cta>"))
        b.op("nvvm.fence.proxy", [], [], kind=kind, space=space)
        s.unit_barrier()
        x = staging.first_column(s, op)
        with b.when(lead):
            for columns, y, source in staging.boxes(s, op, load):
                inside = staging.inside(s, op, x, columns)
                with b.when(inside) if inside is not None else nullcontext():
                    if tile.int_of(op.adds):
                        map_, at = b.integer(target.map), [b.add(x, columns), y, *target.at]
                        b.asm(instruction(op, len(at)), [], [map_, *at, source])
                    else:
                        shared = b.address(SHARED, source)
                        store_box(s, target, shared, staging.column(s, op, b.add(x, columns)), y)
            b.op("nvvm.cp.async.bulk.commit.group", [], [])


def by_matrix(s: State, bits: int) -> bool:
    """Whether `stmatrix` stages elements: where those of a thread that are adjacent fill a register."""
    return bits * s.geometry.adjacent == 32


def _of_lane(s: State, own: ir.Value, pitch: int, swizzle: int, bits: int, matrix: bool) -> ir.Value:
    """Where this lane stages its first elements: of `stmatrix`, a row of 16 bytes; of others, its own pair.

    The swizzle XORs the 16-byte chunk index with the row's position in its period of 128-byte lines.
    """
    b = s.b
    row = b.and_(s.lane, 15) if matrix else b.shr(s.lane, 2)
    period = {128: b.and_(row, 7), 64: b.and_(b.shr(row, 1), 3), 32: b.and_(b.shr(row, 2), 1), 0: 0}[swizzle]
    # of the lane's first elements among those of its row: eight columns are two chunks of 32 bits, one of 16, or less
    chunk = period
    if matrix:
        chunk = b.xor(b.shr(s.lane, 4), period)
    elif bits == 32:
        chunk = b.xor(b.shr(b.and_(s.lane, 3), 1), period)
    at = b.add(own, b.mul(b.add(b.shl(s.warp_in_unit, 4), row), pitch))
    at = b.add(at, b.shl(chunk, 4))
    if matrix:
        return at
    return b.add(at, b.mul(b.and_(s.lane, 1 if bits == 32 else 3), 2 * bits // 8))


def store_matrices(s: State, address: ir.Value, words: list[ir.Value], layout: str) -> None:
    """Stores 8x8 matrices of 16 bits, a word of a thread each, at a lane's shared address; "col": turned."""
    s.b.op(
        "nvvm.stmatrix",
        [],
        [s.b.address(SHARED, address), *words],
        eltType=ir.Attribute.parse("#nvvm.ld_st_matrix_elt_type<b16>"),
        layout=ir.Attribute.parse(f"#nvvm.mma_layout<{layout}>"),
        shape=ir.Attribute.parse("#nvvm.ld_st_matrix_shape<m = 8, n = 8>"),
    )


def _stage(s: State, registers: list[Any], to: Staging, above: int) -> None:
    """Rounds a wave and stores it in shared memory by 16 rows of 32 bytes, `above` bytes after this lane's first; of a
    row of an odd number of 16 bytes the last 16, whose rows are those of the lower lanes."""
    each = 16 // to.bits  # groups of 8 columns in 16 bytes: what a thread has of a row there is a register
    for g in range(0, len(registers) // 4, 2 * each):
        box, column = divmod(8 * g, to.width)
        chunks = [range(i, i + each) for i in range(g, min(g + 2 * each, len(registers) // 4), each)]
        packed = [
            rounding.word(s, to.element, [registers[4 * i + 2 * half + j].get() for i in groups for j in (0, 1)])
            for groups in chunks
            for half in (0, 1)
        ]
        store_matrices(s, to.place(s, column * to.bits // 8, above + box * to.tall * to.pitch), packed, "row")


def _stage_wide(s: State, registers: list[Any], to: Staging, above: int) -> None:
    """Likewise of 32 bits, pair by pair: eight columns are two chunks, and rows of a warp lie in different banks."""
    for address, below, pair in _wide_pairs(s, registers, to, above):
        s.b.asm(f"st.shared.v2.f32 [$0 + {below}], {{$1, $2}};", [], [address, *(r.get() for r in pair)])


def _wide_pairs(s: State, registers: list[Any], to: Staging, above: int) -> Iterator[tuple[ir.Value, int, list[Any]]]:
    """The pairs of a wave, each with where it is staged: an address, and bytes below it."""
    for g in range(len(registers) // 4):
        box, column = divmod(8 * g, to.width)
        address = to.place(s, 4 * column, above + box * to.tall * to.pitch)
        for half in (0, 1):
            first = 4 * g + 2 * half
            yield address, 8 * half * to.pitch, registers[first : first + 2]


def _stage_narrow(s: State, registers: list[Any], to: Staging, above: int) -> None:
    """Likewise of 8 and 4 bits, pair by pair: eight columns are `bits` bytes. Rows of a warp lie in different banks."""
    b, bits = s.b, to.bits
    for g in range(len(registers) // 4):
        box, column = divmod(8 * g, to.width)
        chunk, byte = divmod(column * bits // 8, 16)
        address = to.place(s, chunk << 4, above + box * to.tall * to.pitch + byte)
        for half in (0, 1):
            packed = rounding.pair(s, to.element, *(registers[4 * g + 2 * half + i].get() for i in (0, 1)))
            b.asm(f"st.shared.b{2 * bits} [$0 + {8 * half * to.pitch}], $1;", [], [address, packed])


@COMMON.lowers("tile.drain")
def drain(s: State, op: ir.OpView) -> None:
    """Until shared memory has been read: it is gone when the CTA exits. What is written is seen at the grid's end."""
    b = s.b
    with b.when(s.lead):
        none = ir.IntegerAttr.get(b.i32, 0)
        b.op("nvvm.cp.async.bulk.wait_group", [], [], group=none, read=ir.UnitAttr.get())
