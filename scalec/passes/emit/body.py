"""The elementwise bodies: what they compute of scalars alone, once, before the tiles; the rest, for each element."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.ir.location import place_of
from scalec.ir.mlir import arith, ir
from scalec.ir.scale_functions import ROUNDINGS, WIDENINGS
from scalec.ir.tile_types import shape_of, str_of
from scalec.passes.emit.emitter import Emitter, Step, copied
from scalec.passes.emit.results import Results
from scalec.passes.emit.row_factors import row_factors
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.registers import crowded
from scalec.passes.problem.column_folds import made_by
from scalec.passes.problem.contraction import contractions, sums_of
from scalec.passes.problem.result import Result
from scalec.passes.problem.types import Problem

LARGEST_INVERSE = 2.0**118
"""Of a given scale of the whole result: times the largest reciprocal of a ue4m3 scale, 2^9, it is finite."""

Sums = ir.Value | list[ir.Value]
"""An accumulator, or those of each contraction of the program."""


@dataclass
class Split:
    """A result's body, split by what it depends on.

    Attributes:
        inverse: the operand that gives the reciprocal of the scale of the whole result, if there is one.
        held: of values of the body that are no element's own (inputs, and what is computed of scalars alone) those that
            elements are computed of, with the operand that gives them.
        left: what is computed for each element.
    """

    inverse: ir.Value | None = None
    held: dict[ir.Value, ir.Value] = field(default_factory=dict)
    left: list[Step] = field(default_factory=list)


def inverse_of(e: Emitter, whole: ir.Value) -> ir.Value:
    """`tile.hold` of the reciprocal of what a `tile.input` reads, within the bound."""
    f32 = ir.F32Type.get()
    made = e.op("tile.hold", [e.type("operand")], [whole], regions=1)
    block = made.regions[0].blocks.append(f32)
    with ir.InsertionPoint(block):
        one = arith.ConstantOp(f32, ir.FloatAttr.get(f32, 1.0))
        inverse = arith.DivFOp(one.result, block.arguments[0]).result
        for bound, nearer in ((LARGEST_INVERSE, arith.MinimumFOp), (-LARGEST_INVERSE, arith.MaximumFOp)):
            inverse = nearer(inverse, arith.ConstantOp(f32, ir.FloatAttr.get(f32, bound)).result).result
        e.op("tile.yield", operands=[inverse])
    return made.result


class Body(Results):
    """Splits the problem's `bodies`, `split` of each, and `last` of those that are folded what follows."""

    split: list[Split]
    last: list[Split | None]
    split_terms: list[list[Split | None]]
    ahead_of: dict[int, dict[Any, ir.Value]]
    """Of folds whose inputs are read before a tile's products, the inputs in registers: by the inputs in memory, those
    of a window by their name and coordinates."""

    def hold(self) -> None:
        """Before a consumer's loop over tiles: scalars are read, and what the bodies compute of them alone is computed,
        once. Behind the last product each tile would wait for the load, and the quotient of NVFP4's scale. What depends
        on the tile is left to it."""
        self.ahead_of, self.drawn = {}, self.read_words(self.problem.results)
        every = (*self.problem.each_reduction, *self.problem.each)
        each = [(of, not self.by_tile(of.result)) for of in every]
        self.split = [self.split_body(of.result) if once else Split() for of, once in each]
        self.last = [self.split_last(of) if once else None for of, once in each]
        terms = (x.results for x in self.problem.terms)
        self.split_terms = [[None if self.by_tile(x) else self.split_body(x) for x in own] for own in terms]

    def compute_term(self, number: int, sums: Sums, w: Work) -> None:
        """What is computed of the sums of one product before others are added, in their place."""
        results, split = self.problem.terms[number].results, self.split_terms[number]
        for own, result, known in zip(self.panes(sums), results, split, strict=True):
            of = replace(self.problem, results=(result,), reductions=())
            self.elementwise(of, known or self.split_body(result, w), [own], [w.m0, w.n0, w.m_end, w.n_end])

    def split_for(self, body: int, of: Problem, w: Work) -> None:
        """Splits one of them for the tile of `w`, where that matters (`by_tile`)."""
        if self.by_tile(of.result):
            self.split[body], self.last[body] = self.split_body(of.result, w), self.split_last(of, w)

    def split_last(self, of: Problem, w: Work | None = None) -> Split | None:
        """What follows a result's fold; None where it has none."""
        return None if of.column_fold is None else self.split_body(of.behind.result, w, adjacent=False)

    def split_body(self, result: Result, w: Work | None = None, adjacent: bool = True) -> Split:
        """A body, of which scalars are read, where that matters for the tile of `w`; `adjacent` as `input` has it."""
        inverse = self.inverse_of_whole(result, w)
        if not result.body or self.is_conversion(result):
            return Split(inverse)
        made, source = Split(inverse), self.body_of(result)
        scalars, loaded = {}, self.loaded(result)
        for x in self.read(result):
            argument = source.arguments[x.view]
            if x.kind == "scalar":
                scalars[argument] = self.computed({argument: self.input(x, w)}, [], argument)
            else:
                made.held[argument] = self.loaded_input(x) if x in loaded else self.input(x, w, adjacent)
        elements = {source.arguments[i] for i in result.accumulators} | made.held.keys()
        steps: dict[ir.Value, Step] = {}
        for op, operands in self.steps(result):
            if op.operation.name != "scale.yield" and not any(v in elements for v in operands):
                steps[op.result] = op, operands
                continue
            for v in operands:
                if v not in elements and v not in made.held and not is_constant(v):
                    made.held[v] = self.of_scalars(v, steps, scalars)
            made.left.append((op, operands))
            elements |= set(op.results)
        return made

    def inverse_of_whole(self, result: Result, w: Work | None) -> ir.Value | None:
        """`tile.hold` of the reciprocal of the scale of the whole result, if there is one: within the bound that keeps
        its product with that of a ue4m3 scale finite."""
        scale = result.scale
        return None if scale is None or scale.outer is None else inverse_of(self.e, self.input(scale.outer, w))

    def of_scalars(self, value: ir.Value, steps: dict[ir.Value, Step], scalars: dict[ir.Value, ir.Value]) -> ir.Value:
        """The operand that gives a value of the body: a scalar, or what `steps` compute of scalars."""
        if value in scalars:
            return scalars[value]
        needed: dict[ir.Value, Step | None] = {}

        def need(v: ir.Value) -> None:
            if v not in needed:
                for operand in steps[v][1] if v in steps else ():
                    need(operand)
                needed[v] = steps.get(v)

        need(value)
        read = {v: scalars[v] for v in needed if v in scalars}
        return self.computed(read, [step for step in needed.values() if step], value)

    def computed(self, read: dict[ir.Value, ir.Value], steps: list[Step], value: ir.Value) -> ir.Value:
        """`tile.hold` of a value that `steps` compute of what is `read`, each with the operand that gives it; of no
        steps the value is the one that is read."""
        e, inputs = self.e, list(read.values())
        made = e.op("tile.hold", [e.type("operand")], [inputs], regions=1)
        block = made.regions[0].blocks.append(*(ir.F32Type.get(),) * len(inputs))
        values = dict(zip(read, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for op, operands in steps:
                values[op.result] = copied(op, [values[v] for v in operands])
            e.op("tile.yield", operands=[values[value]])
        return made.result

    def panes(self, sums: Sums) -> list[ir.Value]:
        """The sums of each contraction: those given one by one, or of an accumulator that has all side by side."""
        if isinstance(sums, list):
            return sums
        count, (rows, columns) = self.problem.panes, shape_of(sums.type)
        if count == 1:
            return [sums]
        own = columns // count
        kind = self.e.accumulator(rows, own, str_of(sums.type.space))
        return [self.e.op("tile.pane", [kind], [sums], first=i * own).result for i in range(count)]

    def elementwise(self, of: Problem, split: Split, sums: list[ir.Value], place: list[ir.Value]) -> ir.Value:
        """What is left for each element of a result, of the sums of each contraction; the accumulator that then has
        the result."""
        result = of.result
        first, *others = dict.fromkeys(result.panes)
        if not result.body or self.is_conversion(result):
            return sums[first]
        accumulator = sums[first]
        read = [self.e.op("tile.input_sums", [self.e.type("operand")], [sums[x]]).result for x in others]
        inputs = [*split.held.values(), *read]
        operands = [accumulator, *place, inputs]
        arguments = (ir.F32Type.get(),) * (1 + len(inputs))
        summed = result.column_fold is not None or result.transformed  # terms of a sum may cancel
        few = result.element.bits <= 16 and not summed
        boxes = bool(self.loaded(result))  # which all warps hand back
        how: dict[str, Any] = {
            "approximate": few,
            "piecewise": crowded(of, self.schedule) and not boxes,
            "pinned": boxes,
        }
        with self.e.region("tile.epilogue", operands, arguments, **how) as block:
            self.computed_in(block, result, split)
        return accumulator

    def computed_in(self, block: ir.Block, result: Result, split: Split) -> None:
        """What is left for each element, of the sums of the first contraction, the inputs that are held, the sums of
        the others; without a body the sums themselves."""
        given, (first, *others) = list(block.arguments), dict.fromkeys(result.panes)
        if not split.left:
            self.e.op("tile.yield", operands=[given[0]])
            return
        source = self.body_of(result)
        values = dict(zip(split.held, given[1:], strict=False))
        of_pane = dict(zip((first, *others), [given[0], *given[1 + len(split.held) :]], strict=True))
        values |= {source.arguments[i]: of_pane[x] for i, x in zip(result.accumulators, result.panes, strict=True)}
        for op, operands in split.left:
            for v in operands:
                if v not in values:
                    values[v] = copied(v.owner.opview, [])  # a constant
            if op.operation.name == "scale.yield":
                self.e.op("tile.yield", operands=[values[operands[0]]])
            else:
                values[op.result] = copied(op, [values[v] for v in operands])

    def without_factors(self, result: Result, split: Split) -> tuple[Split, list[ir.Value]]:
        """A body that is folded, without the factors of rows that its terms have in common, and these. Not where a warp
        multiplies and folds by itself: beneath the tensor core it has time for a product a term, but none for a vote.
        """
        if not split.left or len(result.accumulators) != 1 or self.family.kind.loads_operands:
            return split, []
        source = self.body_of(result)
        sums, rows = (
            source.arguments[result.accumulators[0]],
            {source.arguments[x.view] for x in self.read(result) if x.kind == "row"},
        )
        products = row_factors(split.left, sums, rows & split.held.keys())
        same: dict[ir.Value, ir.Value] = {}
        left: list[Step] = []
        for op, operands in split.left:
            own = [same.get(v, v) for v in operands]
            if op.operation.name != "scale.yield" and op.result in products:
                same[op.result] = next(v for v in own if v != products[op.result])
            else:
                left.append((op, own))
        read = {v for _, operands in left for v in operands}
        held = {v: x for v, x in split.held.items() if v in read}
        return Split(split.inverse, held, left), [split.held[v] for v in products.values()]

    def body_of(self, result: Result) -> ir.Block:
        """The block that computes a result, of its `scale.map`; of one that is folded, what is."""
        for pane, own in (x for term in self.problem.terms for x in enumerate(term.results)):
            if own is result:
                sums = list(dict.fromkeys(ir.Value(sums_of(x)) for x in contractions(self.function)))
                return sums[pane].owner.opview.terms[result.index].owner.opview.body.blocks[0]
        last = self.last_map(result)
        if result.column_fold is not None or result.reduced is not None:
            last = self.reduce_of(result).input.owner
        return last.opview.body.blocks[0]

    def last_map(self, result: Result) -> Any:
        """The `scale.map` that a result is quantised, scattered, transformed or returned of."""
        last = self.returned(result.index).owner
        while last.name in ("scale.quantize", "scale.round", "scale.scatter", "scale.hadamard"):
            last = last.opview.input.owner
        return last

    def reduce_of(self, result: Result) -> ir.OpView:
        sources = [view.owner.opview.source for view in self.last_map(result).opview.views]
        return next(r for x in sources if (r := made_by(x, "scale.reduce")) is not None)

    def is_conversion(self, result: Result) -> bool:
        """Whether the map only converts the accumulator, or adds it to the result, which the store does anyway."""
        if self.added(result) is not None:
            return len(result.body) == 2
        return len(result.body) == 1 or (len(result.body) == 2 and result.body[0] in ROUNDINGS)

    def steps(self, result: Result) -> Iterator[Step]:
        """The ops of the map's body, in f32 throughout: inputs come widened, the store rounds, and adds what is there
        where that is its part."""
        source, added = self.body_of(result), self.added(result)
        last = source.operations[len(source.operations) - 1]
        same: dict[ir.Value, ir.Value] = {}
        for op in source.operations:
            name, operands = op.operation.name, [same.get(v, v) for v in op.operands]
            if added is not None and name == "arith.addf" and op.result == last.operands[0]:
                same[op.result] = next(v for v in operands if v != source.arguments[added.view])
            elif name in WIDENINGS or (name in ROUNDINGS and op.result == last.operands[0]):
                same[op.result] = operands[0]
            elif name in ROUNDINGS:
                raise UnsupportedError(
                    "a rounding inside the elementwise expression",
                    expected="only at its end",
                    fix="keep the body in f32",
                    place=place_of(op),
                )
            else:
                yield op, operands


def kind_of(value: ir.Value) -> str:
    """Of what a body reads: the kind of a `tile.input`, looked up or not, "" where another op made it."""
    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.name == "tile.input_at":
        owner = owner.operands[0].owner
    return owner.opview.kind.value if not isinstance(owner, ir.Block) and owner.name == "tile.input" else ""


def is_constant(value: ir.Value) -> bool:
    """Whether a value of the body is a constant, which needs no register."""
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name == "arith.constant"
