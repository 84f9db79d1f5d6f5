"""Weights of 4 bits in programs without a contraction: in words, in another order, less zero points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec.reference.packing import numpy_dtype
from tests.emulator.pointwise import TARGETS, bits_are_equal, fault_is_found

AWQ = "n/8*8 + n%2*4 + n%8/2"
PAIRS = "k/128*128 + k%8/2*32 + k%128/32*8 + k%2*4 + k%32/8"
BYTES = "k/128*128 + k%16/4*32 + k%128/16*4 + k%4"

WEIGHTS = [
    ("W[n,k] = B[n,k]:u4", {"n": 5, "k": 96}, "k"),
    ("W[n,k]:f32 = B[n,k]:u4 * x[n]:u4", {"n": 5, "k": 33}, ""),
    ("W[n,k]:f32 = (B[n,k]:u4 - 8) scale(1x128:f16)", {"n": 5, "k": 300}, "k"),
    ("W[n,k]:f32 = (B[n,k]:u4 - Z[n,k/128]) scale(1x128:f16)", {"n": 5, "k": 300}, ""),  # GPTQ in rows
    ("W[n,k] = (B[n,k]:u4 - Z[n,k/128]) scale(1x128:f16)", {"n": 5, "k": 256}, "k"),
    ("W[n,k]:f32 = (B[n,k]:i4 - (Z[n,k/64]:i8 - 1)) scale(1x64:f16@col)", {"n": 5, "k": 200}, "k"),
    ("W[n,k]:f32 = (B[n,k]:u4 - Z[k/24,n]) scale(1x128:bf16) + x[n]", {"n": 6, "k": 131}, ""),
    ("W[n,k] = B[k/8,n,k%8]:i4", {"n": 5, "k": 96}, "k"),  # words
    ("W[n,k] = B[k/8,n,k%8]:u4", {"n": 5, "k": 37}, ""),
    ("W[n,k]:f32 = B[k/8,n,k%8]:nvfp4", {"n": 7, "k": 48}, "k"),
    ("W[n,k]:f32 = (B[k/8,n,k%8]:u4 - (Z[k/128,n] + 1)) scale(1x128:f16@col)", {"n": 8, "k": 300}, "k"),
    ("W[n,k]:f32 = (B[k/8,n,k%8]:u4 - Z[k/16,n]) scale(1x128:f16)", {"n": 8, "k": 133}, ""),
    ("W[k,n]:f32 = (B[k/8,n,k%8]:u4 - 3) scale(1x64:bf16)", {"n": 7, "k": 70}, ""),  # turned
    ("W[g,n,k]:f32 = (B[g,k/8,n,k%8]:u4 - 8) scale(1x1x32:f16)", {"g": 2, "n": 5, "k": 70}, ""),
    (f"W[k,n]:f32 = (B[k,{AWQ}]:u4 - Z[k/128,{AWQ}]) scale(128x1:f16)", {"n": 32, "k": 140}, "nk"),
    (f"W[k,n] = (B[k,{AWQ}]:u4 - Z[k/32,{AWQ}]) scale(32x1:f16)", {"n": 37, "k": 70}, ""),
    (f"W[n,k]:f32 = (B[k,{AWQ}]:u4 - Z[k/32,{AWQ}]) scale(32x1:f16)", {"n": 37, "k": 70}, ""),
    (f"W[k,n] = B[k,{AWQ}]:i4", {"n": 12, "k": 3}, ""),
    (f"W[n,k] = B[n,{PAIRS}]:i4 scale(1x128:bf16)", {"n": 5, "k": 256}, "k"),  # reordered for registers
    (f"W[n,k] = (B[n,{BYTES}]:u4 - Z[n,k/128]) scale(1x128:f16)", {"n": 5, "k": 384}, ""),
    (f"W[n,k]:f32 = B[n,{PAIRS}]:e2m1 scale(1x32:ue8m0)", {"n": 5, "k": 128}, ""),
    ("W[n,k]:e4m3 scale(1x128) = (B[n,k]:u4 - 8) scale(1x64:f16)", {"n": 5, "k": 300}, ""),  # quantised anew
    ("W[n,k]:mxfp8 = (B[k/8,n,k%8]:u4 - Z[k/64,n]) scale(1x64:f16)", {"n": 5, "k": 192}, "k"),
    ("T[k,n]:mxfp8 = (B[n,k]:u4 - Z[n,k/128]) scale(1x128:f16)", {"n": 40, "k": 130}, ""),
    ("W[m,k]:f32 = (B[idx[m],k]:u4 - Z[idx[m],k/64]) scale(1x64:f16)", {"m": 9, "k": 96, "B_0": 5}, "k"),
    ("W[m,k]:f32 = B[idx[m],k]:u4 * x[k/4]", {"m": 9, "k": 37, "B_0": 5}, ""),
    ("W[m,k] = (B[m,k]:u4 - 8) scale(1x64:f16) for m < rows[0]", {"m": 9, "k": 96}, "k"),
    ("S[n]:f32 = sum[k](B[k/8,n,k%8]:u4)", {"n": 5, "k": 200}, ""),
    (f"S[n]:f32 = min[k](B[n,{PAIRS}]:i4)", {"n": 5, "k": 256}, ""),
    ("S[n]:f32 = max[k]((B[n,k]:u4 - Z[n,k/128]) scale(1x128:f16))", {"n": 5, "k": 300}, "k"),
    ("Y[m,k] = X[m,k] * w[m]:e2m1", {"m": 5, "k": 99}, ""),  # single elements of 4 bits, and blocks of columns
    ("Y[m,k] = X[m,k] + Z[m,k/32]:e2m1", {"m": 5, "k": 96}, "k"),
    ("Y[m,k]:e2m1 = X[m,k] + Z[m,k/32]", {"m": 5, "k": 99}, ""),
    ("Y[m,k]:e2m3 = X[m,k] + Z[m,k/32]", {"m": 5, "k": 100}, ""),
    ("Y[m,k] = X[m,k]:e2m1 + Z[m,k/32]", {"m": 5, "k": 99}, ""),
    ("Y[m,k] = X[m,k]:e2m1 + Z[m,k%32]", {"m": 5, "k": 99}, ""),
    ("Y[m,k]:mxfp8 = X[m,k]:e2m1 + Z[m,k%32]:i4", {"m": 5, "k": 99}, ""),
    ("Y[n,k] = X[n/4,k/8,n%4,k%8]", {"n": 12, "k": 48}, ""),  # pieces of rows, of elements of whole bytes
    ("Y[n,k]:f32 = X[n,k] + x[k/8] * y[n,k/16]", {"n": 5, "k": 100}, ""),
    ("Y[n,k]:f32 = X[n,k] + x[k/3]", {"n": 5, "k": 100}, "k"),
    ("W[n,k] = B[n,k/2]:i4", {"n": 5, "k": 66}, ""),
    ("W[n,k] = B[n,k/8,k%8]:i4", {"n": 5, "k": 66}, ""),
]


def all_codes(values: dict[str, Any]) -> None:
    """Every element of 4 bits, and of what is none: which half of a byte is whose must show."""
    rng = np.random.default_rng(5)
    for name, x in values.items():
        if getattr(x, "dtype", None) in (numpy_dtype("u4"), numpy_dtype("i4")):
            codes = rng.integers(0, 16, x.shape).astype(np.uint8)
            values[name] = (codes if x.dtype == numpy_dtype("u4") else codes.view(np.int8) - 8).astype(x.dtype)


test_bits = bits_are_equal(WEIGHTS, change=all_codes)


def test_a_fault_is_found() -> None:
    """The other half of a byte, in the last row that a thread has, and the next word."""
    for part, old, new in (
        ("B[n,k]:u4 * x[n]:u4", r"(?s)(.*)shr\.u32 (%r\d+), (%r\d+), (%r\d+);", r"\1mov.b32 \2, \3;"),
        (f"B[k,{AWQ}]:u4", r"ld\.global\.b32 (\S+), \[(\S+) \+ 0\]", r"ld.global.b32 \1, [\2 + 4]"),
    ):
        source, dims, fixed = next(row for row in WEIGHTS if part in row[0])
        fault_is_found(source, dims, fixed, old, new, change=all_codes)


@pytest.mark.once
@pytest.mark.parametrize("begin", [2, 4, 1])
@pytest.mark.parametrize("result", ["f32", "bf16"])
@pytest.mark.parametrize("target", TARGETS)
def test_words_begin_at_any_byte(target: str, result: str, begin: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that have less than a word of a row load whole ones, where rows begin at a multiple of these."""
    monkeypatch.setenv("SCALEC_DEVICE", "emulator")
    kernel: Any = scalec.compile(f"W[k,n]:{result} = B[k,{AWQ}]:i4", target)
    stored = np.random.default_rng(0).integers(0, 256, (5, 32), dtype=np.uint8)[:, begin : begin + 12]
    codes = np.stack([stored & 15, stored >> 4], -1).reshape(5, 3, 8).astype(np.int32)
    wanted = ((codes ^ 8) - 8)[..., [j % 2 * 4 + j // 2 for j in range(8)]].reshape(5, 24)
    assert np.array_equal(kernel(stored).astype(np.float32), wanted)
