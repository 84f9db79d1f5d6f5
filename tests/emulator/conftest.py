"""What tests of kernels in the emulator run under."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from scalec.runtime import cache
from tests.fuzz import gpu
from tests.fuzz.running import without_ptxas


@pytest.fixture(autouse=True)
def ptx_alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The emulator runs PTX. What ptxas makes of it, a sixth of a usual run's time, is made of the programs of examples/
    and in tests/lowering and tests/cli; here of cases that are thorough or marked `assembled`, and beside a GPU."""
    if gpu.BESIDE or any(request.node.get_closest_marker(x) for x in ("assembled", "thorough")):
        yield
        return
    monkeypatch.setenv("SCALEC_CACHE_DIR", f"{cache.directory()}/ptx")  # others look for whole kernels
    with without_ptxas():
        yield
