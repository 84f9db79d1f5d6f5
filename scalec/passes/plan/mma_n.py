"""Columns of an instruction where a tile is multiplied and promoted in several goes: which there can be."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.plan.registers import Registers
from scalec.passes.plan.stationary import no_stationary, run_goes
from scalec.passes.problem.types import Problem

LEAST = 64
"""Columns of an instruction that is chosen. Of n columns it multiplies for n / 2 clocks (FP8, the documented rate), and
reads 32 bytes of each of A's 64 rows and B's n, 128 bytes a clock: below 64 it reads for longer (predicted)."""


def no_mma_n(problem: Problem, promote: int) -> str:
    """Why a wave's columns cannot be multiplied in several goes, "" where they can."""
    target = problem.target.name
    if problem.kind.tensor_memory:
        return f"sums are in tensor memory on {target}, of which warps take some columns at a time anyway"
    if problem.kind.warps == 1:
        return f"an instruction on {target} has {problem.family.n[0]} columns, whatever the tile has"
    if not promote:
        return "promote = 0: there are no partial sums beside those of the tile"
    return ""


def no_goes(problem: Problem, schedule: Schedule) -> str:
    """Why the tile's columns cannot be multiplied `mma_n` at a time, "" where they can."""
    mma_n, columns = schedule.mma_n, schedule.tile[1]
    if schedule.stationary:
        able = run_goes(problem, schedule)
        wanted = f"{' or '.join(map(str, able))}: stationary = 1 multiplies whole reductions in several goes"
        return no_stationary(problem, schedule) or ("" if mma_n in able else wanted)
    if not mma_n:
        return ""
    uneven = f"{columns} columns, and mma_n = {mma_n} does not share them out evenly"
    return no_mma_n(problem, schedule.promote) or ("" if mma_n in widths(problem, columns) else uneven)


def widths(problem: Problem, columns: int) -> list[int]:
    """Of instructions that share out so many columns of a tile evenly, the widest first."""
    return [n for n in reversed(problem.family.n) if columns % n == 0]


def narrower(problem: Problem, schedule: Schedule) -> tuple[int, ...]:
    """Of instructions that the tile's columns can be multiplied with those narrower than what is decided, the widest
    first; none where they cannot be multiplied in several goes."""
    if no_mma_n(problem, schedule.promote):
        return ()
    columns = schedule.tile[1]
    return tuple(n for n in widths(problem, columns) if n < (schedule.mma_n or columns))


def mma_n_of(problem: Problem, schedule: Schedule) -> int:
    """The `mma_n` of a schedule that leaves it undecided."""
    if schedule.stationary:
        return next(iter(run_goes(problem, schedule)), 0)
    if no_mma_n(problem, schedule.promote):
        return 0
    able = (n for n in widths(problem, schedule.tile[1]) if n >= min(LEAST, schedule.tile[1]))
    return next((n for n in (0, *able) if fits(problem, schedule.with_fields(mma_n=n))), 0)


def fits(problem: Problem, schedule: Schedule) -> bool:
    """Whether a consumer thread has registers for the sums, estimated."""
    return Registers.of(problem, schedule).total <= schedule.registers[1]
