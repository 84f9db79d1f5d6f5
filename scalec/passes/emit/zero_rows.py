"""Zero points that threads bring to the stages, where consumers make what is multiplied of an operand."""

from __future__ import annotations

from typing import Any

from scalec.ir.mlir import ir
from scalec.passes.emit.converter import Converter
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.converted import added_to_zeros, brings_zeros, zero_planes


class ZeroRows(Converter):
    """The part of the warps that bring them, beside scales or alone."""

    @property
    def zero_sides(self) -> list[Side]:
        """The sides whose zero points come so."""
        return [side for side in self.sides if brings_zeros(self.problem, self.schedule, side.operand)]

    def zero_registers(self, side: Side) -> int:
        """Registers of a thread for those of one K block, and for where in a byte they are."""
        rows, planes = -(-side.rows // (32 * self.scale_warps[1])), zero_planes(self.schedule, side.operand)
        return rows * planes + (max(rows, planes) if self.packed(side) else 0)

    @staticmethod
    def packed(side: Side) -> bool:
        """Whether a byte has two."""
        return side.operand.zeros is not None and side.operand.zeros.type != "i8"

    def zero_room(self, side: Side, group: int) -> ir.Value:
        """Registers for those of a group of K blocks on their way."""
        blocks = group * zero_planes(self.schedule, side.operand)
        kind = [self.e.type("zeros")]
        return self.e.op("tile.row_zeros", kind, rows=side.rows, blocks=blocks, warps=self.scale_warps[1]).result

    def load_zeros(self, h: Handles, side: Side, room: ir.Value, w: Work, k0: ir.Value) -> None:
        """Those from the K element `k0` of a tile's on."""
        zeros = side.operand.zeros
        assert zeros is not None
        source, strides, place, how = self.place_of_zeros(h, side, zeros, self.points(h, w, k0)[0])
        step = self.schedule.tile[2] // zero_planes(self.schedule, side.operand)
        self.e.op("tile.load_zeros", operands=[room, source, strides, place], step=step, **how)

    def store_zeros(self, h: Handles, side: Side, room: ir.Value, cursor: ir.Value, index: int) -> None:
        """Those of one K block of the group, as they are subtracted."""
        operand = side.operand
        assert operand.zeros is not None
        types: dict[str, Any] = {
            "element": operand.zeros.type,
            "stored": operand.stored.name,
            "made": operand.element.name,
        }
        operands, more = [room, h.zeros[side.label], cursor], added_to_zeros(operand) + operand.zeros.number
        self.e.op("tile.store_zeros", operands=operands, index=index, added=more, **types)
