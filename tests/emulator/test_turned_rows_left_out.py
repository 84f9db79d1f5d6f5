"""Results with another last index, of rows of which some are left out or that lie in groups, where elements share a
byte, are transformed, rounded by chance, or scaled in blocks of several rows: bit for bit the reference's."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tests.emulator.pointwise import TARGETS, Values, bit_equal, bits_are_equal, fault_is_found
from tests.emulator.running import refusals

GROUPS = "for m in off[g]:off[g+1]"
G = {"k": 70, "g": 3}
A = {"k": 70, "X_0": 9}


def some(values: Values) -> None:
    """Single rows that are left out, both of a byte's, all of a block of 32, and those behind a masked group's end."""
    for name in ("idx", "jdx"):
        if name in values:
            values[name] = values[name].copy()
            values[name][::5] = values[name][32:64] = -1
            values[name][6:8] = -1
    if "off" in values:
        at_multiples(1, values)


def at_multiples(by: int, values: Values) -> None:
    """Groups that begin at these, of no rows, of rows, and up to the end; NaN in all rows of none."""
    m = values["X"].shape[-2] if "idx" not in values else len(values["idx"])
    first = 3 if by == 1 else by
    values["off"] = np.array([first, first, first + 5 * max(by, 8) - (by == 1), m], np.int32)
    if "idx" in values:
        values["idx"] = values["idx"].copy()
        values["idx"][::7] = -1
    else:
        values["X"][..., :first, :] = np.nan


LEFT_OUT: list[tuple[str, dict[str, int], str]] = [
    ("T[k,m]:nvfp4 = X[idx[m],k]", {"m": 97} | A, ""),
    ("T[k,m]:mxfp4 = X[idx[m],k]:f32 * w[m]", {"m": 160} | A, "mk"),
    ("T[k,m]:e2m1 = X[idx[m],k] + 1", {"m": 99} | A, ""),
    ("T[k,m]:mxfp6 = X[idx[m],k]", {"m": 97} | A, ""),
    ("T[k,m]:mxfp6_e2m3 = X[idx[m],k]:f16", {"m": 132} | A, "k"),
    ("T[b,k,m]:nvfp4 = X[b,m,k] for m < rows[b]", {"b": 2, "m": 75, "k": 70}, "k"),
    ("T[k,m]:nvfp4 = X[idx[m],k]; Q[m,k]:nvfp4 = X[idx[m],k]", {"m": 98} | A, ""),
    (f"T[k,m]:nvfp4 = X[m,k] {GROUPS}", {"m": 133} | G, ""),  # two groups in a byte, which one thread has
    ("T[k,m]:e4m3 scale(1x32:ue8m0@packed) = X[idx[m],k]", {"m": 197} | A, ""),
    ("T[k,m]:e4m3 scale(1x32:ue8m0@packed) = X[idx[m],k]", {"m": 64, "k": 40, "X_0": 9}, "m"),  # not the last block
    ("T[k,m]:e4m3 scale(1x32:ue8m0@blocked) = X[idx[m],k] * w[m]", {"m": 132} | A, "k"),
    ("T[k,m]:e2m1 scale(1x16:ue4m3@blocked) = X[jdx[m],k]", {"m": 96, "k": 40, "X_0": 9}, ""),
    ("T[k,m]:mxfp8 = hadamard(X[idx[m],k], 16)", {"m": 97} | A, ""),
    ("T[k,m]:mxfp8 = hadamard(X[idx[m],k] * s[m] + 1, 16)", {"m": 97} | A, ""),
    ("T[k,m]:f32 = hadamard(X[idx[m],k]:f32 + 1, 16)", {"m": 70} | A, "mk"),
    ("T[b,k,m]:e2m1 = hadamard(X[b,m,k] + 1, 16) for m < rows[b]", {"b": 2, "m": 75, "k": 70}, ""),
    ("T[k,m]:nvfp4 = stochastic(hadamard(X[idx[m],k] * s[m], 16), r[0])", {"m": 97} | A, ""),
    ("T[k,m]:e4m3 scale(128x128) = X[idx[m],k]", {"m": 300, "k": 140, "X_0": 9}, ""),
    ("T[k,m]:e4m3 scale(32x32:ue8m0@blocked) = X[idx[m],k] + 1", {"m": 200, "k": 140, "X_0": 9}, ""),
    ("T[k,m]:e4m3 scale(32x1) = X[idx[m],k]", {"m": 67, "k": 140, "X_0": 9}, "k"),
    ("T[k,m]:e4m3 scale(32x1:ue8m0@col) = X[m,k]:f32 for m < rows[0]", {"m": 67, "k": 70}, ""),
    (f"T[k,m]:e4m3 scale(128x128) = X[m,k] {GROUPS}", {"m": 133} | G, ""),
    ("T[k,m]:nvfp4 = X[idx[m],k]", {"m": 1, "k": 1, "X_0": 3}, ""),
    ("T[k,m]:nvfp4 = X[idx[m],k]", {"m": 40, "k": 0, "X_0": 3}, ""),
    ("T[k,m]:nvfp4 = X[idx[m],k]", {"m": 0, "k": 40, "X_0": 3}, ""),
]
APART: list[tuple[str, dict[str, int], str, int]] = [  # and what groups begin at multiples of
    ("T[k,m]:nvfp4 = X[m,k] {}", {"m": 133} | G, "", 2),
    ("T[k,m]:mxfp4 = X[m,k]:f32 {}", {"m": 132} | G, "k", 2),
    ("T[k,m]:e2m1 scale(1x16:ue4m3@blocked) = X[m,k] {}", {"m": 140} | G, "k", 2),
    ("T[k,m]:mxfp6 = X[m,k] {}", {"m": 133} | G, "", 4),
    ("Q[m,k]:nvfp4 = X[m,k] {}; T[k,m]:nvfp4 = X[m,k] {}", {"m": 133} | G, "", 2),
    ("T[k,m]:nvfp4 = X[idx[m],k] * w[g] {}", {"m": 133, "g": 3} | A, "k", 2),
    ("T[k,m]:mxfp8 = stochastic(X[m,k], r[0], r[1]) {}", {"m": 133} | G, "", 1),
    ("T[k,m]:e5m2 scale(1x128) = stochastic(X[m,k]:f32, r[0]) {}", {"m": 261} | G, "k", 1),
    ("T[b,k,m]:e4m3 scale(1x1x32) = stochastic(X[b,m,k], r[0]) {}", {"b": 2, "m": 133} | G, "", 2),
    ("T[k,m]:mxfp8 = hadamard(X[m,k], 16) {}", {"m": 133} | G, "", 16),
    ("T[k,m]:nvfp4 = stochastic(hadamard(X[m,k] * s[m] + 1, 16), r[0]) {}", {"m": 140} | G, "k", 16),
    ("T[k,m]:nvfp4 = stochastic(hadamard(X[idx[m],k] * w[g], 16), r[0]) {}", {"m": 144, "g": 3} | A, "k", 16),
]


test_rows_that_are_left_out = bits_are_equal(LEFT_OUT, change=some)


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed", "by"), APART)
def test_groups_that_are_apart(source: str, dims: dict[str, int], fixed: str, by: int, target: str) -> None:
    said = f"{GROUPS} by {by} apart" if by > 1 else f"{GROUPS} apart"
    bit_equal(source.replace("{}", said), dims, fixed, target, change=partial(at_multiples, by))


@pytest.mark.parametrize("first", [1, 2, 3])
def test_chance_from_anywhere_on(first: int) -> None:
    """Of four columns that a thread has the words begin at each of four places."""

    def change(values: Values) -> None:
        values["off"] = np.array([first, first + 66, 140, 141], np.int32)

    source = f"T[k,m]:e4m3 scale(1x16) = stochastic(X[m,k], r[0]) {GROUPS} apart"
    bit_equal(source, {"m": 150} | G, "k", "sm_90a", change=change)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        pytest.param(
            "T[k,m]:nvfp4 = X[idx[m],k]",
            r"@%p\d+ ld\.global\.u8 (%r\d+), ",
            r"mov.b32 \1, 0; //",
            id="half a byte stays",
        ),
        pytest.param(
            "T[k,m]:mxfp8 = hadamard(X[idx[m],k] + 9, 16)",
            r"(selp\.f32\s+%f?r?\d+, )(%f?r?\d+), 0f00000000",
            r"\g<1>\g<2>, \g<2>",
            id="what is not there is 0",
        ),
    ],
)
def test_faults_are_found(source: str, old: str, new: str) -> None:
    fault_is_found(source, {"m": 97} | A, "", old, new, change=some)


test_refused = refusals(
    [
        (f"T[k,m]:nvfp4 = X[m,k] {GROUPS} apart", "groups may begin anywhere, where 2 elements share a byte"),
        (f"T[k,m]:nvfp4 = X[m,k] {GROUPS} by 3 apart", "for m in ... by 6 apart"),
        (f"T[k,m]:mxfp6 = X[m,k] {GROUPS} by 2 apart", "4 elements share 3 bytes"),
        (f"T[k,m]:mxfp8 = hadamard(X[m,k], 16) {GROUPS} by 8 apart", "for m in ... by 16 apart"),
    ]
)
