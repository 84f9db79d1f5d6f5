"""What a kernel computes of its sums: results, what their bodies read, and what they are quantised by."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scalec.errors import Place
from scalec.formats import TRANSFORMED, ElementType
from scalec.ir.mlir import ir
from scalec.passes.problem.access import Chance, Coord, Dim, Gaps
from scalec.targets import MAX_BOX

COLUMNS = 16, 64
"""Of which the columns of tiles that every target has are multiples: of up to 128, and of more."""


def whole_columns(columns: int) -> int:
    """Columns of the smallest tile that has so many, and that every target has."""
    step = COLUMNS[columns > MAX_BOX // 2]
    return -(-columns // step) * step


@dataclass(frozen=True)
class EpilogueInput:
    """A view that the epilogue's body reads beside the accumulator."""

    argument_index: int  # position among the function's arguments
    name: str  # what the user calls it
    element: ElementType
    kind: str  # "row" (depends on M alone), "col" (on N alone), "both" or "scalar"
    coords: tuple[Coord, ...]  # where it is read, one entry an axis; empty for a scalar argument
    layout: str  # "row" or "col", the layout of the argument
    view: int  # position among the map's views, and so among the body's arguments
    # its elements do not lie side by side: every so-many-th of a tensor (scalec.passes.fuse.views).
    spaced: bool = False
    computed: bool = False  # it is an end of a window that no tensor has, but the one place of `coords` is


@dataclass(frozen=True)
class ResultScale:
    """The scales of a quantised result, one for each `block` columns of a row, of each of `ctas` CTAs of a cluster."""

    name: str  # what the user calls them
    index: int  # position among the function's results
    block: int  # columns of a tile that share one
    type: str  # their element type
    layout: str  # one of scalec.formats.LAYOUTS
    outer: EpilogueInput | None = None  # the scale of the whole result, which is given; None where there is none
    place: Place | None = None  # where the program says so
    apart: int = 0  # to how many rows each group's are padded, where groups of rows are apart; else 0
    # CTAs of a cluster, along the columns, whose tiles share one: wider blocks than a tile are theirs together.
    ctas: int = 1
    gaps: Gaps | None = None  # those of the result, of whole blocks; None where there are none

    @property
    def width(self) -> int:
        """Columns that share one, of all CTAs."""
        return self.block * self.ctas

    @property
    def blocks_around(self) -> Gaps | None:
        """The gaps, counted in blocks."""
        return None if self.gaps is None else Gaps(*(x // self.width for x in self.gaps.numbers))

    def stored(self, size: int) -> int:
        """Scales of a row of so many columns as they lie in memory, with those in gaps."""
        blocks, gaps = -(-size // self.width), self.blocks_around
        return blocks if gaps is None or not blocks else gaps.at(blocks - 1) + 1

    def shared(self, ctas: int, columns: int, row: int | None) -> ResultScale:
        """The same where so many CTAs share a block, as tiles have no more than so many `columns`, and all of theirs as
        many. Those of a whole row, of `row` elements, may have more together than there are."""
        share = whole_columns(-(-self.block // ctas))
        uneven = share * ctas != self.block and (row is None or self.block < row)
        if self.ctas > 1 or self.block <= columns or share > MAX_BOX or uneven:
            return self
        return replace(self, block=share, ctas=ctas)


@dataclass(frozen=True)
class Window:
    """The points of a result that are computed: those whose index along the dimension `dim` is at least `low` and below
    `high`, each a number, read from memory or computed of another index. All others are `otherwise`, or with None keep
    what they are. With `width` points are at their distance from `low`, below it; of a `low` below 0 none is."""

    dim: str
    low: EpilogueInput | int
    high: EpilogueInput | int
    otherwise: float | None = None
    width: Dim | None = None

    @property
    def bounds(self) -> tuple[EpilogueInput | int, EpilogueInput | int]:
        return self.low, self.high

    @property
    def read(self) -> tuple[EpilogueInput, ...]:
        """Those that are read."""
        return tuple(x for x in self.bounds if not isinstance(x, int))


@dataclass(frozen=True)
class Reduced:
    """What a result has of all points along one dimension of a tile."""

    kind: str  # "sum", "max", "min" or "sum_exp" of what the result's body computes
    over: str
    final: tuple[str, ...]  # names of the ops that compute the result of that value, in order
    # which of the results are computed; None where all are, or ranges of the problem say it.
    window: Window | None = None
    beside: tuple[Result, ...] = ()  # of "sum_exp": results that are written with it, of the same body


@dataclass(frozen=True)
class ColumnFold:
    """A reduction within a tile: of what a result's body computes for all indices of one dimension, before another
    body computes the result of it.

    Attributes:
        kind: "sum", "max" or "min".
        dim: the dimension that is reduced, `size` indices: all of them adjacent columns of a tile.
        along: the dimension of a tile that has them (Dim.inner), by its name; `dim` itself where it has no other.
        body, accumulators, inputs: of the body behind it, as a Result has them, and at indices of what is left.
    """

    kind: str
    dim: str
    size: int
    along: str
    body: tuple[str, ...] = ()
    accumulators: tuple[int, ...] = ()
    inputs: tuple[EpilogueInput, ...] = ()


@dataclass(frozen=True)
class Result:
    """A tensor that the kernel writes: `epilogue` of the sums and of `inputs`."""

    name: str  # what the user calls it
    element: ElementType
    dims: tuple[str, str]  # (M, N) of a tile by name
    inout: bool  # it is also read, being accumulated into
    scale: ResultScale | None = None  # what it is quantised by, None where it is only rounded
    # where it is written, one entry an axis; its scales likewise, the last one divided by their block.
    coords: tuple[Coord, ...] = ()
    gaps: Gaps | None = None  # what is left out along the last axis, None where nothing is
    strided: bool = False  # the last axis is not N as the program has it: elements of a row lie apart
    # (dimension of a tile, lookup) where that says which row of it a row of a tile is, or which column a column; none
    # where they are those of the tile.
    scattered: tuple[tuple[str, str], ...] = ()
    index: int = 0  # position among the function's results
    body: tuple[str, ...] = ()  # names of the ops of its `scale.map`, in order; none where the f32 sums are the result
    adds: bool = False  # whether the last one adds what is there, in f32
    accumulators: tuple[int, ...] = ()  # positions of the sums among the epilogue's views
    # of which contraction (`Problem.panes`) each of these is, or without a body the result.
    panes: tuple[int, ...] = (0,)
    inputs: tuple[EpilogueInput, ...] = ()  # what the epilogue reads beside them
    # the reduction between that and the result; None where the body computes the result itself.
    column_fold: ColumnFold | None = None
    window: Window | None = None  # which points of it are computed; None where all are, or ranges of the problem say it
    reduced: Reduced | None = None  # of a reduction, over what; None where each point is written
    chance: Chance | None = None  # by what it is rounded up or down; None where it is rounded to nearest
    # whether adjacent columns are transformed together before they are rounded (`scale.hadamard`).
    transformed: bool = False

    @property
    def added(self) -> EpilogueInput | None:
        """The result itself, where the last thing that is done is to add it: bulk copies can do so."""
        return next((x for x in self.inputs if x.name == self.name), None) if self.adds else None

    def axis(self, dim: str) -> int | None:
        """The result's axis that a dimension of a tile is along; None of one that has been folded away."""
        name = self.lookup_of(dim) or dim
        return next((axis for axis, at in enumerate(self.coords) if at.dim == name), None)

    def lookup_of(self, dim: str) -> str:
        """The lookup that says where indices of a dimension of a tile go, "" where they stay."""
        return dict(self.scattered).get(dim, "")

    @property
    def block(self) -> int:
        """Elements of a row that share a scale, 1 where there is none."""
        return self.scale.block if self.scale is not None else 1

    @property
    def group(self) -> int:
        """Columns that are written together: those of a scale, of a transform, and whole bytes of packed elements."""
        return math.lcm(self.block, self.element.unit, TRANSFORMED if self.transformed else 1)


@dataclass(frozen=True)
class Term:
    """What is computed of the sums of one product before those of the others are added to it: of number `number` of
    the products, by the body of each contraction's of `results`, which no memory has. The `index` of these is their
    place among what is added up."""

    number: int
    results: tuple[Result, ...]


def adds_last(result: Result, body: ir.Block) -> bool:
    """Whether the last thing that a body does is to add the result that is there, in f32, which bulk copies can do."""
    if not result.inout or result.element.name != "f32":
        return False
    last = body.operations[len(body.operations) - 1].operands[0]
    mine = next((x for x in result.inputs if x.name == result.name), None)
    if mine is None or last.owner.name != "arith.addf" or len(list(last.uses)) != 1:
        return False
    read = body.arguments[mine.view]
    return list(last.owner.operands).count(read) == 1 and len(list(read.uses)) == 1
