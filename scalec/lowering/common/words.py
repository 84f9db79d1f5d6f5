"""Registers of elements, and of constants that are used again and again."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder

Words = list[ir.Value]
"""Registers of 32 bits, the first elements in the lowest bits of the first."""


def held(b: Builder, number: int) -> ir.Value:
    """A number in a register of each thread. The second constant of an instruction ptxas 13.0 has in a uniform register
    and moves before each use, unless it seems to differ by lane: no lane has the highest bit of its lanemask_lt."""
    text = "{ .reg .b32 T; mov.u32 T, %lanemask_lt; shr.u32 T, T, 31; add.u32 $0, T, $1; }"
    return b.pure(text, b.i32, b.constant(number))
