"""The `max` and `min` of a program that its results do not depend on, as a softmax does not on what it subtracts: they
have the gradient of a constant. So has the larger one of such a reduction and another value.

A value is followed as a function of one of these, M: it is u + c M (a sum), or u exp(c M) (a product), where u and
c have nothing of M, or it is not followed. So T - M is of the first kind with c = -1, exp(T - M) of the second, and so
is its sum over a row; their quotient has c = 0.

    M[m] = max[n](T); S[m] = sum[n](exp(T - M)); Y[m,n] = exp(T - M) / S
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from scalec.frontend.program import Apply, Constant, Contract, Quantized, Read, Reduce, Rounded, Statement, Value
from scalec.gradients.expressions import below
from scalec.gradients.text import Writer

Factor = dict[tuple[str, ...], float]
"""c: the sum of numbers times the texts of what has nothing of M, 2 + s*r[m] as {(): 2, ("r[m]", "s"): 1}."""


@dataclass(frozen=True)
class Form:
    """u + c M, or u exp(c M); with no c what does not depend on M."""

    c: Factor
    product: bool = False


CONSTANT = Form({})


def cancelled(results: Iterable[Statement]) -> set[str]:
    """The texts of the `max` and `min` on which no value of these statements depends."""
    values = [s.value for s in results]
    found = {Writer().value(x): x for v in values for x in below(v) if extreme(x)}
    return {text for text, x in found.items() if all(_Follow(text, x.dims).form(v) == CONSTANT for v in values)}


def extreme(v: Value) -> bool:
    """Whether a value is a `max` or `min` over an index, or of such and others."""
    if isinstance(v, Reduce):
        return v.kind != "sum"
    return isinstance(v, Apply) and v.function in ("max", "min") and any(map(extreme, below(v.arguments[0])))


@dataclass
class _Follow:
    """One of them, by its text, which has these dimensions."""

    text: str
    own: frozenset[str]
    dims: dict[str, frozenset[str]] = field(default_factory=dict)  # of what c has, by text

    def form(self, v: Value) -> Form | None:
        """What a value is as a function of it; None where it is neither of both."""
        if extreme(v) and Writer().value(v) == self.text:
            return Form({(): 1.0})
        if isinstance(v, Reduce):
            return self._reduced(v)
        if isinstance(v, Apply):
            forms = [f for f in map(self.form, v.arguments) if f is not None]
            return self._applied(v, forms) if len(forms) == len(v.arguments) else None
        if isinstance(v, Read) and isinstance(v.source, Statement):
            return _filled(self.form(v.source.value), v.source.otherwise)
        inner = (v.left, v.right) if isinstance(v, Contract) else ()
        inner = (v.value,) if isinstance(v, (Rounded, Quantized)) else inner
        return CONSTANT if all(self.form(x) == CONSTANT for x in inner) else None

    def _reduced(self, v: Reduce) -> Form | None:
        form = self.form(v.value)
        if form is None or not form.c:
            return form
        has = self.own.union(*(self.dims[x] for texts in form.c for x in texts))
        return None if has & (v.value.dims - v.dims) or (v.kind == "sum" and not form.product) else form

    def _applied(self, v: Apply, forms: list[Form]) -> Form | None:
        f, first, last = v.function, forms[0], forms[-1]
        if not any(x.c for x in forms):
            return CONSTANT
        if f in ("+", "-", "max", "min") and all(x == first for x in forms[1:]) and (first.product or f[0] == "m"):
            return first
        if f in ("+", "-") and not first.product and not last.product:
            return _sum(first.c, last.c, -1 if f == "-" else 1)
        if f in ("*", "/"):
            if not last.c:
                return first if first.product else self._times(first.c, v.arguments[1], f)
            if f == "*" and not first.c:
                return last if last.product else self._times(last.c, v.arguments[0], f)
            products = all(x.product or not x.c for x in forms)
            return _sum(first.c, last.c, -1 if f == "/" else 1, product=True) if products else None
        if f == "negate" and not first.product:
            return _sum({}, first.c, -1)
        if f == "exp" and not first.product:
            return Form(first.c, product=True)
        if f in ("power", "sqrt") and first.product:
            return Form({k: x * (v.exponent if f == "power" else 0.5) for k, x in first.c.items()}, product=True)
        if f == "sign" and first.product:
            return CONSTANT
        return first if f in ("negate", "abs", "relu") and first.product else None

    def _times(self, c: Factor, y: Value, f: str) -> Form:
        """c times a value, or over it, that has nothing of it."""
        if isinstance(y, Apply) and y.function == "negate":
            return _sum({}, self._times(c, y.arguments[0], f).c, -1)
        if isinstance(y, Constant) and y.number:
            return Form({k: x * y.number if f == "*" else x / y.number for k, x in c.items()})
        text = f"{'1/' * (f == '/')}{Writer().value(y)}"
        self.dims[text] = y.dims
        return Form({tuple(sorted((*k, text))): x for k, x in c.items()})


def _sum(one: Factor, other: Factor, sign: int, *, product: bool = False) -> Form:
    """What one c and another make, with what cancels left out."""
    found = {k: one.get(k, 0.0) + sign * other.get(k, 0.0) for k in {**one, **other}}
    c = {k: x for k, x in found.items() if x}
    return Form(c, product) if c else CONSTANT


def _filled(form: Form | None, otherwise: float | None) -> Form | None:
    """A value that is a number outside a range: that may be 0 of a product, and infinite of a sum."""
    if form is None or not form.c or otherwise is None:
        return form
    return form if (otherwise == 0 if form.product else math.isinf(otherwise)) else None
