"""Results that are added to what is there, or computed of an input in their place: a warp loads its tiles while
consumers multiply, and stores what these come to."""

from __future__ import annotations

from typing import Any

from scalec.ir.mlir import ir
from scalec.passes.emit.emitter import Source
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.loaded_inputs import LoadedInputs
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.loaded_inputs import result_warp
from scalec.passes.plan.resources import box_columns, box_rows, result_boxes
from scalec.passes.plan.streams import mean_k
from scalec.passes.problem.types import Problem


class Results(LoadedInputs):
    """The way of results through shared memory, box by box, where each first receives what is there.

    A slot of the ring has one box of each warpgroup, or warp. It is full when copies have brought what is there;
    consumers hand it back with their sums added. Then it is stored, and once the copies have read it, filled again.
    """

    @property
    def loads_results(self) -> bool:
        """Whether tiles of the result are loaded."""
        return self.schedule.adds == "loaded"

    def result_map(self, of: Problem, w: Work | None = None) -> ir.Value:
        """The result as bulk copies write it, and read it; where the tile of `w` is along the dimensions of `outer`."""
        s, result = self.schedule, of.result
        columns, rows = box_columns(of, s), box_rows(of, s)
        stored = (result.element.bytes(columns) if result.element.bits < 8 else columns, rows)
        order, box = [at.dim for at in result.coords], self.boxed(result.coords, stored)
        axes = self.axes(result.coords, order.index(result.dims[1]), order.index(result.dims[0]))
        source = Source("tensor_map", result.name, box=box, swizzle=s.swizzle_c, align=16, axes=axes)
        element = ir.Type.parse(result.element.mlir)
        made = self.e.parameter(self.body, self.e.descriptor((columns, rows), element, s.swizzle_c), source)
        return made if w is None else self.at(made, result.name, result.coords, w)

    def result_cursor(self) -> ir.Value | None:
        """A position in that ring; None where there is none."""
        return self.box_cursor(result_boxes(self.problem, self.schedule)[1]) if self.loads_results else None

    def add_to_loaded(self, h: Handles, accumulator: ir.Value) -> None:
        """Consumers: each box of the tile's sums is added to what is there, in its place; or put there, where they have
        read all of that."""
        e, boxes = self.e, result_boxes(self.problem, self.schedule)[0]
        target = self.result_map(self.problem)
        if self.input_boxes is not None:
            e.op("tile.put_result", operands=[accumulator, h.tiles["C"], target, h.result_ring])
            return
        for index in range(boxes):
            e.op("tile.wait", operands=[h.result_ring, h.result_cursor])
            operands = [accumulator, h.tiles["C"], target, h.result_ring, h.result_cursor]
            e.op("tile.add_loaded", operands=operands, index=index)
            e.op("tile.advance", operands=[h.result_cursor])

    def results(self, h: Handles) -> None:
        """One thread's: loads as many boxes ahead as have room, those of the next tile when this one's are stored."""
        if not self.loads_results:
            return
        e, (boxes, slots) = self.e, result_boxes(self.problem, self.schedule)
        wide = box_columns(self.problem, self.schedule)
        size = self.units[0] * self.units[1] * box_rows(self.problem, self.schedule) * wide
        size *= self.problem.result.element.bits // 8
        with e.region("tile.warp", index=result_warp(self.problem, self.schedule), count=1, elected=1):
            loaded, added = self.result_cursor(), self.result_cursor()
            for _ in range(slots):  # a round ahead: what is handed back is the box that is there
                e.op("tile.advance", operands=[added])
            with self.over_tiles(h) as w:
                place: dict[str, Any] = {"tile": self.walked}
                if mean_k(self.problem) is not None:
                    place["once"] = ir.UnitAttr.get()
                source = target = self.result_map(self.problem, w)
                for x in self.loaded(self.problem.result):
                    source = self.input_map(x, w)

                def load(index: int, pending: int) -> None:
                    e.op("tile.await_stores", pending=pending)
                    e.op("tile.expect", operands=[h.result_ring, loaded], bytes=size)
                    operands = [source, h.tiles["C"], h.result_ring, loaded, w.m0, w.n0]
                    e.op("tile.load_box", operands=operands, index=index, **place)
                    e.op("tile.advance", operands=[loaded])

                for index in range(slots):  # all stores of the tile before but this many are of other slots
                    load(index, slots - 1 - index)
                for index in range(boxes):
                    e.op("tile.acquire", operands=[h.result_ring, added])
                    operands = [h.tiles["C"], target, added, w.m0, w.n0]
                    e.op("tile.store_result", operands=operands, index=index, **place)
                    e.op("tile.advance", operands=[added])
                    if index + slots < boxes:
                        load(index + slots, 0)
            e.op("tile.await_stores", pending=0)  # as tile.drain
