"""What torch offers for the same contraction: a table by the granularity of the scales."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalec.abi import KernelSpec
from scalec.bench.contraction import Contraction, contraction

if TYPE_CHECKING:
    import torch

    from scalec.bench.inputs import Inputs

Launch = Callable[[], object]
Make = Callable[["Inputs"], Launch]
"""One set of inputs to a launch on it."""


@dataclass(frozen=True)
class Contender:
    """Another kernel for the same contraction.

    Attributes:
        variants: ways to run it, by label ("" where there is one): the one that is fastest at the shape is measured.
        checked: whether a launch returns the contraction's result; if not, nothing but its time has a meaning.
    """

    variants: Mapping[str, Make]
    checked: bool = True


Source = Callable[[KernelSpec, dict[str, int]], Mapping[str, Contender]]
"""Names contenders for a kernel at some sizes; `contenders` is one, benchmarks/block_fp8_triton.py has another."""


def contenders(spec: KernelSpec, dims: dict[str, int]) -> dict[str, Contender]:
    """Torch's kernels for the same contraction, by name; none where the kernel is more than a contraction.

    Where the kernel adds to its result, which torch._scaled_mm cannot, they write theirs and so move less.
    """
    what = contraction(spec, dims)
    if what is None:
        return {}
    for (a, b), rows in TABLE.items():
        if what.blocks is not None and what.blocks == (EXTENTS[a](what.shapes[0]), EXTENTS[b](what.shapes[1])):
            return {name: make(what) for name, make in rows.items()}
    return {"torch.mm (cuBLASLt)": Contender({"": lambda inputs: _mm(what, inputs)})} if what.blocks is None else {}


EXTENTS: dict[str, Callable[[tuple[int, ...]], tuple[int, ...]]] = {
    "1x128": lambda shape: (1, 128),
    "128x128": lambda shape: (128, 128),
    "row": lambda shape: (1, shape[1]),
    "tensor": lambda shape: shape,
}
"""Extents of an operand that share a scale, given the operand's shape."""

SLOW, FAST = "no fast accumulation", "fast accumulation"
"""cuBLASLt's CUBLASLT_MATMUL_DESC_FAST_ACCUM off and on: whether partial sums are added outside the tensor core."""

BLOCK = "torch._scaled_mm block (cuBLASLt)"
TENSORWISE = "torch._scaled_mm tensorwise (cuBLASLt, timing only)"
"""The same operand bytes with one scale each: what the GPU gives when block scales cost nothing. Another result."""


def _block(what: Contraction) -> Contender:
    return Contender({"": lambda inputs: _block_scaled_mm(what, inputs)})


def _either_accumulation(
    scales: Callable[[Contraction, Inputs], tuple[torch.Tensor, torch.Tensor]], checked: bool = True
) -> Callable[[Contraction], Contender]:
    def bind(what: Contraction, fast: bool) -> Make:
        return lambda inputs: _scaled_mm(
            inputs.values[what.a], inputs.values[what.b].t(), *scales(what, inputs), _result(inputs), fast
        )

    return lambda what: Contender({SLOW: bind(what, False), FAST: bind(what, True)}, checked)


def _row_scales(what: Contraction, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    sa, sb = (inputs.values[f"{name}_scale"] for name in (what.a, what.b))
    return sa.reshape(-1, 1).contiguous(), sb.reshape(1, -1).contiguous()


def _tensor_scales(what: Contraction, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    sa, sb = (inputs.values[f"{name}_scale"] for name in (what.a, what.b))
    return sa.reshape(()), sb.reshape(())


def _unit_scales(what: Contraction, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    one = torch.ones((), device=inputs.values[what.a].device)
    return one, one


_tensorwise = _either_accumulation(_unit_scales, checked=False)

TABLE: dict[tuple[str, str], dict[str, Callable[[Contraction], Contender]]] = {
    ("1x128", "128x128"): {BLOCK: _block, TENSORWISE: _tensorwise},
    ("1x128", "1x128"): {"torch._scaled_mm 1x128 by 1x128 (cuBLASLt)": _block, TENSORWISE: _tensorwise},
    ("row", "row"): {"torch._scaled_mm rows": _either_accumulation(_row_scales), TENSORWISE: _tensorwise},
    ("tensor", "tensor"): {"torch._scaled_mm tensor (cuBLASLt)": _either_accumulation(_tensor_scales)},
}
"""By what shares a scale in A and in B: names of contenders, the one that others are compared with first."""


def _result(inputs: Inputs) -> torch.Tensor:
    import torch

    return torch.empty_like(next(iter(inputs.outputs.values())))


def _mm(what: Contraction, inputs: Inputs) -> Launch:
    import torch

    a, b, out = inputs.values[what.a], inputs.values[what.b].t(), _result(inputs)
    if out.dtype != a.dtype:
        return lambda: torch.mm(a, b, out_dtype=out.dtype)
    return lambda: torch.mm(a, b, out=out)


def _scaled_mm(
    a: torch.Tensor, b: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor, out: torch.Tensor, fast: bool = False
) -> Callable[[], torch.Tensor]:
    import torch

    return lambda: torch._scaled_mm(a, b, scale_a=sa, scale_b=sb, out_dtype=out.dtype, use_fast_accum=fast, out=out)


def _block_scaled_mm(what: Contraction, inputs: Inputs) -> Launch:
    a, b = inputs.values[what.a], inputs.values[what.b].t()
    sa, sb = inputs.values[f"{what.a}_scale"], inputs.values[f"{what.b}_scale"]
    out, m = _result(inputs), a.shape[0]
    if m % 4:  # cuBLASLt refuses such sizes; a user of torch pads the rows
        a, sa, out = (_pad_rows(t, -(-m // 16) * 16) for t in (a, sa, out))
    sa = sa.t().contiguous().t()  # cuBLASLt's VEC128: M-contiguous
    launch = _scaled_mm(a, b, sa, _b_scales(what, sb), out)
    return lambda: launch()[:m]


def _b_scales(what: Contraction, sb: torch.Tensor) -> torch.Tensor:
    """B's scales as torch._scaled_mm takes them, [ceil(k/128), n or ceil(n/128)]."""
    import torch

    if what.blocks is not None and what.blocks[1][0] == 1:
        return sb.t().contiguous()  # VEC128: N-contiguous
    # BLK128x128: K-contiguous, the row stride a multiple of four
    rows, columns = sb.shape
    padded = torch.zeros(rows, -(-columns // 4) * 4, device=sb.device, dtype=sb.dtype)
    padded[:, :columns] = sb
    return padded[:, :columns].t()


def _pad_rows(t: torch.Tensor, rows: int) -> torch.Tensor:
    import torch

    made = torch.zeros(rows, t.shape[1], device=t.device, dtype=t.dtype)
    made[: t.shape[0]] = t
    return made
