"""Grids: CTAs are made when they begin, and what no GPU launches is refused."""

from __future__ import annotations

import tracemalloc

import pytest

from scalec.emulator.findings import Finding
from scalec.emulator.launch import launch, load
from scalec.emulator.machine.memory import GlobalMemory
from scalec.emulator.machine.options import Options
from scalec.emulator.stats import Stats

COUNTS = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry count(.param .u64 at, .param .u32 most) .reqntid 32 {
  .reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .pred %p;
  ld.param.u64 %rd1, [at];
  ld.param.u32 %r1, [most];
  atom.global.add.u32 %r2, [%rd1], 1;
  setp.ge.u32 %p, %r2, %r1;
  @%p trap;
  ret;
}
"""


class Enough(Exception):
    pass


def test_ctas_of_a_large_grid_are_made_when_they_begin() -> None:
    """Ten million take no memory before the first; the test stops behind some."""
    memory = GlobalMemory()
    loaded = load(COUNTS, memory)
    counter = memory.allocate(4)
    counter.written[:] = True

    def stop(stats: Stats) -> None:
        raise Enough

    tracemalloc.start()
    with pytest.raises(Enough):
        launch(loaded, "count", (10_000_000, 1, 1), (32, 1, 1), [counter.base, 10**6], options=Options(progress=stop))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20e6


@pytest.mark.parametrize("grid", [(0, 1, 1), (-1, 1, 1), (1 << 31, 1, 1), (1, 65536, 1), (1, 1, 1 << 40)])
def test_no_gpu_launches_it(grid: tuple[int, int, int]) -> None:
    with pytest.raises(Finding, match="launched with a grid") as caught:
        launch(load(COUNTS, GlobalMemory()), "count", grid, (32, 1, 1), [0, 0])
    assert caught.value.kind == "resources"


@pytest.mark.parametrize("other", [{"block": (0, 1, 1)}, {"cluster": (0, 1, 1)}, {"shared_bytes": -1}])
def test_nothing_of_a_launch_is_negative(other: dict) -> None:
    with pytest.raises(Finding, match="launched with"):
        launch(load(COUNTS, GlobalMemory()), "count", (1, 1, 1), other.pop("block", (32, 1, 1)), [0, 0], **other)
