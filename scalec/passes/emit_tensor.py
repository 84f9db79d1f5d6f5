"""The roles where sums are in tensor memory: one thread issues products, a warpgroup takes the sums and writes results.

Accumulators are a ring of their own: while one tile's results are written, the next one's products are summed.
"""

from __future__ import annotations

from collections.abc import Iterator

from scalec.ir.mlir import ir
from scalec.ir.tile import LANES, WORD_ROWS
from scalec.passes.emit_consumer import Consumer, Positions
from scalec.passes.emit_frame import Handles, Side, Work
from scalec.passes.emit_producer import Producer
from scalec.passes.resources import (
    bare_sides,
    columns_beside,
    ones_columns,
    parts_taken,
    staged_rows,
    sums_slots,
    taken_columns,
    word_columns,
)


class TensorConsumer(Producer, Consumer):
    """Empties the stages by way of tensor memory."""

    @property
    def word_columns(self) -> dict[str, int]:
        """Columns of tensor memory of each side's scale words; they follow the accumulators, A's first."""
        return dict(zip(("A", "B"), word_columns(self.problem, self.schedule), strict=True))

    def handles(self) -> Handles:
        """Tensor memory, too, and its ring: filled by the tensor core, emptied by each consumer warp."""
        h, e, s = super().handles(), self.e, self.schedule
        slots, beside = sums_slots(self.problem, s), columns_beside(self.problem, s)
        offset, ctas = self.plan["sums_address"].offset, s.cta_group
        h.sums = e.op("tile.sums", [e.sums(s.tile[:2], slots)], offset=offset, beside=beside, ctas=ctas).result
        if ones_columns(self.problem, s):
            word = ir.IntegerType.get_signless(32)
            h.scale_tiles["ones"] = self.shared("ones", (1, WORD_ROWS), word, 0, 1)
            e.op("tile.ones", operands=[h.scale_tiles["ones"]], scale=self.problem.scale_type)
        h.sums_ring = h.vacated = e.op(
            "tile.ring",
            [e.type("stages")],
            offset=self.plan["sums_barriers"].offset,
            depth=slots,
            full=1,
            empty=ctas * self.consumers,
        ).result
        if ctas > 1:
            h.pair_rank = e.op("tile.pair_rank", [ir.IntegerType.get_signless(32)]).result
            h.filled, h.vacated = (
                e.op("tile.leader", [e.type("stages")], [ring]).result for ring in (h.ring, h.sums_ring)
            )
        return h

    @property
    def scale_arrivals(self) -> int:
        """At the leader of CTAs that multiply together, each warp's."""
        ctas = self.schedule.cta_group
        return super().scale_arrivals if ctas == 1 else ctas * self.scale_warps[1]

    def handers(self, ctas: int) -> int:
        """The tensor core hands stages back, once for all CTAs that multiply together, and consumers that read scales
        in them."""
        return ctas // self.schedule.cta_group + (ctas * self.consumers if self.schedule.promote else 0)

    def walkers(self, scale_warps: int, ctas: int) -> int:
        """The warp that issues products, too: one for all CTAs that multiply together."""
        return super().walkers(scale_warps, ctas) + ctas // self.schedule.cta_group

    @property
    def stored_rows(self) -> int:
        """All that a warp stages at once: their parts in shared memory lie under each other."""
        return staged_rows(self.problem, self.schedule) // self.units[0]

    def give_back(self, h: Handles) -> None:
        self.e.op("tile.free_sums", operands=[h.sums])

    def producer(self, h: Handles) -> None:
        """One warp's thread issues bulk copies, another's products: of CTAs that multiply together, the leader's."""
        super().producer(h)
        with self.e.region("tile.warp", index=1, count=1, elected=0), self.leading(h):
            self.products(h)

    def products(self, h: Handles) -> None:
        """All products, in the order of copies."""
        e = self.e
        cursor = e.op("tile.cursor", [e.type("position")], depth=self.schedule.stages).result
        slot = self.slot(h)
        elements = {f"{x.label.lower()}_element": ir.TypeAttr.parse(x.operand.element.mlir) for x in self.sides}
        taken, columns, scale = self.word_columns, {}, self.problem.scale_type
        for side, bare in zip(self.sides, bare_sides(self.problem), strict=True):
            plan, label = self.word_plan(side), side.label.lower()
            before = 0 if plan is None else plan.columns_before(side.rows)
            column = before + (taken["A"] if side.label == "B" else 0)
            columns[side.label] = sum(taken.values()) if bare else column if plan is not None else -1
            elements[f"{label}_words"] = columns[side.label]
            # of ones, all steps along K take the first byte
            elements[f"{label}_unit"] = self.schedule.tile[2] if bare else 0 if plan is None else plan.unit
            elements[f"{label}_mn"] = int(side.operand.mn_major)
        scaled = [side for side in self.sides if self.word_plan(side) is not None]
        ones = ones_columns(self.problem, self.schedule)
        if ones:
            operands = [h.sums, h.scale_tiles["ones"]]
            e.op("tile.fill_words", operands=operands, column=sum(taken.values()), columns=ones)
        promote = self.schedule.promote
        with self.over_tiles(h) as w:
            if not promote:
                e.op("tile.acquire", operands=[h.sums_ring, slot])
            before = {side.label: self.columns_before(side, w) for side in scaled}
            with self.over_k(w, self.schedule.unroll, cursors=self.rounds(cursor, slot)) as k0:
                if promote:
                    e.op("tile.acquire", operands=[h.sums_ring, slot])
                e.op("tile.wait", operands=[h.ring, cursor])
                for side in scaled:
                    operands = [h.sums, h.scale_tiles[side.label], cursor, *before[side.label]]
                    segments = (1, 1, 1, len(before[side.label]))
                    e.op("tile.copy_words", operands=operands, segments=segments, column=columns[side.label])
                accumulate = e.compare("lt", k0 if promote else e.i32(0), e.i32(0) if promote else k0)
                operands = [h.sums, slot, h.tiles["A"], h.tiles["B"], cursor, accumulate]
                e.op("tile.mma_sums", operands=operands, k=self.family.k, scale=scale, **elements)
                e.op("tile.hand_over", operands=[h.ring, cursor], side="empty")
                e.op("tile.advance", operands=[cursor])
                if promote:
                    self.sums_done(h, slot)
            if not promote:
                self.sums_done(h, slot)

    def columns_before(self, side: Side, w: Work) -> list[ir.Value]:
        """Columns of the words of rows before a tile's first, where its stage may begin with them; else nothing."""
        plan = self.word_plan(side)
        if plan is None or not plan.columns_before(side.rows):
            return []
        within = self.e.arith("arith.andi", w.row0[side.label], self.e.i32(WORD_ROWS - 1))
        return [self.e.arith("arith.divui", within, self.e.i32(LANES))]

    def rounds(self, cursor: ir.Value, slot: ir.Value) -> list[ir.Value]:
        """The cursors whose stages an iteration knows: that of the stages where it is a round of them (`unroll`), and
        with promotion that of the accumulators too, where a round of stages is one of theirs."""
        s = self.schedule
        if s.unroll == 1 or s.unroll % s.stages:
            return []
        return [cursor, slot] if s.promote and s.stages % sums_slots(self.problem, s) == 0 else [cursor]

    def sums_done(self, h: Handles, slot: ir.Value) -> None:
        """The accumulator at `slot` may be read when its products are done."""
        self.e.op("tile.hand_over", operands=[h.sums_ring, slot], side="full")
        self.e.op("tile.advance", operands=[slot])

    def slot(self, h: Handles) -> ir.Value:
        """A position in the ring of accumulators."""
        return self.e.op("tile.cursor", [self.e.type("position")], depth=sums_slots(self.problem, self.schedule)).result

    def consumer(self, h: Handles) -> None:
        """Takes the sums, some columns at a time, and writes results."""
        e, s = self.e, self.schedule
        slot = self.slot(h)
        if s.promote:
            self.promoting(h, slot)
        else:
            parts = self.parts()
            with self.over_tiles(h) as w:
                e.op("tile.wait", operands=[h.sums_ring, slot])
                if s.split > 1:
                    self.sum_parts(h, w, slot, parts)
                else:
                    for column, taken in self.taking(h, slot, parts):
                        self.epilogue(h, taken, w.m0, self.from_column(w, column))
        if s.epilogue == "bulk":
            e.op("tile.drain")

    def from_column(self, w: Work, column: int) -> ir.Value:
        """The result's column that is `column` of the tile."""
        return self.e.arith("arith.addi", w.n0, self.e.i32(column)) if column else w.n0

    def sum_parts(self, h: Handles, w: Work, slot: ir.Value, parts: list[ir.Value]) -> None:
        """A part's sums go to memory, some columns at a time; a tile's last CTA adds those of all, and goes on."""
        e, s = self.e, self.schedule
        columns, split = taken_columns(self.problem, s.tile[1], s.promote), s.split
        (memory, counters), pieces = self.workspace(), s.tile[1] // columns
        for column, taken in self.taking(h, slot, parts):
            operands = [taken, memory, w.part, w.number]
            e.op("tile.store_part", operands=operands, split=split, piece=column // columns, pieces=pieces)
        result = ir.IntegerType.get_signless(1)
        last = e.op("tile.last_part", [result], [counters, w.number], split=split).result
        with e.region("tile.when", [last]):
            for piece in range(pieces):
                operands = [parts[0], memory, w.number]
                e.op("tile.add_parts", operands=operands, split=split, piece=piece, pieces=pieces)
                self.epilogue(h, parts[0], w.m0, self.from_column(w, piece * columns))

    def parts(self) -> list[ir.Value]:
        """Registers for some columns of a warp's sums, and where they find room for the next ones on their way."""
        e, p, s = self.e, self.problem, self.schedule
        kind = e.accumulator(self.waves * self.wave, taken_columns(p, s.tile[1], s.promote), "warp")
        return [e.op("tile.fragment", [kind]).result for _ in range(parts_taken(p, s.tile[1], s.promote))]

    def taking(self, h: Handles, slot: ir.Value, parts: list[ir.Value]) -> Iterator[tuple[int, ir.Value]]:
        """The accumulator at `slot`, which is full, part by part: (its first column, its registers). What is emitted
        for one part stands under the loads of the next."""
        e, s = self.e, self.schedule
        columns = taken_columns(self.problem, s.tile[1], s.promote)
        starts = range(0, self.schedule.tile[1], columns)
        e.op("tile.take", operands=[parts[0], h.sums, slot], column=0)
        for i, column in enumerate(starts):
            part, following = parts[i % len(parts)], parts[(i + 1) % len(parts)]
            e.op("tile.taken", operands=[part])
            ahead, more = part is not following, column + columns in starts
            if more and ahead:
                e.op("tile.take", operands=[following, h.sums, slot], column=column + columns)
            elif not more:
                e.op("tile.vacate", operands=[h.vacated, slot])
            yield column, part
            if more and not ahead:
                e.op("tile.take", operands=[following, h.sums, slot], column=column + columns)
        e.op("tile.advance", operands=[slot])

    def promoting(self, h: Handles, slot: ir.Value) -> None:
        """Each K block's sums are taken, scaled and added into FP32 registers; then results are written.

        Of CTAs that multiply together only the leader sees that a stage's scales have come. All see it by its sums.
        """
        e, s = self.e, self.schedule
        cursor = e.op("tile.cursor", [e.type("position")], depth=s.stages).result
        sums = e.op("tile.fragment", [e.accumulator(self.waves * self.wave, s.tile[1], "warp")]).result
        parts, at = self.parts(), Positions(cursor, self.window())
        with self.over_tiles(h) as w:
            e.op("tile.clear", operands=[sums])
            if at.window is not None:
                self.open_window(w, at.window)
            fetched = {side.label: self.scalars(side) for side in self.sides if self.block_scale(side)}
            for side in self.sides:
                self.fetch(h, side, fetched, w.row0, self.at_k(w))
            with self.over_k(w) as k0:
                shown = (h.ring, cursor) if h.pair_rank is None else (h.sums_ring, slot)
                e.op("tile.wait", operands=shown)
                factors = [self.factors(h, at, fetched, wave) for wave in range(self.waves)]
                if h.pair_rank is None:
                    e.op("tile.wait", operands=[h.sums_ring, slot])
                for column, taken in self.taking(h, slot, parts):
                    for wave, pair in enumerate(factors):
                        present = [f for f in pair if f is not None]
                        segments = (1, 1, *(int(f is not None) for f in pair))
                        operands = [sums, taken, *present]
                        e.op("tile.promote", operands=operands, segments=segments, wave=wave, column=column)
                following = self.at_k(w, e.arith("arith.addi", k0, e.i32(s.tile[2])))
                for side in self.sides:
                    self.fetch(h, side, fetched, w.row0, following)
                self.hand_over(h, at)
            self.finish(h, w, sums)
