"""Reductions of a product over the rows of all groups, which two launches find: rows of no group, and of groups
without any, count for nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.compare import compare
from scalec.checking.guarded import FILLS, between_guards
from scalec.checking.launch import made_up, values_of
from scalec.errors import UnsupportedError
from scalec.frontend import build
from scalec.frontend.cut_groups import cut_groups
from scalec.ir import context
from scalec.launches import launches
from scalec.runtime import emulated
from scalec.runtime.sequence import Sequence
from tests.emulator.running import TARGETS

RANGE = "for m in off[g]:off[g+1]"
GROUPS = f"T[m,n] = A[m,k] @ B[g,n,k] {RANGE}; C[m,n] = T; "

PROGRAMS = {
    "a sum": (GROUPS + "R[n]:f32 = sum[m](T)", {}),
    "several": (
        f"{GROUPS}R[n]:f32 = max[m](abs(T)) / 448 {RANGE}; S[n] = sqrt(sum[m](T*T)); Q[g,n]:f32 = min[m](T) {RANGE}",
        {},
    ),
    "by way of a temporary": (f"{GROUPS}Q[n] = sum[m](T*T); R[n]:f32 = sqrt(Q / 64); S[n]:f32 = max[m](T)", {}),
    "alone": (f"R[n]:f16 = min[m](A[m,k] @ B[g,n,k]) {RANGE}", {}),
    "scaled": (
        f"T[m,n] = A[m,k] @ B[g,n,k] scale(1x128, 1x128x128) {RANGE}; D[m,n]:mxfp8 = T; R[n]:f32 = max[m](abs(T))",
        {"k": 256},
    ),
    "gated": (
        f"G[m,n] = X[m,k] @ V[g,n,k] {RANGE}; U[m,n] = X[m,k] @ W[g,n,k] {RANGE}; T[m,n] = silu(G) * U; H[m,n] = T;"
        " R[n]:f32 = sum[m](T*T)",
        {},
    ),
    "gathered": (
        f"T[m,n] = A[idx[m],k] @ B[g,n,k] {RANGE}; C[m,n] = T; R[n]:f32 = sum[m](exp(0 - abs(T)))", {"A_0": 70},
    ),
    "columns": ("T[m,n] = A[g,m,k] @ B[n,k] for n in off[g]:off[g+1]; C[m,n] = T; R[m]:f32 = max[n](T)", {}),
    "of each batch": (
        "T[b,m,n] = A[b,m,k] @ B[g,n,k] for m in off[b,g]:off[b,g+1]; C[b,m,n] = T; R[b,n]:f32 = max[m](T)", {"b": 2},
    ),
    "whole rows": (f"{GROUPS}R[n]:f32 = sum[m](T); D[m,n]:e4m3 scale(1xn) = relu(T)", {}),
}  # fmt: skip
OFFSETS = [3, 3, 40, 40, 139]
SIZES = {"m": 150, "n": 72, "k": 64, "g": 4}


def launched(kernel: Any, target: str, values: dict[str, Any], dims: dict[str, int], fill: int) -> dict[str, Any]:
    """The bytes of the results of a launch, by name, over memory that is filled, and their values."""
    device = kernel.fixed = emulated.EmulatedDevice(target)
    device.options = replace(device.options, seed=fill)
    given, outs = between_guards(device, kernel.spec, values, dims, FILLS[fill])
    kernel(*given, out=outs[0] if len(outs) == 1 else tuple(outs))
    return {x.spec.name: np.asarray(values_of(x.spec, x)) for x in outs}


@pytest.mark.once(touches=lambda name, target: {name, target})
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, target: str) -> None:
    source, more = PROGRAMS[name]
    dims = {**SIZES, **more}
    made, expected = made_up(source, dims, 3)
    values = dict(made)
    if name not in ("columns", "of each batch"):
        values["off"] = np.asarray(OFFSETS, np.int32)
        rows = next(x for x in "XA" if x in values)
        if name != "gathered":  # what no group has is nobody's, NaN it may be
            values[rows] = values[rows].copy()
            values[rows][:3] = values[rows][139:] = np.nan
        with context.context():
            expected = reference.run(build(source, dims), values, dims=dims, exact=True)
    kernel = scalec.compile(source, target=target, dims={"k": dims["k"], "n": dims["n"]})
    assert isinstance(kernel, Sequence)
    found, again = (launched(kernel, target, values, dims, fill) for fill in (0, 1))
    for result, made in found.items():
        at = expected.written[result]
        assert made[at].tobytes() == again[result][at].tobytes(), result
        assert not np.isnan(np.asarray(expected[result], np.float64)[at]).any(), result
    for each in compare(found, expected):
        assert each.ok, each


@pytest.mark.once("target")
@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("target", TARGETS)
def test_no_rows_at_all(target: str, kind: str) -> None:
    dims = {**SIZES, "m": 20}
    source = f"{GROUPS}R[n]:f32 = {kind}[m](T)"
    values = dict(made_up(source, dims, 4)[0])
    values["off"] = np.full(5, 7, np.int32)
    kernel = scalec.compile(source, target=target)
    made = launched(kernel, target, values, dims, 0)["R"]
    assert (made == (0 if kind == "sum" else -np.inf)).all()


def test_texts() -> None:
    """What each launch is: behind the reduction stands what stood there, and the text's own range and settings stay."""
    found = launches(f"{GROUPS}R[n]:f32 = 2 * max[m](abs(T)) {RANGE} by 128 with stages=4", "sm_90a", {"k": 64})
    assert found.texts == (
        f"{GROUPS}R_max_g[g,n]:f32 = max[m](abs(T)) {RANGE} by 128 with stages=4",
        "R[n]:f32 = 2 * max[g](R_max_g[g,n]:f32)",
    )
    assert found.between == ("R_max_g",)
    assert found.results == ("C", "R")


@pytest.mark.parametrize(
    "source",
    [
        f"{GROUPS}R[n]:f32 += sum[m](T)",
        f"{GROUPS}Q[n] = sum[m](T*T); R[n]:f32 = sqrt(Q); Z[n]:f32 = Q",
        f"{GROUPS}R[n] = max[m](T); S[n]:f32 = sum[m](exp(T - R))",
        "T[m,n] = A[m,k] @ B[g,n,k] for m in lo[g]:hi[g]; R[n]:f32 = sum[m](T)",
    ],
)
def test_what_is_not_cut(source: str) -> None:
    """What adds to memory, what several results read, sums of exponentials, and ranges that may overlap."""
    assert cut_groups(source, "R") is None
    with pytest.raises(UnsupportedError):
        scalec.compile(source, target="sm_90a", dims={"k": 64})
