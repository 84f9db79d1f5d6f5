"""What the code of a trampoline (scalec.runtime.trampoline_code) is made with: the block it reads, CPython's functions,
and its own beside the one that launches.

Each block of the code begins with what it does, in C. b is the trampoline's block of bytes: 25 words, the config, an
array of {span, align - 1, rank, offset of its extents and then strides} for the tensors, one of {kind, place, offset}
for the parameters, the extents and strides, the parameters, the attributes.
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

HEAD = 25 * 8
"""Bytes of the words."""

PARTS = """
%Block = type { ptr, ptr, ptr, i64, i64, i64, i64, i64, i64, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, ptr,
  i64, i64, i64, i64, [56 x i8] }
; 0 launch, 1 replace, 2 current, 3 context, 4 function, 5 tensors, 6 operands, 7 slots, 8 bytes of the parameters,
; 9 check of operands, 10 check of results, 11 refused, 12 address_of, 13 exchange, 14 wrote, 15 allocate, 16 stream,
; 17 ordinal, 18 work_stream, 19 device, 20 None, 21 ... 24 where tensors, slots, parameters and attributes begin,
; 25 config
%Tensor = type { i64, i64, i64, i64 }
%Slot = type { i64, i64, i64 }
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

; whether given is a tuple of so many, and check(*given) where there is a check: 0 or 1, -1 where an error is set
define internal i32 @right(ptr %check, ptr %given, i64 %wanted) {
entry:
  %count = call i64 @PyTuple_Size(ptr %given)
  %as.many = icmp eq i64 %count, %wanted
  br i1 %as.many, label %known, label %other
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

; *to = where tensor i is; 1 where it is, 0 where its extents or strides are not those of the block, -1 for an error
define internal i32 @find(ptr %b, ptr %tensor, i64 %i, ptr %to) {
entry:  ; if (b->exchange) look, else ask
  %view = alloca %View, align 8
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

look:  ; if (exchange(tensor, &view)) return -1; if (view.ndim != form.rank) return 0
  %not.seen = call i32 %exchange(ptr %tensor, ptr %view)
  %seen = icmp eq i32 %not.seen, 0
  br i1 %seen, label %seen.as, label %failed
seen.as:
  %forms.from = getelementptr %Block, ptr %b, i64 0, i32 21
  %forms.offset = load i64, ptr %forms.from
  %forms = getelementptr i8, ptr %b, i64 %forms.offset
  %rank.at = getelementptr %Tensor, ptr %forms, i64 %i, i32 2
  %rank = load i64, ptr %rank.at
  %wanted.from = getelementptr %Tensor, ptr %forms, i64 %i, i32 3
  %wanted.offset = load i64, ptr %wanted.from
  %extents = getelementptr i8, ptr %b, i64 %wanted.offset
  %steps = getelementptr i64, ptr %extents, i64 %rank
  %ndim.at = getelementptr %View, ptr %view, i64 0, i32 2
  %ndim.short = load i32, ptr %ndim.at
  %ndim = sext i32 %ndim.short to i64
  %shape.at = getelementptr %View, ptr %view, i64 0, i32 4
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr %View, ptr %view, i64 0, i32 5
  %strides = load ptr, ptr %strides.at
  %as.many = icmp eq i64 %ndim, %rank
  br i1 %as.many, label %axes, label %other

axes:  ; for (axis = 0; axis < rank; axis++) if (view.shape[axis] != extents[axis] || ... strides ...) return 0
  %axis = phi i64 [0, %seen.as], [%axis.next, %equal]
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
failed:
  ret i32 -1
}

"""
