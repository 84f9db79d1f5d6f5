"""Which elements of wgmma's matrices the registers of a warp hold (PTX ISA 9.7.15.5.1, register fragments)."""

from __future__ import annotations

from functools import cache

import numpy as np

_LANE = np.arange(32)


@cache
def accumulator(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column, of a warp's 16 by n part of D, of element i in a lane: two int (n / 2, 32)."""
    i = np.arange(n // 2)[:, None]
    rows = _LANE // 4 + i // 2 % 2 * 8
    columns = i // 4 * 8 + _LANE % 4 * 2 + i % 2
    return rows, columns


@cache
def operand_a() -> tuple[np.ndarray, np.ndarray]:
    """Row, and byte in the row, of byte j of register i of A in a lane: two int (4, 32, 4).

    The four registers are quadrants of 8 rows by 16 bytes: rows first, then K; a lane's four bytes lie together for
    every width of element.
    """
    i = np.arange(4)[:, None, None]
    j = np.arange(4)
    lane = _LANE[None, :, None]
    rows = lane // 4 + i % 2 * 8 + 0 * j
    columns = lane % 4 * 4 + i // 2 * 16 + j
    return rows, columns


def a_bytes(registers: np.ndarray) -> np.ndarray:
    """The bytes of a warp's 16 rows of A: uint32 (4, 32) -> uint8 (16, 32)."""
    rows, columns = operand_a()
    out = np.empty((16, 32), np.uint8)
    out[rows, columns] = np.ascontiguousarray(registers).view(np.uint8).reshape(4, 32, 4)
    return out
