"""A computed index of a result that leaves gaps: `n + n/128*64`, `n/128*192 + n%128`, `n + (n+128)/256*64`."""

from __future__ import annotations

from collections import Counter

from scalec.ir.mlir import ir
from scalec.ir.scale import dims_in
from scalec.passes.problem.access import Gaps
from scalec.sizes import MOST

Staircase = tuple[int, Counter[tuple[int, int]], int]
"""`a*n + sum of c * ((n + p)/q) + b`, as (a, {(p, q): c}, b) with 0 <= p < q."""


def dimension_of(e: ir.AffineExpr, rank: int) -> int | None:
    """The position of the one dimension, of `rank`, that an expression is of; None where it is of none or several."""
    found = dims_in(ir.AffineMap.get(rank, 0, [e]))
    return found.pop() if len(found) == 1 else None


def gaps_of(e: ir.AffineExpr) -> Gaps | None:
    """The gaps that the points of an expression of one dimension leave; None where they are none of one size at one
    distance."""
    found = _staircase(e)
    if found is None:
        return None
    slope, steps, constant = found
    if slope != 1 or len(steps) != 1:
        return None
    (((phase, every), size),) = steps.items()
    if size < 1 or constant < 0 or constant % size:
        return None
    phase += constant // size * every  # size * x in front of the first point: (n + p)/q + x is (n + p + x*q)/q
    return Gaps(size, every, phase) if phase <= MOST else None


def _staircase(e: ir.AffineExpr) -> Staircase | None:
    """None where the expression is none."""
    if isinstance(e, ir.AffineDimExpr):
        return 1, Counter(), 0
    if isinstance(e, ir.AffineConstantExpr):
        return 0, Counter(), e.value
    if not isinstance(e, ir.AffineBinaryExpr):
        return None
    left, right = _staircase(e.lhs), _staircase(e.rhs)
    if left is None or right is None:
        return None
    if isinstance(e, ir.AffineAddExpr):
        return _sum(left, right)
    if right[0] or right[1]:  # products with a number, divisions and remainders by one
        return None
    by = right[2]
    if isinstance(e, ir.AffineMulExpr):
        return _times(left, by)
    quotient = _divided(left, by)
    if isinstance(e, ir.AffineFloorDivExpr) or quotient is None:
        return quotient
    return _sum(left, _times(quotient, -by)) if isinstance(e, ir.AffineModExpr) else None


def _times(x: Staircase, factor: int) -> Staircase:
    return x[0] * factor, Counter({step: c * factor for step, c in x[1].items() if c * factor}), x[2] * factor


def _sum(x: Staircase, y: Staircase) -> Staircase:
    steps = Counter(x[1])
    steps.update(y[1])
    return x[0] + y[0], Counter({step: c for step, c in steps.items() if c}), x[2] + y[2]


def _divided(x: Staircase, by: int) -> Staircase | None:
    """Rounded down."""
    slope, steps, constant = x
    if all(c % by == 0 for c in (slope, *steps.values())):
        return slope // by, Counter({step: c // by for step, c in steps.items()}), constant // by
    if slope == 1 and not steps:  # (n + b)/by
        phase, every = constant, by
    elif not slope and list(steps.values()) == [1]:  # ((n + p)/q + b)/by is (n + p + b*q)/(q*by)
        ((phase, every),) = steps
        phase, every = phase + constant * every, every * by
    else:
        return None
    return 0, Counter({(phase % every, every): 1}), phase // every
