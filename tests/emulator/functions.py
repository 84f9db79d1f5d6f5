"""The functions of the language: what they stand for in float64, and how far off a result is (emulator and GPU)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

LIMITS = {"f32": 4.0, "f16": 0.5 + 1 / 16, "bf16": 0.5 + 1 / 16}
"""Largest errors in ulps of the result, its own rounding included."""


@dataclass(frozen=True)
class Grid:
    """Significant bits of a type, exponents of its smallest normal number and of the power above its largest."""

    digits: int
    least: int
    beyond: int

    def error(self, got: Any, exact: Any, np: Any = np) -> Any:
        """|got - exact| in ulps of exact; infinity counts as the power of two above the largest number.

        Args:
            got: results, float64.
            exact: what they stand for, float64.
            np: numpy, or torch for tensors.
        """
        most = 2.0**self.beyond
        got, exact = (np.clip(x, -most, most) for x in (got, exact))
        exponent = np.clip(np.frexp(exact)[1] - 1, self.least, self.beyond - 1)
        return np.abs(got - exact) / np.ldexp(np.ones_like(exact), exponent - (self.digits - 1))


GRIDS = {"f32": Grid(24, -126, 128), "f16": Grid(11, -14, 16), "bf16": Grid(8, -126, 128)}


def _each(f: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.array([f(v) for v in x])


FUNCTIONS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "exp": ("exp(T)", np.exp),
    "sigmoid": ("sigmoid(T)", lambda x: np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x)))),
    "silu": ("silu(T)", lambda x: x * np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x)))),
    "gelu": ("gelu(T)", _each(lambda v: v * (math.erfc(-v * math.sqrt(0.5)) / 2))),
    "tanh": ("tanh(T)", np.tanh),
    "sqrt": ("sqrt(abs(T))", lambda x: np.sqrt(np.abs(x))),
    "reciprocal": ("1 / T", lambda x: 1 / x),
    "quotient": ("T / 3", lambda x: x / 3),
    "square": ("T^2", lambda x: x**2),
    "fifth power": ("T^5", lambda x: x**5),
    "sixth power": ("T^6", lambda x: x**6),
    "largest power": ("T^64", lambda x: x**64),
    "relu": ("relu(T)", lambda x: np.maximum(x, 0)),
    "sign": ("sign(T)", np.sign),
    "max, min, abs": ("max(min(T, 2), -abs(T))", lambda x: np.maximum(np.minimum(x, 2), -np.abs(x))),
}
"""Expression in T, and its value in float64. At -infinity, where silu and gelu are 0, theirs is NaN."""


def source(expression: str, element: str) -> str:
    """A program that computes an expression of each element of X, f32: A and B are zeros."""
    return f"T[m,n] = A[m,k]:f16 @ B[n,k]:f16 + X[m,n]:f32; C[m,n]:{element} = {expression}"
