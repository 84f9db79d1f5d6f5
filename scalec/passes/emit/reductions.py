"""Reductions of results: each tile's partial results go to memory, and the last tile along the way adds them up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scalec.ir.mlir import ir
from scalec.passes.emit.body import Body, Sums, copied
from scalec.passes.emit.emitter import Source
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.reductions import (
    Partial,
    arrivals,
    meets_at_end,
    partial_words,
    partials,
)
from scalec.passes.problem.types import Problem


@dataclass(frozen=True)
class Band:
    """The tiles that a reduction runs over, as a tile of them sees it: number `own` of all tiles; they are `count`,
    from number `first` on, each `step` on."""

    own: ir.Value
    first: ir.Value
    step: ir.Value
    count: ir.Value


class Reductions(Body):
    """The way of partial results through the workspace."""

    def totals(self) -> list[ir.Value | None]:
        """What a thread has of each of its rows of a tile, for each reduction along the columns: nothing yet."""
        e, rows = self.e, 2 * self.waves

        def room(p: Partial) -> ir.Value | None:
            if p.axis == "m":
                return None
            return e.op("tile.totals", [e.type("row_totals")], kind=p.kind, rows=rows).result

        return list(map(room, self.partials))

    @property
    def partials(self) -> list[Partial]:
        """What a tile has of each reduction."""
        return partials(self.problem, self.schedule)

    def reduce(self, number: int, sums: Sums, w: Work, totals: list[ir.Value | None], column: int = 0) -> None:
        """What the body of a reduction computes of sums, which are of the tile's columns from `column` on, as `w` is:
        along columns each thread's, along rows all that a warp has."""
        of, p = self.problem.each_reduction[number], self.partials[number]
        if self.by_tile(of.result):
            self.split[number] = self.split_body(of.result, w)
        place = [w.m0, w.n0, w.m_end, w.n_end]
        accumulator = self.elementwise(of, self.split[number], self.panes(sums), place)
        d, along = (self.problem.n, 1) if p.axis == "n" else (self.problem.m, 0)
        ragged = int(d.size is None or d.size % (self.walked[along] * self.schedule.cluster[along]) != 0)
        if (own := totals[number]) is not None:
            self.e.op("tile.reduce_columns", operands=[accumulator, own, *place], kind=p.kind, ragged=ragged)
            return
        if column and self.overhang is not None:  # the tile's number is that of its first column
            w = replace(w, n0=self.e.arith("arith.subi", w.n0, self.e.i32(column)))
        operands = [accumulator, self.memory()[0], self.band(w, p).own, *place]
        self.e.op("tile.reduce_rows", operands=operands, ragged=ragged, column=column, **self.where(p))

    def where(self, p: Partial) -> dict[str, Any]:
        """Where a tile has its partial results."""
        return {
            "kind": p.kind,
            "words": partial_words(self.problem, self.schedule),
            "offset": p.offset,
            "extent": p.extent,
        }

    def meet_tiles(self, w: Work, totals: list[ir.Value | None]) -> None:
        """Behind all that a tile computes: its partial results are stored, and the last tile finishes reductions."""
        if not self.problem.reductions:
            return
        e, memory = self.e, self.memory()[0]
        for p, own in zip(self.partials, totals, strict=True):
            if own is not None:
                e.op("tile.store_totals", operands=[own, memory, self.band(w, p).own], **self.where(p))
        self.finish_reductions(w, [x for x in arrivals(self.problem, self.schedule) if x not in self.late_axes])

    @property
    def late_axes(self) -> tuple[str, ...]:
        """The axes along which tiles are counted at the end."""
        return meets_at_end(self.problem, self.schedule)

    def meet_at_end(self, h: Handles) -> None:
        """Behind all tiles of a CTA: it walks them again, warps by turns, and counts each."""
        if not self.late_axes:
            return
        e, depth = self.e, self.consumers // self.turns
        e.op("tile.meet")
        turn = e.op("tile.cursor", [e.type("position")], depth=depth).result
        with self.over_tiles(h, turns=self.turns) as w:
            self.finish_reductions(w, self.late_axes, turn)
            e.op("tile.advance", operands=[turn])

    def finish_reductions(self, w: Work, axes: Sequence[str], turn: ir.Value | None = None) -> None:
        """The tile is counted along some axes, by the warp whose turn it is if there are turns; the last one of a band
        is finished."""
        e, i1, own = self.e, ir.IntegerType.get_signless(1), [] if turn is None else [turn]
        counters = self.memory()[1] if axes else None
        for axis in axes:
            index = arrivals(self.problem, self.schedule).index(axis)
            mine = [i for i, p in enumerate(self.partials) if p.axis == axis]
            band = self.band(w, self.partials[mine[0]])
            number = band.first if not index else e.arith("arith.addi", band.first, self.all_tiles())
            last = e.op("tile.last_tile", [i1], [counters, number, band.count, own]).result
            with e.region("tile.when", [last]):
                for i in mine:
                    self.finish_reduction(self.problem.each_reduction[i], self.partials[i], band, w, len(own))

    def finish_reduction(self, of: Problem, p: Partial, band: Band, w: Work, alone: int) -> None:
        """Of all tiles of a band, in their order; `alone` by a warp."""
        e, result = self.e, of.result
        start, end, d = (w.m0, w.m_end, of.m) if p.axis == "n" else (w.n0, w.n_end, of.n)
        memory = e.memory(self.returned(result.index).type)
        target = e.parameter(self.body, memory, Source("pointer", result.name, align=max(1, result.element.bits // 8)))
        target = self.at(target, result.name, result.coords, w)
        axis = next(axis for axis, at in enumerate(result.coords) if at.dim == d.name)
        stride = e.i64(1) if axis == len(result.coords) - 1 else self.stride(result.name, axis)
        skips = [self.row_index(x.name, w) for x in of.skips if x.dim == d.name]
        operands = [self.memory()[0], band.first, band.step, band.count, target, stride, start, end, skips]
        facts = {"slots": p.slots, "alone": alone, **self.where(p)}
        with e.region("tile.finish_reduction", operands, [ir.F32Type.get()], **facts) as block:
            source = self.returned(result.index).owner.opview.body.blocks[0]
            values: dict[ir.Value, ir.Value] = dict.fromkeys(source.arguments, block.arguments[0])
            for op in source.operations:
                own = [values[v] for v in op.operation.operands]
                if op.operation.name == "scale.yield":
                    e.op("tile.yield", operands=own)
                elif op.operation.name in ("arith.truncf", "arith.extf", "arith.sitofp"):  # the store rounds
                    values[op.result] = own[0]
                else:
                    values[op.result] = copied(op, own)

    def band(self, w: Work, p: Partial) -> Band:
        """The tiles that a reduction runs over, of which the work's is one."""
        e = self.e
        down, across = self.meeting_along(0), self.meeting_along(1)
        row, column = (self.number_along(w, axis) for axis in (0, 1))
        point = self.point(w)
        above = down if point is None else e.arith("arith.muli", point, down)
        rows = row if point is None else e.arith("arith.addi", above, row)
        begin = e.arith("arith.muli", rows, across)
        own = e.arith("arith.addi", begin, column)
        if p.axis == "n":
            return Band(own, begin, e.i32(1), across)
        first = column if point is None else e.arith("arith.addi", e.arith("arith.muli", above, across), column)
        return Band(own, first, across, down)
