"""The consumer role: products, promotion by scale factors, hand-over of stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.tile_scales import SEEN, SMALL_SHIFT
from scalec.ir.tile_types import shape_of
from scalec.passes.emit.factors import Factors, Fetched, Known, Positions
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.tensors import Work
from scalec.passes.emit.turns import Turns
from scalec.passes.plan.converted import in_registers, slices_of
from scalec.passes.plan.loop import without_loop
from scalec.passes.plan.parts import part_blocks
from scalec.passes.plan.promotion import slices


@dataclass(frozen=True)
class Made:
    """Of which scales A's elements are made (`tile.converted`)."""

    scales: str = ""
    addends: ir.Value | None = None


@dataclass(frozen=True)
class Block:
    """A K block of promoted sums: where they go, and what is known of it.

    Attributes:
        partial: the sums that are promoted.
        column0: the tile's first column as scales of B count them.
        following: the K element of the next block.
        seen: what scales A has, where its elements are addends.
    """

    w: Work
    fetched: Fetched
    accumulator: ir.Value
    partial: ir.Value
    column0: ir.Value
    following: ir.Value
    seen: ir.Value | None = None


@dataclass(frozen=True)
class Go:
    """One of a block's products: of a wave, of columns from one on, of a slice of so many of K."""

    wave: int
    column: int
    slice_: int
    slices: int


class Consumer(Factors):
    """Empties the stages. `kind`: of which scales addends are made, None where there are none."""

    kind: ir.Value | None = None

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
            self.kind = e.op("tile.start_addends", [e.type("addends")]).result if self.addends else None
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
        made: Made | None = None,
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
            a = self.converted(stored, made or Made())
            self.mma_converted(h, accumulator, cursor, a, wave, adds, column, (slice_, count))
            self.e.op("tile.mma_wait", operands=[accumulator], pending=min(1, len(parts) - 1))
            yield number

    def load_stored(self, h: Handles, cursor: ir.Value, slice_: int, wave: int, count: int) -> ir.Value:
        """A slice of a wave of A as it is stored, in registers."""
        side = self.sides[0]
        factors = [h.scale_tiles[side.label]] if side.operand.folded is not None else []
        stored, made = (ir.Type.parse(x.mlir) for x in (side.operand.stored, side.operand.element))
        kind = self.e.multiplicand("a", self.wave, self.schedule.tile[2] // count, stored)
        where: dict[str, Any] = {"a_wave": wave, "waves": self.waves, "number": slice_, "count": count}
        where |= {"words": ir.UnitAttr.get()} if self.addends else {}
        operands, segments = [h.tiles[side.label], cursor, *factors], (1, 1, len(factors))
        made = ir.TypeAttr.get(made)
        return self.e.op("tile.load_stored", [kind], operands, segments=segments, made=made, **where).result

    def converted(self, loaded: ir.Value, of: Made) -> ir.Value:
        """It as it is multiplied."""
        rows, depth = shape_of(loaded.type)
        made = self.e.multiplicand("a", rows, depth, ir.Type.parse(self.sides[0].operand.element.mlir))
        scales: dict[str, Any] = {"scales": of.scales} if of.scales else {}
        kind = [] if of.addends is None else [of.addends]
        return self.e.op("tile.converted", [made], [loaded, *kind], segments=(1, len(kind)), **scales).result

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
        made: Made | None = None,
    ) -> None:
        if in_registers(self.schedule):
            each = slices_of(self.problem, self.schedule) // slices
            parts = [(slice_ * each + i, a_wave, wave) for i in range(each)]
            for _ in self.multiply_converted(h, accumulator, cursor, parts, each * slices, accumulate, column, made):
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
            if self.kind is not None:
                self.e.op("tile.end_addends", operands=[self.kind, sums])
            self.summed(number, sums, accumulator, w)

    @property
    def addends(self) -> bool:
        """Whether each element of A is two that are multiplied."""
        return self.sides[0].operand.multiplied_as_addends

    def promoted_part(
        self, h: Handles, w: Work, at: Positions, fetched: Fetched, accumulator: ir.Value, sums: ir.Value
    ) -> None:
        """Those of one of the parts of K that are summed by themselves."""
        e, s, cursor = self.e, self.schedule, at.cursor
        for side in self.sides:
            self.fetch(h, side, fetched, w, self.at_k(w))
        scale = self.block_scale(self.sides[1])
        column0 = w.n0 if scale is None else self.scale_rows("B", scale, w)[0]
        with self.over_k(self.multiplied(w), s.unroll, once=without_loop(self.problem, s)) as k0:
            e.op("tile.wait", operands=[h.ring, cursor])
            following = self.at_k(w, e.arith("arith.addi", k0, e.i32(s.tile[2])))

            block = Block(w, fetched, accumulator, sums, column0, following)
            self.block(h, at, replace(block, seen=self.seen(h, at)) if self.addends else block)
        self.pass_over(h, w, at)

    def pass_over(self, h: Handles, w: Work, at: Positions) -> None:
        """A stage of which nothing is multiplied, where there is one."""
        if not self.problem.wraps:
            return
        with self.e.region("tile.when", [self.left_over(w)]):
            self.e.op("tile.wait", operands=[h.ring, at.cursor])
            self.hand_over(h, at)

    def seen(self, h: Handles, at: Positions) -> ir.Value:
        """What scales of A a K block has."""
        source, i32 = h.scale_tiles[self.sides[0].label], ir.IntegerType.get_signless(32)
        return self.e.op("tile.seen_scales", [i32], [source, at.cursor], warps=self.scale_warps[1]).result

    def block(self, h: Handles, at: Positions, block: Block) -> None:
        """A K block's products, each promoted; the stage is handed over as soon as nothing of it is read again."""
        s, seen = self.schedule, block.seen
        late = self.row_scale(self.sides[1]) is not None  # column factors are read during promotion
        factors: list[tuple[ir.Value | None, ir.Value | None]] = []
        goes = list(product(range(self.waves), range(0, s.tile[1], s.mma_n or s.tile[1])))
        products = list(product(range(slices(s)), goes))
        known: Known = {}
        for number, (slice_, (wave, column)) in enumerate(products):
            go = Go(wave, column, slice_, slices(s))
            self.go(h, at, block, go, "alike" if seen is not None else "")
            if (wave, column) == goes[0]:  # the rest is read and fetched under the first product
                factors = [
                    self.factors(h, at, block.fetched, v, block.column0, slice_, known) for v in range(self.waves)
                ]
            if number == 0:
                self.keep(h, at, block.fetched, block.column0, known)
                for side in self.sides:
                    self.fetch(h, side, block.fetched, block.w, block.following)
            self.e.op("tile.mma_wait", operands=[block.partial], pending=0)
            last = number == len(products) - 1
            if last and not late and seen is None:
                self.hand_over(h, at)
            if seen is not None:
                self.again(h, at, block, seen, go, factors[wave])
            self.promote(block, go, factors[wave])
            if last and (late or seen is not None):
                self.hand_over(h, at)

    def again(
        self, h: Handles, at: Positions, block: Block, seen: ir.Value, go: Go, factors: tuple[ir.Value | None, ...]
    ) -> None:
        """Multiplies once more where scales are others than those that addends were made of: all of them others, or
        some, in two products. Where none are, a branch is all of it, of at most 1.02 of the time; before the
        conversion one took 1.07 and 1.11 (H100, 2026-11-27, docs/notes/converted.md)."""
        e, i1, kind = self.e, ir.IntegerType.get_signless(1), self.kind

        def none(*kinds: str) -> ir.Value:
            return e.compare("eq", e.arith("arith.andi", seen, e.i32(sum(SEEN[x] for x in kinds))), e.i32(0))

        with e.region("tile.when", [e.negated(e.op("tile.are_alike", [i1], [kind, seen]).result)]):
            ordinary = none("not ordinary", "zero")
            low = e.arith("arith.andi", e.negated(ordinary), none("not low", "zero"))
            e.op("tile.turn_addends", operands=[kind, low, block.accumulator])
            mixed = e.negated(e.arith("arith.ori", ordinary, low))
            with e.region("tile.when", [mixed]):
                with e.region("tile.when", [e.negated(none("not ordinary"))]):
                    self.go(h, at, block, go, "small")
                    e.op("tile.mma_wait", operands=[block.partial], pending=0)
                    self.promote(block, go, factors, -SMALL_SHIFT)
                self.go(h, at, block, go, "ordinary")
            with e.region("tile.when", [e.negated(mixed)]):
                self.go(h, at, block, go, "alike")
            e.op("tile.mma_wait", operands=[block.partial], pending=0)

    def go(self, h: Handles, at: Positions, block: Block, go: Go, scales: str = "") -> None:
        """One of its products, of elements with such scales."""
        made = Made(scales, self.kind if scales == "alike" else None)
        self.mma(h, block.partial, at.cursor, go.wave, 0, 0, go.column, go.slice_, go.slices, made)

    def promote(self, block: Block, go: Go, factors: tuple[ir.Value | None, ...], exponent: int = 0) -> None:
        """That, times a power of two."""
        sides = [f for f in factors if f is not None]
        segments = (1, 1, *(int(f is not None) for f in factors))
        power: dict[str, Any] = {"exponent": exponent} if exponent else {}
        operands = [block.accumulator, block.partial, *sides]
        self.e.op("tile.promote", operands=operands, segments=segments, wave=go.wave, column=go.column, **power)

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
