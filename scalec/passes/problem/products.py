"""Products that are added up in one place: which ones one kernel sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from scalec.errors import SumApartError, UnsupportedError
from scalec.formats import WHOLE
from scalec.ir.location import place_of
from scalec.ir.scale import dims_in, maps_of
from scalec.passes.problem.contraction import elements_of, levels_of, multiplied_as
from scalec.passes.problem.operand import Operand, Product, Scale
from scalec.passes.problem.types import Problem
from scalec.targets import Target


def check_alone(order: list[Any], terms: list[Any], made: list[Any]) -> None:
    """Refuses a further sum of products that meets the first in an expression, and has other left operands.

    Args:
        order: the contractions of the first sum, `terms` of the further one.
        made: of the further one those whose left operands the first's have, in their order.
    """
    if not len(order) == len(terms) == len(made):
        raise SumApartError(
            f"{max(len(order), len(terms))} products are added up, and meet other products in an expression",
            expected="one sum of products, which expressions read, or several of the same left operands; and something "
            "computed of one of them before",
            fix="one program for each sum; where it is a factor, multiply an operand of each further one by its own "
            "before the call",
            place=place_of(terms[-1] if len(terms) > 1 else order[-1]),
        )


def check_terms(numbers: list[list[int]], sums: list[list[Any]]) -> None:
    """Refuses several sums of products of which something is computed before they are added, of others in each sum:
    `numbers` are those of the products. Those of one left operand come first; and of an accumulator of which a part
    stays as it is ptxas 13.0 serialises all products (C7511)."""
    if len(set(map(frozenset, numbers))) > 1:
        raise UnsupportedError(
            "something is computed of one product before others are added, in another sum of another or none",
            expected="in each sum, of the products of the same left operands",
            fix="give each sum such a factor, as one * (...) of a scalar, or multiply operands before the call",
            place=place_of(sums[-1][-1]),
        )


def check_places(m: str, n: str, roles: dict[str, list[str]], contract: Any) -> None:
    """Refuses a product of whose operands the left one is not the one with the rows `m` of a tile alone, or the right
    one not that with its columns `n`."""
    for name, role, what in ((m, "m", "row"), (n, "n", "column")):
        if name not in roles[role]:
            raise SumApartError(
                f"{name} is a {what} of one product, and not of another that is added to it",
                expected=f"an index that is a {what} of both: tiles run along it, and along one of the other operand",
                fix="one program for each product, the second of which adds to the first's result (+=)",
                place=place_of(contract),
            )


def partly_scaled(problem: Problem) -> bool:
    """Whether sums are promoted by scales that one of several products has none of, or the tensor core applies such:
    ones are in their place."""

    def own(x: Problem | Product) -> list[int]:
        return [sum(not s.folded for s in side.scales) for side in (x.lhs, x.rhs)]

    return any(own(x) != own(problem) for x in problem.added)


def in_order(problem: Problem) -> tuple[int, ...]:
    """The numbers of the products in the order of their K blocks: in front those of which something is computed."""
    first = [x.number for x in problem.terms]
    return (*first, *(x for x in range(len(problem.products)) if x not in first))


def first_of(terms: list[Any], length: Callable[[Any], int], target: Target) -> Any:
    """Of several contractions that are added up the one whose operands the others' are like: that of which most
    operands are converted, have rows that indices name, or scales, as others need not; else the one that sums most, of
    several the first."""

    def rank(contract: Any) -> tuple[int, int, int]:
        own, (lhs, rhs, result) = elements_of(contract), maps_of(contract.maps)
        more = sum(a != b for a, b in zip(own, multiplied_as(contract, target)[1], strict=True))
        more += sum(not dims_in(where) & dims_in(result) for where in (lhs, rhs))
        return more, sum(len(levels_of(x)) for x in (contract.lhs, contract.rhs)), length(contract)

    return max(terms, key=rank)


def check_added(one: Operand, other: Operand, contract: Any) -> None:
    """Refuses the operand `other` of a product that cannot be in a tile in the place of `one`, that of the product that
    it is added to: it is stored as that, or as what is multiplied, and has its scales, or none."""
    for x in (one, other):
        before = f"before the call, and pass {x.name} as that"
        for found, what, fix in (
            (x is other and x.zeros, "has zero points", "subtract them"),
            (x.body or x.rounded, "is computed", "compute it"),
            (x.page, f"has rows in pages ({x.pages or x.gathered})", "gather them"),
            (x.gathered_k, f"is read along the sum by {x.gathered_k}", "gather it"),
            (
                x.gathered and (x.scales or not one.gathered),
                f"has {'scales and ' if x.scales else ''}rows that {x.gathered} names"
                + ("" if x.scales else f" beside {one.name}, which has them in order"),
                "gather them",
            ),
            (x.turned, f"is contiguous along {x.rows}, and kernels turn it", "store it with the other index last"),
            (
                x.converted and not one.converted,
                f"is converted to {x.element.name} beside {one.name}, which is not",
                "convert it",
            ),
        ):
            if found:
                raise SumApartError(
                    f"{x.name} {what}, and its product is added to another",
                    got=f"{x.name}: {x.stored.name}",
                    expected="operands that the tensor core reads as copies bring them",
                    fix=f"{fix} {before}",
                    place=place_of(contract),
                )
    kind = one.stored if other.converted else one.element
    told = kind.name if kind == one.stored else f"{kind.name} of {one.stored.name}"
    like = f"as {one.name} is"
    for what, a, b, fix in (
        ("element types", told, other.stored.name if other.stored != kind else told, f"as {kind.name}"),
        ("scales", *(", ".join(map(_said, x.scales or one.scales)) or "none" for x in (one, other)), like),
        ("layouts", *(f"{'rows' if x.mn_major else 'the sum'} last" for x in (one, other)), like),
        ("layouts", *("words" if x.in_words and other.converted else "rows" for x in (one, other)), like),
    ):
        if a != b:
            raise SumApartError(
                f"{one.name} and {other.name} are operands of products that are added up, and differ in their {what}",
                got=f"{one.name}: {a}, {other.name}: {b}",
                expected="the same of both: a tile of one is multiplied in the place of one of the other",
                fix=f"store {other.name} {fix}, or write a program for each product, the second with +=",
                place=place_of(contract),
            )


def _said(scale: Scale) -> str:
    """What must be the same of the scales of two operands of which tiles are in each other's place."""
    if scale.in_mma:  # threads may bring those of any blocks and layout
        return scale.type
    apart = f", {max(at.apart for at in scale.coords)} apart" * any(at.apart for at in scale.coords)
    k, rows = ("all" if size == WHOLE else str(size) for size in (scale.k, scale.rows))
    if not scale.folded and not apart:  # of blocks of rows threads may make scales of rows
        return f"{k} of the sum:{scale.type}"
    return f"{rows}x{k}:{scale.type}@{scale.layout}{apart}"


def with_scales_alike(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """The operands of products in whose tiles' place each other's are: where scales that sums are promoted by are of
    other blocks of rows, or layouts, each row has its own of all of them."""
    if len({tuple((s.rows, s.layout) for s in x.promoted) for x in operands if x.promoted}) < 2:
        return operands

    def spread(x: Operand) -> Operand:
        kept = {s: s if s.in_mma or s.folded else replace(s, rows=1, spread=s.rows) for s in x.scales}
        return replace(x, scales=tuple(kept.values()), others=tuple(map(spread, x.others)))

    return tuple(map(spread, operands))


def check_sums(problem: Problem) -> None:
    """Refuses what no kernel does beside products that are added up."""
    if not problem.added:
        return
    if problem.terms and problem.most_products is not None:
        raise SumApartError(
            f"something is computed of {problem.lhs.name} @ {problem.rhs.name} before others are added, and their sums "
            "are whole numbers",
            expected="products of i8 that are added up as they are, as their sums are i32",
            fix="one program for each product, the second of which adds to the first's result (+=)",
            place=problem.written,
        )
    names = " and ".join(f"{x.lhs.name} @ {x.rhs.name}" for x in problem.products)
    further, own = {d.name for x in problem.products for d in x.summed}, [x.k.name for x in problem.products]
    for found, what, expected, fix in (
        (
            problem.folds,
            f"{' and '.join(f.name for f in problem.folds)} is what an operand is reduced to",
            "results of the sum alone",
            "reduce the operand in another program",
        ),
        (
            problem.range_of_k,
            f"{problem.k.name} has a range",
            "sums over all of an index",
            "one program for each, the second with +=",
        ),
        (
            further & set(own),
            f"{', '.join(sorted(further & set(own)))} is the last index of one sum, and not of another",
            "the same index last",
            "store the operands with the same index last",
        ),
    ):
        if found:
            raise UnsupportedError(
                f"{names} are added up, and {what}", expected=expected, fix=fix, place=problem.written
            )
