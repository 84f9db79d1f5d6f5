"""Integers of 8 bits beside another type, as which they are multiplied, on all targets."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.errors import UnsupportedError
from scalec.runtime import emulated
from tests.emulator.running import TARGETS
from tests.emulator.test_several_results import run

PROGRAMS: dict[str, tuple[str, dict[str, int]]] = {
    "bf16": ("C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:i8 scale(none, 1x128)", {}),
    "f16 of rows": ("C[m,n]:f32 = A[m,k]:f16 @ B[n,k]:i8 scale(none, 1xk)", {}),
    "tf32": ("C[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:i8", {}),
    "scales of 16 bits": ("C[m,n]:f32 += A[m,k]:f16 @ B[n,k]:i8 scale(none, 128x64:f16)", {}),
    "by N": ("C[m,n]:f32 = A[m,k]:bf16 @ B[k,n]:i8 scale(none, 128x1)", {}),
    "left, by M": ("C[m,n]:f32 = A[k,m]:i8 @ B[n,k]:f16", {}),
    "4 bits": ("C[m,n]:f32 = A[m,k]:i8 @ B[n,k]:i4 scale(1x128, 1x64)", {}),
    "e4m3": ("C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:i8 scale(1x128, 1x128)", {}),
    "rounded": ("C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:i8):bf16 scale(none, 1x128:bf16)", {}),
    "rounded to f16": ("C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:i8):f16 scale(none, 1x64:f16)", {}),
    "computed": ("C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:i8 * w[k]):bf16; S[n]:f32 = sum[k](B[n,k]^2)", {}),
    "blocks": ("C[m,n]:f32 = A[m,k]:bf16 @ B[e[m/16],n,k]:i8 scale(none, 1x1x128)", {"B_0": 3}),
    "groups": ("C[m,n]:f32 = A[m,k]:bf16 @ B[g,n,k]:i8 scale(none, 1x1x128) for m in off[g]:off[g+1]", {"g": 3}),
    "ranges of K": ("C[g,m,n]:f32 = A[m,k]:bf16 @ B[n,k]:i8 for k in off[g]:off[g+1]", {"g": 3}),
    "gated": (
        "H[m,n]:f32 = silu(X[m,k]:bf16 @ V[n,k]:i8 scale(none, 1x128)) * (X[m,k]:bf16 @ W[n,k]:i8 scale(none, 1x128))",
        {},
    ),
    "adapter": ("C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:i8 scale(none, 1x128) + D[m,r]:bf16 @ E[n,r]:bf16", {"r": 24}),
    "both rounded": ("C[m,n]:f32 = (A[m,k]:i8):bf16 @ (B[n,k]:i8):bf16 scale(1x128:bf16, 1x64:bf16)", {}),
    "one rounded": ("C[m,n]:f32 = A[m,k]:i8 @ (B[n,k]:i8):bf16 scale(1x128, 1x128:bf16)", {}),
    "computed left": ("C[m,n]:f32 = relu(A[m,k]:i8):bf16 @ B[n,k]:i8", {}),
    "gathered along K": ("C[m,n]:f32 = A[idx[k],m]:i8 @ B[k,n]:bf16", {"A_0": 50}),
    "anew": ("C[m,n]:f32 = A[m,k]:f16 @ quantize(B[n,k]:i8, e4m3, 1x128) scale(none, 1x64)", {}),
}


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(target: str, name: str) -> None:
    source, more = PROGRAMS[name]
    run(source, target, {"m": 24, "n": 72, "k": 272, **more})


@pytest.mark.parametrize("tile", ["", ", tile=128x8x64", ", tile=128x128x128"])
def test_in_registers(tile: str) -> None:
    source = "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:i8 scale(none, 1x128) with convert=registers, swap=1"
    run(source + tile, "sm_90a", {"m": 24, "n": 72, "k": 272})


@pytest.mark.parametrize("element", ["bf16", "f16", "tf32"])
@pytest.mark.parametrize("target", TARGETS)
def test_every_number(target: str, element: str) -> None:
    """By the identity: all of -128 to 127 as they are, whatever the reference makes of them."""
    numbers, size = np.arange(-128, 128).astype(np.int8), 64
    rows = numbers.reshape(-1, size)
    kernel = scalec.compile(f"C[m,n]:f32 = A[m,k]:{element} @ B[n,k]:i8", target=target)
    kernel.fixed = emulated.EmulatedDevice(target)  # pyright: ignore[reportAttributeAccessIssue]
    types = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "tf32": np.float32}
    found = np.asarray(kernel(np.eye(size).astype(types[element]), rows))
    np.testing.assert_array_equal(found.T, rows.astype(np.float32))


def test_reduced_beside_a_product_of_both_it_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="A is i8, multiplied as i8"):
        scalec.compile("C[m,n] = A[m,k]:i8 @ B[n,k]:i8; S[m]:f32 = sum[k](A[m,k]^2)", target="sm_90a")


@pytest.mark.parametrize("scales", ["1x16, 1x16", "none, 1x48"])
def test_products_of_two_are_summed_as_they_are(scales: str) -> None:
    """In i32, so that they are never of 16 bits, whose sums f32 rounds."""
    with pytest.raises(UnsupportedError, match="a multiple of 32"):
        scalec.compile(f"C[m,n] = A[m,k]:i8 @ B[n,k]:i8 scale({scales})", target="sm_90a")
    with pytest.raises(UnsupportedError, match="no tensor-core instruction for i8"):
        scalec.compile("C[m,n] = A[m,k]:i8 @ B[n,k]:i8", target="sm_103a")


def test_scales_of_a_byte_beside_16_bits_are_told_of_f32() -> None:
    with pytest.raises(UnsupportedError, match="fix: pass B_scale as f32, or convert B before the call"):
        scalec.compile("C[m,n] = A[m,k]:bf16 @ B[n,k]:i8 scale(none, 1x32:ue8m0)", target="sm_100a")
