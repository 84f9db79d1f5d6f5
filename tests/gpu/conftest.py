"""Numerical tests on a GPU: `pytest -m gpu tests/gpu` on a machine that has one, with torch. Those that ask for `here`
run on the emulator too, at fewer sizes: `SCALEC_DEVICE=emulator pytest -m gpu FILE`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scalec import env
from scalec.runtime import devices, emulated

GUARD = 4096  # elements before and after every result, whose bytes must survive


@pytest.fixture(scope="session")
def torch():
    """torch with a GPU; without one these tests cannot run, and say so rather than pass."""
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("no CUDA GPU")
    module.backends.cuda.matmul.allow_tf32 = False
    return module


@pytest.fixture
def here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What kernels of sm_90a run on: this machine's GPU, or the emulator, which then sums as an H200 does."""
    if env.DEVICE.get() != "emulator":
        request.getfixturevalue("torch")
        return devices.default("sm_90a")
    device = devices.emulator("sm_90a")
    assert isinstance(device, emulated.EmulatedDevice)
    monkeypatch.setattr(device, "options", replace(device.options, tensor_core="hopper"))
    return device


@pytest.fixture
def place(here: Any) -> str:
    """Where torch's tensors are for that."""
    return "cpu" if isinstance(here, emulated.EmulatedDevice) else "cuda"


@pytest.fixture
def guarded(torch) -> Callable:
    """guarded(shape, dtype) -> (tensor of NaN inside guards of NaN, function that checks the guards)."""

    def make(shape: tuple[int, ...], dtype) -> tuple:
        count = 1
        for extent in shape:
            count *= extent
        buffer = torch.full((count + 2 * GUARD,), float("nan"), device="cuda", dtype=dtype)
        words = buffer.view(torch.uint8)
        inner = buffer[GUARD : GUARD + count].view(shape)
        pattern = 0x5A
        edge = GUARD * buffer.element_size()
        words[:edge] = pattern
        words[-edge:] = pattern

        def intact() -> bool:
            return bool((words[:edge] == pattern).all() and (words[-edge:] == pattern).all())

        return inner, intact

    return make
