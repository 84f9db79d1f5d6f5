"""benchmarks/plot.py, on results made up here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click import ClickException
from click.testing import CliRunner

from benchmarks import plot
from scalec.bench import method, provenance, report
from scalec.bench.result import OURS, Row, Timing

BASE = "torch._scaled_mm block (cuBLASLt)"


def row(m: int, ours: float, base: float, *, held: float | None = None, third: float | None = None, **more: Any) -> Row:
    timings = {OURS: Timing((ours,)), BASE: Timing((base,))} | ({"Triton": Timing((third,))} if third else {})
    sustained = {name: Timing((held * t.median,)) for name, t in timings.items()} if held else {}
    return Row({"m": m, "n": 256, "k": 512}, 2 * m * 256 * 512, 1, "", 2, timings, {}, sustained, **more)


@pytest.fixture
def text(monkeypatch):
    """A result of several shapes, as the bench writes it."""
    machine = {"date": "2026-11-21 10:00", "gpu": "a GPU", "driver": "1", "torch": "2", "cuda": "13"}
    monkeypatch.setattr(provenance, "of_machine", lambda: machine)

    def make(*rows: Row) -> str:
        return report.document(rows, "C = A@B", "sm_90a", method.summary(3, 2, 0.1), {"commit": "abc"})

    return make


def test_ratios_over_the_baseline_in_the_order_of_m(text):
    found = plot.read(text(row(64, 10, 15, third=30), row(1, 10, 20, third=20, label="a layer")))
    assert (found.baseline, found.names, found.modes) == (BASE, (OURS, "Triton"), ("burst",))
    assert [s.m for s in found.shapes] == [1, 64]
    assert plot.ratios(found, OURS, "burst") == [2.0, 1.5]
    assert plot.ratios(found, "Triton", "burst") == [1.0, 0.5]
    assert plot.mean(found, OURS, "burst") == pytest.approx(3**0.5)
    assert found.shapes[0].label == "a layer"
    assert "abc" in found.title


def test_a_contender_that_some_shapes_lack_has_no_mean(text):
    found = plot.read(text(row(1, 10, 20, third=40), row(2, 10, 20)))
    assert plot.ratios(found, "Triton", "burst") == [0.5, None]
    assert plot.mean(found, "Triton", "burst") is None


def test_table(text):
    rows = (row(1, 10, 20, held=2, label="a layer", published={"DeepGEMM": 1.3}), row(2, 10, 20, held=2, third=40))
    lines = plot.table(plot.read(text(*rows))).splitlines()
    assert lines[0].startswith(f"Speed over {BASE}, burst / sustained; C = A@B")
    assert lines[2] == "| m, n, k | of | µs | TFLOP/s | scalec | Triton | DeepGEMM |"
    assert lines[4] == "| 1, 256, 512 | a layer | 10.0 / 20.0 | 0 / 0 | 2.00 / 2.00 |  | 1.30 |"
    assert lines[5] == "| 2, 256, 512 |  | 10.0 / 20.0 | 0 / 0 | 2.00 / 2.00 | 0.50 / 0.50 |  |"
    assert lines[6].startswith("| geometric mean |  |  |  | 2.00 / 2.00 |")
    assert len({line.count("|") for line in lines[2:]}) == 1


def test_burst_alone_has_no_slash(text):
    assert " / " not in plot.table(plot.read(text(row(1, 10, 20))))


@pytest.mark.parametrize("text_", ["", "{}", '{"shapes": [{}]}', "[]"])
def test_what_is_no_result(text_):
    with pytest.raises(ClickException, match="not a result"):
        plot.read(text_)


def test_a_result_without_contenders(text):
    alone = Row({"m": 1, "n": 1, "k": 1}, 2, 1, "", 2, {OURS: Timing((1.0,))}, {})
    with pytest.raises(ClickException, match="no contender"):
        plot.read(text(alone))


def test_recorded_results_can_be_read():
    for path in sorted((plot.Path(__file__).parents[2] / "benchmarks" / "results").glob("*-h200-*.json")):
        if "shapes" in json.loads(path.read_text()):
            assert plot.table(plot.read(path.read_text())).count("\n") > 4


@pytest.mark.thorough  # needs matplotlib, of the extra `check`: eight packages for one test
def test_figure(text, tmp_path):
    source, first, second = tmp_path / "r.json", tmp_path / "1.svg", tmp_path / "2.svg"
    rows = (row(1, 10, 20, held=2, third=30), row(64, 10, 20, held=3, published={"DeepGEMM": 1.3}))
    source.write_text(text(*rows))
    for path in (first, second):
        result = CliRunner().invoke(plot.main, [str(source), "-o", str(path)])
        assert result.exit_code == 0, result.output
    drawn = first.read_text()
    for said in ("block (cuBLASLt) = 1", OURS, "Triton", "DeepGEMM", "m=1", "m=64", "256×512", "speed, sustained"):
        assert said in drawn
    assert drawn == second.read_text()  # the same each time: a diff shows what changed


def test_misuse(tmp_path):
    assert CliRunner().invoke(plot.main, [str(tmp_path / "none.json"), "--table"]).exit_code == 2
    (tmp_path / "r.json").write_text("{}")
    assert CliRunner().invoke(plot.main, [str(tmp_path / "r.json")]).exit_code == 2
