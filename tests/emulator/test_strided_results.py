"""Results whose rows do not lie side by side: contiguous along a batch, or, of several, with their indices in another
order than the first: threads store each element where it goes."""

from __future__ import annotations

import re

import pytest

from tests.emulator.test_several_results import TARGETS, run
from tests.tiers import SEEDS

CASES = {
    "along a batch": "C[m,n,b] = A[b,m,k] @ B[b,n,k] + x[m,b]",
    "along a batch, added to": "C[n,m,b]:f32 += A[b,m,k] @ B[b,n,k] * s[b]",
    "along one of two": "C[b,m,n,h]:e4m3 = A[b,m,h,k] @ B[h,n,k] + R[m,n,h]",
    "along masked groups": "C[m,n,b] = A[b,m,k] @ B[b,n,k] for m < rows[b]",
    "along groups of k": "C[m,n,b]:f32 += A[m,k] @ B[n,k] for k in off[b]:off[b+1]",
    "both orders": "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T + x[n]; D[n,m] = relu(T)",
    "both, the second quantised": "T[m,n] = A[m,k] @ B[n,k]; D[n,m]:f32 += T; C[m,n]:mxfp8 = relu(T)",
    "three orders": "T[b,m,n] = A[b,m,k] @ B[b,n,k]; C[n,b,m] = T; D[b,m,n] = relu(T); E[m,n,b]:f32 = T + R[m,b,n]",
    "both, ragged": "T[m,n] = A[m,k] @ B[b,n,k] for m in off[b]:off[b+1]; C[m,n] = T; D[n,m] = relu(T)",
    "both, gathered": "T[m,n] = A[idx[m],k] @ B[e[m/16],n,k]; C[m,n] = T; D[n,m] = relu(T)",
    "both, gated": "T[m,n] = X[m,k] @ V[n,k]; C[m,n] = silu(T) * (X[m,k] @ W[n,k]); D[n,m] = T",
    "both, transposed": "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T; D[n,m] = relu(T) with swap=1",
    "both, in parts": "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T; D[n,m] = relu(T) with split=2",
}

SIZES = [(40, 72, 136), (19, 42, 72)]


@pytest.mark.once("target", touches=lambda name, **_: {name} & {"three orders", "along a batch, added to"})
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_strided(target: str, name: str, seed: int) -> None:
    m, n, k = SIZES[seed % 2]
    dims = {"m": m, "n": n, "k": k, "b": 3, "h": 2}
    own = {d: size for d, size in dims.items() if re.search(rf"\b{d}\b", CASES[name])}
    fixed = "nk" if "in parts" in name else ("nk", "mnk", "", "n")[seed % 4]
    run(CASES[name], target, own, fixed, seed)
