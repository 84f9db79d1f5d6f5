"""The left side of a statement, numbers, what follows the bounds of ranges, and the `with` clause."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from scalec.errors import ScheduleError
from scalec.formats import ELEMENT_TYPES, WHOLE
from scalec.frontend import affine, ast, laid, results, scales
from scalec.frontend.affine import LIMIT
from scalec.frontend.diagnostics import Source, Span
from scalec.frontend.names import Names
from scalec.frontend.program import Constant, Scales, Statement, scale_name
from scalec.ir import schedule
from scalec.sizes import MOST

PROBED = 2048  # points of each index that are tried for whether a split result index is one to one


def read_float(source: Source, span: Span, text: str) -> float:
    """A number of the text as f32 can hold it; `-inf` is one."""
    value = float(text)
    if (math.isfinite(value) and abs(value) <= ELEMENT_TYPES["f32"].max) or text.endswith("inf"):
        return value
    raise source.error(
        span, "a number is too large for f32", got=text, expected=f"at most {ELEMENT_TYPES['f32'].max} in magnitude"
    )


class Targets:
    """Reads left sides, and checks them once it is known which are temporaries."""

    def __init__(self, source: Source, names: Names) -> None:
        self.source = source
        self.names = names
        self.nodes: dict[str, ast.Target] = {}

    def start(self, node: ast.Statement) -> Statement:
        """A statement whose right side has not been read."""
        target = node.target
        tensor = self.names.define(target)
        self.names.current = Statement(tensor, (), (), Constant(node.span, frozenset(), 0.0), node.accumulate)
        copies = laid.lays(node)
        nodes = laid.elements(self.source, tensor, target.indices) if copies else target.indices
        index = self.names.indices(tensor, nodes)
        dims = {n.text: None for i in target.indices for n in ast.walk(i) if isinstance(n, ast.IndexName)}
        said = target.type
        formatted = said is not None and scales.annotate(self.source, tensor, said, "result", copies)
        if target.scale is not None:
            scales.own(self.source, target.scale, formatted, tensor, index, f"the result {tensor.name}", 1)
        self.nodes[tensor.name] = target
        value = self.names.current.value
        statement = Statement(tensor, index, tuple(dims), value, node.accumulate, copies=copies)
        self._check_scaled(statement)
        self._check_one_to_one(statement)
        return statement

    def _check_scaled(self, statement: Statement) -> None:
        tensor, target = statement.tensor, self.names.source
        if not tensor.levels:
            return
        why, got, expected, fix = "", "", "", ""
        if ELEMENT_TYPES[tensor.element].bits > 8:
            why, got, expected = f"{tensor.element} is no type to quantise to", tensor.element, "8 bits or fewer"
        elif statement.accumulate:
            why, got, expected = f"{tensor.name} is quantised and accumulated into", "+=", "="
        elif affine.symbols(statement.index[-1]) or not all(
            affine.plain(i) or affine.read(i) for i in statement.index[:-1]
        ):
            why = f"{tensor.name} is quantised and its indices are computed"
            got = f"{tensor.name}[{', '.join(map(str, statement.index))}]"
            expected = "plain indices, all but the last also from memory, the last one also around gaps of whole blocks"
            fix = f"give {tensor.name} f32, bf16 or f16 here, and quantise it by a program of its own"
        elif len(tensor.levels) == 2 and (set(tensor.levels[1].block) != {WHOLE} or tensor.levels[1].type != "f32"):
            why, got = f"the second level of {tensor.name} is not one f32", scales.describe(tensor.levels)
            expected = f"{scales.describe(tensor.levels[:1])}*tensor"
        if why:
            raise target.error(tensor.said, why, got=got, expected=expected, fix=fix)

    def _check_one_to_one(self, statement: Statement) -> None:
        """Tries, along each index alone, whether two points land on one element of the result."""
        if any(affine.symbols(i) for i in statement.index):
            return
        for d in statement.dims:
            if any(affine.plain(i) == d for i in statement.index):
                continue
            zero = dict.fromkeys(statement.dims, 0)
            count = min(self.names.sizes.get(d, PROBED), PROBED)
            points = sorted((tuple(affine.value(i, {**zero, d: x}) for i in statement.index), x) for x in range(count))
            clash = next(((a[1], b[1]) for a, b in pairwise(points) if a[0] == b[0]), None)
            if clash:
                raise self.source.error(
                    self.nodes[statement.tensor.name].span,
                    f"two points of {d} land on one element of {statement.tensor.name}",
                    got=f"{d} = {clash[0]} and {d} = {clash[1]}",
                    expected="result indices that differ at any two points",
                )

    def finish(self, statements: Sequence[Statement]) -> None:
        """Checks what depends on whether a name is used."""
        for s in statements:
            target, name = self.nodes[s.tensor.name], s.tensor.name
            if not s.temporary:
                if s.words or s.hadamard:
                    results.check(self.source, s, target)
                s.outer = self._second_level(s, statements)
                self.names.claim_scales(s.tensor, 1 if s.outer is not None else 2)
                if len(s.tensor.levels or ()) > 1 and s.outer is None:  # it is known after the last block at best
                    self.names.arguments.append(Scales(s.tensor, first=1))
                continue
            whole = "stochastic(...)" if s.words else "hadamard(...)" if s.hadamard else ""
            split = next((n for n, i in zip(target.indices, s.index, strict=True) if affine.plain(i) is None), None)
            if s.accumulate or split is not None or target.type is not None or target.scale is not None or whole:
                what = "+=" if s.accumulate else "a computed index" if split else "a type or scales"
                what = whole or what
                node = (None if s.accumulate else split or target.type or target.scale) or target.name
                raise self.source.error(
                    node.span,
                    f"{name} is used below: a temporary never reaches memory and stays in f32",
                    got=f"{what} on {name}",
                    expected=f"{name}[...] = ... with plain indices and no type",
                    fix="leave it out, or compute the result in a statement of another name",
                )

    def _second_level(self, s: Statement, statements: Sequence[Statement]) -> Statement | None:
        """The statement above a quantised result that has the name of its second level of scales, which it computes."""
        if len(s.tensor.levels or ()) < 2:
            return None
        name = scale_name(s.tensor.name, 1)
        found = next((x for x in statements if x.tensor.name == name), None)
        if found is None:
            return None
        index, why = tuple(affine.constant(0) for _ in s.index), ""
        if statements.index(found) > statements.index(s):
            why = "below it"
        elif found.temporary:
            why = "and used elsewhere, too"
        elif found.index != index or found.tensor.element != "f32" or found.tensor.levels:
            why = "and not one f32"
        elif found.accumulate or found.hadamard:
            why = "by += or transformed"
        if why:
            expected = f"{name}[{', '.join(map(str, index))}]:f32 = ..., above it"
            raise self.source.error(
                self.nodes[name].span,
                f"{name}, the second level of {s.tensor.name}'s scales, is computed {why}",
                got=self.source.text[slice(*self.nodes[name].span)],
                expected=f"{expected}, which nothing else uses",
            )
        return found


def promises(source: Source, r: ast.Range) -> tuple[tuple[str, int], ...]:
    """What the program says of a range, by word; refuses a word twice, and numbers beyond what a size may be."""
    found: dict[str, int] = {}
    for p in r.promises:
        word, number = p.word.text, 1 if p.number is None else int(p.number.text)
        said = word if p.number is None else f"{word} {p.number.text}"
        if word in found or not 1 <= number <= MOST:
            raise source.error(
                p.span,
                f"the range of {r.dim.text} has {said}" + (" too" if word in found else ""),
                got=said,
                expected=f"each word once, by and about with a number from 1 to {MOST}",
            )
        found[word] = number
    return tuple(sorted((word, number) for word, number in found.items() if word != "apart"))


def otherwise(source: Source, node: ast.Statement, statement: Statement) -> float | None:
    """What fills the points outside of a statement's ranges, None where nothing does; refuses what cannot be filled."""
    filled = [(r.dim.text, r.otherwise) for r in node.ranges if r.otherwise]
    values = {read_float(source, number.span, number.text) for _, number in filled}
    if not values:
        return None
    dim, number = filled[-1]
    scattered = any(affine.symbols(i) for i in statement.index)
    why, expected = "", ""
    if len(values) > 1:
        why, expected = "a statement has two values for else", "one value for all points outside"
    elif scattered or statement.accumulate:
        why = "else cannot fill " + ("what is scattered" if scattered else "what is accumulated into")
        expected = "no else: points outside the range keep what they hold"
    elif all(name not in statement.dims for name, _ in filled):
        why = f"else has no point to fill: {dim} is no index of {statement.tensor.name}"
        expected = "a range over an index of the result"
    if why:
        raise source.error(number.span, why, got=f"else {number.text}", expected=expected)
    return values.pop()


class Settings:
    """The `with` clauses of a program, which are one schedule."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text: dict[str, str] = {}

    def add(self, node: ast.Setting) -> None:
        """Notes one setting; refuses what the schedule cannot hold."""
        name, kind = node.name.text, schedule.FIELDS.get(node.name.text)
        if node.value is not None:
            text = node.value.text
        elif kind is None or kind.flag:
            text = "1"
        else:
            raise self.source.error(
                node.span,
                f"schedule field {name} is no flag",
                got=name,
                expected=f"a value, e.g. {name}={kind.example}",
            )
        try:
            value = schedule.parse_field(name, text)
        except ScheduleError as error:
            raise self.source.error(
                node.span,
                error.message,
                got=f"{name}={text}" if node.value else name,
                expected=error.expected,
                fix=error.fix,
            ) from None
        if isinstance(value, tuple) and max(value) > LIMIT:
            raise self.source.error(
                node.span, f"schedule field {name} is too large", got=text, expected=f"numbers up to {LIMIT}"
            )
        if self.text.setdefault(name, text) != text:
            raise self.source.error(
                node.span, f"{name} is set twice", got=text, expected=f"{self.text[name]}, as set before"
            )
