"""Points of the iteration space, and what tensors, symbols and domains are at them.

An array "over the space" has one axis for each dimension of the program, of size 1 where it does not vary: arrays of
different ops broadcast against each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalec.errors import ScalecError
from scalec.ir.mlir import ir
from scalec.ir.scale import dims_in

Array = NDArray[Any]


@dataclass(frozen=True)
class Space:
    """A box of points: for each dimension of the program, the sorted indices that are in it."""

    points: tuple[NDArray[np.int64], ...]

    def size(self, dim: int) -> int:
        return len(self.points[dim])

    def with_points(self, dim: int, points: Array) -> Space:
        """The same box with other indices of `dim`."""
        return Space((*self.points[:dim], np.asarray(points, np.int64), *self.points[dim + 1 :]))

    def axis(self, dim: int) -> Array:
        """The indices of `dim` as an array over the space."""
        shape = [1] * len(self.points)
        shape[dim] = -1
        return self.points[dim].reshape(shape)

    def chunks(self, dims: set[int], limit: int) -> Iterator[Space]:
        """The box in pieces of at most about `limit` points, cut along the longest of `dims`."""
        total = int(np.prod([self.size(d) for d in dims], dtype=np.int64))
        if total <= limit or not dims:
            yield self
            return
        longest = max(dims, key=self.size)
        for piece in np.array_split(self.points[longest], min(self.size(longest), -(-total // limit))):
            yield self.with_points(longest, piece)


def evaluate(e: ir.AffineExpr, space: Space, symbols: Sequence[Array]) -> Array:
    """An affine expression at every point, over the space. Division rounds down, as MLIR's floordiv does."""
    if isinstance(e, ir.AffineDimExpr):
        return space.axis(e.position)
    if isinstance(e, ir.AffineSymbolExpr):
        return symbols[e.position]
    if isinstance(e, ir.AffineConstantExpr):
        return np.full((1,) * len(space.points), e.value, np.int64)
    a, b = evaluate(e.lhs, space, symbols), evaluate(e.rhs, space, symbols)
    if isinstance(e, ir.AffineAddExpr):
        return a + b
    if isinstance(e, ir.AffineMulExpr):
        return a * b
    if isinstance(e, ir.AffineModExpr):
        return a % b
    return a // b if isinstance(e, ir.AffineFloorDivExpr) else -(-a // b)


def symbols_in(m: ir.AffineMap) -> set[int]:
    """Positions of the symbols that a map reads."""
    found: set[int] = set()
    stack = list(m.results)
    while stack:
        e = stack.pop()
        if isinstance(e, ir.AffineSymbolExpr):
            found.add(e.position)
        elif isinstance(e, ir.AffineBinaryExpr):
            stack += [e.lhs, e.rhs]
    return found


def varying(a: Array) -> set[int]:
    """The dimensions along which an array over the space has more than one entry."""
    return {i for i, n in enumerate(a.shape) if n != 1}


@dataclass(frozen=True, eq=False)
class Factor:
    """Scales that multiply a tensor: element i by scales[i / block]."""

    scales: Array  # one for each block, of any dtype
    block: tuple[int, ...]  # extents of a block
    spans: tuple[bool, ...]  # for each axis, whether a block spans it by what is written, whatever its extent is
    # by axis, where each element stands among those whose blocks are counted; itself where there is none.
    places: Mapping[int, Array] = field(default_factory=dict)

    def at(self, index: Sequence[Array]) -> Array:
        """The scales of the elements with these indices, over the space."""
        return _take(self.scales, self._blocks(index))

    def of(self, shape: Sequence[int]) -> Array:
        """The scale of each element of a tensor."""
        return self.scales[np.ix_(*self._blocks([np.arange(n) for n in shape]))]

    def _blocks(self, index: Sequence[Array]) -> list[Array]:
        placed = [self.places[axis][i] if axis in self.places else i for axis, i in enumerate(index)]
        return [i // b for i, b in zip(placed, self.block, strict=True)]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor in memory or a temporary."""

    data: Array  # its elements, of any dtype
    factors: tuple[Factor, ...] = ()  # scales that multiply it, inner level first
    written: Array | None = None  # which elements have a value; None for all
    name: str = "a temporary"  # what messages call it
    # of a temporary, what leaves elements unwritten: indices that may be negative, and ranges.
    skips: tuple[Access | Domain, ...] = ()

    def dense(self) -> NDArray[np.float64]:
        """All elements in float64, scales applied."""
        out = self.data.astype(np.float64)
        for f in self.factors:
            out *= f.of(out.shape).astype(np.float64)
        return out


@dataclass(frozen=True, eq=False)
class Access:
    """A tensor seen through a map whose symbols are themselves accesses to index tensors."""

    tensor: Tensor
    map: ir.AffineMap
    symbols: tuple[Access, ...] = ()
    _last: dict[str, Any] = field(default_factory=dict, repr=False)

    def dims(self) -> set[int]:
        """The dimensions it depends on, through its symbols too."""
        used = [self.symbols[i].dims() for i in symbols_in(self.map)]
        return dims_in(self.map).union(*used)

    def symbol_values(self, space: Space) -> list[Array]:
        """Each symbol over the space."""
        return [s.integers(space) for s in self.symbols]

    def indices(self, space: Space) -> list[Array]:
        """The tensor's index along each of its axes, over the space; may lie outside the tensor."""
        if self._last.get("space") is not space:
            symbols = self.symbol_values(space)
            self._last.update(space=space, indices=[evaluate(e, space, symbols) for e in self.map.results])
        return self._last["indices"]

    def integers(self, space: Space) -> Array:
        """An index tensor's entries over the space; -1 where a symbol of its own is negative or it is not there."""
        index, inside = self._clipped(space)
        ok = inside
        for s in self.symbols:
            ok = ok & (s.integers(space) >= 0)
        if not index:
            return self.tensor.data.astype(np.int64).reshape((1,) * len(space.points))
        return np.where(ok, self.tensor.data[tuple(index)].astype(np.int64), -1)

    def skip_dims(self) -> set[int]:
        """The dimensions that say whether this index is negative."""
        return self.dims()

    def skip_mask(self, space: Space) -> Array:
        """Where this index is negative, over the space."""
        return self.integers(space) < 0

    def _clipped(self, space: Space) -> tuple[list[Array], Array]:
        index, inside = [], np.ones((1,) * len(space.points), bool)
        for i, n in zip(self.indices(space), self.tensor.data.shape, strict=True):
            if n == 0 or i.size == 0:
                inside = inside & np.zeros(i.shape, bool)
                index.append(np.zeros(i.shape, np.int64))
                continue
            if i.min() < 0 or i.max() >= n:
                inside = inside & (i >= 0) & (i < n)
                i = np.clip(i, 0, n - 1)
            index.append(i)
        return index, inside

    def skipped(self, space: Space) -> list[Array]:
        """For each symbol that the map uses: where it is negative, over the space."""
        return [self.symbols[i].integers(space) < 0 for i in symbols_in(self.map)]

    def skipped_along(self) -> list[set[int]]:
        """Likewise the dimensions that say where."""
        return [self.symbols[i].dims() for i in symbols_in(self.map)]

    def behind(self, space: Space) -> Array:
        """Where an index that is counted from one read from memory, as t - lo[q], lies behind the tensor."""
        found = np.zeros((1,) * len(space.points), bool)
        for e, i, n in zip(self.map.results, self.indices(space), self.tensor.data.shape, strict=True):
            own = ir.AffineMap.get(self.map.n_dims, self.map.n_symbols, [e])
            found = found | (i >= n) if dims_in(own) and symbols_in(own) else found
        return found

    def missing(self, space: Space) -> Array | None:
        """Where the tensor has no value (an unwritten point of a temporary), over the space; None for nowhere."""
        if self.tensor.written is None:
            return None
        index, _ = self._clipped(space)
        return ~self.tensor.written[tuple(index)] if index else ~self.tensor.written.reshape((1,) * len(space.points))

    def check(self, space: Space, wanted: Array) -> None:
        """Refuses an index outside the tensor at a point that is `wanted` and not skipped."""
        _, inside = self._clipped(space)
        if inside.all():
            return
        bad = ~inside & wanted
        for s in self.skipped(space):
            bad = bad & ~s
        if bad.any():
            at = np.unravel_index(int(np.argmax(bad)), bad.shape)
            found = [
                int(i[tuple(min(a, n - 1) for a, n in zip(at, i.shape, strict=True))]) for i in self.indices(space)
            ]
            point = [int(p[a]) for p, a in zip(space.points, at, strict=True)]
            raise ScalecError(
                f"{self.tensor.name} is read outside its bounds",
                got=f"index {found} at the point {point} of the iteration space",
                expected=f"an index inside {list(self.tensor.data.shape)}",
            )

    def factor(self, f: Factor, space: Space) -> Array:
        """One of the tensor's factors over the space."""
        return f.at(self._clipped(space)[0])

    def values(self, space: Space, without: Sequence[Factor] = ()) -> NDArray[np.float64]:
        """The tensor over the space in float64, scales applied but those `without` which it is asked for; 0 where it is
        skipped, missing or outside."""
        index, inside = self._clipped(space)
        rank = len(space.points)
        if not index:
            out = np.asarray(self.tensor.data, np.float64).reshape((1,) * rank)
        elif 0 in self.tensor.data.shape:
            return np.zeros(np.broadcast_shapes(*(i.shape for i in index)))
        else:
            out = _take(self.tensor.data, index).astype(np.float64)
            for f in self.tensor.factors:
                if f not in without:
                    out *= f.at(index).astype(np.float64)
        bad = [s for s in self.skipped(space) if s.any()]
        missing = self.missing(space)
        if missing is not None and missing.any():
            bad.append(missing)
        if not inside.all():
            bad.append(~inside)
        for b in bad:
            out = np.where(b, 0.0, out)
        return out


def _take(data: Array, index: Sequence[Array]) -> Array:
    """data[index] over the space: a chain of slices and takes where each axis follows a dimension of its own."""
    owners = [varying(i) for i in index]
    taken = [d for o in owners for d in o]
    if len(set(taken)) < len(taken) or any(len(o) > 1 for o in owners):
        return data[tuple(index)]
    for axis, i in enumerate(index):
        v = i.ravel()
        run = len(v) == 0 or bool((np.diff(v) == 1).all())
        start = int(v[0]) if len(v) else 0
        cut = (slice(None),) * axis + (slice(start, start + len(v)),)
        data = data[cut] if run else np.take(data, v, axis=axis)
    order = sorted(range(len(index)), key=lambda a: (min(owners[a], default=-1), a))
    shape = np.broadcast_shapes(*(i.shape for i in index))
    return data.transpose(order).reshape(shape)


@dataclass(frozen=True, eq=False)
class Domain:
    """The points whose `dim` lies in [lower, upper)."""

    dim: int
    lower: ir.AffineMap
    upper: ir.AffineMap
    symbols: tuple[Access, ...]

    def bound_dims(self) -> set[int]:
        """The dimensions that the bounds depend on."""
        return self._dims(self.lower) | self._dims(self.upper)

    def tied_dims(self) -> set[int]:
        """The dimensions that both bounds depend on: of g, in `m in off[g]:off[g+1]`, each m has one."""
        return self._dims(self.lower) & self._dims(self.upper)

    def _dims(self, bound: ir.AffineMap) -> set[int]:
        return dims_in(bound).union(*(self.symbols[i].dims() for i in symbols_in(bound)))

    def bounds(self, space: Space) -> tuple[Array, Array]:
        symbols = [s.integers(space) for s in self.symbols]
        return evaluate(self.lower.results[0], space, symbols), evaluate(self.upper.results[0], space, symbols)

    def skip_dims(self) -> set[int]:
        """The dimension that it leaves points of out."""
        return {self.dim}

    def skip_mask(self, space: Space) -> Array:
        """Which points are outside, over the space."""
        return ~self.mask(space)

    def mask(self, space: Space) -> Array:
        """Which points are inside, over the space."""
        lower, upper = self.bounds(space)
        at = space.axis(self.dim)
        return (at >= lower) & (at < upper)


def regions(space: Space, domains: Sequence[Domain], kept: set[int]) -> Iterator[tuple[Space, list[Domain]]]:
    """Boxes that together hold every point inside the domains, each with the domains still to be masked there.

    A domain over dimensions that are all `kept` (they are the result's) is a mask. Any other, such as
    `for m in off[g]:off[g+1]` of a result without g, is cut out: one box for each g, m within the bounds. A domain
    whose bounds are constant in the box is always cut out.
    """
    for position, d in enumerate(domains):
        free = sorted(f for f in d.bound_dims() if space.size(f) > 1)
        rest = [*domains[:position], *domains[position + 1 :]]
        if not free:
            lower, upper = (int(b.ravel()[0]) if b.size else 0 for b in d.bounds(space))
            points = space.points[d.dim]
            yield from regions(space.with_points(d.dim, points[(points >= lower) & (points < upper)]), rest, kept)
            return
        if d.dim not in kept or not set(free) <= kept:
            for p in space.points[free[0]]:
                yield from regions(space.with_points(free[0], np.array([p])), domains, kept)
            return
    yield space, list(domains)


def point_mask(accesses: Sequence[Access], masked: Sequence[Domain], space: Space, kept: set[int]) -> Array:
    """Which points are inside the domains and have a value to read, over the space, check of bounds included."""
    mask = np.ones((1,) * len(space.points), bool)
    for d in masked:
        mask = mask & d.mask(space)
    for a in accesses:
        a.check(space, mask)
        for s, dims in zip(a.skipped(space), a.skipped_along(), strict=True):
            if dims <= kept:
                mask = mask & ~s
        missing = a.missing(space)
        if missing is not None:
            mask = mask & ~missing.all(axis=tuple(varying(missing) - kept), keepdims=True)
    return mask
