"""Every probe, by the file that holds its results."""

from __future__ import annotations

from collections.abc import Callable

from . import arithmetic, calibration, conversions, mma, wgmma
from .probe import Probe

GROUPS: dict[str, Callable[[], list[Probe]]] = {
    "arithmetic": arithmetic.probes,
    "conversions": conversions.probes,
    "mma": mma.probes,
    "wgmma": wgmma.probes,
}

CALIBRATION: dict[str, Callable[[], list[Probe]]] = {"bulk_mma": calibration.mma, "bulk_wgmma": calibration.wgmma}
