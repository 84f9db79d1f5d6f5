"""Gated layers with adapters: several sums of products; those of one left operand lie side by side in a tile."""

from __future__ import annotations

import re

import pytest

from tests.emulator.running import refusals
from tests.emulator.test_several_results import TARGETS, run, tails
from tests.tiers import SEEDS


def gated(product: str, adapter: str, to: str = "", where: str = "") -> str:
    """A gated layer: weights are W, and E of adapters; `{}` is what is computed of an adapter."""
    gate, up = (
        f"{t}[m,n] = {product.replace('W', f'W{t.lower()}')} + {adapter.replace('E', f'E{t.lower()}')} {where}"
        for t in "GU"
    )
    return f"{gate}; {up}; H[m,n]{to} = silu(G) * U"


BF16, SCALES = "X[m,k] @ W[n,k]", "scale(1x128,128x128)"
ADAPTER, RAGGED = "D[m,r]:bf16 @ E[n,r]:bf16", "for m in off[g]:off[g+1]"

CASES = {
    "plain": gated(BF16, ADAPTER),
    "alpha": gated(BF16, f"alpha * ({ADAPTER})"),
    "quantised": gated(BF16, f"x[m] * ({ADAPTER})", ":mxfp8"),
    "of the weights": "G[m,n] = s[0]*(X[m,k] @ V[n,k]) + D[m,r] @ E[n,r] + b[n];"
    " H[m,n]:f32 = G * (t[n] * (X[m,k] @ W[n,k]) + D[m,r] @ F[n,r])",
    "fp8": gated(f"X[m,k] @ W[n,k] {SCALES}", f"alpha * (D[m,r] @ E[n,r] {SCALES})"),
    "fp8 of one": gated(f"X[m,k] @ W[n,k] {SCALES}", "alpha * (D[m,r]:e4m3 @ E[n,r]:e4m3)", ":mxfp8"),
    "fp8, scales of rows": gated("X[m,k] @ W[n,k] scale(1x128,1x128)", "D[m,r] @ E[n,r] scale(1x128,1x128)"),
    "fp8, in columns": gated("X[m,k] @ W[n,k] scale(1x128@col,1x128@col)", "D[m,r]:e4m3 @ E[n,r]:e4m3"),
    "i4": gated("X[m,k]:bf16 @ W[n,k]:i4 scale(none,1x64:bf16)", ADAPTER),
    "mxfp4": gated("X[m,k]:bf16 @ W[n,k]:mxfp4", f"alpha * ({ADAPTER})"),
    "nvfp4": gated("X[m,k]:bf16 @ W[n,k]:nvfp4", f"alpha * ({ADAPTER})"),
    "n contiguous": gated("X[m,k] @ W[k,n]", "D[m,r] @ E[r,n]"),
    "halves": "G[m,n] = X[m,k] @ W[n,k] + D[m,r] @ E[n,r]; U[m,n] = X[m,k] @ W[n+size(n),k] + D[m,r] @ E[n+size(n),r];"
    " H[m,n] = silu(G) * U",
    "in another order": "G[m,n] = X[m,k] @ V[n,k] + D[m,r] @ E[n,r];"
    " H[m,n] = G * (D[m,r] @ F[n,r] + x[n] + X[m,k] @ W[n,k])",
    "two adapters": gated(BF16, f"{ADAPTER} + F[m,q] @ E2[n,q]"),
    "ragged": gated("X[m,k] @ W[g,n,k]", "alpha * (D[m,r] @ E[g,n,r])", where=RAGGED),
    "of experts": gated("X[idx[m],k] @ W[e[m/64],n,k]", "D[m,r] @ E[f[m/64],n,r]"),
    "reduced": f"{gated(BF16, ADAPTER)}; R[m]:f32 = max[n](abs(G))",
    "several results": f"{gated(BF16, f'alpha * ({ADAPTER})')}; T[m,n] = G",
}  # fmt: skip

OTHERS = {"r": 72, "q": 16, "g": 3, "X_0": 50, "Wg_0": 3, "Wu_0": 3, "Eg_0": 2, "Eu_0": 2}


USUAL = {"quantised", "fp8, scales of rows", "in another order"}
"""Of the cases, those of a usual run."""


@pytest.mark.once("target", touches=lambda name, **_: {name} & USUAL)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("target", "name"), [(t, x) for x in CASES for t in TARGETS])
def test_program(target: str, name: str, seed: int) -> None:
    source, dims = CASES[name], tails(seed)
    dims |= {"n": dims["n"] // 32 * 32 or 32, "k": -(-dims["k"] // 32) * 32}  # rows of 4 bits of whole blocks
    if "size(n)" in source or "1x" in source:
        dims["n"] = -(-dims["n"] // 128) * 128
    found = {d for d in OTHERS if re.search(rf"\b{d}\b[],/+]", source)}
    found |= {d for d in OTHERS if d.endswith("_0") and re.search(rf"\b{d[:-2]}\[\w+\[", source)}
    dims |= {d: OTHERS[d] + 24 * ("4" in name and d == "r") for d in found}
    run(source, target, dims, "".join(d for d in dims if len(d) == 1 and d != "m"), seed)


SCHEDULES = {
    "sm_90a": ("consumers=pingpong", "cluster=2x1", "stages=2", "epilogue=direct", "unroll=5"),
    "sm_100a": ("scheduler=dynamic", "warpgroups=2", "promote=64", "cluster=1x2"),
    "sm_120a": ("scheduler=dynamic", "stages=2", "promote=64"),
}


@pytest.mark.once
@pytest.mark.parametrize(("target", "fields"), [(t, x) for t in TARGETS for x in SCHEDULES[t]])
def test_schedule(target: str, fields: str) -> None:
    dims = {"m": 140, "n": 136, "k": 136, "r": 72}
    kernel, _ = run(f"{CASES['alpha']} with {fields}", target, dims, "nkr")
    assert fields in kernel.spec.schedule


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("split", [2, 3])
def test_parts(target: str, split: int) -> None:
    """Parts of K begin in either product."""
    run(f"{CASES['plain']} with split={split}", target, {"m": 24, "n": 72, "k": 160, "r": 72}, "nkr")


@pytest.mark.once
@pytest.mark.parametrize("size", ["n", "k", "r"])
@pytest.mark.parametrize("target", TARGETS)
def test_empty(target: str, size: str) -> None:
    run(CASES["alpha"], target, {"m": 24, "n": 64, "k": 64, "r": 16, size: 0}, "")


GATE = "G[m,n] = X[m,k] @ V[n,k]"

REFUSED = {
    f"{GATE} + D[m,r] @ E[n,r]; H[m,n] = G * (X[m,k] @ W[n,k] + P[m,r] @ F[n,r])": "the same left operands",
    f"{GATE} + D[m,r] @ E[n,r]; H[m,n] = G * (X[m,k] @ W[n,k])": "the same left operands",
    f"{GATE} + s*(D[m,r] @ E[n,r]); H[m,n] = G * (X[m,k] @ W[n,k] + D[m,r] @ F[n,r])": r"as one \* ",
    f"{GATE} + s*(D[m,r] @ E[n,r]); H[m,n] = G * (s*(X[m,k] @ W[n,k]) + D[m,r] @ F[n,r])": r"as one \* ",
    f"{GATE} + D[m,r] @ E[n,r]; H[m,n] = G * (X[m,k] @ W[n,k] + D[m,r] @ F[r,n])": "E and F are operands",
}


test_refused = refusals(REFUSED.items())
