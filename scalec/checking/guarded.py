"""Tensors between guard bytes: what a launch writes besides its results shows."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalec import reference
from scalec.abi import KernelSpec, TensorSpec
from scalec.formats import ELEMENT_TYPES
from scalec.runtime.array import DeviceArray
from scalec.runtime.stored import align_up, itemsize, laid_out, stored_shape

GUARD = 4096
"""Bytes before and after a tensor; a multiple of what any address is aligned to."""

PATTERN = 0xA5
"""What the guards are."""

FILLS = (0xFF, 0x55)
"""What results are before each of two launches: a byte that no thread writes is another one after the second. The
first is a NaN in every type that has one."""


class Guarded(DeviceArray):
    """A tensor of a kernel within a buffer between guards, in the layout of `laid_out`.

    Attributes:
        spec: the tensor's.
        bytes: what the whole buffer was filled with.
    """

    def __init__(
        self, device: Any, spec: TensorSpec, data: NDArray[Any], *, fill: int | None = None, **lies: Any
    ) -> None:
        """
        Args:
            device: where it is.
            spec: the tensor's.
            data: its elements as stored.
            fill: a byte that all of it is filled with, in place of `data`.
            lies: further arguments of `laid_out`.
        """
        stored, strides = laid_out(spec, data, **lies)
        guard = np.full(GUARD, PATTERN, np.uint8)
        self.spec = spec
        self.bytes = np.concatenate([guard, stored if fill is None else np.full_like(stored, fill), guard])
        self._buffer = DeviceArray.from_host(device, self.bytes, "i8")
        self.device, self.shape, self.dtype, self.strides = device, tuple(data.shape), spec.dtype, strides
        self.stream, self.itemsize = 0, itemsize(spec.dtype)
        self.pointer = self._buffer.pointer + GUARD

    @classmethod
    def result(
        cls,
        device: Any,
        spec: TensorSpec,
        sizes: Mapping[str, int],
        fill: int,
        before: NDArray[Any] | None,
        **lies: Any,
    ) -> Guarded:
        """A result, filled with a byte, or with what it is `before` where it is added to."""
        if before is not None:
            return cls(device, spec, before, **lies)
        return cls(device, spec, np.empty(stored_shape(spec, sizes), f"u{itemsize(spec.dtype)}"), fill=fill, **lies)

    def changed(self, sizes: Mapping[str, int] | None = None, points: NDArray[np.bool_] | None = None) -> int:
        """How many bytes have changed that should not have: all of an argument's; of a result's, of which `sizes` are
        given, those around and between what is to be written: all of its elements, or those of `points`."""
        kept = np.full(self.bytes.size, 0xFF, np.uint8)
        if sizes is not None:
            kept[GUARD:-GUARD] = ~self._masks(sizes, points, pads=True)
        return int((((self._now() ^ self.bytes) & kept) != 0).sum())

    def contents(self, sizes: Mapping[str, int], points: NDArray[np.bool_] | None = None) -> bytes:
        """A result's bytes that are to be written, in the order of memory; not those that pad rows and tiles. Of bytes
        of which a part is to be, the rest is 0."""
        masks = self._masks(sizes, points, pads=points is None)
        return (self._now()[GUARD:-GUARD] & masks)[masks != 0].tobytes()

    def _now(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.device.download(self._buffer.pointer, self.bytes.size, 0), np.uint8)

    def _masks(self, sizes: Mapping[str, int], points: NDArray[np.bool_] | None, pads: bool) -> NDArray[np.uint8]:
        return masks(self.spec, self, sizes, self.bytes.size - 2 * GUARD, points, pads)


def between_guards(
    device: Any,
    spec: KernelSpec,
    values: Mapping[str, Any],
    sizes: Mapping[str, int],
    fill: int,
    lies: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> tuple[list[Any], list[Guarded]]:
    """(arguments, results) of a launch.

    Args:
        values: by name, of arguments and of results that are added to; the other results are filled with `fill`.
        lies: by tensor, further arguments of `laid_out`.
    """
    given: list[Any] = []
    for t in spec.operands:
        x = values[t.name]
        given.append(float(x) if t.scalar else Guarded(device, t, reference.storage(x), **lies.get(t.name, {})))
    outs = []
    for r in spec.results:
        before = reference.storage(values[r.name]) if r.inout else None
        outs.append(Guarded.result(device, r, sizes, fill, before, **lies.get(r.name, {})))
    return given, outs


def stored_points(spec: TensorSpec, points: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which elements as they are stored are written where the elements of `points` are: bytes of packed ones, of which
    what shares one with a written element is; of scales in words of four, those bytes, and what pads a row's last one
    where that is written; whole tiles of 128x4 of which rows that pad are not."""
    if spec.layout in ("packed", "blocked"):
        columns = points.shape[-1]
        scales = np.zeros((*points.shape[:-1], align_up(columns, 4)), bool)
        scales[..., :columns] = points
        scales[..., columns:] = points[..., columns - 1 : columns]
        if spec.layout == "packed":
            return scales.reshape(*points.shape[:-1], scales.shape[-1] // 4, 4)
        return reference.to_blocked(scales.astype(np.uint8)).astype(bool)
    return stored_bits(spec, points) != 0 if ELEMENT_TYPES[spec.dtype].bits < 8 else points


def stored_bits(spec: TensorSpec, points: NDArray[np.bool_], pads: bool = True) -> NDArray[np.uint8]:
    """Of packed elements, the bits of each byte as stored that the elements of `points` have; where it `pads`, with
    what is behind a row's last element in a byte that is written."""
    bits, points = ELEMENT_TYPES[spec.dtype].bits, np.moveaxis(points, spec.contiguous, -1)
    count = ELEMENT_TYPES[spec.dtype].bytes(points.shape[-1])
    every = np.zeros((*points.shape[:-1], 8 * count), bool)
    every[..., : bits * points.shape[-1]] = np.repeat(points, bits, axis=-1)
    if count:
        last = every.reshape(*points.shape[:-1], count, 8)[..., -1, :]
        last[..., bits * points.shape[-1] - 8 * (count - 1) :] |= pads & last.any(axis=-1, keepdims=True)
    made = np.packbits(every, axis=-1, bitorder="little")
    return np.moveaxis(made, -1, spec.contiguous)


def written(
    spec: TensorSpec,
    result: DeviceArray,
    sizes: Mapping[str, int],
    size: int,
    points: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """The bytes, of `size` from a result's first element on, that a kernel writes some of: of the elements of `points`,
    where these are given."""
    return masks(spec, result, sizes, size, points) != 0


def masks(
    spec: TensorSpec,
    result: DeviceArray,
    sizes: Mapping[str, int],
    size: int,
    points: NDArray[np.bool_] | None = None,
    pads: bool = True,
) -> NDArray[np.uint8]:
    """Likewise the bits of each byte, those of `stored_bits` where elements are packed."""
    made = np.zeros(size, np.uint8)
    if 0 in result.shape:
        return made
    if spec.layout == "blocked":  # rows that pad a tile are not written
        *rows, columns = (e.value(sizes) for e in spec.shape)
        points = np.ones((*rows, columns), bool) if points is None else points
        made[: prod(result.shape)] = np.where(stored_points(spec, points), 0xFF, 0).reshape(-1)
        return made
    at = np.zeros((), np.int64)
    for extent, stride in zip(result.shape, result.strides, strict=True):
        at = at[..., None] + np.arange(extent) * stride
    item = itemsize(spec.dtype)
    at = at[..., None] * item + np.arange(item)
    own = np.asarray(0xFF, np.uint8)
    if points is not None:
        narrow = ELEMENT_TYPES[spec.dtype].bits < 8 and spec.layout not in ("packed", "blocked")
        own = stored_bits(spec, points, pads) if narrow else np.where(stored_points(spec, points), 0xFF, 0)
        own = own.reshape(own.shape + (1,) * (at.ndim - own.ndim)).astype(np.uint8)
    made[at.reshape(-1)] = np.broadcast_to(own, at.shape).reshape(-1)
    return made
