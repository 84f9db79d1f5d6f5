"""Reductions of a product's results: what a tile has of each, and where all tiles' meet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scalec.abi import Extent, Term
from scalec.ir.schedule import Schedule
from scalec.meetings import FEW_TILES, numbers_of
from scalec.passes.plan.items import cut_along, free_warps
from scalec.passes.plan.resources import loads_tiles, producer_warpgroups, result_columns, threaded, turns, units
from scalec.passes.problem.types import Problem


def idle_warp(problem: Problem, schedule: Schedule) -> int | None:
    """The producer warpgroup's warp that may count tiles (plan/counting.py): one that has nothing else to do. None
    where a CTA cannot know which tiles it works on, or has no sums of some of them, where warpgroups take tiles by
    turns, where the tensor core works on the next tile meanwhile, or where all warps are busy."""
    if not problem.reductions or problem.queued or schedule.stationary or schedule.run > 1:
        return None
    if schedule.scheduler != "static" or schedule.split > 1 or turns(schedule) > 1 or problem.kind.tensor_memory:
        return None
    sides = (problem.lhs, problem.rhs)
    if producer_warpgroups(problem, schedule) == 1 and any(threaded(problem, x, schedule) for x in sides):
        return None
    last = free_warps(problem, schedule) - loads_tiles(schedule) - 1
    return last if last > 1 else None  # the first two copy, and ask L2 for what others read


@dataclass(frozen=True)
class Partial:
    """What a tile has of a reduction, in shared memory or in the workspace: in each of `slots` of each row, or column,
    as many f32 as `numbers_of` its kind says."""

    kind: str  # "sum", "max", "min" or "sum_exp"
    axis: str  # of the tile, that it runs over: "n", the columns of each row, or "m"
    slots: int  # units or warps, each with a part of that axis
    extent: int  # of the other axis: rows, or columns
    offset: int  # the first one's, among those of all reductions in one place

    @property
    def words(self) -> int:
        """f32 of all slots."""
        return self.slots * self.extent * numbers_of(self.kind)


def partials(problem: Problem, schedule: Schedule) -> list[Partial]:
    """Of each reduction, what warps leave of a tile."""
    along, found, offset = units(problem, schedule), [], 0
    for r in problem.reductions:
        assert r.reduced is not None
        axis = "n" if r.reduced.over == problem.n.name else "m"
        warps = along[0] * problem.family.wave // 16  # each has 16 rows of a wave
        slots, extent = (along[1], schedule.tile[0]) if axis == "n" else (warps, result_columns(problem, schedule))
        found.append(Partial(r.reduced.kind, axis, slots, extent, offset))
        offset += found[-1].words
    return found


@dataclass(frozen=True)
class Overhang:
    """Tiles that begin anywhere, along an axis: those of each group or block in turn. A tile's number is where it
    begins, in tiles, and for each group before its own `ctas`, those of a cluster along the axis: a group's last one
    may reach into the next one's first, or beyond it.
    """

    axis: str  # of the tile, "m" or "n"
    ctas: int  # of a cluster along it
    # the dimension whose indices have ranges one behind the other's, "" where there is none: of all other ranges each
    # has points of its own.
    group: str = ""
    block: int = 0  # indices of a block, 0 where there are none

    def more(self, dim: str) -> Extent:
        """Tiles beyond those that cover the dimension of the axis."""
        if self.group:
            return Extent(terms=(Term(self.group, self.ctas),))
        return Extent(terms=(Term(dim, self.ctas, divisor=self.block),)) if self.block else Extent(size=self.ctas)


def overhang(problem: Problem, schedule: Schedule) -> Overhang | None:
    """How tiles that meet are numbered where they begin anywhere; None where all begin at multiples of their extent."""
    cut = cut_along(problem, schedule)
    if not cut or not problem.reductions:
        return None
    axis = int(cut == problem.n.name)
    ragged, made = problem.ragged, Overhang("mn"[axis], schedule.cluster[axis])
    if ragged is None:
        return replace(made, block=problem.blocks[1])
    within = [r for r in problem.reductions if r.reduced is not None and r.reduced.over == cut and ragged.follows]
    alone = any(at.dim == ragged.group for r in problem.reductions if r not in within for at in r.coords)
    return made if alone else replace(made, group=ragged.group)


def bands(problem: Problem, schedule: Schedule) -> tuple[Extent, ...]:
    """The tiles that meet, as a product; empty where these are all tiles of the launch."""
    over = overhang(problem, schedule)
    if over is None:
        return ()
    made = []
    for i, d in enumerate((problem.m, problem.n)):
        ctas = schedule.cluster[i]
        extent = ctas * (schedule.tile[0], result_columns(problem, schedule))[i]
        more = over.more(d.name) if over.axis == "mn"[i] else Extent()
        made.append(replace(more, terms=(Term(d.name, ctas, divisor=extent), *more.terms)))
    return *made, *(Extent(d.name) for d in problem.outer if d.name != over.group)


def arrivals(problem: Problem, schedule: Schedule) -> tuple[str, ...]:
    """The axes that reductions run over: tiles along each are counted, those in order of M before N."""
    found = {p.axis for p in partials(problem, schedule)}
    return tuple(axis for axis in ("n", "m") if axis in found)


def in_sections(problem: Problem, schedule: Schedule, axis: str) -> bool:
    """Whether tiles along an axis may be more than FEW_TILES, and meet SECTION at a time. Those that begin anywhere do
    not: their numbers are not their order."""
    over, most = overhang(problem, schedule), band_tiles(problem, schedule, axis)
    return (over is None or over.axis != axis) and (most is None or most > FEW_TILES)


def band_tiles(problem: Problem, schedule: Schedule, axis: str) -> int | None:
    """Tiles along an axis, those beyond the last one in a cluster too; None where the dimension's size is not known."""
    i = "mn".index(axis)
    size, along = (problem.m, problem.n)[i].size, schedule.cluster[i]
    extent = (schedule.tile[0], result_columns(problem, schedule))[i] * along
    return None if size is None else -(-size // extent) * along


def band_counters(problem: Problem, schedule: Schedule) -> int:
    """Counters of each tile: for each axis that reductions run over one, or of sections and of all of these."""
    return sum(1 + in_sections(problem, schedule, axis) for axis in arrivals(problem, schedule))


def no_invariant(problem: Problem) -> str:
    """Why results cannot be bit-equal whatever M is, "" where they can be."""
    sums = [r.name for r in problem.reductions if r.reduced is not None and "sum" in r.reduced.kind]
    return f"{sums[0]} is a sum over tiles, whose columns and rows are chosen by M" if sums else ""
