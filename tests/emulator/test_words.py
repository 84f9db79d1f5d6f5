"""Operands in words of adjacent K, as GPTQ stores weights: `B[k/8,n,k%8]`, on all targets."""

from __future__ import annotations

import pytest

from tests.emulator.running import TARGETS, run_on

GPTQ = "C[m,n]:f32 = A[m,k]:f16 @ (B[k/8,n,k%8]:u4 - (Z[k/128,n]:u4 + 1)) scale(none, 1x128:f16@col)"

PROGRAMS = {
    "plain": "C[m,n]:f32 = A[m,k]:bf16 @ B[k/8,n,k%8]:u4",
    "signed": "C[m,n]:f32 = A[m,k]:f16 @ B[k/8,n,k%8]:i4 scale(none, 1x64:bf16)",
    "floats": "C[m,n]:f32 = A[m,k]:bf16 @ B[k/8,n,k%8]:e2m1",
    "GPTQ": GPTQ,
    "gptq_v2": GPTQ.replace(" + 1", " - 0"),
    "one zero point": "C[m,n]:f32 = A[m,k]:bf16 @ (B[k/8,n,k%8]:u4 - 8) scale(none, 1x128:f16@col)",
    "e4m3": "C[m,n]:f32 += A[m,k]:e4m3 @ (B[k/8,n,k%8]:u4 - (Z[k/128,n]:u4 + 1)) scale(1x128, 1x128:f16)",
    "e4m3, one": "C[m,n]:f32 = A[m,k]:e4m3 @ (B[k/8,n,k%8]:u4 - 8) scale(1x128, 1x128:f16)",
    "tf32": "C[m,n]:f32 = A[m,k]:tf32 @ (B[k/8,n,k%8]:u4 - Z[k/32,n]:i8) scale(none, 1x32:f16)",
    "nvfp4": "C[m,n]:f32 = A[m,k]:bf16 @ B[k/8,n,k%8]:nvfp4",
    "mxfp4": "C[m,n]:f32 = A[m,k]:bf16 @ B[k/8,n,k%8]:mxfp4",
    "folded": "C[m,n]:f32 = A[m,k]:f16 @ (B[k/8,n,k%8]:u4 - Z[n,k/16]) scale(none, 1x32:ue4m3)",
    "of fine blocks": "C[m,n]:f32 = A[m,k]:bf16 @ (B[k/8,n,k%8]:u4 - Z[n,k/48]:i4) scale(none, 1x64)",
    "left": "C[m,n]:f32 = (A[k/8,m,k%8]:u4 - (Z[k/64,m] - 8)) @ B[n,k]:bf16 scale(1x64:bf16, none)",
    "both": "C[m,n]:f32 = A[m,k]:e2m1 @ (B[k/8,n,k%8]:u4 - Z[k/64,n]) scale(1x64, none)",
}

SIZES: list[tuple[dict[str, int], tuple[str, ...]]] = [
    ({"m": 80, "n": 144, "k": 416}, ("n", "k")),
    ({"m": 1, "n": 272, "k": 156}, ("m", "n", "k")),
    ({"m": 300, "n": 20, "k": 1056}, ()),
    ({"m": 1, "n": 1, "k": 32}, ()),
    ({"m": 3, "n": 9, "k": 0}, ()),
]
"""Sizes, and which of them the kernel knows: tails of tiles, and of words."""


@pytest.mark.once("target", "name", "size")
@pytest.mark.parametrize("size", range(len(SIZES)))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(target: str, name: str, size: int) -> None:
    dims, fixed = SIZES[size]
    run_on(PROGRAMS[name], dims, fixed, 3, 1e-5, target=target)
