"""Weights that are reordered for registers, on a GPU: twice over memory of different bytes, between guards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec.runtime import emulated
from tests.emulator.running import LIMITS, launched
from tests.emulator.test_reordered_weights import MORE, OF_I4, PROGRAMS
from tests.gpu.test_row_statistics import made_up

pytestmark = pytest.mark.gpu

SIZES = ({"m": 80, "n": 144, "k": 384}, {"m": 1, "n": 272, "k": 384}, {"m": 1000, "n": 520, "k": 384})
"""Of one K, which kernels of reordered weights know."""


def need_right(here: Any, source: str, sizes: tuple[dict[str, int], ...]) -> None:
    """At each of the sizes, the largest ones on a GPU alone."""
    kernel = scalec.compile(source, "sm_90a", dims={"k": sizes[0]["k"]})
    for dims in sizes:
        if isinstance(here, emulated.EmulatedDevice) and dims["m"] > 300:
            continue
        values, expected = made_up(source.partition(" with ")[0], *dims.items())
        made, wanted = launched(kernel, values, expected, dims, 3)["C"].astype(np.float64), expected["C"]
        off = np.where(np.isnan(wanted), 0.0, made - wanted)  # nobody writes what is NaN
        limit = LIMITS["f32" if "C[m,n]:f32" in source else "bf16"]
        limit = max(
            limit, 5e-8 if ":e4m3 @" in source or ":mxfp8 @" in source else 0
        )  # of 128 products in fewer bits than f32 has
        assert (off**2).sum() <= 2 * limit * np.nansum(wanted**2), f"{dims}, {kernel.spec.schedule}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(here: Any, name: str) -> None:
    need_right(here, PROGRAMS[name], SIZES)


@pytest.mark.parametrize("tile", ["128x256x128", "192x64x128", "256x8x128", "128x128x128, cluster=2x1"])
def test_schedules(here: Any, tile: str) -> None:
    need_right(here, f"{OF_I4} with tile={tile}", SIZES)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_groups(here: Any, number: int) -> None:
    source, more = MORE[number]
    need_right(here, source, ({"m": 48, "n": 144, "k": 384, **more},))
