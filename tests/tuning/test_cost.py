"""The model that schedules are ranked by, against what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fit_costs import Judgement, judge, read
from scalec.tuning.cost import FITTED

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def judged(program: str, every: int) -> Judgement:
    """Every so many-th shape of all files of a program."""
    kinds, shapes = set(), []
    for path in sorted(RESULTS.glob(f"*-schedules-{program}*.json")):
        kind, found = read(path, every)
        kinds.add(kind)
        shapes += found
    (kind,) = kinds
    return judge(shapes, FITTED[kind])


@pytest.mark.parametrize(
    ("program", "every", "fewest", "first_five", "slower"),
    [("fp8", 1, 800, 0.9, 1.03), ("f32", 1, 60, 0.77, 1.02), ("bf16", 3, 100, 0.75, 1.045)],
)
def test_the_fastest_schedule_is_ranked_among_the_first(
    program: str, every: int, fewest: int, first_five: float, slower: float
) -> None:
    found = judged(program, every)
    assert found.shapes > fewest
    assert found.first_five >= first_five
    assert found.slower <= slower
