"""Programs without a contraction: rows of results that threads store together, wherever they begin."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.ir.tile_row_stores import line_bytes
from scalec.passes.emit.pointwise import Point
from scalec.passes.emit.ranged import RangedKernel
from scalec.passes.problem.pointwise import Output


class RowStoringKernel(RangedKernel):
    """Attributes:
    stored_at: the byte from which rows are put together in shared memory, None where threads store by themselves.
    numbers: of each row that a thread has of a result, which place it is of those below each other.
    begun: the rows that have begun. Both by the identity of their points.
    """

    stored_at: int | None = None
    numbers: dict[int, int]
    begun: dict[int, ir.Value]

    def stores_rows(self, o: Output) -> bool:
        """Whether threads store rows of a result together."""
        return self.stored_at is not None and self.spread.stores_rows(o)

    def stored_bytes(self, o: Output) -> int:
        """Of shared memory, where all rows of one place are put together."""
        s = self.spread
        row = o.element.bits * s.vector // 8 * s.across * s.along
        return line_bytes(row, s.along) * s.step[0]

    def indices(self, o: Output, at: Point) -> list[ir.Value]:
        """Of a result at a point."""
        return [self.placed(c, at.where) for c in o.coords]

    def put(self, o: Output, value: ir.Value, points: list[Point], place: int) -> None:
        """Columns of a row that a thread has at these points, those of place number `place`."""
        e, first = self.e, points[0]
        if id(points) not in self.begun:
            end, column = self.until(self.p.columns), first.where[self.p.columns.name]
            left = e.arith("arith.subi", end, column)
            left = e.op("arith.select", [left.type], [first.valid, left, e.i32(0)]).result
            indices = self.indices(o, first)
            above = self.numbers[id(points)] * self.stored_bytes(o)
            self.begun[id(points)] = e.op(
                "tile.begin_row",
                [e.type("stored_row")],
                [self.target(o), indices, self.strided(o.name, len(o.coords)), left],
                vector=first.vector,
                lanes=self.spread.across,
                places=len(points),
                offset=(self.stored_at or 0) + above,
            ).result
        value = self.rounded(o, value, self.indices(o, points[place])) if o.chance is not None else value
        e.op("tile.put_columns", operands=[self.begun[id(points)], value], place=place)

    def end_row(self, points: list[Point]) -> None:
        """Stores what has been put together of a row."""
        row = self.begun.pop(id(points), None)
        if row is not None:
            self.e.op("tile.end_row", operands=[row])
