"""Fixtures: from text to a Problem, to a full schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from scalec import frontend
from scalec.ir import context as contexts
from scalec.ir import schedule as schedules
from scalec.ir.schedule import Request, Schedule
from scalec.passes.pipeline import PIPELINE, find, run_pipeline
from scalec.passes.problem.read import read as read_problem
from scalec.passes.problem.types import Problem
from scalec.targets import Target, get_target

DECIDING = [p.name for p in PIPELINE if p.name != "emit-tile"]


@pytest.fixture
def target() -> Target:
    return get_target("sm_90a")


@pytest.fixture(autouse=True)
def _context() -> Iterator[None]:
    with contexts.context():
        yield


@pytest.fixture
def problem_of(target: Target) -> Callable[[str], Problem]:
    """Text to Problem, through the passes that come first."""

    def build(program: str) -> Problem:
        module = contexts.parse(program)
        run_pipeline(module, target, passes=find(["infer-roles", "fuse-epilogue"]))
        return read_problem(module.body.operations[0], target)

    return build


@pytest.fixture
def problem_in() -> Callable[..., Problem]:
    """A program in the language, a target's name and known sizes to Problem."""

    def build(source: str, target: str, **dims: int) -> Problem:
        row, module = get_target(target), frontend.build(source, dims)
        run_pipeline(module, row, passes=find(["infer-roles", "fuse-epilogue"]))
        return read_problem(module.body.operations[0], row)

    return build


@pytest.fixture
def decide(target: Target) -> Callable[..., Schedule]:
    """Text and decided fields to the full schedule, checked."""

    def build(program: str, **fields: object) -> Schedule:
        module = contexts.parse(program)
        function = module.body.operations[0]
        schedules.write(function, Request(**fields))  # type: ignore[arg-type]
        run_pipeline(module, target, passes=find(DECIDING))
        return schedules.read(function).complete()

    return build
