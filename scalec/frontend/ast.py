"""What the parser reads: the program as written, each node with its place and nothing decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import dataclass_transform

from scalec.frontend.diagnostics import Span


@dataclass_transform(eq_default=False, frozen_default=True)
class _Record:
    """What is derived of it is a dataclass, of which no two are equal."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False)(cls)


class Node(_Record):
    """A piece of the text."""

    span: Span


class Name(Node):
    """A name on its own: a scalar, a temporary, an element type, a dimension."""

    text: str


class Type(Name):
    """`ue8m0` or `ue8m0@packed`: a type, and of scales that are copied perhaps their layout."""

    layout: Name | None = None


# ------------------------------------------------------------------------------------------------ index expressions


class IndexConstant(Node):
    """`64`."""

    digits: str


class IndexName(Node):
    """`m`."""

    text: str


class IndexRead(Node):
    """`e[m/128]`."""

    name: Name
    indices: tuple[Node, ...]


class IndexSize(Node):
    """`size(n)`."""

    function: Name
    dim: Name


class IndexBinary(Node):
    """`n/128*192`, with the operator `+ - * / %`."""

    operator: str
    left: Node
    right: Node


class IndexNegate(Node):
    """`-m`."""

    value: Node


# ------------------------------------------------------------------------------------------------------ expressions


class Level(Node):
    """One level of scales, `1x128:f32@col`; of a result perhaps with what its blocks' largest magnitudes are read from,
    `tensor of M[0]`."""

    block: Name
    type: Name | None
    layout: Name | None
    largest: Tensor | None = None


class Item(Node):
    """The scales of one tensor: levels multiplied, innermost first. `none` is one level whose block says so."""

    levels: tuple[Level, ...]


class Scale(Node):
    """`scale(1x128, 128x128)`."""

    items: tuple[Item, ...]


class Number(Node):
    """`0.5`."""

    text: str


class Tensor(Node):
    """`A[m,k]:e4m3`, and with scales, where no `@` stands before it, `A[m,k]:e4m3 scale(1x128)`."""

    name: Name
    indices: tuple[Node, ...]
    type: Name | None
    scale: Scale | None = None


class Negate(Node):
    """`-x`."""

    value: Node


class Binary(Node):
    """`x + y`, with the operator `+ - * /`."""

    operator: str
    left: Node
    right: Node


class Power(Node):
    """`x^2`."""

    value: Node
    exponent: str


class Call(Node):
    """`relu(x)`."""

    name: Name
    arguments: tuple[Node, ...]


class Reduce(Node):
    """`sum[k](x)`."""

    name: Name
    indices: tuple[Node, ...]
    value: Node


class Typed(Node):
    """`relu(x):bf16`: what is rounded to a type."""

    value: Node
    type: Name


class Shifted(Node):
    """`(B[n,k]:u4 - 8) scale(1x128)`: integers less zero points, times their scales."""

    value: Node
    scale: Scale


class Quantize(Node):
    """`quantize(B[n,k]:nvfp4, e4m3, 1x128)`: what is quantised anew."""

    value: Node
    type: Name
    level: Level


class Contract(Node):
    """`A[m,k]@B[n,k] scale(...)`."""

    left: Node
    right: Node
    scale: Scale | None


# ------------------------------------------------------------------------------------------------------- statements


class Target(Node):
    """`D[m,n]:e4m3 scale(1x128)`."""

    name: Name
    indices: tuple[Node, ...]
    type: Name | None
    scale: Scale | None


class Promise(Node):
    """`by 128` or `about 20`, of a range: `word` and the number; `apart` has none."""

    word: Name
    number: Name | None


class Range(Node):
    """`for m in off[g]:off[g+1] by 128 else -inf`; `lower` is None in `for m < rows[g]`."""

    dim: Name
    lower: Node | None
    upper: Node
    promises: tuple[Promise, ...]
    otherwise: Name | None


class Setting(Node):
    """`stages=5`, or a flag by its name alone."""

    name: Name
    value: Name | None


class Statement(Node):
    """`target = value ranges with settings`."""

    target: Target
    accumulate: bool
    value: Node
    ranges: tuple[Range, ...]
    settings: tuple[Setting, ...]


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
