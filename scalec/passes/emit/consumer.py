"""The consumer role: products, promotion by scale factors, hand-over of stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import product

from scalec.ir.mlir import ir
from scalec.passes.emit.addends import addends_of
from scalec.passes.emit.ahead import Ahead
from scalec.passes.emit.factors import Fetched, Positions
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.multiplier import Beneath, Block, Made
from scalec.passes.emit.tensors import Work
from scalec.passes.emit.turns import Turns
from scalec.passes.plan.column_factors import held
from scalec.passes.plan.converted import in_registers, made_smaller, makes_ahead, slices_of
from scalec.passes.plan.loop import without_loop
from scalec.passes.plan.parts import part_blocks


class Consumer(Ahead):
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
            self.addends = addends_of(self)
            if makes_ahead(self.problem, s):
                self.front = turns.cursor()
        window = turns.window()
        h.result_cursor = self.result_cursor()
        if h.parts_ring is not None:
            h.parts_cursor = e.cursor(1)
        self.begin_meetings(h)
        self.hold()
        with self.over_tiles(h, turns=self.turns) as w:
            w = self.begin(w)
            if not self.lone_block:
                self.clear(accumulator)
            self.ahead_of = self.read_ahead(w, accumulator)
            at = Positions(cursor, window)
            with self.of_rows(w, accumulator, lambda: self.pass_tile(h, w, at)):
                if partial is None:
                    self.accumulate(h, w, cursor, accumulator)
                else:
                    self.promoted(h, w, at, accumulator, partial)
            self.finish(h, w, accumulator)
            turns.pass_on()
        turns.end()
        self.drain()

    @contextmanager
    def of_rows(self, w: Work, accumulator: ir.Value, otherwise: Callable[[], None]) -> Iterator[None]:
        """What warpgroups, or warps, do that have rows of a tile, and `otherwise`: where a range cuts a tile, some may
        have none, and hand its stages back without a product."""
        e, p = self.e, self.problem
        several = self.units[0] * self.schedule.cluster[0] > 1
        if not p.passed_over or not several or self.lone_block or self.front is not None:
            yield
            return
        own = e.op("tile.own_row", [ir.IntegerType.get_signless(32)], [accumulator]).result
        has = e.compare("lt", e.arith("arith.addi", w.m0, own), w.m_end)
        with e.region("tile.when", [e.negated(has)]):
            otherwise()
        with e.region("tile.when", [has]):
            yield

    def pass_tile(self, h: Handles, w: Work, at: Positions) -> None:
        """Hands back all stages of a tile."""
        if at.window is not None:
            self.open_window(h, w, at.window)
        with self.over_k(w):
            self.e.op("tile.wait", operands=[h.ring, at.cursor])
            self.hand_over(h, at)

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
        for number, part, sums in self.summing(w, accumulator):
            with self.over_k(part, self.schedule.unroll) as k0:
                first = e.compare("eq", k0, e.i32(0)) if self.segments_meet or not number else None
                e.op("tile.wait", operands=[h.ring, cursor])
                for wave in range(self.waves):
                    self.mma(h, sums, cursor, wave, wave, accumulate=1)
                e.op("tile.mma_wait", operands=[sums], pending=self.waves)
                self.release(h, cursor, lag=1, unless=first)
                e.op("tile.advance", operands=[cursor])
            e.op("tile.mma_wait", operands=[sums], pending=0)
            if self.segments_meet:
                self.release(h, cursor, lag=1)
        if not self.segments_meet:
            self.release(h, cursor, lag=1)

    def accumulate_converted(self, h: Handles, w: Work, cursor: ir.Value, accumulator: ir.Value) -> None:
        """Likewise with A out of registers."""
        e, count, side = self.e, slices_of(self.problem, self.schedule), self.sides[0]
        parts = [(slice_, wave, wave) for slice_, wave in product(range(count), range(self.waves))]
        held = self.hold_side(h, side, w, True) if side.operand.transformed else None
        along_k = {} if held is None else self.along_k(h, side, w, e.i32(0))

        def block(k0: ir.Value | None, first: ir.Value | None) -> None:
            made = None
            if held is not None:
                k, beside = e.i32(0) if k0 is None else k0, along_k
                if k0 is not None:  # those of the next K block are on their way while this one is multiplied
                    following = e.arith("arith.addi", k0, e.i32(self.schedule.tile[2]))
                    beside = self.along_k(h, side, w, following, along_k)
                made = Made(held=held, along_k=beside, inside=self.elements_inside(w, k))
            e.op("tile.wait", operands=[h.ring, cursor])
            for number in self.multiply_converted(
                h, accumulator, cursor, parts, count, int(first is not None), made=made
            ):
                if number == 0 and first is not None:
                    self.release(h, cursor, lag=1, unless=first)
            if along_k and side.operand.folds and k0 is not None:
                # ptxas 13.0 has addresses of what belongs to K in registers of A that a product still reads: sums were
                # wrong (H200, docs/notes/toolchain.md)
                e.op("tile.mma_wait", operands=[accumulator], pending=0)
            e.op("tile.advance", operands=[cursor])

        if self.lone_block:
            block(None, None)
        else:
            with self.over_k(w, self.schedule.unroll) as k0:
                block(k0, e.compare("eq", k0, e.i32(0)))
        e.op("tile.mma_wait", operands=[accumulator], pending=0)
        self.release(h, cursor, lag=1)
        if held is not None and side.operand.folds:
            writes = self.writes_folds(side, w)
            with nullcontext() if writes is None else e.region("tile.when", [writes]):
                for fold, room in zip(side.operand.folds, held.folds, strict=True):
                    self.write_fold(h, side, fold, room, w)

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

    def promoted(self, h: Handles, w: Work, at: Positions, accumulator: ir.Value, partial: ir.Value) -> None:
        """Each K block's product is scaled and added into FP32 registers, wave by wave."""
        if at.window is not None:
            self.open_window(h, w, at.window)
        fetched = {side.label: self.scalars(side) for side in self.sides if self.block_scale(side)}
        for _, part, sums in self.summing(w, accumulator):
            self.promoted_part(h, part, at, fetched, sums, partial)
            if self.addends is not None:
                self.addends.end(sums)
            if power := sum(made_smaller(self.problem, self.schedule, x.operand) for x in self.sides):
                self.e.op("tile.enlarge", operands=[sums], exponent=power)

    def promoted_part(
        self, h: Handles, w: Work, at: Positions, fetched: Fetched, accumulator: ir.Value, sums: ir.Value
    ) -> None:
        """Those of one of the parts of K that are summed by themselves."""
        e, s, cursor = self.e, self.schedule, at.cursor
        for side in self.sides:
            self.fetch(h, side, fetched, w, self.at_k(w))
        scale = self.block_scale(self.sides[1])
        column0 = w.n0 if scale is None else self.scale_rows("B", scale, w)[0]
        block = Block(w, fetched, accumulator, sums, column0)
        if self.front is not None:
            self.blocks_ahead(h, w, at, self.front, block)
            return
        with self.over_k(self.multiplied(w), s.unroll, once=without_loop(self.problem, s)) as k0:
            e.op("tile.wait", operands=[h.ring, cursor])
            following = self.at_k(w, e.arith("arith.addi", k0, e.i32(s.tile[2])))
            seen = None if self.addends is None else self.addends.seen(h, cursor)
            self.block(h, at, replace(block, following=following, seen=seen))
        self.pass_over(h, w, at)

    def pass_over(self, h: Handles, w: Work, at: Positions) -> None:
        """A stage of which nothing is multiplied, where there is one."""
        if not self.problem.wraps:
            return
        with self.e.region("tile.when", [self.left_over(w)]):
            self.e.op("tile.wait", operands=[h.ring, at.cursor])
            self.hand_over(h, at)

    def block(self, h: Handles, at: Positions, block: Block) -> None:
        """A K block's products, each promoted; the stage is handed over as soon as nothing of it is read again."""
        read_late = self.row_scale(self.sides[1]) is not None and not held(self.schedule)  # during promotion
        late = self.addends is not None or read_late
        beneath = Beneath()
        for number, go in enumerate(self.goes):
            self.go(h, at.cursor, block, go, self.made(block.seen))
            self.beneath(h, at, block, number, beneath)
            self.arrive(block)
            last = number == len(self.goes) - 1
            if last and not late:
                self.hand_over(h, at)
            self.promote_go(h, at, block, go, beneath.factors[go.wave])
            if last and late:
                self.hand_over(h, at)
