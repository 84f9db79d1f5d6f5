"""What it costs to rearrange scales inside a kernel, where the tensor core applies them and threads bring their words.

Counted, not measured: instructions of the warps that do so, in machine code for sm_100a. Their loop has a fixed part, a
part for each row that a thread brings, and one for each load: with an address of its own, or beside the row's last one.
tests/tuning/test_scale_words.py has the counts, benchmarks/sm100_scales.py makes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from scalec.ir.schedule import Schedule
from scalec.passes.plan.resources import scale_warps
from scalec.passes.plan.tensor_columns import word_rows
from scalec.passes.plan.words import WordPlan, no_bulk_words
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.types import Problem


@dataclass(frozen=True)
class Instructions:
    """Of a thread in the loop over K blocks, counted: of an operand's row, and of a load with what becomes of it."""

    row: float
    load: float


LOOP = {"tcgen05": 29.0}
"""Instructions of the loop whatever it brings, by kinds of kernels that they were counted in: its counters, the wait
for an empty stage, the hand-over."""

APART, BESIDE = Instructions(4.0, 8.0), Instructions(7.0, 3.5)
"""Of loads whose address is computed for each, and of those beside each other in a row. Of 20 kernels for sm_100a, in
all four layouts, this was within 12 % of the count; where four warps share the rows, 31 % above it for bytes that are
loaded one by one (ptxas 13.5, 2026-11-21)."""


def rearranged(problem: Problem, schedule: Schedule) -> list[tuple[Operand, WordPlan, int]]:
    """The operands whose scale words threads bring: (operand, plan, rows of a stage)."""
    found = []
    for operand, rows in ((problem.lhs, schedule.tile[0]), (problem.rhs, schedule.tile[1])):
        plan = WordPlan.of(problem, operand, schedule)
        if plan is not None and not plan.bulk:
            found.append((operand, plan, word_rows(problem.family, rows)))
    return found


def instructions(problem: Problem, schedule: Schedule) -> float:
    """Instructions of each warp that brings scale words, for one K block; 0 where none does, or nobody counted.

    A warp issues one a clock at the most, so these are also the clocks that it takes at the least.
    """
    brought, loop = rearranged(problem, schedule), LOOP.get(problem.kind.name)
    if not brought or loop is None:
        return 0.0
    total, threads = loop, 32 * scale_warps(problem, schedule)[1]
    for _, plan, rows in brought:
        each, own = BESIDE if plan.beside else APART, -(-rows // threads)
        total += own * (each.row + each.load * plan.loads)
    return total


def reasons(problem: Problem, schedule: Schedule) -> list[str]:
    """For each operand whose scales the tensor core applies, how their words come to the stages and why."""
    brought = {operand.name: (plan, rows) for operand, plan, rows in rearranged(problem, schedule)}
    told = []
    for operand in (problem.lhs, problem.rhs):
        scale = operand.scale_in_mma
        if scale is None:
            continue
        if operand.name not in brought:
            told.append(f"tensor copies bring {scale.name} as it lies")
            continue
        plan, rows = brought[operand.name]
        why = no_bulk_words(problem, operand, schedule.tile) or "scale_path=thread"
        told.append(f"threads rearrange {scale.name}, {rows * plan.bytes} bytes a K block: {why}")
    return told
