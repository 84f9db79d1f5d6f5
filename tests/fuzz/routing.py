"""What the index tensors of a text hold: a row for each kind, and each way in which entries are drawn."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.fuzz.weights import Weighted

if TYPE_CHECKING:
    from tests.fuzz.written import Written

Array = Any
Fill = Callable[[np.random.Generator, tuple[int, ...], int, str], Array]
"""Entries of so many, that say where in an extent."""


def _skipped(rng: np.random.Generator, made: Array) -> Array:
    return np.where(rng.random(made.shape) < 0.15, rng.integers(-3, 0, made.shape), made)


def _gather(rng: np.random.Generator, shape: tuple[int, ...], extent: int, how: str) -> Array:
    """Any entries: some twice, some negative."""
    if how == "none" or not extent:
        return np.full(shape, -1)
    if how == "one":
        return np.full(shape, rng.integers(extent))
    if how == "order":
        return np.arange(prod(shape)).reshape(shape) % extent
    made = rng.integers(0, extent, shape)
    return made if how == "whole" else _skipped(rng, made)


def _scatter(rng: np.random.Generator, shape: tuple[int, ...], extent: int, how: str) -> Array:
    """Entries that differ; -1 where there are more than rows."""
    made = np.full(max(prod(shape), extent), -1)
    made[:extent] = np.arange(extent) if how == "order" else rng.permutation(extent)
    made = made[: prod(shape)].reshape(shape)
    if how == "none":
        return np.full(shape, -1)
    return made if how in ("whole", "order") else np.where(rng.random(shape) < 0.15, -2, made)


def _offsets(rng: np.random.Generator, shape: tuple[int, ...], extent: int, how: str) -> Array:
    """Bounds that do not fall: groups of none, of one, of all; from any row to any."""
    count = max(shape[-1] - 1, 0)
    if how == "none" or not count:
        return np.full(shape, int(rng.integers(0, extent + 1)))
    if how == "one":
        cut = int(rng.integers(count))
        return np.broadcast_to(np.where(np.arange(shape[-1]) <= cut, 0, extent), shape)
    if how == "small":
        each = rng.integers(0, min(3, extent // count) + 1, count)
        return np.broadcast_to(np.concatenate([[0], np.cumsum(each)]), shape)
    if how == "order":
        return np.broadcast_to(np.arange(shape[-1]) * extent // count, shape)
    ends = [0, extent] if how == "whole" else np.sort(rng.integers(0, extent + 1, 2))
    cuts = np.sort(rng.integers(ends[0], ends[1] + 1, max(count - 1, 0)))
    return np.broadcast_to(np.concatenate([ends[:1], cuts, ends[1:]]), shape)


def _count(rng: np.random.Generator, shape: tuple[int, ...], extent: int, how: str) -> Array:
    if how == "none":
        return np.zeros(shape)
    if how in ("whole", "one"):
        return np.full(shape, extent if how == "whole" else min(extent, 1))
    if how == "small":
        return rng.integers(0, min(extent, 9) + 1, shape)
    return rng.integers(0, extent + 1, shape)


FILLS: dict[str, Fill] = {
    "gather": _gather,
    "scatter": _scatter,
    "offsets": _offsets,
    "low": lambda rng, shape, extent, how: _count(rng, shape, extent, {"whole": "none", "none": "whole"}.get(how, how)),
    "high": _count,
    "count": _count,
}

ROUTINGS: Weighted = {"drawn": 6, "whole": 2, "order": 1, "one": 1, "small": 2, "none": 1}
"""How entries are drawn."""


def route(case: Written, name: str, sizes: dict[str, int], values: dict[str, Any], rng: np.random.Generator) -> Array:
    """What an index tensor holds."""
    program, shape = case.read, values[name].shape
    kind = program.lookups[name]
    how = case.routing.get(name, "drawn")
    found = next((s.range for s in program.statements
                  if s.range and name in (*s.range.low.split("["), *s.range.high.split("["))), None)  # fmt: skip
    extent = sizes[found.dim] if found else min(
        (sizes[at] for at, of in program.reached.items() if of == name), default=0)  # fmt: skip
    low = values[found.low.split("[")[0]] if found is not None and kind == "high" else np.zeros((), np.int64)
    made = np.asarray(FILLS[kind](rng, shape, extent, how), np.int64)
    made = made if kind != "high" else low + made * (extent - low) // max(extent, 1)
    windows = [s.result.index for s in program.statements if s.range == found]
    if kind == "low" and how == "drawn" and all(any(f"- {name}[" in i for i in index) for index in windows):
        return _skipped(rng, made).astype(np.int32)  # a row of a compressed result that is not written
    if found is not None:
        made = np.where(made == extent, made, made // found.by * found.by)
        made = np.maximum(made, low)
    return made.astype(np.int32)
