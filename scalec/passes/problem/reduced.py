"""Reductions of a contraction's results: sums, the largest or the least along one index of a tile."""

from __future__ import annotations

from dataclasses import replace
from math import lcm
from typing import Any

from scalec.errors import ApartError, UnsupportedError
from scalec.formats import element_spelled
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import dims_in, dims_of_domains, map_of, maps_of
from scalec.passes.problem.access import Coord
from scalec.passes.problem.column_folds import FOLDED
from scalec.passes.problem.lookups import Lookups
from scalec.passes.problem.result import Reduced, Result
from scalec.passes.problem.scatter import distance_of
from scalec.passes.problem.sources import computed_of, is_op, reduction_of
from scalec.passes.problem.types import STORED, Problem
from scalec.passes.problem.windows import dim_of, filled, own_ranges
from scalec.targets import MAX_BOX, Target

MEET = "scale.meet"
"""The attribute of a function whose reductions are taken where tiles meet (scalec.passes.choose.place_reductions)."""


def reduce_of(final: Any) -> Any:
    """The `scale.reduce` of a contraction that a map computes a value for each point of, None where it does not. Of a
    sum of exponentials and the largest of what they are of the sum, as that is known with it."""
    found = reductions_of(final)
    op = next((x for x in found if _kind(x) == "sum_exp"), reduction_of(final))
    return None if op is None or not of_contraction(op) or over_of(op) & _dims(final.owner.opview) else op


def reductions_of(final: Any) -> list[Any]:
    """All reductions of contractions that a map reads."""
    read = computed_of(final.owner.opview) if is_op(final, "scale.map") else []
    found = [x.owner.opview for x in read if is_op(x, "scale.reduce")]
    return [op for op in found if of_contraction(op)]


def known_with(op: Any, other: Any) -> bool:
    """Whether tiles that meet know another reduction with one that is a sum of exponentials."""
    alike = op.input == other.input and op.maps == other.maps and list(op.domains) == list(other.domains)
    return _kind(op) == "sum_exp" and _kind(other) in ("max", "sum_exp") and alike


def _kind(op: Any) -> str:
    return ir.StringAttr(op.kind).value


def _dims(op: Any) -> set[int]:
    """The dimensions that a `scale.map` has points along."""
    return dims_in(map_of(op.map))


def over_of(op: Any) -> set[int]:
    """The dimensions that a `scale.reduce` runs over."""
    source, result = maps_of(op.maps)
    return dims_in(source) - dims_in(result)


def in_a_tile(finals: list[Any], target: Target, ranges: set[Any]) -> bool:
    """Whether results are all reduced over one index of which a tile has all (column_folds.py), or have ranges of their
    own, which tiles that meet cannot have: `finals` are what they are rounded from. Of 200 columns no tile in steps of
    16 has all. With `ranges` of the products' points that a result has not, tiles meet: in one tile a result has no
    range but its own."""
    found = [reduce_of(x) for x in finals]
    ops = [x for x in found if x is not None]
    over = {d for op in ops for d in over_of(op)}
    if not ops or len(ops) < len(found) or len(over) != 1 or any(_kind(x) == "sum_exp" for x in ops):
        return False
    written = [x.owner.opview for x in finals]
    if any(ranges - set(map(ir.Value, op.domains)) for op in written):
        return False
    if any(len(op.domains) for op in (*ops, *written)):
        return True
    source = maps_of(ops[0].maps)[0]
    axis = [e.position if isinstance(e, ir.AffineDimExpr) else -1 for e in source.results].index(next(iter(over)))
    kind = ops[0].input.type
    if kind.is_dynamic_dim(axis) or kind.get_dim_size(axis) not in range(FOLDED, MAX_BOX + 1, FOLDED):
        return False
    return any(lcm(kind.get_dim_size(axis), x.columns_step) <= MAX_BOX for x in target.mma)


def of_contraction(op: Any) -> bool:
    """Whether a `scale.reduce` is of a contraction, or of what a map computes of one."""
    read = computed_of(op.input.owner.opview) if is_op(op.input, "scale.map") else [op.input]
    return any(is_op(x, "scale.contract") or is_op(x, "scale.add") for x in read)


def check_known(name: str, final: Any, dims: list[str]) -> None:
    """Refuses a result with a value for each point of what is reduced: that takes a second pass over the product.

    Args:
        name: what the user calls it.
        final: what it is rounded from.
        dims: names of the program's dimensions.
    """
    op = reduction_of(final)
    if op is None or not of_contraction(op) or not (along := over_of(op) & _dims(final.owner.opview)):
        return
    kind, over = ir.StringAttr(op.kind).value, ", ".join(dims[d] for d in sorted(along))
    raise UnsupportedError(
        f"{name} is computed of a {kind} over {over} for each {over}, and all of that is known when the product's last "
        "tile is",
        expected="an elementwise expression of the product, or a reduction of it",
        fix=f"write two programs: one with the product and its {kind} as results, T[m,n] and R[m] say, and one of "
        f"these, {name}[m,n] = T[m,n] / R[m]",
        place=place_of(op),
    )


def check_reads(name: str, final: Any, dims: list[str]) -> None:
    """Refuses a result of several reductions of a product, and one of a reduction that another one is needed for, which
    is known when all of a row is.

    Args: as of `check_known`.
    """
    found = reductions_of(final)
    if not all(known_with(reduce_of(final), x) for x in found if len(found) > 1):
        what = " and ".join(_told(op, dims) for op in found)
        raise UnsupportedError(
            f"{name} is computed of several reductions of the product, {what}",
            expected="one reduction, and numbers; or a sum of exp(x - M) and M, the max of x",
            fix=f"write each as a result of its own, and compute {name} of them after the call",
            place=place_of(final),
        )
    op = found[0] if found else reduction_of(final)
    terms = computed_of(op.input.owner.opview) if op is not None and is_op(op.input, "scale.map") else []
    inner = next((x.owner.opview for x in terms if is_op(x, "scale.reduce")), None)
    fills = any(is_op(x, "scale.map") and filled(x.owner.opview) for x in terms)
    if op is None or inner is None or not (found or fills):
        return
    source, result = (",".join(dims[d] for d in sorted(dims_in(x))) for x in maps_of(op.maps))
    over = ", ".join(dims[d] for d in sorted(over_of(op)))
    if fills:
        raise UnsupportedError(
            f"{name} is {_told(op, dims)} of what reads {_told(inner, dims)}, of what is filled outside its range",
            expected=f"sum[{over}](exp(x - M[{result}])) with M[{result}] = max[{over}](x), of an x that is not filled",
            fix=f"two programs: one with what is filled as a result, T[{source}]:f32, one with {name} of that",
            place=place_of(op),
        )
    if any(dim_of(d) == over for d in op.domains):
        raise UnsupportedError(
            f"{name} is {_told(op, dims)} of what reads {_told(inner, dims)}, and {over} has a range",
            expected=f"all of {over}, or ranges of other indices",
            fix=f"two programs: one with the product as a result, in f32, and one with {name} of that, in the range",
            place=place_of(op),
        )
    raise UnsupportedError(
        f"{name} is {_told(op, dims)} of what reads {_told(inner, dims)}, which is known when the product's last "
        "tile is",
        expected=f"sum[{over}](exp(x - M[{result}])) with M[{result}] = max[{over}](x): x and ranges as there, nothing "
        "around exp",
        fix=f"write all that is computed of the product in x, as M[{result}] = max[{over}](c*T) and exp(c*T - "
        f"M[{result}]); or two programs: one with the product as a result, T[{source}]:f32, one with {name} of that",
        place=place_of(op),
    )


def check_written(op: Any, dims: list[str]) -> None:
    """Refuses an op that is a reduction of a product and none of its results, which something else is computed of."""
    if op.operation.name != "scale.reduce" or not of_contraction(op):
        return
    over = ", ".join(dims[d] for d in sorted(over_of(op)))
    raise UnsupportedError(
        f"{_told(op, dims)} of the product is no result, and what reads it is no sum[{over}](exp(x - M)) of the same "
        "points, of which M is the max of x",
        expected=f"M = max[{over}](x) and sum[{over}](exp(x - M)) in the same ranges, of one x, which is not filled",
        fix="write it as a result, and compute what reads it after the call, or by a program of its own",
        place=place_of(op),
    )


def _told(op: Any, dims: list[str]) -> str:
    """A reduction, in words."""
    over = ", ".join(dims[d] for d in sorted(over_of(op)))
    return f"a {said_of(_kind(op))} over {over}"


def said_of(kind: str) -> str:
    """What messages call a kind of reduction."""
    return "sum of exponentials" if kind == "sum_exp" else kind


def kept_of(
    reader: Lookups, written: Any, contract: Any, masked: list[Any], tiled: tuple[str, str], outer: list[str]
) -> tuple[tuple[Coord, ...], Reduced, list[Any]]:
    """Where a reduction is written, over what it is, and the range of points of its own that are.

    Args:
        written: what is returned (`Written`), of a map of the reduction.
        contract: the contraction; `masked`: its ranges by which no tiles are dealt out.
        tiled: the dimensions of a tile; `outer`: the others.

    Raises:
        UnsupportedError: it is over several indices, or one that no tile runs along; more than its value is read
            behind it; it is quantised or scattered; its element type has no kernel; it has a range that ends at what
            changes within a tile.
    """
    name, value, final = written.name, written.value, written.final
    op, last, dims = reduce_of(final), final.owner.opview, reader.dims
    kind, (source, result) = _kind(op), maps_of(op.maps)
    place, told = place_of(value), said_of(kind)

    def refused(what: str, expected: str, fix: str) -> UnsupportedError:
        return UnsupportedError(f"{name} {what}", expected=expected, fix=fix, place=place)

    over = sorted(over_of(op))
    names = ", ".join(dims[d] for d in over)
    if len(over) != 1 or dims[over[0]] not in tiled:
        rest = f"keep the other indices in {name}, and take the {told} over them after the call"
        if kind == "sum_exp":
            rest = (
                f"keep the other indices in M, the max, too, and write both: the sum of {name}*exp(M - max(M)) is all"
            )
        raise refused(
            f"is a {told} over {names}, and a tile of the product runs along {tiled[0]} and {tiled[1]}",
            f"a {told} over {tiled[1]}, or over {tiled[0]}",
            rest,
        )
    points = {dims[d] for d in dims_in(maps_of(contract.maps)[2])}  # without the group of a range
    known = points.intersection((*tiled, *outer)) - {dims[over[0]]}
    along = [d for d in contract.domains if dim_of(d) == dims[over[0]]]
    # each of these has a range of what is reduced
    groups = {dims[d] for d in dims_of_domains(along)}.intersection(outer) - points
    wanted = sorted((*groups, *known))
    plain = all(isinstance(e, ir.AffineDimExpr) for m in (source, result, map_of(last.map)) for e in m.results)
    kept = reader.results_of(map_of(last.map))
    ranges = {ir.Value(d) for x in (op, last) for d in x.domains} - {ir.Value(d) for d in contract.domains}
    own = own_ranges(last, contract, masked, tuple(sorted(set(tiled) - {dims[over[0]]})))
    fills = filled(last)
    ends = {dims[d] for d in dims_of_domains(own)}
    other = ranges - set(map(ir.Value, own)) or len(own) > 1 or ends & set(tiled) or (fills and not own)
    if groups and sorted(kept) == sorted(known):
        shared = " and ".join(sorted(groups))
        raise ApartError(
            f"{name} is a {told} over {names} of all that {shared} shares out",
            result=name,
            expected=f"{name}[{', '.join(wanted)}], a {told} for each range",
            fix=f"keep {shared} in {name}, and take the {told} over that after the call",
            place=place,
        )
    if len(op.symbols) or len(last.symbols) or other or not plain or sorted(kept) != wanted:
        along = next(iter(set(tiled) - {dims[over[0]]}))
        found, expected = "a computed index", f"{name}[{', '.join(wanted)}], in the range of the product, if any"
        if other:
            found = "a range of its own, or else"
            expected += f", or one of {along} that ends at numbers" + "".join(f", or where {x} is" for x in outer)
        raise refused(f"is a {told} over {names} with {found}", expected, "compute it after the call")
    mine = [x.result for x in reductions_of(final)]
    others = [v.owner.opview.source for v in last.views if v.owner.opview.source not in mine]
    moved = written.scatter
    away = moved is not None and distance_of(moved) is not None and value == moved.operation.results[0]
    if others or (value != final and not away):
        read = [reader.tensor(x) if isinstance(x.owner, ir.Block) else "another reduction" for x in others]
        how = f"reads {' and '.join(read)} behind it"
        how = how if others else "is quantised or rounded by chance behind it"
        rest = f"give {name} f32, and compute the rest after the call"
        if moved is not None and not others:
            how, rest = "is scattered", f"write {name} at its own indices, and scatter that after the call"
        if name in read:
            how, rest = (
                f"is added to what {name} holds",
                f"write = into another tensor, and add that to {name} after the call",
            )
        raise refused(
            f"is a {told} over {names}, and {how}", f"an elementwise expression of the {told} alone, and numbers", rest
        )
    spelled = str(ir.RankedTensorType(value.type).element_type)
    element = row.name if (row := element_spelled(spelled)) is not None else spelled
    if element not in STORED:
        fix = f"give {name} f32 and convert it after the call"
        raise refused(f"is a {told} of {element}", " or ".join(STORED), fix)
    body = tuple(x.operation.name for x in last.body.blocks[0].operations)
    return tuple(Coord(x) for x in kept), Reduced(kind, dims[over[0]], body), own


def together(found: list[tuple[Any, Result]]) -> tuple[Result, ...]:
    """Reductions, each with its `scale.reduce`: sums of exponentials with those that are known with them (`beside`),
    where bodies are the same and rounded alike."""
    results, taken = [result for _, result in found], set[int]()
    for i, (op, result) in enumerate(found):
        if i in taken or _kind(op) != "sum_exp" or result.reduced is None:
            continue
        others = [j for j in range(len(found)) if j not in (i, *taken) and known_with(op, found[j][0])]
        own = [j for j in others if _computed(results[j]) == _computed(result)]
        results[i] = replace(result, reduced=replace(result.reduced, beside=tuple(results[j] for j in own)))
        taken.update(own)
    return tuple(result for i, result in enumerate(results) if i not in taken)


def _computed(result: Result) -> tuple[Any, ...]:
    """How exactly the body of a reduction is computed, and which of its points are written."""
    return result.element.bits > 16, result.window, None if result.reduced is None else result.reduced.window


def check_reductions(problem: Problem) -> None:
    """Refuses reductions over what blocks of lookups change along, or something beside the product is looked up for: a
    tile of which that leads nowhere nobody takes, and those that meet are not known. And sums of exponentials of ranges
    and of rows that may be left out, as nothing says of one whether all that is there is infinite, or nothing is.

    Raises:
        UnsupportedError: there is such a lookup, range or row.
    """
    for of in problem.each_reduction:
        made, reduced = of.result, of.result.reduced
        assert reduced is not None
        over, told = reduced.over, said_of(reduced.kind)
        operands = {at.dim for coords in (of.lhs.coords, of.rhs.coords) for at in coords}
        found = [x.name for x in of.constant_lookups if x.dim == over or x.name not in operands]
        expected = f"indices from memory of operands, and of other indices than {over} or of each {over}"
        fix = f"write what it is the {told} of, and compute {made.name} after the call"
        if found and any(x.dim == over for x in of.constant_lookups):
            fix = f"give {over} a range in place of blocks, for {over} in off[g]:off[g+1]; or {fix}"
        if not found and reduced.kind == "sum_exp":
            found = [f"a range of {d.dim}" for d in problem.domains if d.dim == over]
            found += [x.name for x in of.skips if x.dim == over]
            expected = f"all of {over}"
        if any(d.dim == over and d.floored > 1 for d in problem.domains):
            found.append(f"a range of {over} that begins within pages")
        if found:
            raise UnsupportedError(
                f"{made.name} is a {told} over {over}, and the product has {found[0]}",
                expected=expected,
                fix=fix,
                place=problem.written,
            )


def check_all_points(problem: Problem) -> None:
    """Refuses reductions beside, or of, points that a range of their own leaves out of a tile."""
    ranged = [r for r in problem.bodies if r.window is not None and r.column_fold is None]
    if not problem.reductions or not ranged:
        return
    made, window = problem.reductions[0], ranged[0].window
    assert window is not None
    assert made.reduced is not None
    told = said_of(made.reduced.kind)
    raise UnsupportedError(
        f"{made.name} is a {told} over {made.reduced.over}, and {window.dim} has a range that ends within "
        "tiles, or that is filled outside (else)",
        expected="a range for each index of what tiles have one of, without else",
        fix=f"compute {made.name} by a program of its own, of what this one writes",
        place=problem.written,
    )
