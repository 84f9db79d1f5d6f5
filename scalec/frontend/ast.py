"""What the parser reads: the program as written, each node with its place and nothing decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from scalec.frontend.diagnostics import Span


@dataclass(frozen=True, eq=False)
class Node:
    """A piece of the text."""

    span: Span


@dataclass(frozen=True, eq=False)
class Name(Node):
    """A name on its own: a scalar, a temporary, an element type, a dimension."""

    text: str


# ------------------------------------------------------------------------------------------------ index expressions


@dataclass(frozen=True, eq=False)
class IndexConstant(Node):
    """`64`."""

    digits: str


@dataclass(frozen=True, eq=False)
class IndexName(Node):
    """`m`."""

    text: str


@dataclass(frozen=True, eq=False)
class IndexRead(Node):
    """`e[m/128]`."""

    name: Name
    indices: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class IndexSize(Node):
    """`size(n)`."""

    function: Name
    dim: Name


@dataclass(frozen=True, eq=False)
class IndexBinary(Node):
    """`n/128*192`, with the operator `+ - * / %`."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, eq=False)
class IndexNegate(Node):
    """`-m`."""

    value: Node


# ------------------------------------------------------------------------------------------------------ expressions


@dataclass(frozen=True, eq=False)
class Level(Node):
    """One level of scales, `1x128:f32@col`."""

    block: Name
    type: Name | None
    layout: Name | None


@dataclass(frozen=True, eq=False)
class Item(Node):
    """The scales of one tensor: levels multiplied, innermost first. `none` is one level whose block says so."""

    levels: tuple[Level, ...]


@dataclass(frozen=True, eq=False)
class Scale(Node):
    """`scale(1x128, 128x128)`."""

    items: tuple[Item, ...]


@dataclass(frozen=True, eq=False)
class Number(Node):
    """`0.5`."""

    text: str


@dataclass(frozen=True, eq=False)
class Tensor(Node):
    """`A[m,k]:e4m3`, and with scales, where no `@` stands before it, `A[m,k]:e4m3 scale(1x128)`."""

    name: Name
    indices: tuple[Node, ...]
    type: Name | None
    scale: Scale | None = None


@dataclass(frozen=True, eq=False)
class Negate(Node):
    """`-x`."""

    value: Node


@dataclass(frozen=True, eq=False)
class Binary(Node):
    """`x + y`, with the operator `+ - * /`."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, eq=False)
class Power(Node):
    """`x^2`."""

    value: Node
    exponent: str


@dataclass(frozen=True, eq=False)
class Call(Node):
    """`relu(x)`."""

    name: Name
    arguments: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Reduce(Node):
    """`sum[k](x)`."""

    name: Name
    indices: tuple[Node, ...]
    value: Node


@dataclass(frozen=True, eq=False)
class Typed(Node):
    """`relu(x):bf16`: what is rounded to a type."""

    value: Node
    type: Name


@dataclass(frozen=True, eq=False)
class Quantize(Node):
    """`quantize(B[n,k]:nvfp4, e4m3, 1x128)`: what is quantised anew."""

    value: Node
    type: Name
    level: Level


@dataclass(frozen=True, eq=False)
class Contract(Node):
    """`A[m,k]@B[n,k] scale(...)`."""

    left: Node
    right: Node
    scale: Scale | None


# ------------------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True, eq=False)
class Target(Node):
    """`D[m,n]:e4m3 scale(1x128)`."""

    name: Name
    indices: tuple[Node, ...]
    type: Name | None
    scale: Scale | None


@dataclass(frozen=True, eq=False)
class Promise(Node):
    """`by 128` or `about 20`, of a range: `word` and the number; `apart` has none."""

    word: Name
    number: Name | None


@dataclass(frozen=True, eq=False)
class Range(Node):
    """`for m in off[g]:off[g+1] by 128 else -inf`; `lower` is None in `for m < rows[g]`."""

    dim: Name
    lower: Node | None
    upper: Node
    promises: tuple[Promise, ...]
    otherwise: Name | None


@dataclass(frozen=True, eq=False)
class Setting(Node):
    """`stages=5`, or a flag by its name alone."""

    name: Name
    value: Name | None


@dataclass(frozen=True, eq=False)
class Statement(Node):
    """`target = value ranges with settings`."""

    target: Target
    accumulate: bool
    value: Node
    ranges: tuple[Range, ...]
    settings: tuple[Setting, ...]


@dataclass(frozen=True, eq=False)
class Program(Node):
    """All statements, in order."""

    statements: tuple[Statement, ...]


def walk(*roots: Node | None) -> Iterator[Node]:
    """All nodes below and including `roots`, in the order of the text. No recursion."""
    stack: list[object] = [r for r in reversed(roots) if r is not None]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack.extend(reversed(node))
        elif isinstance(node, Node):
            yield node
            stack.extend(getattr(node, f.name) for f in reversed(fields(node)) if f.name != "span")
