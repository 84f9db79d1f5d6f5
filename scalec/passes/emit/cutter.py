"""The warp that changes K blocks that copies brought, before others multiply them: where sums run over a range of K it
leaves what lies in that, and it interleaves what is multiplied with registers."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.ir.tile import CHUNK
from scalec.ir.tile_cut import PAIRS_APART
from scalec.passes.emit.gatherer import Gatherer
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.converted import interleaves, interleaves_ahead
from scalec.passes.plan.items import changes_blocks, cut_warp


class Cutter(Gatherer):
    """K blocks begin where those of all of K do, as their scales do, or where groups are apart, where the range does.
    So the last of a range, and of the former the first, may reach beyond it. What is there, of whoever else's, becomes
    zero in both operands, as zero times NaN is NaN: where the copies of a stage have arrived, by a warp that then
    passes it on. Whoever multiplies sees whole stages alone. Where a range begins behind what copies bring, which is
    whole chunks, the same warp puts the end of each K block in the place of what lies before it (`Operand.wrapped`).

    Where A is multiplied out of registers, a thread needs four bytes of each 16 of a row of what is made of it. The
    warp puts those of B elsewhere, so that they are of elements of A that are adjacent (`interleaves`)."""

    def handles(self) -> Handles:
        """The barriers where the copies of such a stage complete, too."""
        h = super().handles()
        if changes_blocks(self.problem, self.schedule):
            h.cut_ring = self.ring("cut_barriers", "tile.cut_ring", depth=self.schedule.stages, full=self.copiers)
        return h

    @property
    def copiers(self) -> int:
        """Arrivals of those who copy operands into a stage, in whose place the warp arrives."""
        return 1 + self.landing_warps

    def takers(self, scale_warps: int) -> int:
        """This warp, too."""
        return super().takers(scale_warps) + changes_blocks(self.problem, self.schedule)

    def inside(self, w: Work, k0: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Where the range begins and ends in the K block at element `k0` of the tensors, and how many elements of the
        block it has."""
        e, depth = self.e, self.e.i32(self.schedule.tile[2])
        assert w.k_low is not None
        assert w.k_high is not None
        low, high = (
            e.op("tile.clamp", [k0.type], [e.arith("arith.subi", x, k0), e.i32(0), depth]).result
            for x in (w.k_low, w.k_high)
        )
        return low, high, e.arith("arith.subi", high, low)

    def wraps(self, w: Work) -> ir.Value | None:
        """Whether a tile's K blocks begin where no copy does; None where none does."""
        if not self.problem.wraps or w.k0 is None or w.k_low is None:
            return None
        return self.e.compare("lt", w.k0, w.k_low)

    def detour(self, h: Handles, w: Work, k0: ir.Value) -> ir.Value:
        """The ring as who copies the K block at element `k0` of the tensors sees it."""
        e = self.e
        if h.cut_ring is None:
            return h.filled
        condition = []
        if not self.interleaves:
            _, _, count = self.inside(w, k0)
            condition = [e.compare("lt", count, e.i32(self.schedule.tile[2]))]
        if (wrapped := self.wraps(w)) is not None:
            condition = [e.arith("arith.ori", *condition, wrapped)]
        return e.op("tile.detour", [e.type("stages")], [h.filled, h.cut_ring, condition]).result

    def cut_blocks(self, h: Handles) -> None:
        """The role of the warp."""
        if h.cut_ring is None:
            return
        e = self.e
        with e.region("tile.warp", index=cut_warp(self.problem), count=1, elected=0):
            cursor = e.cursor(self.schedule.stages)
            with self.over_all_tiles(h) as w:
                if self.interleaves:
                    self.interleave_blocks(h, cursor, w)
                elif (wrapped := self.wraps(w)) is not None:
                    self.wrap_blocks(h, cursor, w, wrapped)
                else:
                    self.cut_alone(h, cursor, w)

    @property
    def interleaves(self) -> bool:
        """Whether it changes the order of all K blocks."""
        return interleaves(self.problem, self.schedule)

    def interleave_blocks(self, h: Handles, cursor: ir.Value, w: Work) -> None:
        """The K blocks of a tile, B's rows of each."""
        e, a = self.e, self.problem.lhs
        apart = a.element.bits == PAIRS_APART * a.stored.bits
        ahead = interleaves_ahead(self.problem, self.schedule)
        with self.over_k(w):
            e.op("tile.wait", operands=[h.cut_ring, cursor])
            e.op("tile.interleave_k", operands=[h.tiles["B"], cursor], apart=apart, ahead=ahead)
            self.pass_on(h, cursor)
            e.op("tile.advance", operands=[cursor])

    def cut_alone(self, h: Handles, cursor: ir.Value, w: Work) -> None:
        """The K blocks of a tile, of which those that reach beyond the range are cut."""
        e, depth = self.e, self.e.i32(self.schedule.tile[2])
        with self.over_k(w) as k:
            low, high, count = self.inside(w, self.at_k(w, k))
            with e.region("tile.when", [e.compare("lt", count, depth)]):
                e.op("tile.wait", operands=[h.cut_ring, cursor])
                self.cut_stage(h, cursor, w, low, high)
                self.pass_on(h, cursor)
                e.op("tile.advance", operands=[cursor])
            whole = e.arith("arith.subi", depth, e.i32(1))
            with e.region("tile.when", [e.compare("lt", whole, count)]):
                e.op("tile.skip", operands=[cursor, e.i32(1)])

    def pass_on(self, h: Handles, cursor: ir.Value, lag: int = 0) -> None:
        """A stage, or the one before it, to those who multiply."""
        self.e.op("tile.pass_on", operands=[h.filled, cursor], arrivals=self.copiers, lag=lag or None)

    def wrap_blocks(self, h: Handles, cursor: ir.Value, w: Work, wrapped: ir.Value) -> None:
        """The K blocks of a tile where any may begin behind what copies bring, as they do if they are `wrapped`. Then
        each stage that has come has the end of the block before, which is whole then. The last has that of its own, or
        is left over."""
        e, depth, one = self.e, self.schedule.tile[2], self.e.i32(1)
        assert w.k0 is not None
        assert w.k_low is not None
        shift = e.arith("arith.subi", w.k_low, w.k0)
        before = e.arith("arith.andi", e.arith("arith.subi", w.k, one), e.i32(-depth))  # the last
        end = e.arith("arith.subi", w.k, before)
        with e.region("tile.when", [wrapped]):
            e.op("tile.wait", operands=[h.cut_ring, cursor])
            with self.over_k(w, start=depth) as k:
                e.op("tile.advance", operands=[cursor])
                e.op("tile.wait", operands=[h.cut_ring, cursor])
                high = e.arith("arith.subi", w.k, k)
                for side in self.sides:
                    operands = [h.tiles[side.label], cursor, shift, high]
                    e.op("tile.wrap_k", operands=operands, bits=side.operand.shared_bits)
                self.pass_on(h, cursor, lag=1)
        with e.region("tile.when", [e.negated(wrapped)]):
            e.op("tile.skip", operands=[cursor, e.arith("arith.divui", before, e.i32(depth))])
        cut = e.compare("lt", end, e.i32(depth))
        with e.region("tile.when", [e.arith("arith.andi", cut, e.negated(wrapped))]):
            e.op("tile.wait", operands=[h.cut_ring, cursor])
        cut = e.arith("arith.ori", cut, wrapped)
        with e.region("tile.when", [cut]):
            with e.region("tile.when", [e.negated(self.left_over(w))]):
                self.cut_stage(h, cursor, w, shift, end)
            self.pass_on(h, cursor)
            e.op("tile.advance", operands=[cursor])
        with e.region("tile.when", [e.negated(cut)]):
            e.op("tile.skip", operands=[cursor, one])

    def cut_rooms(self, h: Handles, rooms: dict[str, ir.Value], w: Work, k0: ir.Value) -> None:
        """Likewise the scales of the K block at element `k0` of the tensors that threads have in registers, where these
        are several of a row."""
        units: dict[str, tuple[str, int]] = {}
        for side in self.sides:
            scale, plan = self.row_scale(side), self.byte_plan(side)
            if plan is not None:
                units[side.label] = "tile.cut_bytes", plan.unit
            elif scale is not None and (several := scale.within(self.schedule.tile[2])) > 1:
                units[side.label] = "tile.cut_scales", self.schedule.tile[2] // several
        own = [(piece, units[piece[0]]) for piece in rooms if piece[0] in units]
        if h.cut_ring is None or self.interleaves or not own:
            return
        low, high, count = self.inside(w, k0)
        with self.e.region("tile.when", [self.e.compare("lt", count, self.e.i32(self.schedule.tile[2]))]):
            for piece, (name, unit) in own:
                self.e.op(name, operands=[rooms[piece], low, high], unit=unit)

    def cut_stage(self, h: Handles, cursor: ir.Value, w: Work, low: ir.Value, high: ir.Value) -> None:
        """Both operands, as copies brought them, and the scales that came with them."""
        for side in self.sides:
            operand = side.operand
            bits, stored = operand.stored.bits, operand.stored.bits if operand.converted else operand.shared_bits
            tile, shift = h.stored.get(side.label, h.tiles[side.label]), self.shift(operand, w)
            bounds = [x if shift is None else self.e.arith("arith.addi", x, shift) for x in (low, high)]
            mn, tiles = int(operand.stored_mn_major), [tile]
            if operand.turned:  # strips lie one behind the other, each of all of the block's K
                tiles = [self.turned_strip(h, side, number) for number in range(len(side.strips))]
            for own in tiles:
                self.e.op("tile.cut_k", operands=[own, cursor, *bounds], each=8 * CHUNK // stored, bits=bits, mn=mn)
            plan = self.word_plan(side)
            if plan is not None and plan.bulk:
                operands = [h.scale_tiles[side.label], cursor, low, high]
                self.e.op("tile.cut_words", operands=operands, unit=plan.unit)
