"""Requests, drafts and schedules: one set of fields, and what a request leaves open is all that a draft decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import pytest

from scalec.errors import ScheduleError
from scalec.ir import schedule as schedules
from scalec.ir.schedule import Request, Schedule
from scalec.passes import base
from scalec.passes.plan.draft import draft
from scalec.passes.problem.types import Problem
from tests.passes.scale_programs import text


def test_both_have_the_same_fields_in_the_same_order() -> None:
    assert [f.name for f in fields(Request)] == [f.name for f in fields(Schedule)]


def test_a_schedule_is_written_and_read_as_it_is(decide: Callable[..., Schedule]) -> None:
    chosen = decide(text())
    assert schedules.from_attribute(chosen.to_attribute()).complete() == chosen
    assert schedules.from_mapping(chosen.texts()).complete() == chosen
    assert "invariant" not in str(chosen)
    assert str(decide(text(), invariant=1)).endswith("invariant=1")


def test_a_draft_of_a_whole_schedule_is_that(
    decide: Callable[..., Schedule], problem_of: Callable[[str], Problem]
) -> None:
    chosen = decide(text())
    assert draft(problem_of(text()), schedules.from_mapping(chosen.texts())) == chosen


@pytest.mark.parametrize("field", ["tile", "warps", "band"])
def test_a_field_that_is_missing_is_named(decide: Callable[..., Schedule], field: str) -> None:
    request = Request(**{**decide(text()).decided(), field: None})  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match=f"schedule field {field} is not decided"):
        request.complete()


def test_a_program_is_read_once_while_fields_are_decided(
    decide: Callable[..., Schedule], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, times = base.read_problem, []
    monkeypatch.setattr(base, "read_problem", lambda *given: times.append(given) or read(*given))
    decide(text())
    assert len(times) == 1
    decide(text(), swap=1)  # as it is before swap is decided, and transposed
    assert len(times) <= 3
