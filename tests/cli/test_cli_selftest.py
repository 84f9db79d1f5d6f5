"""scalec selftest, typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("on_the_emulator")


def test_the_command_prints_a_table_and_writes_json(invoke: Callable, tmp_path: Path) -> None:
    path = tmp_path / "selftest.json"
    result = invoke("selftest", "--target", "sm_120a", "--only", "e2m1 result", "--jobs", "1", "-o", str(path))
    assert result.exit_code == 0, result.stderr
    assert "1 of 1 schedule" in result.stdout
    made = json.loads(path.read_text())
    assert (made["pass"], made["target"], made["device"]) == (True, "sm_120a", "the emulator (sm_120a)")
    assert [(k["name"], k["kind"]) for k in made["kernels"]] == [("e2m1 result", "pass")]


def test_a_name_that_no_program_has(invoke: Callable) -> None:
    result = invoke("selftest", "--target", "sm_120a", "--only", "nvfp5")
    assert result.exit_code == 1
    assert "no program has 'nvfp5' in its name" in result.stderr


def test_a_run_that_checks_nothing_is_no_success(invoke: Callable) -> None:
    result = invoke("selftest", "--target", "sm_90a", "--only", "e3m2 x e2m3", "--jobs", "1")
    assert result.exit_code == 1
    assert "nothing was checked: sm_90a has none of" in result.stderr
