"""Ops of `tile` for a K block of A whose elements, times their scales of a power of two, are multiplied as they are
times a power of two that all of the block has in common."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, in_step
from scalec.ir.tile_copies import WIDENED
from scalec.ir.tile_scales import of_words
from scalec.ir.tile_types import *
from scalec.ir.verify import Count, refuse

REACH = 11
"""The power of two that the largest scale of a block may be times the least one: an e2m1 that is not 0 has exponents
from -1 to 2, and an e4m3 normal ones from -6 to 8."""

COMMON_POWERS = (0x74, 0x7F)
"""The ue8m0, 2^-11 to 1, of which warps that bring scales say no more: as those of weights mostly are."""


class SeenPowersOp(Op, name="seen_powers"):
    """The largest scale and the least one in the cursor's stage of words that `warps` warps stored
    (`tile.store_factors`), each half a word: of the largest a ue8m0's byte, more than that where one is NaN, and of the
    least 255 less its byte."""

    source: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    result: ext.Result[PowersType]
    warps: Count

    def verify_invariants(op: ir.OpView) -> None:
        of_words(op)
        in_step(op, None, op.source)


class InReachOp(Op, name="in_reach"):
    """Whether these are at most REACH powers of two apart, and none is NaN: elements may then be made of all."""

    powers: ext.Operand[PowersType]
    result: ext.Result[I1]


class PowerFactorsOp(Op, name="power_factors"):
    """By what sums of such elements are promoted; 1 where no powers are given."""

    powers: ext.Operand[PowersType] | None
    result: ext.Result[ScalesType]


class MultiplyRowsOp(Op, name="multiply_rows"):
    """Multiplies sums of a wave, in registers of a warpgroup, by factors of its rows."""

    partial: ext.Operand[FragmentType]
    factors: ext.Operand[ScalesType]


class WordFactorsOp(Op, name="word_factors"):
    """Factors of the rows of a wave, the scales of type `element` that are byte `byte` of each row's words."""

    source: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    result: ext.Result[ScalesType]
    element: ir.StringAttr
    byte: ir.IntegerAttr
    wave: ir.IntegerAttr
    waves: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        of_words(op)
        if str_of(op.element) not in WIDENED:
            refuse(f"reads {op.element}, expected words of {' or '.join(WIDENED)}")
        planes, waves = shape_of(op.source.type)[0], int_of(op.waves)
        if not 0 <= int_of(op.byte) < 4 * (planes - 1) or not 0 <= int_of(op.wave) < waves:
            refuse(f"reads byte {int_of(op.byte)}, wave {int_of(op.wave)} of {waves}, in {op.source.type}")
        in_step(op, None, op.source)
