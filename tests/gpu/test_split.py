"""K split on a GPU: the numbers, bit-equal from launch to launch, in CUDA graphs and on two streams at once."""

from __future__ import annotations

import pytest

from tests.gpu.launches import compiled, need_right, need_same_in_a_graph, need_same_on_two_streams

pytestmark = pytest.mark.gpu

SCHEDULES = [
    "split=2",
    "split=7",
    "split=4, tile=128x64x128, cluster=2x1",
    "split=3, scale_path=thread",
    "split=2, parts=cluster, tile=128x64x128, cluster=1x1",
    "split=3, parts=cluster, tile=64x32x128, cluster=1x2",
    "split=8, parts=cluster, tile=64x48x128, cluster=1x1",
    "split=2, parts=cluster, tile=64x8x128, cluster=4x1, swap=1",
    "split=4, parts=columns, tile=64x64x128, cluster=1x1",
    "split=7, parts=columns, tile=128x48x128, cluster=2x1",
]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_fp8(torch, guarded, schedule: str) -> None:
    need_right(torch, guarded, schedule, [(64, 2112, 7168), (2000, 520, 4096), (1, 136, 1024)])


@pytest.mark.parametrize("schedule", ["split=35, tile=64x32x128", "split=56, tile=192x64x128, cluster=2x1"])
def test_by_steps(torch, guarded, schedule: str) -> None:
    need_right(torch, guarded, schedule, [(64, 2112, 7168), (500, 520, 7168)])


def test_a_first_call_on_a_stream_may_be_captured(torch) -> None:
    need_same_in_a_graph(torch, *compiled(torch, "split=4", 64, 2112, 7168))


@pytest.mark.parametrize("schedule", ["split=4", "split=4, parts=columns, tile=64x64x128, cluster=1x1"])
def test_two_streams_at_once(torch, schedule: str) -> None:
    need_same_on_two_streams(torch, *compiled(torch, schedule, 64, 2112, 7168))
