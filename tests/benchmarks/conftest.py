"""What only the thorough tests of the benchmarks import; the ptxas whose code is counted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scalec import env


@pytest.fixture
def toolchain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ptxas on PATH, where there is one."""
    on_path = shutil.which("ptxas")
    if on_path is not None and not env.PTXAS.get():
        monkeypatch.setenv(env.PTXAS.name, on_path)


@pytest.fixture
def triton_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Of usual runs modules that import Triton, half a second in each process, for thorough tests alone."""
    return (collection_path.name.endswith("_triton.py") and "not thorough" in config.option.markexpr) or None
