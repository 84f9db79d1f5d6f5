"""Programs that write a product more than once: it is computed once, and each result is what the reference, which
computes each by itself, has."""

from __future__ import annotations

import pytest

from tests.emulator.test_several_results import TARGETS, run

GATED = "silu(X[m,k] @ V[n,k]) * (X[m,k] @ W[n,k])"
SUM = "A[m,k] @ B[n,k] + D[m,r] @ E[n,r]"
FACTOR = "A[m,k] @ B[n,k] + s[m] * (D[m,r] @ E[n,r])"
DIMS = {"m": 70, "n": 136, "k": 72, "r": 40}

CASES = {
    "one": ("C[m,n] = relu(A[m,k] @ B[n,k]); D[m,n]:mxfp8 = gelu(A[m,k] @ B[n,k])", 1, 0),
    "computed": ("C[m,n] = relu(silu(A[m,k]) @ B[n,k]); D[m,n] = gelu(silu(A[m,k]) @ B[n,k])", 1, 0),
    "in one result": ("C[m,n] = (A[m,k] @ B[n,k]) * tanh(A[m,k] @ B[n,k])", 1, 0),
    "gated": (f"H[m,n] = {GATED}; R[m]:f32 = max[n](abs({GATED}))", 2, 0),
    "a sum": (f"C[m,n] = relu({SUM}); H[m,n] = {SUM}", 1, 1),
    "half of it a temporary": (
        "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T + D[m,r] @ E[n,r]; H[m,n] = T + D[m,r] @ E[n,r]", 1, 1,
    ),
    "a factor": (f"C[m,n] = relu({FACTOR}); H[m,n] = {FACTOR}", 1, 1),
    "a sum, reduced": (f"C[m,n] = {SUM}; R[m]:f32 = max[n](abs({SUM}))", 1, 1),
    "one half of two sums": (
        "T[m,n] = D[m,r] @ E[n,r]; C[m,n] = A[m,k] @ B[n,k] + T; H[m,n] = A[m,k] @ F[n,k] + T", 2, 1,
    ),
    "another factor in each": (
        "T[m,n] = A[m,k] @ B[n,k]; U[m,n] = D[m,r] @ E[n,r]; C[m,n] = T + x[m]*U; H[m,n] = T + y[m]*U", 2, 1,
    ),
    "twice in a sum": (f"C[m,n] = A[m,k] @ B[n,k] + {SUM}", 1, 2),
}  # fmt: skip
"""Texts; the columns of contractions that a tile has; the products that are added to the first."""


@pytest.mark.once("target", touches=lambda name, target: {target})
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_written_twice(target: str, name: str) -> None:
    source, panes, added = CASES[name]
    kernel, _ = run(source, target, {d: x for d, x in DIMS.items() if d != "r" or "r]" in source}, "nk")
    assert (kernel.spec.panes, len(kernel.spec.launch.added)) == (panes, added)
