"""The columns of an SM's tensor memory: accumulators, a K block's scale words beside them, and what a warp takes out.

`resources.py` adds up what registers these take, `shared_memory.py` what else.
"""

from __future__ import annotations

import math

from scalec.ir.schedule import Schedule
from scalec.ir.tile import LANES, WORD_ROWS
from scalec.passes.plan.words import WordPlan
from scalec.passes.problem.result import EpilogueInput
from scalec.passes.problem.types import Problem
from scalec.targets import MmaShape

TENSOR_COLUMNS = 512
"""Columns of an SM's tensor memory, each 32 bits of 128 rows (PTX ISA 9.7.16.1)."""

TAKEN_COLUMNS = 32
"""Sums of a row that a warp takes out of tensor memory at once, at the least: 32 registers of a thread for its 32
rows."""

FEW_TAKEN = 16
"""Likewise where each element has several addresses, around gaps, or one beside several sums: with 32, 48 registers
were spilled (two results with `+=` around gaps between odd columns, no size known, ptxas 13.0), with another input
around gaps beside `+=`, and with `+=` of a gate, as well."""

PARTS = 2
"""Of a tile that have registers of their own, if they fit."""

MOST_TAKEN = 64
"""Columns of which two parts find room in a thread's registers."""


def by_parts(problem: Problem, schedule: Schedule) -> bool:
    """Whether warps take sums out of tensor memory some columns at a time, each as they write it; else a thread holds
    all that it has of a tile."""
    return problem.kind.tensor_memory and not schedule.promote


def taken_columns(problem: Problem, columns: int, promote: int) -> int:
    """Columns that a warp takes at once of so many that it has of a tile. Where they are converted as they come: whole
    blocks of the result's scales, and where bulk copies may write them, as many as fill a row of the widest swizzle. A
    copy then writes whole lines of memory, and what stands around each part is shared by more columns: 28.5
    instructions of a warp for 32 columns of bf16, 37 with parts of 32 (ptxas 13.0, 2026-11-21). Not where something is
    read for each element, which takes registers of its own: `silu(...) * R[m,n]` spilled so, ibid. All results of the
    same sums take as many; fewer where a warp takes several numbers for each element of a contraction, or of some."""
    least, most = TAKEN_COLUMNS, TAKEN_COLUMNS if _many(problem, promote) else MOST_TAKEN
    results = () if promote else (*problem.bodies, *problem.beside)
    read = {x.name for r in results for x in r.inputs if around_gaps(x)}
    placed = read | {r.name for r in results if r.gaps is not None}  # one that is added to is in both
    if read and (len(results) > 1 or len(placed) > 1 or taken_apart(problem, promote) > 1):
        least = most = FEW_TAKEN
    narrow = problem.n.size is None or problem.swapped or any(x.kind == "both" for r in results for x in r.inputs)
    for result in (r for r in results if r.reduced is None):
        row = problem.target.swizzles[0] * 8 // result.element.bits
        narrowest = row * min(s for s in problem.target.swizzles if s) // problem.target.swizzles[0]
        block = result.column_fold.size if result.column_fold is not None else 1 if problem.swapped else result.block
        least = max(least, block, min(narrowest if narrow else row, most))
    return math.gcd(columns, 1 << (least - 1).bit_length())


def parts_taken(problem: Problem, columns: int, promote: int) -> int:
    """How many of these parts have registers of their own: one is on its way while another is converted, if two fit.
    Not where something is read around gaps, of which each element has an address (f16 `+=` with gaps between two
    columns, no size known: 32 bytes spilled, ptxas 13.0), nor where threads store elements one by one."""
    few = not _many(problem, promote) and taken_columns(problem, columns, promote) <= MOST_TAKEN
    few = few and not any(map(around_gaps, problem.inputs))
    few = few and not any(r.window is not None and r.column_fold is None for r in problem.results)
    return PARTS if few else 1


def around_gaps(x: EpilogueInput) -> bool:
    """Whether something is read for each element, around gaps: each then has an address."""
    return x.kind == "both" and any(at.gaps for at in x.coords)


def _many(problem: Problem, promote: int) -> bool:
    """Whether a warp takes sums of several segments, and more than two numbers for each element."""
    return problem.segments > 1 and taken_apart(problem, promote) > 2


def taken_apart(problem: Problem, promote: int) -> int:
    """Sums for each element of a result that a warp takes out of tensor memory beside each other, part by part: those
    of each contraction, of each of its segments."""
    return 1 if promote else problem.panes * problem.segments


def sums_slots(problem: Problem, schedule: Schedule) -> int:
    """Accumulators in tensor memory: two, so that one tile's results are written while the next one's are summed, or
    one where two do not fit beside a K block's scales. With promotion up to four, each of one K block: of these as many
    as make up whole rounds of the stages. Up to twice those that a tile takes (`Problem.segments`)."""
    beside = sum(word_columns(problem, schedule)) + ones_columns(problem, schedule)
    room = (TENSOR_COLUMNS - beside) // schedule.tile[1]
    if schedule.promote:
        return whole_rounds(schedule.stages, min(4, room))
    return min(2, room) if problem.segments == 1 else min(2, room // problem.segments) * problem.segments


def most_scale_slots(problem: Problem, schedule: Schedule) -> int:
    """K blocks whose scale words fit beside the accumulators; 0 where nothing is copied there."""
    words = sum(word_columns(problem, schedule))
    taken = sums_slots(problem, schedule) * schedule.tile[1] + ones_columns(problem, schedule)
    return (TENSOR_COLUMNS - taken) // words if words else 0


def scale_slots(problem: Problem, schedule: Schedule) -> int:
    """K blocks whose scale words tensor memory has: one, or where a warp of its own brings them as many as fit and make
    up whole rounds of the stages; no more than there are stages."""
    if not schedule.scale_copier:
        return 1
    most = max(1, most_scale_slots(problem, schedule))
    return whole_rounds(schedule.stages, min(most, schedule.stages or most))


def whole_rounds(stages: int, most: int) -> int:
    """Slots of a ring in tensor memory, up to `most`, of which the stages are whole rounds, so that a stage has always
    the same slot; `most` where none above one is, or the stages are not decided (0)."""
    return next((n for n in range(most, 1, -1) if stages % n == 0), most)


def padded_rows(rows: int) -> int:
    """Rows of whole copies of scale words to tensor memory."""
    return -(-rows // WORD_ROWS) * WORD_ROWS


def word_rows(family: MmaShape, rows: int) -> int:
    """Rows of scale words in a stage for so many rows of a tile."""
    return padded_rows(rows) if family.kind.tensor_memory else rows


def word_columns(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """Columns of tensor memory that the scale words of A and of B in a stage take, LANES rows of a word to a column."""
    columns = []
    for operand, rows in ((problem.lhs, schedule.tile[0]), (problem.rhs, schedule.tile[1])):
        plan = WordPlan.of(problem, operand, schedule)
        taken = 0 if plan is None else plan.words * padded_rows(rows) // LANES
        columns.append(taken)
    return columns[0], columns[1]


def bare_sides(problem: Problem) -> tuple[bool, bool]:
    """Whether the instructions take scales of A, and of B, from tensor memory that the program has none for."""
    takes = problem.kind.tensor_memory and bool(problem.family.scales)
    return takes and problem.lhs.scale_in_mma is None, takes and problem.rhs.scale_in_mma is None


def ones_columns(problem: Problem, schedule: Schedule) -> int:
    """Columns of tensor memory of the ones that sides without scales share; they follow the words of the others."""
    rows = [rows for bare, rows in zip(bare_sides(problem), schedule.tile[:2], strict=True) if bare]
    return padded_rows(max(rows, default=0)) // LANES


def columns_beside(problem: Problem, schedule: Schedule) -> int:
    """Columns of tensor memory beside the accumulators."""
    words = scale_slots(problem, schedule) * sum(word_columns(problem, schedule))
    return words + ones_columns(problem, schedule)


def scale_copies(problem: Problem, schedule: Schedule) -> int:
    """Copies of a K block's scale words to tensor memory."""
    sides = ((problem.lhs, schedule.tile[0]), (problem.rhs, schedule.tile[1]))
    plans = ((WordPlan.of(problem, operand, schedule), rows) for operand, rows in sides)
    return sum(plan.words * padded_rows(rows) // WORD_ROWS for plan, rows in plans if plan is not None)
