"""Figures of cases: lines as they come, means by name, and all of it in a file."""

from __future__ import annotations

import json

import pytest

from scalec.bench import provenance
from scalec.bench.report import report


def test_cases_and_their_means(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(provenance, "of_machine", lambda: {"gpu": "one"})
    cases = [
        {"layer": "a", "ratio": {"x": 2.0, "y": 3.0}, "quartiles": {"x": (1, 2)}},
        {"layer": "a", "ratio": {"x": 8.0}, "quartiles": {}},
        {"layer": "b", "ratio": {"x": 5.0}, "quartiles": {}},
    ]
    report(cases, lambda case, name: f"{case['layer']}, {name}", 7, str(path := tmp_path / "made.json"))
    *lines, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert [line["ratio"] for line in lines] == [case["ratio"] for case in cases]
    assert not any("quartiles" in line for line in lines)
    assert last["geometric_means"] == pytest.approx({"a, x": 4.0, "a, y": 3.0, "b, x": 5.0})
    made = json.loads(path.read_text())
    assert (made["gpu"], len(made["cases"]), made["cases"][0]["quartiles"]) == ("one", 3, {"x": [1, 2]})
    assert made["geometric_means"] == last["geometric_means"]
    assert "of 7" in made["method"]
    assert made["commit"]
