"""Numerical tests on a GPU: `pytest -m gpu tests/gpu` on a machine that has one, with torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
