"""Reductions of an operand along K beside its product, which the warps take that convert it: on every target, at tails
of every dimension, for operands that are converted anyway and for others, and over nothing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.errors import ArgumentError, ScheduleError, UnsupportedError
from scalec.runtime import emulated
from tests.emulator.test_several_results import run

TARGETS = ("sm_90a", "sm_100a", "sm_120a")

PRENORM = "D[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:tf32; S[m]:f32 = sum[k](A[m,k]^2)"

SIZES = [
    ({"m": 1, "n": 24, "k": 8}, ""),
    ({"m": 13, "n": 24, "k": 200}, "nk"),
    ({"m": 137, "n": 24, "k": 136}, "n"),
    ({"m": 300, "n": 72, "k": 96}, "nk"),
    ({"m": 64, "n": 264, "k": 64}, "mnk"),
    ({"m": 130, "n": 136, "k": 168}, ""),
    ({"m": 7, "n": 1, "k": 40}, "k"),
]
"""Rows of fewer and more tiles than one, columns of several, of which one alone writes."""


@pytest.mark.once("target")
@pytest.mark.parametrize(("dims", "fixed"), SIZES)
@pytest.mark.parametrize("target", TARGETS)
def test_squares_of_rows(target: str, dims: dict[str, int], fixed: str) -> None:
    run(PRENORM, target, dims, fixed)


PROGRAMS = [
    "D[m,n] = A[m,k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k])",
    "S[n]:bf16 = max[k](abs(B[n,k])); D[m,n] = relu(A[m,k] @ B[n,k])",
    "D[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:bf16; S[m]:f32 = sum[k](silu(A[m,k])); T[n]:f16 = min[k](B[n,k] - 3)",
    "D[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:e2m1; S[n]:f32 = sum[k](exp(B[n,k])); T[n]:f32 = max[k](alpha * B[n,k])",
    "D[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:tf32; S[m]:f32 = sqrt(sum[k](A[m,k]^2) * alpha + 0.5)",
    "D[n,m]:f32 = A[m,k]:f16 @ B[n,k]:f16; S[m]:f32 = sum[k](A[m,k]^2); T[m]:f32 = max[k](A[m,k])",
    "D[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3; S[m]:e4m3 = max[k](abs(A[m,k])) / 448",
    "D[b,m,n]:f32 = A[b,m,k]:bf16 @ B[n,k]:tf32; S[b,m]:f32 = sum[k](A[b,m,k]^2); T[n]:f32 = sum[k](abs(B[n,k]))",
    "D[h,m,n]:f32 = A[m,k]:bf16 @ B[h,n,k]:tf32; S[m]:f32 = sum[k](A[m,k]^2)",
    "D[m,n]:f32 = A[m,b,k]:bf16 @ B[n,b,k]:tf32; S[m]:f32 = sum[b,k](exp(A[m,b,k])); T[m]:f32 = max[b,k](A[m,b,k])",
    "D[m,b,n]:f32 = A[m,b,k]:bf16 @ B[b,n,k]:tf32; S[m,b]:f32 = sum[k](A[m,b,k]^2)",
    "D[b,m,n]:f32 = A[m,b,k]:bf16 @ B[n,b,k]:tf32; S[b,m]:f32 = sum[k](A[m,b,k]^2)",
    "D[m,n] = A[m,k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k] * w[k]); T[m]:f32 = max[k](A[m,k] * r[m])",
]


@pytest.mark.once("target", "program")
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("target", TARGETS)
def test_reductions(target: str, program: str) -> None:
    dims = {"m": 77, "n": 144, "k": 112}
    dims |= {"b": 2} if "[b," in program or "b,k]" in program or ",b," in program else {}
    dims |= {"h": 2} if "[h," in program else {}
    if "e2m1" in program:
        dims["k"] = 128
    run(program, target, dims, "nk" if "f16" in program else "", seed=5)


@pytest.mark.once("target", "program")
@pytest.mark.parametrize("program", [PROGRAMS[2], PROGRAMS[9], PRENORM])
@pytest.mark.parametrize("target", TARGETS)
def test_of_nothing(target: str, program: str) -> None:
    """A sum of nothing is 0, the largest of none -inf: whatever a body makes of 0."""
    dims = {"m": 70, "n": 24, "k": 0} | ({"b": 2} if "b,k]" in program else {})
    _, made = run(program, target, dims)
    assert (made["S"] == 0).all()
    for name, value in (("T", np.inf if "min[k]" in program else -np.inf),):
        if name in made:
            assert (made[name] == value).all()
    if "b,k]" in program:
        run(program, target, dims | {"b": 0, "k": 16}, "nk")


SCHEDULES = [
    ("sm_90a", "tile=64x24x32, stages=2"),
    ("sm_90a", "swap=1, tile=64x32x32"),
    ("sm_90a", "tile=256x24x32, warpgroups=2, stages=3"),
    ("sm_90a", "tile=192x8x16, swizzle_a=64, swizzle_b=64"),
    ("sm_90a", "tile=128x24x32, cluster=2x1"),
    ("sm_90a", "tile=64x8x32, cluster=1x2"),
    ("sm_100a", "swap=1"),
    ("sm_100a", "tile=128x16x32, scheduler=dynamic"),
    ("sm_120a", "swap=1"),
    ("sm_120a", "tile=32x32x32, scheduler=dynamic"),
]


@pytest.mark.once("target")
@pytest.mark.parametrize(("target", "schedule"), SCHEDULES)
def test_schedules(target: str, schedule: str) -> None:
    run(f"{PRENORM} with {schedule}", target, {"m": 141, "n": 40, "k": 104}, "nk")


@pytest.mark.parametrize("setting", ["split=2", "converters=2"])
def test_schedules_refused(setting: str) -> None:
    with pytest.raises(ScheduleError, match="S is"):
        scalec.compile(f"{PRENORM} with {setting}", target="sm_90a", dims={"n": 24, "k": 4096})


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("D[m,n] = A[m,k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k]*E[m,k])", "it is not one of A or B"),
        ("D[m,n] = A[m,k] @ B[n,k]; S[k]:f32 = sum[m](A[m,k])", "it runs over m"),
        ("D[m,n] = A[m,k]:mxfp8 @ B[n,k]:bf16; S[n]:f32 += sum[k](B[n,k])", r"S is accumulated into \(\+=\)"),
        ("D[m,n] = A[m,k] @ B[n,k]; S[m]:i32 = sum[k](A[m,k])", "S is i32"),
        ("D[m,n] = A[k,m] @ B[n,k]; S[m]:f32 = sum[k](A[k,m])", "A is contiguous along m"),
        ("D[m,n] = A[m,k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k]) * x[m]", "S reads a tensor beside it"),
        ("D[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128); S[m]:f32 = sum[k](A[m,k])", "A has scales"),
        ("D[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1xk,none); S[m]:f32 = sum[k](A[m,k])", "A has scales"),
        ("D[m,n] = A[idx[m],k] @ B[n,k]; S[m]:f32 = sum[k](A[idx[m],k])", "index that is computed"),
    ],
)
def test_refused(program: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        scalec.compile(program, target="sm_90a")


def test_no_columns() -> None:
    """Where the product has none, nothing is launched, and who asks for the sums is told."""
    kernel = scalec.compile(PRENORM, target="sm_90a")
    kernel.fixed = emulated.EmulatedDevice("sm_90a")
    a, b = np.zeros((5, 16), ml_dtypes.bfloat16), np.zeros((0, 16), np.float32)
    with pytest.raises(ArgumentError, match="n = 0"):
        kernel(a, b)
