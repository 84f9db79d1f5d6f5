"""A and B of a product: where they lie, as what they are multiplied, and what applies their scales."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from scalec.formats import ADDENDS, FRAGMENTS, IN_ORDER, NUMBERS, WHOLE, ElementType
from scalec.passes.problem.access import Coord, Dim
from scalec.passes.problem.zero_points import ZeroPoints
from scalec.targets import ATOM, ATOMIC_SPAN, MmaShape, Target

PROMOTION_BLOCK = 128
"""K elements that one scale step promotes: the block of the FP8 formats, and one K tile of 128 bytes. Where kernels
promote parts of a tile (Kind.promotes_slices), the most."""

WHOLE_STEP = 32
"""K elements that a tile has at least that is promoted whole: of 4 bits 16 bytes, as boxes of copies ask for (CUDA
driver API, cuTensorMapEncodeTiled: boxDim)."""


def promotion_step(family: MmaShape) -> int:
    """K elements of which blocks of promoted scales are multiples: what an instruction sums, or a tile of two of them;
    where a tile may have elements that copies pad, their boxes."""
    if family.kind.promotes_slices:
        return family.k
    return PROMOTION_BLOCK if family.container_bits else max(2 * family.k, WHOLE_STEP)


PROMOTED_BITS = 8
"""Bits that an element has at most in memory whose sums are promoted: products of larger ones, which are summed before
they meet their scales, may be beyond f32's range."""

TURNED = {"e4m3": 8, "e5m2": 8, "i8": 8, "tf32": 32, "e2m1": 4, "i4": 4, "u4": 4}
"""Element types that warps turn, where the tensor core does not read them with M or N contiguous, and their bits. Those
of 4 bits become others on the way."""

FOLDED_STEP = 8
"""K elements of which blocks of folded scales are multiples: those that a thread converts with one."""

QUANTISED_STEP = 16
"""Likewise where it quantises what it converts, to bytes: of blocks of new scales too, which lanes find together."""


@dataclass(frozen=True)
class Scale:
    """A scale that is applied before the sum over K: one for each `rows` x `k` block of its operand.

    Attributes:
        argument_index: position among the function's arguments.
        name: what the user calls it.
        rows: rows (of A) or columns of the product (of B) in a block; WHOLE where one block spans all.
        k: K elements of a block: a multiple of `promotion_step`, or with `in_mma` of the instruction's block, or WHOLE.
        layout: "row" (K contiguous) or "col" (rows contiguous); of bytes also "blocked" or "packed"
            (scalec.formats.Granularity).
        type: its element type: one of those that sums are promoted by, or with `in_mma` one of the family's.
        in_mma: the instruction applies it; else sums of `k` products are promoted by it, in FP32.
        folded: the conversion of the operand's elements applies it instead.
        made: warps that convert the operand find it, as they quantise what they have (`Operand.made`).
        axes: the tensor's axes of rows and of K.
        coords: where it is read, one entry an axis.
        gathered: the lookup that says which row it is of; "" where its rows are those of the tile. Promoted, each row
            of a tile then has its own (`rows` is 1), whatever the block in memory (`coords`).
        spread: rows of a block in memory, WHOLE for all, of which each row of a tile has the scale as its own (`rows`
            is 1), as scales of another product that is added up are of other blocks or layouts; 0 where all are alike.
        named: the lookup that says which row of K it is of (`Operand.gathered_k`): each element of K of a tile has its
            own, of each block of rows, and `k` counts those of memory. "" where it changes along K in order.
    """

    argument_index: int
    name: str
    rows: int
    k: int
    layout: str
    type: str = "f32"
    in_mma: bool = False
    axes: tuple[int, int] = (0, 1)
    coords: tuple[Coord, ...] = ()
    gathered: str = ""
    folded: bool = False
    made: bool = False
    spread: int = 0
    named: str = ""

    @property
    def k_apart(self) -> int:
        """To how many elements of K each group's are padded, where groups of K are apart; else 0."""
        return self.coords[self.axes[1]].apart if self.coords else 0

    def within(self, depth: int) -> int:
        """Scales of a row within `depth` elements of K, from a multiple of that on."""
        return depth // math.gcd(self.k, depth)

    def of_rows(self, gathered: str) -> Scale:
        """The scale of an operand whose rows the lookup `gathered` names: each row of a tile has its own, or all have
        the same. With "" it stays as it is."""
        if not gathered or self.rows == WHOLE:
            return self
        return replace(self, gathered=gathered, rows=self.rows if self.in_mma or self.folded else 1)


@dataclass(frozen=True)
class OperandInput:
    """A tensor that bodies of an operand's elements read beside these."""

    argument_index: int  # position among the function's arguments
    name: str  # what the user calls it
    element: ElementType
    coords: tuple[Coord, ...]  # where it is read, one entry an axis
    along: str  # the dimension that it changes along within a tile, K's or that of the operand's rows


@dataclass(frozen=True)
class Fold:
    """A result beside those of the product: a reduction along K of what a body computes of each element of an operand,
    one for each of its rows.
    """

    name: str  # what the user calls it
    index: int  # position among the function's results
    element: ElementType
    kind: str  # sum, max or min
    coords: tuple[Coord, ...]  # where it is written, one entry an axis
    # names of the ops that compute a term, and `after` of those that compute the result of the reduction.
    body: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operand:
    """A or B."""

    argument_index: int  # position among the function's arguments
    name: str  # what the user calls it
    stored: ElementType  # its element type in memory
    element: ElementType  # that of what is multiplied
    rows: str  # name of the dimension along M or N that a tile has
    contiguous: str  # name of the dimension that it is contiguous along: K's, or `rows`
    scales: tuple[Scale, ...]  # its scales that are applied before the sum over K, innermost level first
    shared_bits: int  # bits of an element of what is multiplied, in shared memory
    align: int  # bytes that its address and its outer stride must be multiples of
    atom: int = ATOM  # bytes that the swizzle of its tile keeps together
    coords: tuple[Coord, ...] = ()  # where it is read, one entry an axis
    # the lookup that says which row of it is a row of the tile, or which page that is of, if copies bring single rows;
    # "" where they are those of `rows`.
    gathered: str = ""
    gathered_k: str = ""  # the lookup that says which index of it is an index of K; "" where they are those of K
    turned: bool = False  # its rows are contiguous in memory, and warps make rows of it that are contiguous along K
    # its rows of K are in words of WORD_BITS, those of adjacent rows beside each other (scalec.formats.WORDS).
    in_words: bool = False
    # of a row of 4 bits that is contiguous along M or N, which of eight rows each element of a word is of, from the
    # lowest bits on; of one that is contiguous along K one of FRAGMENTS, or none.
    order: tuple[int, ...] = IN_ORDER
    pages: str = ""  # the lookup that says which page its rows are of, if a copy brings several; "" where none does
    page: int = 0  # rows of each page, also where they are gathered; 0 where it has none
    pages_k: str = ""  # the lookup that says which page its K is of, `page_k` of each; "" where it has none
    page_k: int = 0
    # K blocks begin at any element of its rows, and copies at the multiple of `align` bytes before, of as many bytes
    # more; warps move each row of a K block to where it begins.
    shifted: bool = False
    # likewise, but rows stay where they are: what a K block has in the first `align` bytes of the next, a warp puts in
    # the place of what lies there before the block, as both operands may have K in any one order.
    wrapped: bool = False
    folds: tuple[Fold, ...] = ()  # what they reduce it to on the way
    zeros: ZeroPoints | None = None  # what its elements are less, before they are converted; None where that is nothing
    # what they compute of its elements, or quantise, is rounded to this type, and that multiplied, exactly, as
    # `element`; None where the elements themselves are.
    rounded: ElementType | None = None
    body: tuple[str, ...] = ()  # names of the ops that compute it
    inputs: tuple[OperandInput, ...] = ()  # what these and those of `folds` read beside its elements
    # the operands in its place of the program's other contractions, which differ from it by names.
    others: tuple[Operand, ...] = ()

    @property
    def panes(self) -> tuple[Operand, ...]:
        """It, and the others in its place."""
        return (self, *self.others)

    @property
    def row_axis(self) -> int:
        """Its axis along M or N of a tile."""
        return self.row_axes[-1]

    @property
    def row_axes(self) -> tuple[int, ...]:
        """Its axes along M or N of a tile; of two, where two dimensions are walked as one (Dim.inner), the inner one
        first."""
        rows = self.rows if self.page else self.gathered or self.rows
        axes = [axis for axis, c in enumerate(self.coords) if c.dim == rows]
        return tuple(sorted(axes, key=lambda axis: self.coords[axis].divisor))

    @property
    def page_axes(self) -> tuple[int, ...]:
        """Its axis of pages, where rows of these are gathered; none elsewhere."""
        return tuple(axis for axis, c in enumerate(self.coords) if self.page and c.dim == self.gathered)

    @property
    def inner(self) -> int:
        """Rows that its inner axis of rows has; 1 where it has one axis of rows."""
        axes = self.row_axes
        return self.coords[axes[0]].modulus if len(axes) > 1 else 1

    @property
    def padded(self) -> bool:
        """Whether copies pad its packed elements: a row of shared memory then comes in boxes of PADDED_ROW elements."""
        return self.shared_bits > self.element.bits

    @property
    def mn_major(self) -> bool:
        """Whether its rows are contiguous, and what is multiplied is [K, rows] in shared memory."""
        return self.stored_mn_major and not self.turned

    @property
    def stored_mn_major(self) -> bool:
        """Whether its rows are contiguous in memory."""
        return self.contiguous == self.rows

    @property
    def in_fragments(self) -> bool:
        """Whether its elements along K lie as registers have them (scalec.formats.FRAGMENTS)."""
        return self.order in FRAGMENTS.values()

    @property
    def begins(self) -> int:
        """Elements of a row of which copies of it begin at a multiple."""
        return 8 * self.align // self.stored.bits

    @property
    def promoted(self) -> tuple[Scale, ...]:
        """The scales that sums are promoted by."""
        return tuple(s for s in self.scales if not s.in_mma and not s.folded)

    @cached_property
    def converted(self) -> bool:
        """Whether warps make of each stage's elements those that are multiplied."""
        return self.stored != self.element or self.turned or self.shifted or self.transformed

    @property
    def transformed(self) -> bool:
        """Whether they have each element as f32: it is computed, or reduced."""
        return bool(self.folds) or self.rounded is not None

    @cached_property
    def folded(self) -> Scale | None:
        """The scale that they apply, None where they apply none."""
        return next((s for s in self.scales if s.folded and not s.named), None)

    @cached_property
    def named(self) -> Scale | None:
        """The scale that they apply which each row of K has its own of, as that is gathered; None where there is
        none."""
        return next((s for s in self.scales if s.named), None)

    @cached_property
    def addends(self) -> int:
        """Of how many that are multiplied each element times its scale is the sum; 0 where it is not told so."""
        if self.folded is None or self.transformed:  # what is quantised anew has scales that are folded in too
            return 0
        made, count = ADDENDS.get((self.stored.name, self.folded.type), ("", 0))
        return count if made == self.element.name else 0

    @property
    def made(self) -> Scale | None:
        """The scale that they find where they quantise the elements anew, and that sums are promoted by, None where
        they do not."""
        return next((s for s in self.scales if s.made), None)

    @property
    def by_row(self) -> Scale | None:
        """The scale that is brought to shared memory, one for each row of a tile, as f32: for promotion, or for who
        converts; None where there is none."""
        return self.folded or next((s for s in self.promoted if s.rows == 1 and not s.made), None)

    @property
    def scale_in_mma(self) -> Scale | None:
        """The scale that the instruction applies, None where it has none (the instruction then takes ones)."""
        return next((s for s in self.scales if s.in_mma), None)

    def swizzles(self, target: Target) -> tuple[int, ...]:
        """Byte widths that the swizzle of its tile may have, widest first, 0 for none."""
        return tuple(s for s in target.swizzles if self.atom == ATOM or s in (0, ATOMIC_SPAN))

    def shared_bytes(self, count: int) -> int:
        """Bytes that `count` adjacent elements of what is multiplied take in shared memory."""
        return -(-count * self.shared_bits // 8)

    def copied_bytes(self, count: int) -> int:
        """Likewise of what copies bring."""
        brought = self.stored.bytes(count) if self.converted else self.shared_bytes(count)
        return brought + self.align * self.shifted


@dataclass(frozen=True)
class Product:
    """A product that is added to the sums of another one: of operands of its own, over a K of its own.

    Attributes:
        lhs, rhs: its operands, which the tiles of the other's can have in their places.
        k, summed: what it sums over, as a Problem has it.
    """

    lhs: Operand
    rhs: Operand
    k: Dim
    summed: tuple[Dim, ...] = ()

    def transposed(self) -> Product:
        """With its operands in each other's place."""
        return replace(self, lhs=self.rhs, rhs=self.lhs)


def as_f32(*operands: Operand) -> str:
    """What to do first about scales of a byte of operands that no instruction multiplies; "" where there are none."""
    found = (s.name for x in operands for s in x.scales if s.type not in NUMBERS)
    return next((f"pass {name} as f32, or " for name in found), "")
