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
    along = [x for x in problem.lookups if x.dim == k and not x.paged]
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


def check_pages_of_k(problem: Problem) -> None:
    """Refuses pages along K whose K blocks no copies bring, or that leave more out of the sum than elements."""
    for paged in problem.paged_k:
        k, size, sides = problem.k, paged.page_k, (problem.lhs, problem.rhs)
        what = f"{paged.name} is in pages of {size} {k.name}, which is summed"
        least = 2 * problem.family.k
        whole = problem.range_of_k is not None or (k.size is not None and k.size % size == 0)
        scaled = next((s.name for x in sides for s in x.scales), "")
        moved = next((x.name for x in sides if x.transformed or x.zeros is not None or x.gathered_k or x.shifted), "")
        for found, beside, expected, fix in (
            (bool(size % least), "", f"pages of a multiple of {least}: a K block is of one",
             f"gather {paged.name} by a program of its own, or lay it out in pages of 64 or 128"),
            (len(problem.paged_k) > 1, ", and so is the other operand", "pages of one operand",
             f"gather {paged.name} by a program of its own"),
            (not whole, "", f"whole pages: {k.name} a known multiple of {size}, or a range of it",
             f"say how many are summed: for {k.name} < len[0], with an int32 tensor len"),
            (bool(scaled), f", and {scaled} varies along it, or goes with it", "operands without scales along the sum",
             "multiply the scales into the other operand, or pass bf16"),
            (bool(moved), f", and {moved} is computed, or has zero points", "operands as they are stored",
             f"compute {moved} by a program of its own"),
            (bool(problem.summed or problem.added or problem.panes > 1), ", of several products or sums",
             "one product, summed over one index", "a program for each"),
        ):  # fmt: skip
            if found:
                raise UnsupportedError(what + beside, expected=expected, fix=fix, place=problem.written)


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
    check_pages_of_k(problem)
    summed = {d.name for d in problem.summed}
    for lookup in problem.lookups:
        for along in (c.dim for c in lookup.index.coords if c.dim in summed):
            raise UnsupportedError(
                f"{lookup.name} is read at {along}, over which the sum runs too, and a tile looks it up once",
                expected=f"an index without {along}, or a result that has {along}",
                fix=f"give the result {along}, and sum over it after the call",
                place=problem.written,
            )
