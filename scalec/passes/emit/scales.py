"""How each side's scales travel: with the stages, ahead of them in windows, or through registers of threads."""

from __future__ import annotations

from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.tensors import Tensors, Work
from scalec.passes.plan.resources import scale_copy, scales_threaded, threaded
from scalec.passes.plan.shared_memory import SharedPlan
from scalec.passes.plan.windows import WINDOW
from scalec.passes.plan.words import WordPlan
from scalec.passes.problem.operand import Scale


class Scales(Tensors):
    """The scales of operands in a kernel that is being built."""

    schedule: Schedule
    plan: SharedPlan
    sides: tuple[Side, Side]
    pairs: tuple[tuple[Side, Side], ...]

    @staticmethod
    def strip_rows(side: Side) -> int:
        """Rows whose scales one copy brings: those of a strip, or of the tile, whoever copies its operand."""
        return side.strips[0].rows if len(side.strips) > 1 else side.rows

    def map_scales(
        self,
        h: Handles,
        side: Side,
        scale: Scale,
        box: tuple[int, ...],
        axes: tuple[int, ...],
        stored: ir.Type,
        swizzle: int = 0,
        **more: Any,
    ) -> None:
        """The tensor maps of a side's scale, one of each contraction's, and of each product's that is added up."""
        place = side.operand.scales.index(scale)
        for own in (x[self.sides.index(side)] for x in self.pairs):
            for pane, operand in enumerate(own.operand.panes):
                source = self.map_of(operand.scales[place], box, axes, swizzle=swizzle, **more)
                made = self.e.descriptor(box, stored, swizzle)
                h.maps[own.map_of(pane, "_scale")] = self.e.parameter(self.body, made, source)

    def row_scale(self, side: Side) -> Any:
        """The side's promoted `Scale` with one value a row, varying along K, or None: it travels with the stages."""
        return next((x for x in side.operand.promoted if x.rows == 1), None)

    def block_scale(self, side: Side) -> Any:
        """The side's promoted `Scale`, uniform over blocks of rows, varying along K, or None: it is fetched ahead."""
        return next((x for x in side.operand.promoted if x.rows != 1), None)

    def word_plan(self, side: Side) -> WordPlan | None:
        """The side's scale bytes, where the tensor core applies them."""
        return WordPlan.of(self.problem, side.operand, self.schedule)

    def byte_plan(self, side: Side) -> WordPlan | None:
        """The side's scales of a byte that threads bring, if any: for the tensor core, or for promotion."""
        plan = self.word_plan(side)
        return plan if plan is not None else WordPlan.promoted(self.problem, side.operand, self.schedule)

    def copy_of(self, side: Side) -> str:
        """How the side's row scale reaches shared memory ("vector", "window" or "thread"), "" where it has none."""
        scale = side.operand.by_row
        return "" if scale is None else scale_copy(self.problem, scale, self.schedule)

    def threaded(self, side: Side) -> bool:
        """Whether lanes copy the side's scales of single rows, or its zero points."""
        return threaded(self.problem, side.operand, self.schedule)

    def scales_threaded(self, side: Side) -> bool:
        """Likewise, and not its zero points alone."""
        return scales_threaded(self.problem, side.operand, self.schedule)

    def window(self) -> ir.Value | None:
        """A position in the ring of windows, where scales come by windows."""
        for side in self.sides:
            if self.copy_of(side) == "window":
                slots = self.plan[f"{side.label}_scale"].stages
                return self.e.op("tile.windows", [self.e.type("window")], blocks=WINDOW, slots=slots).result
        return None

    def open_window(self, h: Handles, w: Work, window: ir.Value) -> None:
        """A new window, and where a part begins within it, the part's first K block."""
        e = self.e
        e.op("tile.open_window", operands=[window])
        if w.k0 is not None:
            scale = next(self.row_scale(side) for side in self.sides if self.copy_of(side) == "window")
            k0, _ = self.scale_k(h, scale, w, w.k0)
            e.op("tile.skip_blocks", operands=[window, e.arith("arith.divui", k0, e.i32(self.schedule.tile[2]))])
