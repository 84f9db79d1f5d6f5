"""The machine code of a trampoline (scalec.runtime.trampoline), in LLVM's language: its one entry, which launches.

Each block of the code begins with what it does, in C. The words it reads, and what it calls, are in trampoline_parts.
"""

from scalec.runtime.trampoline_parts import PARTS

_LAUNCH = """define ptr @launch(ptr %self, ptr %args, i64 %count) {
begin:  ; b = self[0]; uint64_t at[b->tensors]; void *table[b->slots]; char room[b->bytes]; outs = NULL
  %bytes.object = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %b = call ptr @PyBytes_AsString(ptr %bytes.object)
  %tensors.at = getelementptr %Block, ptr %b, i64 0, i32 5
  %tensors = load i64, ptr %tensors.at
  %operands.at = getelementptr %Block, ptr %b, i64 0, i32 6
  %operands = load i64, ptr %operands.at
  %slots.at = getelementptr %Block, ptr %b, i64 0, i32 7
  %slots = load i64, ptr %slots.at
  %bytes.at = getelementptr %Block, ptr %b, i64 0, i32 8
  %bytes = load i64, ptr %bytes.at
  %none.at = getelementptr %Block, ptr %b, i64 0, i32 20
  %none = load ptr, ptr %none.at
  %tensors.from = getelementptr %Block, ptr %b, i64 0, i32 21
  %tensors.offset = load i64, ptr %tensors.from
  %forms = getelementptr i8, ptr %b, i64 %tensors.offset
  %slots.from = getelementptr %Block, ptr %b, i64 0, i32 22
  %slots.offset = load i64, ptr %slots.from
  %plan = getelementptr i8, ptr %b, i64 %slots.offset
  %at = alloca i64, i64 %tensors
  %table = alloca ptr, i64 %slots
  %room = alloca i8, i64 %bytes, align 64
  %config = alloca [56 x i8], align 8
  %context = alloca ptr
  %outs = alloca ptr
  store ptr null, ptr %outs
  %four = icmp eq i64 %count, 4
  br i1 %four, label %arguments, label %otherwise

arguments:  ; given = args[0], results = args[1], numbers = args[2]; config = b->config
  %given = load ptr, ptr %args
  %results.at = getelementptr ptr, ptr %args, i64 1
  %results = load ptr, ptr %results.at
  %numbers.at = getelementptr ptr, ptr %args, i64 2
  %numbers = load ptr, ptr %numbers.at
  %config.from = getelementptr %Block, ptr %b, i64 0, i32 31
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %config, ptr align 8 %config.from, i64 56, i1 false)
  %stream.at = getelementptr i8, ptr %config, i64 32
  br label %checks

checks:  ; if (!right(b, b->check, operands, 0, b->operands)) return False
  %check.at = getelementptr %Block, ptr %b, i64 0, i32 9
  %check = load ptr, ptr %check.at
  %like = call i32 @right(ptr %b, ptr %check, ptr %given, i64 0, i64 %operands)
  switch i32 %like, label %raise [i32 1, label %results.there i32 0, label %unlike]
results.there:  ; if (results != None && !right(b, b->check_results, results, b->operands, all but those)) return False
  %no.results = icmp eq ptr %results, %none
  br i1 %no.results, label %refusals, label %results.check
results.check:
  %check.results.at = getelementptr %Block, ptr %b, i64 0, i32 10
  %check.results = load ptr, ptr %check.results.at
  %many = sub i64 %tensors, %operands
  %results.like = call i32 @right(ptr %b, ptr %check.results, ptr %results, i64 %operands, i64 %many)
  switch i32 %results.like, label %raise [i32 1, label %refusals i32 0, label %unlike]

refusals:  ; if (b->refused && refused()) return False
  %refused.at = getelementptr %Block, ptr %b, i64 0, i32 11
  %refused = load ptr, ptr %refused.at
  %never.refused = icmp eq ptr %refused, null
  br i1 %never.refused, label %contexts, label %refusal
refusal:
  %refused.said = call ptr @PyObject_CallNoArgs(ptr %refused)
  %is.refused = call i32 @answer(ptr %refused.said)
  switch i32 %is.refused, label %raise [i32 0, label %contexts i32 1, label %unlike]

contexts:  ; if (b->current(&context) || context != b->context) return None
  %current.at = getelementptr %Block, ptr %b, i64 0, i32 2
  %current = load ptr, ptr %current.at
  %no.context = call i32 %current(ptr %context)
  %asked = icmp eq i32 %no.context, 0
  %now = load i64, ptr %context
  %ours.at = getelementptr %Block, ptr %b, i64 0, i32 3
  %ours = load i64, ptr %ours.at
  %same = icmp eq i64 %now, %ours
  %home = and i1 %asked, %same
  br i1 %home, label %hold, label %otherwise

hold:  ; outs = results, a reference of our own
  br i1 %no.results, label %allocates, label %keep
keep:
  call void @Py_IncRef(ptr %results)
  store ptr %results, ptr %outs
  br label %gather
allocates:  ; if (!b->allocate) return None; if (!(outs = allocate())) return NULL
  %allocate.at = getelementptr %Block, ptr %b, i64 0, i32 15
  %allocate = load ptr, ptr %allocate.at
  %no.allocate = icmp eq ptr %allocate, null
  br i1 %no.allocate, label %otherwise, label %allocation
allocation:
  %made = call ptr @PyObject_CallNoArgs(ptr %allocate)
  store ptr %made, ptr %outs
  %no.made = icmp eq ptr %made, null
  br i1 %no.made, label %raise, label %made.right
made.right:  ; if (!right(b, NULL, outs, b->operands, b->tensors - b->operands)) return False
  %many.made = sub i64 %tensors, %operands
  %made.like = call i32 @right(ptr %b, ptr null, ptr %made, i64 %operands, i64 %many.made)
  switch i32 %made.like, label %raise [i32 1, label %gather i32 0, label %unlike]

gather:  ; for (i = 0; i < b->tensors; i++)
  %i = phi i64 [0, %keep], [0, %made.right], [%i.next, %next]
  %more = icmp ult i64 %i, %tensors
  br i1 %more, label %item, label %usable
item:  ; if (!(tensor = i < b->operands ? operands[i] : outs[i - b->operands])) return NULL; find(b, tensor, i, &at[i])
  %held = load ptr, ptr %outs
  %i.result = sub i64 %i, %operands
  %is.operand = icmp ult i64 %i, %operands
  %from = select i1 %is.operand, ptr %given, ptr %held
  %i.place = select i1 %is.operand, i64 %i, i64 %i.result
  %tensor = call ptr @PyTuple_GetItem(ptr %from, i64 %i.place)
  %no.tensor = icmp eq ptr %tensor, null
  br i1 %no.tensor, label %raise, label %seek
seek:
  %here = getelementptr i64, ptr %at, i64 %i
  %found = call i32 @find(ptr %b, ptr %tensor, i64 %i, ptr %here)
  switch i32 %found, label %raise [i32 1, label %next i32 0, label %unlike i32 2, label %otherwise]
next:
  %i.next = add i64 %i, 1
  br label %gather

usable:  ; for (u = 0; u < b->tensors; u++) if (!at[u] || at[u] & forms[u].mask) return None
  %u = phi i64 [0, %gather], [%u.next, %u.usable]
  %u.more = icmp ult i64 %u, %tensors
  br i1 %u.more, label %place, label %apart.results
place:
  %u.at = getelementptr i64, ptr %at, i64 %u
  %address = load i64, ptr %u.at
  %mask.at = getelementptr %Tensor, ptr %forms, i64 %u, i32 1
  %mask = load i64, ptr %mask.at
  %low = and i64 %address, %mask
  %aligned = icmp eq i64 %low, 0
  %somewhere = icmp ne i64 %address, 0
  %fits = and i1 %aligned, %somewhere
  br i1 %fits, label %u.usable, label %otherwise
u.usable:
  %u.next = add i64 %u, 1
  br label %usable

apart.results:  ; for (r = b->operands; r < b->tensors; r++)
  %r = phi i64 [%operands, %usable], [%r.next, %passed]
  %r.more = icmp ult i64 %r, %tensors
  br i1 %r.more, label %result, label %streams
result:
  %r.at = getelementptr i64, ptr %at, i64 %r
  %r.address = load i64, ptr %r.at
  %r.span.at = getelementptr %Tensor, ptr %forms, i64 %r
  %r.span = load i64, ptr %r.span.at
  br label %pairs
pairs:  ; for (t = 0; t < r; t++) if (at[r] - at[t] < span[t] || at[t] - at[r] < span[r]) return None, modulo 2^64
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
  br label %apart.results

streams:  ; config.hStream = args[3]
  %stream.given.at = getelementptr ptr, ptr %args, i64 3
  %stream.given = load ptr, ptr %stream.given.at
  %current.stream = icmp eq ptr %stream.given, %none
  br i1 %current.stream, label %find.stream, label %take.stream
take.stream:
  %no.stream = call i1 @unlike.u64(ptr %stream.given, ptr %stream.at)
  br i1 %no.stream, label %raise, label %copy
find.stream:  ; or, where that is None, what b->work_stream(device, &) says, else stream(ordinal)
  %work_stream.at = getelementptr %Block, ptr %b, i64 0, i32 18
  %work_stream = load ptr, ptr %work_stream.at
  %no.work_stream = icmp eq ptr %work_stream, null
  br i1 %no.work_stream, label %ask.stream, label %tell.stream
tell.stream:
  %device.at = getelementptr %Block, ptr %b, i64 0, i32 19
  %device.type = load i32, ptr %device.at
  %device.index.at = getelementptr i32, ptr %device.at, i64 1
  %device.index = load i32, ptr %device.index.at
  %not.told = call i32 %work_stream(i32 %device.type, i32 %device.index, ptr %stream.at)
  %told = icmp eq i32 %not.told, 0
  br i1 %told, label %copy, label %raise
ask.stream:
  %stream.fn.at = getelementptr %Block, ptr %b, i64 0, i32 16
  %stream.fn = load ptr, ptr %stream.fn.at
  %ordinal.at = getelementptr %Block, ptr %b, i64 0, i32 17
  %ordinal = load ptr, ptr %ordinal.at
  %handle = call ptr @PyObject_CallOneArg(ptr %stream.fn, ptr %ordinal)
  %no.handle = icmp eq ptr %handle, null
  br i1 %no.handle, label %raise, label %read.stream
read.stream:
  %not.handle = call i1 @unlike.u64(ptr %handle, ptr %stream.at)
  call void @Py_DecRef(ptr %handle)
  br i1 %not.handle, label %raise, label %copy

copy:  ; memcpy(room, parameters, b->bytes)
  %parameters.from = getelementptr %Block, ptr %b, i64 0, i32 23
  %parameters.offset = load i64, ptr %parameters.from
  %parameters = getelementptr i8, ptr %b, i64 %parameters.offset
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %room, ptr align 8 %parameters, i64 %bytes, i1 false)
  br label %fill

fill:  ; for (s = 0; s < b->slots; s++) { p = table[s] = room + plan[s].offset; switch (plan[s].kind) ... }
  %s = phi i64 [0, %copy], [%s.next, %filled]
  %s.more = icmp ult i64 %s, %slots
  br i1 %s.more, label %slot, label %written
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

map:  ; if (b->replace(p, at[index] + behind)) return OTHERWISE
  %map.address.at = getelementptr i64, ptr %at, i64 %index
  %map.whole = load ptr, ptr %map.address.at
  %map.behind.at = getelementptr %Slot, ptr %plan, i64 %s, i32 3
  %map.behind = load i64, ptr %map.behind.at
  %map.address = getelementptr i8, ptr %map.whole, i64 %map.behind
  %replace.at = getelementptr %Block, ptr %b, i64 0, i32 1
  %replace = load ptr, ptr %replace.at
  %not.replaced = call i32 %replace(ptr %p, ptr %map.address)
  %replaced = icmp eq i32 %not.replaced, 0
  br i1 %replaced, label %filled, label %otherwise

pointer:  ; *p = at[index] + behind
  %pointer.at = getelementptr i64, ptr %at, i64 %index
  %pointer.whole = load i64, ptr %pointer.at
  %pointer.behind.at = getelementptr %Slot, ptr %plan, i64 %s, i32 3
  %pointer.behind = load i64, ptr %pointer.behind.at
  %pointer.address = add i64 %pointer.whole, %pointer.behind
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

written:  ; if (b->wrote && !wrote(outs)) return NULL
  %wrote.at = getelementptr %Block, ptr %b, i64 0, i32 14
  %wrote = load ptr, ptr %wrote.at
  %no.wrote = icmp eq ptr %wrote, null
  br i1 %no.wrote, label %go, label %tell
tell:
  %written.outs = load ptr, ptr %outs
  %told.autograd = call ptr @PyObject_CallOneArg(ptr %wrote, ptr %written.outs)
  call void @Py_DecRef(ptr %told.autograd)
  %not.written = icmp eq ptr %told.autograd, null
  br i1 %not.written, label %raise, label %go

go:  ; config.attrs = attributes; b->launch(...) without the GIL; return outs where it launched
  %attributes.from = getelementptr %Block, ptr %b, i64 0, i32 24
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
  %launched = icmp eq i32 %status, 0
  br i1 %launched, label %done, label %otherwise
done:
  %returned = load ptr, ptr %outs
  ret ptr %returned

otherwise:  ; None; whoever comes here gives up the results
  %otherwise.outs = load ptr, ptr %outs
  call void @Py_DecRef(ptr %otherwise.outs)
  call void @Py_IncRef(ptr %none)
  ret ptr %none

unlike:  ; False
  %unlike.outs = load ptr, ptr %outs
  call void @Py_DecRef(ptr %unlike.outs)
  %false = call ptr @PyBool_FromLong(i64 0)
  ret ptr %false

raise:
  %raise.outs = load ptr, ptr %outs
  call void @Py_DecRef(ptr %raise.outs)
  ret ptr null
}
"""

CODE = PARTS + _LAUNCH
