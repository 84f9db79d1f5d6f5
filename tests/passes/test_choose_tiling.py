"""The cost model names the tile that was fastest on the GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalec.errors import ScheduleError
from scalec.ir.schedule import Schedule
from tests.passes.scale_programs import text


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        # fastest of the tiles tried; one H200, 2026-11-21, interleaved, median of 48
        ((4096, 7168, 2048), (256, 128, 128)),
        ((4096, 4096, 7168), (256, 128, 128)),
        ((4096, 24576, 1536), (192, 128, 128)),
        ((4096, 7168, 16384), (256, 128, 128)),
        ((8192, 8192, 8192), (192, 128, 128)),
        ((4096, 2112, 7168), (192, 128, 128)),
    ],
)
def test_measured_shapes(decide: Callable[..., Schedule], shape: tuple[int, int, int], tile: tuple[int, ...]) -> None:
    schedule = decide(text(*shape))
    assert schedule.tile == tile
    assert schedule.cluster == (1, 2)
    assert schedule.promote == 128
    assert schedule.warpgroups == (3 if tile[0] == 192 else 2)
    assert schedule.stages == (4 if tile[0] == 192 else 3)


def test_every_shape_gets_a_schedule_that_holds(decide: Callable[..., Schedule]) -> None:
    """Whatever is left to the compiler passes its own checks, for any size and granularity that is supported."""
    for m in ("?", 1, 64, 65, 300, 5000):
        for n in ("?", 8, 40, 2112, 7176):
            for program in (
                text(m, n, 7168),
                text(m, n, 7168, b_block="1, 128", layout="col"),
                text(m, n, 7168, a_block=None, b_block=None, element="bf16"),
                text(m, n, 7168, result="f32", a_block="1, -1", b_block="64, 256"),
            ):
                decide(program)


def test_few_rows_take_one_warpgroup(decide: Callable[..., Schedule]) -> None:
    schedule = decide(text(m=48))
    assert schedule.tile is not None
    assert schedule.tile[0] == 64
    assert schedule.warpgroups == 1


def test_a_decided_number_of_warpgroups_limits_the_tiles(decide: Callable[..., Schedule]) -> None:
    assert decide(text(), warpgroups=3).tile == (192, 128, 128)


def test_nothing_fits(decide: Callable[..., Schedule]) -> None:
    with pytest.raises(ScheduleError, match="no tile fits sm_90a with stages=20"):
        decide(text(m=4096), stages=20, warpgroups=3)
