"""The warps that convert operands: what copies bring becomes what is multiplied, before others see the stage."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from scalec.formats import ALL, WHOLE
from scalec.ir.mlir import ir
from scalec.ir.tile import FoldsType
from scalec.ir.tile_convert import rows_of_thread
from scalec.passes.emit.body import copied
from scalec.passes.emit.cutter import Cutter
from scalec.passes.emit.emitter import Source, attribute
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.tensors import Work
from scalec.passes.problem.operand import Fold
from scalec.passes.problem.reductions import is_op

Folding = dict[str, list[ir.Value]]
"""By side, registers for what it is reduced to: `tile.folds`, in the order of the operand's."""


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
        with self.over_tiles(h) as w:
            writes = {side.label: self.writes_folds(side, w) for side in self.sides if side.operand.folds}
            if not writes:
                self.convert_tile(h, cursor, w)
                return
            some, *others = writes.values()  # None: each tile does
            for other in others:
                some = None if some is None or other is None else e.arith("arith.ori", some, other)
            if some is None:
                self.fold_tile(h, cursor, w, writes)
                return
            with e.region("tile.when", [some]):
                self.fold_tile(h, cursor, w, writes)
            with e.region("tile.when", [e.arith("arith.xori", some, e.i1(1))]):
                self.convert_tile(h, cursor, w)

    def convert_tile(self, h: Handles, cursor: ir.Value, w: Work, folds: Folding | None = None) -> None:
        """All stages of a tile, from which terms go to `folds`."""
        e = self.e
        with self.over_k(w) as k:
            if self.converters == 1:
                self.convert_stage(h, cursor, w, k, self.terms_inside(h, w, k) if folds else None, folds or {})
            else:
                mine = e.op("tile.own_stage", [ir.IntegerType.get_signless(1)], [cursor], of=self.converters).result
                with e.region("tile.when", [mine]):
                    self.convert_stage(h, cursor, w, k)
            e.op("tile.advance", operands=[cursor])

    def fold_tile(self, h: Handles, cursor: ir.Value, w: Work, writes: dict[str, ir.Value | None]) -> None:
        """Likewise of a tile that writes folds: of a side where it is so, or always."""
        e, folds = self.e, {}
        sides = [side for side in self.sides if side.label in writes]
        for side in sides:
            made = FoldsType.get(attribute(rows_of_thread(side.copied, side.swizzle)))
            folds[side.label] = [e.op("tile.folds", [made], kind=x.kind).result for x in side.operand.folds]
        self.convert_tile(h, cursor, w, folds)
        for side in sides:
            written = writes[side.label]
            with nullcontext() if written is None else e.region("tile.when", [written]):
                for fold, room in zip(side.operand.folds, folds[side.label], strict=True):
                    self.store_fold(h, side, fold, room, w)

    def writes_folds(self, side: Side, w: Work) -> ir.Value | None:
        """Whether a tile is the one, of those that have the same rows of a side, that writes what they are reduced to:
        that of the first rows of the other side, and of each dimension that the side has not. None: each is."""
        e, p = self.e, self.problem
        other, along = (w.n0, p.n) if side.label == "A" else (w.m0, p.m)
        extent = self.schedule.tile[1 if side.label == "A" else 0]
        own = {c.dim for c in side.operand.folds[0].coords}
        firsts = [w.outer[d.name] for d in p.outer if d.name not in own]
        if along.size is None or along.size > extent:
            firsts.append(other)
        found = None
        for first in firsts:
            one = e.compare("eq", first, e.i32(0))
            found = one if found is None else e.arith("arith.andi", found, one)
        return found

    def terms_inside(self, h: Handles, w: Work, k: ir.Value) -> ir.Value | None:
        """Elements of K that there are from element `k` of a tile's on; None where stages have no others. Where an
        operand is empty, and zeros are walked in its place, none."""
        e, p = self.e, self.problem
        if p.depth and p.k.size and p.k.size % self.schedule.tile[2] == 0:
            return None
        _, k0 = self.at_point(h, w, self.at_k(w, k))
        size = self.own_size(p.k)
        for d in p.summed:
            size = e.arith("arith.muli", size, e.arith("arith.minui", self.own_size(d), e.i32(1)))
        return e.arith("arith.subi", size, k0)

    def transform(
        self, h: Handles, side: Side, cursor: ir.Value, inside: ir.Value | None, into: list[ir.Value]
    ) -> None:
        """Converts a side's tile of a stage, and takes terms of its elements into these folds."""
        e, f32, operand = self.e, ir.F32Type.get(), side.operand
        bodies = [self.term_of(fold) for fold in operand.folds] if into else []
        scalars = {x: None for body in bodies for x in self.scalars_of(body)}
        operands = [h.stored[side.label], h.tiles[side.label], cursor, *([] if inside is None else [inside])]
        with e.region(
            "tile.transform",
            [*operands, *into, *map(self.scalar, scalars)],
            (f32,) * (1 + len(scalars)),
            segments=(1, 1, 1, int(inside is not None), len(into), len(scalars)),
            stored=ir.TypeAttr.parse(operand.stored.mlir),
        ) as block:
            element, *rest = block.arguments
            known = dict(zip(scalars, rest, strict=True))
            e.op("tile.yield", operands=[self.inlined(body, element, known) for body in bodies])

    def store_fold(self, h: Handles, side: Side, fold: Fold, room: ir.Value, w: Work) -> None:
        """Writes a fold of the tile's rows."""
        e, f32 = self.e, ir.F32Type.get()
        final = self.returned(fold.index).owner.opview
        memory = e.memory(self.returned(fold.index).type)
        target = e.parameter(self.body, memory, Source("pointer", fold.name, align=fold.element.bits // 8))
        target = self.at(target, fold.name, fold.coords, w)
        axis = [c.dim for c in fold.coords].index(side.operand.rows)
        stride = e.i64(1) if axis == len(fold.coords) - 1 else self.stride(fold.name, axis)
        scalars = self.scalars_of(final)
        place = [w.row0[side.label], w.row_end[side.label], stride]
        operands = [room, target, h.tiles[side.label], *place, *map(self.scalar, scalars)]
        segments = (1,) * 6 + (len(scalars),)
        with e.region("tile.store_folds", operands, (f32,) * (1 + len(scalars)), segments=segments) as block:
            element, *rest = block.arguments
            e.op("tile.yield", operands=[self.inlined(final, element, dict(zip(scalars, rest, strict=True)))])

    def term_of(self, fold: Fold) -> Any:
        """The `scale.map` that computes the terms of a fold; None where these are the elements themselves."""
        final = self.returned(fold.index).owner.opview
        sources = [view.owner.opview.source for view in final.views]
        reduce = next(x.owner.opview for x in sources if is_op(x, "scale.reduce"))
        return reduce.input.owner.opview if is_op(reduce.input, "scale.map") else None

    @staticmethod
    def scalars_of(op: Any) -> list[ir.Value]:
        """The scalars that a `scale.map` reads."""
        sources = [view.owner.opview.source for view in op.views] if op is not None else []
        return [x for x in sources if not isinstance(x.type, ir.RankedTensorType)]

    def scalar(self, value: ir.Value) -> ir.Value:
        """A scalar argument of the function, as a parameter."""
        facts = self.function.attributes["arg_attrs"][list(self.function.body.blocks[0].arguments).index(value)]
        name = next(ir.StringAttr(x.attr).value for x in facts if x.name == "scale.name")
        return self.e.parameter(self.body, ir.F32Type.get(), Source("scalar", name))

    @staticmethod
    def inlined(op: Any, element: ir.Value, scalars: dict[ir.Value, ir.Value]) -> ir.Value:
        """What the body of a `scale.map` computes of an element and scalars, in f32; of no map the element."""
        if op is None:
            return element
        block = op.body.blocks[0]
        sources = [view.owner.opview.source for view in op.views]
        values = {a: scalars.get(x, element) for a, x in zip(block.arguments, sources, strict=True)}
        for inner in block.operations:
            operands = [values[v] for v in inner.operation.operands]
            if inner.operation.name == "scale.yield":
                return operands[0]
            rounds = inner.operation.name in ("arith.extf", "arith.truncf")
            values[inner.result] = operands[0] if rounds else copied(inner, operands)
        raise AssertionError("the verifier of scale.map asks for a scale.yield")

    def convert_stage(
        self,
        h: Handles,
        cursor: ir.Value,
        w: Work,
        k: ir.Value,
        inside: ir.Value | None = None,
        folds: Folding | None = None,
    ) -> None:
        """Of the K block at `k`. Zero points are asked for before the wait, which hides how long they take."""
        e = self.e
        zeros = {side.label: self.zero_points(h, side, w, k) for side in self.sides if side.operand.zeros is not None}
        e.op("tile.wait", operands=[h.filled, cursor])
        for side in self.sides:
            if side.operand.folds and (folds or side.operand.stored == side.operand.element):
                self.transform(h, side, cursor, inside, (folds or {}).get(side.label, []))
            elif side.operand.converted:
                factors = [h.scale_tiles[side.label]] if side.operand.folded is not None else []
                less = [zeros[side.label]] if side.label in zeros else []
                operands = [h.stored[side.label], h.tiles[side.label], cursor, *factors, *less]
                how: dict[str, Any] = {"stored": ir.TypeAttr.parse(side.operand.stored.mlir)}
                if side.operand.turned:
                    how["turned"] = ir.UnitAttr.get()
                e.op("tile.convert", operands=operands, segments=(1, 1, 1, len(factors), len(less)), **how)
        e.op("tile.pass_on", operands=[h.ring, cursor])
        if self.family.sums_in == "tensor":  # which hands stages back behind its own reads alone
            e.op("tile.release", operands=[h.ring, cursor], segments=(1, 1, 0), lag=0)

    def zero_points(self, h: Handles, side: Side, w: Work, k: ir.Value) -> ir.Value:
        """Those of a side, in registers of the threads that convert it."""
        e, zeros = self.e, side.operand.zeros
        assert zeros is not None
        kind, target = [e.type("subtrahends")], h.tiles[side.label]
        if not zeros.name:
            return e.op("tile.zero_points", kind, [target], segments=(1, 0, 0, 0), number=zeros.number).result
        w, k0 = self.at_point(h, w, self.at_k(w, k))
        source = self.at(self.pointer(zeros.name, zeros.argument_index), zeros.name, zeros.coords, w)
        last = len(zeros.coords) - 1
        strides = [
            e.i64(0) if axis is None else e.i64(1) if axis == last else self.stride(zeros.name, axis)
            for axis in zeros.axes
        ]
        place = [self.copied_row(h, side, w.row0[side.label]), w.row_end[side.label], k0, h.k]
        blocks = {"row_block": zeros.rows, "k_block": zeros.k}
        how: dict[str, Any] = {name: ALL if block == WHOLE else block for name, block in blocks.items()}
        if zeros.contiguous:
            how["along"] = zeros.contiguous
        operands = [target, source, *strides, *place]
        return e.op("tile.zero_points", kind, operands, segments=(1, 1, 2, 4), **how).result
