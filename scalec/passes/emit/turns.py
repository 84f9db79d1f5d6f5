"""Warpgroups that take whole tiles by turns: what each passes over."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.passes.emit.frame import Frame
from scalec.passes.emit.handles import Handles
from scalec.passes.plan.windows import WINDOW


class Turns:
    """What the stages and windows of other warpgroups' tiles are to a warpgroup's positions: to be skipped.

    Nothing where the warpgroups share each tile.
    """

    def __init__(self, frame: Frame, h: Handles) -> None:
        self.frame, self.h, self.ring = frame, h, h.ring
        if frame.turns == 1:
            return
        e, depth = frame.e, frame.schedule.tile[2]
        blocks = e.arith("arith.divui", e.arith("arith.addi", frame.length(h), e.i32(depth - 1)), e.i32(depth))
        self.blocks = blocks
        self.mine = e.op("tile.warpgroup", [ir.IntegerType.get_signless(32)]).result
        turn = e.cursor(frame.turns)
        e.op("tile.skip", operands=[turn, self.mine])
        h.ring = h.filled = e.op("tile.of_turn", [e.type("stages")], [self.ring, turn]).result

    def cursor(self) -> ir.Value:
        """A position in the ring of stages, at the first of this warpgroup's first tile."""
        e, frame = self.frame.e, self.frame
        self.stage = e.cursor(frame.schedule.stages)
        if frame.turns > 1:
            e.op("tile.skip", operands=[self.stage, e.arith("arith.muli", self.mine, self.blocks)])
        return self.stage

    def window(self) -> ir.Value | None:
        """Likewise in the ring of windows, if there is one."""
        self.place = self.frame.window()
        if self.place is not None and self.frame.turns > 1:
            count = self.frame.e.arith("arith.muli", self.mine, self.windows_of_tile())
            self.frame.e.op("tile.skip_windows", operands=[self.place, count])
        return self.place

    def windows_of_tile(self) -> ir.Value:
        """Windows that a tile's K blocks are in."""
        e = self.frame.e
        return e.arith("arith.divui", e.arith("arith.addi", self.blocks, e.i32(WINDOW - 1)), e.i32(WINDOW))

    def pass_on(self) -> None:
        """After a tile: on to this warpgroup's next."""
        e, others = self.frame.e, self.frame.turns - 1
        if not others:
            return
        stages = e.arith("arith.muli", self.blocks, e.i32(others))
        e.op("tile.skip", operands=[self.stage, stages])
        if self.place is not None:
            windows = e.arith("arith.muli", self.windows_of_tile(), e.i32(others))
            e.op("tile.skip_windows", operands=[self.place, windows])

    def end(self) -> None:
        """The ring is that of all roles again."""
        if self.frame.turns > 1:
            self.h.ring = self.h.filled = self.ring
