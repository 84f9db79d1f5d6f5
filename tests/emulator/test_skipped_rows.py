"""Rows that are skipped, by an index from memory or a range, in programs of several launches: each skips them."""

from __future__ import annotations

from typing import Any

import pytest

import scalec
from scalec.checking.launch import made_up
from scalec.runtime import emulated
from scalec.runtime.sequence import Sequence
from tests.emulator.running import TARGETS, launched

SKIPPED: dict[str, tuple[str, dict[str, int]]] = {
    "gathered": ("D[m,n]:e4m3 scale(1xn) = A[idx[m],k] @ B[n,k]", {"A_0": 50}),
    "blocks": ("D[m,n]:e5m2 scale(1xn:ue8m0@col) = A[m,k] @ B[e[m/16],n,k]", {"B_0": 3}),
    "both": (
        "T[m,n] = A[idx[m],k] @ B[e[m/16 + 1],n,k]; C[m,n] = T; D[m,n]:e4m3 scale(1xn) = relu(T)",
        {"A_0": 50, "B_0": 3},
    ),
    "gated": (
        "G[m,n] = X[idx[m],k] @ W[g,n,k] for m in off[g]:off[g+1]; U[m,n] = X[ idx[m] ,k] @ W[g,n+size(n),k] "
        "for m in off[g]:off[g+1]; D[m,n]:e4m3 scale(1xn) = silu(G) * U",
        {"X_0": 50, "g": 3},
    ),
    "batches": ("D[b,m,n]:e4m3 scale(1x1xn) = A[idx[b,m],k] @ B[b,n,k]", {"A_0": 50, "b": 2}),
    "an input": ("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k] + x[idx[m],n]", {"x_0": 5}),
    "by chance": ("D[m,n]:e4m3 scale(1xn) = stochastic(A[idx[m],k] @ B[n,k], s[0])", {"A_0": 50}),
    "along the sum": ("D[m,n]:e4m3 scale(1xn) = A[idx[k],m] @ B[k,n]", {"A_0": 50}),
    "scattered": ("D[idx[m],n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", {"D_0": 50}),
    "there and back": (
        "D[jdx[m],n]:e4m3 scale(1xn) = A[idx[m],k] @ B[g,n,k] for m in off[g]:off[g+1]",
        {"D_0": 50, "A_0": 45, "g": 3},
    ),
    "a masked temporary": ("T[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]; D[g,m,n]:e4m3 scale(1x1xn) = T", {"g": 3}),
}


@pytest.mark.once
@pytest.mark.parametrize("name", SKIPPED)
@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_are_skipped_are_so_by_each_launch(target: str, name: str) -> None:
    """Rows without an index, and those that lie in no range of a temporary, keep what they hold."""
    program, more = SKIPPED[name]
    sizes = {"m": 40, "n": 264, "k": 64} | more
    kernel = scalec.compile(program, target=target)
    assert isinstance(kernel, Sequence)
    assert set(kernel.spec.dims) == set(sizes)
    assert [(t.name, len(t.shape)) for t in kernel.between] == [("D_f32", 3 if "b" in more or "T[g" in program else 2)]
    values, expected = made_up(program, sizes, 3)
    kernel.fixed = emulated.EmulatedDevice(target)
    launched(kernel, values, expected, sizes, 3)


@pytest.mark.once
@pytest.mark.parametrize(
    ("program", "dims"),
    [
        ("Q[m,n]:e4m3 scale(1xn) = X[m,n] for m < rows[0]", {}),
        ("Q[idx[m],n]:e4m3 scale(1xn@col) = X[m,n]", {"Q_0": 60}),
        ("D[m,n]:e4m3 scale(1xn) = A[idx[m],k] @ B[g,n,k] for m in off[g]:off[g+1]", {"A_0": 50, "g": 3, "k": 16}),
        ("T[m,n] = X[m,n] for m < rows[0] else 0; Q[m,n]:e4m3 scale(1xn) = T", {}),
    ],
)
def test_rows_without_elements_have_scales_unless_they_are_skipped(program: str, dims: dict[str, int]) -> None:
    sizes = {"m": 40, "n": 0} | dims
    kernel = scalec.compile(program, target="sm_90a")
    values, expected = made_up(program, sizes, 3)
    kernel.fixed = emulated.EmulatedDevice("sm_90a")
    launched(kernel, values, expected, sizes, 3)


@pytest.mark.parametrize("bound", [False, True])
def test_rows_that_are_skipped_of_torch(bound: bool) -> None:
    torch = pytest.importorskip("torch")
    kernel = scalec.compile("D[m,n]:e4m3 scale(1xn) = A[idx[m],k] @ B[n,k]", "sm_90a")
    a, b = torch.randn(6, 64).bfloat16(), torch.randn(264, 64).bfloat16()
    index = torch.tensor([5, -1, 5, 0], dtype=torch.int32)
    outs = torch.zeros(4, 264).to(torch.float8_e4m3fn), torch.full((4, 1), 7.0)
    _ = kernel.bind(a, index, b, out=outs)() if bound else kernel(a, index, b, out=outs)
    values, scales = scalec.compile("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", "sm_90a")(a, b)
    for row, at in enumerate(index.tolist()):
        assert torch.equal(outs[0][row].float(), values[at].float() if at >= 0 else torch.zeros(264))
        assert outs[1][row] == (scales[at] if at >= 0 else 7)


@pytest.mark.thorough
def test_rows_that_are_skipped_by_several_kernels_of_a_launch() -> None:
    """Of a range of sizes, and traced, a kernel is chosen before there is memory for what its launch leaves."""
    torch = pytest.importorskip("torch")
    program = "D[g,m,n]:e4m3 scale(1x1xn) = A[g,m,k] @ B[n,k] for m < rows[g]"
    kernel = scalec.compile(program, "sm_90a", {"n": 264, "k": 64, "m": "1:64"})
    tensors = torch.randn(2, 20, 64).bfloat16(), torch.randn(264, 64).bfloat16(), torch.tensor([9, 0]).int()
    outs = [(torch.zeros(2, 20, 264).to(torch.float8_e4m3fn), torch.zeros(2, 20, 1)) for _ in range(2)]

    def run(x: Any, s: Any) -> Any:
        kernel(*tensors, out=(x, s))
        return s

    run(*outs[0])
    torch.compile(run, backend="eager")(*outs[1])
    assert outs[0][1].count_nonzero() == 9
    assert all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(*outs, strict=True))


def test_sizes_that_one_of_the_launches_knows() -> None:
    """The rows of what is gathered are no dimension of the second, those of what is scattered none of the first."""
    program = "D[jdx[m],n]:e4m3 scale(1xn) = A[idx[m],k] @ B[n,k]"
    kernel = scalec.compile(program, "sm_90a", {"A_0": 50, "D_0": 45, "k": 64})
    assert isinstance(kernel, Sequence)
    assert kernel.spec.dims == {"m": None, "n": None, "k": 64, "A_0": 50, "D_0": 45}
    with pytest.raises(scalec.SourceError, match="B_0"):
        scalec.compile(program, "sm_90a", {"B_0": 50})
