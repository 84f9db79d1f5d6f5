"""K blocks whose sums are promoted, of products whose A consumers make in registers.

While the last slice of a product is multiplied, the first one of the next is made, of the next stage too: so the wait
for that stage, what is loaded of it and the conversion fall together with products that are under way. It is left in a
relay, as the loop over K ends in between.
"""

from __future__ import annotations

from dataclasses import replace

from scalec.ir.mlir import ir
from scalec.passes.emit.blocks import Blocks
from scalec.passes.emit.factors import Positions
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.multiplier import Beneath, Block, Go
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.converted import slices_of


class Ahead(Blocks):
    """A consumer's loop over K."""

    def slices_of(self, go: Go) -> list[int]:
        """The slices of the stage that a product is made of."""
        each = slices_of(self.problem, self.schedule) // go.slices
        return [go.slice_ * each + i for i in range(each)]

    def blocks_ahead(self, h: Handles, w: Work, at: Positions, front: ir.Value, block: Block) -> None:
        """Those of a part of K; `block`: what is known of each; `front`: where the next one to be entered is."""
        e = self.e
        first = self.enter_block(h, front, None)
        relay = e.op("tile.start_relay", [e.type("relay")]).result
        e.op("tile.leave", operands=[relay, first])

        def left() -> ir.Value:
            return e.op("tile.left", [first.type], [relay]).result

        with self.over_k(self.multiplied(w), self.schedule.unroll, start=self.schedule.tile[2]) as k0:
            following = self.block_ahead(h, at, front, replace(block, following=self.at_k(w, k0)), left())
            e.op("tile.leave", operands=[relay, following])
        self.block_ahead(h, at, front, block, left())

    def enter_block(self, h: Handles, front: ir.Value, after: ir.Value | None) -> ir.Value:
        """The first slice of the block at `front`, made when of products into the sums `after` one is under way at
        most, if any is."""
        go = self.goes[0]
        self.e.op("tile.wait", operands=[h.ring, front])
        stored = self.load_slice(h, front, self.slices_of(go)[0], go)
        if after is not None:
            self.e.op("tile.mma_wait", operands=[after], pending=1)
        return self.converted_slice(stored, self.slices_of(go)[0])

    def load_slice(self, h: Handles, cursor: ir.Value, part: int, go: Go) -> ir.Value:
        """A slice, and those that are loaded with it."""
        count = slices_of(self.problem, self.schedule)
        together = self.loaded_together(count)
        return self.load_stored(h, cursor, part // together, go.wave, count // together)

    def converted_slice(self, stored: ir.Value, part: int) -> ir.Value:
        """That slice alone."""
        together = self.loaded_together(slices_of(self.problem, self.schedule))
        return self.converted(stored, slice_=(part % together, together))

    def block_ahead(self, h: Handles, at: Positions, front: ir.Value, block: Block, a: ir.Value) -> ir.Value:
        """A block's products, each promoted, of which `a` is the first slice; that of the one that follows, if one
        does."""
        e, count, last = self.e, slices_of(self.problem, self.schedule), block.following is None
        units, beneath = [(go, part) for go in self.goes for part in self.slices_of(go)], Beneath()
        for number, (go, part) in enumerate(units):
            after = units[number + 1] if number + 1 < len(units) else None
            stored = None if after is None else self.load_slice(h, at.cursor, after[1], after[0])
            begins, ends = (part == self.slices_of(go)[i] for i in (0, -1))
            self.mma_converted(h, block.partial, at.cursor, a, 0, int(not begins), go.column, (part, count))
            if begins:
                self.beneath(h, at, block, self.goes.index(go), beneath)
            if number == 0:
                e.op("tile.advance", operands=[front])
                if self.schedule.early_wait:
                    e.op("tile.peek", operands=[h.ring, front])
            if after is not None and stored is not None:
                e.op("tile.mma_wait", operands=[block.partial], pending=1)
                a = self.converted_slice(stored, after[1])
            elif not last:
                a = self.enter_block(h, front, block.partial)
            if ends:
                self.arrive(block)
                self.promote(block, go, beneath.factors[go.wave])
        self.hand_over(h, at, peek=False)
        return a
