"""Every function of the language of every f32, on a GPU: `pytest -m gpu -s tests/gpu/test_functions.py` prints the
largest error of each, for docs/language.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import scalec
from tests.emulator.functions import FUNCTIONS, GRIDS, LIMITS, source

pytestmark = pytest.mark.gpu

ROWS = COLUMNS = 2**13  # of 2^32 inputs a part: results, inputs and some float64 temporaries of it fit everywhere
PART = ROWS * COLUMNS


def exact(torch: Any) -> dict[str, Callable[[Any], Any]]:
    """The functions in float64."""
    tail = lambda x: torch.special.erfc(x * -(0.5**0.5)) / 2  # noqa: E731
    numbers = lambda x: x.clamp(min=torch.finfo(torch.float64).min)  # noqa: E731
    return {
        "exp": torch.exp,
        "sigmoid": torch.sigmoid,
        "silu": lambda x: numbers(x) * torch.sigmoid(x),
        "gelu": lambda x: numbers(x) * tail(x),
        "tanh": torch.tanh,
        "sqrt": lambda x: x.abs().sqrt(),
        "reciprocal": lambda x: 1 / x,
        "quotient": lambda x: x / 3,
        "square": lambda x: x**2,
        "fifth power": lambda x: x**5,
        "sixth power": lambda x: x**6,
        "largest power": lambda x: x**64,
        "relu": lambda x: x.clamp(min=0),
        "sign": torch.sign,
        "max, min, abs": lambda x: x.clamp(max=2).maximum(-x.abs()),
    }


@pytest.mark.parametrize("element", GRIDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_inputs(torch, name: str, element: str) -> None:
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[element]
    f, grid = exact(torch)[name], GRIDS[element]
    kernel = scalec.compile(source(FUNCTIONS[name][0], element), dims={"n": COLUMNS, "k": 64})
    zeros = torch.zeros(ROWS, 64, device="cuda", dtype=torch.float16)
    out = torch.empty(ROWS, COLUMNS, device="cuda", dtype=dtype)
    largest = torch.zeros((), device="cuda", dtype=torch.float64)
    at = torch.zeros((), device="cuda", dtype=torch.float64)
    for start in range(-(2**31), 2**31, PART):
        bits = torch.arange(start, start + PART, device="cuda", dtype=torch.int64).to(torch.int32)
        x = bits.view(torch.float32).view(ROWS, COLUMNS)
        kernel(zeros, zeros, x, out=out)
        wide = x.double() + 0.0  # of -0 too the sum of the program is 0
        nan = wide.isnan()
        assert bool(out.isnan()[nan].all()), f"{name} of NaN"
        error = grid.error(out.double(), f(wide), torch).masked_fill(nan, 0).nan_to_num(nan=float("inf")).view(-1)
        worst = error.argmax()
        at = torch.where(error[worst] > largest, wide.view(-1)[worst], at)
        largest = largest.maximum(error[worst])
    print(f"\n{name:14} {element:5} {float(largest):.4f} ulp at {float(at)!r}")
    assert float(largest) <= LIMITS[element]
