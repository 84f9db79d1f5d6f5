"""The code of a trampoline (scalec.runtime.trampoline), in LLVM's language: its entry, `launch`, and what that calls.

It reads the trampoline's block of bytes: the words FIELDS, the config, TENSOR words for each tensor (its span, align -
1, rank, where its extents and behind them its strides begin, type), SLOT for each parameter (kind, place, where it is
among the parameters, bytes behind the address), the extents and strides, the parameters, the attributes. Of CPython it
calls the stable ABI alone (docs.python.org, "Contents of Limited API").
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from scalec.runtime.trampoline_block import CONFIG, F32, FIELDS, POINTER, SLOT, TENSOR, TENSOR_MAP, U64

SPAN, MASK, RANK, SHOWN, TYPE = range(TENSOR)
KIND, PLACE, OFFSET, BEHIND = range(SLOT)
STREAM, ATTRS = 32, 40  # offsets in a CUlaunchConfig (cuda.h, 64-bit)

I1, I8, I32, I64, PTR, VOID = *map(ir.IntType, (1, 8, 32, 64)), ir.PointerType(), ir.VoidType()
NULL = ir.Constant(PTR, None)
VIEW = ir.LiteralStructType([I64, I64, I32, I32, PTR, PTR, I64])
"""DLTensor (dlpack.h): data, device, rank, type, extents, strides, offset."""


class _Code(ir.IRBuilder):
    """Writes a function; `data` is the trampoline's block, its first argument unless set otherwise."""

    def __init__(self, module: ir.Module, name: str, result: ir.Type, *arguments: ir.Type) -> None:
        made = ir.Function(module, ir.FunctionType(result, arguments), name)
        made.linkage = "" if name == "launch" else "internal"
        super().__init__(made.append_basic_block())
        self.args, self.data = made.args, made.args[0]

    def python(self, name: str, result: ir.Type, *arguments: Any) -> Any:
        """Calls a function of CPython."""
        kind = ir.FunctionType(result, [a.type for a in arguments])
        return self.call(self.module.globals.get(name) or ir.Function(self.module, kind, name), arguments)

    def own(self, name: str, *arguments: Any) -> Any:
        """Calls a function of this module."""
        return self.call(self.module.globals[name], arguments)

    def local(self, kind: ir.Type, size: Any = None, align: Any = None) -> Any:
        """Room on the stack."""
        made = self.alloca(kind, size)
        made.type, made.align = PTR, align  # of a pointer with a type, llvmlite checks what is stored
        return made

    def after(self, base: Any, offset: Any) -> Any:
        """The address so many bytes behind another."""
        return self.gep(base, [I64(offset) if isinstance(offset, int) else offset], source_etype=I8)

    def item(self, base: Any, index: Any) -> Any:
        """The address of a word, or pointer, of an array."""
        return self.gep(base, [I64(index) if isinstance(index, int) else index], source_etype=I64)

    def word(self, name: str, kind: ir.Type = I64) -> Any:
        """What the block has in a field."""
        return self.load(self.item(self.data, FIELDS.index(name)), typ=kind)

    def pointed(self, name: str, *arguments: ir.Type) -> Any:
        """A function of C in a field, which returns 0 where it did what it should."""
        return self.word(name, ir.FunctionType(I32, arguments).as_pointer())

    def area(self, name: str) -> Any:
        """The address of what begins where a field says."""
        return self.after(self.data, self.word(name))

    def tensor(self, i: Any, which: int) -> Any:
        """A word of what the block knows of tensor i."""
        place = self.gep(self.area("tensors_at"), [i, I64(which)], source_etype=ir.ArrayType(I64, TENSOR))
        return self.load(place, typ=I64)

    def is_null(self, pointer: Any) -> Any:
        return self.icmp_unsigned("==", pointer, ir.Constant(pointer.type, None))

    def fails(self, status: Any) -> Any:
        """Whether a number that a function returned is not 0."""
        return self.icmp_signed("!=", status, I32(0))

    def leave_if(self, condition: Any, where: ir.Block) -> None:
        following = self.append_basic_block()
        self.cbranch(condition, where, following)
        self.position_at_end(following)

    def ret_if(self, condition: Any, value: Any) -> None:
        with self.if_then(condition):
            self.ret(value)

    @contextmanager
    def each(self, first: Any, end: Any) -> Iterator[Any]:
        """for (i = first; i < end; i++)"""
        before, head, body, done = self.block, *(self.append_basic_block() for _ in range(3))
        self.branch(head)
        self.position_at_end(head)
        i = self.phi(I64)
        i.add_incoming(first, before)
        self.cbranch(self.icmp_unsigned("<", i, end), body, done)
        self.position_at_end(body)
        yield i
        following = self.add(i, I64(1))
        i.add_incoming(following, self.block)
        self.branch(head)
        self.position_at_end(done)


def _unlike_u64(module: ir.Module) -> None:
    """*to = object; whether that failed, an error being set."""
    code = _Code(module, "unlike_u64", I1, PTR, PTR)
    number = code.python("PyLong_AsUnsignedLongLong", I64, code.args[0])
    code.store(number, code.args[1])
    _errs(code, code.icmp_signed("==", number, I64(-1)))


def _unlike_f32(module: ir.Module) -> None:
    """*to = (float)object; whether that failed."""
    code, double = _Code(module, "unlike_f32", I1, PTR, PTR), ir.DoubleType()
    number = code.python("PyFloat_AsDouble", double, code.args[0])
    code.store(code.fptrunc(number, ir.FloatType()), code.args[1])
    _errs(code, code.fcmp_ordered("==", number, double(-1.0)))


def _errs(code: _Code, maybe: Any) -> None:
    with code.if_then(maybe):
        code.ret(code.not_(code.is_null(code.python("PyErr_Occurred", PTR))))
    code.ret(I1(0))


def _answer(module: ir.Module) -> None:
    """Whether `said` is true: 0 or 1, -1 where an error is set; it is given away."""
    code = _Code(module, "answer", I32, PTR)
    (said,) = code.args
    code.ret_if(code.is_null(said), I32(-1))
    true = code.python("PyObject_IsTrue", I32, said)
    code.python("Py_DecRef", VOID, said)
    code.ret(true)


def _as_wanted(module: ir.Module) -> None:
    """Whether rank, extents and strides are those of tensor i: 0 or 1."""
    code = _Code(module, "as_wanted", I32, PTR, I64, I64, PTR, PTR)
    data, i, rank, *seen = code.args
    extents = code.after(data, code.tensor(i, SHOWN))
    code.ret_if(code.icmp_signed("!=", rank, code.tensor(i, RANK)), I32(0))
    with code.each(I64(0), rank) as axis:
        for now, wanted in zip(seen, (extents, code.item(extents, rank)), strict=True):
            one, other = (code.load(code.item(x, axis), typ=I64) for x in (now, wanted))
            code.ret_if(code.icmp_signed("!=", one, other), I32(0))
    code.ret(I32(1))


def _fits(module: ir.Module) -> None:
    """Whether the type and the sizes of a tensor are those of tensor i, where handles tell: 0 or 1. Of another type
    nothing is read."""
    code = _Code(module, "fits", I32, PTR, PTR, I64)
    data, tensor, i = code.args
    told = [("dim", I64, code.local(I64)), ("sizes", PTR, code.local(PTR)), ("strides", PTR, code.local(PTR))]
    code.ret_if(code.is_null(code.word("dim", PTR)), I32(1))
    kind = code.load(code.after(tensor, code.word("type_offset")), typ=I64)
    code.ret_if(code.icmp_signed("!=", kind, code.tensor(i, TYPE)), I32(0))
    handle = code.after(tensor, code.word("offset"))
    for name, _, to in told:
        code.ret_if(code.fails(code.call(code.pointed(name, PTR, PTR), [handle, to])), I32(0))
    code.ret(code.own("as_wanted", data, i, *(code.load(to, typ=kind) for _, kind, to in told)))


def _right(module: ir.Module) -> None:
    """Whether `given` is a tuple of so many that fit, the first as tensor `first`, and check(*given) where there is a
    check: 0 or 1, -1 where an error is set. to[i] = tensor i."""
    code = _Code(module, "right", I32, PTR, PTR, PTR, I64, I64, PTR)
    data, check, given, first, wanted, to = code.args
    other = code.append_basic_block()
    code.leave_if(code.icmp_signed("!=", code.python("PyTuple_Size", I64, given), wanted), other)
    with code.each(I64(0), wanted) as j:
        tensor, i = code.python("PyTuple_GetItem", PTR, given, j), code.add(first, j)
        code.store(tensor, code.item(to, i))
        code.leave_if(code.icmp_signed("==", code.own("fits", data, tensor, i), I32(0)), other)
    code.ret_if(code.is_null(check), I32(1))
    code.ret(code.own("answer", code.python("PyObject_Call", PTR, check, given, NULL)))
    code.position_at_end(other)
    code.python("PyErr_Clear", VOID)  # "not a tuple"
    code.ret(I32(0))


def _find(module: ir.Module) -> None:
    """*to = where tensor i is; 1 where it is, 0 where its extents or strides are not those of the block, 2 where torch
    does not tell, -1 for an error."""
    code = _Code(module, "find", I32, PTR, PTR, I64, PTR)
    data, tensor, i, to = code.args
    view = code.local(VIEW)
    data_ptr, exchange = code.pointed("data_ptr", PTR, PTR), code.pointed("exchange", PTR, PTR)
    with code.if_then(code.not_(code.is_null(data_ptr))):
        untold = code.fails(code.call(data_ptr, [code.after(tensor, code.word("offset")), to]))
        code.ret(code.select(untold, I32(2), I32(1)))
    with code.if_then(code.is_null(exchange)):
        number = code.python("PyObject_CallOneArg", PTR, code.word("address", PTR), tensor)
        code.ret_if(code.is_null(number), I32(-1))
        failed = code.own("unlike_u64", number, to)
        code.python("Py_DecRef", VOID, number)
        code.ret(code.select(failed, I32(-1), I32(1)))
    code.ret_if(code.fails(code.call(exchange, [tensor, view])), I32(-1))
    begin, _, rank, _, extents, strides, offset = (
        code.load(code.gep(view, [I32(0), I32(k)], source_etype=VIEW), typ=kind) for k, kind in enumerate(VIEW.elements)
    )
    same = code.own("as_wanted", data, i, code.sext(rank, I64), extents, strides)
    code.ret_if(code.icmp_signed("==", same, I32(0)), I32(0))
    code.store(code.add(begin, offset), to)
    code.ret(I32(1))


class _Launch(_Code):
    """The entry: PyObject *launch(self, args, count), METH_FASTCALL; self[0] is the block."""

    def __init__(self, module: ir.Module) -> None:
        super().__init__(module, "launch", PTR, PTR, PTR, I64)
        held, args, count = self.args
        self.data = self.python("PyBytes_AsString", PTR, self.python("PyTuple_GetItem", PTR, held, I64(0)))
        self.tensors, self.operands, self.slots = map(self.word, ("tensors", "operands", "slots"))
        self.objects, self.at = self.local(PTR, self.tensors), self.local(I64, self.tensors)
        self.table = self.local(PTR, self.slots)
        self.size, self.none = self.word("bytes"), self.word("none", PTR)
        self.room, self.config = self.local(I8, self.size, 64), self.local(ir.ArrayType(I8, CONFIG), align=8)
        context, self.outs = self.local(PTR), self.local(PTR)
        self.store(NULL, self.outs)
        # whoever comes to one of these gives up the results: None, False, and an error
        self.otherwise, self.unlike, self.wrong = (self.append_basic_block() for _ in range(3))
        self.leave_if(self.icmp_signed("!=", count, I64(4)), self.otherwise)
        self.given, results, self.numbers, stream = (self.load(self.item(args, i), typ=PTR) for i in range(4))
        self.copy(self.config, self.item(self.data, len(FIELDS)), I64(CONFIG))
        self.ask(results)
        failed = self.fails(self.call(self.pointed("current", PTR), [context]))
        other = self.icmp_unsigned("!=", self.load(context, typ=I64), self.word("context"))
        self.leave_if(self.or_(failed, other), self.otherwise)
        self.hold(results)
        self.gather()
        self.keep_apart()
        self.take_stream(stream, self.after(self.config, STREAM))
        self.copy(self.room, self.area("parameters_at"), self.size)
        self.fill()
        self.go()

    def copy(self, to: Any, source: Any, size: Any) -> None:
        self.call(self.module.declare_intrinsic("llvm.memcpy", [PTR, PTR, I64]), [to, source, size, I1(0)])

    def tuple_item(self, of: Any, index: Any) -> Any:
        found = self.python("PyTuple_GetItem", PTR, of, index)
        self.leave_if(self.is_null(found), self.wrong)
        return found

    def held(self) -> Any:
        """The results, of which the call holds a reference; NULL before."""
        return self.load(self.outs, typ=PTR)

    def unless(self, answer: Any, wanted: int) -> None:
        """Goes on where an answer of 0 or 1 is the one that is wanted."""
        self.leave_if(self.icmp_signed("==", answer, I32(1 - wanted)), self.unlike)
        self.leave_if(self.icmp_signed("!=", answer, I32(wanted)), self.wrong)

    def check_results(self, check: Any, results: Any) -> None:
        count = self.sub(self.tensors, self.operands)
        self.unless(self.own("right", self.data, check, results, self.operands, count, self.objects), 1)

    def ask(self, results: Any) -> None:
        """if (!right(operands) || (results != None && !right(results)) || !check(*those) of any checks || (refused &&
        refused())) return False"""
        like = self.own("right", self.data, self.word("check", PTR), self.given, I64(0), self.operands, self.objects)
        self.unless(like, 1)
        with self.if_then(self.icmp_unsigned("!=", results, self.none)):
            self.check_results(self.word("check_results", PTR), results)
        checks = self.word("checks", PTR)
        with self.if_then(self.not_(self.is_null(checks))):
            pairs = self.lshr(self.python("PyTuple_Size", I64, checks), I64(1))
            with self.each(I64(0), pairs) as j:
                place = self.shl(j, I64(1))
                check, those = (self.python("PyTuple_GetItem", PTR, checks, self.add(place, I64(k))) for k in (0, 1))
                self.unless(self.own("answer", self.python("PyObject_Call", PTR, check, those, NULL)), 1)
        refused = self.word("refused", PTR)
        with self.if_then(self.not_(self.is_null(refused))):
            self.unless(self.own("answer", self.python("PyObject_CallNoArgs", PTR, refused)), 0)

    def hold(self, results: Any) -> None:
        """outs = results, a reference of our own, or new ones; None where nothing allocates."""
        with self.if_else(self.icmp_unsigned("!=", results, self.none)) as (given, allocated):
            with given:
                self.python("Py_IncRef", VOID, results)
                self.store(results, self.outs)
            with allocated:
                allocate = self.word("allocate", PTR)
                self.leave_if(self.is_null(allocate), self.otherwise)
                made = self.python("PyObject_CallNoArgs", PTR, allocate)
                self.store(made, self.outs)
                self.leave_if(self.is_null(made), self.wrong)
                self.check_results(NULL, made)

    def gather(self) -> None:
        """Finds the tensors; None where one is NULL or not aligned."""
        with self.each(I64(0), self.tensors) as i:
            tensor = self.load(self.item(self.objects, i), typ=PTR)
            found = self.own("find", self.data, tensor, i, self.item(self.at, i))
            self.leave_if(self.icmp_signed("==", found, I32(2)), self.otherwise)
            self.unless(found, 1)
        with self.each(I64(0), self.tensors) as i:
            address = self.load(self.item(self.at, i), typ=I64)
            low = self.icmp_unsigned("!=", self.and_(address, self.tensor(i, MASK)), I64(0))
            self.leave_if(self.or_(low, self.icmp_unsigned("==", address, I64(0))), self.otherwise)

    def keep_apart(self) -> None:
        """None where a result may overlap a tensor before it: at[r] - at[t] < span[t] or at[t] - at[r] < span[r],
        modulo 2^64."""
        with self.each(self.operands, self.tensors) as r:
            result, span = self.load(self.item(self.at, r), typ=I64), self.tensor(r, SPAN)
            with self.each(I64(0), r) as t:
                other = self.load(self.item(self.at, t), typ=I64)
                within = self.icmp_unsigned("<", self.sub(result, other), self.tensor(t, SPAN))
                around = self.icmp_unsigned("<", self.sub(other, result), span)
                self.leave_if(self.or_(within, around), self.otherwise)

    def take_stream(self, stream: Any, to: Any) -> None:
        """*to = stream, or, where that is None, what work_stream(device, to) says, else stream(ordinal)."""

        def take(number: Any) -> Any:
            return self.own("unlike_u64", number, to)

        with self.if_else(self.icmp_unsigned("!=", stream, self.none)) as (given, current):
            with given:
                self.leave_if(take(stream), self.wrong)
            with current:
                work_stream = self.pointed("work_stream", I32, I32, PTR)
                with self.if_else(self.is_null(work_stream)) as (asked, told):
                    with asked:
                        ask, ordinal = self.word("stream", PTR), self.word("ordinal", PTR)
                        handle = self.python("PyObject_CallOneArg", PTR, ask, ordinal)
                        self.leave_if(self.is_null(handle), self.wrong)
                        failed = take(handle)
                        self.python("Py_DecRef", VOID, handle)
                        self.leave_if(failed, self.wrong)
                    with told:
                        place = self.item(self.data, FIELDS.index("device"))
                        device = (self.load(self.after(place, 4 * i), typ=I32) for i in range(2))
                        self.leave_if(self.fails(self.call(work_stream, [*device, to])), self.wrong)

    def fill(self) -> None:
        """Writes what a call decides into the parameters, and their addresses into the table."""
        plan = self.area("slots_at")
        with self.each(I64(0), self.slots) as s:
            row = ir.ArrayType(I64, SLOT)
            kind, place, offset, behind = (
                self.load(self.gep(plan, [s, I64(which)], source_etype=row), typ=I64) for which in range(SLOT)
            )
            to = self.after(self.room, offset)
            self.store(to, self.item(self.table, s))
            filled = self.append_basic_block()
            switch = self.switch(kind, filled)
            for case in (TENSOR_MAP, POINTER, F32, U64):
                switch.add_case(I64(case), block := self.append_basic_block())
                self.position_at_end(block)
                if case in (F32, U64):
                    number = self.tuple_item(self.numbers, place)
                    self.leave_if(self.own("unlike_f32" if case == F32 else "unlike_u64", number, to), self.wrong)
                else:
                    address = self.add(self.load(self.item(self.at, place), typ=I64), behind)
                    if case == POINTER:
                        self.store(address, to)
                    else:
                        replaced = self.call(self.pointed("replace", PTR, PTR), [to, self.inttoptr(address, PTR)])
                        self.leave_if(self.fails(replaced), self.otherwise)
                self.branch(filled)
            self.position_at_end(filled)

    def go(self) -> None:
        """Tells who is to be told of results, launches without the GIL, and returns."""
        wrote = self.word("wrote", PTR)
        with self.if_then(self.not_(self.is_null(wrote))):
            told = self.python("PyObject_CallOneArg", PTR, wrote, self.held())
            self.python("Py_DecRef", VOID, told)
            self.leave_if(self.is_null(told), self.wrong)
        self.store(self.area("attributes_at"), self.after(self.config, ATTRS))
        arguments = [self.config, self.word("function", PTR), self.table, NULL]
        launch = self.pointed("launch", *[PTR] * 4)
        thread = self.python("PyEval_SaveThread", PTR)
        status = self.call(launch, arguments)
        self.python("PyEval_RestoreThread", VOID, thread)
        self.leave_if(self.fails(status), self.otherwise)
        self.ret(self.held())
        for leaves in (self.otherwise, self.unlike, self.wrong):
            self.position_at_end(leaves)
            self.python("Py_DecRef", VOID, self.held())
            if leaves is self.otherwise:
                self.python("Py_IncRef", VOID, self.none)
                self.ret(self.none)
            else:
                self.ret(self.python("PyBool_FromLong", PTR, I64(0)) if leaves is self.unlike else NULL)


def made() -> ir.Module:
    """All of it; what it calls of CPython are its functions without blocks."""
    module = ir.Module("trampoline")
    for write in (_unlike_u64, _unlike_f32, _answer, _as_wanted, _fits, _right, _find, _Launch):
        write(module)
    return module
