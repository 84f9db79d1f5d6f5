"""Parts of a tensor that a program reads by indices: each becomes an argument of its own, a view of the tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import WHOLE, WORDS, element_spelled
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import (
    ContractOp,
    DequantizeOp,
    GranularityAttr,
    ReduceOp,
    SubtractOp,
    apart_in,
    axis_and_block,
    block_of,
    dims_in,
    element,
    facts_of,
    map_of,
    maps_of,
    program_dims,
    sizes_of,
    written,
)
from scalec.ir.scale_round import QuantizeOp
from scalec.passes.base import programs
from scalec.passes.fuse.indices import used
from scalec.passes.fuse.rewrite import erase_unused, key, read
from scalec.passes.problem.contraction import contractions
from scalec.passes.problem.sources import is_op, quantization, unscaled
from scalec.targets import Target

TILE = 128
"""Rows of a tile of scales that are `blocked` (scalec.abi.TILES), at which a part of them begins."""


class TakeViews:
    """Makes each part of a tensor that an index picks out (`W[n + 2048, k]`, `W[2*n, k]`, `W[n + size(n), k]`) an
    argument of its own, whose indices are dimensions. The runtime takes it of the tensor, so that a kernel reads two
    parts as it reads two tensors.

    A view says of which argument it is (`scale.of`), and for each axis which index of that its index 0 is
    (`scale.first`, of sizes as `scale.shape`) and how far apart its indices are (`scale.steps`). A part of a tensor
    with scales or zero points has the part of these that is its own. What the tensor is now nobody reads.

        func.func @G(%X, %W {scale.name = "W", scale.shape = (m, n, k) -> (n + 2048, k)})
          %t = scale.contract(%X, %W) {maps = [..., (m, n, k) -> (n + 2048, k), ...]}
    -->
        func.func @G(%X, %W, %V {scale.name = "W[n + 2048, k]", scale.shape = (m, n, k) -> (n, k), scale.of = "W",
                                 scale.first = (m, n, k) -> (2048, 0), scale.steps = array<i64: 1, 1>})
          %t = scale.contract(%X, %V) {maps = [..., (m, n, k) -> (n, k), ...]}
    """

    name = "take-views"

    def run(self, module: ir.Module, target: Target) -> None:
        for function in programs(module):
            _Views(function, target).take()


@dataclass(frozen=True)
class _Part:
    """What a view has of an axis: index i is index first + step * i of the tensor, of `extent`. `dim`: the dimension
    that i is, or of scales that is divided by a number; None where it is all of the axis.

    The first index is `constant`, and some times each of `sizes`, by position, of which `block` make an index."""

    extent: ir.AffineExpr
    text: str
    dim: int | None = None
    step: int = 1
    constant: int = 0
    sizes: tuple[tuple[int, int], ...] = ()
    block: int = 1

    @property
    def first(self) -> ir.AffineExpr:
        total = ir.AffineExpr.get_constant(self.constant)
        for position, count in self.sizes:
            size = ir.AffineExpr.get_ceil_div(ir.AffineExpr.get_dim(position), self.block)
            total = ir.AffineExpr.get_add(total, ir.AffineExpr.get_mul(size, count))
        return total

    @property
    def moved(self) -> bool:
        """Whether it begins elsewhere, or leaves indices out."""
        return self.step > 1 or bool(self.constant) or bool(self.sizes)

    def cuts(self, extent: ir.AffineExpr) -> bool:
        """Whether it is not all of an axis of this extent."""
        return self.moved or self.extent != extent


@dataclass
class _Views:
    """The walk over one function."""

    function: Any
    target: Target
    made: dict[Any, Any] = field(default_factory=dict)  # views of arguments, and what is seen of these

    def __post_init__(self) -> None:
        self.block, self.dims = self.function.body.blocks[0], program_dims(self.function)
        self.arguments = list(self.block.arguments)
        self.known = sizes_of(self.function)

    def take(self) -> None:
        for op in list(self.block.operations):
            name = op.operation.name
            if name == "scale.contract":
                self._replace(op, [op.lhs, op.rhs], maps_of(op.maps))
            elif name == "scale.reduce":
                self._replace(op, [op.input], maps_of(op.maps))
            elif name == "scale.read":
                self._replace(op, [op.source], [map_of(op.map)])
        erase_unused(self.block)
        for op in self.block.operations:
            if op.operation.name == "scale.size":
                raise UnsupportedError(
                    f"size({ir.StringAttr(op.dim).value}) stands in an index that no kernel reads at",
                    expected="a dimension, or that times a number, plus numbers and sizes",
                    fix="pass a view of the tensor, or give the size when the program is compiled",
                    place=place_of(op),
                )

    def _replace(self, op: Any, values: list[Any], maps: list[ir.AffineMap]) -> None:
        """Has an op read views, where it reads parts of tensors."""
        symbols, found = list(op.symbols), False
        for slot, value in enumerate(values):
            base = _stored(value)
            if base not in self.arguments or "scale.shape" not in self._facts(base):
                continue
            parts = self._parts(base, maps[slot], symbols)
            if parts is None or _cuts_blocks(value, parts):
                continue
            if op.operation.name == "scale.contract":
                self._check_begin(base, parts[-1])
            spaced = op.operation.name == "scale.read" and value == base and self._beside(op)
            with op.location:
                values[slot], found = self._view(base, parts, True) if spaced else self._seen(value, parts), True
            plain = [
                e if part.dim is None else ir.AffineExpr.get_dim(part.dim)
                for e, part in zip(maps[slot].results, parts, strict=True)
            ]
            maps[slot] = ir.AffineMap.get(maps[slot].n_dims, maps[slot].n_symbols, plain)
        if not found:
            return
        maps, symbols = used(maps, symbols)
        attribute = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])
        with ir.InsertionPoint(op), op.location:
            if op.operation.name == "scale.read":
                made = read(values[0], maps[0], symbols)
            elif op.operation.name == "scale.reduce":
                made = ReduceOp(values[0], symbols, list(op.domains), op.result.type, attribute, op.kind).result
            else:
                made = ContractOp(*values, symbols, list(op.domains), op.result.type, attribute).result
        op.result.replace_all_uses_with(made)
        op.operation.erase()

    def _beside(self, read: Any) -> bool:
        """Whether only maps read what it reads, in programs with a contraction, and compute no operand of it: then
        threads load it element by element, wherever the next one is."""
        maps = [use.owner for use in read.result.uses]
        uses = [use.owner.name for x in maps for r in x.results for use in r.uses]
        return bool(contractions(self.function)) and not {"scale.contract", "scale.reduce"} & set(uses)

    # ------------------------------------------------------------------------------------------------------- parts

    def _parts(self, base: Any, where: ir.AffineMap, symbols: Sequence[Any]) -> list[_Part] | None:
        """What is read of an argument, axis by axis; None where it is all of it, or an index is computed otherwise."""
        shape = list(map_of(self._facts(base)["scale.shape"]).results)
        parts = [self._part(e, extent, symbols) for e, extent in zip(where.results, shape, strict=True)]
        cut = any(p.dim is not None and p.cuts(extent) for p, extent in zip(parts, shape, strict=True))
        return parts if cut else None

    def _part(self, e: ir.AffineExpr, extent: ir.AffineExpr, symbols: Sequence[Any]) -> _Part:
        whole = _Part(extent, ":" if _reads(e) else written(e, self.dims))
        terms, constant = self._linear(e, symbols) or ({}, 0)
        dims = [(position, count) for (kind, position), count in terms.items() if kind == "dim"]
        sizes = tuple((position, count) for (kind, position), count in terms.items() if kind == "size")
        if len(dims) != 1 or min([constant, *(count - 1 for count in terms.values())]) < 0:
            return whole
        (position, step), name = dims[0], self.dims[dims[0][0]]
        more = [f"{'' if c == 1 else f'{c}*'}size({self.dims[p]})" for p, c in sizes] + [str(constant)] * (constant > 0)
        text = " + ".join([name if step == 1 else f"{step}*{name}", *more])
        return _Part(ir.AffineExpr.get_dim(position), text, position, step, constant, sizes)

    def _linear(self, e: ir.AffineExpr, symbols: Sequence[Any]) -> tuple[dict[tuple[str, int], int], int] | None:
        """An index as a sum of dimensions and sizes, each times a number, and of a number; None where it is none."""
        if isinstance(e, ir.AffineDimExpr):
            return {("dim", e.position): 1}, 0
        if isinstance(e, ir.AffineConstantExpr):
            return {}, e.value
        if isinstance(e, ir.AffineSymbolExpr):
            op = symbols[e.position].owner.opview
            sized = op.operation.name == "scale.size"
            return ({("size", self.dims.index(ir.StringAttr(op.dim).value)): 1}, 0) if sized else None
        if not isinstance(e, ir.AffineAddExpr | ir.AffineMulExpr):
            return None
        left, right = self._linear(e.lhs, symbols), self._linear(e.rhs, symbols)
        if left is None or right is None:
            return None
        if isinstance(e, ir.AffineAddExpr):
            terms = {x: left[0].get(x, 0) + right[0].get(x, 0) for x in (*left[0], *right[0])}
            return terms, left[1] + right[1]
        return ({x: c * right[1] for x, c in left[0].items()}, left[1] * right[1]) if not right[0] else None

    def _blocks(
        self, part: _Part, block: int, whole: ir.AffineExpr, what: str, of: str, place: Any
    ) -> tuple[_Part, int]:
        """What blocks of `block` indices have of a part of an axis, and how many of the part's indices are in each;
        `whole`: their extent where the axis is not cut."""
        if part.dim is None or block == WHOLE:
            return _Part(whole, ":"), block
        quotient = part.constant // part.step
        size = block // part.step if block % part.step == 0 else 0
        if block == 1:
            return part, 1
        if not size or quotient % size or (part.sizes and part.step > 1):
            raise UnsupportedError(
                f"{of} is read at {part.text}, and {what} has one for each {block} of that index",
                expected=f"a part that begins at a multiple of {block}, each {block} indices of which share one",
                fix=f"pass a part with {what} of its own as a tensor of its own",
                place=place,
            )
        first = "".join(f" + {'' if c == 1 else f'{c}*'}size({self.dims[p]})/{block}" for p, c in part.sizes)
        first += f" + {quotient // size}" if quotient else ""
        text = f"{self.dims[part.dim]}/{size}" if size > 1 else self.dims[part.dim]
        # A division by 1 is simplified, and still comes as a division, of what are no operands.
        extent = part.extent if size == 1 else ir.AffineExpr.get_ceil_div(part.extent, size)
        return _Part(extent, text + first, part.dim, 1, quotient // size, part.sizes, block), size

    # ------------------------------------------------------------------------------------------------------- views

    def _seen(self, value: Any, parts: list[_Part]) -> Any:
        """A part of an argument, or of what is seen of it: with its scales, less its zero points."""
        if isinstance(value.owner, ir.Block):
            return self._view(value, parts)
        same = (key(value), *map(_same, parts))
        if same in self.made:
            return self.made[same]
        op, attributes = value.owner.opview, value.owner.attributes
        anew = is_op(op.values, "scale.quantize")
        values = self._quantized(op.values.owner.opview, parts) if anew else self._seen(op.values, parts)
        with ir.InsertionPoint(op), op.location:
            shape = self._static([p.extent for p in parts])
            type = ir.RankedTensorType.get(shape, element(op.result.type))
            if anew:
                made = DequantizeOp(values.values, values.scales, type, op.granularity)
            elif op.operation.name == "scale.dequantize":
                made = self._dequantized(op, values, parts, type)
            else:
                zeros, blocks = self._zeros(op, parts) if len(op.zeros) else ([], None)
                made = SubtractOp(values, zeros, type)
                if blocks is not None:
                    made.operation.attributes["map"] = blocks
                for name in ("number", "plus"):
                    if name in attributes:
                        made.operation.attributes[name] = attributes[name]
        self.made[same] = made.result
        return made.result

    def _quantized(self, op: Any, parts: list[_Part]) -> QuantizeOp:
        """A part of what is quantised anew, in blocks that lie in it as they lie in the whole."""
        found = self._seen(op.input, parts)
        shape, dynamic = self._static([p.extent for p in parts]), ir.ShapedType.get_dynamic_size()
        scales = [
            1 if block == WHOLE else dynamic if n == dynamic else -(-n // block)
            for n, block in zip(shape, block_of(op.granularity), strict=True)
        ]
        with ir.InsertionPoint(op), op.location:
            values, by = op.values.type.element_type, op.scales.type.element_type
            types = [ir.RankedTensorType.get(shape, values), ir.RankedTensorType.get(scales, by)]
            return QuantizeOp(found, [], [], [], *types, op.granularity)

    def _dequantized(self, op: Any, values: Any, parts: list[_Part], type: ir.Type) -> Any:
        granularity, attributes = GranularityAttr(op.granularity), op.operation.attributes
        facts, of = self._facts(op.scales), self._name(_stored(op.values))
        name, whole = self._name(op.scales), list(map_of(facts["scale.shape"]).results)
        apart, cut = apart_in(op), [self.dims[p.dim] for p in parts if p.dim is not None and p.moved]
        layout = ir.StringAttr(granularity.layout).value
        if both := set(apart) & set(cut):
            raise UnsupportedError(
                f"{of} is read in parts along {both.pop()}, whose groups have scales apart",
                expected="parts along another index",
                fix="pass each part as a tensor of its own",
                place=place_of(op.scales),
            )
        found = [
            self._blocks(part, block, extent, name, of, place_of(op.scales))
            for part, block, extent in zip(parts, block_of(op.granularity), whole, strict=True)
        ]
        mine = [part for part, _ in found]
        if layout in ("packed", "blocked") and mine and mine[-1].dim is not None:
            if mine[-1].moved or (layout == "packed" and parts[-1].moved):
                self._no_part(name, mine[-1], f"four of its scales share a word (layout {layout})", op.scales)
            if layout == "packed":
                mine[-1] = replace(mine[-1], extent=ir.AffineExpr.get_ceil_div(mine[-1].extent, 4))
        if layout == "blocked" and len(mine) > 1:
            rows = mine[-2]
            if rows.step > 1 or rows.constant % TILE:
                self._no_part(name, rows, f"its scales lie in tiles of {TILE} rows (layout blocked)", op.scales)
        block = ir.DenseI64ArrayAttr.get([size for _, size in found])
        made = DequantizeOp(
            values, self._view(op.scales, mine), type, GranularityAttr.get(block, granularity.type, granularity.layout)
        )
        if apart:
            made.operation.attributes["apart"] = attributes["apart"]
        return made

    def _zeros(self, op: Any, parts: list[_Part]) -> tuple[list[Any], ir.Attribute]:
        """Of a part the zero points, and where they are for each element."""
        (zeros,), at = op.zeros, map_of(op.operation.attributes["map"]).results
        whole, of = list(map_of(self._facts(zeros)["scale.shape"]).results), self._name(op.values)
        mine, results = [], []
        for e, extent in zip(at, whole, strict=True):
            if (found := axis_and_block(e)) is None:
                mine.append(_Part(extent, ":"))
                results.append(e)
                self._check_order(e, parts, zeros, of)
                continue
            axis, block = found
            part, size = self._blocks(parts[axis], block, extent, self._name(zeros), of, place_of(zeros))
            dim = ir.AffineExpr.get_dim(axis)
            mine.append(part)
            results.append(dim if size == 1 else ir.AffineExpr.get_floor_div(dim, size))
        return [self._view(zeros, mine)], ir.AffineMapAttr.get(ir.AffineMap.get(len(parts), 0, results))

    def _check_order(self, e: ir.AffineExpr, parts: list[_Part], zeros: Any, of: str) -> None:
        """Refuses a part of what has zero points in another order along the index that is cut."""
        (axis,) = dims_in(ir.AffineMap.get(len(parts), 0, [e]))
        if not parts[axis].moved:
            return
        raise UnsupportedError(
            f"{of} is read at {parts[axis].text}, and {self._name(zeros)} in another order along that index",
            expected=f"zero points in the order of {of} along {parts[axis].text}",
            fix="pass a part with zero points of its own as a tensor of its own",
            place=place_of(zeros),
        )

    def _view(self, base: Any, parts: list[_Part], spaced: bool = False) -> Any:
        """An argument that is a part of an argument; the argument itself, where it is all of it. `spaced`: who reads it
        takes elements one by one."""
        facts, old = self._facts(base), ir.FunctionType(ir.TypeAttr(self.function.attributes["function_type"]).value)
        shape = list(map_of(facts["scale.shape"]).results)
        if not any(p.cuts(extent) for p, extent in zip(parts, shape, strict=True)):
            return base
        same = (key(base), *map(_same, parts))
        if same in self.made:
            return self.made[same]
        name, n = self._name(base), len(self.dims)
        layout = ir.StringAttr(facts["scale.layout"]).value if "scale.layout" in facts else "row"
        inner = parts[-2] if layout in ("col", "packed") and len(parts) > 1 else parts[-1]
        row = element_spelled(str(base.type.element_type))
        packed = row is not None and row.bits < 8
        if layout != "blocked" and ((inner.step > 1 and not spaced) or (packed and inner.moved)):
            what = "this index is the contiguous one" if inner.step > 1 else "several elements share a byte"
            self._no_part(name, inner, what, base)
        if layout == WORDS and parts[-2].step > 1:
            self._no_part(name, parts[-2], "words of adjacent ones lie beside each other", base)
        made = {
            **facts,
            "scale.name": ir.StringAttr.get(f"{name}[{', '.join(p.text for p in parts)}]"),
            "scale.shape": ir.AffineMapAttr.get(ir.AffineMap.get(n, 0, [p.extent for p in parts])),
            "scale.of": ir.StringAttr.get(name),
            "scale.first": ir.AffineMapAttr.get(ir.AffineMap.get(n, 0, [p.first for p in parts])),
            "scale.steps": ir.DenseI64ArrayAttr.get([p.step for p in parts]),
        }
        type = ir.RankedTensorType.get(self._static([p.extent for p in parts]), base.type.element_type)
        argument = self.block.add_argument(type, base.location)
        attributes = self.function.attributes
        changed = ir.FunctionType.get([*old.inputs, type], list(old.results))
        attributes["function_type"] = ir.TypeAttr.get(changed)
        attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes["arg_attrs"], ir.DictAttr.get(made)])
        self.made[same] = argument
        return argument

    def _check_begin(self, base: Any, inner: _Part) -> None:
        """Refuses an operand of which no copy can bring a part, whatever the sizes are."""
        row, align = element_spelled(str(base.type.element_type)), 8 * self.target.tma_align
        if row is not None and inner.constant * row.bits % align:
            why = f"copies begin at multiples of {align // row.bits} elements of the contiguous index"
            self._no_part(self._name(base), inner, why, base)

    def _no_part(self, name: str, part: _Part, why: str, value: Any) -> None:
        raise UnsupportedError(
            f"{name} is read at {part.text}: {why}",
            expected="a part that copies can bring as it lies",
            fix=f"pass a copy of that part of {name} as a tensor of its own",
            place=place_of(value),
        )

    # ------------------------------------------------------------------------------------------------------- facts

    def _facts(self, argument: Any) -> dict[str, ir.Attribute]:
        return facts_of(self.function, "arg_attrs", list(self.block.arguments).index(argument))

    def _name(self, value: Any) -> str:
        return ir.StringAttr(self._facts(unscaled(value))["scale.name"]).value

    def _static(self, extents: Sequence[ir.AffineExpr]) -> list[int]:
        """Extents as a type has them."""
        return [ir.ShapedType.get_dynamic_size() if (x := self._value(e)) is None else x for e in extents]

    def _value(self, e: ir.AffineExpr) -> int | None:
        if isinstance(e, ir.AffineConstantExpr):
            return e.value
        if isinstance(e, ir.AffineDimExpr):
            return self.known.get(e.position)
        a, b = self._value(e.lhs), self._value(e.rhs)
        if a is None or b is None:
            return None
        if isinstance(e, ir.AffineAddExpr):
            return a + b
        return a * b if isinstance(e, ir.AffineMulExpr) else -(-a // b)


def _reads(e: ir.AffineExpr) -> bool:
    """Whether an index is read from memory."""
    if isinstance(e, ir.AffineBinaryExpr):
        return _reads(e.lhs) or _reads(e.rhs)
    return isinstance(e, ir.AffineSymbolExpr)


def _same(part: _Part) -> tuple[Any, ...]:
    return str(part.extent), part.dim, part.step, part.constant, part.sizes, part.block


def _stored(value: Any) -> Any:
    """What an operand is below its scales and zero points, and below what quantises it anew."""
    op = quantization(value)
    return unscaled(value if op is None else op.input)


def _cuts_blocks(value: Any, parts: list[_Part]) -> bool:
    """Whether blocks of an operand that is quantised anew are others in a part than in the whole."""
    op = quantization(value)
    blocks = block_of(op.granularity) if op is not None else ()
    cut = (
        p.moved and (p.step > 1 or p.sizes or block == WHOLE or p.constant % block)
        for p, block in zip(parts, blocks, strict=False)
        if block != 1
    )
    return any(cut)
