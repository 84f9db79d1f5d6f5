"""Tiles whose columns are multiplied in several goes: one is looked at, and each go costs."""

from __future__ import annotations

from scalec import compiler
from scalec.tuning.explain import explain
from scalec.tuning.ranking import ranked

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
BF16 = "C[m,n] = A[m,k] @ B[n,k]"
SIZES = {"m": 4096, "n": 2112, "k": 7168}


def test_one_tile_goes_with_a_width() -> None:
    found = [r.schedule for r in ranked(FP8, "sm_90a", SIZES)]
    assert {s["tile"]: s["mma_n"] for s in found if "mma_n" in s} == {"128x256x128": "128"}
    assert len({tuple(s.items()) for s in found}) == len(found)
    assert not any("mma_n" in r.schedule for r in ranked(BF16, "sm_90a", SIZES))


def test_a_decided_tile_takes_one() -> None:
    chosen, _ = compiler.decide(FP8, "sm_90a", SIZES, {"tile": "192x176x128"}, tuned=False)
    assert (chosen.tile, chosen.mma_n) == ((192, 176, 128), 88)


def test_each_go_costs_a_chain() -> None:
    """The same tile, waves and copies, whose products follow each other in one go, two and four."""
    times = [
        explain(FP8, "sm_90a", SIZES, {"tile": "128x128x128", "mma_n": v}).predictions[0].fitted
        for v in ("0", "64", "32")
    ]
    assert all(t is not None for t in times)
    assert times == sorted(times)
    assert len(set(times)) == 3


def test_an_asked_for_width_goes_with_its_tiles() -> None:
    found = ranked(f"{FP8} with mma_n=56", "sm_90a", SIZES)
    assert {int(r.schedule["tile"].split("x")[1]) % 56 for r in found} == {0}
    assert len({r.schedule["tile"] for r in found}) > 4
