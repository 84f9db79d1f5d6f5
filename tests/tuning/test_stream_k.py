"""Tiles that are cut into shares, ranked among the others: a launch then takes as many waves as there are tiles for."""

from __future__ import annotations

import pytest

from scalec import compiler
from scalec.tuning import space
from scalec.tuning.ranking import ranked

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
SIZES = {"m": 4096, "n": 2112, "k": 7168}


def cut(found: list) -> list[dict[str, str]]:
    return [r.schedule for r in found if r.schedule.get("stream_k") == "1"]


def test_nobody_asks_for_it_yet() -> None:
    """Until it is measured: `space.STREAM_K` is what is looked at."""
    assert space.STREAM_K == (0,)
    assert not cut(ranked(FP8, "sm_90a", SIZES))


def test_it_is_ranked_where_a_wave_is_not_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "STREAM_K", (0, 1))
    found = ranked(FP8, "sm_90a", SIZES)
    assert len({tuple(r.schedule.items()) for r in found}) == len(found)
    assert all(s["split"] == "1" for s in cut(found))
    # 272 tiles in pairs along M are 2.06 waves of 66; 396 in pairs along N, some of them beyond N, are three full ones
    tiles = {(s["tile"], s["cluster"]) for s in cut(found)}
    assert ("256x128x128", "2x1") in tiles
    assert ("192x128x128", "1x2") not in tiles
    chosen, _ = compiler.decide(FP8, "sm_90a", SIZES, tuned=False)
    first = next(r.schedule for r in found if "mma_n" not in r.schedule)
    assert {f: chosen.texts()[f] for f in first} == first


def test_it_is_looked_at_where_it_is_given() -> None:
    found = ranked(f"{FP8} with stream_k=1", "sm_90a", SIZES)
    assert cut(found) == [r.schedule for r in found]
    assert {r.schedule["split"] for r in found} == {"1"}


@pytest.mark.parametrize(("tile", "cluster", "faster"), [("256x128x128", "2x1", True), ("192x128x128", "1x2", False)])
def test_a_full_wave_costs_nothing_more(tile: str, cluster: str, faster: bool) -> None:
    """2.06 waves instead of three; and three that are full."""
    from scalec.tuning.explain import explain

    whole, shares = (
        explain(FP8, "sm_90a", SIZES, {"tile": tile, "cluster": cluster, "stream_k": v}).predictions[0].fitted
        for v in ("0", "1")
    )
    assert whole is not None
    assert shares is not None
    assert (shares < 0.9 * whole) if faster else shares == whole
