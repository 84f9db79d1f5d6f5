"""Results of products that a Hadamard transform goes through, on every target: the bits are those of the same
transform, rounding and scales of the product in f32, wherever a kernel stores an element from."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec.errors import ScheduleError, UnsupportedError
from scalec.formats import FORMATS
from scalec.reference.quantize import quantize
from scalec.reference.rounding import transformed
from tests.emulator.quantised import codes, same
from tests.emulator.test_several_results import run
from tests.emulator.test_stochastic_results import TARGETS, equal

MNK, TAILS = {"m": 70, "n": 104, "k": 64}, {"m": 33, "n": 75, "k": 40}

RESULTS = ["f32", "bf16", "e2m1", "mxfp8", "mxfp6", "nvfp4", "fp8_block", "e5m2 scale(1x64@col)", "e4m3 scale(1x24)"]


@pytest.mark.thorough
@pytest.mark.parametrize("fixed", ["nk", ""])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("result", RESULTS)
def test_types(result: str, target: str, fixed: str) -> None:
    dims = MNK if fixed else TAILS
    equal(f"D[m,n]:{result} = hadamard(A[m,k] @ B[n,k] * x[n], 16)", dims, fixed, target)


@pytest.mark.once("target")
@pytest.mark.parametrize("fields", ["", " with swap=1"])
@pytest.mark.parametrize("target", TARGETS)
def test_bits_beside_the_product(target: str, fields: str) -> None:
    """The order of additions, too."""
    results = "S[m,n]:f32 = T; H[m,n]:f32 = hadamard(T, 16); D[m,n]:mxfp8 = hadamard(T, 16)"
    source = f"T[m,n] = A[m,k] @ B[n,k]; {results}{fields}"
    _, made = run(source, target, {"m": 20, "n": 72, "k": 40}, "nk")
    wanted = transformed(made["S"]).astype(np.float32)
    same(codes(made["H"]), codes(wanted), source)
    quantised = quantize(wanted, FORMATS["mxfp8"].element, [FORMATS["mxfp8"].result[0]])
    same(codes(made["D"].astype(np.float32)), codes(quantised.values.astype(np.float32)), source)


SCHEDULES = {
    "sm_90a": ["swap=1", "swap=1, epilogue=turned", "epilogue=direct", "split=2", "consumers=pingpong, tile=64x128x64"],
    "sm_100a": ["swap=1", "epilogue=direct", "split=2", "cta_group=2, cluster=2x1", "warpgroups=2"],
    "sm_120a": ["swap=1", "epilogue=direct", "split=2", "warps=1x4, tile=64x128x64"],
}


@pytest.mark.thorough
@pytest.mark.parametrize("schedule", [(t, s) for t, every in SCHEDULES.items() for s in every])
def test_schedules(schedule: tuple[str, str]) -> None:
    target, fields = schedule
    equal(f"D[m,n]:mxfp8 = hadamard(A[m,k] @ B[n,k], 16) with {fields}", {"m": 70, "n": 128, "k": 128}, "nmk", target)


FORMS = {
    "by chance": "D[m,n]:nvfp4 = stochastic(hadamard(A[m,k] @ B[n,k] * x[n], 16), s[0], s[1])",
    "gated": "D[m,n]:mxfp8 = hadamard((A[m,k] @ B[n,k]) * (A[m,k] @ E[n,k]), 16)",
    "scattered": "D[idx[m],n]:mxfp8 = hadamard(A[m,k] @ B[n,k], 16)",
    "groups": "D[m,n]:mxfp8 = hadamard(A[m,k] @ B[g,n,k], 16) for m in off[g]:off[g+1]",
    "batches": "D[b,m,n]:mxfp8 = hadamard(A[b,m,k] @ B[n,k], 16)",
    "columns first": "D[n,m]:mxfp8 = hadamard(A[m,k] @ B[n,k], 16)",
}


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, target: str) -> None:
    dims = MNK | {"groups": {"g": 3}, "batches": {"b": 2}, "scattered": {"D_0": 90}}.get(form, {})
    run(FORMS[form], target, dims, "nk")


def test_refused() -> None:
    with pytest.raises(UnsupportedError, match="D has blocks of 16 along it"):
        scalec.compile("D[m,n]:f32 = hadamard(A[m,k] @ B[n,k], 16) for n in lo[0]:hi[0]", target="sm_90a")
    with pytest.raises(ScheduleError, match="88 columns of a warp: D is transformed by 16 of them"):
        scalec.compile("D[m,n] = hadamard(A[m,k] @ B[n,k], 16) with tile=64x88x64", target="sm_90a")
    source = "D[m,n]:e4m3 = hadamard(A[m,k] @ B[n,k], 16) with permute_n=16"
    with pytest.raises(ScheduleError, match="transformed, by lanes that have adjacent columns in order"):
        scalec.compile(source, target="sm_90a", dims={"n": 128, "k": 64})
