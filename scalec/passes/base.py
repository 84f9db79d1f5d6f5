"""What a pass is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from scalec.errors import ScheduleError
from scalec.ir import schedule as schedules
from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
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


def decided(function: Any, needs: Iterable[str]) -> Schedule:
    """The schedule of a program, whose fields `needs` are decided.

    Raises:
        ScheduleError: one is not, or the attribute is no schedule.
    """
    schedule = schedules.read(function)
    missing = [name for name in needs if getattr(schedule, name) is None]
    if missing:
        raise ScheduleError(
            f"schedule field {', '.join(missing)} is not decided",
            got=str(schedule) or "nothing decided",
            fix="run the passes in the order of PIPELINE",
        )
    return schedule


def problem_of(function: Any, target: Target, schedule: Schedule) -> Problem:
    """The program as its schedule sees it: transposed where the schedule swaps the operands."""
    problem = read_problem(function, target)
    return problem.transposed() if schedule.swap else problem


def decide(
    module: ir.Module,
    target: Target,
    choose: Callable[[Problem, Schedule], Schedule],
    *,
    needs: Sequence[str] = (),
) -> None:
    """Sets the schedule of every program to what `choose` makes of the problem and the fields decided so far.

    Fields that were decided stay as they are, whatever `choose` says.

    Raises:
        ScheduleError: a field that the choice `needs` is not decided yet.
    """
    for function in programs(module):
        before = decided(function, needs)
        after = choose(problem_of(function, target, before), before)
        schedules.write(function, after.with_fields(**before.decided()))
