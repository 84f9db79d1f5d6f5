"""Results whose blocks are scaled by magnitudes that are given, and those whose magnitudes launches before find: of a
whole tensor, of whole rows in both orders, and what rows are reduced to for both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec.checking.launch import made_up
from scalec.commands.explain import explain_program
from scalec.errors import ArgumentError, SourceError, UnsupportedError
from scalec.launches import launches
from scalec.reference.packing import from_layout
from scalec.runtime.emulated import EmulatedDevice
from scalec.runtime.sequence import Sequence
from tests.emulator.pointwise import TARGETS, bit_equal, bits_are_equal, extreme, ran
from tests.emulator.quantised import changed, codes, same
from tests.emulator.running import launched, refusals

BOTH = "Q[m,k]:e4m3 scale(1xk{}) = X[m,k]:f32; T[k,m]:e4m3 scale(1xm{}) = X[m,k]"

GIVEN = [
    ("Q[m,k]:e4m3 scale(tensor of M[0]) = X[m,k]", {"m": 130, "k": 600}, "k"),
    ("Q[m,k]:e4m3 scale(tensor of M[0]) = X[m,k]", {"m": 1, "k": 1}, ""),
    ("Q[m,k]:e4m3 scale(1xk:ue8m0 of M[m]) = X[m,k]", {"m": 9, "k": 2099}, ""),
    ("Q[m,k]:e5m2 scale(1x32 of M[m,k/32]) = X[m,k]", {"m": 9, "k": 99}, ""),
    ("Q[m,k]:e4m3 scale(mx32 of M[k/32]) = X[m,k]", {"m": 70, "k": 160}, "k"),
    ("Q[m,k]:e4m3 scale(128x32 of M[m/128,k/32]) = X[m,k]", {"m": 170, "k": 160}, "k"),
    ("T[k,m]:e4m3 scale(1xm of M[k]) = X[m,k]", {"m": 170, "k": 99}, ""),
    (BOTH.format(" of M[m]", " of N[k]"), {"m": 170, "k": 136}, "k"),
    ("Q[b,m,k]:e2m1 scale(tensor:ue4m3 of M[0]) = X[b,m,k]", {"b": 2, "m": 9, "k": 99}, ""),
    ("Q[m]:e4m3 scale(m of M[0]) = X[m]", {"m": 700}, ""),
    ("Q[m,k]:e4m3 scale(tensor of M[0]) = stochastic(X[m,k], s[0])", {"m": 9, "k": 99}, ""),
    ("Q[m,k]:nvfp4 = X[m,k]; P[m,k]:e4m3 scale(tensor of M[0]) = X[m,k]", {"m": 9, "k": 96}, "k"),
    ("Q[m,k]:e2m1 scale(1x16:ue4m3 of M[m,k/16]*tensor) = X[m,k]", {"m": 9, "k": 96}, "k"),
    ("Q[m,k]:e4m3 scale(1x32:ue8m0@blocked of M[m,k/32]) = X[m,k]", {"m": 150, "k": 99}, ""),
    ("Q[b,m,k]:e4m3 scale(1x32:ue8m0@packed of M[b,m,k/32]) = X[b,m,k]", {"b": 2, "m": 9, "k": 160}, "k"),
    ("Q[m,k]:e5m2 scale(1x64@col of M[m,k/64]) = X[m,k]", {"m": 9, "k": 300}, "k"),
    ("T[k,m]:e4m3 scale(1x32:ue8m0@blocked of M[k,m/32]) = X[m,k]", {"m": 96, "k": 130}, "mk"),
]


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("number", [None, 0.0, -3.5, np.inf, np.nan, 1e-42])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed"), GIVEN)
def test_given(source: str, dims: dict[str, int], fixed: str, target: str, number: float | None) -> None:
    """Too small, so that values saturate, and too large; and one that is no magnitude."""

    def change(values: dict[str, Any]) -> None:
        if number is not None:
            values["M"].reshape(-1)[0] = number

    bit_equal(source, dims, fixed, target, change=change)


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("layout", "other"), [("row", "blocked"), ("blocked", "packed"), ("packed", "col")])
@pytest.mark.parametrize(
    ("element", "block", "times"), [("e4m3", "1x32:ue8m0", 256), ("e2m1", "1x32:ue8m0", 4), ("e2m1", "1x16:ue4m3", 6)]
)
def test_scales_in_another_layout(element: str, block: str, times: int, layout: str, other: str, target: str) -> None:
    """Elements and scales stay as they are, also those that would not be found again: any scale beside any element."""
    if "ue4m3" in block and "packed" in (layout, other):
        layout, other = "row", "blocked"
    at = block.partition(":")[0].replace("1x", "m,k/")
    source = f"Q[m,k]:{element} scale({block}@{other} of M[{at}]) = X[m,k]:{element} scale({block}@{layout})"
    dims = {"m": 150, "k": 160}

    def change(values: dict[str, Any]) -> None:
        values["M"][...] = numbers(values, layout) * np.float32(times)

    def numbers(values: dict[str, Any], layout: str, name: str = "X_scale") -> Any:
        shape = values["M"].shape
        return np.asarray(from_layout(values[name], layout, shape, block.rpartition(":")[2]), np.float32)

    made, _, values, _ = ran(source, dims, "k", target, change=change)
    same(codes(made["Q"]), codes(values["X"]), source)
    assert np.array_equal(numbers(made | {"M": values["M"]}, other, "Q_scale"), numbers(values, layout))


FOUND = [
    ("Q[m,k]:e4m3 scale(tensor) = X[m,k]", {"m": 130, "k": 600}, "k", 3),
    ("Q[m,k]:e4m3 scale(tensor:ue8m0) = -X[m,k]:f32", {"m": 9, "k": 99}, "", 3),
    ("Q[b,m,k]:e5m2 scale(1xmxk) = X[b,m,k]", {"b": 2, "m": 9, "k": 96}, "k", 3),
    ("Q[m,k]:e4m3 scale(tensor) = X[m,k]; T[k,m]:e4m3 scale(tensor) = X[m,k]", {"m": 70, "k": 99}, "", 5),
    ("Q[m,k]:e4m3 scale(tensor) = stochastic(X[m,k], s[0])", {"m": 9, "k": 96}, "k", 3),
    ("T[k,m]:e4m3 scale(1xm) = X[m,k]", {"m": 170, "k": 99}, "", 2),
    (BOTH.format("", ""), {"m": 170, "k": 136}, "k", 3),
    ("S[0]:f32 = max[m,k](abs(X[m,k]:f16)) # of all\nR[0] = min[k,m](X[m,k])", {"m": 9, "k": 99}, "k", 3),
    ("Q[m,k]:e4m3 scale(tensor) = X[m,k]", {"m": 1, "k": 1}, "", 3),
    # of what has scales, which stand behind all that is cut out
    ("Q[m,k]:e4m3 scale(tensor) = X[m,k]:e4m3 scale(1x32:ue8m0@blocked)", {"m": 9, "k": 99}, "", 3),
    ("T[k,m]:e4m3 scale(1xm) = X[m,k]:e5m2 scale(1x32:ue8m0)", {"m": 70, "k": 64}, "k", 2),
    ("Q[m,k]:e4m3 scale(tensor) = stochastic(X[m,k]:e4m3 scale(1x32:ue8m0@packed), s[0])", {"m": 9, "k": 96}, "", 3),
    ("S[0]:f32 = max[m,k](X[m,k]:e4m3 scale(1x32:ue8m0))", {"m": 9, "k": 99}, "", 2),
    (
        "R[m] = max[k](X[m,k]:e4m3 scale(1x32:ue8m0)); Y[m,k]:mxfp8 = X[m,k] - R; T[k,m]:mxfp8 = X[m,k] - R",
        {"m": 9, "k": 96},
        "k",
        2,
    ),
]


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("special", [None, np.nan, np.inf, -0.0, 0.0])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed", "count"), FOUND)
def test_found(source: str, dims: dict[str, int], fixed: str, count: int, target: str, special: float | None) -> None:
    """One launch behind the other, to the bit what the reference has of the whole: of zeros alone, too."""
    assert len(launches(source, target).texts) == count
    bit_equal(source, dims, fixed, target, change=extreme(special))


LEFT_OUT = [
    ("Q[m,k]:e4m3 scale(1x128 of M[m,k/128]) = X[idx[m],k]", {"m": 37, "k": 300, "X_0": 9}, ""),
    ("Q[m,k]:e4m3 scale(1x32:ue8m0@blocked of M[m,k/32]) = X[idx[m],k]:mxfp8", {"m": 37, "k": 160, "X_0": 9}, "k"),
    ("Q[m,k]:e4m3 scale(1xk of M[m]) = X[m,k] for m in off[g]:off[g+1]", {"m": 37, "k": 100, "g": 3}, ""),
    ("Q[b,m,k]:e4m3 scale(1x32:ue8m0@packed of M[b,m,k/32]) = X[b,m,k] for m < r[b]", {"b": 2, "m": 9, "k": 99}, "k"),
    ("Q[b,m,k]:e4m3 scale(1xk of M[b,m]) = X[b,m,k] for m < r[b]", {"b": 2, "m": 5, "k": 2500}, ""),
    # blocks of all rows, whose first ones are left out, too
    ("Q[m,k]:e4m3 scale(tensor of M[0]) = X[idx[m],k]", {"m": 37, "k": 300, "X_0": 9}, ""),
    ("Q[m,k]:e4m3 scale(mx1 of M[k]) = X[idx[m],k]", {"m": 37, "k": 100, "X_0": 9}, ""),
    ("Q[m,k]:e4m3 scale(mx32 of M[k/32]) = X[m,k] for m in off[g]:off[g+1]", {"m": 37, "k": 96, "g": 3}, "k"),
    ("T[k,m]:e4m3 scale(1xm of M[k]) = X[idx[m],k]", {"m": 70, "k": 99, "X_0": 9}, ""),
    ("Q[b,m,k]:e4m3 scale(tensor:ue8m0 of M[0]) = X[b,m,k] for m < r[b]", {"b": 2, "m": 9, "k": 99}, "k"),
    ("Q[b,m,k]:e4m3 scale(1xmxk of M[b]) = X[b,m,k] for m < r[b]", {"b": 2, "m": 9, "k": 96}, "k"),
]


def some(values: dict[str, Any]) -> None:
    if "idx" in values:
        values["idx"] = values["idx"].copy()
        values["idx"][::5] = -1  # the first one, too
    for name, x in (("off", [2, 2, 20, 30]), ("r", [3, 5]), ("end", [7])):
        if name in values:
            values[name] = np.array(x, np.int32)


test_given_of_rows_that_are_left_out = bits_are_equal(LEFT_OUT, change=some)


SOME = {"m": 70, "k": 96, "X_0": 33}
OF_GROUPS = {"m": 37, "k": 96, "g": 3}

FOUND_OF_SOME = [
    ("Q[m,k]:e4m3 scale(tensor) = X[idx[m],k]", SOME, 3),
    ("Q[m,k]:e4m3 scale(mx1) = X[idx[m],k]", SOME, 2),
    ("Q[m,k]:e4m3 scale(1xk) = X[idx[m],k]; T[k,m]:e4m3 scale(1xm) = X[idx[m],k]", SOME, 3),
    ("V[m,k] = relu(X[idx[m],k]) * w[m,k]; Q[m,k]:e4m3 scale(tensor) = V", SOME, 3),
    ("Q_scale2[0,0]:f32 = max[m,k](abs(X[idx[m],k])) / 2688; Q[m,k]:nvfp4 = X[idx[m],k]", SOME, 3),
    (
        "R[m] = sum[k](X[idx[m],k]^2); Q[m,k]:mxfp8 = X[idx[m],k] / sqrt(R); T[k,m]:mxfp8 = X[idx[m],k] / sqrt(R)",
        SOME,
        2,
    ),
    ("Q[m,k]:e4m3 scale(tensor) = X[m,k] for m < end[0]", {"m": 37, "k": 96}, 3),
    ("Q[m,k]:e4m3 scale(tensor) = X[m,k] for m in off[g]:off[g+1]", OF_GROUPS, 4),
    ("Q[m,k]:e4m3 scale(mx1) = relu(X[m,k] * w[g]) for m in off[g]:off[g+1]", OF_GROUPS, 3),
    ("S[k]:f32 = max[m](X[m,k]) for m in off[g]:off[g+1]", OF_GROUPS, 2),
    ("S[g]:f32 = min[m,k](X[m,k]) for m in off[g]:off[g+1]", OF_GROUPS, 2),
    ("V[m,k] = X[m,k] for m < end[0]; Q[m,k]:e4m3 scale(tensor) = V", {"m": 37, "k": 96}, 3),
    ("Q[b,m,k]:e4m3 scale(tensor) = X[b,m,k] for m < r[b]", {"b": 2, "m": 9, "k": 96}, 4),
    (
        "R[m] = sum[k](X[m,k]^2) for m in off[g]:off[g+1] apart; "
        "Q[m,k]:mxfp8 = X[m,k] / sqrt(R) for m in off[g]:off[g+1] apart; "
        "T[k,m]:mxfp8 = X[m,k] / sqrt(R) for m in off[g]:off[g+1] apart",
        OF_GROUPS,
        2,
    ),
    (
        "Q_scale2[0,0]:f32 = max[m,k](abs(X[m,k])) / 2688 for m in off[g]:off[g+1]; "
        "Q[m,k]:nvfp4 = X[m,k] for m in off[g]:off[g+1] apart",
        OF_GROUPS,
        4,
    ),
]


def none(values: dict[str, Any]) -> None:
    for name in ("idx", "off", "r", "end"):
        if name in values:
            values[name] = np.full_like(values[name], -1 if name == "idx" else 0)


@pytest.mark.once("target")
@pytest.mark.parametrize("change", [some, none])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "count"), FOUND_OF_SOME)
def test_found_of_rows_that_are_there(source: str, dims: dict[str, int], count: int, target: str, change: Any) -> None:
    """What no index names, and what is outside of ranges, is no part of what is found; of no rows at all, too."""
    assert len(launches(source, target).texts) == count
    bit_equal(source, dims, "k", target, change=change)


NORMS = [
    "R[m] = sum[k](X[m,k]^2); N[m,k] = X[m,k] * w[k] / sqrt(R/100 + e); Y[m,k]:mxfp8 = N; T[k,m]:mxfp8 = N",
    "M[m] = max[k](X[m,k]); S[m] = sum[k](exp(X[m,k] - M)); Y[m,k]:f32 = exp(X[m,k] - M) / S; "
    "T[k,m] = exp(X[m,k] - M) / S",
    "R[m] = sum[k](X[m,k]^2); Y[m,k]:e4m3 scale(1xk) = X[m,k] / sqrt(R); T[k,m]:e4m3 scale(1xm) = X[m,k] / sqrt(R)",
    "S[0]:f32 = sum[m,k](X[m,k]:f32 * Z[m,k])",
]


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", NORMS)
def test_statistics(source: str, target: str, seed: int) -> None:
    kernel = scalec.compile(source, target=target)
    assert isinstance(kernel, Sequence)
    kernel.fixed = EmulatedDevice(target)
    dims = {"m": 70, "k": 100}
    values, expected = made_up(source, dims, seed)
    launched(kernel, values, expected, dims, seed)  # pyright: ignore[reportArgumentType]


def test_a_fault_is_found() -> None:
    """The magnitude behind the one that is given."""
    source, dims = "Q[m,k]:e4m3 scale(1xk of M[m]) = X[m,k]", {"m": 5, "k": 99}
    fault = changed(r"(ld\.global\.f32 \S+, \[\S+)\]", r"\1+4]")
    with pytest.raises((AssertionError, scalec.ScalecError)):
        bit_equal(source, dims, "", "sm_90a", fault=fault)


def test_what_launches_there_are_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    explain_program("Q[m,k]:e4m3 scale(tensor) = X[m,k]", "sm_90a", {"m": 65536, "k": 512}, {})
    told = capsys.readouterr().out
    assert "launch 1 of 3: Q_largest_k[m]:f32 = max[k](abs(X[m,k]))" in told
    assert "Q_largest_k, 0.3 MB, written and read once" in told


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0)])
def test_of_nothing_no_launch_writes_scales(sizes: tuple[int, int]) -> None:
    with pytest.raises(ArgumentError, match="leaves no tile to write Q_scale"):
        bit_equal("Q[m,k]:e4m3 scale(tensor) = X[m,k]", dict(zip("mk", sizes, strict=True)), "", "sm_90a")


test_what_is_refused = refusals(
    [
        ("Q[m,k]:e4m3 scale(1x32 of M[m,k/16]) = X[m,k]", "not one f32 for each block of Q"),
        ("Q[m,k]:e4m3 scale(tensor of M[0]:bf16) = X[m,k]", "not one f32 for each block of Q"),
        ("Y[m,k] = X[m,k]:e4m3 scale(tensor of M[0])", "are not found here"),
        ("C[m,n] = A[m,k] @ B[n,k] scale(1xk of M[m], none)", "are not found here"),
        ("Q[m,k]:e2m1 scale(1x16:ue4m3*tensor of M[0]) = X[m,k]", "are not found here"),
        ("D[m,n]:e4m3 scale(1x32 of M[m,n/32]) = A[m,k] @ B[n,k]", "scaled by magnitudes that are given"),
        ("Q[m,k]:e4m3 scale(tensor) = hadamard(X[m,k], 16)", "in blocks of mxk"),
        ("Q[m,k]:e4m3 scale(tensor) = X[m,k] for m in off[g]:off[g+1] apart", "(?s)in blocks of mxk.*apart in groups"),
        ("Q[idx[m],k]:e4m3 scale(tensor) = X[m,k]", "(?s)in blocks of mxk.*gather: read what Q is of"),
        ("Q[m,k]:e4m3 scale(128x128 of M[m/128,k/128]) = X[idx[m],k]", "of which some may be left out"),
        ("Q[b,m,k]:e4m3 scale(1xmxk of M[b]) = X[e[b],m,k]", "of which some may be left out"),
    ],
    (SourceError, UnsupportedError),
)
