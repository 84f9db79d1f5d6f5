"""What a program reads from memory before it knows what to compute, as plain data: indices, and ends of ranges.

The compiler writes it into the kernel's spec (scalec.abi), so that a call can be checked without any IR.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from scalec.schema import within
from scalec.sizes import MOST

Number = Annotated[int, within(-MOST, MOST)]
Positive = Annotated[int, within(1, MOST)]
Count = Annotated[int, within(0, MOST)]


@dataclass(frozen=True)
class Coord:
    """An index at a point of the iteration space: `(dim + offset) floordiv divisor`, of which `mod modulus` where that
    is not 0. Where `dim` is empty it counts as 0."""

    dim: str = ""
    divisor: Positive = 1
    modulus: Count = 0
    offset: Number = 0

    def __str__(self) -> str:
        text = self.dim + f"{self.offset:+d}" * bool(self.offset) if self.dim else str(self.offset)
        text = f"({text})" if self.dim and self.offset and (self.divisor != 1 or self.modulus) else text
        return text + f"/{self.divisor}" * (self.divisor != 1) + f"%{self.modulus}" * bool(self.modulus)


@dataclass(frozen=True)
class Entry:
    """An entry of the i32 tensor `tensor`, read at each point: `e[m/128]`."""

    tensor: str
    coords: tuple[Coord, ...]

    @property
    def dims(self) -> frozenset[str]:
        """The dimensions that say which entry it is."""
        return frozenset(c.dim for c in self.coords if c.dim)

    def __str__(self) -> str:
        return f"{self.tensor}[{','.join(map(str, self.coords))}]"


@dataclass(frozen=True)
class Lookup:
    """An index read from memory: `entry` says which element of `tensor` is meant along its `axis`. A negative one is
    skipped, one that is not below the extent is a mistake.
    """

    entry: Entry
    tensor: str
    axis: Count = 0
    # of a result that is written there: no two entries may be the same, but where they differ along these axes of the
    # index tensor, which the result's other indices tell apart. None where entries may be the same.
    once: tuple[Count, ...] | None = None


@dataclass(frozen=True)
class Domain:
    """A range, `low <= dim < high`: each bound is a number, or read for each index of other dimensions. The program
    promises that those that are read are multiples of `step`, or the extent, and expects `about` indices in it, if that
    is not 0."""

    dim: str
    low: Number | Entry
    high: Number | Entry
    step: Positive = 1
    about: Count = 0

    @property
    def bounds(self) -> tuple[Entry, ...]:
        """Those that are read."""
        return tuple(x for x in (self.low, self.high) if isinstance(x, Entry))

    @property
    def dims(self) -> frozenset[str]:
        """The dimensions that the bounds depend on."""
        return frozenset().union(*(x.dims for x in self.bounds))

    @property
    def rises(self) -> int | None:
        """The axis along which the bounds are offsets, `off[g]:off[g+1]`: each range begins where the one before ends.
        None where they are not."""
        if not isinstance(self.low, Entry) or not isinstance(self.high, Entry) or self.low.tensor != self.high.tensor:
            return None
        differ = [i for i, (a, b) in enumerate(zip(self.low.coords, self.high.coords, strict=True)) if a != b]
        if len(differ) != 1:
            return None
        first, other = self.low.coords[differ[0]], self.high.coords[differ[0]]
        return differ[0] if other == replace(first, offset=first.offset + 1) and first.divisor == 1 else None


@dataclass(frozen=True)
class Reads:
    """What is read for one result: its points are those of all `domains` at which no index of `lookups` is negative."""

    lookups: tuple[Lookup, ...] = ()
    domains: tuple[Domain, ...] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All that is read."""
        return (*(x.entry for x in self.lookups), *(bound for x in self.domains for bound in x.bounds))
