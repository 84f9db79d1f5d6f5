"""Reductions of results along rows or columns: in registers, across lanes, then over all tiles through memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering import scalar
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common import combining
from scalec.lowering.common.combining import Known
from scalec.lowering.common.epilogue import places
from scalec.lowering.common.global_elements import address_of
from scalec.lowering.common.parts import Crew, count_arrivals, pointer_of
from scalec.lowering.common.state import COMMON, State
from scalec.lowering.common.stores import store_one
from scalec.meetings import COUNTER_BYTES, numbers_of

_QUAD = 4  # lanes that hold the columns of a row, two of each eight (PTX ISA 9.7.14.5.8)
_COLUMN_LANES = (4, 8, 16)  # distances of the lanes that hold the rows of a column, ibid.
_AHEAD = 3  # partial results on their way at once, of a warp alone: with 4 a batched sum over rows spilled
_AHEAD_OF_TWO = 2  # likewise, of a sum of exponentials and the largest
_AHEAD_TOGETHER = 16  # likewise, of consumers, whose sums are stored by then
_TOGETHER = 8  # terms whose exponentials a thread takes at once: more spill (docs/notes/reductions.md)
_VECTOR = 4  # f32 that a lane loads at once


@dataclass(frozen=True)
class Totals:
    """Of each row of a thread, wave by wave: the upper one's, then the lower one's."""

    rows: list[list[Variable]]


@COMMON.lowers("tile.totals")
def totals(s: State, op: ir.OpView) -> None:
    nothing = combining.NOTHING[tile.str_of(op.kind)]
    rows = range(tile.int_of(op.rows))
    s.values[op.result] = Totals([[s.b.variable(s.b.f32, x) for x in nothing] for _ in rows])


@COMMON.lowers("tile.reduce_columns")
def reduce_columns(s: State, op: ir.OpView) -> None:
    b, fragment, kind = s.b, s.get(op.accumulator), tile.str_of(op.kind)
    ragged, rows = bool(tile.int_of(op.ragged)), s.get(op.totals).rows
    nothing = b.constant(combining.no_term(kind))
    for wave, registers in enumerate(fragment.waves):
        terms: list[list[ir.Value]] = [[], []]
        for g, place in places(s, op, wave, len(fragment.waves), fragment.columns):
            for half in (0, 1):
                total, pair = rows[2 * wave + half], []
                for i in (0, 1):
                    value = registers[4 * g + 2 * half + i].get()
                    pair.append(b.select(place.column_inside[i], value, nothing) if ragged else value)
                if kind != "sum_exp":
                    of_pair = combining.combined(b, kind, *([x] for x in pair))
                    _set(total, combining.combined(b, kind, _get(total), of_pair))
                    continue
                terms[half] += pair
                if len(terms[half]) == _TOGETHER:
                    _set(total, combining.with_terms(b, _get(total), terms[half]))
                    terms[half] = []
        for half in (half for half in (0, 1) if terms[half]):
            total = rows[2 * wave + half]
            _set(total, combining.with_terms(b, _get(total), terms[half]))


def _get(variables: list[Variable]) -> Known:
    return [x.get() for x in variables]


def _set(variables: list[Variable], known: Known) -> None:
    for variable, x in zip(variables, known, strict=True):
        variable.set(x)


@COMMON.lowers("tile.store_totals", "tile.leave_totals")
def store_totals(s: State, op: ir.OpView) -> None:
    b, kind, rows = s.b, tile.str_of(op.kind), s.get(op.totals).rows
    waves, wave = len(rows) // 2, s.geometry.wave
    row = b.add(b.mul(s.unit(0), waves * wave), s.row_in_wave)
    space, at = _place(s, op, s.unit(1), row)
    first = b.compare("eq", b.and_(s.lane, _QUAD - 1), 0)
    for number, total in enumerate(rows):
        offset = 4 * (number // 2 * wave + number % 2 * 8)
        for part, value in enumerate(combining.across(b, kind, _get(total), (1, 2))):
            behind = offset + 4 * part * tile.int_of(op.extent)
            b.asm(f"@$2 st.{space}.f32 [$0 + {behind}], $1;", [], [at, value, first])


def _place(s: State, op: ir.OpView, slot: ir.Value | int, index: ir.Value | int) -> tuple[str, ir.Value]:
    """Where an op leaves what a slot has for a row or column, or stores it as tile `number`'s: state space, address."""
    b = s.b
    if op.operation.name in ("tile.leave_totals", "tile.leave_rows"):
        within = b.add(b.add(b.mul(slot, _of_slot(op)), index), tile.int_of(op.offset))
        return "shared", b.add(s.get(op.room).base, b.shl(within, 2))
    return "global", _partial(s, op, slot, index)


def _of_slot(op: Any) -> int:
    """f32 that a slot has of all rows or columns."""
    return tile.int_of(op.extent) * numbers_of(tile.str_of(op.kind))


def _partial(s: State, op: ir.OpView, slot: ir.Value | int, index: ir.Value | int) -> ir.Value:
    """Address of what a slot of tile `number` has for a row or column."""
    b, words = s.b, tile.int_of(op.words)
    within = b.add(b.add(b.mul(slot, _of_slot(op)), index), tile.int_of(op.offset))
    first = b.mul(b.widen(s.get(op.number)), b.constant(words, b.i64))
    return b.add(pointer_of(s, op.partials), b.mul(b.add(first, b.widen(within)), b.constant(4, b.i64)))


@COMMON.lowers("tile.reduce_rows", "tile.leave_rows")
def reduce_rows(s: State, op: ir.OpView) -> None:
    """Lanes deal the columns out among themselves while they reduce: of eight, each ends with one."""
    b, fragment, kind = s.b, s.get(op.accumulator), tile.str_of(op.kind)
    ragged, nothing = bool(tile.int_of(op.ragged)), b.constant(combining.no_term(kind))
    waves = [dict(places(s, op, w, len(fragment.waves), fragment.columns)) for w in range(len(fragment.waves))]
    places_of = [(g, i) for g in waves[0] for i in (0, 1)]

    def of_column(number: int) -> Known:
        total: Known = []
        terms: list[ir.Value] = []
        g, i = places_of[number]
        for wave, registers in enumerate(fragment.waves):
            for half in (0, 1):
                value = registers[4 * g + 2 * half + i].get()
                value = b.select(waves[wave][g].row_inside[half], value, nothing) if ragged else value
                terms.append(value)
                if kind != "sum_exp":
                    total = combining.combined(b, kind, total, [value]) if total else [value]
        return total or combining.with_terms(b, combining.nothing(b, kind), terms)

    # of exponentials few columns at a time, or a thread would hold two numbers of each
    made = [] if kind == "sum_exp" else [of_column(number) for number in range(len(places_of))]
    slot = b.add(b.mul(s.unit(0), s.geometry.warps), s.warp_in_unit)
    start = b.add(b.add(s.first_column, b.mul(s.unit(1), fragment.columns)), tile.int_of(op.column))
    (space, at), row = _place(s, op, slot, start), _row_lane(s)
    first = 0
    while first < len(places_of):
        count = next(x for x in (8, 4, 2) if first + x <= len(places_of))
        some = made[first : first + count] or [of_column(x) for x in range(first, first + count)]
        value = _dealt(s, kind, some)
        index = b.and_(row, count - 1)
        group, across = b.add(b.shr(index, 1), first // 2), s.geometry.adjacent // 2
        column = b.add(b.mul(b.div(group, across), 4 * s.geometry.adjacent), b.and_(index, 1))
        column = b.add(column, b.shl(b.and_(group, across - 1), 1)) if across > 1 else column
        behind = b.shl(column, 2)
        address = b.add(at, behind if space == "shared" else b.widen(behind))
        for part, number in enumerate(value):
            offset = f" + {4 * part * tile.int_of(op.extent)}" if part else ""
            b.asm(f"@$2 st.{space}.f32 [$0{offset}], $1;", [], [address, number, b.compare("lt", row, count)])
        first += count


def _dealt(s: State, kind: str, values: list[Known]) -> Known:
    """The reduction of what the lanes of a column have each: lane i of eight that of value i, modulo how many are."""
    b, row = s.b, _row_lane(s)
    for bit, distance in enumerate(_COLUMN_LANES):
        if len(values) == 1:
            values = [combining.across(b, kind, values[0], (distance,))]
            continue
        odd, made = b.compare("ne", b.and_(row, 1 << bit), 0), list[Known]()
        for even, other in zip(values[::2], values[1::2], strict=True):
            both = list(zip(even, other, strict=True))
            kept, given = [b.select(odd, y, x) for x, y in both], [b.select(odd, x, y) for x, y in both]
            made.append(combining.combined(b, kind, kept, [b.butterfly(x, distance) for x in given]))
        values = made
    return values[0]


def _row_lane(s: State) -> ir.Value:
    """Which of the eight lanes of a column this one is."""
    return s.b.shr(s.lane, 2)


@COMMON.lowers("tile.store_left")
def store_left(s: State, op: ir.OpView) -> None:
    """Each lane of a warp has adjacent ones of all slots; of all consumers each thread has one."""
    b, kind, extent, alone = s.b, tile.str_of(op.kind), tile.int_of(op.extent), bool(tile.int_of(op.alone))
    crew = None if alone else Crew.of(s)
    width, thread, threads = (1, crew.thread, crew.threads) if crew else (_VECTOR, s.lane, tile.LANES)
    own = b.mul(thread, width)
    room = b.add(s.get(op.room).base, b.shl(b.add(own, tile.int_of(op.left)), 2))
    at, names = _partial(s, op, 0, own), ", ".join(f"${i}" for i in range(width))
    for first in range(0, extent, width * threads):
        inside = b.compare("lt", b.add(own, first), extent)
        with b.when(inside) if first + width * threads > extent else nullcontext():
            total: list[Known] = []
            for slot in range(tile.int_of(op.slots)):
                parts = []
                for part in range(numbers_of(kind)):
                    from_room = 4 * ((slot * numbers_of(kind) + part) * extent + first)
                    text = f"ld.shared{_of(width)} {_in_braces(names, width)}, [${width} + {from_room}];"
                    parts.append(b.asm(text, [b.f32] * width, [room]))
                found = [list(x) for x in zip(*parts, strict=True)]
                both = zip(total, found, strict=True)
                total = [combining.combined(b, kind, x, y) for x, y in both] if total else found
            values = _in_braces(", ".join(f"${1 + i}" for i in range(width)), width)
            for part in range(numbers_of(kind)):
                place = f"[$0 + {4 * (part * extent + first)}]"
                b.asm(f"st.global{_of(width)} {place}, {values};", [], [at, *(x[part] for x in total)])


def _of(width: int) -> str:
    """The end of an instruction that moves so many f32."""
    return ".f32" if width == 1 else f".v{width}.f32"


def _in_braces(names: str, width: int) -> str:
    """Operands of such an instruction."""
    return names if width == 1 else f"{{{names}}}"


@COMMON.lowers("tile.follows")
def follows(s: State, op: ir.OpView) -> None:
    assert s.goes_on is not None
    s.values[op.result] = s.goes_on()


@COMMON.lowers("tile.meet")
def meet(s: State, op: ir.OpView) -> None:
    s.b.op("nvvm.bar.warp.sync", [], [s.b.constant(-1)])
    Crew.of(s).meet(s)


@COMMON.lowers("tile.last_tile")
def last_tile(s: State, op: ir.OpView) -> None:
    b, number, count = s.b, s.b.widen(s.get(op.number)), s.get(op.count)
    if not tile.int_of(op.alone):
        s.values[op.result] = count_arrivals(s, op.counters, number, count)
        return
    before, arrived = b.sub(count, 1), b.variable(b.i32, 0)
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])  # what other lanes stored comes before the first one's release
    with b.when(b.compare("eq", s.lane, 0)):
        counter = b.add(pointer_of(s, op.counters), b.mul(number, b.constant(COUNTER_BYTES, b.i64)))
        arrived.set(b.asm("atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;", [b.i32], [counter, before])[0])
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])  # and its acquire before what others load
    of_first = b.asm("shfl.sync.idx.b32 $0, $1, 0, 31, -1;", [b.i32], [arrived.get()])[0]
    s.values[op.result] = b.compare("eq", of_first, before)


@COMMON.lowers("tile.finish_reduction")
def finish_reduction(s: State, op: ir.OpView) -> None:
    band = _Band.of(s, op)
    _reduce(band, band.store)


@COMMON.lowers("tile.join_section")
def join_section(s: State, op: ir.OpView) -> None:
    band = _Band.of(s, op)
    _reduce(band, band.keep)


@dataclass(frozen=True)
class _Band:
    """What the tiles of a band have."""

    s: State
    op: Any
    kind: str
    first: ir.Value  # address of what the first tile has
    apart: ir.Value  # bytes from a tile's to the next one's
    slots: int  # of a tile, one behind the other
    extent: int  # rows or columns of a slot, of each of which it has so many numbers, all of one behind another's

    @staticmethod
    def of(s: State, op: ir.OpView) -> _Band:
        b, (words, slots, extent) = s.b, (tile.int_of(x) for x in (op.words, op.slots, op.extent))
        begin = b.add(b.mul(b.widen(s.get(op.first)), b.constant(4 * words, b.i64)), 4 * tile.int_of(op.offset))
        first = b.add(pointer_of(s, op.partials), begin)
        apart = b.mul(b.widen(s.get(op.step)), b.constant(4 * words, b.i64))
        return _Band(s, op, tile.str_of(op.kind), first, apart, slots, extent)

    @property
    def joins(self) -> bool:
        """Whether what is made of them is written where it was read."""
        return self.op.operation.name == "tile.join_section"

    @property
    def loads(self) -> int:
        """Loads of a tile."""
        return self.slots * numbers_of(self.kind)

    def totals(self, index: ir.Value, width: int, own: ir.Value | int, every: int, ahead: int) -> list[Known]:
        """Of `width` adjacent rows or columns from `index` on, of each `every`-th tile from number `own` on, in their
        order; so many tiles `ahead` are on their way at once."""
        s, b, op, nothing = self.s, self.s.b, self.op, combining.NOTHING[self.kind]
        at = b.variable(b.i64, b.add(self.first, b.widen(b.shl(index, 2))))
        if every > 1:
            at.set(b.add(at.get(), b.mul(self.apart, b.widen(own))))
        count, step = s.get(op.count), b.mul(self.apart, every)
        totals = [[b.variable(b.f32, x) for x in nothing] for _ in range(width)]
        number = b.variable(b.i32, 0)
        names = _in_braces(", ".join(f"${i}" for i in range(width)), width)

        def some(ahead: int, inside: ir.Value | None = None) -> None:
            found = []
            for _ in range(ahead):
                for slot in range(self.slots):
                    parts = []
                    for part, no in enumerate(nothing):
                        place = 4 * (slot * len(nothing) + part) * self.extent
                        text, operands = f"ld.global{_of(width)} {names}, [${width} + {place}];", [at.get()]
                        if inside is not None:
                            text, operands = f"@${width + 1} {text}", [at.get(), inside, *[b.constant(no)] * width]
                        parts.append(b.asm(text, [b.f32] * width, operands, tied=width if inside is not None else 0))
                    found.append([list(x) for x in zip(*parts, strict=True)])
                at.set(b.add(at.get(), step))
            for values in found:
                for total, value in zip(totals, values, strict=True):
                    _set(total, combining.combined(b, self.kind, _get(total), value))
            number.set(b.add(number.get(), every * ahead))

        def more(ahead: int) -> ir.Value:
            """Whether all have so many tiles left: no load is then under a condition, which ptxas 13.0 answers by moves
            of half of the sums in consumers' loop (47 in two K blocks of FP8 128x256: 1.13 to 1.18 of the time)."""
            return b.compare("le", b.add(number.get(), every * ahead), count)

        def again() -> ir.Value:
            b.asm('.pragma "nounroll";', memory=False)  # where unrolled, registers of producers do not suffice
            return more(ahead)

        b.loop(again, lambda: some(ahead))
        for fewer in (1 << i for i in reversed(range((ahead - 1).bit_length()))):  # all of those that are left
            with b.when(more(fewer)):
                some(fewer)
        if every > 1:
            with b.when(b.compare("lt", number.get(), count)):
                some(1, b.compare("lt", b.add(number.get(), own), count))
        return list(map(_get, totals))

    def keep(self, index: ir.Value, totals: list[Known], mine: ir.Value | None = None) -> None:
        """Of adjacent rows or columns from `index` on, as what the first tile has."""
        b, at = self.s.b, self.s.b.add(self.first, self.s.b.widen(self.s.b.shl(index, 2)))
        width = len(totals)
        values = _in_braces(", ".join(f"${1 + i}" for i in range(width)), width)
        for part, known in enumerate(zip(*totals, strict=True)):
            text = f"st.global{_of(width)} [$0 + {4 * part * self.extent}], {values};"
            if mine is None:
                b.asm(text, [], [at, *known])
            else:
                b.asm(f"@${1 + width} {text}", [], [at, *known, mine])

    def store(self, index: ir.Value, totals: list[Known], mine: ir.Value | None = None) -> None:
        """The results of adjacent rows or columns from `index` on, of those that are there."""
        s, b, op = self.s, self.s.b, self.op
        start, end = s.get(op.start), s.get(op.end)
        for i, total in enumerate(totals):
            known = combining.finished(b, self.kind, total)
            values = scalar.evaluate_all(b, op.body.blocks[0], known, scalar.OPS)
            place = at = b.add(b.add(index, start), i)
            inside = within = b.both(b.compare("lt", place, end), mine)
            for skip in op.skips:
                _, within = s.get(skip).at(b, place, within)
            if len(op.bounds):
                low, high = map(s.get, op.bounds)
                within = b.and_(within, b.and_(b.compare("sle", low, place), b.compare("slt", place, high)))
            for width in op.width:
                low, at = s.get(op.bounds[0]), b.sub(place, s.get(op.bounds[0]))
                from_0 = b.compare("sle", b.constant(0), low)
                within = b.and_(within, b.and_(from_0, b.compare("slt", at, s.get(width))))
            if "otherwise" in op.operation.attributes:
                filled = ir.FloatAttr(op.operation.attributes["otherwise"]).value
                values = [b.select(within, value, filled) for value in values]
            else:
                inside = within
            for target, stride, value in zip(op.targets, op.strides, values, strict=True):
                element = str(target.type.element_type)
                address = address_of(s, s.get(target), b.mul(b.widen(at), s.get(stride)), element)
                store_one(s, address, 0, element, value, inside)


def _turns(extent: int) -> int:
    """How many threads take a band's tiles by turns, so that all lanes of a warp alone have something to do. All
    consumers add in the same order, or sums would say who finished a band."""
    return max(x for x in (1, 2, 4, 8, 16, 32) if x == 1 or x * -(-extent // _VECTOR) <= tile.LANES)


def _met(b: Builder, kind: str, totals: list[Known], apart: int, turns: int) -> list[Known]:
    """What lanes `apart` by turns have, together."""
    for distance in (apart << i for i in range(turns.bit_length() - 1)):
        totals = [combining.across(b, kind, x, (distance,)) for x in totals]
    return totals


Put = Callable[[ir.Value, list[Known], ir.Value | None], None]
"""What is done with the totals of adjacent rows or columns from an index on, where a thread has them for itself."""


def _reduce(band: _Band, put: Put) -> None:
    (_reduce_alone if tile.int_of(band.op.alone) else _reduce_together)(band, put)


def _reduce_together(band: _Band, put: Put) -> None:
    s, b, crew, extent = band.s, band.s.b, Crew.of(band.s), band.extent
    joins, turns, ahead = band.joins, _turns(extent), max(1, _AHEAD_TOGETHER // band.loads)
    # what is computed of it is not kept through the products, for which ptxas 13.0 then spilled others (192x128, FP8)
    (thread,) = b.asm("mov.b32 $0, $1;", [b.i32], [crew.thread])
    if turns > 1:
        own, turn = b.shr(thread, turns.bit_length() - 1), b.and_(thread, turns - 1)
        for first in range(0, extent, crew.threads // turns):
            index = b.add(own, first)
            totals = band.totals(b.min(index, extent - 1), 1, turn, turns, ahead)
            mine = b.and_(b.compare("eq", turn, 0), b.compare("lt", index, extent))
            if joins:  # threads without a row have read the last one's, which is written now
                b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
                crew.meet(s)
            put(index, _met(b, band.kind, totals, 1, turns), mine)
        return
    at = b.variable(b.i32, thread)

    def one() -> None:
        own = at.get()
        put(own, band.totals(own, 1, 0, 1, ahead), None)
        at.set(b.add(own, crew.threads))

    b.loop(lambda: b.compare("lt", at.get(), extent), one)


def _reduce_alone(band: _Band, put: Put) -> None:
    """Lanes take adjacent ones at once, and so fewer waits; where not all have some, several take tiles by turns."""
    s, b, extent, joins = band.s, band.s.b, band.extent, band.joins
    turns = _turns(extent)
    lanes = tile.LANES // turns
    (lane,) = b.asm("mov.b32 $0, $1;", [b.i32], [s.lane])  # likewise
    own, most = b.and_(lane, lanes - 1), _AHEAD if band.loads == band.slots else _AHEAD_OF_TWO
    ahead = max(1, most // band.slots)
    turn: ir.Value | int = b.shr(lane, lanes.bit_length() - 1) if turns > 1 else 0
    for first in range(0, extent, _VECTOR * lanes):
        index, there = b.add(b.mul(own, _VECTOR), first), None
        if first + _VECTOR * lanes > extent:
            there = b.compare("lt", index, extent)
        read = index if there is None else b.select(there, index, b.constant(0))
        totals = _met(b, band.kind, band.totals(read, _VECTOR, turn, turns, ahead), lanes, turns)
        mine = b.both(b.compare("eq", turn, 0), there) if turns > 1 else there
        if joins:
            b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
        put(index, totals, mine)
