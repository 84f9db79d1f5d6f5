"""Scale bytes on their way from memory, in any layout, to the words of a stage."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_powers import COMMON_POWERS
from scalec.ir.tile_registers import together_of
from scalec.ir.tile_scales import LOW, ORDINARY, SEEN
from scalec.lowering.builder import Builder
from scalec.lowering.common.copies import RowScales, indices_of, rows_of, store_vectors, stored_row, widened
from scalec.lowering.common.elements import pair_of
from scalec.lowering.common.state import COMMON, State

ONES = {"ue8m0": 0x7F7F7F7F, "ue4m3": 0x38383838}
"""A word of four scales that are 1, by their type."""


@COMMON.lowers("tile.byte_scales")
def byte_scales(s: State, op: ir.OpView) -> None:
    rows, threads, count = tile.int_of(op.rows), 32 * tile.int_of(op.warps), tile.int_of(op.words)
    registers = [[s.b.variable(s.b.i32, 0) for _ in range(count)] for _ in range(-(-rows // threads))]
    s.values[op.result] = RowScales(rows, threads, registers, indices_of(s, op, len(registers)))


def _fill(s: State, op: ir.OpView) -> ir.Value:
    """A word of what stands for scales that are not there."""
    more = op.operation.attributes
    return s.b.constant(ONES[tile.str_of(more["ones"])] if "ones" in more else 0)


@COMMON.lowers("tile.load_bytes")
def load_bytes(s: State, op: ir.OpView) -> None:
    """Predicated loads; bytes of K elements that do not exist are zeros, which the zeros of the operands meet."""
    b, fill, ones = s.b, _fill(s, op), "ones" in op.operation.attributes
    count, unit, block = (tile.int_of(x) for x in (op.bytes, op.unit, op.block))
    place = _PLACES[tile.str_of(op.layout)]
    step = 4 * together_of(op) if tile.int_of(op.whole) else 1
    adjacent = tile.str_of(op.layout) == "row" and unit == block
    for place_of_row, row, is_row, registers in s.get(op.into).of(s, op):
        source = b.integer(place_of_row)
        index = b.div(row, tile.int_of(op.row_block))
        parts: list[ir.Value] = []
        address = None
        for j in range(0, count, step):
            at = b.add(s.get(op.k0), j * unit)
            inside = b.compare("lt", at, s.get(op.k))
            inside = b.both(inside, is_row)
            offset = j if adjacent else 0  # one address for all of them saves registers
            if address is None or not adjacent:
                address = b.add(source, place(s, op, index, b.div(at, block)))
            if step > 4:
                parts += _vector(b, step // 4, address, offset, inside, fill)
                continue
            text = f"@$2 ld.global.nc.{'b32' if step == 4 else 'u8'} $0, [$1 + {offset}];"
            (part,) = b.asm(text, [b.i32], [address, inside, fill if step == 4 else b.and_(fill, 0xFF)], tied=1)
            if tile.int_of(op.pads):  # the lowest bytes are of K; bfe: PTX ISA 9.7.1.19
                bits = b.shl(b.min(b.ceildiv(b.sub(s.get(op.k), at), unit), 4), 3)
                bits = b.select(inside, bits, 8 * 4) if ones else bits
                (part,) = b.asm("bfe.u32 $0, $1, 0, $2;", [b.i32], [part, bits], volatile=False, memory=False)
            parts.append(part)
        for word, register in enumerate(registers):
            register.set(parts[word] if step > 1 else _word(s, parts[4 * word : 4 * word + 4]))


def _vector(b: Builder, count: int, address: ir.Value, offset: int, inside: ir.Value, fill: ir.Value) -> list[ir.Value]:
    """So many words that lie side by side, at once where they are aligned so: a view's rows may be so far apart that
    they are not."""
    whole = ", ".join(f"${i}" for i in range(count))
    alone = " ".join(f"@Q ld.global.nc.b32 ${i}, [${count} + {offset + 4 * i}];" for i in range(count))
    text = (
        f"{{ .reg .pred P, Q; .reg .b64 L; and.b64 L, ${count}, {4 * count - 1}; "
        f"setp.eq.and.u64 P, L, 0, ${count + 1}; setp.ne.and.u64 Q, L, 0, ${count + 1}; "
        f"@P ld.global.nc.v{count}.b32 {{{whole}}}, [${count} + {offset}]; {alone} }}"
    )
    return b.asm(text, [b.i32] * count, [address, inside, *[fill] * count], tied=count)


def _word(s: State, parts: list[ir.Value]) -> ir.Value:
    """Up to four bytes as one word, the first lowest."""
    b = s.b
    made = parts[0]
    for i, part in enumerate(parts[1:], 1):
        made = b.or_(made, b.shl(part, 8 * i))
    return made


# --------------------------------------------------------- where the scale (row index, K index) lies, in bytes, as i64


def _strided(s: State, op: ir.OpView, row: ir.Value, k: ir.Value) -> ir.Value:
    return s.b.add(s.b.strided(row, s.get(op.row_stride)), s.b.strided(k, s.get(op.k_stride)))


def _packed(s: State, op: ir.OpView, row: ir.Value, k: ir.Value) -> ir.Value:
    """Four along K in an i32, the first lowest."""
    b = s.b
    word = b.add(b.strided(row, s.get(op.row_stride)), b.strided(b.shr(k, 2), s.get(op.k_stride)))
    return b.add(b.op("arith.shli", [b.i64], [word, b.constant(2, b.i64)]), b.widen(b.and_(k, 3)))


def _blocked(s: State, op: ir.OpView, row: ir.Value, k: ir.Value) -> ir.Value:
    """Tiles of 128 rows by 4 of K, 512 bytes each, K tiles adjacent; in a tile 16 (row % 32) + 4 (row / 32) + k."""
    b = s.b
    tiles = b.ceildiv(b.ceildiv(s.get(op.k), tile.int_of(op.block)), 4)
    number = b.add(b.mul(b.shr(row, 7), tiles), b.shr(k, 2))
    within = b.add(b.shl(b.and_(row, 31), 4), b.add(b.shl(b.and_(b.shr(row, 5), 3), 2), b.and_(k, 3)))
    return b.add(b.mul(b.widen(number), b.constant(512, b.i64)), b.widen(within))


_PLACES: dict[str, Callable[[State, ir.OpView, ir.Value, ir.Value], ir.Value]] = {
    "row": _strided,
    "col": _strided,
    "packed": _packed,
    "blocked": _blocked,
}


@COMMON.lowers("tile.store_bytes")
def store_bytes(s: State, op: ir.OpView) -> None:
    b = s.b
    base = s.get(op.target).address(b, s.get(op.cursor))
    _, rows = tile.shape_of(op.target.type)
    source = s.get(op.source)
    for row, is_row, registers in source.mine(s):
        address = b.add(base, source.place(b, stored_row(b, op, row)))
        for word, register in enumerate(registers):
            b.asm(f"st.shared.b32 [$0 + {4 * rows * word}], $1;", [], [address, register.get()], only=is_row)


@COMMON.lowers("tile.store_factors")
def store_factors(s: State, op: ir.OpView) -> None:
    b, element = s.b, tile.str_of(op.element)
    base, (count, _) = s.get(op.target).address(b, s.get(op.cursor)), tile.shape_of(op.target.type)
    attributes = op.operation.attributes
    each = count - 1 if "words" in attributes else -(-count // 4)
    first = tile.optional(op, "index") * each
    if "words" in attributes:
        _store_words(s, op, base, first, each)
        return
    for row, is_row, registers in s.get(op.source).mine(s):
        words = [v.get() for v in registers[first:]]
        values = [widened(b, words[i // 4], i % 4, element) for i in range(count)]
        if "pairs" in attributes:
            values = [pair_of(b, x, tile.str_of(attributes["pairs"])) for x in values]
        store_vectors(s, op, b.add(base, b.shl(stored_row(b, op, row), 2)), is_row, values)


def _store_words(s: State, op: ir.OpView, base: ir.Value, first: int, each: int) -> None:
    """And what the warp has seen, which are usual scales, or else is looked at more closely: producers take issue slots
    of consumers."""
    b, rows, all_ = s.b, tile.shape_of(op.target.type)[1], []
    element = tile.str_of(op.element)
    for row, is_row, registers in s.get(op.source).mine(s):
        words = [v.get() for v in registers[first : first + each]]
        store_vectors(s, op, b.add(base, b.shl(stored_row(b, op, row), 2)), is_row, words)
        all_ += [(x, is_row) for x in words]
    unusual, usual, closely = _SEEN[element]
    found = b.variable(b.i32, 0)
    found.set(b.constant(usual))
    with b.when(_some(b, reduce(b.or_, (unusual(b, x) for x, _ in all_)))):
        found.set(closely(b, all_))
    row, is_row, _ = next(iter(s.get(op.source).mine(s)))
    if is_row is not None:  # of a warp with none
        found.set(b.select(is_row, found.get(), b.constant(0)))
    place = b.add(base, b.shl(b.shr(row, 5), 2))
    first = b.compare("eq", s.lane, 0)
    b.asm(f"st.shared.b32 [$0 + {4 * rows * each}], $1;", [], [place, found.get()], only=first)


Rows = list[tuple[ir.Value, ir.Value | None]]
"""Words of scales, and whether there is such a row, None where there is."""


def _kinds(b: Builder, words: Rows) -> ir.Value:
    """Bits of SEEN of the words of all lanes, of which some are not ordinary: mostly all are low then."""
    found = b.variable(b.i32, SEEN["not ordinary"])
    with b.when(_some(b, reduce(b.or_, (_beyond(b, x, *LOW) for x, _ in words)))):
        seen = reduce(b.or_, (_seen(b, x) for x, _ in words))
        found.set(b.asm("redux.sync.or.b32 $0, $1, 0xFFFFFFFF;", [b.i32], [seen])[0])
    return found.get()


def _some(b: Builder, words: ir.Value) -> ir.Value:
    """Whether a lane has the highest bit of a byte."""
    text = "{ .reg .pred P; setp.ne.b32 P, $1, 0; vote.sync.any.pred P, P, 0xFFFFFFFF; selp.b32 $0, 1, 0, P; }"
    return b.compare("ne", b.asm(text, [b.i32], [b.and_(words, 0x80808080)])[0], 0)


def _unusual_powers(b: Builder, word: ir.Value) -> ir.Value:
    """With the highest bit of a byte that is not one of COMMON_POWERS, of which the largest has all others."""
    below = b.xor(b.sub(b.or_(word, 0x80808080), 0x01010101 * COMMON_POWERS[0]), 0xFFFFFFFF)
    return b.or_(word, below)


def _powers(b: Builder, words: Rows) -> ir.Value:
    """The largest and the least of all lanes, as `tile.seen_powers` has them."""
    found = []
    for turn in (0, 0xFFFFFFFF):
        turned = [(b.xor(x, turn) if turn else x, row) for x, row in words]
        some = [x if row is None else b.select(row, x, b.constant(0)) for x, row in turned]
        halves = [b.and_(x, 0x00FF00FF) for word in some for x in (word, b.shr(word, 8))]
        both = reduce(lambda x, y: b.pure("max.u16x2 $0, $1, $2;", b.i32, x, y), halves)
        own = b.pure("max.u32 $0, $1, $2;", b.i32, b.and_(both, 0xFF), b.shr(both, 16))
        found.append(b.asm("redux.sync.max.u32 $0, $1, 0xFFFFFFFF;", [b.i32], [own])[0])
    top, below = found
    top = b.select(b.compare("eq", top, 0xFF), b.constant(0x7FFF), top)
    return b.or_(b.shl(top, 16), below)


_SEEN: dict[str, tuple[Callable[[Builder, ir.Value], ir.Value], int, Callable[[Builder, Rows], ir.Value]]] = {
    "ue4m3": (lambda b, word: _beyond(b, word, *ORDINARY), SEEN["not low"], _kinds),
    "ue8m0": (_unusual_powers, COMMON_POWERS[1] << 16 | 0xFF - COMMON_POWERS[0], _powers),
}
"""By type of scales: what has the highest bit of a byte that is unusual, of a word; what is said of those that are not;
and what is said of some words of which some are."""


def _seen(b: Builder, word: ir.Value) -> ir.Value:
    """Bits of SEEN of a word of four. What carries into the highest bit of a byte are the others of it; 0 counts as
    0x20, which is ordinary and low."""
    some = b.or_(b.or_(b.add(b.and_(word, 0x7F7F7F7F), 0x7F7F7F7F), word), 0x7F7F7F7F)
    zero = b.shr(b.xor(some, 0xFFFFFFFF), 2)
    given, high = b.or_(word, zero), SEEN["not ordinary"]
    not_ordinary, not_low = (b.and_(_beyond(b, given, *kind), high) for kind in (ORDINARY, LOW))
    return b.or_(b.or_(not_ordinary, b.shr(not_low, 1)), zero)


def _beyond(b: Builder, word: ir.Value, low: int, high: int) -> ir.Value:
    """With the highest bit of a byte where one is below `low`, which borrows, or above `high`, which carries."""
    return b.or_(b.sub(word, 0x01010101 * low), b.add(word, 0x01010101 * (0x7F - high)))


@COMMON.lowers("tile.seen_scales")
def seen_scales(s: State, op: ir.OpView) -> None:
    s.values[op.result] = reduce(s.b.or_, what_warps_saw(s, op))


def what_warps_saw(s: State, op: ir.OpView) -> list[ir.Value]:
    """A word of each warp, behind the words of scales in the cursor's stage of `source`."""
    b, (planes, rows) = s.b, tile.shape_of(op.source.type)
    at, behind = s.get(op.source).address(b, s.get(op.cursor)), 4 * (planes - 1) * rows
    words = range(tile.int_of(op.warps))
    return [b.asm(f"ld.shared.b32 $0, [$1 + {behind + 4 * i}];", [b.i32], [at])[0] for i in words]


@COMMON.lowers("tile.fetch_bytes")
def fetch_bytes(s: State, op: ir.OpView) -> None:
    """Predicated loads, no branch (rule 3 of sm90/multiply.py): they are issued between a product and its promotion."""
    b, k0, fill = s.b, s.get(op.k0), _fill(s, op)
    source = b.integer(s.get(op.source))
    inside, column = b.compare("lt", k0, s.get(op.k)), b.div(k0, tile.int_of(op.block))
    for room, row in rows_of(s, op):
        address = b.add(source, _PLACES[tile.str_of(op.layout)](s, op, row, column))
        operands = [address, inside, room.get() if "keeps" in op.operation.attributes else b.and_(fill, 0xFF)]
        room.set(b.asm("@$2 ld.global.nc.u8 $0, [$1];", [b.i32], operands, tied=1)[0])
