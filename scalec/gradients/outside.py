"""What an expression is where temporaries have the value behind their `else`: outside of their ranges."""

from __future__ import annotations

import math

from scalec.frontend.program import Apply, Constant, Read, Statement, Value

_AT_0 = {"relu": 0.0, "gelu": 0.0, "silu": 0.0, "tanh": 0.0, "sqrt": 0.0, "abs": 0.0, "sign": 0.0, "exp": 1.0}
_AT_MINUS_INF = {"relu": 0.0, "gelu": 0.0, "silu": 0.0, "sigmoid": 0.0, "exp": 0.0}


def at_else(v: Value) -> float | None:
    """The number that an expression is there, whatever inputs are that are finite; None where that depends on them."""
    if isinstance(v, Constant):
        return v.number
    if isinstance(v, Read) and isinstance(v.source, Statement):
        return at_else(v.source.value) if v.source.otherwise is None else v.source.otherwise
    return _applied(v) if isinstance(v, Apply) else None


def _applied(v: Apply) -> float | None:
    xs = [at_else(a) for a in v.arguments]
    endless = [x for x in xs if x is not None and math.isinf(x)]
    if v.function == "*":
        return 0.0 if 0 in xs and not endless else None
    if v.function == "/":
        return 0.0 if xs[0] == 0 and xs[1] != 0 else None
    if v.function == "negate":
        return None if xs[0] is None else -xs[0]
    if v.function in ("+", "-"):
        signed = [x if x is None or not i or v.function == "+" else -x for i, x in enumerate(xs)]
        if len(endless) == 1:
            return next(x for x in signed if x is not None and math.isinf(x))
        return sum(x for x in signed if x is not None) if None not in signed and not endless else None
    if v.function == "power":
        return 0.0 if xs[0] == 0 else None
    return (_AT_0 if xs[0] == 0 else _AT_MINUS_INF if xs[0] == -math.inf else {}).get(v.function)
