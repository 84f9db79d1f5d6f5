"""Tensors with scales in programs without a contraction: dequantised, quantised anew, their scales laid out anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scalec.reference.packing import from_layout
from scalec.reference.quantize import quantize
from tests.emulator.pointwise import TARGETS, bit_equal, bits_are_equal, fault_is_found, ran
from tests.emulator.quantised import codes, parsed, same
from tests.emulator.running import refusals

EXACT = [  # products with scales of bytes are numbers of f32
    ("Y[m,k] = X[m,k]:mxfp8", {"m": 5, "k": 96}, "k"),
    ("Y[m,k]:f32 = X[m,k]:mxfp8", {"m": 5, "k": 99}, ""),
    ("Y[m,k]:f32 = X[m,k]:mxfp8_e5m2 * 2 + Z[m,k]", {"m": 5, "k": 100}, ""),
    ("Y[m,k]:f32 = X[m,k]:mxfp4", {"m": 5, "k": 96}, "k"),
    ("Y[m,k]:f32 = X[m,k]:mxfp4", {"m": 5, "k": 99}, ""),
    ("Y[m,k]:f16 = X[m,k]:e2m1 scale(1x16:ue4m3@blocked)", {"m": 130, "k": 200}, "k"),
    ("Y[m,k]:f32 = X[m,k]:e2m1 scale(1x16:ue4m3)", {"m": 5, "k": 90}, ""),
    ("Y[m,k]:f32 = X[m,k] scale(1x32:ue8m0@packed)", {"m": 5, "k": 100}, ""),
    ("Y[m,k]:f32 = X[m,k] scale(1x32:ue8m0@col)", {"m": 5, "k": 100}, "k"),
    ("Y[m,k]:f32 = X[m,k] scale(2x32:ue8m0)", {"m": 5, "k": 100}, ""),
    ("Y[m,k]:f32 = X[m,k] scale(1xk:ue8m0)", {"m": 5, "k": 100}, ""),
    ("Y[b,m,k]:f32 = X[b,m,k] scale(1x32:ue8m0@blocked)", {"b": 2, "m": 5, "k": 100}, ""),
    ("Y[b,m,k]:f32 = X[b,m,k] scale(1x32:ue8m0@packed)", {"b": 2, "m": 5, "k": 100}, "k"),
    ("Y[m,k] = X[m,k]:e5m2", {"m": 5, "k": 128}, "k"),
    ("Y[m,k] = X[m,k]:e2m1", {"m": 5, "k": 33}, ""),
    ("Y[m,k]:f32 = X[m,k]:i4", {"m": 5, "k": 33}, ""),
    ("Y[m,k] = X[idx[m],k]:i4 scale(1x32:ue8m0)", {"m": 9, "k": 96, "X_0": 5}, "k"),
    ("Y[m,k]:e4m3 scale(1x32:ue8m0@blocked) = X[m,k]:mxfp8", {"m": 5, "k": 160}, "k"),  # another layout
    ("Y[m,k]:nvfp4 = X[m,k]:mxfp8", {"m": 5, "k": 100}, ""),
    ("Y[m,k]:mxfp8 = X[m,k]:e2m1 scale(1x16:ue4m3)", {"m": 5, "k": 96}, "k"),
    ("Y[m,k]:e4m3 scale(128x128) = X[m,k]:mxfp8", {"m": 130, "k": 140}, ""),
    ("Y[m,k]:mxfp4 = X[idx[m],k]:mxfp8", {"m": 9, "k": 96, "X_0": 5}, "k"),
    ("Y[m,k]:f32 = X[idx[m],k] scale(2x32:ue8m0@blocked)", {"m": 9, "k": 96, "X_0": 5}, "k"),
]


test_bits = bits_are_equal(EXACT)


@pytest.mark.once("scales", "target", "result")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("result", ["f32", "mxfp8", "e4m3 scale(1x64)"])
@pytest.mark.parametrize(
    "scales", ["1x128", "1x64:bf16@col", "128x128", "1x16:ue4m3*tensor", "1x32*128x128:f16", "mxk"]
)
def test_numbers_are_multiplied_in_f32(scales: str, result: str, target: str) -> None:
    """The element with the inner scale first, each product rounded."""
    element, dims = "e2m1" if "ue4m3" in scales else "e4m3", {"m": 130, "k": 200}
    source = f"Y[m,k]:{result} = X[m,k]:{element} scale({scales})"
    made, _, values, _ = ran(source, dims, "", target)
    wanted = np.asarray(values["X"], np.float32)
    for name, level in zip(("X_scale", "X_scale2"), scales.split("*"), strict=False):
        rows, columns = {"tensor": (130, 200), "mxk": (130, 200)}.get(level) or map(int, level.split(":")[0].split("x"))
        each = np.asarray(values[name], np.float32)
        wanted = wanted * each.repeat(rows, 0)[:130].repeat(columns, 1)[:, :200]
    if result == "f32":
        same(codes(made["Y"]), codes(wanted), source)
        return
    kind, g, _ = parsed(result)
    quantised = quantize(wanted, kind, [g])
    same(codes(made["Y_scale"]), codes(from_layout(quantised.scales[0], "row", made["Y_scale"].shape, g.type)), source)
    same(codes(made["Y"]), codes(quantised.values), source)


def test_a_fault_is_found() -> None:
    """Scales of the blocks behind."""
    old, new = r"ld\.global\.u8 (\S+), \[(\S+)\]", r"ld.global.u8 \1, [\2+1]"
    fault_is_found("Y[m,k]:f32 = X[m,k]:mxfp8", {"m": 5, "k": 96}, "k", old, new)


PLACES = [  # rows that are gathered, scattered, and left out
    ("Q[idx[m],k]:mxfp8 = X[m,k]", {"m": 9, "k": 96, "Q_0": 20}, "k"),
    ("Q[idx[m],k]:mxfp8 = X[m,k]; R[idx[m],k] = X[m,k] * 2", {"m": 9, "k": 99, "Q_0": 20, "R_0": 20}, ""),
    ("R[idx[m],k] = X[m,k] * 2", {"m": 9, "k": 99, "R_0": 20}, ""),
    ("R[idx[m],k]:e4m3 scale(1xk) = X[m,k]", {"m": 9, "k": 299, "R_0": 20}, ""),
    ("Q[g,m,k]:e4m3 scale(1x32:ue8m0@packed) = X[g,m,k] for m < rows[g]", {"g": 3, "m": 9, "k": 96}, "k"),
    ("Q[g,m,k]:e4m3 scale(1x32:ue8m0@blocked) = X[g,m,k] for m < rows[g]", {"g": 3, "m": 9, "k": 99}, ""),
    ("Q[m,k]:e4m3 scale(1xk) = X[m,k] for m in lo[0]:hi[0]", {"m": 9, "k": 99}, ""),
    ("Q[m,k]:nvfp4 = X[idx[m],k] for m < rows[0]", {"m": 9, "k": 128, "X_0": 5}, "k"),
    (
        "R[m] = max[k](abs(X[m,k])); Y[m,k]:f32 = X[m,k] - R for m < rows[0]; T[m]:f32 = R for m < rows[0]",
        {"m": 9, "k": 99},
        "k",
    ),
]


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("ends", [(0, 4), (-3, 9), (2, -1), (7, 9), (-(2**31), 5)])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed"), PLACES)
def test_rows_that_are_left_out(
    source: str, dims: dict[str, int], fixed: str, target: str, ends: tuple[int, int]
) -> None:
    def change(values: dict[str, Any]) -> None:
        if "idx" in values:
            last = dims.get("X_0", 20) - 1  # the reference sees by the largest index how many rows there are
            values["idx"][:] = [last, 0, -1, 2, -(2**31), 1, 3, -7, 4][: len(values["idx"])]
        for name, end in zip(("lo", "hi"), ends, strict=True):
            if name in values:
                values[name][:] = end
        if "rows" in values:
            values["rows"][:] = [ends[1], 0, ends[0]][: len(values["rows"])]

    bit_equal(source, dims, fixed, target, change=change)


test_refused = refusals(
    [
        ("Y[m,k]:e2m1 = X[m,k] + Z[m,k%32]", "Y of e2m1, of which threads have one element each"),
        ("Y[m,k] = X[m,k/4]:mxfp8", "X has scales along its last index, and is not read along k there"),
        ("Y[m,k]:e4m3 scale(1x24) = X[m,k]:mxfp8", "blocks of 24 and 32 columns"),
        ("Q[m,k] = X[idx[m],k]; R[m,k] = X[m,k]", "of which one is not written where idx.m. names nothing"),
        ("Q[m,k] = X[m,k] * w[g] for m in low[g]:high[g]", "a range of m for each g"),
        ("Q[m,k] = X[m,k] * w[e[g]] for m in off[g]:off[g+1]", "an index from memory for each g"),
        ("T[k,m]:mxfp8 = X[k,m] for m in off[g]:off[g+1] apart", "of what has m last(.|\n)*copy that has another"),
        ("T[g,k,m]:mxfp8 = X[m,k] for m in off[g]:off[g+1] apart", "along its last index, whose groups are apart and"),
        (
            "Q[a,m,k]:e4m3 scale(1x128x1) = X[a,m,k] for m in off[a]:off[a+1] apart for a in cut[g]:cut[g+1]",
            "of several rows, whose groups are apart and",
        ),
        ("Q[m,k]:e4m3 scale(mx32) = X[m,k]", "mx32(.|\n)*give their magnitudes, scale.mx32 of M.k/32.., or"),
        ("Q[m,k]:e4m3 scale(mx32) = X[m,k] for m < rows[0]", "mx32(.|\n)*128x128 or 1xk, or quantise"),
        ("Q[idx[m],k]:e4m3 scale(128x1) = X[m,k]", "which are scattered(.|\n)*fix: gather"),
        ("Y[k,m] = T[k,m]:mxfp8 for m in off[g]:off[g+1] apart", "blocks along an index whose groups are apart"),
        ("S[m]:f32 = sum[k](X[m,k] * w[e[k]])", "reductions over k beside an index from memory for each k"),
        ("Q[m,k] = X[m,k] for m < a[0]; R[m,k] = X[m,k] for m < b[0]", "R with other ranges"),
    ]
)
