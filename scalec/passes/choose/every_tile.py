"""Every tile that the instructions can have: among them one is chosen where none fits of those that are looked at
first (tiling.CANDIDATES, scalec.model.space), which are few and for which estimates leave registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from scalec.ir.schedule import Request
from scalec.passes.plan.mma_n import no_mma_n, widths
from scalec.passes.plan.parts import no_meeting
from scalec.passes.plan.swizzle import no_panels
from scalec.passes.plan.tiles import misfit, planned, spared
from scalec.passes.problem.types import Problem
from scalec.targets import MAX_BOX

ROWS = {"mma": (16, 32, 64, 128), "wgmma": (64, 128, 192, 256), "tcgen05": (128,)}
"""Of tiles, by kind of kernel."""

NARROWEST = 32
"""Columns of an instruction where a wave's are multiplied in several goes: of each it reads all of A's rows again."""

Way = tuple[Problem, Request]
"""A problem, transposed or not, and a request whose `swap` says which."""


def column_step(problem: Problem) -> int:
    """Of which a tile's columns are multiples: whole instructions, blocks of the result's scales, and panels of B."""
    unit = problem.family.columns_step
    step, rhs = math.lcm(problem.block_columns, unit), problem.rhs
    if rhs.turned:
        return math.lcm(step, 8 * problem.target.tma_align // rhs.stored.bits)
    if not rhs.mn_major:
        return step
    panel = next(n for n in range(unit, MAX_BOX + 1, unit) if not no_panels(problem.target, rhs, n))
    return math.lcm(step, panel)


def has_whole_blocks(problem: Problem) -> bool:
    """Whether some tile has whole blocks of the result's scales, along its columns, or its rows where the result is
    computed by columns."""
    return max(column_step(problem), problem.block if problem.swapped else 1) <= MAX_BOX


def cannot_meet(problem: Problem, given: Request) -> str:
    """Why decided parts of K cannot meet in a cluster, whatever the tile, "" where they can."""
    return no_meeting(problem, given.cluster or (1, 1), given.split or 1, given.scheduler or "static")


def tiles(problem: Problem, given: Request, tile_k: int, promote: int) -> Iterator[Request]:
    """All that the program may have, the largest first; none where decided parts of K cannot meet as decided."""
    if given.parts == "cluster" and (given.split or 1) > 1 and cannot_meet(problem, given):
        return
    step = column_step(problem)
    for columns in reversed(range(step, MAX_BOX + 1, step)):
        for rows in reversed(ROWS[problem.kind.name]):
            tried = {"tile": (rows, columns, tile_k), "cta_group": 1, "promote": promote}
            plan = given.with_fields(**{**tried, **given.decided()})
            yield plan
            if given.mma_n is None and not no_mma_n(problem, promote):
                yield from (plan.with_fields(mma_n=n) for n in widths(problem, columns) if NARROWEST <= n < columns)


def fitting(ways: list[Way], tile_k: int, promote: int, spare: int) -> Iterator[Way]:
    """Those that fit as the estimates have it, and leave `spare` registers of a thread."""
    for problem, given in ways:
        for plan in tiles(problem, given, tile_k, promote):
            if not misfit(problem, plan, spare):
                yield problem, plan


def roomiest(
    ways: list[Way], tile_k: int, promote: int, spare: int, refused: Callable[[str, Request], None]
) -> Way | None:
    """Of those that can be the one that leaves a thread the most registers, and of these the smallest; None where none
    can, or where none leaves `spare` after some spilled (`spare` above 0): `refused` is told why none can."""
    found = []
    for problem, given in ways:
        for plan in tiles(problem, given, tile_k, promote):
            whole, reason = planned(problem, plan)
            if reason:
                refused(reason, plan)
                continue
            room = spared(problem, plan, whole)
            if spare <= 0 or room >= spare:
                found.append((-room, whole.tile[0] * whole.tile[1], len(found), (problem, plan)))
    return min(found)[3] if found else None


def efficiency(rows: int, columns: int) -> float:
    """The share of a fast tile's rate that others reach: by bytes read for a product, as choose_tiling's."""
    return rows * columns / (rows + columns) / 64
