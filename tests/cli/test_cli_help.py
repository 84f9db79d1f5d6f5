"""`--help` of every command: examples, and fast."""

from __future__ import annotations

import resource
import subprocess
import sys

import click
import pytest

from scalec import __version__
from scalec.cli import main


def commands(group: click.Group = main, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path]
    for name, command in group.commands.items():
        found += commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return found


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_help_has_examples(invoke, path):
    result = invoke(*path, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"scalec {' '.join(path)}".strip() in result.stdout
    assert result.stderr == ""


def test_every_command_is_there():
    assert {p[0] for p in commands() if p} == {
        "bench",
        "cache",
        "compile",
        "emulate",
        "env",
        "explain",
        "grad",
        "opt",
        "run",
        "selftest",
        "targets",
        "tune",
    }


def test_version(invoke):
    assert invoke("--version").stdout == f"scalec {__version__}\n"


def test_as_a_module():
    done = subprocess.run([sys.executable, "-m", "scalec", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"scalec {__version__}\n")


def test_no_arguments_is_misuse(invoke):
    assert invoke().exit_code == 2


def test_unknown_command_is_misuse(invoke):
    result = invoke("nope")
    assert result.exit_code == 2
    assert "nope" in result.stderr
    assert result.stdout == ""


def test_help_imports_nothing_heavy():
    heavy = ["torch", "torch_mlir", "llvmlite", "lark", "numpy", "rich", "cuda", "scalec.frontend", "scalec.passes"]
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from scalec.cli import main\n"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0\n"
        f"print([name for name in {heavy} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_is_fast():
    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def seconds() -> float:
        start = used()
        subprocess.run([sys.executable, "-m", "scalec.cli", "--help"], capture_output=True, check=True)
        return used() - start

    # of CPU time, the best of several: other tests run beside this one, and clocks differ by 1.5 from minute to minute
    assert any(seconds() < 0.3 for _ in range(20))
