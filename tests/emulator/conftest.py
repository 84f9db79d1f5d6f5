"""What tests of kernels in the emulator run under."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from scalec.runtime import cache
from tests.fuzz import gpu
from tests.fuzz.running import without_ptxas


@pytest.fixture(autouse=True)
def ptx_alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The emulator runs PTX. ptxas, a sixth of a usual run's time, sees the programs of examples/, of tests/lowering
    and tests/cli, and here of cases that are thorough or marked `assembled`, or run beside a GPU."""
    if gpu.BESIDE or any(request.node.get_closest_marker(x) for x in ("assembled", "thorough")):
        yield
        return
    monkeypatch.setenv("SCALEC_CACHE_DIR", f"{cache.directory()}/ptx")  # others look for whole kernels
    with without_ptxas():
        yield
