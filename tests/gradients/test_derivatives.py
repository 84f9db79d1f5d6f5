"""The table of derivatives against finite differences: both through the reference, of one element of memory each."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec.frontend.names import FUNCTIONS
from scalec.gradients.derivatives import TABLE
from tests.gradients.running import backward, forward

STEP = 2.0**-10
AT = np.array([x for x in np.arange(-3.96875, 4, 0.125) if abs(x) > 0.25], np.float32)
"""Where f32 has x - STEP and x + STEP exactly, and no function of one argument bends or is too steep."""

EXPRESSIONS = {
    **{name: f"{name}(x[i]:f32)" for name, (_, most) in FUNCTIONS.items() if most == 1},
    "sqrt": "sqrt(abs(x[i]:f32))",
    "max": "max(x[i]:f32, y[i]:f32, 0.5)",
    "min": "min(x[i]:f32, y[i]:f32, 0.5)",
    "+": "x[i]:f32 + y[i]:f32",
    "-": "x[i]:f32 - y[i]:f32",
    "*": "x[i]:f32 * y[i]:f32",
    "/": "y[i]:f32 / x[i]:f32",
    "negate": "-x[i]:f32",
    "power": "x[i]:f32^5",
    "numbers": "2 * (3 * x[i]:f32 * 0.5)^3",
    "composed": "silu(x[i]:f32 * sigmoid(y[i]:f32)) / (1 + exp(x[i]^2 / -8))",
}


def test_every_function_is_here():
    assert set(TABLE) | {"power", "numbers", "composed"} == set(EXPRESSIONS)
    assert set(FUNCTIONS) <= set(TABLE)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_derivative_is_that_of_finite_differences(name: str):
    source = f"f[i]:f32 = {EXPRESSIONS[name]}"
    g = scalec.grad(source) if name != "sign" else None
    values = {"x": AT, "y": np.float32(1.5) - AT * AT / 16}
    ones = np.ones_like(AT)
    got = backward(g, values, {"df": ones}, {}, {}) if g is not None and g.steps else {"x": np.zeros_like(AT)}
    for of in got:
        ends = [_in_float64(source, {**values, of: values[of].astype(np.float64) + h}) for h in (-STEP, STEP)]
        wanted = (ends[1] - ends[0]) / (2 * STEP)
        np.testing.assert_allclose(got[of], wanted, rtol=2e-5, atol=2e-5 * max(1, np.abs(wanted).max()), err_msg=str(g))


def _in_float64(source: str, values: dict[str, np.ndarray]) -> np.ndarray:
    from scalec.frontend import build
    from scalec.ir.context import context
    from scalec.reference import run

    used = {n: v.astype(np.float32) for n, v in values.items() if f"{n}[i]" in source}
    with context():
        return run(build(source, {}), used, exact=True)["f"]


@pytest.mark.parametrize("name", ["gelu", "relu", "abs", "max", "silu"])
def test_at_zero_it_is_that_of_torch(name: str):
    """Where a function bends torch takes a number between both sides; that of gelu is of 0/0 as it is written."""
    torch = pytest.importorskip("torch")
    source = f"f[i]:f32 = {'max(x[i]:f32, 0)' if name == 'max' else f'{name}(x[i]:f32)'}"
    x = np.array([0.0, -0.0, 1e-38, -1e-38, 1e-45, 30.0, -30.0], np.float32)
    leaf = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    same = {"max": lambda t: torch.maximum(t, torch.zeros_like(t)), "relu": torch.relu, "abs": torch.abs}
    f = same.get(name) or getattr(torch.nn.functional, name)
    f(leaf).sum().backward()
    assert leaf.grad is not None
    got = backward(scalec.grad(source), {"x": x}, {"df": np.ones_like(x)}, {}, {})["x"]
    np.testing.assert_allclose(got, leaf.grad.numpy(), atol=1e-6)


def test_a_forward_program_that_keeps_nothing_is_the_program():
    source = "C[m,n]  =  A[m,k] @ B[n,k]  # as it is written"
    assert scalec.grad(source).forward == source
    assert forward is not None
