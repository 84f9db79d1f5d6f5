"""What rides on a program's product, and the bytes that it saves: those that kernels of their own would write and read.

Sums that one kernel hands to another are counted as bf16, as most programs store them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scalec.formats import ELEMENT_TYPES
from scalec.passes.problem.access import elements
from scalec.passes.problem.types import Problem

HANDED = ELEMENT_TYPES["bf16"]
"""The element type of sums between two kernels."""


def fused(problem: Problem, sizes: Mapping[str, int]) -> list[str]:
    """A line for each thing that rides on the product, with what it saves.

    Args:
        problem: as the program states it, or transposed.
        sizes: of every dimension of the contraction, by name.
    """
    return [f"{what}: {saved / 1e6:.1f} MB less" for what, saved in _found(problem, problem.sizes(sizes)) if saved]


def _found(p: Problem, sizes: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """(what rides on what, the bytes that it saves)."""
    points = p.walks(sizes) * sizes[p.m.name] * sizes[p.n.name]
    sums = HANDED.bytes(points)
    shared, several = (p.rhs, p.lhs) if p.lhs.others else (p.lhs, p.rhs)
    if several.others:
        read = shared.stored.bytes(elements(shared.coords, sizes))
        weights = " and ".join(x.name for x in several.panes)
        yield f"{shared.name} is read once for {weights}", len(several.others) * read
    for x in p.added:
        yield f"{x.lhs.name} @ {x.rhs.name} is added up in the same place", 2 * sums
    for r in p.results:
        first, computed = r is p.results[0], len(r.body) > 2 or len(set(r.panes)) > 1
        handed = len(set(r.panes)) * sums  # written, and read; beside others read again
        if r.column_fold is not None:
            kind = f"{r.column_fold.kind} over {r.column_fold.dim}"
            yield f"{r.name} is the {kind} of sums in registers, which are not written", 2 * handed
        elif r.scale is not None:
            yield f"{r.name} is quantised from the f32 sums", (1 + first) * handed
        elif not first or computed:
            yield f"{r.name} is computed of the sums in registers", (1 + first) * handed
    for r in p.reductions:
        names = [r.name, *(x.name for x in r.reduced.beside)] if r.reduced is not None else [r.name]
        told = f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} reduced from the sums in registers"
        yield told, len(set(r.panes)) * sums
    for operand in (p.lhs, p.rhs):
        whole = operand.stored.bytes(elements(operand.coords, sizes))
        for fold in operand.folds:
            yield f"{fold.name} is reduced as {operand.name} passes by", whole
        if operand.converted:
            made = operand.element.bytes(elements(operand.coords, sizes))
            yield f"{operand.name} is made {operand.element.name} on its way", 2 * made
