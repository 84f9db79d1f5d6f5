"""Ops of `tile` that bring the sums of parts of K together."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, memory_of, takes
from scalec.ir.tile_types import *
from scalec.ir.verify import Few, Natural, Several, refuse


class SumPartsOp(Op, name="sum_parts"):
    """accumulator = the sum of those of all `split` parts of tile `number`, of which this CTA has worked on `part`.

    The parts meet in memory: each CTA stores its sums in `parts`, then counts itself in the tile's counter. The one
    that is the last adds those of parts 0, 1, ... in this order, whichever came first, and leaves the counter at 0;
    there the result is 1. Elsewhere it is 0, and the accumulator means nothing. Of more than abi.ALONE parts
    meetings.FAN_IN meet at a time, in the order of their numbers too, and their sum is a part of the next step, with
    counters of its own. `whole`, an optional unit attribute here and of the other ops that add: sums are i32.
    """

    accumulator: ext.Operand[FragmentType]
    parts: ext.Operand[Any]
    counters: ext.Operand[Any]
    part: ext.Operand[I32]
    number: ext.Operand[I32]
    result: ext.Result[I1]
    split: Several

    def verify_invariants(op: ir.OpView) -> None:
        memory_of(op, "parts", "f32")
        memory_of(op, "counters", "i32")


class BeginPartOp(Op, name="begin_part"):
    """Counts this CTA among those that have begun a part of tile `number`: `tile.add_columns` asks how many have."""

    counters: ext.Operand[Any]
    number: ext.Operand[I32]

    verify_invariants = staticmethod(lambda op: memory_of(op, "counters", "i32"))


class AddColumnsOp(Op, name="add_columns", traits=[ir.NoTerminatorTrait]):
    """columns = the sum of those of all `split` parts of tile `number`, of which this CTA has worked on `part`; then
    body(column): `columns` has the tile's from `column` on.

    Each CTA stores its sums in `parts`, and counts itself in the tile's counter. If all have begun their parts by then,
    it waits for theirs, and adds some columns of all parts, in the order of the parts; each CTA has others. Who finds
    that some have not begun does not wait, as these may need its SM: then the last to come adds all columns. Behind
    that the counter is 0 again.
    """

    accumulator: ext.Operand[FragmentType]
    columns: ext.Operand[FragmentType]
    parts: ext.Operand[Any]
    counters: ext.Operand[Any]
    part: ext.Operand[I32]
    number: ext.Operand[I32]
    split: Several
    body: ext.Region

    def verify_region_invariants(op: ir.OpView) -> None:
        memory_of(op, "parts", "f32")
        memory_of(op, "counters", "i32")
        (rows, whole), (own, some) = shape_of(op.accumulator.type), shape_of(op.columns.type)
        if rows != own or whole % some:
            refuse(f"columns are [{own}, {some}] of sums of [{rows}, {whole}], expected equal parts of these")
        takes(op, [ir.IntegerType.get_signless(32)])


class SumInClusterOp(Op, name="sum_in_cluster"):
    """accumulator = the sum of those of the `split` CTAs of this cluster that have the parts of a tile: of which this
    CTA has `part`.

    A unit's sums (a warpgroup's or warp's) meet in the shared memory of the CTA with part 0; with `owners` 2 those of
    every other unit in that of the one with part 1. The others store theirs in its `sums`, which has room for all that
    come, and complete its ring's full barrier by their bytes. There the unit waits, adds the sums of parts 0, 1, ... in
    this order, and goes on with result 1. The others only wait until sums of the tile before have been read; with them
    the result is 0, and the accumulator stays. The cursor moves on.
    """

    accumulator: ext.Operand[FragmentType]
    sums: ext.Operand[SharedType]
    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    part: ext.Operand[I32]
    result: ext.Result[I1]
    split: Several
    owners: Few

    def verify_invariants(op: ir.OpView) -> None:
        parent = op.operation.parent
        if parent is None or parent.name != "tile.tiles" or int_of(parent.opview.split) != int_of(op.split):
            refuse(f"is not in the body of a tile.tiles of {int_of(op.split)} parts")
        (rooms, room), element, others = shape_of(op.sums.type), element_of(op.sums.type), int_of(op.split) - 1
        if not isinstance(element, ir.F32Type) or rooms % others:
            refuse(f"sums are [{rooms}, {room}] of {element}, expected f32 of units of {others} parts")


def _piece(op: ir.OpView) -> None:
    if int_of(op.piece) >= int_of(op.pieces):
        refuse(f"piece {int_of(op.piece)} of {int_of(op.pieces)}")
    memory_of(op, "parts", "f32")


class StorePartOp(Op, name="store_part"):
    """Stores a CTA's sums of `part` of tile `number`: `piece` of the `pieces` that a tile's sums come in, some columns
    each. What `sum_parts` does at once, where no fragment has all sums, or a part has several: then `last_part`, and
    there `add_parts`."""

    accumulator: ext.Operand[FragmentType]
    parts: ext.Operand[Any]
    part: ext.Operand[I32]
    number: ext.Operand[I32]
    split: Several
    piece: Natural
    pieces: ir.IntegerAttr

    verify_invariants = staticmethod(_piece)


class LastPartOp(Op, name="last_part"):
    """All consumers have stored their sums of tile `number`; whether all other parts of it have been, before."""

    counters: ext.Operand[Any]
    number: ext.Operand[I32]
    result: ext.Result[I1]
    split: Several

    verify_invariants = staticmethod(lambda op: memory_of(op, "counters", "i32"))


class AddPartsOp(Op, name="add_parts"):
    """accumulator = the sum of a piece of all `split` parts of tile `number`, in their order; the last CTA does so.

    `some`, optional: the first of these parts and the one behind the last, where these alone are added. `adds`,
    optional: to what the accumulator has.
    """

    accumulator: ext.Operand[FragmentType]
    parts: ext.Operand[Any]
    number: ext.Operand[I32]
    split: Several
    piece: Natural
    pieces: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        _piece(op)
        if "some" not in op.operation.attributes:
            return
        low, high = ints_of(op.operation.attributes["some"])
        if not 0 <= low < high <= int_of(op.split):
            refuse(f"adds parts {low} to {high} of {int_of(op.split)}")
