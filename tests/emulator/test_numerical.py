"""Our kernels on the emulator at small sizes, tails in every dimension: right, complete, and without a finding."""

from __future__ import annotations

import pytest

from tests.emulator.running import run_on
from tests.gpu.programs import BF16_SCHEDULES, FP8_SCHEDULES, PROGRAMS
from tests.tiers import fields

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
BF16 = "C[m,n] = A[m,k] @ B[n,k]"


@pytest.mark.once("name", "seed")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, seed: int) -> None:
    source, limit = PROGRAMS[name]
    m, n, k = [(7, 77, 144), (129, 250, 400), (65, 136, 656)][seed]
    run_on(source, {"m": m, "n": n, "k": k}, ("n", "k") if seed else (), seed, limit)


@pytest.mark.once(touches=lambda schedule: fields(schedule))
@pytest.mark.parametrize("schedule", FP8_SCHEDULES)
def test_fp8_schedule(schedule: str) -> None:
    run_on(f"{FP8} with {schedule}", {"m": 140, "n": 136, "k": 640}, ("n", "k"), 3, 3e-6)


@pytest.mark.once(touches=lambda schedule: fields(schedule))
@pytest.mark.parametrize("schedule", BF16_SCHEDULES)
def test_bf16_schedule(schedule: str) -> None:
    run_on(f"{BF16} with {schedule}", {"m": 150, "n": 136, "k": 328}, ("n", "k"), 4, 3e-6)


@pytest.mark.once
@pytest.mark.parametrize("seed", range(2))
def test_the_main_job(seed: int) -> None:
    run_on(FP8, {"m": 200, "n": 264, "k": 1152}, ("n", "k"), seed, 3e-6, times=2)
