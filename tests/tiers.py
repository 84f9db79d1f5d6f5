"""Which cases of a parametrized test a usual run has: `@pytest.mark.once`; the others get the marker `thorough`.

    @pytest.mark.once("target", "name")  # each target and each name once, in as few cases as that takes
    @pytest.mark.once("family", touches=lambda schedule, **_: fields(schedule))  # and each field that a schedule sets
    @pytest.mark.once  # one case

Values of two parameters that come once each do not come together: pairs are what the thorough run is for.

Of what is left, repeats.txt names the cases that take seconds and reach nothing that others do not, and long.txt those
that take longest though they do: thorough too.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

REPEATS = Path(__file__).parent / "repeats.txt"
LONG = Path(__file__).parent / "long.txt"

SEEDS = range(int(os.environ.get("TEST_SEEDS", "2")))
"""Of tests that draw sizes, data and order from a seed: CI has two, for the sake of its time; set 8 or more after a
change of what they test."""

SHARE = tuple(int(x) for x in os.environ.get("TEST_SHARE", "0/1").split("/"))
"""Number and count, as in 2/4: of the thorough cases, one of so many shares. All of them take an hour and more of two
slow cores; CI has a share that the commit chooses, so that commits that follow each other have others."""


def fields(schedule: object) -> list[str]:
    """The fields that a schedule, or one in the row of a table, sets: `tile=64x64x64, split=2` -> tile, split."""
    return re.findall(r"\w+(?==)", str(schedule))


def covering(touched: Sequence[set[Hashable]], values: Sequence[set[Hashable]]) -> list[int]:
    """Indices of cases, a few, that together touch all that any case touches: always the one that adds most.

    Where several add as much, the one whose values, those that need not come among them, have come least often; then
    the first.
    """
    chosen: list[int] = []
    missing, uses = set[Hashable]().union(*touched), Counter[Hashable]()
    while missing or not chosen:
        best = max(range(len(touched)), key=lambda i: (len(touched[i] & missing), -sum(uses[v] for v in values[i]), -i))
        chosen.append(best)
        missing -= touched[best]
        uses.update(values[best])
    return chosen


def repeats(text: str) -> set[str]:
    """The cases of a list, and the tests all of whose cases it means."""
    found, file, test = set[str](), "", ""
    for line in text.splitlines():
        if line.startswith("    "):
            found.discard(test)
            found.add(test + line[4:])
        elif line.startswith("  "):
            test = f"{file}::{line[2:]}"
            found.add(test)
        elif not line.startswith("#"):
            file = line
    return found


def mark(items: Sequence[pytest.Item]) -> None:
    """Marks all but the cases that a usual run has as thorough."""
    _mark_by_values(items)
    listed, long = repeats(REPEATS.read_text()), repeats(LONG.read_text())
    for item in items:
        if {item.nodeid, item.nodeid.partition("[")[0]} & long and not item.get_closest_marker("thorough"):
            item.add_marker(pytest.mark.thorough)
        if {item.nodeid, item.nodeid.partition("[")[0]} & listed and not item.get_closest_marker("thorough"):
            item.add_marker(pytest.mark.thorough)
            item.add_marker(pytest.mark.repeats)


def _mark_by_values(items: Iterable[pytest.Item]) -> None:
    tests: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("once"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for functions in tests.values():
        asked = functions[0].get_closest_marker("once")
        assert asked is not None
        touches: Callable[..., Iterable[Hashable]] = asked.kwargs.get("touches", lambda **_: ())
        cases: list[dict[str, Any]] = [f.callspec.params for f in functions]
        values = [{name: (name, repr(value)) for name, value in case.items()} for case in cases]
        touched = [{*(v[name] for name in asked.args), *touches(**case)} for v, case in zip(values, cases, strict=True)]
        usual = covering(touched, [set(v.values()) for v in values])
        for i, function in enumerate(functions):
            if i not in usual:
                function.add_marker(pytest.mark.thorough)


def of_share(items: Sequence[pytest.Item], share: Sequence[int] = SHARE) -> list[pytest.Item]:
    """All but the thorough cases of other shares. Cases that follow each other lie in different shares."""
    (number, count), seen = share, 0
    kept: list[pytest.Item] = []
    for item in items:
        if item.get_closest_marker("thorough"):
            seen += 1
            if seen % count != number % count:
                continue
        kept.append(item)
    return kept
