"""Ops of `tile` that bring scales of a byte to where sums are promoted by them, as f32."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, element_in, fetches, fills, in_step, maker
from scalec.ir.tile_copies import WIDENED
from scalec.ir.tile_registers import WORD_LAYOUTS
from scalec.ir.tile_types import *
from scalec.ir.verify import Axis, Count, Natural, refuse


class StoreFactorsOp(Op, name="store_factors"):
    """Stores the bytes of the rows, scales of type `element`, as f32 into the cursor's stage of shared vectors
    [bytes, rows], with `strips` as `store_rows`; with `pairs`, an optional string attribute, as two equal numbers of
    that type of 16 bits, an i32; with `index`, an optional number, those behind the bytes of so many stages. With
    `words`, a unit attribute, four bytes each as they are, an i32, and in the last vector for each of the warps that do
    so bits of each of SEEN that one of its bytes is."""

    source: ext.Operand[ByteScalesType]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    element: ir.StringAttr

    def verify_invariants(op: ir.OpView) -> None:
        room, (count, rows) = maker(op.source, "tile.byte_scales"), shape_of(op.target.type)
        if str_of(op.element) not in WIDENED:
            refuse(f"makes f32 of {op.element}, expected {' or '.join(WIDENED)}")
        words = "words" in op.operation.attributes
        wanted = "i32" if words or "pairs" in op.operation.attributes else "f32"
        if str(element_of(op.target.type)) != wanted:
            refuse(f"stores into tiles of {element_of(op.target.type)}, expected {wanted}")
        index = optional(op, "index")
        each = count - 1 if words else -(-count // 4)
        if words and room is not None and rows < int_of(room.warps):
            refuse(f"tells what {int_of(room.warps)} warps have seen in {op.target.type}")
        if room is not None and (index + 1) * each > int_of(room.words):
            refuse(f"stores {int_of(room.words)} words of {int_of(room.rows)} rows in {op.target.type}")
        if room is not None:
            fills(op, room, rows)
        in_step(op, None, op.target)


ORDINARY = (0x20, 0x7E)
"""The ue4m3, 2^-3 to the largest, that a power of two from 2^-3 to 1 makes an e4m3 of by adding to its exponent."""

LOW_SHIFT, SMALL_SHIFT = 3, 6
"""The powers of two by which the addends of LOW scales are larger beside those of ORDINARY ones, and those of scales
below these, of which the least one, 2^-9, then counts as 2^-3."""

LOW = (0x08, 0x66)
"""Those, of the least normal one to 56, that one from 1 to 2^3 does."""

SEEN = {"not ordinary": 0x80808080, "not low": 0x40404040, "zero": 0x20202020}
"""What a scale may be that is not ORDINARY, or not LOW, where it is not 0; or 0: by the bits of which one says so."""


class SeenScalesOp(Op, name="seen_scales"):
    """Which of SEEN scales are in the cursor's stage of words that `warps` warps stored (`tile.store_factors`)."""

    source: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    result: ext.Result[I32]
    warps: Count

    def verify_invariants(op: ir.OpView) -> None:
        of_words(op)
        in_step(op, None, op.source)


def of_words(op: ir.OpView) -> None:
    """Refuses what is no words of scales, and one vector behind."""
    if str(element_of(op.source.type)) != "i32" or shape_of(op.source.type)[0] < 2:
        refuse(f"asks {op.source.type}, expected words of scales, and one vector behind")


class StartAddendsOp(Op, name="start_addends"):
    """Of ORDINARY scales, at first."""

    result: ext.Result[AddendsType]


class AreAlikeOp(Op, name="are_alike"):
    """Whether scales that were seen are all those of `addends`."""

    addends: ext.Operand[AddendsType]
    seen: ext.Operand[I32]
    result: ext.Result[I1]


class TurnAddendsOp(Op, name="turn_addends"):
    """Makes `addends` those of LOW scales, or of ORDINARY ones, and the sums of the accumulator stand for these."""

    addends: ext.Operand[AddendsType]
    low: ext.Operand[I1]
    accumulator: ext.Operand[FragmentType]


class EndAddendsOp(Op, name="end_addends"):
    """Makes sums that stand for `addends` those of elements times their scales."""

    addends: ext.Operand[AddendsType]
    accumulator: ext.Operand[FragmentType]


class EnlargeOp(Op, name="enlarge"):
    """Multiplies sums by 2^`exponent`, as of products of elements that were made that much smaller."""

    accumulator: ext.Operand[FragmentType]
    exponent: Count


class FetchBytesOp(Op, name="fetch_bytes"):
    """Loads into `into`, a room for them, the scales of a byte of `count` rows at K element k0, while k0 < k; else 0,
    with `ones`, the scales' type, 1, or with `keeps` what is there.

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
    row_block: Count
    block: Count
    layout: ir.StringAttr
    axis: Axis
    own: Natural
    spacing: Natural

    def verify_invariants(op: ir.OpView) -> None:
        room = maker(op.into, "tile.scalars")
        if room is not None and element_in(room) not in WIDENED:
            refuse(f"loads bytes into room for {element_in(room)}")
        if str_of(op.layout) not in WORD_LAYOUTS:
            refuse(f"layout is {op.layout}, expected {', '.join(WORD_LAYOUTS)}")
        if not isinstance(op.source.type, ir.MemRefType):
            refuse(f"reads scales from {op.source.type}, expected a memref")
        fetches(op)
