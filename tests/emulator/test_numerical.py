"""Our kernels on the emulator at small sizes, tails in every dimension: right, complete, and without a finding."""

from __future__ import annotations

import pytest

from tests.emulator.running import by_turns, run_on
from tests.gpu.programs import BF16_SCHEDULES, FP8_SCHEDULES, PROGRAMS

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
BF16 = "C[m,n] = A[m,k] @ B[n,k]"


@pytest.mark.parametrize(("name", "seed"), by_turns(PROGRAMS, 3))
def test_program(name: str, seed: int) -> None:
    source, limit = PROGRAMS[name]
    m, n, k = [(7, 77, 144), (129, 250, 400), (65, 136, 656)][seed]
    run_on(source, {"m": m, "n": n, "k": k}, ("n", "k") if seed else (), seed, limit)


@pytest.mark.parametrize("schedule", FP8_SCHEDULES)
def test_fp8_schedule(schedule: str) -> None:
    run_on(f"{FP8} with {schedule}", {"m": 140, "n": 136, "k": 640}, ("n", "k"), 3, 3e-6)


@pytest.mark.parametrize("schedule", BF16_SCHEDULES)
def test_bf16_schedule(schedule: str) -> None:
    run_on(f"{BF16} with {schedule}", {"m": 150, "n": 136, "k": 328}, ("n", "k"), 4, 3e-6)


@pytest.mark.parametrize(("source", "seed"), by_turns([FP8], 8))
def test_the_main_job(source: str, seed: int) -> None:
    run_on(source, {"m": 200, "n": 264, "k": 1152}, ("n", "k"), seed, 3e-6, times=2)
