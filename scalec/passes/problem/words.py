"""Operands in words of adjacent K (`B[k/8,n,k%8]`), or whose elements lie in another order: what no kernel takes of
them."""

from __future__ import annotations

from collections.abc import Sequence

from scalec.errors import Place, UnsupportedError
from scalec.formats import FRAGMENTS, FRAGMENTS_TEXT, IN_ORDER, PER_WORD, WHOLE, fragments
from scalec.ir.mlir import ir
from scalec.ir.scale import facts_of, order_of
from scalec.passes.problem.access import Dim
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.types import Problem


def order_along(function: ir.OpView, operand: Operand, k: Dim, place: Place | None) -> tuple[int, ...]:
    """Which of eight rows each element of a word of an operand is of, or one of FRAGMENTS.

    Raises:
        UnsupportedError: not those in order, and no warps turn them.
    """
    order = order_of(facts_of(function, "arg_attrs", operand.argument_index)) or IN_ORDER
    if order == IN_ORDER or (len(order) == PER_WORD and operand.turned and not operand.transformed):
        return order
    names, along_k = operand.contiguous, operand.contiguous == k.name
    wanted = fragments(operand.stored.name, operand.element)
    if along_k and wanted and order == FRAGMENTS[wanted]:
        return order
    text = FRAGMENTS_TEXT[wanted].format(k.name) if wanted else ""
    raise UnsupportedError(
        f"{operand.name} has each {len(order)} elements along {names} in another order",
        got=f"{', '.join(map(str, order[:PER_WORD]))}{', ...' * (len(order) > PER_WORD)}, from the lowest bits on",
        expected=f"elements in order, as {names} is summed"
        + (f", or at {text}, as {operand.element.name} is multiplied" if text else "")
        if along_k
        else "elements in order, or an operand of 4 bits that is converted, and not computed or quantised anew",
        fix=f"pass a copy of {operand.name} with its elements in order",
        place=place,
    )


def without_type(name: str, order: Sequence[str]) -> str:
    """What to say of an operand that is indexed as words of 4 bits are, or elements of 4 bits in another order, and is
    of another type; "" of others."""
    last = order[-1].partition("%")[0] if "%" in order[-1] else ""
    in_words = len(order) > 2 and (order[-3], order[-1]) == (f"{last}/{PER_WORD}", f"{last}%{PER_WORD}")
    if in_words or (f"%{PER_WORD}" in order[-1] and f"/{PER_WORD}*{PER_WORD}" in order[-1]):
        return f"say a type of 4 bits, {name}[{', '.join(order)}]:u4, if it is in words of {PER_WORD} elements"
    return ""


def exchanged(blocks: Sequence[int], row: int, k: int, step: int) -> str:
    """The block that has a multiple of `step` elements along K if those along rows and K change places; "" where it has
    not. `row`, `k`: which of the indices these are."""
    if k > row or blocks[k] != 1 or blocks[row] in (1, WHOLE) or blocks[row] % step:
        return ""
    made = [*blocks]
    made[row], made[k] = made[k], made[row]
    outer = next((i for i, x in enumerate(made[:-2]) if x != 1), len(made) - 2)
    return "x".join("?" if x == WHOLE else str(x) for x in made[outer:])


def check_words(product: Problem) -> None:
    """Refuses operands in words that warps do not convert row by row.

    Raises:
        UnsupportedError: with the place of the contraction.
    """
    k, both = product.k, [x for x in (product.lhs, product.rhs) if x.in_words]
    for x in both:
        if reason := _no_words(product, x):
            raise UnsupportedError(
                f"{x.name} is stored in words of {PER_WORD} {k.name}: {reason}",
                expected=f"an operand that is converted as it is, of all rows and all of {k.name} in order",
                fix=f"pass a copy of {x.name} that is indexed by {x.rows} and {k.name}",
                place=product.written,
            )
    if len(both) > 1 and (k.size is None or k.size % PER_WORD):
        raise UnsupportedError(
            f"{both[0].name} and {both[1].name} are stored in words of {PER_WORD} {k.name}, whose last may be partial",
            got=f"{k.name} of unknown size" if k.size is None else f"{k.name} = {k.size}",
            expected=f"a multiple of {PER_WORD} that is given, where both have words",
            fix=f"give {k.name} in dims"
            if k.size is None
            else f"pad {k.name} with zeros to {-(-k.size // PER_WORD) * PER_WORD} in both",
            place=product.written,
        )


def _no_words(product: Problem, x: Operand) -> str:
    """Why no warps make rows of an operand's words, "" where they do."""
    order = [c.dim for c in x.coords]
    if x.stored == x.element:
        return f"{product.target.name} multiplies {x.stored.name} as it is stored beside this operand"
    if x.transformed:
        return "it is computed, quantised anew or reduced on its way"
    if named := x.gathered or x.pages or x.gathered_k or x.pages_k:
        return f"{named} names what is read of it"
    if x.inner > 1:
        return "tiles walk two indices of its rows as one"
    if order[-2:] != [x.rows, product.k.name]:
        return f"words of adjacent {order[-2]} lie beside each other, and tiles have rows of {x.rows}"
    if product.range_of_k is not None:
        return f"a range of {product.k.name} may begin within one"
    return ""
