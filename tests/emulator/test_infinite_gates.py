"""Scales that are infinite or NaN, of gated layers with quantised results and of logits over windows and pages: the
result, and its quantising, are of sums of blocks that are scaled, in all bits where sums are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec.checking.launch import made_up
from scalec.formats import ELEMENT_TYPES
from scalec.reference.packing import unpack4
from scalec.reference.quantize import quantize, quantize_given
from tests.emulator.quantised import SECOND, codes, launch, parsed
from tests.emulator.running import TARGETS

RESULTS = ("fp8_block", "mxfp8", "nvfp4", "e4m3 scale(1xn)")
DENSE = "D[m,n]:{} = relu(X[m,k] @ V[n,k] scale(1x128,{v})) * (X[m,k] @ W[n,k] scale(1x128,{v}))"
HALVES = "D[m,n]:{} = relu(X[m,k] @ W[n,k] scale(1x128,{v})) * (X[m,k] @ W[n+size(n),k] scale(1x128,{v}))"
GROUPS = (
    "D[m,n]:{} = relu(X[idx[m],k] @ V[g,n,k] scale(1x128,1x{v})) * (X[idx[m],k] @ W[g,n,k] scale(1x128,1x{v}))"
    " for m in off[g]:off[g+1]"
)
PROGRAMS = {
    "rows of X": (DENSE, "X_scale", "128x128"),
    "blocks of V": (DENSE, "V_scale", "128x128"),
    "rows of W": (DENSE, "W_scale", "1x128"),
    "halves of W": (HALVES, "W_scale", "128x128"),
    "of groups, X": (GROUPS, "X_scale", "128x128"),
    "of groups, W": (GROUPS, "W_scale", "1x128"),
}
SIZES = {"m": 40, "n": 128, "k": 256}
MORE = {"g": 3, "X_0": 24}


@pytest.mark.once(touches=lambda name, result, target: {name, result, target})
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", TARGETS)
def test_gated(target: str, name: str, result: str) -> None:
    program, scales, of_v = PROGRAMS[name]
    dims = {**SIZES, **(MORE if program == GROUPS else {})}
    values = exact(made_up(program.format("f32", v=of_v), dims, 4)[0])
    flat = values[scales].reshape(-1)
    flat[np.array([1, 2, 3]) * (flat.size // 4)] = np.inf, -np.inf, np.nan
    if program == GROUPS:
        values |= {"off": np.array([0, 17, 17, 40], np.int32), "idx": np.abs(values["idx"])}  # all rows are written
    with np.errstate(all="ignore"):
        sums = gated(values, program == HALVES, of_v)
        element, g, second = parsed(result)
        wanted = quantize_given(sums, element, g, SECOND) if second else quantize(sums, element, [g])
    assert (~np.isfinite(sums)).any(1).any()
    assert np.isfinite(sums).all(1).any() or scales != "X_scale"
    kernel = scalec.compile(program.format(result, v=of_v), target=target, dims={"n": dims["n"], "k": dims["k"]})
    given = {**values, "D_scale2": np.full((1, 1), SECOND, np.float32)}
    (got, found), _ = launch(kernel, target, given, dims, 5)
    if ELEMENT_TYPES[element].bits < 8:
        got = unpack4(got.view(np.uint8), dims["n"])
    assert np.array_equal(codes(found), codes(wanted.scales[0]))
    assert np.array_equal(codes(got), codes(wanted.values))


def exact(made: Any) -> dict[str, Any]:
    """Arguments whose sums are exact: operands of -1, 0 and 1, and scales that are small powers of two."""
    draw, values = np.random.default_rng(8), dict(made)
    for x, v in made.items():
        if x in ("X", "V", "W"):
            values[x] = draw.integers(-1, 2, v.shape).astype(v.dtype)
        elif x.endswith("_scale"):
            values[x] = np.exp2(draw.integers(-1, 2, v.shape)).astype(np.float32)
    return values


def gated(values: dict[str, Any], halves: bool, of_v: str) -> np.ndarray:
    """The result in f32: sums of 128 of K, times their scales, are added up."""
    x = values["X"].astype(np.float32).reshape(-1, 2, 128)
    x_scale = values["X_scale"]
    if "idx" in values:
        x, x_scale = x[values["idx"]], x_scale[values["idx"]]
    made = []
    for side in "WW" if halves else "VW":
        w, scale = values[side].astype(np.float32), values[f"{side}_scale"]
        scale = scale if of_v == "1x128" else np.repeat(scale, 128, axis=-2)
        if halves:
            half = slice(len(w) // 2) if not made else slice(len(w) // 2, None)
            w, scale = w[half], scale[half]
        if w.ndim == 2:
            w, scale = w[None], scale[None]
            group = np.zeros(len(x), int)
        else:
            group = np.searchsorted(values["off"], np.arange(len(x)), "right") - 1
        blocks = np.einsum("mbk,mnbk->mnb", x, w.reshape(*w.shape[:-1], 2, 128)[group])
        made.append((blocks * (x_scale[:, None] * scale[group])).sum(-1))
    gate, up = made
    return np.where(np.isnan(gate), gate, np.maximum(gate, 0)) * up


PAGE = "L[s,t]:f32 = sum[h](relu(Q[s,h,d]:{0} @ K[table[s,t/{1}],t%{1},d]:e4m3 scale(none,1x1xd)) * W[s,h]:f32)"
LOGITS = "L[q,t]:f32 = sum[h](relu(Q[q,h,d]:{} @ K[t,d]:e4m3 scale(none,1xd)) * W[q,h]:f32)"
WINDOWS = [(0, 130), (5, 5), (70, 71), (129, 130), (0, 0)]
LENGTHS = [0, 1, 63, 64, 130]


@pytest.mark.once("kind", "target")
@pytest.mark.parametrize("page", [0, 64, 20])
@pytest.mark.parametrize("kind", ["e4m3", "bf16"])
@pytest.mark.parametrize("target", TARGETS)
def test_logits(target: str, kind: str, page: int) -> None:
    """Windows of none and of one, contexts of 0 and 1, pages in any order of which one is used twice: a token with an
    infinite scale has what a program says, those beside it the bits that they had."""
    if page:
        program = PAGE.format(kind, page) + " for t < len[s] else -inf"
        dims = {"s": 5, "h": 32, "t": 130, "d": 64, "K_0": 9}
    else:
        program = LOGITS.format(kind) + " for t in lo[q]:hi[q] else -inf"
        dims = {"q": 5, "h": 32, "t": 130, "d": 64}
    values = dict(made_up(program, dims, 9)[0])
    values["K_scale"] = np.abs(values["K_scale"]) + np.float32(0.25)
    if page:
        values["len"] = np.array(LENGTHS, np.int32)
        pages = np.random.default_rng(2).permutation(9)[: -(-130 // page)]
        table = np.stack([np.roll(pages, i) for i in range(5)]).astype(np.int32)
        table[:, 1] = table[:, 0]
        values["table"] = table
    else:
        values["lo"], values["hi"] = (np.array(x, np.int32) for x in zip(*WINDOWS, strict=True))
    spoilt = values["K_scale"].copy()
    at = spoilt.reshape(-1)
    at[::7], at[3::21], at[5::21] = np.inf, -np.inf, np.nan
    kernel = scalec.compile(program, target=target, dims={"h": 32, "d": 64})
    (before,), _ = launch(kernel, target, values, dims, 1)
    (after,), _ = launch(kernel, target, {**values, "K_scale": spoilt}, dims, 2)
    with np.errstate(all="ignore"):
        right, wanted = (logits(values, x, page) for x in (values["K_scale"], spoilt))
    inside = ~np.isneginf(right)
    assert np.allclose(before, right, rtol=1e-3, atol=1e-4 * np.abs(right[inside]).max())
    assert np.allclose(after, wanted, rtol=1e-3, atol=1e-4 * np.abs(right[inside]).max(), equal_nan=True)
    whole = np.isfinite(wanted) | ~inside
    assert np.array_equal(before[whole], after[whole])
    assert (inside & ~np.isfinite(wanted)).any()


def logits(values: dict[str, Any], scales: np.ndarray, page: int) -> np.ndarray:
    """A program's result, of sums of products that are then scaled, term by term in f64."""
    q, k, w = (values[x].astype(np.float64) for x in "QKW")
    if page:
        t = np.arange(130)
        rows = values["table"][:, t // page], np.broadcast_to(t % page, (5, 130))
        k, scale = k[rows], scales[..., 0][rows].astype(np.float64)
        low, high = np.zeros(5, int), values["len"]
    else:
        k, scale = np.broadcast_to(k, (5, *k.shape)), scales.astype(np.float64)[:, 0][None]
        low, high = values["lo"], values["hi"]
    terms = np.maximum(np.einsum("qhd,qtd->qht", q, k) * scale[:, None], 0)
    made = (terms * w[..., None]).sum(1)
    t = np.arange(130)
    return np.where((low[:, None] <= t) & (t < high[:, None]), made, -np.inf)
