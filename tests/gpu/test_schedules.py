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
