"""Results of a product in elements of 6 bits, of which four share three bytes: whatever rows begin with and end in."""

from __future__ import annotations

import pytest

import scalec
from scalec.errors import ScheduleError
from tests.emulator.test_several_results import TARGETS, run

PRODUCT = "A[m,k] @ B[n,k]"
ROWS = " for m in off[g]:off[g+1]"
WORDS = {"m": 70, "n": 160, "k": 72}
"""Rows are whole words, which threads store."""

CASES = {
    "words": (f"D[m,n]:mxfp6 = {PRODUCT}", WORDS, "nk", ""),
    "words of a part of a wave": (f"D[m,n]:e2m3 scale(1x64@col) = relu({PRODUCT})", WORDS, "nk", "split=2"),
    "bytes": (f"D[m,n]:mxfp6_e2m3 = {PRODUCT} * x[n]", {"m": 33, "n": 77, "k": 64}, "", ""),
    "without scales": (f"D[m,n]:e3m2 = {PRODUCT}", {"m": 1, "n": 3, "k": 64}, "k", ""),
    "by columns": (f"D[m,n]:e2m3 = {PRODUCT}", {"m": 33, "n": 74, "k": 64}, "nk", "swap=1"),
    "blocks by columns": (f"D[m,n]:mxfp6 = {PRODUCT}", {"m": 65, "n": 96, "k": 64}, "mnk", "swap=1"),
    "scattered": (f"D[idx[m],n]:mxfp6 = {PRODUCT}", {"m": 40, "n": 104, "k": 64, "D_0": 52}, "nk", ""),
    "scattered by columns": (f"D[idx[m],n]:mxfp6 = {PRODUCT}", {"m": 24, "n": 101, "k": 64, "D_0": 30}, "k", "swap=1"),
    "groups": (f"D[m,n]:e2m3 = A[m,k] @ B[g,n,k]{ROWS}", {"m": 90, "n": 61, "k": 64, "g": 3}, "k", ""),
    "beside others": (f"T[m,n] = {PRODUCT}; C[m,n] = T; D[m,n]:mxfp6 = T; E[m,n]:mxfp8 = relu(T)", WORDS, "nk", ""),
    "by chance": (f"D[m,n]:mxfp6 = stochastic({PRODUCT}, s[0])", {"m": 20, "n": 70, "k": 64}, "nk", ""),
}


@pytest.mark.once(touches=lambda name, target: {target} | ({name} & {"by columns"}))
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_six_bits(target: str, name: str) -> None:
    source, dims, fixed, fields = CASES[name]
    kernel, _ = run(f"{source} with {fields}" if fields else source, target, dims, fixed)
    assert fields in kernel.spec.schedule
    assert "epilogue=direct" in kernel.spec.schedule


@pytest.mark.parametrize("epilogue", ["bulk", "rows", "turned"])
def test_only_registers(epilogue: str) -> None:
    source = f"D[m,n]:mxfp6 = {PRODUCT} with {'swap=1, ' * (epilogue == 'turned')}epilogue={epilogue}"
    with pytest.raises(ScheduleError, match="D has elements of 6 bits, which threads store"):
        scalec.compile(source, target="sm_90a", dims={"n": 128, "k": 128})
