"""Resolved statements as text: what a person would have written, with each type and each scale where it is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES, FORMATS, WHOLE
from scalec.frontend import affine, words
from scalec.frontend.program import (
    Apply,
    Constant,
    Contract,
    Level,
    Quantized,
    Range,
    Read,
    Reduce,
    Rounded,
    Scalar,
    Statement,
    Subtract,
    Tensor,
    Value,
    all_reads,
    scale_name,
)
from scalec.gradients.expressions import apply, below, children, number
from scalec.gradients.steps import Part

SUM, PRODUCT, UNARY, MATMUL, POWER, ATOM = range(6)
"""How tight an expression binds, as the grammar has it."""


def index(i: affine.Linear) -> str:
    """An index expression."""
    return str(i).replace(" ", "")


def indices(tensor: str, at: Sequence[affine.Linear]) -> str:
    """A tensor at an index."""
    return f"{tensor}[{','.join(map(index, at))}]"


def spelled(x: float) -> str:
    """A number of the text, which has no sign of its own."""
    return f"{int(x)}" if abs(x) < 1e9 and x == int(x) else repr(x)


def granularity(levels: Sequence[Level], at: Sequence[affine.Linear]) -> str:
    """An entry of `scale(...)`, innermost level first."""
    return "*".join(_level(level, at) for level in levels) or "none"


def _level(level: Level, at: Sequence[affine.Linear]) -> str:
    if set(level.block) == {WHOLE}:
        block = "tensor"
    else:
        entries = [affine.plain(i) or "" if b == WHOLE else str(b) for b, i in zip(level.block, at, strict=True)]
        while len(entries) > 1 and entries[0] == "1":  # blocks are aligned from the right
            del entries[0]
        if len(entries) == 1:
            entries.insert(0, "1")
        block = "x".join(entries)
    said = f"{block}:{level.type}" if level.type != "f32" else block
    return said if level.layout == "row" else f"{said}@{level.layout}"


def format_of(tensor: Tensor, side: str) -> str:
    """The format that says a tensor's type and its scales, "" where none does."""
    for row in FORMATS.values():
        levels = []
        for g in getattr(row, side):
            rank = len(tensor.extents)
            block = (WHOLE,) * rank if g.tensor else (1,) * (rank - len(g.block)) + tuple(g.block)
            levels.append(Level(block, g.type, g.layout))
        if row.element == tensor.element and tuple(levels) == tensor.levels:
            return row.name
    return ""


class Writer:
    """Writes the statements of one program; a tensor's type is said where it first stands. `parts` are written as parts
    of their tensors."""

    def __init__(self, parts: Mapping[str, Part] = MappingProxyType({})) -> None:
        self.said: set[str] = set()
        self.parts = parts

    def statement(self, s: Statement, extra: str = "") -> str:
        """A statement, with its ranges and what is to follow."""
        right = self.value(s.value)
        right = f"hadamard({right}, {s.hadamard})" if s.hadamard else right
        if s.words:
            right = f"stochastic({', '.join([right, *map(index, s.words)])})"
        sign = "+=" if s.accumulate else "="
        return f"{indices(s.tensor.name, s.index)}{self._of_result(s)} {sign} {right}{ranges(s)}{extra}"

    def _of_result(self, s: Statement) -> str:
        tensor = s.tensor
        if s.temporary:
            return ""
        if not tensor.levels:
            return "" if tensor.element == "bf16" else f":{tensor.element}"
        named = format_of(tensor, "result")
        if named and named != "fp8_block":
            return f":{named}"
        return f":{tensor.element} scale({granularity(tensor.levels, s.index)})"

    def value(self, v: Value, tightest: int = SUM) -> str:
        """An expression, in brackets where what stands around it binds tighter."""
        text, binds = self._value(v)
        return f"({text})" if binds < tightest else text

    def _value(self, v: Value) -> tuple[str, int]:
        if isinstance(v, Constant):
            return (spelled(v.number), ATOM) if v.number >= 0 else (f"-{spelled(-v.number)}", UNARY)
        if isinstance(v, Read):
            return self._read(v), ATOM
        if isinstance(v, Apply):
            return self._apply(v)
        if isinstance(v, Reduce):
            over = ",".join(d for d in in_order(v.value) if d in v.value.dims - v.dims)
            return f"{v.kind}[{over}]({self.value(v.value)})", ATOM
        if isinstance(v, Contract):
            left, right = self._operand(v.left, "lhs"), self._operand(v.right, "rhs")
            scaled = [s for s in (left[1], right[1]) if s]
            if not any(s != "none" for s in scaled):
                return f"{left[0]} @ {right[0]}", MATMUL
            texts = [self._format_said(x, *made) for x, made in ((v.left, left), (v.right, right))]
            return f"{' @ '.join(texts)} scale({', '.join(scaled)})", MATMUL
        if isinstance(v, Rounded):
            return f"({self.value(v.value)}){f':{v.said}' if v.said else ''}", ATOM
        if isinstance(v, Subtract):
            values, scale = self._operand(v, "lhs")
            return f"{values} scale({scale})" if scale != "none" else values, ATOM
        raise UnsupportedError("this has no text", got=type(v).__name__, expected="an expression of the language")

    def _read(self, v: Read) -> str:
        if isinstance(v.source, Scalar):
            return v.source.name
        if isinstance(v.source, Statement):
            return v.source.tensor.name  # at the indices of its definition, which is where the language has it
        tensor, usual = v.source, "bf16"
        name, at = self._place(tensor, v.index)
        if not tensor.levels:
            return at + self._type(name, tensor.element, usual)
        if named := format_of(tensor, "lhs"):
            return at + self._type(name, named, "")
        scale = f" scale({granularity(tensor.levels, v.index)})" if name not in self.said else ""
        return at + self._type(name, tensor.element, "") + scale

    def _place(self, tensor: Tensor, at: Sequence[affine.Linear]) -> tuple[str, str]:
        """What a tensor is called, and where it is read."""
        part = self.parts.get(tensor.name)
        if part is None:
            return tensor.name, indices(tensor.name, words.written(tensor, at))
        own = [part.index if axis == part.axis else index(i) for axis, i in enumerate(at)]
        return part.of, f"{part.of}[{','.join(own)}]"

    def _type(self, name: str, type: str, usual: str) -> str:
        if name in self.said or type == usual:
            return ""
        self.said.add(name)
        return f":{type}"

    def _operand(self, v: Value, side: str) -> tuple[str, str]:
        """An operand of `@`, and its entry of `scale(...)`, "" where a format says it."""
        if isinstance(v, Subtract):
            values, scale = self._operand(v.values, side)
            zeros = str(v.zeros) if isinstance(v.zeros, int) else self._zeros(v.zeros, v.plus)
            return f"({values} - {zeros})", scale
        if isinstance(v, Quantized):
            values, scale = self._operand(v.value, side) if v.tensor is not None else (self.value(v.value), "none")
            return f"quantize({values}, {v.element}, {granularity((v.level,), v.index)})", scale
        if not isinstance(v, Read) or not isinstance(v.source, Tensor):
            return self.value(v, POWER), "none"
        tensor = v.source
        name, at = self._place(tensor, v.index)
        named = format_of(tensor, side) if tensor.levels else ""
        if named not in ("", "fp8_block"):
            return at + self._type(name, named, ""), ""
        element = "tf32" if tensor.element == "f32" else tensor.element
        said = self._type(name, element, "e4m3" if tensor.levels else "bf16")
        return at + said, granularity(tensor.levels or (), v.index)

    @staticmethod
    def _format_said(v: Value, text: str, entry: str) -> str:
        """An operand with its format, which `scale(...)` has no entry for, though it was said before: entries are
        counted by what is said here."""
        if entry or not isinstance(v, Read) or not isinstance(v.source, Tensor):
            return text
        said = f":{format_of(v.source, 'lhs')}"
        return text if text.endswith(said) else text + said

    def _zeros(self, v: Read, plus: int) -> str:
        tensor = v.source
        assert isinstance(tensor, Tensor)
        name, at = self._place(tensor, v.index)
        at += self._type(name, tensor.type, "")
        return f"({at} {'+' if plus > 0 else '-'} {abs(plus)})" if plus else at

    def _apply(self, v: Apply) -> tuple[str, int]:
        name, xs = v.function, v.arguments
        if name in ("+", "-"):
            return f"{self.value(xs[0], SUM)} {name} {self.value(xs[1], PRODUCT)}", SUM
        if name in ("*", "/"):
            return f"{self.value(xs[0], PRODUCT)}{self._sign(name, xs)}{self.value(xs[1], UNARY)}", PRODUCT
        if name == "negate":
            text, binds = self._value(xs[0])  # -x*y is (-x)*y, which is the same
            return (f"-{text}", min(binds, UNARY)) if binds >= PRODUCT else (f"-({text})", UNARY)
        if name == "power":
            return f"{self.value(xs[0], ATOM)}^{v.exponent}", POWER
        return f"{name}({', '.join(map(self.value, xs))})", ATOM

    def _sign(self, name: str, xs: Sequence[Value]) -> str:
        return f" {name} " if any(isinstance(x, (Contract, Apply, Reduce)) for x in xs) else name


def program(writer: Writer, statements: Sequence[Statement]) -> str:
    """Statements, with those that find the second level of scales of their results before these."""
    temporary = [s for s in statements if s.temporary]
    others = [s for s in statements if not s.temporary]
    found = [x for s in others for x in second_level(s)]
    return "\n".join(map(writer.statement, (*temporary, *found, *others)))


def second_level(s: Statement) -> list[Statement]:
    """What finds the second level of a result's scales: its largest magnitude over what a scale of a block times an
    element is at most. A transform makes one as many times as large as the root of what is added."""
    levels, rank = s.tensor.levels or (), len(s.index)
    if len(levels) < 2:
        return []
    most = ELEMENT_TYPES[levels[0].type].max * ELEMENT_TYPES[s.tensor.element].max / math.sqrt(s.hadamard or 1)
    less = [x for x in below(s.value) if isinstance(x, Subtract)]  # signs beside either change nothing
    of = less[0] if less else max(all_reads(s.value), key=lambda x: len(x.dims))
    largest = Reduce(s.value.span, frozenset(), "max", apply("abs", of))
    zeros = (affine.constant(0),) * rank
    tensor = Tensor(scale_name(s.tensor.name, 1), s.tensor.span, [None] * rank, "f32")
    return [Statement(tensor, zeros, (), apply("/", largest, number(most)), False, s.ranges)]


def in_order(v: Value) -> list[str]:
    """The dimensions of an expression as they appear in it."""
    if isinstance(v, Read):
        return list(dict.fromkeys(d for i in v.index for d in sorted(affine.dims(i))))
    inner = (v.values,) if isinstance(v, Subtract) else children(v)
    return list(dict.fromkeys(d for x in inner for d in in_order(x)))


def ranges(s: Statement) -> str:
    """The ranges of a statement."""
    return "".join(f" for {one_range(r)}{_otherwise(s, i)}" for i, r in enumerate(s.ranges))


def one_range(r: Range) -> str:
    """A range, without `for`."""
    lower, upper = index(r.lower), index(r.upper)
    text = f"{r.dim} < {upper}" if lower == "0" else f"{r.dim} in {lower}:{upper}"
    text += "".join(f" {word} {number}" for word, number in r.promises)
    return text + (" apart" if r.group else "")


def _otherwise(s: Statement, i: int) -> str:
    if s.otherwise is None or i + 1 < len(s.ranges):
        return ""
    x = s.otherwise
    return f" else {'-' if x < 0 else ''}{spelled(abs(x))}"
