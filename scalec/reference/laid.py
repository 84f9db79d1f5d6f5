"""Scales that a program copies from one layout to another. `run` is the evaluation (evaluate.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from scalec.errors import ArgumentError
from scalec.formats import Granularity
from scalec.ir.mlir import ir
from scalec.ir.scale import maps_of
from scalec.reference.bind import granularity_of
from scalec.reference.packing import from_layout, numpy_dtype, to_layout
from scalec.reference.space import Tensor

Array = NDArray[Any]


def lay_op(run: Any, op: ir.OpView) -> None:
    """A result of scales; with `exact` one number for each, in rows."""
    source, target = ([e.position for e in m.results] for m in maps_of(op.maps))
    one, other = map(granularity_of, op.kinds)
    shape = tuple(run.sizes[d] for d in source)
    if unknown := [run.names[d] for d, n in zip(source, shape, strict=True) if n is None]:
        raise ArgumentError(
            f"nothing tells {unknown[0]}: {one.layout} scales are padded along it", expected=f"{unknown[0]} in dims"
        )
    x = from_layout(run.values[op.input].data, one.layout, shape, one.type).transpose([*map(source.index, target)])
    made = x if one.type == other.type else exactly(x.astype(np.float64), other)
    run.values[op.result] = Tensor(made.astype(np.float64) if run.exact else to_layout(made, other.layout))


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
