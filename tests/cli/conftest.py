"""Fixtures of the command-line tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scalec.cli import main


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel cache of this test's own."""
    monkeypatch.setenv("SCALEC_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.fixture
def invoke() -> Callable[..., Result]:
    """Calls `scalec ARGUMENTS` in process; an exception that is not an exit is raised."""

    def call(*arguments: str, input: str | bytes | None = None) -> Result:
        result = CliRunner().invoke(main, arguments, input=input)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def shell() -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Starts `scalec ARGUMENTS` as a process of its own."""

    def call(*arguments: str, **options) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([sys.executable, "-m", "scalec.cli", *arguments], capture_output=True, **options)

    return call
