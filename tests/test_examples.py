"""examples/README.md says of every program on which targets it runs, and it does; the others refuse it in words."""

from __future__ import annotations

import pytest

from tests.examples_table import PROGRAMS, REFUSED, RUNS, TARGETS, refusal, rows

FIX = "if the table is out of date: python -m tests.examples_table"


def test_the_table_has_every_program():
    assert list(rows()) == list(PROGRAMS), FIX


def touched(name: str, target: str) -> list[tuple[str, str]]:
    """Each program where it runs and where it is refused."""
    return [(name, rows()[name][TARGETS.index(target)])]


@pytest.mark.once("target", touches=touched)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_or_is_refused_as_the_table_says(name: str, target: str, on_the_emulator: None):
    cell, refused = rows()[name][TARGETS.index(target)], refusal(PROGRAMS[name], target)
    assert cell == (RUNS if refused is None else REFUSED), FIX
    if refused is not None:
        assert refused.message
        assert refused.expected or refused.fix, str(refused)
