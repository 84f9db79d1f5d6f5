"""How operands and scales lie in memory, and back: packed 4- and 6-bit elements, `@col`, `@packed`, `@blocked`.

Everywhere else in the reference an array has one element an entry, in the order of the tensor's indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from scalec.arguments import checked
from scalec.errors import ScalecError
from scalec.formats import ELEMENT_TYPES, LAYOUTS
from scalec.schema import one_of, within
from scalec.sizes import MOST

Array = NDArray[Any]
Count = Annotated[int, within(0, MOST)]
Element = Annotated[str, one_of(ELEMENT_TYPES)]
Layout = Annotated[str, one_of(LAYOUTS)]
OneByte = Annotated[Array, lambda a: "" if a.ndim and a.dtype.itemsize == 1 else "a byte an entry, rank 1 or more"]
Rows = Annotated[Array, lambda a: "" if a.ndim > 1 and a.dtype.itemsize == 1 else "a byte an entry, rank 2 or more"]
InWords = Annotated[Array, lambda a: "" if a.ndim > 2 and a.shape[-1] == WORD else f"words of {WORD}, rank 3 or more"]
Words = Annotated[Array, lambda a: "" if a.ndim and a.dtype.name in ("int32", "uint32") else "int32, rank 1 or more"]

FOUR_BITS = frozenset(t.name for t in ELEMENT_TYPES.values() if t.bits == 4)
WORD = 8  # elements of 4 bits in a word of 32
TILE_ROWS, TILE_COLS = 128, 4  # one tile of the blocked layout, in scales


@checked
def numpy_dtype(element: Element) -> np.dtype[Any]:
    """The numpy (or ml_dtypes) dtype that holds one element of the type named `element`."""
    name = ELEMENT_TYPES[element].numpy
    return np.dtype(getattr(ml_dtypes, name, None) or name)


@checked
def pack4(codes: OneByte) -> NDArray[np.uint8]:
    """Two 4-bit codes a byte, the element of the lower index in the low nibble (PTX ISA, e2m1x2; MX storage).

    Args:
        codes: e2m1, i4, u4 (or uint8 codes 0..15), shape (..., n). An odd `n` leaves the last high nibble zero.

    Returns:
        uint8 of shape (..., ceil(n / 2)).
    """
    raw = codes.view(np.uint8) & 0xF
    if raw.shape[-1] % 2:
        raw = np.concatenate([raw, np.zeros((*raw.shape[:-1], 1), np.uint8)], axis=-1)
    return np.asarray(raw[..., 0::2] | (raw[..., 1::2] << 4), np.uint8)


@checked
def unpack4(packed: OneByte, count: Count | None = None, element: Element = "e2m1") -> Array:
    """The inverse of `pack4`: e2m1, i4 or u4 of shape (..., count); `count` defaults to two a byte."""
    raw = packed.view(np.uint8)
    out = np.empty((*raw.shape[:-1], 2 * raw.shape[-1]), np.uint8)
    out[..., 0::2], out[..., 1::2] = raw & 0xF, raw >> 4
    return out[..., :count].view(numpy_dtype(element))


@checked
def pack6(codes: OneByte) -> NDArray[np.uint8]:
    """Four 6-bit codes in three bytes, element i in bits 6i to 6i+5 of the 24 (PTX ISA 5.5.1.1, b6x16).

    Args:
        codes: e3m2 or e2m3 (or uint8 codes 0..63), shape (..., n).

    Returns:
        uint8 of shape (..., ceil(6n / 8)); the bits past the last element are zero.
    """
    raw = codes.view(np.uint8)
    bits = np.unpackbits(raw[..., None], axis=-1, count=6, bitorder="little")
    return np.packbits(bits.reshape(*raw.shape[:-1], 6 * raw.shape[-1]), axis=-1, bitorder="little")


@checked
def unpack6(packed: OneByte, element: Element = "e3m2", count: Count | None = None) -> Array:
    """The inverse of `pack6`: elements of shape (..., count); `count` defaults to all that the bytes hold."""
    raw = packed.view(np.uint8)
    held = raw.shape[-1] * 8 // 6 if count is None else count
    bits = np.unpackbits(raw, axis=-1, count=6 * held, bitorder="little")
    codes = np.packbits(bits.reshape(*raw.shape[:-1], held, 6), axis=-1, bitorder="little")
    return codes[..., 0].view(numpy_dtype(element))


@checked
def to_packed(scales: OneByte) -> NDArray[np.int32]:
    """`@packed`: four one-byte scales of consecutive blocks along the last index in an int32, first in the low byte.

    Of the last two indices the first is contiguous, and columns begin at multiples of 16 bytes: what TMA takes, and
    what DeepGEMM's get_mn_major_tma_aligned_packed_ue8m0_tensor makes.

    Args:
        scales: ue8m0 of shape (..., rows, n), or (n,).

    Returns:
        int32 of shape (..., rows, ceil(n / 4)), in elements of strides (..., 1, rows rounded up to 4); (ceil(n / 4),)
        of (n,). The bytes past `n` are zero.
    """
    raw = scales.view(np.uint8)
    pad = -raw.shape[-1] % 4
    raw = np.concatenate([raw, np.zeros((*raw.shape[:-1], pad), np.uint8)], axis=-1)
    words = np.ascontiguousarray(raw).view(np.dtype("<i4")).astype(np.int32, copy=False)
    if words.ndim < 2:
        return words
    *lead, rows, count = words.shape
    columns = np.zeros((*lead, count, rows + -rows % 4), np.int32)
    columns[..., :rows] = words.swapaxes(-1, -2)
    return columns[..., :rows].swapaxes(-1, -2)


@checked
def from_packed(packed: Words, count: Count, element: Element = "ue8m0") -> Array:
    """The inverse of `to_packed`: scales of type `element`, shape (..., count)."""
    raw = np.ascontiguousarray(packed, dtype=np.dtype("<i4")).view(np.uint8)
    return np.ascontiguousarray(raw[..., :count]).view(numpy_dtype(element))


@checked
def to_words(values: Rows) -> Array:
    """The layout of `B[k/8,n,k%8]`: elements of 4 bits [..., n, k] as [..., ceil(k / 8), n, 8], zeros past `k`.
    `storage` packs the last index: bytes [..., ceil(k / 8), n, 4], words of 32 bits."""
    *lead, rows, k = values.shape
    padded = np.zeros((*lead, rows, k + -k % WORD), values.dtype)
    padded[..., :k] = values
    return np.ascontiguousarray(padded.reshape(*lead, rows, -(-k // WORD), WORD).swapaxes(-2, -3))


@checked
def from_words(words: InWords) -> Array:
    """The inverse of `to_words`, with all elements of the last word."""
    *lead, count, rows, each = words.shape
    return np.ascontiguousarray(words.swapaxes(-2, -3)).reshape(*lead, rows, count * each)


def to_order(values: Array, order: Sequence[int]) -> Array:
    """Elements [..., n] as memory has them where element i of each so many is number `order[i]` of these: [..., n]
    rounded up to whole orders, zeros past `n`."""
    n, each = values.shape[-1], len(order)
    padded = np.zeros((*values.shape[:-1], n + -n % each), values.dtype)
    padded[..., :n] = values
    groups = padded.reshape(*values.shape[:-1], padded.shape[-1] // each, each)
    return np.ascontiguousarray(groups[..., list(order)]).reshape(padded.shape)


def from_order(stored: Array, order: Sequence[int]) -> Array:
    """The inverse of `to_order`, with all elements of the last group."""
    groups = stored.reshape(*stored.shape[:-1], stored.shape[-1] // len(order), len(order))
    made = np.empty_like(groups)
    made[..., list(order)] = groups
    return made.reshape(stored.shape)


def _padded(rows: int, cols: int) -> tuple[int, int]:
    return rows + -rows % TILE_ROWS, cols + -cols % TILE_COLS


@checked
def to_blocked(scales: OneByte) -> Array:
    """`@blocked`: the 128x4 tiles of cuBLAS and tcgen05.

    Scale (row, col) of a tile lies at byte `(row % 32) * 16 + (row / 32) * 4 + col` of its 512; tiles follow each
    other row-major. Source: cuBLAS documentation, "1D Block Scaling Factors Layout".

    Args:
        scales: one-byte scales of shape (..., rows, cols), or (cols,) for a row; leading indices have a tiling each.

    Returns:
        the same dtype, shape (..., rows padded to 128, cols padded to 4), or all of a row's tiles flat: the bytes in
        memory order. Padding is zero.
    """
    if scales.ndim < 2:
        return to_blocked(scales.reshape(1, -1)).reshape(-1)
    *lead, rows, cols = scales.shape
    full_rows, full_cols = _padded(rows, cols)
    out = np.zeros((*lead, full_rows, full_cols), np.uint8)
    out[..., :rows, :cols] = scales.view(np.uint8)
    tiles = out.reshape(*lead, full_rows // 128, 4, 32, full_cols // 4, 4)
    n = len(lead)
    # (tile row, row / 32, row % 32, tile col, col) to (tile row, tile col, row % 32, row / 32, col)
    order = (*range(n), n, n + 3, n + 2, n + 1, n + 4)
    return np.ascontiguousarray(tiles.transpose(order)).reshape(*lead, full_rows, full_cols).view(scales.dtype)


@checked
def from_blocked(blocked: OneByte, rows: Count, cols: Count, lead: tuple[Count, ...] = ()) -> Array:
    """The inverse of `to_blocked`: shape (*lead, rows, cols) from a buffer of any shape with the padded size.

    Raises:
        ScalecError: where the buffer has another size than the tiling needs.
    """
    full_rows, full_cols = _padded(rows, cols)
    need = int(np.prod(lead, dtype=np.int64)) * full_rows * full_cols
    if blocked.size != need:
        raise ScalecError(
            f"a blocked layout of {rows}x{cols} scales is padded to 128x4 tiles",
            got=f"{blocked.size} scales",
            expected=f"{need} scales",
        )
    n = len(lead)
    tiles = np.ascontiguousarray(blocked).view(np.uint8).reshape(*lead, full_rows // 128, full_cols // 4, 32, 4, 4)
    order = (*range(n), n, n + 3, n + 2, n + 1, n + 4)
    flat = np.ascontiguousarray(tiles.transpose(order)).reshape(*lead, full_rows, full_cols)
    return np.ascontiguousarray(flat[..., :rows, :cols]).view(blocked.dtype)


@checked
def to_col(scales: Array) -> Array:
    """`@col`: the same scales with the blocks' first index contiguous (of the last two; what TMA likes).

    Shape and dtype stay; only the strides change.
    """
    if scales.ndim < 2:
        return scales
    return np.ascontiguousarray(scales.swapaxes(-1, -2)).swapaxes(-1, -2)


@checked
def to_layout(scales: Array, layout: Layout) -> Array:
    """Scales of shape (..., blocks) in the memory form of one of `scalec.formats.LAYOUTS`."""
    return {"row": np.ascontiguousarray, "col": to_col, "blocked": to_blocked, "packed": to_packed}[layout](scales)


@checked
def from_layout(scales: Array, layout: Layout, shape: tuple[Count, ...], element: Element) -> Array:
    """The inverse of `to_layout`: scales of type `element` and the given shape, one for each block.

    Raises:
        ScalecError: where the array does not hold as many scales as `shape` asks for.
    """
    if layout == "packed":
        if scales.dtype.name not in ("int32", "uint32"):
            raise ScalecError("packed scales are four in an int32", got=str(scales.dtype), expected="int32")
        found = from_packed(scales, shape[-1], element)
    elif layout == "blocked":
        matrix = shape[-2:] if len(shape) > 1 else (1, *shape)
        found = from_blocked(scales, matrix[0], matrix[1], tuple(shape[:-2])).reshape(shape)
    else:
        found = scales
    if found.shape != shape and found.size == 1 and all(s == 1 for s in shape):
        found = found.reshape(shape)
    if found.shape != shape:
        raise ScalecError(f"scales of layout {layout}", got=f"shape {found.shape}", expected=f"shape {shape}")
    return found


@checked
def decode(array: Array, element: Element) -> Array:
    """`array` as the dtype of `element`: raw bytes are reinterpreted, 4- and 6-bit elements unpacked from theirs."""
    dtype = numpy_dtype(element)
    if array.dtype == dtype:
        return array
    bits = ELEMENT_TYPES[element].bits
    if bits < 8 and array.dtype in (np.uint8, np.int8):
        return unpack4(array, element=element) if bits == 4 else unpack6(array, element)
    if array.dtype.kind in "iu" and array.dtype.itemsize == dtype.itemsize and dtype.kind not in "iu":
        return array.view(dtype)
    raise ScalecError(f"an array of {element}", got=f"dtype {array.dtype}", expected=f"dtype {dtype} or its raw bytes")


@checked
def storage(array: Array) -> Array:
    """What the runtime hands to a kernel: 4- and 6-bit elements packed, ml_dtypes types as their raw bytes or words."""
    if array.dtype in (numpy_dtype("e2m1"), numpy_dtype("i4"), numpy_dtype("u4")):
        return pack4(array)
    if array.dtype in (numpy_dtype("e3m2"), numpy_dtype("e2m3")):
        return pack6(array)
    if array.dtype.kind in "iuf" and array.dtype.name in ("int8", "uint8", "int32", "int64", "float16", "float32"):
        return array
    return array.view(np.uint8 if array.dtype.itemsize == 1 else np.uint16)
