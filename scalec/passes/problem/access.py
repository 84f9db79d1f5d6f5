"""Dimensions, and where tensors are read and written along them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from scalec.zero_points import Order


@dataclass(frozen=True)
class Dim:
    """A dimension of the program; `size` is None where it stays dynamic, `position` its place in `scale.dims`.

    `panes`: columns of products for each index, of which tiles are (`Problem.panes`).
    For what is only a choice: `most` is the upper end of the range that its sizes lie in, None where any may come;
    `share` what a group has of it where groups share it out evenly, None where they do not share it.

    With `inner` above 1 two dimensions of the program are walked as one: each index of the dimension `name` has so many
    of the dimension `within`, one after the other, and sizes count these."""

    name: str
    size: int | None
    position: int
    most: int | None = None
    share: int | None = None
    inner: int = 1
    within: str = ""
    panes: int = 1

    @property
    def largest(self) -> int | None:
        """The largest size that may come, None where any may; of a shared one, the share."""
        return self.share or (self.most if self.size is None else self.size)

    def walking(self, other: Dim) -> Dim:
        """The dimension and another one, of known size, walked as one: all indices of the other for each of this."""
        assert other.size is not None
        size, most = (x and x * other.size for x in (self.size, self.most))
        return replace(self, size=size, most=most, inner=other.size, within=other.name)

    def blocks(self, extent: int) -> int:
        """Blocks of `extent` indices that cover the dimension, whose size is known."""
        assert self.size is not None
        return -(-self.size // extent)

    def tiles(self, extent: int, assumed: int) -> int:
        """Tiles of `extent` that cover the dimension in all panes, or a share of it; where its size is unknown, that
        cover the largest one, or `assumed` elements. With 0 for that, the dimension itself: for who must know it."""
        size = self.size if self.size is not None else assumed and (self.most or assumed)
        return -(-((assumed and self.share) or size) * self.panes // extent)


@dataclass(frozen=True)
class Coord:
    """Where an axis of a tensor is read or written: at `(dim + offset) floordiv divisor`, of which `mod modulus` where
    that is not 0; or at 0 where `dim` is empty. `dim` is a dimension, or a `Lookup` by its name. With `gaps`, what
    reads it does so around these.

    With an `order`, elements lie in another one than that of these indices.

    With `apart`, each group of the range of `dim` is counted from where it begins, index i of group g, which begins at
    b, as i - b + (b floordiv apart + g) * apart."""

    dim: str = ""
    divisor: int = 1
    modulus: int = 0
    offset: int = 0
    apart: int = 0
    gaps: Gaps | None = None
    order: Order | None = None

    def extent(self, size: int) -> int:
        """How many indices there are, of so many of `dim`."""
        if self.gaps is not None:
            return self.gaps.at(size - 1) + 1 if size else 0
        return min(-(-size // self.divisor), self.modulus or size)

    def spanned(self, span: Dim) -> Coord | None:
        """The same place, told by a dimension that walks two as one (Dim.inner); None where no Coord tells it."""
        if self.dim not in (span.name, span.within) or span.inner == 1:
            return self
        if self.dim == span.name:
            plain = not self.offset and self.gaps is None
            return replace(self, divisor=self.divisor * span.inner) if plain else None
        extent, rest = divmod(span.inner, self.divisor)
        modulus = self.modulus or extent
        if self.offset or self.gaps is not None or rest or extent % modulus:
            return None
        return replace(self, dim=span.name, modulus=modulus)

    def outermost(self, span: Dim) -> Coord:
        """Of a place that `spanned` told by the dimension `span.name` of two that are walked as one, where it was."""
        return replace(self, divisor=self.divisor // span.inner) if self.dim == span.name else self


@dataclass(frozen=True)
class Index:
    """An element of an i32 tensor that the kernel reads: of the argument `argument_index`, which the user calls
    `tensor`, at `coords`."""

    argument_index: int
    tensor: str
    coords: tuple[Coord, ...]

    def following(self, dim: str) -> Index:
        """The element at the next index of a dimension."""
        return replace(self, coords=tuple(replace(c, offset=c.offset + (c.dim == dim)) for c in self.coords))


@dataclass(frozen=True)
class Chance:
    """By what a result is rounded up or down: the `words` that random bits are made of, and its `extents`, by which an
    element has its own."""

    words: tuple[Index, ...]
    extents: tuple[Dim, ...]


@dataclass(frozen=True)
class Lookup:
    """An index that is read from memory: `e[m/128]` of `B[e[m/128],n,k]`."""

    name: str  # what coordinates call it
    index: Index  # where it is read
    # of the axes that it is an index of. Where it is negative, or beyond one, nothing is computed.
    extents: tuple[Dim, ...]
    dim: str = ""  # the dimension of a tile that it changes along, "" where it depends on `outer` alone
    block: int = 1  # indices of `dim` over which it stays the same
    # an operand's rows are those of blocks that it names, one block's behind the other's: who copies them, and whoever
    # reads what goes with a row, looks them up.
    paged: bool = False

    @property
    def by_row(self) -> bool:
        """Whether it is looked up for each row, or column, of a tile: it gathers, or scatters, or is of pages."""
        return bool(self.dim) and (self.block == 1 or self.paged)


@dataclass(frozen=True)
class Domain:
    """A range of a dimension, of which nothing outside is computed: from `low` up to `high`, each a number, or where an
    index of the dimension `group` is, or read from memory for each of these, and of those of `beside`. What the program
    promises, for speed alone: both are multiples of `step`, apart from an end at the extent, and `typical` indices, if
    that is not 0, lie between them. Tiles of one that is `floored` begin at the multiple of that before `low`."""

    dim: str
    low: Index | Coord | int
    high: Index | Coord | int
    group: str = ""
    step: int = 1
    typical: int = 0
    beside: tuple[str, ...] = ()
    floored: int = 1

    @property
    def groups(self) -> tuple[str, ...]:
        """The dimensions of which each index has a range."""
        return (self.group, *self.beside) if self.group else ()

    @property
    def follows(self) -> bool:
        """Whether the ranges of `group` lie one behind the other, each from where the one before ends, for each index
        of those of `beside`: off[b,g]:off[b,g+1]."""
        return isinstance(self.low, Index) and self.low.following(self.group) == self.high

    @property
    def bounds(self) -> tuple[Index, ...]:
        """Those that are read."""
        return tuple(x for x in (self.low, self.high) if isinstance(x, Index))


def elements(coords: tuple[Coord, ...], sizes: Mapping[str, int]) -> int:
    """Elements of a tensor that is read or written there, all sizes of dimensions given."""
    return math.prod(at.extent(sizes[at.dim]) for at in coords if at.dim)


@dataclass(frozen=True)
class Gaps:
    """Columns of a tensor that are left out, of a result those that nothing is written to: column n is at
    n + size * ((n + phase) // every)."""

    size: int
    every: int
    phase: int

    def at(self, column: int) -> int:
        """Where a column goes."""
        return column + self.size * ((column + self.phase) // self.every)

    def apart(self, columns: int) -> bool:
        """Whether some of `columns` adjacent columns, the first of which is a multiple of their number, lie on both
        sides of a gap."""
        return bool(self.every % columns or self.phase % columns)

    @property
    def numbers(self) -> tuple[int, int, int]:
        """As the ops of `tile` have them."""
        return self.size, self.every, self.phase
