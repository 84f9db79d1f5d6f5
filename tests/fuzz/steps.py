"""Steps of what a text means, on numbers with their largest errors: elementwise ones, transforms, reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalec.reference import round_to
from tests.fuzz import bounds
from tests.fuzz.bounds import LARGEST, LEAST, ROUND, Bounded, Slack

Array = NDArray[Any]


def apply(op: str, inner: list[Bounded], rest: list[Any], slack: Slack) -> Bounded:
    """One elementwise step."""
    if op == "^":
        made = inner[0]
        for _ in range(rest[1] - 1):
            made = bounds.INFIX["*"](made, inner[0])
        return made
    if op == "rounded":
        low, high = bounds.accepted(inner[0], rest[1])
        value = round_to(inner[0].value, rest[1])
        near = np.maximum(np.abs(high - value), np.abs(low - value))
        return Bounded(value, np.where(np.isnan(near), np.where(np.isinf(inner[0].error), np.inf, 0.0), near))
    if op in bounds.INFIX:
        return bounds.INFIX[op](*inner)
    return bounds.EXACT[op](*inner) if op in bounds.EXACT else bounds.FUNCTIONS[op](*inner, slack[op])


def transformed(x: Bounded, axis: int) -> Bounded:
    """H/4 times each 16 along an axis, with 0 for what is not there."""
    value, error = (np.moveaxis(a, axis, -1) for a in (x.value, x.error))
    *outer, n = value.shape
    pad = [(0, 0)] * len(outer) + [(0, -n % 16)]
    made = Bounded(np.pad(value, pad), np.pad(error, pad))
    full = made.value.shape
    for apart in (1, 2, 4, 8):
        value, error = (a.reshape(*outer, full[-1] // (2 * apart), 2, apart) for a in (made.value, made.error))
        a, b = (Bounded(value[..., i, :], error[..., i, :]) for i in (0, 1))
        both = [bounds.INFIX[op](a, b) for op in "+-"]
        made = Bounded(*(np.stack([getattr(y, of) for y in both], -2).reshape(full) for of in ("value", "error")))
    made = bounds.INFIX["*"](made, Bounded(0.25))
    return Bounded(*(np.moveaxis(a[..., :n], -1, axis) for a in (made.value, made.error)))


_STEPS = 8  # times that a larger maximum is found: by threads, lanes, warps and tiles


def exponentials(x: Bounded) -> Bounded:
    """exp(a - b) as terms of a sum, which a kernel may take relative to another number first: each factor is off by
    2^-22, and all by 2^-23.7 of the difference."""
    with np.errstate(all="ignore"):
        apart = np.abs(np.log(x.value))
    slack = _STEPS * 2.0**-22 + np.where(np.isfinite(apart), apart, 0) * 2.0**-23
    return Bounded(x.value, np.where(np.isfinite(x.value), x.error + slack * np.abs(x.value), x.error))


COMBINE: dict[str, Callable[..., Array]] = {"max": np.maximum.reduce, "min": np.minimum.reduce}


def folded(how: str, value: Array, error: Array, axes: tuple[int, ...], none: float) -> Bounded:
    """A reduction in any order."""
    loose = np.isinf(error).any(axis=axes, keepdims=True)
    if how != "sum":
        made, most = (
            COMBINE[how](value, axis=axes, keepdims=True, initial=none),
            error.max(axes, keepdims=True, initial=0),
        )
        return Bounded(made, np.where(loose, np.inf, np.where(np.isfinite(made), most, 0)))
    made = value.sum(axis=axes, keepdims=True)
    magnitude = np.where(np.isfinite(value), np.abs(value), 0).sum(axis=axes, keepdims=True)
    off = np.where(np.isinf(error), 0, error).sum(axis=axes, keepdims=True)
    exact = (off == 0) & (magnitude <= 2.0**24 * bounds.grid(value))
    terms = int(np.prod([value.shape[a] for a in axes]))
    most = np.where(exact, 0.0, off + (terms + 8) * (ROUND * (magnitude + off) + LEAST))
    loose = loose | (magnitude + most > LARGEST)
    return Bounded(made, np.where(loose, np.inf, np.where(np.isfinite(made), most, 0.0)))
