"""Tiles cut into shares on a GPU: the numbers, bit-equal from launch to launch, in graphs and beside other work."""

from __future__ import annotations

import pytest

from tests.gpu.launches import compiled, need_right, need_same_in_a_graph, need_same_on_two_streams

pytestmark = pytest.mark.gpu

SCHEDULES = [
    "stream_k=1",
    "stream_k=1, tile=256x128x128, cluster=2x1",
    "stream_k=1, tile=192x128x128, cluster=1x2",
    "stream_k=1, tile=64x32x128, scale_path=thread",
]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_fp8(torch, guarded, schedule: str) -> None:
    need_right(torch, guarded, schedule, [(4096, 2112, 7168), (2000, 520, 4096), (64, 2112, 7168), (129, 136, 1024)])


def test_in_a_graph(torch) -> None:
    need_same_in_a_graph(torch, *compiled(torch, SCHEDULES[1], 4096, 2112, 7168))


def test_beside_another_launch(torch) -> None:
    need_same_on_two_streams(torch, *compiled(torch, SCHEDULES[1], 4096, 2112, 7168))
