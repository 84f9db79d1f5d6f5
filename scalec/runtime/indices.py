"""What index tensors hold, checked before a launch: a tool to find mistakes with, as it waits for the device.

A kernel writes nothing outside its results whatever it reads; but an index beyond its tensor, offsets that fall, or two
rows scattered to one place are mistakes of the caller, whose results mean nothing. Negative indices are none: they are
skipped. Entries that no point reaches may be anything, as those behind the last group are.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalec.abi import TensorSpec
from scalec.errors import ArgumentError
from scalec.reads import Coord, Domain, Entry, Lookup, Reads
from scalec.runtime.device import Device
from scalec.runtime.extents import Called
from scalec.runtime.form import Form

Array = NDArray[Any]


def check(spec: Called, dims: Mapping[str, int], held: Mapping[str, Array]) -> None:
    """Refuses index tensors that say what cannot be.

    Args:
        dims: the size of each dimension.
        held: the index tensors by name.

    Raises:
        ArgumentError: with the tensor, the position and the value.
    """
    tensors = {t.name: t for t in (*spec.operands, *spec.results)}
    results = {t.name for t in spec.results}
    written = {dim for t in spec.results for e in t.shape for dim in e.names}
    written |= {dim for reads in spec.reads for x in reads.lookups if x.tensor in results for dim in x.entry.dims}
    for reads in spec.reads:
        for domain in reads.domains:
            _check_bounds(domain, dims, held)
        for lookup in reads.lookups:
            _Reached(reads, lookup.entry, dims, held, written).check(lookup, tensors[lookup.tensor])


def held(device: Device, address: int, form: Form, stream: int) -> Array | None:
    """What an index tensor holds; None where its stream is being captured into a graph, and nobody can read it."""
    if not form.span:
        return np.zeros(form.shape, np.int32)
    raw = device.read(address, form.span, stream)
    if raw is None:
        return None
    steps = tuple(4 * step for step in form.strides)
    return np.lib.stride_tricks.as_strided(np.frombuffer(raw, np.int32), form.shape, steps)


def _at(tensor: str, position: Any) -> str:
    return f"{tensor}[{', '.join(str(int(i)) for i in position)}]"


def _first(wrong: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))


def _check_bounds(domain: Domain, dims: Mapping[str, int], held: Mapping[str, Array]) -> None:
    """Refuses bounds beyond the dimension, and offsets that fall or begin below 0."""
    size, axis = dims[domain.dim], domain.rises
    for name in dict.fromkeys(bound.tensor for bound in domain.bounds):
        values = held[name].astype(np.int64)
        whole = f"0 to {size}, the size of {domain.dim}"
        if (values > size).any():
            at = _first(values > size)
            raise ArgumentError(
                f"{_at(name, at)} = {values[at]} is beyond {domain.dim} = {size}",
                expected=whole,
                fix=f"clamp {name} to {size}, or pass tensors with more {domain.dim}",
            )
        broken = (values % domain.step != 0) & (values != size)
        if broken.any():
            at = _first(broken)
            raise ArgumentError(
                f"{_at(name, at)} = {values[at]} is no multiple of {domain.step}",
                expected=f"what the program promises of the range of {domain.dim}: by {domain.step}",
                fix=f"leave `by {domain.step}` out, where that does not hold",
            )
        if axis is None:
            continue
        if (values < 0).any():
            at = _first(values < 0)
            fix = f"make {name} of lengths: 0, then their cumulative sum"
            raise ArgumentError(f"{_at(name, at)} = {values[at]} is no offset", expected=whole, fix=fix)
        falls = np.diff(values, axis=axis) < 0
        if falls.any():
            before = _first(falls)
            at = tuple(i + (a == axis) for a, i in enumerate(before))
            raise ArgumentError(
                f"{_at(name, at)} = {values[at]} falls below {_at(name, before)} = {values[before]}",
                expected="offsets of groups that follow one another: none less than the one before",
                fix="an empty group has the offset of the next one",
            )


def _index(coord: Coord, points: Mapping[str, Array | int]) -> Array | int:
    value = (points[coord.dim] + coord.offset if coord.dim else coord.offset) // coord.divisor
    return value % coord.modulus if coord.modulus else value


def _value(entry: Entry, points: Mapping[str, Array | int], held: Mapping[str, Array]) -> Array:
    """An entry at points, -1 where its tensor ends before."""
    tensor = held[entry.tensor]
    index = [np.asarray(_index(c, points)) for c in entry.coords]
    inside = reduce(np.logical_and, [(i >= 0) & (i < n) for i, n in zip(index, tensor.shape, strict=True)], np.True_)
    if 0 in tensor.shape:
        return np.full(np.broadcast_shapes(*(i.shape for i in index)), -1)
    clipped = tuple(np.clip(i, 0, n - 1) for i, n in zip(index, tensor.shape, strict=True))
    return np.where(inside, tensor[clipped].astype(np.int64), -1)


@dataclass
class _Reached:
    """Which entries of an index tensor the points of a result reach; `written` are the dimensions that results have,
    and not those of sums alone: an empty range of these is a sum of nothing, and is written."""

    reads: Reads
    entry: Entry
    dims: Mapping[str, int]
    held: Mapping[str, Array]
    written: Set[str]

    def _reached(self) -> Array:
        tensor = self.held[self.entry.tensor]
        along = sorted(self.entry.dims)
        domains = [d for d in self.reads.domains if d.dim in self.entry.dims]
        beside = [d for d in self.reads.domains if d.dim not in self.entry.dims and d.dim in self.written]
        others = {x.entry for x in self.reads.lookups if x.entry != self.entry and x.entry.dims <= self.entry.dims}
        if not domains and not beside and not others:
            return np.ones(tensor.shape, bool)
        points: dict[str, Array | int] = {
            dim: np.arange(self.dims[dim]).reshape([-1 if d == dim else 1 for d in along]) for dim in along
        }
        inside = np.zeros([self.dims[dim] for dim in along], bool)
        free = sorted(frozenset().union(*(d.dims for d in (*domains, *beside))) - self.entry.dims)
        for at in product(*(range(self.dims[dim]) for dim in free)):
            here = {**points, **dict(zip(free, at, strict=True))}
            some = [*(self._within(d, here) for d in domains), *(self._any(d, here) for d in beside)]
            inside |= reduce(np.logical_and, some, np.True_)
        for other in others:
            inside &= _value(other, points, self.held) >= 0
        reached = np.zeros(tensor.shape, bool)
        index = [np.broadcast_to(_index(c, points), inside.shape)[inside] for c in self.entry.coords]
        known = reduce(np.logical_and, [(i >= 0) & (i < n) for i, n in zip(index, tensor.shape, strict=True)], np.True_)
        reached[tuple(i[known] for i in index)] = True
        return reached

    def _ends(self, domain: Domain, points: Mapping[str, Array | int]) -> tuple[Array, Array]:
        low, high = (
            _value(x, points, self.held) if isinstance(x, Entry) else np.asarray(x) for x in (domain.low, domain.high)
        )
        return low, high

    def _within(self, domain: Domain, points: Mapping[str, Array | int]) -> Array:
        low, high = self._ends(domain, points)
        return np.asarray((points[domain.dim] >= low) & (points[domain.dim] < high))

    def _any(self, domain: Domain, points: Mapping[str, Array | int]) -> Array:
        """Whether the range is not empty."""
        low, high = self._ends(domain, points)
        return np.asarray(np.maximum(low, 0) < np.minimum(high, self.dims[domain.dim]))

    def check(self, lookup: Lookup, t: TensorSpec) -> None:
        """Refuses an index beyond its extent, or one that is there twice where it must not be."""
        name, values = self.entry.tensor, self.held[self.entry.tensor].astype(np.int64)
        reached = self._reached()
        extent, e = t.shape[lookup.axis].value(self.dims), t.shape[lookup.axis]
        wrong = reached & (values >= extent)
        if wrong.any():
            at = _first(wrong)
            raise ArgumentError(
                f"{_at(name, at)} = {values[at]} is no index of {t.name}, which has {extent} ({e})",
                expected=(f"0 to {extent - 1}, or -1" if extent else "-1") + ", which is skipped",
                fix=f"correct {name}, or pass {t.name} with more rows",
            )
        if lookup.once is None:
            return
        # one row of `groups` for each group within which all entries must differ
        rest = [axis for axis in range(values.ndim) if axis not in lookup.once]
        order = (*lookup.once, *rest)
        count = prod(values.shape[axis] for axis in lookup.once)
        flat, used = (x.transpose(order).reshape(-1) for x in (values, reached & (values >= 0)))
        group = np.repeat(np.arange(count), flat.size // max(count, 1))
        places = np.flatnonzero(used)
        keys = (group * (extent + 1) + np.where(used, flat, 0))[places]
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        again = np.flatnonzero(first[inverse] != np.arange(len(keys)))
        if not len(again):
            return
        shape = tuple(values.shape[axis] for axis in order)

        def position(i: int) -> tuple[int, ...]:
            there = np.unravel_index(int(places[i]), shape)
            return tuple(int(there[order.index(axis)]) for axis in range(values.ndim))

        one, other = position(int(first[inverse][again[0]])), position(int(again[0]))
        raise ArgumentError(
            f"{_at(name, one)} and {_at(name, other)} are both {values[one]}: {t.name} would be written there twice",
            expected="each index once, or -1, which is skipped",
            fix=f"add them up: {t.name}[{name}[...]] = sum[...](...) of a gather, or give all but one -1",
        )
