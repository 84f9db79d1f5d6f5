"""Programs without a contraction with ranges of the last index, and ranges outside of which something is written
(else): what is filled is computed as what is read is, and of what is left out no thread stores an element."""

from __future__ import annotations

import pytest

from scalec import frontend
from scalec.ir import context
from scalec.ir.scale import program_dims
from tests.emulator.running import refusals
from tests.emulator.test_several_results import TARGETS, run
from tests.tiers import SEEDS

CASES = {
    "columns of each row": "Y[m,n] = X[m,n] for n < len[m]",
    "a window of each row": "Y[b,m,n]:e4m3 = gelu(X[b,m,n]) for n in lo[b,m]:hi[b,m]",
    "columns between numbers": "Y[m,n] = X[m,n]:f32 + x[n/8] for n in 3:9",
    "beside one of rows": "Y[g,m,n] = X[g,m,n] for m in lo[g]:hi[g] for n < cols[g]",
    "beside groups of rows": "Y[m,n] = X[m,n] * w[g] for m in off[g]:off[g+1] for n < len[m]",
    "beside gathered rows": "Y[m,n]:f32 = X[idx[m],n] for n < len[m]",
    "by chance": "Y[m,n] = stochastic(X[m,n], s[0]) for n < len[m]",
    "several": "T[m,n] = X[m,n] for n < len[m]; Y[m,n] = T * 2; Z[m,n]:f16 = X[m,n]; W[m,n]:e5m2 = X[m,n] for n in 2:5",
    "filled": "Y[m,n] = X[m,n] * w[n] for n in lo[m]:hi[m] else -inf",
    "filled rows": "T[m,n] = X[m,n] for m < rows[0] else 1.5; Y[m,n] = T; R[m]:f32 = max[n](T)",
    "filled rows and columns": "Y[g,m,n] = X[g,m,n] for m in lo[g]:hi[g] else 3 for n < cols[g] else 3",
    "filled and quantised": "Y[m,n]:mxfp8 = X[m,n] for n < len[m] else 0; Z[m,n]:e4m3 scale(1xn) = X[m,n]",
    "filled, in blocks of several rows": "Y[m,n]:e4m3 scale(16x32) = X[m,n] for n < len[m] else 0",
    "filled, in blocks of an odd number": "Y[m,n]:e4m3 scale(1x48) = X[m,n] for n in lo[m]:hi[m] else 0",
    "filled and transformed": "Y[m,n]:mxfp8 = hadamard(X[m,n], 16) for n in lo[m]:hi[m] else 2",
    "filled, 4 bits": "Y[m,n]:e2m1 = X[m,n] for n < len[m] else 1",
    "filled, in both orders": "T[m,n] = X[m,n] for n < len[m] else 0; Y[m,n]:nvfp4 = T * 2; Z[n,m] = T",
    "a softmax of a window": (
        "T[m,n] = X[m,n] for n in lo[m]:hi[m] else -inf; M[m] = max[n](T); S[m] = sum[n](exp(T - M)); "
        "Y[m,n] = exp(T - M) / S"
    ),
    "a norm of a window": "T[m,n] = X[m,n] for n < len[m]; S[m] = sum[n](T*T); Y[m,n] = T / sqrt(S + 1)",
    "up to an index": "Y[m,n] = X[m,n] for n < m+1",
    "from an index on, filled": "Y[b,m,n]:f32 = X[b,m,n] for n in m-2:m/2+40 else -1",
    "a causal softmax": (
        "T[m,n] = X[m,n] for n < m+1 else -inf; M[m] = max[n](T); S[m] = sum[n](exp(T - M)); Y[m,n] = exp(T - M) / S"
    ),
    "sums up to an index": "S[m]:f32 = sum[n](X[m,n]) for n in m-3:m+1",
    "rows up to an index": "Y[b,m,n] = X[b,m,n] for m < b+2",
    "the largest of a window": "M[m]:f32 = max[n](abs(X[m,n])) for n < len[m]",
}
SIZES = [(40, 128), (77, 1131), (5, 1), (130, 264), (33, 0), (0, 64), (6, 9000), (3, 7)]


@pytest.mark.once("target")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_windows(target: str, name: str, seed: int) -> None:
    m, n = SIZES[seed % 8]
    with context.context():
        module = frontend.build(CASES[name])  # an op does not keep its module
        every = program_dims(module.body.operations[0])
    sizes = {"m": m, "n": n, "b": 1 + seed % 3, "g": 1 + seed % 4, "X_0": 50}
    fixed = "".join(d for d in ("n", "", "mn", "m")[seed % 4] if d in every)
    run(CASES[name], target, {d: x for d, x in sizes.items() if d in every}, fixed, seed)


test_refused = refusals(
    [
        ("Y[m,n]:mxfp8 = X[m,n] for n < len[m]", "Y, which is quantised, in a range of n.*\n.*\n.*\n.*\n.* else 0"),
        ("Y[m,n]:e2m1 = X[m,n] for n < len[m]", "Y, which is of less than a byte, in a range of n"),
        ("Y[m,n]:f32 = hadamard(X[m,n], 16) for n < len[m]", "Y, which is transformed, in a range of n"),
        (
            "Y[m,n] = X[m,n] for m < len[n]",
            "a range of m for each n.*\n.*\n.*\n  expected: one of m, for each of these",
        ),
        ("Y[m,n] = X[m,n] for m < len[n] else 0", "a range of m for each n, outside of which it is filled"),
        ("Y[m,n] = X[m,n] for m in off[g]:off[g+1] else 0", "a range of m for each g, outside of which it is filled"),
        ("Y[m,n] = X[idx[m],n] for n < len[m] else 0", "beside an index from memory, which may leave rows out"),
        ("T[m,n] = X[m,n] for n < len[m] else 0; S[n] = sum[m](T)", "a reduction of what is filled outside a range"),
        ("Y[m,n] = X[m,n]; T[n,m] = X[m,n] for n < len[m]", "T with another last index"),
        ("Y[m,n] = X[m,n] for n < 2*m", "the range of n ends at m.2\n.*\n.*\n.*, or another index: m, m.1, m/2"),
        ("Y[m,n] = X[m,n] for n < (m-3)/2", "the range of n ends at .m - 3./2"),
    ]
)
