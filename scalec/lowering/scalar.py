"""The scalar bodies of epilogues: arith and math ops on f32, lowered one op at a time.

exp, tanh and erf are built from ex2.approx (2 ulp, PTX ISA 9.7.3.24) and rcp.approx/div.full, since an epilogue that
rounds to 16 bits or compares at 1e-6 does not need libm, and LLVM's NVPTX back end has no libm to call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from scalec.errors import UnsupportedError
from scalec.ir.mlir import ir

_LOG2_E = math.log2(math.e)


class Arithmetic(Protocol):
    """What computes: a Builder with single values, or one with several at once."""

    @property
    def f32(self) -> ir.Type: ...
    def constant(self, value: float, /) -> Any: ...
    def fadd(self, a: Any, b: Any, /) -> Any: ...
    def fmul(self, a: Any, b: Any, /) -> Any: ...
    def fma(self, a: Any, b: Any, c: Any, /) -> Any: ...
    def op(self, name: str, results: Sequence[ir.Type], operands: Sequence[Any], /) -> Any: ...
    def asm(
        self, text: str, results: Sequence[ir.Type], operands: Sequence[Any], /, *, volatile: bool, memory: bool
    ) -> list[Any]: ...


Op = Callable[[Arithmetic, list[Any]], Any]


def _asm(b: Arithmetic, text: str, *operands: Any) -> Any:
    return b.asm(text, [b.f32], operands, volatile=False, memory=False)[0]


def _binary(name: str) -> Op:
    return lambda b, x: b.op(name, [b.f32], x)


def _divide(b: Arithmetic, x: list[Any]) -> Any:
    """div.full.f32: 2 ulp, no slow path (PTX ISA 9.7.3.8)."""
    return _asm(b, "div.full.f32 $0, $1, $2;", *x)


def _divide_rounding(b: Arithmetic, x: list[Any]) -> Any:
    """div.rn.f32: rounded to nearest even, with a slow path."""
    return _asm(b, "div.rn.f32 $0, $1, $2;", *x)


def _exp(b: Arithmetic, x: list[Any]) -> Any:
    return _asm(b, "ex2.approx.f32 $0, $1;", b.fmul(x[0], b.constant(_LOG2_E)))


def _tanh(b: Arithmetic, x: list[Any]) -> Any:
    """1 - 2 / (1 + e^2x): right at both ends (e^2x is 0 or infinite), absolute error about 1e-7."""
    e = _exp(b, [b.fmul(x[0], b.constant(2.0))])
    quotient = _divide(b, [b.constant(-2.0), b.fadd(e, b.constant(1.0))])
    return b.fadd(quotient, b.constant(1.0))


# Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: |error| <= 1.5e-7.
_ERF_P = 0.3275911
_ERF_A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def _erf(b: Arithmetic, x: list[Any]) -> Any:
    magnitude = _absolute(b, x)
    t = _divide(b, [b.constant(1.0), b.fma(magnitude, b.constant(_ERF_P), b.constant(1.0))])
    polynomial = b.constant(_ERF_A[-1])
    for a in reversed(_ERF_A[:-1]):
        polynomial = b.fma(polynomial, t, b.constant(a))
    decay = _exp(b, [b.fmul(b.fmul(magnitude, magnitude), b.constant(-1.0))])
    tail = b.fmul(b.fmul(polynomial, t), decay)
    return _asm(b, "copysign.f32 $0, $1, $2;", x[0], b.fadd(b.fmul(tail, b.constant(-1.0)), b.constant(1.0)))


def _absolute(b: Arithmetic, x: list[Any]) -> Any:
    return _asm(b, "abs.f32 $0, $1;", x[0])


def _sqrt(b: Arithmetic, x: list[Any]) -> Any:
    return _asm(b, "sqrt.rn.f32 $0, $1;", x[0])


def _negate(b: Arithmetic, x: list[Any]) -> Any:
    return _asm(b, "neg.f32 $0, $1;", x[0])


def _maximum(b: Arithmetic, x: list[Any]) -> Any:
    return _asm(b, "max.NaN.f32 $0, $1, $2;", *x)


def _minimum(b: Arithmetic, x: list[Any]) -> Any:
    return _asm(b, "min.NaN.f32 $0, $1, $2;", *x)


OPS: dict[str, Op] = {
    "arith.addf": _binary("arith.addf"),
    "arith.subf": _binary("arith.subf"),
    "arith.mulf": _binary("arith.mulf"),
    "arith.divf": _divide,
    "arith.negf": _negate,
    "arith.maximumf": _maximum,
    "arith.minimumf": _minimum,
    "math.exp": _exp,
    "math.tanh": _tanh,
    "math.erf": _erf,
    "math.sqrt": _sqrt,
    "math.absf": _absolute,
}


ONCE: dict[str, Op] = {**OPS, "arith.divf": _divide_rounding}
"""Of what is computed once: the reciprocal of a result's scale is the reference's, bit for bit."""


def evaluate(b: Arithmetic, block: ir.Block, arguments: Sequence[Any], ops: dict[str, Op] = OPS) -> Any:
    """Emits the body for one of what `b` computes with; returns what it yields.

    Raises:
        UnsupportedError: an op that `ops` does not have.
    """
    values = dict(zip(block.arguments, arguments, strict=True))
    for op in block.operations:
        name = op.operation.name
        operands = [values[v] for v in op.operation.operands]
        if name.endswith(".yield"):
            return operands[0]
        if name == "arith.constant":
            values[op.result] = b.constant(float(ir.FloatAttr(op.attributes["value"]).value))
        elif name in ops:
            values[op.result] = ops[name](b, operands)
        else:
            raise UnsupportedError(
                f"{name} in an elementwise expression", expected=", ".join(ops), fix="build it from these"
            )
    raise UnsupportedError("an elementwise expression without a yield", fix="end its body with tile.yield")
