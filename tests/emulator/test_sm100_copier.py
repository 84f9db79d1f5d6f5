"""A warp of its own that copies scales to tensor memory (`scale_copier`): every kind of scale, ring and schedule."""

from __future__ import annotations

import re

import pytest

import scalec
from scalec.compiler import compile_source
from scalec.errors import ScheduleError
from scalec.tuning.explain import explain
from tests.emulator.running import by_turns, k_of, limit, refusals, run_on
from tests.emulator.sm100_programs import PROGRAMS

TARGET = "sm_100a"

# name of PROGRAMS: schedule, and the slots of its ring in tensor memory
SCHEDULES: dict[tuple[str, str], int] = {
    ("mxfp8", "tile=128x128x128, stages=4"): 4,
    ("mxfp8", "tile=128x240x128, stages=3, unroll=1"): 2,
    ("mxfp8", "tile=128x64x128, stages=2, scheduler=dynamic"): 2,
    ("mxfp8", "tile=128x128x128, stages=5, split=2, unroll=1"): 5,
    ("mxfp6", "tile=128x64x128, cluster=2x1, cta_group=1, stages=3"): 3,
    ("mxfp4", "tile=128x256x256, stages=4, unroll=4"): 4,
    ("mxfp4", "tile=128x64x256, cluster=4x1, cta_group=2, stages=2"): 2,
    ("nvfp4", "tile=128x192x256, stages=4"): 2,
    ("nvfp4", "tile=128x192x256, stages=3, unroll=3"): 2,
    ("nvfp4", "tile=128x192x256, stages=5, cta_group=2, cluster=2x1, unroll=1"): 2,
    ("nvfp4", "tile=128x256x256, stages=4, cta_group=2, cluster=2x1, scheduler=dynamic"): 4,
    ("1x32 @packed, @blocked", "tile=128x256x128, stages=3"): 3,
    ("1x96 @col, 1xk", "tile=128x64x128, stages=4, cta_group=2, cluster=2x1"): 4,
    ("mxfp8 @blocked", "tile=128x192x128, stages=4"): 4,
    ("mxfp8 @blocked", "tile=128x64x128, stages=3, cta_group=2, cluster=2x1, scheduler=dynamic"): 3,
    ("1x16 @blocked", "tile=128x192x256, stages=2"): 2,
    ("1x32, none", "tile=128x96x128, stages=3"): 3,
    ("none, 1x16", "tile=128x64x256, stages=2, cta_group=2, cluster=2x1"): 2,
    ("1x32, f32 128x128", "tile=128x64x128, stages=4"): 4,
    ("f32 1x128, 1x32", "tile=128x64x128, stages=6, cta_group=2, cluster=2x1"): 6,
}

# (m, n, bytes of a row, dims fixed at compile time) by seed: tails of every kind, more tiles than CTAs, more K blocks
# than stages
SIZES = [
    (5, 3, 20, ()),
    (130, 72, 1280, ("m", "n", "k")),
    (257, 40, 150, ("n", "k")),
    (65, 136, 1312, ("n", "k")),
    (300, 264, 64, ("n", "k")),
    (129, 65, 768, ("n", "k")),
    (700, 72, 132, ()),
    (1, 160, 2176, ("k",)),
]


@pytest.mark.once("seed")
@pytest.mark.parametrize(("which", "seed"), by_turns([f"{n}: {s}" for n, s in SCHEDULES], len(SIZES)))
def test_program(which: str, seed: int) -> None:
    name, _, schedule = which.partition(": ")
    source = PROGRAMS[name].partition(" with ")[0]
    m, n, row, fixed = SIZES[seed]
    k = k_of(source, row)
    if "split" in schedule:
        k, fixed = max(k, 512), tuple({*fixed, "k"})
    schedule = f"{schedule}, scale_copier=1, swap=0"
    ran = run_on(
        f"{source} with {schedule}",
        {"m": m, "n": n, "k": k},
        fixed,
        seed,
        limit(source),
        target=TARGET,
        times=1 if seed % 4 else 2,
    )
    assert "scale_copier=1" in ran.kernel.spec.schedule
    assert ran.stats.counts["tcgen05.cp"] > 0
    assert ran.stats.counts["bank conflicts"] == 0


@pytest.mark.once
@pytest.mark.parametrize(("name", "schedule"), SCHEDULES)
def test_slots(name: str, schedule: str) -> None:
    """Of the ring in tensor memory: as many as fit, and make up whole rounds of the stages where any do."""
    source = PROGRAMS[name].partition(" with ")[0]
    dims = {"n": 512, "k": 4096}
    made = compile_source(f"{source} with {schedule}, scale_copier=1, swap=0", TARGET, dims, until="tile")
    text = made.texts["tile"]
    cursors = dict(re.findall(r'(%\d+) = "tile.cursor"\(\) \{depth = (\d+)', text))
    slots = {int(cursors[at]) for at in re.findall(r'"tile.word_slot"\(%\d+, (%\d+)\)', text)}
    assert slots == {SCHEDULES[name, schedule]}
    assert ('label = "scales"' in text) == ("store_bytes" in text or "store_rows" in text)


REFUSED = [
    ("C[m,n] = A[m,k] @ B[n,k]", "scale_copier=1", "no scales of this program are copied to tensor memory on sm_100a"),
    ("C[m,n] = A[m,k]:e2m1 @ B[n,k]:e2m1", "scale_copier=1", "no scales of this program are copied"),  # ones
    (
        PROGRAMS["mxfp4"],
        "tile=128x240x256, stages=2, scale_copier=1",
        "tensor memory has room for the scales of 1 K block, not of two",
    ),
    (
        PROGRAMS["mxfp4"],
        "tile=128x128x256, registers=240x240, scale_copier=1",
        "2 x 240 and 1 x 240 registers a thread are 92160 a CTA\n  expected: at most 64512: 384 threads enter with 168",
    ),
]


test_refused = refusals(
    [(f"{source} with {schedule}", message) for source, schedule, message in REFUSED],
    ScheduleError,
    TARGET,
    {"n": 512, "k": 1024},
)


def test_other_targets_have_none() -> None:
    with pytest.raises(ScheduleError, match="no scales are copied to tensor memory on sm_120a"):
        scalec.compile(f"{PROGRAMS['mxfp8']} with scale_copier=1", target="sm_120a", dims={"n": 512, "k": 1024})


def test_explained() -> None:
    dims = {"m": 4096, "n": 7168, "k": 2048}
    own = explain(PROGRAMS["mxfp4"], TARGET, dims, {"tile": "128x256x256"})
    assert own.reasons["scale_copier"] == (
        "6 copies to tensor memory for 4 products of a K block: a warp of its own makes them, up to 6 K blocks ahead"
    )
    few = explain(PROGRAMS["mxfp8"], TARGET, dims, {"tile": "128x256x128"})
    assert few.reasons["scale_copier"] == (
        "3 copies to tensor memory for 4 products of a K block: the thread that issues these makes them too"
    )
    assert "scale_copier" not in explain(PROGRAMS["bf16"], TARGET, dims, {}).reasons
