"""The op of `tile` that has the zero points of an operand ready for who converts it."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.formats import element_spelled
from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, at_least, in_step, maker
from scalec.ir.tile_types import *
from scalec.ir.verify import Count, refuse
from scalec.zero_points import MOST_TAKEN, RANGES, Order, takes_zeros, words


class ZeroPointsType(Tile.Type, name="subtrahends"):
    """Zero points of the elements that a thread converts of a stage, in registers: one for each of its rows."""


def strips_in(op: ir.OpView) -> list[tuple[int, int, int]]:
    """(first row, rows, row of the source) of the strips that a `tile.zero_points` loads; all of the tile without."""
    flat = optional(op, "strips", (0, shape_of(op.target.type)[0], 0))
    return list(zip(flat[::3], flat[1::3], flat[2::3], strict=False))


class ZeroPointsOp(Op, name="zero_points"):
    """Loads source[(row0 + i) / row_block, k0 / k_block] for the rows i and elements of K of `target` that a thread of
    the warpgroup makes, plus `plus`, an optional integer; 0 is loaded beyond `rows` and `k`. Without a source all are
    `number`, an optional integer attribute. `row_order` and `k_order`, optional arrays, say where blocks of rows and of
    K lie, if not one behind the other (`scalec.zero_points.Order.flat`).

    `place` is (row0, rows, k0, k), `strides` those of rows and K, in elements, or bytes of packed ones; 1 for the one
    along which it is contiguous: "rows" or "k", of `along`, an optional string that packed ones need. `strips`,
    optional, has three numbers for each of some strips of the target's rows: the first, how many, and of which row of
    the source, counted from row0 on, the first has the zero point. All other rows have what `before` has.

    With `in_words`, an optional integer, they are those of the elements that a thread makes of words, in strips of so
    many rows (`tile.convert`); with `turned`, an optional array, of words of eight adjacent rows, which are in that
    order (`order` there). With `words` too, a unit attribute, zero points are words in that order, of 4 bits, along
    rows, and row0 is a multiple of eight.
    """

    target: ext.Operand[SharedType]
    source: Sequence[ext.Operand[Any]]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    place: Sequence[ext.Operand[I32]]
    before: ext.Operand[ZeroPointsType] | None
    result: ext.Result[ZeroPointsType]

    def verify_invariants(op: ir.OpView) -> None:
        attributes = op.operation.attributes
        if "number" in attributes:
            if len(op.source):
                refuse("has a number and a source, expected one of these")
            return
        rows, flat = shape_of(op.target.type)[0], strips_in(op)
        if any(first < 0 or count < 1 or first + count > rows or ahead < 0 for first, count, ahead in flat):
            refuse(f"strips {list(flat)} of {rows} rows, expected a first one, a number, and one of the source")
        _read(op)
        for name in ("row_block", "k_block"):
            if name not in attributes:
                refuse(f"has no {name}")
        at_least(op, 1, "row_block", "k_block")
        if "words" in attributes:
            low, high = bounds_in(op)
            plain = along_in(op) == "rows" and bits_of(op.source[0].type.element_type) == 4
            if not plain or "turned" not in attributes or int_of(attributes["row_block"]) != 1 or op.before is not None:
                refuse("loads words of zero points, expected of 4 bits, one for each row, of rows that are turned")
            if max(-low, high) > MOST_TAKEN:
                refuse(f"loads words of zero points from {low} to {high}, expected {MOST_TAKEN} at most")


class RowZerosType(Tile.Type, name="zeros"):
    """Zero points of rows of a tile on their way, as memory has them, in registers of those who bring them."""


class RowZerosOp(Op, name="row_zeros"):
    """Registers for the zero points of `rows` rows and `blocks` blocks of K, spread over the threads of `warps`
    warps."""

    result: ext.Result[RowZerosType]
    rows: Count
    blocks: Count
    warps: Count


class LoadZerosOp(Op, name="load_zeros"):
    """Loads source[(row0 + i) / row_block, k0 / k_block + j] for all rows i and blocks j of `into`, while inside k.

    Block j is that of K element k0 + j * step. Rows are clamped below `rows`. Beyond k it is what was there, which
    meets zeros. `place`, `strides`, `along` and orders are as `zero_points` has them.
    """

    into: ext.Operand[RowZerosType]
    source: Sequence[ext.Operand[Any]]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    place: Sequence[ext.Operand[I32]]
    step: Count
    row_block: Count
    k_block: Count

    verify_invariants = staticmethod(lambda op: _read(op))


class StoreZerosOp(Op, name="store_zeros"):
    """Stores block `index` of the rows' zero points, of type `element`, plus `added`, twice each as 16 bits of type
    `made`, into the cursor's stage of a shared vector of words; of several vectors [blocks, rows] as many blocks,
    `index` times as many further. Where `made` is e4m3 each is a table, four words: what each of the 16 integers of
    `stored`, an element type of 4 bits, is less it."""

    source: ext.Operand[RowZerosType]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    index: ir.IntegerAttr
    element: ir.StringAttr
    stored: ir.StringAttr
    made: ir.StringAttr
    added: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        room, (planes, rows) = maker(op.source, "tile.row_zeros"), shape_of(op.target.type)
        if str(element_of(op.target.type)) != "i32":
            refuse(f"stores into tiles of {element_of(op.target.type)}, expected i32")
        made, stored = str_of(op.made), str_of(op.stored)
        if str_of(op.element) not in RANGES or not takes_zeros(stored, made):
            refuse(f"has {str_of(op.element)} for {made} of {stored}, expected an integer")
        if room is not None and int_of(room.rows) * words(made) != rows:
            refuse(f"stores {int_of(room.rows)} rows of {words(made)} words into {rows}")
        if room is not None and not 0 <= int_of(op.index) < int_of(room.blocks) // planes:
            refuse(f"stores block {int_of(op.index)} of {int_of(room.blocks) // planes}")
        in_step(op, None, op.target)


def _read(op: Any) -> None:
    """Refuses a source of zero points that nobody loads so."""
    if (len(op.source), len(op.strides), len(op.place)) != (1, 2, 4):
        refuse("has no number, expected a source, two strides and row0, rows, k0, k")
    if stored_in(op) not in RANGES:
        refuse(f"loads {op.source[0].type}, expected {' or '.join(RANGES)}")
    if bits_of(op.source[0].type.element_type) < 8 and along_in(op) not in ("rows", "k"):
        refuse(f"loads {stored_in(op)}, which is packed along rows or k, got {along_in(op)!r}")
    for name in ("row_order", "k_order"):
        flat = optional(op, name, (0,))
        if len(flat) % 3 != 1 or any(d < 1 or m < 0 for d, m in zip(flat[2::3], flat[3::3], strict=True)):
            refuse(f"{name} {list(flat)}, expected a constant, and factors, divisors and moduli")


def stored_in(op: Any) -> str:
    """The element type of the zero points that an op loads."""
    row = element_spelled(str(op.source[0].type.element_type))
    return row.name if row is not None else ""


def along_in(op: Any) -> str:
    """Along what they are contiguous, "" for neither rows nor K."""
    return optional(op, "along", "")


def order_in(op: Any, along: str) -> Order | None:
    """Where blocks of "row" or of "k" lie; None where one behind the other."""
    flat = optional(op, f"{along}_order", ())
    return Order.of(flat) if flat else None


def bounds_in(op: Any) -> tuple[int, int]:
    """Between what they lie."""
    attributes = op.operation.attributes
    if "number" in attributes:
        return int_of(attributes["number"]), int_of(attributes["number"])
    (low, high), plus = RANGES[stored_in(op)], optional(op, "plus")
    return low + plus, high + plus
