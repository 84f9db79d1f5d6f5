"""Bodies of `scale.map`: elementwise functions as arith and math ops on f32, one small function each."""

from __future__ import annotations

import math as pymath
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from scalec.formats import ELEMENT_TYPES
from scalec.ir.mlir import arith, ir, math

Body = Callable[..., ir.Value]


def constant(value: float) -> ir.Value:
    """An f32 constant."""
    f32 = ir.F32Type.get()
    return arith.ConstantOp(f32, ir.FloatAttr.get(f32, value)).result


def sigmoid(x: ir.Value) -> ir.Value:
    """1 / (1 + exp(-x))."""
    one = constant(1.0)
    return arith.DivFOp(one, arith.AddFOp(one, math.ExpOp(arith.NegFOp(x).result).result).result).result


def gelu(x: ir.Value) -> ir.Value:
    """x/2 * (1 + erf(x / sqrt 2))."""
    erf = math.ErfOp(arith.MulFOp(x, constant(pymath.sqrt(0.5))).result).result
    half = arith.MulFOp(x, constant(0.5)).result
    return arith.MulFOp(half, arith.AddFOp(constant(1.0), erf).result).result


def power(x: ir.Value, exponent: int) -> ir.Value:
    """x to a positive integer power, by repeated squaring."""
    while not exponent & 1:
        x, exponent = arith.MulFOp(x, x).result, exponent >> 1
    result = x
    while exponent := exponent >> 1:
        x = arith.MulFOp(x, x).result
        if exponent & 1:
            result = arith.MulFOp(result, x).result
    return result


FUNCTIONS: dict[str, Body] = {
    "+": lambda x, y: arith.AddFOp(x, y).result,
    "-": lambda x, y: arith.SubFOp(x, y).result,
    "*": lambda x, y: arith.MulFOp(x, y).result,
    "/": lambda x, y: arith.DivFOp(x, y).result,
    "negate": lambda x: arith.NegFOp(x).result,
    "relu": lambda x: arith.MaximumFOp(x, constant(0.0)).result,
    "gelu": gelu,
    "silu": lambda x: arith.MulFOp(x, sigmoid(x)).result,
    "sigmoid": sigmoid,
    "tanh": lambda x: math.TanhOp(x).result,
    "exp": lambda x: math.ExpOp(x).result,
    "sqrt": lambda x: math.SqrtOp(x).result,
    "abs": lambda x: math.AbsFOp(x).result,
    "max": lambda *xs: _chain(arith.MaximumFOp, xs),
    "min": lambda *xs: _chain(arith.MinimumFOp, xs),
}


def _chain(op: Callable[..., ir.OpView], values: Sequence[ir.Value]) -> ir.Value:
    return reduce(lambda x, y: op(x, y).result, values)


def to_f32(x: ir.Value) -> ir.Value:
    """An element as f32."""
    f32 = ir.F32Type.get()
    if x.type == f32:
        return x
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
    most = ELEMENT_TYPES[element].max
    high = float(np.float32(most))
    if high > most:  # 2^31 - 1 is no f32: the largest below it
        high = float(np.nextafter(np.float32(most), np.float32(0)))
    low = arith.MaximumFOp(math.RoundEvenOp(x).result, constant(-most - 1)).result
    return arith.FPToSIOp(to, arith.MinimumFOp(low, constant(high)).result).result
