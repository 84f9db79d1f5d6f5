"""docs/your_kernels.md: its kernel, as nvcc 13.0 compiled it for sm_90a, gets the verdict that the page shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PTX = (ROOT / "tests/emulator/data/reverse_without_barrier.ptx").read_text()
ARGUMENTS = ("--block", "256", "--arg", "iota:f32[200]", "--arg", "out:f32[200]", "--arg", "200")


def test_the_page_shows_what_is_said(invoke: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reverse.ptx").write_text(PTX)
    result = invoke("emulate", "reverse.ptx", *ARGUMENTS)
    assert result.exit_code == 1
    page = (ROOT / "docs/your_kernels.md").read_text()
    for line in result.stderr.splitlines():
        assert f"    {line}\n" in page


def test_with_the_barrier_there_is_none(invoke: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reverse.ptx").write_text(PTX.replace("not.b32", "bar.sync 0;\n\tnot.b32"))
    everybody = [a.replace("200", "256") for a in ARGUMENTS]  # no thread leaves before the barrier
    result = invoke("emulate", "reverse.ptx", *everybody, "--save", "1=y.npy")
    assert result.exit_code == 0, result.stderr
    assert np.array_equal(np.load("y.npy"), np.arange(256)[::-1])
