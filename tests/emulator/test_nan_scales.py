"""A scale that is NaN makes NaN of all that is computed of its block, and of nothing else: gated layers, logits of
windows and pages, and reductions of results, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.guarded import FILLS, between_guards
from scalec.checking.launch import made_up, values_of
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from tests.emulator.running import TARGETS

GATE = "G[m,n] = X[m,k] @ {0}; U[m,n] = X[m,k] @ {1}; H[m,n]:f32 = silu(G) * U"
RANGE = "for m in off[g]:off[g+1]"
LOGITS = "L[q,t]:f32 = sum[h](relu(Q[q,h,d]:{0} @ K[t,d]:{0}{1}) * W[q,h]:f32) for t in lo[q]:hi[q] else -inf"
PAGES = "L[s,t]:f32 = sum[h](relu(Q[s,h,d]:{0} @ K[table[s,t/64],t%64,d]:{0}{1}) * W[s,h]:f32) for t < len[s] else -inf"
OF_PAGES = {"s": 3, "h": 64, "t": 256, "d": 128, "K_0": 6}

PROGRAMS = {
    "gated": (
        GATE.format("V[n,k] scale(1x128,1x128)", "W[n,k] scale(1x128,1x128)"), "W_scale", {"m": 40, "n": 128, "k": 256},
    ),
    "interleaved": (
        GATE.format("W[2*n,k] scale(1x128,128x128)", "W[2*n+1,k] scale(1x128,128x128)"), "X_scale",
        {"m": 40, "n": 128, "k": 256},
    ),
    "groups": (
        f"T[m,n] = A[m,k] @ B[g,n,k] scale(1x128,1x1x128) {RANGE}; C[m,n]:f32 = T; R[g,n]:f32 = max[m](abs(T)) {RANGE};"
        " S[m]:f32 = sum[n](T*T)", "B_scale", {"m": 80, "n": 72, "k": 256, "g": 3},
    ),
    "rows": (
        "T[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128); C[m,n]:f32 = T; R[m]:f32 = min[n](T); S[n]:f32 = max[m](T)",
        "A_scale", {"m": 140, "n": 72, "k": 256},
    ),
    "logits": (LOGITS.format("e4m3", " scale(none,1xd)"), "K_scale", {"q": 4, "h": 32, "t": 130, "d": 64}),
    "logits of MXFP4": (LOGITS.format("mxfp4", ""), "K_scale", {"q": 4, "h": 32, "t": 130, "d": 128}),
    "pages": (PAGES.format("e4m3", " scale(none,1x1xd)"), "K_scale", OF_PAGES),
    "pages of MXFP4": (PAGES.format("mxfp4", ""), "K_scale", OF_PAGES),
}  # fmt: skip


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", TARGETS)
def test_what_is_computed_of_it_alone(target: str, name: str) -> None:
    source, scales, dims = PROGRAMS[name]
    values, _ = made_up(source, dims, 7)
    spoilt = values[scales].copy()
    if spoilt.dtype == np.float32:
        spoilt.reshape(-1)[3::29] = np.nan
    else:
        spoilt.reshape(-1).view(np.uint8)[3::29] = 255
    kernel = scalec.compile(source, target=target, dims={x: n for x, n in dims.items() if x in "nkhd"})
    kernel.fixed = emulated.EmulatedDevice(target)
    found, seen = [], 0
    for own in (values, {**values, scales: spoilt}):
        with context.context(), np.errstate(all="ignore"):
            expected: Any = reference.run(build(source, dims), own, dims=dims, exact=True)
        given, outs = between_guards(kernel.fixed, kernel.spec, own, dims, FILLS[1])
        kernel(*given, out=outs[0] if len(outs) == 1 else tuple(outs))
        found.append({x.spec.name: np.asarray(values_of(x.spec, x), np.float32) for x in outs})
    for result, (right, other) in {x: tuple(y[x] for y in found) for x in found[0]}.items():
        written = expected.written[result]
        wanted = np.isnan(np.asarray(expected[result], np.float64)) & written
        seen += wanted.sum()
        assert np.array_equal(np.isnan(other) & written, wanted), result
        left = ~wanted & written
        assert np.array_equal(other[left], right[left]), result
    assert seen, "no result has one"
