"""Schedules of every family: each must give the same numbers, whatever the compiler would have chosen."""

from __future__ import annotations

import pytest

import scalec
from tests.gpu.programs import BF16_SCHEDULES, FP8_SCHEDULES
from tests.gpu.test_dense import FP8, diff, quantised, run_twice

pytestmark = pytest.mark.gpu

SIZES = [(300, 1040, 2048), (1, 136, 512), (129, 2112, 1536), (1000, 264, 7168)]


@pytest.mark.parametrize("schedule", FP8_SCHEDULES)
def test_fp8(torch, guarded, schedule: str) -> None:
    for m, n, k in SIZES:
        kernel = scalec.compile(f"{FP8} with {schedule}", dims={"n": n, "k": k})
        arguments, _, exact = quantised(torch, m, n, k)
        got = run_twice(torch, kernel, guarded, (m, n), torch.bfloat16, *arguments)
        assert diff(got, exact[0] @ exact[1].t()) < 3e-6, f"{(m, n, k)}, {kernel.spec.schedule}"


@pytest.mark.parametrize("schedule", BF16_SCHEDULES)
def test_bf16(torch, guarded, schedule: str) -> None:
    for m, n, k in SIZES:
        kernel = scalec.compile(f"C[m,n] = A[m,k] @ B[n,k] with {schedule}", dims={"n": n, "k": k})
        torch.manual_seed(m)
        a, b = (torch.randn(rows, k, device="cuda").bfloat16() for rows in (m, n))
        got = run_twice(torch, kernel, guarded, (m, n), torch.bfloat16, a, b)
        assert diff(got, a.double() @ b.double().t()) < 3e-6, f"{(m, n, k)}, {kernel.spec.schedule}"


@pytest.mark.parametrize("schedule", ["promote=0", "promote=128", "promote=64, tile=128x128x64"])
def test_fp8_sums(torch, guarded, schedule: str) -> None:
    """How often sums leave the tensor core: it keeps fewer bits than FP32, so never leaving it costs accuracy."""
    m, n, k = 200, 520, 4096
    kernel = scalec.compile(f"C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3 with {schedule}", dims={"n": n, "k": k})
    (a, b, *_), _, _ = quantised(torch, m, n, k)
    got = run_twice(torch, kernel, guarded, (m, n), torch.float32, a, b)
    assert diff(got, a.double() @ b.double().t()) < (1e-5 if schedule == "promote=0" else 1e-7)


@pytest.mark.parametrize(
    "schedule",
    [
        "tile=128x128x128",
        "tile=128x128x128, panels=1, staged=1",
        "tile=256x128x128, panels=2, staged=1",
        "tile=256x64x128, staged=1",
        "tile=128x96x128, panels=2, staged=1, cluster=1x1",
        "tile=192x64x128, unroll=2, cluster=4x1",
    ],
)
def test_loaded_results(torch, guarded, schedule: str) -> None:
    """What is there comes while a tile is multiplied; the same sums, bit for bit, as copies add in memory."""
    source = "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,128x128) with epilogue=bulk"
    for m, n, k in [(300, 1040, 2048), (5000, 2112, 512)]:
        (a, b, sa, sb), _, exact = quantised(torch, m, n, k)
        start = (exact[0] @ exact[1].t()).std() * torch.randn(m, n, device="cuda")
        results = []
        for way in ("loaded", "loaded", "memory"):
            kernel = scalec.compile(f"{source}, {schedule}, adds={way}", dims={"n": n, "k": k})
            out, intact = guarded((m, n), torch.float32)
            out.copy_(start)
            kernel(a, b, sa, sb, out=out)
            torch.cuda.synchronize()
            assert intact(), "bytes outside the result were written"
            results.append(out.clone())
        assert all(torch.equal(results[0], other) for other in results[1:])
        assert diff(results[0], exact[0] @ exact[1].t() + start.double()) < 1e-7


READ = {
    "one": ("C[m,n] = T + X[m,n]", lambda t, x: t + x),
    "a wider one": ("C[m,n] = T + X[m,n]:f32", lambda t, x: t + x),
    "beside f32": ("C[m,n]:f32 = T + X[m,n]:f32", lambda t, x: t + x),
    "twice": ("C[m,n] = T * X[m,n]; D[m,n]:f32 = max(T, X[m,n])", None),
}


@pytest.mark.parametrize("schedule", ["", "inputs=2", "inputs=3, epilogue=direct", "inputs=0, adds=memory"])
@pytest.mark.parametrize("name", READ)
def test_inputs_as_large_as_the_result(torch, guarded, name: str, schedule: str) -> None:
    """Tiles follow each other in a CTA: what copies bring is there before, and is not overwritten while it is read."""
    end, body = READ[name]
    source = f"T[m,n] = A[m,k]:bf16 @ B[n,k]:bf16; {end}" + f" with {schedule}" * bool(schedule)
    for m, n, k in [(5000, 2112, 512), (300, 1040, 2048)]:
        torch.manual_seed(m)
        a, b = (torch.randn(rows, k, device="cuda").bfloat16() for rows in (m, n))
        x = torch.randn(m, n, device="cuda") * k**0.5
        x = x if "X[m,n]:f32" in end else x.bfloat16()
        kernel, sums = scalec.compile(source, dims={"n": n, "k": k}), a.double() @ b.double().t()
        if body is None:
            first, second = (kernel(a, b, x) for _ in range(2))
            assert all(torch.equal(*pair) for pair in zip(first, second, strict=True))
            assert diff(first[0], sums * x.double()) < 3e-6
            assert diff(first[1], torch.maximum(sums, x.double())) < 1e-7
            continue
        dtype = torch.float32 if "C[m,n]:f32" in end else torch.bfloat16
        got = run_twice(torch, kernel, guarded, (m, n), dtype, a, b, x)
        assert diff(got, body(sums, x.double())) < 3e-6, f"{(m, n, k)}, {kernel.spec.schedule}"
