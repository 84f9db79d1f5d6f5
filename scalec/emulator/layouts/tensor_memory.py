"""Tensor memory: addresses, allocation, and the cells that each tcgen05 instruction touches (PTX ISA 9.7.16).

A CTA's tensor memory is 128 lanes (rows) by 512 columns of 32-bit cells. Four lane partitions of 32 lanes belong to the
four warps of a warpgroup (9.7.16.8.1). Cells are index arrays, relative to the lane and the column of an address until
`at` places them; `words[cells.lanes, cells.columns]` gathers them from an array (128, 512).

The ISA draws most of these layouts in figures only; where a function names a figure, what it returns is also what the
open-source programs that use the instruction assume (CUTLASS, Triton), so that one reading checks the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from scalec.emulator.findings import Finding

LANES, COLUMNS, PARTITION = 128, 512, 32  # 9.7.16.1 Tensor Memory; 9.7.16.8.1 Access restrictions
GRANULE = 32  # columns: the unit of allocation, 9.7.16.1.2


class Cells(NamedTuple):
    """Cells of tensor memory: two int64 arrays of one shape."""

    lanes: np.ndarray
    columns: np.ndarray


# -- addresses: 9.7.16.1.1 Tensor Memory Addressing --------------------------------------------------------------------


def split_address(address: int) -> tuple[int, int]:
    """Lane (bits 16-31) and column (bits 0-15) of an address.

    Raises:
        Finding: bounds, when there is no such lane or column.
    """
    lane, column = (address >> 16) & 0xFFFF, address & 0xFFFF
    if lane >= LANES or column >= COLUMNS:
        raise Finding(
            "bounds",
            f"tensor memory address {address & 0xFFFFFFFF:#010x}: lane {lane}, column {column}",
            expected=f"lane below {LANES}, column below {COLUMNS}",
        )
    return lane, column


def at(cells: Cells, lane: int, column: int, what: str) -> Cells:
    """Cells moved to an address's lane and column.

    Raises:
        Finding: bounds, when one lies outside of tensor memory.
    """
    lanes, columns = cells.lanes + lane, cells.columns + column
    if lanes.max(initial=0) >= LANES or columns.max(initial=0) >= COLUMNS:
        raise Finding(
            "bounds",
            f"{what} at lane {lane}, column {column} reaches lane {lanes.max()}, column {columns.max()}",
            expected=f"{LANES} lanes, {COLUMNS} columns",
        )
    return Cells(lanes, columns)


def _cells(lanes: np.ndarray | int, columns: np.ndarray | int) -> Cells:
    """Both arrays broadcast against each other; read-only, since they are cached."""
    both = [np.array(a, np.int64) for a in np.broadcast_arrays(lanes, columns)]
    for array in both:
        array.flags.writeable = False
    return Cells(*both)


# -- allocation: 9.7.16.1.2 Tensor Memory Allocation, 9.7.16.7.1 tcgen05.alloc -----------------------------------------


@dataclass(frozen=True)
class Allocations:
    """The columns that a CTA holds. A CTA has the tensor memory of its SM to itself here."""

    taken: tuple[tuple[int, int], ...] = ()  # (first column, number of columns) of each allocation
    permit: bool = True  # false after tcgen05.relinquish_alloc_permit
    last: int = COLUMNS  # the number of columns of the latest allocation; the next ones must not be larger

    def allocate(self, count: int, draw: float = 0) -> tuple[Allocations, int] | None:
        """With `count` more columns, and the first of them; None when they are not free (tcgen05.alloc then blocks).

        The ISA does not say which columns they are: `draw`, in [0, 1), chooses among the free multiples of `count`.
        As no allocation is larger than the one before, there is always room where there are enough columns.

        Raises:
            Finding: the count or the moment is one that the ISA forbids.
        """
        if count & (count - 1) or not GRANULE <= count <= COLUMNS:
            raise Finding(
                "tensor-memory",
                f"tcgen05.alloc of {count} columns",
                expected=f"a power of two from {GRANULE} to {COLUMNS}",
            )
        if not self.permit:
            raise Finding(
                "tensor-memory",
                "tcgen05.alloc after tcgen05.relinquish_alloc_permit",
                fix="relinquish after the last allocation of the CTA",
            )
        if count > self.last:
            raise Finding(
                "tensor-memory",
                f"tcgen05.alloc of {count} columns after one of {self.last}",
                expected="no allocation larger than the one before it",
                fix="allocate the largest block first",
            )
        every = range(0, COLUMNS, count)
        free = [s for s in every if all(s + count <= first or first + n <= s for first, n in self.taken)]
        if not free:
            return None
        start = free[int(draw * len(free))]
        return replace(self, taken=(*self.taken, (start, count)), last=count), start

    def free(self, column: int, count: int) -> Allocations:
        """Without the allocation that starts at `column`.

        Raises:
            Finding: there is none, or it has another number of columns.
        """
        if (column, count) not in self.taken:
            raise Finding(
                "tensor-memory",
                f"tcgen05.dealloc of {count} columns at column {column}",
                expected=f"an allocation of the CTA: {_listed(self.taken)}",
            )
        return replace(self, taken=tuple(block for block in self.taken if block != (column, count)))

    def relinquish(self) -> Allocations:
        return replace(self, permit=False)

    def check(self, cells: Cells, what: str) -> None:
        """Raises Finding(tensor-memory) unless the CTA holds all columns of `cells`."""
        held = np.zeros(COLUMNS, bool)
        for first, count in self.taken:
            held[first : first + count] = True
        missing = ~held[cells.columns]
        if missing.any():
            columns = cells.columns[missing]
            raise Finding(
                "tensor-memory",
                f"{what} touches columns {columns.min()} to {columns.max()}, which are not allocated",
                expected=f"columns of an allocation: {_listed(self.taken)}",
            )


def _listed(taken: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"{first} to {first + count - 1}" for first, count in taken) or "there is none"


# -- tcgen05.ld and tcgen05.st: 9.7.16.2.3 Data Movement Shape, 9.7.16.8 -----------------------------------------------

REGISTERS = {"16x64b": 1, "16x128b": 2, "16x256b": 4, "32x32b": 1, "16x32bx2": 1}  # at .x1; Tables 49 and 50


@cache
def register_cells(shape: str, repeat: int, packed: bool = False, split: int = 0) -> Cells:
    """Where the registers of tcgen05.ld and tcgen05.st lie (figures 183 to 187).

    Args:
        shape: e.g. "32x32b".
        repeat: of .x1 to .x128.
        packed: with .pack::16b or .unpack::16b a register holds the low halves of two adjacent columns (figure 193),
            and the instruction spans twice the columns.
        split: immHalfSplitoff of .16x32bx2, in columns.

    Returns:
        Cells (32 threads, registers, 1), or (32, registers, 2) if packed: the low half's cell, then the high half's.

    Raises:
        Finding: illegal, more than 128 registers.
    """
    count = REGISTERS[shape] * repeat
    if count > 128:
        raise Finding("illegal", f".{shape}.x{repeat} needs {count} registers", expected="at most 128 (Table 49)")
    thread, register = np.arange(32)[:, None], np.arange(count)[None, :]
    if shape == "32x32b":
        lanes, columns = thread + 0 * register, register + 0 * thread
    elif shape == "16x32bx2":  # two accesses of 16x32b: threads 0-15 take the first, 16-31 the second
        lanes, columns = thread % 16 + 0 * register, register + 0 * thread
    elif shape == "16x64b":  # odd threads hold the lower eight lanes
        lanes = thread // 4 + 8 * (thread % 2) + 0 * register
        columns = thread // 2 % 2 + 2 * register
    elif shape == "16x128b":
        lanes = thread // 4 + 8 * (register % 2)
        columns = thread % 4 + 4 * (register // 2)
    else:  # 16x256b: the fragment of a 16x8 accumulator of mma.sync, repeated along the columns
        lanes = thread // 4 + 8 * (register // 2 % 2)
        columns = 2 * (thread % 4) + register % 2 + 8 * (register // 4)
    half = np.arange(2 if packed else 1)
    columns = (2 if packed else 1) * columns[..., None] + half
    if shape == "16x32bx2":
        columns = columns + split * (thread[..., None] // 16)
    return _cells(lanes[..., None], columns)


def check_warp(shape: str, lane: int, warp: int) -> None:
    """Checks the lane of the address of tcgen05.ld and tcgen05.st.

    Args:
        lane: of the address.
        warp: the warp's index in its CTA.

    Raises:
        Finding: the warp does not reach these lanes, or they start in the midst of a row group.
    """
    rows = int(shape.split("x")[0])
    quarter = warp % 4
    if lane // PARTITION != quarter:
        raise Finding(
            "tensor-memory",
            f"warp {warp} accesses lanes {lane} to {lane + rows - 1}",
            expected=f"lanes {PARTITION * quarter} to {PARTITION * quarter + PARTITION - 1}: those of warp {quarter} of"
            " a warpgroup (9.7.16.8.1)",
        )
    if lane % rows:
        raise Finding("alignment", f".{shape} at lane {lane}", expected=f"a multiple of {rows}")


def pack(words: np.ndarray) -> np.ndarray:
    """Cells (..., 1 or 2) uint32 as registers (...): tcgen05.ld without and with .pack::16b."""
    if words.shape[-1] == 1:
        return words[..., 0]
    return (words[..., 0] & 0xFFFF) | (words[..., 1] << np.uint32(16))


def unpack(registers: np.ndarray, packed: bool) -> np.ndarray:
    """Registers (...) uint32 as cells (..., 1 or 2): tcgen05.st without and with .unpack::16b, upper halves zero."""
    if not packed:
        return registers[..., None]
    return np.stack([registers & 0xFFFF, registers >> np.uint32(16)], -1)


# -- tcgen05.cp: 9.7.16.9 ----------------------------------------------------------------------------------------------

_COPIES = {  # (shape, multicast) -> rows of the source, 32-bit words in a row, lane of (copy, row)
    ("128x256b", ""): (128, 8, lambda copy, row: row),
    ("128x128b", ""): (128, 4, lambda copy, row: row),
    ("4x256b", ""): (4, 8, lambda copy, row: PARTITION * row),  # refreshes one lane of each partition
    ("64x128b", "warpx2::02_13"): (64, 4, lambda copy, row: row + 64 * copy),
    ("64x128b", "warpx2::01_23"): (64, 4, lambda copy, row: row % 32 + 64 * (row // 32) + 32 * copy),
    ("32x128b", "warpx4"): (32, 4, lambda copy, row: row + 32 * copy),
}


@cache
def copy_cells(shape: str, multicast: str = "") -> Cells:
    """Where tcgen05.cp puts the words of its source (9.7.16.9.2).

    Returns:
        Cells (copies, rows, words): the source is a K-major matrix of `rows` rows of 4 * `words` bytes.

    Raises:
        Finding: illegal, the multicast is none that the shape takes.
    """
    if (shape, multicast) not in _COPIES:
        legal = " or ".join(m or "no multicast" for s, m in _COPIES if s == shape)
        raise Finding("illegal", f"tcgen05.cp.{shape} with {multicast or 'no multicast'}", expected=legal)
    rows, words, lane = _COPIES[shape, multicast]
    copies = {"": 1, "warpx4": 4}.get(multicast, 2)
    lanes = lane(np.arange(copies)[:, None, None], np.arange(rows)[None, :, None])
    return _cells(lanes, np.arange(words) + np.zeros((copies, 1, 1), np.int64))


def decompress(source: np.ndarray, source_format: str) -> np.ndarray:
    """Optional decompression of tcgen05.cp into .b8x16 (9.7.16.9.1).

    Args:
        source: (..., 16) uint8: 16 elements of 4 or 6 bits, then 8 or 4 bytes of padding.
        source_format: "b4x16_p64" or "b6x16_p32".

    Returns:
        (..., 16) uint8: a container for each element, as matrix A of .kind::f8f6f4 needs it (figures 195, 197, 198).
    """
    bits = {"b4x16_p64": 4, "b6x16_p32": 6}[source_format]
    return to_containers(unpack_bits(source[..., : 2 * bits], bits), bits)


def unpack_bits(source: np.ndarray, bits: int) -> np.ndarray:
    """Contiguous elements of 4 or 6 bits, the first in the lowest bits: bytes (..., n) as codes (..., 8 n / bits)."""
    if bits == 4:
        return np.stack([source & 0xF, source >> 4], -1).reshape(*source.shape[:-1], -1)
    triple = source.reshape(*source.shape[:-1], -1, 3).astype(np.uint32)
    word = triple[..., 0] | triple[..., 1] << 8 | triple[..., 2] << 16
    codes = word[..., None] >> np.arange(0, 24, 6, dtype=np.uint32) & 0x3F
    return codes.astype(np.uint8).reshape(*source.shape[:-1], -1)


def to_containers(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes of 4 or 6 bits in 8-bit containers: 4 bits lie in bits 2-5, 6 bits in bits 0-5.

    9.7.16.10.4.3 has it in figures 199 to 201; 9.7.14.5.14 says it in words for mma.sync of the same kind.
    """
    return codes << 2 if bits == 4 else codes


def from_containers(containers: np.ndarray, bits: int) -> np.ndarray:
    """The codes in 8-bit containers; padding is ignored."""
    return containers >> 2 & 0xF if bits == 4 else containers & 0x3F


# -- tcgen05.mma: 9.7.16.10.5 Data Path Layout Organization ------------------------------------------------------------


def layout_name(m: int, cta_group: int, ws: bool = False) -> str:
    """The letter of a layout of dense matrices: A, B, D, E, F or G (C is for sparse ones).

    Raises:
        Finding: descriptor, there is no such layout.
    """
    found = {(256, 2, False): "A", (128, 2, False): "B", (128, 1, False): "D", (64, 1, False): "F"}
    found |= {(128, 1, True): "D", (64, 1, True): "E", (32, 1, True): "G"}
    if (m, cta_group, ws) not in found:
        raise Finding("descriptor", f"M = {m} with .cta_group::{cta_group}{' and .ws' if ws else ''}")
    return found[m, cta_group, ws]


@cache
def accumulator_cells(m: int, n: int, cta_group: int, ws: bool = False) -> Cells:
    """Where one CTA's part of matrix D lies (9.7.16.10.5; packing: one element in a cell, 9.7.16.10.4.1).

    A CTA of a pair holds M / 2 rows: the even CTA the first half, the odd one the second.

    Args:
        m, n: of the instruction descriptor.

    Returns:
        Cells (M / cta_group, N).

    Raises:
        Finding: descriptor, there is no such layout.
    """
    layout = layout_name(m, cta_group, ws)
    row, column = np.arange(m // cta_group)[:, None], np.arange(n)[None, :]
    if layout in "AD":  # a row to a lane
        return _cells(row, column)
    if layout == "F":  # 16 rows to a partition: half of its lanes
        return _cells(row % 16 + PARTITION * (row // 16), column)
    parts = {"B": 2, "E": 2, "G": 4}[layout]  # N is cut into parts, which lie below each other
    width = n // parts
    return _cells(row + LANES // parts * (column // width), column % width + 0 * row)


@cache
def operand_cells(m: int, cta_group: int) -> Cells:
    """Where one CTA's part of matrix A lies in tensor memory, 32 bytes of each row.

    Every kind consumes 32 bytes of K: 8 columns. Elements are packed along K, those of 4 or 6 bits of .kind::f8f6f4 and
    .kind::mxf8f6f4 in 8-bit containers (9.7.16.10.4). In layout B both halves of the lanes compute the same rows for
    different columns of D, each from its own copy of A: copy i serves columns [i N / 2, (i + 1) N / 2).

    Returns:
        Cells (copies, M / cta_group, 8).
    """
    layout = layout_name(m, cta_group)
    copy = np.arange(2 if layout == "B" else 1)[:, None, None]
    row = np.arange(m // cta_group)[None, :, None]
    lanes = row % 16 + PARTITION * (row // 16) if layout == "F" else row
    return _cells(lanes + 64 * copy, np.arange(8))


def check_lane(lane: int, m: int, cta_group: int, what: str, ws: bool = False) -> None:
    """Checks the lane of the address of matrix A or D (the last column of the table in 9.7.16.10.5).

    Raises:
        Finding: alignment.
    """
    allowed = (0, 16) if layout_name(m, cta_group, ws) == "F" else (0,)
    if lane not in allowed:
        raise Finding(
            "alignment",
            f"matrix {what} at lane {lane} with M = {m}",
            expected=" or ".join(f"lane {a}" for a in allowed),
        )


def disabled_lanes(words: Sequence[int]) -> np.ndarray:
    """The 4 or 8 words of disable-output-lane (9.7.16.10.9.1) as bool (CTAs, 128); true: D is not updated there."""
    mask = np.array(words, "<u4").view(np.uint8)
    return np.unpackbits(mask, bitorder="little").astype(bool).reshape(-1, LANES)
