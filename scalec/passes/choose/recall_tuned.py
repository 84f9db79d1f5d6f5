"""What was measured to be the fastest schedule, where somebody did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from scalec.errors import ScheduleError
from scalec.ir import schedule as schedules
from scalec.ir.mlir import ir
from scalec.ir.schedule import Request
from scalec.measured import database
from scalec.measured.database import Entry
from scalec.measured.key import describe, describe_kin
from scalec.passes.base import Decision
from scalec.passes.choose.fix_order import ORDER, fixed
from scalec.passes.choose.promotion import promotion
from scalec.passes.plan.resources import deepest
from scalec.passes.plan.tiles import no_swap
from scalec.passes.problem.types import ASSUMED, Problem
from scalec.targets import Target


@dataclass(frozen=True)
class RecallTuned(Decision):
    """Decides what the tuning database says of this program (which has the sizes of its further dimensions), target,
    N, K and M, for the fields already decided.

    Where it says nothing of the program, what it says of its contraction alone with a bf16 result is taken, of programs
    that write no more: what multiplies fastest hardly depends on what becomes of the sums, and guesses are worse.

    M is the upper end of its range, or as large as is assumed where nothing is known of it. An entry is taken whole,
    and only where the fields decided are those that were decided when it was measured. Where it does not compile with
    this scalec, the compiler goes on without it (scalec/compiler.py).

    Attributes:
        use: whether the database is asked.
        found: called with the entry that was taken.

        #scale.schedule<{}>
    -->
        #scale.schedule<{tile = array<i64: 128, 16, 128>, swap = 1 : i64, split = 2 : i64, stages = 8 : i64}>
    """

    use: bool = True
    found: Callable[[Entry], None] | None = None

    name = "recall-tuned"

    def run(self, module: ir.Module, target: Target) -> None:
        if self.use and any(database.entries()):
            super().run(module, target)

    def choose(self, problem: Problem, given: Request) -> Request:
        entry = recalled(problem, given)
        if entry is None:
            return given
        if self.found is not None:
            self.found(entry)
        return schedules.from_mapping(entry.schedule)


def recalled(problem: Problem, given: Request) -> Entry | None:
    """The entry of the database for a program whose fields `given` are decided; None where there is none."""
    problem = problem.transposed() if problem.swapped else problem
    m, n, k = problem.m.largest or ASSUMED, problem.n.size, problem.k.size
    if n is None or k is None or any(d.size is None for d in problem.dims[3:]):
        return None
    for program in (describe(problem), describe_kin(problem)):
        entry = database.find(database.entries(), problem.target.name, program, (m, n, k), given.texts())
        if entry is not None:
            break
    else:
        return None
    if entry.program != describe(problem):
        entry = replace(entry, facts={**entry.facts, "of": "the contraction with a bf16 result"})
    try:
        schedule = schedules.from_mapping(entry.schedule)
        able = keeps_order(problem, given, schedule) and not (schedule.swap and no_swap(problem))
        return entry if able else None
    except ScheduleError:  # of another scalec, whose fields this one does not have
        return None


def keeps_order(problem: Problem, given: Request, schedule: Request) -> bool:
    """Whether a schedule adds in the order that `invariant` asks for, where the program does."""
    if not given.invariant:
        return True
    asked = fixed(problem, given)
    own = promotion(problem, asked.tile[2] if asked.tile is not None else 0)
    wanted = asked.with_fields(promote=own if asked.promote is None else asked.promote)
    same = all(getattr(schedule, name) in (None, getattr(wanted, name)) for name in (*ORDER, "promote"))
    return same and _tile_k(problem, schedule) == _tile_k(problem, asked)


def _tile_k(problem: Problem, schedule: Request) -> int:
    return schedule.tile[2] if schedule.tile is not None else deepest(problem)
