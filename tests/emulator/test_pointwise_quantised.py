"""Quantised results without a contraction: values and scales are the reference's, bit for bit, on every target."""

from __future__ import annotations

import re

import pytest

import scalec
from scalec.runtime.kernel import Kernel
from tests.emulator.pointwise import TARGETS, bit_equal, bits_of_0_and_1, fault_is_found, spoiled
from tests.emulator.running import refusals

FORMATS = [  # a result of X, its sizes, those that are known
    ("mxfp8", {"m": 9, "k": 100}, ""),
    ("mxfp8", {"m": 9, "k": 96}, "k"),
    ("mxfp8", {"m": 3, "k": 99}, "k"),
    ("mxfp8_e5m2", {"m": 6, "k": 256}, "mk"),
    ("mxfp4", {"m": 6, "k": 160}, "k"),
    ("mxfp4", {"m": 6, "k": 161}, ""),
    ("nvfp4", {"m": 6, "k": 96}, "k"),
    ("nvfp4", {"m": 6, "k": 101}, "k"),
    ("fp8_block", {"m": 6, "k": 384}, "k"),
    ("fp8_block", {"m": 6, "k": 200}, ""),
    ("e2m1 scale(1x16:ue4m3@blocked)", {"m": 130, "k": 80}, "k"),
    ("e4m3 scale(1x32:ue8m0@packed)", {"m": 6, "k": 160}, "k"),
    ("e4m3 scale(1x32:ue8m0@packed)", {"m": 6, "k": 170}, ""),
    ("e5m2 scale(1x32:ue8m0@blocked)", {"m": 6, "k": 170}, ""),
    ("e4m3 scale(1x128@col)", {"m": 6, "k": 256}, "k"),
    ("e4m3 scale(1x24)", {"m": 6, "k": 72}, "k"),
    ("e4m3 scale(1x24)", {"m": 6, "k": 75}, "k"),  # three columns a thread
    ("e4m3 scale(1x40:ue8m0)", {"m": 6, "k": 99}, ""),
    ("e4m3 scale(1x1024)", {"m": 6, "k": 2048}, "k"),  # of several warps
    ("e4m3 scale(1x4096)", {"m": 2, "k": 5000}, ""),
    ("e4m3 scale(1x32:f32*tensor)", {"m": 6, "k": 96}, "k"),
    ("e4m3 scale(128x128)", {"m": 130, "k": 256}, "k"),  # of several rows
    ("e4m3 scale(128x128)", {"m": 130, "k": 140}, ""),
    ("e4m3 scale(32x32:ue8m0@blocked)", {"m": 70, "k": 80}, ""),
    ("e4m3 scale(3x32:ue8m0)", {"m": 10, "k": 80}, ""),
    ("e4m3 scale(1xk)", {"m": 10, "k": 256}, "k"),  # of whole rows: in registers
    ("e4m3 scale(1xk)", {"m": 10, "k": 251}, "k"),
    ("e4m3 scale(1xk:ue8m0@packed)", {"m": 10, "k": 251}, "k"),
    ("e4m3 scale(1xk)", {"m": 3, "k": 2500}, ""),  # walked
    ("e4m3 scale(1xk)", {"m": 2, "k": 20000}, "k"),
    ("i8 scale(1xk)", {"m": 10, "k": 256}, "k"),
    ("i8 scale(1x128)", {"m": 6, "k": 201}, ""),
    ("i8 scale(1x32:ue8m0@packed)", {"m": 6, "k": 162}, "k"),
    ("i8", {"m": 6, "k": 99}, ""),
]


@pytest.mark.once("result", "target")
@pytest.mark.parametrize("element", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("result", "dims", "fixed"), FORMATS)
def test_formats(result: str, dims: dict[str, int], fixed: str, target: str, element: str) -> None:
    bit_equal(f"Q[m,k]:{result} = X[m,k]:{element}", dims, fixed, target, change=spoiled)


SEVERAL = [
    ("Q[m,k]:mxfp8 = relu(X[m,k]); R[m,k] = max(X[m,k], 0.5); P[m,k]:nvfp4 = X[m,k] * 2", {"m": 7, "k": 100}, ""),
    ("Q[m,k]:e4m3 scale(128x128) = max(X[m,k], 0.5); R[m,k]:mxfp8 = X[m,k]", {"m": 130, "k": 140}, "k"),
    ("Q[m,k]:e4m3 scale(1xk) = X[m,k]; R[m,k]:mxfp8 = X[m,k]; T[m,k] = X[m,k]", {"m": 3, "k": 136}, "k"),
    ("Q[m,k]:e4m3 scale(1xk) = X[m,k]; R[m,k]:mxfp8 = X[m,k]; T[m,k] = X[m,k]", {"m": 3, "k": 2100}, ""),
    ("R[m,k] = max(X[m,k], 0.5); S[m,k]:f32 = X[m,k] + Z[m,k]", {"m": 7, "k": 100}, ""),
    ("R[m,k] = max(X[m,k], 0.5); S[m,k]:f32 = X[m,k] + Z[m,k]", {"m": 7, "k": 128}, "k"),
    ("Q[m,k]:mxfp8 = max(X[m,k], 0.5)", {"m": 7, "k": 100}, ""),  # of columns that are not there it is no zero
    ("Q[b,m,k]:e4m3 scale(1x32:ue8m0@blocked) = X[b,m,k]", {"b": 2, "m": 3, "k": 96}, ""),
    ("Q[b,m,k]:e4m3 scale(1x32:ue8m0@packed) = X[b,m,k]", {"b": 2, "m": 3, "k": 96}, "k"),
    ("Q[k]:e4m3 scale(32:ue8m0) = X[k]", {"k": 100}, ""),
    ("Q[m,j]:mxfp8 = relu(X[m,j]) * X[m,j+size(j)]", {"m": 7, "j": 97}, ""),  # a gate of one tensor
    ("Q[m,k]:e2m1 = X[m,k]", {"m": 7, "k": 96}, "k"),
    ("Q[m,k]:e2m1 = X[m,k] * 2; R[m,k]:e4m3 = X[m,k]", {"m": 7, "k": 99}, ""),
    ("Q[m,k]:mxfp8 = X[idx[m],k]", {"m": 9, "k": 96, "X_0": 5}, "k"),
    ("Q[m,k]:mxfp8 = X[m,k] * x[k/4]:f32", {"m": 9, "k": 96}, "k"),
]


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed"), SEVERAL)
def test_several_results_and_indices(source: str, dims: dict[str, int], fixed: str, target: str) -> None:
    bit_equal(source, dims, fixed, target, change=spoiled if "x[k/4]" not in source else lambda _: None)


test_sizes_of_0_and_1 = bits_of_0_and_1(
    "Q[m,k]:{} = X[m,k]", ["mxfp8", "nvfp4", "e4m3 scale(128x128)", "e4m3 scale(1xk)"]
)


@pytest.mark.parametrize(
    ("result", "old", "new"),
    [
        ("mxfp8", r"(shfl\.sync\.bfly\.b32\s+\S+\s+\S+\s+)1,", r"\g<1>0,"),  # half a block's largest magnitude
        ("e4m3 scale(1x1024)", r"(ld\.shared\.v\d\.f32 [^;]*?)\+ ?0\]", r"\g<1>+ 16]"),  # other warps'
        ("e4m3 scale(1x1024)", r"(@%p\d+ st\.shared\.f32 [^;]*;)", ""),  # a warp's is lost
        ("e4m3 scale(1x32:ue8m0@packed)", r"st\.global\.b8", "st.global.b16"),
    ],
)
def test_faults_are_found(result: str, old: str, new: str) -> None:
    fault_is_found(f"Q[m,k]:{result} = X[m,k]", {"m": 6, "k": 1056}, "k", old, new)


def test_loads_and_stores_are_of_16_bytes() -> None:
    kernel: Kernel = scalec.compile("Q[m,k]:mxfp8 = silu(G[m,k]) * U[m,k]", target="sm_90a", dims={"k": 4096})
    assert len(re.findall(r"ld\.global\.v4\.b32", kernel.ptx)) == 4  # 16 columns of each
    assert re.findall(r"st\.global\.(\S+)", kernel.ptx) == ["b8", "v4.b32"]


test_refused = refusals(
    [
        ("Q[m,k]:i4 scale(1x32:ue8m0) = X[m,k]", "a result of i4"),
        ("Q[m,k]:i32 = X[m,k]", "a result of i32"),
        ("Q[m,k]:e4m3 scale(1x32:bf16) = X[m,k]", "quantised with scales in bf16"),
        ("Q[m,k]:e4m3 scale(1x12) = X[m,k]", "quantised in blocks of 1x12"),
        ("Q[m,k]:e4m3 scale(1x1) = X[m,k]", "blocks of 1x1.*\n.*\n.*\n.* of 1 by several of the one before"),
        ("Q[m,k]:e4m3 scale(mx32) = X[m,k]", "quantised in blocks of mx32"),
        ("Q[m,k]:e4m3 scale(1x24) = X[m,k]; P[m,k]:mxfp8 = X[m,k]", "blocks of 24 and 32 columns"),
        ("Q[m,k]:e4m3 scale(512x128) = X[m,k]", "blocks of 512x128"),
        ("S[m]:e2m1 = max[k](X[m,k])", "S has an element a row, and is quantised, or of e2m1"),
        ("Q[m,k]:mxfp8 = X[m,k]; T[k] = w[k]", "T has the indices k, and other results have m, k"),
    ]
)
