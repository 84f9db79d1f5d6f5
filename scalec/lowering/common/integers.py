"""Arithmetic of indices and sizes, outside of elementwise bodies."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common.state import COMMON, State


@COMMON.lowers("arith.constant")
def constant(s: State, op: ir.OpView) -> None:
    s.values[op.result] = ir.IntegerAttr(op.attributes["value"]).value


@COMMON.lowers("arith.cmpi")
def compare(s: State, op: ir.OpView) -> None:
    b = s.b
    made = ir.Operation.create(
        "arith.cmpi", [b.i1], [b.value(s.get(v)) for v in op.operands], {"predicate": op.attributes["predicate"]}
    )
    s.values[op.result] = made.results[0]


_ARITHMETIC = {
    "arith.addi": Builder.add,
    "arith.subi": Builder.sub,
    "arith.muli": Builder.mul,
    "arith.andi": Builder.and_,
    "arith.ori": Builder.or_,
    "arith.minui": Builder.min,
    "arith.maxui": Builder.max,
    "arith.divui": Builder.div,
}


@COMMON.lowers(*_ARITHMETIC)
def arithmetic(s: State, op: ir.OpView) -> None:
    s.values[op.result] = _ARITHMETIC[op.operation.name](s.b, *(s.get(v) for v in op.operands))


@COMMON.lowers("arith.xori")
def xor(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.b.xor(*(s.b.value(s.get(v), s.b.i1) for v in op.operands))
