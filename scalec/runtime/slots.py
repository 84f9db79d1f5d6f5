"""The parameters of a launch: what each kind of kernel argument becomes, and what of it changes between launches."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from scalec.abi import PADDED, PADDED_ALIGN, TILE_WORDS, TILES, Argument, permuted_rows
from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES, WORDS
from scalec.runtime import stored
from scalec.runtime.device import Parameter, TensorMap
from scalec.runtime.form import Form
from scalec.runtime.trampoline_block import CONSTANT, F32, POINTER, TENSOR_MAP, U64
from scalec.runtime.workspace import Workspace

NEWER = "load it with the scalec that compiled it"

# element type -> element of its tensor maps: copies move bits, so every 8-bit and packed type is bytes
MAP_ELEMENTS: dict[str, str] = {
    **{t.name: "u8" for t in ELEMENT_TYPES.values() if t.bits <= 8},
    "f16": "f16",
    "bf16": "bf16",
    "f32": "f32",
    "tf32": "f32",
    "i32": "i32",
}
# and where the copy pads sixteen of them to 16 bytes (abi.PADDED)
PADDED_ELEMENTS = {"e2m1": "b4x16_p64", "e3m2": "b6x16_p32", "e2m3": "b6x16_p32"}
_TILE_ELEMENT = "u64"  # of abi.TILES
_WORD_ELEMENT = "i32"  # of words


def tensor_map(argument: Argument, form: Form, address: int) -> TensorMap:
    """What the tensor map of an argument over a tensor at `address` is made of."""
    t, padded = form.spec, argument.element == PADDED
    if argument.element == TILES:
        rows, columns = stored.TILE
        across, down = form.shape[-1] // columns, form.shape[-2] // rows
        outer = argument.axes[2:]
        extents = (TILE_WORDS * across, down, *(form.shape[axis] for axis in outer))
        steps = (rows * columns * across, *(form.strides[axis] for axis in outer))
        return TensorMap(_TILE_ELEMENT, address, extents, steps, argument.box, argument.swizzle, argument.atom)
    item, order = stored.itemsize(t.dtype), argument.axes or stored.memory_order(t)
    strides, reach = [], stored.WORD_BYTES if argument.element == WORDS else item
    for inner, axis in pairwise(order):
        reach = stored.align_up(reach * form.shape[inner], PADDED_ALIGN if padded else 16)
        # the stride of an index that takes one value is never used, but the driver checks it
        reach = form.strides[axis] * item if form.shape[axis] > 1 else reach
        strides.append(reach)
    extents = [form.shape[axis] for axis in order]
    if padded:  # extents.check_padded saw that these are whole bytes
        extents[0] = extents[0] * 8 // ELEMENT_TYPES[t.dtype].bits
    if argument.permuted:
        rows = permuted_rows(argument.permuted, extents[1])
        extents, strides = [extents[0], *(e for e, _ in rows)], [step * strides[0] for _, step in rows]
    element = _WORD_ELEMENT if argument.element == WORDS else (PADDED_ELEMENTS if padded else MAP_ELEMENTS)[t.dtype]
    return TensorMap(element, address, tuple(extents), tuple(strides), argument.box, argument.swizzle, argument.atom)


@dataclass(frozen=True)
class Given:
    """What a launch is bound to."""

    where: Mapping[str, tuple[Form, int]]  # forms and addresses of tensors, and of parts of them, by name
    values: Mapping[str, float]  # scalars, by name
    dims: Mapping[str, int]  # the size of every dimension, as the kernel walks it, and `sizes` as the caller gives it
    sizes: Mapping[str, int]
    workspace: Workspace | None  # None where the kernel needs none
    # gives the map of a parameter, by its index and argument, over a tensor at an address.
    tensor_map: Callable[[int, Argument, Form, int], Parameter]


def _stride(_index: int, a: Argument, given: Given) -> Parameter:
    form, _ = given.where[a.tensor]
    if form.shape[a.axis] > 1:
        return ctypes.c_int64(form.strides[a.axis])
    return ctypes.c_int64(stored.dense(form.spec, form.shape)[a.axis])  # never walked; libraries put anything there


def _workspace(_index: int, a: Argument, given: Given) -> Parameter:
    if given.workspace is None:
        raise UnsupportedError(f"a kernel argument of kind {a.kind!r}, and no split of K", fix=NEWER)
    return ctypes.c_uint64(given.workspace.parts if a.kind == "parts" else given.workspace.counters)


def number(scalars: Sequence[str], a: Argument) -> Callable[[Any, Any], Any] | None:
    """What sets an argument from the values of the scalars (given by name here) and the workspace of a launch; None
    where it is neither's."""
    if a.kind == "scalar":
        index = scalars.index(a.tensor)
        return lambda values, _workspace: values[index]
    if a.kind in ("parts", "counters"):
        return lambda _values, workspace: getattr(workspace, a.kind)
    return None


Places = Mapping[str, tuple[int, int]]
"""By name of a tensor or of a part of one: which tensor of the plan it is of, and how many bytes behind it."""


def written(scalars: Sequence[str], places: Places, a: Argument) -> tuple[int, ...]:
    """What a trampoline writes into an argument's slot: its kind, its place among the tensors or the numbers, which
    are the scalars and then the workspace's two addresses, and for an address what is added to the tensor's."""
    if a.kind in ("tensor_map", "pointer"):
        return TENSOR_MAP if a.kind == "tensor_map" else POINTER, *places[a.tensor]
    if a.kind == "scalar":
        return F32, scalars.index(a.tensor)
    if a.kind in ("parts", "counters"):
        return U64, len(scalars) + ("parts", "counters").index(a.kind)
    return CONSTANT, 0


SLOTS: dict[str, Callable[[int, Argument, Given], Parameter]] = {
    "tensor_map": lambda index, a, given: given.tensor_map(index, a, *given.where[a.tensor]),
    "pointer": lambda _, a, given: ctypes.c_uint64(given.where[a.tensor][1]),
    "dim": lambda _, a, given: ctypes.c_int32(given.dims[a.dim]),
    "size": lambda _, a, given: ctypes.c_int32(given.sizes[a.dim]),
    "stride": _stride,
    "scalar": lambda _, a, given: ctypes.c_float(given.values[a.tensor]),
    "parts": _workspace,
    "counters": _workspace,
}
"""Kind of argument -> what makes its parameter."""
