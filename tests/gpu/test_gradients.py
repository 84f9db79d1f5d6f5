"""Ops that autograd goes through, on a GPU, beside float64: operands quantised within, and gates of one tensor."""

from __future__ import annotations

from typing import Any

import pytest

import scalec

pytestmark = pytest.mark.gpu

FP8 = "Y[m,n] = X[m,k] @ W[n,k] scale(1x128,128x128)"
GIVEN = {"X": "bf16", "W": "f32"}
M, N, K = 200, 384, 512


def of(place: str, shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Rows whose magnitudes differ."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(shape, generator=generator) * torch.exp(torch.randn((*shape[:-1], 1), generator=generator))
    return rows.to(place, getattr(torch, dtype)).requires_grad_()


def off(found: Any, exact: Any) -> float:
    return float((found.detach().double() - exact.detach()).norm() / exact.detach().norm())


def test_operands_that_are_quantised_within(place: str) -> None:
    """Forward and backward, without gradients, and as torch.compile calls it: the bits of two calls."""
    import torch

    torch._dynamo.reset()
    layer = scalec.differentiable(FP8, "sm_90a", {"n": N, "k": K}, quantize="deepseek_v3", quantized_from=GIVEN)
    x, w = of(place, (M, K), "bfloat16", 1), of(place, (N, K), "float32", 2)
    dy = of(place, (M, N), "bfloat16", 3).detach()
    compiled: Any = torch.compile(lambda *tensors: layer(*tensors), fullgraph=True, backend="aot_eager")
    runs = []
    for call in (layer, layer, compiled, compiled):
        y = call(x, w)
        runs.append((y.detach(), *torch.autograd.grad(y, (x, w), dy)))
        with torch.no_grad():
            assert torch.equal(call(x, w), y)
    assert all(torch.equal(*pair) for other in runs[1:] for pair in zip(runs[0], other, strict=True))
    y, dx, dw = runs[0]
    assert (y.dtype, dx.dtype, dw.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)
    exact = x.double() @ w.double().T, dy.double() @ w.double(), dy.double().T @ x.double()
    assert all(off(*pair) < 0.05 for pair in zip((y, dx, dw), exact, strict=True))
    (q, p), (r, s) = scalec.quantize(x.detach(), "1x128"), scalec.quantize(w.detach(), "128x128")
    assert torch.equal(y, scalec.compile(FP8, "sm_90a", {"n": N, "k": K})(q, r, p, s))


GATES = {
    "halves": ("W[n,k]", "W[n+size(n),k]", lambda w: w.chunk(2)),
    "by turns": ("W[2*n,k]", "W[2*n+1,k]", lambda w: (w[::2], w[1::2])),
}


@pytest.mark.parametrize("name", GATES)
def test_gates_of_one_tensor(place: str, name: str) -> None:
    import torch

    gate, up, parts = GATES[name]
    layer = scalec.differentiable(f"G[m,n] = X[m,k] @ {gate}; U[m,n] = X[m,k] @ {up}; H[m,n] = silu(G)*U", "sm_90a")
    x, w = of(place, (M, K), "bfloat16", 1), of(place, (2 * N, K), "bfloat16", 2)
    dh = of(place, (M, N), "bfloat16", 3).detach()
    exact = [t.detach().double().requires_grad_() for t in (x, w)]
    one, other = (exact[0] @ part.T for part in parts(exact[1]))
    wanted = torch.nn.functional.silu(one) * other
    runs = []
    for _ in range(2):
        h = layer(x, w)
        runs.append((h.detach(), *torch.autograd.grad(h, (x, w), dh)))
    assert all(torch.equal(*pair) for pair in zip(*runs, strict=True))
    found = runs[0]
    assert off(found[0], wanted) < 4e-3
    assert all(off(*p) < 1.2e-2 for p in zip(found[1:], torch.autograd.grad(wanted, exact, dh.double()), strict=True))
