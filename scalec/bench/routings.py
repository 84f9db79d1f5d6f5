"""Index tensors for timing: how the rows, or the K, of a call are dealt out to groups.

What a kernel takes depends on that. So a program whose ranges or groups are read from memory is timed with each of
ROUTINGS, whose times `combined` makes one:

    balanced   each group has about as many, times 0.7 to 1.3, as the cost model assumes
    zipf       as 1/rank, the groups in a shuffled order
    one-hot    one group has everything

How many there are in all: the whole dimension, or, where the program says `about 20`, 20 for each group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from statistics import geometric_mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalec.abi import KernelSpec
from scalec.reads import Domain, Entry, Lookup

Array = NDArray[Any]

UNEVEN = (0.7, 1.3)
"""How many times the mean a group of `balanced` has, from and to: what DeepGEMM's tests draw from."""


ROUTINGS: dict[str, Callable[[int, np.random.Generator], Array]] = {
    "balanced": lambda count, rng: rng.uniform(*UNEVEN, count),
    "zipf": lambda count, rng: 1 / (1 + rng.permutation(count)),
    "one-hot": lambda count, rng: (np.arange(count) == rng.integers(count)).astype(float),
}
"""What each of so many groups gets of the whole, up to a factor."""

ANY = ("",)
"""The routings of a program that has no groups."""


def routings(spec: KernelSpec) -> tuple[str, ...]:
    domains = any(d.bounds for reads in spec.reads for d in reads.domains)
    return tuple(ROUTINGS) if domains or any(_dealt(x) for x in _lookups(spec)) else ANY


def combined(times: Sequence[float]) -> float:
    """What counts of a launch's times with each routing: their geometric mean, in which each weighs the same."""
    return geometric_mean(times) if len(times) > 1 else times[0]


def index_tensors(spec: KernelSpec, dims: Mapping[str, int], routing: str, seed: int) -> dict[str, Array]:
    """The index tensors that the kernel reads, int32 and valid, by name.

    The same arguments give the same tensors, and all tensors of a call agree on which group has how much.

    Args:
        dims: a size for every dimension.
        routing: a name of ROUTINGS; another one is the first.
    """
    shapes = {t.name: tuple(e.value(dims) for e in t.shape) for t in spec.operands}
    deal = ROUTINGS.get(routing, ROUTINGS["balanced"])

    def shares(count: int) -> Array:
        return deal(count, np.random.default_rng([seed, count]))

    made: dict[str, Array] = {}
    for domain in (d for reads in spec.reads for d in reads.domains):
        for name, values in _bounds(domain, dims[domain.dim], shapes, shares).items():
            made.setdefault(name, values.astype(np.int32))
    for lookup in _lookups(spec):
        name, extent = lookup.entry.tensor, _extent(lookup, spec, dims)
        if name not in made and _dealt(lookup):
            made[name] = _groups(lookup.entry, shapes[name], extent, shares).astype(np.int32)
        elif name not in made:
            made[name] = _rows(lookup, shapes[name], extent, np.random.default_rng([seed, len(made)])).astype(np.int32)
    return made


def _lookups(spec: KernelSpec) -> list[Lookup]:
    """Those of each tensor once; first those of results, whose entries may not be the same."""
    found = [x for reads in spec.reads for x in reads.lookups]
    return sorted(dict.fromkeys(found), key=lambda x: x.once is None)


def _dealt(lookup: Lookup) -> bool:
    """Whether it says which group a block of rows is of."""
    return any(c.divisor > 1 for c in lookup.entry.coords)


def _extent(lookup: Lookup, spec: KernelSpec, dims: Mapping[str, int]) -> int:
    """How many indices there are: of all tensors that are read or written at it, the fewest."""
    tensors = {t.name: t for t in (*spec.operands, *spec.results)}
    return min(tensors[x.tensor].shape[x.axis].value(dims) for x in _lookups(spec) if x.entry == lookup.entry)


def _bounds(
    domain: Domain, size: int, shapes: Mapping[str, tuple[int, ...]], shares: Callable[[int], Array]
) -> dict[str, Array]:
    """What holds the bounds of a range: offsets, or ends and beginnings."""
    low, high, axis = domain.low, domain.high, domain.rises
    if axis is not None and isinstance(low, Entry):
        shape = shapes[low.tensor]
        count = max(shape[axis] - 1, 0)
        total = min(size, domain.about * count) if domain.about else size
        ends = np.concatenate([[0], np.cumsum(_lengths(shares(count), total, domain.step, size))])
        places = [1] * len(shape)
        places[axis] = count + 1
        return {low.tensor: np.broadcast_to(ends[: shape[axis]].reshape(places), shape)}
    made: dict[str, Array] = {}
    first = low if isinstance(low, int) else 0
    if isinstance(low, Entry):
        made[low.tensor] = np.zeros(shapes[low.tensor])
    if isinstance(high, Entry):
        shape, most = shapes[high.tensor], max(size - first, 0)
        count = prod(shape)
        total = count * min(domain.about or most, most)
        made[high.tensor] = first + _lengths(shares(count), total, domain.step, most, apart=True).reshape(shape)
    return made


def _lengths(shares: Array, total: int, step: int, most: int, *, apart: bool = False) -> Array:
    """How many indices each group has: `total` in all, in multiples of `step` apart from an end at `most`. Where groups
    lie apart, each has room for `most`, and what has none is left out."""
    if not len(shares):
        return np.zeros(0, np.int64)
    ends = np.concatenate([[0.0], np.cumsum(shares / shares.sum())]) * total
    if apart:
        return np.minimum(np.rint(np.diff(ends) / step).astype(np.int64) * step, most)
    whole = np.rint(ends / step).astype(np.int64) * step
    last = most if total == most else total // step * step
    whole = np.minimum(whole, last)
    whole[ends >= total * (1 - 1e-9)] = last
    return np.diff(whole)


def _groups(entry: Entry, shape: tuple[int, ...], extent: int, shares: Callable[[int], Array]) -> Array:
    """The group of each block, one group's blocks behind the other's."""
    axis = next(i for i, c in enumerate(entry.coords) if c.divisor > 1)
    if not extent:
        return np.full(shape, -1)
    blocks = np.repeat(np.arange(extent), _lengths(shares(extent), shape[axis], 1, shape[axis]))
    places = [1] * len(shape)
    places[axis] = shape[axis]
    return np.broadcast_to(blocks.reshape(places), shape)


def _rows(lookup: Lookup, shape: tuple[int, ...], extent: int, rng: np.random.Generator) -> Array:
    """Rows in a shuffled order: of a result each once, where the others are skipped; of others as often as it takes."""
    apart = lookup.once or ()
    rest = [axis for axis in range(len(shape)) if axis not in apart]
    count, each = prod(shape[axis] for axis in apart), prod(shape[axis] for axis in rest)
    made = np.full((count, each), -1)
    for rows in made:
        for start in range(0, each if extent else 0, max(extent, 1)):
            some = rows[start : start + extent]
            some[:] = rng.permutation(extent)[: len(some)]
            if lookup.once is not None:
                break
    order = (*apart, *rest)
    return made.reshape([shape[axis] for axis in order]).transpose(np.argsort(order))
