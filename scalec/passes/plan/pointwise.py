"""How threads share out a program without a contraction: derived from its sizes and types, nothing is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.passes.problem.pointwise import Pointwise

VECTOR_BYTES = 16
"""Bytes that one load or store of a thread moves at most (PTX ISA 9.7.9.8)."""

THREADS, MOST_TOGETHER, UNKNOWN_TOGETHER, WASTED = 128, 8, 4, 8


@dataclass(frozen=True)
class Spread:
    """A thread has `vector` adjacent columns of a row, a CTA `rows` rows of `columns` columns; so many terms of a sum
    are loaded `together`. `whole`: every vector is, as the vector divides the number of columns."""

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
        vector, n = 1 if p.single else 8 * VECTOR_BYTES // min([*bits, p.element.bits]), p.columns.size
        while n and n % vector:
            vector //= 2
        vectors = -(-(p.columns.largest or THREADS * vector) // vector)
        lanes = [x for x in (128, 64, 32, 16, 8, 4, 2, 1) if x < 2 * vectors]
        wasted = {x: -(-vectors // x) * x - vectors for x in lanes}
        across = next(
            (x for x in lanes if x >= 8 and WASTED * wasted[x] <= vectors),
            min(lanes[: max(1, len(lanes) - 3)], key=lambda x: wasted[x]),
        )
        j = p.reduction.dim.size if p.reduction else 1
        together = UNKNOWN_TOGETHER if j is None else -(-j // -(-max(1, j) // MOST_TOGETHER)) if j else 1
        return Spread(vector, THREADS // across, across * vector, max(1, together), bool(n))

    def __str__(self) -> str:
        return f"rows={self.rows}, columns={self.columns}, vector={self.vector}, together={self.together}"
