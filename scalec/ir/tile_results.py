"""Ops of `tile` that store results: out of registers, or of shared memory, also added to what was loaded there."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, extents, gaps, in_step, into_memory, maker, scattered
from scalec.ir.tile_types import *
from scalec.ir.verify import Flag, Natural, refuse

LINE = 16
"""Bytes whose multiples rows of a box are (CUDA driver API, cuTensorMapEncodeTiled: boxDim[0])."""


class StoreOp(Op, name="store"):
    """Rounds the accumulator to the element type and stores it at (m0, n0) through shared memory, by bulk copies.

    A box is as wide as the swizzle, or where nothing is swizzled as a row of the accumulator, of whole LINE bytes.
    Where `staging` has fewer columns than the accumulator, they are the room of some of its boxes, one wave of each:
    the next take the place of those that copies have read.

    `adds` 1: adds it to what is there, in f32: copies that reduce.

    `gaps` and `columns`, optional, three integers as those of `tile.store_direct` and the result's columns without
    them: each box goes where its first column does, those behind the last column nowhere. No box has a gap within.
    """

    accumulator: ext.Operand[FragmentType]
    staging: ext.Operand[SharedType]
    target: ext.Operand[DescriptorType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    adds: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        staging, target, (rows, columns) = op.staging.type, op.target.type, shape_of(op.accumulator.type)
        box, element, swizzle = shape_of(target), element_of(target), swizzle_of(target)
        if element != element_of(staging) or swizzle != swizzle_of(staging):
            refuse(f"stages {element_of(staging)} with swizzle {swizzle_of(staging)}, stores {element}, {swizzle}")
        if int_of(op.adds) not in (0, 1) or (int_of(op.adds) and not isinstance(element, ir.F32Type)):
            refuse(f"adds = {int_of(op.adds)} and stores {element}, expected 0, or 1 with f32")
        gaps(op)
        if (around := gaps_of(op)) is not None:
            count = optional(op, "columns")
            if count < 1 or any(x % box[0] for x in (*around[1:], count)) or int_of(op.adds):
                refuse(f"gaps {list(around)} in {count} columns by boxes of {box[0]}: no box may have one within")
        wave = wave_rows(op.accumulator.type)
        row, which = (swizzle, "the swizzle") if swizzle else (columns * bits_of(element) // 8, "a whole row")
        if box[1] % wave or rows % box[1] or box[0] * bits_of(element) != 8 * row or row % LINE:
            refuse(f"box {list(box)} of {element}, expected {wave} rows of {row} bytes ({which})")
        tall, wide = shape_of(staging)
        if tall % box[1] or columns % box[0] or wide % box[0] or (wide % columns and box[1] != wave):
            refuse(f"stages [{rows}, {columns}] by boxes of {box[0]} columns in tiles of {list(shape_of(staging))}")


class StoreDirectOp(Op, name="store_direct"):
    """Rounds the accumulator and stores it from registers, within (m, n); `pair` 1 stores two columns at once.

    Packed elements share a byte with the next column's or, with `pair` 0, with the next row's; strides count bytes.

    Element (row, column) goes to target[row * row_stride + column * column_stride]. Rows, or columns, for which one of
    `skips` names nothing are not stored. Where there is the optional attribute `to`, the number of one of `skips`, or
    of one along each axis, a row, or column, goes where that one would whose index the one has for it.

    `gaps`, an optional attribute of three integers, size, every and phase: each column lies size * ((column + phase) /
    every) columns further on. Then `together` columns of the accumulator, from the first one on, never are on both
    sides of a gap, nor are those of a pair. With `rows`, likewise, it is rows that lie further on. With the optional
    attribute `adds`, f32 are added to what is there. With `words`, likewise, rows of elements of 6 bits are whole
    words, of which a thread stores three for 16 columns.
    """

    accumulator: ext.Operand[FragmentType]
    target: ext.Operand[Any]
    row_stride: ext.Operand[ir.IntegerType[64]]
    column_stride: ext.Operand[ir.IntegerType[64]]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    skips: Sequence[ext.Operand[RowIndexType]]
    pair: Flag

    def verify_invariants(op: ir.OpView) -> None:
        into_memory(op)
        gaps(op)
        scattered(op, "m", "n")
        if (around := gaps_of(op)) is None:
            return
        bits, columns = bits_of(op.target.type.element_type), shape_of(op.accumulator.type)[1]
        together = optional(op, "together")
        if together < 1 or any(x % together for x in (*around[1:], columns)):
            refuse(f"gaps {list(around)} in {columns} columns, {together} of which are together: not a divisor")
        pairs = int_of(op.pair)
        if bits == 6 or (bits < 8 and not pairs) or (pairs and (together % 2 or around[0] % 2)):
            refuse(f"gaps {list(around)} between pairs of columns of {bits} bits, expected even ones")


VECTOR = 16
"""Bytes that a thread stores at once."""


class StoreTurnedOp(Op, name="store_turned"):
    """Rounds the accumulator, turns it in shared memory, and stores its columns as rows of the target, within (m, n).

    Element (row, column) goes to target[column * stride + row], of packed elements in bytes. `staging` has a row for
    each column of each wave, as long as the wave is high and VECTOR bytes, which stay free. `m` and rows of the target
    are whole VECTORs. Columns for which one of `skips` names nothing are not stored; `to` is as that of
    `tile.store_direct`, of columns.
    """

    accumulator: ext.Operand[FragmentType]
    staging: ext.Operand[SharedType]
    target: ext.Operand[Any]
    stride: ext.Operand[ir.IntegerType[64]]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    skips: Sequence[ext.Operand[RowIndexType]]

    def verify_invariants(op: ir.OpView) -> None:
        into_memory(op)
        scattered(op, "n")
        if any(str_of(made.axis) != "n" for x in op.skips if (made := maker(x, "tile.row_index")) is not None):
            refuse("skips rows of the accumulator, whose columns are stored whole")
        staging, element, swizzle = op.staging.type, element_of(op.staging.type), swizzle_of(op.staging.type)
        if element != op.target.type.element_type or swizzle:
            refuse(f"stages {element} with swizzle {swizzle}, stores {op.target.type.element_type}, 0")
        wave, (rows, columns) = wave_rows(op.accumulator.type), shape_of(op.accumulator.type)
        (tall, wide), wanted = shape_of(staging), wave + 8 * VECTOR // bits_of(element)
        if wide != wanted or tall % (rows // wave * columns):
            refuse(f"stages [{rows}, {columns}] in waves of {wave} rows in [{tall}, {wide}] of {element}, expected "
                f"rows of {wanted}, {rows // wave * columns} for each fragment")  # fmt: skip


class StoreStagedOp(Op, name="store_staged"):
    """Rounds the accumulator, stages it in shared memory as `tile.store` does, and stores its rows, within (m, n):
    threads VECTOR bytes each, as many next to each other as the swizzle is wide.

    Element (row, column) goes to target[row * stride + column], of packed elements in bytes. `n` and rows of the target
    are whole VECTORs. Rows for which one of `skips` (tile.ask_named) names nothing are not stored. Where there is the
    optional attribute `to`, the number of one of `skips`, a row goes where that one would whose index it has.

    `copied`, an optional unit attribute: copies of another tile may still read what is staged, and are waited for.
    """

    accumulator: ext.Operand[FragmentType]
    staging: ext.Operand[SharedType]
    target: ext.Operand[Any]
    stride: ext.Operand[ir.IntegerType[64]]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    skips: Sequence[ext.Operand[ScalarsType]]

    def verify_invariants(op: ir.OpView) -> None:
        into_memory(op)
        scattered(op, "m")
        wave, (rows, columns), made = wave_rows(op.accumulator.type), shape_of(op.accumulator.type), op.target.type
        for asked in (maker(x, "tile.ask_named") for x in op.skips):
            if asked is None or int_of(asked.count) != rows:
                refuse(f"skips what is not made by tile.ask_named of {rows} rows")
        staging, element, swizzle = op.staging.type, element_of(op.staging.type), swizzle_of(op.staging.type)
        if element != made.element_type or not swizzle:
            refuse(f"stages {element} with swizzle {swizzle}, stores {made.element_type}, expected a swizzle")
        (tall, wide), width = shape_of(staging), 8 * swizzle // bits_of(element)
        if columns % width or wide % width or tall % wave:
            refuse(f"stages rows of {columns} by {width} columns, {wave} rows at a time, in [{tall}, {wide}]")


class DrainOp(Op, name="drain"):
    """Waits until this role's bulk stores have read shared memory, which is gone when the CTA exits."""


class LoadBoxOp(Op, name="load_box"):
    """Bulk copies of the box `index` of each warpgroup, or warp, of the `tile` at (m0, n0) into the cursor's slot; with
    the optional unit attribute `once`, L2 is told that nobody else reads it.

    They complete on the ring's full barrier. `staging` has as many slots as the ring for each warpgroup or warp, whose
    own ones lie under each other, and a slot has room for a box; boxes are numbered along N, then along M.
    """

    source: ext.Operand[DescriptorType]
    staging: ext.Operand[SharedType]
    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    tile: Any
    index: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        extents(op, "tile")
        in_step(op, op.ring)
        box, (rows, columns), cursor = shape_of(op.source.type), ints_of(op.tile), maker(op.cursor, "tile.cursor")
        if len(box) != 2 or rows % box[1] or columns % box[0]:
            refuse(f"boxes {list(box)} of a tile of [{rows}, {columns}]")
        size = box[0] * box[1] * bits_of(element_of(op.source.type)) // 8
        slots = 1 if cursor is None else int_of(cursor.depth)
        if stage_bytes(op.staging.type) % slots or stage_bytes(op.staging.type) // slots < size:
            refuse(f"boxes of {size} bytes in {slots} slots of {stage_bytes(op.staging.type)} bytes")
        _numbered(op, rows * columns // (box[0] * box[1]))


class LoadedInputOp(Op, name="loaded_input"):
    """An epilogue input that copies bring, boxes of `columns` columns of `element`: who reads it does so in the order
    of its boxes, waits for each at the cursor, moves that on and hands the slot back. Where a body reads several, these
    come by turns, box by box. With the optional unit attribute `in_place` they are in the place of the result,
    and who puts that there (`tile.put_result`) hands it back."""

    staging: ext.Operand[SharedType]
    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    result: ext.Result[InputType]
    element: ir.TypeAttr
    columns: Natural

    def verify_invariants(op: ir.OpView) -> None:
        in_step(op, op.ring)
        if int_of(op.columns) % 8 or bits_of(op.element.value) not in (16, 32):
            refuse(f"boxes of {op.columns} columns of {op.element}, expected groups of 8 of 16 or 32 bits")


class AddLoadedOp(Op, name="add_loaded"):
    """Adds the accumulator's box `index` to the f32 elements in the cursor's slot, in place, and hands the slot back:
    what was written there is then visible to copies of who acquires it."""

    accumulator: ext.Operand[FragmentType]
    staging: ext.Operand[SharedType]
    target: ext.Operand[DescriptorType]
    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    index: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        (rows, columns), box, wave = (
            shape_of(op.accumulator.type),
            shape_of(op.target.type),
            wave_rows(op.accumulator.type),
        )
        _staged(op, op.target)
        if not isinstance(element_of(op.target.type), ir.F32Type):
            refuse(f"adds {element_of(op.target.type)}, expected f32")
        if len(box) != 2 or box[1] % wave or rows % box[1] or columns % box[0]:
            refuse(f"box {list(box)}, of an accumulator of [{rows}, {columns}] in waves of {wave} rows")
        _numbered(op, rows * columns // (box[0] * box[1]))


class PutResultOp(Op, name="put_result"):
    """Rounds the accumulator and puts its boxes in the ring's slots, one each, and hands all of them back, as
    `tile.add_loaded` does."""

    accumulator: ext.Operand[FragmentType]
    staging: ext.Operand[SharedType]
    target: ext.Operand[DescriptorType]
    ring: ext.Operand[RingType]

    def verify_invariants(op: ir.OpView) -> None:
        (rows, columns), box = shape_of(op.accumulator.type), shape_of(op.target.type)
        made = maker(op.ring, "tile.ring")
        if len(box) != 2 or box[1] % wave_rows(op.accumulator.type) or rows % box[1] or columns % box[0]:
            refuse(f"box {list(box)}, of an accumulator of [{rows}, {columns}]")
        if made is not None and int_of(made.depth) != rows * columns // (box[0] * box[1]):
            refuse(f"{rows * columns // (box[0] * box[1])} boxes in {int_of(made.depth)} slots, expected one for each")


class StoreResultOp(Op, name="store_result"):
    """Bulk stores of the cursor's slot: the box `index` of each warpgroup, or warp, of the `tile` at (m0, n0). `once`
    is as that of `tile.load_box`."""

    staging: ext.Operand[SharedType]
    target: ext.Operand[DescriptorType]
    cursor: ext.Operand[CursorType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    tile: Any
    index: ir.IntegerAttr

    verify_invariants = staticmethod(lambda op: _of_tile(op, op.target))


class AwaitStoresOp(Op, name="await_stores"):
    """Waits until all but the last `pending` `store_result` of this thread have read shared memory."""

    pending: Natural


def _staged(op: ir.OpView, boxes: ir.Value) -> None:
    """Refuses a staging buffer that is not made up of slots of boxes."""
    box, element, swizzle = shape_of(boxes.type), element_of(boxes.type), swizzle_of(boxes.type)
    if bits_of(element) not in (16, 32) or bits_of(element) != bits_of(element_of(op.staging.type)):
        refuse(f"boxes of {element} and a buffer of {element_of(op.staging.type)}, expected as many bits, 16 or 32")
    if swizzle != swizzle_of(op.staging.type) or len(box) != 2 or box[0] * bits_of(element) != 8 * swizzle:
        refuse(f"box {list(box)} with swizzle {swizzle}, buffer {swizzle_of(op.staging.type)}")
    cursor, (rows, columns) = maker(op.cursor, "tile.cursor"), shape_of(op.staging.type)
    slots = 1 if cursor is None else int_of(cursor.depth)
    if int_of(op.staging.type.stages) != 1 or rows * columns % (slots * box[0] * box[1]):
        stages = int_of(op.staging.type.stages)
        refuse(f"{stages} stages of [{rows}, {columns}], expected one of {slots} slots of boxes {list(box)}")


def _of_tile(op: ir.OpView, boxes: ir.Value) -> None:
    """Refuses boxes that do not make up the tile."""
    extents(op, "tile")
    _staged(op, boxes)
    box, (rows, columns) = shape_of(boxes.type), ints_of(op.tile)
    if rows % box[1] or columns % box[0]:
        refuse(f"boxes {list(box)} of a tile of [{rows}, {columns}]")
    cursor, room = maker(op.cursor, "tile.cursor"), shape_of(op.staging.type)
    own = room[0] * room[1] // (1 if cursor is None else int_of(cursor.depth))  # of all warpgroups or warps
    _numbered(op, rows * columns // own)


def _numbered(op: ir.OpView, boxes: int) -> None:
    if not 0 <= int_of(op.index) < boxes:
        refuse(f"index is {int_of(op.index)}, of {boxes} boxes")
