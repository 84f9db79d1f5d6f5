"""Whether consumer warpgroups share each tile or take whole tiles by turns."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
from scalec.passes.base import decide
from scalec.passes.problem import Problem
from scalec.passes.resources import warpgroups_of
from scalec.targets import Target


class ChooseConsumers:
    """Decides `consumers` where the search of schedules (scalec.tuning.space) has not: that they share each tile. Where
    sums are promoted, turns took 1.09 to 1.36 times as long with tiles of 128x128, and longer with others (H200,
    2026-11-21, FP8 1x128 by 128x128, four sizes).

        #scale.schedule<{tile = array<i64: 128, 128, 128>, ...}>
    -->
        #scale.schedule<{..., consumers = "cooperative"}>
    """

    name = "choose-consumers"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(module, target, lambda _, schedule: schedule.with_fields(consumers=DEFAULT), needs=("tile",))


DEFAULT = "cooperative"


def no_pingpong(problem: Problem, schedule: Schedule) -> str:
    """Why consumer warpgroups cannot take whole tiles by turns, "" where they can; the tile is decided."""
    target = problem.target.name
    if problem.family.sums_in == "tensor":
        return f"sums are in tensor memory on {target}: the next tile's are summed while one's are stored anyway"
    if problem.family.warps == 1:
        return f"each warp multiplies by itself on {target}, and those of all warpgroups share a tile"
    if warpgroups_of(problem, schedule) < 2:
        return "one consumer warpgroup, which has nobody to take turns with"
    if problem.swapped and problem.result.block > problem.family.adjacent_rows:
        return f"swap=1, and warps of all warpgroups find the scales of {problem.result.block} rows of a tile together"
    if (schedule.split or 1) > 1:
        return f"split = {schedule.split}, and the parts of a tile are added up by all consumer warpgroups together"
    return ""
