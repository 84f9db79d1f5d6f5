"""A resolved program as a `scale` module. Decides nothing: every question was answered in resolve.py.

Each result is written by exactly one `scale.map` (its body may only convert), then quantised or scattered where the
program says so. A range's `scale.domain` is among the operands of every op that walks the range's dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from scalec import sizes
from scalec.formats import ELEMENT_TYPES, WORDS
from scalec.frontend import affine, elementwise, words
from scalec.frontend.affine import Linear, Size, Symbol
from scalec.frontend.diagnostics import Source, Span
from scalec.frontend.operands import index_of, not_of_all, of_all, stored
from scalec.frontend.program import (
    POINT,
    Apply,
    Argument,
    Constant,
    Contract,
    Level,
    Program,
    Quantized,
    Range,
    Read,
    Reduce,
    Rounded,
    Scalar,
    Scales,
    Statement,
    Subtract,
    Tensor,
    Value,
    pads,
    scale_name,
    scale_shape,
)
from scalec.ir import scale, schedule
from scalec.ir.location import location
from scalec.ir.mlir import func, ir
from scalec.ir.scale_round import HadamardOp, LayOp, QuantizeOp, RoundOp

Index = tuple[Linear, ...]
Placed = tuple[ir.Value, Index]  # a tensor value, and where the point (dims) stands in it


def _first(argument: Argument) -> Span:
    """Where an argument first stands; scales stand where they are said."""
    return argument.tensor.said if isinstance(argument, Scales) else argument.span


class Builder:
    """Builds the function of one program in the current context; what it builds is located in the text."""

    def __init__(self, program: Program, source: Source) -> None:
        self.program, self.source = program, source
        self.position = {name: i for i, name in enumerate(program.dims)}
        self.values: dict[str, ir.Value] = {}  # arguments, and temporaries so far, by name
        self.symbols: dict[Symbol | Size, ir.Value] = {}
        self.subsets: dict[Range, ir.Value] = {}
        self.scaled: dict[str, ir.Value] = {}
        self.ranges: tuple[Range, ...] = ()  # of the statement being built

    def module(self, within: Mapping[str, sizes.Range]) -> ir.Module:
        """The module: one function, named after the first result. Dynamic dimensions lie `within` ranges."""
        module = ir.Module.create()
        results = [s for s in self.program.statements if not s.temporary]
        arguments = [a for argument in self.program.arguments for a in self._argument(argument)]
        places = [self._at(_first(argument)) for argument in self.program.arguments for _ in self._argument(argument)]
        returned = [r for s in results for r in self._returned(s)]
        with ir.InsertionPoint(module.body), self._at(results[0].tensor.span):
            function = func.FuncOp(results[0].tensor.name, ([t for _, t, _ in arguments], [t for t, _ in returned]))
            function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(d) for _, _, d in arguments])
            function.attributes["res_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(d) for _, d in returned])
            function.attributes["scale.dims"] = ir.ArrayAttr.get([ir.StringAttr.get(d) for d in self.program.dims])
            scale.write_ranges(function, within)
            schedule.write(function, schedule.from_mapping(self.program.settings))
            entry = function.add_entry_block(places)
            self.values = {name: value for (name, _, _), value in zip(arguments, entry.arguments, strict=True)}
            with ir.InsertionPoint(entry):
                func.ReturnOp([v for s in self.program.statements for v in self._located(s)])
        return module

    def _at(self, span: Span) -> ir.Location:
        return location(self.source.place(span))

    # --------------------------------------------------------------------------------------------------- signature

    def _argument(self, argument: Argument) -> list[tuple[str, ir.Type, dict[str, ir.Attribute]]]:
        if isinstance(argument, Scalar):
            return [(argument.name, ir.F32Type.get(), {"scale.name": ir.StringAttr.get(argument.name)})]
        if isinstance(argument, Scales):
            return self._scales(argument.tensor)[argument.first :]
        layout = WORDS if argument.words else "row"
        type, described = self._stored(argument)
        if argument.order is not None:
            at = words.places(argument.order)
            described["scale.order"] = ir.DenseI64ArrayAttr.get([at.index(i) for i in range(len(at))])
        return [(argument.name, type, {"scale.layout": ir.StringAttr.get(layout)} | described)]

    def _stored(self, tensor: Tensor) -> tuple[ir.Type, dict[str, ir.Attribute]]:
        """A tensor as it is in memory, and what is said of it: scales that are copied lie in their layout."""
        if not tensor.layout and max(tensor.block, default=1) == 1:
            described = self._described(tensor.name, tensor.shape)
            return self._type(ELEMENT_TYPES[tensor.element].mlir, tensor.shape), described
        level = self._laid(tensor)
        described = self._described(tensor.name, scale_shape(tensor, level))
        return self._scale_type(tensor, level), described | {"scale.layout": ir.StringAttr.get(level.layout)}

    @staticmethod
    def _laid(tensor: Tensor) -> Level:
        """Scales that are copied, as those of something of which each element, or block, has one."""
        return Level(tensor.block or (1,) * len(tensor.extents), tensor.element, tensor.layout or "row")

    def _scales(self, tensor: Tensor) -> list[tuple[str, ir.Type, dict[str, ir.Attribute]]]:
        found = []
        for i, level in enumerate(tensor.levels or ()):
            name, shape = scale_name(tensor.name, i), scale_shape(tensor, level)
            described = self._described(name, shape) | {"scale.layout": ir.StringAttr.get(level.layout)}
            found.append((name, self._scale_type(tensor, level), described))
        return found

    def _scale_type(self, tensor: Tensor, level: Level) -> ir.Type:
        element = "i32" if level.layout == "packed" else ELEMENT_TYPES[level.type].mlir
        return self._type(element, scale_shape(tensor, level))

    def _returned(self, statement: Statement) -> list[tuple[ir.Type, dict[str, ir.Attribute]]]:
        tensor = statement.tensor
        type, described = self._stored(tensor)
        if statement.accumulate:
            described["scale.inout"] = ir.UnitAttr.get()
        return [(type, described), *((t, d) for _, t, d in self._scales(tensor)[:1])]

    def _described(self, name: str, shape: Index) -> dict[str, ir.Attribute]:
        return {"scale.name": ir.StringAttr.get(name), "scale.shape": self._attr(self._map(shape, ()))}

    def _type(self, element: str, shape: Index) -> ir.Type:
        extents = [affine.value(e, self.program.sizes) for e in shape]
        dynamic = ir.ShapedType.get_dynamic_size()
        return ir.RankedTensorType.get([dynamic if s is None else s for s in extents], ir.Type.parse(element))

    # -------------------------------------------------------------------------------------------- maps and indices

    def _expr(
        self, value: Linear, symbols: Sequence[Symbol | Size], position: Mapping[str, int] | None = None
    ) -> ir.AffineExpr:
        """An index of the program's dimensions, or of those that have a `position`."""
        total = ir.AffineExpr.get_constant(value.constant)
        for atom, coefficient in value.terms:
            if isinstance(atom, affine.Dim):
                e = ir.AffineExpr.get_dim((position or self.position)[atom.name])
            elif isinstance(atom, Size) and atom.name in self.program.sizes:
                e = ir.AffineExpr.get_constant(self.program.sizes[atom.name])
            elif isinstance(atom, Symbol | Size):
                e = ir.AffineExpr.get_symbol(symbols.index(atom))
            elif isinstance(atom, affine.Remainder):
                e = ir.AffineExpr.get_mod(self._expr(atom.value, symbols, position), atom.divisor)
            else:
                divide = ir.AffineExpr.get_ceil_div if atom.ceiling else ir.AffineExpr.get_floor_div
                e = divide(self._expr(atom.value, symbols, position), atom.divisor)
            total = ir.AffineExpr.get_add(total, ir.AffineExpr.get_mul(e, coefficient))
        return total

    def _map(self, index: Index, symbols: Sequence[Symbol | Size]) -> ir.AffineMap:
        return ir.AffineMap.get(len(self.position), len(symbols), [self._expr(i, symbols) for i in index])

    def _attr(self, m: ir.AffineMap) -> ir.Attribute:
        return ir.AffineMapAttr.get(m)

    def _maps(self, *indices: Index) -> tuple[list[ir.Value], list[ir.Attribute]]:
        """The symbols that these indices use, read from memory or sizes that are not known, and the indices as maps
        over dims and symbols."""
        used = list(dict.fromkeys(s for index in indices for i in index for s in self._used(i)))
        return [self._symbol(s) for s in used], [self._attr(self._map(index, used)) for index in indices]

    def _used(self, index: Linear) -> list[Symbol | Size]:
        return [*affine.symbols(index), *(s for s in affine.sizes(index) if s.name not in self.program.sizes)]

    def _symbol(self, symbol: Symbol | Size) -> ir.Value:
        if isinstance(symbol, Size):
            if symbol not in self.symbols:
                made = scale.SizeOp(scale.SymbolType.get(), ir.StringAttr.get(symbol.name))
                self.symbols[symbol] = made.result
            return self.symbols[symbol]
        if symbol not in self.symbols:
            inner, (m,) = self._maps(symbol.index)
            op = scale.IndexOp(self.values[symbol.tensor], inner, scale.SymbolType.get(), m)
            self.symbols[symbol] = op.result
        return self.symbols[symbol]

    def _domains(self, dims: frozenset[str]) -> list[ir.Value]:
        return [self._subset(r) for r in self.ranges if r.dim in dims]

    def _subset(self, r: Range) -> ir.Value:
        if r not in self.subsets:
            symbols, (lower, upper) = self._maps((r.lower,), (r.upper,))
            with self._at(r.span):
                op = scale.DomainOp(symbols, scale.SubsetType.get(), ir.StringAttr.get(r.dim), lower, upper)
                for word, number in r.promises:
                    i64 = ir.IntegerType.get_signless(64)
                    op.operation.attributes[word] = ir.IntegerAttr.get(i64, number)
            if r.group:
                op.operation.attributes["apart"] = ir.UnitAttr.get()
            self.subsets[r] = op.result
        return self.subsets[r]

    def _plain(self, dims: frozenset[str] | Sequence[str]) -> Index:
        """The dims as an index, in the order of the program where `dims` is a set."""
        order = dims if isinstance(dims, tuple) else sorted(dims, key=self.position.__getitem__)
        return affine.of_dims(order)

    def _f32(self, index: Index) -> ir.Type:
        return self._type("f32", tuple(e for i in index if (e := affine.extent(i)) is not None))

    # -------------------------------------------------------------------------------------------------- statements

    def _located(self, s: Statement) -> list[ir.Value]:
        with self._at(s.tensor.span):
            return self._statement(s)

    def _statement(self, s: Statement) -> list[ir.Value]:
        """Builds a statement; what it adds to the results of the function."""
        self.ranges = s.ranges
        if s.temporary:
            placed = None if s.otherwise is not None else self._whole(s.value, self._plain(s.dims))
            self.values[s.tensor.name] = self._elementwise(s, s.value, s.index, "f32") if placed is None else placed
            return []
        tensor = s.tensor
        if s.copies:
            return [self._copied(s)]
        scattered = any(affine.symbols(i) for i in s.index)
        # a scatter's input has plain indices; its output takes the points to where they go
        index = self._plain(s.dims) if scattered else s.index
        element = "f32" if tensor.levels or s.words or s.hadamard else tensor.element
        value = self._elementwise(s, s.value, index, element)
        if s.hadamard:
            value = HadamardOp(value, value.type).result
        if scattered:
            symbols, maps = self._maps(index, s.index)
            to = self._type(ELEMENT_TYPES[element].mlir, tensor.shape)
            domains = self._domains(frozenset(s.dims))
            value = scale.ScatterOp(value, symbols, domains, to, ir.ArrayAttr.get(maps)).result
        words = [self._symbol(x) for i in s.words for x in affine.symbols(i)]
        if tensor.levels:
            return self._quantize(value, s, tensor.levels, words)
        if tensor.element != element:
            value = RoundOp(value, words, self._type(ELEMENT_TYPES[tensor.element].mlir, tensor.shape)).result
        self.values.setdefault(tensor.name, value)  # which may be the second level of what is quantised below
        return [value]

    def _copied(self, s: Statement) -> ir.Value:
        """Scales in another layout."""
        read = cast(Read, s.value)
        source = cast(Tensor, read.source)
        symbols, maps = self._maps(read.index, s.index)
        domains = self._domains(frozenset(s.dims) | read.dims)
        (type, _), levels = self._stored(s.tensor), [self._laid(x) for x in (source, s.tensor)]
        kinds, attributes = ir.ArrayAttr.get([self._granularity(x) for x in levels]), ir.ArrayAttr.get(maps)
        return LayOp(self.values[source.name], symbols, domains, type, attributes, kinds).result

    def _whole(self, value: Value, index: Index) -> ir.Value | None:
        """A temporary that is a contraction or a reduction needs no map around it."""
        with self._at(value.span):
            if isinstance(value, Contract):
                return self._contract(value, index)
            return self._reduce(value, index) if isinstance(value, Reduce) else None

    def _quantize(
        self, value: ir.Value, s: Statement, levels: Sequence[Level], words: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """The scale of the whole result, where there is one, is an argument, or a result above."""
        tensor, largest = s.tensor, [self.values[s.largest.name]] if s.largest is not None else []
        values, level = self._type(ELEMENT_TYPES[tensor.element].mlir, tensor.shape), levels[0]
        outer = [self.values[scale_name(tensor.name, i)] for i in range(1, len(levels))]
        scales, granularity = self._scale_type(tensor, level), self._granularity(level)
        op = QuantizeOp(value, outer, words, largest, values, scales, granularity)
        self._apart(op, tensor, level)
        return list(op.operation.results)

    def _granularity(self, level: Level) -> ir.Attribute:
        block = ir.DenseI64ArrayAttr.get(list(level.block))
        return scale.GranularityAttr.get(block, ir.StringAttr.get(level.type), ir.StringAttr.get(level.layout))

    # ------------------------------------------------------------------------------------------------- expressions

    def _place(self, value: Value) -> Placed:
        """A value as a tensor that an op can take, and its index there."""
        with self._at(value.span):
            return self._placed(value)

    def _placed(self, value: Value) -> Placed:
        if isinstance(value, Read):
            if isinstance(value.source, Tensor):
                return self._dequantized(value.source), value.index
            name = value.source.name if isinstance(value.source, Scalar) else value.source.tensor.name
            return self.values[name], value.index
        if isinstance(value, Subtract):
            return self._scaled(cast(Tensor, value.values.source), self._subtracted(value)), value.values.index
        if isinstance(value, Quantized):
            return self._quantized(value), value.index
        index = self._plain(value.dims)
        if isinstance(value, Contract):
            return self._contract(value, index), index
        if isinstance(value, Reduce):
            return self._reduce(value, index), index
        if isinstance(value, Rounded):
            if (tensor := stored(value)) is not None:
                return self._rounded(value, tensor), index_of(value)
            return self._elementwise(None, value.value, index, value.element), index
        return self._elementwise(None, value, index, "f32"), index

    def _subtracted(self, value: Subtract) -> ir.Value:
        """Integers less their zero points."""
        tensor, zeros = cast(Tensor, value.values.source), value.zeros
        to, i64 = self._type("f32", tensor.shape), ir.IntegerType.get_signless(64)
        if isinstance(zeros, int):
            made = scale.SubtractOp(self.values[tensor.name], [], to)
            made.operation.attributes["number"] = ir.IntegerAttr.get(i64, zeros)
        else:
            given = self.values[cast(Tensor, zeros.source).name]
            made = scale.SubtractOp(self.values[tensor.name], [given], to)
            at = [self._expr(e, (), {POINT: axis}) for axis, e in value.at]
            made.operation.attributes["map"] = self._attr(ir.AffineMap.get(len(tensor.shape), 0, at))
            if value.plus:
                made.operation.attributes["plus"] = ir.IntegerAttr.get(i64, value.plus)
        return made.result

    def _rounded(self, value: Rounded, tensor: Tensor) -> ir.Value:
        """A tensor times its scales, rounded where the type has not all of these products; less its zero points."""
        if isinstance(value.value, Subtract):
            return self._scaled(tensor, self._subtracted(value.value), made=value.said)
        key = f"{tensor.name} {value.said}"  # one op for all contractions
        if key not in self.scaled:
            self.scaled[key] = self._scaled(tensor, self.values[tensor.name], made=value.said)
        return self.scaled[key]

    def _quantized(self, value: Quantized) -> ir.Value:
        """What is quantised, times its new scales and those that multiply all of it."""
        tensor, element, level = value.tensor, value.element, value.level
        plain = tensor is not None and isinstance(value.value, Read)
        key = f"{tensor.name if tensor and plain else id(value)} {element} {level}"  # one op for all contractions
        if key in self.scaled:
            return self.scaled[key]
        levels = tensor.levels or () if tensor is not None else ()
        outer = [x for x in levels if value.outer(x)]
        body, index = value.value, value.index
        if tensor is None:
            if any(map(affine.symbols, index)):  # of all of a tensor that is read through memory
                found = of_all(body)
                if found is None:
                    raise not_of_all(self.source, body)
                body, index = found[0], self._plain(found[1])
            x = self._elementwise(None, body, index, "f32")
        else:
            x = self._subtracted(value.value) if isinstance(value.value, Subtract) else self.values[tensor.name]
            x = self._scaled(tensor, x, [x for x in levels if x not in outer])
        shape = tensor.shape if tensor is not None else tuple(e for i in index if (e := affine.extent(i)))
        like = Tensor(element, value.span, list(shape))
        made = QuantizeOp(
            x,
            [],
            [],
            [],
            self._type(ELEMENT_TYPES[element].mlir, shape),
            self._scale_type(like, level),
            self._granularity(level),
        )
        to = self._type("f32", shape)
        result = scale.DequantizeOp(made.values, made.scales, to, self._granularity(level)).result
        self.scaled[key] = result if tensor is None else self._scaled(tensor, result, outer)
        return self.scaled[key]

    def _dequantized(self, tensor: Tensor) -> ir.Value:
        if not tensor.levels:
            return self.values[tensor.name]
        if tensor.name not in self.scaled:
            self.scaled[tensor.name] = self._scaled(tensor, self.values[tensor.name])
        return self.scaled[tensor.name]

    def _scaled(
        self, tensor: Tensor, value: ir.Value, levels: Sequence[Level] | None = None, made: str = "f32"
    ) -> ir.Value:
        """The values of a tensor times its scales, all or those of some `levels`, as numbers of the type `made`."""
        for r in tensor.groups.values():
            self._subset(r)  # above what is counted from where its groups begin
        for i, level in enumerate(tensor.levels or ()):
            if levels is not None and level not in levels:
                continue
            scales = self.values[scale_name(tensor.name, i)]
            to = self._type(made, tensor.shape)
            op = scale.DequantizeOp(value, scales, to, self._granularity(level))
            self._apart(op, tensor, level)
            value = op.result
        return value

    def _apart(self, made: ir.OpView, tensor: Tensor, level: Level) -> None:
        """Notes along which dimensions the scales of a level are counted from where each group begins."""
        if apart := [tensor.groups[axis] for axis in pads(tensor, level)]:
            names = [ir.StringAttr.get(r.dim) for r in apart]
            made.operation.attributes["apart"] = ir.ArrayAttr.get(names)

    def _contract(self, value: Contract, index: Index) -> ir.Value:
        left, at_left = self._operand(value.left)
        right, at_right = self._operand(value.right)
        symbols, maps = self._maps(at_left, at_right, index)
        domains = self._domains(value.left.dims | value.right.dims)
        return scale.ContractOp(left, right, symbols, domains, self._f32(index), ir.ArrayAttr.get(maps)).result

    def _operand(self, value: Value) -> Placed:
        """An operand of a contraction; what is computed of a tensor that is read through memory is of all of it."""
        found = of_all(value.value) if isinstance(value, Rounded) and stored(value) is None else None
        if found is None:
            return self._place(value)
        body, order, at = found
        with self._at(value.span):
            return self._elementwise(None, body, self._plain(order), cast(Rounded, value).element), at

    def _reduce(self, value: Reduce, index: Index) -> ir.Value:
        inner, at = self._place(value.value)
        symbols, maps = self._maps(at, index)
        domains = self._domains(value.value.dims)
        kind = ir.StringAttr.get(value.kind)
        return scale.ReduceOp(inner, symbols, domains, self._f32(index), ir.ArrayAttr.get(maps), kind).result

    def _elementwise(self, s: Statement | None, value: Value, index: Index, element: str) -> ir.Value:
        """One `scale.map` that computes `value`: for the statement `s`, or for a part of an expression."""
        views: dict[Placed, ir.Value] = {}
        leaves: dict[int, Placed] = {}
        self._leaves(value, leaves, views)
        accumulated = None
        if s is not None and s.accumulate:
            accumulated = (self.values[s.tensor.name], s.index)
            self._view(accumulated, views)
        symbols, (m,) = self._maps(index)
        dims = frozenset(s.dims) if s is not None else value.dims
        to = self._type(ELEMENT_TYPES[element].mlir, tuple(e for i in index if (e := affine.extent(i)) is not None))
        op = scale.MapOp(list(views.values()), symbols, self._domains(dims), to, m)
        if s is not None and s.otherwise is not None:
            op.operation.attributes["otherwise"] = ir.FloatAttr.get(ir.F32Type.get(), s.otherwise)
        types = [scale.element(placed[0].type) for placed in views]
        block = ir.Block.create_at_start(op.operation.regions[0], types, [ir.Location.unknown()] * len(types))
        arguments = dict(zip(views, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            as_f32 = {placed: elementwise.to_f32(x) for placed, x in arguments.items()}
            result = self._body(value, leaves, as_f32)
            if accumulated is not None:
                result = elementwise.FUNCTIONS["+"](as_f32[accumulated], result)
            scale.YieldOp(elementwise.from_f32(result, element))
        return op.result

    def _leaves(self, value: Value, leaves: dict[int, Placed], views: dict[Placed, ir.Value]) -> None:
        """Builds what a body reads, in the order of the text; one view for each tensor at each index."""
        if isinstance(value, Apply):
            for argument in value.arguments:
                self._leaves(argument, leaves, views)
        elif not isinstance(value, Constant):
            leaves[id(value)] = self._place(value)
            with self._at(value.span):
                self._view(leaves[id(value)], views)

    def _view(self, placed: Placed, views: dict[Placed, ir.Value]) -> None:
        if placed not in views:
            symbols, (m,) = self._maps(placed[1])
            views[placed] = scale.ReadOp(placed[0], symbols, scale.ViewType.get(), m).result

    def _body(self, value: Value, leaves: dict[int, Placed], arguments: dict[Placed, ir.Value]) -> ir.Value:
        if isinstance(value, Constant):
            return elementwise.constant(value.number)
        if not isinstance(value, Apply):
            return arguments[leaves[id(value)]]
        inner = [self._body(a, leaves, arguments) for a in value.arguments]
        if value.function == "power":
            return elementwise.power(inner[0], value.exponent)
        return elementwise.FUNCTIONS[value.function](*inner)
