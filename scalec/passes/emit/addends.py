"""A K block whose elements of A, times their scales, are sums of addends that are multiplied (scalec.formats.ADDENDS).

What warps that bring the scales have seen of a block's says what addends are made of. As nearly all blocks are alike,
that is what products are made of; a block that is not is multiplied once more. Where none are, a branch is all of it,
of at most 1.02 of the time; before the conversion one took 1.07 and 1.11 (H100, 2026-11-27, docs/notes/converted.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.tile_scales import SEEN, SMALL_SHIFT
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.multiplier import Block, Go, Made, Multiplier
from scalec.passes.plan.converted import interleaves, slices_of

Both = tuple[ir.Value | None, ir.Value | None]
"""Factors of promotion, of either side."""


class Addends(ABC):
    """Of a consumer, `c`, for all of its tiles."""

    def __init__(self, c: Multiplier) -> None:
        self.c, self.e, self.side = c, c.e, c.sides[0]

    @abstractmethod
    def seen(self, h: Handles, cursor: ir.Value) -> ir.Value:
        """What scales A has in a K block."""

    @abstractmethod
    def made(self, seen: ir.Value | None) -> Made:
        """What a block's products are made of, if it is as others are."""

    @abstractmethod
    def promote(self, h: Handles, cursor: ir.Value, block: Block, go: Go, factors: Both) -> None:
        """A product that has come, or what is in its place where the block is not."""

    def end(self, sums: ir.Value) -> None:  # noqa: B027 - nothing, unless sums stand for others
        """Behind the last block of a tile."""


class Pairs(Addends):
    """Two of each, as of ue4m3: sums stand for those of a power of two, whichever scales were of last."""

    def __init__(self, c: Multiplier) -> None:
        super().__init__(c)
        self.kind = self.e.op("tile.start_addends", [self.e.type("addends")]).result

    def seen(self, h: Handles, cursor: ir.Value) -> ir.Value:
        operands, i32 = [h.scale_tiles[self.side.label], cursor], ir.IntegerType.get_signless(32)
        return self.e.op("tile.seen_scales", [i32], operands, warps=self.c.scale_warps[1]).result

    def made(self, seen: ir.Value | None) -> Made:
        return Made("alike", self.kind)

    def promote(self, h: Handles, cursor: ir.Value, block: Block, go: Go, factors: Both) -> None:
        e, c, i1, kind = self.e, self.c, ir.IntegerType.get_signless(1), self.kind
        assert block.seen is not None
        seen = block.seen

        def none(*kinds: str) -> ir.Value:
            return e.compare("eq", e.arith("arith.andi", seen, e.i32(sum(SEEN[x] for x in kinds))), e.i32(0))

        with e.region("tile.when", [e.negated(e.op("tile.are_alike", [i1], [kind, seen]).result)]):
            ordinary = none("not ordinary", "zero")
            low = e.arith("arith.andi", e.negated(ordinary), none("not low", "zero"))
            e.op("tile.turn_addends", operands=[kind, low, block.accumulator])
            mixed = e.negated(e.arith("arith.ori", ordinary, low))
            with e.region("tile.when", [mixed]):
                with e.region("tile.when", [e.negated(none("not ordinary"))]):
                    c.go(h, cursor, block, go, Made("small"))
                    c.arrive(block)
                    c.promote(block, go, factors, -SMALL_SHIFT)
                c.go(h, cursor, block, go, Made("ordinary"))
                c.arrive(block)
            with e.region("tile.when", [e.negated(mixed)]):
                c.go(h, cursor, block, go, self.made(seen))
                c.arrive(block)
        c.promote(block, go, factors)

    def end(self, sums: ir.Value) -> None:
        self.e.op("tile.end_addends", operands=[self.kind, sums])


class Lone(Addends):
    """One of each, as of ue8m0: of a power of two for all of a block, by which its sums are promoted, or if its scales
    are further apart than an e4m3 reaches, without any, so that sums of each scale are promoted by themselves."""

    def seen(self, h: Handles, cursor: ir.Value) -> ir.Value:
        operands, powers = [h.scale_tiles[self.side.label], cursor], [self.e.type("powers")]
        return self.e.op("tile.seen_powers", powers, operands, warps=self.c.scale_warps[1]).result

    def made(self, seen: ir.Value | None) -> Made:
        return Made("power", seen)

    def promote(self, h: Handles, cursor: ir.Value, block: Block, go: Go, factors: Both) -> None:
        e, c, factor = self.e, self.c, [self.e.type("factors")]
        assert block.seen is not None
        assert factors[0] is None
        reaches = e.op("tile.in_reach", [ir.IntegerType.get_signless(1)], [block.seen]).result
        relay = e.op("tile.start_relay", [e.type("relay")]).result
        power = e.op("tile.power_factors", factor, [block.seen]).result
        e.op("tile.leave", operands=[relay, power])
        with e.region("tile.when", [e.negated(reaches)]):
            self.parts(h, cursor, block, go, factors)
            e.op("tile.leave", operands=[relay, e.op("tile.power_factors", factor, [None]).result])
        c.promote(block, go, (e.op("tile.left", factor, [relay]).result, factors[1]))

    def parts(self, h: Handles, cursor: ir.Value, block: Block, go: Go, factors: Both) -> None:
        """Sums of each scale by themselves; those of the last one, times these, in the place of all."""
        e, c, scale = self.e, self.c, self.side.operand.folded
        assert scale is not None
        depth, of = c.schedule.tile[2] // go.slices, [h.scale_tiles[self.side.label], cursor]
        count, alone = max(1, depth // scale.k), slices_of(c.problem, c.schedule) // go.slices
        alone = 1 if interleaves(c.problem, c.schedule) else min(count, alone)  # parts that are multiplied alone
        for number in range(count):
            byte = (go.slice_ * depth + number * scale.k) // scale.k
            part, only = go.part(number * alone // count, alone), byte if alone < count else None
            c.go(h, cursor, block, part, Made("plain", only=only))
            where: dict[str, Any] = {"byte": byte, "wave": go.wave, "waves": c.waves}
            own = e.op("tile.word_factors", [e.type("factors")], of, element=scale.type, **where).result
            c.arrive(block)
            if number < count - 1:
                c.promote(block, part, (own, factors[1]))
            else:
                e.op("tile.multiply_rows", operands=[block.partial, own])


def addends_of(c: Multiplier) -> Addends | None:
    """Those of a consumer, None where it multiplies no sums."""
    kinds = {1: Lone, 2: Pairs}
    return kinds[count](c) if (count := c.sides[0].operand.addends) else None
