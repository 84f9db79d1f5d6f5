"""Kernels whose warps keep their columns' operand in registers for a run of tiles: they multiply some of a tile's rows
while others are folded, the next tile's first while this one's last are.

A go is one instruction's rows of each warp, side by side: the tile of those rows alone. Between two waits for a stage
all is one block of instructions, which ptxas puts beneath the products.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scalec.ir.mlir import ir
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.registers import RegisterConsumer
from scalec.passes.emit.runs import RunRoles
from scalec.passes.plan.stationary import SLOTS, row_goes


class RegisterRuns(RunRoles, RegisterConsumer):
    """The roles of such a schedule."""

    def consumer(self, h: Handles) -> None:
        """Multiplies some rows of a tile while others are folded."""
        e, s = self.e, self.schedule
        cursor, of_b = e.cursor(s.stages), e.cursor(SLOTS)
        rows, columns = self.family.m, s.tile[1] // s.warps[1]
        kind = e.accumulator(rows, columns, "warp")
        whole = e.accumulator(s.tile[0] // s.warps[0], columns, "warp")
        accumulator, count = e.op("tile.fragment", [whole]).result, row_goes(self.problem, s)
        goes = [e.op("tile.go", [kind], [accumulator], wave=i).result for i in range(count)]
        below = [i * rows * s.warps[0] for i in range(len(goes))]
        a_side, b_side = self.sides
        held = [self.slice("b", b_side, columns) for _ in range(self.slices)]
        words_b = self.words_of(b_side, "b", columns)
        loaded = [(self.words_of(a_side, "a", rows), [self.slice("a", a_side, rows) for _ in held]) for _ in goes]
        self.hold()
        (of,) = self.problem.each
        fold = of.result.column_fold
        assert fold is not None
        with self.over_runs(h) as run:
            self.split_for(0, of, run.w)
            last = self.last[0]
            assert last is not None
            folded = self.folded(run.w, fold.size)
            memory = self.memory_of(of.behind, folded)
            bounds = self.read_ahead(run.w, goes[0], ("window",))
            reads = self.read_ahead(run.w, goes[0], ("col",))
            e.op("tile.wait", operands=[h.columns, of_b])
            self.load_words(h, b_side, words_b, of_b, 0)
            for step, registers in enumerate(held):
                e.op("tile.load", operands=[registers, h.tiles["B"], of_b], step=step, transpose=0)
            self.release(replace(h, ring=h.columns), of_b, b=held)
            e.op("tile.advance", operands=[of_b])

            def load(number: int) -> None:
                words, registers = loaded[number]
                self.load_words(h, a_side, words, cursor, below[number])
                for step, a in enumerate(registers):
                    operands = [a, h.tiles["A"], cursor]
                    e.op("tile.load", operands=operands, step=step, transpose=0, first=below[number])

            def multiply(number: int) -> None:
                words, registers = loaded[number]
                for step, (a, b) in enumerate(zip(registers, held, strict=True)):
                    self.multiply_slice([goes[number], a, b, words, words_b], step, accumulate=int(step > 0))

            keys: list[tuple[int, int, Any]] = []

            def begins(m0: ir.Value) -> list[ir.Value]:
                works = [self.lower(run.w, m0, x) for x in below]
                read = [self.read_ahead(w, go, ("row",)) for w, go in zip(works, goes, strict=True)]
                keys.extend((i, body, key) for i, x in enumerate(read) for body, each in x.items() for key in each)
                e.op("tile.wait", operands=[h.ring, cursor])
                load(0)
                return [value for x in read for each in x.values() for value in each.values()]

            def settles() -> None:
                for number in range(1, len(goes)):
                    load(number)
                self.release(h, cursor, a=loaded[-1][1])
                e.op("tile.advance", operands=[cursor])
                multiply(0)

            with self.rows(run.first, run.end, begins, settles) as (m0, *begun):
                e.op("tile.ahead")
                for number, go in enumerate(goes):
                    if number + 1 < len(goes):
                        multiply(number + 1)
                    self.ahead_of = {body: dict(each) for body, each in reads.items()}
                    for (i, body, key), value in zip(keys, begun, strict=True):
                        if i == number:
                            self.ahead_of[body][key] = value
                    w = self.lower(run.w, m0, below[number])
                    self.to_f32([go])
                    share = self.folded_sums(of, 0, [go], w, apart=True)
                    self.ahead_of = bounds
                    made = e.op("tile.join_folds", [share.type], [[share]], kind=fold.kind).result
                    self.store_folded(of, last, made, replace(folded, m0=w.m0), 0, memory)
        self.drain()

    def slice(self, label: str, side: Any, rows: int) -> ir.Value:
        """Registers of a slice."""
        kind = self.e.multiplicand(label, rows, self.family.k, ir.Type.parse(side.operand.element.mlir))
        return self.e.op("tile.multiplicand", [kind]).result

    def words_of(self, side: Any, label: str, rows: int) -> ir.Value | None:
        """Registers of a side's scale bytes."""
        plan = self.word_plan(side)
        return None if plan is None else self.e.op("tile.words", [self.e.words(label, plan.words, rows)]).result

    def load_words(self, h: Handles, side: Any, words: ir.Value | None, cursor: ir.Value, first: int) -> None:
        if words is not None:
            self.e.op("tile.load_words", operands=[words, h.scale_tiles[side.label], cursor], first=first)
            self.e.op("tile.turn", operands=[words])
