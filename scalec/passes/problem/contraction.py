"""The contractions of a program, and what their operands are made of."""

from __future__ import annotations

from typing import Any

from scalec.formats import element_spelled
from scalec.ir.mlir import ir
from scalec.ir.scale import GranularityAttr, element
from scalec.targets import MmaShape, Target


def contractions(function: Any) -> list[Any]:
    """The contractions of a program, in order."""
    return [op for op in function.body.blocks[0].operations if op.operation.name == "scale.contract"]


def family_of(contract: Any, target: Target) -> MmaShape | None:
    """The tensor-core family for the element types that a contraction's operands have below their scales, or None."""
    operands = [contract.operation.operands[slot] for slot in (0, 1)]
    scales = {ir.StringAttr(GranularityAttr(x.granularity).type).value for v in operands for x in levels_of(v)}
    a, b = map(_element_name, operands)
    return target.mma_for(a, b, scales & target.scale_types())


def levels_of(value: Any) -> list[Any]:
    """The scales of an operand, innermost level first: `scale.dequantize` ops."""
    levels: list[Any] = []
    while not isinstance(value.owner, ir.Block) and value.owner.name == "scale.dequantize":
        levels.insert(0, value.owner.opview)
        value = value.owner.opview.values
    return levels


def _element_name(value: Any) -> str:
    """ "" where the language has no name for the type."""
    while not isinstance(value.owner, ir.Block) and value.owner.name == "scale.dequantize":
        value = value.owner.opview.values
    row = element_spelled(str(element(value.type)))
    return row.name if row is not None else ""
