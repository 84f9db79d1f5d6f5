"""Results quantised in blocks of single columns: `128x1`, `mx1`; along one index, another, and both."""

from __future__ import annotations

import re

import numpy as np
import pytest

import scalec
from tests.emulator.pointwise import TARGETS, bit_equal, bit_equal_of_0_and_1, extreme, fault_is_found
from tests.emulator.running import refusals

PROGRAMS = [
    ("Q[m,k]:e4m3 scale(128x1) = X[m,k]", {"m": 300, "k": 200}, "k"),
    ("Q[m,k]:e4m3 scale(128x1) = X[m,k]", {"m": 131, "k": 99}, ""),
    ("Q[m,k]:e4m3 scale(32x1:ue8m0@packed) = exp(max(X[m,k], 0))", {"m": 70, "k": 201}, "k"),
    ("Q[m,k]:e2m1 scale(16x1:ue4m3@blocked) = X[m,k]", {"m": 70, "k": 200}, "k"),
    ("Q[m,k]:e2m1 scale(16x1:ue4m3*tensor) = stochastic(X[m,k], s[0])", {"m": 70, "k": 72}, "k"),
    ("Q[m,k]:e5m2 scale(2x1) = hadamard(X[m,k], 16)", {"m": 7, "k": 64}, "k"),
    ("T[k,m]:e4m3 scale(32x1:ue8m0) = X[m,k]", {"m": 70, "k": 200}, "k"),
    ("Q[m,k]:e4m3 scale(128x1) = X[m,k]; T[k,m]:e4m3 scale(1x128) = X[m,k]", {"m": 150, "k": 200}, "k"),
    ("Q[m,k]:e4m3 scale(64x1) = X[m,k]; P[m,k]:e4m3 scale(1x128) = X[m,k]; R[m,k]:mxfp4 = X[m,k]",
     {"m": 150, "k": 256}, "k"),
    ("Q[b,m,k]:e4m3 scale(1x96x1@col) = X[b,m,k]:f32", {"b": 2, "m": 100, "k": 40}, "k"),
    ("Q[m,k]:e4m3 scale(24x1) = X[m,k%16]", {"m": 50, "k": 40}, "k"),
    ("Q[m,k]:e3m2 scale(32x1) = X[m,k]; P[m,k]:mxfp6 = X[m,k]", {"m": 50, "k": 64}, "k"),
    ("R[m] = max[k](abs(X[m,k])); Q[m,k]:e4m3 scale(32x1) = X[m,k] * R", {"m": 50, "k": 64}, "k"),
    ("Q[m,k]:e4m3 scale(128x1 of M[m/128,k]) = X[m,k]", {"m": 300, "k": 99}, ""),
    ("Q[m,k]:e4m3 scale(16x1:ue8m0 of M[m/16,k]) = X[m,k]", {"m": 30, "k": 40}, "k"),
    ("Q[m,k]:e4m3 scale(mx1 of M[k]) = X[m,k]", {"m": 130, "k": 99}, "k"),
    ("Q[m,k]:e4m3 scale(mx1) = X[m,k]", {"m": 130, "k": 99}, ""),
    ("Q[b,m,k]:e4m3 scale(1xmx1) = X[b,m,k]; T[b,k,m]:e4m3 scale(1x1xm) = X[b,m,k]", {"b": 2, "m": 70, "k": 64}, "k"),
    ("Q[m,k]:e4m3 scale(mx1) = X[m,k]; P[m,k]:e4m3 scale(1xk) = X[m,k]", {"m": 30, "k": 64}, "k"),
]  # fmt: skip


@pytest.mark.once("target")
@pytest.mark.parametrize("special", [None, np.nan, np.inf, 0.0])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed"), PROGRAMS)
def test_program(source: str, dims: dict[str, int], fixed: str, target: str, special: float | None) -> None:
    bit_equal(source, dims, fixed, target, change=extreme(special))


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_of_0_and_1(size: int) -> None:
    bit_equal_of_0_and_1("Q[m,k]:e4m3 scale(128x1) = X[m,k]", size, "k", "sm_90a")


def test_warps_meet_without_conflicts() -> None:
    """A wavefront for 32 elements at most, and loads and stores are as wide as those of any quantiser."""
    source, dims = "Q[m,k]:e4m3 scale(128x1) = X[m,k]", {"m": 256, "k": 256}
    stats = bit_equal(source, dims, "k", "sm_90a")
    assert 0 < stats.counts["shared wavefronts"] <= 256 * 256 // 32
    assert not stats.counts.get("bank conflicts")
    text = scalec.compile(source, target="sm_90a", dims={"k": 256}).ptx
    assert re.search(r"ld\.global\.v4\.b32", text)
    assert re.search(r"st\.global\.v2\.b32", text)


def test_a_fault_is_found() -> None:
    """What the warps of a block exchange, of the column before."""
    old, new = r"(st\.shared\.f32 \[\S+) \+ 512\]", r"\1 + 516]"
    fault_is_found("Q[m,k]:e4m3 scale(128x1) = X[m,k]", {"m": 300, "k": 200}, "k", old, new)


test_what_is_refused = refusals(
    [
        ("Q[m,k]:e4m3 scale(1x1) = X[m,k]", "in blocks of 1x1"),
        ("Q[m,k]:e4m3 scale(mx32) = X[m,k]", "in blocks of mx32"),
        ("Q[m,k]:e4m3 scale(2048x1) = X[m,k]", "blocks of 2048x1"),
        ("D[m,n]:e4m3 scale(128x1) = A[m,k] @ B[n,k]", "in blocks of 128x1"),
    ]
)
