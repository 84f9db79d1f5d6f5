"""Gated layers whose weights of 4 bits have tensors of zero points, as AWQ and GPTQ store them: rows of a tile have
those of the contraction whose they are, wherever strips of both begin."""

from __future__ import annotations

import pytest

from tests.emulator.test_several_results import TARGETS, run
from tests.tiers import SEEDS

GATE = "silu({x} @ ({v}{z}){s}) * ({x} @ ({w}{y}){s})"


def gate(x: str, z: str, s: str, v: str = "V[n,k]:u4", index: str = "[n,k/64]") -> str:
    """Two contractions of `x`, with zero points at `index` of type `z`, and scales."""
    return GATE.format(x=x, v=v, w=v.replace("V", "W"), z=f" - Z{index}{z}", y=f" - Y{index}{z}", s=s)


CASES = {
    "of rows": "H[m,n] = " + gate("X[m,k]:bf16", "", " scale(none, 1x64:bf16)"),
    "along rows": "H[m,n]:f32 = " + gate("X[m,k]:f16", "", " scale(none, 1x128:f16)", index="[k/128,n]"),
    "bytes, of FP8, quantised": "H[m,n]:mxfp8 = " + gate("X[m,k]:e4m3", ":i8", ""),
    "of FP8 with scales": "H[m,n] = " + gate("X[m,k]", "", " scale(1x128, 1x128:f16)", index="[n,k/128]"),
    "of blocks of rows": "H[m,n] = " + gate("X[m,k]:bf16", ":i8", "", index="[n/16,k/64]"),
    "of signed": "H[m,n] = " + gate("X[m,k]:bf16", "", "", v="V[n,k]:i4"),
    "of groups": "H[m,n] = "
    + gate("X[m,k]:bf16", "", " scale(none, 1x1x64:bf16)", v="V[g,n,k]:u4", index="[g,n,k/64]")
    + " for m in off[g]:off[g+1]",
    "halves of one": "G[m,n] = X[m,k]:bf16 @ (W[n,k]:u4 - Z[n,k/64]) scale(none, 1x64:bf16); U[m,n] = X[m,k]:bf16 @ "
    "(W[n+size(n),k]:u4 - Z[n+size(n),k/64]) scale(none, 1x64:bf16); H[m,n] = silu(G) * U",
    "rows by turns": "G[m,n] = X[m,k]:f16 @ (W[2*n,k]:u4 - Z[2*n,k/128]); U[m,n] = X[m,k]:f16 @ "
    "(W[2*n+1,k]:u4 - Z[2*n+1,k/128]); H[m,n] = max(G, 0) * U",
    "quantised anew": "H[m,n] = silu(X[m,k] @ quantize(V[n,k]:u4 - Z[n,k/64], e4m3, 1x128) scale(1x128, 1x64:f16)) * "
    "(X[m,k] @ quantize(W[n,k]:u4 - Y[n,k/64], e4m3, 1x128) scale(1x128, 1x64:f16))",
}
SIZES = [
    (9, 72, 128), (70, 136, 192), (1, 40, 256), (130, 24, 320),
    (0, 64, 128), (33, 0, 128), (40, 200, 64), (1, 1, 128),
]  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_gates(target: str, name: str, seed: int) -> None:
    m, n, k = SIZES[seed % 8]
    dims = {"m": m, "n": n, "k": k} | ({"g": 1 + seed % 3} if "[g," in CASES[name] else {})
    run(CASES[name], target, dims, ("nk", "mnk", "k", "nk")[seed % 4], seed)
