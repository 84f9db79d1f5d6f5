"""Tiles whose columns are multiplied in several goes: ranked for who times them, chosen where they were timed."""

from __future__ import annotations

import pytest

from scalec import compiler
from scalec.tuning import space
from scalec.tuning.explain import explain
from scalec.tuning.ranking import ranked

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
BF16 = "C[m,n] = A[m,k] @ B[n,k]"
SIZES = {"m": 4096, "n": 2112, "k": 7168}


def test_who_times_schedules_sees_them() -> None:
    found = [r.schedule for r in ranked(FP8, "sm_90a", SIZES)]
    goes = {s["tile"]: s["mma_n"] for s in found if "mma_n" in s}
    assert goes == {
        "128x224x128": "112",
        "128x256x128": "128",
        "192x144x128": "72",
        "192x160x128": "80",
        "192x176x128": "88",
        "192x192x128": "64",
    }
    assert len({tuple(s.items()) for s in found}) == len(found)
    assert not any("mma_n" in r.schedule for r in ranked(BF16, "sm_90a", SIZES))


def test_nobody_else_does_until_they_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not space.TIMED_GOES
    before, _ = compiler.decide(FP8, "sm_90a", SIZES, tuned=False)
    assert before.mma_n == 0
    monkeypatch.setattr(space, "TIMED_GOES", frozenset({(192, 176)}))
    chosen, _ = compiler.decide(FP8, "sm_90a", SIZES, tuned=False)
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
