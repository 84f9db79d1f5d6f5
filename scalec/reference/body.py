"""The bodies of `scale.map` in numpy: a table, one row an op of arith or math.

Everything is float64 (integers as integers); only the conversions round, and not even these in exact mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalec.errors import ScalecError
from scalec.formats import ELEMENT_TYPES
from scalec.ir.mlir import ir
from scalec.reference.quantize import GRIDS, INTEGERS, round_to

Array = NDArray[Any]

TAIL_STEP = 1 / 64  # spacing of the tail's expansion points
TAIL_END = 36.0  # exp(x^2/2) is finite, and exp(-x^2/2) is 0 in every type of results
TAIL_DEGREE = 9  # |d| <= 1/128: the first term left out is below 1e-16 of the tail


@cache
def _tail_table() -> NDArray[np.float64]:
    """Taylor coefficients of t(x) = exp(x^2/2) (1 - erf(x / sqrt 2)) / 2 around every multiple of TAIL_STEP: row i has
    those of d^i.

    t' = x t - 1/sqrt(2 pi), and differentiating again and again t^(n+1) = x t^(n) + n t^(n-1).
    """
    x = np.arange(int(TAIL_END / TAIL_STEP) + 1) * TAIL_STEP
    derivatives = [np.array([math.exp(v * v / 2) * math.erfc(v * math.sqrt(0.5)) / 2 for v in x])]
    derivatives.append(x * derivatives[0] - 1 / math.sqrt(2 * math.pi))
    for n in range(1, TAIL_DEGREE):
        derivatives.append(x * derivatives[-1] + n * derivatives[-2])
    return np.stack([f / math.factorial(i) for i, f in enumerate(derivatives)])


def gelu(x: ArrayLike) -> NDArray[np.float64]:
    """x/2 (1 + erf(x / sqrt 2)) in float64, to 1e-13 of itself: max(x, 0) less |x| times the tail beyond |x|, of which
    nothing cancels for x < 0; 0 at -infinity."""
    v = np.asarray(x, dtype=np.float64)
    table = _tail_table()
    a = np.minimum(np.abs(v), TAIL_END)
    near = np.rint(np.nan_to_num(a) / TAIL_STEP).astype(np.int64)
    d = a - near * TAIL_STEP
    tail = table[TAIL_DEGREE][near]
    for i in range(TAIL_DEGREE - 1, -1, -1):
        tail = tail * d + table[i][near]
    return np.maximum(v, 0) - a * tail * np.exp(-v * v / 2)


def sigmoid(x: ArrayLike) -> NDArray[np.float64]:
    """1 / (1 + exp(-x)) in float64, as exp(x) / (1 + exp(x)) where exp(-x) would overflow."""
    v = np.asarray(x, dtype=np.float64)
    e = np.exp(-np.abs(v))
    return np.where(v < 0, e, 1.0) / (1 + e)


def silu(x: ArrayLike) -> NDArray[np.float64]:
    """x sigmoid(x) in float64; 0 at -infinity."""
    v = np.maximum(x, np.finfo(np.float64).min)
    return v * sigmoid(v)


def element_name(t: ir.Type) -> str:
    """The element type of scalec.formats that an MLIR type stands for (f8E4M3FN is e4m3).

    Raises:
        ScalecError: for a type that no row of the table has.
    """
    for row in ELEMENT_TYPES.values():
        if row.mlir == str(t):
            return row.name
    raise ScalecError(f"no element type is {t} in MLIR", expected="one of " + ", ".join(ELEMENT_TYPES))


# Ordered comparisons of arith.cmpf by the value of its predicate attribute (MLIR, arith dialect, CmpFPredicate).
COMPARISONS: dict[int, Callable[[Any, Any], Any]] = {
    1: np.equal,
    2: np.greater,
    3: np.greater_equal,
    4: np.less,
    5: np.less_equal,
    6: lambda a, b: (a < b) | (a > b),
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.negf": np.negative,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.select": np.where,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.tanh": np.tanh,
    "math.fpowi": np.power,
    "scale.gelu": gelu,
    "scale.silu": silu,
    "scale.sigmoid": sigmoid,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda a: 1 / np.sqrt(a),
    "math.absf": np.abs,
    "math.powf": np.power,
    "math.fma": lambda a, b, c: a * b + c,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.roundeven": np.rint,
    "math.round": lambda a: np.copysign(np.floor(np.abs(a) + 0.5), a),
}
WIDENING = ("arith.extf", "arith.sitofp", "arith.extsi", "arith.extui", "arith.uitofp", "scale.unsigned")


def _convert(value: Any, op: ir.OpView) -> Any:
    """A conversion to the op's result type: to nearest even; integers saturate."""
    name = element_name(op.operation.results[0].type)
    return round_to(value, name) if name in GRIDS or name in INTEGERS else value


def constant(op: ir.OpView) -> float:
    attribute = op.operation.attributes["value"]
    kind = ir.FloatAttr if isinstance(attribute, ir.FloatAttr) else ir.IntegerAttr
    return float(kind(attribute).value)


def evaluate_body(block: ir.Block, arguments: Sequence[Array], outer: Mapping[Any, Any], exact: bool) -> Array:
    """Runs a body on arrays that broadcast against each other; returns what it yields.

    Args:
        block: the body.
        arguments: a float64 array for each block argument.
        outer: scalars from outside the body that it may use.
        exact: leave out every rounding.

    Raises:
        ScalecError: for an op that is not in the tables above.
    """
    values: dict[Any, Any] = dict(zip(block.arguments, arguments, strict=True))
    with np.errstate(all="ignore"):  # exp overflows to infinity, as on the device
        for op in block.operations:
            name = op.operation.name
            inputs = [values[v] if v in values else outer[v] for v in op.operation.operands]
            if name == "scale.yield":
                return np.asarray(inputs[0], dtype=np.float64)
            if name == "arith.constant":
                result: Any = constant(op)
            elif name in WIDENING:
                result = inputs[0]
            elif name in ("arith.truncf", "scale.integer", "arith.trunci"):
                result = inputs[0] if exact else _convert(inputs[0], op)
            elif name == "arith.cmpf":
                predicate = ir.IntegerAttr(op.operation.attributes["predicate"]).value
                if predicate not in COMPARISONS:
                    raise ScalecError(f"the reference has no unordered comparison ({op})")
                result = COMPARISONS[predicate](*inputs)
            elif name in FUNCTIONS:
                result = FUNCTIONS[name](*inputs)
            else:
                raise ScalecError(f"the reference has no {name}", expected="an op of scalec.reference.body.FUNCTIONS")
            values[op.operation.results[0]] = result
    raise ScalecError("the body of a scale.map ends without scale.yield")
