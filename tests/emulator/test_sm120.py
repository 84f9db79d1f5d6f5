"""Our kernels of sm_120a on the emulator: every format, layout and kind of result, tails in every dimension."""

from __future__ import annotations

import pytest

from tests.emulator.running import run_on
from tests.emulator.sm120_programs import PROGRAMS, k_step, limit

TARGET = "sm_120a"

# (m, n, k, dims fixed at compile time) by seed: below one tile, tails of every kind, more tiles than CTAs
SIZES = [
    (5, 3, 20, ()),
    (1, 8, 150, ("n", "k")),
    (66, 72, 256, ("m", "n", "k")),
    (65, 136, 328, ("n", "k")),
    (33, 77, 132, ()),
    (129, 65, 96, ("n", "k")),
    (16, 72, 272, ("n", "k")),
    (140, 40, 400, ("k",)),
]


@pytest.mark.parametrize("seed", range(len(SIZES)))
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, seed: int) -> None:
    source = PROGRAMS[name]
    m, n, k, fixed = SIZES[seed]
    step = k_step(source)
    k = -(-(k // 2 if "tf32" in source else k) // step) * step
    run_on(source, {"m": m, "n": n, "k": k}, fixed, seed, limit(source), target=TARGET, times=2 - seed % 2)
