"""Elementwise expressions of a resolved program, made so that they read well: no `* 1`, no `+ 0`, no `- -x`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from scalec.frontend import affine
from scalec.frontend.program import (
    Apply,
    Constant,
    Contract,
    Quantized,
    Range,
    Read,
    Reduce,
    Rounded,
    Scalar,
    Statement,
    Tensor,
    Value,
)

NOWHERE = (0, 0)
"""The span of what stands in no text."""


def number(x: float) -> Constant:
    """A number."""
    return Constant(NOWHERE, frozenset(), x)


def apply(function: str, *arguments: Value, exponent: int = 0) -> Apply:
    """A function of the language, as it is."""
    return Apply(NOWHERE, frozenset().union(*(a.dims for a in arguments)), function, arguments, exponent)


def read(source: Tensor | Scalar | Statement, index: tuple[affine.Linear, ...]) -> Read:
    """A tensor at an index."""
    return Read(NOWHERE, frozenset().union(*(affine.dims(i) for i in index)), source, index)


def bounds(r: Range) -> frozenset[str]:
    """The dimensions that the ends of a range read."""
    return frozenset(affine.dims(r.lower) | affine.dims(r.upper))


def group_of(r: Range) -> str | None:
    """g of `off[g]:off[g+1]`; None of other ranges."""
    if not affine.read(r.lower) or not affine.read(r.upper):
        return None
    low, high = affine.symbols(r.lower)[0], affine.symbols(r.upper)[0]
    differ = [(a, b) for a, b in zip(low.index, high.index, strict=False) if a != b]
    if low.tensor != high.tensor or len(differ) != 1 or affine.add(differ[0][0], affine.constant(1)) != differ[0][1]:
        return None
    return affine.plain(differ[0][0])


def is_number(v: Value, x: float) -> bool:
    """Whether an expression is this number."""
    return isinstance(v, Constant) and v.number == x


def _negated(v: Value) -> Value | None:
    """x where an expression is -x as it is written, else None."""
    if isinstance(v, Constant) and v.number < 0:
        return number(-v.number)
    return v.arguments[0] if isinstance(v, Apply) and v.function == "negate" else None


def negate(x: Value) -> Value:
    """-x."""
    if isinstance(x, Constant):
        return number(-x.number)
    inner = _negated(x)
    return apply("negate", x) if inner is None else inner


def times(x: Value, *others: Value) -> Value:
    """The product, numbers first."""
    for y in others:
        x = _times(x, y)
    return x


def _times(x: Value, y: Value) -> Value:
    for one, other in ((x, y), (y, x)):
        if is_number(one, 0):
            return number(0)
        if is_number(one, 1):
            return other
        if not isinstance(one, Constant) and (inner := _negated(one)) is not None:
            return negate(_times(inner, y) if one is x else _times(x, inner))
    if isinstance(x, Constant) and isinstance(y, Constant):
        return number(x.number * y.number)
    if isinstance(y, Constant):
        x, y = y, x
    if isinstance(x, Constant) and x.number < 0:
        return negate(_times(number(-x.number), y))
    for one, other, swapped in ((x, y, False), (y, x, True)):  # a number in front of all
        if isinstance(one, Apply) and one.function == "*" and isinstance(one.arguments[0], Constant):
            if isinstance(other, Constant):
                return _times(number(one.arguments[0].number * other.number), one.arguments[1])
            rest = (other, one.arguments[1]) if swapped else (one.arguments[1], other)
            return _times(one.arguments[0], _times(*rest))
    return apply("*", x, y)


def over(x: Value, y: Value) -> Value:
    """x / y."""
    if is_number(x, 0):
        return x
    if is_number(y, 1):
        return x
    inner = None if isinstance(x, Constant) else _negated(x)
    return apply("/", x, y) if inner is None else negate(over(inner, y))


def plus(x: Value, y: Value) -> Value:
    """x + y."""
    if is_number(x, 0):
        return y
    if is_number(y, 0):
        return x
    if isinstance(x, Constant) and isinstance(y, Constant):
        return number(x.number + y.number)
    inner = _negated(y)
    return apply("+", x, y) if inner is None else minus(x, inner)


def minus(x: Value, y: Value) -> Value:
    """x - y."""
    if is_number(y, 0):
        return x
    if is_number(x, 0):
        return negate(y)
    if isinstance(x, Constant) and isinstance(y, Constant):
        return number(x.number - y.number)
    inner = _negated(y)
    return apply("-", x, y) if inner is None else plus(x, inner)


def power(x: Value, exponent: int) -> Value:
    """x to an integer power."""
    if exponent == 0:
        return number(1)
    return x if exponent == 1 else apply("power", x, exponent=exponent)


def children(v: Value) -> tuple[Value, ...]:
    """What an expression is made of; a temporary's are those of its statement."""
    if isinstance(v, Apply):
        return v.arguments
    if isinstance(v, Contract):
        return v.left, v.right
    if isinstance(v, (Reduce, Rounded, Quantized)):
        return (v.value,)
    if isinstance(v, Read) and isinstance(v.source, Statement):
        return (v.source.value,)
    return ()


def below(v: Value) -> Iterator[Value]:
    """An expression and all that it is made of."""
    stack = [v]
    while stack:
        v = stack.pop()
        yield v
        stack += children(v)


def rewritten(v: Value, change: Callable[[Value], Value | None]) -> Value:
    """An expression in which `change` has had its say at every node, outermost first."""
    changed = change(v)
    if changed is not None:
        return changed
    if isinstance(v, Apply):
        return apply(v.function, *(rewritten(a, change) for a in v.arguments), exponent=v.exponent)
    if isinstance(v, Reduce):
        return Reduce(v.span, v.dims, v.kind, rewritten(v.value, change))
    if isinstance(v, Rounded):
        return Rounded(v.span, v.dims, rewritten(v.value, change), v.said, v.of)
    if isinstance(v, Quantized):
        return replace(v, value=rewritten(v.value, change))
    if isinstance(v, Contract):
        return Contract(v.span, v.dims, rewritten(v.left, change), rewritten(v.right, change))
    return v


def factors(v: Value) -> list[Value]:
    """The factors of a product as it is written; a quotient's divisor is one of them, as `1 / x`."""
    if isinstance(v, Apply) and v.function == "*":
        return [f for a in v.arguments for f in factors(a)]
    if isinstance(v, Apply) and v.function == "/":
        return [*factors(v.arguments[0]), apply("/", number(1), v.arguments[1])]
    if isinstance(v, Apply) and v.function == "negate":
        return [number(-1), *factors(v.arguments[0])]
    return [v]


def product(parts: list[Value]) -> Value:
    """The product of `factors`."""
    total: Value = number(1)
    for part in parts:
        divides = isinstance(part, Apply) and part.function == "/" and is_number(part.arguments[0], 1)
        total = over(total, part.arguments[1]) if divides else times(total, part)  # pyright: ignore[reportAttributeAccessIssue]
    return total
