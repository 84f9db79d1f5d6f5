"""Our kernels of sm_120a on the emulator: every format, layout and kind of result, tails in every dimension."""

from __future__ import annotations

import pytest

from tests.emulator.running import by_turns, run_on
from tests.emulator.sm120_programs import PROGRAMS, k_of, limit

TARGET = "sm_120a"

# (m, n, bytes of a row, dims fixed at compile time) by seed: below one tile, tails of every kind, more tiles than CTAs
SIZES = [
    (5, 3, 20, ()),
    (1, 8, 150, ("n", "k")),
    (66, 72, 256, ("m", "n", "k")),
    (65, 136, 288, ("n", "k")),
    (33, 77, 132, ()),
    (129, 65, 96, ("n", "k")),
    (16, 72, 272, ("n", "k")),
    (140, 40, 384, ("k",)),
]


@pytest.mark.once("name", "seed")
@pytest.mark.parametrize(("name", "seed"), by_turns(PROGRAMS, len(SIZES)))
def test_program(name: str, seed: int) -> None:
    source = PROGRAMS[name]
    m, n, row, fixed = SIZES[seed]
    dims = {"m": m, "n": n, "k": k_of(source, row)}
    ran = run_on(source, dims, fixed, seed, limit(source), target=TARGET, times=1 if seed % 4 else 2)
    assert ran.stats.counts["shared wavefronts"] > 0
    assert ran.stats.counts["bank conflicts"] == 0
