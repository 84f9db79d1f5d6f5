"""What is known of a row or column that is being reduced, and how two such things become one.

A sum, a maximum or a minimum is one number. The sum of exp(x - M), of which M is the largest x, is two: the largest so
far and the sum beside it, which is multiplied by exp(largest before - largest now) when that grows. So every thread,
warp and tile begins without the largest of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scalec.ir.mlir import ir
from scalec.lowering import functions
from scalec.lowering.builder import Builder

Known = list[ir.Value]
"""One number, or of `sum_exp` the largest and the sum."""

NOTHING: dict[str, tuple[float, ...]] = {
    "sum": (0.0,),
    "max": (-math.inf,),
    "min": (math.inf,),
    "sum_exp": (-math.inf, 0.0),
}
"""Of no terms."""

_LEAST = -3.4028234663852886e38
"""The least finite f32. What is taken off in place of a largest of -inf: the term of each -inf is then 0, as beside
numbers, and not exp(-inf + inf), which is NaN."""


_INFINITY_BELOW = 0xFF800000  # the bits of -inf


def no_term(kind: str) -> float:
    """The term that changes nothing."""
    return NOTHING[kind][0]


def nothing(b: Builder, kind: str) -> Known:
    return [b.constant(x) for x in NOTHING[kind]]


def combined(b: Builder, kind: str, x: Known, y: Known) -> Known:
    """Of two; `max` and `min` pass NaN on."""
    if kind != "sum_exp":
        return [_one(b, kind, x[0], y[0])]
    largest = functions.maximum(b, x[0], y[0])
    fx, fy = (_relative(b, v[0], _finite(b, largest)) for v in (x, y))
    return [largest, b.fma(y[1], fy, b.fmul(x[1], fx))]


def with_terms(b: Builder, known: Known, terms: Sequence[ir.Value]) -> Known:
    """Of `sum_exp`: with further terms x. What waits for what is known already is one step of the largest, one of the
    sum."""
    largest = functions.maximum(b, known[0], _in_pairs(b, "max", terms))
    finite = _finite(b, largest)
    more = _in_pairs(b, "sum", [_relative(b, x, finite) for x in terms])
    return [largest, b.fma(known[1], _relative(b, known[0], finite), more)]


def _in_pairs(b: Builder, kind: str, values: Sequence[ir.Value]) -> ir.Value:
    """Of all values, two neighbours at a time."""
    left = list(values)
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=False)
        left = [_one(b, kind, x, y) for x, y in pairs] + left[len(left) & ~1 :]
    return left[0]


def across(b: Builder, kind: str, known: Known, distances: Sequence[int]) -> Known:
    """Of the lanes whose numbers differ in the bits of `distances`; all of them have it then."""
    if kind != "sum_exp":
        (total,) = known
        for distance in distances:
            total = _one(b, kind, total, b.butterfly(total, distance))
        return [total]
    (largest,) = across(b, "max", known[:1], distances)
    own = b.fmul(known[1], _relative(b, known[0], _finite(b, largest)))
    return [largest, *across(b, "sum", [own], distances)]


def finished(b: Builder, kind: str, known: Known) -> Known:
    """The reduction, of all terms; of exponentials the sum, and the largest. Of -inf alone x - M is NaN, and so is the
    sum."""
    if kind != "sum_exp":
        return known
    none = b.compare("eq", b.bits(known[0]), _INFINITY_BELOW)
    return [b.select(none, b.constant(math.nan), known[1]), known[0]]


def _one(b: Builder, kind: str, x: ir.Value, y: ir.Value) -> ir.Value:
    if kind == "sum":
        return b.fadd(x, y)
    return functions.maximum(b, x, y) if kind == "max" else functions.minimum(b, x, y)


def _finite(b: Builder, largest: ir.Value) -> ir.Value:
    """The largest as it is taken off."""
    return functions.maximum(b, largest, b.constant(_LEAST))


def _relative(b: Builder, x: ir.Value, largest: ir.Value) -> ir.Value:
    """exp(x - largest)."""
    return functions.exp_below(b, b.fadd(x, functions.negate(b, largest)))
