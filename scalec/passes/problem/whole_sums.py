"""Sums of whole numbers, which are i32: how long they may be."""

from __future__ import annotations

from scalec.abi import Limit
from scalec.errors import UnsupportedError
from scalec.passes.problem.types import Problem

PARTS = "multiply parts of the sum, the second with += into a result of f32"


def check_depth(problem: Problem) -> None:
    """Refuses sums that may be beyond i32. Those of a K block that scales are applied to are not."""
    most = problem.most_products
    if most is None:
        return
    names = " and ".join(f"{x.lhs.name} @ {x.rhs.name}" for x in problem.products)
    for _, unknown in problem.summed_sizes:
        if len(unknown) > 1:
            along = " and ".join(d.name for d in unknown)
            raise UnsupportedError(
                f"{names} sums products of {problem.lhs.element.name} along {along}, whose sizes are not known",
                expected=f"one that is not: i32 is sure to hold the sum of {most} products",
                fix=f"compile with a size of {unknown[0].name}, or a range",
                place=problem.written,
            )
    least = sum(size for size, _ in problem.summed_sizes)
    if least > most:
        raise UnsupportedError(
            f"{names} sums {least} products of {problem.lhs.element.name}, and i32 is sure to hold {most}",
            expected=f"at most {most}",
            fix=PARTS,
            place=problem.written,
        )


def longest(problem: Problem) -> dict[str, tuple[int, Limit]]:
    """The largest sizes of dimensions of such sums that are not known, and why: several share what is left of one index
    of each."""
    most, times = problem.most_products, dict[str, int]()
    if most is None:
        return {}
    left = most - sum(size for size, _ in problem.summed_sizes)
    for size, unknown in problem.summed_sizes:
        for d in unknown:  # also of several contractions
            times[d.name] = times.get(d.name, 0) + size
    held = f"i32 is sure to hold the sum of {most} products of {problem.lhs.element.name}"
    held += f", which {' and '.join(times)} share" if len(times) > 1 else ""

    def limit(name: str, size: int) -> tuple[int, Limit]:
        each = f", of which each {name} has {size}" if size > 1 else ""
        return 1 + left // len(times) // max(1, size), Limit(held + each, PARTS)

    return {name: limit(name, size) for name, size in times.items()}
