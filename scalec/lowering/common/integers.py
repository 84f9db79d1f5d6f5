"""Arithmetic of indices and sizes, outside of elementwise bodies."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.lowering.common.state import COMMON, State


@COMMON.lowers("arith.constant")
def constant(s: State, op: ir.OpView) -> None:
    s.values[op.result] = ir.IntegerAttr(op.attributes["value"]).value


@COMMON.lowers("arith.cmpi")
def compare(s: State, op: ir.OpView) -> None:
    b = s.b
    made = ir.Operation.create(
        "arith.cmpi",
        [b.i1],
        [b.value(s.get(v)) for v in op.operands],
        {"predicate": op.attributes["predicate"]},
    )
    s.values[op.result] = made.results[0]


@COMMON.lowers("arith.addi")
def add(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.b.add(*(s.get(v) for v in op.operands))


@COMMON.lowers("arith.subi")
def subtract(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.b.sub(*(s.get(v) for v in op.operands))


@COMMON.lowers("arith.muli")
def multiply(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.b.mul(*(s.get(v) for v in op.operands))


@COMMON.lowers("arith.andi")
def and_(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.b.and_(*(s.get(v) for v in op.operands))


@COMMON.lowers("arith.ori")
def or_(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.b.or_(*(s.get(v) for v in op.operands))


@COMMON.lowers("arith.xori")
def xor(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.b.xor(*(s.b.value(s.get(v), s.b.i1) for v in op.operands))


@COMMON.lowers("arith.minui")
def minimum(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.b.min(*(s.get(v) for v in op.operands))


@COMMON.lowers("arith.divui")
def divide(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.b.div(*(s.get(v) for v in op.operands))
