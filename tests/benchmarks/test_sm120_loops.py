"""benchmarks/sm120_loops.py: kernels keep to what was reached."""

from __future__ import annotations

import pytest

from benchmarks import sm120_loops

MOST = {
    "FP8, ue8m0 1x128": 2091,
    "FP8, ue8m0 1x32": 2093,
    "FP8, 1x32 @packed": 2093,
    "MXFP4": 2093,
    "NVFP4": 2098,
    "FP8 x FP4": 2096,
    "BF16": 2086,
    "FP8, per row": 2085,
    "FP8, f32 1x128": 2137,
    "MXFP6": 2093,
    "FP8 1x32, m = 16": 337,
}
"""Stall counts of a main loop, of 128 tensor instructions or 16 (ptxas 13.0; fewer with 13.5: 2026-11-27)."""


@pytest.mark.once
@pytest.mark.parametrize("case", sm120_loops.CASES, ids=lambda c: c.name)
def test_counts_stay(case: sm120_loops.Case, toolchain: None) -> None:
    _, loop = sm120_loops.count(case)
    assert loop.tensor == (16 if case.goal == 2.0 else 128)
    assert loop.stalls <= MOST[case.name], loop.classes


def test_most_is_within_the_goals() -> None:
    assert MOST.keys() == {c.name for c in sm120_loops.CASES}
    for case in sm120_loops.CASES:
        tensor = 16 if case.goal == 2.0 else 128
        assert case.goal is None or MOST[case.name] <= case.goal * 16 * tensor
