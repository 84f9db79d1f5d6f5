"""What is refused where an index that is read for each row or column may be negative."""

from __future__ import annotations

from dataclasses import replace

from scalec.errors import UnsupportedError
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.types import Problem

GATHERED_BITS = frozenset({8, 16})
"""Of elements whose rows threads copy along K: whole bytes, in a swizzle that keeps what a thread copies together."""


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


def check_gathered_k(problem: Problem) -> None:
    """Refuses indices along K that do not say which of an operand's is one of K, and operands beside them that no
    thread copies as those rows lie: with the other index last, as wide as GATHERED_BITS."""
    k, sides = problem.k.name, (problem.lhs, problem.rhs)
    along = [x for x in problem.lookups if x.dim == k]
    if not along:
        return
    named, bits = along[0].name, " or ".join(map(str, sorted(GATHERED_BITS)))
    for found, what, expected, fix in (
        (
            len(along) > len([x for x in sides if x.gathered_k]) or any(not x.by_row for x in along),
            f"{named} changes along {k}, which is summed",
            f"an index for each {k}, in the place of {k}",
            "compute what it leads to before the call",
        ),
        *(
            (
                not (x.stored_mn_major and x.stored.bits in GATHERED_BITS)
                or any((x.transformed, x.others, x.gathered, x.pages)),
                f"{named} is read along {k}, which is summed, beside {x.name}",
                f"{x.name}[{k},{x.rows}] of {bits} bits, in order along {x.rows}, of one contraction",
                f"gather what {named} names by a program of its own, as X[m,n] = A[idx[m],n]",
            )
            for x in sides
        ),
        *(
            (
                any(x.named and x.rows == domain.dim for domain in problem.domains),
                f"{named} is read along {k}, which is summed, {x.name} has scales, and {x.rows} a range",
                f"all of {x.rows}: a tile begins where a block of scales does",
                f"multiply all of {x.rows}, and take the range of the result",
            )
            for x in sides
        ),
        (
            bool(problem.summed),
            f"{named} is read along {k}, and the sum runs over more than {k}",
            f"a sum over {k} alone",
            f"gather what {named} names by a program of its own, as X[m,n] = A[idx[m],n]",
        ),
    ):
        if found:
            raise UnsupportedError(what, expected=expected, fix=fix, place=problem.written)


def with_scales_of_rows(problem: Problem) -> Problem:
    """The problem in which each row of an operand in order has its own scales, where rows of K are gathered beside it:
    threads then bring all scales that sums are promoted by, and leave out those of blocks that have no point."""
    if not problem.k_lookups:
        return problem

    def of(x: Operand) -> Operand:
        kept = [s if s.in_mma or s.folded or s.rows == 1 else replace(s, rows=1, spread=s.rows) for s in x.scales]
        return replace(x, scales=tuple(kept))

    return replace(problem, lhs=of(problem.lhs), rhs=of(problem.rhs))


def check_summed(problem: Problem) -> None:
    """Refuses indices that change along a further dimension of the sum: tiles look them up when they begin. Likewise
    what cannot be beside indices along K."""
    check_gathered_k(problem)
    summed = {d.name for d in problem.summed}
    for lookup in problem.lookups:
        for along in (c.dim for c in lookup.index.coords if c.dim in summed):
            raise UnsupportedError(
                f"{lookup.name} is read at {along}, over which the sum runs too, and a tile looks it up once",
                expected=f"an index without {along}, or a result that has {along}",
                fix=f"give the result {along}, and sum over it after the call",
                place=problem.written,
            )
