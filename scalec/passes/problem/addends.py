"""Programs whose operand of 4 bits may be multiplied as a sum of addends: the same problem, told as that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scalec.errors import UnsupportedError
from scalec.formats import ADDENDS
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.types import Problem

CHUNK_OF_K = 16
"""Elements of K of 8 bits of which a register of A has four (PTX ISA 9.7.15.5.1.1): they have one scale."""


def with_addends(made: Problem, again: Callable[[], Problem]) -> Problem:
    """A problem with what it is where elements are sums (`Problem.in_addends`), which `again` reads, if it may
    be: registers of A have both, so that only consumers convert."""
    sides = (made.lhs, made.rhs), (made.rhs, made.lhs)
    several = made.added or made.panes > 1 or made.range_of_k is not None
    if several or not made.kind.takes_registers or not any(_may(*x) for x in sides):
        return made
    try:
        found = again()
    except UnsupportedError:  # as addends some of it cannot be, which is no error of the program's
        return made
    plain = all(x.addends or not x.converted for x in (found.lhs, found.rhs))
    return replace(made, in_addends=found) if plain and found.results else made


def _may(one: Operand, other: Operand) -> bool:
    """Whether it is an operand of which consumers may make addends, beside one that stays as it is."""
    scale = one.folded
    if scale is None or ADDENDS.get((one.stored.name, scale.type), ("", 0))[0] != other.stored.name:
        return False
    moved = one.gathered or one.pages or one.gathered_k or one.turned or one.in_words or one.shifted or one.transformed
    moved = moved or one.in_fragments  # which are what registers of its own element have
    return not moved and one.zeros is None and scale.k % CHUNK_OF_K == 0
