"""The warpgroup that copies rows which an index names, where no tensor copy brings several of them at once."""

from __future__ import annotations

from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.tile import CHUNK
from scalec.passes.emit.frame import Frame
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.gather import copied_by_threads, gatherers, lag
from scalec.passes.plan.warps import WARPS


class Gatherer(Frame):
    """Its threads look up the indices of a tile's rows when it begins, each those of the rows that it copies, and fill
    each stage as soon as it is empty. A stage is handed over a few later, when its copies have landed. Who copies the
    other operand, and who brings scales, fill the same stage."""

    @property
    def by_threads(self) -> list[Side]:
        """The sides whose rows it copies."""
        return [side for side in self.sides if copied_by_threads(self.problem, side.operand)]

    @property
    def gather_arrivals(self) -> int:
        """Its arrivals at a stage: each warp's."""
        return WARPS * gatherers(self.problem)

    @property
    def arrivals(self) -> int:
        return super().arrivals + self.gather_arrivals

    def takers(self, scale_warps: int) -> int:
        """Its warps, too."""
        return super().takers(scale_warps) + self.gather_arrivals

    def walkers(self, scale_warps: int, ctas: int) -> int:
        """Its warps, too."""
        return super().walkers(scale_warps, ctas) + ctas * self.gather_arrivals

    def detour(self, h: Handles, w: Work, k0: ir.Value) -> ir.Value:
        """The ring as who copies the K block at element `k0` of the tensors sees it."""
        return h.filled

    def gather(self, h: Handles) -> None:
        """The role of the warpgroup."""
        e, s = self.e, self.schedule
        cursor = e.op("tile.cursor", [e.type("position")], depth=s.stages).result
        landing = e.op("tile.landing", [e.type("under_way")], lag=lag(s)).result
        rooms = {side.label: self.row_chunks(side) for side in self.by_threads}
        with self.over_all_tiles(h) as w:
            for side in self.by_threads:
                self.look_up_rows(rooms[side.label], side, w, w.row0[side.label])
            with self.over_k(w) as k:
                at, k0 = self.at_point(h, w, self.at_k(w, k))
                e.op("tile.acquire", operands=[h.ring, cursor])
                for side in self.by_threads:
                    self.copy_rows(h, side, rooms[side.label], cursor, at, k0)
                e.op("tile.land", operands=[landing, self.detour(h, at, k0), cursor])
                e.op("tile.advance", operands=[cursor])
        e.op("tile.land_all", operands=[landing])

    def row_chunks(self, side: Side) -> ir.Value:
        """Registers for the indices of the rows."""
        e, operand, depth = self.e, side.operand, self.schedule.tile[2]
        row = side.stored_row if operand.converted else operand.shared_bytes(depth)
        return e.op("tile.row_chunks", [e.type("gathered_rows")], rows=side.copied, chunks=row // CHUNK).result

    def look_up_rows(self, into: ir.Value, side: Side, w: Work, row0: ir.Value) -> None:
        """Loads the indices of the rows that are gathered, from `row0` on."""
        end = w.row_end[side.label]
        self.e.op("tile.look_up", operands=[into, self.row_index(side.operand.gathered, w), row0, end])

    def copy_rows(self, h: Handles, side: Side, rows: ir.Value, cursor: ir.Value, w: Work, k0: ir.Value) -> None:
        """The rows of a side in a stage."""
        p, operand = self.problem, side.operand
        memory = self.pointer(operand.name, operand.argument_index, align=operand.align)
        source = self.at(memory, operand.name, operand.coords, w)
        operands = [source, self.stride(operand.name, operand.row_axis), self.copies_into(h, side), cursor, rows, k0]
        size = p.k.size
        whole = size is not None and size % self.schedule.tile[2] == 0 and p.range_of_k is None
        how: dict[str, Any] = {"whole": ir.UnitAttr.get()} if whole else {}
        self.e.op("tile.copy_rows", operands=[*operands, h.k], bits=operand.stored.bits, **how)

    @staticmethod
    def copies_into(h: Handles, side: Side) -> ir.Value:
        """The tile that copies of an operand fill."""
        return h.stored.get(side.label, h.tiles[side.label])
