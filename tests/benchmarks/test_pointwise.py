"""benchmarks/pointwise.py without a GPU: rows that are permuted or in groups, and what tells that a result is wrong."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import scalec
from benchmarks import pointwise

NAMES = ("scattered mxfp8", "ragged gathered", "masked 1x128", "dequantise GPTQ", "dequantise AWQ")


@pytest.fixture
def small(on_the_emulator: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 256, on the CPU, without a copy to compare with."""
    inputs: Any = import_module("scalec.bench.inputs")
    made = inputs.make_inputs
    monkeypatch.setattr(inputs, "make_inputs", lambda spec, dims, seed: made(spec, dims, seed, device="cpu"))
    monkeypatch.setattr("scalec.bench.contenders.copied", lambda size: None)
    monkeypatch.setattr(pointwise, "K", 256)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_rows_are_found(name: str, small: None) -> None:
    case = pointwise.Case(name, 200)
    kernel: Any = scalec.compile(pointwise.PROGRAMS[name], "sm_90a", {"k": pointwise.K})
    made = pointwise.Set(kernel, kernel.spec, case, 3)
    error = pointwise.compared(case, made)
    assert error is not None
    assert error <= pointwise.ALLOWED
    rows = made.results[0].reshape(-1, made.results[0].shape[-1])
    rows[:4] = rows[:4].clone().flip(0)  # two of each four
    assert not (pointwise.compared(case, made) or 0) <= pointwise.ALLOWED


def test_bytes_are_those_of_the_rows_that_are_there(small: None) -> None:
    kernel: Any = scalec.compile(pointwise.PROGRAMS["masked 1x128"], "sm_90a", {"k": pointwise.K})
    made = pointwise.Set(kernel, kernel.spec, pointwise.Case("masked 1x128", 400), 3)
    there, most = int(made.values["rows"].sum()), pointwise.GROUPS * 50
    assert there < most
    assert made.bytes == pytest.approx(there * (pointwise.K * 3 + 8), rel=0.01)
