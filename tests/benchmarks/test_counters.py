"""What ncu writes becomes rows of named counters in our units."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks import counters
from scalec.bench import provenance

NAMES = ["ID", *(counter for counter, _ in reversed(counters.COUNTERS.values()))]


def log(launches: int) -> str:
    """What ncu prints of so many launches: names, units and values, the i-th counter of launch l being 1,000 l + i."""
    lines = [["==PROF== Connected"], NAMES, ["", *["%"] * (len(NAMES) - 1)]]
    lines += [[str(n), *(f"{1000 * n + i:,}" for i in range(1, len(NAMES)))] for n in range(launches)]
    return lines[0][0] + "\n" + "\n".join(",".join(f'"{v}"' for v in line) for line in lines[1:]) + "\n"


def test_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "of_machine", lambda: {"gpu": "a GPU", "date": "today"})
    (tmp_path / "ncu.csv").write_text(log(10))
    done = CliRunner().invoke(counters.main, [str(tmp_path / "ncu.csv"), "-o", str(tmp_path / "made.json")])
    assert done.exit_code == 0, done.output
    made = json.loads((tmp_path / "made.json").read_text())
    assert (made["gpu"], made["date"]) == ("a GPU", "today")
    assert made["commit"]
    assert made["counters"]["us"] == "gpu__time_duration.sum"
    assert [row["dims"]["k"] for row in made["rows"]] == [8192, 16384, 7168, 1536, 7168, 8192, 512, 1536, 8192, 1536]
    third = made["rows"][2]
    assert third["us"] == 2.010  # of 2,010 ns, the last column
    assert third["tensor_pct"] == 2008
    assert third["short_scoreboard_stalls"] == 2001


def test_launches_that_are_missing_are_told(tmp_path):
    (tmp_path / "ncu.csv").write_text(log(3))
    done = CliRunner().invoke(counters.main, [str(tmp_path / "ncu.csv")])
    assert done.exit_code == 1
    assert "has 3 launches, expected 10" in done.output


@pytest.mark.parametrize("arguments", [[], ["none.csv"]])
def test_a_log_is_needed(arguments):
    assert CliRunner().invoke(counters.main, arguments).exit_code == 2
