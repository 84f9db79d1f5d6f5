"""The plain contraction that a kernel is, its reference in float32 on dequantised inputs, and the error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from scalec.abi import KernelSpec, TensorSpec
from scalec.frontend import ast
from scalec.frontend.diagnostics import Source
from scalec.frontend.parser import parse

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Contraction:
    """A program that is C[m,n] = A[m,k]@B[n,k], or += , with or without scales, and nothing else; A, B and C may have
    further indices, in any order.

    Attributes:
        a, b: the operands' names.
        indices: names of the indices of A, B and C.
        shapes: A's and B's, at the sizes measured.
        blocks: extents that share a scale, for A and B; None without scales.
        accumulates: whether the kernel adds to its result.
    """

    a: str
    b: str
    indices: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    blocks: tuple[tuple[int, ...], tuple[int, ...]] | None
    accumulates: bool = False

    @property
    def dense(self) -> bool:
        """Whether it is C[m,n] = A[m,k]@B[n,k] itself."""
        a, b, c = self.indices
        return len(a) == len(b) == len(c) == 2 and c == (a[0], b[0]) and a[1] == b[1]

    @property
    def batch(self) -> str:
        """The one index that A, B and C all have, where each has three; "" else."""
        shared = set.intersection(*map(set, self.indices))
        return shared.pop() if {len(x) for x in self.indices} == {3} and len(shared) == 1 else ""

    @property
    def equation(self) -> str:
        """As torch.einsum writes it, a letter an index."""
        letters = {name: chr(ord("a") + i) for i, name in enumerate(dict.fromkeys(chain(*self.indices)))}
        a, b, c = ("".join(letters[name] for name in index) for index in self.indices)
        return f"{a},{b}->{c}"


def contraction(spec: KernelSpec, dims: dict[str, int], *, quantised: bool = False) -> Contraction | None:
    """The plain contraction that the kernel is, or None where it is more than that, or has types that torch does not
    convert to float32.

    Args:
        quantised: whether its result has scales, which are a result of their own.
    """
    statements = parse(Source(spec.source, spec.entry)).statements
    if len(statements) != 1 or not isinstance(statements[0].value, ast.Contract):
        return None
    tensors = {t.name: t for t in spec.operands}
    data = [t for t in spec.operands if not _is_scale(t, tensors)]
    if any(t.dtype in ("e2m1", "i4", "u4", "ue8m0", "ue4m3") for t in spec.operands):
        return None
    first, *others = spec.results
    if [t.name for t in others] != [f"{first.name}_scale"] * quantised or any(t.dtype == "ue8m0" for t in others):
        return None
    if len(data) != 2 or any(t.scalar for t in spec.operands):
        return None
    a, b = data
    indices = _index(a), _index(b), _index(first)
    of_a, of_b, of_c = map(set, indices)
    if any(e.divisor != 1 or not e.dim for t in (a, b, first) for e in t.shape):
        return None
    summed = (of_a | of_b) - of_c
    if not summed or summed - (of_a & of_b) or of_c - (of_a | of_b):
        return None
    scales = [tensors.get(f"{t.name}_scale") for t in data]
    shapes, accumulates = (shape_of(a, dims), shape_of(b, dims)), first.inout
    if scales == [None, None]:
        plain = len(spec.operands) == 2
        return Contraction(a.name, b.name, indices, shapes, None, accumulates) if plain else None
    if scales[0] is None or scales[1] is None or len(spec.operands) != 4:
        return None
    blocks = block_of(a, scales[0], dims), block_of(b, scales[1], dims)
    return Contraction(a.name, b.name, indices, shapes, blocks, accumulates)


def _index(t: TensorSpec) -> tuple[str, ...]:
    return tuple(e.dim for e in t.shape)


def _is_scale(t: TensorSpec, tensors: dict[str, TensorSpec]) -> bool:
    return t.name.endswith("_scale") and t.name.removesuffix("_scale") in tensors


def shape_of(t: TensorSpec, dims: dict[str, int]) -> tuple[int, ...]:
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


def dequantised(what: Contraction, values: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """What the operands, given by name, stand for, in float32."""
    a, b = (values[name].float() for name in (what.a, what.b))
    if what.blocks is not None:
        a *= expand(values[f"{what.a}_scale"], what.blocks[0], tuple(a.shape))
        b *= expand(values[f"{what.b}_scale"], what.blocks[1], tuple(b.shape))
    return a, b


def reference(what: Contraction, values: Mapping[str, Any]) -> torch.Tensor:
    """The product in float32 (no TF32) on dequantised operands, given by name, without what the kernel adds it to."""
    import torch

    a, b = dequantised(what, values)
    allowed, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
    try:
        return torch.einsum(what.equation, a, b)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed


def dequantised_result(spec: KernelSpec, dims: dict[str, int], values: torch.Tensor, scales: torch.Tensor) -> Any:
    """What a result with scales stands for, in float32."""
    result, scale = spec.results
    return values.float() * expand(scales.float(), block_of(result, scale, dims), tuple(values.shape))


def diff(x: torch.Tensor, y: torch.Tensor) -> float:
    """1 - 2<x,y> / (|x|^2 + |y|^2), in float64."""
    x, y = x.double(), y.double()
    return float(((x - y) ** 2).sum() / (x * x + y * y).sum())
