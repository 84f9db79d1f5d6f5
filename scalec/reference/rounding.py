"""Ops whose results are rounded: in blocks with scales, and by chance. `run` is the evaluation (evaluate.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalec.formats import WHOLE, Granularity
from scalec.ir.mlir import ir
from scalec.reference.bind import granularity_of
from scalec.reference.body import element_name
from scalec.reference.packing import to_layout
from scalec.reference.quantize import (
    block_amax,
    block_shape,
    cast_by_chance,
    placed,
    quantize,
    quantize_given,
    scale_shape,
    taken,
)
from scalec.reference.space import Tensor
from scalec.reference.stochastic import random_bits

Array = NDArray[Any]


def quantize_op(run: Any, op: ir.OpView) -> None:
    """Values and scales of blocks."""
    g = granularity_of(op.granularity)
    source = run.values[op.input]
    x, written = source.dense(), source.written
    if written is not None:
        x = np.where(written, x, 0.0)
    if any(use.owner.name == "scale.dequantize" for use in op.values.uses):
        _quantize_operand(run, op, x, g)
        return
    places = run.places_of(op, op.values, g, x.shape)
    run.quantized.append((op.values, op.scales, g, places))
    outer = [run.values[v].dense().item() for v in op.outer]
    element = element_name(op.values.type.element_type)
    bits = _bits(run, op, x.shape)
    block, has_value = block_shape(g, x.shape), np.ones(x.shape, bool) if written is None else written
    spanned = [axis for axis, b in enumerate(g.block) if b == WHOLE]
    if not x.size and x.shape != (full := tuple(n or int(b == WHOLE) for b, n in zip(block, x.shape, strict=True))):
        has_value = run.reached(op.input, full, spanned)  # a row without elements has a scale where it is written
    elif spanned:
        has_value = run.reached(op.input, x.shape, spanned)  # what is left out of a block of all of an index
    x, bits = placed(x, places), None if bits is None else placed(bits, places)
    given = [run.values[v].dense().reshape(scale_shape(block, x.shape)) for v in op.largest]
    q = (
        quantize_given(x, element, g, outer[0] if outer else None, bits, *given)
        if outer or given
        else quantize(x, element, [g], bits=bits)
    )
    scale_written = None if has_value.all() and not places else block_amax(placed(has_value, places), block) > 0
    run.values[op.values] = Tensor(taken(q.exact if run.exact else q.values, places), written=written)
    if run.exact:
        run.values[op.scales] = Tensor(q.scales[0].astype(np.float64), written=scale_written)
    elif g.layout in ("row", "col"):
        run.values[op.scales] = Tensor(to_layout(q.scales[0], g.layout), written=scale_written)
    else:
        run.values[op.scales] = Tensor(to_layout(q.scales[0], g.layout))


def _bits(run: Any, op: ir.OpView, shape: Sequence[int]) -> Array | None:
    """The random bits of a result's elements, None where they are rounded to nearest."""
    words = [int(run.values[v].integers(run.space(set())).item()) for v in op.words]
    return random_bits(shape, words) if words else None


def round_op(run: Any, op: ir.OpView) -> None:
    """A result without scales that is rounded by chance."""
    x, written = run.values[op.input].dense(), run.values[op.input].written
    made = x if run.exact else cast_by_chance(x, element_name(op.result.type.element_type), _bits(run, op, x.shape))
    run.values[op.result] = Tensor(made, written=written)


def hadamard_op(run: Any, op: ir.OpView) -> None:
    """A result's elements, 16 along the last index together; what is not there counts as 0."""
    source = run.values[op.input]
    x, written = source.dense(), source.written
    if written is not None:
        x = np.where(written, x, 0.0)
    run.values[op.result] = Tensor(transformed(x), written=written)


def transformed(x: Array) -> Array:
    """H/4 times each 16 along the last index, in f32 and in the order of docs/language.md, as float64."""
    n = x.shape[-1]
    padded = np.zeros((*x.shape[:-1], -(-n // 16) * 16), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        padded[..., :n] = x
        for apart in (1, 2, 4, 8):
            pairs = padded.reshape(*x.shape[:-1], padded.shape[-1] // (2 * apart), 2, apart)
            a, b = pairs[..., 0, :], pairs[..., 1, :]
            padded = np.stack([a + b, a - b], axis=-2).reshape(padded.shape)
    return (padded[..., :n] * np.float32(0.25)).astype(np.float64)


def _quantize_operand(run: Any, op: ir.OpView, x: Array, g: Granularity) -> None:
    """Likewise of an operand: of its values in f32, and part of the program, so that what is exact has it too."""
    with np.errstate(over="ignore"):
        q = quantize(x.astype(np.float32), element_name(op.values.type.element_type), [g])
    run.values[op.values], run.values[op.scales] = Tensor(q.values), Tensor(to_layout(q.scales[0], g.layout))


OPS = {"scale.quantize": quantize_op, "scale.round": round_op, "scale.hadamard": hadamard_op}
