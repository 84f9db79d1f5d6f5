"""Where a tensor of torch's is, and how large, by the functions of C that torch keeps stable (its "stable ABI":
torch/csrc/inductor/aoti_torch/c/shim.h), which take the address of an at::Tensor.

A Python object of torch's has its at::Tensor within itself, and that is but the address of a TensorImpl, which the
object tells as `_cdata`. Where in the object is torch's own business and has changed (MaybeOwned was in front of it
once), so it is looked for.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

_WORD = 8


class Handles(NamedTuple):
    """How to ask of an object; zeros where that is not known.

    Attributes:
        data_ptr, dim, sizes, strides: aoti_torch_get_...: (address of an at::Tensor, where the answer goes) -> 0, or
            something else where it has none. They raise nothing in Python.
        offset: of the at::Tensor in an object, in bytes.
        type_offset: of the address of its type.
    """

    data_ptr: int = 0
    dim: int = 0
    sizes: int = 0
    strides: int = 0
    offset: int = 0
    type_offset: int = 0


def find(torch: Any, tensors: Sequence[Any]) -> Handles:
    """For objects of exactly the types of these, which should be of all types and lie in all ways that are asked for
    later. Zeros where torch has not got the functions, or its objects no one place for all."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != _WORD:
        return Handles()
    type_offset = object.__basicsize__ - _WORD  # the last word of every object's head, free-threaded or not
    places = [_places(t) for t in tensors]
    common = set[int]().union(*places)
    typed = all(_word(t, type_offset) == id(type(t)) for t in tensors)
    if len(common) != 1 or not all(places) or not typed:
        return Handles()
    try:
        # torch's own module, which is loaded: a symbol of it is looked for in the libraries it was linked with too
        library = ctypes.CDLL(torch._C.__file__, mode=os.RTLD_NOLOAD)
        names = (f"aoti_torch_get_{name}" for name in Handles._fields[:4])
        found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names]
    except (AttributeError, OSError, TypeError):  # Windows has no RTLD_NOLOAD
        return Handles()
    return Handles(*found, offset=common.pop(), type_offset=type_offset) if all(found) else Handles()


def look(found: Handles, tensor: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """(address, shape, strides) of a tensor of a type that they were found for.

    Raises:
        RuntimeError: torch does not tell.
    """
    address, rank = ctypes.c_uint64(), ctypes.c_int64()
    extents, steps = ctypes.POINTER(ctypes.c_int64)(), ctypes.POINTER(ctypes.c_int64)()
    for function, answer in zip(found[:4], (address, rank, extents, steps), strict=True):
        ask = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(function)
        if ask(id(tensor) + found.offset, ctypes.addressof(answer)):
            raise RuntimeError("torch does not tell where a tensor is")
    return address.value, tuple(extents[: rank.value]), tuple(steps[: rank.value])


def _places(tensor: Any) -> set[int]:
    """Offsets at which an object has the address of its TensorImpl."""
    words = range(object.__basicsize__, type(tensor).__basicsize__ - _WORD + 1, _WORD)
    return {at for at in words if _word(tensor, at) == tensor._cdata}


def _word(o: Any, offset: int) -> int:
    return ctypes.c_uint64.from_address(id(o) + offset).value
