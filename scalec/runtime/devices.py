"""Which device a kernel runs on where the caller names none: a GPU, or the emulator where there is none."""

from __future__ import annotations

import warnings
from functools import cache

from scalec import env
from scalec.errors import DeviceError
from scalec.runtime.device import Device


def default(target: str, ordinal: int | None = None) -> Device:
    """The device for kernels of a target: what SCALEC_DEVICE says, else the GPU, else the emulator.

    Args:
        ordinal: of the GPU; None for the current one.

    Raises:
        DeviceError: SCALEC_DEVICE=cuda, and there is no GPU.
    """
    wanted = env.DEVICE.get()
    if wanted == "emulator":
        return emulator(target)
    if wanted == "cuda" or ordinal is not None or (lacks := _lacks_gpu()) is None:
        from scalec.runtime import driver

        return driver.device(ordinal)
    _warn(lacks)
    return emulator(target)


def emulator(target: str) -> Device:
    from scalec.runtime import emulated

    return emulated.device(target)


@cache
def _lacks_gpu() -> str | None:
    """Why there is no GPU; None if there is one. (A GPU does not appear while a process runs.)"""
    from scalec.runtime import driver

    try:
        driver.facts(driver.current_ordinal())
    except DeviceError as error:
        return error.message
    return None


@cache
def _warn(lacks: str) -> None:
    """Once in a process: the emulator is correct, not fast, and nobody should wait for it without knowing."""
    warnings.warn(
        f"{lacks}: kernels run on scalec's emulator, which is made to check them and is slow;"
        " SCALEC_DEVICE=emulator says that this is meant, SCALEC_DEVICE=cuda forbids it",
        RuntimeWarning,
        stacklevel=6,
    )
