"""The functions of the language, near every power of two and wherever their sequences of instructions turn."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.runtime.kernel import Kernel
from tests.emulator.functions import FUNCTIONS, GRIDS, LIMITS, source

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
SHAPE = (64, 64)
TURNS = [0.0625, 0.55, 2.0, 9.02, 16.0, 87.34, 88.0297, 88.7228, 89.0, 103.28, 103.97, 104.0, 105.4, 127.9, 128.0]
WORST = [  # of all f32, by a model of the instructions: docs/language.md
    *(-10.962806, -3.8102727, -2.7091918, -5.0864587, 0.55020505, 0.69719988),
    *(-11.576311, -2.7683203, -91.206955, -78.340485, -1.96875, 0.062227849),
]


def inputs() -> np.ndarray:
    """64x64 f32: those around powers of two, subnormal ones, infinities, those around turns, and some in between."""
    rng = np.random.default_rng(22)
    starts = np.arange(0, 256, dtype=np.uint32) << 23
    near = (starts[:-1, None] + np.array([0, 1, 0x2AAAAB, 0x7FFFFF], np.uint32)).ravel().view(np.float32)
    turns = np.array(TURNS + [-x for x in WORST], np.float32)
    around = [np.nextafter(turns, np.float32(0)), turns, np.nextafter(turns, np.float32(np.inf))]
    some = [*near, *np.concatenate(around), np.inf]
    some += [*rng.uniform(0, 16, 600), *rng.uniform(16, 110, 300)]
    some = np.array(some, np.float32)
    both = np.concatenate([some, -some])
    return np.resize(both, SHAPE)


def computed(expression: str, element: str, target: str) -> np.ndarray:
    m, n = SHAPE
    kernel = scalec.compile(source(expression, element), target=target, dims={"n": n, "k": 64})
    out = np.full(SHAPE, np.nan, TYPES[element])
    kernel(np.zeros((m, 64), np.float16), np.zeros((n, 64), np.float16), inputs(), out=out)
    return out.astype(np.float64)


def worst(got: np.ndarray, f: Callable[[np.ndarray], np.ndarray], element: str) -> tuple[float, float]:
    """The largest error in ulps, and where."""
    x = inputs().astype(np.float64) + 0.0  # of -0 too the sum is 0
    with np.errstate(all="ignore"):
        exact = f(x.ravel()).reshape(x.shape)
    error = np.where(np.isnan(exact), 0, GRIDS[element].error(got, exact))
    at = np.unravel_index(np.nanargmax(np.where(np.isnan(error), np.inf, error)), error.shape)
    return float(error[at]), float(x[at])


@pytest.mark.once("name", "element", "target")
@pytest.mark.parametrize(
    ("name", "element", "target"),
    [
        *((name, "f32", "sm_90a") for name in FUNCTIONS),
        *((name, "f16", "sm_90a") for name in ("gelu", "silu", "sigmoid", "tanh", "exp", "sqrt", "largest power")),
        *((name, "bf16", "sm_90a") for name in ("gelu", "silu", "exp")),
        *((name, "f32", "sm_100a") for name in ("gelu", "silu", "sixth power", "sign")),  # in pairs
        ("tanh", "bf16", "sm_100a"),
    ],
)
def test_errors(name: str, element: str, target: str) -> None:
    expression, f = FUNCTIONS[name]
    got = computed(expression, element, target)
    error, x = worst(got, f, element)
    assert error < LIMITS[element], f"{name} of {x!r}: {error:.4f} ulp"
    limit = {"gelu": 0, "silu": 0, "sigmoid": 0, "exp": 0, "tanh": -1}
    if name in limit:
        assert (got[np.isneginf(inputs())] == limit[name]).all()


def test_a_small_block_does_not_vanish() -> None:
    """tanh of less than 2^-26, as a block of a quantised result."""
    kernel = scalec.compile(
        "T[m,n] = A[m,k]:f16 @ B[n,k]:f16 + X[m,n]:f32; C[m,n]:e4m3 scale(1x32) = tanh(T)",
        target="sm_90a",
        dims={"n": 32, "k": 64},
    )
    x = np.full((8, 32), 3e-9, np.float32)
    values, scales = kernel(np.zeros((8, 64), np.float16), np.zeros((32, 64), np.float16), x)
    got = values.astype(np.float64) * scales
    np.testing.assert_allclose(got, 3e-9, rtol=1e-6)


def test_functions_of_quantised_results_are_short() -> None:
    """Those of results of 16 bits, whatever the scales, which they leave within 2^-15."""
    program = "T[m,n] = A[m,k]:f16 @ B[n,k]:f16 + X[m,n]:f32; C[m,n]:e4m3 scale(1x32) = silu(T)"
    kernel = scalec.compile(program, target="sm_90a", dims={"n": 32, "k": 64})
    assert isinstance(kernel, Kernel)
    assert "ex2.approx" in kernel.ptx
    x = np.random.default_rng(3).normal(size=(8, 32)).astype(np.float32)
    _, scales = kernel(np.zeros((8, 64), np.float16), np.zeros((32, 64), np.float16), x)
    largest = np.abs(x / (1 + np.exp(-x.astype(np.float64)))).max(axis=1, keepdims=True)
    np.testing.assert_allclose(scales * 448.0, largest, rtol=2**-15)
