"""Functions in the bodies of `scale.map` that arith and math have no op for."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from scalec.ir.mlir import ext, ir
from scalec.ir.scale import Scale

__all__ = ["GeluOp", "IntegerOp", "Scale", "SigmoidOp", "SiluOp"]

ROUNDINGS = ("arith.truncf", "scale.integer")
"""What stores do of a body."""

CONVERSIONS = ("arith.extf", "arith.sitofp", *ROUNDINGS)
"""What loads and stores do of a body."""


class SigmoidOp(Scale.Operation, name="sigmoid"):
    """1 / (1 + exp(-x)): in bodies, as are the two below. math has none of them, and of its ops they would cancel."""

    x: ext.Operand[ir.F32Type]
    result: ext.Result[ir.F32Type]


class SiluOp(Scale.Operation, name="silu"):
    """x / (1 + exp(-x)), and 0 at -infinity."""

    x: ext.Operand[ir.F32Type]
    result: ext.Result[ir.F32Type]


class GeluOp(Scale.Operation, name="gelu"):
    """x/2 (1 + erf(x / sqrt 2)), and 0 at -infinity."""

    x: ext.Operand[ir.F32Type]
    result: ext.Result[ir.F32Type]


class IntegerOp(Scale.Operation, name="integer"):
    """The nearest integer of the result's type, to even where two are as near: beyond them the first or last; NaN: 0.
    (`arith.fptosi` rounds towards zero, and means nothing beyond.)"""

    x: ext.Operand[ir.F32Type]
    result: ext.Result[ir.IntegerType]
