"""Several indices that lie one behind the other are walked as one, else by their coordinates: on a GPU."""

from __future__ import annotations

import pytest

import scalec

pytestmark = pytest.mark.gpu

DEVICE = "cuda"
N, K = 384, 512


@pytest.mark.parametrize(("b", "s"), [(64, 20), (64, 1), (1, 130), (5, 77)])
def test_rows_without_gaps_and_with_them(torch, b: int, s: int) -> None:
    """The same bits; a call that is made again by the quick path, between calls of other strides, has its own sizes."""
    kernel = scalec.compile("C[b,s,n] = A[b,s,k] @ W[n,k]", "sm_90a", dims={"n": N, "k": K})
    assert kernel.spec.launch.spans
    generator = torch.Generator(DEVICE).manual_seed(0)
    a = torch.randn(b, s, K, device=DEVICE, generator=generator).bfloat16()
    w = torch.randn(N, K, device=DEVICE, generator=generator).bfloat16()
    apart = torch.full((b, s + 1, K), float("nan"), device=DEVICE, dtype=torch.bfloat16)
    apart[:, :s] = a
    outs = [torch.full((b, s + gap, N), float("nan"), device=DEVICE, dtype=torch.bfloat16) for gap in (0, 1)]
    wanted = a.float() @ w.float().T
    for _ in range(3):
        outs[0].fill_(float("nan"))
        outs[1][:, :s].fill_(float("nan"))
        kernel(a, w, out=outs[0])
        kernel(apart[:, :s], w, out=outs[1][:, :s])
        assert torch.equal(outs[0], outs[1][:, :s])
        assert outs[1][:, s:].isnan().all()
        assert (outs[0].float() - wanted).abs().max() < 0.01 * wanted.abs().max()
