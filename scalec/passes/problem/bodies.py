"""Elementwise bodies of an operand, which warps compute as they convert it: of what, and with what beside it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import CONVERTED
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import dims_in, map_of
from scalec.passes.problem.access import Coord
from scalec.passes.problem.epilogue import EpilogueReader
from scalec.passes.problem.operand import Operand, OperandInput
from scalec.passes.problem.sources import elements_read, is_op, unscaled, whole_of
from scalec.passes.problem.types import STORED, Problem
from scalec.passes.problem.words import without_type
from scalec.passes.problem.written import element_of

OUTSIDE = "compute it outside the program"

MADE = ("bf16", "f16", "tf32", "e4m3", "e5m2")
"""Element types that a computed operand is rounded to."""


def refused(walk: EpilogueReader, at: Any, found: str, expected: str, fix: str = OUTSIDE) -> UnsupportedError:
    """An error that says what of an operand's body there is no kernel for."""
    return UnsupportedError(
        f"{found}, which has no kernel on {walk.target.name} yet", expected=expected, fix=fix, place=place_of(at)
    )


def ops_of(op: Any) -> tuple[str, ...]:
    """Names of the ops of a map's body."""
    return tuple(x.operation.name for x in op.body.blocks[0].operations)


def elements_of(walk: EpilogueReader, value: Any, rounded: bool = True) -> tuple[Any, tuple[str, ...]]:
    """The tensor whose elements an operand is computed of, and names of the ops that do so; the operand itself, and
    none, where it is not computed. `rounded`: whether what is computed is rounded before anything else.

    Raises:
        UnsupportedError: it is computed of no tensor's, or several tensors', elements.
    """
    if not is_op(value, "scale.map"):
        return value, ()
    op = value.owner.opview
    view = whole_of(op)
    if len(op.symbols) or any(len(x.owner.opview.symbols) for x in op.views):
        found = (
            "a computed operand has an index from memory, and beside it something along its rows or at another index"
        )
        fix = "compute it outside the program; what multiplies a whole row may multiply the product instead"
        raise refused(walk, op, found, "one tensor at that index, and what lies along the sum", fix)
    walked = [d for contract in walk.contracts for d in contract.domains]
    if own := [d for d in op.domains if d not in walked]:  # others are walked by the products: what is read is inside
        over = " and ".join(ir.StringAttr(d.owner.opview.dim).value for d in own)
        fix = "write zeros into the operand outside of the range, by a program of its own, and multiply that"
        raise refused(walk, op, f"an operand is computed of a temporary with a range of {over}", "all of it", fix)
    if view is None:
        reads = [x.owner.opview for x in op.views]
        untyped = (without_type(_called(walk, x), walk.results_of(map_of(x.map))) for x in reads)
        fix = next(filter(None, untyped), OUTSIDE)
        expected = "one tensor that has all its indices, and others along K or its rows"
        raise refused(walk, op, _several(walk, op), expected, fix)
    element = element_of(value, "a computed operand")
    if rounded and element.name not in MADE:
        expected = " or ".join(MADE)
        raise refused(walk, op, f"a computed operand is {element.name}", expected, "name another type behind it")
    if is_op(view.source, "scale.dequantize"):
        raise refused(walk, op, "an operand is computed of a tensor with scales", "a tensor without scales")
    return view.source, ops_of(op)


def _called(walk: EpilogueReader, read: Any) -> str:
    """The tensor that a read is of."""
    value = unscaled(read.source)
    return walk.tensor(value) if value in walk.arguments else "a temporary"


def _several(walk: EpilogueReader, op: Any) -> str:
    """What a map that makes an operand reads, of which no one tensor has all of its indices, and what these lack."""
    reads = [(view.owner.opview, dims_in(map_of(view.owner.opview.map))) for view in op.views]
    own = dims_in(map_of(op.map))

    def text(read: Any) -> str:
        return f"{_called(walk, read)}[{', '.join(walk.results_of(map_of(read.map)))}]"

    whole = [text(read) for read, dims in reads if dims == own]
    if whole:
        have = "has" if len(whole) == 1 else "have"
        return f"an operand is computed of {' and '.join(whole)}, which {have} all its indices"
    indices = ", ".join(walk.dims[d] for d in sorted(own))
    lacks = [(text(r), " and ".join(walk.dims[d] for d in sorted(own - dims))) for r, dims in reads if dims]
    found = " and ".join(f"{tensor}, which lacks {some}" for tensor, some in lacks)
    return f"an operand with the indices {indices} is computed of {found}"


def with_inputs(
    walk: EpilogueReader, operand: Operand, maps: list[Any], k: str, outer: tuple[str, ...], summed: tuple[str, ...]
) -> Operand:
    """An operand with what is read beside its elements by the bodies of some `scale.map`s, each of which reads it:
    along K or its rows, and further dimensions that a tile has one index of, or along K those that are `summed` too.

    Raises:
        UnsupportedError: something is read that does not lie along its rows or along K alone.
    """
    found: dict[OperandInput, None] = {}
    for op in maps:
        whole = elements_read(op)
        for view in op.views:
            read = view.owner.opview
            if read == whole or not isinstance(read.source.type, ir.RankedTensorType):
                continue
            found[_input(walk, operand, read, (k, *outer, *summed), (operand.rows, *outer))] = None
    return replace(operand, inputs=tuple(found))


def _input(
    walk: EpilogueReader, operand: Operand, read: Any, along_k: tuple[str, ...], along_rows: tuple[str, ...]
) -> OperandInput:
    """One of them, of the dimensions `along_k` or `along_rows`, the tile's first."""
    index, name, layout = walk.argument(read.source, f"an input of what {operand.name} is computed to")
    where, element = map_of(read.map), element_of(read.source, name)
    read_along = {walk.dims[d] for d in dims_in(where)}
    along = next((x for x in (along_k, along_rows) if x[0] in read_along and read_along <= set(x)), None)
    plain = all(isinstance(e, ir.AffineDimExpr) for e in where.results) and not len(read.symbols)
    coords = tuple(Coord(walk.dims[e.position]) for e in where.results) if plain else ()
    if not plain or along is None or layout != "row":
        at = ", ".join(walk.results_of(where, list(read.symbols)))
        expected = f"{name}[{along_k[0]}] or {name}[{along_rows[0]}], and batches"
        raise refused(walk, read, f"{operand.name} is computed with {name}[{at}]", expected)
    if element.name not in STORED:
        raise refused(walk, read, f"{operand.name} is computed with {name} of {element.name}", " or ".join(STORED))
    return OperandInput(index, name, element, coords, along[0])


def check_bodies(problem: Problem) -> None:
    """Refuses bodies where a kernel has not the elements that they are of."""
    depth = problem.target.swizzles[0] * 8 // max(problem.lhs.shared_bits, problem.rhs.shared_bits)
    if problem.has_scales and not problem.kind.promotes_slices:
        depth = math.gcd(depth, problem.constant_k)
    for x in (problem.lhs, problem.rhs):
        rows = next(d for d in (problem.m, problem.n) if d.name == x.rows)
        along_rows = [y.name for y in x.inputs if y.along == x.rows]
        if rows.inner > 1 and along_rows:
            raise UnsupportedError(
                f"{x.name} is computed with {along_rows[0]}, and an index of the product is reduced: no kernel does",
                expected=f"what lies along {problem.k.name}",
                fix=f"multiply {x.name} by {along_rows[0]} before the call",
                place=problem.written,
            )
        if x.rounded is None:
            continue
        new, what = x.made, "is computed elementwise" if x.made is None else "is quantised anew"
        shorter = f"blocks of at most {depth}, and beside it elements of 8 bits with scales that change no more often"
        widens = x.stored.name in ("f32", "tf32") or "tf32" in CONVERTED.get(x.stored.name, ())
        named = (x.pages or x.gathered) if x.body and x.page else None
        for found, expected in (
            ("the program has a range of K" if problem.range_of_k is not None else "", "all of K"),
            (f"its rows are named by {named}" if named else "", "rows in order"),
            (f"it is contiguous along {x.rows}" if x.stored_mn_major else "", f"{problem.k.name} last"),
            (f"it is {x.stored.name}" if not widens else "", "a type that f32 holds, without padding"),
            (f"a tile has {depth} of a block of {new.k}" if new is not None and depth % new.k else "", shorter),
            (f"it is multiplied as {x.element.name}" if x.padded or x.element.bits < 8 else "", "8 bits or more"),
        ):
            if found:
                raise UnsupportedError(
                    f"{x.name} {what}, and {found}: this has no kernel on {problem.target.name} yet",
                    expected=expected,
                    fix=f"compute {x.name} outside the program",
                    place=problem.written,
                )
