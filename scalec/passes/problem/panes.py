"""Several contractions of one program: panes, which share an operand and meet element by element."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import maps_of
from scalec.passes.problem.operand import Fold, Operand


def check_ranges(contracts: list[Any]) -> None:
    """Refuses contractions whose results have different indices or ranges.

    Raises:
        UnsupportedError: with the place of the first that differs from the first of all.
    """
    first = contracts[0]
    for contract in contracts[1:]:
        place = place_of(contract)
        if list(maps_of(contract.maps)[2].results) != list(maps_of(first.maps)[2].results):
            raise UnsupportedError(
                "the program's contractions have results with different indices",
                expected="the same indices in the same order: they meet element by element",
                fix="one program for each contraction",
                place=place,
            )
        own, others = (set(map(ir.Value, x.domains)) for x in (contract, first))
        if own != others:
            raise UnsupportedError(
                "the program's contractions have different ranges",
                expected="one range for all of the program",
                fix="say the same range for each, or one program for each contraction",
                place=place,
            )


def check_left(one: str, other: str, contract: Any) -> None:
    """Refuses a contraction whose left operand, `other`, is another tensor than that of the first one."""
    if one == other:
        return
    raise UnsupportedError(
        f"the program's contractions multiply {one} and {other}, which are not one operand",
        expected=f"{one} in each, or the other operand; or a sum of the contractions themselves",
        fix="one program for each contraction; where they are added up, alike in each result, with the same factors",
        place=place_of(contract),
    )


def check_shared(one: Operand, other: Operand, contract: Any) -> None:
    """Refuses the left operand of a contraction, `other`, that is that of the first one seen otherwise."""
    if one == other:
        return
    raise UnsupportedError(
        f"the program's contractions multiply {one.name}, with other scales or indices",
        expected=f"{one.name} in each, read at the same indices with the same scales; the others have the result's "
        "last index",
        fix="one program for each contraction, or write the results with the index of these last",
        place=place_of(contract),
    )


def check_computed(shared: Operand, once: bool, contract: Any) -> None:
    """Refuses an operand of several contractions that the program computes for each."""
    if shared.body and not once:
        raise UnsupportedError(
            f"an expression of {shared.name} is an operand of several contractions",
            expected="an operand that is not computed, which all share",
            fix=f"compute it of {shared.name} before the call",
            place=place_of(contract),
        )


def check_alike(one: Operand, other: Operand, contract: Any) -> None:
    """Refuses an operand of a contraction, `other`, that its tile of B cannot have beside that of the first one."""
    if _nameless(one) == _nameless(other):
        return
    differ = next(
        what
        for what, of in (
            ("element type", lambda x: (x.stored, x.element)),
            ("indices", lambda x: x.coords),
            ("scales", lambda x: _nameless(x).scales),
            ("zero points", lambda x: _nameless(x).zeros),
            ("expressions", lambda x: x.rounded),
            ("layout", lambda _: ()),
        )
        if of(one) != of(other) or what == "layout"
    )
    raise UnsupportedError(
        f"{one.name} and {other.name} are operands of contractions that meet, and differ in their {differ}",
        expected="the same element type, indices and scales",
        fix="write one program for each contraction"
        if differ in ("zero points", "expressions")
        else f"store {other.name} as {one.name} is, or write one program for each contraction",
        place=place_of(contract),
    )


def _nameless(operand: Operand) -> Operand:
    """An operand without what tells two tensors of one kind apart."""
    scales = tuple(replace(s, argument_index=0, name="") for s in operand.scales)
    zeros = operand.zeros
    if zeros is not None and zeros.name:
        zeros = replace(zeros, argument_index=0, name="one")
    return replace(operand, argument_index=0, name="", scales=scales, zeros=zeros)


def check_forms(rhs: Operand, folds: tuple[Fold, ...], contract: Any) -> None:
    """Refuses operands of several contractions for which no kernel brings tiles side by side."""
    several = " and ".join(x.name for x in rhs.panes)
    for found, what, fix in (
        (
            folds,
            f"are multiplied, and one is reduced to {' and '.join(x.name for x in folds)}",
            "reduce it in another program",
        ),
        (rhs.body, "are computed", "compute them before the call"),
        (rhs.pages, f"are read by pages of {rhs.pages}", "one program for each contraction"),
        (rhs.gathered, f"are gathered by {rhs.gathered}", "gather them before the call"),
    ):
        if found:
            raise UnsupportedError(
                f"{several} {what}, and are operands of contractions that meet",
                expected="operands that the tensor core reads as copies bring them",
                fix=fix,
                place=place_of(contract),
            )
