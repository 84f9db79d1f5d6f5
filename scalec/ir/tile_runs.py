"""Ops of `tile` for runs of tiles of the same columns: one tile's products are on their way before the results of the
one before are computed, and the columns' operand stays in shared memory."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, extents, in_step, takes
from scalec.ir.tile_fold_columns import two_bounds
from scalec.ir.tile_types import I32, CursorType, InputType, RingType, SharedType
from scalec.ir.verify import Count, refuse


class ReachedOp(Op, name="reached"):
    """Of the tiles of a run, which begin at rows `first`, `first` + `tile` rows of the cluster, ... below `end`: where
    those begin, and end, for which `tile.reaches` holds. They follow each other, as a window is one range of rows.

    The other operands and attributes are those of `tile.reaches`.
    """

    low: ext.Result[I32]
    high: ext.Result[I32]
    first: ext.Operand[I32]
    end: ext.Operand[I32]
    n0: ext.Operand[I32]
    n: ext.Operand[I32]
    bounds: Sequence[ext.Operand[InputType]]
    tile: Any
    cluster: Any

    def verify_invariants(op: ir.OpView) -> None:
        extents(op, "tile", "cluster")
        two_bounds(op)


class RunTilesOp(Op, name="run_tiles", traits=[ir.NoTerminatorTrait]):
    """Walks the tiles of a run: body(m0, *begun) for m0 = `first`, `first` + `step`, ... below `end`.

    `ahead`, a region that may be empty: ahead(m0) begins the tile at m0: the first tile before the loop, where there is
    one, each further tile where the body of the one before has its `tile.ahead`. It ends in a `tile.begun` of what it
    has read, which the body takes when that tile's turn comes. `settled`, a region that is there where `ahead` is,
    stands in front of each body: at the end of the one before, in front of the loop's branch.
    """

    first: ext.Operand[I32]
    end: ext.Operand[I32]
    step: Count
    body: ext.Region
    ahead: ext.Region
    settled: ext.Region

    def verify_region_invariants(op: ir.OpView) -> None:
        i32, ahead = ir.IntegerType.get_signless(32), list(op.ahead.blocks)
        begun = [begun_of(block) for block in ahead]
        if ahead and ([a.type for a in ahead[0].arguments] != [i32] or begun[0] is None):
            refuse("ahead takes the first row of a tile, and ends in tile.begun")
        settled = len(list(op.settled.blocks))
        if settled != len(ahead):
            refuse(f"{settled} regions `settled`, expected {len(ahead)}: as many as `ahead`")
        marks = sum(o.operation.name == "tile.ahead" for o in op.body.blocks[0].operations)
        if marks != len(ahead):
            refuse(f"body has {marks} tile.ahead, expected {len(ahead)}")
        takes(op, [i32, *(v.type for values in begun for v in values or ())])


def begun_of(block: ir.Block) -> list[ir.Value] | None:
    """What the `tile.begun` at a block's end has; None where it ends in another op."""
    last = block.operations[len(block.operations) - 1].operation
    return list(last.operands) if last.name == "tile.begun" else None


class BegunOp(Op, name="begun"):
    """Ends `ahead` of `tile.run_tiles`."""

    values: Sequence[ext.Operand[InputType]]


class AheadOp(Op, name="ahead"):
    """Where the next tile of the `tile.run_tiles` around begins, if one follows."""


class BehindOp(Op, name="behind"):
    """What a `tile.fold_columns` begins with whose terms are to be added up behind this, not before: -0, which is known
    when somebody has looked whether the stage at the cursor is full."""

    result: ext.Result[InputType]
    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]


class SlotOp(Op, name="slot"):
    """The tile in the stage that a cursor is at, for products with any stage of another."""

    result: ext.Result[SharedType]
    tile: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]

    def verify_invariants(op: ir.OpView) -> None:
        if op.result.type != op.tile.type:
            refuse(f"makes {op.result.type} of {op.tile.type}, expected the same")
        in_step(op, None, op.tile)
