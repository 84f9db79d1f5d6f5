"""The comparison with a GPU, on an emulated one that sums as the H200 does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scalec.checking.guarded import GUARD
from scalec.runtime import driver, emulated
from tests.emulator.running import run_on
from tests.fuzz import gpu
from tests.fuzz.forms import of_seed
from tests.fuzz.running import Failed, Outcome, check
from tests.fuzz.written import Written

SEEDS = (111, 6, 17, 46, 85)
"""Of sm_90a; the first has scales in tiles, of which padding is not written, the last one is a text of two launches."""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[bytes], bytes]], None]:
    """here(change): this machine has a device of sm_90a, and `change` is done to what it gives back."""

    def make(change: Callable[[bytes], bytes]) -> None:
        device = emulated.EmulatedDevice("sm_90a")
        device.checks = False
        device.options = replace(device.options, tensor_core="hopper")
        download = device.download
        monkeypatch.setattr(device, "download", lambda *given: change(download(*given)))
        monkeypatch.setattr(driver, "device", lambda: device)
        monkeypatch.setattr(driver, "detect", lambda: SimpleNamespace(target="sm_90a"))

    return make


@pytest.fixture
def judged(here: Callable[..., None]) -> Callable[[int, Callable[[bytes], bytes]], Outcome]:
    """judged(seed, change): the outcome."""

    def run(seed: int, change: Callable[[bytes], bytes] = bytes) -> Outcome:
        here(change)
        return gpu.check_seed(seed)

    return run


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
def test_a_right_device_is_right(judged: Callable[..., Outcome], seed: int) -> None:
    outcome = judged(seed)
    assert outcome.kind == check(of_seed(seed), runs=1).kind, outcome.message


def test_a_seed_of_another_target_is_left_out(judged: Callable[..., Outcome]) -> None:
    assert judged(next(s for s in range(99) if of_seed(s).target == "sm_120a")).kind == "elsewhere"


FAULTS = {
    "gpu wrong": lambda b: bytes(len(b)) if len(b) < 2 * GUARD else b,
    "gpu changed": lambda b: b if len(b) < 2 * GUARD else b[:-1] + b"\0",
}
"""The kind of a failure, and what the device does to bytes on their way back: results, or bytes beside them."""


@pytest.mark.parametrize("kind", FAULTS)
def test_a_wrong_device_is_found(judged: Callable[..., Outcome], kind: str) -> None:
    assert judged(SEEDS[0], FAULTS[kind]).kind == kind


FUNCTIONS = Written(
    "sm_90a", "D[m,n]:e4m3 scale(1x8) = exp(4 * tanh(A[m,k]:e4m3 @ B[n,k]:e4m3))",
    known=("n",), launches=({"m": 4, "n": 16, "k": 48},), exact=False,
)  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize(("ulps", "kind"), [(24, "ok"), (400, "gpu wrong")])
def test_results_may_be_as_far_off_as_functions_are(
    here: Callable[..., None], monkeypatch: pytest.MonkeyPatch, ulps: int, kind: str
) -> None:
    """Beside what the emulator makes of sums of 8 bits, where `bounds` alone have not accepted them."""
    here(lambda b: b)
    twice = gpu.twice

    def moved(*given: Any) -> dict[str, Any]:
        results = twice(*given)
        for name, x in results.items():
            if name == "D_scale":
                numbers = x.numpy().view(np.int32) + ulps
                monkeypatch.setattr(x, "numpy", lambda numbers=numbers: numbers.view(np.float32))
        return results

    def refused(_: object) -> None:
        raise Failed("wrong", "")

    monkeypatch.setattr(gpu, "twice", moved)
    found = check(FUNCTIONS, beside=lambda x: gpu.beside(replace(x, compare=refused)), runs=1)
    assert found.kind == kind, found.message


PROGRAM = "C[m,n]:f32 += A[m,k] @ B[n,k] scale(1x128, 128x128)"


def test_emulated_tests_beside_a_device(here: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "BESIDE", True)
    sizes, case = {"m": 40, "n": 24, "k": 272}, of_seed(SEEDS[1])
    here(bytes)
    run_on(PROGRAM, sizes, ("n",), 1, 1e-5)
    assert check(case).kind == "ok"
    here(FAULTS["gpu wrong"])
    run_on(PROGRAM, sizes, ("n",), 1, 1e-5, target="sm_120a")  # which is not there
    with pytest.raises(AssertionError, match="on the GPU"):
        run_on(PROGRAM, sizes, ("n",), 1, 1e-5)
    assert check(case).kind == "gpu wrong"
    here(FAULTS["gpu changed"])
    with pytest.raises(Failed, match="bytes beside it, have changed"):
        run_on(PROGRAM, sizes, ("n",), 1, 1e-5)
