"""A call in one call of native code: from its tensors and numbers to cuLaunchKernelEx.

It is a function of C, made at run time by LLVM (llvmlite) and given to Python as a builtin (METH_FASTCALL):

    results = trampoline(operands, results, numbers, stream)

What a launch is made of lies in a block of bytes that nobody writes again. A call asks torch whether the tensors are as
those that the trampoline was made for (Asked), and where they are; it copies the parameters to its own stack and points
them, tensor maps and pointers alike, at the tensors' addresses there. So any number of threads may call at once without
a lock, and a call with tensors elsewhere costs what a repeated one does. Tensor maps get their addresses from the
driver (cuTensorMapReplaceAddress), as in scalec.runtime.moved.

It launches or it does nothing: whatever is not usual (a tensor that is NULL, not aligned or may overlap a result,
another context on the thread, an error of the driver) is answered by None, and the caller launches in the ordinary way,
which pushes the context or says what is wrong; tensors that are not as those it was made for, by False.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any, Literal, NamedTuple

from scalec.runtime.handles import Handles
from scalec.runtime.trampoline_block import ATTRIBUTE, CONFIG, CONSTANT, HEAD, TENSOR

Results = tuple[Any, ...] | None
Answer = tuple[Any, ...] | None | Literal[False]
Trampoline = Callable[[tuple[Any, ...], Results, tuple[float, ...], int | None], Answer]
"""(operands, results, numbers, stream) -> the results where it launched; None where the tensors fit and the caller must
launch in the ordinary way; False where they are not like those it was made for.

Without results (None) they are allocated; without a stream (None) it is torch's current one."""

_MAP_ALIGN = 64  # of a CUtensorMap
_MOST = 32768  # bytes of parameters, which lie on the stack: cuda's limit is 32764 (CUDA programming guide)
_METH_FASTCALL = 0x80  # CPython's methodobject.h, in its stable ABI


class Slot(NamedTuple):
    """A parameter: its bytes, what is written into it, the place of that among the tensors or the numbers, and how many
    bytes are added to an address."""

    data: bytes
    kind: int = CONSTANT
    place: int = 0
    behind: int = 0


class Driver(NamedTuple):
    """Addresses of driver functions."""

    launch: int  # cuLaunchKernelEx
    replace: int  # cuTensorMapReplaceAddress
    current: int  # cuCtxGetCurrent


class Asked(NamedTuple):
    """What a trampoline asks of torch. What any of it raises, the trampoline raises.

    Attributes:
        check, check_results: whether operands, and results that are given, may be taken as those that it was made for.
        checks: in place of those where all calls have the same objects: what is asked, and with which of them.
        refused: asked after that, whether there is another reason why not.
        address: where a tensor is.
        handles: in place of `address`, functions of C that tell a tensor's extents and strides too. Tensors that have
            not the type or the sizes they should have are known before `check` is asked.
        types: of each tensor, results included, where `handles` are asked: exactly this one.
        exchange: in place of `address`, where there are no `handles`, a function of C with its extents and strides too
            (DLPack, DLPackDLTensorFromPyObjectNoSync). 0: none.
        extents, strides: those that each tensor must have, results included, where `handles` or `exchange` is asked.
        wrote: told of results that are written.
        allocate: makes the results.
        stream: the current stream, of `ordinal`.
        work_stream: in place of `stream`, a function of C (DLPack, DLPackCurrentWorkStream) of `device`. 0: none.
    """

    check: Callable[..., bool] | None = None
    check_results: Callable[..., bool] | None = None
    checks: Sequence[tuple[Callable[..., bool], tuple[Any, ...]]] = ()
    refused: Callable[[], bool] | None = None
    address: Callable[[Any], int] = int
    handles: Handles = Handles()
    types: Sequence[type] = ()
    exchange: int = 0
    extents: Sequence[Sequence[int]] = ()
    strides: Sequence[Sequence[int]] = ()
    wrote: Callable[[Any], Any] | None = None
    allocate: Callable[[], tuple[Any, ...]] | None = None
    stream: Callable[[Any], int] = int
    ordinal: int = 0
    work_stream: int = 0
    device: tuple[int, int] = (1, 0)


def make(
    driver: Driver,
    context: int,
    function: int,
    config: bytes,
    attributes: bytes,
    slots: Sequence[Slot],
    spans: Sequence[int],
    aligns: Sequence[int],
    operands: int,
    asked: Asked,
) -> Trampoline | None:
    """A trampoline, or None where it cannot be: no CPython, no llvmlite, memory that must not be executed.

    Args:
        context, function: handles.
        config, attributes: a CUlaunchConfig and its CUlaunchAttributes; stream and attrs are filled in.
        spans: for each tensor the bytes from its first to past its last element, at least 1.
        aligns: for each tensor the power of two that its address is a multiple of.
        operands: how many tensors are operands; the others are results.
        asked: what is asked of torch.
    """
    table, parameters = b"", b""
    for slot in slots:
        step = 8 if len(slot.data) <= 8 else _MAP_ALIGN
        parameters += bytes(-len(parameters) % step)
        table += struct.pack("4q", slot.kind, slot.place, len(parameters), slot.behind)
        parameters += slot.data
    usual = min(spans, default=1) > 0 and all(a > 0 and not a & (a - 1) for a in aligns) and len(parameters) <= _MOST
    if not usual or len(config) != CONFIG or len(attributes) % ATTRIBUTE:
        return None
    made = _factory()
    if made is None:
        return None
    views = HEAD + CONFIG + 8 * TENSOR * len(spans) + len(table)
    shown, tensors = b"", b""
    for i, (span, align) in enumerate(zip(spans, aligns, strict=True)):
        seen = (*asked.extents[i], *asked.strides[i]) if asked.exchange or asked.handles.dim else ()
        kind = id(asked.types[i]) if asked.handles.dim else 0
        tensors += struct.pack("5Q", span, align - 1, len(seen) // 2, views + len(shown), kind)
        shown += struct.pack(f"{len(seen)}q", *seen)
    # Python's objects by their addresses, which CPython's id() is; `kept` keeps them
    checks = (asked.check, asked.check_results, tuple(chain(*asked.checks)) or None, asked.refused)
    objects = (*checks, asked.address, asked.wrote, asked.allocate, asked.stream, asked.ordinal)
    *asks, wrote, allocate, stream, ordinal = (0 if o is None else id(o) for o in objects)
    places = (HEAD + CONFIG, views - len(table), views + len(shown), views + len(shown) + len(parameters))
    head = struct.pack(
        "20Q2i11Q",
        *(*driver, context, function, len(spans), operands, len(slots), len(parameters)),
        *(*asks, asked.exchange, wrote, allocate, stream, ordinal, asked.work_stream),
        *(*asked.device, id(None), *places, *asked.handles),
    )
    kept = (head + config + tensors + table + shown + parameters + attributes, *objects, *asked.types)
    return made(kept)


@cache
def _factory() -> Callable[[Any], Trampoline] | None:
    """What makes trampolines, given their blocks; made once, in some 50 ms where llvmlite must be imported."""
    if sys.implementation.name != "cpython":
        return None
    try:
        _ask_for_executable_memory()
        import llvmlite.binding as llvm

        from scalec.runtime import trampoline_code

        api, module = ctypes.pythonapi, trampoline_code.made()
        for function in module.functions:
            if function.is_declaration and function.name.startswith("Py"):
                llvm.add_symbol(function.name, ctypes.cast(getattr(api, function.name), ctypes.c_void_p).value)
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
        engine.finalize_object()
        code = engine.get_function_address("launch")
    except (ImportError, AttributeError, OSError, RuntimeError):
        return None
    definition = _Definition(b"launch", code, _METH_FASTCALL, None)
    # for good: a kernel may be called while the interpreter ends, after this module has been cleared
    for kept in (engine, definition):
        api.Py_IncRef(ctypes.py_object(kept))
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", api)
    )
    where = ctypes.addressof(definition)
    return lambda kept: new(where, kept, None)


def _ask_for_executable_memory() -> None:
    """Raises OSError where the system gives none (SELinux's execmem, systemd's MemoryDenyWriteExecute): LLVM would end
    the process."""
    if hasattr(mmap, "PROT_EXEC"):
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        mmap.mmap(-1, mmap.PAGESIZE, private, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


class _Definition(ctypes.Structure):
    """PyMethodDef (CPython, "Common Object Structures")."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )
