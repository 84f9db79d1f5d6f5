"""Results that are written at indices read from memory: which index each row of a tile has, and which a whole tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scalec.errors import UnsupportedError
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import dims_in, map_of, maps_of, program_dims
from scalec.passes.problem.access import Coord, Dim, Gaps
from scalec.passes.problem.gaps import dimension_of, gaps_of
from scalec.passes.problem.lookups import Lookups


def before_scatter(value: Any) -> tuple[Any, Any]:
    """What is scattered into a value, and the op that does so; the value itself and None where none does."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "scale.scatter":
        return value, None
    op = value.owner.opview
    return op.input, op


def distance_of(op: Any) -> int | None:
    """The axis of a scatter that is written at a point's distance from where its range begins, `t - lo[q]` with t in
    lo[q]:hi[q], and all others plain; None where there is no such."""
    source, target = maps_of(op.maps)
    moved = [axis for axis, (x, y) in enumerate(zip(source.results, target.results, strict=False)) if x != y]
    if (
        len(source.results) != len(target.results)
        or len(moved) != 1
        or not all(isinstance(e, ir.AffineDimExpr) for e in source.results)
    ):
        return None
    dim, minus = source.results[moved[0]], ir.AffineExpr.get_constant(-1)
    for domain in (d.owner.opview for d in op.domains):
        low, along = map_of(domain.lower).results[0], program_dims(op).index(ir.StringAttr(domain.dim).value)
        if not isinstance(low, ir.AffineSymbolExpr) or along != dim.position:
            continue
        begins = domain.symbols[low.position]
        for i, symbol in enumerate(op.symbols):
            away = ir.AffineExpr.get_add(dim, ir.AffineExpr.get_mul(ir.AffineExpr.get_symbol(i), minus))
            if symbol == begins and target.results[moved[0]] == away:
                return moved[0]
    return None


def check_range(name: str, op: Any, dealt: list[Any], windows: list[Any], tiled: tuple[str, ...]) -> None:
    """Refuses a result of other points than those that tiles are `dealt` out by, or `windows` of its own leave."""
    own = [d for d in op.domains if ir.StringAttr(d.owner.opview.dim).value in tiled and d not in windows]
    if "otherwise" in op.operation.attributes and not windows:
        raise UnsupportedError(
            f"{name} is filled outside its range (else)",
            expected="a range of an index of a tile, or one without else: what is outside keeps its bytes",
            fix=f"fill {name} before the call",
            place=place_of(op),
        )
    placed = op.operation.name == "scale.map" and len(op.symbols)
    if placed or set(map(ir.Value, own)) != set(map(ir.Value, dealt)):
        raise UnsupportedError(
            f"{name} is written through another range than it is summed over, or at an index read from memory",
            expected="one range for all of the program",
            fix=f"say the same range for {name} and for what it is computed from",
            place=place_of(op),
        )


def order_of(walk: Lookups, op: Any, name: str) -> tuple[list[str], Gaps | None]:
    """The dimensions of what is scattered, in the order of the result's indices, and the gaps along the last one: of
    one that is read from memory those that it depends on and no other index is.

    Raises:
        UnsupportedError: an index is computed otherwise, or the last one is read from memory for none of its own.
    """
    where, symbols = maps_of(op.maps)[1], list(op.symbols)
    plain = {walk.dims[d] for d in dims_in(where)}
    order: list[str] = []
    gaps: Gaps | None = None
    for axis, e in enumerate(where.results, 1):
        own: list[str] = []
        if isinstance(e, ir.AffineDimExpr):
            own = [walk.dims[e.position]]
        elif isinstance(e, ir.AffineSymbolExpr):
            read = [c.dim for c in walk.index(symbols[e.position]).coords if c.dim]
            own = [x for x in read if x not in plain and x not in order]
            if axis < len(where.results):
                order += own
                continue
        elif axis == len(where.results) and (dim := dimension_of(e, len(walk.dims))) is not None:
            gaps = gaps_of(e)
            own = [walk.dims[dim]] if gaps is not None else []
        if not own:
            text = walk.results_of(where, symbols)
            raise UnsupportedError(
                f"{name}[{', '.join(text)}] is written at {text[axis - 1]}",
                expected="dimensions, the last one as it is or around gaps of one size, and indices read from memory",
                fix=f"write {name} without this index, and move it to its places after the call",
                place=place_of(op),
            )
        order += own
    return order, gaps


def coords_of(
    walk: Lookups, op: Any, name: str, extent: Callable[[int], Dim], m: Dim, n: Dim
) -> tuple[tuple[Coord, ...], dict[str, str]]:
    """Where a result is written that has this extent along each axis; and the lookup that each row, or column, of a
    tile has an index of, by its dimension, none where these lie as the tile's do.

    Raises:
        UnsupportedError: a row or column has none, or two indices.
    """
    where, symbols = maps_of(op.maps)[1], list(op.symbols)
    coords: list[Coord] = []
    found: dict[str, list[str]] = {m.name: [], n.name: []}
    for axis, e in enumerate(where.results):
        if isinstance(e, ir.AffineSymbolExpr):
            coords.append(walk.note(symbols[e.position], extent(axis)))
            along = [d for d in found if walk.gathers(symbols[e.position], d)]
        else:
            dim = dimension_of(e, len(walk.dims))
            assert dim is not None  # else `order_of` refuses it
            coords.append(Coord(walk.dims[dim]))
            along = [coords[-1].dim] * (coords[-1].dim in found)
        for d in along:
            found[d].append(coords[-1].dim)
    text = ", ".join(walk.results_of(where, symbols))
    for d, own in found.items():
        if len(own) != 1:
            raise UnsupportedError(
                f"{name}[{text}] has {len(own)} indices for each {d}",
                expected=f"one: {d} itself, or an index read from memory",
                fix=f"compute one index from {' and '.join(own)} before the call" if own else f"give {name} one",
                place=place_of(op),
            )
    return tuple(coords), {d: own for d, (own,) in found.items() if own != d}
