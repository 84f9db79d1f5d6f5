"""Elementwise inputs as large as the result: a warp brings their boxes while consumers multiply."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scalec.ir.mlir import ir
from scalec.passes.emit.emitter import Source
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.inputs import Inputs
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.loaded_inputs import boxes_of, input_box, loaded_inputs, result_warp, slot_bytes
from scalec.passes.plan.resources import box_columns, box_rows, result_boxes
from scalec.passes.problem.result import EpilogueInput, Result


@dataclass(frozen=True)
class Boxes:
    """Room for boxes, its ring, how many slots both have, the columns and rows of a box, and the consumers' position;
    None before their loop over tiles. `in_place`: the room is the result's."""

    room: ir.Value
    ring: ir.Value
    slots: int
    extents: tuple[int, int]
    in_place: bool = False
    cursor: ir.Value | None = None


class LoadedInputs(Inputs):
    """A slot of the ring is full when copies have brought a box of each unit, and empty when all warps have read it, or
    have put the result in its place."""

    input_boxes: Boxes | None = None

    def handles(self) -> Handles:
        h, p, s = super().handles(), self.problem, self.schedule
        if s.inputs:
            byte, extents = ir.IntegerType.get_signless(8), input_box(p, s)
            rows = self.units[0] * self.units[1] * extents[1]
            room = self.shared("inputs", (s.inputs * rows, slot_bytes(p, s) // rows), byte, 0, 1)
            ring = self.ring("inputs_barriers", depth=s.inputs, full=1, empty=self.consumers)
            self.input_boxes = Boxes(room, ring, s.inputs, extents)
        elif s.adds == "loaded" and self.loaded(p.result):
            extents = box_columns(p, s), box_rows(p, s)
            self.input_boxes = Boxes(h.tiles["C"], h.result_ring, result_boxes(p, s)[1], extents, in_place=True)
        return h

    def begin_inputs(self) -> None:
        """Before a consumer's loop over tiles."""
        if (boxes := self.input_boxes) is not None:
            self.input_boxes = replace(boxes, cursor=self.box_cursor(boxes.slots))

    def box_cursor(self, slots: int) -> ir.Value:
        """A position in a ring of boxes."""
        return self.e.cursor(slots)

    def loaded(self, result: Result) -> list[EpilogueInput]:
        """What of a result's inputs copies bring; of a reduction nothing."""
        mine = any(r is result for r in self.problem.results)
        return loaded_inputs(self.problem, self.schedule, result) if mine else []

    def loaded_input(self, x: EpilogueInput) -> ir.Value:
        """What the body reads of it, box by box."""
        boxes = self.input_boxes
        assert boxes is not None
        element = ir.TypeAttr.get(ir.Type.parse(x.element.mlir))
        how = {"element": element, "columns": boxes.extents[0], "in_place": boxes.in_place}
        return self.e.op(
            "tile.loaded_input", [self.e.type("operand")], [boxes.room, boxes.ring, boxes.cursor], **how
        ).result

    def input_map(self, x: EpilogueInput, w: Work) -> ir.Value:
        """An input as copies read it, where the tile is along the dimensions of `outer`."""
        assert self.input_boxes is not None
        columns, rows = self.input_boxes.extents
        order, swizzle = [at.dim for at in x.coords], columns * x.element.bits // 8
        swizzle = swizzle if swizzle in self.problem.target.swizzles else 0
        axes = self.axes(x.coords, order.index(self.problem.n.name), order.index(self.problem.m.name))
        box = self.boxed(x.coords, (columns, rows))
        source = Source("tensor_map", x.name, box=box, swizzle=swizzle, align=16, axes=axes)
        kind = self.e.descriptor((columns, rows), ir.Type.parse(x.element.mlir), swizzle)
        return self.at(self.e.parameter(self.body, kind, source), x.name, x.coords, w)

    def bring_inputs(self, h: Handles) -> None:
        """One thread's: brings boxes in the order in which consumers read them, as many ahead as have room."""
        boxes, e, p, s = self.input_boxes, self.e, self.problem, self.schedule
        if boxes is None or boxes.in_place:
            return
        columns, rows = boxes.extents
        units = self.units[0] * self.units[1]
        with e.region("tile.warp", index=result_warp(p, s), count=1, elected=1):
            cursor = self.box_cursor(boxes.slots)
            with self.over_tiles(h) as w:
                for result in p.results:
                    maps = [(x, self.input_map(x, w)) for x in self.loaded(result)]
                    for index in range(boxes_of(p, s)):
                        for x, source in maps:
                            size = units * rows * columns * x.element.bits // 8
                            e.op("tile.acquire", operands=[boxes.ring, cursor])
                            e.op("tile.expect", operands=[boxes.ring, cursor], bytes=size)
                            operands = [source, boxes.room, boxes.ring, cursor, w.m0, w.n0]
                            e.op("tile.load_box", operands=operands, index=index, tile=self.walked)
                            e.op("tile.advance", operands=[cursor])
