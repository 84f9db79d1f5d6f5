"""Adopts the tensors a caller passes: torch, anything with DLPack or `__cuda_array_interface__`, numpy on the host.

Nothing is copied and no library is imported: torch and numpy are asked only if the caller has imported them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from scalec.errors import ArgumentError
from scalec.formats import ELEMENT_TYPES
from scalec.runtime import dlpack
from scalec.runtime.device import Place

CPU: Place = ("cpu", 0)


class TensorView(NamedTuple):
    """A tensor in memory that its caller keeps alive.

    Attributes:
        pointer: address of its first element.
        shape: extents, in elements as stored (two e2m1 in a byte count as one).
        strides: elements between consecutive indices of each axis.
        dtype: the language's name of its type, "uint8" for bytes that may mean any 8-bit type, or the name its
            library gives it where the language has none ("float64").
        place: where its memory is.
        kind: who made it: "torch", "numpy", "dlpack" or "cuda array interface".
        read_only: whether its owner forbids writing.
        ready: the stream on which its contents are complete, -1 where there is nothing to wait for.
        keep: what must stay alive while the view is used.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    place: Place
    kind: str = "dlpack"
    read_only: bool = False
    ready: int = -1
    keep: Any = None

    @property
    def layout(self) -> tuple[Any, ...]:
        """All of it that a launch plan depends on, addresses apart."""
        return self.shape, self.strides, self.dtype, self.place


# what libraries call the element types, and what the language calls them (the first row of a shared type wins);
# ml_dtypes' types below 8 bits are none of ours: they take a byte an element
LIBRARY_NAMES: dict[str, str] = {
    **{t.numpy: t.name for t in reversed(ELEMENT_TYPES.values()) if t.numpy and t.bits >= 8},
    "float4_e2m1fn_x2": "e2m1",
    "uint8": "uint8",
}

# array-interface type strings; ml_dtypes' bfloat16 is "<V2" in numpy, and so it is for us
_TYPESTRS = {
    "f4": "f32",
    "f2": "f16",
    "V2": "bf16",
    "i1": "i8",
    "i4": "i32",
    "u4": "uint32",
    "u1": "uint8",
    "V1": "uint8",
}

_torch_dtypes: dict[Any, str] = {}


def torch_dtype(dtype: Any) -> str:
    """The language's name of a torch dtype."""
    name = _torch_dtypes.get(dtype)
    if name is None:
        plain = str(dtype).removeprefix("torch.")
        name = _torch_dtypes[dtype] = LIBRARY_NAMES.get(plain, plain)
    return name


def is_torch(value: Any) -> bool:
    """Whether it is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def adopt(name: str, value: Any, stream: int, locate: Callable[[int], Place]) -> TensorView:
    """A view of a tensor that the caller passed as argument `name`.

    Args:
        stream: the stream that will use it; a DLPack producer makes its contents ready for it.
        locate: says where an address is, for interfaces that do not.

    Raises:
        ArgumentError: not a tensor of any kind we know.
    """
    if is_torch(value):
        return _from_torch(name, value)
    if hasattr(value, "__cuda_array_interface__"):
        return _from_array_interface(name, value, locate)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _from_numpy(value)
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(name, value, stream)
    if value is None:
        raise ArgumentError(f"{name} is None", expected="a tensor")
    raise ArgumentError(
        f"{name} is not a tensor",
        got=f"{type(value).__module__}.{type(value).__qualname__}",
        expected="a torch tensor, or an object with __dlpack__ or __cuda_array_interface__",
    )


def _from_torch(name: str, value: Any) -> TensorView:
    if str(value.layout) != "torch.strided":
        raise ArgumentError(f"{name} is not a dense tensor", got=str(value.layout), fix=f"{name}.to_dense()")
    if value.is_neg() or value.is_conj():
        how = "neg" if value.is_neg() else "conj"
        raise ArgumentError(
            f"{name} is a lazy view: its memory holds other values",
            got=f"{name}.is_{how}()",
            fix=f"{name}.resolve_{how}()",
        )
    device = value.device
    place = (device.type, device.index or 0)
    shape, strides = tuple(value.shape), tuple(value.stride())
    return TensorView(value.data_ptr(), shape, strides, torch_dtype(value.dtype), place, "torch", keep=value)


def _from_numpy(value: Any) -> TensorView:
    size = value.dtype.itemsize
    strides = tuple(s // size for s in value.strides)
    named: str = value.dtype.name
    dtype = LIBRARY_NAMES.get(named, named)
    pointer, read_only = value.__array_interface__["data"]
    return TensorView(pointer, value.shape, strides, dtype, CPU, "numpy", read_only, keep=value)


def _from_array_interface(name: str, value: Any, locate: Callable[[int], Place]) -> TensorView:
    facts = value.__cuda_array_interface__
    text: str = facts["typestr"]
    dtype: str = _TYPESTRS.get(text[1:], text) if text[:1] in ("<", "|", "=") else text
    size = int(text[2:])
    shape = tuple(int(e) for e in facts["shape"])
    given = facts.get("strides")
    if given is None:
        strides = dlpack.dense_strides(shape)
    else:
        strides = tuple(int(s) // size for s in given)
        if any(int(s) % size for s in given):
            raise ArgumentError(f"{name} has strides that are no multiple of its {size}-byte elements", got=str(given))
    pointer, read_only = facts["data"]
    pointer = int(pointer or 0)
    place = locate(pointer) if pointer else ("cuda", -1)
    ready = facts.get("stream")
    kind = "cuda array interface"
    return TensorView(pointer, shape, strides, dtype, place, kind, bool(read_only), _stream(ready), keep=(value, facts))


def _stream(ready: int | None) -> int:
    # CUDA array interface: None is nothing to wait for, 1 the legacy and 2 the per-thread default stream
    if ready is None:
        return -1
    return 0 if ready == 1 else int(ready)


def _from_dlpack(name: str, value: Any, stream: int) -> TensorView:
    on_gpu = True
    if hasattr(value, "__dlpack_device__"):
        on_gpu = int(value.__dlpack_device__()[0]) in (dlpack.CUDA, dlpack.CUDA_MANAGED)
    # DLPack: 1 is the legacy default stream, whose handle is 0; a host tensor has no stream
    arguments = {"stream": stream or 1} if on_gpu else {}
    try:
        try:
            capsule = value.__dlpack__(max_version=(1, 1), **arguments)
        except TypeError:
            capsule = value.__dlpack__(**arguments)
        parsed = dlpack.parse(capsule)
    except (BufferError, ValueError, TypeError) as error:
        raise ArgumentError(f"{name} cannot be read through DLPack: {error}") from error
    on_gpu = parsed.device_type in (dlpack.CUDA, dlpack.CUDA_MANAGED)
    on_host = parsed.device_type in (dlpack.CPU, dlpack.CUDA_HOST)
    place = ("cuda", parsed.device_id) if on_gpu else CPU if on_host else (f"dlpack:{parsed.device_type}", 0)
    keep = (value, capsule)
    return TensorView(
        parsed.pointer, parsed.shape, parsed.strides, parsed.dtype, place, "dlpack", parsed.read_only, keep=keep
    )


def stream_handle(stream: Any) -> int:
    """The CUstream handle that a caller means: a number, or an object of torch, cuda.core, cupy or cuda-bindings.

    Raises:
        ArgumentError: not a stream.
    """
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        pair: Any = protocol() if callable(protocol) else protocol
        return int(pair[1])
    for attribute in ("cuda_stream", "ptr"):
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return handle
    if hasattr(stream, "__int__"):
        return int(stream)
    raise ArgumentError(
        "stream is not a CUDA stream",
        got=f"{type(stream).__module__}.{type(stream).__qualname__}",
        expected="a CUstream handle as a number, a torch.cuda.Stream, or an object with __cuda_stream__",
    )


def torch_stream(ordinal: int) -> int:
    """The handle of torch's current stream on a GPU."""
    torch = sys.modules["torch"]
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a third of the time of current_stream()
    return raw(ordinal) if raw is not None else torch.cuda.current_stream(ordinal).cuda_stream
