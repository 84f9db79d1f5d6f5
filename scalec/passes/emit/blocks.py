"""What loops over K blocks of promoted sums have in common."""

from __future__ import annotations

from functools import cached_property
from itertools import product

from scalec.ir.mlir import ir
from scalec.passes.emit.addends import Addends, Both
from scalec.passes.emit.factors import Fetched, Known, Positions
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.multiplier import Beneath, Block, Go, Made, Multiplier
from scalec.passes.plan.promotion import slices


class Blocks(Multiplier):
    """Of a consumer. `addends`: what becomes of sums of these, None where there are none; `front`: where the next block
    is that is entered while another is multiplied, None where none is."""

    addends: Addends | None = None
    front: ir.Value | None = None

    @cached_property
    def goes(self) -> list[Go]:
        """A block's products, in their order."""
        s = self.schedule
        columns = range(0, s.tile[1], s.mma_n or s.tile[1])
        return [Go(*x, i, slices(s)) for i in range(slices(s)) for x in product(range(self.waves), columns)]

    def made(self, seen: ir.Value | None) -> Made:
        """What A's elements are made of."""
        return Made() if self.addends is None else self.addends.made(seen)

    def beneath(self, h: Handles, at: Positions, block: Block, number: int, of: Beneath) -> None:
        """What is read and fetched under the product of that number: factors of a slice under its first one."""
        go = self.goes[number]
        if (go.wave, go.column) == (0, 0):
            waves = range(self.waves)
            of.factors = [self.factors(h, at, block.fetched, v, block.column0, go.slice_, of.known) for v in waves]
        if number == 0:
            self.keep(h, at, block.fetched, block.column0, of.known)
            for side in self.sides if block.following is not None else ():
                self.fetch(h, side, block.fetched, block.w, block.following)

    def promote_go(self, h: Handles, at: Positions, block: Block, go: Go, factors: Both) -> None:
        """A product that has come."""
        if self.addends is not None:
            self.addends.promote(h, at.cursor, block, go, factors)
        else:
            self.promote(block, go, factors)

    def keep(self, h: Handles, at: Positions, fetched: Fetched, column0: ir.Value, known: Known) -> None:
        """What was fetched for the later slices of a K tile, before it is fetched for the next one."""
        for slice_, wave in product(range(1, slices(self.schedule)), range(self.waves)):
            for side in self.sides:
                if self.block_scale(side) is not None:
                    self.factor(h, side, at, fetched, wave, column0, slice_, known)

    def hand_over(self, h: Handles, at: Positions, peek: bool = True) -> None:
        """Of a stage; `peek`: whether the next one is asked for."""
        cursor = at.cursor
        self.release(h, cursor)
        self.e.op("tile.advance", operands=[cursor])
        if at.window is not None:
            self.e.op("tile.next_block", operands=[at.window])
        if self.schedule.early_wait and peek:
            self.e.op("tile.peek", operands=[h.ring, cursor])
