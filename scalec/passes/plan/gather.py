"""Operands whose rows an index read from memory names: how they are copied, and what cannot be with them."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.ir.tile import COPY_ALIGN
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.types import Problem

PLAIN_INDICES = 2
"""Of a tensor whose rows are copied several at a time: `.tile::gather4` takes one coordinate of the contiguous index
and the rows (PTX ISA 5.5.3.4)."""


def gathered_together(problem: Problem, operand: Operand) -> int:
    """Rows that one copy of an operand brings whose rows are gathered."""
    return problem.target.gathers if len(operand.coords) == PLAIN_INDICES else 1


def stored_row(problem: Problem, operand: Operand, depth: int) -> int:
    """Bytes from row to row of a tile that warps convert; where they are gathered one by one, each begins where a copy
    may."""
    row = operand.copied_bytes(depth)
    if operand.gathered and gathered_together(problem, operand) == 1:
        return -(-row // COPY_ALIGN) * COPY_ALIGN
    return row


def no_gather(problem: Problem, schedule: Schedule) -> str:
    """Why rows cannot be gathered into a tile, "" where they can, or need not."""
    for operand in (problem.lhs, problem.rhs):
        if not operand.gathered:
            continue
        row, together = _row(problem, operand, schedule.tile[2]), gathered_together(problem, operand)
        if row * together % COPY_ALIGN:
            return (
                f"a tile has {row} bytes of a row of {operand.name}, which {operand.gathered} names: a copy of "
                f"{together} {'rows is' if together > 1 else 'row is'} {row * together} bytes, and begins at a "
                f"multiple of {COPY_ALIGN} in shared memory"
            )
    return no_shared_gather(problem, schedule.cluster, schedule.cta_group)


def _row(problem: Problem, operand: Operand, depth: int) -> int:
    return stored_row(problem, operand, depth) if operand.converted else operand.shared_bytes(depth)


def no_shared_gather(problem: Problem, cluster: tuple[int, int], cta_group: int = 1) -> str:
    """Why the CTAs of a cluster cannot share the tiles that they share, "" where they can: no copy of gathered rows is
    a multicast."""
    along_m, along_n = cluster
    shared = problem.lhs if along_n > 1 else problem.rhs if along_m > cta_group else None
    if shared is None or not shared.gathered:
        return ""
    return f"CTAs of a cluster of {along_m}x{along_n} share tiles of {shared.name}, whose rows {shared.gathered} names"
