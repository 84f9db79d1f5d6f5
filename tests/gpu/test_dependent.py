"""Launches that begin before the one before them has ended: a chain in which each reads what the last one wrote."""

from __future__ import annotations

import pytest

import scalec

pytestmark = pytest.mark.gpu

LINKS = 60


def chain(torch, dependent: int, program: str, n: int, split: int, captured: bool):
    """The last of LINKS products, each by the same B, between two buffers in turn: each launch reads what the one
    before wrote, and overwrites what that one read."""
    settings = f" with dependent={dependent}, split={split}, swap=0, tile=64x64x64"
    kernel = scalec.compile(program + settings, dims={"n": n, "k": n})
    torch.manual_seed(n + split)
    b = torch.linalg.qr(torch.randn(n, n, device="cuda"))[0].bfloat16().contiguous()
    buffers = [torch.randn(96, n, device="cuda").bfloat16() for _ in range(2)]
    first = [x.clone() for x in buffers]

    def walk() -> None:
        for i in range(LINKS):
            kernel(buffers[i % 2], b, out=buffers[1 - i % 2])

    walk()  # loads the kernel, and makes its workspace
    for x, y in zip(buffers, first, strict=True):
        x.copy_(y)
    if captured:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            walk()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            walk()
        for x, y in zip(buffers, first, strict=True):
            x.copy_(y)
        graph.replay()
    else:
        walk()
    total = buffers[0].float().sum()  # torch's kernel follows ours
    torch.cuda.synchronize()
    return buffers[0].clone(), float(total)


@pytest.mark.parametrize("captured", [False, True], ids=["launched", "in a graph"])
@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize(
    "program", ["C[m,n] = A[m,k] @ B[n,k]", "C[m,n] += A[m,k] @ B[n,k]"], ids=["overwritten", "accumulated"]
)
@pytest.mark.parametrize("n", [512, 1024])
def test_a_chain_is_that_of_launches_one_after_the_other(
    torch, n: int, program: str, split: int, captured: bool
) -> None:
    wanted = chain(torch, 0, program, n, split, captured)
    for _ in range(5):
        got = chain(torch, 8, program, n, split, captured)
        assert torch.equal(got[0], wanted[0])
        assert got[1] == wanted[1]
