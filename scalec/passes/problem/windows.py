"""Ranges of single points of a result, `for n < len[m]`, or with else: a tile is computed whole, and threads store
what of it lies within."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scalec.errors import UnsupportedError
from scalec.ir.mlir import ir
from scalec.ir.scale import dims_of_domains
from scalec.passes.problem.access import Domain
from scalec.passes.problem.column_folds import check_plain
from scalec.passes.problem.result import Result


def dim_of(domain: Any) -> str:
    """The dimension that a range is over."""
    return ir.StringAttr(domain.owner.opview.dim).value


def filled(op: Any) -> bool:
    """Whether what lies outside of the ranges of a map is written, too."""
    return op is not None and "otherwise" in op.operation.attributes


def masks(
    contract: Any,
    maps: Sequence[Any],
    dims: Sequence[str],
    tiled: tuple[str, ...],
    torn: Callable[[Any], bool],
    every: bool,
) -> tuple[list[Any], list[Any]]:
    """The ranges of a contraction over dimensions of a tile of which threads store single points: whose ends differ
    within a tile, outside of which a map writes something, or where it would begin within a page (`torn`). Of several
    others, all but the first; or `every` one. And which of these may deal out tiles from where a page begins: the first
    that is torn, where no other does."""
    own = [d for d in contract.domains if dim_of(d) in tiled]
    within = {dims.index(x) for x in tiled}
    found = [
        d
        for d in own
        if dims_of_domains([d]) & within or any(filled(op) and ir.Value(d) in map(ir.Value, op.domains) for op in maps)
    ]
    pages = [d for d in own if d not in found and not every and torn(d)]
    others = [d for d in own if d not in [*found, *pages]]
    return [*found, *pages, *others[int(not every) :]], [] if others else pages[:1]


def own_ranges(op: Any, contract: Any, masked: Iterable[Any], tiled: tuple[str, ...]) -> list[Any]:
    """The ranges of single points of a result: those of its map that are `masked`, or that the contraction has not."""
    masked, dealt = list(masked), list(contract.domains)
    every = contract.domains if op is None else op.domains
    return [d for d in every if dim_of(d) in tiled and (d in masked or d not in dealt)]


def check_window(result: Result, ranges: Sequence[Any], dealt: Sequence[Any], fills: bool, place: Any) -> None:
    """Refuses a result of whose points a range of their own says which are written, and that threads do not store one
    by one; several such ranges; and one that fills what another range, `dealt` out by tiles, leaves out."""
    name, (first, *others) = result.name, ranges
    if others or (dealt and fills):
        second = (*others, *dealt)[0]
        raise UnsupportedError(
            f"{name} has ranges of {dim_of(first)} and of {dim_of(second)}"
            + (", and is filled outside (else)" if fills else ", both of which end within a tile"),
            expected="one range that ends at another index for each row or column, or outside of which something is "
            "written (else)",
            fix=f"leave the range of {dim_of(second)} out, and fill {name} there after the call",
            place=place,
        )
    why = f"{dim_of(first)} has a range that is {name}'s points' own"
    check_plain(result, why, ": threads store each that lies within", place)


def check_told(own: Sequence[str], domains: Sequence[Domain], place: Any) -> None:
    """Refuses sums over ranges for each index of a group that neither the result has, whose indices are `own`, nor one
    of its ranges tells: each group's would be written where all of them are to be summed."""
    told = {*own, *(d.group for d in domains if d.dim in own and d.follows and {*d.groups} - {*own} == {d.group})}
    for d in domains:
        if d.dim in own or not (untold := sorted({*d.groups} - told)):
            continue
        several, group = " and ".join(untold), untold[-1]
        raise UnsupportedError(
            f"{d.dim} has a range for each {several}, and the result is a sum over {several}, too",
            expected=f"{several} in the result, or a range that tells it: for {own[0]} in off[{group}]:off[{group}+1]",
            fix=f"write {several} into the result, and sum over {several} in a second program",
            place=place,
        )


def check_added(result: Result, untold: Sequence[Domain], place: Any) -> None:
    """Refuses a result that is added to and has ranges by which groups are `untold`: neither has it these, nor are
    tiles dealt out by any. Each group's tiles would read what others write."""
    if not result.inout or not untold:
        return
    dim, group = untold[0].dim, untold[0].group
    raise UnsupportedError(
        f"{result.name} is added to (+=), and the ranges of {dim} for each {group} are those of single points",
        expected=f"= in place of +=, or {group} in {result.name}",
        fix="write = into another result, and add that in a second program",
        place=place,
    )


def check_filled(problem: Any) -> None:
    """Refuses results that are filled outside a range where an index of all of a tile is read from memory: a tile whose
    index is negative is passed over, and nobody fills it."""
    windows = [(r, r.reduced.window if r.reduced is not None else r.window) for r in problem.bodies]
    filling = [r for r, x in windows if x is not None and x.otherwise is not None]
    if not filling or not problem.constant_lookups:
        return
    (name, *_), lookup = [r.name for r in filling], problem.constant_lookups[0].name
    raise UnsupportedError(
        f"{name} is filled outside a range (else), and {lookup} says what tiles are multiplied with",
        expected="a range without else: where an index is negative nothing is written",
        fix=f"fill {name} before the call, and leave else out",
        place=problem.written,
    )
