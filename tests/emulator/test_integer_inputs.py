"""Tensors of whole numbers that elementwise expressions read: i32 and i8, made f32 to nearest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec.checking.launch import made_up
from scalec.errors import UnsupportedError
from scalec.runtime.emulated import EmulatedDevice
from tests.emulator.pointwise import TARGETS, bit_equal
from tests.emulator.quantised import changed
from tests.emulator.running import launched

EXTREMES = [0, 1, -1, 127, -128, (1 << 24) + 1, (1 << 25) + 2, (1 << 25) + 6, -(1 << 31), (1 << 31) - 1]

ALONE = [
    ("Y[m,k]:f32 = X[m,k]:i32", {"m": 5, "k": 99}, ""),
    ("Y[m,k]:f32 = X[m,k]:i32 * s + w[m]:i32", {"m": 5, "k": 96}, "k"),
    ("Y[m,k] = X[m,k]:i8 * w[m,k]", {"m": 5, "k": 99}, ""),
    ("Y[m,k]:f32 = X[m,k]:i8 scale(1x32:ue8m0)", {"m": 5, "k": 128}, "k"),
    ("Y[m,k]:e4m3 scale(1x32) = X[m,k]:i8", {"m": 5, "k": 130}, ""),
    ("T[k,m]:mxfp8 = X[m,k]:i32; Q[m,k]:mxfp8 = X[m,k]:i32", {"m": 70, "k": 130}, ""),
    ("R[m]:f32 = max[k](abs(X[m,k]:i32))", {"m": 5, "k": 130}, ""),
    ("R[k]:f32 = min[m](X[m,k]:i8)", {"m": 5, "k": 130}, ""),
    ("Y[m,k]:f32 = X[idx[m],k]:i8", {"m": 9, "k": 130, "X_0": 5}, ""),
    ("Y[m,k]:f32 = X[m,k]:i32", {"m": 1, "k": 1}, ""),
    ("Y[m,k]:f32 = X[m,k]:i32", {"m": 0, "k": 5}, ""),
    ("Y[m,k]:f32 = X[m,k]:i8", {"m": 5, "k": 0}, ""),
]


def extremes(values: dict[str, Any]) -> None:
    """The largest numbers, and those that no f32 has, half way between two as well."""
    for x in values.values():
        if isinstance(x, np.ndarray) and x.dtype in (np.int32, np.int8) and x.ndim == 2:
            x[:] = np.resize(np.array(EXTREMES).astype(x.dtype), x.shape)


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed"), ALONE)
def test_without_a_contraction(source: str, dims: dict[str, int], fixed: str, target: str) -> None:
    """What is rounded to f32, and then again, the reference rounds once: numbers that f32 has there."""
    plain = source == "Y[m,k]:f32 = X[m,k]:i32" or ":i8" in source
    bit_equal(source, dims, fixed, target, change=extremes if plain else lambda _: None)


BESIDE = [
    ("C[m,n] = A[m,k] @ B[n,k] + x[n]:i32", {"m": 70, "n": 137, "k": 64}),
    ("C[m,n]:f32 = A[m,k] @ B[n,k] * x[m]:i32 + y[m,n]:i32 + z[n%64]:i32 + s[0]:i32", {"m": 70, "n": 136, "k": 64}),
    ("C[m,n]:f32 = A[m,k] @ B[n,k] * x[m]:i32 + y[m,n]:i32 with swap=1", {"m": 70, "n": 137, "k": 64}),
    ("D[m,n]:mxfp8 = A[m,k] @ B[n,k] + x[n]:i32", {"m": 9, "n": 160, "k": 64}),
    ("T[m,n] = A[m,k] @ B[n,k] + x[n]:i32; R[m]:f32 = max[n](T); C[m,n] = T", {"m": 9, "n": 137, "k": 64}),
    ("C[m,n] = A[m,k] @ B[n,k] + x[n]:i32", {"m": 1, "n": 1, "k": 64}),
    ("C[m,n] = A[m,k] @ B[n,k] * x[m]:i8 + y[m,n]:i8 + z[n]:i8", {"m": 70, "n": 136, "k": 64}),
    ("C[m,n] = A[m,k] @ B[n,k] * x[m]:i8 + y[m,n]:i8 with swap=1", {"m": 70, "n": 137, "k": 64}),
]


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims"), BESIDE)
def test_beside_a_product(source: str, dims: dict[str, int], target: str, seed: int) -> None:
    kernel = scalec.compile(source, target=target, dims={"k": dims["k"]})
    kernel.fixed = EmulatedDevice(target)
    values, expected = made_up(source, dims, seed)
    launched(kernel, values, expected, dims, seed)


def test_inputs_with_scales_are_named() -> None:
    with pytest.raises(UnsupportedError, match=r"y has scales, and is an input of .*\n.*\n.*\n.*\n  fix: dequantise y"):
        scalec.compile("C[m,n] = (A[m,k] @ B[n,k]) * y[m,n]:nvfp4", target="sm_90a")


def test_a_fault_is_found() -> None:
    """Without signs."""
    fault = changed(r"cvt\.rn\.f32\.s32", "cvt.rn.f32.u32")
    with pytest.raises(AssertionError):
        bit_equal("Y[m,k]:f32 = X[m,k]:i32", {"m": 5, "k": 96}, "k", "sm_90a", fault=fault)
