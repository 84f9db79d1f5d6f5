"""Groups of rows that are apart: each has blocks of scales of its own, wherever it begins. What pads them is NaN."""

from __future__ import annotations

import re

import numpy as np
import pytest

import scalec
from scalec import layouts, reference
from scalec.errors import SourceError
from scalec.frontend import build
from scalec.ir import context
from tests.emulator.test_range_of_k import run

MX = "C[m,n]:f32 = A[m,k] @ B[g,n,k] scale(1x32:ue8m0@blocked,1x1x32:ue8m0@blocked)"
FP4 = "C[m,n]:f32 = A[m,k]:e2m1 @ B[g,n,k]:e2m1 scale(1x16:ue4m3@blocked,1x1x16:ue4m3)"
ROWS = "C[m,n]:f32 = A[m,k] @ B[g,n,k] scale(128x128,1x128x128)"
RANGE = " for m in off[g]:off[g+1] apart"

CASES = [
    ("sm_100a", MX, ""),
    ("sm_100a", MX, "scale_path=thread"),
    ("sm_100a", FP4, "swap=1"),
    ("sm_100a", MX, "swap=1, tile=128x64x128"),
    ("sm_100a", MX, "cta_group=2"),
    ("sm_120a", MX, ""),
    ("sm_120a", FP4, "swap=1"),
    ("sm_90a", ROWS, ""),
    ("sm_90a", ROWS, "swap=1"),
    ("sm_90a", ROWS, "swap=1, tile=64x48x128, mma_n=24"),
]
OFFSETS = (0, 40, 40, 41, 210, 210, 290)
"""Of six groups: two empty, one of one row, one that begins within a block and ends in the next; ten rows nobody's."""


@pytest.mark.once("target", touches=lambda source, settings, **_: {settings} & {""})
@pytest.mark.parametrize(("target", "source", "settings"), CASES)
def test_rows(target: str, source: str, settings: str) -> None:
    offsets, text = np.array(OFFSETS, np.int32), source + RANGE
    dims = {"m": 300, "k": 256, "n": 48, "g": len(OFFSETS) - 1}
    with context.context():
        program = build(text, dims)
        values = dict(reference.make(program, dims, seed=3)) | {"off": offsets}
        if source != ROWS:
            raw = layouts.blocked_by_group(np.where(np.arange(300) < 290, 1, 0).astype(np.uint8)[:, None], offsets)
            needed = reference.from_blocked(raw, raw.shape[0], 1) > 0
            shape = (raw.shape[0], dims["k"] // (16 if source == FP4 else 32))
            logical = reference.from_blocked(values["A_scale"], *shape)
            nan = np.array(np.nan, logical.dtype)
            values["A_scale"] = reference.to_blocked(np.where(needed, logical, nan))
        wanted = reference.run(program, values, dims=dims, exact=True)["C"]
    kernel = scalec.compile(text + f" with {settings}" * bool(settings), target=target, dims={"n": 48, "k": 256})
    got = run(kernel, target, values, dims, 1)
    assert reference.diff(got[:290], wanted[:290]) < 1e-5, kernel.spec.schedule
    assert np.isnan(got[290:]).all()


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_layout(kind: str) -> None:
    """Each group's tiles are those of `to_blocked` of its rows alone."""
    rng = np.random.default_rng(1)
    scales, offsets = rng.integers(1, 255, (300, 6), np.uint8), np.array(OFFSETS, np.int32)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        made = layouts.blocked_by_group(torch.from_numpy(scales), torch.from_numpy(offsets)).numpy()
    else:
        made = layouts.blocked_by_group(scales, offsets)
    assert made.shape == (128 * (3 + 6), 8)
    for g in range(6):
        own = reference.to_blocked(scales[OFFSETS[g] : OFFSETS[g + 1]])
        first = 128 * (OFFSETS[g] // 128 + g)
        assert (made[first : first + len(own)] == own).all()


def test_what_cannot_be() -> None:
    for text, why in (
        ("C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:end[g] apart", "does not tell where each begins"),
        ("C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1] apart apart", "the range of m has apart too"),
    ):
        with pytest.raises(SourceError, match=re.escape(why)):
            scalec.compile(text, target="sm_100a")
