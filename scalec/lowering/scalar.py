"""The scalar bodies of epilogues: ops on f32, lowered one op at a time by a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scalec.errors import UnsupportedError
from scalec.ir.mlir import ir
from scalec.lowering import functions as f
from scalec.lowering.functions import Arithmetic

Op = Callable[..., Any]
"""Of a builder and the op's operands, of which integer constants are numbers."""


def _instruction(text: str) -> Op:
    return lambda b, *x: f.asm(b, text, *x)


def _binary(name: str) -> Op:
    return lambda b, *x: b.op(name, [b.f32], x)


BY_ROOT = "arith.divf by math.sqrt"
"""A quotient whose divisor is a square root."""

OPS: dict[str, Op] = {
    "arith.addf": _binary("arith.addf"),
    "arith.subf": _binary("arith.subf"),
    "arith.mulf": _binary("arith.mulf"),
    "arith.divf": _instruction("div.full.f32 $0, $1, $2;"),  # 2 ulp, no slow path (PTX ISA 9.7.3.8)
    "arith.negf": f.negate,
    "arith.maximumf": f.maximum,
    "arith.minimumf": f.minimum,
    "math.absf": f.absolute,
    "math.sqrt": _instruction("sqrt.rn.f32 $0, $1;"),
    "math.exp": f.exp,
    "math.tanh": f.tanh,
    "math.fpowi": f.power,
    "scale.sigmoid": f.sigmoid,
    "scale.silu": f.silu,
    "scale.gelu": f.gelu,
}
"""Within 4 ulp of what they stand for."""

APPROXIMATE: dict[str, Op] = {
    **OPS,
    "math.sqrt": _instruction("sqrt.approx.f32 $0, $1;"),  # 2^-23 of the result (PTX ISA 9.7.3.15)
    "math.exp": f.exp_approximate,
    "math.tanh": f.tanh_approximate,
    "math.fpowi": f.power_approximate,
    "scale.sigmoid": f.sigmoid_approximate,
    "scale.silu": f.silu_approximate,
    "scale.gelu": f.gelu_approximate,
}
"""For results of 16 bits or fewer: within a sixteenth of such a result's ulp."""

ONCE: dict[str, Op] = {**OPS, "arith.divf": _instruction("div.rn.f32 $0, $1, $2;")}
"""Of what is computed once: the reciprocal of a result's scale is the reference's, bit for bit."""

QUOTIENTS: dict[str, Op] = {"arith.divf": f.quotient, BY_ROOT: f.quotient_by_root}
"""Of what is computed for many numbers, which may have the divisor in common."""


def evaluate(b: Arithmetic, block: ir.Block, arguments: Sequence[Any], ops: Mapping[str, Op] = OPS) -> Any:
    """Emits the body for one of what `b` computes with; returns the value that it yields.

    Raises:
        UnsupportedError: an op that `ops` does not have.
    """
    return evaluate_all(b, block, arguments, ops)[0]


def evaluate_all(b: Arithmetic, block: ir.Block, arguments: Sequence[Any], ops: Mapping[str, Op] = OPS) -> list[Any]:
    """Likewise of a body that yields several values, or none."""
    return _evaluate(b, block, arguments, ops, _final(block))


def evaluate_product(b: Arithmetic, block: ir.Block, arguments: Sequence[Any], ops: Mapping[str, Op]) -> list[Any]:
    """Likewise of a body that yields one value; where that is a product, its two factors: who adds it to a sum does
    both at once."""
    final = _final(block)
    last = final.operands[0].owner
    product = not isinstance(last, ir.Block) and last.name == "arith.mulf" and len(list(last.results[0].uses)) == 1
    return _evaluate(b, block, arguments, ops, last if product else final)


def _is_root(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == "math.sqrt"


def _final(block: ir.Block) -> Any:
    """The op that yields what a body computes."""
    last = block.operations[len(block.operations) - 1] if len(block.operations) else None
    if last is None or not last.operation.name.endswith(".yield"):
        raise UnsupportedError("an elementwise expression without a yield", fix="end its body with tile.yield")
    return last.operation


def _evaluate(b: Arithmetic, block: ir.Block, arguments: Sequence[Any], ops: Mapping[str, Op], until: Any) -> list[Any]:
    """The operands of the op `until`, computed."""
    values = dict(zip(block.arguments, arguments, strict=True))
    for op in block.operations:
        name = op.operation.name
        operands = [values[v] for v in op.operation.operands]
        if op.operation == until:
            return operands
        if name == "arith.constant":
            value = op.attributes["value"]
            real = isinstance(value, ir.FloatAttr)
            values[op.result] = b.constant(float(value.value)) if real else ir.IntegerAttr(value).value
        elif name in ops:
            by_root = name == "arith.divf" and BY_ROOT in ops and _is_root(op.operation.operands[1])
            values[op.result] = ops[BY_ROOT if by_root else name](b, *operands)
        else:
            raise UnsupportedError(
                f"{name} in an elementwise expression", expected=", ".join(ops), fix="build it from these"
            )
    raise AssertionError("an op is in its own block")
