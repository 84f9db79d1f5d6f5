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

ERF_STEP = 1 / 64  # spacing of erf's expansion points
ERF_END = 6.0  # 1 - erf(6) is 2e-17: below half an ulp of 1
ERF_DEGREE = 8  # |d| <= 1/128: the first term left out is below 1e-19


@cache
def _erf_table() -> NDArray[np.float64]:
    """Taylor coefficients of erf around every multiple of ERF_STEP: row i holds those of d^i.

    With f = erf: f' = 2/sqrt(pi) exp(-x^2), and differentiating f'' = -2x f' again and again
    f^(n+2) = -2x f^(n+1) - 2n f^(n).
    """
    x = np.arange(int(ERF_END / ERF_STEP) + 2) * ERF_STEP
    derivatives = [np.array([math.erf(v) for v in x]), 2 / math.sqrt(math.pi) * np.exp(-x * x)]
    for n in range(ERF_DEGREE - 1):
        previous = derivatives[-2] if n else 0.0  # n = 0 has no f term
        derivatives.append(-2 * x * derivatives[-1] - 2 * n * previous)
    return np.stack([f / math.factorial(i) for i, f in enumerate(derivatives)])


def erf(x: ArrayLike) -> NDArray[np.float64]:
    """The error function in float64, to 1e-15: a Taylor expansion around the nearest of 385 tabulated points."""
    v = np.asarray(x, dtype=np.float64)
    table = _erf_table()
    a = np.minimum(np.nan_to_num(np.abs(v), nan=0.0), ERF_END)
    near = np.rint(a / ERF_STEP).astype(np.int64)
    d = a - near * ERF_STEP
    out = table[ERF_DEGREE][near]
    for i in range(ERF_DEGREE - 1, -1, -1):
        out = out * d + table[i][near]
    return np.where(np.isnan(v), v, np.copysign(out, v))


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
    "math.erf": erf,
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
WIDENING = ("arith.extf", "arith.sitofp", "arith.extsi", "arith.extui", "arith.uitofp")


def _convert(value: Any, op: ir.OpView) -> Any:
    """A conversion to the op's result type: to nearest even; from float to integer towards zero, saturating."""
    name = element_name(op.operation.results[0].type)
    if name in INTEGERS:
        return round_to(np.trunc(value), name)
    return round_to(value, name) if name in GRIDS else value


def constant(op: ir.OpView) -> float:
    """The value of a scalar `arith.constant`."""
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
            elif name in ("arith.truncf", "arith.fptosi", "arith.trunci"):
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
