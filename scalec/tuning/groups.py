"""What `scalec explain` says of groups: how many indices of one are expected, how much of its tiles is empty, and what
finding them costs."""

from __future__ import annotations

from collections.abc import Mapping

from scalec.ir.schedule import Schedule
from scalec.passes.problem.types import Problem

FOUND = "a warp finds tiles ahead of the others, 0.06 to 0.22 us each (counted), which no prediction has"
"""What the queue costs: 100 to 400 stalls of that warp at 1.8 GHz (docs/notes/groups.md, "An item's cost in the
model"). A tile takes 0.58 µs beside its K blocks, so that warp is ahead."""


def expected(problem: Problem, chosen: Schedule, sizes: Mapping[str, int]) -> str:
    """How many indices of a tile's dimension a group is taken to have, and how much of its tiles has none; "" else.

    Args:
        sizes: that are typical, a group's share of the dimension among them.
    """
    told, shared = [], problem.shared_out
    for d, extent in zip((problem.m, problem.n), chosen.tile, strict=False):
        if (d.share and d.size != d.share) or (shared is not None and shared.dim == d.name):
            own = extent // d.panes
            empty = 1 - sizes[d.name] / (problem.covering(d, sizes[d.name], own) * own)
            told.append(f"{sizes[d.name]} of {d.name} are expected in a group, {empty:.0%} of its tiles is empty")
    return ", ".join(told)
