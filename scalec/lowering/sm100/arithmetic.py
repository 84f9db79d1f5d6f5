"""Arithmetic on two adjacent columns: FP32 sums and products of both are one instruction (PTX ISA 9.7.3.3 to 9.7.3.6,
.f32x2), which rounds each as it would by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from scalec.ir.mlir import ir
from scalec.lowering import scalar
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common import epilogue as common
from scalec.lowering.common.both import Both
from scalec.lowering.common.epilogue import places_of
from scalec.lowering.common.fold_columns import reduce
from scalec.lowering.common.promote import Products, groups, products_of
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


class PairBuilder:
    """What the functions of scalar.OPS ask of a builder, on pairs: sums and products are one instruction, whatever else
    there is two. Pairs of values that several have in common are packed once."""

    doubled = 3

    def __init__(self, b: Builder) -> None:
        self._b, self.f32 = b, b.f32
        self._shared: dict[tuple[Any, ...], Pair] = {}

    def pair(self, values: tuple[ir.Value, ...]) -> Pair:
        """A pair that others may have in common with this one."""
        return self._shared.setdefault(values, Pair(self._b, values))

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Code that does not dominate what is behind it: pairs that are packed in it are not there for others."""
        shared, self._shared = self._shared, {}
        yield
        self._shared = shared

    def constant(self, value: float) -> Pair:
        if (value,) not in self._shared:
            self._shared[value,] = Pair(self._b, [self._b.constant(value)] * 2)
        return self._shared[value,]

    def fadd(self, x: Pair, y: Pair) -> Pair:
        return self._packed("add", x, y)

    def fmul(self, x: Pair, y: Pair) -> Pair:
        return self._packed("mul", x, y)

    def fma(self, x: Pair, y: Pair, z: Pair) -> Pair:
        return self._packed("fma", x, y, z)

    def twice_relu(self, x: Pair) -> Pair:
        """2 * max(x, 0) of finite numbers, of NaN that: x + |x|, one instruction (ptxas takes magnitudes there)."""
        return self._packed("add", x, self.asm("abs.f32 $0, $1;", [self.f32], [x], volatile=False, memory=False)[0])

    def op(self, name: str, results: Sequence[ir.Type], operands: Sequence[Pair]) -> Pair:
        return self._packed(_PACKED[name], *operands)

    def asm(
        self, text: str, results: Sequence[ir.Type], operands: Sequence[Pair], *, volatile: bool, memory: bool
    ) -> list[Pair]:
        each = [[x.values[i] for x in operands] for i in (0, 1)]
        made = [self._b.asm(text, results, x, volatile=volatile, memory=memory)[0] for x in each]
        return [Pair(self._b, made)]

    def _packed(self, name: str, *operands: Pair) -> Pair:
        text = f"{name}.rn.f32x2 $0, {', '.join(f'${1 + i}' for i in range(len(operands)))};"
        made = self._b.asm(text, [self._b.i64], [x.packed for x in operands], volatile=False, memory=False)
        return Pair(self._b, packed=made[0])

    def of(self, registers: list[Variable]) -> Pair:
        """What two registers hold."""
        return Pair(self._b, [v.get() for v in registers])


def _put(registers: list[Variable], pair: Pair) -> None:
    for v, x in zip(registers, pair.values, strict=True):
        v.set(x)


@TABLE.lowers("tile.epilogue")
def epilogue(s: State, op: ir.OpView) -> None:
    fragment = s.get(op.accumulator)
    if fragment.columns > _FEW:
        common.epilogue(s, op)
        return
    readers, pairs = common.readers_of(s, op), PairBuilder(s.b)
    functions = common.functions_of(op)
    for wave, registers in enumerate(fragment.waves):
        reads = [r.of_wave(wave) for r in readers]
        for g, place in places_of(s, op, fragment, wave):
            inputs, both = [read(g, place) for read in reads], fragment.of_group(registers, g)
            for i in range(0, len(both), 2):
                own = both[i : i + 2]
                arguments = [pairs.of(own), *(pairs.pair(tuple(x[i : i + 2])) for x in inputs)]
                _put(own, scalar.evaluate(pairs, op.body.blocks[0], arguments, functions))


@TABLE.lowers("tile.fold_columns")
def fold_columns(s: State, op: ir.OpView) -> None:
    branches = "piecewise" in op.operation.attributes  # pairs that are packed in one are not there behind it
    many = s.get(op.accumulator).columns > _FEW
    reduce(s, op, Both(s.b) if many or branches else PairBuilder(s.b))


@TABLE.lowers("tile.promote")
def promote(s: State, op: ir.OpView) -> None:
    pairs, products = PairBuilder(s.b), products_of(s, op)
    made: dict[tuple[int, ...], list[Pair]] = {}
    for g, sums, partial in groups(s, op):
        key = products.key(g)
        if key and key not in made:
            made[key] = _factors(pairs, products, g)
        for half in (0, 1):
            own = slice(2 * half, 2 * half + 2)
            target, part = pairs.of(sums[own]), pairs.of(partial[own])
            _put(sums[own], pairs.fma(part, made[key][half], target) if key else pairs.fadd(target, part))


def _factors(pairs: PairBuilder, products: Products, g: int) -> list[Pair]:
    """Those of a group's upper and lower row, of both sides multiplied."""
    found = []
    for half in (0, 2):
        first, *others = (pairs.pair(tuple(side[half : half + 2])) for side in products.factors(g))
        found.append(pairs.fmul(first, others[0]) if others else first)
    return found
