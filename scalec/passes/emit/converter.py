"""The warps that convert operands: what copies bring becomes what is multiplied, before others see the stage."""

from __future__ import annotations

from typing import Any

from scalec.ir.mlir import ir
from scalec.passes.emit.cutter import Cutter
from scalec.passes.emit.handles import Handles


class Converter(Cutter):
    """Where an operand is multiplied as another element type than it is stored in, copies fill a tile of its own, and
    complete at barriers of their own. A warpgroup waits there, converts the tile of a stage, its scales too where
    that is exact (`Scale.folded`), and passes the stage on; several take stages by turns, so that one converts while
    another waits. Whoever multiplies sees whole stages alone, and hands both tiles back at once: the one that copies
    fill was read before."""

    def handles(self) -> Handles:
        """The barriers where copies of a stage complete, too: those who fill one arrive there."""
        h = super().handles()
        if self.converters:
            e, offset = self.e, self.plan["stored_barriers"].offset
            made = e.op(
                "tile.cut_ring", [e.type("stages")], offset=offset, depth=self.schedule.stages, full=self.arrivals
            )
            h.filled = made.result
        return h

    def convert(self, h: Handles) -> None:
        """The role of these warpgroups."""
        e = self.e
        cursor = e.op("tile.cursor", [e.type("position")], depth=self.schedule.stages).result
        with self.over_tiles(h) as w, self.over_k(w):
            if self.converters == 1:
                self.convert_stage(h, cursor)
            else:
                mine = e.op("tile.own_stage", [ir.IntegerType.get_signless(1)], [cursor], of=self.converters).result
                with e.region("tile.when", [mine]):
                    self.convert_stage(h, cursor)
            e.op("tile.advance", operands=[cursor])

    def convert_stage(self, h: Handles, cursor: ir.Value) -> None:
        e = self.e
        e.op("tile.wait", operands=[h.filled, cursor])
        for side in self.sides:
            if side.operand.converted:
                factors = [h.scale_tiles[side.label]] if side.operand.folded is not None else []
                operands = [h.stored[side.label], h.tiles[side.label], cursor, *factors]
                how: dict[str, Any] = {"stored": ir.TypeAttr.parse(side.operand.stored.mlir)}
                if side.operand.turned:
                    how["turned"] = ir.UnitAttr.get()
                e.op("tile.convert", operands=operands, segments=(1, 1, 1, len(factors)), **how)
        e.op("tile.pass_on", operands=[h.ring, cursor])
        if self.family.sums_in == "tensor":  # which hands stages back behind its own reads alone
            e.op("tile.release", operands=[h.ring, cursor], segments=(1, 1, 0), lag=0)
