"""What operands are computed by, or reduced to along K, whoever has their elements: the warps that convert them, or the
consumers that multiply them out of registers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.scale import facts_of
from scalec.ir.scale_functions import CONVERSIONS
from scalec.ir.tile import FoldsType
from scalec.ir.tile_convert import FRAGMENT_ROWS, rows_of_thread
from scalec.passes.emit.emitter import Source, attribute, copied
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.tensors import Work
from scalec.passes.emit.workspace import Workspace
from scalec.passes.plan.converted import registers_make
from scalec.passes.plan.counting import partial_words
from scalec.passes.plan.fold_parts import fold_counters, fold_parts, fold_words
from scalec.passes.plan.reductions import band_counters
from scalec.passes.problem.operand import Fold, Operand, OperandInput
from scalec.passes.problem.sources import computation, elements_read, is_op, whole_of

Key = tuple[int, tuple[str, ...]]
"""What a body reads beside an element: an argument of the function, and at which dimensions."""


def key_of(x: OperandInput) -> Key:
    """Of an input."""
    return x.argument_index, tuple(c.dim for c in x.coords)


@dataclass
class Held:
    """What warps have in registers of a side while they walk a tile."""

    # `tile.folds`, in the order of the operand's; none where the tile writes none.
    folds: list[ir.Value] = field(default_factory=list)
    by_row: dict[Key, ir.Value] = field(default_factory=dict)  # `tile.beside` of the operand's inputs along its rows


class OperandBodies(Workspace):
    """Bodies of `scale.map` on an operand's elements, what they read beside these, and what folds become."""

    def hold_side(self, h: Handles, side: Side, w: Work, folds: bool) -> Held:
        """At the beginning of a tile: empty folds, where it writes some, and what belongs to its rows."""
        e, held, operand = self.e, Held(), side.operand
        if folds and operand.folds:
            waves = self.shared_as(side).get("waves")
            count = FRAGMENT_ROWS * waves if waves else rows_of_thread(side.copied, side.swizzle)
            made = FoldsType.get(attribute(count))
            held.folds = [e.op("tile.folds", [made], kind=x.kind).result for x in operand.folds]
        place = w.row0[side.label], w.row_end[side.label]
        inputs = [x for x in operand.inputs if x.along != self.problem.k.name]
        held.by_row = {key_of(x): self.beside(h, side, w, x, *place) for x in inputs}
        return held

    def beside(
        self,
        h: Handles,
        side: Side,
        w: Work,
        x: OperandInput,
        first: ir.Value,
        end: ir.Value,
        ahead: ir.Value | None = None,
    ) -> ir.Value:
        """What belongs to the tile's rows, or to its elements of K from `first` on; with `ahead` what that has."""
        along_k, axis = x.along == self.problem.k.name, [c.dim for c in x.coords].index(x.along)
        source = self.at(self.pointer(x.name, x.argument_index, x.element.bits // 8), x.name, x.coords, w)
        stride = self.e.i64(1) if axis == len(x.coords) - 1 else self.stride(x.name, axis)
        operands = [source, h.tiles[side.label], first, end, stride, ahead]
        along = "k" if along_k else "rows"
        how = self.shared_as(side)
        if how and along_k:
            how |= {"made": ir.TypeAttr.parse(side.operand.element.mlir), "depth": self.schedule.tile[2]}
        return self.e.op("tile.beside", [self.e.type("element_inputs")], operands, along=along, **how).result

    def shared_as(self, side: Side) -> dict[str, Any]:
        """How threads share a side's rows: as those of sums, where it is made in registers of these."""
        return {"waves": self.waves} if registers_make(self.problem, self.schedule, side.operand) else {}

    def along_k(
        self, h: Handles, side: Side, w: Work, k: ir.Value, ahead: dict[Key, ir.Value] | None = None
    ) -> dict[Key, ir.Value]:
        """Loads what belongs to the elements of K from element `k` of a tile's on; with `ahead`, what was loaded before
        is what there is now."""
        inputs = [x for x in side.operand.inputs if x.along == self.problem.k.name]
        if not inputs:
            return {}
        w, k0 = self.at_point(w, self.at_k(w, k))
        place = k0, self.own_size(self.problem.k)
        found = ahead or {}
        return {key_of(x): self.beside(h, side, w, x, *place, found.get(key_of(x))) for x in inputs}

    def writes_folds(self, side: Side, w: Work) -> ir.Value | None:
        """Whether a tile is the one, of those that have the same rows of a side, that writes what they are reduced to:
        that of the first rows of the other side, and of each dimension that the side has not, but for groups whose
        ranges its rows lie in. None: each is."""
        e, p = self.e, self.problem
        other, along = (w.n0, p.n) if side.label == "A" else (w.m0, p.m)
        extent = self.schedule.tile[1 if side.label == "A" else 0]
        own = {c.dim for c in side.operand.folds[0].coords}
        own = own.union(*(d.groups for d in p.domains if d.dim == side.operand.rows))
        firsts = [w.outer[d.name] for d in p.outer if d.name not in own]
        if along.size is None or along.size > extent:
            firsts.append(other)
        found = None
        for first in firsts:
            one = e.compare("eq", first, e.i32(0))
            found = one if found is None else e.arith("arith.andi", found, one)
        return found

    def elements_inside(self, w: Work, k: ir.Value) -> ir.Value | None:
        """Elements of K that there are from element `k` of a tile's on; None where stages have no others. Where an
        operand is empty, and zeros are walked in its place, none."""
        e, p = self.e, self.problem
        if p.depth and p.k.size and p.k.size % self.schedule.tile[2] == 0:
            return None
        _, k0 = self.at_point(w, self.at_k(w, k))
        size = self.own_size(p.k)
        for d in p.summed:
            size = e.arith("arith.muli", size, e.arith("arith.minui", self.own_size(d), e.i32(1)))
        return e.arith("arith.subi", size, k0)

    def write_fold(self, h: Handles, side: Side, fold: Fold, room: ir.Value, w: Work) -> None:
        """Writes a fold of the tile's rows: where K is split that of all parts, by each warp whose rows' parts are
        complete with its own."""
        e, s = self.e, self.schedule
        if s.split == 1:
            self.store_fold(h, side, fold, room, w)
            return
        own = fold_parts(self.problem, s)
        mine = own[self.problem.folds.index(fold)]
        operands = [room, h.tiles[side.label], *self.fold_memory(), w.part, w.number]
        facts = {"split": s.split, "words": fold_words(self.problem, s), "offset": mine.offset}
        facts |= {"counters_of_tile": fold_counters(self.problem, s), "counter": mine.counter}
        facts |= self.shared_as(side)
        last = e.op("tile.sum_folds", [ir.IntegerType.get_signless(1)], operands, **facts).result
        with e.region("tile.when", [last]):
            self.store_fold(h, side, fold, room, w)

    def fold_memory(self) -> tuple[ir.Value, ir.Value]:
        """Where parts of folds are, and their counters: behind those of reductions of results."""
        p, s, (memory, counters) = self.problem, self.schedule, self.memory()
        if not p.reductions:
            return memory, counters
        return self.behind(memory, partial_words(p, s)), self.behind(counters, band_counters(p, s))

    def store_fold(self, h: Handles, side: Side, fold: Fold, room: ir.Value, w: Work) -> None:
        """Stores a fold of the tile's rows."""
        e, f32 = self.e, ir.F32Type.get()
        final = self.returned(fold.index).owner.opview
        memory = e.memory(self.returned(fold.index).type)
        target = e.parameter(self.body, memory, Source("pointer", fold.name, align=fold.element.bits // 8))
        target = self.at(target, fold.name, fold.coords, w)
        axis = [c.dim for c in fold.coords].index(side.operand.rows)
        stride = e.i64(1) if axis == len(fold.coords) - 1 else self.stride(fold.name, axis)
        scalars = {key: self.scalar(key[0]) for key in self.keys_of(final).values() if key}
        place = [w.row0[side.label], w.end[side.label], stride]
        skips = [self.row_index(side.operand.gathered, w)] if side.operand.gathered else []
        operands = [room, target, h.tiles[side.label], *place, skips, list(scalars.values())]
        with e.region("tile.store_folds", operands, (f32,) * (1 + len(scalars)), **self.shared_as(side)) as block:
            element, *rest = block.arguments
            e.op("tile.yield", operands=[self.inlined(final, element, dict(zip(scalars, rest, strict=True)))])

    def with_bodies(
        self,
        name: str,
        operands: list[Any],
        operand: Operand,
        held: Held,
        beside: dict[Key, ir.Value],
        results: tuple[ir.Type, ...] = (),
        **how: Any,
    ) -> Any:
        """An op, of `operands` and what bodies take, whose region has what an operand is computed by, if it is, and the
        terms of the folds that are held."""
        e, f32 = self.e, ir.F32Type.get()
        bodies = [self.term_of(fold) for fold in operand.folds] if held.folds else []
        if operand.rounded is not None:
            how["computed"] = ir.TypeAttr.parse(operand.rounded.mlir)
            bodies.insert(0, self.product_of(operand.argument_index))
        read = {key: None for body in bodies for key in self.keys_of(body).values() if key}
        inputs = {key: x for key, x in (held.by_row | beside).items() if key in read}
        scalars = {key: self.scalar(key[0]) for key in read if key not in inputs}
        known = {**inputs, **scalars}
        taken = [*operands, list(held.folds), list(inputs.values()), list(scalars.values())]
        with e.region(name, taken, (f32,) * (1 + len(known)), results, **how) as block:
            element, *rest = block.arguments
            values = dict(zip(known, rest, strict=True))
            e.op("tile.yield", operands=[self.inlined(body, element, values) for body in bodies])
        return block.owner

    def product_of(self, argument: int) -> Any:
        """The `scale.map` that computes the operand that is the argument of this number; None where none does."""
        block = self.function.body.blocks[0]
        contract = next(op for op in block.operations if op.operation.name == "scale.contract")
        maps = [computation(x) for x in (contract.lhs, contract.rhs)]
        return next((op for op in maps if op and whole_of(op).source == block.arguments[argument]), None)

    def term_of(self, fold: Fold) -> Any:
        """The `scale.map` that computes the terms of a fold; None where these are the elements themselves."""
        final = self.returned(fold.index).owner.opview
        sources = [view.owner.opview.source for view in final.views]
        reduce = next(x.owner.opview for x in sources if is_op(x, "scale.reduce"))
        return reduce.input.owner.opview if is_op(reduce.input, "scale.map") else None

    def keys_of(self, op: Any) -> dict[int, Key | None]:
        """What each view of a `scale.map` reads beside an element, None where that is the element."""
        arguments = list(self.function.body.blocks[0].arguments)
        dims = [ir.StringAttr(x).value for x in self.function.attributes["scale.dims"]]
        found: dict[int, Key | None] = {}
        for i, view in enumerate(op.views if op is not None else ()):
            read = view.owner.opview
            own = read == elements_read(op) or read.source not in arguments
            names = tuple(dims[x.position] for x in ir.AffineMapAttr(read.map).value.results) if not own else ()
            found[i] = None if own else (arguments.index(read.source), names)
        return found

    def scalar(self, index: int) -> ir.Value:
        """A scalar argument of the function, as a parameter."""
        name = ir.StringAttr(facts_of(self.function, "arg_attrs", index)["scale.name"]).value
        return self.e.parameter(self.body, ir.F32Type.get(), Source("scalar", name))

    def inlined(self, op: Any, element: ir.Value, known: dict[Key, ir.Value]) -> ir.Value:
        """What the body of a `scale.map` computes of an element and what else it reads, in f32; of no map the
        element."""
        if op is None:
            return element
        block, keys = op.body.blocks[0], self.keys_of(op)
        values = {a: element if (key := keys[i]) is None else known[key] for i, a in enumerate(block.arguments)}
        for inner in block.operations:
            operands = [values[v] for v in inner.operation.operands]
            if inner.operation.name == "scale.yield":
                return operands[0]
            same = inner.operation.name in CONVERSIONS  # f32 on both sides
            values[inner.result] = operands[0] if same else copied(inner, operands)
        raise AssertionError("the verifier of scale.map asks for a scale.yield")
