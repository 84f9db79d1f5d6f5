"""What a K block has outside a range of K becomes zero, between the copy that brings it and the products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_cut import LINE
from scalec.lowering.builder import Builder
from scalec.lowering.common.control import set_up
from scalec.lowering.common.state import COMMON, Ring, State, swizzle

_LOADS = 4
"""Of a lane on their way at once, 16 bytes each."""

_WRAPPED = _LOADS // 2
"""Rows of a lane likewise, of which each is two chunks."""

_LANE_BYTES = tile.LANES * tile.CHUNK  # that a warp stores at once


@COMMON.lowers("tile.cut_ring")
def cut_ring(s: State, op: ir.OpView) -> None:
    first = s.b.add(s.shared, tile.int_of(op.offset))
    s.values[op.result] = Ring(first, first)
    set_up(s, (first, tile.int_of(op.full), tile.int_of(op.depth)))


@COMMON.lowers("tile.detour")
def detour(s: State, op: ir.OpView) -> None:
    ring, through = s.get(op.ring), s.get(op.through)
    full = through.full if op.condition is None else s.b.select(s.get(op.condition), through.full, ring.full)
    s.values[op.result] = replace(ring, full=full)


@COMMON.lowers("tile.pass_on")
def pass_on(s: State, op: ir.OpView) -> None:
    """Each lane fences what it stored (PTX ISA 9.7.13.4, fence.proxy): wgmma and tcgen05.mma read it, and copies
    overwrite it, by the async proxy. One arrives behind all lanes' stores."""
    b, cursor, attributes = s.b, s.get(op.cursor), op.operation.attributes
    lags = "lag" in attributes and tile.int_of(attributes["lag"])
    barrier = b.add(s.get(op.ring).full, b.shl(cursor.before(b) if lags else cursor.stage.get(), 3))
    b.asm("fence.proxy.async.shared::cta;")
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    count = f", {tile.int_of(attributes['arrivals'])}" if "arrivals" in attributes else ""
    b.asm(f"@$1 mbarrier.arrive.shared::cta.b64 _, [$0]{count};", [], [barrier, b.compare("eq", s.lane, 0)])


def _between(b: Builder, value: ir.Value | int, most: int) -> ir.Value | int:
    """`value`, signed, but at least 0 and at most `most`."""
    if isinstance(value, int) and isinstance(most, int):
        return max(0, min(value, most))
    return b.pure("max.s32 $0, $1, 0;", b.i32, b.pure("min.s32 $0, $1, $2;", b.i32, value, most))


def kept_bits(b: Builder, low: ir.Value | int, high: ir.Value | int) -> ir.Value:
    """A word's bits from `low` up to `high`, signed, as far as they are its own: shl by 32 is 0 (PTX ISA 9.7.8.7)."""
    masks = [b.pure("shl.b32 $0, $1, $2;", b.i32, -1, _between(b, x, 32)) for x in (low, high)]
    return b.and_(masks[0], b.xor(masks[1], 0xFFFFFFFF))


def _each(b: Builder, first: ir.Value | int, end: ir.Value | int, step: int, body: Callable[[ir.Value], None]) -> None:
    """body(i) for i from `first` up to `end` in steps."""
    at = b.variable(b.i32, first)

    def one() -> None:
        body(at.get())
        at.set(b.add(at.get(), step))

    b.loop(lambda: b.compare("lt", at.get(), end), one)


@COMMON.lowers("tile.cut_k")
def cut_k(s: State, op: ir.OpView) -> None:
    base = s.get(op.tile).address(s.b, s.get(op.cursor))
    if tile.int_of(op.mn):
        _cut_lines(s, op, base)
    else:
        _cut_rows(s, op, base)


def _cut_lines(s: State, op: ir.OpView, base: ir.Value) -> None:
    """A K element is a line of the swizzle in each panel, within which alone the swizzle moves bytes."""
    b, (depth, width) = s.b, tile.shape_of(op.tile.type)
    row = width * tile.bits_of(tile.element_of(op.tile.type)) // 8
    line = tile.swizzle_of(op.tile.type) or row
    panels = row // line
    first, behind = (b.mul(s.get(x), line) for x in (op.low, op.high))
    own = b.shl(s.lane, 4)

    def clear(at: ir.Value) -> None:
        for panel in range(panels):
            _store(b, b.add(base, at), panel * depth * line, [b.constant(0)] * 4)

    _each(b, own, first, _LANE_BYTES, clear)
    _each(b, b.add(behind, own), depth * line, _LANE_BYTES, clear)


def _cut_rows(s: State, op: ir.OpView, base: ir.Value) -> None:
    """A row each lane. Chunks of 16 bytes are inside, and skipped, or outside, and cleared, or both: of these alone
    what they have is loaded."""
    b, (rows, width), swizzled = s.b, tile.shape_of(op.tile.type), tile.swizzle_of(op.tile.type)
    pitch = width * tile.bits_of(tile.element_of(op.tile.type)) // 8
    each, bits = tile.int_of(op.each), tile.int_of(op.bits)
    own = b.add(base, b.mul(s.lane, pitch))
    turned = swizzle(b, s.lane, pitch) if swizzled else 0  # of all rows that are 32 apart

    def chunk(index: ir.Value) -> None:
        first = b.mul(index, each)
        low, high = (_between(b, b.sub(s.get(x), first), each) for x in (op.low, op.high))
        kept, at = b.sub(high, low), b.add(own, b.shl(b.xor(index, turned), 4))

        def clear() -> None:
            for row in range(0, rows, tile.LANES):
                _store(b, at, row * pitch, [b.constant(0)] * 4, _mine(s, rows - row))

        def keep() -> None:
            words = [
                kept_bits(b, *(b.sub(b.mul(x, bits), 32 * word) for x in (low, high)))
                for word in range(tile.CHUNK // 4)
            ]
            for group in range(0, rows, _LOADS * tile.LANES):
                firsts = range(group, min(rows, group + _LOADS * tile.LANES), tile.LANES)
                found = [_load(s, at, row * pitch, rows - row) for row in firsts]
                for row, values in zip(firsts, found, strict=True):
                    inside = [b.and_(x, mask) for x, mask in zip(values, words, strict=True)]
                    _store(b, at, row * pitch, inside, _mine(s, rows - row))

        with b.when(b.compare("lt", kept, 1)):
            clear()
        with b.when(b.compare("lt", b.sub(kept, 1), each - 1)):
            keep()

    _each(b, 0, pitch // tile.CHUNK, 1, chunk)


@COMMON.lowers("tile.wrap_k")
def wrap_k(s: State, op: ir.OpView) -> None:
    """The first chunk of a row each lane, of its bits from the shift on, and of those of the other stage before."""
    b, (rows, width), swizzled = s.b, tile.shape_of(op.tile.type), tile.swizzle_of(op.tile.type)
    pitch = width * tile.bits_of(tile.element_of(op.tile.type)) // 8
    own = b.mul(s.lane, pitch)
    if swizzled:
        own = b.add(own, b.shl(swizzle(b, s.lane, pitch), 4))
    buffer, cursor = s.get(op.tile), s.get(op.cursor)
    at = b.add(b.add(buffer.base, own), b.mul(cursor.before(b), buffer.stage))
    behind = b.add(buffer.address(b, cursor), own)
    shift, bits = s.get(op.shift), tile.int_of(op.bits)
    taken = b.pure("min.u32 $0, $1, $2;", b.i32, shift, s.get(op.high))
    ends = [[b.sub(b.mul(x, bits), 32 * word) for x in (shift, taken)] for word in range(tile.CHUNK // 4)]
    masks = [(kept_bits(b, own, 32), kept_bits(b, 0, other)) for own, other in ends]
    for group in range(0, rows, _WRAPPED * tile.LANES):
        firsts = range(group, min(rows, group + _WRAPPED * tile.LANES), tile.LANES)
        found = [[_load(s, x, row * pitch, rows - row) for x in (at, behind)] for row in firsts]
        for row, values in zip(firsts, found, strict=True):
            words = [b.or_(b.and_(x, own), b.and_(y, other)) for x, y, (own, other) in zip(*values, masks, strict=True)]
            _store(b, at, row * pitch, words, _mine(s, rows - row))


@COMMON.lowers("tile.interleave_k")
def interleave_k(s: State, op: ir.OpView) -> None:
    """A row two lanes: the even chunks become the first four, the odd ones the others, in which words change places
    alone. What eight lanes load or store at once lies in all banks."""
    b, (rows, width), line = s.b, tile.shape_of(op.tile.type), LINE
    lines, together = rows * width * tile.bits_of(tile.element_of(op.tile.type)) // 8 // line, tile.LANES // 2
    odd, row = b.shr(s.lane, 4), b.and_(s.lane, together - 1)
    own = b.add(s.get(op.tile).address(b, s.get(op.cursor)), b.mul(row, line))
    own = b.add(own, b.shl(swizzle(b, row, line), 4))
    source, target = b.xor(own, b.shl(odd, 4)), b.xor(own, b.shl(odd, 6))
    attributes, behind = op.operation.attributes, None
    apart, ahead = "apart" in attributes, "ahead" in attributes

    def load(first: int) -> tuple[list[list[ir.Value]], int, ir.Value | None]:
        offset, mine = line * first, None
        if lines - first < together:
            mine = b.compare("lt", row, lines - first)
        return [_load_of(b, b.xor(source, 32 * i), offset, mine) for i in range(4)], offset, mine

    def store(chunks: list[list[ir.Value]], offset: int, mine: ir.Value | None) -> None:
        b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
        words = [x for chunk in chunks for x in (_apart(b, chunk) if apart else chunk)]
        for i in range(4):
            _store(b, b.xor(target, 16 * i), offset, words[i::4], mine)

    for first in range(0, lines, together):  # panels follow each other, of whole eights of rows
        loaded = load(first)
        if behind is not None:
            store(*behind)
        behind = loaded if ahead else store(*loaded)
    if behind is not None:
        store(*behind)


def _apart(b: Builder, chunk: list[ir.Value]) -> list[ir.Value]:
    """Of eight elements of 16 bits the pairs of two that are four apart."""
    pairs = [(*chunk[i::2], which) for i in (0, 1) for which in (0x5410, 0x7632)]
    return [b.pure("prmt.b32 $0, $1, $2, $3;", b.i32, *x) for x in pairs]


def _mine(s: State, left: int) -> ir.Value | None:
    """Whether this lane has one of the rows that are left; None where all lanes have."""
    return s.b.compare("lt", s.lane, left) if left < tile.LANES else None


def _load(s: State, address: ir.Value, offset: int, left: int) -> list[ir.Value]:
    return _load_of(s.b, address, offset, _mine(s, left))


def _load_of(b: Builder, address: ir.Value, offset: int, mine: ir.Value | None) -> list[ir.Value]:
    text, others = f"ld.shared.v4.b32 {{$0, $1, $2, $3}}, [$4 + {offset}];", [] if mine is None else [0] * 4
    return b.asm(text, [b.i32] * 4, [address, *others], tied=len(others), only=mine)


def _store(b: Builder, address: ir.Value, offset: int, values: list[ir.Value], mine: ir.Value | None = None) -> None:
    b.asm(f"st.shared.v4.b32 [$0 + {offset}], {{$1, $2, $3, $4}};", [], [address, *values], only=mine)


def _kept_bytes(s: State, op: ir.OpView, words: int) -> list[ir.Value]:
    """Of each word of scale bytes those of blocks that are partly inside."""
    b, unit = s.b, tile.int_of(op.unit)
    begins = b.div(s.get(op.low), unit)
    ends = b.div(b.add(s.get(op.high), unit - 1), unit)
    return [kept_bits(b, *(b.shl(b.sub(x, 4 * word), 3) for x in (begins, ends))) for word in range(words)]


@COMMON.lowers("tile.cut_bytes")
def cut_bytes(s: State, op: ir.OpView) -> None:
    rows = s.get(op.source).registers
    for word, mask in enumerate(_kept_bytes(s, op, len(rows[0]))):
        for registers in rows:
            registers[word].set(s.b.and_(registers[word].get(), mask))


@COMMON.lowers("tile.cut_words")
def cut_words(s: State, op: ir.OpView) -> None:
    b, of_word = s.b, 4
    base = s.get(op.words).address(b, s.get(op.cursor))
    (first, second), bits = tile.shape_of(op.words.type), tile.bits_of(tile.element_of(op.words.type))
    tiled = bits == 64
    words, rows = (tile.words_of(op.words.type)[0], first) if tiled else (first, second)
    size = words * tile.WORD_ROWS * of_word  # of a row of tiles
    for word, mask in enumerate(_kept_bytes(s, op, words)):
        with b.when(b.compare("ne", mask, 0xFFFFFFFF)):
            if tiled:  # 512 bytes of each tile
                at = b.add(base, b.shl(s.lane, 4))
                for row in range(rows):
                    offset = row * size + word * tile.WORD_ROWS * of_word
                    values = [b.and_(x, mask) for x in _load(s, at, offset, tile.LANES)]
                    _store(b, at, offset, values)
                continue
            at = b.add(base, b.shl(s.lane, 2))
            for row in range(0, rows, tile.LANES):
                place, mine = f"[$0 + {of_word * (word * rows + row)}]", _mine(s, rows - row)
                guard = "" if mine is None else "@$2 "
                kept = f"{guard}ld.shared.b32 W, {place};\nand.b32 W, W, $1;\n{guard}st.shared.b32 {place}, W;"
                operands = [at, mask, *([] if mine is None else [mine])]
                b.asm(f"{{\n.reg .b32 W;\n{kept}\n}}", [], operands)


@COMMON.lowers("tile.cut_scales")
def cut_scales(s: State, op: ir.OpView) -> None:
    b, unit, (low, high) = s.b, tile.int_of(op.unit), (s.get(op.low), s.get(op.high))
    source = s.get(op.source)
    rows, zero = source.registers, 0.0 if source.element == "f32" else 0
    for number in range(len(rows[0])):
        first = number * unit
        kept = b.and_(b.compare("lt", low, first + unit), b.compare("lt", first, high))
        for registers in rows:
            registers[number].set(b.select(kept, registers[number].get(), zero))


@COMMON.lowers("arith.select")
def select(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.b.select(*(s.get(x) for x in op.operands))
