"""Indices that bounds are computed of, in place of what is read from memory."""

from __future__ import annotations

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common.epilogue import Input, Place, Reader, Run
from scalec.lowering.common.state import COMMON, State

Inside = tuple[ir.Value, ir.Value]
"""A row or column, and whether it is inside."""


class IndexReader(Reader):
    """Values of an input that are computed of a thread's rows or columns."""

    def __init__(self, s: State, source: Input, numbers: tuple[int, int, int]) -> None:
        super().__init__(s, source)
        self._numbers = numbers

    def scalar(self) -> list[ir.Value]:
        return [self._in.source] * 4

    def column(self, column: ir.Value) -> ir.Value:
        b, (offset, divisor, modulus) = self._s.b, self._numbers
        at = b.div(b.add(column, offset) if offset else column, divisor)
        return b.sub(at, b.mul(b.div(at, modulus), modulus)) if modulus else at

    def _columns(self, half: int, row: Inside | None, place: Place) -> list[ir.Value]:
        return [self.column(b) for b in (place.column, self._s.b.add(place.column, 1))]

    def _in_run(self, place: Place, run: Run) -> list[ir.Value]:
        return self._columns(0, None, place)

    def _element(self, half: int, row: Inside | None, column: Inside | None) -> ir.Value:
        at = row or column
        assert at is not None
        return self.column(at[0])


@COMMON.lowers("tile.index_input")
def index_input(s: State, op: ir.OpView) -> None:
    kind, numbers = tile.str_of(op.kind), tile.ints_of(op.numbers)
    value = s.get(op.value[0]) if len(op.value) else None
    source = Input(value, "i32", kind, [], pair=False, value=False)
    s.values[op.result] = IndexReader(s, source, (numbers[0], numbers[1], numbers[2]))
