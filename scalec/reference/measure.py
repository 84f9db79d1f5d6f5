"""How far a result is from its reference: two measures, because neither alone is enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalec.arguments import checked
from scalec.errors import ArgumentError


@dataclass(frozen=True)
class Errors:
    """Both measures of one comparison."""

    diff: float  # `1 - 2<x,y> / (|x|^2 + |y|^2)`, 0 for equal tensors: sees a wrong scale of the whole
    max_error: float  # `max|x-y| / max|y|`: sees a single wrong element

    @checked
    def within(self, diff: float, max_error: float) -> bool:
        """Whether both errors are at most the given bounds."""
        return self.diff <= diff and self.max_error <= max_error


def _finite(x: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Both tensors where `y` is a finite number, as flat float64; None where `x` cannot be compared with `y`.

    Points where `y` is NaN are unwritten: nothing is asked of `x` there (the guard checks of the tests see to
    unwritten memory). Where `y` is infinite, `x` must be the same infinity.
    """
    a, b = np.asarray(x).astype(np.float64), np.asarray(y).astype(np.float64)
    if a.shape != b.shape:
        raise ArgumentError("tensors of two shapes are compared", got=f"{a.shape} and {b.shape}", expected="one shape")
    a, b = a.ravel(), b.ravel()
    finite, infinite = np.isfinite(b), np.isinf(b)
    if not np.all(np.isfinite(a[finite])) or np.any(a[infinite] != b[infinite]):
        return None
    return a[finite], b[finite]


@checked
def diff(x: ArrayLike, y: ArrayLike) -> float:
    """`1 - 2<x,y> / (|x|^2 + |y|^2)` of a result `x` against its reference `y`, in float64.

    0 for equal tensors (also where both are all zero); infinity where `x` is NaN or infinite and `y` is finite.
    """
    pair = _finite(x, y)
    if pair is None:
        return float("inf")
    a, b = pair
    # (|x|^2 + |y|^2 - 2<x,y>) is |x-y|^2: computed so, small errors do not cancel away
    total = float(a @ a + b @ b)
    d = a - b
    return float(d @ d) / total if total else 0.0


@checked
def max_error(x: ArrayLike, y: ArrayLike) -> float:
    """`max|x-y| / max|y|` of a result `x` against its reference `y`, in float64.

    Where `y` is all zero: 0 if `x` is too, else infinity. Infinity where `x` is NaN or infinite and `y` is finite.
    """
    pair = _finite(x, y)
    if pair is None:
        return float("inf")
    a, b = pair
    if not b.size:
        return 0.0
    worst, largest = float(np.max(np.abs(a - b))), float(np.max(np.abs(b)))
    return worst / largest if largest else (0.0 if worst == 0 else float("inf"))


@checked
def errors(x: ArrayLike, y: ArrayLike) -> Errors:
    """Both measures at once."""
    return Errors(diff(x, y), max_error(x, y))
