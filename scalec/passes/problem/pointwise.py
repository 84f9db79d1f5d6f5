"""Programs without a contraction: what a thread reads, computes and writes for some adjacent columns of a row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd

from scalec.formats import ELEMENT_TYPES, PACKED_BITS, PER_WORD, ElementType
from scalec.passes.problem.access import Chance, Coord, Dim, Domain, Lookup
from scalec.passes.problem.types import STORED
from scalec.targets import Target
from scalec.zero_points import Order

SCALED = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "i8")
"""Element types of results with scales."""

WRITTEN = (*STORED, *SCALED)
"""Those of results without scales."""

READ = (*WRITTEN, "i4", "u4", "i32")
"""Those of inputs."""

FEW_TERMS = 64
"""Terms that one thread adds up at most, where their number is known. Not measured."""


@dataclass(frozen=True)
class Level:
    """Scales of a tensor that is read: one for each `columns` of its last index, 0 for all.

    Attributes:
        name, argument_index: of the tensor that they are.
        coords: where they are along all indices but the last.
        type, layout: as scalec.formats.Granularity has them.
        along, axis: of scales that are copied, where they are along the last index, and the axis of the tensor along
            which they do not lie side by side, -1 where each does that has tiles.
    """

    name: str
    argument_index: int
    coords: tuple[Coord, ...]
    columns: int
    type: str
    layout: str
    along: Coord = field(default_factory=Coord)
    axis: int = -1

    @property
    def every(self) -> tuple[Coord, ...]:
        """Where scales that are copied are, the last index included."""
        return (*self.coords, self.along)

    @property
    def by_column(self) -> bool:
        """Whether each column has its own, and those of adjacent ones lie side by side, as elements that are read."""
        return (
            self.columns == 1 and self.layout == "row" and self.type in READ and not any(c.apart for c in self.coords)
        )


@dataclass(frozen=True)
class Copied:
    """Scales that are copied: where they are read, and where they are written, as they are walked. The index that is
    last then is so in both, and is no index from memory."""

    source: Level
    target: Level

    @property
    def every(self) -> tuple[Coord, ...]:
        """Where both are."""
        return (*self.source.every, *self.target.every)

    def block(self, dim: str) -> int:
        """Of how many indices of a dimension one scale is."""
        return max((c.divisor for c in self.every if c.dim == dim), default=1)


@dataclass(frozen=True)
class Read:
    """A tensor, or a scalar (without coordinates), that a body reads as its argument number `view`, times its scales,
    the innermost first.

    Attributes:
        words: whether it is stored in words of its last index (scalec.formats.WORDS).
        order: that of elements along its last index, None where these lie one behind the other.
        less: its zero points, if they are a tensor, which what is `plus` more is subtracted of first; without a tensor
            that alone.
        factors: scales of which each column has its own, in rows: tensors that are read like others.
    """

    name: str
    argument_index: int
    element: ElementType
    coords: tuple[Coord, ...]
    view: int
    scalar: bool = False
    levels: tuple[Level, ...] = ()
    words: bool = False
    order: Order | None = None
    less: Read | None = None
    plus: int = 0
    factors: tuple[Read, ...] = ()

    @property
    def stored(self) -> tuple[Coord, ...]:
        """Where it is read in memory."""
        if self.order is not None:
            return (*self.coords[:-1], replace(self.coords[-1], order=self.order))
        if not self.words:
            return self.coords
        *outer, row, last = self.coords
        word = replace(last, divisor=last.divisor * PER_WORD)
        return (*outer, word, row, replace(last, modulus=PER_WORD))

    @property
    def key(self) -> tuple[object, ...]:
        """What is the same where the same is read."""
        return self.argument_index, self.coords, self.less, self.plus

    @property
    def permuted(self) -> tuple[int, ...]:
        """Where each element of a word along its last index lies in this; () where they lie in order, or elsewhere."""
        last = self.stored[-1] if self.stored else Coord()
        alone = last.order is not None and self.element.bits == PACKED_BITS
        return last.order.within(PER_WORD) if alone and last.order is not None else ()

    @property
    def every(self) -> tuple[Read, ...]:
        """It, its zero points, and factors."""
        return (self, *(self.less.every if self.less is not None else ()), *self.factors)

    def dims(self, lookups: dict[str, Lookup]) -> set[str]:
        """The dimensions that it depends on, also those that its lookups do."""
        return set().union(*(dims_of(c, lookups) for c in self.coords))

    def adjacent(self, columns: str, lookups: dict[str, Lookup]) -> bool:
        """Whether adjacent columns of the result have adjacent elements of it, and nothing else changes with these."""
        *outer, last = self.coords or (Coord(),)
        return last == Coord(columns) and not any(columns in dims_of(c, lookups) for c in outer)

    def run(self, columns: str, lookups: dict[str, Lookup]) -> int:
        """How many adjacent columns, from a multiple of so many on, have elements side by side: 0 for all, 1 where none
        have."""
        *outer, last = self.stored or (Coord(),)
        if not self.words:
            plain = replace(self, order=None, coords=(*outer, replace(last, order=None))).adjacent(columns, lookups)
            return (0 if last.order is None else PER_WORD if self.permuted else 1) if plain else 1
        inside = gcd(*(c.divisor for c in outer if c.dim == columns and c == Coord(columns, c.divisor)), last.modulus)
        apart = [c for c in outer if columns in dims_of(c, lookups) and c.dim != columns]
        return inside if last == Coord(columns, modulus=last.modulus) and not apart else 1

    def same(self, columns: str, lookups: dict[str, Lookup]) -> int:
        """How many adjacent columns, from a multiple of so many on, have one element: 0 for all, 1 where none do."""
        own = [c for c in self.coords if columns in dims_of(c, lookups)]
        return gcd(*(c.divisor if c == Coord(columns, c.divisor, c.modulus) else 1 for c in own))


@dataclass(frozen=True)
class Body:
    """What is computed at a point."""

    op: int  # number of the `scale.map` that computes it among the function's ops; -1: what is read is taken as it is
    reads: tuple[Read, ...]  # the tensors and scalars among its arguments
    sums: tuple[tuple[int, int], ...] = ()  # others: (argument, which of the program's reductions)
    # others: (argument, the body of what is filled outside a range at the same point).
    inner: tuple[tuple[int, Body], ...] = ()
    within: tuple[Domain, ...] = ()  # the ranges outside which it is `otherwise`; none where that is None
    otherwise: float | None = None
    copies: bool = False  # whether it is what is read as it is

    @property
    def every(self) -> tuple[Body, ...]:
        """This, and those that it is computed of at the same point."""
        return (self, *(x for _, body in self.inner for x in body.every))

    @property
    def all_reads(self) -> tuple[Read, ...]:
        return tuple(y for body in self.every for x in body.reads for y in x.every)

    @property
    def all_sums(self) -> tuple[int, ...]:
        """The reductions of all of these."""
        return tuple(i for body in self.every for _, i in body.sums)

    @property
    def filled(self) -> bool:
        """Whether some of it is filled outside a range."""
        return any(body.otherwise is not None for body in self.every)


@dataclass(frozen=True)
class Reduction:
    """A reduction of a `kind` (sum, max or min) over `dim` of what a body computes, for each point of `kept`, of all
    indices or those `within` a range."""

    kind: str
    dim: Dim
    body: Body
    kept: frozenset[str]
    within: Domain | None = None


@dataclass(frozen=True)
class Blocks:
    """The scales of a quantised result: one for each `rows` by `columns` of its last two indices, 0 for all of one.

    Attributes:
        name, index: what the user calls them, and their position among the function's results.
        type, layout: as scalec.formats.Granularity has them.
        outer: the scale of the whole result, which is given; None where there is none.
        leading: likewise of the indices in front of these two, 1 or 0.
        largest: the magnitudes that blocks are scaled by, where these are given; None where they are found.
        apart, beside: to how many rows, or columns, each group's are padded, where groups of these are apart; else 0.
    """

    name: str
    index: int
    rows: int
    columns: int
    type: str
    layout: str
    outer: Read | None
    apart: int = 0
    beside: int = 0
    leading: tuple[int, ...] = ()
    largest: Read | None = None


@dataclass(frozen=True)
class Output:
    """A result: `body` at each point, rounded to `element`, behind a division by the scales of blocks.

    Attributes:
        name, index: what the user calls it, and its position among the function's results.
        dims: the dimensions of its points, in the order of its indices.
        coords: where it is written, one entry an axis.
        chance: by what it is rounded up or down; None where it is rounded to nearest.
        hadamard: whether 16 elements along its last index are transformed together before that.
        within: the ranges that its columns have: others are not written.
        copied: of scales that are copied where these are; None of others.
    """

    name: str
    element: ElementType
    index: int
    dims: tuple[str, ...]
    coords: tuple[Coord, ...]
    body: Body
    scale: Blocks | None = None
    chance: Chance | None = None
    hadamard: bool = False
    within: tuple[Domain, ...] = ()
    copied: Copied | None = None

    @property
    def alone(self) -> bool:
        """Whether it is one number in f32."""
        return not self.dims and self.element.name == "f32"

    @property
    def exact(self) -> bool:
        """Whether functions are those of results in f32: of 16 bits or fewer, scales too, errors are rounded away."""
        return self.element.bits > 16 or (self.scale is not None and ELEMENT_TYPES[self.scale.type].bits > 16)


@dataclass(frozen=True)
class Pointwise:
    """A program without a contraction."""

    target: Target
    rows: tuple[Dim, ...]  # all indices of the results but one, `columns`: that which lies side by side
    columns: Dim
    # the results, of which those without `columns` have one element a row; some may be `turned`.
    outputs: tuple[Output, ...]
    # what bodies read beside tensors, each of tensors and earlier ones; over `columns` they are of a row.
    reductions: tuple[Reduction, ...]
    lookups: tuple[Lookup, ...]  # indices that are read from memory, by name
    domains: tuple[Domain, ...] = ()  # ranges of rows outside which nothing is written
    groups: tuple[Dim, ...] = ()  # the dimensions that tell apart the ranges of one index, and that no result has

    @property
    def dims(self) -> tuple[Dim, ...]:
        """All dimensions, those of results first."""
        return (*self.rows, self.columns, *(r.dim for r in self.reductions if r.dim != self.columns))

    @property
    def every(self) -> tuple[Read, ...]:
        """All that is read, of reductions last."""
        return tuple(x for of in (*self.outputs, *self.reductions) for x in of.body.all_reads)

    @property
    def copies(self) -> bool:
        """Whether results are scales that are copied, and no others."""
        return all(o.copied is not None for o in self.outputs)

    @property
    def blocks(self) -> tuple[int, int]:
        """Rows and columns that one scale that is copied is of."""
        copied = self.outputs[0].copied
        if copied is None:
            return 1, 1
        return copied.block(self.rows[-1].name) if self.rows else 1, copied.block(self.columns.name)

    @property
    def flops(self) -> tuple[str, ...]:
        """The dimensions whose product is the terms of all sums, two operations each as `w[j] * D[j,n]` has them; none
        where nothing is summed: how many an elementwise expression has says nothing of its time."""
        return tuple(d.name for d in self.dims) if self.reductions else ()

    @property
    def windowed(self) -> bool:
        """Whether some columns of a row that is there are filled, or left out."""
        left_out = any(o.within for o in self.outputs) or any(r.within and self.of_row(r) for r in self.reductions)
        return left_out or any(x.body.filled for x in (*self.outputs, *self.reductions))

    def of_row(self, r: Reduction) -> bool:
        """Whether a reduction is of a whole row, which several threads have."""
        return r.dim == self.columns

    def is_row(self, o: Output) -> bool:
        """Whether a result has one element a row."""
        return self.columns.name not in o.dims

    def is_turned(self, o: Output) -> bool:
        """Whether another index than `columns` lies side by side in a result: the last of `rows`."""
        return not self.is_row(o) and o.dims[-1] != self.columns.name

    @property
    def turned(self) -> Pointwise | None:
        """The turned results alone, with rows and columns in each other's place, of what is computed already; None
        where there are none."""
        found = tuple(replace(o, body=Body(-1, (), copies=True)) for o in self.outputs if self.is_turned(o))
        if not found:
            return None
        rows = (*self.rows[:-1], self.columns)
        return replace(self, rows=rows, columns=self.rows[-1], outputs=found, reductions=(), lookups=(), domains=())

    @property
    def found(self) -> tuple[Blocks, ...]:
        """The scales that threads find: of blocks whose largest magnitudes are not given."""
        return tuple(o.scale for o in self.outputs if o.scale is not None and o.scale.largest is None)

    @property
    def apart(self) -> Domain | None:
        """The range whose groups' rows are walked from where each begins, as blocks of several of them do."""
        if not any(x.beside or (x.rows > 1 and x.apart) for x in self.found):
            return None
        return next(d for d in self.domains if d.dim == self.rows[-1].name)

    @property
    def by_tile(self) -> tuple[Domain, ...]:
        """The ranges of which tiles have rows, or columns, of one group: what is `apart`, and where scales are copied
        columns that are apart, and rows of which one scale has several."""
        if not self.copies:
            return (self.apart,) if self.apart is not None else ()
        apart = {c.dim for o in self.outputs if o.copied is not None for c in o.copied.every if c.apart}
        return tuple(d for d in self.domains if d.dim in apart and (d.dim == self.columns.name or self.blocks[0] > 1))

    @property
    def counted_apart(self) -> bool:
        """Whether scales of several results or reads are counted from where groups begin."""
        read = [c for x in self.every for level in x.levels for c in level.coords]
        read += [c for o in self.outputs if o.copied is not None for c in o.copied.every]
        return any(x.apart for x in self.found) or any(c.apart for c in read)

    @property
    def spans(self) -> bool:
        """Whether something is found of a whole row before the first result of it is known."""
        whole = any(not x.columns for x in self.found)
        return whole or any(map(self.of_row, self.reductions))

    @property
    def folds(self) -> Reduction | None:
        """What is reduced over an index that no result has and is shared out between threads, as all is that results
        are computed of: of a range, or of more than FEW_TERMS; or of unknown many, where there are no further indices.
        Terms that are read where memory says are few where there are, but for those of a range. None where there is no
        such."""
        first, *others = self.reductions or (None,)
        if first is None or self.of_row(first) or any((x.dim, x.within) != (first.dim, first.within) for x in others):
            return None
        plain = all(
            o.scale is None and not o.hadamard and o.chance is None and o.element.bits >= 8
            and o.dims == tuple(d.name for d in (*self.rows, self.columns))
            for o in self.outputs
        )  # fmt: skip
        if not plain or self.domains or self.gates or self.windowed or any(x.element.bits < 8 for x in self.every):
            return None
        few = first.dim.size is not None and first.dim.size <= FEW_TERMS
        many = not few and ((first.dim.size is not None and not self.lookups) or not self.rows)
        return first if first.within is not None or many else None

    @property
    def meets(self) -> bool:
        """Whether threads exchange what they find, or write what no thread writes alone by single columns."""
        alone = all(
            o.scale is None and not o.hadamard and o.element.bits >= 8 and o.dims[-1:] == (self.columns.name,)
            for o in self.outputs
        )
        return (
            self.spans
            or not alone
            or bool(self.domains)
            or self.windowed
            or any(x.element.bits < 8 for x in self.every if self.along(x))
        )

    def reads_zeros(self, body: Body) -> bool:
        """Whether a body that computes nothing has zeros where nothing is there, as loads have (`tile.load_columns`)
        and what is taken of a turned tile."""
        read = (
            not body.sums
            and not body.filled
            and all(
                self.along(x) and x == Read(x.name, x.argument_index, x.element, x.coords, x.view) for x in body.reads
            )
        )
        return read and body.copies

    @property
    def halves(self) -> bool:
        """Whether all that is turned are elements of 16 bits as they are read, of rows that are all there."""
        of = [o.body for o in self.outputs if self.is_turned(o)]
        read = all(self.reads_zeros(x) and [r.element.bits for r in x.reads] == [16] for x in of)
        return bool(of) and read and not self.holes

    @property
    def gates(self) -> tuple[Lookup, ...]:
        """The lookups that are the same whatever is summed over: where one names nothing, nothing is written."""
        summed = {r.dim.name for r in self.reductions if not self.of_row(r)}
        return tuple(x for x in self.lookups if all(c.dim not in summed for c in x.index.coords))

    @property
    def skips(self) -> bool:
        """Whether rows may be left out."""
        return bool(self.gates or self.domains)

    @property
    def holes(self) -> bool:
        """Whether a tile may have rows behind some that are left out: of groups that are apart it has rows of one, and
        those behind its end are none's."""
        return bool(self.gates) or any(d != self.apart for d in self.domains)

    def named_by(self, o: Output) -> set[str]:
        """Those that a result is written at, or computed of."""
        found, left = {c.dim for c in o.coords}, [o.body]
        while left:
            body = left.pop()
            found |= {c.dim for x in body.all_reads for c in x.coords}
            left += [self.reductions[i].body for i in body.all_sums]
        return found & {x.name for x in self.gates}

    def along(self, x: Read) -> bool:
        """Whether a thread reads of `x` one element for each of its adjacent columns, side by side."""
        return x.run(self.columns.name, {look.name: look for look in self.lookups}) != 1

    @property
    def by_column(self) -> bool:
        """Whether each column has a range of its own of what is reduced: `S[n] = sum[m](X[m,n]) for m < len[n]`."""
        return any(r.within is not None and self.columns.name in r.within.groups for r in self.reductions)

    @property
    def most(self) -> int:
        """Adjacent columns, a power of two, that a thread may have, from a multiple of so many on; 0 for any number. Of
        what changes with the columns each has an element of its own side by side, or all have one: one column where
        something does neither, as `x[n%64]` and `x[e[n]]` do, has a range of its own, or is scales of ranges."""
        lookups, columns = {look.name: look for look in self.lookups}, self.columns.name
        cut = self.copies and any(d.dim == columns and d not in self.by_tile for d in self.domains)
        found = [1] * (self.by_column or cut)
        for x in self.every:
            run = x.run(columns, lookups)
            found.append(run if run != 1 else x.same(columns, lookups))
        most = gcd(*found)
        return most & -most

    @property
    def single(self) -> bool:
        """Whether threads have one column each."""
        return self.most == 1


def dims_of(at: Coord, lookups: dict[str, Lookup]) -> set[str]:
    """The dimensions that a coordinate depends on: its own, or those of its lookup."""
    return {c.dim for c in (lookups[at.dim].index.coords if at.dim in lookups else (at,)) if c.dim}
