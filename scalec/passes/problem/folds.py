"""Results beside those of the product: reductions along K of an operand, which warps take as they convert it."""

from __future__ import annotations

from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import CONVERTED, WHOLE_SUMS
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import dims_in, dims_read, map_of, maps_of
from scalec.passes.problem.access import Coord
from scalec.passes.problem.bodies import ops_of
from scalec.passes.problem.epilogue import EpilogueReader
from scalec.passes.problem.operand import Fold, Operand
from scalec.passes.problem.sources import below, elements_read, is_op, reduction_of, same_place, where_of
from scalec.passes.problem.types import STORED, Problem
from scalec.passes.problem.written import element_of

ROUNDED = (*STORED, "e4m3", "e5m2")
"""Element types of reductions of operands."""

NOT_YET = "a reduction beside the contraction"


ALONE = "compute it by a program of its own, without the product"


def refused(walk: EpilogueReader, op: Any, found: str, expected: str, fix: str = ALONE) -> UnsupportedError:
    """An error that says what of a reduction there is no kernel for."""
    return UnsupportedError(
        f"{NOT_YET} has no kernel on {walk.target.name} where {found}", expected=expected, fix=fix, place=place_of(op)
    )


def fold_of(
    walk: EpilogueReader, index: int, value: Any, contract: Any, operands: tuple[Operand, ...]
) -> tuple[int, Fold]:
    """The result `index` of the function, `value`, as a fold, and which of the contraction's operands, left and right
    as the program has them, it is one of.

    Raises:
        UnsupportedError: it is none that a kernel takes.
    """
    reduce, final = reduction_of(value), value.owner.opview
    facts = walk.facts("res_attrs", index)
    name = walk.name(facts, f"result {index}")
    source, kept = maps_of(reduce.maps)
    element = element_of(value, name)
    if element.name not in ROUNDED:
        expected = " or ".join(ROUNDED)
        raise refused(walk, final, f"{name} is {element.name}", expected, f"convert {name} after the call")
    if "scale.inout" in facts:
        raise refused(walk, final, f"{name} is accumulated into (+=)", "=", f"add {name} after the call")
    ranges = {*reduce.domains, *final.domains}
    where = map_of(final.map)
    plain = all(isinstance(e, ir.AffineDimExpr) for e in where.results)
    own = f"{name} at the operand's own indices"
    if len(final.symbols):
        raise refused(walk, final, "an index of it is read from memory", own)
    if ranges - {*contract.domains}:
        raise refused(walk, final, "it has a range that the contraction has not", f"{name} without one")
    if len(where.results) != len(kept.results) or {*where.results} != {*kept.results} or not plain:
        raise refused(walk, final, "an index of it is computed, or stands twice", own)
    for view in final.views:
        read = view.owner.opview
        if read.source != reduce.result and isinstance(read.source.type, ir.RankedTensorType):
            raise refused(walk, read, f"{name} reads a tensor beside it", "numbers and scalars beside one reduction")
    term, body = reduce.input, ()
    read, there, symbols = term, source, list(reduce.symbols)
    if is_op(term, "scale.map"):
        op = term.owner.opview
        view, body = elements_read(op), ops_of(op)
        if view is None:
            read = None
        else:
            read, there, symbols = view.source, map_of(view.map), list(view.symbols)
    values = contract.lhs, contract.rhs
    places = [*map(where_of, values, maps_of(contract.maps)[:2])]
    sides = list(zip(values, places, operands, strict=True))
    for side, (operand, at, known) in enumerate(sides):
        if read is not None and below(read) == below(operand) and same_place(there, symbols, at, contract.symbols):
            check(walk, reduce, name, known, is_op(read, "scale.dequantize"))
            summed = {walk.dims[d] for d in dims_in(at) - dims_in(kept)}
            rows = {walk.dims[d] for d in dims_in(maps_of(contract.maps)[2])}
            wanted = {walk.dims[d] for d in dims_in(at) & dims_in(places[1 - side])} - rows
            if summed != wanted:
                expected = f"a reduction over {' and '.join(sorted(wanted))}, as the contraction's sum"
                raise refused(walk, reduce, f"it runs over {' and '.join(sorted(summed))}", expected)
            own = {walk.dims[d] for d in dims_read(at, list(contract.symbols))}
            if ranges != {d for d in contract.domains if ir.StringAttr(d.owner.opview.dim).value in own}:
                raise refused(walk, final, "the product has a range that it has not", f"{name} with that range")
            coords = tuple(Coord(walk.dims[e.position]) for e in where.results)
            kind = ir.StringAttr(reduce.kind).value
            return side, Fold(name, index, element, kind, coords, body, ops_of(final))
    names = " or ".join(x.name for x in operands)
    expected = f"an elementwise expression of {names}, and of what lies along its rows or along the sum"
    raise refused(walk, reduce, f"it is not one of {names}", expected)


def check(walk: EpilogueReader, reduce: Any, name: str, operand: Operand, scaled: bool) -> None:
    """Refuses an operand whose elements no warps have one by one, contiguous along K."""
    told, stored = operand.name, operand.stored.name
    if operand.scales or scaled:
        raise refused(walk, reduce, f"{told} has scales", f"{name} of an operand without scales")
    if operand.zeros is not None:
        raise refused(walk, reduce, f"{told} has zero points", f"{name} of an operand without zero points")
    if operand.stored_mn_major:
        raise refused(walk, reduce, f"{told} is contiguous along {operand.rows}", f"{told} contiguous along the sum")
    widens = "tf32" in (stored, *CONVERTED.get(stored, ()))
    whole = operand.element.name in WHOLE_SUMS  # which no conversion writes
    if operand.padded or operand.element.bits < 8 or not widens or whole:
        found = f"{told} is {stored}, multiplied as {operand.element.name}"
        raise refused(walk, reduce, found, "an operand multiplied as floating-point numbers of 8 bits or more")


def check_folds(problem: Problem) -> None:
    """Refuses folds of which a tile has not all of the operand's K, or not its own rows alone, or no tile may be."""
    folds = [(f, x) for x in (problem.lhs, problem.rhs) for f in x.folds]
    if not folds:
        return
    fold, rows = folds[0][0], folds[0][1].rows
    found = [f"a range of {d.dim}" for d in problem.domains if d.dim != rows]
    found += [x.name for x in problem.constant_lookups + problem.k_lookups]
    found += [x.pages for _, x in folds if x.pages] + ["an index that is reduced"] * (problem.column_fold is not None)
    if found:
        raise UnsupportedError(
            f"{NOT_YET} ({fold.name}) has no kernel on {problem.target.name} where the program has a range of another "
            f"index than {rows}, an index read from memory but for single rows, or one of the product that is reduced",
            got=found[0],
            expected=f"a dense contraction, one with a range of {rows}, which {fold.name} has too, or gathered rows",
            fix=f"compute {fold.name} by a program of its own, without the product",
            place=problem.written,
        )
