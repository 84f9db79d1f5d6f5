"""A program whose schedule nobody decided hears of itself, not of a schedule; what the compiler chooses may be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scalec import compiler, frontend
from scalec.errors import ScheduleError, SourceError, UnsupportedError
from scalec.ir import context
from scalec.ir.schedule import Request
from scalec.passes.plan import check_schedule
from scalec.targets import get_target
from tests.fuzz.forms import of_seed

TARGETS = ("sm_90a", "sm_100a", "sm_120a")


def blamed(text: str, dims: dict[str, int], target: str) -> str:
    """Decides a schedule where none is given. What a check of schedules refuses; "" where none does."""
    try:
        with context.context():
            compiler.decisions(frontend.build(text, dims), get_target(target), Request(), tuned=False)
    except SourceError:
        return ""
    except (UnsupportedError, ScheduleError) as error:
        of_schedule = isinstance(error, ScheduleError) or isinstance(error.__cause__, ScheduleError)
        return f"{target}: {text} {dims}: {error}" if of_schedule else ""
    return ""


@pytest.mark.parametrize("target", TARGETS)
def test_side_by_side_with_scales_along_them(target: str) -> None:
    source = "G[m,n] = V[m,k] @ X[n,k]; H[m,n]:e2m3 scale(1x64@col) = relu(G) * (W[m,k] @ X[n,k])"
    assert not blamed(source, {}, target)


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(5_001_000, 5_001_300, 50))
def test_programs_without_a_schedule(first: int) -> None:
    for seed in range(first, first + 50):
        case = replace(of_seed(seed), schedule={})
        for target in TARGETS:
            assert not blamed(case.text(), {d: case.launches[0][d] for d in case.known}, target)


def test_a_choice_of_our_own_that_is_refused_is_not_the_users(monkeypatch) -> None:
    def never(*_: object) -> None:
        raise ScheduleError("stages = 3 is not possible", got="this", fix="that")

    monkeypatch.setattr(check_schedule, "CHECKS", [never])
    source = "C[m,n] = A[m,k] @ B[n,k]"
    with pytest.raises(UnsupportedError, match="stages = 3 is not possible\n  got: this\n  fix: that") as refused:
        compiler.compile_source(source, tuned=False)
    assert isinstance(refused.value.__cause__, ScheduleError)
    assert "stages = 3 is not possible" in blamed(source, {}, "sm_90a")
    with pytest.raises(ScheduleError):
        compiler.compile_source(source, schedule={"stages": "3"}, tuned=False)
