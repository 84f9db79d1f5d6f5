"""Ops of `tile` that reduce adjacent columns of a tile, and store what lies within a window."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, computes, extents, into_memory, maker
from scalec.ir.tile_types import I1, I32, FragmentType, InputType, RowIndexType, int_of, shape_of, str_of
from scalec.ir.verify import Axis, Reduction, refuse


def folded_columns(columns: int, size: int) -> int:
    """Columns of an accumulator that has one for each `size` of another's: whole eights."""
    return -(-columns // (8 * size)) * 8


class FoldColumnsOp(Op, name="fold_columns"):
    """result[row, i] = the sum, or largest or smallest (`kind`), over c in i * size .. (i + 1) * size - 1 of
    body(accumulator[row, c], inputs...), which yields f32 (`tile.yield`). The accumulator stays as it is.

    `factors` are inputs of kind "row" that the accumulator is multiplied by first. Where there are some, the body of x
    times a positive number is the body of x times that number: the factors may then be multiplied to the result
    instead. (m0, n0) and (m, n) are as those of `tile.epilogue`, and so is `piecewise`.

    The result is an accumulator of whole eights of columns, of which those that the accumulator has blocks for mean
    something; where a tile is several units wide, the first of the next unit follows them. The terms are added in an
    order that the type decides, and whether a queue deals tiles out. `sure`, where given, says that no term without the
    factors is infinite, nor their sum: the factors alone decide what is computed. `start`, where given, is what a sum
    begins with, -0. `apart`, an optional unit attribute: lanes that share a row keep what each has, for
    `tile.join_folds`.
    """

    result: ext.Result[FragmentType]
    accumulator: ext.Operand[FragmentType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    inputs: Sequence[ext.Operand[InputType]]
    factors: Sequence[ext.Operand[InputType]]
    start: ext.Operand[InputType] | None
    sure: ext.Operand[I1] | None
    kind: Reduction
    size: ir.IntegerAttr
    body: ext.Region

    def verify_invariants(op: ir.OpView) -> None:
        (rows, columns), size = shape_of(op.accumulator.type), int_of(op.size)
        if size < 8 or size % 8 or columns % size:
            refuse(f"folds {size} of {columns} columns, expected a multiple of 8 that divides them")
        wanted = [rows, folded_columns(columns, size)]
        if list(shape_of(op.result.type)) != wanted or op.result.type.space != op.accumulator.type.space:
            refuse(f"makes {op.result.type}, expected an accumulator of {wanted} in the same space")
        if str_of(op.result.type.space) == "lane" and "apart" not in op.operation.attributes:
            refuse("a lane has a whole row: there is nothing to exchange, expected `apart`")
        for made in (maker(x, "tile.input") for x in op.factors):
            if made is not None and str_of(made.kind) != "row":
                refuse(f"a factor of kind {made.kind}, expected row")

    def verify_region_invariants(op: ir.OpView) -> None:
        computes(op, 1 + len(op.inputs))


class JoinFoldsOp(Op, name="join_folds"):
    """result = what `tile.fold_columns` that are `apart` make of the columns of one tile, all side by side: what the
    lanes of a row have becomes the row's. Where these are at most four columns, lane q of the four that share a row has
    column q alone; of accumulators whose lanes have a row each ("lane") each has all columns of its own.
    """

    result: ext.Result[FragmentType]
    shares: Sequence[ext.Operand[FragmentType]]
    kind: Reduction


class AtMostOp(Op, name="at_most"):
    """Whether all that a warp has read of an input (`tile.read_ahead`) has a magnitude of at most `limit`, an f32."""

    result: ext.Result[I1]
    input: ext.Operand[InputType]
    limit: ir.FloatAttr


class ReadAheadOp(Op, name="read_ahead"):
    """result = what a thread needs of an input of kind "row" or "col" at its places of the accumulator, which is that
    of the tile at (m0, n0) within (m, n), read here: products may be on their way until it is used.

    `size`: columns that are within or beyond the end together. `folded`, an optional unit attribute: the accumulator is
    what `tile.fold_columns` of so many columns makes of this one, and n0 and n count its columns; with `joined`, a
    unit attribute, what `tile.join_folds` does.
    """

    result: ext.Result[InputType]
    input: ext.Operand[InputType]
    accumulator: ext.Operand[FragmentType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    size: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        made, size, columns = maker(op.input, "tile.input"), int_of(op.size), shape_of(op.accumulator.type)[1]
        if made is not None and str_of(made.kind) not in ("row", "col"):
            refuse(f"an input of kind {made.kind}, expected row or col")
        if size < 8 or size % 8 or columns % size:
            refuse(f"{size} of {columns} columns together, expected a multiple of 8 that divides them")


class ReachesOp(Op, name="reaches"):
    """Whether any of the tiles of the cluster that has the one at (m0, n0) has rows within the window of one of its
    columns: `tile` rows and columns each, of which the last are below `n`.

    `bounds` are inputs of i32 of kind "col" or "scalar", the lower one first; for an end that is a number there is an
    integer attribute, `low` or `high`, in place of its input. All CTAs of a cluster find the same.
    """

    result: ext.Result[ir.IntegerType[1]]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    n: ext.Operand[I32]
    bounds: Sequence[ext.Operand[InputType]]
    tile: Any
    cluster: Any

    def verify_invariants(op: ir.OpView) -> None:
        for made in (maker(x, f"tile.{name}") for x in op.bounds for name in ("input", "index_input")):
            if made is not None and str_of(made.kind) not in ("col", "scalar"):
                refuse(f"a bound of kind {made.kind}, expected col or scalar")
        extents(op, "tile", "cluster")
        two_bounds(op)


def two_bounds(op: ir.OpView) -> None:
    """Refuses a window that has not two ends."""
    numbers = sum(name in op.operation.attributes for name in ("low", "high"))
    if len(op.bounds) + numbers != 2:
        refuse(f"{len(op.bounds)} bounds that are read and {numbers} numbers, expected two in all")


class StoreWithinOp(Op, name="store_within"):
    """Rounds the accumulator and stores it from registers, within (m, n), as `tile.store_direct`: those elements whose
    row (`along` "m"), or column ("n"), is at least `low` and below `high`. The others are `otherwise`, an optional f32
    attribute; without it nothing is stored there.

    `bounds` are inputs of i32, the lower one first; for an end that is a number there is an integer attribute, `low` or
    `high`, in place of its input. Rows, or columns, for which one of `names` names nothing lie outside too.

    With a `width` the index `along` is counted from `low` on, where that is not below 0, and stored below the width.

    `known` (optional): columns and bounds are those of all tiles of a run, and in registers (`tile.read_ahead`).
    """

    accumulator: ext.Operand[FragmentType]
    target: ext.Operand[Any]
    row_stride: ext.Operand[ir.IntegerType[64]]
    column_stride: ext.Operand[ir.IntegerType[64]]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    bounds: Sequence[ext.Operand[InputType]]
    names: Sequence[ext.Operand[RowIndexType]]
    width: Sequence[ext.Operand[I32]]
    along: Axis

    def verify_invariants(op: ir.OpView) -> None:
        into_memory(op)
        attributes, more = op.operation.attributes, len(op.names) + len(op.width)
        if "known" in attributes and (
            str_of(op.along) != "m" or more or not len(op.bounds) or "otherwise" in attributes
        ):
            refuse("known columns, expected bounds along m that are read, and nothing else to decide")
        two_bounds(op)
