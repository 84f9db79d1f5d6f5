"""Memories: segments of bytes, the windows of the generic address space, and the device's allocations.

Numbers of ours, where the ISA leaves them open (PTX ISA 5.2 "State Spaces"): a shared::cluster address is
rank << 24 | offset, and a CTA's own shared::cta addresses are those of its rank, as on hardware; the first 1024 bytes
of a CTA's window belong to the system. Parameters and constants have windows of their own.
"""

from __future__ import annotations

import bisect

import numpy as np

from scalec.emulator.machine.order import LAUNCH, Shadow

SHARED_RESERVED = 1024
RANK_SHIFT = 24
# far above every address of a process, so that global memory may lie where the host has it
WINDOWS = {"shared": 1 << 56, "local": 2 << 56, "param": 3 << 56, "const": 4 << 56}
_GLOBAL_START = 0x7E00 << 32
_GAP = 4096  # bytes between allocations, so that a step past one meets nothing


class Segment:
    """A run of bytes that is one allocation.

    Attributes:
        name: for people, e.g. "shared memory of CTA 0" or "argument A".
        base: address of the first byte in its own state space.
        data: uint8 (size,).
        written: bool (size,), whether a byte was ever written.
        start: offset of the first byte that the program may use: the others are the system's.
        shadow: the judge's memory of it, made at first use.
    """

    def __init__(
        self, name: str, space: str, base: int, size: int, data: np.ndarray | None = None, start: int = 0
    ) -> None:
        self.name, self.space, self.base, self.size = name, space, base, size
        self.data = np.zeros(size, np.uint8) if data is None else data
        self.written = np.full(size, data is not None)
        self.start = start
        self._shadow: Shadow | None = None

    @property
    def shadow(self) -> Shadow:
        if self._shadow is None:
            self._shadow = Shadow(self.size, every_reader=self.space == "shared")
            if self.written.all():
                self._shadow.alike = [(0, self.size, 0)]
        return self._shadow

    def forget(self, dependent: bool = False) -> None:
        """A new launch begins: earlier accesses are ordered before it, or before its griddepcontrol.wait."""
        self._shadow = None
        if dependent:
            last = self.shadow.readers.last
            self.shadow.writer[:] = LAUNCH
            self.shadow.alike = [(first, end, LAUNCH) for first, end, _ in self.shadow.alike]
            if last is not None:
                last[:] = LAUNCH

    def touched(self) -> tuple[np.ndarray, np.ndarray]:
        """bool (size,) each: the bytes of global memory that the launch has read, and those that it has written."""
        if self._shadow is None:
            return np.zeros(self.size, bool), np.zeros(self.size, bool)
        read = np.zeros(self.size, bool)
        for readers in (self._shadow.readers, self._shadow.strong_readers):
            if readers is not None and readers.last is not None:
                read |= readers.last != 0
        return read, self._shadow.writer != 0

    def place(self, offset: int) -> str:
        """Where a byte is, for people."""
        return f"byte {offset} of {self.name} (address {self.base + offset:#x})"


class GlobalMemory:
    """The device's allocations, by address."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: list[Segment] = []
        self._next = _GLOBAL_START

    def allocate(self, size: int, name: str = "", align: int = 256) -> Segment:
        """A new segment of global memory, its bytes unwritten."""
        base = -(-self._next // align) * align
        segment = Segment(name or f"allocation of {size} bytes", "global", base, size)
        self._next = base + size + _GAP
        self._bases.append(base)
        self._segments.append(segment)
        return segment

    def adopt(self, address: int, data: np.ndarray, name: str, *, written: bool = True) -> Segment:
        """Memory that somebody else has allocated, at its own address; it takes the place of what overlaps it.

        Args:
            data: uint8, the bytes themselves.
            written: whether they have been written already.
        """
        at = bisect.bisect_right(self._bases, address)
        first = last = at
        if at and self._bases[at - 1] + self._segments[at - 1].size > address:
            first -= 1
        while last < len(self._bases) and self._bases[last] < address + data.size:
            last += 1
        segment = Segment(name, "global", address, data.size, data)
        segment.written[:] = written
        self._bases[first:last] = [address]
        self._segments[first:last] = [segment]
        return segment

    def find(self, address: int) -> Segment | None:
        """The allocation that an address belongs to, or that ends within the gap before it; None if there is none."""
        at = bisect.bisect_right(self._bases, address) - 1
        return self._segments[at] if at >= 0 and address < self._bases[at] + self._segments[at].size + _GAP else None

    def segments(self) -> list[Segment]:
        return list(self._segments)
