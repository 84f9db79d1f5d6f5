"""Reductions of results: each tile's partial results go to memory, and the last tile along the way adds them up."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.scale_functions import CONVERSIONS
from scalec.ir.tile_types import str_of
from scalec.meetings import SECTION, numbers_of
from scalec.passes.emit.body import Body, Sums, copied
from scalec.passes.emit.emitter import Source
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.counting import counting_warp, partial_words, stored_partials
from scalec.passes.plan.reductions import Partial, arrivals, band_tiles, in_sections, partials
from scalec.passes.problem.result import Result
from scalec.passes.problem.types import Problem


@dataclass(frozen=True)
class Band:
    """The tiles that a reduction runs over, as a tile of them sees it: number `own` of all tiles; they are `count`,
    from number `first` on, each `step` on. `counter`: what they are counted by, None by the first one's number."""

    own: ir.Value
    first: ir.Value
    step: ir.Value
    count: ir.Value
    counter: ir.Value | None = None


class Reductions(Body):
    """The way of partial results through the workspace."""

    def totals(self, h: Handles) -> list[ir.Value | None]:
        """What a thread has of each of its rows of a tile, for each reduction along the columns: nothing yet. There is
        room then for what warps leave of the tile."""
        e, rows = self.e, 2 * self.waves
        if h.totals_ring is not None:
            e.op("tile.acquire", operands=[h.totals_ring, h.totals_cursor])

        def room(p: Partial) -> ir.Value | None:
            if p.axis == "m":
                return None
            return e.op("tile.totals", [e.type("row_totals")], kind=p.kind, rows=rows).result

        return list(map(room, self.partials))

    @property
    def partials(self) -> list[Partial]:
        """What a tile's warps have of each reduction."""
        return partials(self.problem, self.schedule)

    @property
    def stored_partials(self) -> list[Partial]:
        """What a tile has of each in memory."""
        return stored_partials(self.problem, self.schedule)

    def reduce(
        self, h: Handles, number: int, sums: Sums, w: Work, totals: list[ir.Value | None], column: int = 0
    ) -> None:
        """What the body of a reduction computes of sums, which are of the tile's columns from `column` on, as `w` is:
        along columns each thread's, along rows all that a warp has."""
        of, p = self.problem.each_reduction[number], self.partials[number]
        self.split_for(number, of, w)
        place = [w.m0, w.n0, w.m_end, w.n_end]
        accumulator = self.elementwise(of, self.split[number], self.panes(sums), place)
        d, along = (self.problem.n, 1) if p.axis == "n" else (self.problem.m, 0)
        skips = [self.row_index(x.name, w) for x in of.skips if x.dim == d.name]
        cut = d.size is None or d.size % (self.walked[along] * self.schedule.cluster[along]) != 0
        ragged = int(cut or bool(skips) or self.is_ranged(p))
        if (own := totals[number]) is not None:
            operands = [accumulator, own, *place, skips]
            self.e.op("tile.reduce_columns", operands=operands, kind=p.kind, ragged=ragged)
            return
        if h.totals is not None:
            operands = [accumulator, h.totals, *place, skips]
            self.e.op("tile.leave_rows", operands=operands, ragged=ragged, column=column, **self.place(p))
            return
        if column and self.overhang is not None:  # the tile's number is that of its first column
            w = replace(w, n0=self.e.arith("arith.subi", w.n0, self.e.i32(column)))
        operands = [accumulator, self.memory()[0], self.band(w, p).own, *place, skips]
        self.e.op("tile.reduce_rows", operands=operands, ragged=ragged, column=column, **self.where(p))

    def place(self, p: Partial) -> dict[str, Any]:
        """Where partial results are, among those of a tile."""
        return {"kind": p.kind, "offset": p.offset, "extent": p.extent}

    def where(self, p: Partial) -> dict[str, Any]:
        """Where a tile has its partial results in memory."""
        return {**self.place(p), "words": partial_words(self.problem, self.schedule)}

    def leave(self, h: Handles, w: Work, totals: list[ir.Value | None]) -> None:
        """Behind all bodies of reductions: what a tile's warps have of rows is stored, or left for the warp that counts
        tiles."""
        e, ring = self.e, [h.totals_ring, h.totals_cursor]
        for p, own in zip(self.partials, totals, strict=True):
            if own is not None and h.totals is not None:
                e.op("tile.leave_totals", operands=[own, h.totals], **self.place(p))
            elif own is not None:
                e.op("tile.store_totals", operands=[own, self.memory()[0], self.band(w, p).own], **self.where(p))
        if h.totals is not None:
            h.follows = e.op("tile.follows", [ir.IntegerType.get_signless(1)]).result
            with e.region("tile.when", [h.follows]):
                e.op("tile.commit", operands=ring, warp=ir.UnitAttr.get())
            e.op("tile.advance", operands=ring[1:])

    def meet_tiles(self, h: Handles, w: Work) -> None:
        """Behind all that a tile computes: where consumers count it, the last one finishes reductions."""
        if h.follows is None:
            self.finish_reductions(w)
            return
        with self.e.region("tile.when", [self.e.negated(h.follows)]):
            self.e.op("tile.meet")
            self.store_left(h, w)
            self.finish_reductions(w)

    def store_left(self, h: Handles, w: Work, alone: int = 0) -> None:
        """What warps have left of a tile is added up and stored, by all consumers or a warp `alone`."""
        for p, stored in zip(self.partials, self.stored_partials, strict=True):
            operands = [h.totals, self.memory()[0], self.band(w, p).own]
            facts = {"left": p.offset, "slots": p.slots, "alone": alone, **self.where(stored)}
            self.e.op("tile.store_left", operands=operands, **facts)

    def count_tiles(self, h: Handles) -> None:
        """The role of a warp that has nothing else to do: of all tiles of a CTA but the last it adds up what consumer
        warps have left, stores and counts that, and finishes reductions where the tile is the last of a band."""
        if (warp := counting_warp(self.problem, self.schedule)) is None:
            return
        e, ring = self.e, h.totals_ring
        with e.region("tile.warp", index=warp, count=1, elected=0):
            cursor = e.cursor(1)
            with self.over_tiles(h) as w:
                follows = e.op("tile.follows", [ir.IntegerType.get_signless(1)]).result
                with e.region("tile.when", [follows]):
                    e.op("tile.wait", operands=[ring, cursor])
                    self.store_left(h, w, alone=1)
                    e.op("tile.hand_back", operands=[ring, cursor])
                    e.op("tile.advance", operands=[cursor])
                    self.finish_reductions(w, alone=1)

    def finish_reductions(self, w: Work, alone: int = 0) -> None:
        """The tile is counted along each axis, and the last one of a band is finished: by all consumers or a warp
        `alone`."""
        stored, counters = self.stored_partials, 0
        for axis in arrivals(self.problem, self.schedule):
            mine = [i for i, p in enumerate(stored) if p.axis == axis]
            band = self.band(w, stored[mine[0]])
            with ExitStack() as last:
                if in_sections(self.problem, self.schedule, axis):
                    section, band = self.section_of(w, band, axis)
                    last.enter_context(self.when_last(section, counters, alone))
                    for i in mine:
                        self.join_section(stored[i], section, alone)
                        stored[i] = replace(stored[i], slots=1)
                    counters += 1
                last.enter_context(self.when_last(band, counters, alone))
                counters += 1
                for i in mine:
                    self.finish_reduction(self.problem.each_reduction[i], stored[i], band, w, alone)

    def when_last(self, band: Band, counters: int, alone: int) -> AbstractContextManager[Any]:
        """What the last tile of a band does, of which so many `counters` of all tiles are before its own."""
        e, number = self.e, band.first if band.counter is None else band.counter
        if counters:
            before = e.arith("arith.muli", self.all_tiles(), e.i32(counters)) if counters > 1 else self.all_tiles()
            number = e.arith("arith.addi", number, before)
        operands = [self.memory()[1], number, band.count]
        last = e.op("tile.last_tile", [ir.IntegerType.get_signless(1)], operands, alone=alone).result
        return e.region("tile.when", [last])

    def section_of(self, w: Work, band: Band, axis: str) -> tuple[Band, Band]:
        """The tiles of a band that meet at a time, of which the work's is one; and the first ones of all sections, each
        of which has then what its section has."""
        e = self.e
        place = self.number_along(w, "mn".index(axis))
        before = e.arith("arith.muli", e.arith("arith.divui", place, e.i32(SECTION)), e.i32(SECTION))
        first = e.arith("arith.addi", band.first, e.arith("arith.muli", before, band.step))
        count = e.i32(SECTION)
        if (band_tiles(self.problem, self.schedule, axis) or 1) % SECTION:
            count = e.arith("arith.minui", e.arith("arith.subi", band.count, before), count)
        sections = e.arith("arith.divui", e.arith("arith.addi", band.count, e.i32(SECTION - 1)), e.i32(SECTION))
        apart = e.arith("arith.muli", band.step, e.i32(SECTION))
        return Band(band.own, first, band.step, count), Band(first, band.first, apart, sections)

    def join_section(self, p: Partial, section: Band, alone: int) -> None:
        """What a section's tiles have becomes its first one's."""
        operands = [self.memory()[0], section.first, section.step, section.count]
        self.e.op("tile.join_section", operands=operands, slots=p.slots, alone=alone, **self.where(p))

    def finish_reduction(self, of: Problem, p: Partial, band: Band, w: Work, alone: int) -> None:
        """Of all tiles of a band, in an order of their numbers; by a warp `alone`."""
        e, reduced = self.e, of.result.reduced
        assert reduced is not None
        start, end, d = (w.m0, w.m_end, of.m) if p.axis == "n" else (w.n0, w.n_end, of.n)
        results = of.result, *reduced.beside
        targets, strides = zip(*(self.finished(x, d.name, w) for x in results), strict=True)
        skips = [self.row_index(x.name, w) for x in of.skips if x.dim == d.name]
        bounds, width, facts = [], [], {"slots": p.slots, "alone": alone, **self.where(p)}
        if (window := reduced.window) is not None:
            bounds = [self.end_at(x, w) for x in window.bounds]
            width = [] if window.width is None else [self.size(window.width)]
            if window.otherwise is not None:
                facts["otherwise"] = ir.FloatAttr.get(ir.F32Type.get(), window.otherwise)
        place = [list(targets), list(strides), start, end, skips, bounds, width]
        operands = [self.memory()[0], band.first, band.step, band.count, *place]
        known = [ir.F32Type.get()] * numbers_of(p.kind)
        with e.region("tile.finish_reduction", operands, known, **facts) as block:
            made = [value for x in results for value in self.behind_reduction(x, list(block.arguments))]
            e.op("tile.yield", operands=made)

    def finished(self, result: Result, dim: str, w: Work) -> tuple[ir.Value, ir.Value]:
        """Where a reduction goes, and how far apart its elements are along a dimension."""
        e, axis = self.e, result.axis(dim)
        memory = e.memory(self.returned(result.index).type)
        target = e.parameter(self.body, memory, Source("pointer", result.name, align=max(1, result.element.bits // 8)))
        target = self.at(target, result.name, result.coords, w)
        assert axis is not None
        return target, e.i64(1) if axis == len(result.coords) - 1 else self.stride(result.name, axis)

    def behind_reduction(self, result: Result, known: list[ir.Value]) -> list[ir.Value]:
        """What is computed of a reduction, or of a sum of exponentials and the largest of what they are of."""
        last = self.last_map(result).opview
        kinds = [str_of(view.owner.opview.source.owner.opview.kind) for view in last.views]
        of_view = [known[len(known) - 1 if kind == "max" else 0] for kind in kinds]
        source = last.body.blocks[0]
        values: dict[ir.Value, ir.Value] = dict(zip(source.arguments, of_view, strict=True))
        for op in source.operations:
            own = [values[v] for v in op.operation.operands]
            if op.operation.name == "scale.yield":
                return own
            # the store rounds
            values[op.result] = own[0] if op.operation.name in CONVERSIONS else copied(op, own)
        raise AssertionError("the verifier of scale.map asks for a scale.yield")

    def is_ranged(self, p: Partial) -> bool:
        """Whether a reduction runs over the rows or columns that a range has."""
        ragged = self.problem.ragged
        return ragged is not None and ragged.dim == (self.problem.n if p.axis == "n" else self.problem.m).name

    def tiles_of_range(self, w: Work, axis: int) -> tuple[ir.Value, ir.Value]:
        """The number along M or N of the first tile of the work's range, and how many the range has: one, or those of a
        cluster, of a range without rows or columns."""
        e, along = self.e, self.schedule.cluster[axis]
        assert w.low is not None
        first = self.number_along(replace(w, n0=w.low) if axis else replace(w, m0=w.low), axis)
        length = e.arith("arith.subi", w.n_end if axis else w.m_end, w.low)  # 0 of none
        extent = self.walked[axis] * along
        count = e.arith("arith.divui", e.arith("arith.addi", length, e.i32(extent - 1)), e.i32(extent))
        count = e.arith("arith.maxui", count, e.i32(1))
        return first, e.arith("arith.muli", count, e.i32(along)) if along > 1 else count

    def band(self, w: Work, p: Partial) -> Band:
        """The tiles that a reduction runs over, of which the work's is one."""
        e = self.e
        down, across = self.meeting_along(0), self.meeting_along(1)
        row, column = (self.number_along(w, axis) for axis in (0, 1))
        point = self.point(w)
        above = None if point is None else e.arith("arith.muli", point, down)

        def number(row: ir.Value | None, column: ir.Value | None) -> ir.Value:
            """Of the tile of the work's point in a row and a column, those of the first ones where they are None."""
            rows = row if above is None else above if row is None else e.arith("arith.addi", above, row)
            if rows is None:
                return e.i32(0) if column is None else column
            begin = e.arith("arith.muli", rows, across)
            return begin if column is None else e.arith("arith.addi", begin, column)

        own, along = number(row, column), int(p.axis == "n")
        if not self.is_ranged(p):
            first, step, count = (row, None), e.i32(1), across
            if not along:
                first, step, count = (None, column), across, down
            return Band(own, number(*first), step, count)
        first, count = self.tiles_of_range(w, along)
        # of each group its own, or ranges that overlap, as no program's do, would leave a counter above 0
        group = w.outer[self.overhang.group] if self.overhang is not None and self.overhang.group else None
        if along:
            return Band(own, number(row, first), e.i32(1), count, number(row, group))
        return Band(own, number(first, column), across, count, number(group, column))
