"""What a CTA works on at a time, and the program's tensors there: maps and memory at outer indices, strides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.tile import DescriptorType
from scalec.passes.emit.emitter import Emitter, Source
from scalec.passes.emit.handles import Handles
from scalec.passes.problem.access import Coord, Dim, Index
from scalec.passes.problem.operand import Operand, Scale
from scalec.passes.problem.pointwise import Output
from scalec.passes.problem.result import Result
from scalec.passes.problem.types import Problem
from scalec.zero_points import Order


@dataclass(frozen=True)
class Work:
    """What a CTA works on at a time: a tile, or a part of its K.

    Attributes:
        m0, n0: the tile's first row and column.
        m_end, n_end: the rows and columns of the tensors from which on nothing is the tile's.
        k: K elements to walk.
        k0: the first of them; None where that is 0.
        part, number: of the part within its tile, and of the tile among all tiles; None where K is not split.
        outer: the tile's index along each dimension of the problem's `outer`, and each lookup, by name.
        k_low, k_high: the range of K, where there is one: the first and last K block may reach beyond it.
        k_own: where K blocks are wrapped (`Operand.wrapped`), what whole ones there are to multiply: so many elements,
            or one less where copies bring one more block. One register says both, and who multiplies has few.
        grids: where groups of K are apart, by what each group's scales are padded to (`Scale.k_apart`): how much
            further they count an element of K, and where K ends for them.
        low: where the group of a range of rows or columns begins, its first tile at least; None where nobody asks.
        begins: where it does, by which tiles that meet are numbered, if reductions run over the range.
        stop: where the rows of a run of tiles end; None of a tile.
        whole: whether all of the tile, or of what a unit has of it, is to be written (i1); None where nobody asks, or
            each tile's is.
        asked: what each lookup has for the unit's rows, or the tile's columns, while it is being loaded: of which that
            depends too, and where rows go.
        own: of lookups of rows, by name, what each lane has for its row.
        read_end: where rows of A and of B end for those who read them, if a tile may have none: they read the last one
            in place of those behind it.
    """

    m0: ir.Value
    n0: ir.Value
    m_end: ir.Value
    n_end: ir.Value
    k: ir.Value
    k0: ir.Value | None = None
    part: ir.Value | None = None
    number: ir.Value | None = None
    outer: dict[str, ir.Value] = field(default_factory=dict)
    k_low: ir.Value | None = None
    k_high: ir.Value | None = None
    k_own: ir.Value | None = None
    grids: dict[int, tuple[ir.Value, ir.Value]] = field(default_factory=dict)
    low: ir.Value | None = None
    stop: ir.Value | None = None
    whole: ir.Value | None = None
    asked: dict[str, ir.Value] = field(default_factory=dict)
    own: dict[str, ir.Value] = field(default_factory=dict)
    read_end: dict[str, ir.Value] = field(default_factory=dict)
    begins: ir.Value | None = None

    @property
    def row0(self) -> dict[str, ir.Value]:
        """First row of A and of B, by side."""
        return {"A": self.m0, "B": self.n0}

    @property
    def row_end(self) -> dict[str, ir.Value]:
        """Where the rows of A and of B end, by side, for those who read them."""
        return {**self.end, **self.read_end}

    @property
    def end(self) -> dict[str, ir.Value]:
        """Where the rows of A and of B end, by side."""
        return {"A": self.m_end, "B": self.n_end}


class Tensors:
    """The tensors of a kernel that is being built."""

    body: ir.Block
    e: Emitter
    function: ir.OpView
    problem: Problem
    drawn: dict[Index, ir.Value]

    def strides(self, scale: Scale) -> tuple[ir.Value, ir.Value]:
        """(row, K) strides of a scale tensor: the contiguous one is 1, the other a parameter."""
        one, (rows, k) = self.e.i64(1), scale.axes
        return (self.stride(scale.name, rows), one) if scale.layout == "row" else (one, self.stride(scale.name, k))

    def byte_strides(self, scale: Scale) -> tuple[ir.Value, ir.Value]:
        """(row, K) strides of a tensor of scale bytes, or of words of them."""
        if scale.layout == "blocked":
            return self.e.i64(0), self.e.i64(0)
        if scale.layout != "packed":
            return self.strides(scale)
        row, k = (self.stride(scale.name, axis) for axis in scale.axes)
        return row, k

    def page_stride(self, scale: Scale, operand: Operand) -> ir.Value | None:
        """How far apart the pages of an operand are among its scales; None where it has none."""
        pages = operand.page and (operand.pages or operand.gathered)
        axes = [axis for axis, c in enumerate(scale.coords) if pages and c.dim == pages]
        return self.stride(scale.name, axes[0]) if axes else None

    def map_of(self, scale: Scale, box: tuple[int, ...], inner: tuple[int, ...], **more: Any) -> Source:
        """The tensor map of a scale, of a box and the axes that it runs along, innermost first."""
        coords = scale.coords
        box, axes = self.boxed(coords, box), self.axes(coords, *inner)
        return Source("tensor_map", scale.name, box=box, align=16, axes=axes, **more)

    def axes(self, coords: tuple[Coord, ...], *inner: int, pages: str = "") -> tuple[int, ...]:
        """The axes of a tensor map: those that a tile runs along, then those of `outer`, and of `pages`; none where
        these are all as they lie in memory."""
        return (*inner, *self.problem.outside(coords, pages)) if len(coords) > 2 else ()

    def boxed(self, coords: tuple[Coord, ...], box: tuple[int, ...], pages: str = "") -> tuple[int, ...]:
        """The box of a tensor map: that of a tile, with an extent of 1 along each axis of `outer`, and of `pages`."""
        return (*box, *(1 for _ in self.problem.outside(coords, pages)))

    def at(self, value: ir.Value, name: str, coords: tuple[Coord, ...], w: Work, pages: str = "") -> ir.Value:
        """A tensor, its map or its memory, where the tile is along the dimensions of `outer`, and of `pages`."""
        e, axes = self.e, self.problem.outside(coords, pages)
        if not axes:
            return value
        indices = [self.placed(coords[axis], w.outer) for axis in axes]
        strides = [] if isinstance(value.type, DescriptorType) else [self.stride(name, axis) for axis in axes]
        return e.op("tile.view", [value.type], [value, indices, strides]).result

    def placed(self, c: Coord, at: dict[str, ir.Value]) -> ir.Value:
        """The index that a coordinate is, an i32; `at` has those of dimensions and lookups by name."""
        e = self.e
        if not c.dim:
            return e.i32(c.offset)
        index = at[c.dim]
        if c.offset:
            index = e.arith("arith.addi", index, e.i32(c.offset))
        if c.divisor > 1:
            index = e.arith("arith.divui", index, e.i32(c.divisor))
        if c.modulus:
            above = e.arith("arith.muli", e.arith("arith.divui", index, e.i32(c.modulus)), e.i32(c.modulus))
            index = e.arith("arith.subi", index, above)
        if c.gaps is not None:
            passed = e.arith("arith.divui", e.arith("arith.addi", index, e.i32(c.gaps.phase)), e.i32(c.gaps.every))
            index = e.arith("arith.addi", index, e.arith("arith.muli", passed, e.i32(c.gaps.size)))
        return index if c.order is None else self.ordered(index, c.order)

    def ordered(self, index: ir.Value, order: Order) -> ir.Value:
        """Where an element lies that would be at an index, were all in order."""
        e, place = self.e, self.e.i32(order.constant)
        for times, divisor, modulus in order.terms:
            own = self.placed(Coord("index", divisor, modulus), {"index": index})
            place = e.arith("arith.addi", place, e.arith("arith.muli", own, e.i32(times)))
        return place

    def of_range(self, w: Work) -> Work:
        """Where reductions run over a range, of which a tile may have nothing: as what a tile of none is read. It
        begins and ends where the promised multiple before the range does, as no copy begins elsewhere."""
        e, p = self.e, self.problem
        if not p.reduces_ranges or p.ragged is None or w.low is None:
            return w
        end = w.m_end if p.ragged.dim == p.m.name else w.n_end
        read_end = {x: e.arith("arith.maxui", own, e.i32(1)) for x, own in w.end.items()}
        low = e.arith("arith.minui", w.low, end) if p.ragged.step > 1 else w.low
        return replace(w, read_end=read_end, low=low, begins=w.low)

    def scale_rows(self, label: str, scale: Scale, w: Work) -> tuple[ir.Value, ir.Value]:
        """The first row of a tile, and where its rows end, as the scales of a side count them: where groups are apart,
        from where the tile's begins."""
        e, row0, end = self.e, w.row0[label], w.row_end[label]
        moved = self.moved_by(scale.coords[scale.axes[0]].apart, w)
        return (row0, end) if moved is None else (e.arith("arith.addi", row0, moved), e.arith("arith.addi", end, moved))

    def moved_by(self, apart: int, w: Work) -> ir.Value | None:
        """How much further scales of which each group's are padded to `apart` count a row; None where groups have none
        of their own."""
        e, ragged = self.e, self.problem.ragged
        if not apart or ragged is None or w.low is None:
            return None
        unit = e.arith("arith.addi", e.arith("arith.divui", w.low, e.i32(apart)), w.outer[ragged.group])
        return e.arith("arith.subi", e.arith("arith.muli", unit, e.i32(apart)), w.low)

    def grids(self, h: Handles, w: Work) -> dict[int, tuple[ir.Value, ir.Value]]:
        """`Work.grids` of an item: an empty range is no group's, its scales are behind those of all."""
        e, p, domain = self.e, self.problem, self.problem.range_of_k
        steps = {s.k_apart: None for x in (p.lhs, p.rhs) for s in x.scales if s.k_apart}
        if domain is None or w.k_low is None or not steps:
            return {}
        groups = next(self.size(d) for d in p.outer if d.name == domain.group)
        behind, some = e.arith("arith.addi", groups, e.i32(1)), e.compare("lt", w.k_low, h.k)
        group = e.op("arith.select", [h.k.type], [some, w.outer[domain.group], behind]).result
        made = {}
        for step in steps:
            unit = e.arith("arith.addi", e.arith("arith.divui", w.k_low, e.i32(step)), group)
            begins = w.k_low if w.k0 is None or not p.wraps else w.k0
            moved = e.arith("arith.subi", e.arith("arith.muli", unit, e.i32(step)), begins)
            units = e.arith("arith.divui", e.arith("arith.addi", h.k, e.i32(step - 1)), e.i32(step))
            made[step] = moved, e.arith("arith.muli", e.arith("arith.addi", units, groups), e.i32(step))
        return made

    def scale_k(
        self, h: Handles, scale: Scale, w: Work, k0: ir.Value, k_end: ir.Value | None = None
    ) -> tuple[ir.Value, ir.Value]:
        """Element `k0` of K, and the end of K, the first product's unless another is given, as a scale counts them:
        where groups of K are apart, the group's from the beginning of a block of its own on."""
        if scale.k_apart not in w.grids:
            return k0, h.k if k_end is None else k_end
        moved, end = w.grids[scale.k_apart]
        return self.e.arith("arith.addi", k0, moved), end

    def before(self, operand: Operand, k0: ir.Value) -> ir.Value:
        """The element of K at which copies of a K block begin that begins at element `k0`."""
        return self.e.arith("arith.andi", k0, self.e.i32(-operand.begins)) if operand.shifted else k0

    def shift(self, operand: Operand, w: Work) -> ir.Value | None:
        """How many elements that is before it; None where K blocks begin where copies do."""
        if not operand.shifted or w.k_low is None:
            return None
        return self.e.arith("arith.andi", w.k_low, self.e.i32(operand.begins - 1))

    @staticmethod
    def multiplied(w: Work) -> Work:
        """A tile's K as those walk it who multiply."""
        return w if w.k_own is None else replace(w, k=w.k_own)

    def left_over(self, w: Work) -> ir.Value:
        """Whether copies bring a K block more than these walk, for the end of the one before."""
        assert w.k_own is not None
        return self.e.compare("lt", self.e.i32(0), self.e.arith("arith.andi", w.k_own, self.e.i32(1)))

    def row_index(self, name: str, w: Work | None) -> ir.Value:
        """The lookup of each row, or column, of a tile by its name, where the tile is along the dimensions of
        `outer`."""
        p, e = self.problem, self.e
        if w is not None and name in w.own:
            return w.own[name]
        lookup = next(x for x in (*p.row_lookups, *p.k_lookups) if x.name == name)
        coords, tensor = lookup.index.coords, lookup.index.tensor
        source = self.pointer(tensor, lookup.index.argument_index, align=4)
        if w is not None:
            source = self.at(source, tensor, coords, w)
        if numbers := [axis for axis, c in enumerate(coords) if not c.dim and c.offset]:
            at = [self.placed(coords[axis], {}) for axis in numbers]
            strides = [e.i64(1) if axis == len(coords) - 1 else self.stride(tensor, axis) for axis in numbers]
            source = e.op("tile.view", [source.type], [source, at, strides]).result
        along = [c.dim for c in coords].index(lookup.dim)
        stride = e.i64(1) if along == len(coords) - 1 else self.stride(tensor, along)
        operands = [source, stride, [self.size(d) for d in lookup.extents]]
        axis = {p.m.name: "m", p.n.name: "n"}.get(lookup.dim, "k")
        how: dict[str, Any] = {"block": lookup.block} if lookup.block > 1 else {}
        return e.op("tile.row_index", [e.type("index")], operands, axis=axis, **how).result

    def size(self, d: Dim) -> ir.Value:
        """Of a dimension: a constant where it is known, else a parameter."""
        if d.size is not None:
            return self.e.i32(d.size)
        return self.parameter_of(d)

    def parameter_of(self, d: Dim) -> ir.Value:
        """The size of a dimension, which is made of a parameter."""
        size = self.e.parameter(self.body, ir.IntegerType.get_signless(32), Source("dim", dim=d.name))
        return self.e.arith("arith.muli", size, self.e.i32(d.inner)) if d.inner > 1 else size

    def own_size(self, d: Dim) -> ir.Value:
        """Likewise as the caller has it, 0 where a kernel walks zeros of its own in place of what is empty."""
        if d.size is not None:
            return self.e.i32(d.size)
        return self.e.parameter(self.body, ir.IntegerType.get_signless(32), Source("size", dim=d.name))

    def stride(self, name: str, axis: int) -> ir.Value:
        """Of a tensor, a parameter."""
        return self.e.parameter(self.body, ir.IntegerType.get_signless(64), Source("stride", name, axis=axis))

    def pointer(self, name: str, argument_index: int, align: int = 0) -> ir.Value:
        """A tensor argument as memory that threads read or write."""
        memory = self.e.memory(self.argument(argument_index).type)
        return self.e.parameter(self.body, memory, Source("pointer", name, align=align))

    def argument(self, index: int) -> ir.Value:
        """Of the function."""
        return self.function.body.blocks[0].arguments[index]

    def returned(self, index: int) -> ir.Value:
        """One of the function's results."""
        operations = self.function.body.blocks[0].operations
        return operations[len(operations) - 1].operands[index]

    def strided(self, name: str, rank: int) -> list[ir.Value]:
        """The strides of a tensor of so many indices, the last of which lies side by side."""
        return [self.stride(name, axis) for axis in range(rank - 1)] + ([self.e.i64(1)] if rank else [])

    def read_index(self, x: Index, where: dict[str, ir.Value]) -> ir.Value:
        """An element of a tensor of indices."""
        source, last = self.pointer(x.tensor, x.argument_index, align=4), len(x.coords) - 1
        used = [axis for axis, c in enumerate(x.coords) if c.dim or c.offset]
        at = [self.placed(x.coords[axis], where) for axis in used]
        strides = [self.e.i64(1) if axis == last else self.stride(x.tensor, axis) for axis in used]
        return self.e.op("tile.load_index", [ir.IntegerType.get_signless(32)], [source, at, strides]).result

    def read_words(self, results: Iterable[Result | Output]) -> dict[Index, ir.Value]:
        """What the random bits of results are made of."""
        every = (x.chance for x in results)
        return {word: self.read_index(word, {}) for chance in every if chance is not None for word in chance.words}
