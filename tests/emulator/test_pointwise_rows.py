"""What is found of rows without a contraction, and results that are computed of it: norms, softmax, statistics."""

from __future__ import annotations

import re

import numpy as np
import pytest

from scalec.checking.compare import compare
from tests.emulator.pointwise import bit_equal, ran

NORM = "R[m] = sum[k](X[m,k]^2); Y[m,k]{} = X[m,k] * w[k] / sqrt(R/n + e)"
SOFTMAX = "M[m] = max[k](X[m,k]); E[m,k] = exp(X[m,k] - M); S[m] = sum[k](E); Y[m,k]:f32 = E/S"
MEAN = "M[m] = sum[k](X[m,k])/n; V[m] = sum[k]((X[m,k] - M)^2)/n; "
LAYER = MEAN + "Y[m,k] = (X[m,k] - M)/sqrt(V + e)*w[k] + b[k]; S[m]:f32 = V"
COMBINE = "T[t,k] = sum[j](w[t,j]:f32 * D[inv[t,j],k]); R[t] = sum[k](T^2); Y[t,k]:mxfp8 = T/sqrt(R); Z[t,k] = T"

CASES = [
    ("S[m]:f32 = sum[k](X[m,k]^2)", {"m": 5, "k": 100}),
    ("S[m] = sum[k](X[m,k]:f32 * w[k])", {"m": 5, "k": 1031}),
    ("S[b,m]:f32 = sum[k](X[b,m,k]) * g[b]", {"b": 2, "m": 5, "k": 136}),
    (NORM.format(""), {"m": 5, "k": 104}),
    (NORM.format(":mxfp8"), {"m": 5, "k": 2104}),
    (NORM.format(":nvfp4"), {"m": 3, "k": 264}),
    (NORM.format(":e4m3 scale(1x128)"), {"m": 5, "k": 2050}),
    (NORM.format(":e4m3 scale(1xk)"), {"m": 5, "k": 2104}),
    (SOFTMAX, {"m": 5, "k": 1031}),
    pytest.param(  # warps exchange three times, and are no power of two
        SOFTMAX.replace("Y[m,k]:f32", "Y[m,k]:e4m3 scale(1xk)"), {"m": 2, "k": 5125}, marks=pytest.mark.thorough
    ),
    (SOFTMAX.replace("m]", "b,m]").replace("m,", "b,m,").replace("b,b,", "b,"), {"b": 2, "m": 5, "k": 131}),
    (LAYER, {"m": 5, "k": 104}),
    (COMBINE, {"t": 5, "k": 136, "j": 3, "D_0": 9}),
    (COMBINE, {"t": 2, "k": 3001, "j": 3, "D_0": 9}),
]


@pytest.mark.once("source", "target", "fixed")
@pytest.mark.parametrize("fixed", ["", "kj"])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize(("source", "dims"), CASES)
def test_near_the_reference(source: str, dims: dict[str, int], fixed: str, target: str) -> None:
    made, expected, _, _ = ran(source, dims, fixed, target, exact=True)
    with np.errstate(all="ignore"):
        wrong = [x for x in compare(made, expected) if not x.ok]
    assert not wrong


@pytest.mark.once("source", "k")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("fixed", ["", "k"])
@pytest.mark.parametrize("k", [0, 1, 3000])
@pytest.mark.parametrize(
    "source",
    [
        "S[m]:f32 = max[k](abs(X[m,k])) * 2; T[m]:f32 = min[k](X[m,k])",
        "M[m] = max[k](X[m,k]); Y[m,k]:f32 = X[m,k] - M; T[m]:f32 = M",
        "M[m] = max[k](abs(X[m,k])); Y[m,k]:f32 = X[m,k] * 2^3; T[m]:f32 = M / 448",
    ],
)
def test_the_largest_and_the_least_are_exact(source: str, k: int, fixed: str, target: str) -> None:
    def nan(values: dict[str, np.ndarray]) -> None:
        values["X"][1, k // 2 : k // 2 + 1] = np.nan
        values["X"][2] = -abs(values["X"][2])  # whose bits rise where they fall
        values["X"][3, : k // 3] = -np.inf
        values["X"][4, k // 2 : k // 2 + 1] = np.copysign(np.nan, -1)

    bit_equal(source, {"m": 5, "k": k}, fixed, target, change=nan)


@pytest.mark.once("divisor", "target")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("divisor", ["r[m]", "sqrt(r[m])"])
def test_quotients_by_a_number_of_the_row(divisor: str, target: str) -> None:
    """Of all magnitudes, subnormal ones, infinities, zeros of both signs and none: within 2 ulp."""
    some = [0.0, 2.0**-149, 2.0**-130, 2.0**-126, 2.0**-20, 1.0, 3.0, 2.0**126, 2.0**127, 3.4e38, np.inf, np.nan]
    every = np.array([*some, *[-x for x in some]], np.float32)

    def change(values: dict[str, np.ndarray]) -> None:
        values["X"][:], values["r"][:] = every, every

    dims = {"m": every.size, "k": every.size}
    made, _, _, _ = ran(
        f"Y[m,k]:f32 = X[m,k]:f32 / {divisor}".replace("r[m]", "r[m]:f32"), dims, "k", target, change=change
    )
    with np.errstate(all="ignore"):
        by = every if divisor == "r[m]" else np.sqrt(every)
        wanted = every[None, :] / by[:, None]
        spacing = np.spacing(np.abs(np.where(np.isfinite(wanted), wanted, 1)))
        off = np.abs(made["Y"].astype(np.float64) - wanted)
    near = (np.isnan(wanted) & np.isnan(made["Y"])) | (made["Y"] == wanted) | (off <= 2 * spacing)
    assert near.all(), [(every[j], by[i], made["Y"][i, j], wanted[i, j]) for i, j in np.argwhere(~near)[:5]]


NAMED = [
    "W[t,k] = sum[j](A[n[t,j],k]) + sum[i](B[m[t,i],k])",
    "W[t,k] = max[j](A[n[t,j],k]) + min[i](B[t,i,k])",
    "W[t,k]:f32 = sum[j](A[n[t,j],k]) + sum[j](B[t,j,k])",
    "W[t,k] = sum[i](A[t,i,k]) * sum[j](B[m[t,j],k]) + sum[h](C[o[h],k]) + D[p[t],k]",
    "S[t,k] = sum[j](A[n[t,j],k]) - sum[j](B[m[t,j],k]); R[t] = sum[k](S^2); W[t,k] = S/sqrt(R)",
    "W[k]:f32 = sum[i](A[n[i],k]) + sum[i](B[i,k])",
]
"""Reductions of which others have indices from memory, of another index or the same."""


@pytest.mark.once("source")
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("source", NAMED)
def test_an_index_from_memory_leaves_out_terms_of_its_own_reduction(source: str, target: str, known: bool) -> None:
    sizes = {"t": 5, "k": 40, "j": 3, "i": 70, "h": 2}
    dims = {d: size for d, size in sizes.items() if f"[{d}" in source or f",{d}" in source}
    dims |= {f"{x}_0": 9 for x in "ABCD" if re.search(rf"{x}\[[a-z]\[", source)}

    def nothing(values: dict[str, np.ndarray]) -> None:
        for name in ("n", "m", "o"):
            if name in values:
                values[name].reshape(-1)[::2] = -1

    made, expected, _, _ = ran(source, dims, "kjih" if known else "", target, exact=True, change=nothing)
    assert all(x.ok for x in compare(made, expected))
