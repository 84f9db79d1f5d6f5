"""Bank conflicts of shared memory: 32 banks of 4 bytes, successive words in successive banks.

A warp's access is served in wavefronts, each of which reads one word of every bank; lanes that want the same word share
it. Accesses of 8 bytes a lane are served a half warp at a time, those of 16 a quarter (CUDA C++ Programming Guide,
"Shared memory" of compute capability 5.x and later; CUDA C++ Best Practices Guide, 10.2.3.1).
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scalec.emulator.machine.machine import Machine
    from scalec.emulator.machine.warp import Warp

_ROW = 128  # bytes of one word in every bank
_ALL_LANES = np.arange(32)


def wavefronts(addresses: np.ndarray, lanes: np.ndarray, size: int) -> tuple[int, int]:
    """How many wavefronts an access takes, and how many it would take without conflicts.

    Args:
        addresses: int64 (n,) shared addresses of the lanes that take part.
        lanes: int64 (n,) their numbers, ascending.
        size: bytes a lane.
    """
    return _wavefronts(addresses.tobytes(), lanes.tobytes(), size)


@lru_cache(maxsize=4096)
def _wavefronts(address_bytes: bytes, lane_bytes: bytes, size: int) -> tuple[int, int]:
    addresses, lanes = np.frombuffer(address_bytes, np.int64), np.frombuffer(lane_bytes, np.int64)
    together = 32 if size <= 4 else 16 if size == 8 else 128 // size if size <= 128 else 1
    words = max(1, size // 4)
    total = least = 0
    for group in np.unique(lanes // together).tolist():
        chosen = addresses[lanes // together == group] // 4
        wanted = np.unique(chosen[:, None] + np.arange(words))
        total += int(np.bincount(wanted % 32).max())
        least += -(-len(wanted) // 32)
    return total, least


def count(warp: Warp, addresses: np.ndarray, size: int) -> None:
    """Counts an access of the active lanes in the launch's "shared wavefronts" and "bank conflicts"."""
    lanes = _ALL_LANES if warp.full else np.flatnonzero(warp.mask)
    count_lanes(warp.machine, addresses if warp.full else addresses[lanes], lanes, size)


def count_lanes(machine: Machine, addresses: np.ndarray, lanes: np.ndarray, size: int) -> None:
    """The same for the addresses of some lanes, whose numbers ascend: (lanes,), or (accesses, lanes) of several."""
    rows = addresses.reshape(-1, len(lanes))
    near = rows - (rows[:, :1] & -_ROW)  # only the place in the first lane's row of banks, and distances, matter
    numbers, counts = lanes.tobytes(), machine.stats.counts
    for row, times in Counter(map(bytes, near)).items():
        taken, least = _wavefronts(row, numbers, size)
        counts["shared wavefronts"] += taken * times
        if taken > least:
            counts["bank conflicts"] += (taken - least) * times
