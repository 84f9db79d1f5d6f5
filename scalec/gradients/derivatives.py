"""The derivatives of the elementwise functions, a row each: what every argument gets of the gradient `dy`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from scalec.frontend.program import Apply, Value
from scalec.gradients.expressions import apply, is_number, minus, negate, number, over, plus, power, times

Shares = Sequence[Value]


def _sign(x: Value) -> Value:
    return apply("sign", x)


def _of_gelu(dy: Value, x: Value) -> Value:
    """Phi(x) + x phi(x). Phi is gelu(x)/x: 1e-30 keeps that from 0/0 and changes no other x that matters, as f32 has
    24 bits; of a bf16 or f16 x there is none that it takes to 0."""
    moved = plus(x, number(1e-30))
    normal = times(number(round(1 / math.sqrt(2 * math.pi), 8)), x, apply("exp", times(number(-0.5), power(x, 2))))
    return times(dy, plus(over(apply("gelu", moved), moved), normal))


def _of_silu(dy: Value, x: Value) -> Value:
    s = apply("sigmoid", x)
    return times(dy, s, plus(number(1), times(x, minus(number(1), s))))


def _of_sigmoid(dy: Value, x: Value) -> Value:
    s = apply("sigmoid", x)
    return times(dy, s, minus(number(1), s))


def _of_relu(dy: Value, x: Value) -> Value:
    return times(dy, apply("relu", _sign(x)))


def _larger(dy: Value, x: Value, y: Value) -> Shares:
    """Of max(x, y): the larger one has all of it, and of two that are equal each has half, as torch has it."""
    half = times(number(0.5), _sign(minus(x, y)))
    return times(dy, plus(number(0.5), half)), times(dy, minus(number(0.5), half))


def _of_several(pair: Callable[[Value, Value, Value], Shares], name: str) -> Callable[..., Shares]:
    """Of max(x, y, z), which is max(max(x, y), z)."""

    def shares(dy: Value, *xs: Value) -> Shares:
        if len(xs) == 1:
            return (dy,)
        first = xs[0] if len(xs) == 2 else apply(name, *xs[:-1])
        rest, last = pair(dy, first, xs[-1])
        return (*shares(rest, *xs[:-1]), last)

    return shares


TABLE: dict[str, Callable[..., Shares]] = {
    "+": lambda dy, x, y: (dy, dy),
    "-": lambda dy, x, y: (dy, negate(dy)),
    "*": lambda dy, x, y: (times(dy, y), times(dy, x)),
    "/": lambda dy, x, y: (over(dy, y), negate(over(times(dy, x), power(y, 2)))),
    "negate": lambda dy, x: (negate(dy),),
    "relu": lambda dy, x: (_of_relu(dy, x),),
    "gelu": lambda dy, x: (_of_gelu(dy, x),),
    "silu": lambda dy, x: (_of_silu(dy, x),),
    "sigmoid": lambda dy, x: (_of_sigmoid(dy, x),),
    "tanh": lambda dy, x: (times(dy, minus(number(1), power(apply("tanh", x), 2))),),
    "exp": lambda dy, x: (times(dy, apply("exp", x)),),
    "sqrt": lambda dy, x: (over(times(number(0.5), dy), apply("sqrt", x)),),
    "abs": lambda dy, x: (times(dy, _sign(x)),),
    "sign": lambda dy, x: (number(0),),
    "max": _of_several(_larger, "max"),
    "min": _of_several(lambda dy, x, y: _larger(dy, y, x), "min"),
}


def shares(dy: Value, v: Apply) -> Shares:
    """What each argument of `v` gets of its gradient `dy`."""
    if is_number(dy, 0):
        return [number(0)] * len(v.arguments)
    if v.function == "power":
        return (times(number(v.exponent), dy, power(v.arguments[0], v.exponent - 1)),)
    return TABLE[v.function](dy, *v.arguments)
