"""A thin layer over the arith, llvm and nvvm builders: values in, values out, Python numbers folded to constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from scalec.ir.mlir import arith, ir, nvvm, scf

Number = int | float
SHARED, CLUSTER = 3, 7  # LLVM NVPTX address spaces

_PREDICATES = {"eq": 0, "ne": 1, "slt": 2, "sle": 3, "lt": 6, "le": 7, "gt": 8, "ge": 9}  # arith.cmpi; lt..ge unsigned


class Builder:
    """Emits ops at the current insertion point. i32 unless said otherwise; indices and addresses are unsigned."""

    def __init__(self, entry: ir.Block) -> None:
        signless = ir.IntegerType.get_signless
        self.i1, self.i8, self.i16, self.i32, self.i64 = (signless(w) for w in (1, 8, 16, 32, 64))
        self.f32 = ir.F32Type.get()
        self._constraints = {self.i1: "b", self.i16: "h", self.i32: "r", self.i64: "l", self.f32: "f"}
        self._att, self._unit = ir.IntegerAttr.get(self.i64, 0), ir.UnitAttr.get()
        self.entry = entry
        self._taken: ir.Value | None = None
        self._structs: dict[str, ir.Type] = {}
        with ir.InsertionPoint.at_block_begin(entry):
            one = self._constant(1, self.i32)
        self._first = one.owner  # variables and constants stand behind it
        self._constants: dict[tuple[ir.Type, int | str], ir.Value] = {(self.i32, 1): one}
        self.pointer = ir.Type.parse("!llvm.ptr")

    # ------------------------------------------------------------------------------------------------- raw operations

    def op(self, name: str, results: Sequence[ir.Type], operands: Sequence[ir.Value], **attributes: Any) -> ir.Value:
        """Any operation by name; its first result (or the operation itself where it has none)."""
        made = ir.Operation.create(name, list(results), list(operands), attributes)
        return made.results[0] if results else made

    def constant(self, value: Number, type: Any = None) -> ir.Value:
        """A constant; i32 for an int, f32 for a float, unless `type` says otherwise. Each stands once, at the entry."""
        key = (self.f32, value.hex()) if isinstance(value, float) else (type or self.i32, value)  # 0 and -0 are equal
        made = self._constants.get(key)
        if made is None:
            with ir.InsertionPoint.after(self._first):
                made = self._constants[key] = self._constant(value, key[0])
        return made

    def anchor(self) -> ir.Value:
        """A value of no use, made at the insertion point: what has to stand there is put beside it."""
        return self._constant(0, self.i32)

    def _constant(self, value: Number, type: Any) -> ir.Value:
        if isinstance(value, float):
            return arith.ConstantOp(type, ir.FloatAttr.get(type, value)).result
        width = type.width
        wrapped = value - (1 << width) if value >= 1 << (width - 1) and width > 1 else value
        return arith.ConstantOp(type, ir.IntegerAttr.get(type, wrapped)).result

    def value(self, x: ir.Value | Number, type: ir.Type | None = None) -> ir.Value:
        return self.constant(x, type) if isinstance(x, (int, float)) else x

    # ------------------------------------------------------------------------------------------------------ arithmetic

    def _pair(self, a: ir.Value | Number, b: ir.Value | Number) -> tuple[ir.Value, ir.Value]:
        type = next((x.type for x in (a, b) if not isinstance(x, (int, float))), self.i32)
        return self.value(a, type), self.value(b, type)

    def add(self, a: ir.Value | int, b: ir.Value | int) -> ir.Value | int:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(b, int) and b == 0:
            return a
        if isinstance(a, int) and a == 0:
            return b
        return arith.addi(*self._pair(a, b))

    def add_within(self, a: ir.Value, b: int) -> ir.Value:
        """a + b, a sum that does not wrap around: LLVM then knows that it is not 0."""
        no_wrap = ir.Attribute.parse("#arith.overflow<nuw>")
        return self.op("arith.addi", [a.type], [a, self.value(b, a.type)], overflowFlags=no_wrap) if b else a

    def mul(self, a: ir.Value | int, b: ir.Value | int) -> ir.Value | int:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(b, int) and b == 1:
            return a
        if isinstance(a, int) and a == 1:
            return b
        return arith.muli(*self._pair(a, b))

    def sub(self, a: ir.Value | int, b: ir.Value | int) -> ir.Value:
        return arith.subi(*self._pair(a, b))

    def div(self, a: ir.Value | int, b: ir.Value | int) -> ir.Value | int:
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        if isinstance(b, int) and b == 1:
            return a
        return arith.divui(*self._pair(a, b))

    def ceildiv(self, a: ir.Value | int, b: int) -> ir.Value | int:
        return self.div(self.add(a, b - 1), b)

    def and_(self, a: ir.Value, b: ir.Value | int) -> ir.Value:
        return arith.andi(*self._pair(a, b))

    def or_(self, a: ir.Value, b: ir.Value | int) -> ir.Value:
        return arith.ori(*self._pair(a, b))

    def xor(self, a: ir.Value, b: ir.Value | int) -> ir.Value:
        return a if isinstance(b, int) and b == 0 else arith.xori(*self._pair(a, b))

    def shl(self, a: ir.Value | int, b: int) -> ir.Value | int:
        if isinstance(a, int):
            return a << b
        return arith.shli(*self._pair(a, b))

    def shr(self, a: ir.Value, b: int) -> ir.Value:
        return arith.shrui(*self._pair(a, b))

    def min(self, a: ir.Value | int, b: ir.Value | int) -> ir.Value | int:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return arith.minui(*self._pair(a, b))

    def max(self, a: ir.Value | int, b: ir.Value | int) -> ir.Value | int:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return arith.maxui(*self._pair(a, b))

    def compare(self, predicate: str, a: ir.Value | int, b: ir.Value | int) -> ir.Value:
        """i1; eq, ne, slt, sle (signed), lt, le, gt, ge (unsigned)."""
        return arith.cmpi(_PREDICATES[predicate], *self._pair(a, b))

    def select(self, condition: ir.Value, a: ir.Value | Number, b: ir.Value | Number) -> ir.Value:
        return arith.select(condition, *self._pair(a, b))

    def widen(self, a: ir.Value | int) -> ir.Value:
        """i32 to i64, unsigned."""
        return self.constant(a, self.i64) if isinstance(a, int) else arith.extui(self.i64, a)

    def strided(self, index: ir.Value | int, stride: ir.Value | int) -> ir.Value:
        """index * stride, of an i32 and an i64, as i64."""
        return self.mul(self.widen(index), stride)

    def both(self, a: ir.Value, b: ir.Value | None) -> ir.Value:
        """A condition, and another one where there is one."""
        return a if b is None else self.and_(a, b)

    def integer(self, pointer: ir.Value) -> ir.Value:
        """A pointer into global memory, or of any space, as i64."""
        return self.op("llvm.ptrtoint", [self.i64], [pointer])

    def bits(self, x: ir.Value) -> ir.Value:
        """The bits of an f32."""
        return self.op("llvm.bitcast", [self.i32], [x])

    def float_of(self, bits: ir.Value) -> ir.Value:
        """The f32 of these bits."""
        return self.op("llvm.bitcast", [self.f32], [bits])

    def fadd(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.addf(a, b)

    def added(self, whole: bool) -> Callable[[ir.Value, ir.Value], ir.Value]:
        """What adds two f32, or the i32 whose bits they have where these are `whole`."""
        return (lambda x, y: self.float_of(arith.addi(self.bits(x), self.bits(y)))) if whole else self.fadd

    def fmul(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.mulf(a, b)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return self.op("llvm.intr.fma", [self.f32], [a, b, c])

    # ------------------------------------------------------------------------------------------------------- variables

    def variable(self, type: ir.Type, initial: ir.Value | Number | None = None) -> Variable:
        """A mutable local (an alloca at the entry, which LLVM's sroa turns into SSA)."""
        with ir.InsertionPoint.after(self._first):
            slot = self.op("llvm.alloca", [self.pointer], [self.constant(1)], elem_type=ir.TypeAttr.get(type))
        made = Variable(self, type, slot)
        if initial is not None:
            made.set(initial)
        return made

    # ---------------------------------------------------------------------------------------------------- control flow

    @contextmanager
    def when(self, condition: ir.Value) -> Iterator[Any]:
        made = scf.IfOp(condition)
        with ir.InsertionPoint(made.then_block):
            yield made
            scf.YieldOp([])

    def either(self, condition: ir.Value, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        made = scf.IfOp(condition, has_else=True)
        for block, emit in ((made.then_block, then), (made.else_block, otherwise)):
            with ir.InsertionPoint(block):
                emit()
                scf.YieldOp([])

    def loop(self, condition: Callable[[], ir.Value], body: Callable[[], None]) -> None:
        """while condition(): body()."""
        made = scf.WhileOp([], [])
        with ir.InsertionPoint(made.before.blocks.append()):
            scf.ConditionOp(condition(), [])
        with ir.InsertionPoint(made.after.blocks.append()):
            body()
            scf.YieldOp([])

    def loop_once(self, body: Callable[[], None], condition: Callable[[], ir.Value]) -> None:
        """do body() while condition()."""
        made = scf.WhileOp([], [])
        with ir.InsertionPoint(made.before.blocks.append()):
            body()
            scf.ConditionOp(condition(), [])
        with ir.InsertionPoint(made.after.blocks.append()):
            scf.YieldOp([])

    # ----------------------------------------------------------------------------------------------------------- PTX

    def asm(
        self,
        text: str,
        results: Sequence[ir.Type] = (),
        operands: Sequence[ir.Value | Number] = (),
        *,
        tied: int = 0,
        only: ir.Value | None = None,
        volatile: bool = True,
        memory: bool = True,
    ) -> list[ir.Value]:
        """Inline PTX; $0.. are results, then operands. The last `tied` operands share the results' registers. `only`:
        the text is one instruction, which is carried out where this i1 holds."""
        values = [self.value(x) for x in operands]
        free = len(values) - tied
        if only is not None:
            values.insert(free, only)
            text = f"@${len(results) + free} {text}"
            free += 1
        parts = ["=" + self._constraints[t] for t in results]
        parts += [self._constraints[v.type] for v in values[:free]]
        parts += [str(i) for i in range(tied)]
        if memory:
            parts.append("~{memory}")
        made: Any = self.op(
            "llvm.inline_asm",
            results if len(results) < 2 else [self.struct(results)],
            values,
            asm_string=ir.StringAttr.get(text),
            constraints=ir.StringAttr.get(",".join(parts)),
            asm_dialect=self._att,
            **({"has_side_effects": self._unit} if volatile else {}),
        )
        if len(results) < 2:
            return [made] if results else []
        return [self.extract(made, i, t) for i, t in enumerate(results)]

    def pure(self, text: str, result: ir.Type, *operands: ir.Value | Number) -> ir.Value:
        """Inline PTX of one result that depends on its operands alone."""
        return self.asm(text, [result], operands, volatile=False, memory=False)[0]

    def butterfly(self, x: ir.Value, distance: int) -> ir.Value:
        """What the lane of a warp has whose number differs in the bits of `distance`."""
        return self.asm(f"shfl.sync.bfly.b32 $0, $1, {distance}, 31, -1;", [x.type], [x])[0]

    def struct(self, types: Sequence[ir.Type]) -> ir.Type:
        """A struct of these, by a name: spelled out at each use, 128 sums were four fifths of a module's text."""
        text = ", ".join(map(str, types))
        if text not in self._structs:
            name = "_".join(f"{k}x{sum(1 for _ in same)}" for k, same in groupby(map(str, types)))
            self._structs[text] = ir.Type.parse(f'!llvm.struct<"{name}", ({text})>')
        return self._structs[text]

    def extract(self, struct: ir.Value, index: int, type: ir.Type) -> ir.Value:
        return self.op("llvm.extractvalue", [type], [struct], position=ir.DenseI64ArrayAttr.get([index]))

    def insert(self, struct: ir.Value, index: int, value: ir.Value) -> ir.Value:
        return self.op("llvm.insertvalue", [struct.type], [struct, value], position=ir.DenseI64ArrayAttr.get([index]))

    def special(self, name: str) -> ir.Value:
        """A special register, e.g. tid_x."""
        return getattr(nvvm, "read_ptx_sreg_" + name)(results=[self.i32])

    def address(self, space: int, value: ir.Value | int) -> ir.Value:
        """A pointer into an address space from an i32 address."""
        return self.op("llvm.inttoptr", [ir.Type.parse(f"!llvm.ptr<{space}>")], [self.value(value)])

    def take(self, address: ir.Value, count: int = 1, *, ordered: bool = True) -> list[ir.Value]:
        """So many adjacent f32, one or two, of a stage's shared memory. Loads that are `ordered` stay so: who has the
        last has all (`last_taken`). Others LLVM and ptxas may move, or join."""
        if not ordered:
            kind = self.f32 if count == 1 else ir.Type.parse("vector<2xf32>")
            loaded = self.load(self.address(SHARED, address), kind)
            found = [loaded]
            if count > 1:
                found = [self.op("llvm.extractelement", [self.f32], [loaded, self.constant(i)]) for i in range(count)]
        else:
            to = "$0" if count == 1 else "{$0, $1}"
            text = f"ld.volatile.shared.{'' if count == 1 else 'v2.'}f32 {to}, [${count}];"
            found = self.asm(text, [self.f32] * count, [address], memory=False)
        self._taken = found[-1]
        return found

    def last_taken(self) -> ir.Value | None:
        """What was taken last (`take`), if that is on every way to here."""
        if self._taken is None:
            return None
        block, wanted = ir.InsertionPoint.current.block, self._taken.owner.operation.block
        while block not in (wanted, self.entry):
            block = block.owner.operation.block
        return self._taken if block == wanted else None

    def load(self, pointer: ir.Value, type: ir.Type) -> ir.Value:
        return self.op("llvm.load", [type], [pointer])

    def offset(self, pointer: ir.Value, elements: ir.Value, type: ir.Type) -> ir.Value:
        """pointer + elements * sizeof(type); `elements` is i64."""
        return self.op(
            "llvm.getelementptr",
            [pointer.type],
            [pointer, elements],
            elem_type=ir.TypeAttr.get(type),
            rawConstantIndices=ir.DenseI32ArrayAttr.get([-(1 << 31)]),
            noWrapFlags=ir.IntegerAttr.get(self.i32, 0),
        )


class Variable:
    """A mutable local."""

    def __init__(self, builder: Builder, type: ir.Type, slot: ir.Value) -> None:
        self._builder, self.type, self._slot = builder, type, slot

    def get(self) -> ir.Value:
        return self._builder.load(self._slot, self.type)

    def set(self, value: ir.Value | Number) -> None:
        b = self._builder
        b.op("llvm.store", [], [b.value(value, self.type), self._slot])

    def get_plus(self, number: int) -> ir.Value:
        return arith.addi(self.get(), self._builder.constant(number, self.type))
