"""Scale factors of blocks of columns (`scale(..., 128x128)`) that a consumer thread holds."""

from __future__ import annotations

import math

from scalec.formats import WHOLE
from scalec.ir.schedule import LANES, PERMUTED, Schedule
from scalec.passes.problem.types import Problem

FREE_FACTORS = 4
"""Scale factors of column blocks that OVERHEAD_REGISTERS still covers: blocks of 32 columns at a tile of 128 columns,
and all coarser ones, ran without spills at every tile (ptxas 13.5, 2026-11-21)."""

HELD_COLUMNS = 32
"""Columns of a tile whose factors wait in registers, two for each eight: during the promotion their loads keep the
arrival waiting, and the next products. 16x32768x512 with its shipped schedule: 6.19 us for 6.82 (H200, 2026-11-30)."""


def step_of(columns: int, block: int) -> int:
    """Columns of a tile that lie in one block, wherever the tile begins."""
    return math.gcd(columns, block)


def by_block(schedule: Schedule, columns: int, block: int) -> bool:
    """Whether a thread has a factor for each block that a tile may reach into, of which each step of columns selects
    one, and not a factor for each step: where `mma_n` says that registers are short, and the blocks are fewer. With one
    for each step, and the address of each, 192x176 spilled 272 bytes; with three it does not (ptxas 13.0, 2026-11-21).
    """
    return bool(schedule.mma_n) and block != WHOLE and _reached(columns, block) < columns // step_of(columns, block)


def fetched(schedule: Schedule, columns: int, block: int) -> tuple[int, int]:
    """(count, columns between them) of the factors of a tile's columns."""
    step = step_of(columns, block)
    return (_reached(columns, block), block) if by_block(schedule, columns, block) else (columns // step, step)


def _reached(columns: int, block: int) -> int:
    """Blocks that a tile may reach into: it begins up to a block less a step behind the beginning of one."""
    return -(-(block - step_of(columns, block) + columns) // block)


def factor_registers(problem: Problem, schedule: Schedule) -> int:
    """Registers of the factors of column blocks (`scale(..., 8x128)`), beyond those in OVERHEAD_REGISTERS, estimated.

    A set for each K block of an iteration, and one that is fetched ahead. Of 1x128 by 16x128 and by 8x128 at six sizes
    this tells which of 256x128 and 192x128 spill, at each unroll (ptxas 13.5, 2026-11-21).
    """
    blocks = [s.rows for s in problem.rhs.promoted if s.rows not in (1, WHOLE)]
    sets = 1 + (1 if problem.kind.tensor_memory else schedule.unroll)  # there the loop that promotes is not unrolled
    counts = [fetched(schedule, schedule.tile[1], b)[0] for b in blocks]
    return max((max(0, count - FREE_FACTORS) * sets for count in counts), default=0)


def held(schedule: Schedule) -> bool:
    """Whether the factors of single columns are loaded under the products that they are of, into a register each, and
    not where they are used: then a stage is handed back before its sums are promoted, and no load stands between."""
    return schedule.tile[1] <= HELD_COLUMNS


def no_permuted_columns(problem: Problem, schedule: Schedule, within: int) -> str:
    """Why the columns of an accumulator cannot be permuted within so many, or why nothing is gained, "" where they
    can."""
    family, b, n = problem.family, problem.rhs, problem.n
    if problem.panes > 1:
        return f"{' and '.join(x.name for x in b.panes)} lie side by side in a tile, and copies permute those of one"
    if not family.kind.permutes:
        return f"{problem.target.name} does not multiply from shared memory into registers"
    if len(problem.results) != 1:
        return f"{problem.names} are staged from the same sums, each by elements of its own"
    result = problem.result
    if result.transformed:
        return f"{result.name} is transformed, by lanes that have adjacent columns in order"
    if PERMUTED.get(result.element.bits) != within:
        rows = " and ".join(f"{columns // LANES} of {bits} bits" for bits, columns in PERMUTED.items())
        return f"{result.name} has {result.element.bits}-bit elements, and a register holds {rows}"
    if problem.swapped:
        return f"swap=1: columns of a tile are rows of {result.name}"
    if schedule.epilogue != "bulk":
        return f"{result.name} does not go through shared memory (epilogue={schedule.epilogue})"
    for x in (product.rhs for product in problem.products):
        if x.mn_major:
            return f"{x.name} is contiguous along {n.name}, and copies permute whole rows"
        if x.converted:
            return f"{x.name} is converted behind its copies, row by row"
        if x.gathered:
            return f"{x.name} is copied row by row, as {x.gathered} names them"
        if len(x.coords) > 2:
            return f"{x.name} has {len(x.coords)} indices, and copies that permute rows take five coordinates for two"
    if n.size is None or n.size % within:
        return f"{n.name} is {n.size or 'not known'}, and copies permute whole groups of {within} rows of {b.name}"
    if schedule.tile[1] % within:
        return f"tile N = {schedule.tile[1]} is not a multiple of {within}"
    for scale in (scale for product in problem.products for scale in product.rhs.promoted):
        if scale.rows not in (1, WHOLE) and step_of(schedule.tile[1], scale.rows) % within:
            return (
                f"{scale.name} changes within {within} columns of a tile: blocks have {scale.rows} rows, a tile has "
                f"{schedule.tile[1]} columns"
            )
    if result.scale is not None and result.scale.block % within and within != LANES // 2 * result.scale.block:
        return f"blocks of {result.scale.block} are no multiple of {within} columns, and no half of them"
    return ""
