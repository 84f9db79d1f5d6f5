"""Operands that are reordered for registers (scalec.formats.FRAGMENTS): what no kernel takes of them."""

from __future__ import annotations

from scalec.errors import UnsupportedError
from scalec.formats import WHOLE
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.types import Problem

BYTE_BITS, LINE_BITS = 8, 1024
"""Of a byte, and of what a row of a swizzled tile has."""

WORD_ALONG_K = 32
"""Elements along K among which those of a word are, in either of FRAGMENTS."""


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
