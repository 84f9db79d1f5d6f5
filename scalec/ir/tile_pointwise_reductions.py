"""Ops of `tile` that reduce columns of programs without a contraction, in a thread or over all that share them."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op
from scalec.ir.tile_pointwise import LANES, ColumnsType
from scalec.ir.tile_types import I1, I32, int_of
from scalec.ir.verify import Reduction, refuse

MOST_THREADS = 1024
"""Of a CTA."""


class Folded(ir.StringAttr):
    """A reduction, or the largest magnitude."""

    able, expected = (*Reduction.able, "absmax"), f"{Reduction.expected}, absmax"


class RunningOp(Op, name="running"):
    """Registers for a reduction of this `kind`, which has no terms yet: 0 for sum, and for absmax, the largest
    magnitude, -inf for max, inf for min."""

    result: ext.Result[ColumnsType]
    kind: Folded


class TermOp(Op, name="term"):
    """Takes a term into a reduction of this `kind`, in f32 and in program order, where it is `valid`."""

    sums: ext.Operand[ColumnsType]
    value: ext.Operand[ColumnsType]
    valid: ext.Operand[I1]
    kind: Folded

    def verify_invariants(op: ir.OpView) -> None:
        same = op.sums.type == op.value.type
        if not same:
            refuse(f"takes {op.value.type} into {op.sums.type}, expected one type")


class CountedOp(Op, name="counted"):
    """The columns, from number `count` on what a reduction of this `kind` begins with."""

    value: ext.Operand[ColumnsType]
    count: ext.Operand[I32]
    result: ext.Result[ColumnsType]
    kind: Folded

    def verify_invariants(op: ir.OpView) -> None:
        same = op.result.type == op.value.type
        if not same:
            refuse(f"makes {op.result.type} of {op.value.type}, expected one type")


def _shared(op: ir.OpView) -> None:
    sharing, exchange = int_of(op.sharing), int_of(op.exchange)
    if not len(op.values):
        refuse("reduces no values, expected one at least")
    if not 0 <= sharing < MOST_THREADS or (sharing >= LANES) == (exchange < 0):
        refuse(f"sharing {sharing} and exchange {exchange}, expected bits of threads, and -1 within a warp")


class ReduceLanesOp(Op, name="reduce_lanes"):
    """A reduction of this `kind`, in f32, of all columns of all values of all threads that share it: those whose
    numbers in the CTA differ in bits of `sharing` alone. Each of them has it, the same bits.

    All threads of the CTA come here. `exchange`: where in shared memory each thread has an f32, as those that share it
    lie in several warps; -1 where they do not. `fresh`, an optional unit attribute: no thread reads there any more.
    """

    values: Sequence[ext.Operand[ColumnsType]]
    result: ext.Result[ir.F32Type]
    kind: Folded
    sharing: ir.IntegerAttr
    exchange: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        _shared(op)


class ReduceEachOp(Op, name="reduce_each"):
    """A reduction like `tile.reduce_lanes`, of each column by itself: of all values of all threads that share it.
    `exchange`: where each thread has an f32 for each column."""

    values: Sequence[ext.Operand[ColumnsType]]
    result: ext.Result[ColumnsType]
    kind: Folded
    sharing: ir.IntegerAttr
    exchange: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        if any(x.type != op.result.type for x in op.values):
            refuse(f"reduces other columns than {op.result.type}")
        _shared(op)


class SomeOp(Op, name="some"):
    """Whether any of the values of all threads that share it holds, as `tile.reduce_lanes` has them."""

    values: Sequence[ext.Operand[I1]]
    result: ext.Result[I1]
    sharing: ir.IntegerAttr
    exchange: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        _shared(op)
