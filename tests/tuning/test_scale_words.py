"""What `scalec explain` says of scales that threads rearrange, against counts of machine code."""

from __future__ import annotations

import pytest

from benchmarks.sm100_scales import FP4, FP8, Case, predicted
from scalec.tuning.explain import Explanation, explain

# counted by benchmarks/sm100_scales.py (ptxas 13.5, 2026-11-21)
COUNTED = [
    (Case(FP8, "1x32:ue8m0", "128x64x128"), 71),
    (Case(FP8, "1x32:ue8m0", "128x192x128"), 92),
    (Case(FP8, "1x32:ue8m0@col", "128x64x128"), 186),
    (Case(FP8, "1x32:ue8m0@col", "128x192x128"), 244),
    (Case(FP8, "1x32:ue8m0@packed", "128x64x128"), 80),
    (Case(FP8, "1x32:ue8m0@packed", "128x192x128"), 107),
    (Case(FP8, "1x32:ue8m0@blocked", "128x192x128"), 96),
    (Case(FP8, "1x128:ue8m0", "128x192x128"), 92),
    (Case(FP8, "1x128:ue8m0@col", "128x192x128"), 100),
    (Case(FP8, "1x32:ue8m0", "128x192x128", k=False), 147),
    (Case(FP8, "1x32:ue8m0@blocked", "128x192x128", k=False), 115),
    # by four warps, beside one that copies words on to tensor memory
    (Case(FP4, "1x16:ue4m3", "128x192x256"), 84),
    (Case(FP4, "1x16:ue4m3@blocked", "128x192x256"), 129),
    (Case(FP4, "1x32:ue8m0@packed", "128x192x256"), 89),
]


@pytest.mark.parametrize(("case", "count"), COUNTED)
def test_instructions_are_those_counted(case: Case, count: int) -> None:
    assert predicted(case) == pytest.approx(count, rel=0.13)


def test_many_loads_of_few_rows_are_overestimated() -> None:
    """16 loads of each of two rows: ptxas shares more of their addresses than with four rows (557 to 496)."""
    assert 1 <= predicted(Case(FP4, "1x16:ue4m3@col", "128x64x256")) / 223 < 1.35


def explained(scales: str, **schedule: str) -> Explanation:
    source, dims = f"C[m,n] = A[m,k]@B[n,k] scale({scales})", {"m": 4096, "n": 7168, "k": 2048}
    return explain(source, "sm_100a", dims, schedule)


def test_blocked_scales_cost_nothing() -> None:
    found = explained("1x32:ue8m0@blocked, 1x32:ue8m0@blocked")
    told = "tensor copies bring A_scale as it lies; tensor copies bring B_scale as it lies"
    assert found.reasons["scale_path"] == told
    assert "scale words" not in found.predictions[0].times


def test_each_operand_goes_its_own_way() -> None:
    found = explained("1x32:ue8m0@blocked, 1x32:ue8m0", tile="128x128x128")
    assert found.schedule.scale_path == "bulk"
    assert found.reasons["scale_path"] == (
        "tensor copies bring A_scale as it lies; "
        "threads rearrange B_scale, 512 bytes a K block: B_scale is not blocked, one scale for each n; "
        # 29 of the loop, and of two rows 7 and one load 3.5; 2 * 128 * 128 * 128 FLOP at 16384
        "2 warps issue about 50 instructions each for a K block, whose products take 256 clocks (predicted: 20% of a "
        "scheduler's clocks, no waits)"
    )


def test_cost_is_part_of_the_prediction() -> None:
    found = explained("1x32:ue8m0@col, 1x32:ue8m0@col", tile="128x64x128", cluster="1x1")
    (p,) = found.predictions
    words, tensor = p.times["scale words"], p.times["tensor issue"]
    # 29, and of four rows 4 and four loads 8 each: 173 instructions, beside 128 clocks of products
    assert words / tensor == pytest.approx(173 / 128)
    assert found.reasons["scale_path"].endswith("(predicted: 135% of a scheduler's clocks, no waits)")


def test_why_threads_where_they_are_asked_for() -> None:
    found = explained("1x32:ue8m0@blocked, 1x32:ue8m0@blocked", scale_path="thread")
    assert found.reasons["scale_path"].startswith(
        "given; threads rearrange A_scale, 512 bytes a K block: scale_path=thr"
    )
