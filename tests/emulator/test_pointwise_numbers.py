"""Results at index 0, without a contraction: one number of a vector, and rows that keep the index that is reduced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec.checking.launch import made_up
from scalec.runtime.emulated import EmulatedDevice
from tests.emulator.pointwise import TARGETS, bit_equal
from tests.emulator.quantised import changed
from tests.emulator.running import launched, refusals

FOUND = [
    ("S[0]:f32 = max[n](abs(x[n]:f32))", {"n": 2999}, ""),
    ("S[0,0] = min[n](x[n]) / 2", {"n": 300}, "n"),
    ("R[m,0]:f32 = max[k](abs(X[m,k]))", {"m": 5, "k": 300}, "k"),
    ("R[m,0]:f32 = max[k](X[m,k]); Y[m,k]:mxfp8 = X[m,k]", {"m": 5, "k": 99}, ""),
    ("R[0,k]:f32 = max[m](abs(X[m,k]))", {"m": 37, "k": 99}, ""),
    ("Y[0,m,k] = X[m,k]:mxfp8", {"m": 5, "k": 96}, "k"),
    ("S[0]:f32 = max[n](x[n]); T[n]:f32 = x[n]:bf16", {"n": 77}, ""),
]


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("count", [None, 1, 0])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed"), FOUND)
def test_bits(source: str, dims: dict[str, int], fixed: str, target: str, count: int | None) -> None:
    """Of all, of one and of none along the last index, with a NaN in front of an infinity and zeros of both signs."""
    last = list(dims)[-1]

    def change(values: dict[str, Any]) -> None:
        for x in values.values():
            x.reshape(-1)[:4] = np.array([-0.0, 0.0, np.inf, np.nan])[: x.size].astype(x.dtype)

    dims = dims if count is None else dims | {last: count}
    some = ":mxfp8" not in source and count is None
    bit_equal(source, dims, "" if count == 0 else fixed, target, change=change if some else lambda _: None)


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "source",
    [
        "S[0]:f32 = sum[n](x[n]:f32)",
        "S[0]:f32 = sum[n](x[n]*y[n]) / count; T[0]:f32 = sum[n](x[n]^2)",
        "S[0]:f32 = sum[n](x[n]) * c[0]; R[n]:f32 = exp(x[n])",
    ],
)
def test_sums(source: str, target: str, seed: int) -> None:
    kernel = scalec.compile(source, target=target)
    kernel.fixed = EmulatedDevice(target)
    dims = {"n": 700}
    values, expected = made_up(source, dims, seed)
    launched(kernel, values, expected, dims, seed)


def test_a_fault_is_found() -> None:
    """Threads that do not hear of one another."""
    fault = changed(r"redux\.sync\.max\.s32\s+(\S+), (\S+), \S+;", r"mov.b32 \1, \2;")

    def rising(values: dict[str, Any]) -> None:
        values["x"][:] = np.arange(2999)

    bit_equal("S[0]:f32 = max[n](abs(x[n]:f32))", {"n": 2999}, "", "sm_90a", change=rising)
    with pytest.raises(AssertionError):
        bit_equal("S[0]:f32 = max[n](abs(x[n]:f32))", {"n": 2999}, "", "sm_90a", change=rising, fault=fault)


test_what_is_refused = refusals(
    [
        ("Y[m,k,0] = X[m,k]", "which has 0 as its last index and k before"),
        ("S[0]:f32 = x[0] * 2", "a result of one number that nothing is reduced to"),
        ("S[1]:f32 = sum[n](x[n]:f32)", "at a computed index"),
    ]
)
