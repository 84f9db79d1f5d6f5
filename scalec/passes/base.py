"""What a pass is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from scalec.ir import schedule as schedules
from scalec.ir.mlir import ir
from scalec.ir.schedule import Request, Schedule
from scalec.passes.problem.contraction import contractions
from scalec.passes.problem.read import read as read_problem
from scalec.passes.problem.types import Problem
from scalec.targets import Target


class Pass(Protocol):
    """One step from a valid module to a valid module. Its docstring draws the IR before and after."""

    name: str

    def run(self, module: ir.Module, target: Target) -> None:
        """Rewrites `module` in place.

        Raises:
            UnsupportedError: the target, or this version, cannot run the program.
            ScheduleError: a field that was already decided cannot be.
        """
        ...


def programs(module: ir.Module) -> Iterator[Any]:
    """The `func.func`s of a module that are programs in `scale`."""
    for op in module.body.operations:
        if op.operation.name == "func.func" and "scale.dims" in op.operation.attributes:
            yield op


def problem_of(function: Any, target: Target, schedule: Request | Schedule) -> Problem:
    """The program as its schedule sees it: transposed where the schedule swaps the operands."""
    problem = read_problem(function, target)
    return problem.transposed() if schedule.swap else problem


def decide(
    module: ir.Module,
    target: Target,
    choose: Callable[[Problem, Request], Request],
    *,
    needs: Sequence[str] = (),
) -> None:
    """Adds to what is decided of every program what `choose` makes of the problem and that.

    Fields that were decided stay as they are, whatever `choose` says.

    Raises:
        ScheduleError: a field that the choice `needs` is not decided yet.
    """
    for function in programs(module):
        if not contractions(function):
            continue
        before = schedules.read(function).require(needs)
        after = choose(problem_of(function, target, before), before)
        schedules.write(function, after.with_fields(**before.decided()))
