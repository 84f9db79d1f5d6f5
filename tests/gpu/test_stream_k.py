"""Tiles cut into shares on a GPU: the numbers, bit-equal from launch to launch, in graphs and beside other work."""

from __future__ import annotations

import pytest

import scalec
from tests.gpu.test_dense import FP8, diff, quantised, run_twice

pytestmark = pytest.mark.gpu

SCHEDULES = [
    "stream_k=1",
    "stream_k=1, tile=256x128x128, cluster=2x1",
    "stream_k=1, tile=192x128x128, cluster=1x2",
    "stream_k=1, tile=64x32x128, scale_path=thread",
]
LAUNCHES = 100


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_fp8(torch, guarded, schedule: str) -> None:
    for m, n, k in [(4096, 2112, 7168), (2000, 520, 4096), (64, 2112, 7168), (129, 136, 1024)]:
        kernel = scalec.compile(f"{FP8} with {schedule}", dims={"n": n, "k": k})
        arguments, _, exact = quantised(torch, m, n, k)
        got = run_twice(torch, kernel, guarded, (m, n), torch.bfloat16, *arguments)
        assert diff(got, exact[0] @ exact[1].t()) < 3e-6, f"{(m, n, k)}, {kernel.spec.schedule}"
        assert all(torch.equal(kernel(*arguments), got) for _ in range(LAUNCHES))


def test_in_a_graph(torch) -> None:
    m, n, k = 4096, 2112, 7168
    arguments, _, _ = quantised(torch, m, n, k)
    kernel = scalec.compile(f"{FP8} with {SCHEDULES[1]}", dims={"n": n, "k": k})
    wanted = kernel(*arguments)
    out = torch.empty_like(wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(*arguments, out=out)
    for _ in range(LAUNCHES):
        out.zero_()
        graph.replay()
        assert torch.equal(out, wanted)


def test_beside_another_launch(torch) -> None:
    """Two streams fight for the SMs: clusters of one launch then begin while others of it are done."""
    m, n, k = 4096, 2112, 7168
    arguments, _, _ = quantised(torch, m, n, k)
    kernel = scalec.compile(f"{FP8} with {SCHEDULES[1]}", dims={"n": n, "k": k})
    wanted, found = kernel(*arguments), []
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(2)]
    for _ in range(LAUNCHES):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(kernel(*arguments))
    torch.cuda.synchronize()
    assert all(torch.equal(x, wanted) for x in found)
