"""From accumulators to memory: elementwise body, rounding, stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering import scalar
from scalec.lowering.builder import SHARED
from scalec.lowering.common import rounding
from scalec.lowering.common.state import COMMON, State


@dataclass(frozen=True)
class Input:
    """An epilogue input: pointer (or, for a scalar parameter, the value) and how `tile.input` says to read it."""

    source: ir.Value
    element: str
    kind: str
    strides: tuple[ir.Value | int, ir.Value | int]
    blocks: tuple[int, int]
    pair: bool
    value: bool


@dataclass(frozen=True)
class Place:
    """Two rows by two columns of this thread: rows `row` and `row` + 8, columns `column` and the next."""

    row: ir.Value
    column: ir.Value
    row_inside: tuple[ir.Value, ir.Value]
    column_inside: tuple[ir.Value, ir.Value]


@COMMON.lowers("tile.input")
def input_(s: State, op: ir.OpView) -> None:
    source_type = op.source.type
    scalar_value = str(source_type) == "f32"
    element = "f32" if scalar_value else str(source_type.element_type)
    strides = (s.get(op.row_stride), s.get(op.column_stride))
    blocks = (tile.int_of(op.row_block), tile.int_of(op.column_block))
    kind, pair = tile.str_of(op.kind), bool(tile.int_of(op.pair))
    s.values[op.result] = Input(s.get(op.source), element, kind, strides, blocks, pair, scalar_value)


def places(s: State, op: ir.OpView, wave: int, waves: int, columns: int) -> Iterator[tuple[int, Place]]:
    """The groups of 8 columns of a wave, with this thread's place in each."""
    b = s.b
    m0, n0, m, n = (s.get(v) for v in (op.m0, op.n0, op.m, op.n))
    wave_rows = s.geometry.wave
    above = b.add(b.mul(s.unit(0), waves * wave_rows), wave * wave_rows)
    row = b.add(m0, b.add(above, s.row_in_wave))
    rows = (b.compare("lt", row, m), b.compare("lt", b.add(row, 8), m))
    start = b.add(b.add(n0, s.first_column), b.mul(s.unit(1), columns))
    for g in range(columns // 8):
        column = b.add(start, s.geometry.column(g))
        yield g, Place(row, column, rows, (b.compare("lt", column, n), b.compare("lt", b.add(column, 1), n)))


def _load(s: State, pointer: ir.Value, element: str, inside: ir.Value, count: int) -> list[ir.Value]:
    """`count` elements (1, or 2 adjacent and aligned) as f32; zeros where not inside.

    Not `.nc`: with `+=` the kernel writes what it reads here (PTX ISA 9.7.9.9 wants read-only memory for the kernel).
    """
    b = s.b
    address = b.op("llvm.ptrtoint", [b.i64], [pointer])
    zero = [b.constant(0.0)] * count
    if element == "f32":
        if count == 2:
            return b.asm("@$3 ld.global.v2.f32 {$0, $1}, [$2];", [b.f32] * 2, [address, inside, *zero], tied=2)
        return b.asm("@$2 ld.global.f32 $0, [$1];", [b.f32], [address, inside, *zero], tied=1)
    nothing = b.constant(0)
    if count == 2:
        raw = b.asm("@$2 ld.global.b32 $0, [$1];", [b.i32], [address, inside, nothing], tied=1)[0]
    else:
        text = "{\n.reg .b16 H;\nmov.b16 H, 0;\n@$2 ld.global.b16 H, [$1];\ncvt.u32.u16 $0, H;\n}"
        raw = b.asm(text, [b.i32], [address, inside])[0]
    return [_unpack(s, raw, element, i) for i in range(count)]


def _unpack(s: State, raw: ir.Value, element: str, half: int) -> ir.Value:
    """The lower (0) or upper (1) 16 bits of a register as f32."""
    b = s.b
    if element == "bf16":  # bf16 is the upper half of an f32
        bits = b.and_(raw, 0xFFFF0000) if half else b.shl(raw, 16)
        return b.op("llvm.bitcast", [b.f32], [bits])
    lower, upper = ("_", "H") if half else ("H", "_")
    text = f"{{\n.reg .b16 H;\nmov.b32 {{{lower}, {upper}}}, $1;\ncvt.f32.f16 $0, H;\n}}"
    return b.asm(text, [b.f32], [raw], volatile=False, memory=False)[0]


class Reader:
    """Values of one input at a thread's places; loads what is invariant once."""

    def __init__(self, s: State, source: Input) -> None:
        self._s, self._in = s, source
        self._once: list[ir.Value] | None = None

    def _pointer(self, row: ir.Value | None, column: ir.Value | None) -> ir.Value:
        b, element = self._s.b, _mlir(self._s, self._in.element)
        index = b.constant(0, b.i64)
        for at, stride, block in zip((row, column), self._in.strides, self._in.blocks, strict=True):
            if at is not None:
                index = b.add(index, b.mul(b.widen(b.div(at, block)), stride))
        return b.offset(self._in.source, index, element)

    def new_wave(self) -> None:
        """Row values of the wave before do not hold any more."""
        if self._in.kind == "row":
            self._once = None

    def at(self, place: Place) -> list[ir.Value]:
        """Values at (row, c), (row, c + 1), (row + 8, c), (row + 8, c + 1)."""
        s, b, source = self._s, self._s.b, self._in
        if source.value:
            return [source.source] * 4
        if source.kind == "scalar":
            return self.scalar()
        below = b.add(place.row, 8)
        if source.kind == "row":
            if self._once is None:
                pair = [
                    _load(s, self._pointer(r, None), source.element, inside, 1)[0]
                    for r, inside in zip((place.row, below), place.row_inside, strict=True)
                ]
                self._once = [pair[0], pair[0], pair[1], pair[1]]
            return self._once
        if source.kind == "col":
            return self._columns(None, None, place) * 2
        return [
            v
            for r, inside in zip((place.row, below), place.row_inside, strict=True)
            for v in self._columns(r, inside, place)
        ]

    def scalar(self) -> list[ir.Value]:
        """Likewise of one that is the same everywhere."""
        if self._once is None:
            always = self._s.b.constant(1, self._s.b.i1)
            self._once = _load(self._s, self._pointer(None, None), self._in.element, always, 1) * 4
        return self._once

    def _columns(self, row: ir.Value | None, row_inside: ir.Value | None, place: Place) -> list[ir.Value]:
        s, b = self._s, self._s.b
        both = lambda c: c if row_inside is None else b.and_(row_inside, c)  # noqa: E731
        if self._in.pair:
            return _load(s, self._pointer(row, place.column), self._in.element, both(place.column_inside[0]), 2)
        return [
            _load(s, self._pointer(row, b.add(place.column, i)), self._in.element, both(place.column_inside[i]), 1)[0]
            for i in (0, 1)
        ]


def _mlir(s: State, element: str) -> ir.Type:
    return ir.Type.parse(element)


@COMMON.lowers("tile.hold")
def hold(s: State, op: ir.OpView) -> None:
    source = s.get(op.input)
    value = source.source if source.value else Reader(s, source).scalar()[0]
    s.values[op.result] = replace(source, source=value, value=True)


@COMMON.lowers("tile.epilogue")
def epilogue(s: State, op: ir.OpView) -> None:
    fragment = s.get(op.accumulator)
    readers = [Reader(s, s.get(v)) for v in op.inputs]
    for wave, registers in enumerate(fragment.waves):
        for r in readers:
            r.new_wave()
        for g, place in places(s, op, wave, len(fragment.waves), fragment.columns):
            inputs = [r.at(place) for r in readers]
            for i in range(4):
                v = registers[4 * g + i]
                v.set(scalar.evaluate(s.b, op.body.blocks[0], [v.get(), *(x[i] for x in inputs)]))


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
        width, tall: columns and rows of a box; its rows are a wave, or several.
        rows: of a wave.
        waves, staged: the unit's, and how many of them are staged at once.
        panels: boxes of a wave that have room, to be filled in turn; 0 where all have.
    """

    own: ir.Value
    at: ir.Value
    element: str
    columns: int
    width: int
    tall: int
    rows: int
    waves: int
    staged: int
    panels: int

    @classmethod
    def of(cls, s: State, op: ir.OpView) -> Self:
        b, fragment, staging = s.b, s.get(op.accumulator), s.get(op.staging)
        element = str(tile.element_of(op.staging.type))
        bits = rounding.bits_of(element)
        width, tall = tile.shape_of(op.target.type)
        waves, columns, rows = len(fragment.waves), fragment.columns, s.geometry.wave
        height, across = tile.shape_of(op.staging.type)
        staged, room = height // (s.geometry.units[0] * rows), across // s.geometry.units[1]
        own = b.add(staging.base, b.mul(s.unit_index, staged * rows * room * bits // 8))
        if s.geometry.turns > 1:
            own = b.add(own, b.mul(s.turn, tile.stage_bytes(op.staging.type)))
        at = _of_lane(s, own, width * bits // 8, bits, by_matrix(s, bits))
        panels = room // width if room < columns else 0
        return cls(own, at, element, columns, width, tall, rows, waves, staged, panels)

    @property
    def bits(self) -> int:
        """Of an element."""
        return rounding.bits_of(self.element)

    @property
    def pitch(self) -> int:
        """Bytes of a box's row: its swizzle."""
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
        return s.b.add(s.b.xor(self.at, across), above)

    def first_column(self, s: State, op: ir.OpView) -> ir.Value:
        """Of the first box, as copies count columns: narrow elements in bytes."""
        b = s.b
        x = b.add(s.get(op.n0), b.mul(s.unit(1), self.columns))
        return b.div(x, 8 // self.bits) if self.bits < 8 else x

    def boxes(self, s: State, op: ir.OpView, load: Load) -> Iterator[tuple[int, ir.Value, ir.Value]]:
        """The boxes of a load: (columns behind the first, first row, shared address)."""
        b = s.b
        for wave in load.waves[:: self.tall // self.rows]:
            y = b.add(s.get(op.m0), b.add(b.mul(s.unit(0), self.waves * self.rows), wave * self.rows))
            above = (wave - load.waves[0]) * self.rows * self.columns * self.bits // 8 + load.above
            for i, box in enumerate(load.boxes):
                step = self.pitch if self.bits < 8 else self.width
                yield box * step, y, b.add(self.own, above + i * self.tall * self.pitch)


def copy_of(op: ir.OpView) -> str:
    """The instruction that stores a box, or adds it to what is there (PTX ISA 9.7.9.27.5.2 and 9.7.9.27.5.3)."""
    if tile.int_of(op.adds):
        return "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"
    return "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"


@COMMON.lowers("tile.store")
def store(s: State, op: ir.OpView) -> None:
    """Registers to shared memory, then bulk stores, as much at once as is staged.

    Before what is staged is overwritten, the bulk stores before must have read it.
    """
    b, fragment, staging, lead = s.b, s.get(op.accumulator), Staging.of(s, op), s.lead
    for load in staging.loads():
        pending = ir.IntegerAttr.get(b.i32, load.pending)
        with b.when(lead):
            b.op("nvvm.cp.async.bulk.wait_group", [], [], group=pending, read=ir.UnitAttr.get())
        s.unit_barrier()
        staging.put(s, fragment, load)
        kind, space = (ir.Attribute.parse(f"#nvvm.{t}") for t in ("proxy_kind<async.shared>", "shared_space<cta>"))
        b.op("nvvm.fence.proxy", [], [], kind=kind, space=space)
        s.unit_barrier()
        x = staging.first_column(s, op)
        with b.when(lead):
            for columns, y, source in staging.boxes(s, op, load):
                if tile.int_of(op.adds):
                    target = b.op("llvm.ptrtoint", [b.i64], [s.get(op.target)])
                    b.asm(f"{copy_of(op)} [$0, {{$1, $2}}], [$3];", [], [target, b.add(x, columns), y, source])
                    continue
                b.op(
                    "nvvm.cp.async.bulk.tensor.global.shared.cta",
                    [],
                    [s.get(op.target), b.address(SHARED, source), b.add(x, columns), y],
                    mode=ir.Attribute.parse("#nvvm.tma_store_mode<tile>"),
                    operandSegmentSizes=ir.DenseI32ArrayAttr.get([1, 1, 2, 0, 0]),
                )
            b.op("nvvm.cp.async.bulk.commit.group", [], [])


def by_matrix(s: State, bits: int) -> bool:
    """Whether `stmatrix` stages elements: where those of a thread that are adjacent fill a register."""
    return bits * s.geometry.adjacent == 32


def _of_lane(s: State, own: ir.Value, pitch: int, bits: int, matrix: bool) -> ir.Value:
    """Where this lane stages its first elements: of `stmatrix`, a row of 16 bytes; of others, its own pair.

    The swizzle XORs the 16-byte chunk index with the row's position in its period of 128-byte lines.
    """
    b = s.b
    row = b.and_(s.lane, 15) if matrix else b.shr(s.lane, 2)
    period = {128: b.and_(row, 7), 64: b.and_(b.shr(row, 1), 3), 32: b.and_(b.shr(row, 2), 1)}[pitch]
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


def _stage(s: State, registers: list[Any], to: Staging, above: int) -> None:
    """Rounds a wave and stores it in shared memory by 16 rows of 32 bytes, `above` bytes after this lane's first."""
    b, each = s.b, 16 // to.bits  # groups of 8 columns in 16 bytes: what a thread has of a row there is a register
    for g in range(0, len(registers) // 4, 2 * each):
        box, column = divmod(8 * g, to.width)
        packed = [
            rounding.word(s, to.element, [registers[4 * i + 2 * half + j].get() for i in groups for j in (0, 1)])
            for groups in (range(g, g + each), range(g + each, g + 2 * each))
            for half in (0, 1)
        ]
        address = b.address(SHARED, to.place(s, column * to.bits // 8, above + box * to.tall * to.pitch))
        b.op(
            "nvvm.stmatrix",
            [],
            [address, *packed],
            eltType=ir.Attribute.parse("#nvvm.ld_st_matrix_elt_type<b16>"),
            layout=ir.Attribute.parse("#nvvm.mma_layout<row>"),
            shape=ir.Attribute.parse("#nvvm.ld_st_matrix_shape<m = 8, n = 8>"),
        )


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


def _at(s: State, pointer: ir.Value, index: ir.Value, element: str) -> ir.Value:
    """Address of an element; narrow ones, which are no types of LLVM's, lie in bytes."""
    b = s.b
    return b.op(
        "llvm.ptrtoint",
        [b.i64],
        [b.offset(pointer, index, b.i8 if rounding.bits_of(element) < 16 else _mlir(s, element))],
    )


@COMMON.lowers("tile.store_direct")
def store_direct(s: State, op: ir.OpView) -> None:
    """Where columns are adjacent, their distances are offsets of the instructions, not addresses in registers."""
    b, fragment = s.b, s.get(op.accumulator)
    element = str(op.target.type.element_type)
    pair, bits = bool(tile.int_of(op.pair)), rounding.bits_of(element)
    strides = s.get(op.row_stride), s.get(op.column_stride)
    adjacent = strides[1] == 1 if isinstance(strides[1], int) else False

    def address(row: ir.Value, column: ir.Value) -> ir.Value:
        column = b.div(column, max(1, 8 // bits))  # strides count bytes of packed elements
        index = b.add(b.mul(b.widen(row), strides[0]), b.mul(b.widen(column), strides[1]))
        return _at(s, s.get(op.target), index, element)

    for wave, registers in enumerate(fragment.waves):
        first: list[ir.Value] = []
        for g, place in places(s, op, wave, len(fragment.waves), fragment.columns):
            rows = [b.add(place.row, 8 * half) for half in (0, 1)]
            if adjacent:
                first = first or [address(row, place.column) for row in rows]
            for half in (0, 1):
                values = [registers[4 * g + 2 * half + i].get() for i in (0, 1)]
                at, offset = (first[half], g * bits) if adjacent else (address(rows[half], place.column), 0)
                inside = [b.and_(place.row_inside[half], c) for c in place.column_inside]
                if bits < 8 and not pair:
                    _store_rows(s, op, element, rows[half], place, half, values)
                elif pair and element == "f32":
                    b.asm(f"@$3 st.global.v2.f32 [$0 + {offset}], {{$1, $2}};", [], [at, *values, inside[0]])
                elif pair:
                    packed = rounding.pair(s, element, *values)
                    b.asm(f"@$2 st.global.b{2 * bits} [$0 + {offset}], $1;", [], [at, packed, inside[0]])
                else:
                    for i in (0, 1):
                        step = b.mul(strides[1], i * bits // 8)
                        _store_one(s, b.add(at, step), offset, element, values[i], inside[i])


def _store_rows(
    s: State, op: ir.OpView, element: str, row: ir.Value, place: Place, half: int, values: list[ir.Value]
) -> None:
    """Packed elements of which two rows share a byte: lanes of two adjacent rows exchange, so that the even row's has
    both elements of its first column, the odd one's both of its second."""
    b = s.b
    odd = b.and_(b.shr(s.lane, 2), 1)
    second = b.compare("eq", odd, 1)
    sent = b.select(second, values[0], values[1])
    other = b.asm("shfl.sync.bfly.b32 $0, $1, 4, 31, -1;", [b.f32], [sent])[0]
    packed = rounding.pair(s, element, b.select(second, other, values[0]), b.select(second, values[1], other))
    at = b.mul(b.widen(b.add(place.column, odd)), s.get(op.column_stride))
    address = _at(s, s.get(op.target), b.add(b.widen(b.div(row, 2)), at), element)
    inside = b.and_(place.row_inside[half], b.select(second, place.column_inside[1], place.column_inside[0]))
    b.asm("@$2 st.global.b8 [$0], $1;", [], [address, packed, inside])


def _store_one(s: State, address: ir.Value, offset: int, element: str, value: ir.Value, inside: ir.Value) -> None:
    b, bits = s.b, rounding.bits_of(element)
    rounded = value if element == "f32" else rounding.one(s, element, value)
    width = "f32" if element == "f32" else f"b{bits}"
    b.asm(f"@$2 st.global.{width} [$0 + {offset}], $1;", [], [address, rounded, inside])
