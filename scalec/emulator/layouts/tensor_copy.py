"""What bulk tensor copies move: boxes of tensor maps, as global byte addresses and places in shared memory.

PTX ISA 5.5 "Tensors" and 9.7.9.25.5 "Tensor copy": tiled mode with its gather4 and scatter4, and im2col mode. Where the
ISA is silent, an H200 was asked (driver 580.159, 2026-11-21), but not about im2col, and the comment says so.

A box is rows: runs of bytes along dimension 0, contiguous in global memory. What is in bounds of a row is the same for
every row that is in bounds at all, so all that a copy reads or writes is runs of one length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.layouts.swizzle import PATTERN_BYTES, swizzled
from scalec.emulator.layouts.tensor_map import TensorMap

SHARED_ALIGNMENT = 128  # every copy's, whatever the swizzle: an H200 traps on less ("misaligned address")
BOX_ALIGNMENT = 16  # PTX ISA 5.5.3.1: of the first byte of a box; an H200 traps on less, "illegal instruction"
# "a special NaN" (PTX ISA 5.5.3.3): on an H200 0x7ff7 in every 16 bits, whatever the type
_NAN_FILL = np.array([0xF7, 0x7F], np.uint8)
_TF32_NAN = 0x7FFFE000

ReadGlobal = Callable[[np.ndarray, int], np.ndarray]
ReadShared = Callable[[np.ndarray, int], np.ndarray]


@dataclass(frozen=True, eq=False)
class Box:
    """The bytes that one copy moves.

    Attributes:
        row_addresses: int64 (rows,): global byte address of every row's first byte, in bounds or not.
        rows_in_bounds: bool (rows,).
        low, high: bytes of a row in bounds: [low, high); low == high when none is. Of a store, those it writes: the
            last 16 that the extent reaches into are written whole.
        row_bytes: bytes of a row in global memory.
        shared_offsets: int64 (rows, pieces): byte offset of every piece of a row from the shared memory address.
        piece: bytes of data of a piece; the pieces of a row follow one another in global memory.
        transaction_bytes: what the mbarrier is told, out-of-bounds bytes included, those that follow a piece in shared
            memory and that a load leaves undefined (PTX ISA 5.5.1.1.1) not.
    """

    row_addresses: np.ndarray
    rows_in_bounds: np.ndarray
    low: int
    high: int
    row_bytes: int
    shared_offsets: np.ndarray
    piece: int
    transaction_bytes: int

    @property
    def run_addresses(self) -> np.ndarray:
        """int64 (runs,): where the runs of `run_bytes` bytes in bounds begin."""
        if self.low == self.high:
            return self.row_addresses[:0]
        return self.row_addresses[self.rows_in_bounds] + self.low

    @property
    def run_bytes(self) -> int:
        return self.high - self.low

    @property
    def whole(self) -> bool:
        """Everything is in bounds."""
        return self.run_bytes == self.row_bytes and bool(self.rows_in_bounds.all())

    @property
    def addresses(self) -> np.ndarray:
        """int64 (rows, pieces): global byte address of every piece, in bounds or not."""
        return self.row_addresses[:, None] + np.arange(0, self.row_bytes, self.piece)

    @property
    def in_bounds(self) -> np.ndarray:
        """bool (rows, row_bytes): every byte's."""
        inner = np.arange(self.row_bytes)
        return self.rows_in_bounds[:, None] & (inner >= self.low) & (inner < self.high)


class Load(NamedTuple):
    """What a copy to shared memory does."""

    shared_offsets: np.ndarray  # int64 (pieces,), from the destination address
    data: np.ndarray  # uint8 (pieces, piece): what is written there
    addresses: np.ndarray  # int64 (runs,): where it read, `run_bytes` bytes each
    box: Box  # the rest


class Store(NamedTuple):
    """What a copy or reduction to global memory does."""

    addresses: np.ndarray  # int64 (runs,), global
    data: np.ndarray  # uint8 (runs, run_bytes): what is written there, or reduced into it
    shared_offsets: np.ndarray  # int64 (pieces,): what it read, from the source address
    box: Box  # the rest


@dataclass(frozen=True, eq=False)
class _Geometry:
    """Of all maps that differ in nothing but the address.

    Attributes:
        unit: bits of a step along dimension 0: an element's, or a slice's with an interleave.
        outer: the dimensions that rows are counted along, fastest first.
        index: int64 (outer, rows): elements from the box's corner, along each of `outer`.
        row_offsets: int64 (rows,): bytes from the box's corner.
        row_bytes: of a row in global memory.
        piece, spread: bytes of a piece, and from one piece to the next in shared memory before the swizzle.
        pitch: bytes from one row to the next in shared memory.
    """

    unit: int
    outer: tuple[int, ...]
    index: np.ndarray
    row_offsets: np.ndarray
    row_bytes: int
    piece: int
    spread: int
    pitch: int

    @property
    def rows(self) -> int:
        return len(self.row_offsets)


@lru_cache(maxsize=256)
def _geometry(
    bits: int,
    padded_piece: int,
    strides: tuple[int, ...],
    box: tuple[int, ...],
    steps: tuple[int, ...],
    interleave: int,
    swizzle: int,
    flip: bool,
    gathered: bool,
) -> _Geometry:
    unit = interleave * 8 or bits
    slots = [-(-size // step) for size, step in zip(box, steps, strict=True)]
    if interleave:
        # dimension 0 counts slices; the one before the last is the slice of channels, of which a copy takes one
        # whatever the box says (H200)
        slots[-2] = 1
    else:
        slots[0] = box[0]
    if gathered:
        slots[1] = 4
    strided = interleave > 0 and steps[0] > 1
    outer = tuple(range(0 if strided else 1, len(box)))
    counts = [slots[d] for d in outer]
    index = np.indices(counts[::-1], np.int64).reshape(len(outer), prod(counts))[::-1]
    index = index * np.array([steps[d] for d in outer], np.int64).reshape(-1, 1)
    all_strides = (unit // 8, *strides)
    row_offsets = np.zeros(prod(counts), np.int64)
    for d, along in zip(outer, index, strict=True):
        if not (gathered and d == 1):
            row_offsets += along * all_strides[d]
    row_bytes = (1 if strided else slots[0]) * unit // 8
    piece = padded_piece or (8 if flip else 16)
    spread = 16 if padded_piece else piece
    # with a swizzle a row takes the whole span (H200; CUDA programming guide, "shared memory ... to accommodate the
    # full swizzle width"); slices lie densely
    pitch = swizzle if swizzle and not interleave else row_bytes // piece * spread
    return _Geometry(unit, outer, index, row_offsets, row_bytes, piece, spread, pitch)


@lru_cache(maxsize=1024)
def _shared_offsets(geometry: _Geometry, phase: int, swizzle: int, atomicity: str) -> np.ndarray:
    """int64 (rows, pieces) for a destination whose address is `phase` modulo the pattern."""
    rows = np.arange(geometry.rows, dtype=np.int64)[:, None] * geometry.pitch
    pieces = np.arange(geometry.row_bytes // geometry.piece, dtype=np.int64) * geometry.spread
    offsets = swizzled(phase + rows + pieces, swizzle, atomicity) - phase
    offsets.flags.writeable = False
    return offsets


def box(
    tensor_map: TensorMap,
    coordinates: Sequence[int],
    shared_address: int,
    *,
    gathered: bool = False,
    storing: bool = False,
    offsets: Sequence[int] | None = None,
) -> Box:
    """The box of a copy: what it reads and writes, before any byte moves.

    Args:
        coordinates: one for each dimension, innermost first; with `gathered` the column and four rows
            (PTX ISA 5.5.3.4 ".tile::scatter4 and .tile::gather4 modes").
        shared_address: of the destination or source, absolute: the swizzle is of its bits.
        storing: the copy, or the reduction, is from shared to global memory.
        offsets: of a copy in im2col mode, pixels that are added along dimensions 1 to rank - 2; empty for none.

    Raises:
        Finding: descriptor, of a map of another rank or mode or one that does not go with the direction; alignment, of
            an address in either memory; bounds, of a store at negative coordinates.
        NotModelled: im2col with an interleave, or that begins where the ISA does not say what follows.
    """
    m = tensor_map
    _check_mode(m, offsets)
    _check_direction(m, coordinates, storing)
    _check_box(m, coordinates, shared_address, gathered)
    flip = m.atomicity == "32B+8B"
    strides, steps = ((0,), (1, 1)) if m.im2col else (m.strides, m.element_strides)
    geometry = _geometry(m.bits, m.piece, strides, m.box, steps, m.interleave, m.swizzle, flip, gathered)
    first = coordinates[0] * geometry.unit // 8
    corner = m.address + first
    if gathered:
        rows = np.array(coordinates[1:], np.int64)
        addresses = corner + rows * m.strides[0]
        in_bounds = (rows >= 0) & (rows < m.extents[1])
    elif offsets is not None:
        pixels = _pixels(m, coordinates, offsets)
        addresses = corner + np.array(m.strides, np.int64) @ pixels
        in_bounds = np.all((pixels >= 0) & (pixels < np.array(m.extents[1:], np.int64)[:, None]), axis=0)
    else:
        for coordinate, stride in zip(coordinates[1:], m.strides, strict=True):
            corner += coordinate * stride
        addresses = geometry.row_offsets + corner
        in_bounds = _rows_in_bounds(m, geometry, coordinates)
    low, high = 0, geometry.row_bytes
    if len(geometry.outer) < m.rank:  # a row lies along dimension 0
        low = min(max(-first, 0), high)
        end = m.extents[0] * geometry.unit // 8 - first
        if storing:  # clips at 16 bytes: the rest of the last 16 that the extent reaches into is written too (H200)
            end = -(-end // BOX_ALIGNMENT) * BOX_ALIGNMENT
        high = max(min(end, high), low)
    return Box(
        addresses,
        in_bounds,
        low,
        high,
        geometry.row_bytes,
        _shared_offsets(geometry, shared_address % PATTERN_BYTES, m.swizzle, m.atomicity),
        geometry.piece,
        geometry.rows * geometry.row_bytes,
    )


def _pixels(m: TensorMap, coordinates: Sequence[int], offsets: Sequence[int]) -> np.ndarray:
    """int64 (rank - 1, pixels): where a column's pixels are, along dimensions 1 and up (PTX ISA 5.5.4).

    They follow one another through the box of pixels, every so-many-th as element strides say, dimension 1 fastest; the
    last dimension counts boxes. Offsets move all of them, and the box with them.
    """
    following, pace = np.arange(m.box[1], dtype=np.int64), 1
    *starts, first = coordinates[1:]
    *steps, every = m.element_strides[1:]
    sizes = [
        -(-(e + high - low) // s) for e, low, high, s in zip(m.extents[1:-1], m.lower, m.upper, steps, strict=True)
    ]
    for start, low, step, size in zip(starts, m.lower, steps, sizes, strict=True):
        index, rest = divmod(start - low, step)
        if rest or not 0 <= index < size:
            raise NotModelled(
                f"im2col copies whose first pixel is at {start}, in a box of {size} from {low} on, every {step}"
            )
        following += index * pace
        pace *= size
    found = []
    for size, low, step, offset in zip(sizes, m.lower, steps, offsets or (0,) * len(sizes), strict=True):
        found.append(low + following % size * step + offset)
        following //= size
    return np.stack([*found, first + following * every])


def _check_mode(m: TensorMap, offsets: Sequence[int] | None) -> None:
    modes = {True: "im2col", False: "tiled"}
    if m.im2col != (offsets is not None):
        raise Finding(
            "descriptor",
            f"a copy in {modes[not m.im2col]} mode with a tensor map of {modes[m.im2col]} mode",
            expected="a map and a copy of the same mode (PTX ISA 5.5.3, 5.5.4)",
        )
    if offsets and len(offsets) != m.rank - 2:
        raise Finding(
            "descriptor",
            f"{len(offsets)} im2col offsets with a tensor map of rank {m.rank}",
            expected=f"{m.rank - 2}: one for each dimension of pixels",
        )
    if m.im2col and m.interleave:
        raise NotModelled("im2col copies with an interleave")


def _rows_in_bounds(m: TensorMap, geometry: _Geometry, coordinates: Sequence[int]) -> np.ndarray:
    inside = np.ones(geometry.rows, bool)
    for d, along in zip(geometry.outer, geometry.index, strict=True):
        start = coordinates[d]
        if start < 0 or start + int(along[-1]) >= m.extents[d]:
            inside &= (along >= -start) & (along < m.extents[d] - start)
    return inside


def _check_box(m: TensorMap, coordinates: Sequence[int], shared_address: int, gathered: bool) -> None:
    if gathered and (m.rank != 2 or m.box[1] != 1 or m.interleave or len(coordinates) != 5):
        raise Finding(
            "descriptor",
            f"gather4 or scatter4 of {len(coordinates)} coordinates on a tensor map of rank {m.rank}, box {m.box},"
            f" interleave {m.interleave}",
            expected="5 coordinates, rank 2, a box of 1 along dimension 1, no interleave",
        )
    if not gathered and len(coordinates) != m.rank:
        raise Finding(
            "descriptor",
            f"a copy of {len(coordinates)} dimensions with a tensor map of rank {m.rank}",
            expected=f"{m.rank} coordinates",
        )
    if shared_address % SHARED_ALIGNMENT:
        raise Finding(
            "alignment",
            f"a tensor copy at shared memory address {shared_address:#x}",
            expected=f"a multiple of {SHARED_ALIGNMENT}",
        )
    bits, multiple = coordinates[0] * m.bits, 128 if m.padded else 1
    if not m.interleave and (bits % (8 * BOX_ALIGNMENT) or coordinates[0] % multiple):
        what = f"a multiple of {multiple}" if m.padded else f"a multiple of {BOX_ALIGNMENT * 8 // m.bits} elements"
        raise Finding(
            "alignment",
            f"coordinate {coordinates[0]} of dimension 0 puts the box {bits / 8:g} bytes into the row",
            expected=f"{what}: a box begins at a multiple of {BOX_ALIGNMENT} bytes",
        )


def _check_direction(m: TensorMap, coordinates: Sequence[int], storing: bool) -> None:
    """PTX ISA 9.7.9.25.5.1 "Restriction on Tensor Copy instructions", and cuTensorMapEncodeTiled of 16U6_ALIGN16B."""
    if not storing:
        if m.element == "b6x16_p32" and m.atomicity == "64B":
            raise Finding("descriptor", "a load of b6x16_p32 elements with the 64B atomicity, which is for stores")
        return
    if m.element == "b4x16_p64" or m.atomicity == "32B+8B":
        what = "b4x16_p64 elements" if m.element == "b4x16_p64" else "the swizzle with an 8-byte flip"
        raise Finding("descriptor", f"a store with {what}", expected="they are for loads (PTX ISA 9.7.9.25.5.1)")
    if min(coordinates) < 0:  # an H200 traps
        raise Finding(
            "bounds",
            f"a tensor store at coordinates {tuple(coordinates)}",
            expected="none negative (PTX ISA 9.7.9.25.5.1); past the upper end is clipped",
        )


def check_cluster_destination(tensor_map: TensorMap) -> None:
    """What a load into shared::cluster does not do on sm_120a (PTX ISA 9.7.9.25.5.1): call it for that target only.

    Raises:
        Finding: illegal.
    """
    if tensor_map.bits < 8 or tensor_map.atomicity != "16B":
        raise Finding(
            "illegal",
            f"a load of {tensor_map.element} elements, swizzle atomicity {tensor_map.atomicity}, to shared::cluster",
            expected="elements of whole bytes and the 16B atomicity on sm_120a (PTX ISA 9.7.9.25.5.1)",
            fix="name the destination .shared::cta",
        )


def load(
    tensor_map: TensorMap,
    coordinates: Sequence[int],
    shared_address: int,
    read_global: ReadGlobal,
    *,
    gathered: bool = False,
    offsets: Sequence[int] | None = None,
) -> Load:
    """cp.async.bulk.tensor from global to shared memory: what to write where.

    Args:
        read_global: (int64 addresses (n,), bytes of each) -> uint8 (n, bytes).

    Raises:
        Finding: as `box`.
    """
    moved = box(tensor_map, coordinates, shared_address, gathered=gathered, offsets=offsets)
    addresses = moved.run_addresses
    if moved.whole:
        rows = _converted(tensor_map, read_global(addresses, moved.run_bytes))
    else:
        rows = np.zeros((len(moved.row_addresses), moved.row_bytes), np.uint8)
        if tensor_map.fill == "nan":
            rows.reshape(-1, 2)[:] = _NAN_FILL
        if len(addresses):
            inner = slice(moved.low, moved.high)
            rows[moved.rows_in_bounds, inner] = _converted(tensor_map, read_global(addresses, moved.run_bytes))
    return Load(moved.shared_offsets.reshape(-1), rows.reshape(-1, moved.piece), addresses, moved)


def _converted(m: TensorMap, data: np.ndarray) -> np.ndarray:
    """Loads round tf32 elements, to the nearest and ties to even, NaN to one NaN; .ftz changes no copy (H200)."""
    if m.element not in ("tf32", "tf32_ftz"):
        return data
    bits = np.ascontiguousarray(data).view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where(bits << np.uint32(1) > np.uint32(0xFF000000), np.uint32(_TF32_NAN), rounded).view(np.uint8)


def store(
    tensor_map: TensorMap,
    coordinates: Sequence[int],
    shared_address: int,
    read_shared: ReadShared,
    *,
    gathered: bool = False,
    offsets: Sequence[int] | None = None,
) -> Store:
    """cp.async.bulk.tensor and cp.reduce.async.bulk.tensor from shared to global memory: what goes where.

    Args:
        read_shared: (int64 offsets from the source address (n,), bytes of each) -> uint8 (n, bytes).
        gathered: .tile::scatter4.

    Raises:
        Finding: as `box`.
    """
    m = tensor_map
    moved = box(m, coordinates, shared_address, gathered=gathered, storing=True, offsets=offsets)
    places = moved.shared_offsets.reshape(-1)
    if m.element == "b6x16_p32":
        # .b6p2x16 (PTX ISA 5.5.1.1.1, figure 7): bytes of which the low six bits are packed
        bits = np.unpackbits(read_shared(places, 16), axis=1, bitorder="little")
        data = np.packbits(bits.reshape(-1, 16, 8)[:, :, :6].reshape(-1, 96), axis=1, bitorder="little")
    else:
        data = read_shared(places, moved.piece)
    rows = data.reshape(-1, moved.row_bytes)
    addresses = moved.run_addresses
    if not moved.whole:
        rows = rows[moved.rows_in_bounds, moved.low : moved.high][: len(addresses)]
    return Store(addresses, rows, places, moved)
