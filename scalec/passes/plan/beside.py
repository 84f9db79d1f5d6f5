"""Room for a CTA of the next launch beside each of this one's, where launches overlap (`dependent`): it is there, its
barriers set up, when this launch ends."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.plan.parts import FEWEST_STAGES
from scalec.passes.plan.registers import free_registers
from scalec.passes.plan.resources import other_warpgroups, register_file, stages_that_fit, threads
from scalec.passes.problem.types import ASSUMED, Problem
from scalec.targets import WARPGROUP, shared_out


def room_beside(problem: Problem, schedule: Schedule) -> bool:
    """Whether room is to be left: by launches that overlap, of which all CTAs end together, as those do that wait for
    each other's sums. Else the CTAs of the next one come as single ones of this one end."""
    if schedule.parts != "columns" or problem.kind.lean or problem.depth is None:
        return False
    work = problem.walks() * problem.m.tiles(1, ASSUMED) * problem.n.tiles(1, ASSUMED) * problem.depth
    if work > schedule.dependent << 30 or stages_beside(problem, schedule) < FEWEST_STAGES:
        return False
    return free_registers(problem, schedule.with_fields(registers=_half(problem, schedule))) >= 0


def registers_beside(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """The registers of a schedule that has others: half of an SM's, where room is left."""
    return _half(problem, schedule) if room_beside(problem, schedule) else schedule.registers


def stages_beside(problem: Problem, schedule: Schedule) -> int:
    """The most stages in half of an SM's shared memory."""
    return stages_that_fit(problem, schedule, problem.target.shared_of_two)


def launch_registers(problem: Problem, schedule: Schedule) -> int:
    """Registers that a thread is launched with, by 8, so that setmaxnreg can give each role its own; 0 where these are
    all that there are."""
    if not problem.kind.lean and not room_beside(problem, schedule):
        return 0
    return -(-register_file(problem, schedule) // (8 * threads(problem, schedule))) * 8


def _half(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """Registers of a producer's and a consumer's threads, of which two CTAs find theirs."""
    (producer, consumer), entering = schedule.registers, threads(problem, schedule)
    left = problem.target.entry_registers(2 * entering) * entering // WARPGROUP
    left -= other_warpgroups(problem, schedule) * producer
    return producer, min(consumer, shared_out(left, schedule.warpgroups))
