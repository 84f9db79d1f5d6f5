"""Reductions of what follows a contraction over one of its indices (`scale.reduce`), which a tile has all of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scalec.errors import UnsupportedError
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import dims_of_domains, map_of, maps_of
from scalec.passes.problem.access import Coord, Dim, Domain, Index
from scalec.passes.problem.contraction import sums_of
from scalec.passes.problem.result import Result
from scalec.passes.problem.types import Problem
from scalec.targets import MAX_BOX

FOLDED = 8
"""Columns of a row that four threads hold, two each (PTX ISA 9.7.14.5.8, m16n8): what is reduced is a multiple."""


@dataclass(frozen=True)
class Reduced:
    """A reduction that a result reads."""

    op: Any  # the `scale.reduce`
    source: Any  # the map that computes what it reduces, None where that is the contraction itself
    dim: int  # position of the dimension that it reduces


def made_by(value: Any, name: str) -> Any:
    """The op of this name that computes a value; None where another one does."""
    return None if isinstance(value.owner, ir.Block) or value.owner.name != name else value.owner.opview


def reduced(final: Any, contract: Any, dims: list[str]) -> Reduced | None:
    """The reduction that the last map of a result reads, where that reduces what is computed of the contraction, all at
    its own points; None where it reads none.

    Raises:
        UnsupportedError: it reads one that no tile has all terms of.
    """
    op = made_by(final, "scale.map")
    found = [r for v in (op.views if op else ()) if (r := made_by(v.owner.opview.source, "scale.reduce")) is not None]
    if not found or any(r.result != found[0].result for r in found):
        return None
    reduce, where = found[0], maps_of(contract.maps)[2]
    source = made_by(reduce.input, "scale.map")
    if source is None and reduce.input != sums_of(contract):
        return None
    inner, outer = maps_of(reduce.maps)
    left = [e.position for e in inner.results if e not in list(outer.results)]
    at = map_of(source.map) if source is not None else where
    if list(inner.results) != list(at.results) or not _plain(inner) or not _plain(outer) or len(reduce.symbols):
        raise _refused(reduce, "its terms are read at computed indices", "terms at the points of the product")
    if len(left) != 1:
        names = " and ".join(dims[d] for d in left)
        raise _refused(reduce, f"it is over {names}", "one index: a tile has all of its terms side by side")
    ranged = [ir.StringAttr(d.owner.opview.dim).value for d in reduce.domains]
    if dims[left[0]] in ranged or left[0] in dims_of_domains(list(reduce.domains)):
        raise _refused(reduce, f"{dims[left[0]]} has a range", "all indices: a tile has all of its terms")
    return Reduced(reduce, source, left[0])


def _plain(where: ir.AffineMap) -> bool:
    return all(isinstance(e, ir.AffineDimExpr) for e in where.results)


def _refused(op: Any, found: str, expected: str) -> UnsupportedError:
    kind = ir.StringAttr(op.kind).value
    return UnsupportedError(
        f"no tile has all terms of the {kind} beside the contraction: {found}",
        expected=expected,
        fix="write what is reduced, and reduce it in a program of its own",
        place=place_of(op),
    )


def check_plain(result: Result, why: str, expected: str, place: Any) -> None:
    """Refuses a result that threads do not store element by element: quantised, scattered, or around gaps."""
    for found, what in (
        (result.scale is not None, "is quantised"),
        (result.chance is not None, "is rounded by chance"),
        (result.transformed, "is transformed"),
        (bool(result.scattered), "is scattered"),
        (result.gaps is not None, "is written around gaps"),
        (result.element.bits < 8, f"is {result.element.name}"),
    ):
        if found:
            raise UnsupportedError(
                f"{result.name} {what}, and {why}",
                expected=f"whole elements at plain indices{expected}",
                fix=f"give {result.name} f32, bf16 or f16 at its own indices, and convert it after the call",
                place=place,
            )


def check_result(result: Result, place: Any) -> None:
    """Refuses such a one of what is reduced."""
    check_plain(result, "is a reduction of the contraction", "", place)


def check_size(op: Any, name: str, size: int | None) -> None:
    """Refuses a reduction of which a tile cannot have all terms side by side."""
    if size is not None and size and size % FOLDED == 0 and size <= MAX_BOX:
        return
    kind = ir.StringAttr(op.kind).value
    found = f"is {size}" if size is not None else "is not known at compile time"
    raise UnsupportedError(
        f"{kind}[{name}] beside the contraction, and {name} {found}",
        expected=f"a multiple of {FOLDED} up to {MAX_BOX}: a tile has all terms in one row",
        fix=f"give {name} in dims" if size is None else f"pad {name} with what the {kind} passes over",
        place=place_of(op),
    )


def check_walked(problem: Problem) -> None:
    """Refuses an index from memory of what is reduced, or is walked as one with it; and beside a reduction one that no
    operand is read at, as nothing is passed over for it."""
    walked = {name for d in (problem.m, problem.n) if d.inner > 1 for name in (d.name, d.within)}
    multiplied = {at.dim for p in problem.products for x in (p.lhs, p.rhs) for at in x.coords}
    for x in problem.lookups:
        own = walked & {at.dim for at in x.index.coords}
        if not own and (problem.column_fold is None or not x.by_row or x.name in multiplied):
            continue
        raise UnsupportedError(
            f"{x.name} is read beside what a tile reduces, at {' and '.join(sorted(own)) or x.dim}",
            expected=f"indices from memory of operands, and of other dimensions than {' and '.join(sorted(walked))}",
            fix="gather what it names by a program before, as X[m,n] = A[idx[m],n]",
            place=problem.written,
        )


def uneven(results: Sequence[Result], outer: Sequence[Dim]) -> tuple[Domain, ...]:
    """The range that all folded results have, by which tiles are dealt out: from 0 up to an end that is read for each
    index of a further dimension, where nothing is written beyond. Such ends may differ by any factor, and so would the
    shares of those who walk all tiles alike."""
    found = set(map(_written, results))
    if len(found) != 1 or (only := found.pop()) is None:
        return ()
    dim, end = only
    groups = {at.dim for at in ((end,) if isinstance(end, Coord) else end.coords) if at.dim}
    if len(groups) != 1 or not groups <= {d.name for d in outer}:
        return ()
    return (Domain(dim, 0, end, groups.pop()),)


def _written(result: Result) -> tuple[str, Index | Coord] | None:
    """The dimension of the rows that are written, and where they end: where that is read, others are left alone, and
    the first one is row 0."""
    window, fold = result.window, result.column_fold
    if window is None or fold is None or window.dim == fold.along or window.low != 0:
        return None
    if isinstance(window.high, int) or window.otherwise is not None or window.width is not None:
        return None
    end = window.high
    return window.dim, end.coords[0] if end.computed else Index(end.argument_index, end.name, end.coords)
