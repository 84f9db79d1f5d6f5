"""What a pass is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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


_READ: ContextVar[dict[tuple[object, ...], Problem] | None] = ContextVar("read", default=None)
"""What was read of a module's programs, by name and target, and as schedules see it, by what of them counts too; None
but in `reading_once`."""


@contextmanager
def reading_once() -> Iterator[None]:
    """In the body each program of one module is read once, until it is changed in more than its schedule. Read by every
    pass that decides fields, and by what follows them, it took a fifth of the time of all passes."""
    if _READ.get() is not None:
        yield
        return
    token = _READ.set({})
    try:
        yield
    finally:
        _READ.reset(token)


def forget() -> None:
    """Programs have changed since they were read."""
    kept = _READ.get()
    if kept is not None:
        kept.clear()


def problem_of(function: Any, target: Target, schedule: Request | Schedule) -> Problem:
    """The program as its schedule sees it: transposed where the schedule swaps the operands."""
    kept, program = _READ.get(), (function.name.value, target.name)
    if kept is None:
        return read_problem(function, target).seen_by(schedule)
    key = (*program, bool(schedule.swap), schedule.convert == "addends", schedule.cluster)
    if key not in kept:
        if program not in kept:
            kept[program] = read_problem(function, target)
        kept[key] = kept[program].seen_by(schedule)
    return kept[key]


class Decision(ABC):
    """A pass that decides fields of every program that has a contraction."""

    name: str
    needs: tuple[str, ...] = ()  # fields that must be decided before

    @abstractmethod
    def choose(self, problem: Problem, given: Request) -> Request:
        """What is decided with this pass's fields. Whatever it says, those that were decided stay as they are."""

    def run(self, module: ir.Module, target: Target) -> None:
        for function in programs(module):
            if not contractions(function):
                continue
            before = schedules.read(function).require(self.needs)
            after = self.choose(problem_of(function, target, before), before)
            schedules.write(function, after.with_fields(**before.decided()))
