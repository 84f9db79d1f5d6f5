"""What the code of a trampoline (scalec.runtime.trampoline_code) is made with: the block it reads, CPython's functions,
and its own beside the one that launches.

Each block of the code begins with what it does, in C. b is the trampoline's block of bytes: 31 words, the config, an
array of {span, align - 1, rank, offset of its extents and then strides, type} for the tensors, one of {kind, place,
offset, bytes behind the address} for the parameters, the extents and strides, the parameters, the attributes.
"""

API = (
    "PyBool_FromLong",
    "PyBytes_AsString",
    "PyErr_Clear",
    "PyErr_Occurred",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyFloat_AsDouble",
    "PyLong_AsUnsignedLongLong",
    "PyObject_Call",
    "PyObject_CallNoArgs",
    "PyObject_CallOneArg",
    "PyObject_IsTrue",
    "PyTuple_GetItem",
    "PyTuple_Size",
    "Py_DecRef",
    "Py_IncRef",
)
"""Functions of CPython that it calls: all of its stable ABI (docs.python.org, "Contents of Limited API")."""

HEAD = 31 * 8
"""Bytes of the words."""

PARTS = """
%Block = type { ptr, ptr, ptr, i64, i64, i64, i64, i64, i64, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, ptr,
  i64, i64, i64, i64, ptr, ptr, ptr, ptr, i64, i64, [56 x i8] }
; 0 launch, 1 replace, 2 current, 3 context, 4 function, 5 tensors, 6 operands, 7 slots, 8 bytes of the parameters,
; 9 check of operands, 10 check of results, 11 refused, 12 address_of, 13 exchange, 14 wrote, 15 allocate, 16 stream,
; 17 ordinal, 18 work_stream, 19 device, 20 None, 21 ... 24 where tensors, slots, parameters and attributes begin,
; 25 data_ptr, 26 dim, 27 sizes, 28 strides, 29 offset and 30 type_offset of Handles, 31 config
%Tensor = type { i64, i64, i64, i64, i64 }
%Slot = type { i64, i64, i64, i64 }
%View = type { i64, i64, i32, i32, ptr, ptr, i64 }  ; DLTensor (dlpack.h)

declare ptr @PyBool_FromLong(i64)
declare ptr @PyBytes_AsString(ptr)
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyEval_SaveThread()
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare ptr @PyObject_Call(ptr, ptr, ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare i32 @PyObject_IsTrue(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
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

define internal i32 @answer(ptr %said) {  ; whether it is true: 0 or 1, -1 where an error is set; said is given away
entry:
  %nothing = icmp eq ptr %said, null
  br i1 %nothing, label %failed, label %ask
ask:
  %true = call i32 @PyObject_IsTrue(ptr %said)
  call void @Py_DecRef(ptr %said)
  ret i32 %true
failed:
  ret i32 -1
}

; whether it is as wanted of tensor i: 0 or 1
define internal i32 @as.wanted(ptr %b, i64 %i, i64 %ndim, ptr %shape, ptr %strides) {
entry:  ; if (ndim != form.rank) return 0
  %forms.from = getelementptr %Block, ptr %b, i64 0, i32 21
  %forms.offset = load i64, ptr %forms.from
  %forms = getelementptr i8, ptr %b, i64 %forms.offset
  %rank.at = getelementptr %Tensor, ptr %forms, i64 %i, i32 2
  %rank = load i64, ptr %rank.at
  %wanted.from = getelementptr %Tensor, ptr %forms, i64 %i, i32 3
  %wanted.offset = load i64, ptr %wanted.from
  %extents = getelementptr i8, ptr %b, i64 %wanted.offset
  %steps = getelementptr i64, ptr %extents, i64 %rank
  %as.many = icmp eq i64 %ndim, %rank
  br i1 %as.many, label %axes, label %other

axes:  ; for (axis = 0; axis < rank; axis++) if (shape[axis] != extents[axis] || strides[axis] != steps[axis]) return 0
  %axis = phi i64 [0, %entry], [%axis.next, %equal]
  %more = icmp ult i64 %axis, %rank
  br i1 %more, label %extent, label %same
extent:
  %extent.at = getelementptr i64, ptr %shape, i64 %axis
  %extent.now = load i64, ptr %extent.at
  %extent.wanted.at = getelementptr i64, ptr %extents, i64 %axis
  %extent.wanted = load i64, ptr %extent.wanted.at
  %extent.same = icmp eq i64 %extent.now, %extent.wanted
  br i1 %extent.same, label %step, label %other
step:
  %step.at = getelementptr i64, ptr %strides, i64 %axis
  %step.now = load i64, ptr %step.at
  %step.wanted.at = getelementptr i64, ptr %steps, i64 %axis
  %step.wanted = load i64, ptr %step.wanted.at
  %step.same = icmp eq i64 %step.now, %step.wanted
  br i1 %step.same, label %equal, label %other
equal:
  %axis.next = add i64 %axis, 1
  br label %axes

same:
  ret i32 1
other:
  ret i32 0
}

; whether the type and the sizes of a tensor are those of tensor i, where handles tell: 0 or 1. Of another type nothing
; is read
define internal i32 @fits(ptr %b, ptr %tensor, i64 %i) {
entry:  ; if (!b->dim) return 1
  %ndim.at = alloca i64
  %shape.at = alloca ptr
  %strides.at = alloca ptr
  %dim.at = getelementptr %Block, ptr %b, i64 0, i32 26
  %dim = load ptr, ptr %dim.at
  %no.handles = icmp eq ptr %dim, null
  br i1 %no.handles, label %fine, label %type

type:  ; if (*(tensor + b->type_offset) != form.type) return 0
  %forms.from = getelementptr %Block, ptr %b, i64 0, i32 21
  %forms.offset = load i64, ptr %forms.from
  %forms = getelementptr i8, ptr %b, i64 %forms.offset
  %type.from = getelementptr %Tensor, ptr %forms, i64 %i, i32 4
  %type.wanted = load i64, ptr %type.from
  %type.offset.at = getelementptr %Block, ptr %b, i64 0, i32 30
  %type.offset = load i64, ptr %type.offset.at
  %type.at = getelementptr i8, ptr %tensor, i64 %type.offset
  %type.now = load i64, ptr %type.at
  %type.same = icmp eq i64 %type.now, %type.wanted
  br i1 %type.same, label %tell, label %other

tell:  ; if (dim(handle, &ndim) | sizes(handle, &shape) | strides(handle, &strides)) return 0
  %offset.at = getelementptr %Block, ptr %b, i64 0, i32 29
  %offset = load i64, ptr %offset.at
  %handle = getelementptr i8, ptr %tensor, i64 %offset
  %sizes_of.at = getelementptr %Block, ptr %b, i64 0, i32 27
  %sizes_of = load ptr, ptr %sizes_of.at
  %strides_of.at = getelementptr %Block, ptr %b, i64 0, i32 28
  %strides_of = load ptr, ptr %strides_of.at
  %no.dim = call i32 %dim(ptr %handle, ptr %ndim.at)
  %no.sizes = call i32 %sizes_of(ptr %handle, ptr %shape.at)
  %no.strides = call i32 %strides_of(ptr %handle, ptr %strides.at)
  %not.both = or i32 %no.dim, %no.sizes
  %not.all = or i32 %not.both, %no.strides
  %told = icmp eq i32 %not.all, 0
  br i1 %told, label %compare, label %other
compare:
  %ndim = load i64, ptr %ndim.at
  %shape = load ptr, ptr %shape.at
  %strides = load ptr, ptr %strides.at
  %same = call i32 @as.wanted(ptr %b, i64 %i, i64 %ndim, ptr %shape, ptr %strides)
  ret i32 %same

fine:
  ret i32 1
other:
  ret i32 0
}

; whether given is a tuple of so many that fit, the first as tensor `first`, and check(*given) where there is a check: 0
; or 1, -1 where an error is set
define internal i32 @right(ptr %b, ptr %check, ptr %given, i64 %first, i64 %wanted) {
entry:
  %count = call i64 @PyTuple_Size(ptr %given)
  %as.many = icmp eq i64 %count, %wanted
  br i1 %as.many, label %items, label %other

items:  ; for (j = 0; j < wanted; j++) if (!fits(b, given[j], first + j)) return 0
  %j = phi i64 [0, %entry], [%j.next, %next]
  %more = icmp ult i64 %j, %wanted
  br i1 %more, label %item, label %known
item:
  %tensor = call ptr @PyTuple_GetItem(ptr %given, i64 %j)
  %place = add i64 %first, %j
  %fitting = call i32 @fits(ptr %b, ptr %tensor, i64 %place)
  %j.next = add i64 %j, 1
  %misfit = icmp eq i32 %fitting, 0
  br i1 %misfit, label %other, label %next
next:
  br label %items

known:
  %no.check = icmp eq ptr %check, null
  br i1 %no.check, label %unchecked, label %ask
ask:
  %said = call ptr @PyObject_Call(ptr %check, ptr %given, ptr null)
  %answer = call i32 @answer(ptr %said)
  ret i32 %answer
unchecked:
  ret i32 1
other:
  call void @PyErr_Clear()  ; "not a tuple"
  ret i32 0
}

; *to = where tensor i is; 1 where it is, 0 where its extents or strides are not those of the block, 2 where torch does
; not tell, -1 for an error
define internal i32 @find(ptr %b, ptr %tensor, i64 %i, ptr %to) {
entry:  ; if (b->data_ptr) return data_ptr(handle, to) ? 2 : 1
  %view = alloca %View, align 8
  %data_ptr.at = getelementptr %Block, ptr %b, i64 0, i32 25
  %data_ptr = load ptr, ptr %data_ptr.at
  %no.handles = icmp eq ptr %data_ptr, null
  br i1 %no.handles, label %otherwise, label %tell
tell:
  %offset.at = getelementptr %Block, ptr %b, i64 0, i32 29
  %offset = load i64, ptr %offset.at
  %handle = getelementptr i8, ptr %tensor, i64 %offset
  %not.told = call i32 %data_ptr(ptr %handle, ptr %to)
  %told = icmp eq i32 %not.told, 0
  br i1 %told, label %found, label %untold

otherwise:  ; if (b->exchange) look, else ask
  %exchange.at = getelementptr %Block, ptr %b, i64 0, i32 13
  %exchange = load ptr, ptr %exchange.at
  %no.exchange = icmp eq ptr %exchange, null
  br i1 %no.exchange, label %ask, label %look

ask:  ; if (!(number = address_of(tensor))) return -1
  %address_of.at = getelementptr %Block, ptr %b, i64 0, i32 12
  %address_of = load ptr, ptr %address_of.at
  %number = call ptr @PyObject_CallOneArg(ptr %address_of, ptr %tensor)
  %no.number = icmp eq ptr %number, null
  br i1 %no.number, label %failed, label %called
called:  ; *to = number
  %no.address = call i1 @unlike.u64(ptr %number, ptr %to)
  call void @Py_DecRef(ptr %number)
  br i1 %no.address, label %failed, label %found

look:  ; if (exchange(tensor, &view)) return -1; if (!as.wanted(view)) return 0
  %not.seen = call i32 %exchange(ptr %tensor, ptr %view)
  %seen = icmp eq i32 %not.seen, 0
  br i1 %seen, label %seen.as, label %failed
seen.as:
  %ndim.at = getelementptr %View, ptr %view, i64 0, i32 2
  %ndim.short = load i32, ptr %ndim.at
  %ndim = sext i32 %ndim.short to i64
  %shape.at = getelementptr %View, ptr %view, i64 0, i32 4
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr %View, ptr %view, i64 0, i32 5
  %strides = load ptr, ptr %strides.at
  %as.wanted = call i32 @as.wanted(ptr %b, i64 %i, i64 %ndim, ptr %shape, ptr %strides)
  %other.sizes = icmp eq i32 %as.wanted, 0
  br i1 %other.sizes, label %other, label %same
same:  ; *to = view.data + view.byte_offset
  %data = load i64, ptr %view
  %skipped.at = getelementptr %View, ptr %view, i64 0, i32 6
  %skipped = load i64, ptr %skipped.at
  %begins = add i64 %data, %skipped
  store i64 %begins, ptr %to
  br label %found

found:
  ret i32 1
other:
  ret i32 0
untold:
  ret i32 2
failed:
  ret i32 -1
}

"""
