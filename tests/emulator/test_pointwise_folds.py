"""Reductions over an index that no result has and that threads share out: of whole columns, and of ragged ranges."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import scalec
from scalec.errors import UnsupportedError
from tests.emulator.pointwise import TARGETS, Values, bit_equal, ran
from tests.emulator.quantised import changed
from tests.emulator.running import refusals

PROGRAMS = [
    ("S[k] = max[m](X[m,k])", {"m": 300, "k": 200}, "k"),
    ("S[k]:f32 = sum[m](X[m,k])", {"m": 301, "k": 99}, ""),
    ("S[k]:f32 = sum[m](X[m,k]^2); M[k] = max[m](abs(X[m,k])) / 448", {"m": 1200, "k": 96}, "mk"),
    ("M[n] = max[m](X[m,n]); S[n]:f32 = sum[m](exp(X[m,n] - M))", {"m": 130, "n": 96}, "n"),
    ("S[b,k]:f32 = sum[m](X[b,m,k]:e4m3 scale(1x128))", {"b": 3, "m": 200, "k": 256}, "mk"),
    ("S[k]:f32 = sum[m](X[m,k] * w[m]) + x[k%16]", {"m": 65, "k": 48}, "m"),
    ("D[g,n]:f32 = sum[m](X[m,n] * w[g]) for m in off[g]:off[g+1]", {"m": 300, "g": 4, "n": 96}, "n"),
    ("D[g,n] = max[m](X[m,n]) for m in off[g]:off[g+1]; S[g,n]:f32 = sum[m](X[m,n]) for m in off[g]:off[g+1]",
     {"m": 90, "g": 5, "n": 99}, ""),
    ("D[g,n] = sum[m](X[g,m,n]) for m < rows[g]", {"m": 70, "g": 4, "n": 96}, "n"),
    ("D[g,n]:f32 = sum[m](Y[m,n] * X[idx[m],n]) for m in off[g]:off[g+1]", {"m": 90, "g": 4, "n": 96, "X_0": 50}, "n"),
    ("S[b,n]:f32 = sum[m](X[b,m,n]) for m < len[b,n]", {"b": 2, "m": 70, "n": 130}, "n"),
    ("D[q,n]:f32 = min[t](X[t,n]) for t in lo[q]:hi[q]", {"q": 5, "t": 40, "n": 64}, "n"),
]  # fmt: skip


def close(source: str, dims: dict[str, int], fixed: str, target: str, **more: Any) -> None:
    """Two launches give the same bits, and what float64 has but for f32's rounding of sums of so many."""
    made, expected, *_ = ran(source, dims, fixed, target, **more)
    for name, got in made.items():
        wanted = np.asarray(expected[name], np.float64)
        found = np.isfinite(wanted)
        limit = (1e-2 if np.asarray(got).itemsize == 2 else 1e-5) * max(1, np.abs(wanted[found]).max(initial=0))
        np.testing.assert_allclose(np.asarray(got, np.float64), wanted, rtol=0, atol=limit, err_msg=source)


@pytest.mark.once("target")
@pytest.mark.parametrize("special", [None, np.nan, -np.inf, -0.0])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed"), PROGRAMS)
def test_program(source: str, dims: dict[str, int], fixed: str, target: str, special: float | None) -> None:
    def change(values: Values) -> None:
        if special is not None:
            values["X"].reshape(-1)[:1] = np.array(special).astype(values["X"].dtype)

    close(source, dims, fixed, target, change=change)


OWN = [
    ("S[g]:f32 = sum[m](X[m] * w[g]) for m in off[g]:off[g+1]", {"m": 300, "g": 5}, ""),
    ("S[n] = max[m](X[m,n]) for m < len[n]", {"m": 50, "n": 40}, "n"),
    ("S[b,g]:f32 = min[m](X[b,m]) for m in lo[b,g]:hi[b,g]", {"m": 33, "b": 2, "g": 3}, "bgm"),
]


@pytest.mark.once("target", "source")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed"), OWN)
def test_each_column_has_a_range_of_its_own(source: str, dims: dict[str, int], fixed: str, target: str) -> None:
    """All threads of a CTA had the range of the first of their columns."""

    def nothing(values: Values) -> None:
        for name in {"off", "len", "lo", "hi"} & values.keys():
            values[name][:] = 0

    close(source, dims, fixed, target)
    close(source, {**dims, "m": 1}, fixed.replace("m", ""), target)
    close(source, {**dims, "m": 0}, "", target, change=nothing)


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [0, 1])
def test_sizes_of_0_and_1(size: int, target: str) -> None:
    for dims in ({"m": size, "k": 33}, {"m": 70, "k": size}):
        bit_equal("S[k]:f32 = max[m](X[m,k])", dims, "", target)

    def change(values: Values) -> None:
        values["off"].clip(0, size, out=values["off"])

    ragged = "D[g,n]:f32 = sum[m](X[m,n]) for m in off[g]:off[g+1]"
    close(ragged, {"m": size, "g": 3, "n": 40}, "", target, change=change)


def test_empty_groups_are_written() -> None:
    """And what lies behind the last one, or before the first, belongs to none."""

    def change(values: Values) -> None:
        values["off"][:] = [3, 3, 50, 50, 60]

    source = "D[g,n]:f32 = sum[m](X[m,n]) for m in off[g]:off[g+1]"
    made, _, values, _ = ran(source, {"m": 70, "g": 4, "n": 40}, "n", "sm_90a", change=change)
    x = values["X"].astype(np.float64)
    wanted = [x[a:b].sum(0) for a, b in ((3, 3), (3, 50), (50, 50), (50, 60))]
    np.testing.assert_allclose(made["D"], wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_are_read_in_lines_by_many_threads(target: str) -> None:
    """Of which no warp waits for banks; where there are few columns, each CTA has a sector of a row."""
    for k, columns in ((256, 16), (65536, 64)):
        kernel = scalec.compile("S[k] = max[m](X[m,k])", target=target, dims={"k": k})
        assert kernel.spec.launch.tiles[-1][1] == columns
        assert kernel.spec.launch.threads >= 256
        assert "ld.global.v4.b32" in kernel.ptx
    *_, stats = ran("S[k] = max[m](X[m,k])", {"m": 300, "k": 256}, "k", target)
    assert not stats.counts.get("bank conflicts")


def test_few_terms_stay_one_threads() -> None:
    """Those of the experts of a token, which memory names, and a known few."""
    for source, dims in (
        ("Y[t,n] = sum[j](w[t,j]:f32 * D[inv[t,j],n])", {"n": 256}),
        ("Y[n] = sum[j](X[j,n])", {"j": 8, "n": 256}),
    ):
        assert not re.search(r"shared\.f32", scalec.compile(source, target="sm_90a", dims=dims).ptx)


def test_a_fault_is_found() -> None:
    """A column's number of another thread, where warps meet."""
    fault = changed(r"(ld\.shared\.f32 \S+ \[\S+ \+) 2560\]", r"\1 2564]")
    with pytest.raises((AssertionError, scalec.ScalecError)):
        close("S[k]:f32 = sum[m](X[m,k])", {"m": 3000, "k": 96}, "k", "sm_90a", fault=fault)


test_what_is_refused = refusals(
    [
        ("D[g,n]:e4m3 scale(1x32) = sum[m](X[m,n]) for m in off[g]:off[g+1]", "a sum over a range, beside others"),
    ],
    (UnsupportedError, scalec.ScalecError),
)
