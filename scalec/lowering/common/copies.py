"""Copies into shared memory, and scales fetched into registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_checks import part_of, strips_of
from scalec.lowering.builder import CLUSTER, SHARED, Builder, Variable
from scalec.lowering.common.elements import pair_of
from scalec.lowering.common.state import COMMON, Buffer, State, Window


@COMMON.lowers("tile.shared")
def shared(s: State, op: ir.OpView) -> None:
    offset = tile.int_of(op.offset)
    s.values[op.result] = Buffer(s.b.add(s.shared, offset), op.result.type, offset, tile.stage_bytes(op.result.type))


@dataclass(frozen=True)
class MapView:
    """A tensor map, and indices behind the two that an op names."""

    map: ir.Value
    at: list[ir.Value | int]

    @staticmethod
    def of(s: State, descriptor: ir.Value) -> MapView:
        """What a descriptor became."""
        value = s.get(descriptor)
        return value if isinstance(value, MapView) else MapView(value, [])


@COMMON.lowers("tile.view")
def view(s: State, op: ir.OpView) -> None:
    b, source, at = s.b, s.get(op.source), [s.get(v) for v in op.at]
    if isinstance(op.source.type, tile.DescriptorType):
        s.values[op.result] = MapView(source, at)
        return
    size = max(1, tile.bits_of(op.source.type.element_type) // 8)

    def made() -> ir.Value:
        found = source
        for index, stride in zip(at, op.strides, strict=True):
            found = b.offset(found, b.mul(b.mul(b.widen(index), s.get(stride)), b.constant(size, b.i64)), b.i8)
        return found

    users = [use.owner for use in op.result.uses]
    once = all(x.name == "tile.input" and tile.str_of(x.opview.kind) == "col" for x in users)  # what reads them, is
    if s.shares_runs and s.run is not None and s.of_run.issuperset(at) and not once:
        key = (source, *at)
        if key not in s.values:
            s.values[key] = s.once_a_run(op.result, lambda: [b.variable(source.type, made())])
        s.values[op.result] = s.values[key][0].get()
        return
    s.values[op.result] = made()


@COMMON.lowers("tile.copy")
def copy(s: State, op: ir.OpView) -> None:
    _bulk_copy(s, op, s.get(op.target).address(s.b, s.get(op.cursor)))


@COMMON.lowers("tile.clear_rows")
def clear_rows(s: State, op: ir.OpView) -> None:
    b, into, first = s.b, s.get(op.target), tile.int_of(op.first)
    rows, columns = tile.shape_of(into.type)
    line = columns * tile.bits_of(tile.element_of(into.type)) // 8
    each = (rows - first) * line
    at = b.variable(b.i32, b.shl(s.tid, tile.CHUNK.bit_length() - 1))

    def clear() -> None:
        stage = b.div(at.get(), each)
        place = b.add(at.get(), b.mul(stage, into.stage - each))
        address = b.add(b.add(into.base, first * line), place)
        b.asm("st.shared.v4.b32 [$0], {$1, $1, $1, $1};", [], [address, b.constant(0)])
        at.set(b.add(at.get(), tile.CHUNK * s.threads))

    b.loop(lambda: b.compare("lt", at.get(), each * tile.int_of(into.type.stages)), clear)
    b.asm("fence.proxy.async.shared::cta;")  # the tensor core reads them


def _panels(op: ir.OpView) -> Iterator[tuple[int, int]]:
    """(columns to the right, bytes further on) of the panels of the tile that a copy fills: one where it is the box."""
    box, (rows, columns) = tile.shape_of(op.source.type), tile.shape_of(op.target.type)
    bits = tile.bits_of(tile.element_of(op.target.type))
    above = tile.optional(op, "row") * box[0] * bits // 8
    size = rows * bits // 8
    for first in range(0, columns, box[0]):
        yield first, first * size + above


@COMMON.lowers("tile.copy_window")
def copy_window(s: State, op: ir.OpView) -> None:
    target = s.get(op.target)
    _bulk_copy(s, op, target.in_window(s.b, s.get(op.window), target.base))


def _bulk_copy(s: State, op: ir.OpView, target: ir.Value) -> None:
    b, cursor = s.b, s.get(op.cursor)
    multicast = tile.int_of(op.multicast) if s.ctas > 1 else 0
    # without clusters a copy into .shared::cluster would be a call (ptxas 13.0, sm_120a)
    space = CLUSTER if s.target.max_cluster > 1 else SHARED
    ring = s.get(op.ring)
    barrier = b.add(ring.full, b.shl(cursor.at(), 3))
    # a barrier of the pair's other CTA: PTX ISA 9.7.9.27.5.2, .cta_group
    group = {"group": ir.Attribute.parse("#nvvm.cta_group<cta_2>")} if ring.of_leader else {}

    def issue() -> None:
        for right, further in _panels(op):
            one(b.add(s.get(op.x), right), b.add(target, further))

    box = tile.shape_of(op.source.type)
    within, inner = tile.permuted_of(box), tile.inner_of(box)
    source = MapView.of(s, op.source)
    rows = [0] * (3 if within else 1 if inner else 0)
    rows += [b.div(s.get(op.y), within or inner or 1), *source.at]

    def one(x: ir.Value, target: ir.Value) -> None:
        operands = [b.address(space, target), source.map, x, *rows, b.address(SHARED, barrier)]
        operands = [b.value(v) for v in operands]
        if multicast:
            operands.append(_receivers(s, multicast))
        b.op(
            "nvvm.cp.async.bulk.tensor.shared.cluster.global",
            [],
            operands,
            isCTAOnly=ir.BoolAttr.get(space == SHARED),
            mode=ir.Attribute.parse("#nvvm.tma_load_mode<tile>"),
            operandSegmentSizes=ir.DenseI32ArrayAttr.get([1, 1, 1 + len(rows), 1, 0, int(bool(multicast)), 0, 0]),
            **group,
        )

    if multicast:
        with b.when(b.compare("eq", s.rank, 0) if multicast == 1 else b.compare("lt", s.rank, multicast)):
            issue()
    else:
        issue()


def _receivers(s: State, tiles: int) -> ir.Value:
    """The CTAs that have the tile of this one, of so many different ones by turns: a mask of ranks in the cluster."""
    b, every = s.b, sum(1 << rank for rank in range(0, s.ctas, tiles))
    first = b.add(s.rank if tiles > 1 else 0, b.mul(s.part, s.ctas))
    if isinstance(first, int):
        return b.constant(every << first, b.i16)
    return b.op("arith.trunci", [b.i16], [b.op("arith.shli", [b.i32], [b.constant(every), first])])


@COMMON.lowers("tile.windows")
def windows(s: State, op: ir.OpView) -> None:
    s.windowed = True
    s.values[op.result] = Window(tile.int_of(op.blocks), tile.int_of(op.slots), s.b.variable(s.b.i32, 0))


@COMMON.lowers("tile.open_window")
def open_window(s: State, op: ir.OpView) -> None:
    b, w = s.b, s.get(op.window)
    w.at.set(b.and_(b.add(w.at.get(), w.blocks - 1), 0xFFFFFFFF ^ (w.blocks - 1)))


@COMMON.lowers("tile.skip_blocks")
def skip_blocks(s: State, op: ir.OpView) -> None:
    b, w = s.b, s.get(op.window)
    w.at.set(b.add(w.at.get(), b.and_(s.get(op.block), w.blocks - 1)))


@COMMON.lowers("tile.next_block")
def next_block(s: State, op: ir.OpView) -> None:
    """Four blocks are 16 bytes, the swizzle's unit: up to there an offset may be added after the XOR."""
    w = s.get(op.window)
    w.ahead += 1
    if 4 % s.unrolled or w.ahead == s.unrolled:
        w.flush()


NOTHING = 0xFFFFFFFF
"""The index of no row."""


@dataclass(frozen=True)
class RowScales:
    """`threads` threads hold, each for the rows thread, thread + threads, ..., a register for a block or a word; and
    where rows are gathered, the index of the row that a row's scales are of (`tile.look_up`; all ones: of none)."""

    rows: int
    threads: int
    registers: list[list[Variable]]
    indices: list[Variable] | None = None
    element: str = "f32"

    def mine(self, s: State) -> Iterator[tuple[ir.Value, ir.Value | None, list[Variable]]]:
        """(row within the tile, whether it is one, its registers) of this thread."""
        b = s.b
        for i, registers in enumerate(self.registers):
            row = b.add(s.thread, i * self.threads)
            partly = (i + 1) * self.threads > self.rows
            yield row, b.compare("lt", row, self.rows) if partly else None, registers

    def place(self, b: Builder, row: ir.Value) -> ir.Value:
        """Byte of a row's first word in a stage of words."""
        return b.shl(row, 2)

    def of(self, s: State, op: ir.OpView) -> Iterator[tuple[ir.Value, ir.Value, ir.Value | None, list[Variable]]]:
        """(where the scales' tensor begins, or the row's page of it, the row from there, whether there is one, its
        registers) for a load: rows are clamped below the end that the op names, or gathered."""
        b, source, page = s.b, s.get(op.source), tile.optional(op, "page")
        last = None if self.indices is not None else b.sub(s.get(op.rows), 1)
        for i, (row, is_row, registers) in enumerate(self.mine(s)):
            if last is not None:
                yield source, b.min(b.add(s.get(op.row0), row), last), is_row, registers
            elif self.indices is not None:
                index = self.indices[i].get()
                there = b.compare("ne", index, NOTHING)
                if page:
                    at, row = _page(s, op, index), b.add(s.get(op.row0), row)
                    yield at, b.sub(row, b.mul(b.div(row, page), page)), there, registers
                    continue
                yield source, index, there, registers


def _page(s: State, op: ir.OpView, index: ir.Value) -> ir.Value:
    """Where a page of scales begins, `page_stride` elements behind the one before."""
    b, size = s.b, tile.bits_of(op.source.type.element_type) // 8  # LLVM has no element of ue8m0
    return b.offset(s.get(op.source), b.mul(b.strided(index, s.get(op.page_stride)), b.constant(size, b.i64)), b.i8)


def indices_of(s: State, room: ir.OpView, count: int) -> list[Variable] | None:
    """Registers for the indices of `count` rows of a thread, where a room is looked up into."""
    gathered = any(use.owner.name in ("tile.look_up", "tile.look_up_k") for use in room.result.uses)
    return [s.b.variable(s.b.i32, NOTHING) for _ in range(count)] if gathered else None


@COMMON.lowers("tile.row_scales")
def row_scales(s: State, op: ir.OpView) -> None:
    rows, threads = tile.int_of(op.rows), 32 * tile.int_of(op.warps)
    count, blocks = -(-rows // threads), tile.int_of(op.blocks)
    element = tile.element_in(op)
    registers = [[_held(s.b, element) for _ in range(blocks)] for _ in range(count)]
    s.values[op.result] = RowScales(rows, threads, registers, indices_of(s, op, count), element)


@COMMON.lowers("tile.load_rows")
def load_rows(s: State, op: ir.OpView) -> None:
    """Predicated loads: a register keeps its value where its row or block does not exist."""
    b = s.b
    step, block, row_block = (tile.int_of(x) for x in (op.step, op.block, op.row_block))
    stored = op.source.type.element_type
    for source, row, is_row, registers in s.get(op.into).of(s, op):
        at_row = b.offset(source, b.strided(b.div(row, row_block), s.get(op.row_stride)), stored)
        for j, register in enumerate(registers):
            at = b.add(s.get(op.k0), j * step)
            inside = b.compare("lt", at, s.get(op.k))
            inside = b.both(inside, is_row)
            address = b.offset(at_row, b.strided(b.div(at, block), s.get(op.k_stride)), stored)
            pointer = b.integer(address)
            _load_scale(s, op, register, pointer, inside)


@COMMON.lowers("tile.store_rows")
def store_rows(s: State, op: ir.OpView) -> None:
    b = s.b
    base = s.get(op.target).address(b, s.get(op.cursor))
    count, _ = tile.shape_of(op.target.type)
    first = tile.int_of(op.index) * count
    source, pairs = s.get(op.source), tile.optional(op, "pairs", "")
    for row, is_row, registers in source.mine(s):
        some = [v.get() for v in registers[first : first + count]]
        values = [_pair(b, x, source.element, pairs) if pairs else as_f32(b, x, source.element) for x in some]
        store_vectors(s, op, b.add(base, b.shl(stored_row(b, op, row), 2)), is_row, values)


def _pair(b: Builder, held: ir.Value, element: str, made: str) -> ir.Value:
    """A scale of a type, as a register holds it, twice as one of 16 bits."""
    if element == made:
        return b.pure("prmt.b32 $0, $1, $1, 0x1010;", b.i32, held)
    return pair_of(b, as_f32(b, held, element), made)


def stored_row(b: Builder, op: ir.OpView, row: ir.Value) -> ir.Value:
    """The row of the stage where an op stores the scales of one of its rows."""
    first, rows, apart = strips_of(op)
    behind = b.mul(b.div(row, rows), apart) if rows and apart else 0
    return b.add(b.add(row, behind), first) if rows else row


def store_vectors(s: State, op: ir.OpView, address: ir.Value, is_row: ir.Value | None, values: list[ir.Value]) -> None:
    """A row's f32, each into its one of the shared vectors of the op's target; `address`: in the first."""
    _, rows = tile.shape_of(op.target.type)
    for number, value in enumerate(values):
        offset, kind = f" + {4 * rows * number}" if number else "", "f32" if value.type == s.b.f32 else "b32"
        s.b.asm(f"st.shared.{kind} [$0{offset}], $1;", [], [address, value], only=is_row)


@dataclass(frozen=True)
class Scalars:
    """Registers for scales of type `element`."""

    registers: list[Variable]
    element: str

    def values(self, b: Builder) -> list[ir.Value]:
        return [as_f32(b, v.get(), self.element) for v in self.registers]


@COMMON.lowers("tile.scalars")
def scalars(s: State, op: ir.OpView) -> None:
    element = tile.element_in(op)
    s.values[op.result] = Scalars([_held(s.b, element) for _ in range(tile.int_of(op.count))], element)


def _held(b: Builder, element: str) -> Variable:
    """A register for a scale of a type on its way: its bits, where that is not f32."""
    return b.variable(b.f32, 0.0) if element == "f32" else b.variable(b.i32, 0)


def as_f32(b: Builder, held: ir.Value, element: str) -> ir.Value:
    """A scale of a type as f32, out of such a register: made of it where it is used, not where it is still on its
    way."""
    if element == "f32":
        return held
    if element == "bf16":
        return b.float_of(b.shl(held, 16))
    if element == "f16":
        return b.pure("{ .reg .b16 H; cvt.u16.u32 H, $1; cvt.f32.f16 $0, H; }", b.f32, held)
    return widened(b, held, 0, element)


def widened(b: Builder, word: ir.Value, byte: int, element: str) -> ir.Value:
    """A byte of a word, a scale of type `element`, as f32. Exact: 2^-127 is a subnormal, 255 is NaN."""
    if element == "ue4m3":
        pair = b.pure("prmt.b32 $0, $1, 0, $2;", b.i32, word, 0x4440 | byte)  # that byte, and zeros
        text = "{ .reg .b16 H; .reg .b32 W; cvt.u16.u32 H, $1; cvt.rn.f16x2.e4m3x2 W, H; cvt.u16.u32 H, W; "
        return b.pure(text + "cvt.f32.f16 $0, H; }", b.f32, pair)
    up = 23 - 8 * byte  # to where f32 has its exponent
    bits = b.and_(b.shl(word, up) if up > 0 else b.shr(word, -up), _INFINITY)
    least = b.pure(f"max.u32 $0, $1, {_LEAST};", b.i32, bits)
    bits = b.select(b.compare("eq", bits, _INFINITY), b.constant(_NAN), least)
    return b.float_of(bits)


_INFINITY, _NAN, _LEAST = 0x7F800000, 0x7FFFFFFF, 0x00400000  # the last one is 2^-127


SECTOR = 32
"""Bytes that L2 fetches from memory at once."""

MOST_PREFETCHES = 16
"""Of a lane, at the start of a tile: where K is longer, later scales come when they are loaded, a K block ahead."""


@COMMON.lowers("tile.prefetch")
def prefetch(s: State, op: ir.OpView) -> None:
    b, count, step = s.b, tile.int_of(op.count), tile.int_of(op.k_block)
    k, stride = s.get(op.k), s.get(op.k_stride)
    stored = op.source.type.element_type
    each = 8 * SECTOR // tile.bits_of(stored) if isinstance(stride, int) and stride == 1 else 1  # scales of a sector
    sectors = 1 + -(-k // (step * each)) if isinstance(k, int) else tile.LANES // count  # they may begin within one
    source, last = s.get(op.source), b.sub(s.get(op.rows), 1)
    for first in range(0, min(sectors * count, MOST_PREFETCHES * tile.LANES), tile.LANES):
        number = b.add(s.lane, first)
        sector = b.div(number, count)
        block = b.mul(sector, each)
        inside = b.compare("lt", b.mul(block, step), b.value(k))
        block = b.add(b.div(s.get(op.k0), step), block)
        row = b.add(s.get(op.row0), b.mul(b.sub(number, b.mul(sector, count)), tile.int_of(op.spacing)))
        row = b.div(b.min(row, last), tile.int_of(op.row_block))
        at = b.offset(source, b.add(b.strided(block, stride), b.strided(row, s.get(op.row_stride))), stored)
        b.asm("@$1 prefetch.global.L2 [$0];", [], [b.integer(at), inside])


@COMMON.lowers("tile.fetch")
def fetch(s: State, op: ir.OpView) -> None:
    """Predicated loads, no branch (rule 3 of sm90/multiply.py): they are issued between a wgmma and its promotion.

    Of a tile that a queue deals out ptxas knows that all lanes have the same address. It then keeps the scale in a
    uniform register, and waits for the load at the end of the same K block (246 stalls instead of 217, sm_100a, ptxas
    13.0). So something is added that is 0: to K, or where scales of rows take registers, where that would spill, to the
    address alone.
    """
    b = s.b
    k0 = s.get(op.k0)
    zero = s.once("varied", s.varied) if s.dealt and s.varied is not None else None
    if zero is not None and s.windowed:
        k0, zero = b.add(k0, zero), None
    inside = b.compare("lt", k0, s.get(op.k))
    column = b.strided(b.div(k0, tile.int_of(op.k_block)), s.get(op.k_stride))
    stored = op.source.type.element_type
    source = b.offset(s.get(op.source), column, stored)
    for room, row in rows_of(s, op):
        address = b.offset(source, b.strided(row, s.get(op.row_stride)), stored)
        pointer = b.integer(address)
        if zero is not None:
            pointer = b.add(pointer, b.widen(zero))
        _load_scale(s, op, room, pointer, inside)


def rows_of(s: State, op: ir.OpView) -> Iterator[tuple[Variable, ir.Value]]:
    """The registers of a fetch, each with the row of its scale's tensor."""
    b, row0, last = s.b, s.get(op.row0), s.b.sub(s.get(op.rows), 1)
    own = tile.int_of(op.own)
    if own:
        row0 = b.add(row0, b.mul(s.unit(0 if tile.str_of(op.axis) == "m" else 1), own))
    first, count = part_of(op)
    rooms = s.get(op.into).registers
    for i, room in enumerate(rooms[first : first + count] if count else rooms):
        yield room, b.div(b.min(b.add(row0, i * tile.int_of(op.spacing)), last), tile.int_of(op.row_block))


_ONES = {"f32": 1.0, "bf16": 0x3F80, "f16": 0x3C00}
"""In the registers that a scale is loaded into."""


def _load_scale(s: State, op: ir.OpView, into: Variable, pointer: ir.Value, inside: ir.Value) -> None:
    """A scale, if it is `inside`; else 0, 1 or what was there."""
    b, wide, stored = s.b, tile.bits_of(op.source.type.element_type) == 32, str(op.source.type.element_type)
    kind, text = (b.f32, "f32") if wide else (b.i32, "u16")
    other = into.get()
    if "zeros" in op.operation.attributes:
        other = b.constant(0.0 if wide else 0)
    elif "ones" in op.operation.attributes:
        other = b.constant(_ONES[stored])
    into.set(b.asm(f"@$2 ld.global.nc.{text} $0, [$1];", [kind], [pointer, inside, other], tied=1)[0])
