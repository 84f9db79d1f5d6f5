"""Ops of `tile` that bring scales of a byte to where sums are promoted by them, as f32."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import element_in, fetches, fills, in_step, maker
from scalec.ir.tile_copies import WIDENED
from scalec.ir.tile_registers import WORD_LAYOUTS
from scalec.ir.tile_types import (
    I32,
    ByteScalesType,
    CursorType,
    ScalarsType,
    SharedType,
    Tile,
    element_of,
    int_of,
    shape_of,
    str_of,
)
from scalec.ir.verify import fail, verifier


class StoreFactorsOp(Tile.Operation, name="store_factors"):
    """Stores the bytes of the rows, scales of type `element`, as f32 into the cursor's stage of shared vectors
    [bytes, rows], with `strips` as `store_rows`; with `pairs`, an optional string attribute, as two equal numbers of
    that type of 16 bits, an i32; with `index`, an optional number, those behind the bytes of so many stages."""

    source: ext.Operand[ByteScalesType]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    element: ir.StringAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        room, (count, rows) = maker(op.source, "tile.byte_scales"), shape_of(op.target.type)
        if str_of(op.element) not in WIDENED:
            return fail(op, f"makes f32 of {op.element}, expected {' or '.join(WIDENED)}")
        wanted = "i32" if "pairs" in op.operation.attributes else "f32"
        if str(element_of(op.target.type)) != wanted:
            return fail(op, f"stores into tiles of {element_of(op.target.type)}, expected {wanted}")
        attributes = op.operation.attributes
        index = int_of(attributes["index"]) if "index" in attributes else 0
        if room is not None and (index + 1) * -(-count // 4) > int_of(room.words):
            return fail(op, f"stores {int_of(room.words)} words of {int_of(room.rows)} rows in {op.target.type}")
        if room is not None and not fills(op, room, rows):
            return False
        return in_step(op, None, op.target)


class FetchBytesOp(Tile.Operation, name="fetch_bytes"):
    """Loads into `into`, a room for them, the scales of a byte of `count` rows at K element k0, while k0 < k; else 0,
    or with `keeps` what is there.

    They stand at row / row_block and k0 / block of a tensor in `layout`, as those of `load_bytes`. Which rows these are
    `fetch` says.
    """

    into: ext.Operand[ScalarsType]
    source: ext.Operand[Any]
    row_stride: ext.Operand[ir.IntegerType[64]]
    k_stride: ext.Operand[ir.IntegerType[64]]
    row0: ext.Operand[I32]
    rows: ext.Operand[I32]
    k0: ext.Operand[I32]
    k: ext.Operand[I32]
    row_block: ir.IntegerAttr
    block: ir.IntegerAttr
    layout: ir.StringAttr
    axis: ir.StringAttr
    own: ir.IntegerAttr
    spacing: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        room = maker(op.into, "tile.scalars")
        if room is not None and element_in(room) not in WIDENED:
            return fail(op, f"loads bytes into room for {element_in(room)}")
        if str_of(op.layout) not in WORD_LAYOUTS:
            return fail(op, f"layout is {op.layout}, expected {', '.join(WORD_LAYOUTS)}")
        if not isinstance(op.source.type, ir.MemRefType):
            return fail(op, f"reads scales from {op.source.type}, expected a memref")
        return fetches(op, "block")
