"""Programs without a contraction: adjacent columns of a row, in registers of a thread."""

from __future__ import annotations

import math
from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering import scalar
from scalec.lowering.builder import Variable
from scalec.lowering.common import epilogue, rounding
from scalec.lowering.common.state import COMMON, State

REDUCTIONS = {"sum": ("arith.addf", 0.0), "max": ("arith.maximumf", -math.inf), "min": ("arith.minimumf", math.inf)}
"""What takes a term into a reduction of each kind, and what one of no terms is."""


@COMMON.lowers("tile.point")
def point(s: State, op: ir.OpView) -> None:
    """Threads have the vectors of a tile in order."""
    b, vector = s.b, tile.int_of(op.vector)
    across = tile.int_of(op.columns) // vector
    row = b.add(s.get(op.m0), b.div(s.tid, across))
    column = b.add(s.get(op.n0), b.mul(b.and_(s.tid, across - 1), vector))
    inside = b.and_(b.compare("lt", row, s.get(op.m)), b.compare("lt", column, s.get(op.n)))
    s.values[op.row], s.values[op.column], s.values[op.inside] = row, column, inside


@COMMON.lowers("tile.aligned")
def aligned(s: State, op: ir.OpView) -> None:
    """The address and all strides have no bit below `bytes`."""
    b, bits = s.b, rounding.bits_of(str(op.source.type.element_type))
    every = b.op("llvm.ptrtoint", [b.i64], [s.get(op.source)])
    for stride in op.strides:
        every = b.or_(every, b.mul(s.get(stride), bits // 8))
    s.values[op.result] = b.compare("eq", b.and_(every, tile.int_of(op.bytes) - 1), 0)


def _address(s: State, source: Any, at: Any, strides: Any, element: str) -> ir.Value:
    """The address in bytes of an element of memory, an i64."""
    b = s.b
    index = b.constant(0, b.i64)
    for i, stride in zip(at, strides, strict=True):
        index = b.add(index, b.mul(b.widen(b.value(s.get(i))), s.get(stride)))
    return epilogue.address_of(s, s.get(source), index, element)


@COMMON.lowers("tile.load_columns")
def load_columns(s: State, op: ir.OpView) -> None:
    """A list of values: words of several elements are loaded whole, other elements one by one."""
    b, element, count = s.b, str(op.source.type.element_type), tile.int_of(op.result.type.count)
    address, valid = _address(s, op.source, op.at, op.strides, element), b.value(s.get(op.valid), b.i1)
    together, size = tile.int_of(op.together), rounding.bits_of(element) // 8

    def single(i: int) -> ir.Value:
        pointer = b.op("llvm.inttoptr", [ir.Type.parse("!llvm.ptr<1>")], [b.add(address, i * size)])
        return epilogue.load(s, pointer, element, valid, 1)[0]

    if not tile.int_of(op.along):
        s.values[op.result] = [single(0)] * count
        return
    values: list[ir.Value] = []
    for first in range(0, count, together):
        words = together * size // 4
        if not words:
            values += [single(first + i) for i in range(together)]
            continue
        names = ", ".join(f"${i}" for i in range(words))
        shape = f".v{words}.b32 {{{names}}}" if words > 1 else ".b32 $0"
        text = f"@${words + 1} ld.global{shape}, [${words} + {first * size}];"
        raw = b.asm(text, [b.i32] * words, [address, valid, *[b.constant(0)] * words], tied=words)
        for word in raw:
            whole = size == 4
            values += (
                [b.op("llvm.bitcast", [b.f32], [word])]
                if whole
                else [epilogue.unpack(s, word, element, half) for half in (0, 1)]
            )
    s.values[op.result] = values


def _now(x: Any) -> ir.Value:
    """What a register that changes holds here; a value as it is."""
    return x.get() if isinstance(x, Variable) else x


@COMMON.lowers("tile.running")
def running(s: State, op: ir.OpView) -> None:
    """A variable for each column."""
    empty = REDUCTIONS[tile.str_of(op.kind)][1]
    s.values[op.result] = [s.b.variable(s.b.f32, float(empty)) for _ in range(tile.int_of(op.result.type.count))]


@COMMON.lowers("tile.term")
def term(s: State, op: ir.OpView) -> None:
    """No branch: a term that is not valid is computed, and not taken."""
    combine, valid = scalar.OPS[REDUCTIONS[tile.str_of(op.kind)][0]], s.b.value(s.get(op.valid), s.b.i1)
    for held, value in zip(s.get(op.sums), s.get(op.value), strict=True):
        before = held.get()
        held.set(s.b.select(valid, combine(s.b, before, _now(value)), before))


@COMMON.lowers("tile.compute")
def compute(s: State, op: ir.OpView) -> None:
    """The body once for each column."""
    made, inputs = [], [s.get(x) for x in (*op.inputs, *op.scalars)]
    for i in range(tile.int_of(op.result.type.count)):
        own = [_now(x[i]) if isinstance(x, list) else x for x in inputs]
        made.append(scalar.evaluate(s.b, op.body.blocks[0], own, epilogue.functions_of(op)))
    s.values[op.result] = made


@COMMON.lowers("tile.store_columns")
def store_columns(s: State, op: ir.OpView) -> None:
    """As loads: words of several elements whole, others one by one."""
    b, element, together = s.b, str(op.target.type.element_type), tile.int_of(op.together)
    address, bits = _address(s, op.target, op.at, op.strides, element), rounding.bits_of(element)
    values = [_now(x) for x in s.get(op.value)]
    for first in range(0, len(values), together):
        own, at = values[first : first + together], first * bits // 8
        words = together * bits // 32
        if not words:
            packed = rounding.one(s, element, own[0]) if len(own) == 1 else rounding.pair(s, element, *own)
            b.asm(f"st.global.b{together * bits} [$0 + {at}], $1;", [], [address, packed])
            continue
        each = 32 // bits
        made = own if bits == 32 else [rounding.word(s, element, own[i : i + each]) for i in range(0, together, each)]
        names, kind = ", ".join(f"${1 + i}" for i in range(words)), "f32" if bits == 32 else "b32"
        shape = f".v{words}.{kind} [$0 + {at}], {{{names}}}" if words > 1 else f".{kind} [$0 + {at}], $1"
        b.asm(f"st.global{shape};", [], [address, *made])
