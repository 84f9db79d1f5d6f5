"""What torch offers for the same contraction, and a check of both against float32 on dequantised inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from scalec.abi import KernelSpec, TensorSpec
from scalec.bench.inputs import Inputs, block_of, expand, shape_of

Launch = Callable[[], object]


@dataclass(frozen=True)
class Contraction:
    """A program that is C[m,n] = A[m,k]@B[n,k] with or without scales, and nothing else.

    Attributes:
        a, b: the operands' names.
        blocks: extents that share a scale, for A and B; None without scales.
    """

    a: str
    b: str
    blocks: tuple[tuple[int, ...], tuple[int, ...]] | None


def contraction(spec: KernelSpec, dims: dict[str, int]) -> Contraction | None:
    """The plain contraction that the kernel is, or None where it is more than that."""
    tensors = {t.name: t for t in spec.operands}
    data = [t for t in spec.operands if not _is_scale(t, tensors)]
    if len(data) != 2 or len(spec.results) != 1 or spec.results[0].inout or any(t.scalar for t in spec.operands):
        return None
    a, b = data
    axes = [[e.dim for e in t.shape] for t in (a, b, spec.results[0])]
    if any(len(x) != 2 for x in axes) or axes[2] != [axes[0][0], axes[1][0]] or axes[0][1] != axes[1][1]:
        return None
    scales = [tensors.get(f"{t.name}_scale") for t in data]
    if scales == [None, None]:
        plain = len(spec.operands) == 2
        return Contraction(a.name, b.name, None) if plain else None
    if scales[0] is None or scales[1] is None or len(spec.operands) != 4:
        return None
    return Contraction(a.name, b.name, (block_of(a, scales[0], dims), block_of(b, scales[1], dims)))


def _is_scale(t: TensorSpec, tensors: dict[str, TensorSpec]) -> bool:
    return t.name.endswith("_scale") and t.name.removesuffix("_scale") in tensors


def contenders(spec: KernelSpec, dims: dict[str, int]) -> dict[str, Callable[[Inputs], Launch]]:
    """Torch's kernels for the same contraction, by name: each makes a launch of one set of inputs."""
    what = contraction(spec, dims)
    if what is None:
        return {}
    if what.blocks is None:
        return {"torch.mm (cuBLASLt)": lambda inputs: _mm(what, inputs)}
    if what.blocks == ((1, 128), (128, 128)):
        return {"torch._scaled_mm block (cuBLASLt)": lambda inputs: _block_scaled_mm(what, inputs)}
    k = dims[spec.operands[0].shape[1].dim]
    if what.blocks == ((1, k), (1, k)):
        return {"torch._scaled_mm rows": lambda inputs: _row_scaled_mm(what, inputs)}
    if what.blocks == tuple(shape_of(t, dims) for t in spec.operands[:2]):
        return {"torch._scaled_mm tensor (cuBLASLt)": lambda inputs: _tensor_scaled_mm(what, inputs)}
    return {}


def _result(inputs: Inputs) -> torch.Tensor:
    return torch.empty_like(next(iter(inputs.outputs.values())))


def _mm(what: Contraction, inputs: Inputs) -> Launch:
    a, b, out = inputs.values[what.a], inputs.values[what.b].t(), _result(inputs)
    if out.dtype != a.dtype:
        return lambda: torch.mm(a, b, out_dtype=out.dtype)
    return lambda: torch.mm(a, b, out=out)


def _scaled_mm(
    a: torch.Tensor, b: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor, out: torch.Tensor
) -> Callable[[], torch.Tensor]:
    return lambda: torch._scaled_mm(a, b, scale_a=sa, scale_b=sb, out_dtype=out.dtype, use_fast_accum=False, out=out)


def _block_scaled_mm(what: Contraction, inputs: Inputs) -> Launch:
    a, b = inputs.values[what.a], inputs.values[what.b].t()
    sa, sb = inputs.values[f"{what.a}_scale"], inputs.values[f"{what.b}_scale"]
    out, m = _result(inputs), a.shape[0]
    if m % 4:  # cuBLASLt refuses such sizes; a user of torch pads the rows
        a, sa, out = (_pad_rows(t, -(-m // 16) * 16) for t in (a, sa, out))
    sa = sa.t().contiguous().t()  # cuBLASLt's VEC128: M-contiguous
    # its BLK128x128: K-contiguous, the row stride a multiple of four
    rows, columns = sb.shape
    padded = torch.zeros(rows, -(-columns // 4) * 4, device=sb.device, dtype=sb.dtype)
    padded[:, :columns] = sb
    launch = _scaled_mm(a, b, sa, padded[:, :columns].t(), out)
    return lambda: launch()[:m]


def _pad_rows(t: torch.Tensor, rows: int) -> torch.Tensor:
    made = torch.zeros(rows, t.shape[1], device=t.device, dtype=t.dtype)
    made[: t.shape[0]] = t
    return made


def _row_scaled_mm(what: Contraction, inputs: Inputs) -> Launch:
    a, b = inputs.values[what.a], inputs.values[what.b].t()
    sa, sb = inputs.values[f"{what.a}_scale"].reshape(-1, 1), inputs.values[f"{what.b}_scale"].reshape(1, -1)
    return _scaled_mm(a, b, sa.contiguous(), sb.contiguous(), _result(inputs))


def _tensor_scaled_mm(what: Contraction, inputs: Inputs) -> Launch:
    a, b = inputs.values[what.a], inputs.values[what.b].t()
    sa, sb = inputs.values[f"{what.a}_scale"].reshape(()), inputs.values[f"{what.b}_scale"].reshape(())
    return _scaled_mm(a, b, sa, sb, _result(inputs))


def reference(spec: KernelSpec, dims: dict[str, int], inputs: Inputs) -> torch.Tensor | None:
    """The plain contraction in float32 (no TF32) on dequantised inputs; None where the kernel is more than that."""
    what = contraction(spec, dims)
    if what is None:
        return None
    a, b = (inputs.values[name].float() for name in (what.a, what.b))
    if what.blocks is not None:
        a *= expand(inputs.values[f"{what.a}_scale"], what.blocks[0], tuple(a.shape))
        b *= expand(inputs.values[f"{what.b}_scale"], what.blocks[1], tuple(b.shape))
    allowed, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
    try:
        return a @ b.t()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed


def diff(x: torch.Tensor, y: torch.Tensor) -> float:
    """1 - 2<x,y> / (|x|^2 + |y|^2), in float64."""
    x, y = x.double(), y.double()
    return float(((x - y) ** 2).sum() / (x * x + y * y).sum())
