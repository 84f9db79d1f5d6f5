"""Scale factors of the block-scaled kinds of tcgen05.mma in tensor memory (PTX ISA 9.7.16.10.7).

Row r of matrix A (column r of matrix B) has its scale factors in lane r % 32 of column r / 32, one to a byte, beginning
with the byte that the scale factor ID names; all four lane partitions must hold the same. So figures 231 to 233 for A,
240 to 242 for B; the copy .32x128b.warpx4 of tcgen05.cp writes just this, four columns for 128 rows at a time.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.layouts.tensor_memory import COLUMNS, LANES, PARTITION, Cells


class ScaleVector(NamedTuple):
    """What .scale_vectorsize means for a kind (Tables 56 and 57)."""

    factors: int  # scale factors for a row of A in one instruction
    types: tuple[str, ...]  # of the scale factors
    ids: tuple[int, ...]  # the scale factor IDs that are legal


_X1 = ScaleVector(1, ("ue8m0",), (0, 1, 2, 3))  # 9.7.16.10.7.2.1
_X2 = ScaleVector(2, ("ue8m0",), (0, 2))  # 9.7.16.10.7.2.2
_X4 = ScaleVector(4, ("ue8m0", "ue4m3"), (0,))  # 9.7.16.10.7.2.3

# Tables 56 and 57 without K = 96, which sm_100a does not have. "": no qualifier; 9.7.16.10.9.1 gives the default for
# mxf4 and none for mxf4nvf4, and ptxas takes mxf8f6f4 without.
SCALE_VECTORS: dict[str, dict[str, ScaleVector]] = {
    "mxf8f6f4": {"": _X1, "scale_vec::1X": _X1, "block32": _X1},
    "mxf4": {"": _X2, "scale_vec::2X": _X2, "block32": _X2},
    "mxf4nvf4": {"scale_vec::2X": _X2, "block32": _X2, "scale_vec::4X": _X4, "block16": _X4},
}


def scale_vector(kind: str, qualifier: str) -> ScaleVector:
    """The meaning of a .scale_vectorsize qualifier ("" if there is none).

    Raises:
        Finding: illegal, the kind does not take it.
    """
    legal = SCALE_VECTORS[kind]
    if qualifier not in legal:
        raise Finding(
            "illegal",
            f".kind::{kind} with {'.' + qualifier if qualifier else 'no .scale_vectorsize'}",
            expected=" or ".join(f".{q}" for q in legal if q),
        )
    return legal[qualifier]


def split_scale_address(address: int) -> int:
    """The column of the address of a scale matrix.

    Bits 30 and 31 are ignored: CUTLASS keeps the scale factor ID in them and passes them to the instruction.

    Raises:
        Finding: the lane is not 0, or there is no such column.
    """
    lane, column = (address >> 16) & 0x3FFF, address & 0xFFFF
    if column >= COLUMNS or lane >= LANES:
        raise Finding("bounds", f"scale factors at lane {lane}, column {column}", expected=f"column below {COLUMNS}")
    if lane:
        raise Finding("alignment", f"scale factors at lane {lane}", expected="lane 0: they fill all lane partitions")
    return column


def rows_in_cta(m: int, n: int, cta_group: int) -> tuple[int, int]:
    """How many rows of scale_A and of scale_B each CTA holds: its own rows of A, all columns of B.

    Raises:
        NotModelled: M = 128 with .cta_group::2, whose scale_B the ISA does not draw (layout B computes the second half
            of N in lanes 64 to 127; where these lanes take its scale factors from is not said).
    """
    if (m, cta_group) == (128, 2):
        raise NotModelled("block scaling with M = 128 and .cta_group::2: the ISA does not say where scale_B lies")
    return m // cta_group, n


@cache
def scale_cells(rows: int) -> Cells:
    """The cells that hold the scale factors of `rows` rows.

    Returns:
        Cells (4 lane partitions, rows), relative to lane 0 and the column of the address.
    """
    row = np.arange(rows)
    lanes = row % PARTITION + PARTITION * np.arange(LANES // PARTITION)[:, None]
    columns = np.broadcast_to(row // PARTITION, lanes.shape).copy()
    for array in (lanes, columns):
        array.flags.writeable = False
    return Cells(lanes, columns)


def scale_bytes(words: np.ndarray, factors: int, scale_id: int, what: str) -> np.ndarray:
    """The scale factors out of the words of `scale_cells`.

    Args:
        words: (4, rows) uint32.
        factors: scale factors in a row.
        scale_id: the first one's byte.
        what: "A" or "B".

    Returns:
        (rows, factors) uint8.

    Raises:
        Finding: tensor-memory, the lane partitions hold different scale factors.
    """
    found = (
        np.ascontiguousarray(words, "<u4").view(np.uint8).reshape(*words.shape, 4)[..., scale_id : scale_id + factors]
    )
    differ = (found != found[0]).any(axis=(0, 2))
    if differ.any():
        row = int(np.flatnonzero(differ)[0])
        partition = int(np.flatnonzero((found[:, row] != found[0, row]).any(-1))[0])
        lane, column = row % PARTITION, row // PARTITION
        raise Finding(
            "tensor-memory",
            f"scale_{what}, row {row} (column {column} of the matrix): {found[0, row].tolist()} in lane {lane},"
            f" {found[partition, row].tolist()} in lane {lane + PARTITION * partition}",
            expected="the same scale factors in all four lane partitions (9.7.16.10.7)",
            fix="tcgen05.cp.32x128b.warpx4 writes all four",
        )
    return found[0]
