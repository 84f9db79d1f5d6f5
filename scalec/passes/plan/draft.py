"""Drafts: what becomes of a request where nobody decides more, so that what it needs and may have can be asked."""

from __future__ import annotations

from math import prod
from typing import Any

from scalec.ir.schedule import Request, Schedule
from scalec.passes.plan.copier import copier_for
from scalec.passes.plan.resources import chosen_registers, path_of_scales
from scalec.passes.plan.warps import MAX_WARPGROUPS, WARPS, warpgroups_for, warps_for
from scalec.passes.problem.types import Problem

PINGPONG = 2
"""Warpgroups that take tiles by turns, unless decided: as long as the epilogue is shorter than the products, two keep
the tensor core busy."""

PLAINEST: dict[str, Any] = {
    "swap": 0, "cluster": (1, 1), "cta_group": 1, "split": 1, "parts": "memory", "stages": 0, "swizzle_a": 0,
    "swizzle_b": 0, "consumers": "cooperative", "registers": (0, 0), "scale_copier": 0, "permute_n": 0, "promote": 0,
    "mma_n": 0, "early_wait": 0, "unroll": 1, "epilogue": "direct", "staged": 0, "panels": 0, "adds": "memory",
    "scheduler": "static", "dependent": 0, "order": "n", "band": 1,
}  # fmt: skip
"""What a draft has where nothing is decided and nothing follows from the tile: what a kernel does without. 0 `stages`:
as many as whoever asks tries."""


def draft(problem: Problem, given: Request) -> Schedule:
    """A schedule with the fields of `given`, whose tile is decided, and what follows from these.

    Raises:
        ScheduleError: the tile is not.
    """
    tile = given.tile
    if tile is None:
        raise given.undecided("tile")
    warpgroups = given_warpgroups(given) or warpgroups_for(
        problem.family, tile, given.promote or 0, len(problem.results)
    )
    sharing = 1 if given.consumers == "pingpong" else warpgroups
    values: dict[str, Any] = {
        **PLAINEST,
        "swizzle_c": max(problem.target.swizzles),
        "warpgroups": warpgroups,
        "warps": given.warps or warps_for(problem, tile, sharing),
        "scale_path": given.scale_path or path_of_scales(problem, tile),
        **given.decided(),
        "invariant": given.invariant,
    }
    made = Schedule(**values)
    if given.scale_copier is None and (copier := copier_for(problem, made)):
        made = made.with_fields(scale_copier=copier)
    return made if given.registers else made.with_fields(registers=chosen_registers(problem, made))


def given_warpgroups(given: Request) -> int | None:
    """The warpgroups that are decided, by their number or by that of their warps; None where neither says it."""
    if given.consumers == "pingpong" and not given.warpgroups:
        return PINGPONG
    if given.warpgroups or given.warps is None:
        return given.warpgroups
    count, rest = divmod(prod(given.warps), WARPS)
    return count if not rest and 1 <= count <= MAX_WARPGROUPS else None
