"""The comparison with a GPU, on an emulated one that sums as the H200 does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from scalec.checking.guarded import GUARD
from scalec.runtime import driver, emulated
from tests.fuzz import gpu
from tests.fuzz.draw import draw
from tests.fuzz.running import Outcome, check

SEEDS = (78, 6, 17)
"""Of sm_90a; the first has scales in tiles, of which padding is not written."""


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[bytes], bytes]], Outcome]:
    """judged(seed, change): the outcome, where `change` is done to what the device gives back."""

    def run(seed: int, change: Callable[[bytes], bytes] = bytes) -> Outcome:
        device = emulated.EmulatedDevice("sm_90a")
        device.checks = False
        device.options = replace(device.options, tensor_core="hopper")
        download = device.download
        monkeypatch.setattr(device, "download", lambda *given: change(download(*given)))
        monkeypatch.setattr(driver, "device", lambda: device)
        monkeypatch.setattr(driver, "detect", lambda: SimpleNamespace(target="sm_90a"))
        return gpu.check_seed(seed)

    return run


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
def test_a_right_device_is_right(judged: Callable[..., Outcome], seed: int) -> None:
    outcome = judged(seed)
    assert outcome.kind == check(draw(seed)).kind, outcome.message


def test_a_seed_of_another_target_is_left_out(judged: Callable[..., Outcome]) -> None:
    assert judged(next(s for s in range(99) if draw(s).target == "sm_120a")).kind == "elsewhere"


FAULTS = {
    "gpu wrong": lambda b: bytes(len(b)) if len(b) < 2 * GUARD else b,
    "gpu changed": lambda b: b if len(b) < 2 * GUARD else b[:-1] + b"\0",
}
"""The kind of a failure, and what the device does to bytes on their way back: results, or bytes beside them."""


@pytest.mark.parametrize("kind", FAULTS)
def test_a_wrong_device_is_found(judged: Callable[..., Outcome], kind: str) -> None:
    assert judged(SEEDS[0], FAULTS[kind]).kind == kind
