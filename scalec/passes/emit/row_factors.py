"""Factors of a tile's rows that the terms of a fold have in common: they can be multiplied to what is folded.

Where s[t] is at least 0:

    sum[h](relu(T[h,t] * s[t]) * W[h])  ->  s[t] * sum[h](relu(T[h,t]) * W[h])
"""

from __future__ import annotations

from typing import Any

from scalec.ir.mlir import ir
from scalec.passes.emit.emitter import Step

_LINEAR = ("arith.negf", "math.absf")
_OF_BOTH = ("arith.addf", "arith.subf")
_NEAREST = ("arith.maximumf", "arith.minimumf")


def row_factors(steps: list[Step], sums: ir.Value, rows: set[ir.Value]) -> dict[ir.Value, ir.Value]:
    """By the product that a step makes: the value that it multiplies the sums by, one of `rows`.

    Only products that everything else is computed of, and only where the steps behind them make of a sum times a
    positive number their value times that number.
    """
    found: dict[ir.Value, ir.Value] = {}
    at = sums
    while (product := _product(steps, at)) is not None:
        made, other = product
        if other in rows:
            found[made] = other
        at = made
    return found if found and _homogeneous(steps, sums) else {}


def _product(steps: list[Step], value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """The only thing that is computed of a value, and what the value is multiplied by; None where it is no product."""
    users = [(op, operands) for op, operands in steps if value in operands]
    if len(users) != 1 or users[0][0].operation.name != "arith.mulf":
        return None
    op, operands = users[0]
    others = [v for v in operands if v != value]
    return (op.result, others[0]) if others else None


def _homogeneous(steps: list[Step], sums: ir.Value) -> bool:
    """Whether x times a positive number gives what x gives, times that number."""
    made = {sums}
    for op, operands in steps:
        name, of = op.operation.name, [v in made for v in operands]
        if not any(of):
            continue
        if name == "scale.yield":
            return True
        fine = name in _LINEAR or (name in _OF_BOTH and all(of))
        fine = fine or (name in _NEAREST and all(x or _zero(v) for x, v in zip(of, operands, strict=True)))
        fine = fine or (name == "arith.mulf" and sum(of) == 1) or (name == "arith.divf" and of == [True, False])
        if not fine:
            return False
        made.add(op.result)
    return False


def times(steps: list[Step], sums: ir.Value) -> ir.Value | None:
    """What a body multiplies the sums by, or their magnitudes, or those above 0, where it does nothing else."""
    at, factor = sums, None
    for op, operands in steps:
        name, others = op.operation.name, [v for v in operands if v != at]
        if name == "scale.yield":
            return factor if not others else None
        if name == "arith.constant":
            continue
        if at not in operands or (name == "arith.maximumf" and not all(map(_zero, others))):
            return None
        if name == "arith.mulf" and factor is None and len(others) == 1:
            factor = others[0]
        elif name not in ("arith.maximumf", *_LINEAR) or factor is not None:
            return None
        at = op.result
    return None


def _zero(value: Any) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name == "arith.constant" and owner.opview.literal_value == 0.0
