"""Rows of an odd number of 4-bit elements, which end in half a byte: written whole."""

from __future__ import annotations

import numpy as np
import pytest

from scalec import reference
from scalec.reference.packing import unpack4
from tests.emulator.quantised import codes, compile_, in_f32, launch, run_quantised, same

TARGETS = ("sm_90a", "sm_100a", "sm_120a")
E4M3 = "D[m,n]{} = A[m,k]:e4m3 @ B[n,k]:e4m3 + bias[n]"

SIZES = [
    ({"m": 4, "n": 3, "k": 128}, ("m", "k"), ""),  # by columns, as rows are known to be few
    ({"m": 5, "n": 35, "k": 128}, ("m", "n", "k"), ""),
    ({"m": 20, "n": 7, "k": 128}, ("k",), ""),
    ({"m": 33, "n": 63, "k": 128}, ("n", "k"), ""),  # rows of whole 16 bytes, which copies store
]
TURNED = ({"m": 33, "n": 63, "k": 128}, ("n", "k"), " with swap=1, tile=64x32x128, epilogue=turned")


@pytest.mark.parametrize(("target", "size"), [*((t, s) for t in TARGETS for s in SIZES), ("sm_90a", TURNED)], ids=str)
def test_results(target: str, size: tuple[dict[str, int], tuple[str, ...], str]) -> None:
    dims, fixed, settings = size
    values, sums = in_f32(E4M3.format(":f32"), "", target, tuple(dims.items()), fixed, 1)
    kernel = compile_(E4M3.format(":e2m1") + settings, target, dims, fixed)
    (got,), _ = launch(kernel, target, values, dims, 1)
    elements = unpack4(got.view(np.uint8), dims["n"])
    same(codes(elements), codes(reference.round_to(sums, "e2m1").astype(elements.dtype)), kernel.spec.schedule)


@pytest.mark.parametrize("size", SIZES[:2], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_quantised_results(target: str, size: tuple[dict[str, int], tuple[str, ...], str]) -> None:
    run_quantised(E4M3, "mxfp4", size[0], size[1], 1, target, times=1)
