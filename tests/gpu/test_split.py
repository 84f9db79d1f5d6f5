"""K split on a GPU: the numbers, bit-equal from launch to launch, in CUDA graphs and on two streams at once."""

from __future__ import annotations

import pytest

import scalec
from tests.gpu.test_dense import FP8, diff, quantised, run_twice

pytestmark = pytest.mark.gpu

SCHEDULES = ["split=2", "split=7", "split=4, tile=128x64x128, cluster=2x1", "split=3, scale_path=thread"]
LAUNCHES = 100


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_fp8(torch, guarded, schedule: str) -> None:
    for m, n, k in [(64, 2112, 7168), (2000, 520, 4096), (1, 136, 1024)]:
        kernel = scalec.compile(f"{FP8} with {schedule}", dims={"n": n, "k": k})
        arguments, _, exact = quantised(torch, m, n, k)
        got = run_twice(torch, kernel, guarded, (m, n), torch.bfloat16, *arguments)
        assert diff(got, exact[0] @ exact[1].t()) < 3e-6, f"{(m, n, k)}, {kernel.spec.schedule}"
        assert all(torch.equal(kernel(*arguments), got) for _ in range(LAUNCHES))


def test_a_first_call_on_a_stream_may_be_captured(torch) -> None:
    m, n, k = 64, 2112, 7168
    arguments, _, _ = quantised(torch, m, n, k)
    kernel = scalec.compile(f"{FP8} with split=4", dims={"n": n, "k": k})
    wanted = kernel(*arguments)
    out = torch.empty_like(wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # on a stream of its own
        kernel(*arguments, out=out)
    for _ in range(LAUNCHES):
        out.zero_()
        graph.replay()
        assert torch.equal(out, wanted)


def test_two_streams_at_once(torch) -> None:
    m, n, k = 64, 2112, 7168
    arguments, _, _ = quantised(torch, m, n, k)
    kernel = scalec.compile(f"{FP8} with split=4", dims={"n": n, "k": k})
    wanted, found = kernel(*arguments), []
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(2)]
    for _ in range(LAUNCHES):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(kernel(*arguments))
    torch.cuda.synchronize()
    assert all(torch.equal(x, wanted) for x in found)
