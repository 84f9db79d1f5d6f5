"""Operands that are rounded, each element times its scale, to the 16 bits that are multiplied: `(B[n,k]:i4):f16`."""

from __future__ import annotations

import numpy as np
import pytest

from scalec import reference
from scalec.errors import SourceError
from scalec.frontend import build
from scalec.ir import context
from tests.emulator.running import LIMITS, TARGETS, refusals, run_on
from tests.emulator.test_several_results import run

GPTQ = "C[m,n]:f32 = A[m,k]:f16 @ (B[k/8,n,k%8]:u4 - (Z[k/128,n]:u4 + 1)):f16 scale(none, 1x128:f16@col)"

PROGRAMS = {
    "integers": "C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:i4):f16 scale(none, 1x128:f16)",
    "bf16": "C[m,n]:f32 += A[m,k]:bf16 @ (B[n,k]:i4):bf16 scale(none, 1x64:bf16)",
    "one zero point": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - 8):bf16 scale(none, 1x32:bf16@col)",
    "zero points": "C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:u4 - Z[n,k/64]):f16 scale(none, 1x64:f16)",
    "wide zero points": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[k/32,n]:i8):bf16 scale(none, 1x32:ue4m3)",
    "GPTQ": GPTQ,
    "FP8": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:e4m3):bf16 scale(none, 128x128:bf16)",
    "FP8 of rows": "C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:e5m2):f16 scale(none, 1x64:f16)",
    "floats": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:e2m1):bf16 scale(none, 32x16:bf16)",
    "exact": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:mxfp4):bf16",
    "powers": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:mxfp8):bf16",
    "left": "C[m,n]:f32 = (A[m,k]:i4):bf16 @ B[n,k]:bf16 scale(1x64:bf16, none)",
    "both": "C[m,n]:f32 = (A[m,k]:e4m3):bf16 @ (B[n,k]:i4):bf16 scale(1x128:bf16, 1x64:bf16)",
    "AWQ": "C[m,n]:f32 = A[m,k]:f16 @ (B[k, n/8*8 + n%2*4 + n%8/2]:u4 - Z[k/32,n]):f16 scale(none, 64x1:f16)",
    "of columns": "C[m,n]:f32 = A[m,k]:bf16 @ (B[k,n]:i4):bf16 scale(none, 32x1:bf16)",
    "no scales": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - 8):bf16",
}

SIZES: list[tuple[dict[str, int], tuple[str, ...]]] = [
    ({"m": 80, "n": 144, "k": 416}, ("n", "k")),
    ({"m": 1, "n": 272, "k": 160}, ("m", "n", "k")),
    ({"m": 130, "n": 20, "k": 544}, ()),
    ({"m": 1, "n": 1, "k": 32}, ()),
    ({"m": 3, "n": 9, "k": 0}, ()),
]
"""Sizes, and which of them the kernel knows."""


@pytest.mark.once("target", "name", "size")
@pytest.mark.parametrize("size", range(len(SIZES)))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(target: str, name: str, size: int) -> None:
    dims, fixed = SIZES[size]
    run_on(PROGRAMS[name], dims, fixed, 3, LIMITS["f32"], target=target)


MORE: list[tuple[str, dict[str, int], str]] = [
    ("C[b,m,n]:f32 = A[b,m,k]:f16 @ (B[b,n,k]:i4):f16 scale(none, 1x64:f16@col)", {"b": 3}, ""),
    (
        "C[m,n]:f32 = A[m,k]:f16 @ (B[e[m/16],n,k]:u4 - (Z[e[m/16],k/32,n] + 1)):f16 scale(none, 1x64:f16)",
        {"B_0": 3},
        "",
    ),
    ("C[m,n]:f32 = A[m,k]:bf16 @ (B[g,n,k]:i4):bf16 scale(none, 1x32:bf16) for m in off[g]:off[g+1]", {"g": 3}, ""),
    ("C[g,m,n] = A[g,m,k]:bf16 @ (B[g,n,k]:e4m3):bf16 scale(none, 128x128:bf16) for m < rows[g]", {"g": 3}, ""),
    ("C[m,n]:f32 = A[idx[m],k]:bf16 @ (B[n,k]:i4):bf16 scale(none, 1x64:bf16)", {"A_0": 50}, ""),
    (
        "H[m,n] = silu(X[m,k] @ (V[n,k]:u4 - 8):bf16 scale(none, 1x64:bf16)) * (X[m,k] @ (W[n,k]:u4 - 8):bf16 "
        "scale(none, 1x64:bf16))",
        {},
        "",
    ),
    ("C[m,n]:e4m3 scale(1x128) = A[m,k] @ (B[n,k]:i4):bf16 scale(none, 1x64:bf16)", {}, ""),
    ("C[m,n] = relu(A[m,k] @ (B[n,k]:i4):bf16 scale(none, 1x64:bf16) + b[n])", {}, ""),
    ("C[n,m]:f32 = (B[n,k]:i4):bf16 @ A[m,k] scale(1x64:bf16, none)", {}, ""),
    ("C[m,n]:f32 = A[m,k] @ (B[n,k]:i4):bf16 scale(none, 1x64:bf16) with split=2", {}, "k"),
    ("C[m,n]:f32 = A[m,k] @ (B[n,k]:i4):bf16 scale(none, 1x64:bf16) with swap=1", {}, ""),
    ("C[m,n]:f32 = A[m,k] @ (B[n,k]:i4):bf16 scale(none, 1x64:bf16) with tile=128x96x64", {}, ""),
]


@pytest.mark.once("target", "number")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(len(MORE)))
def test_other_programs(number: int, target: str) -> None:
    source, more, fixed = MORE[number]
    run(source, target, {"m": 48, "n": 144, "k": 160, **more}, fixed)


test_refused = refusals(
    [
        ("(B[n,k]:i4):bf16 scale(none, 1x128)", "got: scales f32"),
        ("(B[n,k]:i4):f16 scale(none, 1x128:bf16)", "expected: scales of one of f16, ue4m3, all of which f16 has"),
        ("(B[n,k]:i4):bf16 scale(none, 1xk:bf16)", "fix: leave :bf16 out"),
        ("(B[n,k]:u4 - 8):e4m3 scale(none, 1x128:bf16)", "fix: write (B[n,k]:u4 - 8):bf16"),
        ("(B[n,k]:nvfp4):bf16", "got: 2 levels of scales"),
        ("(B[n,k]:bf16):bf16 scale(none, 1x128:bf16)", "elements that bf16 has, of 8 bits or fewer"),
        ("(B[n,k]:i4 * 2):bf16 scale(none, 1x128:bf16)", "only a tensor in memory has scales"),
        ("(B[n,k]:u4 - Z[n,k/64]:i8):e4m3", "got: numbers up to 143"),
        ("(B[n,k]:u4 - (Z[n,k/64]:i8 - 127)):bf16 scale(none, 1x64:bf16)", "expected: f16, which has all of them"),
    ],
    SourceError,
    within="C[m,n] = A[m,k]:bf16 @ {}",
)


def test_one_tensor_with_and_without_zero_points() -> None:
    """Each use has its own: against numbers, as the reference reads what the front end makes, too."""
    scales = "scale(none, 1x64:f16)"
    source = f"C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:u4 - 8):f16 {scales} + A[m,k] @ (B[n,k]):f16 {scales}"
    draw = np.random.default_rng(5)
    stored, a = draw.integers(0, 16, (16, 64)), draw.integers(-2, 3, (8, 64)).astype(np.float16)
    packed, ones = (stored[:, ::2] | stored[:, 1::2] << 4).astype(np.uint8), np.ones((16, 1), np.float16)
    with context.context():
        made = reference.run(build(source), {"A": a, "B": packed, "B_scale": ones})["C"]
    np.testing.assert_array_equal(made, a.astype(np.float64) @ (2 * stored - 8).T)
