"""The commands that README.md and the help texts promise do run."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from scalec.cli import main
from tests.cli.cli_programs import FP8

ROOT = Path(__file__).parents[2]


def command(name: str) -> str:
    """The indented line after `<!-- command: NAME -->`."""
    _, _, rest = (ROOT / "README.md").read_text().partition(f"<!-- command: {name} -->\n")
    return next(line.strip() for line in rest.splitlines() if line.startswith("    "))


def test_the_run_command(invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    *install, last = command("run").split(" && ")
    assert install == ["python3 -m venv .venv", ".venv/bin/pip install -q -e ."]
    program, *arguments = shlex.split(last)
    assert program == ".venv/bin/scalec"
    assert arguments[:2] == ["run", FP8]
    monkeypatch.setenv("SCALEC_DEVICE", "emulator")
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[1].startswith("C ")


def test_the_test_command_is_what_ci_runs():
    assert command("test").endswith(".venv/bin/pytest -q -n 2")
    assert "<!-- command: test -->" in (ROOT / ".ci" / "run").read_text()


def examples() -> list[str]:
    """Each line of a help text that is a compile command without a file or a pipe."""
    text = main.commands["compile"].help or ""
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("scalec compile 'C[")]
    readme = re.findall(r"^    (scalec compile .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    return [*lines, *readme]


@pytest.mark.parametrize("line", examples())
def test_examples(invoke, line):
    result = invoke(*shlex.split(line)[1:])
    assert result.exit_code == 0, result.stderr


def test_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"gpu", "torch", "sass", "test"} <= set(project["optional-dependencies"])
    assert all(re.search(r"[<>=]=", line) for line in project["dependencies"])
