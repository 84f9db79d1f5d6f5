"""Structured sparse matrices: half of A's elements, and the metadata that says where in a row they stand.

PTX ISA 9.7.14.6.1 (mma.sp), 9.7.15.6.1 (wgmma.sp), 9.7.16.10.8 (tcgen05.mma.sp). A row of A is cut into chunks, each of
which has 4 bits of metadata: two indices of 2 bits, the first in the lower bits. Of 4 elements two are stored (2:4), of
8 elements of e2m1 two pairs (4:8); of 2 elements of tf32 one (1:2), which the indices name as if it were two halves.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.layouts.tensor_memory import LANES, Cells

ORDERED = frozenset({0x4, 0x8, 0x9, 0xC, 0xD, 0xE})
"""What .sp::ordered_metadata allows: rising indices."""
DISTINCT = frozenset(range(16)) - {0x0, 0x5, 0xA, 0xF}
"""What wgmma.sp and mma.sp forbid not."""
HALVES = frozenset({0x4, 0xE})
"""What tf32 has."""
SELECTORS = {1: (0, 1, 2, 3), 2: (0, 1), 4: (0,)}  # lanes of a quad that give metadata -> the legal selectors


def check_selector(threads: int, selector: int) -> None:
    """Raises Finding("illegal") for a sparsity selector that does not name `threads` lanes of a quad."""
    if selector not in SELECTORS[threads]:
        raise Finding(
            "illegal",
            f"a sparsity selector of {selector}, where {threads} lanes of four give the metadata",
            expected=" or ".join(map(str, SELECTORS[threads])) + " (PTX ISA 9.7.14.6.1, 9.7.15.6.1)",
        )


def ignored_lanes(threads: int, selector: int) -> np.ndarray:
    """bool (32,): the lanes whose metadata do not count."""
    return np.arange(32) % 4 // threads != selector


def register_metadata(words: np.ndarray, threads: int, selector: int) -> np.ndarray:
    """The metadata of a warp's 16 rows, of mma.sp and of wgmma.sp.

    The selector names 1, 2 or 4 lanes of a quad; what the others hold is not looked at. One lane, or each of two, has
    the quad's row l / 4 in its lower half and row l / 4 + 8 in the upper one; the second of two goes on with K. Of
    four, lanes 0 and 2 have row l / 4, lanes 1 and 3 row l / 4 + 8, and the last two go on with K (9.7.14.6.2, its
    figures; CUTLASS's ELayout_64x16, ELayout_64x32, ELayout_64x64 and those of SM120_SPARSE_16x8x64_TN agree).

    Args:
        words: uint32 (..., 32).

    Returns:
        uint8 (..., 16, 4 * threads): 4 bits of each chunk.
    """
    row = np.arange(16)[:, None]
    chunk = np.arange(4 * threads)
    if threads == 4:
        lane, at = row % 8 * 4 + row // 8 + chunk // 8 * 2, chunk % 8
    else:
        lane, at = row % 8 * 4 + selector * threads + chunk // 4, row // 8 * 4 + chunk % 4
    return (words[..., lane] >> (4 * at).astype(np.uint32) & np.uint32(15)).astype(np.uint8)


# -- tensor memory: 9.7.16.10.8.4 --------------------------------------------------------------------------------------


def aligned(lane: int, column: int) -> tuple[int, int]:
    """The address of metadata, checked.

    Raises:
        Finding: alignment, another lane than the first.
        NotModelled: an odd column: CUTLASS, whose layouts are what is known, has even ones alone, and the selector.
    """
    if lane:
        raise Finding("alignment", f"the metadata of tcgen05.mma.sp at lane {lane}", expected="lane 0")
    if column % 2:
        raise NotModelled(f"the metadata of tcgen05.mma.sp at the odd column {column}")
    return lane, column


@cache
def metadata_cells(m: int, cta_group: int, kind: str, selector: int) -> Cells:
    """The cells that hold the metadata of one CTA's 128 rows: for 16-bit types and tf32 one column of all lanes, which
    the selector chooses of two, else two columns (CUTLASS's tmem_e_frg, and how it divides an address).

    Returns:
        Cells (128 lanes, 1 or 2 columns).

    Raises:
        NotModelled: other selectors, and other rows than 128 for each CTA: they are in figures alone.
    """
    if m // cta_group != LANES:
        raise NotModelled(f"tcgen05.mma.sp with M = {m} and .cta_group::{cta_group}: the layout of the metadata")
    if selector > 1:
        raise NotModelled(f"tcgen05.mma.sp with a sparsity selector of {selector}")
    columns = [selector] if kind in ("f16", "tf32") else [0, 1]
    lanes, at = (x.copy() for x in np.broadcast_arrays(np.arange(LANES)[:, None], np.array(columns)))
    lanes.flags.writeable = at.flags.writeable = False
    return Cells(lanes, at)


def tensor_metadata(words: np.ndarray) -> np.ndarray:
    """The metadata of 128 rows, out of the words of `metadata_cells`.

    Two columns are a row of 64 bits to a lane. One column is as a register of mma.sp: lane l has row
    16 (l / 16) + l % 8 in its lower half and the one 8 further in its upper one; of the first half of K if l / 8 is
    even.

    Returns:
        uint8 (128, 8 or 16): 4 bits of each chunk.
    """
    chunk = np.arange(8)
    if words.shape[1] == 2:
        found = words[:, :, None] >> (4 * chunk).astype(np.uint32)
        return (found & np.uint32(15)).astype(np.uint8).reshape(len(words), -1)
    row = np.arange(len(words))[:, None]
    lane, at = row // 16 * 16 + row % 8 + chunk // 4 * 8, row // 8 % 2 * 4 + chunk % 4
    return (words[lane, 0] >> (4 * at).astype(np.uint32) & np.uint32(15)).astype(np.uint8)


# -- values ------------------------------------------------------------------------------------------------------------


def find_malformed(codes: np.ndarray, legal: frozenset[int], first: int = 0) -> Finding | None:
    """What is wrong with metadata, if anything.

    Args:
        codes: uint8 (rows, chunks).
        legal: the values that mean something.
        first: the number of the first row.
    """
    wrong = ~np.isin(codes, list(legal))
    if not wrong.any():
        return None
    row, chunk = np.argwhere(wrong)[0]
    return Finding(
        "illegal",
        f"metadata of {codes[row, chunk]:#06b} for chunk {chunk} of row {first + row} of a sparse matrix",
        expected=", ".join(f"{x:#06b}" for x in sorted(legal)),
    )


def expand(values: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The matrix with its zeros: (..., rows, K / 2) and metadata (..., rows, chunks) -> (..., rows, K).

    Returns:
        The matrix, and where its elements are stored ones, bool.
    """
    width = 2 * values.shape[-1] // codes.shape[-1]
    slots, unit = (2, 1) if width == 2 else (4, width // 4)
    indices = np.stack([codes >> 3] if width == 2 else [codes & 3, codes >> 2], axis=-1)[..., None].astype(np.int64)
    dense = np.zeros((*codes.shape, slots, unit), values.dtype)
    stored = np.zeros(dense.shape, bool)
    np.put_along_axis(dense, indices, values.reshape(*codes.shape, -1, unit), axis=-2)
    np.put_along_axis(stored, indices, True, axis=-2)
    shape = (*values.shape[:-1], -1)
    return dense.reshape(shape), stored.reshape(shape)
