"""Operands in words of adjacent K (`B[k/8,n,k%8]`), or whose elements lie in another order: what no kernel takes of
them."""

from __future__ import annotations

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


def check_fragments(product: Problem, whole: Problem) -> None:
    """Refuses operands of one product of the `whole` problem that are reordered for registers where these are not what
    is multiplied.

    Raises:
        UnsupportedError: with the place of the contraction.
    """
    for x, other in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
        reason = no_fragments(product, x, other) if x.in_fragments else ""
        if reason or (x.in_fragments and whole.added):
            reason = reason or "products are added up, of which others follow"
            raise UnsupportedError(
                f"{x.name} is reordered for registers of {x.element.name}: {reason}",
                expected=f"{product.k.name} of whole {len(x.order)}, and weights that sm_90a converts, alone and as "
                "they are",
                fix=f"pass {x.name} with its elements in order, indexed by {x.rows} and {product.k.name}",
                place=product.written,
            )


def scales_of_word(x: Operand) -> int:
    """How many scales are folded into the elements of a word of an operand that is reordered."""
    return 0 if x.folded is None else 2 if 0 < x.folded.k < WORD_ALONG_K else 1


def no_fragments(product: Problem, x: Operand, other: Operand) -> str:
    """Why consumers do not take an operand out of registers as it is reordered, "" where they do."""
    k, zeros = product.k, x.zeros
    if not product.kind.takes_registers:
        return f"{product.target.name} takes no operand that is converted from registers"
    if other.in_fragments:
        return f"{other.name} is, too"
    if x.transformed:
        return "it is computed, quantised anew or reduced on its way"
    if named := x.gathered or x.pages or x.gathered_k or x.pages_k:
        return f"{named} names what is read of it"
    if product.range_of_k is not None or product.added or x.others:
        return "groups may begin within one" if product.range_of_k is not None else "other products meet it"
    if k.size is None or k.size % len(x.order):
        return f"{k.name} is of unknown size" if k.size is None else f"{k.name} = {k.size}"
    alone, turns = other.gathered or other.pages, other.turned or other.in_words or other.zeros is not None
    if x.element.bits > BYTE_BITS and (alone or turns or other.transformed):
        what = "copies bring rows of {} one by one" if alone else "{} is computed, turned or less zero points"
        return f"{what.format(other.name)}, {LINE_BITS // x.element.bits} of {k.name} at a time"
    finer = [s.name for s in x.scales if s.k not in (WHOLE, s.folded * WORD_ALONG_K // 2) and s.k % WORD_ALONG_K]
    if zeros is not None and zeros.name and zeros.k != WHOLE and zeros.k % WORD_ALONG_K:
        finer.append(zeros.name)
    if finer:
        return f"a word has elements of each {WORD_ALONG_K} of {k.name}, for which {finer[0]} has several"
    return ""


BYTE_BITS, LINE_BITS = 8, 1024
"""Of a byte, and of what a row of a swizzled tile has."""

WORD_ALONG_K = 32
"""Elements along K among which those of a word are, in either of FRAGMENTS."""


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
