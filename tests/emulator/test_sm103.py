"""sm_103a on the emulator: what sm_100a's lowering makes for it, one program of each kind of product."""

from __future__ import annotations

import pytest

from tests.emulator.running import k_of, limit, run_on
from tests.emulator.sm100_programs import PROGRAMS


@pytest.mark.once
@pytest.mark.parametrize("name", ["bf16", "mxfp8", "nvfp4", "f32 1x128, 128x128", "e4m3 x e2m1"])
def test_program(name: str) -> None:
    source = PROGRAMS[name]
    ran = run_on(source, {"m": 130, "n": 72, "k": k_of(source, 384)}, ("n", "k"), 1, limit(source), target="sm_103a")
    assert ran.stats.counts["bank conflicts"] == 0
