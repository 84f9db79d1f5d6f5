"""Our kernels on the emulator at small sizes, tails in every dimension: right, complete, and without a finding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.commands.run import upload
from scalec.emulator.stats import Stats
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from tests.gpu.programs import BF16_SCHEDULES, FP8_SCHEDULES, PROGRAMS

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
BF16 = "C[m,n] = A[m,k] @ B[n,k]"


def run_on(
    source: str,
    dims: dict[str, int],
    fixed: tuple[str, ...],
    seed: int,
    limit: float,
    *,
    times: int = 1,
    target: str = "sm_90a",
) -> Stats:
    """Runs a program: clean, within `limit` of the reference, all bytes of the result and no others written; `times` 2:
    bit-equal, whatever the order that two seeds give. Returns what the last run counted."""
    kernel = scalec.compile(source, target=target, dims={d: dims[d] for d in fixed})
    device = emulated.EmulatedDevice(target)
    kernel.load(device)
    kernel.fixed = device
    with context.context():
        program = build(source, dims)
        values = reference.make(program, dims, seed=seed + dims["m"])
        (expected,) = reference.run(program, values, dims=dims, exact=True).values()
    runs = []
    for turn in range(times):
        device.options = replace(device.options, seed=seed + 100 * turn)
        arguments, (out,) = upload(device, kernel.spec, values, dims)
        segment = device.memory.find(out.pointer)
        assert segment is not None
        if not kernel.spec.results[0].inout:
            segment.written[:] = False
        kernel(*arguments, out=out)
        got = out.numpy()
        rows = np.arange(dims["m"])[:, None] * out.strides[0] * out.itemsize
        wanted = np.zeros(segment.size, bool)
        wanted[rows + np.arange(dims["n"] * out.itemsize)] = True
        assert segment.written[wanted].all(), f"{dims}: part of the result was not written"
        if not kernel.spec.results[0].inout:
            assert not segment.written[~wanted].any(), f"{dims}: bytes between the rows were written"
        runs.append(got.tobytes())
    assert len(set(runs)) == 1, f"{dims}: two runs differ"
    found = reference.diff(got.astype(np.float64), expected)
    assert found < limit, f"{dims}, {kernel.spec.schedule}: diff {found:.2e}"
    assert device.stats is not None
    return device.stats


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
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


@pytest.mark.parametrize("seed", range(8))
def test_the_main_job(seed: int) -> None:
    run_on(FP8, {"m": 200, "n": 264, "k": 1152}, ("n", "k"), seed, 3e-6, times=2)
