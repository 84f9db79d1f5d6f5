"""Syntax tree to resolved program: what each expression means, and every refusal that needs more than the grammar.

The roles of indices follow from where they stand: a contraction sums over what both operands have and neither the
statement's left side nor an enclosing reduction keeps. An index that a range's bounds read (`g` in
`for m in off[g]:off[g+1]`) goes with the range's dimension: it may stand in one operand alone, or in the result alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from scalec.frontend import affine, ast, laid, operands, results, scales, words
from scalec.frontend.apart import Apart
from scalec.frontend.diagnostics import Source, Span, one_of, spelled
from scalec.frontend.names import FUNCTIONS, REDUCTIONS, Names
from scalec.frontend.program import (
    Apply,
    Constant,
    Contract,
    Program,
    Quantized,
    Range,
    Read,
    Reduce,
    Rounded,
    Statement,
    Subtract,
    Tensor,
    Value,
    told_by,
)
from scalec.frontend.statements import Settings, Targets, otherwise, promises, read_float
from scalec.frontend.zero_points import ZeroPoints
from scalec.suggestions import did_you_mean, instead

MAX_POWER = 64


class Resolver:
    """Resolves one program; `names` collects what the whole program says."""

    def __init__(self, source: Source, sizes: Mapping[str, int]) -> None:
        self.source = source
        self.names = Names(source, sizes)
        self.targets = Targets(source, self.names)
        self.settings = Settings(source)
        self.apart = Apart(source)
        self.zero_points = ZeroPoints(source, self.names)
        self.results: list[tuple[Tensor, Span]] = []  # likewise
        self.operands: list[tuple[Tensor, Span]] = []  # of contractions, their types to be checked when all is said
        self.linked: dict[str, set[str]] = {}  # range dimension of this statement -> the dims that its bounds read
        self._table: dict[type, Callable[..., Value]] = {
            ast.Number: self._number,
            ast.Name: self._name,
            ast.Tensor: self._tensor,
            ast.Negate: self._negate,
            ast.Binary: self._binary,
            ast.Power: self._power,
            ast.Call: self._call,
            ast.Reduce: self._reduce,
            ast.Contract: self._contract,
            ast.Typed: self._typed,
            ast.Shifted: self._shifted_alone,
            ast.Quantize: self._quantize,
        }
        self.rounded: list[Rounded] = []  # operands that are computed

    def program(self, tree: ast.Program) -> Program:
        if not tree.statements:
            raise self.source.error(
                (0, 0),
                "the program is empty",
                got="no statement",
                expected="a statement such as C[m,n] = A[m,k]@B[n,k]",
            )
        statements = [self._statement(s) for s in tree.statements]
        self._check_types()
        laid.check_reads(self.source, statements)
        self.targets.finish(statements)
        dims = self.names.finish_dims()
        arguments = [*self.names.arguments, *(s.tensor for s in statements if s.accumulate)]
        return Program(dims, dict(self.names.sizes), arguments, statements, self.settings.text)

    def _check_types(self) -> None:
        for tensor in self.names.tensors.values():
            if tensor.index and (tensor.element != "i32" or tensor.levels):
                raise self.source.error(
                    tensor.said,
                    f"{tensor.name} is an index and a tensor of {tensor.element}",
                    got=tensor.element,
                    expected="i32 without scales for a tensor that is used as an index",
                )
        operands.check(self.source, self.operands, self.rounded)
        operands.check_results(self.source, self.results)

    # -------------------------------------------------------------------------------------------------- statements

    def _statement(self, node: ast.Statement) -> Statement:
        names = self.names
        names.current = statement = self.targets.start(node)
        self.linked = {
            r.dim.text: {n.text for n in ast.walk(r.lower, r.upper) if isinstance(n, ast.IndexName)}
            for r in node.ranges
        }
        keep = frozenset(statement.dims)
        names.no_size(node.target, "an index of a result", *node.ranges)
        statement.largest = results.largest(self.source, names, node.target, statement)
        value, words, statement.hadamard = results.split(self.source, node)
        statement.value = self.value(value, keep)
        statement.words = results.words(self.source, names, words)
        statement.ranges = self._ranges(node)
        self.apart.note(node, statement)
        statement.otherwise = otherwise(self.source, node, statement)
        self._check_dims(node, statement, keep)
        laid.check(self.source, node, statement)
        for setting in node.settings:
            self.settings.add(setting)
        self.results.append((statement.tensor, node.target.span))
        names.current = None
        names.defined[statement.tensor.name] = statement
        return statement

    def _check_dims(self, node: ast.Statement, statement: Statement, keep: frozenset[str]) -> None:
        value = statement.value
        over = value.dims - keep - self._linked_to(keep)
        if over:
            found = [(name, span) for name, span in self._indices(node.value) if name in over]
            contracted = [x for x in ast.walk(node.value) if isinstance(x, ast.Contract)]
            within = {span for _, span in self._indices(*contracted)}
            name, span = next((x for x in found if x[1] not in within), found[0])
            told = told_by(value, name)
            matrices = ", or @ in place of * for a product of matrices" if len(found) > 1 else ""
            raise self.source.error(
                span,
                f"index {name} is on the right alone and nothing sums over it",
                got=f"{name} outside a contraction",
                expected=f"{name} in {statement.tensor.name}, or "
                + (f"a range that tells it: {told}" if told else "a reduction over it"),
                fix=f"end this statement with {told}, too" if told else f"write sum[{name}](...)" + matrices,
            )
        alone = keep - value.dims - self._linked_to(value.dims)
        if alone:
            name, span = self._find(node.target, alone)
            expected, fix = "each index of a result on the right too", f"leave {name} out, or read a tensor that has it"
            if told := told_by(value, name):
                expected, fix = f"{expected}, or a range that tells it: {told}", f"end this statement with {told}, too"
            what, got = f"index {name} is in {statement.tensor.name} alone", f"no {name} on the right of ="
            raise self.source.error(span, what, got=got, expected=expected, fix=fix)

    def _indices(self, *roots: ast.Node) -> Iterator[tuple[str, Span]]:
        """The dimensions that an expression names, and where; a temporary without indices names its own."""
        for n in ast.walk(*roots):
            if isinstance(n, ast.IndexName):
                yield n.text, n.span
            elif isinstance(n, ast.Name) and n.text in self.names.defined:
                yield from ((d, n.span) for d in self.names.defined[n.text].dims)

    def _find(self, root: ast.Node, wanted: frozenset[str] | set[str]) -> tuple[str, Span]:
        return next((name, span) for name, span in self._indices(root) if name in wanted)

    def _linked_to(self, dims: frozenset[str]) -> set[str]:
        return {d for dim, read in self.linked.items() if dim in dims for d in read}

    def _ranges(self, node: ast.Statement) -> tuple[Range, ...]:
        used = {name for name, _ in self._indices(node.target, node.value)}
        found: dict[str, Range] = {}
        for r in node.ranges:
            dim = r.dim.text
            if dim not in used:
                raise self.source.error(
                    r.dim.span,
                    f"{dim} has a range and is no index of this statement",
                    got=dim,
                    expected=one_of(sorted(used)),
                    fix=did_you_mean(dim, sorted(used)),
                )
            if dim in found:
                raise self.source.error(
                    r.dim.span, f"{dim} has two ranges", got=f"a second range of {dim}", expected="one for each index"
                )
            lower = self.names.index(r.lower) if r.lower else affine.constant(0)
            made = Range(r.span, dim, lower, self.names.index(r.upper), promises(self.source, r))
            self.apart.check_bounds(r, made, used, any(isinstance(x, ast.Contract) for x in ast.walk(node.value)))
            found[dim] = self.apart.read(r, made)
        return tuple(found.values())

    # ------------------------------------------------------------------------------------------------- expressions

    def value(self, node: ast.Node, keep: frozenset[str]) -> Value:
        """What an expression means, inside a statement and reductions that keep the dims `keep`."""
        return self._table[type(node)](node, keep)

    def _number(self, node: ast.Number, keep: frozenset[str]) -> Value:
        return Constant(node.span, frozenset(), read_float(self.source, node.span, node.text))

    def _name(self, node: ast.Name, keep: frozenset[str]) -> Value:
        if node.text == "inf":
            return Constant(node.span, frozenset(), float("inf"))
        computed = self.names.defined.get(node.text)
        if computed is not None:
            return self._use(node, computed)
        return Read(node.span, frozenset(), self.names.scalar(node), ())

    def _use(self, node: ast.Node, computed: Statement) -> Value:
        computed.temporary = True
        return Read(node.span, frozenset(computed.dims), computed, computed.index)

    def _tensor(self, node: ast.Tensor, keep: frozenset[str]) -> Value:
        read, formatted = self._operand(replace(node, scale=None), "lhs", alone=True)
        if (scale := node.scale) is not None:
            scales.own(self.source, scale, formatted, read.source, read.index, node.name.text)
        if isinstance(read.source, Tensor):
            self.names.place_scales(read.source)
        return read

    def _read(self, node: ast.Tensor, side: str, how: words.How = words.ROWS) -> tuple[Read, bool]:
        """A tensor at its indices, and whether its annotation is a format; `how` it is stored."""
        operands.check_scale(self.source, node)
        computed = self.names.defined.get(node.name.text)
        if computed is not None:
            return cast(Read, self._use_at(node, computed)), False
        tensor = self.names.tensor(node.name, len(node.indices), node.span)
        words.note(self.source, node, tensor, how)
        copied = self.names.copies
        index = self.names.indices(tensor, laid.elements(self.source, tensor, node.indices) if copied else node.indices)
        formatted = node.type is not None and scales.annotate(self.source, tensor, node.type, side, copied)
        dims = frozenset().union(*(affine.dims(i) for i in index))
        return Read(node.span, dims, tensor, index), formatted

    def _operand(self, node: ast.Tensor, side: str, alone: bool = False) -> tuple[Read, bool]:
        """Likewise of what may be in words, or in an order: an operand, or what is read elementwise, `alone`."""
        known = self.names.tensors.get(node.name.text)
        node, how = words.operand(self.source, node, known, self.names.index, strict=not alone)
        return self._read(node, side, how)

    def _use_at(self, node: ast.Tensor, computed: Statement) -> Value:
        name = node.name.text
        self.names.check_rank(name, node.span, len(node.indices), len(computed.index))
        for written, defined in zip(node.indices, computed.index, strict=True):
            if self.names.index(written) != defined:
                raise self.source.error(
                    written.span,
                    f"{name} is computed over other indices",
                    got=str(self.names.index(written)),
                    expected=f"{name}[{', '.join(map(str, computed.index))}], as it is defined",
                    fix="define it over the indices it is used at",
                )
        if node.type is not None:
            raise self.source.error(
                node.type.span,
                f"{name} is a temporary and stays in f32",
                got=node.type.text,
                expected="no type",
                fix=f"write {name}[{', '.join(map(str, computed.index))}]",
            )
        return self._use(node, computed)

    def _negate(self, node: ast.Negate, keep: frozenset[str]) -> Value:
        return self._apply(node, "negate", self.value(node.value, keep))

    def _binary(self, node: ast.Binary, keep: frozenset[str]) -> Value:
        return self._apply(node, node.operator, self.value(node.left, keep), self.value(node.right, keep))

    def _power(self, node: ast.Power, keep: frozenset[str]) -> Value:
        exponent = int(node.exponent) if len(node.exponent) <= 10 else 0
        if not 1 <= exponent <= MAX_POWER:
            raise self.source.error(
                node.span,
                "this power cannot be taken",
                got=f"^{node.exponent}",
                expected=f"an integer power from 1 to {MAX_POWER}",
            )
        value = self.value(node.value, keep)
        return Apply(node.span, value.dims, "power", (value,), exponent)

    def _apply(self, node: ast.Node, function: str, *arguments: Value) -> Value:
        return Apply(node.span, frozenset().union(*(a.dims for a in arguments)), function, arguments)

    def _call(self, node: ast.Call, keep: frozenset[str]) -> Value:
        name, count = node.name.text, len(node.arguments)
        if name not in FUNCTIONS:
            raise self.source.error(
                node.name.span,
                f"{name} is no function",
                got=name,
                expected=one_of(FUNCTIONS),
                fix=instead(name, (*FUNCTIONS, *REDUCTIONS)),
            )
        low, high = FUNCTIONS[name]
        if not low <= count <= high:
            raise self.source.error(
                node.span,
                f"{name} takes {low if low == high else f'{low} to {high}'} arguments".replace(
                    " 1 arguments", " 1 argument"
                ),
                got=spelled(count, "argument"),
                expected=spelled(low, "argument") if low == high else f"{low} to {high} arguments",
                fix=f"a reduction names its indices: {name}[k](...)" if name in REDUCTIONS else "",
            )
        return self._apply(node, name, *(self.value(a, keep) for a in node.arguments))

    def _reduce(self, node: ast.Reduce, keep: frozenset[str]) -> Value:
        kind = node.name.text
        if kind not in REDUCTIONS:
            raise self.source.error(
                node.name.span,
                f"{kind} is no reduction",
                got=kind,
                expected=one_of(REDUCTIONS),
                fix=instead(kind, REDUCTIONS),
            )
        over: list[str] = []
        for i in node.indices:
            if not isinstance(i, ast.IndexName) or i.text in keep or i.text in over:
                said = self.source.text[i.span[0] : i.span[1]]
                raise self.source.error(
                    i.span,
                    f"{kind} cannot run over {said}",
                    got=f"{said}, which the result keeps" if said in keep else said,
                    expected="names of dimensions that the result does not have, each once",
                    fix=f"leave {said} out of the result, or write the {kind} above, as a statement without {said}"
                    if said in keep
                    else "name each dimension alone, and once",
                )
            self.names.dim(i.text, i.span)
            over.append(i.text)
        if not over:
            none, one = f"{kind} runs over no index", f"at least one, as in {kind}[k](...)"
            fix = f"name in {kind}[...] what the result does not have"
            raise self.source.error(node.span, none, got=f"{kind}[]", expected=one, fix=fix)
        value = self.value(node.value, keep | frozenset(over))
        for i, name in zip(node.indices, over, strict=True):
            if name not in value.dims:
                raise self.source.error(
                    i.span,
                    f"{kind} runs over {name}, which its value does not have",
                    got=f"a value over {', '.join(sorted(value.dims)) or 'no index'}",
                    expected="each index of a reduction in what it reduces",
                    fix=f"leave {name} out of {kind}[...]",
                )
        dims = (value.dims - frozenset(over)) | (self._linked_to(value.dims) & keep)
        return Reduce(node.span, dims, kind, value)

    # ------------------------------------------------------------------------------------------------ contractions

    def _contract(self, node: ast.Contract, keep: frozenset[str]) -> Value:
        operands.refuse_chain(self.source, node)
        sides = ((node.left, "lhs"), (node.right, "rhs"))
        values, unformatted = [], []
        for operand, side in sides:
            if isinstance(operand, ast.Tensor):
                value, formatted = self._operand(operand, side)
                if isinstance(value.source, Tensor):
                    self.operands.append((value.source, operand.span))
            elif isinstance(operand, ast.Quantize):
                value, formatted = self._quantized(operand, side, keep)
            elif isinstance(operand, ast.Shifted):
                raise operands.scaled_early(self.source, operand.scale, "the operand before it")
            elif (shifted := self.zero_points.of(operand)) is not None:
                value, formatted = self._shifted(shifted, side), False
            else:
                value, formatted = self._rounded(operand, side, keep)
            values.append(value)
            if not formatted:
                unformatted.append((operand, value))
        if node.scale is not None:
            self._scale(node.scale, unformatted)
        for value in values:
            if isinstance(tensor := operands.scaled(value), Tensor):
                self.names.place_scales(tensor)
        left, right = values
        both = left.dims | right.dims
        linked = self._linked_to(both)
        if left.dims and right.dims:
            self._check_alone(node, left, right, keep | linked)
        if not (left.dims & right.dims) - keep:
            self._refuse_product(node, left, right)
        return Contract(node.span, (both & keep) | (linked & keep), left, right)

    def _shifted(self, node: ast.Binary, side: str) -> Subtract:
        """An operand with zero points."""
        values, _ = self._operand(cast(ast.Tensor, node.left), side)
        of, (zeros, number, sign) = cast(Tensor, values.source), self.zero_points.parts(node.right)
        self.operands.append((of, node.left.span))
        plus = sign * self.zero_points.number(node, number, of.name) if number is not None or zeros is None else 0
        if zeros is None:
            return Subtract(node.span, values.dims, values, plus)
        return self.zero_points.tensor(node, zeros, values, self._read(zeros, side)[0], plus)

    def _shifted_alone(self, node: ast.Shifted, keep: frozenset[str]) -> Subtract:
        """Integers less zero points times their scales, in an elementwise expression."""
        less = self.zero_points.of(node.value)
        if less is None:
            raise self.zero_points.none(node)
        value = self._shifted(less, "lhs")
        tensor = cast(Tensor, value.values.source)
        scales.own(self.source, node.scale, False, tensor, value.values.index, tensor.name)
        self.names.place_scales(tensor)
        return value

    def _typed(self, node: ast.Typed, keep: frozenset[str]) -> Value:
        raise self.source.error(
            node.type.span,
            "only an operand of @ is rounded to a type",
            got=f":{node.type.text} behind what is computed",
            expected="a type behind a tensor, or behind a computed operand, as in relu(A[m,k]):bf16 @ B[n,k]",
        )

    def _quantize(self, node: ast.Quantize, keep: frozenset[str]) -> Value:
        raise self.source.error(
            node.span,
            "only an operand of @ is quantised in an expression",
            got=self.source.text[slice(*node.span)],
            expected="quantize(...) to the right or the left of @",
            fix="quantise a result by its type and scale(...), as in D[m,n]:e4m3 scale(1x128) = ...",
        )

    def _quantized(self, node: ast.Quantize, side: str, keep: frozenset[str]) -> tuple[Quantized, bool]:
        """An operand that is quantised anew, and whether a format says the scales of the tensor that it is of."""
        inner, formatted = self._inside(node.value, self.zero_points.of(node.value), side, keep)
        return operands.quantized(self.source, node, inner), formatted

    def _rounded(self, node: ast.Node, side: str, keep: frozenset[str]) -> tuple[Rounded, bool]:
        """An operand that is computed, or rounded, and likewise."""
        inner, said = (node.value, node.type) if isinstance(node, ast.Typed) else (node, None)
        value, formatted = self._inside(inner, self.zero_points.integers_of(inner), side, keep)
        self.rounded.append(operands.rounded(self.source, node.span, value, said))
        return self.rounded[-1], formatted

    def _inside(self, node: ast.Node, less: ast.Binary | None, side: str, keep: frozenset[str]) -> tuple[Value, bool]:
        """What an operand is made of, `less` zero points, and whether its scales are said in it."""
        if isinstance(node, ast.Tensor):
            return self._operand(node, side)
        value = self._shifted(less, side) if less is not None else self.value(node, keep)
        return value, isinstance(node, ast.Shifted)

    def _refuse_product(self, node: ast.Contract, left: Value, right: Value) -> None:
        laid.check_layout(self.source, node)
        kept = ", all kept" if left.dims & right.dims else ""
        bare = not (left.dims and right.dims)
        raise self.source.error(
            node.span,
            "nothing is contracted",
            got=f"indices {_list(left.dims)} on the left of @ and {_list(right.dims)} on the right{kept}",
            expected="at least one index in both operands and not in the result",
            fix="write the operand's indices, as in A[m,k]" if bare else "write * for a product without a sum",
        )

    def _check_alone(self, node: ast.Contract, left: Value, right: Value, kept: frozenset[str]) -> None:
        alone = (left.dims ^ right.dims) - kept
        if not alone:
            return
        name, span = self._find(node, alone)
        operand, other = (node.left, node.right) if name in left.dims else (node.right, node.left)
        many = name in operands.leading(operand)  # perhaps a matrix for each group of rows
        row = next((f"for {d} in off[{name}]:off[{name}+1]" for d, _ in self._indices(other) if many and d in kept), "")
        raise self.source.error(
            span,
            f"index {name} is in {operands.called(operand)} alone",
            got=f"{name} neither in {operands.called(other)} nor in the result",
            expected="each index in both operands, or in one of them and the result",
            fix=f"sum over it first, as in sum[{name}](...), or add {name} to {operands.called(other)} or the result"
            + (f"; or end this statement with a range: {row}" if row else ""),
        )

    def _scale(self, node: ast.Scale, unformatted: list[tuple[ast.Node, Value]]) -> None:
        """Gives the entries of `scale(...)` to the operands that have no format, in order."""
        if len(node.items) != len(unformatted):
            called = " and ".join(operands.called(o) for o, _ in unformatted)
            entries = [self.source.text[i.span[0] : i.span[1]] for i in node.items]
            both = f", or scale({entries[0]}, {entries[0]}) where both have such scales" if len(entries) == 1 else ""
            entries += ["none"] * (len(unformatted) - len(entries))
            raise self.source.error(
                node.span,
                "scale(...) has another number of entries than there are operands without a format",
                got=spelled(len(node.items), "entry", "entries"),
                expected=f"{len(unformatted)}, for {called}" if called else "no scale(...): both operands have formats",
                fix=f"write scale({', '.join(entries)}){both}"
                if len(node.items) < len(unformatted)
                else "leave out what a format says already",
            )
        for item, (_, value) in zip(node.items, unformatted, strict=True):
            tensor = operands.scaled(value)
            if isinstance(tensor, Tensor):
                levels = scales.levels(self.source, item, tensor.name, operands.index_of(value))
                scales.say(self.source, tensor, item.span, "", levels)
            elif item.levels[0].block.text != "none":
                raise self.source.error(
                    item.span,
                    "only a tensor in memory has scales",
                    got=self.source.text[item.span[0] : item.span[1]],
                    expected="none for an operand that is computed",
                    fix=operands.integers(value) or "scale the tensors inside it by hand, or give them formats",
                )


def _list(dims: frozenset[str]) -> str:
    return ", ".join(sorted(dims)) or "none"
