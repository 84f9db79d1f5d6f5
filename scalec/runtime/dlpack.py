"""DLPack by ctypes: reads the capsules of other libraries and makes ours. Layouts: dlpack.h 1.3.

"dltensor"            -> DLManagedTensor           (before 1.0)
"dltensor_versioned"  -> DLManagedTensorVersioned  (since 1.0; carries flags, among them read-only)
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType
MOST_DIMENSIONS = 64  # as numpy and torch have
READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY
SUBBYTE_PADDED = 4  # DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED: a byte an element; packed otherwise

# DLDataTypeCode and bits of the element types, by the language's name
TYPES: dict[str, tuple[int, int]] = {
    "f32": (2, 32),
    "f16": (2, 16),
    "bf16": (4, 16),
    "i4": (0, 4),
    "u4": (1, 4),
    "i8": (0, 8),
    "i32": (0, 32),
    "uint8": (1, 8),
    "e4m3": (10, 8),
    "e5m2": (12, 8),
    "ue8m0": (14, 8),
    "e2m3": (15, 6),
    "e3m2": (16, 6),
    "e2m1": (17, 4),
}
_NAMES = {code: name for name, code in TYPES.items()}
_CODES = {0: "int", 1: "uint", 2: "float", 5: "complex", 6: "bool"}


class DLDevice(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    _fields_ = (("dl_tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    )


class DLPackExchangeAPI(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("prev_api", ctypes.c_void_p),
        ("managed_tensor_allocator", ctypes.c_void_p),
        ("managed_tensor_from_py_object_no_sync", ctypes.c_void_p),
        ("managed_tensor_to_py_object_no_sync", ctypes.c_void_p),
        ("dltensor_from_py_object_no_sync", ctypes.c_void_p),
        ("current_work_stream", ctypes.c_void_p),
    )


class Parsed(NamedTuple):
    """A capsule's tensor: strides in elements; `dtype` by the language's name, or as "int64" where it has none.

    Of elements below 8 bits, shape and strides are in the bytes that they are packed into.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device_type: int
    device_id: int
    read_only: bool


_api = ctypes.pythonapi
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", _api))
_LEGACY, _VERSIONED = b"dltensor", b"dltensor_versioned"


def parse(capsule: Any) -> Parsed:
    """Reads a capsule without consuming it: its owner frees the tensor when the capsule goes.

    Raises:
        ValueError: not a DLPack capsule that is still unconsumed, of a major version we do not know, with a shape that
            is none, or of packed elements whose rows do not begin at whole bytes.
    """
    if _is_valid(capsule, _VERSIONED):
        managed = ctypes.cast(_get_pointer(capsule, _VERSIONED), ctypes.POINTER(DLManagedTensorVersioned)).contents
        if managed.major != 1:
            raise ValueError(f"DLPack version {managed.major}.{managed.minor}; version 1 is understood")
        return _parsed(managed.dl_tensor, managed.flags)
    if _is_valid(capsule, _LEGACY):
        managed = ctypes.cast(_get_pointer(capsule, _LEGACY), ctypes.POINTER(DLManagedTensor)).contents
        return _parsed(managed.dl_tensor, 0)
    raise ValueError("not an unconsumed DLPack capsule")


class Exchange(NamedTuple):
    """Functions of C of a library's tensors (dlpack.h 1.3, DLPackExchangeAPI); 0 where there is none."""

    find: int  # DLPackDLTensorFromPyObjectNoSync
    work_stream: int  # DLPackCurrentWorkStream


def exchange(capsule: Any) -> Exchange:
    """The functions in the capsule `__dlpack_c_exchange_api__` of a type; zeros where it is none, or of a major version
    that we do not know."""
    if type(capsule).__name__ != "PyCapsule" or not _is_valid(capsule, b"dlpack_exchange_api"):
        return Exchange(0, 0)
    api = DLPackExchangeAPI.from_address(_get_pointer(capsule, b"dlpack_exchange_api"))
    if api.major != 1:
        return Exchange(0, 0)
    return Exchange(api.dltensor_from_py_object_no_sync or 0, api.current_work_stream or 0)


def look(functions: Exchange, tensor: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """(address, shape, strides) of a tensor of that type; what its library raises."""
    view = DLTensor()
    call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))(functions.find)
    if call(tensor, view):
        raise BufferError("DLPack refuses it and says nothing")
    return (view.data or 0) + view.byte_offset, tuple(view.shape[: view.ndim]), tuple(view.strides[: view.ndim])


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a row-major tensor without gaps."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def _parsed(t: DLTensor, flags: int) -> Parsed:
    if not 0 <= t.ndim <= MOST_DIMENSIONS or (t.ndim and not t.shape):
        raise ValueError(f"{t.ndim} dimensions{'' if t.shape else ' and no shape'}")
    shape = tuple(t.shape[i] for i in range(t.ndim))
    if any(e < 0 for e in shape):
        raise ValueError(f"shape {shape} has a negative extent")
    strides = tuple(t.strides[i] for i in range(t.ndim)) if t.strides else dense_strides(shape)
    code, bits, lanes = t.dtype.code, t.dtype.bits, t.dtype.lanes
    name = _NAMES.get((code, bits), "")
    if name and bits < 8 and flags & SUBBYTE_PADDED:
        dtype = f"{name} in a byte each"
    elif name and bits < 8 and lanes in (1, 8 // bits):  # torch's float4_e2m1fn_x2 has two lanes: bytes already
        dtype = name
        shape, strides = (shape, strides) if lanes * bits == 8 else _in_bytes(shape, strides, bits)
    elif name and lanes == 1:
        dtype = name
    else:
        dtype = f"{_CODES.get(code, f'DLPack type code {code} of bits ')}{bits}{'' if lanes == 1 else f'x{lanes}'}"
    pointer = (t.data or 0) + t.byte_offset if t.data else 0
    return Parsed(pointer, shape, strides, dtype, t.device.device_type, t.device.device_id, bool(flags & READ_ONLY))


def _in_bytes(shape: tuple[int, ...], strides: tuple[int, ...], bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of packed elements, counted in bytes along the contiguous axis."""
    if not shape:
        return shape, strides
    inner = max(range(len(shape)), key=lambda axis: (strides[axis] == 1, shape[axis], axis))
    outer = [axis for axis, extent in enumerate(shape) if axis != inner and extent > 1]
    if (strides[inner] != 1 and shape[inner] > 1) or any(strides[axis] * bits % 8 for axis in outer):
        raise ValueError(f"elements of {bits} bits with shape {shape}, strides {strides}: rows are not whole bytes")
    extents = tuple(-(-e * bits // 8) if axis == inner else e for axis, e in enumerate(shape))
    return extents, tuple(s * bits // 8 if axis in outer else 1 for axis, s in enumerate(strides))


_kept: dict[int, tuple[Any, ...]] = {}  # by the address of our managed tensor: what must outlive it


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _deleter(address: int) -> None:
    _kept.pop(address, None)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _destructor(capsule: int) -> None:
    # called while the capsule dies: it must not be given to Python again, only asked by address
    is_valid, get_pointer = _raw
    for name in (_LEGACY, _VERSIONED):
        if is_valid(capsule, name):
            _kept.pop(get_pointer(capsule, name), None)


_raw = (
    ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api)),
    ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api)),
)


def make(
    owner: Any,
    pointer: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    device: tuple[int, int],
    versioned: bool = False,
    read_only: bool = False,
) -> Any:
    """A capsule over memory that `owner` keeps alive; `device` is (DLDeviceType, ordinal)."""
    rank = len(shape)
    extents, steps = (ctypes.c_int64 * rank)(*shape), (ctypes.c_int64 * rank)(*strides)
    code, bits = TYPES[dtype]
    tensor = DLTensor(
        pointer,
        DLDevice(*device),
        rank,
        DLDataType(code, bits, 1),
        ctypes.cast(extents, ctypes.POINTER(ctypes.c_int64)),
        ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)),
        0,
    )
    deleter = ctypes.cast(_deleter, ctypes.c_void_p)
    if versioned:
        managed = DLManagedTensorVersioned(1, 1, None, deleter, READ_ONLY if read_only else 0, tensor)
    else:
        managed = DLManagedTensor(tensor, None, deleter)
    address = ctypes.addressof(managed)
    _kept[address] = (managed, extents, steps, owner)
    name = _VERSIONED if versioned else _LEGACY
    return _new(address, name, ctypes.cast(_destructor, ctypes.c_void_p))
