"""Programs for the tests: text to module, and the pieces of a brute-force evaluation in plain Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from scalec.frontend import build
from scalec.ir.context import context
from scalec.ir.mlir import ir
from scalec.reference import Results, make, run

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.scale"))


@contextmanager
def program(text: str, dims: Mapping[str, int] | None = None) -> Iterator[ir.Module]:
    """The module of a program, with its context open."""
    with context():
        yield build(text, dims or {})


def case(
    text: str, dims: Mapping[str, int], seed: int = 0, *, given: Mapping[str, Any] | None = None, **options: Any
) -> tuple[dict[str, Any], Results]:
    """Arguments (made, some of them `given`) and the results of the reference before rounding, all in float64."""
    with program(text) as module:
        arguments = make(module, dims, seed, **options) | dict(given or {})
        results = run(module, arguments, dims=dims, exact=True)
    return {k: v if v.dtype == np.int32 else v.astype(np.float64) for k, v in arguments.items()}, results


def compare(got: np.ndarray, want: np.ndarray) -> None:
    """Equal up to float64's summation order, NaN for NaN."""
    assert got.shape == want.shape
    assert (np.isnan(got) == np.isnan(want)).all()
    np.testing.assert_allclose(
        got, want, rtol=1e-11, atol=1e-11 * np.nanmax(np.abs(want[np.isfinite(want)]), initial=1)
    )
