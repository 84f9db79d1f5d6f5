"""Results that are written at indices read from memory: which index each row of a tile has, and which a whole tile."""

from __future__ import annotations

from typing import Any

from scalec.errors import UnsupportedError
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import dims_in, map_of, maps_of, program_dims
from scalec.passes.problem.access import Coord, Dim
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


def check_range(name: str, op: Any, contract: Any, tiled: tuple[str, ...]) -> None:
    """Refuses a result of other points than those that the contraction has sums for."""
    own, summed = ([d for d in x.domains if ir.StringAttr(d.owner.opview.dim).value in tiled] for x in (op, contract))
    if "otherwise" in op.operation.attributes:
        raise UnsupportedError(
            f"{name} is filled outside its range (else)",
            expected="a range without else: what is outside keeps its bytes",
            fix=f"fill {name} before the call",
            place=place_of(op),
        )
    placed = op.operation.name == "scale.map" and len(op.symbols)
    if placed or set(map(ir.Value, own)) != set(map(ir.Value, summed)):
        raise UnsupportedError(
            f"{name} is written through another range than it is summed over, or at an index read from memory",
            expected="one range for all of the program",
            fix=f"say the same range for {name} and for what it is computed from",
            place=place_of(op),
        )


def order_of(walk: Lookups, op: Any, name: str) -> list[str]:
    """The dimensions of what is scattered, in the order of the result's indices: of one that is read from memory those
    that it depends on and no other index is.

    Raises:
        UnsupportedError: an index is computed otherwise, or the last one is read from memory.
    """
    where, symbols = maps_of(op.maps)[1], list(op.symbols)
    plain = {walk.dims[d] for d in dims_in(where)}
    order: list[str] = []
    for e in where.results:
        if isinstance(e, ir.AffineDimExpr):
            order.append(walk.dims[e.position])
        elif isinstance(e, ir.AffineSymbolExpr) and e != where.results[-1]:
            read = [c.dim for c in walk.index(symbols[e.position]).coords if c.dim]
            order += [x for x in read if x not in plain and x not in order]
        else:
            text = walk.results_of(where, symbols)
            raise UnsupportedError(
                f"{name}[{', '.join(text)}] is written at {text[list(where.results).index(e)]}",
                expected="dimensions and indices read from memory, a dimension last: what is scattered are rows",
                fix=f"write {name} without this index, and move it to its places after the call",
                place=place_of(op),
            )
    return order


def coords_of(
    walk: Lookups, op: Any, name: str, extents: tuple[Dim, ...], m: Dim, n: Dim
) -> tuple[tuple[Coord, ...], str]:
    """Where a result with these extents is written, and the lookup that each row of a tile has an index of; "" where
    rows lie as those of the tile do.

    Raises:
        UnsupportedError: that is read along n, or a row has two indices.
    """
    where, symbols = maps_of(op.maps)[1], list(op.symbols)
    coords, rows = [], []
    for e, extent in zip(where.results, extents, strict=True):
        if isinstance(e, ir.AffineDimExpr):
            coords.append(Coord(walk.dims[e.position]))
            rows += [coords[-1].dim] * (coords[-1].dim == m.name)
            continue
        symbol = symbols[e.position]
        coords.append(walk.note(symbol, extent))
        read = [c for c in walk.index(symbol).coords if c.dim]
        rows += [coords[-1].dim] * walk.gathers(symbol, m.name)
        if any(c.dim == n.name for c in read):
            raise UnsupportedError(
                f"{name} is written at {walk.spelled(symbol)}, and {n.name} is its last index",
                expected=f"an index for each {m.name}, or for several: rows are scattered whole",
                fix=f"write {name} without this index, and move it to its places after the call",
                place=place_of(op),
            )
    if len(rows) != 1:
        text = ", ".join(walk.results_of(where, symbols))
        raise UnsupportedError(
            f"{name}[{text}] has {len(rows)} indices for each {m.name}",
            expected=f"one: {m.name} itself, or an index read from memory",
            fix=f"compute one index from {' and '.join(rows)} before the call" if rows else f"give {name} one",
            place=place_of(op),
        )
    return tuple(coords), "" if rows[0] == m.name else rows[0]
