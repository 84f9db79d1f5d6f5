"""What tests of kernels in the emulator run under."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _ptx_alone(ptx_alone: None) -> None:
    """The emulator runs PTX. ptxas sees the programs of examples/, of tests/lowering and tests/cli."""


@pytest.fixture(autouse=True)
def _emulator_alone(on_the_emulator: None) -> None:
    """A GPU would refuse kernels for another one."""
