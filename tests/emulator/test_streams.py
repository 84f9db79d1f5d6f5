"""Sums in short ranges of K whose results are loaded: clusters begin one after the other, L2 is told to forget results
first, and what is computed is as ever."""

from __future__ import annotations

import re

import pytest

from tests.emulator.test_range_of_k import check

PROGRAM = "C[g,m,n]:f32 += A[m,k] @ B[n,k] scale(1x128@col,1x128@col) {}"
SIZES = {"m": 136, "n": 256, "k": 384}
ENDS = (0, 128, 128, 384)
KNOWN = ("g", "m", "n", "k")


@pytest.mark.once("settings")
@pytest.mark.parametrize(
    ("settings", "ends"),
    [
        ("adds=loaded, tile=128x256x128, cluster=1x1", ENDS),
        # groups that begin anywhere: the warp that clears what lies outside of them spills with 40 registers
        ("adds=loaded, tile=128x256x128, cluster=1x1, mma_n=8, registers=56x224", (5, 130, 370)),
        ("adds=loaded, tile=128x64x128, cluster=1x2", ENDS),
    ],
)
def test_sm_90a(settings: str, ends: tuple[int, ...]) -> None:
    by = " by 128" if ends == ENDS else ""
    kernel = check(PROGRAM.format("{}" + by), "sm_90a", settings, ends, fixed=KNOWN, dims=SIZES)
    copies = re.findall(r"cp\.async\.bulk\.tensor\.3d\S+", kernel.ptx)
    assert copies
    assert all(x.endswith(".L2::cache_hint") for x in copies)
    assert "%clock64" in kernel.ptx


@pytest.mark.thorough
def test_sm_120a() -> None:
    source = "C[g,m,n]:f32 += A[m,k]:bf16 @ B[n,k]:bf16 {}"
    kernel = check(source, "sm_120a", "adds=loaded, epilogue=bulk", ENDS, fixed=KNOWN, dims=SIZES)
    assert "%clock64" in kernel.ptx


def test_all_begin_at_once_where_nothing_is_known_of_ranges() -> None:
    kernel = check(PROGRAM, "sm_90a", "adds=loaded, tile=128x64x128", ENDS, fixed=("n", "k"), dims=SIZES)
    assert "%clock64" not in kernel.ptx
    assert "cache_hint" not in kernel.ptx
