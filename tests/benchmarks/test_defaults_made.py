"""Entries of the tuning database out of timed schedules: what beats the compiler's choice, and no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.defaults import main
from benchmarks.schedules import FIELDS
from scalec import compiler
from scalec.measured import database

FP8, DIMS = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)", {"m": 16, "n": 7168, "k": 2048}
OTHER = ["1", "128x16x128", "1x1", "1", "memory"]


@pytest.mark.parametrize(("others", "left"), [((5.0, 4.0), [OTHER]), ((5.0, 4.9), []), ((5.0, 6.0), [])])
def test_a_shape_that_is_timed_again(tmp_path: Path, others: tuple[float, float], left: list[list[str]]) -> None:
    """First another schedule is faster by far, then as `others` says: the compiler's, and that one, in microseconds."""
    chosen = compiler.decide(FP8, "sm_90a", DIMS, None, tuned=False)[0].texts()
    own = [chosen[name] for name in FIELDS]
    assert own != OTHER
    facts = {"gpu": "G", "driver": "D", "date": "2026-11-22 00:00", "commit": "c", "expression": FP8}
    facts["columns"] = ["m", "n", "k", [*FIELDS, "us"]]
    for us, another in ((5.0, 3.0), others):
        timed = tmp_path / "timed.json"
        timed.write_text(json.dumps({**facts, "points": [[*DIMS.values(), [[*own, us], [*OTHER, another]]]]}))
        result = CliRunner().invoke(main, [str(timed), "-o", str(tmp_path / "database.json")])
        assert result.exit_code == 0, result.output
        found = [[e.schedule[name] for name in FIELDS] for e in database.read(tmp_path / "database.json")]
        assert found == ([OTHER] if another == 3.0 else left)


@pytest.mark.parametrize("fixed", ["", "memory"])
def test_parts_of_an_older_file_met_in_memory(tmp_path: Path, fixed: str) -> None:
    """So what the compiler takes, whose parts meet in a cluster, was not timed there; else the entry says where."""
    program, sizes = f"{FP8} with parts={fixed}" if fixed else FP8, {"m": 16, "n": 2112, "k": 7168}
    own = compiler.decide(program, "sm_90a", sizes, None, tuned=False)[0].texts()
    assert (own["parts"], own["split"] != "1") == (fixed or "cluster", True)
    older = FIELDS[:-1]
    facts = {"gpu": "G", "driver": "D", "date": "2026-11-21 00:00", "commit": "c", "expression": program}
    facts["columns"] = ["m", "n", "k", [*older, "us"]]
    points = [[*sizes.values(), [[*(own[name] for name in older), 5.0], ["1", "64x32x128", "1x1", "2", 3.0]]]]
    timed = tmp_path / "timed.json"
    timed.write_text(json.dumps({**facts, "points": points}))
    result = CliRunner().invoke(main, [str(timed), "-o", str(tmp_path / "database.json")])
    assert result.exit_code == 0, result.output
    found = [e.schedule["parts"] for e in database.read(tmp_path / "database.json")]
    assert found == (["memory"] if fixed else [])
