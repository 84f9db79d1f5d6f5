"""How threads share out a program without a contraction: derived from its sizes and types, nothing is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.ir.tile_pointwise import MOST_BYTES
from scalec.passes.problem.pointwise import Pointwise

THREADS = 128
"""Of a CTA: four warps, of which an SM holds as many CTAs as their registers leave it. Not measured."""

MOST_TOGETHER, UNKNOWN_TOGETHER = 8, 4
"""Terms of a sum whose loads are issued before the first is added: at most, and where their number is unknown. A thread
holds a vector of each. Not measured."""

WASTED = 8
"""Threads along a row may have nothing for one vector in so many. Not measured."""

SECTORS = 8
"""Threads along a row, at least, where the row has as many vectors: 128 bytes, a line of L2. Not measured."""


@dataclass(frozen=True)
class Spread:
    """How threads share out a result.

    Attributes:
        vector: adjacent columns of a row that a thread has.
        rows, columns: of a CTA's tile; a tile has one index along each further dimension.
        together: terms of a sum that a thread loads before it adds the first.
        whole: whether every thread inside the result has a whole vector, as it divides the number of columns.
        threads: of a CTA.
    """

    vector: int
    rows: int
    columns: int
    together: int
    whole: bool
    threads: int = THREADS

    @staticmethod
    def of(p: Pointwise) -> Spread:
        """Vectors of 16 bytes of the narrowest type that is read or written along the columns, or where these are known
        and no multiple, of the largest power of two that divides them."""
        bits = [x.element.bits for x in p.every if p.along(x)]
        vector, n = 1 if p.single else 8 * MOST_BYTES // min([*bits, p.element.bits]), p.columns.size
        while n and n % vector:
            vector //= 2
        across = _across(-(-(p.columns.largest or THREADS * vector) // vector))
        return Spread(vector, THREADS // across, across * vector, _together(p), bool(n))

    def __str__(self) -> str:
        return f"rows={self.rows}, columns={self.columns}, vector={self.vector}, together={self.together}"


def _across(vectors: int) -> int:
    """Threads along a row of so many vectors, a power of two: the most that WASTED allows, or that waste least."""
    lanes = [x for x in (128, 64, 32, 16, 8, 4, 2, 1) if x < 2 * vectors] or [1]
    wasted = {x: -(-vectors // x) * x - vectors for x in lanes}
    wide = [x for x in lanes if x >= SECTORS]
    few = next((x for x in wide if WASTED * wasted[x] <= vectors), None)
    return few or min(wide or lanes[:1], key=lambda x: wasted[x])


def _together(p: Pointwise) -> int:
    """Terms that are loaded at once: all, or as many parts of them as are as long as each other."""
    terms = p.reduction.dim.size if p.reduction else 1
    if terms is None:
        return UNKNOWN_TOGETHER
    return max(1, -(-terms // max(1, -(-terms // MOST_TOGETHER))))
