"""Bodies of `scale.map`: elementwise functions as arith and math ops on f32, one small function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from scalec.formats import ELEMENT_TYPES
from scalec.ir.mlir import arith, ir, math
from scalec.ir.scale_functions import GeluOp, IntegerOp, SigmoidOp, SiluOp, UnsignedOp

Body = Callable[..., ir.Value]


def constant(value: float) -> ir.Value:
    f32 = ir.F32Type.get()
    return arith.ConstantOp(f32, ir.FloatAttr.get(f32, value)).result


def power(x: ir.Value, exponent: int) -> ir.Value:
    i32 = ir.IntegerType.get_signless(32)
    return math.FPowIOp(x, arith.ConstantOp(i32, ir.IntegerAttr.get(i32, exponent)).result).result


def sign(x: ir.Value) -> ir.Value:
    """-1, 0 or 1: x times 2^149, which is 1 or more for whatever f32 is above 0, between -1 and 1."""
    large = arith.MulFOp(arith.MulFOp(x, constant(2.0**127)).result, constant(2.0**22)).result
    return arith.MaximumFOp(arith.MinimumFOp(large, constant(1.0)).result, constant(-1.0)).result


FUNCTIONS: dict[str, Body] = {
    "+": lambda x, y: arith.AddFOp(x, y).result,
    "-": lambda x, y: arith.SubFOp(x, y).result,
    "*": lambda x, y: arith.MulFOp(x, y).result,
    "/": lambda x, y: arith.DivFOp(x, y).result,
    "negate": lambda x: arith.NegFOp(x).result,
    "relu": lambda x: arith.MaximumFOp(x, constant(0.0)).result,
    "gelu": lambda x: GeluOp(x, x.type).result,
    "silu": lambda x: SiluOp(x, x.type).result,
    "sigmoid": lambda x: SigmoidOp(x, x.type).result,
    "tanh": lambda x: math.TanhOp(x).result,
    "exp": lambda x: math.ExpOp(x).result,
    "sqrt": lambda x: math.SqrtOp(x).result,
    "abs": lambda x: math.AbsFOp(x).result,
    "sign": lambda x: sign(x),
    "max": lambda *xs: _chain(arith.MaximumFOp, xs),
    "min": lambda *xs: _chain(arith.MinimumFOp, xs),
}


def _chain(op: Callable[..., ir.OpView], values: Sequence[ir.Value]) -> ir.Value:
    return reduce(lambda x, y: op(x, y).result, values)


def to_f32(x: ir.Value) -> ir.Value:
    f32 = ir.F32Type.get()
    if x.type == f32:
        return x
    if isinstance(x.type, ir.IntegerType) and x.type.is_unsigned:
        return UnsignedOp(x, f32).result
    if isinstance(x.type, ir.IntegerType):
        return arith.SIToFPOp(f32, x).result
    return arith.ExtFOp(f32, x).result


def from_f32(x: ir.Value, element: str) -> ir.Value:
    """An f32 as the element type named `element`: rounded to nearest even; an integer type saturates."""
    to = ir.Type.parse(ELEMENT_TYPES[element].mlir)
    if x.type == to:
        return x
    if not isinstance(to, ir.IntegerType):
        return arith.TruncFOp(to, x).result
    return IntegerOp(x, to).result
