"""The consumer role where the tensor core multiplies out of registers: slices loaded ahead, products, hand-over.

A K block is `slices` instructions deep. While one slice is multiplied the next is on its way into the other of two
sets of registers, across the hand-over of stages too: the loop begins at a block's last slice, so that the wait for
the next stage and the loop's own branch fall together.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from scalec.ir.mlir import ir
from scalec.passes.emit.consumer import Consumer
from scalec.passes.emit.factors import Fetched, Positions
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.tensors import Work


@dataclass
class Pipeline:
    """The handles of the loop over K.

    Attributes:
        front, back: the stage that is being loaded, and the one that is handed back next.
        target: what products are added to: the accumulator, or partial sums that are promoted.
        slices: two sets of registers, (A, B) each.
        words: registers of scale bytes, by side.
        window: the position of f32 scales that come by windows.
    """

    front: ir.Value
    back: ir.Value
    accumulator: ir.Value
    target: ir.Value
    slices: list[tuple[ir.Value, ir.Value]]
    words: dict[str, ir.Value]
    window: ir.Value | None
    fetched: Fetched = field(default_factory=dict)
    work: Work | None = None

    def summing(self, sums: ir.Value) -> Pipeline:
        """With other sums in the accumulator's place."""
        return replace(self, accumulator=sums, target=sums if self.target is self.accumulator else self.target)


class RegisterConsumer(Consumer):
    """Empties the stages by way of registers."""

    def consumer(self, h: Handles) -> None:
        """Multiplies, promotes, and writes results."""
        e = self.e
        p = self.pipeline()
        self.second_accumulator(p.accumulator.type)
        h.result_cursor = self.result_cursor()
        self.begin_meetings(h)
        self.hold()
        with self.over_tiles(h) as w:
            w = self.begin(w)
            e.op("tile.clear", operands=[p.accumulator])
            if p.window is not None:
                self.open_window(h, w, p.window)
            with self.of_rows(w, p.accumulator, lambda: self.pass_stages(h, p, w)):
                p.fetched = {side.label: self.scalars(side) for side in self.sides if self.block_scale(side)}
                for _, part, sums in self.summing(w, p.accumulator):
                    self.sum_part(h, p.summing(sums), part)
            self.finish(h, w, p.accumulator)
        self.drain()

    def sum_part(self, h: Handles, p: Pipeline, w: Work) -> None:
        """The K blocks of a tile, or of one of the parts that are summed by themselves."""
        s, p.work = self.schedule, w
        for side in self.sides:
            self.fetch(h, side, p.fetched, w, self.at_k(w))
        self.enter(h, p)
        self.turn(p)
        self.slices_but_the_last(h, p, self.at_end(w))
        with self.over_k(self.multiplied(w), s.unroll, start=s.tile[2]) as k0:
            self.enter(h, p)
            self.last_slice(h, p, self.at_k(w, k0))
            self.turn(p)
            self.slices_but_the_last(h, p, self.at_end(w, k0))
        self.cut(p, self.slices - 1, self.at_end(w, w.k))
        self.last_slice(h, p, None)
        if self.problem.wraps:
            with self.e.region("tile.when", [self.left_over(w)]):
                self.pass_stage(h, p)

    def pass_stage(self, h: Handles, p: Pipeline) -> None:
        """Hands a stage back of which nothing is multiplied."""
        self.e.op("tile.wait", operands=[h.ring, p.front])
        self.e.op("tile.advance", operands=[p.front])
        self.release(h, p.back)
        if p.window is not None:
            self.e.op("tile.next_block", operands=[p.window])
        self.e.op("tile.advance", operands=[p.back])

    def pass_stages(self, h: Handles, p: Pipeline, w: Work) -> None:
        """Those of a tile."""
        with self.over_k(w):
            self.pass_stage(h, p)

    def pipeline(self) -> Pipeline:
        """All registers."""
        e, s = self.e, self.schedule
        front, back = e.cursor(s.stages), e.cursor(s.stages)
        rows, columns = s.tile[0] // s.warps[0], s.tile[1] // s.warps[1]
        made = e.accumulator(rows, columns, "warp")
        accumulator = e.op("tile.fragment", [made]).result
        target = e.op("tile.fragment", [made]).result if s.promote else accumulator
        shares = {"A": ("a", rows), "B": ("b", columns)}
        types = [
            e.multiplicand(*shares[x.label], self.family.k, ir.Type.parse(x.operand.element.mlir)) for x in self.sides
        ]
        slices = [tuple(e.op("tile.multiplicand", [t]).result for t in types) for _ in range(2)]
        words = {
            x.label: e.op("tile.words", [e.words(shares[x.label][0], plan.words, shares[x.label][1])]).result
            for x in self.sides
            if (plan := self.word_plan(x)) is not None
        }
        return Pipeline(front, back, accumulator, target, slices, words, self.window())

    @property
    def slices(self) -> int:
        """Instructions along K in a K block."""
        return self.schedule.tile[2] // self.family.k

    def enter(self, h: Handles, p: Pipeline) -> None:
        """Waits for the front stage and loads its scale bytes and its first slice."""
        self.e.op("tile.wait", operands=[h.ring, p.front])
        for label, words in p.words.items():
            self.e.op("tile.load_words", operands=[words, h.scale_tiles[label], p.front])
        self.load(h, p, 0)

    def load(self, h: Handles, p: Pipeline, step: int) -> None:
        # B first: the products' order is A's, and each slice of B meets all of A
        for side, registers in reversed(list(zip(self.sides, p.slices[step % 2], strict=True))):
            operands = [registers, h.tiles[side.label], p.front]
            self.e.op("tile.load", operands=operands, step=step, transpose=int(side.operand.mn_major))

    def turn(self, p: Pipeline) -> None:
        for words in p.words.values():
            self.e.op("tile.turn", operands=[words])

    def slices_but_the_last(self, h: Handles, p: Pipeline, last: ir.Value | None) -> None:
        """All slices of the front stage but the last are multiplied, all but the first loaded; `front` moves on.
        `last`: whether the block is K's last, where that matters."""
        for step in range(self.slices - 1):
            self.cut(p, step, last)
            self.load(h, p, step + 1)
            if step == self.slices - 2:  # under the products: the next wait then finds its barrier's address
                self.e.op("tile.advance", operands=[p.front])
            self.multiply(p, step)

    def last_slice(self, h: Handles, p: Pipeline, k0: ir.Value | None) -> None:
        """The block's last products, its promotion, and the hand-over of its stage; `k0` is the next block's start.

        The stage is handed back behind its loads. In the loop those of the last slice alone may be under way, as the
        others were multiplied before the wait; behind it, all."""
        e, last = self.e, p.slices[(self.slices - 1) % 2]
        if not self.schedule.promote and k0 is not None:
            self.release(h, p.back, a=last[:1], b=last[1:])
        self.multiply(p, self.slices - 1)
        if self.schedule.promote:
            self.to_f32([p.target])
            at = Positions(p.back, p.window)
            for wave in range(self.waves):
                sides = self.factors(h, at, p.fetched, wave)
                e.op("tile.promote", operands=[p.accumulator, p.target, *sides], wave=wave, column=0)
        if self.schedule.promote or k0 is None:
            self.release(h, p.back, sums=p.accumulator)
        if self.schedule.promote:
            if k0 is not None and p.work is not None:
                for side in self.sides:
                    self.fetch(h, side, p.fetched, p.work, k0)
            if p.window is not None:
                e.op("tile.next_block", operands=[p.window])
        e.op("tile.advance", operands=[p.back])

    def cut(self, p: Pipeline, step: int, last: ir.Value | None) -> None:
        """Zeroes what pads rows that end in half a byte, in the slice `step` of K's `last` block: of the operand that a
        warp has fewer rows of."""
        element = self.padding
        if last is None or element is None or element // self.family.k != step:
            return
        s = self.schedule
        target = p.slices[step % 2][int(s.tile[1] // s.warps[1] <= s.tile[0] // s.warps[0])]
        self.e.op("tile.cut", operands=[target, last], element=element % self.family.k)

    def multiply(self, p: Pipeline, step: int) -> None:
        """One instruction deep: all products of the warp's rows and columns."""
        operands = [p.target, *p.slices[step % 2], p.words.get("A"), p.words.get("B")]
        self.multiply_slice(operands, step, int(step > 0 or not self.schedule.promote))

    def multiply_slice(self, operands: list[ir.Value | None], step: int, accumulate: int) -> None:
        """The op, of an accumulator, A, B and the scale words of both."""
        places = {side.label: -1 for side in self.sides}
        for side in self.sides:
            plan = self.word_plan(side)
            if plan is not None:
                places[side.label] = step * self.family.k // plan.unit
        self.e.op(
            "tile.multiply",
            operands=operands,
            a_byte=places["A"],
            b_byte=places["B"],
            scale=self.problem.scale_type,
            accumulate=accumulate,
        )
