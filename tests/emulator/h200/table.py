"""Every probe, by the file that holds its results."""

from __future__ import annotations

from collections.abc import Callable

from . import (
    arithmetic,
    atomics,
    bulk_copies,
    calibration,
    conversions,
    integers,
    kernels,
    mma,
    tensor_copies,
    warps,
    wgmma,
)
from .probe import Probe

GROUPS: dict[str, Callable[[], list[Probe]]] = {
    "arithmetic": arithmetic.probes,
    "conversions": conversions.probes,
    "integers": integers.probes,
    "warps": warps.probes,
    "atomics": atomics.probes,
    "bulk_copies": bulk_copies.probes,
    "tensor_copies": tensor_copies.probes,
    "mma": mma.probes,
    "wgmma": wgmma.probes,
    "kernels": kernels.probes,
}

CALIBRATION: dict[str, Callable[[], list[Probe]]] = {"bulk_mma": calibration.mma, "bulk_wgmma": calibration.wgmma}
