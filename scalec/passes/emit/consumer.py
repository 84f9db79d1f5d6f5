"""The consumer role: products, promotion by scale factors, hand-over of stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from scalec.formats import ALL, NUMBERS, WHOLE
from scalec.ir.mlir import ir
from scalec.ir.tile_types import shape_of
from scalec.passes.emit.epilogue import Epilogue
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.sums import Point
from scalec.passes.emit.tensors import Work
from scalec.passes.emit.turns import Turns
from scalec.passes.plan.column_factors import by_block, fetched, step_of
from scalec.passes.plan.converted import in_registers, slices_of
from scalec.passes.plan.loop import without_loop
from scalec.passes.plan.parts import part_blocks
from scalec.passes.plan.promotion import plane, slices
from scalec.passes.problem.operand import Scale


@dataclass(frozen=True)
class Positions:
    """Where a consumer is: in the ring of stages and, if there is one, in the ring of windows."""

    cursor: ir.Value
    window: ir.Value | None


Fetched = dict[str, list[ir.Value]]
"""By side, room for the scales of blocks of rows that are fetched ahead: for each of those that a K tile has."""

Known = dict[tuple[str, int, int], ir.Value]
"""Factors of a K tile: by side, wave, and which of those that a K tile has."""


class Consumer(Epilogue):
    """Empties the stages."""

    def consumer(self, h: Handles) -> None:
        """Multiplies, promotes, and writes results."""
        e, s = self.e, self.schedule
        turns = Turns(self, h)
        cursor = turns.cursor()
        accumulator = e.op("tile.fragment", [e.accumulator(self.waves * self.wave, s.tile[1])]).result
        self.second_accumulator(accumulator.type)
        partial = None
        if s.promote:
            partial = e.op("tile.fragment", [e.accumulator(self.wave, s.mma_n or s.tile[1])]).result
        window = turns.window()
        h.result_cursor = self.result_cursor()
        if h.parts_ring is not None:
            h.parts_cursor = e.op("tile.cursor", [e.type("position")], depth=1).result
        self.hold()
        with self.over_tiles(h, turns=self.turns) as w:
            w = self.begin(w)
            if not self.lone_block:
                e.op("tile.clear", operands=[accumulator])
            self.ahead_of = self.read_ahead(w, accumulator)
            if partial is None:
                self.accumulate(h, w, cursor, accumulator)
            else:
                self.promoted(h, w, Positions(cursor, window), accumulator, partial)
            self.finish(h, w, accumulator)
            turns.pass_on()
        turns.end()
        self.meet_at_end(h)
        self.drain()

    def accumulate(self, h: Handles, w: Work, cursor: ir.Value, accumulator: ir.Value) -> None:
        """Sums in the tensor core: one K block in flight while the next is issued; stages handed back one later."""
        e = self.e
        if in_registers(self.schedule):
            self.accumulate_converted(h, w, cursor, accumulator)
            return
        if self.lone_block:
            e.op("tile.wait", operands=[h.ring, cursor])
            self.take_rows(h, cursor)
            for wave in range(self.waves):
                self.mma(h, accumulator, cursor, wave, wave, accumulate=0)
            e.op("tile.mma_wait", operands=[accumulator], pending=0)
            self.release(h, cursor)
            e.op("tile.advance", operands=[cursor])
            return
        for number, part in enumerate(self.segments(w)):
            sums = self.into(number, accumulator)
            with self.over_k(part, self.schedule.unroll) as k0:
                first = None if number else e.compare("eq", k0, e.i32(0))
                e.op("tile.wait", operands=[h.ring, cursor])
                for wave in range(self.waves):
                    self.mma(h, sums, cursor, wave, wave, accumulate=1)
                e.op("tile.mma_wait", operands=[sums], pending=self.waves)
                self.release(h, cursor, lag=1, unless=first)
                e.op("tile.advance", operands=[cursor])
            e.op("tile.mma_wait", operands=[sums], pending=0)
            self.summed(number, sums, accumulator, w)
        self.release(h, cursor, lag=1)

    def accumulate_converted(self, h: Handles, w: Work, cursor: ir.Value, accumulator: ir.Value) -> None:
        """Likewise with A out of registers."""
        e, count = self.e, slices_of(self.problem, self.schedule)
        parts = [(slice_, wave, wave) for slice_, wave in product(range(count), range(self.waves))]

        def block(first: ir.Value | None) -> None:
            e.op("tile.wait", operands=[h.ring, cursor])
            for number in self.multiply_converted(h, accumulator, cursor, parts, count, int(first is not None)):
                if number == 0 and first is not None:
                    self.release(h, cursor, lag=1, unless=first)
            e.op("tile.advance", operands=[cursor])

        if self.lone_block:
            block(None)
        else:
            with self.over_k(w, self.schedule.unroll) as k0:
                block(e.compare("eq", k0, e.i32(0)))
        e.op("tile.mma_wait", operands=[accumulator], pending=0)
        self.release(h, cursor, lag=1)

    def multiply_converted(
        self,
        h: Handles,
        accumulator: ir.Value,
        cursor: ir.Value,
        parts: list[tuple[int, int, int]],
        count: int,
        accumulate: int,
        column: int = 0,
    ) -> Iterator[int]:
        """Products of slices of a stage, so many of which it is: each a slice, a wave of A and one of the accumulator.
        One is multiplied while the next is converted, into other registers, which nobody multiplies any more, and the
        one behind it loaded; a lone one's registers are those of the next stage's too. Yields the number of a product
        when at most that one is under way."""
        begun: set[int] = set()
        loaded = [self.load_stored(h, cursor, slice_, a_wave, count) for slice_, a_wave, _ in parts[:1]]
        for number, (slice_, _, wave) in enumerate(parts):
            stored = loaded.pop()
            loaded = [self.load_stored(h, cursor, after, a_wave, count) for after, a_wave, _ in parts[number + 1 :][:1]]
            adds = int(accumulate or wave in begun)
            begun.add(wave)
            self.mma_converted(h, accumulator, cursor, self.converted(stored), wave, adds, column, (slice_, count))
            self.e.op("tile.mma_wait", operands=[accumulator], pending=min(1, len(parts) - 1))
            yield number

    def load_stored(self, h: Handles, cursor: ir.Value, slice_: int, wave: int, count: int) -> ir.Value:
        """A slice of a wave of A as it is stored, in registers."""
        side = self.sides[0]
        factors = [h.scale_tiles[side.label]] if side.operand.folded is not None else []
        stored, made = (ir.Type.parse(x.mlir) for x in (side.operand.stored, side.operand.element))
        kind = self.e.multiplicand("a", self.wave, self.schedule.tile[2] // count, stored)
        where = {"a_wave": wave, "waves": self.waves, "number": slice_, "count": count}
        operands, segments = [h.tiles[side.label], cursor, *factors], (1, 1, len(factors))
        made = ir.TypeAttr.get(made)
        return self.e.op("tile.load_stored", [kind], operands, segments=segments, made=made, **where).result

    def converted(self, loaded: ir.Value) -> ir.Value:
        """It as it is multiplied."""
        rows, depth = shape_of(loaded.type)
        made = self.e.multiplicand("a", rows, depth, ir.Type.parse(self.sides[0].operand.element.mlir))
        return self.e.op("tile.converted", [made], [loaded]).result

    def mma_converted(
        self,
        h: Handles,
        accumulator: ir.Value,
        cursor: ir.Value,
        a: ir.Value,
        wave: int,
        accumulate: int,
        column: int,
        slice_: tuple[int, int],
    ) -> None:
        some: dict[str, Any] = {"b_mn": ir.UnitAttr.get()} if self.sides[1].operand.mn_major else {}
        some |= {"slice": slice_} if slice_[1] > 1 else {}
        operands = [accumulator, a, h.tiles["B"], cursor]
        which: dict[str, Any] = {"wave": wave, "column": column, "accumulate": accumulate}
        self.e.op("tile.mma_converted", operands=operands, **which, **some)

    @property
    def lone_block(self) -> bool:
        """Whether the sums are those of one K block, in the tensor core: it then begins with them."""
        alone = not self.schedule.promote and not self.problem.terms
        return alone and part_blocks(self.problem, self.schedule) == (1, 1)

    @property
    def padding(self) -> int | None:
        """Of a K block that is K's last, the element behind the last one, where it shares a byte with that."""
        k = self.problem.k.size
        return k % self.schedule.tile[2] if self.problem.half_bytes and k is not None else None

    def at_end(self, w: Work, k0: ir.Value | None = None) -> ir.Value | None:
        """Whether the K block that begins at element `k0` of a tile or part (None: the first; `w.k`: the one before) is
        K's last; None where nobody asks (`padding`)."""
        k, padding = self.problem.k.size, self.padding
        if k is None or padding is None:
            return None
        e, end = self.e, self.at_k(w, k0)
        if k0 is not w.k:
            end = e.arith("arith.addi", end, e.i32(self.schedule.tile[2]))
        return e.compare("lt", e.i32(k - padding), end)

    def mma(
        self,
        h: Handles,
        accumulator: ir.Value,
        cursor: ir.Value,
        a_wave: int,
        wave: int,
        accumulate: int,
        column: int = 0,
        slice_: int = 0,
        slices: int = 1,
    ) -> None:
        if in_registers(self.schedule):
            each = slices_of(self.problem, self.schedule) // slices
            parts = [(slice_ * each + i, a_wave, wave) for i in range(each)]
            for _ in self.multiply_converted(h, accumulator, cursor, parts, each * slices, accumulate, column):
                pass
            return
        operands = [accumulator, h.tiles["A"], h.tiles["B"], cursor]
        which: dict[str, Any] = {"a_wave": a_wave, "wave": wave, "waves": self.waves, "column": column}
        which |= {f"{x.label.lower()}_mn": ir.UnitAttr.get() for x in self.sides if x.operand.mn_major}
        if slices > 1:
            which["slice"] = (slice_, slices)
        self.e.op("tile.mma", operands=operands, **which, accumulate=accumulate)

    def release(self, h: Handles, cursor: ir.Value, lag: int = 0, unless: ir.Value | None = None) -> None:
        extra = [] if unless is None else [unless]
        self.e.op("tile.release", operands=[h.ring, cursor, *extra], segments=(1, 1, len(extra)), lag=lag)

    def promoted(self, h: Handles, w: Work, at: Positions, accumulator: ir.Value, partial: ir.Value) -> None:
        """Each K block's product is scaled and added into FP32 registers, wave by wave."""
        if at.window is not None:
            self.open_window(h, w, at.window)
        fetched = {side.label: self.scalars(side) for side in self.sides if self.block_scale(side)}
        for number, part in enumerate(self.segments(w)):
            sums = self.into(number, accumulator)
            self.promoted_part(h, part, at, fetched, sums, partial)
            self.summed(number, sums, accumulator, w)

    def promoted_part(
        self, h: Handles, w: Work, at: Positions, fetched: Fetched, accumulator: ir.Value, partial: ir.Value
    ) -> None:
        """Those of one of the parts of K that are summed by themselves."""
        e, s, cursor = self.e, self.schedule, at.cursor
        for side in self.sides:
            self.fetch(h, side, fetched, w, self.at_k(w))
        late = self.row_scale(self.sides[1]) is not None  # column factors are read during promotion
        scale = self.block_scale(self.sides[1])
        column0 = w.n0 if scale is None else self.scale_rows("B", scale, w)[0]
        with self.over_k(self.multiplied(w), s.unroll, once=without_loop(self.problem, s)) as k0:
            e.op("tile.wait", operands=[h.ring, cursor])
            following = self.at_k(w, e.arith("arith.addi", k0, e.i32(s.tile[2])))
            factors: list[tuple[ir.Value | None, ir.Value | None]] = []
            goes = list(product(range(self.waves), range(0, s.tile[1], s.mma_n or s.tile[1])))
            products = list(product(range(slices(s)), goes))
            known: Known = {}
            for number, (slice_, (wave, column)) in enumerate(products):
                self.mma(h, partial, cursor, wave, 0, 0, column, slice_, slices(s))
                if (wave, column) == goes[0]:  # the rest is read and fetched under the first product
                    factors = [self.factors(h, at, fetched, v, column0, slice_, known) for v in range(self.waves)]
                if number == 0:
                    self.keep(h, at, fetched, column0, known)
                    for side in self.sides:
                        self.fetch(h, side, fetched, w, following)
                e.op("tile.mma_wait", operands=[partial], pending=0)
                last = number == len(products) - 1
                if last and not late:
                    self.hand_over(h, at)
                sides = [f for f in factors[wave] if f is not None]
                segments = (1, 1, *(int(f is not None) for f in factors[wave]))
                e.op(
                    "tile.promote", operands=[accumulator, partial, *sides], segments=segments, wave=wave, column=column
                )
                if last and late:
                    self.hand_over(h, at)
        self.pass_over(h, w, at)

    def pass_over(self, h: Handles, w: Work, at: Positions) -> None:
        """A stage of which nothing is multiplied, where there is one."""
        if not self.problem.wraps:
            return
        with self.e.region("tile.when", [self.left_over(w)]):
            self.e.op("tile.wait", operands=[h.ring, at.cursor])
            self.hand_over(h, at)

    def keep(self, h: Handles, at: Positions, fetched: Fetched, column0: ir.Value, known: Known) -> None:
        """What was fetched for the later slices of a K tile, before it is fetched for the next one."""
        for slice_, wave in product(range(1, slices(self.schedule)), range(self.waves)):
            for side in self.sides:
                if self.block_scale(side) is not None:
                    self.factor(h, side, at, fetched, wave, column0, slice_, known)

    def hand_over(self, h: Handles, at: Positions) -> None:
        cursor = at.cursor
        self.release(h, cursor)
        self.e.op("tile.advance", operands=[cursor])
        if at.window is not None:
            self.e.op("tile.next_block", operands=[at.window])
        if self.schedule.early_wait:
            self.e.op("tile.peek", operands=[h.ring, cursor])

    def scalars(self, side: Side) -> list[ir.Value]:
        """Room for the side's block scales: one a wave of A, one for each step of columns of B; for each of a K tile's,
        where blocks are shorter."""
        scale, count = self.block_scale(side), self.fetch_shape(side)[0] * len(side.operand.panes)
        element = {} if scale.type == "f32" else {"element": scale.type}
        made = range(scale.within(self.schedule.tile[2]))
        return [self.e.op("tile.scalars", [self.e.type("registers")], count=count, **element).result for _ in made]

    def fetch_shape(self, side: Side) -> tuple[int, int, int]:
        """(count, rows between them, rows between warpgroups or warps) of the side's block scales in a tile; of several
        contractions of each."""
        rows = self.block_scale(side).rows
        if rows == WHOLE:
            return 1, 0, 0
        if side.label == "A":
            return self.waves, self.wave, self.waves * self.wave
        panes = len(side.operand.panes)
        own = side.rows // self.units[1] // panes
        step = step_of(own, rows)
        count, spacing = fetched(self.schedule, own, rows) if panes == 1 else (own // step, step)
        return count, spacing, own if self.units[1] > 1 else 0

    def fetch(self, h: Handles, side: Side, fetched: Fetched, w: Work, k0: ir.Value) -> None:
        """Loads the side's block scales of the K tile at element `k0` of the tensors."""
        scale = self.block_scale(side)
        if scale is None:
            return
        count, spacing, own = self.fetch_shape(side)
        depth = self.schedule.tile[2]
        sizes: dict[str, Any] = {
            "row_block": ALL if scale.rows == WHOLE else scale.rows,
            "axis": "m" if side.label == "A" else "n",
            "own": own,
            "spacing": spacing,
        }
        rooms, panes, place = fetched[side.label], len(side.operand.panes), side.operand.scales.index(scale)
        points = self.points(h, w, k0)
        for number, pane, point in product(range(len(rooms)), range(panes), points):
            own_side = next(x for x in point.sides if x.label == side.label)
            own = own_side.operand.panes[pane].scales
            if not own:
                continue  # ones were loaded
            room, of, w = rooms[number], own[place], point.w
            part: dict[str, Any] = {"part": (pane * count, count)} if panes > 1 else {}
            source = self.at(self.pointer(of.name, of.argument_index), of.name, of.coords, w)
            at, end = self.within_range(h, scale, point, number * depth // len(rooms), depth // len(rooms))
            where = [*self.scale_rows(side.label, scale, w), at, end]
            if scale.type in NUMBERS:
                operands = [room, source, *self.strides(of), *where]
                zeros = self.beyond(scale) if point is points[0] else {}  # the others' are loaded over the first one's
                self.e.op("tile.fetch", operands=operands, **sizes, k_block=scale.k, **zeros, **part)
            else:
                operands = [room, source, *self.byte_strides(of), *where]
                kept = {} if point is points[0] else {"keeps": ir.UnitAttr.get()}
                sizes |= {"block": scale.k, "layout": scale.layout, **kept}
                self.e.op("tile.fetch_bytes", operands=operands, **sizes, **part)

    def within_range(self, h: Handles, scale: Scale, point: Point, first: int, unit: int) -> tuple[ir.Value, ir.Value]:
        """The K element `first` of a K tile at a point, and the end of K, as a scale counts them; so that nothing is
        loaded of `unit` elements, a part of a tile, outside of a range of K: their scale may be NaN, which zeros of
        operands do not stop. In the K of another product the element is beyond the end, also before 0: unsigned."""
        e, w, k0 = self.e, point.w, point.k0
        k = e.arith("arith.addi", k0, e.i32(first)) if first else k0
        at, end = self.scale_k(h, scale, w, k, point.end)
        if w.k_low is None or w.k_high is None or unit == self.schedule.tile[2]:
            return at, end
        before = e.compare("lt", e.arith("arith.addi", k, e.i32(unit - 1)), w.k_low)
        inside = e.compare("lt", k, w.k_high)
        at = e.op("arith.select", [at.type], [inside, at, end]).result
        return e.op("arith.select", [at.type], [before, end, at]).result, end

    def factors(
        self,
        h: Handles,
        at: Positions,
        fetched: Fetched,
        wave: int,
        column0: ir.Value | None = None,
        slice_: int = 0,
        known: Known | None = None,
    ) -> tuple[ir.Value | None, ir.Value | None]:
        """The two sides' scale factors for a wave and a slice of K; `column0`, the tile's first column as scales of B
        count them, is there where `mma_n` is. `known`: those that were read for the same K tile."""
        known = {} if known is None else known
        a, b = (self.factor(h, side, at, fetched, wave, column0, slice_, known) for side in self.sides)
        return a, b

    def factor(
        self,
        h: Handles,
        side: Side,
        at: Positions,
        fetched: Fetched,
        wave: int,
        column0: ir.Value | None,
        slice_: int,
        known: Known,
    ) -> ir.Value | None:
        """Those of one side."""
        row, block = self.row_scale(side), self.block_scale(side)
        scale = row if row is not None else block
        if scale is None:
            return None
        which = plane(self.schedule, scale, slice_)
        key = side.label, wave, which
        if key not in known:
            known[key] = (
                self.row_factor(h, side, at, wave, which)
                if row is not None
                else self.block_factor(side, fetched[side.label][which], wave, column0)
            )
        return known[key]

    def row_factor(self, h: Handles, side: Side, at: Positions, wave: int, which: int) -> ir.Value:
        """Factors of rows of A or B, which have several in a K tile or one."""
        position = at.window if self.copy_of(side) == "window" else at.cursor
        tiles = h.scale_tiles if side.operand.made is None else h.made
        operands, result = [tiles[side.label], position], [self.e.type("factors")]
        planes: dict[str, Any] = {"plane": which} if which else {}
        if side.label == "A":
            return self.e.op("tile.row_factors", result, operands, wave=wave, waves=self.waves, **planes).result
        return self.e.op("tile.column_factors", result, operands, **planes).result

    def block_factor(self, side: Side, room: ir.Value, wave: int, column0: ir.Value | None) -> ir.Value:
        """Factors of blocks of rows, which `fetch` brought."""
        e, scale, result = self.e, self.block_scale(side), [self.e.type("factors")]
        panes = len(side.operand.panes)
        if side.label == "B" and panes == 1 and by_block(self.schedule, side.rows, scale.rows):
            assert column0 is not None
            sizes = {"block": scale.rows, "step": step_of(side.rows, scale.rows)}
            return e.op("tile.block_factors", result, [room, column0], **sizes).result
        count, spacing, own = self.fetch_shape(side)
        by_wave = own and side.label == "A"
        first, number, span = (wave, 1, 0) if by_wave else (0, count, spacing if count > 1 else 0)
        if panes > 1:
            number, span = panes * count, spacing or side.rows // self.units[1] // panes
        return e.op("tile.uniform_factors", result, [room], first=first, count=number, span=span).result
