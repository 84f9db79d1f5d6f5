"""The op of `tile` that converts an operand on its way from who copies to who multiplies."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from typing import Any

from scalec.formats import CONVERTED, element_spelled
from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import at_least, in_step, plainly_swizzled
from scalec.ir.tile_types import (
    I1,
    CursorType,
    SharedType,
    Tile,
    bits_of,
    element_of,
    shape_of,
    swizzle_of,
)
from scalec.ir.verify import fail, verifier


class ConvertOp(Tile.Operation, name="convert"):
    """Converts the cursor's stage of `source`, elements of type `stored`, to those of `target`, each times the factor
    of its row and block of K. A warpgroup is here.

    Both tiles are [rows, K], or with `turned`, an optional unit attribute, `source` is [K, rows]. Rows of `source` lie
    one behind the other, packed where elements have less than 8 bits; those of `target` are as wide as its swizzle.
    `factors`, of f32, is [blocks of K, rows].
    """

    source: ext.Operand[SharedType]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    factors: ext.Operand[SharedType] | None
    stored: Any

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        stored = element_spelled(str(ir.TypeAttr(op.stored).value))
        made = element_spelled(str(element_of(op.target.type)))
        turned = "turned" in op.operation.attributes
        same = turned and stored == made
        if stored is None or made is None or not (same or made.name in CONVERTED.get(stored.name, ())):
            return fail(op, f"converts {op.stored} to {element_of(op.target.type)}, which is not exact")
        (rows, width), (own, depth), source = shape_of(op.source.type), shape_of(op.target.type), op.source.type
        if turned:
            rows, width = width, rows
            if rows * stored.bits % 128 or stored.bits not in (8, 32) or op.factors is not None:
                return fail(op, f"turns {source}, expected lines of whole 16 bytes, of 8 or 32 bits, without factors")
        if rows != own or width * bits_of(element_of(source)) < depth * stored.bits or swizzle_of(source):
            return fail(op, f"converts {source} to {op.target.type}, expected as many elements, not swizzled")
        if depth * made.bits != 8 * swizzle_of(op.target.type):
            return fail(op, f"converts to rows of {depth * made.bits // 8} bytes, expected those of the swizzle")
        if op.factors is not None:
            planes, count = shape_of(op.factors.type)
            if str(element_of(op.factors.type)) != "f32" or count != rows or depth % planes or depth // planes % 8:
                return fail(op, f"has factors {op.factors.type} for {rows} rows of {depth}")
        buffers = [x for x in (op.source, op.target, op.factors) if x is not None]
        return plainly_swizzled(op, op.target) and in_step(op, None, *buffers)


class OwnStageOp(Tile.Operation, name="own_stage"):
    """Whether the cursor's stage is one of this warpgroup's: `of` warpgroups of the role take stages by turns, the
    first stage 0."""

    cursor: ext.Operand[CursorType]
    result: ext.Result[I1]
    of: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return at_least(op, 2, "of")
