"""Why no tile is chosen for a program: what its refusals say."""

from __future__ import annotations

from dataclasses import replace

from scalec.errors import ApartError, ScalecError, UnsupportedError
from scalec.ir.schedule import Request
from scalec.passes.choose import every_tile
from scalec.passes.choose.promotion import promotion
from scalec.passes.plan.resources import deepest
from scalec.passes.plan.shared_blocks import sharing
from scalec.passes.problem.epilogue import RESULT_BLOCK
from scalec.passes.problem.result import Result
from scalec.passes.problem.two_programs import two_programs
from scalec.passes.problem.types import Problem
from scalec.targets import MAX_BOX

Clusters = list[tuple[Problem, tuple[int, int]]]
"""Clusters, and the problem as their CTAs see it."""


class Refused:
    """Tiles that were looked at, by the reasons why they were not taken."""

    def __init__(self) -> None:
        self.tiles: dict[str, list[str]] = {}

    def add(self, reason: str, plan: Request) -> None:
        self.tiles.setdefault(reason, []).append("x".join(map(str, plan.tile or ())))

    def __str__(self) -> str:
        return "; ".join(f"{_some(tiles)}: {reason}" for reason, tiles in self.tiles.items())


def blocks_too_wide(problem: Problem) -> UnsupportedError:
    """That no tile has whole blocks of the result's scales, or of columns it reduces, and whole copies of B."""
    result, rhs, n = max(problem.results, key=lambda r: r.block), problem.rhs, problem.n.name
    if (whole := whole_row(problem)) is not None and whole is result:
        return ApartError(
            f"{whole.name} is quantised by whole rows, and {n} = {problem.n.size}",
            expected=f"{n} up to {MAX_BOX} for each CTA of a cluster along {n}",
            fix="another cluster, or none, or " + way_out(problem),
            result=whole.name,
            place=problem.place,
        )
    if (fold := problem.column_fold) is not None and result.scale is None:
        step = every_tile.column_step(replace(problem, results=(replace(result, column_fold=None),)))
        return UnsupportedError(
            f"{fold.kind}[{fold.dim}] beside the contraction, and no tile of up to {MAX_BOX} columns in steps of "
            f"{step} has whole ones of {fold.size}",
            expected=f"a size of {fold.dim} whose least common multiple with {step} is {MAX_BOX} at most",
            fix=f"pad {fold.dim} with what the {fold.kind} passes over"
            + (f", or store {rhs.name} contiguous along {problem.k.name}" if rhs.mn_major else ""),
            place=problem.place,
        )
    alone = every_tile.column_step(replace(problem, results=(replace(result, scale=None),)))
    able = [b for b in range(RESULT_BLOCK, MAX_BOX + 1, RESULT_BLOCK) if _has_tile(problem, result, b)]
    copied = f" and whole copies of {rhs.name}, which bring {alone} at a time" if rhs.mn_major else ""
    return ApartError(
        f"{result.name} is quantised in blocks of {result.block}: no tile of up to {MAX_BOX} of {n} has whole ones"
        f"{copied}, on {problem.target.name}",
        expected="blocks of " + ", ".join(map(str, able)),
        fix=(f"store {rhs.name} as [{n}, {problem.k.name}], " if rhs.mn_major else "")
        + f"say 1x32 or 1x128, or give {result.name} f32, bf16 or f16 and quantise it after the call",
        result=result.name,
        place=problem.place,
    )


def _has_tile(problem: Problem, result: Result, block: int) -> bool:
    """Whether the program has a tile, or those of a cluster, with a scale for each `block` columns of a result."""
    assert result.scale is not None
    own = replace(result, scale=replace(result.scale, block=block))
    tried = replace(problem, results=tuple(own if r is result else r for r in problem.results))
    shared = [(x, Request().with_fields(cluster=cluster)) for x, cluster in sharing(tried, whole=False)]
    ways = [(tried, Request()), *shared]
    return every_tile.roomiest(ways, deepest(tried), promotion(tried), 0, lambda *_: None) is not None


def way_out(problem: Problem) -> str:
    """What a program of which no tile fits may be written as."""
    scaled = [r for r in problem.results if r.scale is not None]
    whole = whole_row(problem)
    if len(problem.results) > 1:
        return "one program for each result"
    if whole is not None:
        return two_programs(whole, f"{whole.element.name} scale(1x{whole.coords[-1].dim})")
    if scaled:
        others = [f"1x{block}" for block in (32, 128) if block != scaled[0].block]
        kept = f"give {scaled[0].name} f32, bf16 or f16 and quantise it after the call"
        return f"say {' or '.join(others)}, or {kept}"
    for x in (problem.lhs, problem.rhs):
        if x.pages and x.page & (x.page - 1):
            return f"lay {x.name} out in pages of 16, 32, 64 or 128 rows"
    if (fold := problem.column_fold) is not None:
        return f"keep {fold.dim} in the result, and take the {fold.kind} over it after the call"
    sizes = [d.name for d in (problem.m, problem.n, problem.k) if d.size is None]
    return f"give {', '.join(sizes)} in dims" if sizes else "one program for each contraction, or another target"


def whole_row(problem: Problem) -> Result | None:
    """The first result that is quantised by whole rows."""
    n = problem.n.size
    return next((r for r in problem.results if r.scale is not None and n is not None and r.scale.width >= n), None)


def widest_blocks(problem: Problem) -> Result | None:
    """The result that is quantised in the widest blocks, which another launch might do."""
    scaled = [(r.scale.width, -i, r) for i, r in enumerate(problem.results) if r.scale is not None]
    return max(scaled)[2] if scaled else None


def no_sharing(ways: Clusters, refusals: dict[tuple[int, int], ScalecError]) -> ApartError:
    """That no tile goes with a cluster that could share a result's blocks."""
    problem, cluster = ways[-1]
    whole = widest_blocks(problem)
    assert whole is not None
    ctas = " or ".join(str(along_n) for _, (_, along_n) in ways)
    return ApartError(
        f"{whole.name} is quantised in blocks of {whole.scale.width if whole.scale else 0}, which {ctas} CTAs of a "
        f"cluster would share",
        got=refusals[cluster].got,
        expected="a tile for which none of these holds",
        fix=way_out(problem),
        result=whole.name,
        place=problem.place,
    )


def _some(tiles: list[str]) -> str:
    """A few of many."""
    names = list(dict.fromkeys(tiles))
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
