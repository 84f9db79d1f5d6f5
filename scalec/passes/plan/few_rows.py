"""Tiles of more rows than M has: copies bring those that are there, and the others are zero from the start."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.problem.types import Problem

PATTERN = 8
"""Rows after which a swizzle repeats (PTX ISA 5.5.7)."""


def rows_there(problem: Problem, schedule: Schedule) -> int:
    """Rows of a tile of A that copies bring: all of them, or where M has fewer these, to a multiple of PATTERN. A copy
    of rows that a tensor does not have takes as long as one of rows that it has, or longer."""
    m, rows = problem.m, schedule.tile[0]
    if m.largest is None or m.inner > 1 or problem.queued or problem.k_lookups or schedule.stationary:
        return rows
    if m.size is None and any(m.name in pair for pair in problem.spans + problem.permuted_spans):
        return rows  # a call may walk it and another one as one
    if schedule.cta_group > 1:
        return rows  # of which one CTA reads what the other wrote
    for operand in (x.lhs for x in problem.products):
        if operand.converted or operand.mn_major or operand.gathered or operand.pages or operand.wrapped:
            return rows
        if operand.shared_bytes(schedule.tile[2]) > (schedule.swizzle_a or problem.target.swizzles[0]):
            return rows  # by panels, each of all rows
    return min(rows, max(1, -(-m.largest // PATTERN)) * PATTERN)
