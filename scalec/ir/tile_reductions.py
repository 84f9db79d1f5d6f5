"""Ops of `tile` that reduce a tile along its rows or columns, and bring the partial results of all tiles together."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from math import prod
from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, computes, into_memory, memory_of
from scalec.ir.tile_types import *
from scalec.ir.verify import Count, Flag, Meeting, Natural, refuse
from scalec.meetings import numbers_of


class TotalsOp(Op, name="totals"):
    """Registers for what a thread has of each of its `rows`, as a reduction of nothing: 0, or an infinity. Of `sum_exp`
    they are two for each row, as everywhere where one number is another kind's: the largest, and the sum beside it."""

    result: ext.Result[TotalsType]
    kind: Meeting
    rows: Count


class ReduceColumnsOp(Op, name="reduce_columns"):
    """totals = a reduction of these and of a thread's columns of each row, in order: of those within n that `skips`
    name, where not all are (`ragged` 1)."""

    accumulator: ext.Operand[FragmentType]
    totals: ext.Operand[TotalsType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    skips: Sequence[ext.Operand[RowIndexType]]
    kind: Meeting
    ragged: Flag


class StoreTotalsOp(Op, name="store_totals"):
    """Reduces totals across the lanes that share a row, and stores each row's: as those of tile `number`.

    A tile has `words` f32 in `partials`: for each unit that has columns of its own, `extent` of a reduction from
    `offset` on, one a row; of `sum_exp` `extent` of the largest, then as many of the sums.
    """

    totals: ext.Operand[TotalsType]
    partials: ext.Operand[Any]
    number: ext.Operand[I32]
    kind: Meeting
    words: Count
    offset: Natural
    extent: Count

    verify_invariants = staticmethod(lambda op: _place(op))


class ReduceRowsOp(Op, name="reduce_rows"):
    """Reduces each column of an accumulator over a warp's rows, those within m that `skips` name where not all are
    (`ragged` 1), and stores it: as those of tile `number`, in `partials` as `store_totals` has it, for each warp with
    rows of its own.

    The accumulator's first column is the tile's from `column` on.
    """

    accumulator: ext.Operand[FragmentType]
    partials: ext.Operand[Any]
    number: ext.Operand[I32]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    skips: Sequence[ext.Operand[RowIndexType]]
    kind: Meeting
    ragged: Flag
    column: Natural
    words: Count
    offset: Natural
    extent: Count

    def verify_invariants(op: ir.OpView) -> None:
        _place(op)


class LeaveTotalsOp(Op, name="leave_totals"):
    """Reduces totals across the lanes that share a row, and leaves each row's in shared memory: in `room`, for each
    unit that has columns of its own, `extent` f32 from `offset` on, one a row."""

    totals: ext.Operand[TotalsType]
    room: ext.Operand[SharedType]
    kind: Meeting
    offset: ir.IntegerAttr
    extent: ir.IntegerAttr

    verify_invariants = staticmethod(lambda op: _in_room(op, int_of(op.offset), _of_slot(op)))


class LeaveRowsOp(Op, name="leave_rows"):
    """Reduces each column of an accumulator as `reduce_rows` does, and leaves it in shared memory, as `leave_totals`
    does: for each warp with rows of its own."""

    accumulator: ext.Operand[FragmentType]
    room: ext.Operand[SharedType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    skips: Sequence[ext.Operand[RowIndexType]]
    kind: Meeting
    ragged: Flag
    column: Natural
    offset: ir.IntegerAttr
    extent: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        _in_room(op, int_of(op.offset), _of_slot(op))


class StoreLeftOp(Op, name="store_left"):
    """Reduces what warps have left in `room`, from `left` on `extent` f32 of each of `slots`, one slot after the other,
    and stores it as that of tile `number`, in `partials` as `store_totals` has it. The consumers of a tile do this
    together, or with `alone` 1 the warp that is here."""

    room: ext.Operand[SharedType]
    partials: ext.Operand[Any]
    number: ext.Operand[I32]
    kind: Meeting
    left: ir.IntegerAttr
    slots: Count
    words: Count
    offset: Natural
    extent: Count
    alone: Flag

    def verify_invariants(op: ir.OpView) -> None:
        _place(op)
        _in_room(op, int_of(op.left), int_of(op.slots) * _of_slot(op))


class LastTileOp(Op, name="last_tile"):
    """All consumers of a tile have stored what they have of it; whether those of all `count` tiles with counter
    `number` have, before. The counter is 0 then. With `alone` 1 the warp that is here has stored all that is counted.
    """

    counters: ext.Operand[Any]
    number: ext.Operand[I32]
    count: ext.Operand[I32]
    result: ext.Result[I1]
    alone: Flag

    verify_invariants = staticmethod(lambda op: memory_of(op, "counters", "i32"))


class MeetOp(Op, name="meet"):
    """All consumers of a tile meet: what they have left in shared memory each may read."""


def _of_slot(op: ir.OpView) -> int:
    """f32 of a slot: of each row, or column, as many numbers as the kind of reduction has."""
    return int_of(op.extent) * numbers_of(str_of(op.kind))


def _place(op: ir.OpView) -> None:
    """Refuses partial results that are not within a tile's."""
    end = int_of(op.offset) + _of_slot(op)
    if end > int_of(op.words):
        refuse(f"partial results up to {end} of {int_of(op.words)} words of a tile")
    memory_of(op, "partials", "f32")


class JoinSectionOp(Op, name="join_section"):
    """What `count` tiles have, number `first` and those each `step` on, with `slots` partial results each, is reduced
    in an order that their numbers alone give, and becomes what the first of them has, in one slot. The consumers of a
    tile do this together, or with `alone` 1 the warp that is here."""

    partials: ext.Operand[Any]
    first: ext.Operand[I32]
    step: ext.Operand[I32]
    count: ext.Operand[I32]
    kind: Meeting
    slots: Count
    words: Count
    offset: Natural
    extent: Count
    alone: Flag

    verify_invariants = staticmethod(_place)


class FinishReductionOp(Op, name="finish_reduction"):
    """targets[i * strides] = body(the reduction of what `count` tiles have for i), for i from `start` up to `end`.

    The tiles are number `first` and those each `step` on, with `slots` partial results each, in `partials` as
    `store_totals` has it; they are taken in an order that their numbers alone give. At most `extent` results. The
    consumers of a tile do this together, or with `alone` 1 the warp that is here. An i that one of `skips` names
    nothing for, or of two `bounds` below the first, or not below the second, is `otherwise`, an optional f32 attribute;
    without it nothing is stored there. With a `width` an i is counted from the first bound on, where that is not below
    0, and stored below the width. The body yields an f32 for each target (`tile.yield`); of `sum_exp` it
    takes the sum and the largest.
    """

    partials: ext.Operand[Any]
    first: ext.Operand[I32]
    step: ext.Operand[I32]
    count: ext.Operand[I32]
    targets: Sequence[ext.Operand[Any]]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    start: ext.Operand[I32]
    end: ext.Operand[I32]
    skips: Sequence[ext.Operand[RowIndexType]]
    bounds: Sequence[ext.Operand[I32]]
    width: Sequence[ext.Operand[I32]]
    kind: Meeting
    slots: Count
    words: Count
    offset: Natural
    extent: Count
    alone: Flag
    body: ext.Region

    def verify_region_invariants(op: ir.OpView) -> None:
        for target in op.targets:
            into_memory(op, target)
        if not len(op.targets) or len(op.targets) != len(op.strides):
            refuse(f"{len(op.targets)} targets with {len(op.strides)} strides, expected one each")
        _place(op)
        if len(op.bounds) not in (0, 2) or len(op.width) > len(op.bounds) // 2:
            refuse(f"{len(op.bounds)} bounds and {len(op.width)} widths, expected two with a width, or none")
        computes(op, numbers_of(str_of(op.kind)), len(op.targets))


def _in_room(op: ir.OpView, offset: int, extent: int) -> None:
    """Refuses partial results that are not within the shared memory for them."""
    kind = op.room.type
    if str(element_of(kind)) != "f32":
        refuse(f"leaves f32 in {kind}")
    if offset < 0 or extent < 1 or offset + extent > prod(shape_of(kind)):
        refuse(f"leaves f32 {offset} to {offset + extent} of {prod(shape_of(kind))}")
