"""Ops of `tile` for rows of results that begin at any byte: threads that have adjacent columns store them together."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, maker
from scalec.ir.tile_pointwise import LANES, ColumnsType
from scalec.ir.tile_types import I32, Tile, bits_of, int_of
from scalec.ir.verify import Count, Natural, Offset, refuse

SECTOR = 32
"""Bytes of memory that are written at once; of a part L2 has to merge what others write."""

UNIT = 16
"""Bytes that a thread stores at once (PTX ISA 9.7.9.11, st: .v4.b32)."""


def line_bytes(row: int, places: int) -> int:
    """Bytes of shared memory from one row to the next, of `row` bytes in so many places. Behind a row lie UNIT bytes
    more, as what begins at any byte is read as two units. What eight lanes write at once lies in all banks: where a
    place of a row has less than 128 bytes, the next rows lie as far apart as these, or 128 more."""
    own = row // places
    line = -(-(row + UNIT) // UNIT) * UNIT
    while own < 4 * LANES and line % (4 * LANES) != own:
        line += UNIT
    return line


def fits_rows(bits: int, vector: int, lanes: int, places: int) -> bool:
    """Whether threads can store rows together: each has whole words in a place, all lanes whole units."""
    powers = not vector & (vector - 1) and not lanes & (lanes - 1) and lanes <= LANES
    own = bits * vector // 8
    return powers and bits * vector % 32 == 0 and own * lanes % UNIT == 0 and own * lanes * places % SECTOR == 0


class StoredRowType(Tile.Type, name="stored_row"):
    """A row of a result that lanes of a warp store together."""


class BeginRowOp(Op, name="begin_row"):
    """A row of memory of which a thread has `vector` columns in each of `places`. `lanes` threads that follow one
    another have columns that do, and where those end is their next place. `at` is the index along each axis of the
    thread's first column, each with a stride, as those of `tile.store_columns`; `left` columns are there from that one
    on, 0 where the row is not there. The row may begin at any byte: what threads have of it is then put together from
    byte `offset` of shared memory on, each warp by itself. All threads of a warp come here, and to the next two ops."""

    target: ext.Operand[Any]
    at: Sequence[ext.Operand[I32]]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    left: ext.Operand[I32]
    result: ext.Result[StoredRowType]
    vector: Count
    lanes: Count
    places: Count
    offset: Offset

    def verify_invariants(op: ir.OpView) -> None:
        if not isinstance(op.target.type, ir.MemRefType):
            refuse(f"writes {op.target.type}, expected a memref")
        if len(op.at) != len(op.strides):
            refuse(f"{len(op.at)} indices and {len(op.strides)} strides, expected as many")
        vector, lanes, places = (int_of(x) for x in (op.vector, op.lanes, op.places))
        if not fits_rows(bits := bits_of(op.target.type.element_type), vector, lanes, places):
            refuse(
                f"{lanes} lanes with {places} places of {vector} elements of {bits} bits, expected powers of two, "
                f"whole words in a thread, and rows of a multiple of {SECTOR} bytes"
            )
        if int_of(op.offset) % UNIT:
            refuse(f"offset is {int_of(op.offset)}, expected a multiple of {UNIT}")


class PutColumnsOp(Op, name="put_columns"):
    """Rounds the columns of a thread's place number `place` of a row. Stores them by vectors, where all rows of the
    warp begin at multiples of their bytes and end between two of them; else leaves them for `tile.end_row`."""

    row: ext.Operand[StoredRowType]
    value: ext.Operand[ColumnsType]
    place: Natural

    def verify_invariants(op: ir.OpView) -> None:
        made = maker(op.row, "tile.begin_row")
        if made is None:
            refuse("row is not made by tile.begin_row")
        elif int_of(op.value.type.count) != int_of(made.vector) or int_of(op.place) >= int_of(made.places):
            many = f"{int_of(op.value.type.count)} columns in place {int_of(op.place)}"
            refuse(f"{many}, the row has {int_of(made.places)} places of {int_of(made.vector)}")


class EndRowOp(Op, name="end_row"):
    """Stores what has been put together of a row."""

    row: ext.Operand[StoredRowType]

    def verify_invariants(op: ir.OpView) -> None:
        if maker(op.row, "tile.begin_row") is None:
            refuse("row is not made by tile.begin_row")
