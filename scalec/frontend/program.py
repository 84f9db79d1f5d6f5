"""A resolved program: every name, type, extent and dimension decided, for build.py to turn into IR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from scalec.formats import WHOLE, padded_to
from scalec.frontend import affine
from scalec.frontend.affine import Linear, divide
from scalec.frontend.affine import constant as number
from scalec.frontend.diagnostics import Span


@dataclass(frozen=True)
class Level:
    """One level of scales: `block` has an entry for each index of its tensor, WHOLE for a whole dimension."""

    block: tuple[int, ...]
    type: str
    layout: str


@dataclass(eq=False)
class Tensor:
    """A tensor in memory."""

    name: str  # what the user calls it
    span: Span  # where it first stands
    extents: list[Linear | None]  # one for each index; None while only indices read from memory have used that position
    type: str = ""  # name of the element type, "" while no use has said it
    levels: tuple[Level, ...] | None = None  # its scales, innermost first; None while no use has said them
    said: Span = (0, 0)  # where `type` and `levels` were said
    layout: str | None = None  # of scales that are copied, "" for rows; None while no use has said it
    # of scales that are copied, of how many elements of each index one is; () of others. Extents are of elements then.
    block: tuple[int, ...] = ()
    index: bool = False  # whether it is used as an index
    words: bool | None = None  # whether it is stored in words of its last index; None while no operand has said it
    # where its elements lie along its last index, computed of that (POINT), where an operand has them in another order
    # within each eight; None in order.
    order: Linear | None = None
    # its indices along which each group of a range has blocks of its own, and the range.
    groups: dict[int, Range] = field(default_factory=dict)

    @property
    def element(self) -> str:
        """Name of its element type: what was said, or the language's default."""
        return self.type or ("i32" if self.index else "e4m3" if self.levels else "bf16")

    @property
    def shape(self) -> tuple[Linear, ...]:
        """Its extents, once the resolver has filled them all."""
        return tuple(e for e in self.extents if e is not None)


def scale_name(tensor: str, level: int) -> str:
    """Name of the scales of a level (0 is the innermost)."""
    return f"{tensor}_scale" if level == 0 else f"{tensor}_scale{level + 1}"


def pads(tensor: Tensor, level: Level) -> dict[int, int]:
    """By index of a tensor, to how many of it each group's scales of a level are padded, where that is more than 1."""
    sizes = {axis: padded_to(level.block, level.layout, axis) for axis in tensor.groups}
    return {axis: size for axis, size in sizes.items() if size > 1}


def scale_shape(tensor: Tensor, level: Level) -> tuple[Linear, ...]:
    """Extents of a level's tensor: one for each index, ceil(extent / block), 1 for a whole dimension. Groups that are
    apart begin at multiples of what they are padded to, in as many more as there are groups.

    `packed` holds four of the last index in one i32.
    """
    shape = list(tensor.shape)
    for axis, size in pads(tensor, level).items():
        group = affine.atom(affine.Dim(tensor.groups[axis].group))
        shape[axis] = affine.times(affine.add(divide(shape[axis], size, ceiling=True), group), size)
    blocks = [number(1) if b == WHOLE else divide(e, b, ceiling=True) for e, b in zip(shape, level.block, strict=True)]
    if level.layout == "packed":
        blocks[-1] = divide(blocks[-1], 4, ceiling=True)
    return tuple(blocks)


@dataclass(frozen=True)
class Scalar:
    """An f32 argument, and where it first stands."""

    name: str
    span: Span


@dataclass(frozen=True)
class Scales:
    """The scale tensors of a tensor, as arguments: those of its levels from `first` on."""

    tensor: Tensor
    first: int = 0


Argument = Tensor | Scalar | Scales


# ------------------------------------------------------------------------------------------------------ expressions


@dataclass(frozen=True, eq=False)
class Value:
    """A value at each point of `dims`."""

    span: Span
    dims: frozenset[str]


@dataclass(frozen=True, eq=False)
class Constant(Value):
    """A number."""

    number: float


@dataclass(frozen=True, eq=False)
class Read(Value):
    """A tensor, a scalar or a temporary at an index."""

    source: Tensor | Scalar | Statement
    index: tuple[Linear, ...]


@dataclass(frozen=True, eq=False)
class Apply(Value):
    """`+ - * / negate power` or a function of the language; a power's exponent is `exponent`."""

    function: str
    arguments: tuple[Value, ...]
    exponent: int = 0


POINT = "i"
"""What an index of an operand is called in those that are computed of it."""


@dataclass(frozen=True, eq=False)
class Subtract(Value):
    """An operand of integers less their zero points, which its scales then multiply: a number, or a tensor, of which
    each is `plus` more than is stored. `at`: for each of the tensor's indices which of the operand's it is computed
    of, and how, with POINT for that."""

    values: Read
    zeros: Read | int
    at: tuple[tuple[int, Linear], ...] = ()
    plus: int = 0


@dataclass(frozen=True, eq=False)
class Rounded(Value):
    """What a contraction multiplies of a value that is computed: rounded to the type that is `said`, or where none is
    to that of `of`, the one tensor in it that has all of its indices."""

    value: Value
    said: str
    of: Tensor | None

    @property
    def element(self) -> str:
        """The type, known when the whole program is read."""
        return self.said or (self.of.element if self.of is not None else "")

    @property
    def tensor(self) -> Tensor | None:
        """The tensor that is rounded, with its scales or zero points; None of an expression."""
        return tensor_of(self.value)


@dataclass(frozen=True, eq=False)
class Quantized(Value):
    """What a contraction multiplies of a value that is quantised anew, to elements of a type and one `level` of scales:
    of a tensor, with zero points or without, or of an expression. `index`: what the blocks lie along."""

    value: Value
    element: str
    level: Level
    index: tuple[Linear, ...]

    @property
    def tensor(self) -> Tensor | None:
        """The tensor, None of an expression."""
        return tensor_of(self.value)

    def outer(self, level: Level) -> bool:
        """Whether scales of the tensor multiply what was quantised: all of a new block has one, and more."""
        return all(own == WHOLE for own, new in zip(level.block, self.level.block, strict=True) if new != 1)


@dataclass(frozen=True, eq=False)
class Contract(Value):
    """The sum of left * right over the dimensions that are not in `dims`."""

    left: Value
    right: Value


@dataclass(frozen=True, eq=False)
class Reduce(Value):
    """The sum, max or min (`kind`) of `value` over the dimensions that are not in `dims`."""

    kind: str
    value: Value


def tensor_of(value: Value) -> Tensor | None:
    """The tensor that a value is, with zero points or without; None where it is computed."""
    value = value.values if isinstance(value, Subtract) else value
    return value.source if isinstance(value, Read) and isinstance(value.source, Tensor) else None


def reads_in(value: Value) -> Iterator[tuple[Tensor, tuple[Linear, ...]]]:
    """The tensors in memory that a value reads itself, and at which indices."""
    return ((x.source, x.index) for x in all_reads(value) if isinstance(x.source, Tensor))


def all_reads(value: Value) -> Iterator[Read]:
    """What a value reads itself: tensors in memory, scalars and temporaries."""
    if isinstance(value, Read):
        yield value
        return
    inner: tuple[Value, ...] = ()
    if isinstance(value, Subtract):
        inner = (value.values, *([value.zeros] if isinstance(value.zeros, Read) else ()))
    elif isinstance(value, Apply):
        inner = value.arguments
    elif isinstance(value, Contract):
        inner = (value.left, value.right)
    elif isinstance(value, (Reduce, Rounded, Quantized)):
        inner = (value.value,)
    for x in inner:
        yield from all_reads(x)


def told_by(value: Value, name: str) -> str:
    """The range of a temporary that a value is computed of, by which a dimension is told; "" where there is none."""
    used = (x.source for x in all_reads(value) if isinstance(x.source, Statement))
    return next((str(r) for x in used for r in x.ranges if name in affine.dims(r.lower) | affine.dims(r.upper)), "")


# ------------------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True)
class Range:
    """The points whose `dim` lies in [lower, upper). `promises`: what the program says of them, by word. `group`: the
    dimension of which each index has blocks of its own, "" where blocks are those of all of `dim`."""

    span: Span
    dim: str
    lower: Linear
    upper: Linear
    promises: tuple[tuple[str, int], ...] = ()
    group: str = ""

    def __str__(self) -> str:
        return f"for {self.dim} in {self.lower}:{self.upper}" + " apart" * bool(self.group)


@dataclass(eq=False)
class Statement:
    """What is assigned to what."""

    tensor: Tensor  # the name, extents, type and scales of what is defined
    index: tuple[Linear, ...]  # where each point of the iteration space stands in it
    dims: tuple[str, ...]  # the dimensions of the iteration space, in the order of the target's indices
    value: Value  # the right-hand side
    accumulate: bool  # `+=`
    ranges: tuple[Range, ...] = ()  # the points that are computed
    otherwise: float | None = None  # the value of the other points of a result, None where they are not written
    temporary: bool = False  # whether another statement uses it
    # what the random bits are made of by which it is rounded; none where it is rounded to nearest.
    words: tuple[Linear, ...] = ()
    hadamard: int = 0  # elements along the last index that are transformed together before that, 0 where none are
    # the magnitudes that the blocks of a quantised result are scaled by; None where they are found.
    largest: Tensor | None = None
    copies: bool = False  # whether it copies scales from one layout to another
    # the statement that computes the second level of its scales; None where that is an argument.
    outer: Statement | None = None


@dataclass(eq=False)
class Program:
    """A program: `dims` in order of first appearance, `sizes` of those that are known."""

    dims: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    arguments: list[Argument] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
