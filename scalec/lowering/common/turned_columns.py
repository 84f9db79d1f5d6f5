"""Programs without a contraction whose results have another index last: tiles that are turned in shared memory."""

from __future__ import annotations

from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_pointwise import LANES, turned_steps
from scalec.lowering.common import global_elements, rounding
from scalec.lowering.common.pointwise import now
from scalec.lowering.common.state import COMMON, State


def _word(s: State, op: ir.OpView, vector: int, row: ir.Value, column: ir.Value) -> ir.Value:
    """The address of a word of a tile that is turned (`turned_steps`)."""
    b, (line, further) = s.b, turned_steps(tile.int_of(op.rows), tile.int_of(op.columns), vector)
    words = b.add(b.mul(row, line), b.mul(b.div(row, vector), further))
    return b.add(s.shared, b.add(tile.int_of(op.at), b.shl(b.add(words, b.add(column, b.div(column, LANES))), 2)))


def _own(s: State, op: ir.OpView, vector: int, size: int) -> tuple[ir.Value, ir.Value]:
    """The row of a place, and where a thread's vector in it begins, of rows of `size`."""
    b, across = s.b, size // vector
    row = b.add(b.div(s.tid, across), tile.int_of(op.place) * (s.threads // across))
    return row, b.mul(b.and_(s.tid, across - 1), vector)


@COMMON.lowers("tile.lay_columns")
def lay_columns(s: State, op: ir.OpView) -> None:
    """A word for each column; of 16 bits units of 8."""
    values = [now(x) for x in s.get(op.value)]
    if "halves" in op.operation.attributes:
        _lay_halves(s, op, values)
        return
    at = _word(s, op, len(values), *_own(s, op, len(values), tile.int_of(op.columns)))
    for i, value in enumerate(values):
        s.b.asm(f"st.shared.f32 [$0 + {4 * i}], $1;", [], [at, value])


@COMMON.lowers("tile.take_turned")
def take_turned(s: State, op: ir.OpView) -> None:
    """A word for each row, in the column that is the thread's row when it is turned."""
    if "halves" in op.operation.attributes:
        s.values[op.result] = _take_halves(s, op)
        return
    count, rows = tile.int_of(op.result.type.count), tile.int_of(op.rows)
    column, row = _own(s, op, count, rows)
    at, (line, _) = _word(s, op, count, row, column), turned_steps(rows, tile.int_of(op.columns), count)
    made = [s.b.asm(f"ld.shared.f32 $0, [$1 + {4 * line * i}];", [s.b.f32], [at])[0] for i in range(count)]
    s.values[op.result] = made


def _unit(s: State, op: ir.OpView, row: ir.Value, unit: ir.Value, turn: ir.Value) -> ir.Value:
    """The address of 8 elements of a row, in a tile of 16 bits: units of rows that a matrix has are in banks of their
    own by `turn`, and those that lanes beside each other write by the bit of 8 units."""
    b, columns = s.b, tile.int_of(op.columns)
    at = b.xor(b.xor(unit, turn), b.and_(b.div(unit, 8), 1))
    return b.add(b.add(s.shared, tile.int_of(op.at)), b.add(b.mul(row, 2 * columns), b.shl(at, 4)))


def _lay_halves(s: State, op: ir.OpView, values: list[ir.Value]) -> None:
    b, vector, element = s.b, len(values), str(ir.TypeAttr(op.operation.attributes["halves"]).value)
    row, column = _own(s, op, vector, tile.int_of(op.columns))
    turn = b.or_(b.and_(row, 1), b.shl(b.and_(b.div(row, vector), 3), 1))
    at = _unit(s, op, row, b.div(column, 8), turn)
    for first in range(0, vector, 8):
        words = [_halves(s, element, *values[i : i + 2]) for i in range(first, first + 8, 2)]
        b.asm("st.shared.v4.b32 [$0], {$1, $2, $3, $4};", [], [b.xor(at, 2 * first), *words])


def _halves(s: State, element: str, low: ir.Value, high: ir.Value) -> ir.Value:
    """The word of two values that are of 16 bits already: of bf16, where this takes no instruction, as loaded."""
    b = s.b
    if element != "bf16":
        return rounding.word(s, element, [low, high])
    return b.or_(b.shr(b.bits(low), 16), b.and_(b.bits(high), 0xFFFF0000))


def _take_halves(s: State, op: ir.OpView) -> list[ir.Value]:
    """Matrices of 8 by 8: a lane has a column's rows of a pair from each, so that pairs that follow one another are of
    matrices that do."""
    b, count, rows = s.b, tile.int_of(op.result.type.count), tile.int_of(op.rows)
    element, size = str(ir.TypeAttr(op.operation.attributes["halves"]).value), 2 * tile.int_of(op.columns)
    below, beside = divmod(tile.int_of(op.place), rows // (4 * count))
    own, lane = b.and_(s.tid, 7), b.and_(s.tid, 31)
    row = b.add(b.mul(b.div(own, 2), count), b.add(b.mul(b.div(lane, 8), 2), b.and_(own, 1)))
    at = _unit(s, op, row, b.add(b.div(s.tid, 32), below * (s.threads // 32)), own)
    made = []
    for i in range(count // 8):
        text = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$0, $1, $2, $3}, "
        words = b.asm(f"{text}[$4 + {size * (beside * 4 * count + 8 * i)}];", [b.i32] * 4, [at])
        made += [global_elements.unpack(s, x, element, half) for x in words for half in (0, 1)]
    return made


@COMMON.lowers("tile.lay_named")
def lay_named(s: State, op: ir.OpView) -> None:
    """The first of the threads that share a row."""
    b, (row, column) = s.b, _own(s, op, tile.int_of(op.vector), tile.int_of(op.columns))
    at, first = b.add(b.add(s.shared, tile.int_of(op.at)), row), b.compare("eq", column, 0)
    b.asm("@$2 st.shared.b8 [$0], $1;", [], [at, b.select(s.get(op.valid), 1, 0), first])


@COMMON.lowers("tile.take_named")
def take_named(s: State, op: ir.OpView) -> None:
    """Bytes become bits by a product: byte i of a word, 0 or 1, times 2^(28 - 7i), is bit 28 + i, and nothing below
    carries."""
    b, vector, block = s.b, tile.int_of(op.vector), tile.int_of(op.block)
    first = b.mul(b.and_(s.tid, tile.int_of(op.rows) // vector - 1), vector)
    base, mask = b.add(s.shared, tile.int_of(op.at)), b.constant(0)
    for i, word in enumerate(_named(s, b.add(base, first), vector)):
        mask = b.or_(mask, b.shl(b.shr(b.mul(word, 0x10204080), 28), 4 * i))
    every = [mask] if block == vector else _named(s, b.add(base, b.and_(first, ~(block - 1) & 0xFFFFFFFF)), block)
    some = every[0]
    for x in every[1:]:
        some = b.or_(some, x)
    s.values[op.mask], s.values[op.some] = mask, b.compare("ne", some, 0)


def _named(s: State, at: Any, count: int) -> list[ir.Value]:
    """So many bytes of shared memory, a power of two, as words."""
    if count < 4:
        return s.b.asm(f"ld.shared.u{8 * count} $0, [$1];", [s.b.i32], [at])
    each, words = min(4, count // 4), []
    for first in range(0, count, 4 * each):
        names = ", ".join(f"${i}" for i in range(each))
        shape = f".v{each}.b32 {{{names}}}" if each > 1 else ".b32 $0"
        words += s.b.asm(f"ld.shared{shape}, [${each} + {first}];", [s.b.i32] * each, [at])
    return words
