"""The warpgroup that copies rows which an index names, where no tensor copy brings several of them at once."""

from __future__ import annotations

from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.tile import CHUNK
from scalec.ir.tile_gather import line_of
from scalec.ir.tile_types import bits_of, element_of, shape_of, swizzle_of
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.operand_bodies import OperandBodies
from scalec.passes.emit.sums import Point
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.gather import copied_by_threads, gatherers, scales_copied_by_threads, whole_tiles
from scalec.passes.plan.items import free_warps
from scalec.passes.plan.warps import WARPS
from scalec.targets import WARPGROUP


class Gatherer(OperandBodies):
    """Its threads look up the indices of a tile's rows when it begins, each those of the rows that it copies, and fill
    a stage as soon as that is empty: of the operand, and of its scales where these have one for each row. Its copies
    complete at barriers of their own. A warp waits there, makes them seen by the tensor core, and hands them over: no
    fence then waits for copies that are on their way. Who copies the other operand fills the same stage."""

    @property
    def by_threads(self) -> list[Side]:
        """The sides whose rows it copies."""
        return [side for side in self.sides if copied_by_threads(self.problem, side.operand)]

    @property
    def landing_warps(self) -> int:
        """Warps that hand its stages over."""
        return gatherers(self.problem)

    def handles(self) -> Handles:
        """The barriers where its copies of a stage complete, too."""
        h = super().handles()
        if self.by_threads:
            full = WARPGROUP + bool(self.problem.k_lookups)  # who copies by bulk, or nothing, arrives there too
            h.landed = self.ring("row_barriers", "tile.cut_ring", depth=self.schedule.stages, full=full)
        return h

    @property
    def arrivals(self) -> int:
        return super().arrivals + self.landing_warps

    def takers(self, scale_warps: int) -> int:
        """All these warps, too."""
        return super().takers(scale_warps) + (WARPS + 1) * self.landing_warps

    def walkers(self, scale_warps: int, ctas: int) -> int:
        """All these warps, too."""
        return super().walkers(scale_warps, ctas) + ctas * (WARPS + 1) * self.landing_warps

    def detour(self, h: Handles, w: Work, k0: ir.Value) -> ir.Value:
        """The ring as who copies the K block at element `k0` of the tensors sees it."""
        return h.filled

    def gather(self, h: Handles) -> None:
        """The role of the warpgroup."""
        if self.problem.k_lookups:
            self.gather_k(h)
            return
        e, depth = self.e, self.schedule.tile[2]
        cursor = e.cursor(self.schedule.stages)
        each = [x for pair in self.pairs for x in pair if copied_by_threads(self.problem, x.operand)]
        rooms = {side.map_of(0): self.row_chunks(side) for side in each}
        scaled = [x for x in self.by_threads if scales_copied_by_threads(self.problem, x.operand, depth)]
        of_scales = {side.label: self.scale_rows_of(side) for side in scaled}
        with self.over_all_tiles(h) as w:
            for side in each:
                for room in (rooms[side.map_of(0)], of_scales.get(side.map_of(0))):
                    if room is not None:
                        self.look_up_rows(room, side, w, w.row0[side.label])
            with self.over_k(w) as k:
                points = self.points(h, w, self.at_k(w, k))
                e.op("tile.acquire", operands=[h.ring, cursor])
                for point in points:
                    with self.of_point(point):
                        for side in (x for x in point.sides if x in each):
                            self.copy_rows(h, side, rooms[side.map_of(0)], cursor, point)
                for side in scaled:
                    self.copy_row_scales(h, side, of_scales[side.label], cursor, points[0].w, points[0].k0)
                e.op("tile.land", operands=[h.landed, cursor])
                e.op("tile.advance", operands=[cursor])

    def gather_k(self, h: Handles) -> None:
        """Likewise where indices along K are read from memory: rows are those of K. It asks for the indices of a stage
        before it waits for that to be empty."""
        e, depth, lookups = self.e, self.schedule.tile[2], self.problem.k_lookups
        cursor = e.cursor(self.schedule.stages)
        extents: dict[str, Any] = {"rows": depth, "count": len(lookups)}
        rooms = {
            line: e.op("tile.k_rows", [e.type("gathered_rows")], chunks=line // CHUNK, **extents).result
            for line in {self.line(h, side) for side in self.by_threads}
        }
        with self.over_all_tiles(h) as w:
            indices = [self.row_index(x.name, w) for x in lookups]
            for room in rooms.values():
                self.ask_k(room, indices, w, self.at_k(w))
            with self.over_k(w) as k:
                e.op("tile.acquire", operands=[h.ring, cursor])
                for side in self.by_threads:
                    self.copy_k_rows(h, side, rooms[self.line(h, side)], cursor, indices, w, self.at_k(w, k))
                e.op("tile.land", operands=[h.landed, cursor])
                e.op("tile.advance", operands=[cursor])
                for room in rooms.values():
                    self.ask_k(room, indices, w, self.at_k(w, e.arith("arith.addi", k, e.i32(depth))))

    def line(self, h: Handles, side: Side) -> int:
        """Bytes of a row of K that threads copy side by side."""
        of = self.copies_into(h, side).type
        return line_of(shape_of(of)[1] * bits_of(element_of(of)) // 8, swizzle_of(of))

    def ask_k(self, room: ir.Value, indices: list[ir.Value], w: Work, k0: ir.Value, own: int | None = None) -> None:
        """Asks for what indices have for a K block, as far as it is in K and its range; for scales, of the `own`-th."""
        e = self.e
        end = self.own_size(self.problem.k)  # 0 where K is empty, of which one element is walked
        high = end if w.k_high is None else e.arith("arith.minui", w.k_high, end)
        low = e.i32(0) if w.k_low is None else w.k_low
        e.op("tile.look_up_k", [], [room, indices, k0, low, high], own=own)

    def copy_k_rows(
        self, h: Handles, side: Side, rows: ir.Value, cursor: ir.Value, indices: list[ir.Value], w: Work, k0: ir.Value
    ) -> None:
        """Rows of K of a side in a stage, from element `k0` on."""
        operand, names = side.operand, [x.name for x in self.problem.k_lookups]
        along = next(i for i, c in enumerate(operand.coords) if c.dim in (operand.gathered_k or self.problem.k.name,))
        memory = self.pointer(operand.name, operand.argument_index, align=operand.align)
        source, stride = self.at(memory, operand.name, operand.coords, w), self.stride(operand.name, along)
        place = [self.copies_into(h, side), cursor, rows, indices, k0, w.row0[side.label], w.row_end[side.label]]
        own = names.index(operand.gathered_k) if operand.gathered_k else None
        self.e.op("tile.copy_k_rows", operands=[source, stride, *place], own=own)

    def pass_rows_on(self, h: Handles) -> None:
        """The role of the warp."""
        if h.landed is None:
            return
        if self.problem.k_lookups:
            self.pass_k_rows_on(h)
            return
        e = self.e
        with e.region("tile.warp", index=free_warps(self.problem, self.schedule), count=1, elected=0):
            cursor = e.cursor(self.schedule.stages)
            with self.over_all_tiles(h) as w, self.over_k(w) as k:
                e.op("tile.wait", operands=[h.landed, cursor])
                e.op("tile.pass_on", operands=[self.detour(h, *self.at_point(w, self.at_k(w, k))), cursor])
                e.op("tile.advance", operands=[cursor])

    def pass_k_rows_on(self, h: Handles) -> None:
        """Likewise rows of K. What an operand that tensor copies bring has for those that are left out becomes zero: it
        may be no number."""
        e, depth, lookups = self.e, self.schedule.tile[2], self.problem.k_lookups
        tiles = [self.copies_into(h, side) for side in self.sides if side not in self.by_threads]
        with e.region("tile.warp", index=free_warps(self.problem, self.schedule), count=1, elected=0):
            cursor = e.cursor(self.schedule.stages)
            room = self.k_rows_of_warp()
            with self.over_all_tiles(h) as w:
                indices = [self.row_index(x.name, w) for x in lookups]
                self.ask_k(room, indices, w, self.at_k(w))
                with self.over_k(w) as k:
                    e.op("tile.wait", operands=[h.landed, cursor])
                    for tile in tiles:
                        e.op("tile.cut_k_rows", [], [tile, cursor, room, indices])
                    e.op("tile.pass_on", operands=[h.filled, cursor], arrivals=1 + self.landing_warps)
                    e.op("tile.advance", operands=[cursor])
                    self.ask_k(room, indices, w, self.at_k(w, e.arith("arith.addi", k, e.i32(depth))))

    def k_rows_of_warp(self) -> ir.Value:
        """Registers for what indices have for the rows of a K block, of a warp alone."""
        extents: dict[str, Any] = {"rows": self.schedule.tile[2], "chunks": 1, "count": len(self.problem.k_lookups)}
        return self.e.op("tile.k_rows", [self.e.type("gathered_rows")], **extents, alone=True).result

    def row_chunks(self, side: Side) -> ir.Value:
        """Registers for where the rows are."""
        operand = side.operand
        row = side.stored_row if operand.converted else operand.shared_bytes(self.schedule.tile[2])
        stride = self.stride(operand.name, operand.row_axis)
        extents: dict[str, Any] = {
            "rows": side.copied,
            "chunks": row // CHUNK,
            "bits": operand.stored.bits,
            "row_block": 1,
        }
        return self.e.op("tile.row_chunks", [self.e.type("gathered_rows")], [stride], **extents).result

    def scale_rows_of(self, side: Side) -> ir.Value:
        """Likewise for where their scales are."""
        scale = side.operand.by_row
        assert scale is not None
        extents: dict[str, Any] = {
            "rows": side.rows,
            "chunks": 1,
            "bits": 32,
            "row_block": scale.coords[scale.axes[0]].divisor,
        }
        return self.e.op("tile.row_chunks", [self.e.type("gathered_rows")], [self.strides(scale)[0]], **extents).result

    def look_up_rows(self, into: ir.Value, side: Side, w: Work, row0: ir.Value) -> None:
        """Loads the indices of the rows that are gathered, from `row0` on."""
        end, operand = w.row_end[side.label], side.operand
        index = self.row_index(operand.gathered or operand.pages, w)
        self.e.op("tile.look_up", operands=[into, index, row0, end])

    def copy_rows(self, h: Handles, side: Side, rows: ir.Value, cursor: ir.Value, point: Point) -> None:
        """The rows of a side in a stage."""
        operand, w = side.operand, point.w
        memory = self.pointer(operand.name, operand.argument_index, align=operand.align)
        source = self.at(memory, operand.name, operand.coords, w)
        operands = [source, self.copies_into(h, side), cursor, rows, point.k0, point.end]
        self.e.op("tile.copy_rows", operands=operands, whole=whole_tiles(self.problem, self.schedule.tile[2]))

    def copy_row_scales(self, h: Handles, side: Side, rows: ir.Value, cursor: ir.Value, w: Work, k0: ir.Value) -> None:
        """The scales of these rows in a stage."""
        scale, depth = side.operand.by_row, self.schedule.tile[2]
        assert scale is not None
        memory = self.pointer(scale.name, scale.argument_index, align=4)
        source, stride = self.at(memory, scale.name, scale.coords, w), self.strides(scale)[1]
        operands = [source, stride, h.scale_tiles[side.label], cursor, rows, *self.scale_k(h, scale, w, k0)]
        self.e.op("tile.copy_row_scales", operands=operands, step=depth // scale.within(depth), block=scale.k)

    @staticmethod
    def copies_into(h: Handles, side: Side) -> ir.Value:
        """The tile that copies of an operand fill."""
        return (h.stored if side.operand.converted else h.tiles)[side.label]

    def copied_row(self, h: Handles, side: Side, row0: ir.Value) -> ir.Value:
        """The first row that this CTA copies of a tile that begins at `row0`."""
        if h.pair_rank is None or side.copied == side.rows:
            return row0
        return self.e.arith("arith.addi", row0, self.e.arith("arith.muli", h.pair_rank, self.e.i32(side.copied)))
