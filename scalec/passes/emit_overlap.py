"""The consumer's main loop with two partial accumulators: one is promoted while the next product is summed in another.

    issue 0 | issue 1, promote 0 | issue 2, promote 1 | ... | promote the last

A product is a wave of a K block; they are numbered through the K blocks of a tile, and those of even number are summed
in the first partial accumulator.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scalec.ir.mlir import ir
from scalec.passes.emit_frame import Handles, Work
from scalec.passes.parts import part_blocks

if TYPE_CHECKING:
    from scalec.passes.emit_consumer import Consumer


@dataclass(frozen=True)
class Positions:
    """Where a consumer is: in the ring of stages and, if there is one, in the ring of windows."""

    cursor: ir.Value
    window: ir.Value | None


Factors = tuple[ir.Value | None, ir.Value | None]


@dataclass
class Overlap:
    """One tile's, or part's.

    Attributes:
        front: the stage whose product is issued next.
        behind: the one whose sums are promoted next, and its place among windows of scales.
        fetched: room for each side's block scales, of the K block that is promoted next.
        factors: of each wave of that K block.
    """

    consumer: Consumer
    h: Handles
    w: Work
    front: ir.Value
    behind: Positions
    accumulator: ir.Value
    partials: list[ir.Value]
    fetched: dict[str, ir.Value] = field(default_factory=dict)
    factors: list[Factors] = field(default_factory=list)

    def emit(self) -> None:
        """A loop of iterations that promote whole rounds of the two accumulators: the waves of `unroll` K blocks, of
        two at the least where they are odd in number. The first product is issued before it; those behind the last
        whole iteration are as many as are left.
        """
        c, e, depth, waves = self.consumer, self.consumer.e, self.consumer.schedule.tile[2], self.consumer.waves
        blocks, body = part_blocks(c.problem, c.schedule)[0], max(c.schedule.unroll, 2 if waves % 2 else 1)
        rounds = (blocks * waves - 1) // (body * waves)
        if self.behind.window is not None:
            c.open_window(self.w, self.behind.window)
        self.fetched = {side.label: c.scalars(side) for side in c.sides if c.block_scale(side)}
        self.fetch(c.at_k(self.w))
        self.issue(0)
        if rounds:  # from the second K block on, which the body begins to multiply
            end = (1 + (rounds - 1) * body) * depth + 1
            with c.over_k(self.w, start=depth, step=body * depth, end=end) as k:
                self.products(body * waves, k, more=True)
                # no product is under way at a loop's branch, or ptxas runs them one by one (C7514, ptxas 13.0)
                e.op("tile.mma_wait", operands=[self.partials[0]], pending=0)
        self.products((blocks - rounds * body) * waves, e.i32((1 + rounds * body) * depth), more=False)

    def products(self, count: int, following: ir.Value, more: bool) -> None:
        """Promotes the next `count` products, of K blocks of which the second begins at element `following` of the
        work; each once the one behind it is issued, if there is one: `more` says whether one follows these."""
        c, e = self.consumer, self.consumer.e
        for number in range(count):
            issues = number + 1 < count or more
            if issues:
                self.issue(number + 1)
            block, wave = divmod(number, c.waves)
            if wave == 0:
                self.factors = [c.factors(self.h, self.behind, self.fetched, w) for w in range(c.waves)]
                if more or number + c.waves < count:
                    step = e.i32(block * c.schedule.tile[2])
                    self.fetch(c.at_k(self.w, e.arith("arith.addi", following, step) if block else following))
            self.promote(number, pending=int(issues))

    def fetch(self, k0: ir.Value) -> None:
        """Block scales of the K block that begins at element `k0` of the tensors."""
        for side in self.consumer.sides:
            self.consumer.fetch(self.h, side, self.fetched, self.w.row0, k0)

    def issue(self, number: int) -> None:
        """Issues a product; behind the last wave of a K block, looks whether the next one's stage is full."""
        c, wave = self.consumer, number % self.consumer.waves
        if wave == 0:
            c.e.op("tile.wait", operands=[self.h.ring, self.front])
        c.mma(self.h, self.partials[number % 2], self.front, wave, 0, accumulate=0)
        if wave == c.waves - 1:
            c.e.op("tile.advance", operands=[self.front])
            if c.schedule.early_wait:
                c.e.op("tile.peek", operands=[self.h.ring, self.front])

    def promote(self, number: int, pending: int) -> None:
        """Waits for a product, `pending` behind it under way, and promotes it; a block's last hands back its stage."""
        c, wave, partial = self.consumer, number % self.consumer.waves, self.partials[number % 2]
        late = c.row_scale(c.sides[1]) is not None  # column factors are read during promotion
        c.e.op("tile.mma_wait", operands=[partial], pending=pending)
        last = wave == c.waves - 1
        if last and not late:
            self.hand_over()
        factors = self.factors[wave]
        segments = (1, 1, *(int(f is not None) for f in factors))
        operands = [self.accumulator, partial, *(f for f in factors if f is not None)]
        c.e.op("tile.promote", operands=operands, segments=segments, wave=wave, column=0)
        if last and late:
            self.hand_over()

    def hand_over(self) -> None:
        c, at = self.consumer, self.behind
        c.release(self.h, at.cursor)
        c.e.op("tile.advance", operands=[at.cursor])
        if at.window is not None:
            c.e.op("tile.next_block", operands=[at.window])
