"""Scales that a program copies from one layout to another. `run` is the evaluation (evaluate.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from scalec.errors import ArgumentError
from scalec.formats import Granularity, padded_to
from scalec.ir.mlir import ir
from scalec.ir.scale import maps_of
from scalec.reference.bind import extent_at, granularity_of
from scalec.reference.packing import from_layout, numpy_dtype, to_layout
from scalec.reference.space import Access, Domain, Tensor, point_mask, regions

Array = NDArray[Any]


def lay_op(run: Any, op: ir.OpView) -> None:
    """A result of scales; with `exact` one number for each, in rows. Each point of what they scale copies the scale of
    its block, so that of a block that some of its points have is copied."""
    maps, symbols, domains = maps_of(op.maps), run.symbols(op), run.domains(op)
    one, other = map(granularity_of, op.kinds)
    source, read, count = _end(run, op.input, maps[0], symbols, domains, one)
    target, placed, made = _end(run, op.result, maps[1], symbols, domains, other)
    x = from_layout(run.values[op.input].data, one.layout, count, one.type)
    x = x if one.type == other.type else exactly(x.astype(np.float64), other)
    out, written = np.zeros(made, x.dtype), np.zeros(made, bool)
    kept = source.dims() | target.dims()
    used = kept.union(*({d.dim} | d.bound_dims() for d in domains))
    for box, masked in regions(run.space(used), domains, kept):
        if any(box.size(d) == 0 for d in used):
            continue
        mask = point_mask([source], masked, box, kept)
        target.check(box, mask)
        for skipped in target.skipped(box):
            mask = mask & ~skipped
        every = [*source.indices(box), *target.indices(box), mask]
        *at, chosen = np.broadcast_arrays(*every)
        index = [i[chosen] for i in at]
        begin, end = read(index[: len(count)]), placed(index[len(count) :])
        out[end], written[end] = x[begin], True
    run.laid[op.result] = written
    rows = run.exact or other.layout in ("row", "col")
    laid = out.astype(np.float64) if run.exact else to_layout(out, other.layout)
    run.values[op.result] = Tensor(laid, written=written if rows and not written.all() else None)


def _end(
    run: Any, value: ir.Value, m: ir.AffineMap, symbols: Sequence[Access], domains: Sequence[Domain], g: Granularity
) -> tuple[Access, Callable[[Sequence[Array]], tuple[Array, ...]], tuple[int, ...]]:
    """What is copied from or to: what has the scales, which of them those of some elements are, and how many there are
    along each index."""
    extents, counts, places = list[int](), list[int](), dict[int, Array]()
    told = run.signatures[value].shape.results
    for axis, e in enumerate(m.results):
        dim = e.position if isinstance(e, ir.AffineDimExpr) else None
        size = run.sizes[dim] if dim is not None else extent_at(told[axis], run.sizes)
        if size is None and (shape := run.result_shapes.get(value)) is not None:
            size = shape[axis]  # of what is scattered
        if size is None:
            name = run.names[dim] if dim is not None else f"extent {axis} of {run.signatures[value].name}"
            raise ArgumentError(
                f"nothing tells {name}: {g.layout} scales are padded along it", expected=f"{name} in dims"
            )
        extents.append(size)
        counts.append(size)
        name = None if dim is None else run.names[dim]
        padded = padded_to(g.block, g.layout, axis)
        if padded > 1 and any(run.apart.get(name) is d for d in domains):
            counts[axis], places[axis] = run.places(name, size, padded)

    def of(index: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(
            (places[axis][i] if axis in places else i) // size
            for axis, (i, size) in enumerate(zip(index, g.block, strict=True))
        )

    seen = Access(Tensor(np.broadcast_to(False, extents), name=run.signatures[value].name), m, tuple(symbols))
    return seen, of, tuple(-(-n // size) for n, size in zip(counts, g.block, strict=True))


def kinds(block: ir.Block, names: Mapping[Any, str]) -> dict[str, Granularity]:
    """The type and layout of each such result, by name."""
    found = [op for op in block.operations if op.operation.name == "scale.lay" and op.result in names]
    return {names[op.result]: granularity_of(op.kinds[1]) for op in found}


def exactly(x: Array, g: Granularity) -> Array:
    """Numbers as those of the type of scales, NaN where it has none."""
    if g.type == "f32":
        return x.astype(np.float32)
    if g.type == "ue8m0":
        half, exponent = np.frexp(np.where(np.isfinite(x), x, 0.0))
        power = (half == 0.5) & (exponent > -127) & (exponent <= 128)
        return np.where(power, exponent + 126, 255).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = x.astype(numpy_dtype(g.type))
    kept = (rounded.astype(np.float64) == x) & ~np.signbit(x)
    return np.where(kept, rounded.view(np.uint8), 0x7F).astype(np.uint8).view(numpy_dtype(g.type))


OPS = {"scale.lay": lay_op}
