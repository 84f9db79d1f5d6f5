"""Windows of results outside of which tiles are passed over: nobody copies or multiplies them."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.problem.result import EpilogueInput, Window
from scalec.passes.problem.types import Problem

MOST_BOUNDS = 16
"""Columns of a cluster whose bounds each thread reads when it begins a run of tiles."""


def walked_window(problem: Problem, schedule: Schedule) -> Window | None:
    """The window of all results, outside of which tiles are passed over; None where tiles are not.

    It is along the rows of tiles, so that those of a run have the same bounds, which whoever walks tiles reads once a
    run.
    """
    windows = [r.window for r in problem.results]
    fold = problem.column_fold
    if fold is None or not windows or None in windows or schedule.run == 1 or problem.reductions:
        return None
    if schedule.scheduler == "queue":  # which deals out those within
        return None
    first, *others = (w for w in windows if w is not None)
    columns = schedule.tile[1] // fold.size * schedule.cluster[1]
    if first.dim != problem.m.name or columns > MOST_BOUNDS or any(_bounds(x) != _bounds(first) for x in others):
        return None
    by_row = {x.name for x in problem.row_lookups}
    fine = all(x.kind in ("col", "scalar") and not any(at.dim in by_row for at in x.coords) for x in first.read)
    return first if fine else None


def _bounds(window: Window) -> list[object]:
    """What both ends are, whichever result they belong to."""
    ends = [(x.name, x.coords) if isinstance(x, EpilogueInput) else x for x in window.bounds]
    return [window.dim, *ends]
