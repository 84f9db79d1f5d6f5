"""The main job at real sizes: FP8 1x128 by 128x128, with and without a fused epilogue; bf16; per-row FP8.

The expected values are float64 products on the GPU of inputs that this file quantises and dequantises itself.
Inputs have scales that differ by row, by 64-row chunk and by K block, over several powers of two.
"""

from __future__ import annotations

import pytest

import scalec

pytestmark = pytest.mark.gpu

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
SHAPES = [  # (N, K) of DeepSeek-V3's projections, and one each for many columns and for short K
    (2112, 7168),
    (24576, 1536),
    (32768, 512),
    (7168, 16384),
    (4096, 7168),
    (7168, 2048),
    (5120, 8192),
]
ROWS = [1, 7, 64, 128, 200, 4000, 4096]
E4M3_MAX = 448.0


def diff(x, y) -> float:
    x, y = x.double(), y.double()
    return float(1 - 2 * (x * y).sum() / (x * x + y * y).sum())


def spread(torch, *shape: int):
    """Powers of two from 2^-4 to 2^4, one for each block."""
    return torch.exp2(torch.randint(-4, 5, shape, device="cuda").double())


def magnitudes(torch, rows: int, blocks: int):
    """Magnitude of each row and K block: its own, its 64-row chunk's and its K block's powers of two."""
    chunks = spread(torch, -(-rows // 64), blocks).repeat_interleave(64, 0)[:rows]
    return spread(torch, rows, 1) * chunks * spread(torch, 1, blocks)


def quantised(torch, m: int, n: int, k: int):
    """(A, B, A_scale, B_scale), the real numbers they came from, and the float64 numbers they stand for."""
    torch.manual_seed(m + n + k)
    kb, nb = k // 128, -(-n // 128)
    a = (torch.randn(m, kb, 128, device="cuda").double() * magnitudes(torch, m, kb)[..., None]).float()
    b = torch.zeros(nb * 128, kb, 128, device="cuda")
    b[:n] = (
        torch.randn(n, kb, 128, device="cuda")
        * magnitudes(torch, nb, kb).float().repeat_interleave(128, 0)[:n, :, None]
    )
    sa = a.abs().amax(2) / E4M3_MAX
    sb = b.view(nb, 128, kb, 128).abs().amax((1, 3)) / E4M3_MAX
    qa = (a / sa[..., None]).to(torch.float8_e4m3fn)
    per_row = sb.repeat_interleave(128, 0)[:n, :, None]
    qb = (b[:n] / per_row).to(torch.float8_e4m3fn)
    da = (qa.double() * sa.double()[..., None]).view(m, k)
    db = (qb.double() * per_row.double()).view(n, k)
    return (qa.view(m, k), qb.view(n, k), sa, sb), (a.view(m, k), b[:n].view(n, k)), (da, db)


def run_twice(torch, kernel, guarded, shape, dtype, *arguments):
    """The result of two runs into NaN between guards: bit-equal, complete, guards intact."""
    results = []
    for _ in range(2):
        out, intact = guarded(shape, dtype)
        kernel(*arguments, out=out)
        torch.cuda.synchronize()
        assert intact(), "bytes outside the result were written"
        assert not out.isnan().any(), "elements were not written"
        results.append(out.clone())
    assert torch.equal(*results), "two runs differ"
    return results[0]


@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_fp8_blocks(torch, guarded, n: int, k: int) -> None:
    kernel = scalec.compile(FP8, dims={"n": n, "k": k})
    for m in ROWS:
        arguments, real, exact = quantised(torch, m, n, k)
        got = run_twice(torch, kernel, guarded, (m, n), torch.bfloat16, *arguments)
        assert diff(got, exact[0] @ exact[1].t()) < 3e-6, f"m = {m}"
        assert diff(got, real[0].double() @ real[1].double().t()) < 1e-3, f"m = {m}"


@pytest.mark.parametrize("m", ROWS)
def test_fp8_blocks_for_one_m(torch, guarded, m: int) -> None:
    """M fixed too: the tiles of small M."""
    kernel = scalec.compile(FP8, dims={"m": m, "n": 2112, "k": 7168})
    arguments, _, exact = quantised(torch, m, 2112, 7168)
    got = run_twice(torch, kernel, guarded, (m, 2112), torch.bfloat16, *arguments)
    assert diff(got, exact[0] @ exact[1].t()) < 3e-6


@pytest.mark.parametrize("m", ROWS)
def test_bias_and_gelu(torch, guarded, m: int) -> None:
    n, k = 7168, 2048
    kernel = scalec.compile("C[m,n] = gelu(A[m,k]@B[n,k] scale(1x128,128x128) + bias[n])", dims={"n": n, "k": k})
    arguments, _, exact = quantised(torch, m, n, k)
    product = exact[0] @ exact[1].t()
    bias = (torch.randn(n, device="cuda") * product.abs().mean()).bfloat16()
    got = run_twice(torch, kernel, guarded, (m, n), torch.bfloat16, *arguments, bias)
    assert diff(got, torch.nn.functional.gelu(product + bias.double())) < 3e-6


@pytest.mark.parametrize("m", ROWS)
@pytest.mark.parametrize(("n", "k"), [(2112, 7168), (7168, 2048)])
def test_bf16(torch, guarded, m: int, n: int, k: int) -> None:
    kernel = scalec.compile("C[m,n] = A[m,k] @ B[n,k]", dims={"n": n, "k": k})
    torch.manual_seed(m)
    a = (torch.randn(m, k, device="cuda") * spread(torch, m, 1).float()).bfloat16()
    b = (torch.randn(n, k, device="cuda") * spread(torch, n, 1).float()).bfloat16()
    got = run_twice(torch, kernel, guarded, (m, n), torch.bfloat16, a, b)
    assert diff(got, a.double() @ b.double().t()) < 3e-6


@pytest.mark.parametrize("m", ROWS)
@pytest.mark.parametrize(("n", "k"), [(2112, 7168), (7168, 2048)])
def test_fp8_per_row(torch, guarded, m: int, n: int, k: int) -> None:
    kernel = scalec.compile("C[m,n] = A[m,k]@B[n,k] scale(1xk,1xk)", dims={"n": n, "k": k})
    (a, b, *_), _, _ = quantised(torch, m, n, k)
    sa, sb = spread(torch, m, 1).float() / 3, spread(torch, n, 1).float() / 7
    got = run_twice(torch, kernel, guarded, (m, n), torch.bfloat16, a, b, sa, sb)
    assert diff(got, (a.double() @ b.double().t()) * sa.double() * sb.double().t()) < 3e-6
