"""Results with another last index than what they are computed of, on every target: bit for bit the reference's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from tests.emulator.pointwise import TARGETS, bit_equal, bits_are_equal, fault_is_found, ran, spoiled
from tests.emulator.running import refusals

PROGRAMS: list[tuple[str, dict[str, int], str]] = [  # sizes, those that are known
    ("Q[k,m] = X[m,k]", {"m": 64, "k": 128}, "mk"),
    ("Q[k,m] = X[m,k]", {"m": 67, "k": 70}, ""),
    ("Q[k,m]:mxfp8 = X[m,k]:f16", {"m": 70, "k": 136}, "k"),
    ("Q[k,m]:f32 = X[m,k]:f32", {"m": 65, "k": 33}, "mk"),
    ("Q[k,m]:e4m3 = X[m,k]", {"m": 21, "k": 80}, "k"),
    ("Q[k,m]:mxfp8 = X[m,k]", {"m": 96, "k": 64}, "mk"),
    ("Q[k,m]:mxfp8 = X[m,k]", {"m": 100, "k": 50}, ""),
    ("Q[k,m]:mxfp8 = X[m,k]:f32", {"m": 70, "k": 64}, "k"),
    ("Q[k,m]:mxfp4 = X[m,k]", {"m": 64, "k": 40}, "m"),
    ("Q[k,m]:nvfp4 = X[m,k]", {"m": 67, "k": 33}, ""),
    ("Q[k,m]:fp8_block = X[m,k]", {"m": 140, "k": 130}, ""),
    ("Q[k,m]:e4m3 scale(128x128) = X[m,k]", {"m": 130, "k": 140}, "k"),
    ("Q[k,m]:e4m3 scale(1x32:ue8m0@blocked) = X[m,k]", {"m": 70, "k": 64}, ""),
    ("Q[k,m]:e4m3 scale(1x32:ue8m0@packed) = X[m,k]", {"m": 170, "k": 64}, "m"),
    ("Q[k,m]:e4m3 scale(1x128@col) = X[m,k]", {"m": 130, "k": 64}, "k"),
    ("Q[m,k]:mxfp8 = X[m,k]; T[k,m]:mxfp8 = X[m,k]", {"m": 64, "k": 96}, "mk"),  # both of one read
    ("Q[m,k]:mxfp8 = X[m,k]; T[k,m]:mxfp8 = X[m,k]", {"m": 75, "k": 99}, ""),
    ("T[k,m]:e4m3 scale(1x128) = X[m,k]; Q[m,k]:e4m3 scale(128x128) = relu(X[m,k])", {"m": 140, "k": 129}, ""),
    ("T[k,m]:nvfp4 = X[m,k]; S[k,m] = X[m,k] * 2; Q[m,k]:nvfp4 = X[m,k]", {"m": 66, "k": 66}, "k"),
    ("Q[b,k,m]:mxfp8 = X[b,m,k]", {"b": 2, "m": 40, "k": 70}, "k"),
    ("Q[k,b,m]:mxfp8 = X[b,m,k]", {"b": 2, "m": 40, "k": 32}, ""),
    ("T[k,m]:mxfp8 = X[m,k]:e4m3 scale(1x128)", {"m": 40, "k": 256}, "k"),  # quantised along the other index
    ("T[k,m]:mxfp8 = X[m,k]; Q[m,k] = X[m,k]", {"m": 0, "k": 64}, ""),
    ("Q[k,m]:mxfp8 = X[m,k]", {"m": 1, "k": 1}, ""),
    ("Q[k,m] = X[m,k]", {"m": 1, "k": 65}, "mk"),
]
SKIPPED: list[tuple[str, dict[str, int], str]] = [  # of rows that an index names, or that a range has
    ("Q[k,m] = X[idx[m],k] + 1", {"m": 67, "k": 70, "X_0": 9}, ""),
    ("Q[k,m]:mxfp8 = X[idx[m],k]", {"m": 96, "k": 64, "X_0": 9}, "mk"),
    (
        "Q[m,k]:e4m3 scale(1x128) = X[idx[m],k] * w[slot[m]]; T[k,m]:e4m3 scale(1x128) = X[idx[m],k] * w[slot[m]]",
        {"m": 140, "k": 129, "X_0": 7, "w_0": 30},
        "",
    ),
    ("Q[k,m]:e4m3 scale(1x128) = X[idx[m],k]:mxfp8", {"m": 144, "k": 128, "X_0": 40}, "k"),
    ("Q[k,m]:f32 = X[m,k] + 1 for m < rows[0]", {"m": 67, "k": 70}, "mk"),
    ("Q[b,k,m]:mxfp8 = X[b,m,k] + 1 for m < rows[b]", {"b": 2, "m": 67, "k": 70}, ""),
    ("Q[k,m]:e4m3 scale(1x32:ue8m0@col) = X[idx[m],k]:f32", {"m": 170, "k": 64, "X_0": 5}, "m"),
    ("Q[k,m]:fp8_block = X[m,k] for m in lo[0]:hi[0]", {"m": 300, "k": 64}, ""),
    ("Q[k,m]:mxfp8 = X[idx[m],k]", {"m": 1, "k": 1, "X_0": 3}, ""),
    ("Q[k,m]:mxfp8 = X[idx[m],k]", {"m": 40, "k": 0, "X_0": 3}, ""),
]
COMPUTED: list[tuple[str, dict[str, int], str]] = [  # of several tensors
    ("Q[k,m]:mxfp8 = relu(X[m,k]) * r[m] + w[k]", {"m": 70, "k": 96}, "k"),
    ("Q[k,m]:f32 = X[m,k] * w[k/4]", {"m": 33, "k": 36}, ""),
    ("Q[k,m]:f32 = sum[j](w[j] * X[j,m,k])", {"j": 3, "m": 33, "k": 36}, "j"),
    ("T[b,k,m]:mxfp8 = X[b,m,k] * r[b,m] * w[b,k]", {"b": 2, "m": 33, "k": 40}, "k"),  # r has m last, as the result has
    ("T[b,k,m]:mxfp4 = hadamard(X[b,m,k] * r[b,m/4], 16)", {"b": 2, "m": 34, "k": 40}, ""),
]


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed"), PROGRAMS)
def test_turned(source: str, dims: dict[str, int], fixed: str, target: str) -> None:
    bit_equal(source, dims, fixed, target, change=spoiled if all(dims.values()) and "X_scale" not in source else quiet)


def some(values: dict[str, Any]) -> None:
    """Rows of which some are left out: single ones, and all of a block of 32."""
    if "idx" in values:
        values["idx"] = values["idx"].copy()
        values["idx"][::5] = -1
        values["idx"][32:64] = -1
    for name, at in (("lo", 131), ("hi", 270)):
        if name in values:
            values[name][...] = at


def small(values: dict[str, Any]) -> None:
    """Small integers, of which all sums are exact."""
    for name, x in values.items():
        values[name] = (abs(x) * 4 % 3).round().astype(x.dtype)


test_computed = bits_are_equal(COMPUTED, change=small)


test_rows_that_are_left_out = bits_are_equal(SKIPPED, change=some)


def test_a_row_that_is_stored_all_the_same_is_found() -> None:
    source, dims, fixed = SKIPPED[0]
    fault_is_found(source, dims, fixed, r"(selp\.b32\s+\S+) 1, 0,", r"\g<1> 1, 1,", change=some)


@pytest.mark.parametrize(
    "source",
    ["Q[m,k]:mxfp8 = {}", "Q[k,m]:mxfp8 = {}", "Q[m,k]:mxfp8 = hadamard({}, 16); T[k,m]:mxfp8 = hadamard({}, 16)"],
)
def test_what_is_not_there_does_not_count(source: str) -> None:
    """Of the zeros that loads leave there the largest results are made."""

    def nearly(values: dict[str, Any]) -> None:
        values["X"][...] = values["X"] % 1 - 9

    bit_equal(source.replace("{}", "X[m,k]:f32 + 9"), {"m": 37, "k": 43}, "", "sm_90a", change=nearly)


def test_square_blocks_are_the_same_bytes_in_both_orders() -> None:
    """What weights are given as where a gradient reads them turned: nothing is rounded twice."""
    source = "W[n,k]:e4m3 scale(128x128) = w[n,k]; W_n[k,n]:e4m3 scale(128x128) = w[n,k]"
    made, *_ = ran(source, {"n": 200, "k": 136}, "", "sm_90a")
    for name in ("W", "W_scale"):
        turned = made[name.replace("W", "W_n")]
        assert np.ascontiguousarray(made[name].T).tobytes() == np.ascontiguousarray(turned).tobytes()


def test_l2_keeps_sectors_that_several_tiles_have_scales_of() -> None:
    """Of both orders; a tile of rows alone has whole sectors."""
    for source, kept in (("Q[m,k]:mxfp8 = X[m,k]; T[k,m]:mxfp8 = X[m,k]", True), ("Q[m,k]:mxfp8 = X[m,k]", False)):
        ptx = scalec.compile(source, target="sm_90a", dims={"k": 4096}).ptx
        assert ("L2::evict_last" in ptx, "st.global.L2::cache_hint.b8" in ptx) == (kept, kept)


def quiet(_: dict[str, Any]) -> None:
    """Leaves what was made up."""


@pytest.mark.parametrize("element", ["bf16", "f32"])
@pytest.mark.parametrize("result", ["mxfp8", "e4m3 scale(1x128)"])
def test_no_two_lanes_meet_in_a_bank(result: str, element: str) -> None:
    stats = bit_equal(f"Q[k,m]:{result} = X[m,k]:{element}", {"m": 128, "k": 128}, "mk", "sm_90a")
    words = 128 * 128 * (2 if element == "bf16" else 4) // 4  # elements of 16 bits as they are, others in f32
    assert stats.counts["shared wavefronts"] >= 2 * words // 32
    assert not stats.counts.get("bank conflicts")


IN_SHARED = [  # what goes through shared memory on its way; sizes of a tile and more, and those that are known
    ("Q[k,m] = X[m,k]", {"m": 128, "k": 128}, "mk"),
    ("Q[k,m]:f32 = X[m,k]:f32", {"m": 128, "k": 128}, "k"),
    ("Q[k,m]:mxfp8 = X[m,k]", {"m": 256, "k": 128}, "k"),
    ("Q[k,m]:mxfp6_e2m3 = X[m,k]", {"m": 128, "k": 128}, "mk"),
    ("Q[k,m]:mxfp4 = X[m,k]", {"m": 128, "k": 128}, "mk"),
    ("Q[k,m]:e4m3 scale(1x128) = X[m,k]", {"m": 256, "k": 128}, "k"),
    ("Q[k,m]:e4m3 scale(1x128) = X[m,k]:e4m3 scale(1x128)", {"m": 128, "k": 128}, "mk"),
    ("Q[k,m]:e4m3 scale(1x128) = X[idx[m],k] * w[m]", {"m": 128, "k": 128}, "mk"),
    ("Q[m,k]:mxfp8 = X[m,k]; T[k,m]:mxfp8 = X[m,k]", {"m": 128, "k": 128}, "mk"),
    ("Q[m,k]:e4m3 scale(1x128) = X[m,k]; T[k,m]:e4m3 scale(1x128) = X[m,k]", {"m": 128, "k": 128}, "k"),
    ("Q[m,k]:e4m3 scale(128x128) = X[m,k]", {"m": 128, "k": 256}, "k"),
    ("S[m] = sum[k](X[m,k]^2); Y[m,k]:mxfp8 = X[m,k] / sqrt(S + 1)", {"m": 4, "k": 2048}, "k"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed"), IN_SHARED)
def test_no_access_takes_longer_than_its_bytes(source: str, dims: dict[str, int], fixed: str, target: str) -> None:
    _, _, _, stats = ran(source, dims, fixed, target, change=quiet)
    assert stats.counts["shared wavefronts"]
    assert not stats.counts.get("bank conflicts")


test_refused = refusals(
    [
        ("Q[k,m] = X[m,k] * w[idx[k]]", "another last index than what it is computed of, and an index from memory for"),
        ("Q[idx[k],m] = X[m,k]", "another last index than what it is computed of, and an index from memory for each k"),
        ("Q[k,m]:e4m3 scale(1x256) = X[m,k]", "in such blocks"),
        ("Q[k,m]:e4m3 scale(1x24) = X[m,k]", "in such blocks"),
        ("Q[k,b,m] = X[b,m,k]; T[m,k,b] = X[b,m,k]", "expected: the same, k or m last"),
        ("Q[k,m] = X[m,k] + Y[k,m]", "has another one last"),
    ]
)
