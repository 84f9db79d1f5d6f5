"""Data for a kernel, on the GPU: random, quantised where it has scales, laid out as the kernel's spec says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch

from scalec.abi import KernelSpec, TensorSpec
from scalec.bench.contraction import block_of, expand, shape_of
from scalec.bench.routings import index_tensors
from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES, WORDS
from scalec.runtime.stored import stored_shape

TORCH_TYPES: dict[str, torch.dtype] = {
    "f32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "i32": torch.int32,
    "i8": torch.int8,
}

RAW = dict.fromkeys(("e3m2", "e2m3", "e2m1", "i4", "u4"), (0, 256)) | {"ue8m0": (120, 135), "ue4m3": (0x30, 0x48)}
"""Types that torch has no arithmetic for, and the bytes that are drawn for them, the last one left out: 4 and 6 bits of
any value, and scales about one."""


SPREAD = {"i8": 32}
"""By what normal values are multiplied where those of a type have no scales: four times that is its largest number."""


@dataclass
class Inputs:
    """One set of arguments."""

    values: dict[str, Any]  # each operand by name: a tensor, or a float where it is a scalar
    outputs: dict[str, torch.Tensor]  # each result by name
    inout: tuple[str, ...] = ()  # the names of results that are read too (`+=`)

    def routed(self, spec: KernelSpec, dims: dict[str, int], routing: str, seed: int) -> Inputs:
        """The same tensors but those of indices, which deal rows out as a routing of scalec.bench.routings says."""
        values = dict(self.values)
        for name, index in index_tensors(spec, dims, routing, seed).items():
            values[name] = torch.from_numpy(np.ascontiguousarray(index)).to(values[name].device)
        return replace(self, values=values)

    def input_bytes(self) -> int:
        return sum(t.nbytes for t in self.values.values() if isinstance(t, torch.Tensor))

    def bytes(self) -> int:
        """What one call must move: operands, and results that are added to, read once, and all results written once."""
        read = self.input_bytes() + sum(self.outputs[name].nbytes for name in self.inout)
        return read + sum(t.nbytes for t in self.outputs.values())


def make_inputs(spec: KernelSpec, dims: dict[str, int], seed: int, device: str = "cuda") -> Inputs:
    """Random arguments for a kernel at these sizes.

    An operand X with a tensor X_scale is quantised: normal values, each block divided by what makes its largest the
    type's largest, and the scales spread over several powers of two. Where groups that are `apart` have these, whose
    blocks begin where offsets say, all have one range. What is of 4 bits, and scales of a byte, are random bytes, as is
    what a result of such a type holds. Index tensors deal rows out evenly.

    Raises:
        UnsupportedError: an element type that torch has not.
    """
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)
    by_name = {t.name: t for t in spec.operands}
    values: dict[str, Any] = {}
    for t in spec.operands:
        scale = by_name.get(f"{t.name}_scale")
        if t.name in values:
            continue
        if t.scalar:
            values[t.name] = 0.5
        elif _bytes(t):
            values[t.name] = _raw(t, dims, generator)
        elif scale is None or _bytes(scale):
            values[t.name] = _place(_normal(shape_of(t, dims), generator) * SPREAD.get(t.dtype, 1), t)
        else:
            values[t.name], values[scale.name] = _quantised(t, scale, dims, generator)
    outputs = {
        r.name: _raw(r, dims, generator) if _bytes(r) else _place(_normal(shape_of(r, dims), generator), r)
        for r in spec.results
    }
    inout = tuple(r.name for r in spec.results if r.inout)
    made = Inputs({t.name: values[t.name] for t in spec.operands}, outputs, inout)
    return made.routed(spec, dims, "balanced", seed)


def _bytes(t: TensorSpec) -> bool:
    """Whether torch has no arithmetic for what it holds."""
    return t.dtype in RAW or t.layout == "packed"


def _dtype(t: TensorSpec) -> torch.dtype:
    try:
        return TORCH_TYPES[t.dtype]
    except KeyError:
        raise UnsupportedError(
            f"no data of type {t.dtype} for {t.name}", expected=", ".join(TORCH_TYPES), fix="measure it with `run`"
        ) from None


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, device=generator.device, generator=generator)


def _place(data: torch.Tensor, t: TensorSpec) -> torch.Tensor:
    """`data` in the element type and layout of `t`, outer strides a multiple of its alignment."""
    dtype = _dtype(t)
    if data.ndim < 2:
        return _rounded(data, dtype).contiguous()
    data = data.mT if t.layout == "col" else data
    unit = max(t.align // dtype.itemsize, 1)
    columns = -(-data.shape[-1] // unit) * unit
    stored = torch.zeros((*data.shape[:-1], columns), device=data.device, dtype=dtype)
    stored[..., : data.shape[-1]] = _rounded(data, dtype)
    view = stored[..., : data.shape[-1]]
    return view.mT if t.layout == "col" else view


def _rounded(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """As elements of a type: to nearest, integers too, which saturate."""
    if dtype.is_floating_point:
        return data.to(dtype)
    return data.round().clamp(torch.iinfo(dtype).min, torch.iinfo(dtype).max).to(dtype)


def _raw(t: TensorSpec, dims: dict[str, int], generator: torch.Generator) -> torch.Tensor:
    """Random bytes of a type. Rows, or lines of words or of columns, lie a multiple of the tensor's alignment apart;
    tiles are whole."""

    def drawn(*shape: int) -> torch.Tensor:
        of = RAW["ue8m0" if t.layout == "packed" else t.dtype]
        return torch.randint(*of, shape, device=generator.device, generator=generator, dtype=torch.uint8)

    if t.layout == "blocked":
        return drawn(*stored_shape(t, dims))
    *outer, last = shape_of(t, dims)
    words, turned = 1, t.layout in ("col", "packed") and len(outer) > 0
    if turned:
        last, outer[-1] = outer[-1], last
    width = 4 * last if t.layout == "packed" else ELEMENT_TYPES[t.dtype].bytes(last)
    if t.layout == WORDS:  # beside each other
        *outer, words = outer
        width *= words
    made = drawn(*outer, -(-width // t.align) * t.align)
    if t.layout == "packed":
        made, width = made.view(torch.int32), last
    made = made[..., :width]
    made = made.unflatten(-1, (words, -1)) if t.layout == WORDS else made
    return made.mT if turned else made


def _quantised(
    t: TensorSpec, scale: TensorSpec, dims: dict[str, int], generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    shape, block = shape_of(t, dims), block_of(t, scale, dims)
    data, most = _normal(shape, generator), ELEMENT_TYPES[t.dtype].max
    each = shape_of(scale, dims)
    if prod(each) != prod(-(-extent // b) for extent, b in zip(shape, block, strict=True)):  # of groups that are apart
        return _place(data * (most / 4), t), _place(torch.exp(_normal(each, generator)) / most, scale)
    largest = _block_max(data.abs(), block)
    data *= expand(most / largest, block, shape)
    scales = largest / most * torch.exp(_normal(tuple(largest.shape), generator))
    return _place(data, t), _place(scales.reshape(each), scale)


def _block_max(data: torch.Tensor, block: tuple[int, ...]) -> torch.Tensor:
    for axis, b in enumerate(block):
        extent = data.shape[axis]
        padding = [0, 0] * (data.ndim - 1 - axis) + [0, -extent % b]
        padded = torch.nn.functional.pad(data, padding)
        data = padded.unflatten(axis, (-1, b)).amax(axis + 1)
    return data
