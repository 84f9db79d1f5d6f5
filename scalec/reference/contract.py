"""Contractions: matrix products in float64 wherever the indices allow one, whatever symbols and domains say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from scalec.errors import ScalecError
from scalec.ir.mlir import ir
from scalec.ir.scale import dims_in
from scalec.reference.space import Access, Domain, Factor, Space, point_mask, regions, symbols_in

Array = NDArray[Any]

GATHER = 1 << 27  # elements of a gathered operand that are in memory at once (1 GiB in float64)


def contract(lhs: Access, rhs: Access, out: Access, domains: Sequence[Domain], space: Space) -> None:
    """Adds the sum of lhs * rhs over every dimension that `out` does not have, and marks what is written.

    Raises:
        ScalecError: where the result's map is not a list of dimensions (`scale.scatter` writes elsewhere).
    """
    if not all(isinstance(e, ir.AffineDimExpr) for e in out.map.results):
        raise ScalecError("a contraction's result is indexed by dimensions", got=str(out.map), fix="use scale.scatter")
    order = [e.position for e in out.map.results]
    kept = set(order)
    tied = kept.union(*(d.tied_dims() for d in domains if d.dim in kept))
    written = out.tensor.written
    assert written is not None
    for box, masked in regions(space, domains, kept):
        if any(box.size(d) == 0 for d in kept):
            continue
        mask = point_mask((lhs, rhs), masked, box, kept)
        if not mask.any():
            continue
        part = multiply(lhs, rhs, box, box, tied)  # a box has one point of what is tied and not kept
        at = _positions([box.points[d] for d in order])
        shape = tuple(box.size(d) for d in order)
        lay = (*order, *(d for d in range(len(box.points)) if d not in kept))
        part = np.broadcast_to(part.transpose(lay).reshape([part.shape[d] for d in order]), shape)
        if mask.all():
            out.tensor.data[at] += part
            written[at] = True
        else:
            inside = np.broadcast_to(mask.transpose(lay).reshape([mask.shape[d] for d in order]), shape)
            out.tensor.data[at] += np.where(inside, part, 0.0)
            written[at] |= inside


def _positions(points: Sequence[Array]) -> tuple[Any, ...]:
    """An index of a box: slices where every axis is contiguous."""
    if all(len(p) and p[-1] - p[0] + 1 == len(p) for p in points):
        return tuple(slice(int(p[0]), int(p[-1]) + 1) for p in points)
    return np.ix_(*points)


def _same_slices(operand: Access, space: Space, dim: int) -> Array | None:
    """For each index of `dim` a number, equal where the operand's slices are the same; None where all differ.

    What `B[e[m/128],n,k]` reads is the same for all m of one group: there m is no batch index but one of M.
    """
    columns = []
    for i in operand.indices(space):
        if i.shape[dim] > 1:
            rows = np.moveaxis(i, dim, 0).reshape(i.shape[dim], -1)
            if rows.shape[1] == 1 and (np.diff(rows[:, 0]) > 0).all():
                return None
            columns.append(rows)
    if not columns:
        return None
    found, inverse = np.unique(np.concatenate(columns, axis=1), axis=0, return_inverse=True)
    return inverse.ravel() if len(found) < space.size(dim) else None


def multiply(lhs: Access, rhs: Access, at_l: Space, at_r: Space, kept: set[int]) -> Array:
    """The sum of lhs * rhs over the dimensions not `kept`, over the space.

    The operands are read in boxes of their own, which differ in the dimensions that one of them does not depend on.
    """
    dims_l = {d for d in lhs.dims() if at_l.size(d) != 1}
    dims_r = {d for d in rhs.dims() if at_r.size(d) != 1}
    batch = sorted(dims_l & dims_r & kept)
    for d in batch:
        for operand, at in ((rhs, at_r), (lhs, at_l)):
            same = _same_slices(operand, at, d)
            if same is not None:
                return _grouped(lhs, rhs, at_l, at_r, kept, d, same, operand is rhs)
    size = max(int(np.prod([at.size(d) for d in ds])) for at, ds in ((at_l, dims_l), (at_r, dims_r)))
    if batch and size > GATHER:
        longest = max(batch, key=at_l.size)
        pieces = np.array_split(at_l.points[longest], min(at_l.size(longest), -(-size // GATHER)))
        parts = [multiply(lhs, rhs, at_l.with_points(longest, p), at_r.with_points(longest, p), kept) for p in pieces]
        return np.concatenate(parts, axis=longest)
    along, whole = _apart(lhs, rhs, kept)
    apart = [f for _, f in (*along, *whole)]
    a = _left_out(lhs.values(at_l, apart), rhs, at_r, kept)
    b = _left_out(rhs.values(at_r, apart), lhs, at_l, kept)
    with np.errstate(all="ignore"):  # infinite, and no number where an infinite product meets a zero
        total = _point_by_point([a, b, _multiplied(along, lhs, at_l, at_r)], kept) if along else _product(a, b, kept)
        return total * _multiplied(whole, lhs, _at_one(at_l, kept), _at_one(at_r, kept)) if whole else total


def _at_one(space: Space, kept: set[int]) -> Space:
    """One point along what is summed, which may have none."""
    for d in range(len(space.points)):
        space = space if d in kept else space.with_points(d, np.zeros(1, np.int64))
    return space


def _left_out(values: Array, other: Access, at: Space, kept: set[int]) -> Array:
    """An operand's values, 0 where an index of the other one leaves a point out of the sum: what is there may be no
    number, or infinite."""
    if np.isfinite(values).all():
        return values
    for skipped, dims in zip(other.skipped(at), other.skipped_along(), strict=True):
        if dims - kept:
            values = np.where(skipped, 0.0, values)
    return values


Scaled = list[tuple[Access, Factor]]
AS_F32 = (np.float32, np.float16, ml_dtypes.bfloat16)  # scales that are multiplied with each other in f32


def _apart(lhs: Access, rhs: Access, kept: set[int]) -> tuple[Scaled, Scaled]:
    """Scales that multiply no element: those of blocks along the summed dimensions, which multiply each term, and those
    of blocks that span these, which multiply the sum; of these whole tensors' come last. None of either where that is
    the same: the language multiplies f32 scales, and those of 16 bits, of both operands in f32 before they multiply a
    sum, and where their product is a normal number its rounding is far below any tolerance.
    """
    groups: tuple[Scaled, Scaled, Scaled] = [], [], []
    for operand in (lhs, rhs):
        axes = [_dims(operand, e) for e in operand.map.results]
        for f in operand.tensor.factors:
            if f.scales.dtype not in AS_F32:
                continue
            along = any(not spans and own - kept for own, spans in zip(axes, f.spans, strict=True))
            groups[0 if along else 2 if all(f.spans) else 1].append((operand, f))
    along, whole = groups[0], groups[1] + groups[2]
    numbers = all(np.isfinite(f.scales).all() for _, f in whole)
    return along if _beyond(along) else [], [] if numbers and not _beyond(whole) else whole


def _dims(operand: Access, e: ir.AffineExpr) -> set[int]:
    """The dimensions that an index depends on, through symbols too."""
    own = ir.AffineMap.get(operand.map.n_dims, operand.map.n_symbols, [e])
    return dims_in(own).union(*(operand.symbols[i].dims() for i in symbols_in(own)))


def _beyond(group: Scaled) -> bool:
    """Whether a product of as many scales may be no normal f32."""
    largest, least = 1.0, 1.0
    for _, f in group:
        sizes = np.abs(f.scales[np.isfinite(f.scales) & (f.scales != 0)]).astype(np.float64)
        if sizes.size:
            largest, least = largest * sizes.max(), least * sizes.min()
    normal = np.finfo(np.float32)
    return len(group) > 1 and bool(largest > normal.max or least < normal.smallest_normal)


def _multiplied(group: Scaled, lhs: Access, at_l: Space, at_r: Space) -> Array:
    """The product of scales in f32, those of whole tensors first multiplied with each other, over the space."""
    each, whole = [], []
    for operand, f in group:
        factor = operand.factor(f, at_l if operand is lhs else at_r).astype(np.float32)
        (whole if all(f.spans) else each).append(factor)
    return reduce(np.multiply, [*each, reduce(np.multiply, whole)] if whole else each).astype(np.float64)


def _point_by_point(arrays: Sequence[Array], kept: set[int]) -> Array:
    """The sum of products of arrays over the space: what is not summed as a matrix product is."""
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    summed = [d for d in range(len(shape)) if d not in kept]
    total = np.zeros([n if d in kept else 1 for d, n in enumerate(shape)])
    for point in np.ndindex(*(shape[d] for d in summed)):
        at = dict(zip(summed, point, strict=True))
        pieces = (
            x[tuple(slice(at[d], at[d] + 1) if d in at and n > 1 else slice(None) for d, n in enumerate(x.shape))]
            for x in arrays
        )
        total += reduce(np.multiply, pieces)
    return total


def _grouped(
    lhs: Access, rhs: Access, at_l: Space, at_r: Space, kept: set[int], d: int, same: Array, right: bool
) -> Array:
    """`multiply`, one group of equal slices of one operand (the `right` or the left) at a time."""
    out = None
    points = at_l.points[d]
    for group in range(int(same.max()) + 1):
        where = np.flatnonzero(same == group)
        one, all_ = points[where[:1]], points[where]
        part = multiply(
            lhs, rhs, at_l.with_points(d, all_ if right else one), at_r.with_points(d, one if right else all_), kept
        )
        if out is None:
            shape = list(part.shape)
            shape[d] = len(points)
            out = np.empty(shape)
        out[(slice(None),) * d + (where,)] = part
    assert out is not None
    return out


def _product(a: Array, b: Array, kept: set[int]) -> Array:
    """The same sum for two arrays over the space, as one batched matrix product."""
    rank = a.ndim
    alone_a = tuple(d for d in range(rank) if a.shape[d] != 1 and b.shape[d] == 1 and d not in kept)
    alone_b = tuple(d for d in range(rank) if b.shape[d] != 1 and a.shape[d] == 1 and d not in kept)
    a, b = a.sum(axis=alone_a, keepdims=True), b.sum(axis=alone_b, keepdims=True)
    both = [d for d in range(rank) if a.shape[d] != 1 and b.shape[d] != 1]
    batch, k = [d for d in both if d in kept], [d for d in both if d not in kept]
    m = [d for d in range(rank) if a.shape[d] != 1 and d not in both]
    n = [d for d in range(rank) if b.shape[d] != 1 and d not in both]

    def sizes(x: Array, dims: Sequence[int]) -> int:
        return int(np.prod([x.shape[d] for d in dims], dtype=np.int64))

    def matrix(x: Array, *groups: Sequence[int]) -> Array:
        lay = [d for g in groups for d in g]
        rest = [d for d in range(rank) if d not in lay]
        return x.transpose((*lay, *rest)).reshape([sizes(x, g) for g in groups])

    with np.errstate(invalid="ignore"):  # infinities of both signs
        out = np.matmul(matrix(a, batch, m, k), matrix(b, batch, k, n))
    lay = [*batch, *m, *n]
    shape = [max(a.shape[d], b.shape[d]) if a.shape[d] and b.shape[d] else 0 for d in lay]
    rest = [d for d in range(rank) if d not in lay]
    return out.reshape(shape + [1] * len(rest)).transpose(np.argsort([*lay, *rest]))
