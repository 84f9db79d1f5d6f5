"""The index tensors that steps of gradients read and a program does not (scalec.gradients.MadeIndex), made by torch."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from scalec.frontend import affine
from scalec.gradients.steps import SIGNS, MadeIndex, Points
from scalec.layouts import inverse, offsets_of, places


def made(
    index: MadeIndex, known: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], most: Mapping[str, int]
) -> Any:
    """An index tensor, of i32, on the device of what is `known`: tensors by name.

    Args:
        index: what it is.
        known: the index tensors that it is made of, and any other.
        shapes: of inputs and results.
        most: by index tensor, how often it names one row at most.
    """
    import torch

    device = next(v.device for v in known.values() if hasattr(v, "device"))
    if index.kind == "seed":
        return torch.randint(-(2**31), 2**31, (index.block,), device=device).int()
    rows, (tensor, axis) = shapes[index.of][index.axis], index.along
    if index.points is not None:
        return _at_points(index, index.points, known, shapes, most, device)
    if index.kind == "signs":
        signs = torch.tensor(SIGNS, dtype=torch.bfloat16, device=device)
        return signs.repeat(-(-rows // len(SIGNS)))[:rows]
    if index.kind == "count":
        return torch.arange(rows, dtype=torch.int32, device=device)
    if index.kind == "inverse":
        return inverse(known[index.source], rows, most[index.source])
    if index.kind == "places":
        return places(rows, shapes[tensor][axis], index.block, index.modulus, device=device)
    return offsets_of(known[index.source], rows, index.block, shapes[tensor][axis])


def _at_points(
    index: MadeIndex,
    p: Points,
    known: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    most: Mapping[str, int],
    device: Any,
) -> Any:
    """Of all points, in their order, the element that each reads; and from there back."""
    import torch

    sizes = {d: shapes[tensor][axis] for d, (tensor, axis) in zip(p.dims, p.along, strict=True)}
    rows, counts = [shapes[index.of][a] for a in p.axes], [sizes[d] for d in p.own]
    along = {d: torch.arange(sizes[d], device=device).reshape([-1 if x == d else 1 for x in p.own]) for d in p.own}
    if index.kind == "computed":
        (at,) = (_value(i, along, sizes, known) for i in p.index)
        return torch.where((at >= 0) & (at < rows[0]), at, -1).int().contiguous()
    element, there = 0, True
    for i, count in zip(p.index, rows, strict=True):
        at = _value(i, along, sizes, known)
        element, there = element * count + at, there & (at >= 0)
    element = torch.where(there, element, -1).expand(counts).reshape(-1)  # pyright: ignore[reportArgumentType, reportCallIssue]
    times = (
        most[index.tensors[0]] if index.tensors else p.times * (max(-(-prod(counts) // p.period), 1) if p.period else 1)
    )
    found = inverse(element.int(), prod(rows), times)
    own = found // prod(counts[p.own.index(p.dim) + 1 :]) % max(sizes[p.dim], 1)
    return torch.where(found < 0, -1, own).int().reshape(*rows, times)


def _value(i: affine.Linear, along: Mapping[str, Any], sizes: Mapping[str, int], known: Mapping[str, Any]) -> Any:
    """An index at all points."""
    total: Any = i.constant
    for x, factor in i.terms:
        if isinstance(x, affine.Dim):
            value = along[x.name]
        elif isinstance(x, affine.Size):
            value = sizes[x.name]
        elif isinstance(x, affine.Symbol):
            value = known[x.tensor][tuple(_value(j, along, sizes, known) for j in x.index)].long()
        else:
            value = _value(x.value, along, sizes, known)
            if isinstance(x, affine.Remainder):
                value = value % x.divisor
            else:
                value = -(-value // x.divisor) if x.ceiling else value // x.divisor
        total = total + factor * value
    return total
