"""The op of `tile` that copies scales from one layout to another."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.formats import ELEMENT_TYPES, LAYOUTS, QUANTISED
from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op
from scalec.ir.tile_pointwise import SCALES
from scalec.ir.tile_types import I32, str_of
from scalec.ir.verify import Count, Flag, refuse


class CopyScalesOp(Op, name="copy_scales"):
    """Copies the scales of `columns` adjacent columns of a row; all of them are there.

    `begin` says where they are read: the row, the first column, and how many columns there are; `end` where they are
    written. They are of type `scale` in the layout `layout`, and become `to` in `to_layout`; strides are as those of
    `tile.quantize`. Of one type bits are copied; else a number that `to` has not is NaN. `padding` 1: behind the last
    one zeros fill up its word of four. Of a multiple of four columns from such a multiple on words are whole.
    """

    source: ext.Operand[Any]
    source_stride: ext.Operand[ir.IntegerType[64]]
    target: ext.Operand[Any]
    target_stride: ext.Operand[ir.IntegerType[64]]
    begin: Sequence[ext.Operand[I32]]
    end: Sequence[ext.Operand[I32]]
    columns: Count
    scale: ir.StringAttr
    layout: ir.StringAttr
    to: ir.StringAttr
    to_layout: ir.StringAttr
    padding: Flag

    def verify_invariants(op: ir.OpView) -> None:
        if len(op.begin) != 3 or len(op.end) != 3:
            refuse(f"begins at {len(op.begin)} numbers, and ends at {len(op.end)}, expected a row, a column, columns")
        ends = ((op.source, op.scale, op.layout, SCALES), (op.target, op.to, op.to_layout, QUANTISED))
        for memory, scale, layout, known in ends:
            if not isinstance(memory.type, ir.MemRefType):
                refuse(f"reads or writes {memory.type}, expected a memref")
            if str_of(layout) not in LAYOUTS or str_of(scale) not in known:
                refuse(f"scales are {scale} in the layout {layout}, expected {', '.join(known)}")
            if str_of(layout) in ("packed", "blocked") and ELEMENT_TYPES[str_of(scale)].bits > 8:
                refuse(f"{str_of(layout)} scales are {scale}, expected a type of 8 bits")
