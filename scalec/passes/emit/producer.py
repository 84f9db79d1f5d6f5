"""The producer role: one thread issues all bulk copies; warps bring the scales that bulk copies cannot."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace

from scalec.abi import TILE_WORDS
from scalec.formats import ALL, NUMBERS, PER_WORD, WHOLE
from scalec.ir.mlir import ir
from scalec.ir.tile import WORD_ROWS
from scalec.passes.emit.converter import Converter
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.items import Dealer
from scalec.passes.emit.results import Results
from scalec.passes.emit.scale_rows import ScaleRows
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.gather import gathered_together
from scalec.passes.plan.panes import Strip
from scalec.passes.plan.parts import part_columns
from scalec.passes.plan.resources import asked_ahead
from scalec.passes.plan.tensor_columns import word_rows
from scalec.passes.plan.windows import WINDOW
from scalec.passes.plan.words import WordPlan
from scalec.passes.problem.operand import Operand, Scale
from scalec.passes.problem.result import EpilogueInput


class Producer(ScaleRows, Results, Dealer, Converter):
    """Fills the stages."""

    def producer(self, h: Handles) -> None:
        """One elected thread issues all bulk copies; a warp copies the scales that bulk copies cannot bring, and one's
        thread loads and stores results where they are added to what is there."""
        e = self.e
        with e.region("tile.warp", index=0, count=1, elected=int(not self.gathering)):
            cursor = e.cursor(self.schedule.stages)
            window = self.window()
            named = [x for pair in self.pairs for x in pair if x.operand.gathered and x.map_of(0) in h.maps]
            h.gathered = {side.map_of(0): self.gathered(side) for side in named}
            with self.over_all_tiles(h, asks=True) as w:
                for side in named:
                    self.look_up_rows(h.gathered[side.map_of(0)], side, w, self.copied_row(h, side, w.row0[side.label]))
                h.pages = {side.label: self.page_indices(h, side, w) for side in self.sides if side.operand.pages}
                if window is not None:
                    e.op("tile.open_window", operands=[window])
                with self.over_k(w) as k:
                    self.bulk_copies(h, cursor, window, w, k)
            if self.stays:
                self.stay(h.ring, cursor, self.schedule.stages)
        if self.producers == 1 and any(self.threaded(side) for side in self.sides):
            self.scales(h)
        self.prefetch(h)
        self.results(h)
        self.bring_inputs(h)
        self.deal(h)
        self.cut_blocks(h)
        self.pass_rows_on(h)

    def own_columns_of(self, w: Work) -> tuple[ir.Value, tuple[int, int]]:
        """Where columns of a tile begin that a part's CTA adds (`parts=columns`), if all do, and their extents."""
        e, (rows, columns), split = self.e, self.walked, self.schedule.split
        some = part_columns(columns, split)
        whole, count = e.arith("arith.divui", w.part, e.i32(columns // some)), e.i32(columns // some)
        own = e.arith("arith.subi", w.part, e.arith("arith.muli", whole, count))
        return e.arith("arith.addi", w.n0, e.arith("arith.muli", own, e.i32(some))), (rows, some)

    def prefetch(self, h: Handles) -> None:
        """A warp that has nothing else to do asks L2 for the scales of blocks of rows, which consumers load a K block
        ahead, and for what the elementwise body reads of rows and columns, behind the last product: too late for what
        is still in device memory. Of tiles that a queue has, for what is looked up (`asked_ahead`)."""
        sides, inputs = [side for side in self.sides if self.prefetched(side)], self.ahead
        busy = any(self.threaded(side) for side in self.sides) and self.producers == 1
        if self.schedule.parts == "columns":
            inputs += [x for r in self.problem.bodies for x in r.inputs if x.kind == "both" and not self.looked_up(x)]
        if self.schedule.scheduler != "static":
            sides, inputs = [], asked_ahead(self.problem, self.schedule)
        if h.rows:
            self.bring(h, inputs)
            return
        if not (sides or inputs) or busy or self.family.kind.tensor_memory:
            return
        e = self.e
        with e.region("tile.warp", index=1, count=1, elected=0), self.over_all_tiles(h) as w:
            for x in inputs:
                n0, extents = self.own_columns_of(w) if x.kind == "both" else (w.n0, self.walked)
                operands = [self.input(x, w), w.m0, n0, w.row_end["A"], w.row_end["B"]]
                e.op("tile.prefetch_input", operands=operands, tile=extents)
            for side in sides:
                scale = self.block_scale(side)
                if scale.rows == WHOLE:
                    row_block, count = ALL, 1
                else:
                    row_block = scale.rows
                    rows = side.rows // len(side.operand.panes)
                    within = math.gcd(rows, row_block)  # tiles begin at multiples of it
                    count = -(-(rows + row_block - within) // row_block)
                label = side.label
                extents = {"row_block": row_block, "k_block": scale.k, "count": count, "spacing": row_block}
                place, of = side.operand.scales.index(scale), self.of_side(self.sides.index(side))
                for each, product in zip(of, self.problem.products, strict=True):
                    first, k = (e.i32(0), self.size(product.k)) if len(of) > 1 else (self.at_k(w), w.k)
                    for own in (x.scales[place] for x in each.operand.panes if x.promoted):
                        source = self.at(self.pointer(own.name, own.argument_index), own.name, own.coords, w)
                        operands = [source, *self.strides(own), w.row0[label], w.row_end[label], first, k]
                        e.op("tile.prefetch", operands=operands, **extents)

    def bring(self, h: Handles, inputs: list[EpilogueInput]) -> None:
        """That warp copies what a fold reads of rows into the stages of their tiles; of other types, it asks L2."""
        e = self.e
        with e.region("tile.warp", index=1, count=1, elected=0):
            cursor = e.cursor(self.schedule.stages)
            with self.over_all_tiles(h) as w:
                self.bring_tile(h, cursor, w, inputs)

    def bring_tile(self, h: Handles, cursor: ir.Value, w: Work, inputs: list[EpilogueInput]) -> None:
        """Those of one."""
        e = self.e
        e.op("tile.acquire", operands=[h.ring, cursor])
        for x in inputs:
            place, value = [w.m0, w.n0, w.m_end, w.n_end], self.input(x, w)
            if (into := h.rows.get((x.name, x.coords))) is None:
                e.op("tile.prefetch_input", operands=[value, *place], tile=self.walked)
            else:
                e.op("tile.copy_input", operands=[value, into, cursor, w.m0, w.m_end])
        e.op("tile.land", operands=[h.ring, cursor])
        e.op("tile.advance", operands=[cursor])

    def prefetched(self, side: Side) -> bool:
        """Whether a side has such scales, of more than a byte for whole K blocks. Of products that are added up all of
        each is asked for, so by no part of K."""
        scale, products = self.block_scale(side), self.problem.products
        parted = len(products) > 1 and self.schedule.split > 1
        if scale is None or scale.type not in NUMBERS or parted or any(x.summed for x in products):
            return False
        return scale.within(self.schedule.tile[2]) == 1

    def stay(self, ring: ir.Value, cursor: ir.Value, depth: int) -> None:
        """Waits until all of a ring is empty, so that nothing arrives at barriers of a CTA that has exited."""
        for _ in range(depth):
            self.e.op("tile.acquire", operands=[ring, cursor])
            self.e.op("tile.advance", operands=[cursor])

    def scales(self, h: Handles) -> None:
        """Warps bring the scales that bulk copies cannot."""
        first, count = self.scale_warps
        with self.e.region("tile.warp", index=first, count=count, elected=0):
            self.row_copies(h)

    def bulk_copies(self, h: Handles, cursor: ir.Value, window: ir.Value | None, w: Work, k: ir.Value) -> None:
        e, depth, row0, k0 = self.e, self.schedule.tile[2], w.row0, self.at_k(w, k)
        points = self.points(h, w, k0)
        w, k0 = points[0].w, points[0].k0
        # barriers count what is copied, not what pads it
        bytes_of = [
            sum(x.brought * self.bytes_of_row(x.operand) for x in p.sides if x.map_of(0) in h.maps) for p in points
        ]
        total = bytes_of[0]
        vectors = [side for side in self.sides if self.copy_of(side) == "vector"]
        windows = [side for side in self.sides if self.copy_of(side) == "window"]
        total += sum(4 * side.rows * self.row_scale(side).within(depth) for side in vectors)
        words = [(side, p) for side in self.sides if (p := self.word_plan(side)) is not None and p.bulk]
        total += sum(4 * word_rows(self.family, side.rows) * plan.words for side, plan in words)
        ctas = self.schedule.cta_group  # whose copies the barrier counts
        paged = self.page_of_k(w, k0)
        e.op("tile.acquire", operands=[h.ring, cursor])
        ring, filled = h.filled if self.converters else h.ring, h.filled
        if self.problem.k_lookups:
            ring = filled = h.landed
        if h.cut_ring is not None:
            ring = filled = self.detour(h, w, k0)
        first, of_window = None, k0
        if window is not None:
            of_window, _ = self.scale_k(h, self.row_scale(windows[0]), w, k0)
            first = e.compare("eq", e.arith("arith.andi", of_window, e.i32(WINDOW * depth - 1)), e.i32(0))
            if w.k0 is not None:  # a part may begin within a window
                first = e.arith("arith.ori", first, e.compare("eq", k, e.i32(0)))
            with self.leading(h), e.region("tile.when", [first]), self.one_thread():
                size = sum(4 * WINDOW * side.rows for side in windows)
                e.op("tile.announce", operands=[ring, cursor], bytes=ctas * size)
        with self.one_thread():
            alike = len(set(bytes_of)) == 1
            with self.leading(h) if alike else nullcontext():
                if alike:
                    self.announce(ring, cursor, ctas * total)
            for point, own in zip(points, bytes_of, strict=True):
                with self.of_point(point):
                    if not alike:  # of a CTA that multiplies alone: its warps convert, or copy rows
                        self.announce(ring, cursor, own + total - bytes_of[0])
                    for side in point.sides:
                        own = (point.w, point.k0) if paged is None else self.within_page(side.operand, w, *paged)
                        self.copy_operand(h, side, (filled, cursor), *own)
        for point in points:
            with self.of_point(point):
                for side in (x for x in point.sides if x.map_of(0) in h.gathered):
                    source = self.at(h.maps[side.map_of(0)], side.operand.name, side.operand.coords, point.w)
                    rows, x = h.gathered[side.map_of(0)], self.element_of_map(side, point.k0)
                    e.op("tile.gather", operands=[source, self.copies_into(h, side), filled, cursor, rows, x])
        if window is not None:
            with e.region("tile.when", [first]):
                block = at = e.arith("arith.divui", of_window, e.i32(depth))
                if w.k0 is not None:
                    block = e.arith("arith.subi", at, e.arith("arith.andi", at, e.i32(WINDOW - 1)))
                with self.one_thread():
                    for side in windows:
                        for strip in self.scale_strips(side):
                            maps = self.scale_map(h, side, self.row_scale(side), w, strip)
                            tiles = self.strip(h.scale_tiles[side.label], strip, side.rows)
                            row = self.strip_row(row0[side.label], strip)
                            operands = [maps, tiles, filled, cursor, window, block, row]
                            e.op("tile.copy_window", operands=operands, multicast=side.multicast_scales)
                if w.k0 is not None:
                    e.op("tile.skip_blocks", operands=[window, at])
            e.op("tile.next_block", operands=[window])
        for point in points if words or vectors else ():
            with self.of_point(point), self.one_thread():
                own = [x for x in point.sides if x.label in {side.label for side in vectors}]
                told = {side.label for side, _ in words}
                planned = [(x, p) for x in point.sides if x.label in told and (p := self.word_plan(x)) is not None]
                self.scale_copies(h, (filled, cursor), point.w, point.k0, planned, own)
        e.op("tile.advance", operands=[cursor])

    def bytes_of_row(self, operand: Operand) -> int:
        """Of a K block, as barriers count what copies bring of an operand."""
        return operand.stored.bytes(self.schedule.tile[2]) + operand.align * operand.shifted

    def announce(self, ring: ir.Value, cursor: ir.Value, size: int) -> None:
        """That so many bytes come into a stage by copies; nothing where threads copy all that there is."""
        if size:
            self.e.op("tile.expect", operands=[ring, cursor], bytes=size)
        else:
            self.e.op("tile.commit", operands=[ring, cursor])

    def copy_operand(self, h: Handles, side: Side, stage: tuple[ir.Value, ir.Value], w: Work, k0: ir.Value) -> None:
        """The rows of a tile, from element `k0` of K on, into a stage, of a ring and a position there."""
        operand = side.operand
        if operand.pages:
            self.copy_pages(h, side, stage, w, k0)
        elif side.map_of(0) in h.maps and not operand.gathered:
            x, row = self.element_of_map(side, self.before(operand, k0)), self.copied_row(h, side, w.row0[side.label])
            for number, strip in enumerate(side.strips):
                at = self.strip_row(row, strip)
                place = (at, x) if operand.in_words else (x, at)
                if operand.stored_mn_major:
                    place = (self.by_units(at, side.per_byte) if operand.turned else at, k0)
                own = operand.panes[strip.pane]
                source = self.at(h.maps[side.map_of(strip.pane)], own.name, own.coords, w, operand.pages_k)
                if operand.turned or operand.in_words:
                    target = self.turned_strip(h, side, number)
                else:
                    target = self.strip(self.copies_into(h, side), strip, side.copied, int(operand.stored_mn_major))
                self.e.op("tile.copy", operands=[source, target, *stage, *place], multicast=side.multicast)

    def page_indices(self, h: Handles, side: Side, w: Work) -> list[ir.Value]:
        """The pages of a tile. Behind the last row there is none to look up: the last row's is one."""
        e, operand, rows = self.e, side.operand, side.operand.rows
        lookup = next(x for x in self.problem.lookups if x.name == operand.pages)
        last = e.arith("arith.subi", w.row_end[side.label], e.i32(1))
        begin = self.copied_row(h, side, w.row0[side.label])
        first = [e.arith("arith.addi", begin, e.i32(i * operand.page)) for i in range(side.pages)]
        return [self.read_index(lookup.index, {**w.outer, rows: e.arith("arith.minui", row, last)}) for row in first]

    def copy_pages(self, h: Handles, side: Side, stage: tuple[ir.Value, ir.Value], w: Work, k0: ir.Value) -> None:
        """A tile of rows of pages, each page's by a copy of its own, or by several; of a larger page some."""
        e, operand = self.e, side.operand
        begins = None
        if side.of_page < operand.page:
            row = self.copied_row(h, side, w.row0[side.label])
            above = e.arith("arith.muli", e.arith("arith.divui", row, e.i32(operand.page)), e.i32(operand.page))
            begins = e.arith("arith.subi", row, above)
        for i in range(side.copies):
            first = i * side.of_page
            page, within = self.page_of(h.pages[side.label], operand.page, begins, first)
            at = replace(w, outer=w.outer | {operand.pages: page})
            source = self.at(h.maps[side.label], operand.name, operand.coords, at, operand.pages)
            operands = [source, self.copies_into(h, side), *stage, self.element_of_map(side, k0), within]
            e.op("tile.copy", operands=operands, multicast=side.multicast, row=first if side.copies > 1 else None)

    def page_of_k(self, w: Work, k0: ir.Value) -> tuple[dict[str, ir.Value], ir.Value] | None:
        """The pages that a K block is of, by lookup, and where copies of what is in no page find it. If a lookup names
        none, or the block is that of an empty range, behind K, both have zeros: those of page -1, and of the block
        behind all of K. None without pages."""
        e, p = self.e, self.problem
        if not p.paged_k:
            return None
        end, there, pages = self.size(p.k), e.compare("lt", k0, self.own_size(p.k)), dict[str, ir.Value]()
        at = e.arith("arith.minui", k0, e.arith("arith.subi", end, e.i32(1)))
        for operand in p.paged_k:
            lookup = next(x for x in p.lookups if x.name == operand.pages_k)
            pages[lookup.name] = page = self.read_index(lookup.index, {**w.outer, p.k.name: at})
            for extent in lookup.extents:
                there = e.arith("arith.andi", there, e.compare("lt", page, self.size(extent)))
        none = {name: e.op("arith.select", [x.type], [there, x, e.i32(-1)]).result for name, x in pages.items()}
        return none, e.op("arith.select", [end.type], [there, k0, self.padded(p.k)]).result

    def within_page(self, operand: Operand, w: Work, pages: dict[str, ir.Value], at: ir.Value) -> tuple[Work, ir.Value]:
        """Where copies of an operand find the K block at element `at`, which is behind the end of pages too."""
        e = self.e
        if not operand.pages_k:
            return w, at
        above = e.arith("arith.muli", e.arith("arith.divui", at, e.i32(operand.page_k)), e.i32(operand.page_k))
        return replace(w, outer=w.outer | pages), e.arith("arith.subi", at, above)

    def page_of(
        self, pages: list[ir.Value], size: int, begins: ir.Value | None, first: int
    ) -> tuple[ir.Value, ir.Value]:
        """The page of a tile's row `first`, of `pages` of this size, and where that row is in it; the tile begins
        `begins` rows behind where its first page does, or with it (None)."""
        e, (number, rest) = self.e, divmod(first, size)
        if begins is None:
            return pages[number], e.i32(0)
        row = e.arith("arith.addi", begins, e.i32(rest)) if rest else begins
        if number + 1 == len(pages) or not rest:  # the tile begins within its first page
            return pages[number], row
        this = e.compare("lt", row, e.i32(size))
        page = e.op("arith.select", [row.type], [this, pages[number], pages[number + 1]]).result
        moved = e.op("arith.select", [row.type], [this, row, e.arith("arith.subi", row, e.i32(size))]).result
        return page, moved

    def scale_copies(
        self,
        h: Handles,
        stage: tuple[ir.Value, ir.Value],
        w: Work,
        k0: ir.Value,
        words: list[tuple[Side, WordPlan]],
        vectors: list[Side],
    ) -> None:
        """Scales that come with their `stage`, of a ring and a position there: words, and columns of f32."""
        e, row0 = self.e, w.row0
        for side, plan in words:
            word = e.arith("arith.divui", self.scale_k(h, plan.scale, w, k0)[0], e.i32(4 * plan.scale.k))
            begins, _ = self.scale_rows(side.label, plan.scale, w)
            across = e.arith("arith.muli", word, e.i32(TILE_WORDS)) if plan.tiles else word
            for strip in self.scale_strips(side):
                maps, first = self.scale_map(h, side, plan.scale, w, strip), self.strip_row(begins, strip)
                tiles = h.scale_tiles[side.label]
                if plan.tiles:
                    tiles = self.strip(tiles, strip, side.rows, unit=WORD_ROWS)
                    place = (across, e.arith("arith.divui", first, e.i32(WORD_ROWS)))
                else:
                    tiles, place = self.strip(tiles, strip, side.rows, axis=1), (first, across)
                e.op("tile.copy", operands=[maps, tiles, *stage, *place], multicast=side.multicast_scales)
        for side in vectors:
            scale = self.row_scale(side)
            block = e.arith("arith.divui", self.scale_k(h, scale, w, k0)[0], e.i32(scale.k))
            for strip in self.scale_strips(side):
                maps = self.scale_map(h, side, scale, w, strip)
                tiles = self.strip(h.scale_tiles[side.label], strip, side.rows, axis=1)
                operands = [maps, tiles, *stage, self.strip_row(row0[side.label], strip), block]
                e.op("tile.copy", operands=operands, multicast=side.multicast_scales)

    def element_of_map(self, side: Side, k0: ir.Value) -> ir.Value:
        """Element `k0` of K as the tensor map of an operand counts them: packed ones by bytes, or by words."""
        operand = side.operand
        bits = operand.stored.bits if operand.converted else operand.shared_bits
        return self.by_units(k0, PER_WORD if operand.in_words else 8 // bits if bits < 8 else 1)

    def by_units(self, at: ir.Value, each: int) -> ir.Value:
        """Where element `at` is, counted by units of `each`."""
        return self.e.arith("arith.divui", at, self.e.i32(each)) if each > 1 else at

    def gathered(self, side: Side) -> ir.Value:
        """Registers for the indices of rows that are gathered."""
        together, page = gathered_together(self.problem, side.operand), side.operand.page or None
        kind = self.e.type("gathered_rows")
        return self.e.op("tile.gathered", [kind], rows=side.copied, together=together, page=page).result

    def scale_map(self, h: Handles, side: Side, scale: Scale, w: Work, strip: Strip) -> ir.Value:
        """The tensor map of the scale of a strip of a side, where the tile is."""
        own = side.of_pane(scale, strip.pane)
        return self.at(h.maps[side.map_of(strip.pane, "_scale")], own.name, own.coords, w)

    @staticmethod
    def scale_strips(side: Side) -> tuple[Strip, ...]:
        """The rows whose scales each copy brings: all, whoever copies the rows of the operand, or those of strips."""
        return side.strips if len(side.strips) > 1 else (Strip(0, 0, side.rows, 0),)

    def strip_row(self, row: ir.Value, strip: Strip) -> ir.Value:
        """The first row of a strip in memory, the tile's being `row`."""
        return self.e.arith("arith.addi", row, self.e.i32(strip.ahead)) if strip.ahead else row
