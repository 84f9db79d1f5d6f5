"""What the roles of a kernel share: its two sides, and its values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from scalec.abi import permuted_rows
from scalec.formats import PER_WORD, WORD_BITS
from scalec.ir.mlir import ir
from scalec.passes.plan.panes import Strip
from scalec.passes.plan.resources import numbered
from scalec.passes.problem.access import Coord
from scalec.passes.problem.operand import Operand, Scale


@dataclass(frozen=True)
class Side:
    """A or B in the kernel: its operand, tile rows, swizzle, and what the CTAs of the cluster share.

    Attributes:
        copied: rows of the tile that a CTA has in shared memory; fewer than `rows` where several multiply together.
        permuted: rows among which copies change the order, 0: they keep it.
        strips: the rows of the tile that each copy brings, of each contraction.
        of, piece: rows of the tile that it is, or that it is a piece of, and what tells pieces apart.
        stored_row: bytes from one row to the next of the tile that copies bring, where warps convert it.
        k: the dimension along K that a tile has.
        product: the number of the product that its operand is of, among those that are added up.
        multicast, multicast_scales: how many different tiles, or scales of tiles, the CTAs have by turns; 0 where they
            share none.
    """

    label: str
    operand: Operand
    rows: int
    copied: int
    swizzle: int
    permuted: int
    multicast: int
    multicast_scales: int
    k: str
    stored_row: int
    strips: tuple[Strip, ...]
    of: int
    piece: str
    product: int = 0

    def of_product(self, operand: Operand, k: str, number: int) -> Side:
        """The side of another product, which has the same tile."""
        return replace(self, operand=operand, k=k, product=number)

    def map_of(self, pane: int, what: str = "") -> str:
        """What handles call the tensor map of its operand, or of `what` goes with that, of each contraction."""
        return numbered(self.label + what + f"+{self.product}" * bool(self.product), pane)

    @property
    def padded(self) -> bool:
        """Whether what follows its rows pads a tile: it has the last ones, all next to each other."""
        whole = self.piece == self.label
        return whole or (not self.apart and self.strips[-1].first + self.strips[-1].rows >= self.of)

    @property
    def apart(self) -> int:
        """Rows of other operands between two of its strips, 0 where it has one."""
        return self.strips[1].first - self.strips[0].first - self.strips[0].rows if len(self.strips) > 1 else 0

    def of_pane(self, scale: Scale, pane: int) -> Scale:
        """The scale of a contraction's operand that is there what `scale` is of the first one's."""
        return self.operand.panes[pane].scales[self.operand.scales.index(scale)]

    @property
    def axes(self) -> tuple[int, ...]:
        """The operand's axes that a tile runs along, as they lie in memory, the contiguous one first; of words, those
        of words."""
        rows, k = self.operand.row_axes, [c.dim for c in self.operand.coords].index(self.k)
        if self.operand.in_words:  # [..., k/8, n, 8] of [..., n, k]
            return (k, *rows)
        return (*rows, k) if self.operand.stored_mn_major else (k, *rows, *self.operand.page_axes)

    @property
    def brought(self) -> int:
        """Rows of the tile that copies bring."""
        return sum(strip.rows for strip in self.strips)

    @property
    def copies(self) -> int:
        """Copies that bring its tile, each of rows of one page."""
        return self.copied // self.of_page if self.of_page else 1

    @property
    def of_page(self) -> int:
        """Rows of a page that a copy brings: of those that tiles cut, as many as divide both; 0 without pages."""
        return math.gcd(self.copied, self.operand.page) if self.operand.pages else 0

    @property
    def pages(self) -> int:
        """Pages that its tile has rows of, at most: it begins at a multiple of `of_page` rows of one."""
        page = self.operand.page
        return (page - self.of_page + self.copied - 1) // page + 1

    def stored(self, depth: int) -> tuple[int, int]:
        """Of the tile that copies bring and warps convert, likewise; of one that they turn, or of words, strips lie one
        behind the other."""
        if self.operand.in_words:
            return depth // PER_WORD * len(self.strips), self.strips[0].rows
        if self.operand.turned:
            return depth * len(self.strips), self.strips[0].rows // self.per_byte
        return self.copied, self.stored_row * 8 // max(8, self.operand.stored.bits)

    @property
    def per_byte(self) -> int:
        """Elements of a byte of the tile that copies bring and warps convert, 1 of larger ones."""
        return max(1, 8 // self.operand.stored.bits)

    def shape(self, depth: int) -> tuple[int, int]:
        """Of its tile in shared memory, `depth` elements of K deep; packed elements in bytes."""
        count = self.operand.shared_bytes if self.operand.element.bits < 8 else int
        return (depth, count(self.copied)) if self.operand.mn_major else (self.copied, count(depth))

    def box(self, depth: int, swizzle: int = 0) -> tuple[int, ...]:
        """Of one copy, innermost first: a strip of the tile, or a panel of it where its rows are wider than the
        swizzle; of gathered rows one. `swizzle`: of the tile that copies bring, where warps convert it."""
        if self.strips[0].rows < self.copied:
            return replace(self, copied=self.strips[0].rows, strips=self.strips[:1]).box(depth, swizzle)
        if self.operand.in_words:
            return swizzle * 8 // WORD_BITS or self.strips[0].rows, depth // PER_WORD
        height, width = self.stored(depth) if self.operand.converted else self.shape(depth)
        if self.operand.gathered:
            packed = self.operand.stored.bits < 8
            own = (self.operand.copied_bytes(depth) if packed else depth) if self.operand.converted else width
            return own, 1, *(1 for _ in self.operand.page_axes)
        inner, height = self.operand.inner, self.of_page or height
        rows = (inner, height // inner) if inner > 1 else (height,)
        if self.operand.converted:
            return width, *rows
        width = min(width, self.swizzle * 8 // max(8, self.operand.shared_bits))
        if not self.permuted:
            return width, *rows
        return width, *(extent for extent, _ in permuted_rows(self.permuted, height))


@dataclass
class Handles:
    """The kernel's values that the roles use.

    Attributes:
        columns: the ring of tiles of B that stay for a run of tiles; None where each stage has one.
        ring: of the stages; `filled`: the one where those who fill a stage arrive.
        tiles: of operands as they are multiplied, and of results; `stored`: of operands that warps convert, as copies
            bring them.
        made: of sides that are quantised anew the scales that warps find.
        zeros: of sides that consumers make in registers the zero points, as these subtract them.
        copied: of the stages whose scales are in tensor memory; None where the thread that multiplies copies them.
        sums_ring: of the accumulators; `vacated`: the one where those who have read one arrive.
        result_ring, result_cursor: of boxes of the result that are loaded, and the consumers' position in it; None
            where none are.
        pair_rank: of this CTA among those that multiply together; None where each does so by itself.
        parts, parts_ring, parts_cursor: room for the sums of other parts of K, its barriers, and the consumers'
            position there; None where no sums meet in a cluster.
        items, item_ring: what there is to do, as a warp finds it; None where all know it.
        meetings: of each result whose scales CTAs find together, by its number, the barriers of what they send each
            other, and the consumers' position.
        totals, totals_ring, totals_cursor: room for what consumer warps have of a tile's reductions, its barriers, and
            the consumers' position there; None where no warp counts tiles beside them.
        follows: whether the CTA has another tile behind the one that consumers work on, for that warp.
        cut_ring: where copies of a stage complete that a warp cuts before others see it; None where none does.
        landed: where copies of gathered rows complete that a warp hands over; None where none does.
        gathered: of sides whose rows are gathered the registers of the warp that copies, with their indices.
        rows: what a fold reads of rows, in shared memory, by name and where it is read.
        pages: of sides whose rows are of pages those of the tile that is copied, in their order.
        fill: what the role does with a tile (Work) outside of a window; None where it passes them over.
    """

    m: ir.Value
    n: ir.Value
    k: ir.Value
    ring: ir.Value
    filled: ir.Value
    tiles: dict[str, ir.Value] = field(default_factory=dict)
    stored: dict[str, ir.Value] = field(default_factory=dict)
    maps: dict[str, ir.Value] = field(default_factory=dict)
    scale_tiles: dict[str, ir.Value] = field(default_factory=dict)
    made: dict[str, ir.Value] = field(default_factory=dict)
    zeros: dict[str, ir.Value] = field(default_factory=dict)
    sums: ir.Value | None = None
    sums_ring: ir.Value | None = None
    copied: ir.Value | None = None
    responses: ir.Value | None = None
    response_ring: ir.Value | None = None
    vacated: ir.Value | None = None
    result_ring: ir.Value | None = None
    result_cursor: ir.Value | None = None
    fill: Callable[[Any], None] | None = None
    pair_rank: ir.Value | None = None
    parts: ir.Value | None = None
    parts_ring: ir.Value | None = None
    parts_cursor: ir.Value | None = None
    totals: ir.Value | None = None
    totals_ring: ir.Value | None = None
    totals_cursor: ir.Value | None = None
    follows: ir.Value | None = None
    gathered: dict[str, ir.Value] = field(default_factory=dict)
    pages: dict[str, list[ir.Value]] = field(default_factory=dict)
    rows: dict[tuple[str, tuple[Coord, ...]], ir.Value] = field(default_factory=dict)
    items: ir.Value | None = None
    item_ring: ir.Value | None = None
    meetings: dict[int, tuple[ir.Value, ir.Value | None]] = field(default_factory=dict)
    cut_ring: ir.Value | None = None
    landed: ir.Value | None = None
    columns: ir.Value | None = None
