"""Adopts the tensors a caller passes: torch, anything with DLPack or `__cuda_array_interface__`, numpy on the host.

Nothing is copied and no library is imported: torch and numpy are asked only if the caller has imported them.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from scalec.errors import ArgumentError
from scalec.formats import ELEMENT_TYPES
from scalec.runtime import dlpack
from scalec.runtime.device import Place

CPU: Place = ("cpu", 0)


class TensorView(NamedTuple):
    """A tensor in memory that its caller keeps alive."""

    pointer: int  # address of its first element
    shape: tuple[int, ...]  # extents, in elements as stored (two e2m1 in a byte count as one)
    strides: tuple[int, ...]  # elements between consecutive indices of each axis
    # the language's name of its type, "uint8" for bytes that may mean any 8-bit type, or the name its library gives it
    # where the language has none ("float64").
    dtype: str
    place: Place  # where its memory is
    kind: str = "dlpack"  # who made it: "torch", "numpy", "dlpack" or "cuda array interface"
    read_only: bool = False  # whether its owner forbids writing
    ready: int = -1  # the stream on which its contents are complete, -1 where there is nothing to wait for
    keep: Any = None  # what must stay alive while the view is used

    @property
    def layout(self) -> tuple[Any, ...]:
        """All of it that a launch plan depends on, addresses apart."""
        return self.shape, self.strides, self.dtype, self.place


class Turned:
    """A tensor that a caller passed, seen with its last two indices exchanged: `.tensor` is what it passed."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


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
    name = _torch_dtypes.get(dtype)
    if name is None:
        plain = str(dtype).removeprefix("torch.")
        name = _torch_dtypes[dtype] = LIBRARY_NAMES.get(plain, plain)
    return name


def is_numpy(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def adopt(name: str, value: Any, stream: int, locate: Callable[[int], Place]) -> TensorView:
    """A view of a tensor that the caller passed as argument `name`.

    Args:
        stream: the stream that will use it; a DLPack producer makes its contents ready for it.
        locate: says where an address is, for interfaces that do not.

    Raises:
        ArgumentError: not a tensor of any kind we know, or one whose memory does not hold its elements as the kernel
            reads them: another byte order, records, strides between elements; or what a protocol does not allow.
    """
    if is_torch(value):
        return _from_torch(name, value)
    if isinstance(value, Turned):
        view = adopt(name, value.tensor, stream, locate)
        shape, strides = ((*x[:-2], *x[:-3:-1]) for x in (view.shape, view.strides))
        return view._replace(shape=shape, strides=strides)
    facts = array_interface(name, value)
    if facts is not None:
        return _from_array_interface(name, value, facts, locate)
    if is_numpy(value):
        return _from_numpy(name, value)
    if _asked(name, value, "__dlpack__") is not None:
        return _from_dlpack(name, value, stream)
    if value is None:
        raise ArgumentError(f"{name} is None", expected="a tensor", fix=f"allocate {name} before the call")
    raise ArgumentError(
        f"{name} is not a tensor",
        got=f"{type(value).__module__}.{type(value).__qualname__}",
        expected="a torch tensor, or an object with __dlpack__ or __cuda_array_interface__",
        fix=f"torch.as_tensor({name}), on the device of the other tensors",
    )


def _asked(name: str, value: Any, attribute: str) -> Any:
    """An attribute of argument `name`; None where there is none.

    Raises:
        ArgumentError: it raises something else than AttributeError.
    """
    try:
        return getattr(value, attribute, None)
    except Exception as error:
        got, fix = f"{attribute} raises {_said(error)}", f"pass a tensor of torch's, or a copy of {name}"
        raise ArgumentError(f"{name} cannot be read", got=got, expected="a readable tensor", fix=fix) from error


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _from_torch(name: str, value: Any) -> TensorView:
    if value.is_nested:
        fix = f"a call for each of {name}.unbind(), or {name}.to_padded_tensor(0.0)"
        raise ArgumentError(f"{name} is a nested tensor", got="tensors of several shapes", expected=DENSE, fix=fix)
    if str(value.layout) != "torch.strided":
        got, fix = str(value.layout), f"{name}.to_dense()"
        raise ArgumentError(f"{name} is not a dense tensor", got=got, expected=DENSE, fix=fix)
    if value.is_neg() or value.is_conj():
        how = "neg" if value.is_neg() else "conj"
        raise ArgumentError(
            f"{name} is a lazy view: its memory holds other values",
            got=f"{name}.is_{how}()",
            expected=DENSE,
            fix=f"{name}.resolve_{how}()",
        )
    device = value.device
    place = (device.type, device.index or 0)
    shape, strides = tuple(value.shape), tuple(value.stride())
    return TensorView(value.data_ptr(), shape, strides, torch_dtype(value.dtype), place, "torch", keep=value)


def _from_numpy(name: str, value: Any) -> TensorView:
    dtype = value.dtype
    if dtype.names is not None:
        raise ArgumentError(
            f"{name} is an array of records",
            got=f"dtype {dtype}",
            expected="an array of numbers",
            fix=f"numpy.ascontiguousarray({name}[{dtype.names[0] if dtype.names else 'field'!r}])",
        )
    if hasattr(value, "mask"):
        fix = f"{name}.filled(0)"
        raise ArgumentError(f"{name} is a masked array", got="a mask, which no kernel reads", expected=DENSE, fix=fix)
    if not dtype.isnative:
        raise _foreign_order(name, f"dtype {dtype.str!r}", f"{name}.astype({dtype.name!r})")
    pointer, read_only = value.__array_interface__["data"]
    strides = _in_elements(name, value.shape, value.strides, dtype.itemsize)
    named: str = dtype.name
    return TensorView(
        pointer, value.shape, strides, LIBRARY_NAMES.get(named, named), CPU, "numpy", read_only, keep=value
    )


def _foreign_order(name: str, got: str, fix: str = "") -> ArgumentError:
    return ArgumentError(
        f"{name} has the other byte order", got=got, expected=f"{sys.byteorder}-endian numbers", fix=fix
    )


def _in_elements(name: str, shape: Sequence[int], strides: Sequence[int], size: int) -> tuple[int, ...]:
    """Strides in bytes as strides in elements of `size` bytes; those of single elements mean nothing."""
    walked = [s for e, s in zip(shape, strides, strict=True) if e > 1] if 0 not in shape else []
    if size == 0 or any(s % size for s in walked):
        raise ArgumentError(
            f"{name} has strides that are no multiple of its {size}-byte elements",
            got=f"strides of {tuple(strides)} bytes",
            expected="elements side by side, as in an array of their own",
            fix=f"a copy of {name} without gaps",
        )
    return tuple(s // size for s in strides)


_TYPESTR = re.compile(r"([<>|=])([a-zA-Z])(\d+)")
DENSE = "a tensor whose elements all lie in its memory, as they are"

_VERSIONS = range(4)  # of the CUDA array interface


def array_interface(name: str, value: Any) -> dict[str, Any] | None:
    """What `__cuda_array_interface__` of argument `name` says, None where there is none: "typestr", "shape", "strides"
    (None, or bytes), "data" (address, whether it is read-only), "stream"; others are left out.

    Raises:
        ArgumentError: what the CUDA array interface does not allow, or a mask.
    """
    facts = _asked(name, value, "__cuda_array_interface__")
    if facts is None:
        return None

    def refuse(key: str, expected: str) -> ArgumentError:
        has = isinstance(facts, Mapping) and key in facts
        return ArgumentError(
            f"{name} has a __cuda_array_interface__ that is not one",
            got=f"{key} = {facts[key]!r:.80}" if has else f"no {key!r} in {facts!r:.80}",
            expected=f"{key}: {expected}",
            fix=f"correct {key}, or hand {name} over by __dlpack__",
        )

    def get(key: str, expected: str, read: Callable[[Any], Any], *default: Any) -> Any:
        try:
            return read(facts.get(key, *default) if default else facts[key])
        except Exception as error:
            raise refuse(key, expected) from error

    version = get("version", f"{_VERSIONS[0]} to {_VERSIONS[-1]}", operator.index)
    shape = get("shape", "a tuple of sizes", _sizes)
    strides = get("strides", "None, or a tuple of bytes, one for each index", _optional(_integers), None)
    data = get("data", "(an address, whether it is read-only)", _address)
    stream = get("stream", "None, or a stream's handle", _optional(operator.index), None)
    typestr = get("typestr", "a byte order, a kind and a size, as '<f4'", _typestr)
    if version not in _VERSIONS:
        raise refuse("version", f"{_VERSIONS[0]} to {_VERSIONS[-1]}")
    if strides is not None and len(strides) != len(shape):
        raise refuse("strides", f"{len(shape)} of them, as shape has {len(shape)}")
    if facts.get("mask") is not None:
        raise refuse("mask", "None: no kernel reads a mask")
    return {"typestr": typestr, "shape": shape, "strides": strides, "data": data, "stream": stream}


def _integers(values: Any) -> tuple[int, ...]:
    return tuple([operator.index(v) for v in values])


def _sizes(values: Any) -> tuple[int, ...]:
    found = _integers(values)
    if len(found) > dlpack.MOST_DIMENSIONS or any(not 0 <= e < 2**63 for e in found):
        raise ValueError(found)
    return found


def _typestr(text: str) -> str:
    if _TYPESTR.fullmatch(text) is None:
        raise ValueError(text)
    return text


def _address(data: Any) -> tuple[int, bool]:
    pointer, read_only = data
    found = 0 if pointer is None else operator.index(pointer)
    if not 0 <= found < 2**64:
        raise ValueError(found)
    return found, bool(read_only)


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _from_array_interface(name: str, value: Any, facts: dict[str, Any], locate: Callable[[int], Place]) -> TensorView:
    text: str = facts["typestr"]
    shape, (pointer, read_only) = facts["shape"], facts["data"]
    size = int(text[2:])
    if text[0] == ">" and size > 1:
        raise _foreign_order(name, f"typestr {text!r}")
    dtype: str = _TYPESTRS.get(text[1:], text)
    given = facts["strides"]
    strides = dlpack.dense_strides(shape) if given is None else _in_elements(name, shape, given, size)
    place = locate(pointer) if pointer else ("cuda", -1)
    ready = _stream(facts["stream"])
    return TensorView(
        pointer, shape, strides, dtype, place, "cuda array interface", read_only, ready, keep=(value, facts)
    )


def _stream(ready: int | None) -> int:
    # CUDA array interface: None is nothing to wait for, 1 the legacy and 2 the per-thread default stream
    if ready is None:
        return -1
    return 0 if ready == 1 else ready


def dlpack_device(name: str, value: Any) -> tuple[int, int] | None:
    """(DLDeviceType, ordinal) that `__dlpack_device__` of argument `name` gives; None where there is none.

    Raises:
        ArgumentError: it gives something else.
    """
    device = _asked(name, value, "__dlpack_device__")
    if device is None:
        return None
    try:
        kind, ordinal = device()
        return operator.index(kind), operator.index(ordinal)
    except Exception as error:
        raise ArgumentError(
            f"{name} does not say where it is",
            got=f"__dlpack_device__: {_said(error)}",
            expected="(a DLDeviceType, the device's number)",
            fix=f"pass a tensor of a library that has DLPack, or a copy of {name}",
        ) from error


def gpu_of(name: str, value: Any) -> int | None:
    """The GPU of a tensor that is not torch's, if it says."""
    value = value.tensor if isinstance(value, Turned) else value
    if (facts := array_interface(name, value)) is not None:
        from scalec.runtime import driver

        pointer, _ = facts["data"]
        kind, ordinal = driver.locate(pointer) if pointer else ("", 0)
        return ordinal if kind == "cuda" else None
    if (device := dlpack_device(name, value)) is not None:
        return device[1] if device[0] in (dlpack.CUDA, dlpack.CUDA_MANAGED) else None
    return None


def _from_dlpack(name: str, value: Any, stream: int) -> TensorView:
    device = dlpack_device(name, value)
    on_gpu = device is None or device[0] in (dlpack.CUDA, dlpack.CUDA_MANAGED)
    # DLPack: 1 is the legacy default stream, whose handle is 0; a host tensor has no stream
    arguments = {"stream": stream or 1} if on_gpu else {}
    try:
        try:
            capsule = value.__dlpack__(max_version=(1, 1), **arguments)
        except TypeError:
            capsule = value.__dlpack__(**arguments)
        parsed = dlpack.parse(capsule)
    except Exception as error:  # whatever a library raises
        raise ArgumentError(
            f"{name} cannot be read through DLPack: {error or type(error).__name__}",
            got=f"{type(value).__module__}.{type(value).__qualname__}",
            expected="a tensor that DLPack 1 describes, with whole bytes a row",
            fix=f"pass a copy of {name}, as its library makes it, or a tensor of torch's",
        ) from error
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
    try:
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
        error = None
    except Exception as raised:  # whatever a library raises
        error = raised
    raise ArgumentError(
        "stream is not a CUDA stream",
        got=f"{type(stream).__module__}.{type(stream).__qualname__}" + (f", {_said(error)}" if error else ""),
        expected="a CUstream handle as a number, a torch.cuda.Stream, or an object with __cuda_stream__",
        fix="stream=torch.cuda.current_stream(), or leave it out, which means that",
    ) from error


def torch_stream(ordinal: int) -> int:
    """The handle of torch's current stream on a GPU."""
    torch = sys.modules["torch"]
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a third of the time of current_stream()
    return raw(ordinal) if raw is not None else torch.cuda.current_stream(ordinal).cuda_stream
