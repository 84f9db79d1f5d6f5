"""What is refused where an index that is read for each row or column may be negative."""

from __future__ import annotations

from scalec.errors import UnsupportedError
from scalec.passes.problem.types import Problem


def check_left_out(problem: Problem) -> None:
    """Refuses results of which an index for each column, where it is negative, leaves out some of a block of scales, or
    of a byte."""
    n = problem.n.name
    for lookup in (x for x in problem.row_lookups if x.dim == n):
        for result in (x for x in problem.results if x.group > 1):
            raise UnsupportedError(
                f"{lookup.name} may be negative, and {result.name} has blocks of {result.group} along {n}",
                expected=f"a result of whole bytes without scales, or one with {n} not last",
                fix=f"give {result.name} f32, bf16 or f16 and quantise it after the call",
                place=problem.written,
            )


def check_summed(problem: Problem) -> None:
    """Refuses indices that change along a further dimension of the sum: tiles look them up when they begin."""
    summed = {d.name for d in problem.summed}
    for lookup in problem.lookups:
        for along in (c.dim for c in lookup.index.coords if c.dim in summed):
            raise UnsupportedError(
                f"{lookup.name} is read at {along}, over which the sum runs too, and a tile looks it up once",
                expected=f"an index without {along}, or a result that has {along}",
                fix=f"give the result {along}, and sum over it after the call",
                place=problem.written,
            )
