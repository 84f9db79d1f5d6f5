"""How a tensor lies in memory: its stored extents, the order of its axes, strides without gaps.

One stored element is one element of the type, or a byte of packed ones where the type has fewer than 8 bits. A
`blocked` tensor is whole tiles of bytes, without gaps, whatever shape its holder gives it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scalec.abi import Extent, TensorSpec
from scalec.formats import ELEMENT_TYPES, PACKED_BITS, WORD_BITS, WORDS
from scalec.runtime.tensors import TensorView

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAYOUTS = ("row", "col", "packed", "blocked", WORDS)
TILE = (128, 4)
"""Scales of one tile of `blocked` (cuBLAS documentation, "1D Block Scaling Factors Layout")."""


WORD_BYTES = WORD_BITS // 8
"""Of words of adjacent K."""


def align_up(value: int, multiple: int) -> int:
    """The least multiple of `multiple` that is at least `value`."""
    return -(-value // multiple) * multiple


def itemsize(dtype: str) -> int:
    """Bytes of one stored element (a byte of packed elements for sub-byte types)."""
    return max(1, ELEMENT_TYPES[dtype].bits // 8)


def memory_order(t: TensorSpec) -> tuple[int, ...]:
    """The tensor's axes, innermost (contiguous) first."""
    inner = t.contiguous
    return (inner, *(axis for axis in reversed(range(len(t.shape))) if axis != inner)) if t.shape else ()


def stored_shape(t: TensorSpec, dims: Mapping[str, int]) -> tuple[int, ...]:
    """The extents in stored elements: sub-byte types are packed along the contiguous axis, tiles are whole."""
    shape = [e.value(dims) for e in t.shape]
    if shape and t.layout == "blocked":
        rows, columns = TILE
        shape[-1] = align_up(shape[-1], columns)
        shape[-2:] = [rows * shape[-1]] if len(shape) == 1 else [align_up(shape[-2], rows), shape[-1]]
    elif shape and ELEMENT_TYPES[t.dtype].bits < 8:
        axis = t.contiguous
        shape[axis] = ELEMENT_TYPES[t.dtype].bytes(shape[axis])
    return tuple(shape)


def elements(t: TensorSpec, axis: int, view: TensorView) -> int:
    """An extent of a view in elements of the language, unpacked."""
    bits = ELEMENT_TYPES[t.dtype].bits
    packed = bits < 8 and axis == t.contiguous
    return view.shape[axis] * 8 // bits if packed else view.shape[axis]


def dense(t: TensorSpec, shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of the tensor without gaps, in stored elements."""
    strides, step = [0] * len(shape), 1
    for axis in memory_order(t):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def fitted(t: TensorSpec, view: TensorView) -> TensorView:
    """The view with the rank of the tensor, where both have one element, as a scale of a whole tensor may be 0-d, or
    where the tensor is in words, or of 4 bits, and the view of int32: each is its bytes."""
    if t.layout == WORDS and view.dtype in ("i32", "uint32") and len(view.shape) == len(t.shape) - 1:
        strides = (*(step * WORD_BYTES for step in view.strides), 1)
        return view._replace(shape=(*view.shape, WORD_BYTES), strides=strides, dtype="uint8")
    packed = ELEMENT_TYPES[t.dtype].bits == PACKED_BITS and t.contiguous == len(view.shape) - 1
    if packed and view.dtype in ("i32", "uint32"):
        *outer, last = view.shape
        strides = (*(step * WORD_BYTES for step in view.strides[:-1]), *view.strides[-1:])
        return view._replace(shape=(*outer, last * WORD_BYTES), strides=strides, dtype="uint8")
    if all(e == Extent(size=1) for e in t.shape) and all(e == 1 for e in view.shape):
        return view._replace(shape=(1,) * len(t.shape), strides=(1,) * len(t.shape))
    return view


def laid_out(
    t: TensorSpec, data: NDArray[Any], pad: int = 0, order: Sequence[int] | None = None, gap: int = 0
) -> tuple[NDArray[Any], tuple[int, ...]]:
    """How a tensor lies in memory with rows at multiples of its alignment.

    Args:
        t: the tensor; tiles (layout blocked) have no gaps.
        data: its elements as stored, of `stored_shape`.
        pad: by how many units of alignment rows are further apart than they must be.
        order: the axes from the outermost to the contiguous one; None: `memory_order`.
        gap: by how many rows, or what else lies within, what lies further out is further apart than it must be.

    Returns:
        The bytes, with 0xff between rows, and the strides in stored elements.
    """
    import numpy as np

    item, rank = itemsize(t.dtype), data.ndim
    order = list(range(rank)) if t.layout == "blocked" else list(order or reversed(memory_order(t)))
    extents = [data.shape[axis] for axis in order]  # innermost last
    if rank > 1 and t.layout == WORDS:  # beside each other
        unit = max(t.align // extents[-1], 1)
        extents[1:-1] = [*(extent + gap for extent in extents[1:-2]), align_up(extents[-2], unit) + pad * unit]
    elif rank > 1 and t.layout != "blocked":
        unit = max(t.align // item, 1)
        extents[1:] = [*(extent + gap for extent in extents[1:-1]), align_up(extents[-1], unit) + pad * unit]
    stored = np.full([*extents, item], 0xFF, np.uint8)
    raw = np.frombuffer(data.transpose(order).tobytes(), np.uint8)
    filled = stored[tuple(slice(data.shape[axis]) for axis in order)]
    filled[...] = raw.reshape(filled.shape)
    steps = [math.prod(extents[i + 1 :]) for i in range(rank)]
    return stored.reshape(-1), tuple(steps[order.index(axis)] for axis in range(rank))


def has_gaps(view: TensorView) -> bool:
    """Whether the last index of a view is not contiguous, or anything lies between two rows."""
    step = 1
    for extent, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if extent > 1 and stride != step:
            return math.prod(view.shape) > 0
        step *= extent
    return False
