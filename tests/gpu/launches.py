"""Launches of one kernel over and over, whose CTAs meet in a workspace: each gives the same bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import scalec
from scalec.runtime.kernel import Kernel
from tests.gpu.test_dense import FP8, diff, quantised, run_twice

LAUNCHES = 100


def need_right(torch, guarded: Callable, schedule: str, sizes: Sequence[tuple[int, int, int]]) -> None:
    """At sizes (m, n, k): near the exact result, and each launch gives the bits of the first."""
    for m, n, k in sizes:
        kernel = scalec.compile(f"{FP8} with {schedule}", dims={"n": n, "k": k})
        arguments, _, exact = quantised(torch, m, n, k)
        got = run_twice(torch, kernel, guarded, (m, n), torch.bfloat16, *arguments)
        assert diff(got, exact[0] @ exact[1].t()) < 3e-6, f"{(m, n, k)}, {kernel.spec.schedule}"
        assert all(torch.equal(kernel(*arguments), got) for _ in range(LAUNCHES))


def compiled(torch, schedule: str, m: int, n: int, k: int) -> tuple[Kernel, Sequence]:
    """A kernel, and arguments."""
    return scalec.compile(f"{FP8} with {schedule}", dims={"n": n, "k": k}), quantised(torch, m, n, k)[0]


def need_same_in_a_graph(torch, kernel: Kernel, arguments: Sequence) -> None:
    """Captured on a stream of its own, where the kernel has not been called before."""
    wanted = kernel(*arguments)
    out = torch.empty_like(wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(*arguments, out=out)
    for _ in range(LAUNCHES):
        out.zero_()
        graph.replay()
        assert torch.equal(out, wanted)


def need_same_on_two_streams(torch, kernel: Kernel, arguments: Sequence) -> None:
    """Two streams fight for the SMs: clusters of one launch then begin while others of it are done."""
    wanted, found = kernel(*arguments), []
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(2)]
    for _ in range(LAUNCHES):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(kernel(*arguments))
    torch.cuda.synchronize()
    assert all(torch.equal(x, wanted) for x in found)
