"""The warps that convert operands: what copies bring becomes what is multiplied, before others see the stage."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from scalec.formats import ALL, IN_ORDER, WHOLE, WORD_BITS
from scalec.ir.mlir import ir
from scalec.passes.emit.frame import element_in_memory
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.operand_bodies import Held
from scalec.passes.emit.sums import Point
from scalec.passes.emit.tensors import Work
from scalec.passes.emit.transformer import Transformer
from scalec.passes.plan.converted import made_smaller, registers_make, zeros_in_words
from scalec.passes.plan.panes import Strip
from scalec.passes.problem.half_bytes import cut_converted
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.zero_points import ZeroPoints


class Converter(Transformer):
    """Where an operand is multiplied as another element type than it is stored in, copies fill a tile of its own, and
    complete at barriers of their own. A warpgroup waits there, converts the tile of a stage, its scales too where
    that is exact (`Scale.folded`), and passes the stage on; several take stages by turns, so that one converts while
    another waits. Whoever multiplies sees whole stages alone, and hands both tiles back at once: the one that copies
    fill was read before."""

    def handles(self) -> Handles:
        """The barriers where copies of a stage complete, too: those who fill one arrive there."""
        h = super().handles()
        if self.converters:
            h.filled = self.ring("stored_barriers", "tile.cut_ring", depth=self.schedule.stages, full=self.arrivals)
        return h

    def convert(self, h: Handles) -> None:
        """The role of these warpgroups."""
        e = self.e
        cursor = e.cursor(self.schedule.stages)
        with self.over_tiles(h) as w:
            writes = {side.label: self.writes_folds(side, w) for side in self.own_sides if side.operand.folds}
            conditions = [x for x in writes.values() if x is not None]
            if len(conditions) < len(writes) or not writes:  # each tile writes some, or none does
                self.convert_tile(h, cursor, w, writes)
                return
            some, *others = conditions
            for other in others:
                some = e.arith("arith.ori", some, other)
            with e.region("tile.when", [some]):
                self.convert_tile(h, cursor, w, writes)
            with e.region("tile.when", [e.negated(some)]):
                self.convert_tile(h, cursor, w, {})

    def convert_tile(self, h: Handles, cursor: ir.Value, w: Work, writes: dict[str, ir.Value | None]) -> None:
        """All stages of a tile, which writes what a side is reduced to where that is so, or always (None)."""
        e = self.e
        held = {side.label: self.hold_side(h, side, w, bool(writes)) for side in self.own_sides}
        with self.over_k(w) as k:
            if self.converters == 1:
                self.convert_stage(h, cursor, w, k, held)
            else:
                mine = e.op("tile.own_stage", [ir.IntegerType.get_signless(1)], [cursor], of=self.converters).result
                with e.region("tile.when", [mine]):
                    self.convert_stage(h, cursor, w, k, held)
            e.op("tile.advance", operands=[cursor])
        for side in self.own_sides if writes else ():
            written = writes.get(side.label)
            with nullcontext() if written is None else e.region("tile.when", [written]):
                for fold, room in zip(side.operand.folds, held[side.label].folds, strict=True):
                    self.write_fold(h, side, fold, room, w)

    def convert_stage(self, h: Handles, cursor: ir.Value, w: Work, k: ir.Value, held: dict[str, Held]) -> None:
        """A stage that others multiply then; what is loaded for it is on its way while copies are."""
        e, computed = self.e, [side for side in self.own_sides if self.transforms(side, held)]
        beside = {side.label: self.along_k(h, side, w, k) for side in computed}
        zeros = {x.label: self.zero_points(h, x, w, k) for x in self.own_sides if x.operand.zeros is not None}
        inside = self.elements_inside(w, k) if any(self.masked(side, held) for side in computed) else None
        last = self.in_last(w, k)
        e.op("tile.wait", operands=[h.filled, cursor])
        points = self.points(h, w, self.at_k(w, k))
        for number, side in enumerate(self.sides):
            less = zeros.get(side.label, [])
            if side in computed:
                self.transform(h, side, cursor, held[side.label], beside[side.label], inside, less)
                continue
            ways = [(x.operand.converted, x.operand.folded is None, x.operand.zeros) for x in self.of_side(number)]
            if len(set(ways)) == 1:
                self.convert_side(h, side, cursor, w, less, last)
                continue
            for point in points:  # what is not converted copies bring as it is multiplied
                with self.of_point(point):
                    own = point.sides[number]
                    self.convert_side(h, own, cursor, w, less if own.operand.zeros is not None else [], last)
        e.op("tile.pass_on", operands=[h.ring, cursor])
        if self.family.kind.tensor_memory:  # which hands stages back behind its own reads alone
            e.op("tile.release", operands=[h.ring, cursor, None, [], [], None], lag=0)

    def in_last(self, w: Work, k: ir.Value) -> ir.Value | None:
        """Whether a stage is K's last; None where nobody asks (`cut_converted`)."""
        size = self.problem.k.size
        if size is None or not cut_converted(self.problem):
            return None
        return self.e.compare("eq", self.at_k(w, k), self.e.i32(size - size % self.schedule.tile[2]))

    def convert_side(
        self, h: Handles, side: Side, cursor: ir.Value, w: Work, less: list[ir.Value], last: ir.Value | None
    ) -> None:
        """A side's tile of a stage, if it is converted: less zero points, and times factors that go with it. In the
        `last` one of K what shares a byte with K's last element is 0, where that is asked."""
        if not side.operand.converted or self.made_by_consumers(side):
            return
        factors = [h.scale_tiles[side.label]] if side.operand.folded or side.operand.named else []
        operand, shift = side.operand, self.shifted_bytes(side.operand, w)
        plain = operand.stored == operand.element and bool(shift)  # packed elements are bytes then
        stored = element_in_memory(operand) if plain else ir.Type.parse(operand.stored.mlir)
        how: dict[str, Any] = {"stored": ir.TypeAttr.get(stored)}
        cut = [] if last is None or side.operand not in cut_converted(self.problem) else [last]
        if cut and self.problem.k.size is not None:
            how["element"] = self.problem.k.size % self.schedule.tile[2]
        if side.operand.in_words:
            how["in_words"] = True
        if operand.turned and operand.order != IN_ORDER:
            how["order"] = operand.order
        if made_smaller(self.problem, self.schedule, operand):
            how["smaller"] = True
        if not side.operand.turned:
            operands = [h.stored[side.label], h.tiles[side.label], cursor, factors, less, cut, shift]
            self.e.op("tile.convert", operands=operands, **how)
            return
        for number, strip in enumerate(side.strips):
            target = self.strip(h.tiles[side.label], strip, side.copied)
            own = less[number : number + 1]
            operands = [self.turned_strip(h, side, number), target, cursor, factors, own, cut, shift]
            first = strip.first if operand.folded and strip.first else None
            self.e.op("tile.convert", operands=operands, turned=True, first=first, **how)

    @property
    def own_sides(self) -> list[Side]:
        """Those that consumers do not make."""
        return [side for side in self.sides if not self.made_by_consumers(side)]

    def made_by_consumers(self, side: Side) -> bool:
        """Whether consumers convert it, in registers."""
        return registers_make(self.problem, self.schedule, side.operand)

    def shifted_bytes(self, operand: Operand, w: Work) -> list[ir.Value]:
        """How many bytes of a row copies bring before a K block; nothing where they bring none."""
        shift, bits = self.shift(operand, w), operand.stored.bits
        if shift is None:
            return []
        return [self.e.arith("arith.divui", self.e.arith("arith.muli", shift, self.e.i32(bits)), self.e.i32(8))]

    def zero_points(self, h: Handles, side: Side, w: Work, k: ir.Value) -> list[ir.Value]:
        """Those of a side, in registers of the threads that convert it: of what they turn each strip's."""
        e, zeros = self.e, side.operand.zeros
        assert zeros is not None
        kind, target = [e.type("subtrahends")], h.tiles[side.label]
        if side.operand.turned:
            return [self.zeros_of_strip(h, side, x, w, k) for x in side.strips]
        if not zeros.name:
            return [e.op("tile.zero_points", kind, [target, None, None, None, None], number=zeros.number).result]
        made: ir.Value | None = None
        for pane, own in enumerate(side.operand.panes):
            assert own.zeros is not None
            source, strides, place, how = self.place_of_zeros(h, side, own.zeros, self.points(h, w, self.at_k(w, k))[0])
            if len(side.operand.panes) > 1:
                mine = (x for x in side.strips if x.pane == pane)
                how["strips"] = tuple(n for x in mine for n in (x.first, x.rows, x.ahead))
            how["plus"] = own.zeros.number or None
            how["in_words"] = side.strips[0].rows if side.operand.in_words else None
            made = e.op("tile.zero_points", kind, [target, source, strides, place, made], **how).result
        assert made is not None
        return [made]

    def zeros_of_strip(self, h: Handles, side: Side, strip: Strip, w: Work, k: ir.Value) -> ir.Value:
        """Those of a strip of rows that warps turn."""
        e, zeros = self.e, side.operand.panes[strip.pane].zeros
        assert zeros is not None
        kind, target = [e.type("subtrahends")], self.strip(h.tiles[side.label], strip, side.copied)
        if not zeros.name:
            return e.op("tile.zero_points", kind, [target, None, None, None, None], number=zeros.number).result
        in_words, point = zeros_in_words(self.problem, side.operand), self.points(h, w, self.at_k(w, k))[0]
        align = WORD_BITS // 8 if in_words else 0
        source, strides, place, how = self.place_of_zeros(h, side, zeros, point, align)
        place[0] = e.arith("arith.addi", place[0], e.i32(strip.ahead)) if strip.ahead else place[0]
        how |= {"plus": zeros.number or None, "turned": side.operand.order}
        how |= {"words": True, "row_order": None} if in_words else {}
        return e.op("tile.zero_points", kind, [target, source, strides, place, None], **how).result

    def place_of_zeros(
        self, h: Handles, side: Side, zeros: ZeroPoints, point: Point, align: int = 0
    ) -> tuple[ir.Value, list[ir.Value], list[ir.Value], dict[str, Any]]:
        """Of the zero points of a side's operand at a point of K the source, strides, place, and what blocks share
        one; `align`: bytes that rows begin at multiples of."""
        e, w = self.e, point.w
        source = self.at(self.pointer(zeros.name, zeros.argument_index, align), zeros.name, zeros.coords, w)
        last = len(zeros.coords) - 1
        strides = [
            e.i64(0) if axis is None else e.i64(1) if axis == last else self.stride(zeros.name, axis)
            for axis in zeros.axes
        ]
        place = [self.copied_row(h, side, w.row0[side.label]), w.row_end[side.label], point.k0, h.k]
        blocks = {"row_block": zeros.rows, "k_block": zeros.k}
        how: dict[str, Any] = {name: ALL if block == WHOLE else block for name, block in blocks.items()}
        if zeros.contiguous:
            how["along"] = zeros.contiguous
        how |= {f"{x}_order": at.flat for x, at in zip(("row", "k"), zeros.orders, strict=True) if at is not None}
        return source, strides, place, how

    def transforms(self, side: Side, held: dict[str, Held]) -> bool:
        """Whether a side's elements are needed as f32: else they are converted at most."""
        operand = side.operand
        return self.masked(side, held) or (operand.transformed and operand.stored == operand.element)

    @staticmethod
    def masked(side: Side, held: dict[str, Held]) -> bool:
        """Whether what lies behind the end of K must be told apart."""
        return side.operand.rounded is not None or bool(held[side.label].folds)
