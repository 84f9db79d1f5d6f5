"""Schedules for a program at known sizes, the one that is predicted to be fastest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from scalec import frontend
from scalec.errors import ScheduleError
from scalec.ir import context as contexts
from scalec.ir import schedule as schedules
from scalec.ir.schedule import Schedule
from scalec.passes.base import problem_of, programs
from scalec.passes.choose_tiling import CANDIDATES, deepest
from scalec.passes.pipeline import PIPELINE, find, run_pipeline
from scalec.passes.problem import Problem
from scalec.passes.recall_tuned import RecallTuned
from scalec.targets import Target, get_target
from scalec.tuning.predict import Prediction

SPLITS = (1, 2, 4, 8)
FIELDS = ("swap", "tile", "cluster", "cta_group", "split")
"""What candidates differ in."""


class Ranked(NamedTuple):
    """A schedule, as `with` fields, and the seconds that a launch is predicted to take."""

    schedule: dict[str, str]
    seconds: float


def ranked(source: str, target: str, dims: Mapping[str, int]) -> list[Ranked]:
    """The legal schedules for a program, best first: tiles of choose-tiling, either way round, in parts of K.

    Args:
        source: the program; fields of its `with` are kept.
        target: a row of scalec.targets.
        dims: a size for every dimension.

    Raises:
        ScalecError: a refusal of the front end or of a pass.
    """
    row, found = get_target(target), {}
    with contexts.context():
        module = frontend.build(source, dims)
        given = schedules.read(next(programs(module)))
        for asked in _asked(module, row, given):
            try:
                problem, chosen, _kept = _decided(module, row, asked)
            except ScheduleError:
                continue
            fields = {name: text for name, text in chosen.texts().items() if name in FIELDS}
            key = tuple(fields.items())
            if key not in found:
                found[key] = Ranked(fields, Prediction.of(problem, chosen, dims).seconds)
    return sorted(found.values(), key=lambda r: r.seconds)


def roofline(source: str, target: str, dims: Mapping[str, int]) -> float:
    """Seconds that the tensor cores, or the memory, take at the documented rates: no kernel is faster."""
    row = get_target(target)
    with contexts.context():
        module = frontend.build(source, dims)
        problem, chosen, _kept = _decided(module, row, schedules.read(next(programs(module))))
        made = Prediction.of(problem, chosen, dims)
        rates = row.rates
        flops = rates.flop_per_clock(problem.lhs.element.name, problem.rhs.element.name) * rates.clock * row.sms
        return max(made.flop / flops, made.bytes / rates.memory)


def _decided(module: Any, row: Target, given: Schedule) -> tuple[Problem, Schedule, Any]:
    """What the passes decide beside `given`, and the copy of the module that the problem is read off."""
    copy = module.operation.clone()
    function = next(programs(copy))
    schedules.write(function, given)
    run_pipeline(copy, row, passes=[p for p in PIPELINE[:-1] if not isinstance(p, RecallTuned)])
    chosen = schedules.read(function)
    return problem_of(function, row, chosen), chosen, copy


def _asked(module: Any, row: Target, given: Schedule) -> Iterator[Schedule]:
    """What candidates fix, beside what is given."""
    copy = module.operation.clone()
    run_pipeline(copy, row, passes=find(["infer-roles", "fuse-epilogue"]))
    plain = Problem.of(next(programs(copy)), row)
    yield given
    for swap in (0, 1):
        problem = plain.transposed() if swap else plain
        for c in CANDIDATES[problem.family.kernel]:
            tile = (c.m, c.n, deepest(problem))
            for split in SPLITS if problem.k.size is not None else (1,):
                yield given.with_fields(
                    **{"swap": swap, "tile": tile, "cta_group": c.ctas, "split": split, **given.decided()}
                )
