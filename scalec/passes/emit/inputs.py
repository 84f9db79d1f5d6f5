"""What the elementwise body reads beside the accumulator."""

from __future__ import annotations

from functools import cached_property

from scalec.ir.mlir import ir
from scalec.passes.emit.emitter import Source
from scalec.passes.emit.frame import Frame
from scalec.passes.plan.results import added_input
from scalec.passes.problem.types import EpilogueInput


class Inputs(Frame):
    """Tensors and scalars of the program that are no operands."""

    def even_columns(self) -> int:
        """1 where two adjacent columns are always both inside or both outside."""
        return int(self.problem.n.size is not None and self.problem.n.size % 2 == 0)

    @cached_property
    def added(self) -> EpilogueInput | None:
        """The result itself, where copies add to it, or it is loaded: one rounding of the same sum, and no thread reads
        memory."""
        return added_input(self.problem) if self.schedule.epilogue == "bulk" else None

    @property
    def read(self) -> list[EpilogueInput]:
        """The inputs that threads read."""
        return [x for x in self.problem.inputs if x is not self.added]

    @property
    def ahead(self) -> list[EpilogueInput]:
        """Those of which a tile reads some elements many times, behind the main loop: one for each row or column."""
        return [x for x in self.read if x.kind in ("row", "col")]

    def input(self, x: EpilogueInput) -> ir.Value:
        e, i64 = self.e, ir.IntegerType.get_signless(64)
        strides, blocks = [e.i64(0), e.i64(0)], [1, 1]
        rank = len(x.index)
        if isinstance(x.value.type, ir.RankedTensorType):
            contiguous = rank - 1 if x.layout == "row" else rank - 2
            for axis, index in enumerate(x.index):
                if not index.dim:
                    continue
                which = 0 if index.dim == self.problem.m.name else 1
                stride = (
                    e.i64(1) if axis == contiguous else e.parameter(self.body, i64, Source("stride", x.name, axis=axis))
                )
                strides[which], blocks[which] = stride, index.divisor
            by_pairs = x.kind in ("col", "both") and blocks[1] == 1 and x.index[contiguous].dim == self.problem.n.name
            pair = int(by_pairs and self.even_columns())
            align = x.element.bits // 8 * (1 + pair)
            source = self.pointer(x.name, x.argument_index, align)
        else:
            source, pair = e.parameter(self.body, ir.F32Type.get(), Source("scalar", x.name)), 0
        return e.op(
            "tile.input",
            [e.type("operand")],
            [source, *strides],
            kind=x.kind,
            row_block=blocks[0],
            column_block=blocks[1],
            pair=pair,
        ).result
