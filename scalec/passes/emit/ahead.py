"""K blocks whose sums are promoted, of products whose A consumers make in registers.

While the last slice of a product is multiplied, the first one of the next is made, of the next stage too: so the wait
for that stage, what is loaded of it and the conversion fall together with products that are under way. It is left in
relays, as the loop over K ends in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from scalec.ir.mlir import ir
from scalec.passes.emit.addends import Both
from scalec.passes.emit.blocks import Blocks
from scalec.passes.emit.factors import Positions
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.multiplier import Beneath, Block, Go
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.converted import interleaves, slices_of


@dataclass(frozen=True)
class Entered:
    """Of a K block: its first slice as it is stored, where others are of that too, and made, and what is known of its
    scales; or the relays where these are left."""

    stored: ir.Value | None
    made: ir.Value | None
    seen: ir.Value | None
    remake: Callable[[], ir.Value] | None = None

    def each(self) -> list[tuple[str, ir.Value]]:
        """Those that are there, by name."""
        values = ("stored", self.stored), ("made", self.made), ("seen", self.seen)
        return [(name, value) for name, value in values if value is not None]


class Ahead(Blocks):
    """A consumer's loop over K."""

    def slices_of(self, go: Go) -> list[int]:
        """The slices of the stage that a product is made of."""
        each = slices_of(self.problem, self.schedule) // go.slices
        return [go.slice_ * each + i for i in range(each)]

    def blocks_ahead(self, h: Handles, w: Work, at: Positions, front: ir.Value, block: Block) -> None:
        """Those of a part of K; `block`: what is known of each; `front`: where the next one to be entered is."""
        e = self.e
        first = self.enter_block(h, front, block, under=False)
        rooms = {name: e.op("tile.start_relay", [e.type("relay")]).result for name, _ in first.each()}
        relays = _entered(rooms)
        self.leave(relays, first)
        with self.over_k(self.multiplied(w), self.schedule.unroll, start=self.schedule.tile[2]) as k0:
            here = replace(block, following=self.at_k(w, k0))
            self.leave(relays, self.block_ahead(h, at, front, here, self.taken(relays, first), relays))
        self.block_ahead(h, at, front, block, self.taken(relays, first), relays)

    def enter_block(self, h: Handles, front: ir.Value, block: Block, under: bool = True) -> Entered:
        """The block at `front`; `under`: while products are under way."""
        e, go, count = self.e, self.goes[0], slices_of(self.problem, self.schedule)
        e.op("tile.wait", operands=[h.ring, front])
        seen = None if self.addends is None else self.addends.seen(h, front)
        number, together = self.slices_of(go)[0], self.loaded_together(count)
        stored = self.load_stored(h, front, number // together, go.wave, count // together)
        if under:
            e.op("tile.mma_wait", operands=[block.partial], pending=1)
        remake = self.maker(stored, seen, number % together)
        return Entered(stored if interleaves(self.problem, self.schedule) else None, remake(), seen, remake)

    def maker(self, stored: ir.Value, seen: ir.Value | None, number: int) -> Callable[[], ir.Value]:
        """What makes that slice of what was loaded."""
        together = self.loaded_together(slices_of(self.problem, self.schedule))
        return lambda: self.converted(stored, self.made(seen), (number, together))

    def promote_ahead(
        self,
        h: Handles,
        at: Positions,
        block: Block,
        go: Go,
        factors: Both,
        a: ir.Value | None,
        remake: Callable[[], ir.Value] | None,
        relay: ir.Value | None,
    ) -> ir.Value | None:
        """A product that has come; what was made ahead, by way of a relay where it may have to be made again."""
        if a is None or remake is None or self.addends is None or not self.addends.turns:
            self.promote_go(h, at, block, go, factors)
            return a
        e = self.e
        e.op("tile.leave", operands=[relay, a])
        self.addends.promote(h, at.cursor, block, go, factors, lambda: e.op("tile.leave", operands=[relay, remake()]))
        return e.op("tile.left", [a.type], [relay]).result

    def leave(self, relays: Entered, entered: Entered) -> None:
        """Leaves that to the next iteration."""
        for (_, relay), (_, value) in zip(relays.each(), entered.each(), strict=True):
            self.e.op("tile.leave", operands=[relay, value])

    def taken(self, relays: Entered, like: Entered) -> Entered:
        """What was left, of the types of these."""
        types = {name: value.type for name, value in like.each()}
        taken = {name: self.e.op("tile.left", [types[name]], [relay]).result for name, relay in relays.each()}
        return _entered(taken)

    def block_ahead(
        self, h: Handles, at: Positions, front: ir.Value, block: Block, entered: Entered, relays: Entered
    ) -> Entered:
        """A block's products, each promoted, and what it enters of the one that follows, if one does. A slice that was
        made ahead is made again where addends have become others meanwhile."""
        e, count = self.e, slices_of(self.problem, self.schedule)
        together = self.loaded_together(count)
        block, last = replace(block, seen=entered.seen), block.following is None
        units = [(go, part) for go in self.goes for part in self.slices_of(go)]
        loaded: dict[tuple[int, int], ir.Value] = {}
        if entered.stored is not None:
            loaded[units[0][1] // together, units[0][0].wave] = entered.stored
        beneath, a, following = Beneath(), entered.made, entered

        def load(go: Go, part: int) -> ir.Value:
            key = part // together, go.wave
            if key not in loaded:
                loaded[key] = self.load_stored(h, at.cursor, *key, count // together)
            return loaded[key]

        for number, (go, part) in enumerate(units):
            after = units[number + 1] if number + 1 < len(units) else None
            if after is not None:
                load(*after)
            begins, ends = part == self.slices_of(go)[0], part == self.slices_of(go)[-1]
            assert a is not None
            self.mma_converted(h, block.partial, at.cursor, a, 0, int(not begins), go.column, (part, count))
            if begins:
                self.beneath(h, at, block, self.goes.index(go), beneath)
            if number == 0:
                e.op("tile.advance", operands=[front])
                if not last and self.schedule.early_wait:
                    e.op("tile.peek", operands=[h.ring, front])
            remake = None
            if after is not None:
                e.op("tile.mma_wait", operands=[block.partial], pending=1)
                remake = self.maker(load(*after), block.seen, after[1] % together)
                a = remake()
            elif not last:
                following = self.enter_block(h, front, block)
                remake, a = following.remake, following.made
            if ends:
                self.arrive(block)
                a = self.promote_ahead(h, at, block, go, beneath.factors[go.wave], a, remake, relays.made)
        following = replace(following, made=a)
        self.hand_over(h, at)
        return following


def _entered(values: dict[str, ir.Value]) -> Entered:
    return Entered(values.get("stored"), values.get("made"), values.get("seen"))
