"""Results that are added to or quantised around gaps, or whose rows or columns an index from memory names, anywhere
among the result's indices: threads store each element where it goes, and read what is there where it is."""

from __future__ import annotations

import pytest

from scalec import compiler, frontend
from scalec.ir import context
from scalec.ir.scale import program_dims
from tests.emulator.test_several_results import TARGETS, run
from tests.tiers import SEEDS

CASES = {
    "added": "D[m, n + n/64*32]:f32 += A[m,k] @ B[n,k]",
    "added, rounded": "D[m, n/48*64 + n%48] += A[m,k] @ B[n,k]",
    "added, the first gap nearer": "D[m, n + (n+32)/64*16] += A[m,k] @ B[n,k] scale(1x128,128x128)",
    "added, between two columns": "D[m, n + (n+1)/3]:f16 += A[m,k]:f16 @ B[n,k]:f16",
    "added beside another": "T[m,n] = A[m,k] @ B[n,k]; C[m, n + n/64*32]:f32 += T + x[n]; D[m,n] = T",
    "added, several": "T[m,n] = A[m,k] @ B[n,k]; C[m, n + (n+1)/3]:f32 += T; D[m, n + n/5]:f32 += T",
    "added, several addresses": "C[m, n + (n+1)/3] += A[m,k] @ B[n,k] + R[m, n + n/7]",
    "added, several inputs": "C[m,n]:f32 += A[m,k] @ B[n,k] + R[m, n + n/7]:f32 * S[m, n + (n+2)/5]:f32",
    "added, several sums": "C[m, n + (n+1)/3]:f32 += relu(X[m,k] @ V[n,k]) * (X[m,k] @ W[n,k])",
    "added, of groups": "D[m, n + n/64*32]:f32 += A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]",
    "added, of batches": "D[b, m, n + n/16*8]:f32 += s[b] * (A[b,m,k] @ B[b,n,k])",
    "beside another product": "C[m, n + n/64*32] = B[m,k] @ A[n,k] + x[n]; D[m,n]:f32 = E[m,k] @ A[n,k]",
    "beside another product, added": (
        "T[m,n] = B[m,k] @ A[n,k]; C[idx[m], n/48*64 + n%48]:f32 += T; D[m, 5 + n + (n+2)/5*5] = T * (E[m,k] @ A[n,k])"
    ),
    "rows": "T[m,n] = A[m,k] @ B[n,k]; D[n,m] = T; C[m, n/32*48 + n%32] += T",
    "rows of batches": (
        "T[b,m,n] = A[b,m,k] @ B[b,n,k]; C[b,m,n]:nvfp4 = T; E[n,b, m + (m+1)/3]:e5m2 = T; D[m,n, b + b/2*3] = T"
    ),
    "read around gaps": "C[m,n] = A[m,k] @ B[n,k] + x[n + n/32*64]:f32 + r[m + (m+3)/8*4] + R[m/4, n/24*32 + n%24]",
    "read around gaps, transposed": "C[m,n] = A[m,k] @ B[n,k] + R[m + m/8*8, n/24*32 + n%24] with swap=1",
    "read around gaps of a batch": "C[b,m,n] = A[b,m,k] @ B[b,n,k] + x[b + b/2, n]",
    "4 bits": "C[m, n + n/64*32]:e2m1 = A[m,k] @ B[n,k]",
    "4 bits, narrow": "C[m, n + (n+2)/4*6]:e2m1 = A[m,k] @ B[n,k] + x[n]",
    "4 bits, scattered": "C[idx[m], n + n/16*8]:e2m1 = A[m,k] @ B[n,k]",
    "4 bits of groups, and others": (
        "T[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]; C[m, n + n/8*2]:e2m1 = T; D[m,n] = T"
    ),
    "quantised": "C[m, n/128*192 + n%128]:mxfp8 = A[m,k] @ B[n,k] + x[n]",
    "quantised, 4 bits": "C[b,m, 32 + n + (n+16)/64*32]:nvfp4 = A[b,m,k] @ B[b,n,k]",
    "quantised, of groups": (
        "C[m, n + (n+32)/96*64]:e4m3 scale(1x32:ue8m0@blocked) = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1] apart"
    ),
    "quantised, and others": (
        "T[m,n] = A[m,k] @ B[n,k]; C[idx[m], n + n/96*128]:e4m3 scale(1x32:ue8m0@packed) = relu(T); D[m,n] = T; "
        "E[m, n + n/64*64]:e5m2 scale(1x64:f32@col) = T"
    ),
    "quantised, gated": "C[m, n + n/24*24]:e4m3 scale(1x24) = relu(X[m,k] @ V[n,k]) * (X[m,k] @ W[n,k])",
    "scattered": "C[idx[m], n/64*96 + n%64] = A[m,k] @ B[n,k]",
    "scattered, added": "C[idx[m], n/64*96 + n%64]:f32 += A[m,k] @ B[n,k] + x[n]",
    "scattered, added, rounded": "C[idx[m], n + n/3] += A[m,k] @ B[n,k] + x[idx[m],n]",
    "scattered, of groups": "C[idx[m], n/64*96 + n%64] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]",
    "columns": "C[n,idx[m]] = A[m,k] @ B[n,k]",
    "columns, added": "C[n,idx[m]]:f32 += A[m,k] @ B[n,k] + x[idx[m]]",
    "columns of the right": "C[m,idx[n]]:f16 += A[m,k]:f16 @ B[n,k]:f16",
    "columns, transposed": "C[m,idx[n]] = A[m,k] @ B[n,k] with swap=1",
    "columns, in parts": "C[m,idx[n]]:f32 = A[m,k] @ B[n,k] with split=2",
    "columns of batches": "C[b,n,idx[b,m]]:f32 = A[b,m,k] @ B[b,n,k] + y[n]",
    "columns, gated": "C[m,idx[n]] = relu(X[m,k] @ V[n,k]) * (X[m,k] @ W[n,k])",
    "columns of groups": "C[n,idx[m]] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]",
    "columns, gathered": "C[n,idx[m]] = A[p[m],k] @ B[e[m/16],n,k]",
    "columns, reduced": "T[m,n] = A[m,k] @ B[n,k]; C[m,idx[n]] = T; R[m]:f32 = max[n](T)",
    "rows and columns": "C[idx[m],p[n]] = A[m,k] @ B[n,k]",
    "rows and columns, transposed": "C[idx[m],p[n]] = A[m,k] @ B[n,k] + x[p[n]] with swap=1",
    "rows and columns, the other way round": "C[p[n],idx[m]]:f32 += A[m,k] @ B[n,k] + x[m]",
    "rows and columns, in parts": "C[idx[m],p[n]]:f32 = A[m,k] @ B[n,k] with split=2",
    "rows and columns of batches": "C[idx[b,m],b,p[n]]:f16 = A[b,m,k]:f16 @ B[b,n,k]:f16",
    "rows and columns of groups": "C[idx[m],p[n]]:f32 = A[q[m],k] @ B[g,n,k] for m in off[g]:off[g+1]",
    "rows and columns, and others": "T[m,n] = A[m,k] @ B[n,k]; C[idx[m],p[n]] = T; D[m,n] = T; E[m,p[n]]:f32 = T",
    "along a batch, rows": "C[idx[m],n,b] = A[b,m,k] @ B[b,n,k] + x[n,b]",
    "along a batch, columns": "C[m,idx[n],b]:f32 = A[b,m,k] @ B[b,n,k]",
    "a batch": "C[m,n,e[b]] = A[b,m,k] @ B[b,n,k]",
    "beside a quantised one": "T[m,n] = A[m,k] @ B[n,k]; C[n,idx[m]] = T; D[m,n]:mxfp8 = T",
    "beside a quantised one, both": "T[m,n] = A[m,k] @ B[n,k]; C[n,idx[m]] = T; D[idx[m],n]:mxfp8 = T; E[m,n]:f32 = T",
}

SIZES = [
    (40, 128, 64), (77, 136, 72), (1, 264, 64), (130, 24, 136),
    (0, 64, 64), (33, 0, 64), (5, 70, 0), (1, 1, 8),
]  # fmt: skip

ROOM = {"C_0": 270, "C_1": 270, "C_2": 270, "D_0": 140, "E_1": 270, "A_0": 50, "B_0": 3, "x_0": 300}
"""Of what indices from memory reach: more than there are of each."""


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_places(target: str, name: str, seed: int) -> None:
    m, n, k = SIZES[seed % 8]
    k = -(-k // 16) * 16 if "scale" in CASES[name] else k
    if "in parts" in name:
        k += 128
    if "reduced" in name:
        n = max(n, 1)
    if "4 bits" in name:  # one number is as far off as 4 bits allow
        n = max(n, 40)
    dims = {"m": m, "n": n, "k": k, "b": 1 + seed % 3, "g": 1 + seed % 4}
    with context.context():
        module = frontend.build(CASES[name])
        every = program_dims(module.body.operations[0])
    own = {d: size for d, size in (dims | ROOM).items() if d in every}
    fixed = "nk" if "in parts" in name else ("nk", "mnk", "", "n")[seed % 4]
    run(CASES[name], target, own, fixed, seed)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [x for x in CASES if x.startswith("added, ") and "several" in x])
def test_several_addresses_for_each_element_spill_nothing(name: str) -> None:
    """Where N is not known: results, inputs around other gaps, sums of several products."""
    assert compiler.compile_source(CASES[name], "sm_100a").cubin
