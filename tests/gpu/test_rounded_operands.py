"""Operands whose elements times scales are rounded to 16 bits, on a GPU: twice over memory of different bytes, between
guards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec.runtime import emulated
from tests.emulator.running import LIMITS, launched
from tests.emulator.test_rounded_operands import GPTQ, MORE, PROGRAMS
from tests.gpu.test_row_statistics import made_up

pytestmark = pytest.mark.gpu

SIZES = ({"m": 80, "n": 144, "k": 416}, {"m": 1, "n": 272, "k": 160}, {"m": 1000, "n": 520, "k": 1056})


def need_right(here: Any, source: str, sizes: tuple[dict[str, int], ...]) -> None:
    """At each of the sizes, the largest ones on a GPU alone."""
    kernel = None
    for dims in sizes:
        if isinstance(here, emulated.EmulatedDevice) and dims["m"] > 300:
            continue
        kernel = kernel or scalec.compile(source, "sm_90a")
        values, expected = made_up(source.partition(" with ")[0], *dims.items())
        made, wanted = launched(kernel, values, expected, dims, 3)["C"].astype(np.float64), expected["C"]
        off = np.where(np.isnan(wanted), 0.0, made - wanted)  # nobody writes what is NaN
        limit = LIMITS["f32" if "C[m,n]:f32" in source else "bf16"]
        assert (off**2).sum() <= 2 * limit * np.nansum(wanted**2), f"{dims}, {kernel.spec.schedule}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(here: Any, name: str) -> None:
    need_right(here, PROGRAMS[name], SIZES)


@pytest.mark.parametrize("tile", ["128x128x64, swap=1, cluster=2x1", "128x128x64, convert=shared", "64x8x64, swap=1"])
def test_schedules(here: Any, tile: str) -> None:
    need_right(here, f"{GPTQ} with tile={tile}", SIZES)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_groups(here: Any, number: int) -> None:
    source, more, _ = MORE[number]
    need_right(here, source, ({"m": 48, "n": 144, "k": 160, **more},))
