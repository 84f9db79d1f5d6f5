"""Functions in the bodies of `scale.map` that arith and math have no op for."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from scalec.ir.mlir import ext, ir
from scalec.ir.scale import Scale

__all__ = ["GeluOp", "IntegerOp", "Scale", "SigmoidOp", "SiluOp", "UnsignedOp"]

ROUNDINGS = ("arith.truncf", "scale.integer")
"""What stores do of a body."""

WIDENINGS = ("arith.extf", "arith.sitofp", "scale.unsigned")
"""What loads do of a body."""

CONVERSIONS = (*WIDENINGS, *ROUNDINGS)
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


class UnsignedOp(Scale.Operation, name="unsigned"):
    """An integer without a sign, whose type says so, as f32. (`arith.uitofp` is of integers that do not say.)"""

    x: ext.Operand[ir.IntegerType]
    result: ext.Result[ir.F32Type]


class IntegerOp(Scale.Operation, name="integer"):
    """The nearest integer of the result's type, to even where two are as near: beyond them the first or last; NaN: 0.
    (`arith.fptosi` rounds towards zero, and means nothing beyond.)"""

    x: ext.Operand[ir.F32Type]
    result: ext.Result[ir.IntegerType]
