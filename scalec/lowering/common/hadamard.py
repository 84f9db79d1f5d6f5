"""Hadamard transforms of what threads hold of adjacent columns, or rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Variable
from scalec.lowering.common.epilogue import places
from scalec.lowering.common.state import COMMON, State

Step = tuple[str, int]
"""Which elements are added to each other: of one thread, so many apart ("own"), or of lanes whose numbers are."""


def transformed(s: State, values: Sequence[ir.Value], thread: ir.Value, steps: Sequence[Step]) -> list[ir.Value]:
    """Of elements of one thread the sum and the difference; of those that two lanes have, each makes one."""
    b, values = s.b, list(values)
    for where, apart in steps:
        if where == "own":
            pairs = [(values[i & ~apart], values[i | apart], i & apart) for i in range(len(values))]
            values = [b.op("arith.subf", [b.f32], [x, y]) if upper else b.fadd(x, y) for x, y, upper in pairs]
        else:
            upper = b.compare("ne", b.and_(thread, apart), 0)
            for i, x in enumerate(values):
                other = b.butterfly(x, apart)
                values[i] = b.fadd(other, b.select(upper, b.op("arith.negf", [b.f32], [x]), x))
    return [b.fmul(x, b.constant(0.25)) for x in values]


OF_COLUMNS: tuple[Step, ...] = (("own", 1), ("lanes", 1), ("lanes", 2), ("own", 2))
"""Of 16 columns that four lanes have, two of each of two groups of 8 (PTX ISA 9.7.14.5.8)."""

OF_ROWS: tuple[Step, ...] = (("lanes", 4), ("lanes", 8), ("lanes", 16), ("own", 1))
"""Of 16 rows that eight lanes have, one of each half."""


@COMMON.lowers("tile.transform_sums")
def transform_sums(s: State, op: ir.OpView) -> None:
    fragment, ragged = s.get(op.accumulator), tile.int_of(op.ragged)
    of, steps = (_rows, OF_ROWS) if tile.int_of(op.by_rows) else (_columns, OF_COLUMNS)
    for wave, registers in enumerate(fragment.waves):
        for held in of(list(places(s, op, wave, len(fragment.waves), fragment.columns)), registers):
            values = [s.b.select(inside, v.get(), 0.0) if ragged else v.get() for v, inside in held]
            for (v, _), made in zip(held, transformed(s, values, s.lane, steps), strict=True):
                v.set(made)


Held = Iterator[list[tuple[Variable, ir.Value]]]
"""What a thread holds of 16 elements, each with whether it is inside."""


def _columns(groups: list[Any], registers: Sequence[Any]) -> Held:
    for first in range(0, len(groups), 2):
        for half in (0, 1):
            yield [
                (registers[4 * g + 2 * half + i], place.column_inside[i])
                for g, place in groups[first : first + 2]
                for i in (0, 1)
            ]


def _rows(groups: list[Any], registers: Sequence[Any]) -> Held:
    for g, place in groups:
        for i in (0, 1):
            yield [(registers[4 * g + 2 * half + i], place.row_inside[half]) for half in (0, 1)]
