"""Elements of index tensors at a number, `off[1]`: bounds of ranges, and indices, which then no dimension changes."""

from __future__ import annotations

import pytest

from scalec import frontend
from scalec.ir import context
from scalec.ir.scale import program_dims
from tests.emulator.test_several_results import TARGETS, run
from tests.tiers import SEEDS

CASES = {
    "rows": "C[m,n] = A[m,k] @ B[n,k] for m in off[1]:off[2]",
    "columns": "C[m,n] = A[m,k] @ B[n,k] for n < rows[1]",
    "of a batch": "C[b,m,n] = A[b,m,k] @ B[b,n,k] for m < rows[b,1]",
    "the sum": "C[m,n]:f32 += A[m,k] @ B[n,k] for k in off[1]:off[3]",
    "a matrix": "C[m,n] = A[m,k] @ B[e[2],n,k]",
    "gathered": "C[m,n] = A[idx[1,m],k] @ B[n,k] + x[p[2,n]]",
    "scattered": "C[idx[m,1],n] = A[m,k] @ B[n,k] + x[p[2]]",
    "gathered along the sum": "C[m,n] = A[idx[1,k],m] @ B[k,n]",
    "a window": "L[q,t]:f32 = sum[h](relu(Q[q,h,k] @ K[t,k])) for t in 2:len[1] else -inf",
    "pages": "L[q,t]:f32 = sum[h](relu(Q[q,h,k] @ K[table[1,t/32],t%32,k])) for t < len[1]",
    "no contraction": "Y[m,n]:f32 = X[idx[1,m],n] * w[e[1]] for m in off[1]:off[2]",
}
SIZES = {"m": 90, "n": 72, "k": 136, "b": 3, "h": 16, "q": 5, "t": 130}
REACHED = {"C_0": 100, "B_0": 5, "A_0": 150, "x_0": 70, "X_0": 60, "K_0": 9, "w_0": 4}


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_numbered(target: str, name: str, seed: int) -> None:
    with context.context():
        module = frontend.build(CASES[name])
        every = program_dims(module.body.operations[0])
    dims = {d: size for d, size in (SIZES | REACHED).items() if d in every}
    run(CASES[name], target, dims, "hk" if "h" in dims else "nk"[: len("nk") - ("k" not in dims)], seed)
