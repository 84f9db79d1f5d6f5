"""Operands whose rows an index read from memory names: how they are copied, and what cannot be with them."""

from __future__ import annotations

from math import gcd

from scalec.formats import WHOLE
from scalec.ir.schedule import Schedule
from scalec.ir.tile import CHUNK, COPY_ALIGN
from scalec.passes.problem.operand import Operand, Scale
from scalec.passes.problem.types import Problem
from scalec.targets import WARPGROUP

PLAIN_INDICES = 2
"""Of a tensor whose rows are copied several at a time: `.tile::gather4` takes one coordinate of the contiguous index
and the rows (PTX ISA 5.5.3.4)."""


ROWS_AT_ONCE = 16
"""Of K that a warpgroup copies, 16 bytes a thread, of panels of the widest swizzle."""


def copied_by_threads(problem: Problem, operand: Operand) -> bool:
    """Whether threads copy an operand, 16 bytes each: rows that are gathered along K, and others where no tensor copy
    brings several at once. Rows of pages lie at two indices, of which a tensor copy takes any."""
    rows = bool(operand.gathered) and not operand.page and problem.target.gathers == 1
    return bool(operand.gathered_k) or rows


def gatherers(problem: Problem) -> int:
    """Warpgroups that copy rows so."""
    return int(any(copied_by_threads(problem, x) for x in (problem.lhs, problem.rhs)))


def copies_of_thread(problem: Problem, tile: tuple[int, int, int]) -> int:
    """Copies of 16 bytes that each of their threads makes for a stage, of each product that is added up: it knows where
    the rows of all of them are."""
    sides = [pair for p in problem.products for pair in ((p.lhs, tile[0]), (p.rhs, tile[1]))]
    if problem.k_lookups:  # it has an index of a row of all panels
        return len([x for x, _ in sides if x.gathered_k]) * -(-tile[2] // ROWS_AT_ONCE)
    gathered = [(x, rows) for x, rows in sides if copied_by_threads(problem, x)]
    return sum(-(-rows * _row(problem, x, tile[2]) // (CHUNK * WARPGROUP)) for x, rows in gathered)


def whole_tiles(problem: Problem, depth: int) -> bool:
    """Whether no K tile of that depth reaches beyond K."""
    whole = all(x.k.size is not None and x.k.size % depth == 0 for x in problem.products)
    return whole and problem.range_of_k is None


def scales_copied_by_threads(problem: Problem, operand: Operand, depth: int) -> bool:
    """Whether these bring the operand's scales too, one for each row: f32 in memory, as they lie in a stage. Where
    there is a range of K, who brings several of a K tile zeroes those outside, in registers."""
    scale = operand.by_row
    if scale is None or not scale.gathered or scale.folded or scale.type != "f32":
        return False
    if not copied_by_threads(problem, operand):
        return False
    return scale.within(depth) == 1 or problem.range_of_k is None


def gathered_together(problem: Problem, operand: Operand) -> int:
    """Rows that one copy of an operand brings whose rows are gathered."""
    return problem.target.gathers if len(operand.coords) == PLAIN_INDICES else 1


def stored_row(problem: Problem, operand: Operand, depth: int) -> int:
    """Bytes from row to row of a tile that warps convert; where tensor copies gather one by one, each begins where
    these may."""
    row = operand.copied_bytes(depth)
    if operand.gathered and not copied_by_threads(problem, operand) and gathered_together(problem, operand) == 1:
        return -(-row // COPY_ALIGN) * COPY_ALIGN
    return row


def no_gather(problem: Problem, schedule: Schedule) -> str:
    """Why rows cannot be gathered into a tile, "" where they can, or need not."""
    for operand in (x for p in problem.products for x in (p.lhs, p.rhs)):
        if not operand.gathered or copied_by_threads(problem, operand):
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


def own_rows(problem: Problem) -> str:
    """Why CTAs do not multiply together where indices along K are read from memory."""
    return f"each CTA copies its own rows of {problem.k.name}, which {problem.k_lookups[0].name} names"


def left_out_by_threads(problem: Problem, scale: Scale) -> str:
    """Why threads bring a scale of an operand beside rows of K that are gathered: it may be no number where its block
    has no point that is summed."""
    return f"{scale.name} is left out where {problem.k_lookups[0].name} names no {problem.k.name} of a block"


def named_rows(scale: Scale, rows: int) -> int:
    """Of so many rows of a tile, which begins at a multiple of these, as many as have one scale of each element of K,
    where rows of K are gathered (`Scale.named`)."""
    return rows if scale.rows == WHOLE else gcd(scale.rows, rows)


def no_shared_gather(problem: Problem, cluster: tuple[int, int], cta_group: int = 1) -> str:
    """Why the CTAs of a cluster cannot share the tiles that they share, "" where they can: no copy of gathered rows is
    a multicast."""
    along_m, along_n = cluster
    shared = problem.lhs if along_n > 1 else problem.rhs if along_m > cta_group else None
    names = (shared.gathered or shared.gathered_k) if shared is not None else ""
    if shared is None or not names:
        return ""
    return f"CTAs of a cluster of {along_m}x{along_n} share tiles of {shared.name}, whose rows {names} names"
