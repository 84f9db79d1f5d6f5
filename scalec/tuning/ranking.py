"""Schedules for a program at known sizes, the one that is predicted to be fastest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from math import prod
from typing import NamedTuple

from scalec import frontend
from scalec.errors import ScheduleError
from scalec.ir import context as contexts
from scalec.ir import schedule as schedules
from scalec.ir.mlir import ir
from scalec.ir.schedule import Request, Schedule
from scalec.model import space
from scalec.model.cost import Costs, Load, costs_of
from scalec.model.predict import Prediction, memory_bytes
from scalec.passes.base import problem_of, programs, reading_once
from scalec.passes.choose.fix_order import FixOrder
from scalec.passes.choose.promotion import promotion
from scalec.passes.choose.recall_tuned import RecallTuned
from scalec.passes.choose.tiling import candidates, narrower
from scalec.passes.pipeline import FUSE, PIPELINE, find, run_pipeline
from scalec.passes.plan.loop import few_blocks, several_tiles
from scalec.passes.plan.parts import part_blocks
from scalec.passes.plan.resources import deepest
from scalec.passes.plan.tiles import must_swap, no_swap
from scalec.passes.problem.read import read as read_problem
from scalec.passes.problem.types import Problem
from scalec.targets import Target, get_target

SPLITS = (1, 2, 4, 8)
"""Parts of K that are tried where no launch of the kind of kernel was measured."""

FIELDS = ("swap", "tile", "cluster", "cta_group", "split", "parts", "consumers", "promote", "mma_n")
"""What candidates differ in, with `convert` where an operand is; the best also in `adds`, `order` and `unroll`."""

VARIED = 2
"""Of the best candidates, those that come with the other `adds`, the other `order`, or with all K blocks in a row, too:
at K = 512 loading gained about as much with each of seven tiles (LOADED_K in scalec.passes.plan.swizzle), and no loop
0.98 to 1.00 with each of three (WHOLE in scalec.passes.plan.loop). Another order took 0.98 to 1.01 of the time
(H200, 2026-11-22; BF16 of 4096x7168x4096 0.99)."""

ADDED_K = 2048
"""K up to which they come with the other `adds` where launches were measured: from 1536 on loading took longer
(ibid.)."""

IN_A_ROW = 16
"""K blocks up to which they come without a loop: compiling then takes 10 s."""


class Ranked(NamedTuple):
    """A schedule, as `with` fields, and the seconds that a launch is predicted to take."""

    schedule: dict[str, str]
    seconds: float


def ranked(source: str, target: str, dims: Mapping[str, int]) -> list[Ranked]:
    """The schedules for a program that fit, best first.

    Where launches of the kind of kernel were measured, those of scalec.model.space by its fitted costs; else the tiles
    of choose-tiling in parts of K, by the documented rates.

    Args:
        source: the program; fields of its `with` are kept.
        target: a row of scalec.targets.
        dims: a size for every dimension.

    Raises:
        ScalecError: a refusal of the front end or of a pass.
    """
    row = get_target(target)
    with contexts.context():
        module = frontend.build(source, dims)
        run_pipeline(module, row, passes=[*find(FUSE), FixOrder()])
        function = next(programs(module))
        given = schedules.read(function)
        problem = read_problem(function, row)
        promote = promotion(problem) if given.promote is None else given.promote
        costs = costs_of(problem, promote)
        if given.tile is not None:
            found = _by_rates(module, row, [given], dims)
        elif costs is not None:
            found = _by_costs(problem, given, promote, costs)
        else:
            found = _by_rates(module, row, _candidates(problem, given), dims)
        best = sorted(found, key=lambda r: r.seconds)
        alone = len(problem.results) == 1
        adds = given.adds is None and alone and problem.result.added is not None
        adds = adds and (costs is None or prod(dims[d.name] for d in (problem.k, *problem.summed)) <= ADDED_K)
        varied = ([one, *_variants(module, row, given, one, adds)] for one in best[:VARIED])
        return [*chain.from_iterable(varied), *best[VARIED:]]


def _by_costs(problem: Problem, given: Request, promote: int, costs: Costs) -> Iterator[Ranked]:
    seen, first = problem.transposed() if given.swap else problem, None
    for seconds, plan, reason in space.ranked(seen, given, deepest(problem), promote, costs):
        if not reason:
            first = first or plan
            yield Ranked(_fields(seen, plan), seconds)
    if first is None or given.cluster is not None:
        return
    for shared, cluster in narrower(seen, first):
        yield from _by_costs(shared, given.with_fields(cluster=cluster), promote, costs)


def _by_rates(
    module: ir.Module, row: Target, asked: Iterator[Request] | list[Request], dims: Mapping[str, int]
) -> Iterator[Ranked]:
    """Those that the passes can complete."""
    for schedule in asked:
        for problem, chosen in _completed(module, row, schedule):
            yield Ranked(_fields(problem, chosen), Prediction.of(problem, chosen, problem.sizes(dims)).seconds)


def _completed(module: ir.Module, row: Target, schedule: Request) -> Iterator[tuple[Problem, Schedule]]:
    """What the passes make of a schedule, and the program as that sees it; nothing where they refuse it."""
    copy = module.operation.clone()
    function = next(programs(copy))
    schedules.write(function, schedule)
    try:
        with reading_once():
            run_pipeline(copy, row, passes=[p for p in PIPELINE[:-1] if p.name not in (*FUSE, RecallTuned.name)])
            chosen = schedules.read(function).complete()
            problem = problem_of(function, row, chosen)
    except ScheduleError:
        return
    yield problem, chosen


def _variants(module: ir.Module, row: Target, given: Request, one: Ranked, adds: bool) -> Iterator[Ranked]:
    """The candidate with all K blocks of a tile in a row, where they are few; with the other order of tiles, where a
    cluster works on several; and where `adds`, with what results are added to loaded where it would be added in memory,
    or the reverse."""
    asked = given.with_fields(**schedules.from_mapping(one.schedule).decided())
    for problem, chosen in _completed(module, row, asked):
        if adds:
            other = "memory" if chosen.adds == "loaded" else "loaded"
            for _ in _completed(module, row, asked.with_fields(adds=other)):
                yield Ranked({**one.schedule, "adds": other}, one.seconds)
        blocks = part_blocks(problem, chosen)[0]
        if given.unroll is None and few_blocks(problem, chosen, IN_A_ROW) and blocks > chosen.unroll:
            for _ in _completed(module, row, asked.with_fields(unroll=blocks)):
                yield Ranked({**one.schedule, "unroll": str(blocks)}, one.seconds)
        if given.order is None and several_tiles(problem, chosen):
            other = "m" if chosen.order == "n" else "n"
            for _ in _completed(module, row, asked.with_fields(order=other)):
                yield Ranked({**one.schedule, "order": other}, one.seconds)


def _candidates(problem: Problem, given: Request) -> Iterator[Request]:
    """What candidates fix, beside what is given."""
    for swap in (0, 1) if given.swap is None else (given.swap,):
        seen = problem.transposed() if swap else problem
        if no_swap(problem) if swap else must_swap(problem):
            continue
        for c in candidates(seen):
            for split in SPLITS if given.split is None and seen.depth is not None else (given.split or 1,):
                tried = {"swap": swap, "tile": (c.m, c.n, deepest(seen)), "cta_group": c.ctas, "split": split}
                yield given.with_fields(**{**tried, **given.decided()})


def _fields(problem: Problem, schedule: Request | Schedule) -> dict[str, str]:
    own = {"convert"} if problem.converts else set[str]()
    return {name: text for name, text in schedule.texts().items() if name in own.union(FIELDS)}


def work(source: str, target: str, dims: Mapping[str, int]) -> tuple[int, float]:
    """Floating-point operations of a launch, of groups as many as they have on average, and the seconds that the tensor
    cores, or the memory, take for them at the documented rates: no kernel is faster."""
    row = get_target(target)
    with contexts.context():
        module = frontend.build(source, dims)
        run_pipeline(module, row, passes=find(FUSE))
        problem = read_problem(next(programs(module)), row)
        flop = Load.of(problem, dims).flop
        rate = row.rates.flop_per_clock(problem.lhs.element.name, problem.rhs.element.name) * row.rates.clock * row.sms
        return flop, max(flop / rate, memory_bytes(problem, problem.sizes(dims)) / row.rates.memory)
