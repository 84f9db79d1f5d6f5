"""The roles where sums are in tensor memory: one thread issues products, a warpgroup takes the sums and writes results.

Accumulators are a ring of their own: while one tile's results are written, the next one's products are summed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.tile import LANES, WORD_ROWS
from scalec.ir.tile_fold_columns import folded_columns
from scalec.passes.emit.factors import Positions
from scalec.passes.emit.folds_at_once import FoldsAtOnce
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.producer import Producer
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.joined_folds import FEW, joins_folds
from scalec.passes.plan.reached import walked_window
from scalec.passes.plan.shared_blocks import together
from scalec.passes.plan.tensor_columns import (
    bare_sides,
    columns_beside,
    ones_columns,
    parts_taken,
    scale_slots,
    sums_slots,
    taken_apart,
    taken_columns,
    word_columns,
)


class TensorConsumer(Producer, FoldsAtOnce):
    """Empties the stages by way of tensor memory."""

    @property
    def word_columns(self) -> dict[str, int]:
        """Columns of tensor memory of each side's scale words; they follow the accumulators, A's first."""
        return dict(zip(("A", "B"), word_columns(self.problem, self.schedule), strict=True))

    def handles(self) -> Handles:
        """The ring of accumulators, too: filled by the tensor core, emptied by each consumer warp."""
        h, e, s = super().handles(), self.e, self.schedule
        slots, ctas = sums_slots(self.problem, s), s.cta_group
        if ones_columns(self.problem, s):
            word = ir.IntegerType.get_signless(32)
            h.scale_tiles["ones"] = self.shared("ones", (1, WORD_ROWS), word, 0, 1)
            e.op("tile.ones", operands=[h.scale_tiles["ones"]], scale=self.problem.scale_type)
        h.sums_ring = h.vacated = self.ring("sums_barriers", depth=slots, full=1, empty=ctas * self.consumers)
        if s.scale_copier:
            h.copied = self.ring("copied_barriers", depth=s.stages, full=2, empty=1)
        if ctas > 1:
            h.pair_rank = e.op("tile.pair_rank", [ir.IntegerType.get_signless(32)]).result
            h.filled, h.vacated = (
                e.op("tile.leader", [e.type("stages")], [ring]).result for ring in (h.ring, h.sums_ring)
            )
        return h

    def meet(self, h: Handles) -> None:
        """The CTAs of a cluster meet before tensor memory is allocated: of a pair each writes to the other's shared
        memory then, which is there once that has begun. What is written after, the address, its own threads read."""
        e, s = self.e, self.schedule
        if self.ctas > 1:
            e.op("tile.sync", scope="cluster", releases=0)
        slots, beside = sums_slots(self.problem, s), columns_beside(self.problem, s)
        offset, ctas = self.plan["sums_address"].offset, s.cta_group
        h.sums = e.op("tile.sums", [e.sums(s.tile[:2], slots)], offset=offset, beside=beside, ctas=ctas).result
        e.op("tile.sync", scope="cta", releases=1)

    @property
    def scale_arrivals(self) -> int:
        """At the leader, those of all CTAs that multiply together."""
        return self.schedule.cta_group * super().scale_arrivals

    def handers(self, ctas: int) -> int:
        """The tensor core hands stages back, once for all CTAs that multiply together; so do consumers that read scales
        in them, and warps that convert what copies brought."""
        warps = (self.consumers if self.schedule.promote else 0) + (4 if self.converters else 0)
        return ctas // self.schedule.cta_group + ctas * warps

    def walkers(self, scale_warps: int, ctas: int) -> int:
        """The warps that issue products and copy scale words, too: one for all CTAs that multiply together."""
        return super().walkers(scale_warps, ctas) + ctas // self.schedule.cta_group * (1 + self.schedule.scale_copier)

    def takers(self, scale_warps: int) -> int:
        """The warps that issue products and copy scale words, too."""
        return super().takers(scale_warps) + 1 + self.schedule.scale_copier

    def give_back(self, h: Handles) -> None:
        self.e.op("tile.free_sums", operands=[h.sums])

    def producer(self, h: Handles) -> None:
        """One warp's thread issues bulk copies, another's products, and a third's copies of scale words where there is
        one: of CTAs that multiply together, the leader's.

        Of tiles that a queue deals out, a CTA's own products stand first: ptxas then gives uniform registers to them
        before the warp that deals takes many (docs/notes/groups.md)."""
        first = h.items is not None and h.pair_rank is None
        if not first:
            super().producer(h)
        with self.e.region("tile.warp", index=1, count=1, elected=0):
            with self.leading(h):
                self.products(h)
            self.follow(h)
        if first:
            super().producer(h)
        if h.copied is not None:
            with self.e.region("tile.warp", index=2, count=1, elected=0):
                with self.leading(h):
                    self.copies(h)
                self.follow(h)

    def follow(self, h: Handles) -> None:
        """Who multiplies, or copies scales, for several CTAs is in one of them: in the others items are taken alone."""
        if h.items is None or h.pair_rank is None:
            return
        with self.e.region("tile.when", [self.e.compare("lt", self.e.i32(0), h.pair_rank)]), self.over_tiles(h):
            pass

    def products(self, h: Handles) -> None:
        """All products, in the order of copies."""
        e = self.e
        cursor = e.cursor(self.schedule.stages)
        slot = self.slot()
        elements = {f"{x.label.lower()}_element": ir.TypeAttr.parse(x.operand.element.mlir) for x in self.sides}
        taken, columns, scale = self.word_columns, self.columns_of_words(), self.problem.scale_type
        beside = scale_slots(self.problem, self.schedule) * sum(taken.values())
        for side, bare in zip(self.sides, bare_sides(self.problem), strict=True):
            plan, label = self.word_plan(side), side.label.lower()
            elements[f"{label}_words"] = beside if bare else columns.get(side.label, -1)
            # of ones, all steps along K take the first byte
            elements[f"{label}_unit"] = self.schedule.tile[2] if bare else 0 if plan is None else plan.unit
            elements[f"{label}_mn"] = int(side.operand.mn_major)
        ones = ones_columns(self.problem, self.schedule)
        filled = h.ring if h.copied is None else h.copied
        sure = h.items is None and walked_window(self.problem, self.schedule) is None
        if ones and sure:
            self.fill_ones(h, filled, cursor, beside, ones)
        promote = self.schedule.promote
        sums, words = self.words(h, cursor)
        with self.over_tiles(h) as w:
            if ones and not sure:  # there may be no item, or no window, and then nobody waits for what was written
                self.fill_ones(h, filled, cursor, beside, ones)
            before = self.columns_before(w)
            for part in [self.multiplied(w)] if promote else self.segments(w):
                if not promote:
                    e.op("tile.acquire", operands=[h.sums_ring, slot])
                rounds = self.rounds(cursor, slot, words)
                with self.if_there(part), self.over_k(part, self.schedule.unroll, cursors=rounds) as k0:
                    if promote:
                        e.op("tile.acquire", operands=[h.sums_ring, slot])
                    e.op("tile.wait", operands=[filled, cursor])
                    self.cut_rows(h, cursor, self.at_end(w, k0))
                    if h.copied is None:
                        self.copy_words(h, sums, cursor)
                    accumulate = e.compare("lt", k0 if promote else e.i32(0), e.i32(0) if promote else k0)
                    operands = [sums, slot, h.tiles["A"], h.tiles["B"], cursor, accumulate, before]
                    how = {"k": self.family.k, "scale": scale, **elements}
                    e.op("tile.mma_sums", operands=operands, **how)
                    e.op("tile.hand_over", operands=[h.ring, cursor], side="empty")
                    for position in (cursor, *words):
                        e.op("tile.advance", operands=[position])
                    if promote:
                        self.sums_done(h, slot)
                if not promote:
                    self.sums_done(h, slot)
            if self.problem.wraps:
                with e.region("tile.when", [self.left_over(w)]):
                    e.op("tile.wait", operands=[filled, cursor])
                    e.op("tile.hand_over", operands=[h.ring, cursor], side="empty")
                    e.op("tile.advance", operands=[cursor])

    def fill_ones(self, h: Handles, filled: ir.Value, cursor: ir.Value, column: int, columns: int) -> None:
        """Writes the scale words of operands without scales."""
        if h.pair_rank is not None:  # by the other CTA too, which then has its tensor memory
            self.e.op("tile.wait", operands=[filled, cursor])
        self.e.op("tile.fill_words", operands=[h.sums, h.scale_tiles["ones"]], column=column, columns=columns)

    def cut_rows(self, h: Handles, cursor: ir.Value, last: ir.Value | None) -> None:
        """Zeroes what pads rows of A that end in half a byte, in the stage of K's `last` block. The warp waits until it
        sees the stage full itself."""
        if last is None:
            return
        e = self.e
        with e.region("tile.when", [last]):
            if h.copied is not None:
                e.op("tile.wait", operands=[h.ring, cursor])
            e.op("tile.cut_rows", operands=[h.tiles["A"], cursor], element=self.padding)

    def copies(self, h: Handles) -> None:
        """All copies of scale words to tensor memory, as far ahead of the products as it has room.

        A K block's columns are free when the products of the one that had them last are done: where that is the one
        `stages` before, its stage would not have been filled again otherwise; else they hand back its stage.
        """
        e, s = self.e, self.schedule
        cursor = e.cursor(s.stages)
        sums, words = self.words(h, cursor)
        freed = []
        if words:  # the position that many K blocks ahead of which the products of the one in these columns were
            freed = [e.cursor(s.stages)]
            for _ in range(s.stages - scale_slots(self.problem, s)):
                e.op("tile.advance", operands=freed)
        with self.over_tiles(h) as w, self.over_k(w):
            e.op("tile.wait", operands=[h.ring, cursor])
            for position in freed:
                e.op("tile.acquire", operands=[h.ring, position])
            self.copy_words(h, sums, cursor)
            e.op("tile.copied", operands=[h.copied, cursor])
            for position in (cursor, *words, *freed):
                e.op("tile.advance", operands=[position])

    def words(self, h: Handles, cursor: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
        """Tensor memory with the scale words of the stage at `cursor`, and the position of these, where a stage has not
        always the same."""
        e, s = self.e, self.schedule
        if h.copied is None or h.sums is None:
            return h.sums, []
        slots = scale_slots(self.problem, s)
        own = [] if slots == s.stages else [e.cursor(slots)]
        operands = [h.sums, *(own or [cursor])]
        columns = sum(self.word_columns.values())
        return e.op("tile.word_slot", [h.sums.type], operands, column=0, columns=columns).result, own

    def columns_of_words(self) -> dict[str, int]:
        """Where a K block's words of each side begin beside the accumulators."""
        first = {"A": 0, "B": self.word_columns["A"]}
        return {side.label: first[side.label] for side in self.sides if self.word_plan(side) is not None}

    def copy_words(self, h: Handles, sums: ir.Value, cursor: ir.Value) -> None:
        """Copies the words of both sides, or of the one that has some."""
        for label, column in self.columns_of_words().items():
            self.e.op("tile.copy_words", operands=[sums, h.scale_tiles[label], cursor], column=column)

    def columns_before(self, w: Work) -> list[ir.Value]:
        """Columns of the words of rows before the first of a tile of B, where its stages may begin with them; else
        nothing. Tiles of A have all rows of a copy."""
        side = self.sides[1]
        plan = self.word_plan(side)
        if plan is None or not plan.within(side.rows):
            return []
        first, _ = self.scale_rows(side.label, plan.scale, w)
        within = self.e.arith("arith.andi", first, self.e.i32(WORD_ROWS - 1))
        return [self.e.arith("arith.divui", within, self.e.i32(LANES))]

    def rounds(self, cursor: ir.Value, slot: ir.Value, words: list[ir.Value]) -> list[ir.Value]:
        """The cursors whose stages an iteration knows: that of the stages where it is a round of them (`unroll`), and
        those of scale words, and with promotion of accumulators, where a round of stages is one of theirs."""
        s = self.schedule
        if s.unroll == 1 or s.unroll % s.stages:
            return []
        known = [slot] if s.promote and s.stages % sums_slots(self.problem, s) == 0 else []
        return [cursor, *known, *(words if s.stages % scale_slots(self.problem, s) == 0 else [])]

    def sums_done(self, h: Handles, slot: ir.Value) -> None:
        """The accumulator at `slot` may be read when its products are done."""
        self.e.op("tile.hand_over", operands=[h.sums_ring, slot], side="full")
        self.e.op("tile.advance", operands=[slot])

    def slot(self) -> ir.Value:
        """A position in the ring of accumulators."""
        return self.e.cursor(sums_slots(self.problem, self.schedule))

    def consumer(self, h: Handles) -> None:
        """Takes the sums, some columns at a time, and writes results."""
        e, s = self.e, self.schedule
        slot = self.slot()
        h.result_cursor = self.result_cursor()
        self.begin_meetings(h)
        self.hold()
        if s.promote:
            self.promoting(h, slot)
        elif joins_folds(self.problem, s):
            self.fold_tiles(h, slot)
        else:
            parts, slots = self.parts(), [slot]
            for number in range(1, self.problem.segments):  # a tile's sums are in several accumulators
                slots.append(self.slot())
                for _ in range(number):
                    e.op("tile.advance", operands=slots[number:])
            with self.over_tiles(h) as w:
                w = self.judged(w)
                for own in slots:
                    e.op("tile.wait", operands=[h.sums_ring, own])
                w = self.told(w)
                if s.split > 1:
                    self.sum_parts(h, w, slots, parts)
                else:
                    alone, bodies = len(parts) > 1 and not together(self.problem), len(self.problem.bodies)
                    own = self.has_rows(w) if alone else None
                    totals = self.totals(h)
                    for number, (column, taken) in enumerate(self.taking(h, slots, parts, bodies)):
                        number %= bodies
                        whole = own is None or (number < len(totals) and totals[number] is None)  # all warps store
                        with nullcontext() if whole else e.region("tile.when", [own]):
                            at = self.from_column(w, column)
                            self.compute(h, number, self.added_up(taken, at), at, totals, column)
                    self.leave(h, w, totals)
                    self.meet_tiles(h, w)
        self.drain()
        if self.stays and h.pair_rank is not None:  # the other CTA's warps give accumulators back to the leader
            with self.leading(h):
                self.stay(h.sums_ring, slot, sums_slots(self.problem, s))

    def fold_tiles(self, h: Handles, slot: ir.Value) -> None:
        """All parts of a tile are folded before lanes that share a row exchange what they have of it."""
        e, s, parts = self.e, self.schedule, self.parts()
        (of,) = self.problem.each
        fold, rows, each = of.result.column_fold, self.waves * self.wave, self.part_columns
        assert fold is not None
        whole = e.op("tile.fragment", [e.accumulator(rows, self.own_columns, "lane")]).result  # for its type alone
        with self.over_tiles(h) as w:
            w = self.judged(w)
            self.split_for(0, of, w)
            last = self.last[0]
            assert last is not None
            beside = self.read_ahead(w, whole, ("window",))
            of_rows = self.read_ahead(w, parts[0][0], ("row",))[0]
            w = self.with_own(w)
            works = [self.from_column(w, column) for column in range(0, self.own_columns, each)]
            reads = [{0: of_rows | self.read_ahead(at, parts[0][0], ("col",))[0]} for at in works]
            long = s.run > 1 and s.scheduler == "static"  # where a look at W is much less than what it saves of terms
            surely = self.surely(of, reads) if long else []
            shares = list[ir.Value]()
            e.op("tile.wait", operands=[h.sums_ring, slot])
            for column, taken in self.taking(h, [slot], parts):
                number = column // each
                if not number and h.items is not None:
                    e.op("tile.next_item")
                self.ahead_of, more = reads[number], (None, surely[number] if surely else None)
                self.to_f32(taken)
                shares.append(self.folded_sums(of, 0, taken, works[number], more, apart=True))
            self.ahead_of = beside
            kind = e.accumulator(rows, folded_columns(self.own_columns, fold.size), "lane")
            made = e.op("tile.join_folds", [kind], [shares], kind=fold.kind).result
            folded = self.folded(w, fold.size)
            few = s.run > 1 and self.own_columns // fold.size <= FEW
            memory = self.memory_of(of.behind, folded) if few and of.result.window is not None else None
            self.store_folded(of, last, made, folded, 0, memory)

    def with_own(self, w: Work) -> Work:
        """A tile with what each lane has of lookups for its row: what is read of rows, and the store, ask for it."""
        own = {}
        for lookup in self.problem.row_lookups:
            if lookup.dim == self.problem.m.name:
                index = self.row_index(lookup.name, w)
                own[lookup.name] = self.e.op("tile.own_index", [index.type], [index, w.m0, w.m_end]).result
        return replace(w, own=own)

    def has_rows(self, w: Work) -> ir.Value:
        """Whether a warp has rows of the tile: ptxas would convert a part before it loads the next one, were it not for
        a branch between them."""
        rows, i1 = self.waves * self.wave, ir.IntegerType.get_signless(1)
        return self.e.op("tile.has_rows", [i1], [w.m0, w.m_end], rows=rows).result

    def from_column(self, w: Work, column: int) -> Work:
        """The tile from its column `column` on."""
        return replace(w, n0=self.e.arith("arith.addi", w.n0, self.e.i32(column))) if column else w

    def added_up(self, taken: list[ir.Value], w: Work) -> list[ir.Value]:
        """The sums of a part of a tile: where something is computed of one product's, this and the others' sums."""
        panes = self.problem.panes
        self.to_f32(taken)
        first, *others = (taken[i : i + panes] for i in range(0, len(taken), panes))
        for number, sums in enumerate((first, *others)):
            if number < len(self.problem.terms):
                self.compute_term(number, sums, w)
            for operands, wave in product(zip(first, sums, strict=True), range(self.waves) if number else ()):
                self.e.op("tile.promote", operands=[*operands, None, None], wave=wave, column=0)
        return first

    def sum_parts(self, h: Handles, w: Work, slots: list[ir.Value], parts: list[list[ir.Value]]) -> None:
        """A part's sums go to memory, some columns at a time; a tile's last CTA adds those of all, and goes on."""
        e, columns = self.e, self.part_columns
        panes, each = self.problem.panes, self.own_columns // columns
        pieces = panes * each
        for (segment, slot), part in zip(enumerate(slots), self.segments(w), strict=True):
            for piece, (_, taken) in enumerate(self.taking(h, [slot], [x[:panes] for x in parts])):
                with self.if_there(part):
                    for pane, sums in enumerate(taken):
                        self.store_segment(segment, sums, w, panes * piece + pane, pieces)
            for _ in slots[1:]:
                e.op("tile.advance", operands=[slot])
        result = ir.IntegerType.get_signless(1)
        operands = [self.workspace()[1], w.number]
        last = e.op("tile.last_part", [result], operands, split=self.schedule.split).result
        with e.region("tile.when", [last]):
            totals = self.totals(h)
            for piece, number in product(range(each), range(len(self.problem.bodies))):
                column = piece * columns * self.units[1]
                for place, sums in enumerate(parts[0]):
                    self.add_segment(place // panes, sums, w, panes * piece + place % panes, pieces)
                at = self.from_column(w, column)
                self.compute(h, number, self.added_up(parts[0], at), at, totals, column)
            self.leave(h, w, totals)
            self.meet_tiles(h, w)

    def parts(self) -> list[list[ir.Value]]:
        """Registers for some columns of a warp's sums, of each contraction's that are taken together, and where they
        find room for the next ones on their way."""
        e, joined = self.e, joins_folds(self.problem, self.schedule)
        count = 1 if joined else parts_taken(self.problem, self.own_columns, self.schedule.promote)
        kind = e.accumulator(self.waves * self.wave, self.part_columns, "lane" if joined else "warp")
        apart: dict[str, Any] = {"apart": self.own_columns} if joined else {}
        return [[e.op("tile.fragment", [kind], **apart).result for _ in range(self.taken_apart)] for _ in range(count)]

    @property
    def taken_apart(self) -> int:
        """Sums for each element that are taken beside each other; one where a warp first adds up all that it has."""
        return taken_apart(self.problem, self.schedule.promote)

    @property
    def own_columns(self) -> int:
        """Columns of a tile that a warp takes: all, or its share of those of several warpgroups; where contractions are
        taken beside each other, of each."""
        return self.schedule.tile[1] // self.units[1] // (1 if self.schedule.promote else self.problem.panes)

    @property
    def part_columns(self) -> int:
        """Of these, as many as it takes at once."""
        return taken_columns(self.problem, self.own_columns, self.schedule.promote)

    def taking(
        self, h: Handles, slots: list[ir.Value], parts: list[list[ir.Value]], times: int = 1
    ) -> Iterator[tuple[int, list[ir.Value]]]:
        """The accumulators at `slots`, which are full, part by part, each so many times: (its first column, its
        registers, of each contraction, in each accumulator). What is emitted for one part stands under the loads of
        the next.

        Warpgroups take parts side by side, each where the first one's part begins and so many columns behind; sums that
        threads hold for a whole tile are of adjacent columns, and so are those that they fold.
        """
        e = self.e
        columns, own, across = self.part_columns, self.own_columns, self.units[1]
        adjacent = self.schedule.promote or joins_folds(self.problem, self.schedule)
        apart, step = (own, columns) if adjacent else (columns, columns * across)
        starts = [column for column in range(0, step * (own // columns), step) for _ in range(times)]

        def take(part: list[ir.Value], column: int) -> None:
            for (slot, pane), sums in zip(product(slots, range(len(part) // len(slots))), part, strict=True):
                at = column + pane * own * across
                e.op("tile.take", operands=[sums, h.sums, slot], column=at, apart=apart)

        take(parts[0], 0)
        for i, column in enumerate(starts):
            part, following = parts[i % len(parts)], parts[(i + 1) % len(parts)]
            for sums in part:
                e.op("tile.taken", operands=[sums])
            ahead, more = part is not following, i + 1 < len(starts)
            if more and ahead:
                take(following, starts[i + 1])
            elif not more:
                for slot in slots:
                    e.op("tile.vacate", operands=[h.vacated, slot])
            yield column, part
            if more and not ahead:
                take(following, starts[i + 1])
        for slot in slots * len(slots):
            e.op("tile.advance", operands=[slot])

    def promoting(self, h: Handles, slot: ir.Value) -> None:
        """Each K block's sums are taken, scaled and added into FP32 registers; then results are written.

        Of CTAs that multiply together only the leader sees that a stage's scales have come. All see it by its sums.
        """
        e, s = self.e, self.schedule
        cursor = e.cursor(s.stages)
        sums = e.op("tile.fragment", [e.accumulator(self.waves * self.wave, self.own_columns, "warp")]).result
        parts, at = self.parts(), Positions(cursor, self.window())
        self.second_accumulator(sums.type)
        with self.over_tiles(h) as w:
            w = self.judged(w)
            e.op("tile.clear", operands=[sums])
            if at.window is not None:
                self.open_window(h, w, at.window)
            fetched = {side.label: self.scalars(side) for side in self.sides if self.block_scale(side)}
            for side in self.sides:
                self.fetch(h, side, fetched, w, self.at_k(w))
            for _, part, into in self.summing(w, sums):
                with self.over_k(self.multiplied(part)) as k0:
                    shown = (h.ring, cursor) if h.pair_rank is None else (h.sums_ring, slot)
                    e.op("tile.wait", operands=shown)
                    factors = [self.factors(h, at, fetched, wave) for wave in range(self.waves)]
                    if h.pair_rank is None:
                        e.op("tile.wait", operands=[h.sums_ring, slot])
                    for column, (taken,) in self.taking(h, [slot], parts):
                        self.to_f32([taken])
                        for wave, pair in enumerate(factors):
                            e.op("tile.promote", operands=[into, taken, *pair], wave=wave, column=column)
                    following = self.at_k(part, e.arith("arith.addi", k0, e.i32(s.tile[2])))
                    for side in self.sides:
                        self.fetch(h, side, fetched, w, following)
                    self.hand_over(h, at)
                self.pass_over(h, part, at)
            self.finish(h, w, sums)
