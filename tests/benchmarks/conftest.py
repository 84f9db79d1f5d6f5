"""What only the thorough tests of the benchmarks import."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Of usual runs modules that import Triton, half a second in each process, for thorough tests alone."""
    return (collection_path.name.endswith("_triton.py") and "not thorough" in config.option.markexpr) or None
