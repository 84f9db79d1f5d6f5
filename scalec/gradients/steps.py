"""What `scalec.grad` returns: texts, in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scalec.errors import ArgumentError
from scalec.frontend import affine
from scalec.frontend.affine import Linear
from scalec.frontend.program import Statement, Tensor, scale_name

SIGNS = (1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1)
"""Of elements that are transformed together: without signs what is the same in all of them would be one large one."""


@dataclass(frozen=True)
class Step:
    """One program of a gradient.

    Attributes:
        results: by name, "dA", the input whose gradient that is; "" for what later steps read.
        text: the program.
        reads: its arguments, in their order, each with what it is: "input", "kept" (an activation that `forward`
            keeps), "gradient" (of a result, given), "step" (an earlier step's result), "index" (see
            Gradients.indices), "layout" (see Gradients.layouts) or "part" (see Gradients.parts).
        makes: the names of what its kernel returns: each result, and the scales of a quantised one behind it.
        zeroed: whether its result is given as zeros: the elements that it does not write have no gradient.
        dims: its dimensions; those of the program have their names.
        whole: by dimension, of what number its size has to be a multiple, so that all that is transformed together is
            there.
    """

    results: Mapping[str, str]
    text: str
    reads: Mapping[str, str]
    makes: tuple[str, ...]
    zeroed: bool = False
    dims: tuple[str, ...] = ()
    whole: Mapping[str, int] = field(default_factory=dict)

    @property
    def of(self) -> tuple[str, ...]:
        """The inputs whose gradients it makes."""
        return tuple(x for x in self.results.values() if x)

    def first(self) -> Step:
        """What makes the first of a quantiser's results alone: each has a line of the text, and scales, whose second
        level has another line."""
        name, made = next(iter(self.results.items()))
        own = [n for n in self.makes if n in (name, scale_name(name, 0), scale_name(name, 1))]
        lines = [x for x in self.text.splitlines() if x.partition("[")[0] in own]
        return replace(
            self,
            results={name: made},
            text="\n".join(lines),
            makes=tuple(own),
            whole={},
            reads=dict([*self.reads.items()][:1]),
        )


def whole(statements: Sequence[Statement]) -> dict[str, int]:
    """By dimension, what some statements transform together along it."""
    return {affine.plain(s.index[-1]) or "": s.hadamard for s in statements if s.hadamard}


def names_of(tensor: Tensor) -> list[str]:
    """A tensor and its scales."""
    return [tensor.name, *(scale_name(tensor.name, i) for i in range(len(tensor.levels or ())))]


@dataclass(frozen=True)
class MadeIndex:
    """An index tensor that a step reads and the program has not, made of one that it has.

    Attributes:
        kind: "inverse": [rows of the tensor, the most reads of a row] of i32, where in `source` each row stands, and -1
            behind the last place; "offsets": [groups + 1] of i32, where the points of each group begin, of a `source`
            that has groups in their order (points that belong to none are behind the last group); "places": [elements,
            the most points of an element] of i32, the points at which each element is read by a computed index, and -1
            behind the last one; "points": [elements of each of `points.axes`, the most points of one] of i32, a
            dimension's index at each of the points at which an element is read, and -1 behind the last one; "count":
            [elements] of i32, 0, 1, 2 and so on; "seed": [block] of i32, any numbers, others each time;
            "computed": [of each of `points.dims`] of i32, what stands at index `axis` of a result, and -1 where that is
            none of its elements; "signs": [elements] of bf16, 1 and -1, those of SIGNS again and again, by which is
            multiplied what is transformed.
        source: the index tensor it is made of; of what is computed the index, as `n%64`; "count": "".
        of: the tensor that `source` is an index of, and which of its indices.
        axis: likewise; "points": the first one.
        block: "offsets": how many points each entry of `source` is for; "places": by what a point is divided.
        along: "offsets" and "places": an input or a result, and which of its indices has as many elements as there are
            points.
        modulus: "places": of what that quotient is the remainder, 0 of nothing.
    """

    kind: str
    source: str
    of: str
    axis: int
    block: int = 1
    along: tuple[str, int] = ("", 0)
    modulus: int = 0
    points: Points | None = None

    @property
    def tensors(self) -> tuple[str, ...]:
        """The index tensors that it is made of."""
        if self.points is not None:
            return tuple(dict.fromkeys(x.tensor for i in self.points.index for x in affine.symbols(i)))
        return (self.source,) if self.kind in ("inverse", "offsets") else ()


@dataclass(frozen=True)
class Points:
    """At which points the elements of a tensor are read, by indices that have dimensions in common.

    Attributes:
        axes: these indices of the tensor.
        index: what stands there, for each of `axes`.
        dims: the dimensions that they have, in an order, and those whose size they read.
        along: for each of `dims` an input or a result, and which of its indices has as many elements.
        dim: the one whose indices the tensor has.
        times: of what is computed, how many points (of `period` points) read one element at most.
        period: after how many points what is computed begins again, 0: never.
    """

    axes: tuple[int, ...]
    index: tuple[Linear, ...]
    dims: tuple[str, ...]
    along: tuple[tuple[str, int], ...]
    dim: str
    times: int = 1
    period: int = 0

    @property
    def own(self) -> tuple[str, ...]:
        """The dimensions that a point has."""
        return tuple(d for d in self.dims if any(d in affine.dims(i) for i in self.index))


@dataclass(frozen=True)
class Part:
    """A part of a tensor, which steps read, or write, as a view of it.

    Attributes:
        of: the tensor: an input, its scales, or an input's gradient.
        axis: the index that has the parts.
        number: which of the parts this is, the first one 0.
        count: of how many; 1 where it is all of the tensor.
        by_turns: whether the parts have that index by turns, as `2*n` and `2*n+1` do, or each so many in a row, as `n`
            and `n+size(n)`.
        index: where the tensor has what the part has at `n`, `n+size(n)`; "" of all of it.
    """

    of: str
    axis: int
    number: int
    count: int
    by_turns: bool
    index: str

    def size(self, extent: int) -> int:
        """What a part has of that index, of which the tensor has `extent`.

        Raises:
            ArgumentError: the parts would not be alike.
        """
        if extent % self.count:
            raise ArgumentError(
                f"{self.of} has {extent} along index {self.axis}, which {self.count} parts share",
                got=str(extent),
                expected=f"a multiple of {self.count}",
                fix=f"pass {self.of} as it is for the program: all parts have as many",
            )
        return extent // self.count

    def shape(self, whole: tuple[int, ...]) -> tuple[int, ...]:
        """That of a part of a tensor of this shape."""
        return (*whole[: self.axis], self.size(whole[self.axis]), *whole[self.axis + 1 :])

    def view(self, whole: Any) -> Any:
        """The part of a tensor, torch's or numpy's."""
        size = self.size(whole.shape[self.axis])
        first = self.number if self.by_turns else self.number * size
        own = slice(first, None, self.count) if self.by_turns else slice(first, first + size)
        return whole[(*(slice(None),) * self.axis, own)]


@dataclass(frozen=True)
class LeftOut:
    """Points of a result that a negative index leaves out, though what reaches an input there does not read it.

    Attributes:
        source: the index tensor.
        axes: for each of its indices the axis of the result that it is of, and how many points share an entry.
    """

    source: str
    axes: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Gradients:
    """The programs of a program's gradients.

    Attributes:
        source: the program.
        forward: the program as it is to run: `source` itself, or with what is kept as further results.
        kept: the names of these results, in their order, behind those of `source`.
        given: by result of `source`, the name of its gradient, which steps read.
        steps: in the order in which they run.
        of: by input, the name of its gradient.
        indices: by name, the index tensors that steps read and `source` does not.
        layouts: by name, the operand that steps read with another index last than `source` does, and with blocks along
            that.
        left_out: by the name of a result's gradient, the points at which it is to be given as zeros.
        quantisers: programs that run first: each makes an operand, and its `layouts`, of what the caller has, which it
            reads as an "input" that `source` has not.
        parts: by name, what steps read and write as views of inputs, of their scales, and of gradients. A part of a
            gradient that no step writes is zeros.
    """

    source: str
    forward: str
    kept: tuple[str, ...]
    given: Mapping[str, str]
    steps: tuple[Step, ...]
    of: Mapping[str, str] = field(default_factory=dict)
    indices: Mapping[str, MadeIndex] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, tuple[LeftOut, ...]] = field(default_factory=dict)
    quantisers: tuple[Step, ...] = ()
    parts: Mapping[str, Part] = field(default_factory=dict)

    def made_of(self, name: str) -> list[str]:
        """The results of steps that a gradient is made of: itself, or its parts."""
        return [n for n, part in self.parts.items() if part.of == name] or [name]

    def whole(self, name: str) -> bool:
        """Whether steps write all parts of a gradient."""
        found = self.made_of(name)
        return found == [name] or len(found) == self.parts[found[0]].count

    def __str__(self) -> str:
        """All programs, with comments between them: one text to read, each program of it one kernel."""
        lines, made = [], {n for s in self.quantisers for n in s.makes}
        for s in self.quantisers:
            lines += [f"# {', '.join(s.results)}: quantised from {next(iter(s.reads))}", s.text, ""]
        if self.forward != self.source:
            lines += [f"# forward: keeps {', '.join(self.kept) or 'nothing more'}", self.forward, ""]
        for name, index in self.indices.items():
            lines.append(f"# {name}: {_made(index)}")
        for name, operand in ((n, x) for n, x in self.layouts.items() if n not in made):
            lines.append(f"# {name}: what {operand} was made of, quantised with the index last that its name ends in")
        for name, points in self.left_out.items():
            sources = " or ".join(dict.fromkeys(x.source for x in points))
            lines.append(f"# {name}: zeros where {sources} is negative")
        lines += [f"# {name}: {_viewed(part, part.of in self.of.values())}" for name, part in self.parts.items()]
        for name in (n for n in self.of.values() if not self.whole(n)):
            lines.append(f"# {name}: zeros but for {', '.join(self.made_of(name))}")
        for s in self.steps:
            reads = ", ".join(f"{name} ({what})" for name, what in s.reads.items())
            head = "; ".join(f"{name}, the gradient of {of}" if of else name for name, of in s.results.items())
            lines += [f"# {head}: reads {reads}{'; starts as zeros' if s.zeroed else ''}", s.text, ""]
        return "\n".join(lines).rstrip("\n") + "\n"


def _viewed(part: Part, written: bool) -> str:
    if part.count == 1:
        return part.of
    where = f"a view of {part.of}, at {part.index} along index {part.axis}"
    return f"{where}, written as out=" if written else where


def _made(index: MadeIndex) -> str:
    if index.kind == "inverse":
        return f"where in {index.source} each row of {index.of} stands, and -1 behind its last place"
    if index.kind == "places":
        tensor, axis = index.along
        return f"where in index {axis} of {tensor} {index.source} is each element of {index.of}, and -1 behind the last"
    if index.kind == "seed":
        return f"{index.block} of i32, any, others each time"
    if index.kind == "signs":
        return f"{''.join('+' if x > 0 else '-' for x in SIGNS)} as 1 and -1, again and again, for each {index.source}"
    if index.kind == "count":
        return f"0, 1, 2 and so on, for each element of {index.of} along index {index.axis}"
    if index.kind == "computed":
        return (
            f"{index.source} for each {','.join(index.points.dims if index.points else ())}, and -1 beyond {index.of}"
        )
    if index.points is not None:
        return f"the {index.points.dim} where {index.source} is each element of {index.of}, and -1 behind the last"
    by = f", times {index.block}" if index.block > 1 else ""
    return f"where in {index.source}, whose groups follow in order, each of them begins{by}"
