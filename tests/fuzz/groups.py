"""Programs that read from memory what to compute: an index for each block of rows, or how many rows each group has.

A structure (`Case`) has the groups as an index like any other, of both operands and the result or of one operand alone;
`Groups` says how the text writes it. So `bounds` makes the sums of all rows with all groups, and a row takes its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalec.formats import ELEMENT_TYPES
from scalec.reference import from_layout, to_layout
from scalec.reference.quantize import block_amax, block_shape, scale_shape

if TYPE_CHECKING:
    from scalec.abi import TensorSpec
    from scalec.formats import Granularity
    from tests.fuzz.case import Case, Operand

Array = NDArray[Any]
Mask = NDArray[np.bool_]

KINDS = ("blocks", "masked", "ragged")

TENSOR = {"blocks": "e", "masked": "rows", "ragged": "off"}
"""The tensor that is read, and what a usual program calls it."""


@dataclass(frozen=True)
class Groups:
    """How rows, or columns, find their group."""

    # "blocks" (an index for each `block` rows), "masked" (each group has its rows, the first so many of which count) or
    # "ragged" (one group's rows lie behind another's).
    kind: str
    dim: str = "m"  # the dimension that is cut, a row of the left operand or of the right one
    name: str = "g"  # the dimension of groups; of "blocks" what the compiler calls an extent that indices alone reach
    block: int = 0  # rows of a block
    routing: str = "drawn"  # a row of ROUTINGS

    def index(self, name: str) -> str:
        """How an index of an operand is written."""
        by = f"/{self.block}" * (self.block > 1)
        return f"e[{self.dim}{by}]" if self.kind == "blocks" and name == self.name else name

    def clause(self) -> str:
        """The range."""
        if self.kind == "blocks":
            return ""
        ends = f"< rows[{self.name}]" if self.kind == "masked" else f"in off[{self.name}]:off[{self.name}+1]"
        return f" for {self.dim} {ends}"


def grouped(case: Case, kind: str, dim: str = "m", block: int = 0, routing: str = "drawn", at: int = 0) -> Case:
    """A case without groups with some. The other operand has a matrix for each group, the group its index number `at`;
    likewise, of "masked", the one with the rows, and the result."""
    lhs, rhs = case.operands
    own, other = (lhs, rhs) if dim in lhs.index else (rhs, lhs)
    name = f"{other.name}_{min(at, len(other.index) - 1)}" if kind == "blocks" else "g"
    other = with_index(other, name, at)
    result = case.result
    if kind == "masked":
        own, result = with_index(own, name, at), with_index(result, name, at)
    operands = (own, other) if dim in lhs.index else (other, own)
    further = tuple((with_index(x, name, at) if kind == "masked" else x, tree) for x, tree in case.further)
    return case.but(operands=operands, result=result, further=further, groups=Groups(kind, dim, name, block, routing))


def with_index(x: Operand, name: str, at: int) -> Operand:
    """A tensor with an index more, not the last one; of blocks of scales it has 1. Formats are of the last indices."""
    from tests.fuzz.case import Level

    at = min(at, len(x.index) - 1)
    levels = tuple(
        level if level.block == ("tensor",) else
        Level((*level.block[:at], "1", *level.block[at:]), level.type, level.layout)
        for level in x.levels
    )  # fmt: skip
    return replace(x, index=(*x.index[:at], name, *x.index[at:]), levels=levels)


def apart(g: Granularity, shape: tuple[int, ...], axis: int, offsets: Array) -> tuple[Array, int]:
    """Where scales of groups that are apart see each index of an axis, -1 of those of no group, and how many there are
    (docs/language.md, "Ragged ranges")."""
    block, tail = block_shape(g, shape), len(shape) - axis
    step = block[axis] * {("blocked", 2): 128, ("blocked", 1): 4, ("packed", 1): 4}.get((g.layout, tail), 1)
    if step == 1:
        return np.arange(shape[axis]), shape[axis]
    at = np.full(shape[axis], -1)
    for group, (low, high) in enumerate(pairwise(offsets.astype(np.int64))):
        own = slice(max(low, 0), max(high, 0))
        at[own] = np.arange(shape[axis])[own] - low + (low // step + group) * step
    return at, (-(-shape[axis] // step) + len(offsets) - 1) * step


def spread_out(x: Array, axis: int, at: Array, extent: int) -> Array:
    """An array as scales of such groups see it, 0 between these."""
    moved = np.moveaxis(x, axis, 0)
    made = np.zeros((extent, *moved.shape[1:]), x.dtype)
    made[at[at >= 0]] = moved[at >= 0]
    return np.moveaxis(made, 0, axis)


def ungrouped(case: Case) -> Case:
    """The case of one group."""
    assert case.groups is not None
    name = case.groups.name

    def without(x: Operand) -> Operand:
        if name not in x.index:
            return x
        at = x.index.index(name)
        levels = tuple(
            level if level.block == ("tensor",) else replace(level, block=level.block[:at] + level.block[at + 1 :])
            for level in x.levels
        )
        return replace(x, index=x.index[:at] + x.index[at + 1 :], levels=levels)

    lhs, rhs = case.operands
    inputs = {n: replace(x, index=tuple(i for i in x.index if i.split("/")[0] != name) or ("0",))
              for n, x in case.inputs.items()}  # fmt: skip
    launches = tuple({d: n for d, n in sizes.items() if d != name} for sizes in case.launches)
    further = tuple((without(x), tree) for x, tree in case.further)
    return case.but(
        operands=(without(lhs), without(rhs)), result=without(case.result), inputs=inputs, further=further,
        launches=launches, known=tuple(d for d in case.known if d != name), groups=None,
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- routing

Routing = Callable[[np.random.Generator, int, int], Array]
"""Rows of each group, of so many rows and groups; they may be more than there are."""


def _drawn(rng: np.random.Generator, rows: int, groups: int) -> Array:
    """Any number each, some none; of all of them some rows are left."""
    share = rng.dirichlet(np.full(groups, 0.5)) * rng.choice((rows, rows * 0.8))
    share[rng.random(groups) < 0.2] = 0
    return share.astype(np.int64)


def _one(rng: np.random.Generator, rows: int, groups: int) -> Array:
    made = np.zeros(groups, np.int64)
    made[rng.integers(groups)] = rows
    return made


def _small(rng: np.random.Generator, rows: int, groups: int) -> Array:
    return rng.integers(0, min(3, rows // groups + 1) + 1, groups)


def _whole(rng: np.random.Generator, rows: int, groups: int) -> Array:
    """Multiples of a tile, where there are so many."""
    made = np.maximum(rows // groups // 16 * 16, 16) + np.zeros(groups, np.int64)
    return made // int(rng.choice((1, 2)))


ROUTINGS: dict[str, Routing] = {
    "drawn": _drawn,
    "one": _one,
    "small": _small,
    "whole": _whole,
    "ones": lambda rng, rows, groups: np.ones(groups, np.int64),
    "none": lambda rng, rows, groups: np.zeros(groups, np.int64),
    "beyond": lambda rng, rows, groups: _drawn(rng, rows, groups) + np.int64(rows),
}
"""How rows are dealt out: a row each. "beyond" are ends behind the last row, and beginnings before the first."""


def route(case: Case, sizes: dict[str, int], rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """What the tensor of indices, counts or offsets holds."""
    groups = case.groups
    assert groups is not None
    rows, count = sizes[groups.dim], sizes[groups.name]
    if groups.kind == "blocks":
        if not count or groups.routing == "none":
            return np.full(shape, -1, np.int32)
        if groups.routing == "one":
            return np.full(shape, rng.integers(count), np.int32)
        made = rng.integers(0, count, shape)  # an extent of 0 has none
        made = np.sort(made) if groups.routing == "whole" else made
        return np.where(rng.random(shape) < 0.15, rng.integers(-3, 0, shape), made).astype(np.int32)
    if not count:
        return np.zeros(shape, np.int32)
    each = ROUTINGS[groups.routing](rng, rows, count)
    if groups.kind == "masked":
        if groups.routing == "beyond":
            each = np.where(rng.random(count) < 0.3, -each, each)
        elif groups.routing in ("drawn", "small"):
            each = np.minimum(each * rng.integers(1, count + 1, count), rows)
        return np.broadcast_to(each, shape).astype(np.int32)
    if groups.routing == "beyond":  # the first begins before there are rows, the last ends behind them
        return np.concatenate([[-5], np.cumsum(_drawn(rng, rows, count)[:-1]), [rows + 77]]).astype(np.int32)
    first = int(rng.integers(0, max(rows - int(each.sum()), 0) + 1)) if groups.routing != "one" else 0
    return (first + np.concatenate([[0], np.cumsum(each)])).astype(np.int32)


def group_of(case: Case, sizes: dict[str, int], values: dict[str, Any]) -> Array:
    """The group of each row, -1 of one that has none; of "masked" whether each group, one an entry, has it."""
    groups = case.groups
    assert groups is not None
    at, read = np.arange(sizes[groups.dim]), values[TENSOR[groups.kind]].astype(np.int64)
    if groups.kind == "blocks":
        found = read[at // groups.block]
        return np.where(found < sizes[groups.name], found, -1)
    if groups.kind == "masked":
        return at < read[:, None]
    found = np.full(at.shape, -1)
    for g, (low, high) in enumerate(pairwise(read)):
        found[(low <= at) & (at < high)] = g
    return found


def covered(case: Case, sizes: dict[str, int], values: dict[str, Any]) -> Mask:
    """Which points of the result are written."""
    groups, index = case.groups, case.result.index
    shape = tuple(sizes[i] for i in index)
    if groups is None:
        return np.ones(shape, bool)
    found = group_of(case, sizes, values)
    if groups.kind == "masked":
        axes = [index.index(x) for x in (groups.name, groups.dim)]
        found = found if axes[0] < axes[1] else found.T
        return np.broadcast_to(found.reshape([shape[a] if a in axes else 1 for a in range(len(shape))]), shape)
    axis = index.index(groups.dim)
    return np.broadcast_to((found >= 0).reshape([-1 if a == axis else 1 for a in range(len(shape))]), shape)


def of_own(case: Case, sizes: dict[str, int], values: dict[str, Any], all_groups: Array) -> Array:
    """What each row has of its own group, of what it has of all, the first axis; of rows without one, of any."""
    assert case.groups is not None
    axis = case.result.index.index(case.groups.dim)
    if not all_groups.shape[0]:
        return np.zeros(all_groups.shape[1:])
    own = np.maximum(group_of(case, sizes, values), 0)
    return np.moveaxis(np.moveaxis(all_groups, 1 + axis, 1)[own, np.arange(len(own))], 0, axis)


def of_result(case: Case, r: TensorSpec, points: Mask) -> Mask:
    """Which elements of a result, or of its scales, are written where `points` of the result are."""
    x = next(x for x in (case.result, *(y for y, _ in case.further)) if x.name == r.name.removesuffix("_scale"))
    if r.name == x.name:
        return points
    g = x.granularities("result")[0]
    return block_amax(points.astype(np.float64), block_shape(g, points.shape)) > 0


# -------------------------------------------------------------------------------------------------------- foreign rows


def spoil(case: Case, sizes: dict[str, int], values: dict[str, Any]) -> None:
    """NaN, or where a type has none its last code, in what no point of the result reads: rows outside all groups, and
    groups without rows; and in their scales, those that no other row shares."""
    groups = case.groups
    assert groups is not None
    found = group_of(case, sizes, values)
    count = sizes[groups.name]
    if groups.kind == "masked":
        rows, used = found, found.any(axis=1)
    else:
        rows, used = found >= 0, np.isin(np.arange(count), found)
    for x, side in zip(case.operands, ("lhs", "rhs"), strict=True):
        shape = values[x.name].shape
        wanted = np.ones((), bool)
        for names, mask in (((groups.name, groups.dim), rows) if rows.ndim > 1 else ((groups.dim,), rows),
                            ((groups.name,), used)):  # fmt: skip
            if all(i in x.index for i in names):
                axes = [x.index.index(i) for i in names]
                mask = mask if axes == sorted(axes) else mask.T
                wanted = wanted & mask.reshape([shape[a] if a in axes else 1 for a in range(len(shape))])
        wanted = np.broadcast_to(wanted, shape)
        if wanted.all():
            continue
        values[x.name] = worst(values[x.name], wanted, x.element)
        for level, suffix in zip(x.granularities(side), ("_scale", "_scale2"), strict=False):
            if level.tensor:
                continue
            block = block_shape(level, shape)
            each = from_layout(values[x.name + suffix], level.layout, scale_shape(block, shape), level.type)
            kept = block_amax(wanted.astype(np.float64), block) > 0
            values[x.name + suffix] = to_layout(worst(each, kept, level.type), level.layout)


def worst(a: Array, kept: Mask, element: str) -> Array:
    """The array with all bits set where it is not kept; of packed elements of their codes."""
    bits = ELEMENT_TYPES[element].bits
    worst = np.full((), (1 << bits) - 1, f"u{max(1, bits // 8)}").view(a.dtype)
    return np.where(kept, a, worst).astype(a.dtype)
