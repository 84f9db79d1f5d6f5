"""Reductions of results along rows or columns: in registers, across lanes, then over all tiles through memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from scalec.abi import COUNTER_BYTES
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering import functions, scalar
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common.epilogue import address_of, places
from scalec.lowering.common.parts import BARRIER, Crew, count_arrivals, pointer_of, threads_of
from scalec.lowering.common.state import COMMON, State
from scalec.lowering.common.stores import store_one

_QUAD = 4  # lanes that hold the columns of a row, two of each eight (PTX ISA 9.7.14.5.8)
_COLUMN_LANES = (4, 8, 16)  # distances of the lanes that hold the rows of a column, ibid.
_AHEAD = 4  # partial results on their way at once
_VECTOR = 4  # f32 that a lane loads at once

_NOTHING = {"sum": 0.0, "max": float("-inf"), "min": float("inf")}


def _combine(b: Builder, kind: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """Of two values; `max` and `min` pass NaN on."""
    if kind == "sum":
        return b.fadd(x, y)
    return functions.maximum(b, x, y) if kind == "max" else functions.minimum(b, x, y)


@dataclass(frozen=True)
class Totals:
    """Of each row of a thread, wave by wave: the upper one's, then the lower one's."""

    rows: list[Variable]


@COMMON.lowers("tile.totals")
def totals(s: State, op: ir.OpView) -> None:
    nothing = _NOTHING[tile.str_of(op.kind)]
    s.values[op.result] = Totals([s.b.variable(s.b.f32, nothing) for _ in range(tile.int_of(op.rows))])


@COMMON.lowers("tile.reduce_columns")
def reduce_columns(s: State, op: ir.OpView) -> None:
    b, fragment, kind = s.b, s.get(op.accumulator), tile.str_of(op.kind)
    ragged, rows = bool(tile.int_of(op.ragged)), s.get(op.totals).rows
    nothing = b.constant(_NOTHING[kind])
    for wave, registers in enumerate(fragment.waves):
        for g, place in places(s, op, wave, len(fragment.waves), fragment.columns):
            for half in (0, 1):
                total = rows[2 * wave + half]
                for i in (0, 1):
                    value = registers[4 * g + 2 * half + i].get()
                    value = b.select(place.column_inside[i], value, nothing) if ragged else value
                    total.set(_combine(b, kind, total.get(), value))


@COMMON.lowers("tile.store_totals")
def store_totals(s: State, op: ir.OpView) -> None:
    b, kind, rows = s.b, tile.str_of(op.kind), s.get(op.totals).rows
    waves, wave = len(rows) // 2, s.geometry.wave
    row = b.add(b.mul(s.unit(0), waves * wave), s.row_in_wave)
    at = _partial(s, op, s.unit(1), row)
    first = b.compare("eq", b.and_(s.lane, _QUAD - 1), 0)
    for number, total in enumerate(rows):
        value = total.get()
        for distance in (1, 2):
            value = _combine(b, kind, value, b.butterfly(value, distance))
        offset = 4 * (number // 2 * wave + number % 2 * 8)
        b.asm(f"@$2 st.global.f32 [$0 + {offset}], $1;", [], [at, value, first])


def _partial(s: State, op: ir.OpView, slot: ir.Value | int, index: ir.Value | int) -> ir.Value:
    """Address of what a slot of tile `number` has for a row or column."""
    b, words = s.b, tile.int_of(op.words)
    within = b.add(b.add(b.mul(slot, tile.int_of(op.extent)), index), tile.int_of(op.offset))
    first = b.mul(b.widen(s.get(op.number)), b.constant(words, b.i64))
    return b.add(pointer_of(s, op.partials), b.mul(b.add(first, b.widen(within)), b.constant(4, b.i64)))


@COMMON.lowers("tile.reduce_rows")
def reduce_rows(s: State, op: ir.OpView) -> None:
    """Lanes deal the columns out among themselves while they reduce: of eight, each ends with one."""
    b, fragment, kind = s.b, s.get(op.accumulator), tile.str_of(op.kind)
    ragged, nothing = bool(tile.int_of(op.ragged)), b.constant(_NOTHING[kind])
    columns: list[ir.Value] = []
    waves = [dict(places(s, op, w, len(fragment.waves), fragment.columns)) for w in range(len(fragment.waves))]
    for g in waves[0]:
        for i in (0, 1):
            total: Any = None
            for wave, registers in enumerate(fragment.waves):
                for half in (0, 1):
                    value = registers[4 * g + 2 * half + i].get()
                    value = b.select(waves[wave][g].row_inside[half], value, nothing) if ragged else value
                    total = value if total is None else _combine(b, kind, total, value)
            columns.append(total)
    slot = b.add(b.mul(s.unit(0), s.geometry.warps), s.warp_in_unit)
    start = b.add(b.add(s.first_column, b.mul(s.unit(1), fragment.columns)), tile.int_of(op.column))
    at, row = _partial(s, op, slot, start), _row_lane(s)
    first = 0
    while first < len(columns):
        count = next(x for x in (8, 4, 2) if first + x <= len(columns))
        value = _dealt(s, kind, columns[first : first + count])
        index = b.and_(row, count - 1)
        group, across = b.add(b.shr(index, 1), first // 2), s.geometry.adjacent // 2
        column = b.add(b.mul(b.div(group, across), 4 * s.geometry.adjacent), b.and_(index, 1))
        column = b.add(column, b.shl(b.and_(group, across - 1), 1)) if across > 1 else column
        address = b.add(at, b.widen(b.shl(column, 2)))
        b.asm("@$2 st.global.f32 [$0], $1;", [], [address, value, b.compare("lt", row, count)])
        first += count


def _dealt(s: State, kind: str, values: list[ir.Value]) -> ir.Value:
    """The reduction of what the lanes of a column have each: lane i of eight that of value i, modulo how many are."""
    b, row = s.b, _row_lane(s)
    for bit, distance in enumerate(_COLUMN_LANES):
        if len(values) == 1:
            values = [_combine(b, kind, values[0], b.butterfly(values[0], distance))]
            continue
        odd, made = b.compare("ne", b.and_(row, 1 << bit), 0), []
        for even, other in zip(values[::2], values[1::2], strict=True):
            kept, given = b.select(odd, other, even), b.select(odd, even, other)
            made.append(_combine(b, kind, kept, b.butterfly(given, distance)))
        values = made
    return values[0]


def _row_lane(s: State) -> ir.Value:
    """Which of the eight lanes of a column this one is."""
    return s.b.shr(s.lane, 2)


@COMMON.lowers("tile.last_tile")
def last_tile(s: State, op: ir.OpView) -> None:
    b, number, count = s.b, s.b.widen(s.get(op.number)), s.get(op.count)
    if not len(op.turn):
        s.values[op.result] = count_arrivals(s, op.counters, number, count)
        return
    before, warps = b.sub(count, 1), s.geometry.warps * prod(s.geometry.units)
    # made here: what is made once a role lives beside the sums
    warp = b.sub(s.warp, s.first_warp) if s.geometry.turns == 1 else b.and_(s.warp, warps - 1)
    mine = b.compare("eq", s.get(op.turn[0]).stage.get(), warp)
    arrived = b.variable(b.i32, 0)
    with b.when(b.and_(mine, b.compare("eq", s.lane, 0))):
        counter = b.add(pointer_of(s, op.counters), b.mul(number, b.constant(COUNTER_BYTES, b.i64)))
        arrived.set(b.asm("atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;", [b.i32], [counter, before])[0])
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])  # the first lane's acquire comes before what others load
    of_first = b.asm("shfl.sync.idx.b32 $0, $1, 0, 31, -1;", [b.i32], [arrived.get()])[0]
    s.values[op.result] = b.and_(mine, b.compare("eq", of_first, before))


@COMMON.lowers("tile.meet")
def meet(s: State, op: ir.OpView) -> None:
    s.b.op("nvvm.bar.warp.sync", [], [s.b.constant(-1)])
    if s.geometry.turns > 1:
        s.unit_barrier()
    else:
        s.b.asm(f"bar.sync {BARRIER}, {threads_of(s)};")


@COMMON.lowers("tile.finish_reduction")
def finish_reduction(s: State, op: ir.OpView) -> None:
    b, kind = s.b, tile.str_of(op.kind)
    # a lone warp takes adjacent ones at once, and so fewer waits
    alone = bool(tile.int_of(op.alone))
    width, thread, threads = _VECTOR, s.lane, tile.LANES
    if not alone:
        crew = Crew.of(s)
        width, thread, threads = 1, crew.thread, crew.threads
    words, slots, extent = (tile.int_of(x) for x in (op.words, op.slots, op.extent))
    start, end, count = (s.get(x) for x in (op.start, op.end, op.count))
    element = str(op.target.type.element_type)
    apart = b.mul(b.widen(s.get(op.step)), b.constant(4 * words, b.i64))
    first = b.add(pointer_of(s, op.partials), b.mul(b.widen(s.get(op.first)), b.constant(4 * words, b.i64)))
    ahead = max(1, _AHEAD // slots) if alone else _AHEAD
    index = b.variable(b.i32, b.mul(thread, width))
    nothing, skips = b.constant(_NOTHING[kind]), [s.get(x) for x in op.skips]

    def one() -> None:
        own = index.get()
        at = b.variable(b.i64, b.add(first, b.widen(b.shl(b.add(own, tile.int_of(op.offset)), 2))))
        totals, number = [b.variable(b.f32, nothing) for _ in range(width)], b.variable(b.i32, 0)
        vector = "" if width == 1 else f".v{width}"

        def load(inside: ir.Value, offset: int) -> list[ir.Value]:
            registers = ", ".join(f"${i}" for i in range(width))
            text = f"@${width + 1} ld.global{vector}.f32 {{{registers}}}, [${width} + {offset}];"
            if width == 1:
                text = f"@$2 ld.global.f32 $0, [$1 + {offset}];"
            return b.asm(text, [b.f32] * width, [at.get(), inside, *[nothing] * width], tied=width)

        def some() -> None:
            found = []
            for i in range(ahead):
                inside = b.compare("lt", b.add(number.get(), i), count)
                found += [load(inside, 4 * slot * extent) for slot in range(slots)]
                at.set(b.add(at.get(), apart))
            for values in found:
                for total, value in zip(totals, values, strict=True):
                    total.set(_combine(b, kind, total.get(), value))
            number.set(b.add(number.get(), ahead))

        b.loop(lambda: b.compare("lt", number.get(), count), some)
        for i, total in enumerate(totals):
            value = scalar.evaluate(b, op.body.blocks[0], [total.get()], scalar.OPS)
            place = b.add(b.add(own, start), i)
            address = address_of(s, s.get(op.target), b.mul(b.widen(place), s.get(op.stride)), element)
            inside = b.compare("lt", place, end)
            for skip in skips:
                _, inside = skip.at(b, place, inside)
            store_one(s, address, 0, element, value, inside)
        index.set(b.add(own, threads * width))

    b.loop(lambda: b.compare("lt", index.get(), extent), one)
