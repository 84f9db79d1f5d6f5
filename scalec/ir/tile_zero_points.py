"""The op of `tile` that has the zero points of an operand ready for who converts it."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.formats import element_spelled
from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import at_least
from scalec.ir.tile_types import I32, SharedType, Tile, bits_of, int_of, str_of
from scalec.ir.verify import fail, verifier
from scalec.zero_points import RANGES


class ZeroPointsType(Tile.Type, name="subtrahends"):
    """Zero points of the elements that a thread converts of a stage, in registers: one for each of its rows."""


class ZeroPointsOp(Tile.Operation, name="zero_points"):
    """Loads source[(row0 + i) / row_block, k0 / k_block] for the rows i and elements of K of `target` that a thread of
    the warpgroup makes; 0 beyond `rows` and `k`. Without a source all are `number`, an optional integer attribute.

    `place` is (row0, rows, k0, k), `strides` those of rows and K, in elements, or bytes of packed ones; 1 for the one
    along which it is contiguous: "rows" or "k", of `along`, an optional string that packed ones need.
    """

    target: ext.Operand[SharedType]
    source: Sequence[ext.Operand[Any]]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    place: Sequence[ext.Operand[I32]]
    result: ext.Result[ZeroPointsType]

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        attributes = op.operation.attributes
        if "number" in attributes:
            return not len(op.source) or fail(op, "has a number and a source, expected one of these")
        if (len(op.source), len(op.strides), len(op.place)) != (1, 2, 4):
            return fail(op, "has no number, expected a source, two strides and row0, rows, k0, k")
        stored = stored_in(op)
        if stored not in RANGES:
            return fail(op, f"loads {op.source[0].type}, expected {' or '.join(RANGES)}")
        if bits_of(op.source[0].type.element_type) < 8 and along_in(op) not in ("rows", "k"):
            return fail(op, f"loads {stored}, which is packed along rows or k, got {along_in(op)!r}")
        return all(name in attributes or fail(op, f"has no {name}") for name in ("row_block", "k_block")) and at_least(
            op, 1, "row_block", "k_block"
        )


def stored_in(op: Any) -> str:
    """The element type of the zero points that an op loads."""
    row = element_spelled(str(op.source[0].type.element_type))
    return row.name if row is not None else ""


def along_in(op: Any) -> str:
    """Along what they are contiguous, "" for neither rows nor K."""
    attributes = op.operation.attributes
    return str_of(attributes["along"]) if "along" in attributes else ""


def bounds_in(op: Any) -> tuple[int, int]:
    """Between what they lie."""
    attributes = op.operation.attributes
    if "number" in attributes:
        return int_of(attributes["number"]), int_of(attributes["number"])
    return RANGES[stored_in(op)]
