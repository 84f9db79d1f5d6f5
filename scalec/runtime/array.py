"""A result for callers whose tensors are neither torch's nor numpy's: device memory of ours, which other libraries read
through DLPack or `__cuda_array_interface__`, and numpy copies to the host (`numpy.asarray`)."""

from __future__ import annotations

import math
import weakref
from typing import Any

from scalec.errors import ArgumentError
from scalec.formats import ELEMENT_TYPES
from scalec.runtime import dlpack
from scalec.runtime.device import Device

_TYPESTRS = {"f32": "<f4", "tf32": "<f4", "f16": "<f2", "bf16": "<V2", "i8": "|i1", "i32": "<i4"}


class DeviceArray:
    """A tensor on a device, freed with the last reference to it, in stream order.

    Attributes:
        pointer: address of the first element.
        shape: extents, in elements as stored.
        strides: elements between consecutive indices.
        dtype: the language's name of the element type.
        device: where it lives.
        stream: the stream that fills it: work on another stream must be ordered after it.
    """

    def __init__(
        self,
        device: Device,
        shape: tuple[int, ...],
        dtype: str,
        strides: tuple[int, ...] | None = None,
        stream: int = 0,
    ) -> None:
        self.device, self.shape, self.dtype, self.stream = device, tuple(shape), dtype, stream
        self.strides = dlpack.dense_strides(self.shape) if strides is None else strides
        self.itemsize = max(1, ELEMENT_TYPES[dtype].bits // 8)
        self.pointer = device.allocate(max(self._span(), 1), stream)
        self._free = weakref.finalize(self, device.free, self.pointer, stream)
        self._free.atexit = False  # the driver frees all at exit

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.itemsize

    def _span(self) -> int:
        if 0 in self.shape:
            return 0
        last = sum((e - 1) * s for e, s in zip(self.shape, self.strides, strict=True))
        return (last + 1) * self.itemsize

    def clear(self) -> None:
        """Fills its memory with zeros."""
        self.device.upload(self.pointer, memoryview(bytes(self._span())), self.stream)

    def _expanded(self, extents: tuple[int, ...]) -> DeviceArray:
        """The same memory with further indices in front, along which nothing changes, in memory as this one."""
        made = object.__new__(DeviceArray)
        made.__dict__ |= self.__dict__ | {"shape": (*extents, *self.shape), "of": self}
        made.strides = (*(0 for _ in extents), *self.strides)
        return made

    @classmethod
    def from_host(cls, device: Device, data: Any, dtype: str, stream: int = 0) -> DeviceArray:
        """Copies a numpy array, whose elements are those of `dtype` bit by bit, to the device."""
        import numpy as np

        data = np.ascontiguousarray(data)
        made = cls(device, data.shape, dtype, stream=stream)
        if data.dtype.itemsize != made.itemsize:
            raise ArgumentError(
                f"an array of {data.dtype} is not one of {dtype}",
                got=f"{data.dtype.itemsize} bytes an element",
                expected=f"{made.itemsize} bytes an element",
                fix=f"data.astype(...), or data.view(...) where its bits are those of {dtype}",
            )
        if data.size:
            device.upload(made.pointer, data.view(np.uint8).reshape(-1).data, stream)
        return made

    def numpy(self) -> Any:
        """A copy on the host, with the same strides, after the work now on its stream.

        The dtype is the one of numpy or ml_dtypes that means the same; without ml_dtypes, unsigned integers of the
        same size hold the bits.
        """
        import numpy as np

        name = ELEMENT_TYPES[self.dtype].numpy
        try:
            dtype = np.dtype(name) if ELEMENT_TYPES[self.dtype].bits >= 8 else np.dtype(np.uint8)
        except TypeError:
            dtype = _ml_dtype(name, self.itemsize)
        if 0 in self.shape:
            return np.empty(self.shape, dtype)
        raw = self.device.download(self.pointer, self._span(), self.stream)
        flat = np.frombuffer(raw, f"u{self.itemsize}").copy()  # as_strided knows no float8_e5m2
        steps = tuple(s * self.itemsize for s in self.strides)
        return np.lib.stride_tricks.as_strided(flat, self.shape, steps).view(dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("a DeviceArray is read by a copy; numpy.from_dlpack shares memory on the host")
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.device.place[0] != "cuda":
            raise AttributeError("not CUDA memory")
        return {
            "shape": self.shape,
            "strides": tuple(s * self.itemsize for s in self.strides),
            "typestr": _TYPESTRS.get(self.dtype, "|u1"),
            "data": (self.pointer if math.prod(self.shape) else 0, False),
            "version": 3,
            "stream": self.stream or 1,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, ordinal = self.device.place
        return (dlpack.CUDA if kind == "cuda" else dlpack.CPU), ordinal

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, **_unused: Any
    ) -> Any:
        if stream not in (None, -1) and self.device.place[0] == "cuda":
            self.device.order(self.stream, 0 if stream == 1 else int(stream))
        dtype = self.dtype if ELEMENT_TYPES[self.dtype].bits >= 8 else "uint8"
        versioned = max_version is not None and max_version[0] >= 1
        dtype = {"tf32": "f32", "ue4m3": "e4m3"}.get(dtype, dtype)
        device = self.__dlpack_device__()
        return dlpack.make(self, self.pointer, self.shape, self.strides, dtype, device, versioned)

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}, shape={self.shape}, strides={self.strides}, {self.device.name})"


def _ml_dtype(name: str, itemsize: int) -> Any:
    import numpy as np

    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(f"u{itemsize}")
    return np.dtype(getattr(ml_dtypes, name))
