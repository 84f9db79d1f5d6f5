"""Elementwise inputs as large as the result that copies bring ahead of the threads that read them: which, and how.

They come in boxes: some columns of a wave of each warpgroup, or warp, of one input, in the order in which threads
compute results of them. A slot has room for a box of each of these units, of the widest input.
"""

from __future__ import annotations

from math import gcd, prod

from scalec.ir.schedule import Schedule
from scalec.passes.plan.gather import gatherers
from scalec.passes.plan.items import free_warps
from scalec.passes.plan.resources import (
    producer_warpgroups,
    result_columns,
    scale_warps,
    threaded,
    turns,
    units,
)
from scalec.passes.plan.turns import READ as TAKEN
from scalec.passes.plan.warps import SCALE_WARPS
from scalec.passes.problem.access import Coord
from scalec.passes.problem.result import EpilogueInput, Result
from scalec.passes.problem.types import Problem

ROW = 128
"""Bytes of a box's row, of the widest input: the widest swizzle, so that rows which a warp reads together lie in
different banks."""

READ = ("f32", "bf16", "f16")
"""Element types that are read so."""


def _no_copy(problem: Problem, result: Result, x: EpilogueInput) -> str:
    """Why no copy brings an input of a result, "" where one does."""
    if x.kind != "both" or x is result.added:
        return f"{x.name} is not read at each row and column"
    if x.element.name not in READ:
        return f"{x.name} has elements of {x.element.name}"
    if x.layout != "row" or x.spaced or not _lies_as_tiles(problem, x.coords):
        return f"rows of {x.name} do not lie as those of a tile do"
    if len(problem.outside(x.coords)) + 2 != len(x.coords) or len(x.coords) > 5:
        return f"{x.name} is read at further indices"
    if problem.n.size is None or problem.n.size * x.element.bits % (8 * problem.target.tma_align):
        return f"rows of {x.name} are not known to be multiples of {problem.target.tma_align} bytes"
    return problem.begins_apart(problem.n.name, x.element.bits)


def copied_inputs(problem: Problem, result: Result) -> list[EpilogueInput]:
    """Those of a result's body that copies can bring, in the order in which it reads them."""
    return [x for x in result.inputs if not _no_copy(problem, result, x)]


def loaded_inputs(problem: Problem, schedule: Schedule, result: Result) -> list[EpilogueInput]:
    """Those that they do bring: into room of their own, or one into the place of the result."""
    if schedule.adds == "loaded":
        return [] if result.added is not None else [x for x in [in_place(problem)] if x is not None]
    return copied_inputs(problem, result) if schedule.inputs else []


def in_place(problem: Problem) -> EpilogueInput | None:
    """What copies may bring into the result's place: of a lone result an input whose elements are as large, where both
    lie as a tile does. What is computed of it is stored where it was."""
    if len(problem.results) != 1 or problem.kind.tensor_memory:
        return None
    result = problem.result
    plain = not result.strided and not result.scattered and result.gaps is None and result.scale is None
    if not plain or not _lies_as_tiles(problem, result.coords):
        return None
    found = (x for x in copied_inputs(problem, result) if x.element.bits == result.element.bits)
    return next(found, None)


def every_copied(problem: Problem) -> list[EpilogueInput]:
    """Those of all results."""
    return [x for r in problem.results for x in copied_inputs(problem, r)]


def _lies_as_tiles(problem: Problem, coords: tuple[Coord, ...]) -> bool:
    """Whether rows and columns of a tensor are those of tiles, its last index the columns'."""
    m, n = problem.m.name, problem.n.name
    plain = [c.dim for c in coords if (c.divisor, c.modulus, c.offset, c.apart, c.gaps) == (1, 0, 0, 0, None)]
    return coords[-1].dim == n and {m, n} <= set(plain)


def _widest(problem: Problem) -> int:
    return max((x.element.bits for x in every_copied(problem)), default=8)


def input_box(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """Columns and rows of a box."""
    columns = result_columns(problem, schedule) // units(problem, schedule)[1]
    return gcd(columns, 8 * ROW // _widest(problem)), problem.family.wave


def slot_bytes(problem: Problem, schedule: Schedule) -> int:
    """Of a box of each unit."""
    columns, rows = input_box(problem, schedule)
    return prod(units(problem, schedule)) * rows * columns * _widest(problem) // 8


def most_boxes(problem: Problem, schedule: Schedule) -> int:
    """Boxes of all inputs that a unit has of a tile."""
    return boxes_of(problem, schedule) * len(every_copied(problem))


def boxes_of(problem: Problem, schedule: Schedule) -> int:
    """Boxes of one input that a unit has of a tile."""
    columns, rows = input_box(problem, schedule)
    tall, wide = schedule.tile[0], result_columns(problem, schedule)
    return tall * wide // (prod(units(problem, schedule)) * rows * columns)


def no_loaded_inputs(problem: Problem, schedule: Schedule) -> str:
    """Why copies cannot bring what results are computed of, "" where they can."""
    every = [(r, x) for r in problem.results for x in r.inputs]
    if problem.swapped:
        return "swap=1 computes results by columns, and copies bring rows"
    if problem.kind.tensor_memory:
        return "sums come out of tensor memory row by row, and boxes are read as an instruction's sums lie in registers"
    if not every_copied(problem):
        return next((_no_copy(problem, r, x) for r, x in every if x.kind == "both"), "nothing is read at each element")
    if schedule.adds == "loaded":
        return "adds=loaded: a warp loads and stores the results' tiles"
    together = max(len(copied_inputs(problem, r)) for r in problem.results)
    if 0 < schedule.inputs < together:  # threads go on to the next box of one before they have read all of another's
        return f"a result is computed of {together} of them at a time, and {schedule.inputs} boxes have room"
    if any(r.column_fold is not None or r.window is not None for r in problem.results):
        return f"{problem.names} is computed of some of a tile's sums"
    if schedule.split > 1:
        return f"split = {schedule.split}: which CTA computes the results shows when its products are done"
    if schedule.run > 1 or schedule.stationary:
        return "tiles are taken in runs"
    if turns(schedule) > 1:
        return "consumers=pingpong: warpgroups would take boxes by turns"
    columns, narrowest = input_box(problem, schedule)[0], min(x.element.bits for x in every_copied(problem))
    if columns % max(8, schedule.permute_n) or columns * narrowest % (8 * problem.target.tma_align):
        return f"boxes of {columns} columns: no instruction's columns, or no whole {problem.target.tma_align} bytes"
    return no_free_warp(problem, schedule, "load what results are computed of")


def result_warp(problem: Problem, schedule: Schedule) -> int:
    """The producer warpgroup's warp that loads and stores results, or loads what they are computed of, the last that
    has no other role: others issue copies, products, and copies of scales, find items and cut K blocks."""
    return free_warps(problem, schedule) - 1


def no_free_warp(problem: Problem, schedule: Schedule, task: str) -> str:
    """Why that warp has another role, so that it cannot do a task; "" where it can."""
    if gatherers(problem):
        return f"a warp hands over the rows that threads copy, and none is left that could {task}"
    warp, (first, count) = result_warp(problem, schedule), scale_warps(problem, schedule)
    sides = (problem.lhs, problem.rhs)
    busy = producer_warpgroups(problem, schedule) == 1 and any(threaded(problem, x, schedule) for x in sides)
    if busy and first <= warp < first + count:
        return f"threads bring scales, and no warp is left that could {task}"
    if warp < SCALE_WARPS[problem.kind.name][0] + schedule.scale_copier:
        return f"{TAKEN}, by a warp, and none is left that could {task}"
    return ""
