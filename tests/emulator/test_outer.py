"""Programs with dimensions that a tile does not run along: batches, several of M and N, results in any order."""

from __future__ import annotations

import pytest

from tests.emulator.running import TARGETS, run_on
from tests.gpu.programs import OUTER
from tests.tiers import fields

EVERYWHERE = ["swap=0", "swap=1", "split=2, swap=0", "epilogue=direct", "order=m, band=1", "scale_path=thread"]
CLUSTERS = {"cluster=2x1": TARGETS[:2], "cluster=1x2, swap=0": TARGETS[:2], "split=2, parts=cluster": TARGETS[:1]}
SCHEDULES = [*((s, t) for s in EVERYWHERE for t in TARGETS), *((s, t) for s, row in CLUSTERS.items() for t in row)]


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("known", [True, False], ids=["known", "open"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", OUTER)
def test_program(name: str, target: str, known: bool) -> None:
    source, limit, dims = OUTER[name]
    last = (list(dims)[-2:]) if known else ()  # N and K
    run_on(source, dims, tuple(last), 3, limit, target=target, times=2 if known else 1)


@pytest.mark.once("target", touches=lambda schedule, **_: fields(schedule))
@pytest.mark.parametrize(("schedule", "target"), SCHEDULES)
def test_schedule(schedule: str, target: str) -> None:
    source, limit, dims = OUTER["bhr,hdr->bhd"]
    run_on(f"{source} with {schedule}", {**dims, "r": 512}, ("d", "r"), 5, limit, target=target)


@pytest.mark.once
@pytest.mark.parametrize("blocks", ["1x1xk, 1x1xk", "1x1xk, 1x128xk", "none, 1x1xk"])
@pytest.mark.parametrize("target", TARGETS)
def test_each_summed_batch_has_scales_of_whole_rows(target: str, blocks: str) -> None:
    """They change where K ends, so they are applied to each batch's sums."""
    source = f"D[m,n]:f32 += A[b,m,k]:e4m3 @ B[b,n,k]:e4m3 scale({blocks})"
    run_on(source, {"b": 3, "m": 70, "n": 136, "k": 256}, ("n", "k"), 3, 1e-5, target=target)
