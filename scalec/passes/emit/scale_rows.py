"""Scales that threads bring, row by row, by way of registers: what no tensor copy brings as it has to be."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from typing import Any

from scalec.formats import ALL, ELEMENT_TYPES, WHOLE
from scalec.ir.mlir import ir
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.items import Dealer
from scalec.passes.emit.sums import Point
from scalec.passes.emit.tensors import Work
from scalec.passes.emit.zero_rows import ZeroRows
from scalec.passes.plan.converted import pairs_of, zero_planes
from scalec.passes.plan.gather import named_rows
from scalec.passes.plan.parts import part_blocks
from scalec.passes.plan.tensor_columns import word_rows
from scalec.passes.plan.words import WORD, WordPlan
from scalec.passes.problem.operand import Scale
from scalec.passes.problem.products import partly_scaled

AHEAD = 4
"""K blocks whose scales of single bytes, or several of a row, are on their way at once, or groups of such K blocks:
with one, a stage takes as long as memory takes to answer."""

BESIDE = 44
"""Registers of a producer's thread beside those. With half of the others none spilled (ptxas 13.0, 2026-11-25)."""

VECTOR = 4  # words of scale bytes that come in one load
BESIDE_VECTORS = 36, 4  # registers beside those, and for each operand more
GROUP = 2
"""K blocks whose scales travel together through registers, for one operand; half for each of two or more. Where zero
points come too, one, if two of these can be on their way at once: of bf16 by u4 less Z[n,k/128] and Z[k/128,n], m = 1,
16 and 32, n = k = 8192, 0.97, 0.98, 1.00 and 0.95, 0.96, 0.98 of the time; one, and one at once, 1.02 and 1.05 at m =
64 (H100, 2026-11-28)."""


class ScaleRows(Dealer, ZeroRows):
    """The warps that bring them to the stages."""

    def row_copies(self, h: Handles) -> None:
        """Row scales by way of registers, a group of K blocks at a time: a sector of memory holds several of a row's.

        The next groups are loaded before the wait for an empty stage, which hides their latency: as many as are
        `ahead`, each into registers of its own.
        """
        e, step = self.e, self.schedule.tile[2]
        by_name = [side for side in self.sides if side.operand.named is not None]
        threaded = [side for side in self.sides if self.scales_threaded(side) and side not in by_name]
        sides = [piece for side in threaded for piece in self.pieces(side)]
        less = self.zero_sides
        several = any(scale.within(step) > 1 for side in sides if (scale := side.operand.by_row) is not None)
        several |= any(zero_planes(self.schedule, side.operand) > 1 for side in less)
        alone = bool(self.problem.summed or self.problem.added or self.problem.k_lookups) or several
        words = max((plan.words for side in sides if (plan := self.byte_plan(side)) is not None), default=0)
        group = max(1, self.together(sides) // words) if words else 1 if alone else max(1, GROUP // max(1, len(sides)))
        if less and not words and self.groups_ahead(sides, 1) > 1:  # see GROUP
            group = 1
        of_names = {side.label: self.room_of_names(side) for side in by_name}
        cursor = e.cursor(self.schedule.stages)
        ahead = self.groups_ahead(sides, group) if words or group == 1 else 1
        rooms = [{side.piece: self.room(side, group) for side in sides} for _ in range(ahead)]
        zeros = [[(side, self.zero_room(side, group)) for side in less] for _ in range(ahead)]
        named = self.k_rows_of_warp() if self.problem.k_lookups else None
        k = self.problem.depth
        blocks = group * ahead  # of an iteration
        whole = blocks == 1 or (k is not None and k % (blocks * step) == 0)
        if self.schedule.split > 1:
            whole = all(count % blocks == 0 for count in part_blocks(self.problem, self.schedule))
        with self.over_all_tiles(h) as w:
            indices = [self.row_index(x.name, w) for x in self.problem.k_lookups]
            if named is not None:
                self.ask_k(named, indices, w, self.at_k(w))
            for side in by_name:
                self.load_named(side, of_names[side.label], indices, w, self.at_k(w))
            for side, (i, room) in product(sides, enumerate(rooms)):
                if self.gathers_scales(side):
                    self.look_up_rows(room[side.piece], side, w, w.row0[side.label])
                ahead_of = e.i32(i * group * step) if i else None
                self.load_rows(h, side, room[side.piece], w, self.at_k(w, ahead_of), group)
            for i, (side, room) in [(i, x) for i, some in enumerate(zeros) for x in some]:
                self.load_zeros(h, side, room, w, self.at_k(w, e.i32(i * group * step) if i else None))
            with self.over_k(w, step=blocks * step) as k0:
                self.cut_rooms(h, rooms[0], w, self.at_k(w, k0))
                if named is not None:
                    self.leave_out(sides, rooms[0], named, indices)
                    self.ask_k(named, indices, w, self.at_k(w, e.arith("arith.addi", k0, e.i32(step))))
                for j in range(blocks):
                    room, less, index = rooms[j // group], zeros[j // group], j % group
                    if whole or j == 0:
                        self.store_rows(h, sides, room | of_names, less, cursor, index, by_name)
                    else:
                        at = e.arith("arith.addi", k0, e.i32(j * step))
                        with e.region("tile.when", [e.compare("lt", at, w.k)]):
                            self.store_rows(h, sides, room, less, cursor, index)
                    if index == group - 1:
                        following = self.at_k(w, e.arith("arith.addi", k0, e.i32((j + 1 - group + blocks) * step)))
                        for side in sides:
                            self.load_rows(h, side, room[side.piece], w, following, group)
                        for side, room_of in less:
                            self.load_zeros(h, side, room_of, w, following)
                        for side in by_name:
                            self.load_named(side, of_names[side.label], indices, w, following)

    def leave_out(
        self, sides: list[Side], rooms: dict[str, ir.Value], named: ir.Value, indices: list[ir.Value]
    ) -> None:
        """Makes zero of the scales of a K block that are of no point that is summed, where indices along K say so: they
        may be no numbers."""
        for side in sides:
            plan, depth = self.byte_plan(side), self.schedule.tile[2]
            unit = plan.unit if plan is not None else depth // self.brought(side).within(depth)
            self.e.op("tile.cut_unnamed", [], [rooms[side.piece], named, indices], unit=unit)

    @staticmethod
    def named_scale(side: Side) -> Scale:
        """The side's scale of rows of K that are gathered."""
        scale = side.operand.named
        assert scale is not None
        return scale

    def room_of_names(self, side: Side) -> ir.Value:
        """Registers for those of a K block: rows are those of K."""
        count = side.rows // named_rows(self.named_scale(side), side.rows)
        how: dict[str, Any] = {"rows": self.schedule.tile[2], "words": -(-count // WORD), "warps": self.scale_warps[1]}
        return self.e.op("tile.byte_scales", [self.e.type("scale_bytes")], **how).result

    def load_named(self, side: Side, room: ir.Value, indices: list[ir.Value], w: Work, k0: ir.Value) -> None:
        """Loads what the K block at element `k0` has, of the rows that indices name: the tile's rows take the place of
        K, and K that of rows."""
        scale = self.named_scale(side)
        own = [x.name for x in self.problem.k_lookups].index(scale.named)
        self.ask_k(room, indices, w, k0, own=own)
        source = self.at(self.pointer(scale.name, scale.argument_index), scale.name, scale.coords, w)
        along_rows, along_k = self.strides(scale)
        place = [k0, self.size(self.problem.k), w.row0[side.label], w.row_end[side.label]]
        unit = named_rows(scale, side.rows)
        self.e.op(
            "tile.load_bytes",
            operands=[room, source, along_k, along_rows, *place, None],
            bytes=side.rows // unit,
            unit=unit,
            block=ALL if scale.rows == WHOLE else scale.rows,
            row_block=scale.k,
            layout={"row": "col", "col": "row"}[scale.layout],
            whole=0,
            pads=0,
        )

    @staticmethod
    def pieces(side: Side) -> list[Side]:
        """A side, or where its tile has strips of several operands a side for each operand."""
        panes, made = side.operand.panes, []
        if len(panes) == 1:
            return [side]
        for pane, own in enumerate(panes):
            mine, name = tuple(x for x in side.strips if x.pane == pane), f"{side.label}{pane}"
            made.append(replace(side, operand=own, rows=side.rows // len(panes), strips=mine, piece=name, of=side.rows))
        return made

    @staticmethod
    def stored_strips(side: Side) -> dict[str, Any]:
        """Where the rows of a piece of a side are in its tile, as the ops that store their scales take it."""
        first, rows = side.strips[0].first, side.strips[0].rows
        return {} if side.piece == side.label else {"strips": (first, rows, side.apart)}

    def together(self, sides: list[Side]) -> int:
        """Words of scale bytes in one load of a thread, so of several K blocks: as many as all rows have whole."""
        p, plans = self.problem, [self.byte_plan(side) for side in sides]
        words = max(plan.words if plan is not None and plan.vectors else VECTOR + 1 for plan in plans)
        group = VECTOR // words
        while group > 1 and group * self.of_block(sides) > self.spare(sides):
            group //= 2
        if VECTOR % words or p.summed or p.added or p.k_lookups or p.range_of_k is not None or p.depth is None:
            return 1
        parted = self.schedule.split > 1 and any(count % group for count in part_blocks(p, self.schedule))
        return 1 if parted or p.depth % (group * self.schedule.tile[2]) else group * words

    def groups_ahead(self, sides: list[Side], group: int) -> int:
        """Groups of K blocks whose scales are on their way at once: as many as threads have registers for. Ranges of K,
        and sums over several indices, cut or look up each block's for themselves."""
        p = self.problem
        if p.summed or p.added or p.k_lookups or p.range_of_k is not None or any(map(self.gathers_scales, sides)):
            return 1
        spare = self.spare(sides) if group > 1 else (self.schedule.registers[0] - BESIDE) // 2
        return max(1, min(AHEAD, spare // (group * self.of_block(sides))))

    def spare(self, sides: list[Side]) -> int:
        """Registers for words that come in vectors."""
        return self.schedule.registers[0] - BESIDE_VECTORS[0] - BESIDE_VECTORS[1] * len(sides)

    def of_block(self, sides: list[Side]) -> int:
        """Registers of a thread for all scales and zero points of one K block."""
        return sum(map(self.room_registers, sides)) + sum(map(self.zero_registers, self.zero_sides))

    def room_registers(self, side: Side) -> int:
        """Registers of a thread for the scales of one K block."""
        plan, threads = self.byte_plan(side), 32 * self.scale_warps[1]
        each = self.brought(side).within(self.schedule.tile[2]) if plan is None else plan.words
        return -(-side.rows // threads) * each

    @staticmethod
    def brought(side: Side) -> Scale:
        """The side's scale of single rows that threads bring, as f32."""
        scale = side.operand.by_row
        assert scale is not None
        return scale

    def gathers_scales(self, side: Side) -> bool:
        """Whether the scales that threads bring are those of gathered rows, and not one for all of them."""
        plan = self.byte_plan(side)
        scale = side.operand.by_row if plan is None else plan.scale
        return scale is not None and bool(scale.gathered)

    def room(self, side: Side, group: int) -> ir.Value:
        """Registers for the side's scales on their way."""
        e, plan = self.e, self.byte_plan(side)
        rows, warps = side.rows, self.scale_warps[1]
        if plan is not None:
            rows += word_rows(self.family, side.of) - side.of if plan.scale.in_mma and side.padded else 0
            made = e.op("tile.byte_scales", [e.type("scale_bytes")], rows=rows, words=group * plan.words, warps=warps)
        else:
            scale = self.brought(side)
            blocks = group * scale.within(self.schedule.tile[2])
            element: dict[str, Any] = {} if scale.type == "f32" else {"element": scale.type}
            made = e.op("tile.row_scales", [e.type("rows")], rows=rows, blocks=blocks, warps=warps, **element)
        return made.result

    def load_rows(self, h: Handles, side: Side, room: ir.Value, w: Work, k0: ir.Value, group: int = 1) -> None:
        points = self.points(h, w, k0)
        for point in points:
            own = next(x for own in point.sides for x in self.pieces(own) if x.piece == side.piece)
            plan = self.byte_plan(own)
            if plan is None and own.operand.by_row is None:
                continue  # what is there is not read, or ones
            ones = partly_scaled(self.problem) and point is points[0]
            with nullcontext() if ones else self.of_point(point):
                if plan is not None:
                    self.load_bytes(h, own, plan, room, point, group)
                else:
                    self.load_numbers(h, own, room, point)

    def load_numbers(self, h: Handles, side: Side, room: ir.Value, point: Point) -> None:
        """Those of f32, or 16 bits, of one product."""
        scale, w = self.brought(side), point.w
        align = ELEMENT_TYPES[scale.type].bits // 8
        source = self.at(self.pointer(scale.name, scale.argument_index, align), scale.name, scale.coords, w)
        strides = self.strides(scale)
        place = [w.row0[side.label], w.row_end[side.label], *self.scale_k(h, scale, w, point.k0, point.end)]
        operands = [room, source, *strides, *place, self.page_stride(scale, side.operand)]
        row_block = scale.coords[scale.axes[0]].divisor if scale.gathered else scale.spread or 1
        row_block = scale.rows if scale.folded else row_block
        row_block = ALL if row_block == WHOLE else row_block
        step = self.schedule.tile[2] // scale.within(self.schedule.tile[2])
        sizes: dict[str, Any] = {"step": step, "block": scale.k, "row_block": row_block}
        sizes["page"] = side.operand.page or None
        self.e.op("tile.load_rows", operands=operands, **sizes, **self.beyond(scale))

    def load_bytes(self, h: Handles, side: Side, plan: WordPlan, room: ir.Value, point: Point, group: int) -> None:
        """Those of a byte, of one product."""
        scale, w = plan.scale, point.w
        source = self.pointer(scale.name, scale.argument_index, align=4 if plan.whole else 0)
        source = self.at(source, scale.name, scale.coords, w)
        strides, place = self.byte_strides(scale), self.scale_k(h, scale, w, point.k0, point.end)
        row_block = scale.spread or scale.rows
        if scale.gathered and not scale.in_mma:
            row_block = scale.coords[scale.axes[0]].divisor
        row_block = ALL if row_block == WHOLE else row_block
        words, apart = min(self.together([side]), group * plan.words), self.page_stride(scale, side.operand)
        vector: dict[str, Any] = {"together": words} if words > 1 else {}
        vector["page"] = side.operand.page or None
        if side.operand.addends or partly_scaled(self.problem):
            vector["ones"] = scale.type
        self.e.op(
            "tile.load_bytes",
            operands=[room, source, *strides, *self.scale_rows(side.label, scale, w), *place, apart],
            bytes=group * plan.bytes,
            unit=plan.unit,
            block=ALL if scale.k == WHOLE else scale.k,
            row_block=row_block,
            layout=scale.layout,
            whole=int(plan.whole),
            pads=int(plan.pads),
            **vector,
        )

    def store_rows(
        self,
        h: Handles,
        sides: list[Side],
        rooms: dict[str, ir.Value],
        zeros: list[tuple[Side, ir.Value]],
        cursor: ir.Value,
        index: int,
        by_name: Sequence[Side] = (),
    ) -> None:
        e = self.e
        e.op("tile.acquire", operands=[h.ring, cursor])
        for side in by_name:
            operands = [rooms[side.label], h.scale_tiles[side.label], cursor]
            e.op("tile.store_factors", operands=operands, element=self.named_scale(side).type)
        for side in sides:
            operands, plan = [rooms[side.piece], h.scale_tiles[side.label], cursor], self.byte_plan(side)
            at = self.stored_strips(side)
            pairs = pairs_of(self.problem, self.schedule, side.operand) or None
            if plan is None:
                e.op("tile.store_rows", operands=operands, index=index, pairs=pairs, **at)
            elif plan.scale.in_mma:
                e.op("tile.store_bytes", operands=operands, **at)
            else:
                at |= {"pairs": pairs, "index": index or None}
                at |= {"words": side.operand.addends > 0}
                e.op("tile.store_factors", operands=operands, element=plan.scale.type, **at)
        for side, room in zeros:
            self.store_zeros(h, side, room, cursor, index)
        e.op("tile.commit", operands=[h.filled, cursor], warp=True)
        e.op("tile.advance", operands=[cursor])
