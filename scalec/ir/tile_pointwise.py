"""Ops of `tile` for programs without a contraction: some adjacent columns of a row in a thread's registers."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import at_least
from scalec.ir.tile_types import I1, I32, Tile
from scalec.ir.verify import fail, verifier


class ColumnsType(Tile.Type, name="columns"):
    """`count` f32 of adjacent columns of a row, in registers of a thread."""

    count: Any


class PointOp(Tile.Operation, name="point"):
    """A thread's row and first column of the tile at (m0, n0), whose `columns` it shares with those that have `vector`
    each, and whether the row is below m and the column below n."""

    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    row: ext.Result[I32]
    column: ext.Result[I32]
    inside: ext.Result[I1]
    columns: ir.IntegerAttr
    vector: ir.IntegerAttr


class AlignedOp(Tile.Operation, name="aligned"):
    """Whether memory, and all that strides lead to, begins at multiples of `bytes`."""

    source: ext.Operand[Any]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    result: ext.Result[I1]
    bytes: ir.IntegerAttr


class LoadColumnsOp(Tile.Operation, name="load_columns"):
    """Elements of memory, as f32: at so many indices, each with the stride of its axis, and where `along` is 1 at
    adjacent ones behind that, `together` in one load; else one element, for all columns. Zeros unless `valid`."""

    source: ext.Operand[Any]
    at: Sequence[ext.Operand[I32]]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    valid: ext.Operand[I1]
    result: ext.Result[ColumnsType]
    along: ir.IntegerAttr
    together: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        if len(op.at) != len(op.strides):
            return fail(op, f"{len(op.at)} indices and {len(op.strides)} strides, expected as many")
        return at_least(op, 1, "together")


class RunningOp(Tile.Operation, name="running"):
    """Registers for a reduction of this `kind`: of no terms."""

    result: ext.Result[ColumnsType]
    kind: ir.StringAttr


class TermOp(Tile.Operation, name="term"):
    """Adds a term to a reduction, where it is `valid`."""

    sums: ext.Operand[ColumnsType]
    value: ext.Operand[ColumnsType]
    valid: ext.Operand[I1]
    kind: ir.StringAttr


class ComputeOp(Tile.Operation, name="compute"):
    """body(inputs..., scalars...) for each column. `approximate`, optional, is as of `tile.epilogue`."""

    inputs: Sequence[ext.Operand[ColumnsType]]
    scalars: Sequence[ext.Operand[ir.F32Type]]
    result: ext.Result[ColumnsType]
    body: ext.Region


class StoreColumnsOp(Tile.Operation, name="store_columns"):
    """Rounds columns and stores them, `together` in one store, at so many indices, each with the stride of its axis."""

    value: ext.Operand[ColumnsType]
    target: ext.Operand[Any]
    at: Sequence[ext.Operand[I32]]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    together: ir.IntegerAttr
