"""What a result may be: its value in float64, and how far f32 arithmetic in any order may be from that.

An error of 0 says that every step is exact in f32, so that the result must be bit-equal; infinity says that some step
may overflow, so that anything goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalec.reference import dequantize, round_to
from scalec.reference.quantize import cast_by_chance
from tests.fuzz.case import Case, Operand, Tree
from tests.fuzz.groups import group_of, of_own

F64 = NDArray[np.float64]

ROUND = 2.0**-24
"""Half an ulp of f32, relative: what one operation is off by."""

LEAST, LARGEST = 2.0**-149, float(np.finfo(np.float32).max)

SPAN = 80
"""Binary orders that scales may be above and below 1, so that no product of some of them with sums of unscaled
products leaves f32's normal numbers, in whatever order they are multiplied. Beyond, nothing is asked."""

ULPS: dict[str, tuple[float, float, float]] = {
    "/": (2, 0.001, 0.001),
    "exp": (3.05, 0.001, 0.001),
    "sigmoid": (2.82, 0.002, 0.001),
    "silu": (3.28, 0.002, 0.002),
    "gelu": (3.34, 0.058, 0.008),
    "tanh": (3.35, 0.005, 0.001),
    "sqrt": (0.5, 0.001, 0.001),
}
"""What functions are off at most, in ulps of f32 results, and of f16 and bf16 where results are no wider: the table of
docs/language.md. With results of 8 bits and fewer as with f16."""

FORMS = ((23, -149), (10, -24), (7, -133))
"""The (bits of the mantissa, exponent of the least number) of those three."""

Slack = dict[str, tuple[float, float]]


def slacks(element: str) -> Slack:
    """For results of a type, what a function is off at most: relative, and at the least."""
    narrow = {"f32": None, "bf16": 2}.get(element, 1)
    made = {}
    for name, ulps in ULPS.items():
        forms = [0] if narrow is None else [0, narrow]
        made[name] = (
            max(ulps[i] * 2.0 ** -FORMS[i][0] for i in forms),
            max(ulps[i] * 2.0 ** FORMS[i][1] for i in forms),
        )
    return made


class Bounded:
    """Values and the largest error of each; of a result which of its elements are written, None: all are; and the bits
    by which they are rounded, None: they are rounded to nearest."""

    asked: Any = None
    bits: Any = None

    def __init__(self, value: Any, error: Any = 0.0) -> None:
        self.value = np.asarray(value, np.float64)
        self.error = np.broadcast_to(np.asarray(error, np.float64), self.value.shape)


def _rounded(
    value: F64, error: F64, inputs: tuple[Bounded, ...], slack: float = ROUND, least: float = LEAST
) -> Bounded:
    """A step's result: exact where nothing was off and f32 holds it, any number where it may overflow."""
    loose = np.zeros(value.shape, bool)
    for x in inputs:
        loose = loose | np.isinf(x.error)
    finite = np.isfinite(value)
    error = np.where(finite | np.isinf(error), error, 0.0)
    exact = (error == 0) & (np.where(finite, value, 0).astype(np.float32) == np.where(finite, value, 0))
    exact &= slack <= ROUND
    error = np.where(exact | ~finite, error, error + slack * (np.abs(value) + error) + least)
    loose |= finite & (np.abs(value) + error > LARGEST)
    return Bounded(value, np.where(loose, np.inf, error))


def _added(sign: float) -> Callable[[Bounded, Bounded], Bounded]:
    return lambda x, y: _rounded(x.value + sign * y.value, x.error + y.error, (x, y))


def _times(x: Bounded, y: Bounded) -> Bounded:
    error = _product(np.abs(x.value), y.error) + _product(np.abs(y.value), x.error) + _product(x.error, y.error)
    return _rounded(x.value * y.value, error, (x, y))


def _product(x: F64, y: F64) -> F64:
    """With 0 where either is 0."""
    return np.where((x == 0) | (y == 0), 0.0, x * y)


def _divided(x: Bounded, y: Bounded, slack: tuple[float, float]) -> Bounded:
    near = np.abs(y.value) - y.error
    value = x.value / y.value
    error = (x.error + _product(np.abs(value), y.error)) / near
    return _rounded(value, np.where((near <= 0) & (y.error > 0), np.inf, error), (x, y), *slack)


def _largest(pick: Callable[..., Any]) -> Callable[..., Bounded]:
    def apply(*inputs: Bounded) -> Bounded:
        value, error = inputs[0].value, inputs[0].error
        for x in inputs[1:]:
            value, error = pick(value, x.value), np.maximum(error, x.error)
        return Bounded(value, np.where(np.isnan(value) & ~np.isinf(error), 0, error))

    return apply


def _function(f: Callable[[F64], F64], monotone: bool = True) -> Callable[[Bounded, tuple[float, float]], Bounded]:
    """A function that is approximated to a relative error; where it is not monotone, its slope is below 1.2."""

    def apply(x: Bounded, slack: tuple[float, float]) -> Bounded:
        value, low, high = f(x.value), f(x.value - x.error), f(x.value + x.error)
        error = np.maximum(np.abs(low - value), np.abs(high - value))
        if not monotone:
            error = error + np.minimum(1.2 * x.error, x.error**2)
        none = [np.isnan(v) for v in (value, low, high)]
        error = np.where(none[0] | (x.error == 0), 0.0, error)
        error = np.where((none[0] | none[1] | none[2]) & ~(none[0] & none[1] & none[2]), np.inf, error)
        return _rounded(value, error, (x,), *slack)

    return apply


def _sigmoid(x: F64) -> F64:
    return 1 / (1 + np.exp(-x))


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _gelu(x: F64) -> F64:
    return np.where(x == -np.inf, 0.0, x / 2 * _erfc(-x / np.sqrt(2)))  # 1 + erf would cancel for large negative x


def _either_sign(x: Bounded) -> F64:
    return np.where((np.abs(x.value) > x.error) | (x.error == 0), 0.0, 2.0)


INFIX = {"+": _added(1), "-": _added(-1), "*": _times}
EXACT = {
    "relu": lambda x: _largest(np.maximum)(x, Bounded(np.zeros_like(x.value))),
    "abs": lambda x: Bounded(np.abs(x.value), x.error),
    "sign": lambda x: Bounded(np.sign(x.value), np.where(np.isinf(x.error), np.inf, _either_sign(x))),
    "negative": lambda x: Bounded(-x.value, x.error),
    "max": _largest(np.maximum),
    "min": _largest(np.minimum),
}
FUNCTIONS = {
    "/": _divided,
    "gelu": _function(_gelu, monotone=False),
    "silu": _function(lambda x: np.where(x == -np.inf, 0.0, x * _sigmoid(x)), monotone=False),
    "sigmoid": _function(_sigmoid),
    "tanh": _function(np.tanh),
    "exp": _function(np.exp),
    "sqrt": _function(np.sqrt),
}


def evaluate(case: Case, sizes: dict[str, int], values: dict[str, Any], functions: bool = False) -> Bounded:
    """What is written to the result, before it is rounded to its type or quantised; `functions`: of exact sums."""
    with np.errstate(all="ignore"):
        sums = _own_sums(case, sizes, values)
        sums = Bounded(sums.value, np.where(np.isinf(sums.error), np.inf, 0.0)) if functions else sums
        made = _tree(case, case.value, sizes, values, sums, slacks(case.result.element))
        if case.adds:
            made = INFIX["+"](made, Bounded(values[case.result.name].astype(np.float64)))
        shape = tuple(sizes[i] for i in case.result.index)
        return Bounded(np.broadcast_to(made.value, shape), np.broadcast_to(made.error, shape))


def _tree(
    case: Case, tree: Tree, sizes: dict[str, int], values: dict[str, Any], sums: Bounded, slack: Slack
) -> Bounded:
    op, *rest = tree
    if op == "@":
        return sums
    if op == "in":
        return Bounded(_read(case, case.inputs[rest[0]], sizes, values))
    if op == "number":
        return Bounded(float(np.float32(rest[0])))
    if op == "scalar":
        return Bounded(float(values[rest[0]]))
    inner = [_tree(case, t, sizes, values, sums, slack) for t in rest if isinstance(t, tuple)]
    if op == "^":
        made = inner[0]
        for _ in range(rest[1] - 1):
            made = _times(made, inner[0])
        return made
    if op in INFIX:
        return INFIX[op](*inner)
    return EXACT[op](*inner) if op in EXACT else FUNCTIONS[op](*inner, slack[op])


def _read(case: Case, x: Operand, sizes: dict[str, int], values: dict[str, Any]) -> F64:
    """An elementwise input at every point of the result; at those of no group that of any."""
    array, result, groups = values[x.name].astype(np.float64), case.result, case.groups
    at = []
    for text in x.index:
        name, _, divisor = text.partition("/")
        if groups is not None and name == groups.name and name not in result.index:
            if not sizes[name]:
                return np.zeros([1] * len(result.index))
            name, points = groups.dim, np.maximum(group_of(case, sizes, values), 0)
        else:
            points = np.arange(sizes[name]) if name in result.index else np.zeros(1, np.int64)
        axis = result.index.index(name) if name in result.index else 0
        at.append((points // int(divisor or 1)).reshape([-1 if a == axis else 1 for a in range(len(result.index))]))
    return array[tuple(at)] if at else array


def dequantized(x: Operand, side: str, values: dict[str, Any]) -> F64:
    """The values that a tensor stands for, or that are computed of them, exactly."""
    levels = x.granularities(side)
    scales = [values[x.name + suffix] for suffix in ("_scale", "_scale2")[: len(levels)]]
    made = dequantize(values[x.name], scales, x.element, levels)
    if not x.zeros:
        return round_to(EXACT[x.body](Bounded(made)).value, x.element) if x.body else made  # infinity saturates
    each = dequantize(np.ones(made.shape).astype(values[x.name].dtype), scales, x.element, levels)
    if x.zeros.isdigit():
        return made - int(x.zeros) * each
    block, plus = (int(n or 0) for n in x.zeros.partition("/")[2].partition(" + ")[::2])
    at = [np.arange(n) // (block if i == "k" else 1) for n, i in zip(made.shape, x.index, strict=True)]
    return made - (values[x.name + "Z"].astype(np.float64)[np.ix_(*at)] + plus) * each


def quantum(x: F64) -> float:
    """The largest power of two that all finite numbers of an array are multiples of; infinity where all are 0."""
    numbers = x[np.isfinite(x) & (x != 0)]
    if not numbers.size:
        return np.inf
    fraction, exponent = np.frexp(numbers)
    whole = np.abs(fraction * 2.0**53).astype(np.int64)
    return float(np.min(np.ldexp((whole & -whole).astype(np.float64), exponent - 53)))


def grid(*factors: F64) -> float:
    """What products of numbers of each are multiples of; 0 where that is below the least number of f32, as they are
    rounded then."""
    made = float(np.prod([quantum(x) for x in factors]))
    return made if made >= LEAST else 0.0


def _own_sums(case: Case, sizes: dict[str, int], values: dict[str, Any]) -> Bounded:
    """The sums, of rows of groups with their own one."""
    groups, result = case.groups, case.result
    if groups is None or groups.name in result.index:
        return _sums(case, sizes, values)
    made = _sums(case.but(result=replace(result, index=(groups.name, *result.index))), sizes, values)
    return Bounded(*(of_own(case, sizes, values, x) for x in (made.value, made.error)))


def _sums(case: Case, sizes: dict[str, int], values: dict[str, Any]) -> Bounded:
    lhs, rhs = case.operands
    a, b = (dequantized(x, side, values) for x, side in zip(case.operands, ("lhs", "rhs"), strict=True))
    letters = {name: chr(97 + i) for i, name in enumerate(dict.fromkeys((*lhs.index, *rhs.index)))}
    spell = ",".join("".join(letters[i] for i in x.index) for x in (lhs, rhs))
    spell += "->" + "".join(letters[i] for i in case.result.index)
    value = np.einsum(spell, a, b)
    terms = int(np.prod([float(sizes[i]) for i in lhs.index if i in rhs.index and i not in case.result.index]))
    magnitude = np.einsum(spell, *(np.where(np.isfinite(x), np.abs(x), 0) for x in (a, b)))
    exact = magnitude <= 2.0**24 * grid(a, b)
    error = np.where(exact, 0.0, (terms + 8) * (ROUND * magnitude + LEAST))
    # whatever order scales are multiplied in, no product of some of them may leave the range of f32's normal numbers
    spans = [_span(x, side, values) for x, side in zip(case.operands, ("lhs", "rhs"), strict=True)]
    outside = np.zeros((), bool)
    for part in (0, 1):
        far = []
        for x, span in zip(case.operands, spans, strict=True):
            kept = [i for i in x.index if i in case.result.index]
            most = span[part].max(axis=tuple(a for a, i in enumerate(x.index) if i not in kept), initial=0)
            order = [kept.index(i) for i in case.result.index if i in kept]
            most = most.transpose(order)
            far.append(most.reshape([sizes[i] if i in kept else 1 for i in case.result.index]))
        outside = outside | (far[0] + far[1] > SPAN)
    finite = np.isfinite(value)
    loose = np.broadcast_to(outside, value.shape) | (magnitude + error > LARGEST)
    if not terms:  # as of zeros: scales of the whole K that are no numbers, or whose product is none, make NaN of them
        found = [values[x.name + s] for x in case.operands for s in ("_scale", "_scale2") if x.name + s in values]
        largest = [
            np.abs(s.astype(np.float64)).max(initial=1) for s in found if s.dtype.itemsize > 1 and s.dtype.kind != "i"
        ]
        loose = loose | ~(np.prod(largest) <= LARGEST)
    return Bounded(value, np.where(loose, np.inf, np.where(finite, error, 0.0)))


def _span(x: Operand, side: str, values: dict[str, Any]) -> tuple[F64, F64]:
    """How far products of some of an element's scales, and the element, may be below and above 1, as powers of two."""
    shape = values[x.name].shape
    down, up = np.zeros(shape), np.zeros(shape)
    for level, suffix in zip(x.granularities(side), ("_scale", "_scale2"), strict=False):
        ones = np.ones(shape, np.float32).astype(values[x.name].dtype)
        each = np.abs(dequantize(ones, [values[x.name + suffix]], x.element, [level]))
        power = np.log2(np.where(np.isfinite(each) & (each > 0), each, 1.0))
        down, up = down + np.maximum(-power, 0), up + np.maximum(power, 0)
    return down, up


# ------------------------------------------------------------------------------------------------------------- rounding


def accepted(x: Bounded, element: str) -> tuple[F64, F64]:
    """The least and the largest number of a type that the result may be."""
    with np.errstate(all="ignore"):
        error = np.where(np.isinf(x.error), np.inf, x.error)
        low, high = (np.where(np.isnan(x.value), np.nan, x.value + s * error) for s in (-1, 1))
        return rounded(low, element, x.bits), rounded(high, element, x.bits)


def rounded(x: F64, element: str, bits: Any) -> F64:
    """To nearest, or by chance: either way larger numbers become no smaller ones."""
    return round_to(x, element) if bits is None else cast_by_chance(x, element, bits).astype(np.float64)


def inside(got: F64, low: F64, high: F64, loose: Any = False) -> NDArray[np.bool_]:
    """Where a result is what it may be: within the bounds, or NaN as they are, or anything where nothing is asked."""
    with np.errstate(invalid="ignore"):
        right = (got >= low) & (got <= high)
    return right | (np.isnan(got) & np.isnan(low)) | loose
