"""Ranges whose ends are read at several indices, `m < rows[b,g]`: a queue walks the groups of all of them."""

from __future__ import annotations

import pytest

from scalec import frontend
from scalec.ir import context
from scalec.ir.scale import program_dims
from tests.emulator.test_several_results import TARGETS, run
from tests.tiers import SEEDS

CASES = {
    "rows": "C[b,g,m,n] = A[b,g,m,k] @ B[g,n,k] for m < rows[b,g]",
    "rows, the other way round": "C[b,g,m,n] = A[b,g,m,k] @ B[g,n,k] + x[g,n] for m < rows[g,b]",
    "rows, scales": "C[b,g,m,n] = A[b,g,m,k] @ B[g,n,k] scale(1x128,1x128x128) for m < rows[b,g]",
    "rows, quantised": "C[b,g,m,n]:mxfp8 = A[b,g,m,k] @ B[b,g,n,k] for m in 3:rows[b,g]",
    "rows, a batch between": "C[b,h,g,m,n] = A[b,h,g,m,k] @ B[h,n,k] for m < rows[b,g]",
    "columns": "C[b,g,m,n]:f32 = A[b,m,k] @ B[b,g,n,k] for n < cols[b,g]",
    "the sum": "C[b,g,m,n]:f32 = A[b,g,m,k] @ B[b,g,n,k] for k < len[b,g]",
    "no contraction": "Y[b,g,m,n]:f32 = X[g,m,n] * w[b] for m < rows[b,g]",
    "rows from anywhere": "C[b,g,m,n] = A[b,g,m,k] @ B[g,n,k] + x[g,n] for m in lo[b,g]:hi[b,g]",
    "rows from where one index says": "C[b,g,m,n]:f32 = A[b,g,m,k] @ B[g,n,k] for m in lo[b]:hi[g,b]",
    "rows shared out": "C[b,m,n] = w[b,g] * (A[b,m,k] @ B[g,n,k]) + x[b,g,n] for m in off[b,g]:off[b,g+1]",
    "rows shared out, kept apart": "C[b,g,m,n] = A[b,m,k] @ B[g,n,k] for m in off[b,g]:off[b,g+1]",
    "rows shared out, offsets the other way round": "C[b,m,n] = A[b,m,k] @ B[b,g,n,k] for m in off[g,b]:off[g+1,b]",
    "rows shared out, scales": "C[b,m,n] = A[b,m,k] @ B[g,n,k] scale(1x128,1x128x128) for m in off[b,g]:off[b,g+1]",
    "rows shared out, quantised": "C[b,m,n]:mxfp8 = A[b,m,k] @ B[g,n,k] for m in off[b,g]:off[b,g+1]",
    "rows shared out, added": "C[b,m,n]:f32 += A[b,m,k] @ B[g,n,k] for m in off[b,g]:off[b,g+1]",
    "rows shared out, scattered": "C[b,idx[b,m],n] = A[b,m,k] @ B[g,n,k] for m in off[b,g]:off[b,g+1]",
    "rows shared out, gathered": "C[b,m,n] = A[idx[b,m],k] @ B[g,n,k] for m in off[b,g]:off[b,g+1]",
    "rows shared out, reduced": (
        "T[b,m,n] = A[b,m,k] @ B[g,n,k] for m in off[b,g]:off[b,g+1]; C[b,m,n] = T; R[b,m]:f32 = max[n](T)"
    ),
    "rows between two numbers": "C[b,g,m,n] = A[b,g,m,k] @ B[g,n,k] for m in r[b,g,0]:r[b,g,1]",
    "the sum from anywhere": "C[b,g,m,n]:f32 = A[b,g,m,k] @ B[b,g,n,k] for k in lo[b,g]:hi[b,g]",
    "the sum shared out": "C[b,g,m,n]:f32 += A[b,m,k] @ B[b,n,k] for k in off[b,g]:off[b,g+1]",
    "no contraction, from anywhere": "Y[b,g,m,n]:f32 = X[g,m,n] * w[b] for m in lo[b,g]:hi[b,g]",
    "no contraction, shared out": "Y[b,m,n]:f32 = X[b,m,n] * w[b,g] for m in off[b,g]:off[b,g+1]",
    "no contraction, shared out, quantised": "Y[b,m,n]:mxfp8 = X[b,m,n] * w[g,b] for m in off[g,b]:off[g+1,b]",
    "no contraction, shared out, another order": "Y[m,b,n] = X[b,m,n] + w[g,n] for m in off[b,g]:off[b,g+1]",
    "rows that tell the sum's group": (
        "C[m,n]:f32 = A[m,k] @ B[g,n,k] for k in cut[g]:cut[g+1] for m in off[g]:off[g+1]"
    ),
    "rows and columns of a group": "C[m,n]:f32 = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1] for n in cut[g]:cut[g+1]",
    "rows and columns of a group, added": (
        "C[m,n]:f32 += A[g,m,k] @ B[n,k] for n in off[g]:off[g+1] for m in cut[g]:cut[g+1]"
    ),
    "rows and a length of a group, gathered": (
        "C[m,n]:f32 = A[idx[m],k] @ B[g,n,k] for m in off[g]:off[g+1] for k < len[g]"
    ),
    "reduced": "T[b,g,m,n] = A[b,g,m,k] @ B[g,n,k] for m < rows[b,g]; C[b,g,m,n] = T; R[b,g,m]:f32 = max[n](T)",
}
SIZES = [
    (70, 136, 128),
    (9, 72, 256),
    (1, 40, 128),
    (130, 24, 128),
    (0, 64, 128),
    (33, 1, 128),
    (40, 200, 128),
    (1, 1, 128),
]


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_ranges(target: str, name: str, seed: int) -> None:
    m, n, k = SIZES[seed % 8]
    with context.context():
        module = frontend.build(CASES[name])
        every = program_dims(module.body.operations[0])
    dims = {"m": m, "n": n, "k": k, "b": 1 + seed % 3, "g": (3, 2, 5)[seed % 3], "h": 2, "C_1": m + 20, "A_0": 50}
    fixed = [d for d in ("nk", "mnk", "k", "bgnk")[seed % 4] if d in every]
    run(CASES[name], target, {d: x for d, x in dims.items() if d in every}, "".join(fixed), seed)
