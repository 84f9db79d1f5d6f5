"""Ops of `tile` for results that are loaded, added to in shared memory, and stored: box by box, each in a slot."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import at_least, extents, in_step, maker
from scalec.ir.tile_types import (
    I32,
    CursorType,
    DescriptorType,
    FragmentType,
    RingType,
    SharedType,
    Tile,
    bits_of,
    element_of,
    int_of,
    ints_of,
    shape_of,
    swizzle_of,
    wave_rows,
)
from scalec.ir.verify import fail, verifier


class LoadResultOp(Tile.Operation, name="load_result"):
    """Bulk copies of the box `index` of each warpgroup, or warp, of the `tile` at (m0, n0) into the cursor's slot.

    They complete on the ring's full barrier. `staging` has as many slots as the ring, of a box of each warpgroup or
    warp, whose own ones lie under each other; their boxes are numbered along N, then along M.
    """

    source: ext.Operand[DescriptorType]
    staging: ext.Operand[SharedType]
    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    tile: Any
    index: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return in_step(op, op.ring) and _of_tile(op, op.source)


class AddLoadedOp(Tile.Operation, name="add_loaded"):
    """Adds the accumulator's box `index` to the f32 elements in the cursor's slot, in place, and hands the slot back:
    what was written there is then visible to copies of who acquires it."""

    accumulator: ext.Operand[FragmentType]
    staging: ext.Operand[SharedType]
    target: ext.Operand[DescriptorType]
    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    index: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        (rows, columns), box, wave = (
            shape_of(op.accumulator.type),
            shape_of(op.target.type),
            wave_rows(op.accumulator.type),
        )
        if not in_step(op, op.ring) or not _staged(op, op.target):
            return False
        if len(box) != 2 or box[1] % wave or rows % box[1] or columns % box[0]:
            return fail(op, f"box {list(box)}, of an accumulator of [{rows}, {columns}] in waves of {wave} rows")
        return _numbered(op, rows * columns // (box[0] * box[1]))


class StoreResultOp(Tile.Operation, name="store_result"):
    """Bulk stores of the cursor's slot: the box `index` of each warpgroup, or warp, of the `tile` at (m0, n0)."""

    staging: ext.Operand[SharedType]
    target: ext.Operand[DescriptorType]
    cursor: ext.Operand[CursorType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    tile: Any
    index: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _of_tile(op, op.target)


class AwaitStoresOp(Tile.Operation, name="await_stores"):
    """Waits until all but the last `pending` `store_result` of this thread have read shared memory."""

    pending: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return at_least(op, 0, "pending")


def _staged(op: ir.OpView, boxes: ir.Value) -> bool:
    """Refuses a staging buffer that is not made up of slots of f32 boxes."""
    box, element, swizzle = shape_of(boxes.type), element_of(boxes.type), swizzle_of(boxes.type)
    if not isinstance(element, ir.F32Type) or element != element_of(op.staging.type):
        return fail(op, f"boxes of {element} and a buffer of {element_of(op.staging.type)}, expected f32")
    if swizzle != swizzle_of(op.staging.type) or len(box) != 2 or box[0] * bits_of(element) != 8 * swizzle:
        return fail(op, f"box {list(box)} with swizzle {swizzle}, buffer {swizzle_of(op.staging.type)}")
    cursor, (rows, columns) = maker(op.cursor, "tile.cursor"), shape_of(op.staging.type)
    slots = 1 if cursor is None else int_of(cursor.depth)
    if int_of(op.staging.type.stages) != 1 or rows * columns % (slots * box[0] * box[1]):
        stages = int_of(op.staging.type.stages)
        return fail(op, f"{stages} stages of [{rows}, {columns}], expected one of {slots} slots of boxes {list(box)}")
    return True


def _of_tile(op: ir.OpView, boxes: ir.Value) -> bool:
    """Refuses boxes that do not make up the tile."""
    if not extents(op, "tile") or not _staged(op, boxes):
        return False
    box, (rows, columns) = shape_of(boxes.type), ints_of(op.tile)
    if rows % box[1] or columns % box[0]:
        return fail(op, f"boxes {list(box)} of a tile of [{rows}, {columns}]")
    cursor, room = maker(op.cursor, "tile.cursor"), shape_of(op.staging.type)
    own = room[0] * room[1] // (1 if cursor is None else int_of(cursor.depth))  # of all warpgroups or warps
    return _numbered(op, rows * columns // own)


def _numbered(op: ir.OpView, boxes: int) -> bool:
    return 0 <= int_of(op.index) < boxes or fail(op, f"index is {int_of(op.index)}, of {boxes} boxes")
