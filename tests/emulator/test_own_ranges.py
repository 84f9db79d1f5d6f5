"""Ranges that end at another index for each row or column of a tile, and ranges outside of which something is written
(else), of results that are not reduced: tiles are computed whole, and threads store what lies within."""

from __future__ import annotations

import re

import numpy as np
import pytest

import scalec
from scalec import compiler, frontend, reference
from scalec.checking.launch import made_up
from scalec.errors import UnsupportedError
from scalec.ir import context
from scalec.ir.scale import program_dims
from scalec.runtime import emulated
from tests.emulator.running import launched
from tests.emulator.test_several_results import TARGETS, run
from tests.tiers import SEEDS

CASES = {
    "columns of each row": "C[m,n] = A[m,k] @ B[n,k] for n < len[m]",
    "columns of each row of batches": "C[b,m,n] = A[b,m,k] @ B[b,n,k] + x[n] for n < len[b,m]",
    "rows of each column": "C[m,n]:f32 = A[m,k] @ B[n,k] for m < len[n]",
    "a window": "C[m,n] = A[m,k] @ B[n,k] for n in lo[m]:hi[m] else -inf",
    "a window, from where one number says": "C[m,n]:f16 = A[m,k] @ B[n,k] for n in lo[1]:hi[m] else -inf",
    "a window, transposed": "C[m,n] = A[m,k] @ B[n,k] for n in lo[m]:hi[m] else -inf with swap=1",
    "windows of batches": "C[b,m,n]:f32 = s * (A[b,m,k] @ B[b,n,k]) for n in lo[b,m]:hi[b,m] else -inf",
    "scores": "S[b,h,g,m,n]:f32 = Q[b,h,g,m,k] @ K[b,h,n,k] for n < len[b,m] else -inf",
    "rows, filled": "C[m,n] = A[m,k] @ B[n,k] for m < rows[0] else 0",
    "rows of groups, filled": "C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g] else 0",
    "between numbers, filled": "C[m,n]:e4m3 = A[m,k] @ B[n,k] for n in 3:9 else 1",
    "added": "C[m,n]:f32 += A[m,k] @ B[n,k] for n < len[m]",
    "in parts": "C[m,n]:f32 = A[m,k] @ B[n,k] for n < len[m] else 3 with split=2",
    "scales": "C[m,n]:f16 = A[m,k] @ B[n,k] scale(1x128,128x128) for n in lo[m]:hi[m] else 0",
    "beside all": "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T for n < len[m] else 0; D[m,n]:f32 = T",
    "two, in two orders": "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T for n < len[m] else 0; D[n,m]:f32 = T for m < cols[n]",
    "beside groups of rows": "C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1] for n < len[m]",
    "of groups of rows": "C[g,m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1] for n < cols[g]",
    "beside a range of the sum": "C[g,m,n]:f32 = A[m,k] @ B[n,k] for k in off[g]:off[g+1] for n < len[g,m] else 0",
    "of all beside a range of the sum": "C[g,m,n]:f32 += A[m,k] @ B[n,k] for k in off[g]:off[g+1] for m in lo[g]:hi[g]",
    "along a batch": "C[m,n,b]:f32 = A[b,m,k] @ B[b,n,k] for n < len[b,m] else 0",
    "gathered rows": "C[m,n] = A[idx[m],k] @ B[n,k] for n < len[m] else 5",
    "filled before": "T[m,n] = A[m,k] @ B[n,k] for n < len[m] else -3; C[m,n] = max(abs(T)*2, T^2) - 1; D[m,n]:f32 = T",
    "filled before, and within": (
        "T[m,n] = A[m,k] @ B[n,k] for n < len[m] else -3; C[m,n] = T + x[n] for n < len[m]; D[n,m]:f32 = exp(T)"
        " for n < len[m] else 5"
    ),
    "up to a row": "C[m,n] = A[m,k] @ B[n,k] for n < m+1 else -inf",
    "up to a row of batches": "C[b,m,n]:f32 = A[b,m,k] @ B[b,n,k] + x[n] for n in m-40:m+1",
    "up to a column": "C[m,n]:f16 = A[m,k] @ B[n,k] for m in n/2:n+3 else 0 with swap=1",
    "up to a batch": "C[b,m,n]:f32 = A[b,m,k] @ B[b,n,k] for n in 1:b+2",
    "up to a group of the sum": "C[b,m,n]:f32 = A[b,m,k] @ B[b,n,k] for k < b+3",
    "of pages": "C[b,m,n] = A[b,m,k] @ K[table[b,n/16],n%16,k]",
    "of pages, in a window": "C[b,n,m]:f32 = K[table[b,n/40],n%40,k] @ A[m,k] for n in lo[b]:hi[b] else 2",
    "of pages, from anywhere": "C[b,n,m]:f32 = K[table[b,n/16],n%16,k] @ A[b,m,k] for n in lo[b]:hi[b]",
    "of pages, reduced": "L[b,n]:f32 = max[h](A[b,h,k] @ K[table[b,n/16],n%16,k]) for n in lo[b]:hi[b]",
    "of pages, beside a range": "C[b,m,n] = A[b,m,k] @ K[table[b,n/16],n%16,k] for n in 3:70 for m < rows[b]",
    "of rows of pages": "C[b,m,n] = A[b,m,k] @ K[table[b,n/20],n%20,k]",
    "of rows of pages, in a window": "C[b,n,m]:f32 = K[table[b,n/33],n%33,k] @ A[m,k] for n in lo[b]:hi[b] else 2",
    "of rows of pages, from anywhere": "C[b,n,m]:f32 = K[table[b,n/3],n%3,k] @ A[b,m,k] for n in lo[b]:hi[b]",
    "of rows of pages, reduced": "L[b,n]:f32 = max[h](A[b,h,k] @ K[table[b,n/12],n%12,k]) for n in lo[b]:hi[b]",
    "of rows of pages, beside a range": "C[b,m,n] = A[b,m,k] @ K[table[b,n/100],n%100,k] for n in 3:70 for m < rows[b]",
    "of rows of pages in groups": "C[n,m] = K[table[n/20],n%20,k] @ A[g,m,k] for n in off[g]:off[g+1]",
    "gated": "H[m,n] = silu(X[m,k] @ V[n,k]) * (X[m,k] @ W[n,k]) for n < len[m] else 0",
    "beside a reduced operand": (
        "D[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:tf32 for n < len[m] else 0; S[m]:f32 = sum[k](A[m,k]^2)"
    ),
}
SIZES = [
    (40, 128, 64), (77, 136, 72), (1, 264, 64), (130, 24, 136),
    (0, 64, 64), (33, 0, 64), (5, 70, 128), (1, 1, 8),
]  # fmt: skip


@pytest.mark.once("target")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_own_ranges(target: str, name: str, seed: int) -> None:
    m, n, k = SIZES[seed % 8]
    k = -(-k // 128) * 128 if name in ("scales", "in parts") else k
    if "reduced" in name:
        n = max(n, 1)
    dims = {
        "m": m,
        "n": n,
        "k": k + 128 * (name == "in parts"),
        "b": 1 + seed % 3,
        "g": 1 + seed % 4,
        "h": 2,
        "A_0": 50,
        "K_0": 9,
    }
    with context.context():
        module = frontend.build(CASES[name])  # an op does not keep its module
        every = program_dims(module.body.operations[0])
    fixed = "nk" if name == "in parts" else ("nk", "mnk", "", "n")[seed % 4]
    fixed = "".join(x for x in fixed if x in every)
    run(CASES[name], target, {d: x for d, x in dims.items() if d in every}, fixed, seed)


def test_addresses_within_a_row() -> None:
    """One for each eight columns that come out of tensor memory: LLVM compares each two that it sees, 256 of them for
    seconds."""
    source = "C[m,n] = A[m,k] @ B[n,k] for n in lo[m]:hi[m] with tile=128x64x64"
    ptx = compiler.compile_source(source, "sm_100a", {"k": 64}, until="ptx").ptx
    stored = re.findall(r"st\.global\.b16 \[(%rd\d+)", ptx)
    assert (len(stored), len(set(stored))) == (64, 8)


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
def test_tiles_of_pages_outside_a_window(target: str) -> None:
    """Nobody multiplies them: of eight pages and two windows one tile is that begins within a page."""
    source = "C[b,m,n]:f32 = A[b,m,k] @ K[table[b,n/64],n%64,k] for n in lo[b]:hi[b] with tile=128x64x64, cluster=1x1"
    dims = {"b": 2, "m": 8, "n": 512, "k": 64, "K_0": 3}
    values, _ = made_up(source, dims, 3)
    lo, hi = np.array([70, 500], np.int32), np.array([75, 500], np.int32)
    values = {**values, "table": abs(values["table"]), "lo": lo, "hi": hi}
    with context.context():
        expected = reference.run(frontend.build(source, dims), values, dims=dims, exact=True)
    kernel = scalec.compile(source, target=target, dims={"k": 64})
    device = kernel.fixed = emulated.EmulatedDevice(target)
    launched(kernel, values, expected, dims, 1)
    assert device.stats is not None
    assert device.stats.counts["tensor operations"] == 128 * 64 * 64


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("T[m,n] = A[m,k] @ B[n,k] for n < p[m]; C[m,n] = T for n < q[m]", "C has another range of n than what it is"),
        ("T[m,n] = A[m,k] @ B[n,k] for n < p[m] else 0; C[m,n] = T + x[n]; D[m,n] = T", "a temporary that is filled"),
        ("T[m,k] = A[m,k] for k < p[m] else 0; C[m,n] = (T[m,k]):bf16 @ B[n,k]", "a temporary with a range of k"),
        ("T[m,k] = A[m,k] for k < p[m]; C[m,n] = (T[m,k]):bf16 @ B[n,k]", "a temporary with a range of k"),
        (
            "T[m,n] = A[m,k] @ B[n,k] for n < p[m] else 0; C[m,n] = exp(T)",
            "C.* is a temporary that is filled outside its",
        ),
        ("C[m,n] = A[m,k] @ B[e[m/128],n,k] for n < p[m] else 0", "C is filled .*, and e.m/128. says what"),
        (
            "C[m,n] = A[g,m,k] @ K[p[n/16],n%16,k] for n in off[g]:off[g+1]",
            "groups of n begin anywhere, and K has pages",
        ),
        ("L[q,t] = sum[h](Q[q,h,d] @ K[e[q],t,d]) for t < p[q] else 0", "L is filled .*, and e.q. says what"),
        ("T[m,n] = X[m,n] for n < p[m]; C[m,n] = T + x[n] for n < q[m]", "a temporary that has another range"),
    ],
)
def test_refused(source: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as refusal:
        compiler.compile_source(source, "sm_90a", {"h": 16} if "h]" in source else {})
    assert refusal.value.fix
    assert refusal.value.place
