"""Sums over no elements: results are what the epilogue makes of 0, in every family of kernels.

The runtime gives the kernel one K block of zeros (scalec.runtime.plan.Plan.of_nothing). What may fail is how each
family is given operands without elements: by maps of each kind, by pointers, by scales on each of their ways.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.runtime import emulated
from tests.emulator.quantised import run_quantised
from tests.emulator.running import run_on
from tests.tiers import fields

BF16, FP8 = "C[m,n]:f32 = A[m,k] @ B[n,k]", "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,128x128)"
ADDS = "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,1x128)"
BIAS = "C[m,n]:f32 = gelu(0.5 * (A[m,k]:mxfp8 @ B[n,k]:mxfp8) + bias[n])"
BLOCKED = "C[m,n] = x[m] - A[m,k]:e4m3@B[n,k]:e4m3 scale(1x32:ue8m0@blocked, 1x32:ue8m0@packed)"
MIXED = "C[m,n]:f32 = A[m,k]:e4m3@B[n,k]:e2m1 scale(1x32:ue8m0, 1x32:ue8m0) + r[m,n]"
TURNED = "C[m,n]:f32 = A[m,k] @ B[k,n] + bias[n]"
POINTS = "C[m,n]:f32 += A[b,m,k] @ B[b,n,k]"

CASES = [
    ("sm_90a", f"{BF16} + bias[n]", ()),
    ("sm_90a", f"{BF16} + bias[n] with tile=128x64x64, consumers=pingpong, warpgroups=2", ()),
    ("sm_90a", "C[m,n]:f32 += A[m,k] @ B[n,k] with adds=loaded", ("n",)),
    ("sm_90a", f"{FP8} + bias[n]", ("n",)),
    ("sm_90a", f"{FP8} with swap=1", ("n",)),
    ("sm_90a", f"{FP8} with cluster=2x1, tile=128x128x128", ("n",)),
    ("sm_90a", f"{FP8} with consumers=pingpong, warpgroups=2, tile=64x128x128", ("n",)),
    ("sm_90a", f"{ADDS} with scale_path=thread", ("n",)),
    ("sm_90a", ADDS.replace("1x128,1x128", "1x128@col,1x128"), ("n",)),
    ("sm_90a", f"{FP8} * silu(x[m])", ("k",)),
    ("sm_90a", POINTS, ()),
    ("sm_100a", f"{BF16} + bias[n]", ()),
    ("sm_100a", f"{BF16} + bias[n] with cta_group=2, cluster=2x1, tile=128x128x64", ("n",)),
    ("sm_100a", f"{FP8} + bias[n]", ("n",)),
    ("sm_100a", ADDS, ("n",)),
    ("sm_100a", BIAS, ("n",)),
    ("sm_100a", f"{BIAS} with scale_copier=1", ("n",)),
    ("sm_100a", BLOCKED, ("n",)),
    ("sm_100a", MIXED, ("n",)),
    ("sm_100a", "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4 + bias[n]", ("n",)),
    ("sm_100a", f"{TURNED} with scheduler=dynamic", ("n", "k")),
    ("sm_100a", POINTS, ()),
    ("sm_120a", f"{BF16} + bias[n]", ()),
    ("sm_120a", f"{FP8} with swap=1", ("n",)),
    ("sm_120a", ADDS, ("n",)),
    ("sm_120a", "C[m,n]:f32 += A[m,k] @ B[n,k] with adds=loaded", ("n",)),
    ("sm_120a", BIAS, ("n",)),
    ("sm_120a", BLOCKED, ("n",)),
    ("sm_120a", MIXED, ("n",)),
    ("sm_120a", "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4 + bias[n]", ("n", "k")),
    ("sm_120a", TURNED, ("n",)),
    ("sm_120a", POINTS, ()),
]


@pytest.mark.once("target", touches=lambda source, **_: fields(source))
@pytest.mark.parametrize(("target", "source", "fixed"), CASES)
def test_a_sum_of_nothing(target: str, source: str, fixed: tuple[str, ...]) -> None:
    sizes = {"m": 71, "n": 136, "k": 0} | ({"b": 3} if "b,m" in source else {})
    run_on(source, sizes, fixed, 5, 1e-5, target=target, times=2)


@pytest.mark.once
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_a_sum_over_no_points(target: str) -> None:
    run_on(POINTS, {"m": 9, "n": 24, "k": 40, "b": 0}, ("n", "k"), 2, 1e-5, target=target)


@pytest.mark.once("target")
@pytest.mark.parametrize(
    ("target", "result"),
    [("sm_90a", "fp8_block"), ("sm_100a", "mxfp8"), ("sm_120a", "nvfp4"), ("sm_100a", "mxfp4"), ("sm_90a", "mxfp8")],
)
def test_quantised(target: str, result: str) -> None:
    program = "D[m,n]{} = relu(A[m,k]:e4m3 @ B[n,k]:e4m3 + bias[n])"
    run_quantised(program, result, {"m": 70, "n": 160, "k": 0}, ("n",), 3, target, times=1)


@pytest.mark.parametrize(("empty", "known"), [("m", False), ("m", True), ("n", True)])
def test_a_result_of_nothing_launches_nothing(empty: str, known: bool) -> None:
    sizes = {"m": 8, "n": 16, "k": 32, empty: 0}
    kernel = scalec.compile("C[m,n]:f32 = A[m,k] @ B[n,k]", "sm_90a", {empty: 0} if known else {})
    kernel.fixed = device = emulated.EmulatedDevice("sm_90a")
    a, b = (np.zeros((sizes[d], 32), ml_dtypes.bfloat16) for d in "mn")
    assert kernel(a, b).shape == (sizes["m"], sizes["n"])
    assert device.stats is None
    assert kernel.spec.dims[empty] == (0 if known else None)
