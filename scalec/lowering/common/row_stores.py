"""Rows of results that begin at any byte: threads store by vectors, or put rows together in shared memory first.

Stores of single elements would take L2 a write for each thread. A warp instead leaves what it has of its rows in shared
memory, as it is, and stores whole sectors of each row out of it: a unit of 16 bytes lies there across two, which are
read and shifted. What a row has of sectors that belong to others too is at most 31 bytes in front and as many behind,
which adjacent lanes store as single elements: one write of L2 for either end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scalec.formats import element_spelled
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_row_stores import SECTOR, UNIT, line_bytes
from scalec.lowering.common import rounding, six_bits
from scalec.lowering.common.items import shuffled
from scalec.lowering.common.pointwise import address_of, now
from scalec.lowering.common.state import COMMON, State


@dataclass(frozen=True)
class Row:
    """A row that lanes store together.

    Attributes:
        vector, lanes, places: as those of `tile.begin_row`.
        address: of the thread's first column.
        left: columns that are there from that one on.
        direct: whether vectors store all rows of the warp.
        room: where the warp's rows go in shared memory.
        number, lane: the row's number there, and the thread's in the row.
    """

    element: str
    vector: int
    lanes: int
    places: int
    address: ir.Value
    left: ir.Value
    direct: ir.Value
    room: ir.Value
    number: ir.Value
    lane: ir.Value

    @property
    def bits(self) -> int:
        """Of an element."""
        return rounding.bits_of(self.element)

    @property
    def together(self) -> int:
        """Bytes that a thread stores at once where rows begin at multiples of these."""
        row = element_spelled(self.element)
        assert row is not None
        return min(UNIT, row.accessed(self.vector))

    @property
    def own_bytes(self) -> int:
        """Of a place of a thread."""
        return self.vector * self.bits // 8

    @property
    def place_bytes(self) -> int:
        """Of a place of all lanes."""
        return self.own_bytes * self.lanes

    @property
    def line(self) -> int:
        """Bytes of shared memory from a row to the next."""
        return line_bytes(self.place_bytes * self.places, self.places)

    def laid(self, s: State) -> ir.Value:
        """Where the row goes in shared memory."""
        return s.b.add(self.room, s.b.mul(self.number, self.line))


@COMMON.lowers("tile.begin_row")
def begin_row(s: State, op: ir.OpView) -> None:
    """Vectors store rows that begin where these may, and end between two of them."""
    b, element, left = s.b, str(op.target.type.element_type), s.b.value(s.get(op.left))
    vector, lanes, places = (tile.int_of(x) for x in (op.vector, op.lanes, op.places))
    address, never = address_of(s, op.target, op.at, op.strides, element), b.constant(0, b.i1)
    number, lane = b.div(s.lane, lanes), b.and_(s.lane, lanes - 1)
    row = Row(element, vector, lanes, places, address, left, never, s.shared, number, lane)
    begins = b.compare("eq", b.and_(address, row.together - 1), 0)
    most = ((places - 1) * lanes + 1) * vector
    ends = b.or_(b.compare("eq", b.and_(left, vector - 1), 0), b.compare("ge", left, most))
    direct = _voted(s, "all", b.or_(b.compare("eq", left, 0), b.and_(begins, ends)))
    before = b.mul(b.div(s.tid, tile.LANES), tile.LANES // lanes * row.line)
    room = b.add(b.add(s.shared, before), tile.int_of(op.offset))
    s.values[op.result] = replace(row, direct=direct, room=room)


def _voted(s: State, kind: str, value: ir.Value) -> ir.Value:
    """Whether it holds in all lanes, or any, an i1."""
    vote = f"vote.sync.{kind}.pred P, P, 0xFFFFFFFF;"
    text = f"{{\n.reg .pred P;\nsetp.ne.b32 P, $1, 0;\n{vote}\nselp.b32 $0, 1, 0, P;\n}}"
    return s.b.compare("ne", s.b.asm(text, [s.b.i32], [s.b.select(value, s.b.constant(1), 0)])[0], 0)


@COMMON.lowers("tile.put_columns")
def put_columns(s: State, op: ir.OpView) -> None:
    b, row, place = s.b, s.get(op.row), tile.int_of(op.place)
    words = _words(s, row.element, [rounding.of_memory(s, row.element, now(x)) for x in s.get(op.value)])

    def store(space: str, address: ir.Value, there: ir.Value | None = None) -> None:
        for at in range(0, row.own_bytes, row.together):
            own = words[at // 4 : (at + row.together) // 4]
            _store(s, space, address, place * row.place_bytes + at, own, there)

    def put() -> None:
        store("shared", b.add(row.laid(s), b.mul(row.lane, row.own_bytes)))

    there = b.compare("ge", row.left, (place * row.lanes + 1) * row.vector)
    b.either(row.direct, lambda: store("global", row.address, there), put)


def _words(s: State, element: str, values: list[ir.Value]) -> list[ir.Value]:
    """Adjacent elements as words of memory."""
    bits = rounding.bits_of(element)
    if bits == 6:
        return six_bits.packed(s, element, values)
    if bits == 32:
        return [s.b.bits(x) for x in values]
    each = 32 // bits
    return [rounding.word(s, element, values[i : i + each]) for i in range(0, len(values), each)]


def _store(
    s: State, space: str, address: ir.Value, offset: int, words: list[ir.Value], only: ir.Value | None = None
) -> None:
    names = ", ".join(f"${1 + i}" for i in range(len(words)))
    shape = f".v{len(words)}.b32 [$0 + {offset}], {{{names}}}" if len(words) > 1 else f".b32 [$0 + {offset}], $1"
    s.b.asm(f"st.{space}{shape};", [], [address, *words], only=only)


@COMMON.lowers("tile.end_row")
def end_row(s: State, op: ir.OpView) -> None:
    """A barrier before, as lanes read what others have put there, and one behind, before these put anything else."""
    b, row = s.b, s.get(op.row)

    def store() -> None:
        b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
        begins = b.sub(row.address, b.widen(b.mul(row.lane, row.own_bytes)))
        # the first lane knows how many columns are there: all of another's may be beyond the end
        left = b.min(shuffled(b, row.left, b.sub(s.lane, row.lane)), row.vector * row.lanes * row.places)
        count = b.ceildiv(b.mul(left, row.bits), 8) if row.bits < 8 else b.mul(left, row.bits // 8)
        ahead = _ahead(s, begins)
        _store_sectors(s, row, begins, count, ahead)
        _store_ends(s, row, begins, count, ahead)
        b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])

    with b.when(b.compare("eq", row.direct, 0)):
        store()


def _ahead(s: State, address: ir.Value) -> ir.Value:
    """Bytes from an address to the first sector that begins there or behind it."""
    low = s.b.op("arith.trunci", [s.b.i32], [address]) if address.type == s.b.i64 else address
    return s.b.and_(s.b.sub(0, low), SECTOR - 1)


def _store_sectors(s: State, row: Row, begins: ir.Value, count: ir.Value, ahead: ir.Value) -> None:
    """A row's lanes have adjacent units of it, from its first whole sector to its last one."""
    b, at = s.b, s.b.mul(row.lane, UNIT)
    first = b.add(at, ahead)
    source, target = b.add(row.laid(s), b.and_(first, -UNIT)), b.add(begins, b.widen(first))
    sector = b.add(b.and_(at, -SECTOR), b.add(ahead, SECTOR))  # where the one ends that the unit is in
    eight, four = (b.compare("ne", b.and_(ahead, x), 0) for x in (8, 4))
    turn = b.shl(b.and_(ahead, 3), 3)
    for unit in range(0, row.place_bytes * row.places, UNIT * row.lanes):
        there, words = b.compare("le", b.add(sector, unit), count), list[ir.Value]()
        for half in (0, UNIT):
            text = f"@$5 ld.shared.v4.b32 {{$0, $1, $2, $3}}, [$4 + {unit + half}];"
            words += b.asm(text, [b.i32] * 4, [source, there, *[b.constant(0)] * 4], tied=4)
        words = [b.select(eight, words[i + 2], words[i]) for i in range(6)]
        words = [b.select(four, words[i + 1], words[i]) for i in range(5)]
        made = [b.pure("shf.r.wrap.b32 $0, $1, $2, $3;", b.i32, *words[i : i + 2], turn) for i in range(4)]
        _store(s, "global", target, unit, made, there)


def _store_ends(s: State, row: Row, begins: ir.Value, count: ir.Value, ahead: ir.Value) -> None:
    """What a row has in front of its first whole sector, and behind its last one, one element a lane. Of rows that are
    as long as there is room for, these are the bytes of one sector; others may take a second turn."""
    b, size = s.b, max(1, row.bits // 8)
    each = SECTOR // size  # lanes that have a row's
    behind = b.and_(b.sub(count, ahead), SECTOR - 1)
    ends = b.select(b.compare("lt", count, ahead), count, b.add(ahead, behind))
    low, high = (b.op("arith.trunci", [b.i32], [x]) for x in (begins, b.shr(begins, 32)))
    own, before = b.mul(b.and_(s.lane, each - 1), size), b.variable(b.i32, 0)

    def of_row(first: int) -> None:
        number = b.add(b.div(s.lane, each), first)
        lane = b.mul(number, row.lanes)
        start, above, length = (shuffled(b, x, lane) for x in (low, high, count))
        front, at = _ahead(s, start), b.add(own, before.get())
        whole = b.and_(b.sub(length, front), -SECTOR)  # bytes of whole sectors; what is behind the row if it has none
        at = b.select(b.compare("lt", at, front), at, b.add(at, whole))
        there, target = b.compare("lt", at, length), b.pure("mov.b64 $0, {$1, $2};", b.i64, start, above)
        if first + tile.LANES // each > rows:
            there = b.and_(there, b.compare("lt", number, rows))
        source = b.add(b.add(row.room, b.mul(number, row.line)), at)
        (one,) = b.asm(f"@$2 ld.shared.u{8 * size} $0, [$1];", [b.i32], [source, there, 0], tied=1)
        b.asm(f"st.global.b{8 * size} [$0], $1;", [], [b.add(target, b.widen(at)), one], only=there)

    rows = tile.LANES // row.lanes

    def turn() -> None:
        for first in range(0, rows, tile.LANES // each):
            of_row(first)
        before.set(b.add(before.get(), SECTOR))

    b.loop(lambda: _voted(s, "any", b.compare("gt", ends, before.get())), turn)
