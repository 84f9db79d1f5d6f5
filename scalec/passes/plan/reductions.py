"""Reductions of a product's results: what a tile has of each, and where all tiles' meet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scalec.abi import Extent, Term
from scalec.ir.schedule import Schedule
from scalec.passes.plan.items import cut_along
from scalec.passes.plan.resources import result_columns, units
from scalec.passes.problem.types import Problem


@dataclass(frozen=True)
class Partial:
    """What a tile has of a reduction in the workspace: `slots` times `extent` f32, from `offset` on.

    Attributes:
        kind: "sum", "max" or "min".
        axis: of the tile, that it runs over: "n", the columns of each row, or "m".
        slots: units or warps, each with a part of that axis.
        extent: of the other axis.
    """

    kind: str
    axis: str
    slots: int
    extent: int
    offset: int


def partials(problem: Problem, schedule: Schedule) -> list[Partial]:
    """Of each reduction."""
    along, found, offset = units(problem, schedule), [], 0
    for r in problem.reductions:
        assert r.reduced is not None
        axis = "n" if r.reduced.over == problem.n.name else "m"
        warps = along[0] * problem.family.wave // 16  # each has 16 rows of a wave
        slots, extent = (along[1], schedule.tile[0]) if axis == "n" else (warps, result_columns(problem, schedule))
        found.append(Partial(r.reduced.kind, axis, slots, extent, offset))
        offset += slots * extent
    return found


def partial_words(problem: Problem, schedule: Schedule) -> int:
    """f32 of the workspace that a tile has for reductions."""
    return sum(p.slots * p.extent for p in partials(problem, schedule))


@dataclass(frozen=True)
class Overhang:
    """Tiles that begin anywhere, along an axis: those of each group or block in turn. A tile's number is where it
    begins, in tiles, and for each group before its own `ctas`, those of a cluster along the axis: a group's last one
    may reach into the next one's first, or beyond it.

    Attributes:
        axis: of the tile, "m" or "n".
        ctas: of a cluster along it.
        group: the dimension whose indices have ranges one behind the other's, "" where there is none: of all other
            ranges each has points of its own.
        block: indices of a block, 0 where there are none.
    """

    axis: str
    ctas: int
    group: str = ""
    block: int = 0

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
    alone = any(at.dim == ragged.group for r in problem.reductions for at in r.coords)
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


def meets_at_end(problem: Problem, schedule: Schedule) -> tuple[str, ...]:
    """The axes along which tiles are counted when a CTA has worked on all of its own: it then waits once. Where it
    cannot know which these were, or stores results while the tensor core works on the next tile, each is counted on its
    own. So is each for a reduction over rows: a warp alone would add up what every warp of all tiles has.

    H100, 2026-11-26, beside FP8 8192x4096x7168 and bf16 8192x8192x8192, times as long as the product: max over columns
    1.03 and 1.01, with each tile counted on its own 1.05 and 1.05; a sum over rows 1.26 and 1.07, and 1.13 and 1.08."""
    known = schedule.scheduler == "static" and schedule.split == 1 and not problem.kind.tensor_memory
    return tuple(axis for axis in arrivals(problem, schedule) if axis == "n" and known)


def no_invariant(problem: Problem) -> str:
    """Why results cannot be bit-equal whatever M is, "" where they can be."""
    sums = [r.name for r in problem.reductions if r.reduced is not None and r.reduced.kind == "sum"]
    return f"{sums[0]} is a sum over tiles, whose columns and rows are chosen by M" if sums else ""
