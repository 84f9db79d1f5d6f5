"""Operands of 4 bits with M or N contiguous, as AWQ has weights, on a GPU: twice over memory of different bytes,
between guards."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emulator.test_turned_words import AWQ, MORE, PROGRAMS
from tests.gpu.test_rounded_operands import need_right

pytestmark = pytest.mark.gpu

SIZES = ({"m": 80, "n": 160, "k": 416}, {"m": 1, "n": 272, "k": 160}, {"m": 1000, "n": 520, "k": 1056})


@pytest.mark.parametrize("name", [x for x in PROGRAMS if "e4m3" not in x and x != "both"])  # summed in f32
def test_program(here: Any, name: str) -> None:
    need_right(here, PROGRAMS[name], SIZES)


@pytest.mark.parametrize("tile", ["128x32x64, swap=1, cluster=2x1", "64x256x64, swap=0", "256x64x64, swap=1"])
def test_schedules(here: Any, tile: str) -> None:
    need_right(here, f"{AWQ} with tile={tile}", SIZES)


@pytest.mark.parametrize("number", [0, 6, 7])
def test_batches_and_groups(here: Any, number: int) -> None:
    source, more, _ = MORE[number]
    need_right(here, source, ({"m": 40, "n": 144, "k": 156, **more},))
