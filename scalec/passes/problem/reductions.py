"""Reductions of a fused program, by what they are of."""

from __future__ import annotations

from typing import Any

from scalec.ir.mlir import ir


def computed_of(op: Any) -> list[Any]:
    """What a `scale.map` reads, one value a view."""
    return [view.owner.opview.source for view in op.views]


def is_op(value: Any, name: str) -> bool:
    """Whether an op of this name makes a value."""
    return not isinstance(value.owner, ir.Block) and value.owner.name == name


def reduction_of(value: Any) -> Any:
    """The `scale.reduce` that a result of the function is computed of, None where it is of none."""
    if not is_op(value, "scale.map"):
        return None
    return next((x.owner.opview for x in computed_of(value.owner.opview) if is_op(x, "scale.reduce")), None)


def of_inputs(reduce: Any) -> bool:
    """Whether a reduction is one of arguments: of an elementwise expression of them, or of one itself."""
    value = reduce.input
    read = computed_of(value.owner.opview) if is_op(value, "scale.map") else [value]
    return all(isinstance(below(x).owner, ir.Block) for x in read)


def below(value: Any) -> Any:
    """What an operand of the contraction is below its scales and zero points."""
    while is_op(value, "scale.dequantize") or is_op(value, "scale.subtract"):
        value = value.owner.opview.values
    return value
