"""What torch offers for the same contraction: a table by the granularity of the scales."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from scalec.abi import KernelSpec
from scalec.bench import cublaslt
from scalec.bench.contraction import Contraction, block_of, contraction, dequantised_result
from scalec.bench.cublaslt import ALGORITHMS, SCALE_MODES
from scalec.errors import ScalecError

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
        adds: whether a launch adds to the inputs' result, in place, and returns the sum.
        read: makes the contraction's result of what a launch returns, where it is not that.
    """

    variants: Mapping[str, Make]
    checked: bool = True
    adds: bool = False
    read: Callable[[Any], Any] | None = None


class NoSuchVariantError(Exception):
    """Raised by a `Make`: there are fewer variants here. Not worth a warning, as long as there are some."""


PAGE = 1 << 14
"""Bytes in whose multiples the driver copies at full speed. Of an H100 (2026-11-27): 2.94 TB/s at 270, 340 and 453 MiB
in multiples of 16 KiB, 2.38 in multiples of 4 KiB, which do below 256 MiB; from 1 GiB on 2.37 to 2.5 in any multiple,
in pieces of 512 MiB too. Why was not looked for."""


def copied(size: int) -> Launch:
    """A copy within the GPU's memory that reads and writes `size` bytes together, rounded up to whole pages each."""
    import torch

    source = torch.zeros(-(-size // (2 * PAGE)) * PAGE, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


Source = Callable[[KernelSpec, dict[str, int]], Mapping[str, Contender]]
"""Names contenders for a kernel at some sizes; `contenders` is one, benchmarks/block_fp8_triton.py has another."""


def contenders(spec: KernelSpec, dims: dict[str, int]) -> dict[str, Contender]:
    """Torch's kernels for the same contraction, by name; none where the kernel is more than a contraction. Where its
    result is quantised, torch does that in kernels of their own: see `quantised`.

    Where the kernel adds to its result, which torch._scaled_mm cannot, they write theirs and so move less. Before them
    then stand, where the result is f32, what does add: cuBLASLt itself, and torch in two kernels.
    """
    what = contraction(spec, dims)
    if what is None:
        return quantised(spec, dims)
    if not what.dense:
        return batched(what) if what.blocks is None else {}
    adds = what.accumulates and spec.results[0].dtype == "f32"
    if what.blocks is None:
        sums = _sums(what, None) if adds else {}
        return sums | {"torch.mm (cuBLASLt)": Contender({"": lambda inputs: _mm(what, inputs)})}
    for (a, b), rows in TABLE.items():
        if what.blocks == (EXTENTS[a](what.shapes[0]), EXTENTS[b](what.shapes[1])):
            sums = _sums(what, (a, b)) if adds and a in SCALE_MODES and b in SCALE_MODES else {}
            return sums | {name: make(what) for name, make in rows.items()}
    return {}


THEN = ", then quantised"
"""What follows the name of a product's contender where torch quantises its result."""


def quantised(spec: KernelSpec, dims: dict[str, int]) -> dict[str, Contender]:
    """What torch has for a contraction whose result is quantised by parts of rows: the contenders for the result in
    bf16, and behind each what quantises it, op by op or as torch.compile fuses it. It rounds twice, and so moves less
    than two launches with f32 between them."""
    what = contraction(spec, dims, quantised=True)
    if what is None or what.accumulates:
        return {}
    result, scale = spec.results
    *rows, block = block_of(result, scale, dims)
    if any(extent != 1 for extent in rows) or dims[what.indices[2][-1]] % block:
        return {}
    plain = replace(spec, results=(replace(result, dtype="bf16"),))
    found = contenders(plain, dims).items()
    return {name + THEN: _quantised(spec, dims, block, x) for name, x in found if x.checked}


def _quantised(spec: KernelSpec, dims: dict[str, int], block: int, product: Contender) -> Contender:
    def bind(make: Make, compiled: bool) -> Make:
        def launched(inputs: Inputs) -> Launch:
            import torch

            of = inputs.outputs[spec.results[0].name]
            values = replace(inputs, outputs={"": torch.empty(of.shape, dtype=torch.bfloat16, device=of.device)})
            multiply, quantise = make(values), partial(_quantise, block=block, dtype=of.dtype)
            quantise = torch.compile(quantise, dynamic=False) if compiled else quantise
            return lambda: quantise(multiply())

        return launched

    variants = {}
    for name, make in product.variants.items():
        for how, compiled in (("op by op", False), ("torch.compile", True)):
            variants[", ".join(x for x in (name, how) if x)] = bind(make, compiled)
    return Contender(variants, read=lambda pair: dequantised_result(spec, dims, *pair))


def _quantise(product: Any, block: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and scales of each `block` elements of the last dimension, whose largest is the type's largest."""
    import torch

    parts = product.float().unflatten(-1, (-1, block))
    scales = parts.abs().amax(-1) / torch.finfo(dtype).max
    return (parts / scales.unsqueeze(-1)).to(dtype).flatten(-2), scales


def batched(what: Contraction) -> dict[str, Contender]:
    """What torch has for 16-bit operands with further indices: one call, which may copy operands. Where that cannot
    write the kernel's type, or add to its result, it writes a result of the operands' type, and so moves less."""
    if what.batch:
        return {"torch.bmm (cuBLAS)": Contender({"": lambda inputs: _bmm(what, inputs)})}
    return {"torch.einsum (cuBLAS)": Contender({"": lambda inputs: _einsum(what, inputs)})}


def _bmm(what: Contraction, inputs: Inputs) -> Launch:
    import torch

    out, (of_a, of_b, of_c), batch = _result(inputs), what.indices, what.batch
    (k,) = {*of_a} & {*of_b} - {batch}
    m, n = (next(x for x in index if x not in (batch, k)) for index in (of_a, of_b))

    def seen(t: torch.Tensor, index: tuple[str, ...], wanted: tuple[str, ...]) -> torch.Tensor:
        return t.permute([index.index(name) for name in wanted])

    a = seen(inputs.values[what.a], of_a, (batch, m, k))
    b, c = seen(inputs.values[what.b], of_b, (batch, k, n)), seen(out, of_c, (batch, m, n))
    if out.dtype != a.dtype:
        back = [(batch, m, n).index(name) for name in of_c]
        return lambda: torch.bmm(a, b, out_dtype=out.dtype).permute(back)

    def launch() -> torch.Tensor:
        torch.bmm(a, b, out=c)
        return out

    return launch


def _einsum(what: Contraction, inputs: Inputs) -> Launch:
    import torch

    a, b = inputs.values[what.a], inputs.values[what.b]
    return lambda: torch.einsum(what.equation, a, b)


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

IN_PLACE = "cuBLASLt, C += in place (beta = 1)"
"""One kernel that does all of the work, called past torch."""
TWO_KERNELS = "C += torch (cuBLASLt, then an addition)"
"""What a user of torch writes, who cannot say beta: a result in memory of its own, then C's sum with it."""


def _sums(what: Contraction, scaled_by: tuple[str, str] | None) -> dict[str, Contender]:
    """What adds the contraction to an f32 result; `scaled_by` is what shares a scale in A and B."""
    ranks = {f"the heuristic's {rank + 1}.": _in_place(what, scaled_by, rank) for rank in range(ALGORITHMS)}
    return {
        IN_PLACE: Contender(ranks, adds=True),
        TWO_KERNELS: Contender({"": lambda inputs: _two_kernels(what, inputs)}, adds=True),
    }


def _in_place(what: Contraction, scaled_by: tuple[str, str] | None, rank: int) -> Make:
    def make(inputs: Inputs) -> Launch:
        a, b, scales = inputs.values[what.a], inputs.values[what.b], None
        if scaled_by is not None:
            a, b, sa, sb = _block_operands(what, inputs)
            scales = (scaled_by[0], sa), (scaled_by[1], sb)
        c = next(iter(inputs.outputs.values()))
        rows = len(c)
        c = c if len(a) == rows else _pad_rows(c, len(a))
        try:
            launch = cublaslt.adding(a, b, c, scales, rank)
        except ScalecError as error:
            if rank == 0:
                raise
            raise NoSuchVariantError from error  # what is wrong is said of the first
        if launch is None:
            raise NoSuchVariantError
        return lambda: launch()[:rows]

    return make


def _two_kernels(what: Contraction, inputs: Inputs) -> Launch:
    import torch

    c = next(iter(inputs.outputs.values()))
    if what.blocks is None:
        a, b = inputs.values[what.a], inputs.values[what.b].t()
        return lambda: c.add_(torch.mm(a, b, out_dtype=c.dtype))
    a, b, sa, sb = _block_operands(what, inputs)
    product = _scaled_mm(a, b.t(), sa, sb, c.dtype)
    rows = len(c)
    return lambda: c.add_(product()[:rows])


def _block(what: Contraction) -> Contender:
    return Contender({"": lambda inputs: _block_scaled_mm(what, inputs)})


def _either_accumulation(
    scales: Callable[[Contraction, Inputs], tuple[torch.Tensor, torch.Tensor]], checked: bool = True
) -> Callable[[Contraction], Contender]:
    def bind(what: Contraction, fast: bool) -> Make:
        def make(inputs: Inputs) -> Launch:
            out = _result(inputs)
            a, b = inputs.values[what.a], inputs.values[what.b].t()
            return _scaled_mm(a, b, *scales(what, inputs), out.dtype, out, fast)

        return make

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
    a: torch.Tensor,
    b: torch.Tensor,
    sa: torch.Tensor,
    sb: torch.Tensor,
    dtype: torch.dtype,
    out: torch.Tensor | None = None,
    fast: bool = False,
) -> Callable[[], torch.Tensor]:
    from torch import _scaled_mm  # pyright: ignore[reportPrivateImportUsage]

    return lambda: _scaled_mm(a, b, scale_a=sa, scale_b=sb, out_dtype=dtype, use_fast_accum=fast, out=out)


def _block_scaled_mm(what: Contraction, inputs: Inputs) -> Launch:
    a, b, sa, sb = _block_operands(what, inputs)
    out = _result(inputs)
    m = len(out)
    out = out if len(a) == m else _pad_rows(out, len(a))
    launch = _scaled_mm(a, b.t(), sa, sb, out.dtype, out)
    return lambda: launch()[:m]


def _block_operands(what: Contraction, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A, B and their scales as cuBLASLt takes them, A's rows padded to 16 where it refuses their number."""
    a, b = inputs.values[what.a], inputs.values[what.b]
    sa, sb = inputs.values[f"{what.a}_scale"], inputs.values[f"{what.b}_scale"]
    if len(a) % 4:  # cuBLASLt refuses such sizes; a user of torch pads the rows
        rows = -(-len(a) // 16) * 16
        a, sa = _pad_rows(a, rows), _pad_rows(sa, rows)
    return a, b, sa.t().contiguous().t(), _b_scales(what, sb)  # A's: cuBLASLt's VEC128, M-contiguous


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
