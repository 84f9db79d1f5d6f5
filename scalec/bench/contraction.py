"""The plain contraction that a kernel is, its reference in float32 on dequantised inputs, and the error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalec.abi import KernelSpec, TensorSpec

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Contraction:
    """A program that is C[m,n] = A[m,k]@B[n,k], or += , with or without scales, and nothing else.

    Attributes:
        a, b: the operands' names.
        shapes: theirs, at the sizes measured.
        blocks: extents that share a scale, for A and B; None without scales.
        accumulates: whether the kernel adds to its result.
    """

    a: str
    b: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    blocks: tuple[tuple[int, ...], tuple[int, ...]] | None
    accumulates: bool = False


def contraction(spec: KernelSpec, dims: dict[str, int]) -> Contraction | None:
    """The plain contraction that the kernel is, or None where it is more than that."""
    tensors = {t.name: t for t in spec.operands}
    data = [t for t in spec.operands if not _is_scale(t, tensors)]
    if len(data) != 2 or len(spec.results) != 1 or any(t.scalar for t in spec.operands):
        return None
    a, b = data
    axes = [[e.dim for e in t.shape] for t in (a, b, spec.results[0])]
    if any(len(x) != 2 for x in axes) or axes[2] != [axes[0][0], axes[1][0]] or axes[0][1] != axes[1][1]:
        return None
    scales = [tensors.get(f"{t.name}_scale") for t in data]
    shapes, accumulates = (shape_of(a, dims), shape_of(b, dims)), spec.results[0].inout
    if scales == [None, None]:
        plain = len(spec.operands) == 2
        return Contraction(a.name, b.name, shapes, None, accumulates) if plain else None
    if scales[0] is None or scales[1] is None or len(spec.operands) != 4:
        return None
    blocks = block_of(a, scales[0], dims), block_of(b, scales[1], dims)
    return Contraction(a.name, b.name, shapes, blocks, accumulates)


def _is_scale(t: TensorSpec, tensors: dict[str, TensorSpec]) -> bool:
    return t.name.endswith("_scale") and t.name.removesuffix("_scale") in tensors


def shape_of(t: TensorSpec, dims: dict[str, int]) -> tuple[int, ...]:
    """The tensor's shape at these sizes."""
    return tuple(e.value(dims) for e in t.shape)


def block_of(t: TensorSpec, scale: TensorSpec, dims: dict[str, int]) -> tuple[int, ...]:
    """The extents of `t` that share one of its scales; a scale of another rank is one for the whole tensor."""
    whole = shape_of(t, dims)
    if len(scale.shape) != len(t.shape):
        return whole
    return tuple(e.divisor if e.dim else extent for e, extent in zip(scale.shape, whole, strict=True))


def expand(scales: torch.Tensor, block: tuple[int, ...], shape: tuple[int, ...]) -> torch.Tensor:
    """Scales, one a block, repeated to the shape of what they scale."""
    scales = scales.reshape(tuple(-(-s // b) for s, b in zip(shape, block, strict=True)))
    for axis, (b, extent) in enumerate(zip(block, shape, strict=True)):
        scales = scales.repeat_interleave(b, axis).narrow(axis, 0, extent)
    return scales


def reference(what: Contraction, values: Mapping[str, Any]) -> torch.Tensor:
    """The product in float32 (no TF32) on dequantised operands, given by name, without what the kernel adds it to."""
    import torch

    a, b = (values[name].float() for name in (what.a, what.b))
    if what.blocks is not None:
        a *= expand(values[f"{what.a}_scale"], what.blocks[0], tuple(a.shape))
        b *= expand(values[f"{what.b}_scale"], what.blocks[1], tuple(b.shape))
    allowed, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
    try:
        return a @ b.t()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed


def diff(x: torch.Tensor, y: torch.Tensor) -> float:
    """1 - 2<x,y> / (|x|^2 + |y|^2), in float64."""
    x, y = x.double(), y.double()
    return float(((x - y) ** 2).sum() / (x * x + y * y).sum())
