"""Second levels of scales that a program computes itself: launches before do, and what is quantised reads them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import scalec
from scalec.errors import SourceError, UnsupportedError
from scalec.launches import launches
from tests.emulator.pointwise import TARGETS, bit_equal, extreme
from tests.emulator.running import refusals

AMAX = "max[m,k](abs(X[m,k])) / 2688"
GATED = "V[m,k] = silu(G[m,k]) * X[m,k]; "
GROUPS = "max[i](h[i]:f32) / 2688; Q[m,k]:nvfp4 = X[m,k] * w[g] for m in off[g]:off[g+1] apart"

FOUND = [
    (f"Q_scale2[0,0]:f32 = {AMAX}; Q[m,k]:nvfp4 = X[m,k]", {"m": 130, "k": 608}, "k", 3),
    (f"Q_scale2[0,0]:f32 = {AMAX}; Q[m,k]:nvfp4 = X[m,k]", {"m": 1, "k": 1}, "", 3),
    (f"Q_scale2[0,0]:f32 = {AMAX}; T_scale2[0,0]:f32 = {AMAX}; Q[m,k]:nvfp4 = X[m,k]; T[k,m]:nvfp4 = X[m,k]",
     {"m": 70, "k": 96}, "k", 3),
    (f"T_scale2[0,0]:f32 = {AMAX}; T[k,m]:e2m1 scale(1x16:ue4m3@blocked*tensor) = X[m,k]", {"m": 48, "k": 99}, "", 3),
    (f"{GATED}Q_scale2[0,0]:f32 = max[m,k](abs(V)) / 2688; Q[m,k]:nvfp4 = V", {"m": 33, "k": 96}, "k", 3),
    (f"Q_scale2[0,0]:f32 = {AMAX}; Q[m,k]:nvfp4 = stochastic(hadamard(X[m,k], 16), s[0])", {"m": 9, "k": 96}, "k", 3),
    ("Q_scale2[0,0,0]:f32 = max[b,m,k](abs(X[b,m,k])) / 448; Q[b,m,k]:e4m3 scale(1x32*tensor) = X[b,m,k]",
     {"b": 2, "m": 9, "k": 96}, "", 4),
    ("Q_scale2[0,0]:f32 = max[t,k](abs(X[t,k])) / 2688; Q[m,k]:nvfp4 = X[idx[m],k]", {"t": 9, "m": 20, "k": 96}, "", 3),
    (f"Q_scale2[0,0]:f32 = {GROUPS}", {"m": 90, "k": 96, "g": 3, "i": 8}, "i", 2),
    (f"Q_scale2[0,0]:f32 = {AMAX}; P_scale2[0,0]:f32 = max[i](h[i]:f32) / 448; Q[m,k]:nvfp4 = X[m,k]; "
     "P[m,k]:e4m3 scale(1x32*tensor) = X[m,k]", {"m": 9, "k": 96, "i": 5}, "k", 4),
]  # fmt: skip


@pytest.mark.once("target")
@pytest.mark.parametrize("special", [None, np.nan, np.inf, 0.0])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed", "count"), FOUND)
def test_found(source: str, dims: dict[str, int], fixed: str, count: int, target: str, special: float | None) -> None:
    """To the bit what the reference has of the whole, of NaN, of infinities and of zeros alone, too."""
    assert len(launches(source, target).texts) == count
    bit_equal(source, dims, fixed, target, change=extreme(special))


@pytest.mark.parametrize(
    ("source", "rounding"),
    [
        ("S[0,0]:f32 = max[i](h[i]:f32) / 2688", "rn"),
        ("S[0] = max[i](h[i]:f32) / 2688", "full"),
        ("R[m]:f32 = max[k](X[m,k]) / 2688", "full"),
    ],
)
def test_quotients_of_one_number_in_f32_are_rounded(source: str, rounding: str) -> None:
    """By the instruction that is exact; the emulator's others are as close, so that no value tells it."""
    text = scalec.compile(source, target="sm_90a").ptx
    assert re.findall(r"\bdiv\.(\w+)\.f32", text) == [rounding]


COMPUTED = "the second level of a result's scales is computed by the program"


test_what_is_refused = refusals(
    [
        (f"Q[m,k]:nvfp4 = X[m,k]; Q_scale2[0,0]:f32 = {AMAX}", "is computed below it"),
        (f"Q_scale2[0]:f32 = {AMAX}; Q[m,k]:nvfp4 = X[m,k]", "is computed and not one f32"),
        (f"Q_scale2[0,0] = {AMAX}; Q[m,k]:nvfp4 = X[m,k]", "is computed and not one f32"),
        (f"Q_scale2[0,0]:f32 += {AMAX}; Q[m,k]:nvfp4 = X[m,k]", r"is computed by \+="),
        ("Q_scale2[m,k] = X[m,k]; Y[m,k] = X[m,k] / Q_scale2; Q[m,k]:nvfp4 = X[m,k]", "and used elsewhere, too"),
        (f"Q_scale[0,0]:f32 = {AMAX}; Q[m,k]:nvfp4 = X[m,k]", "Q_scale is two things"),
        ("T[m,n] = A[m,k] @ B[n,k]; Q_scale2[0,0]:f32 = max[m,n](abs(T)) / 2688; Q[m,n]:nvfp4 = T", "is computed by"),
        ("D_scale2[0,0]:f32 = max[i](h[i]:f32) / 2688; D[m,n]:nvfp4 = A[m,k] @ B[n,k]", COMPUTED),
        ("D_scale2[0,0]:f32 = h[0]:f32 / 2688; D[m,n]:nvfp4 = A[m,k] @ B[n,k]", COMPUTED),
        ("Q_scale2[0,0]:f32 = alpha; Q[m,k]:nvfp4 = X[m,k]", COMPUTED),
    ],
    (SourceError, UnsupportedError),
)
