"""Programs without a contraction over rows that groups share out by offsets: what is read by a row's group, and scales
that each group has from where it begins, as the next product of these groups reads them."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.errors import UnsupportedError
from scalec.frontend import build
from scalec.ir import context
from tests.emulator.pointwise import Values, bit_equal
from tests.emulator.test_groups_apart_results import MX, NV, guards_kept, launched
from tests.emulator.test_several_results import TARGETS
from tests.emulator.test_several_results import run as right
from tests.tiers import SEEDS

RANGE = "for m in off[g]:off[g+1]"

EXACT = {
    "quantised": f"Q[m,k]:{MX} = X[m,k] {RANGE} apart",
    "nvfp4, gathered": f"Q[m,k]:{NV} = X[idx[m],k] {RANGE} apart",
    "two": f"Q[m,k]:{MX} = X[m,k] {RANGE} apart; P[m,k]:mxfp8 = X[m,k] {RANGE} apart",
    "quantised anew": f"Q[m,k]:{NV} = X[m,k]:{MX} {RANGE} apart",
    "by group": f"Q[m,k] = X[m,k] * w[g] + b[g,k] {RANGE}",
    "turned": f"T[k,m]:e4m3 scale(1x32:ue8m0) = X[m,k] * w[g] {RANGE}",
    "scattered": f"Q[idx[m],k]:mxfp8 = X[m,k] * w[g] {RANGE}",
    "columns": f"Q[m,k]:e4m3 scale(32x1) = X[m,k] * w[g] {RANGE}",
    "columns apart": f"Q[m,k]:e4m3 scale(32x1@col) = X[m,k] * w[g] {RANGE} apart",
    "gathered columns": f"Q[m,k]:e4m3 scale(128x1) = X[idx[m],k] {RANGE}",
    "gathered columns apart": f"Q[m,k]:e4m3 scale(128x1) = X[idx[m],k] {RANGE} apart",
    "squares": f"Q[m,k]:e4m3 scale(32x32) = X[m,k] + 1 {RANGE}",
    "squares apart": f"Q[m,k]:e4m3 scale(128x128) = X[m,k] + 1 {RANGE} apart;"
    f" P[m,k]:e4m3 scale(32x16) = X[m,k] {RANGE} apart",
    "columns in batches": f"Q[b,m,k]:e5m2 scale(1x64x1:ue8m0) = X[b,m,k] {RANGE} apart",
    "words of columns": f"Q[m,k]:e4m3 scale(32x1:ue8m0@packed) = X[m,k] {RANGE} apart",
    "tiles of columns": f"Q[m,k]:e4m3 scale(32x1:ue8m0@blocked) = X[m,k] {RANGE} apart",
    "turned, apart": f"T[k,m]:mxfp8 = X[m,k] * w[g] {RANGE} apart",
    "turned words": f"T[k,m]:e4m3 scale(1x64:ue8m0@packed) = X[m,k] {RANGE} apart",
    "both, tiles": f"Q[m,k]:{MX} = X[m,k] {RANGE} apart; T[k,m]:{MX} = X[m,k] {RANGE} apart",
    "both, squares": f"Q[m,k]:e4m3 scale(128x128) = X[m,k] + 1 {RANGE} apart;"
    f" T[k,m]:e5m2 scale(128x128) = X[m,k] + 1 {RANGE} apart",
    "gathered, both": f"Q[m,k]:e4m3 scale(32x1) = X[idx[m],k] {RANGE} apart;"
    f" T[k,m]:e4m3 scale(32x32) = X[idx[m],k] {RANGE} apart; U[k,m] = X[idx[m],k] {RANGE} apart",
    "turned batches": f"T[b,k,m]:e4m3 scale(1x1x128@col) = X[b,m,k] * w[b,g] {RANGE} apart",
    "a matrix for each group": f"Q[g,m,k]:{MX} = X[m,k] {RANGE} apart",
    "batches": f"Q[b,m,k]:{MX} = X[b,m,k] {RANGE} apart",
    "two ranges": f"Q[b,m,k]:{MX} = X[b,m,k] * w[g] * u[h] {RANGE} apart for b in cut[h]:cut[h+1]",
    "columns of two ranges": f"Q[b,m,k]:e4m3 scale(1x32x1) = X[b,m,k] * w[g] {RANGE} apart for b in cut[h]:cut[h+1]",
    "dequantised": f"Y[m,k]:f32 = X[m,k]:e4m3 scale(128x32) {RANGE} apart",
}
"""Programs whose bits are known: no function rounds."""

CLOSE = {
    "a norm": f"R[m] = sum[k](X[m,k]^2) {RANGE} apart; Q[m,k]:{MX} = X[m,k] * w[g,k] / sqrt(R/96 + e) {RANGE} apart",
    "gated": f"C[m,k] = silu(G[m,k]) * U[m,k] {RANGE}",
    "one a row": f"S[m]:f32 = w[g] * max[k](abs(X[m,k])) {RANGE}",
    "a sum": f"Y[m,k] = sum[j](w[m,j] * X[m,j,k]) {RANGE}",
}
USUAL = {"quantised anew", "by group", "columns apart"}


def sizes(source: str, seed: int) -> dict[str, int]:
    """Empty groups, one group, hundreds, none; whole vectors of columns and not; sizes of 0 and 1."""
    m, k, g = (
        (300, 96, 5),
        (1, 40, 1),
        (140, 33, 300),
        (0, 64, 3),
        (129, 128, 2),
        (33, 0, 4),
        (70, 1, 33),
        (64, 16, 0),
    )[seed]
    if "Q[m,k]:e2m1" in source or "X[m,k]:e4m3" in source:
        k = -(-k // 32) * 32
    if any(x in source for x in ("T[", "scale(32x", "scale(128x", "scale(1x64x1", "cut[", "Q[g")):
        g = min(g, 20)  # a tile for each
    if "X[m,k]:e4m3" in source:  # `ran` has no tiles of scales without elements
        m, k, g = max(m, 1), max(k, 32), max(g, 1)
    extents = {"b": 2, "h": 2, "j": 3, "X_0": 40, "Q_0": m + 9}
    read = {"b": "[b,m", "h": "cut[h", "j": "[j]", "X_0": "X[idx", "Q_0": "Q[idx"}
    return {"m": m, "k": k, "g": g} | {d: n for d, n in extents.items() if read[d] in source}


def with_offsets(seed: int, dims: dict[str, int], values: Values) -> None:
    """Groups of which some are empty, and of whose rows the last are nobody's; the first begins later on."""
    cuts = np.sort(np.random.default_rng(seed).integers(0, dims["m"] + 1, dims["g"] + 1))
    if dims["g"] > 2:
        cuts[2] = cuts[1]
    values["off"] = cuts.astype(np.int32)


@pytest.mark.once(touches=lambda name, **_: {name} & USUAL)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("target", TARGETS)
def test_bits(target: str, name: str, seed: int) -> None:
    dims = sizes(EXACT[name], seed)
    bit_equal(EXACT[name], dims, ("k", "", "mg", "kg")[seed % 4], target, change=partial(with_offsets, seed, dims))


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CLOSE)
@pytest.mark.parametrize("target", TARGETS)
def test_close(target: str, name: str, seed: int) -> None:
    right(CLOSE[name], target, sizes(CLOSE[name], seed), ("k", "")[seed % 2], seed)


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
def test_blocks_whose_first_rows_are_left_out(target: str) -> None:
    source, dims = "Q[b,m,k]:e4m3 scale(1x32x1) = X[b,m,k] for m in lo[b]:hi[b]", {"b": 3, "m": 70, "k": 24}
    ends = {"lo": np.array([5, 9, 33], np.int32), "hi": np.array([70, 9, 40], np.int32)}
    bit_equal(source, dims, "k", target, change=lambda values: values.update(ends))


def test_offsets_that_begin_further_on() -> None:
    """The first group's is another element than the first."""
    source, dims = "Q[m,k] = X[m,k] * w[g] for m in off[g+2]:off[g+3]", {"m": 60, "k": 40, "g": 3}
    offsets = np.array([2, 5, 9, 9, 30, 51], np.int32)
    bit_equal(source, dims, "k", "sm_90a", change=lambda values: values.update(off=offsets))


@pytest.mark.parametrize(
    "source", ["Q[m,g] = X[m,g] for m in off[g]:off[g+1]", "Q[m,k] = X[m,k] * w[g] for m in off[g%3]:off[(g+1)%3]"]
)
def test_what_no_search_finds_is_refused(source: str) -> None:
    """Groups that are columns, and those whose offsets do not lie side by side."""
    with pytest.raises(UnsupportedError, match="a range of m for each g"):
        scalec.compile(source, target="sm_90a")


def test_two_ranges_of_one_group() -> None:
    """Each would find a group of its own: refused, unless the result tells groups apart, which is right."""
    source, dims = "Q[{}b,m,k] = X[b,m,k] for m in off[g]:off[g+1] for b in cut[g]:cut[g+1]", {"b": 4, "m": 40, "k": 8}
    with pytest.raises(UnsupportedError, match="ranges of m and b for each g, which no result has") as found:
        scalec.compile(source.format(""), target="sm_90a")
    assert found.value.fix.startswith("write g into the result")
    ends = {"off": np.array([0, 10, 20, 40], np.int32), "cut": np.array([0, 2, 3, 4], np.int32)}
    bit_equal(source.format("g,"), dims | {"g": 3}, "k", "sm_90a", change=lambda values: values.update(ends))


@pytest.mark.once
@pytest.mark.parametrize("offsets", [[9, 3, 70, 20], [-9, 400, -1, 2**31 - 1], [-(2**31), 7, 9, 9]])
def test_offsets_out_of_order_write_nothing_else(offsets: list[int]) -> None:
    source, dims = f"Q[m,k]:{MX} = X[m,k] * w[g] {RANGE} apart", {"m": 70, "k": 40, "g": 3}
    with context.context():
        values = dict(reference.make(build(source, {}), dims, seed=1)) | {"off": np.array(offsets, np.int32)}
    for x in launched(source, "sm_90a", dims, values, "k").values():
        assert guards_kept(x), x.spec.name


def test_products_along_k_read_blocks_of_their_groups() -> None:
    """As they are written: both kernels have the bits of the reference."""
    rng, off = np.random.default_rng(2), np.array([3, 20, 20, 61], np.int32)
    x = (rng.standard_normal((70, 8)) * 4.0 ** rng.integers(-9, 9, (70, 1))).astype(np.float32)
    x[61:] = x[:3] = np.nan  # nobody's
    with context.context():
        program = "Q[k,m]:e4m3 scale(32x1) = X[k,m]:f32 for k in off[g]:off[g+1] apart"
        q = reference.run(build(program), {"X": x, "off": off}, dims={"k": 70, "m": 8, "g": 3})
        program = "C[g,m,n]:f32 = A[k,m] @ B[k,n] scale(32x1, 32x1) for k in off[g]:off[g+1] apart"
        operands = {"A": q["Q"], "A_scale": q["Q_scale"], "B": q["Q"], "B_scale": q["Q_scale"], "off": off}
        got = reference.run(build(program), operands, dims={"k": 70, "m": 8, "n": 8, "g": 3})["C"]
    for g, (low, high) in enumerate(pairwise(off)):
        wanted = x[low:high].T.astype(np.float64) @ x[low:high]
        assert np.abs(got[g] - wanted).max() <= 0.1 * np.abs(wanted).max(initial=0)
