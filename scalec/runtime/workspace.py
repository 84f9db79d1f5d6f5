"""Workspaces: memory of a kernel's own, in which the parts of a tile meet (scalec.abi.Launch)."""

from __future__ import annotations

import threading
import weakref
from typing import NamedTuple

from scalec.runtime.device import Device

PER_THREAD = 2  # CU_STREAMPER_THREAD: one handle, a stream for each host thread


class Workspace(NamedTuple):
    """One workspace: addresses and bytes of its parts and of its counters, which are 0 between launches."""

    parts: int
    part_bytes: int
    counters: int
    counter_bytes: int


_NONE = Workspace(0, 0, 0, 0)


class Workspaces:
    """Those of one kernel on one device, one for each stream: launches on different streams may run at the same time.

    A workspace that is too small for a call is followed by one of at least twice its size, but kept, since CUDA graphs
    may hold its address; all are given back with the kernel. A graph uses the workspace of the stream it was captured
    on, so it must not run at the same time as other launches of that kernel captured, or made, on that stream.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._made: dict[tuple[int, int], Workspace] = {}
        self._zeros = (0, 0)  # their address, and bytes
        self._lock = threading.Lock()

    def of(self, stream: int, needed: tuple[int, int]) -> Workspace:
        """The workspace of a stream, with at least so many bytes of parts and of counters."""
        key = (stream, threading.get_ident() if stream == PER_THREAD else 0)
        found = self._made.get(key)
        if found is not None and found.part_bytes >= needed[0] and found.counter_bytes >= needed[1]:
            return found
        with self._lock:
            found = self._made.get(key, _NONE)  # another thread may have made it meanwhile
            if found.part_bytes >= needed[0] and found.counter_bytes >= needed[1]:
                return found
            parts, counters = max(needed[0], 2 * found.part_bytes), max(needed[1], 2 * found.counter_bytes)
            made = Workspace(self._reserved(parts), parts, self._reserved(counters), counters)
            self._made[key] = made
        return made

    def zeros(self, size: int) -> int:
        """The address of at least so many bytes of zeros, that nobody writes: for launches on any stream."""
        with self._lock:
            if self._zeros[1] < size:
                size = max(size, 2 * self._zeros[1])
                self._zeros = self._reserved(size), size
            return self._zeros[0]

    def _reserved(self, size: int) -> int:
        address = self._device.reserve(size)
        weakref.finalize(self, self._device.release, address).atexit = False  # the driver frees all at exit
        return address
