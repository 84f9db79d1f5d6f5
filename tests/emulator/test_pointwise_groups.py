"""Programs without a contraction over rows that groups share out by offsets: what is read by a row's group, and scales
that each group has from where it begins, as the next product of these groups reads them."""

from __future__ import annotations

from functools import partial

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
    "batches": f"Q[b,m,k]:{MX} = X[b,m,k] {RANGE} apart",
    "dequantised": f"Y[m,k]:f32 = X[m,k]:e4m3 scale(128x32) {RANGE} apart",
}
"""Programs whose bits are known: no function rounds."""

CLOSE = {
    "a norm": f"R[m] = sum[k](X[m,k]^2) {RANGE} apart; Q[m,k]:{MX} = X[m,k] * w[g,k] / sqrt(R/96 + e) {RANGE} apart",
    "gated": f"C[m,k] = silu(G[m,k]) * U[m,k] {RANGE}",
    "one a row": f"S[m]:f32 = w[g] * max[k](abs(X[m,k])) {RANGE}",
    "a sum": f"Y[m,k] = sum[j](w[m,j] * X[m,j,k]) {RANGE}",
}
USUAL = {"quantised anew", "by group"}


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
    if "X[m,k]:e4m3" in source:  # `ran` has no tiles of scales without elements
        m, k, g = max(m, 1), max(k, 32), max(g, 1)
    extents = {"b": 2, "j": 3, "X_0": 40, "Q_0": m + 9}
    read = {"b": "[b,m", "j": "[j]", "X_0": "X[idx", "Q_0": "Q[idx"}
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


@pytest.mark.once
@pytest.mark.parametrize("offsets", [[9, 3, 70, 20], [-9, 400, -1, 2**31 - 1], [-(2**31), 7, 9, 9]])
def test_offsets_out_of_order_write_nothing_else(offsets: list[int]) -> None:
    source, dims = f"Q[m,k]:{MX} = X[m,k] * w[g] {RANGE} apart", {"m": 70, "k": 40, "g": 3}
    with context.context():
        values = dict(reference.make(build(source, {}), dims, seed=1)) | {"off": np.array(offsets, np.int32)}
    for x in launched(source, "sm_90a", dims, values, "k").values():
        assert guards_kept(x), x.spec.name
