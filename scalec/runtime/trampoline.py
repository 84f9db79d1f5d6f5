"""A launch in one call of native code: from the stream, the tensors and the numbers of a call to cuLaunchKernelEx.

It is a function of C, made at run time by LLVM (llvmlite) and given to Python as a builtin (METH_FASTCALL):

    launched = trampoline(stream, tensors, numbers)

What a launch is made of lies in a block of bytes that nobody writes again. A call copies the parameters to its own
stack and points them, tensor maps and pointers alike, at the tensors' addresses there; so any number of threads may
call at once without a lock, and a call with tensors elsewhere costs what a repeated one does. Tensor maps get their
addresses from the driver (cuTensorMapReplaceAddress), as in scalec.runtime.moved.

It launches or it does nothing: whatever is not usual (a tensor that is NULL, not aligned or may overlap a result,
another context on the thread, an error of the driver) is answered by a number other than 0, and the caller launches in
the ordinary way, which pushes the context or says what is wrong.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

Trampoline = Callable[[int, tuple[Any, ...], tuple[float, ...]], int]
"""(stream, tensors, numbers) -> 0 where it launched."""

CONSTANT, TENSOR_MAP, POINTER, F32, U64 = range(5)
"""What is written into a parameter at each launch: nothing, a tensor's address (into a tensor map; by itself), or a
number as f32 or as a 64-bit integer."""

OTHERWISE = -1  # "launch in the ordinary way"
CONFIG, ATTRIBUTE = 56, 72  # bytes of a CUlaunchConfig and of a CUlaunchAttribute (cuda.h, 64-bit)
_MAP_ALIGN = 64  # of a CUtensorMap
_MOST = 32768  # bytes of parameters, which lie on the stack: cuda's limit is 32764 (CUDA programming guide)
_METH_FASTCALL = 0x80  # CPython's methodobject.h, in its stable ABI


class Slot(NamedTuple):
    """A parameter: its bytes, what is written into it, and the place of that among the tensors or the numbers."""

    data: bytes
    kind: int = CONSTANT
    place: int = 0


class Driver(NamedTuple):
    """Addresses of driver functions."""

    launch: int  # cuLaunchKernelEx
    replace: int  # cuTensorMapReplaceAddress
    current: int  # cuCtxGetCurrent


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
    address_of: Callable[[Any], int],
) -> Trampoline | None:
    """A trampoline, or None where it cannot be: no CPython, no llvmlite, memory that must not be executed.

    Args:
        context, function: handles.
        config, attributes: a CUlaunchConfig and its CUlaunchAttributes; stream and attrs are filled in.
        spans: for each tensor the bytes from its first to past its last element, at least 1.
        aligns: for each tensor the power of two that its address is a multiple of.
        operands: how many tensors are operands; the others are results.
        address_of: the address of a tensor; what it raises, the trampoline raises.
    """
    table, parameters = b"", b""
    for slot in slots:
        step = 8 if len(slot.data) <= 8 else _MAP_ALIGN
        parameters += bytes(-len(parameters) % step)
        table += struct.pack("3q", slot.kind, slot.place, len(parameters))
        parameters += slot.data
    usual = min(spans, default=1) > 0 and all(a > 0 and not a & (a - 1) for a in aligns) and len(parameters) <= _MOST
    if not usual or len(config) != CONFIG or len(attributes) % ATTRIBUTE:
        return None
    made = _factory()
    if made is None:
        return None
    tensors = b"".join(struct.pack("2Q", span, align - 1) for span, align in zip(spans, aligns, strict=True))
    head = (*driver, context, function, len(spans), operands, len(slots), len(parameters))
    end = _HEAD + len(tensors) + len(table)
    places = (_HEAD, _HEAD + len(tensors), end, end + len(parameters))
    block = struct.pack("13Q", *head, *places) + config + tensors + table + parameters + attributes
    return made((block, address_of))


_HEAD = 13 * 8 + CONFIG


@cache
def _factory() -> Callable[[Any], Trampoline] | None:
    """What makes trampolines, given their blocks; made once, in some 50 ms where llvmlite must be imported."""
    if sys.implementation.name != "cpython":
        return None
    try:
        _ask_for_executable_memory()
        import llvmlite.binding as llvm

        api = ctypes.pythonapi
        for name in _API:
            llvm.add_symbol(name, ctypes.cast(getattr(api, name), ctypes.c_void_p).value)
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_CODE), machine)
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
    return lambda block: new(where, block, None)


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


_API = (
    "PyBytes_AsString",
    "PyErr_Occurred",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyFloat_AsDouble",
    "PyLong_AsUnsignedLongLong",
    "PyLong_FromLong",
    "PyObject_CallOneArg",
    "PyTuple_GetItem",
    "Py_DecRef",
)

# Each block of the code begins with what it does, in C. b is the block of bytes: 13 words, the config, an array of
# {span, align - 1} for the tensors, one of {kind, place, offset} for the parameters, the parameters, the attributes.
_CODE = """
%Block = type { ptr, ptr, ptr, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, [56 x i8] }
%Tensor = type { i64, i64 }
%Slot = type { i64, i64, i64 }

declare ptr @PyBytes_AsString(ptr)
declare ptr @PyErr_Occurred()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyEval_SaveThread()
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare void @Py_DecRef(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal i1 @unlike.u64(ptr %object, ptr %to) {  ; *to = object; whether that failed, an error being set
  %number = call i64 @PyLong_AsUnsignedLongLong(ptr %object)
  store i64 %number, ptr %to
  %maybe = icmp eq i64 %number, -1
  br i1 %maybe, label %ask, label %fine
ask:
  %error = call ptr @PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  ret i1 %failed
fine:
  ret i1 false
}

define internal i1 @unlike.f32(ptr %object, ptr %to) {  ; *to = (float)object; whether that failed
  %number = call double @PyFloat_AsDouble(ptr %object)
  %single = fptrunc double %number to float
  store float %single, ptr %to
  %maybe = fcmp oeq double %number, -1.0
  br i1 %maybe, label %ask, label %fine
ask:
  %error = call ptr @PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  ret i1 %failed
fine:
  ret i1 false
}

define ptr @launch(ptr %self, ptr %args, i64 %count) {
entry:  ; if (count != 3) return OTHERWISE
  %three = icmp eq i64 %count, 3
  br i1 %three, label %begin, label %otherwise

begin:  ; b = self[0], address_of = self[1]; uint64_t at[b->tensors]; void *table[b->slots]; char room[b->bytes]
  %bytes.object = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %address_of = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %b = call ptr @PyBytes_AsString(ptr %bytes.object)
  %tensors.at = getelementptr %Block, ptr %b, i64 0, i32 5
  %tensors = load i64, ptr %tensors.at
  %operands.at = getelementptr %Block, ptr %b, i64 0, i32 6
  %operands = load i64, ptr %operands.at
  %slots.at = getelementptr %Block, ptr %b, i64 0, i32 7
  %slots = load i64, ptr %slots.at
  %bytes.at = getelementptr %Block, ptr %b, i64 0, i32 8
  %bytes = load i64, ptr %bytes.at
  %tensors.from = getelementptr %Block, ptr %b, i64 0, i32 9
  %tensors.offset = load i64, ptr %tensors.from
  %forms = getelementptr i8, ptr %b, i64 %tensors.offset
  %slots.from = getelementptr %Block, ptr %b, i64 0, i32 10
  %slots.offset = load i64, ptr %slots.from
  %plan = getelementptr i8, ptr %b, i64 %slots.offset
  %at = alloca i64, i64 %tensors
  %table = alloca ptr, i64 %slots
  %room = alloca i8, i64 %bytes, align 64
  %config = alloca [56 x i8], align 8
  %context = alloca ptr
  ; config = b->config; config.hStream = args[0]; given = args[1], numbers = args[2]
  %config.from = getelementptr %Block, ptr %b, i64 0, i32 13
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %config, ptr align 8 %config.from, i64 56, i1 false)
  %stream.at = getelementptr i8, ptr %config, i64 32
  %stream.object = load ptr, ptr %args
  %no.stream = call i1 @unlike.u64(ptr %stream.object, ptr %stream.at)
  %given.at = getelementptr ptr, ptr %args, i64 1
  %given = load ptr, ptr %given.at
  %numbers.at = getelementptr ptr, ptr %args, i64 2
  %numbers = load ptr, ptr %numbers.at
  br i1 %no.stream, label %raise, label %gather

gather:  ; for (i = 0, fits = 1; i < b->tensors; i++)
  %i = phi i64 [0, %begin], [%i.next, %taken]
  %fits = phi i1 [true, %begin], [%fits.next, %taken]
  %more = icmp ult i64 %i, %tensors
  br i1 %more, label %item, label %gathered

item:  ; if (!(tensor = given[i])) return NULL; if (!(number = address_of(tensor))) return NULL
  %tensor = call ptr @PyTuple_GetItem(ptr %given, i64 %i)
  %no.tensor = icmp eq ptr %tensor, null
  br i1 %no.tensor, label %raise, label %ask
ask:
  %number = call ptr @PyObject_CallOneArg(ptr %address_of, ptr %tensor)
  %no.number = icmp eq ptr %number, null
  br i1 %no.number, label %raise, label %called

called:  ; at[i] = number; fits &= at[i] && !(at[i] & forms[i].mask)
  %here = getelementptr i64, ptr %at, i64 %i
  %no.address = call i1 @unlike.u64(ptr %number, ptr %here)
  call void @Py_DecRef(ptr %number)
  br i1 %no.address, label %raise, label %taken
taken:
  %address = load i64, ptr %here
  %mask.at = getelementptr %Tensor, ptr %forms, i64 %i, i32 1
  %mask = load i64, ptr %mask.at
  %low = and i64 %address, %mask
  %aligned = icmp eq i64 %low, 0
  %somewhere = icmp ne i64 %address, 0
  %usable = and i1 %aligned, %somewhere
  %fits.next = and i1 %fits, %usable
  %i.next = add i64 %i, 1
  br label %gather

gathered:  ; if (!fits) return OTHERWISE
  br i1 %fits, label %results, label %otherwise

results:  ; for (r = b->operands; r < b->tensors; r++)
  %r = phi i64 [%operands, %gathered], [%r.next, %passed]
  %r.more = icmp ult i64 %r, %tensors
  br i1 %r.more, label %result, label %contexts
result:
  %r.at = getelementptr i64, ptr %at, i64 %r
  %r.address = load i64, ptr %r.at
  %r.span.at = getelementptr %Tensor, ptr %forms, i64 %r
  %r.span = load i64, ptr %r.span.at
  br label %pairs
pairs:  ; for (t = 0; t < r; t++) if (at[r] - at[t] < span[t] || at[t] - at[r] < span[r]) return OTHERWISE, modulo 2^64
  %t = phi i64 [0, %result], [%t.next, %apart]
  %t.more = icmp ult i64 %t, %r
  br i1 %t.more, label %pair, label %passed
pair:
  %t.at = getelementptr i64, ptr %at, i64 %t
  %t.address = load i64, ptr %t.at
  %t.span.at = getelementptr %Tensor, ptr %forms, i64 %t
  %t.span = load i64, ptr %t.span.at
  %above = sub i64 %r.address, %t.address
  %below = sub i64 %t.address, %r.address
  %in.t = icmp ult i64 %above, %t.span
  %in.r = icmp ult i64 %below, %r.span
  %may.overlap = or i1 %in.t, %in.r
  br i1 %may.overlap, label %otherwise, label %apart
apart:
  %t.next = add i64 %t, 1
  br label %pairs
passed:
  %r.next = add i64 %r, 1
  br label %results

contexts:  ; if (b->current(&context) || context != b->context) return OTHERWISE
  %current.at = getelementptr %Block, ptr %b, i64 0, i32 2
  %current = load ptr, ptr %current.at
  %no.context = call i32 %current(ptr %context)
  %asked = icmp eq i32 %no.context, 0
  %now = load i64, ptr %context
  %ours.at = getelementptr %Block, ptr %b, i64 0, i32 3
  %ours = load i64, ptr %ours.at
  %same = icmp eq i64 %now, %ours
  %home = and i1 %asked, %same
  br i1 %home, label %copy, label %otherwise

copy:  ; memcpy(room, parameters, b->bytes)
  %parameters.from = getelementptr %Block, ptr %b, i64 0, i32 11
  %parameters.offset = load i64, ptr %parameters.from
  %parameters = getelementptr i8, ptr %b, i64 %parameters.offset
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %room, ptr align 8 %parameters, i64 %bytes, i1 false)
  br label %fill

fill:  ; for (s = 0; s < b->slots; s++) { p = table[s] = room + plan[s].offset; switch (plan[s].kind) ... }
  %s = phi i64 [0, %copy], [%s.next, %filled]
  %s.more = icmp ult i64 %s, %slots
  br i1 %s.more, label %slot, label %go
slot:
  %kind.at = getelementptr %Slot, ptr %plan, i64 %s, i32 0
  %kind = load i64, ptr %kind.at
  %index.at = getelementptr %Slot, ptr %plan, i64 %s, i32 1
  %index = load i64, ptr %index.at
  %offset.at = getelementptr %Slot, ptr %plan, i64 %s, i32 2
  %offset = load i64, ptr %offset.at
  %p = getelementptr i8, ptr %room, i64 %offset
  %entry.at = getelementptr ptr, ptr %table, i64 %s
  store ptr %p, ptr %entry.at
  switch i64 %kind, label %filled [i64 1, label %map i64 2, label %pointer i64 3, label %f32 i64 4, label %u64]

map:  ; if (b->replace(p, at[index])) return OTHERWISE
  %map.address.at = getelementptr i64, ptr %at, i64 %index
  %map.address = load ptr, ptr %map.address.at
  %replace.at = getelementptr %Block, ptr %b, i64 0, i32 1
  %replace = load ptr, ptr %replace.at
  %not.replaced = call i32 %replace(ptr %p, ptr %map.address)
  %replaced = icmp eq i32 %not.replaced, 0
  br i1 %replaced, label %filled, label %otherwise

pointer:  ; *p = at[index]
  %pointer.at = getelementptr i64, ptr %at, i64 %index
  %pointer.address = load i64, ptr %pointer.at
  store i64 %pointer.address, ptr %p
  br label %filled

f32:  ; if (!(number = numbers[index])) return NULL; *p = (float)number
  %float.object = call ptr @PyTuple_GetItem(ptr %numbers, i64 %index)
  %no.float = icmp eq ptr %float.object, null
  br i1 %no.float, label %raise, label %store.f32
store.f32:
  %not.float = call i1 @unlike.f32(ptr %float.object, ptr %p)
  br i1 %not.float, label %raise, label %filled

u64:  ; if (!(number = numbers[index])) return NULL; *p = number
  %whole.object = call ptr @PyTuple_GetItem(ptr %numbers, i64 %index)
  %no.whole = icmp eq ptr %whole.object, null
  br i1 %no.whole, label %raise, label %store.u64
store.u64:
  %not.whole = call i1 @unlike.u64(ptr %whole.object, ptr %p)
  br i1 %not.whole, label %raise, label %filled

filled:
  %s.next = add i64 %s, 1
  br label %fill

go:  ; config.attrs = attributes; b->launch(...) without the GIL
  %attributes.from = getelementptr %Block, ptr %b, i64 0, i32 12
  %attributes.offset = load i64, ptr %attributes.from
  %attributes = getelementptr i8, ptr %b, i64 %attributes.offset
  %attrs.at = getelementptr i8, ptr %config, i64 40
  store ptr %attributes, ptr %attrs.at
  %function.at = getelementptr %Block, ptr %b, i64 0, i32 4
  %function = load ptr, ptr %function.at
  %driver.launch = load ptr, ptr %b
  %thread = call ptr @PyEval_SaveThread()
  %status = call i32 %driver.launch(ptr %config, ptr %function, ptr %table, ptr null)
  call void @PyEval_RestoreThread(ptr %thread)
  %status.long = sext i32 %status to i64
  %done = call ptr @PyLong_FromLong(i64 %status.long)
  ret ptr %done

otherwise:
  %minus = call ptr @PyLong_FromLong(i64 -1)
  ret ptr %minus

raise:
  ret ptr null
}
"""
