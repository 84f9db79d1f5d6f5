"""Operands of 4 bits whose K is no more than half of the widest swizzle's row: a tile has no products of zeros."""

from __future__ import annotations

import pytest

from tests.emulator.running import limit, run_on
from tests.emulator.sm120_programs import PROGRAMS
from tests.emulator.test_fold_columns import FORMS, run
from tests.emulator.test_invariant import decided

TARGETS = ("sm_100a", "sm_120a")
NAMES = (
    "mxfp4",
    "e2m1, 1x64",
    "e2m1 unscaled",
    "nvfp4",
    "e2m1 @packed, @blocked",
    "nvfp4 @blocked, @col",
    "nvfp4, silu",
)


@pytest.mark.once("target")
@pytest.mark.parametrize("k", [64, 96, 128])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_products(name: str, target: str, k: int) -> None:
    source = PROGRAMS[name]
    ran = run_on(source, {"m": 140, "n": 136, "k": k}, ("n", "k"), k, limit(source), target=target)
    assert ran.stats.counts["bank conflicts"] == 0


@pytest.mark.once("target")
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("target", TARGETS)
def test_logits(target: str, d: int) -> None:
    run(FORMS["MXFP4"], target, {"q": 5, "t": 200, "h": 32, "d": d}, "hd")


@pytest.mark.parametrize("target", TARGETS)
def test_a_tile_has_all_of_k_and_no_more(target: str) -> None:
    source = "C[m,n] = A[m,k]:mxfp4 @ B[n,k]:mxfp4"
    depths = {k: decided(source, target, {"n": 7168, "k": k}).tile[2] for k in (64, 96, 128, 160)}
    assert depths == {64: 128, 96: 128, 128: 128, 160: 256 if target == "sm_100a" else depths[160]}
