"""Sums of whole numbers, which are i32: how long they may be."""

from __future__ import annotations

from scalec.errors import UnsupportedError
from scalec.passes.problem.types import Problem


def check_depth(problem: Problem) -> None:
    """Refuses sums that may be beyond i32. Those of a K block that scales are applied to are not."""
    most = problem.most_products
    if most is None:
        return
    known, unknown = problem.summed_sizes
    names = " and ".join(f"{x.lhs.name} @ {x.rhs.name}" for x in problem.products)
    if (known := max(known, *(each for _, each in unknown), 0)) > most:
        raise UnsupportedError(
            f"{names} sums {known} products of {problem.lhs.element.name}, and i32 is sure to hold {most}",
            expected=f"at most {most}",
            fix="multiply parts of the sum, the second with += into a result of f32",
            place=problem.written,
        )
    if len(unknown) > 1:
        what = " and ".join(d.name for d, _ in unknown)
        raise UnsupportedError(
            f"{names} sums products of {problem.lhs.element.name} along {what}, whose sizes are not known",
            expected=f"one that is not: i32 is sure to hold the sum of {most} products",
            fix=f"compile with a size of {unknown[0][0].name}, or a range",
            place=problem.written,
        )


def longest(problem: Problem) -> dict[str, int]:
    """The largest size of the dimension of such a sum that is not known, by its name."""
    most, (known, unknown) = problem.most_products, problem.summed_sizes
    return {d.name: max(1, (most - known) // max(1, others)) for d, others in unknown} if most is not None else {}
