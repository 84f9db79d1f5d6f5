"""Panes: tiles of several contractions side by side, of which elementwise bodies read each."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op
from scalec.ir.tile_types import (
    FragmentType,
    InputType,
    SharedType,
    bits_of,
    element_of,
    int_of,
    shape_of,
    swizzle_of,
    wave_rows,
)
from scalec.ir.verify import Flag, refuse


class StripOp(Op, name="strip"):
    """Rows of a shared tile from row `first` on, or with `axis` 1 columns from column `first` on, as a tile of its own
    with the same stages: what one copy brings, where several fill a tile.

    Rows are whole: a tile of one panel, or without a swizzle. Columns are whole panels, or of a tile of one row.
    """

    result: ext.Result[SharedType]
    tile: ext.Operand[SharedType]
    first: ir.IntegerAttr
    axis: Flag

    def verify_invariants(op: ir.OpView) -> None:
        first, axis = int_of(op.first), int_of(op.axis)
        whole, mine = shape_of(op.tile.type), shape_of(op.result.type)
        if mine[1 - axis] != whole[1 - axis] or not 0 <= first <= whole[axis] - mine[axis]:
            refuse(f"{list(mine)} from {first} along axis {axis} are not within a tile of {list(whole)}")
        kinds = [(element_of(t), swizzle_of(t), int_of(t.stages)) for t in (op.tile.type, op.result.type)]
        if kinds[0] != kinds[1]:
            refuse("element, swizzle or stages of a strip are not those of its tile")
        swizzle, bits = swizzle_of(op.tile.type), bits_of(element_of(op.tile.type))
        if axis == 0 and swizzle and whole[1] * bits != 8 * swizzle:
            refuse(f"rows of a tile of {list(whole)}, which is several panels of {swizzle} bytes")
        unit = 8 * swizzle // bits if swizzle else 1
        if axis == 1 and (first % unit or mine[1] % unit or (not swizzle and whole[0] != 1)):
            refuse(f"columns {first} to {first + mine[1]} are no whole panels of {list(whole)}")


class PaneOp(Op, name="pane"):
    """Columns of an accumulator from column `first` on, as one of its own: the sums of one contraction."""

    result: ext.Result[FragmentType]
    accumulator: ext.Operand[FragmentType]
    first: ir.IntegerAttr

    verify_invariants = staticmethod(lambda op: _within(op))


def _within(op: ir.OpView) -> None:
    """Refuses columns that an accumulator has not."""
    first, whole, mine = (
        int_of(op.operation.attributes["first"]),
        shape_of(op.accumulator.type),
        shape_of(op.result.type),
    )
    within = mine[0] == whole[0] and 0 <= first <= whole[1] - mine[1]
    if not within or first % 8 or mine[1] % 8 or op.result.type.space != op.accumulator.type.space:
        refuse(f"{list(mine)} from column {first} of an accumulator of {list(whole)}, expected eights")


class GoOp(Op, name="go"):
    """Likewise, of columns that are multiplied by themselves. With an optional integer `wave` instead of `first`, all
    columns of that wave: the sums of a tile of as many rows as one instruction of each warp along M has.
    """

    result: ext.Result[FragmentType]
    accumulator: ext.Operand[FragmentType]

    def verify_invariants(op: ir.OpView) -> None:
        attributes = op.operation.attributes
        if "wave" not in attributes:
            if "first" not in attributes:
                refuse("neither first nor wave")
            _within(op)
            return
        whole, kind, wave = shape_of(op.accumulator.type), op.result.type, int_of(attributes["wave"])
        rows = wave_rows(kind)
        if list(shape_of(kind)) != [rows, whole[1]] or kind.space != op.accumulator.type.space:
            refuse(f"makes {kind}, expected [{rows}, {whole[1]}] in the accumulator's space")
        if not 0 <= wave < whole[0] // rows:
            refuse(f"wave {wave} of {whole[0]} rows")


class InputSumsOp(Op, name="input_sums"):
    """What an elementwise body reads of another accumulator: its element at the same row and column."""

    result: ext.Result[InputType]
    accumulator: ext.Operand[FragmentType]
