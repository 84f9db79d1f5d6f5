"""In which order the products of a row are added, where that may not depend on how many rows there are."""

from __future__ import annotations

from scalec.ir.schedule import Request
from scalec.passes.base import Decision
from scalec.passes.plan.tiles import must_swap
from scalec.passes.problem.types import Problem

ORDER = {"swap": 0, "cta_group": 1, "split": 1}
"""Fields that other passes choose by M, and that a row's sums depend on, with what each is for every M. `split` says
where a sum is cut, `swap` and `cta_group` which instruction adds: no document says in which order one does, so no two
kinds are taken to agree. Beside these a row's sums depend on `promote` and on the K of `tile`
(scalec.runtime.dispatch.order_of_sums)."""


class FixOrder(Decision):
    """Decides the fields of ORDER where `invariant` is 1, whatever M is.

    A field that was decided stays: it is the program's, and so the same for every M. So is `swap=1` of what can only be
    computed transposed. choose-tiling then decides `promote` and the K of `tile` by element types and scales alone. M
    may change everything else: rows, columns and stages of a tile, who takes it and when, and how results leave change
    no sum.

        #scale.schedule<{invariant = 1 : i64}>
    -->
        #scale.schedule<{swap = 0 : i64, cta_group = 1 : i64, split = 1 : i64, invariant = 1 : i64}>
    """

    name = "fix-order"

    def choose(self, problem: Problem, given: Request) -> Request:
        return fixed(problem, given)


def fixed(problem: Problem, given: Request) -> Request:
    """The request with what must not depend on M decided, where that is asked for."""
    if not given.invariant:
        return given
    must = {"swap": 1} if must_swap(problem) else {}
    return given.with_fields(**{**ORDER, **must, **given.decided()})
