"""Many products for each kind of tensor-core instruction: what the rules in tensor_hopper.py were found with.

Not stored: `python -m tests.emulator.h200.run --only bulk_mma,bulk_wgmma --out DIRECTORY` makes them anew.
"""

from __future__ import annotations

from .mma import SHAPES
from .mma import numbers as mma_numbers
from .probe import Probe
from .wgmma import TYPES
from .wgmma import numbers as wgmma_numbers

WARPS, GROUPS = 48, 12


def mma() -> list[Probe]:
    return [mma_numbers(shape, WARPS) for shape in SHAPES]


def wgmma() -> list[Probe]:
    return [wgmma_numbers(*types, GROUPS) for types in TYPES]
