"""What a fused program asks of its kernel: dimensions, where tensors are read and written, the result.

The passes that decide and the one that emits `tile` read these dataclasses instead of walking the IR; read.py
fills them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from scalec.errors import Place
from scalec.ir.schedule import Request, Schedule
from scalec.passes.problem.access import Coord, Dim, Domain, Index, Lookup, elements
from scalec.passes.problem.operand import PROMOTION_BLOCK, Fold, Operand, Product
from scalec.passes.problem.result import ColumnFold, EpilogueInput, Result, Term
from scalec.targets import MAX_BOX, Kind, MmaShape, Target

ASSUMED = 4096
"""Elements of a dimension whose size is not known: large, as in training and prefill."""

ASSUMED_OUTER = 64
"""Likewise of one that is no dimension of a tile: enough that tiles are many."""

UNEVEN = (0.7, 0.85, 1.0, 1.15, 1.3)
"""Lengths of ranges that share a dimension, as parts of what each has on average: what DeepGEMM's tests draw from."""

FAR = (0.5, 0.75, 1.0, 1.25, 1.5)
"""Likewise where they differ more."""

LINE = 128
"""Bytes that L2 has and sends together."""

STORED = ("f32", "bf16", "f16")
"""Element types that threads read and write as they are."""

INPUTS = (*STORED, "i8", "i32")
"""Those of inputs of the elementwise expression."""

ROUNDED = (*STORED, "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "i8")
"""Element types that threads write: of results."""


@dataclass(frozen=True)
class Problem:
    """result[o, m, n] = epilogue(sum over k of lhs[o, m, k] * rhs[o, n, k], inputs), for each of `results`.

    `m`, `n` and `k` are the dimensions that a tile runs along. It has one index of each of `outer`: batches, and more
    dimensions of M and N, in the result's order. It sums over all points of `summed`, more dimensions of K, the K
    of each padded to whole K blocks. Each tensor has those of them that its `coords` name. The K blocks of the products
    `added` follow, each product's over a K of its own, and are summed in the same place; in front of all stand those of
    the products that `terms` are of, of each by itself.

    `family` are the instructions that multiply `lhs` and `rhs`; `written` is where the program says so. The results
    have the same indices, in the same order. `reductions` have one index less each: they are sums, or the largest or
    least, along M or N, of what their bodies compute. `swapped`: rows of the results in memory are columns here
    (`transposed`). `beside`: of a problem of one result (`each`) the other results and reductions of the same sums.
    `spans`: a dimension of a tile and one of `outer` or `summed`, whose indices a launch walks as one where strides
    allow, which `sizes` takes for granted; `permuted_spans`: for which only strides of permuted tensors do.
    `in_addends`: the same program where each element of an operand is the sum of two that are multiplied, if it may be.
    `whole_pages`: tiles are to have whole pages, or pages whole tiles, for who looks for tiles that cut none first.
    """

    target: Target
    family: MmaShape
    m: Dim
    n: Dim
    k: Dim
    lhs: Operand
    rhs: Operand
    written: Place | None
    results: tuple[Result, ...]
    beside: tuple[Result, ...] = ()
    swapped: bool = False
    outer: tuple[Dim, ...] = ()
    summed: tuple[Dim, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    domains: tuple[Domain, ...] = ()
    reductions: tuple[Result, ...] = ()
    added: tuple[Product, ...] = ()
    terms: tuple[Term, ...] = ()
    spans: tuple[tuple[str, str], ...] = ()
    permuted_spans: tuple[tuple[str, str], ...] = ()
    in_addends: Problem | None = None
    whole_pages: bool = False

    @property
    def kind(self) -> Kind:
        """What the instructions ask of the warps around them."""
        return self.family.kind

    @property
    def products(self) -> tuple[Problem, ...]:
        """The problem of each product of the sums alone."""
        own = replace(self, added=(), terms=()) if self.added else self
        return (own, *(replace(own, lhs=x.lhs, rhs=x.rhs, k=x.k, summed=x.summed) for x in self.added))

    @property
    def segments(self) -> int:
        """Parts of a tile's K that are summed by themselves: that of each product of which something is computed before
        others are added, and theirs."""
        return len(self.terms) + (len(self.terms) < 1 + len(self.added))

    @property
    def queued(self) -> bool:
        """Whether what there is to do is read from memory: a warp finds it and tells the others."""
        return bool(self.constant_lookups or self.domains)

    @property
    def panes(self) -> int:
        """How many contractions there are, which share `lhs`: a tile has columns of each, side by side."""
        return len(self.rhs.panes)

    @property
    def constant_lookups(self) -> tuple[Lookup, ...]:
        """The lookups that are the same for all of a tile."""
        return tuple(x for x in self.lookups if not x.by_row)

    @property
    def k_lookups(self) -> tuple[Lookup, ...]:
        """Those of which each index of K has its own, wherever an operand has them: a point for which one names nothing
        is left out of the sum."""
        return tuple(x for x in self.lookups if x.block == 1 and x.dim == self.k.name)

    @property
    def paged_k(self) -> tuple[Operand, ...]:
        """The operands of which each page of K lies where a lookup says: where that names none, it is left out."""
        return tuple(x for x in (self.lhs, self.rhs) if x.pages_k)

    @property
    def row_lookups(self) -> tuple[Lookup, ...]:
        """Those of which each row of a tile, or each column, has its own."""
        return tuple(x for x in self.lookups if x.by_row and x.dim != self.k.name)

    @property
    def skips(self) -> tuple[Lookup, ...]:
        """Those of operands, of results and of what these read: a row for which one names nothing is not written."""
        read = [x.coords for x in self.inputs] + [r.coords for r in self.results]
        multiplied = [x.coords for p in self.products for x in (p.lhs, p.rhs)]
        names = {at.dim for coords in (*multiplied, *read) for at in coords}
        return tuple(x for x in self.row_lookups if x.name in names)

    @cached_property
    def ragged(self) -> Domain | None:
        """The range of rows or columns of a tile; None where all are there."""
        return next((d for d in self.domains if d.dim != self.k.name), None)

    @property
    def reduces_ranges(self) -> bool:
        """Whether a reduction runs over ranges of rows or columns of a tile: of a range without any, too."""
        over = {r.reduced.over for r in self.reductions if r.reduced is not None}
        return self.ragged is not None and self.ragged.dim in over

    @property
    def shared_out(self) -> Domain | None:
        """The range of a dimension that groups share out among themselves, one's behind the other's."""
        return next((d for d in self.domains if isinstance(d.low, Index) and d.group), None)

    @property
    def passed_over(self) -> bool:
        """Whether warpgroups, or warps, that have no rows of a tile which a range cuts hand its stages back without a
        product: where groups do not share rows out. That took 0.96 to 0.99 of the time with six groups of some 1024
        rows, 0.98 to 1.00 with 32 of some 189; of groups that do, even ones 1.00, and uneven ones 1.02 and 1.10 (H100,
        2026-11-28, docs/notes/groups.md)."""
        return self.ragged is not None and self.ragged.dim == self.m.name and self.shared_out is None

    @property
    def range_of_k(self) -> Domain | None:
        """The range of K, None where sums run over all of it."""
        return next((d for d in self.domains if d.dim == self.k.name), None)

    @property
    def each(self) -> tuple[Problem, ...]:
        """The problem of each result alone."""
        if len(self.results) == 1 and not self.reductions:
            return (self,)
        return tuple(map(self._alone, self.results))

    @property
    def each_reduction(self) -> tuple[Problem, ...]:
        """The problem of each reduction alone, as that of a result."""
        return tuple(map(self._alone, self.reductions))

    def _alone(self, own: Result) -> Problem:
        return replace(self, results=(own,), reductions=(), beside=tuple(x for x in self.bodies if x is not own))

    @property
    def bodies(self) -> tuple[Result, ...]:
        """Everything that is computed of the sums: reductions, then results, which need no copy of them if last."""
        return (*self.reductions, *self.results)

    @property
    def result(self) -> Result:
        """The result of a problem that has one: of `each`."""
        (alone,) = self.results
        return alone

    @property
    def column_fold(self) -> ColumnFold | None:
        """The reduction within a tile that its results are behind; of several results all have one along the same."""
        return self.results[0].column_fold if self.results else None

    @property
    def behind(self) -> Problem:
        """What follows the fold of a problem of one result: its columns are those that are left."""
        result, fold, span = self.result, self.result.column_fold, self.n
        assert fold is not None
        made = replace(
            result,
            coords=tuple(at.outermost(span) for at in result.coords),
            body=fold.body,
            accumulators=fold.accumulators,
            panes=(0,) * len(fold.accumulators),
            inputs=fold.inputs,
            column_fold=None,
        )
        if span.name == fold.dim:
            return replace(self, n=replace(span, size=1), results=(made,))
        size = None if span.size is None else span.size // span.inner
        return replace(self, n=replace(span, size=size, inner=1, within=""), results=(made,))

    @property
    def inputs(self) -> tuple[EpilogueInput, ...]:
        """What the epilogues read beside the sums."""
        first = (r for term in self.terms for r in term.results)
        return tuple(x for r in (*first, *self.bodies) for x in r.inputs)

    @property
    def names(self) -> str:
        """What the user calls the results."""
        return " and ".join(r.name for r in self.results or self.reductions)

    @cached_property
    def depth(self) -> int | None:
        """Products of a sum; None where it is not known."""
        if self.range_of_k is not None:
            return None
        sizes = [[d.size for d in (x.k, *x.summed)] for x in self.products]
        return None if any(None in x for x in sizes) else sum(math.prod(n for n in x if n is not None) for x in sizes)

    @property
    def most_products(self) -> int | None:
        """The most products of a sum that is surely right; None where it has an exponent, or scales are applied before
        there are so many."""
        return None if self.has_scales else self.family.most_products

    @property
    def summed_sizes(self) -> list[tuple[int, list[Dim]]]:
        """Of each contraction that is added up the most products, as far as sizes are known, and the dimensions of
        which they are not."""
        ends = [[(d, d.most if d.size is None else d.size) for d in (x.k, *x.summed)] for x in self.products]
        return [(math.prod(n for _, n in x if n is not None), [d for d, n in x if n is None]) for x in ends]

    @property
    def blocks(self) -> tuple[str, int]:
        """The dimension of a tile along which lookups change, and of how many indices of it each block is that they
        have in common; ("", 0) without such lookups."""
        along = [x for x in self.constant_lookups if x.dim]
        return (along[0].dim, math.gcd(*(x.block for x in along))) if along else ("", 0)

    @property
    def in_runs(self) -> bool:
        """Whether blocks of lookups that follow each other and have the same ones are walked as one range: where
        lookups depend on no other index."""
        along, _ = self.blocks
        used = {c.dim for x in self.constant_lookups if x.dim for c in x.index.coords if c.dim}
        return bool(along) and used == {along}

    @property
    def run(self) -> int:
        """Of how many blocks such a range is assumed to be: as if lookups named each matrix once, 1 where sizes are not
        known."""
        along, block = self.blocks
        found = [d.largest for d in (self.m, self.n) if d.name == along]
        named = [d.largest for x in self.constant_lookups if x.dim for d in x.extents]
        if not self.in_runs or not all(found + named):
            return 1
        return max(1, -(-(found[0] or 0) // (block * max(x or 0 for x in named))))

    def uneven(self, d: Dim) -> bool:
        """Whether tiles of a dimension are those of ranges, whose lengths differ from group to group."""
        along, block = self.blocks
        ranged = self.ragged.dim == d.name if self.ragged is not None else along == d.name and (d.share or 0) > block
        return ranged and bool(d.share)

    def longest(self, d: Dim, size: int) -> int:
        """Of a dimension of `size` indices, or whose ranges have so many on average, what a tile may cover."""
        return math.ceil(size * FAR[-1]) if self.uneven(d) else size

    def covering(self, d: Dim, size: int, extent: int, lengths: tuple[float, ...] = UNEVEN) -> float:
        """Tiles of `extent` that `size` indices of a dimension take; of a range so many on average over `lengths`."""
        if not self.uneven(d):
            return -(-size // extent)
        return sum(max(1, math.ceil(size * part / extent)) for part in lengths) / len(lengths)

    def begins(self, dim: str) -> int:
        """Where a tile may begin along a dimension: at a multiple of its extent behind one of this number; 0: of its
        extent."""
        ragged = self.ragged
        if ragged is not None and ragged.dim == dim:
            return ragged.low if isinstance(ragged.low, int) else ragged.step
        along, block = self.blocks
        return block if along == dim else 0

    def apart(self, dim: str) -> bool:
        """Whether scales are counted from where each group of the range of a dimension begins."""
        scales = [s for x in (self.lhs, self.rhs) for s in x.scales]
        of_results = dim != self.k.name and any(r.scale is not None and r.scale.apart for r in self.results)
        return of_results or any(at.apart for s in scales for at in s.coords if at.dim == dim)

    def begins_apart(self, dim: str, bits: int) -> str:
        """Why a tile may begin elsewhere than at a multiple of 16 bytes of elements of so many `bits` that lie along a
        dimension, "" where none does: no box of a copy begins there."""
        if not self.begins(dim) * bits % (8 * self.target.tma_align):
            return ""
        step = self.begins(dim)
        return f"a tile may begin at {step if step == 1 else f'{step} or a multiple'} of {dim}, where no copy does"

    def walks(self, sizes: Mapping[str, int] | None = None) -> int:
        """How many times the kernel walks M by N, or the share of them that is one group's: the product of the sizes of
        `outer`, those given or the largest, and the number of blocks of lookups that are a share."""
        count = math.prod(sizes[d.name] if sizes else d.tiles(1, ASSUMED_OUTER) for d in self.outer)
        return count * math.prod(self._shares(d) for d in (self.m, self.n))

    @property
    def dims(self) -> tuple[Dim, ...]:
        """M, N and K of the program, whichever way round this is seen, those of `outer` and `summed`, then those of
        what is `added`, each once."""
        m, n = (self.n, self.m) if self.swapped else (self.m, self.n)
        further = [d for x in self.added for d in (x.k, *x.summed)]
        return tuple({d.name: d for d in (m, n, self.k, *self.outer, *self.summed, *further)}.values())

    def sizes(self, given: Mapping[str, int] | None = None) -> dict[str, int]:
        """A size of each of `dims`, and of each lookup, by name: its own, else the one given, else the largest of its
        range, or where any may come as large as is assumed. Of one that groups share out a share. A lookup has that of
        what it is an index of; with an index for each row, it reaches as many as there are rows. Dimensions that are
        walked as one (`spans`) are: the first has all indices."""

        def size(d: Dim) -> int:
            own = d.size
            if own is None:
                own = given[d.name] * d.inner if given and d.name in given else d.most
            return own if own is not None else ASSUMED_OUTER if d not in self.dims[:3] else ASSUMED

        sizes = {d.name: size(d) for d in self.dims}
        for dim, other in self.spans:
            sizes[dim], sizes[other] = sizes[dim] * sizes[other], 1
        if (shared := self.shared_out) is not None:
            sizes[shared.dim] = -(-sizes[shared.dim] // max(1, sizes[shared.group]))
        sizes |= {d.name: d.share for d in (self.m, self.n, self.k) if d.share}
        return sizes | {x.name: -(-sizes[x.dim] // x.block) if x.by_row else size(x.extents[0]) for x in self.lookups}

    def held(self, coords: tuple[Coord, ...], sizes: Mapping[str, int]) -> int:
        """Elements of a tensor that all groups read or write there, of `sizes` of which some are the share of one."""
        count, by_row = elements(coords, sizes), {x.name: x.dim for x in self.lookups if x.by_row}
        dims = {by_row.get(at.dim, at.dim) for at in coords if at.dim}
        if (shared := self.shared_out) is not None and shared.dim in dims and shared.group not in dims:
            count *= sizes[shared.group]
        return count * math.prod(self._shares(d) for d in (self.m, self.n) if d.name in dims)

    def _shares(self, d: Dim) -> int:
        """Of how many shares a dimension is, along which lookups change."""
        return -(-(d.size or d.most or ASSUMED) // d.share) if d.share and d.name == self.blocks[0] else 1

    def outside(self, coords: tuple[Coord, ...], pages: str = "") -> tuple[int, ...]:
        """The axes of a tensor that are indexed by a dimension of `outer` or `summed`, or by a lookup that is the same
        for all of a tile, outermost first; `pages`: the lookup that is the same for all of a copy."""
        summed = [d for x in self.products for d in x.summed]
        names = {d.name for d in (*self.outer, *summed, *self.constant_lookups)} | {pages} - {""}
        return tuple(axis for axis, at in enumerate(coords) if at.dim in names)

    @property
    def place(self) -> Place | None:
        """Where the program says what the result is; None where no text says it."""
        own = next((r.scale.place for r in self.results if r.scale is not None), None)
        return own or self.written

    @property
    def scale_type(self) -> str:
        """The type of the scales that the instruction applies, "" where it applies none."""
        given = [s.type for o in (self.lhs, self.rhs) if (s := o.scale_in_mma) is not None]
        return next(iter(given), self.family.scales[0].type if self.family.scales else "")

    @property
    def half_bytes(self) -> bool:
        """Whether rows of both operands end in half a byte. Copies bring whole ones, so the kernel zeroes the other
        half in one operand: in the other it is a finite number, as these types have no others."""
        packed = all(o.element.bits < 8 and not o.padded and not o.mn_major for o in (self.lhs, self.rhs))
        packed = packed and self.range_of_k is None  # of which a warp leaves whole elements alone
        return packed and self.k.size is not None and self.k.size * self.lhs.element.bits % 8 != 0

    @property
    def block(self) -> int:
        """Elements of a row of which each result has whole blocks; 1 where none has scales."""
        return math.lcm(*(r.block for r in self.results))

    @property
    def block_columns(self) -> int:
        """Columns of a tile of which each result has whole blocks, or which are folded into one; 1 where rows share
        scales, or there are none."""
        folded = self.column_fold.size if self.column_fold is not None and self.column_fold.along == self.n.name else 1
        return folded if self.swapped else math.lcm(self.block, folded)

    @cached_property
    def converts(self) -> bool:
        """Whether warps convert an operand between copies and products."""
        return self.lhs.converted or self.rhs.converted

    @property
    def wraps(self) -> bool:
        """Whether K blocks, of both operands, begin before and end behind what copies of them bring."""
        return self.lhs.wrapped and self.rhs.wrapped

    def off_lines(self, operand: Operand) -> bool:
        """Whether copies of rows of an operand begin within LINE bytes of memory, as K blocks of groups that are apart
        may."""
        domain = self.range_of_k
        if domain is None or self.converts or operand.mn_major or not self.apart(self.k.name):
            return False
        return domain.step * operand.stored.bits % (8 * LINE) != 0

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The results that are reductions of an operand."""
        return (*self.lhs.folds, *self.rhs.folds)

    @property
    def has_scales(self) -> bool:
        """Whether sums must be promoted block by block: a scale varies along K that no instruction applies."""
        return bool(self.lhs.promoted or self.rhs.promoted)

    @property
    def constant_k(self) -> int:
        """K elements over which all promoted scales are constant: PROMOTION_BLOCK, or a divisor of that."""
        return math.gcd(PROMOTION_BLOCK, *(s.k for s in (*self.lhs.promoted, *self.rhs.promoted)))

    def transposed(self) -> Problem:
        """The same product seen as result[n, m]: M and N, and the operands, change places."""
        kinds = {"row": "col", "col": "row"}

        def turned(r: Result) -> Result:
            def over(x: EpilogueInput) -> EpilogueInput:
                return replace(x, kind=kinds.get(x.kind, x.kind))

            made = replace(r, dims=r.dims[::-1], inputs=tuple(map(over, r.inputs)))
            if r.column_fold is not None:
                made = replace(made, column_fold=replace(r.column_fold, inputs=tuple(map(over, r.column_fold.inputs))))
            if r.window is not None:
                low, high = (x if isinstance(x, int) else over(x) for x in r.window.bounds)
                made = replace(made, window=replace(r.window, low=low, high=high))
            return made

        results, beside = tuple(map(turned, self.results)), tuple(map(turned, self.beside))
        reductions = tuple(map(turned, self.reductions))
        made = replace(self, results=results, beside=beside, reductions=reductions, swapped=not self.swapped)
        added = tuple(x.transposed() for x in self.added)
        terms = tuple(replace(x, results=tuple(map(turned, x.results))) for x in self.terms)
        other = None if self.in_addends is None else self.in_addends.transposed()
        made = replace(made, in_addends=other)
        return replace(made, m=self.n, n=self.m, lhs=self.rhs, rhs=self.lhs, added=added, terms=terms)

    def shared(self, ctas: int, columns: int) -> Problem:
        """With a CTA's share of blocks of results' scales, of so many, where a tile of so many columns has not all."""

        def own(r: Result) -> Result:
            return r if r.scale is None else replace(r, scale=r.scale.shared(ctas, columns, self.n.size))

        results = tuple(map(own, self.results))
        return self if results == self.results else replace(self, results=results)

    def turned_for(self, schedule: Request | Schedule) -> Problem:
        """As a schedule multiplies it: transposed where it swaps the operands, in addends where it makes these."""
        found = self.in_addends if schedule.convert == "addends" and self.in_addends is not None else self
        return found.transposed() if bool(schedule.swap) != found.swapped else found

    def seen_by(self, schedule: Request | Schedule) -> Problem:
        """As a schedule sees the program: `turned_for` it, and with the shares that CTAs of a cluster have of blocks
        that no tile has."""
        found = self.turned_for(schedule)
        if schedule.cluster is None or schedule.cluster[1] == 1 or schedule.swap:
            return found
        return found.shared(schedule.cluster[1], schedule.tile[1] // self.panes if schedule.tile else MAX_BOX)
