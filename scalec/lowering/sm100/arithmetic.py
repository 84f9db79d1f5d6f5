"""Elementwise bodies on two adjacent columns: FP32 sums and products of both are one instruction (PTX ISA 9.7.3.3 to
9.7.3.5, .f32x2), which rounds each as it would by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from scalec.ir.mlir import ir
from scalec.lowering import scalar
from scalec.lowering.builder import Builder
from scalec.lowering.common import epilogue as common
from scalec.lowering.common.epilogue import Reader, places
from scalec.lowering.common.state import State
from scalec.lowering.sm100.table import TABLE

_PACKED = {"arith.addf": "add", "arith.subf": "sub", "arith.mulf": "mul"}
_FEW = 64  # columns whose pairs find aligned registers: beside 128 ptxas 13.0 spills, of a bias, in blocks of 128


class Pair:
    """Two values, in registers of their own or as 64 bits, whichever an instruction asks for."""

    def __init__(self, b: Builder, values: Sequence[ir.Value] = (), packed: ir.Value | None = None) -> None:
        self._b, self._values, self._packed = b, list(values), packed

    @property
    def values(self) -> list[ir.Value]:
        if not self._values:
            f32, text = self._b.f32, "mov.b64 {$0, $1}, $2;"
            self._values = self._b.asm(text, [f32, f32], [self._packed], volatile=False, memory=False)
        return self._values

    @property
    def packed(self) -> ir.Value:
        if self._packed is None:
            text = "mov.b64 $0, {$1, $2};"
            (self._packed,) = self._b.asm(text, [self._b.i64], self._values, volatile=False, memory=False)
        return self._packed


def evaluate(b: Builder, name: str, operands: list[Pair]) -> Pair:
    """An op of a body on pairs."""
    if name in _PACKED:
        text = f"{_PACKED[name]}.rn.f32x2 $0, $1, $2;"
        return Pair(b, packed=b.asm(text, [b.i64], [x.packed for x in operands], volatile=False, memory=False)[0])
    return Pair(b, [scalar.OPS[name](b, [x.values[i] for x in operands]) for i in (0, 1)])


@TABLE.lowers("tile.epilogue")
def epilogue(s: State, op: ir.OpView) -> None:
    fragment, b = s.get(op.accumulator), s.b
    if fragment.columns > _FEW:
        common.epilogue(s, op)
        return
    readers = [Reader(s, s.get(v)) for v in op.inputs]
    shared: dict[tuple[ir.Value, ...], Pair] = {}  # of values that pairs have in common
    for wave, registers in enumerate(fragment.waves):
        for r in readers:
            r.new_wave()
        for g, place in places(s, op, wave, len(fragment.waves), fragment.columns):
            inputs = [r.at(place) for r in readers]
            for i in (0, 2):
                own = registers[4 * g + i : 4 * g + i + 2]
                halves = [tuple(x[i : i + 2]) for x in inputs]
                arguments = [Pair(b, [v.get() for v in own]), *(shared.setdefault(h, Pair(b, h)) for h in halves)]
                result = scalar.evaluate(
                    b,
                    op.body.blocks[0],
                    arguments,
                    constant=lambda x: shared.setdefault((x,), Pair(b, [b.constant(x)] * 2)),
                    apply=evaluate,
                )
                for v, x in zip(own, result.values, strict=True):
                    v.set(x)
