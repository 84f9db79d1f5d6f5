"""The warp that finds what there is to do, where tensors say it, and posts it for the other roles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from scalec.formats import WHOLE
from scalec.ir.mlir import ir
from scalec.passes.emit.frame import Frame
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.items import (
    ITEM_WARP,
    ITEMS,
    changes_blocks,
    cut_along,
    groups_of_lane,
    item_bytes,
    item_words,
    range_of_k,
)
from scalec.passes.problem.access import Coord, Dim, Domain, Index


class Dealer(Frame):
    """Posts items: those tiles, or tiles of a range, whose lookups lead somewhere."""

    def deal(self, h: Handles) -> None:
        """The role of one warp."""
        if h.items is None:
            return
        e, words = self.e, item_bytes(self.problem, self.schedule) // 4
        # lanes share out ranges; tiles that are numbered one thread walks, but takes registers from a warp that changes
        # blocks: it spilled 8 bytes (bf16 along K, sm_120a, 128x128x32, ptxas 13.0)
        elected = int(not (cut_along(self.problem, self.schedule) or changes_blocks(self.problem, self.schedule)))
        with e.region("tile.warp", index=ITEM_WARP, count=1, elected=elected):
            cursor = e.cursor(ITEMS)
            slot = [h.item_ring, cursor, h.items]
            with self.over_ranges(h) as w:
                w, leads = self.look_up(w)
                if leads is None:
                    self.post(h, slot, w, words)
                else:
                    with e.region("tile.when", [leads]):
                        self.post(h, slot, w, words)
            e.op("tile.post", operands=[*slot, []])

    def post(self, h: Handles, slot: list[ir.Value], w: Work, words: int) -> None:
        """Posts a tile."""
        e, p = self.e, self.problem
        says = {"m0": w.m0, "n0": w.n0, **w.outer}
        if cut := cut_along(p, self.schedule):
            says["end"] = w.m_end if cut == p.m.name else w.n_end
        says |= {name: x for name, x in (("low", w.low), ("stop", w.stop)) if x is not None}
        if p.range_of_k is not None:
            says |= dict(zip(range_of_k(p), self.range_of_k(h, p.range_of_k, w), strict=True))
        values = [says[name] for name in item_words(p, self.schedule)]
        values += [e.i32(0)] * (words - len(values))
        e.op("tile.post", operands=[*slot, values])

    @contextmanager
    def over_ranges(self, h: Handles) -> Iterator[Work]:
        """The tiles of this CTA, of ranges of rows or columns where there are such."""
        e, s, p, i32 = self.e, self.schedule, self.problem, ir.IntegerType.get_signless(32)
        cut = cut_along(p, s)
        if not cut:
            with self.tiles(h, 2) as block:
                m0, n0, *indices = block.arguments
                outer = {d.name: at for d, at in zip(p.outer, indices, strict=True)}
                yield Work(m0, n0, h.m, h.n, self.length(h), outer=outer)
            return
        names = p.ragged.groups if p.ragged is not None else ()
        own_groups = [d for d in p.outer if d.name in names]
        others = [d for d in p.outer if d.name not in names]
        sizes = [self.size(d) for d in others]
        axis, extent = ("m", h.m) if cut == p.m.name else ("n", h.n)
        groups = self.size(own_groups[0]) if own_groups else e.i32(1)
        for d in own_groups[1:]:
            groups = e.arith("arith.muli", groups, self.size(d))
        block = e.i32(p.blocks[1])
        if p.ragged is None:
            groups = e.arith("arith.divui", e.arith("arith.addi", extent, e.i32(p.blocks[1] - 1)), block)
        walk = {"tile": self.walked, "cluster": s.cluster, "order": s.order, "band": s.band}
        own: dict[str, Any] = {"axis": axis, "each": groups_of_lane(p), "run": s.run if s.run > 1 else None}
        own["whole"] = True if s.stationary else None
        own["empty"] = p.ragged.step if p.reduces_ranges and p.ragged is not None else None
        made = e.op("tile.ragged_tiles", operands=[h.m, h.n, groups, sizes], regions=2, **own, **walk)
        bounds = made.regions[0].blocks.append(i32)
        with ir.InsertionPoint(bounds):
            number = bounds.arguments[0]
            if p.ragged is not None:
                at = self.indices_of_group(own_groups, number)
                ends = self.from_page(p.ragged, [self.bound(x, at) for x in (p.ragged.low, p.ragged.high)], extent)
            else:
                ends = self.run_of_blocks(number, groups, block, extent)
            e.op("tile.bounds", operands=ends)
        body = made.regions[1].blocks.append(*(i32,) * (5 + len(others) + bool(s.stationary)))
        with ir.InsertionPoint(body):
            m0, n0, low, high, number, *indices = body.arguments
            stop = indices.pop() if s.stationary else None
            outer = {d.name: at for d, at in zip(others, indices, strict=True)}
            outer |= self.indices_of_group(own_groups, number)
            w = Work(m0, n0, h.m, h.n, self.length(h), outer=outer, low=low, stop=stop)
            yield replace(w, m_end=high) if axis == "m" else replace(w, n_end=high)

    def indices_of_group(self, dims: list[Dim], number: ir.Value) -> dict[str, ir.Value]:
        """The index of each dimension of which each index has a range, of the range of a number: the last one's follow
        each other."""
        e, made = self.e, dict[str, ir.Value]()
        for d in reversed(dims[1:]):
            size = self.size(d)
            above = e.arith("arith.divui", number, size)
            made[d.name] = e.arith("arith.subi", number, e.arith("arith.muli", above, size))
            number = above
        return made | {d.name: number for d in dims[:1]}

    def run_of_blocks(
        self, number: ir.Value, blocks: ir.Value, block: ir.Value, extent: ir.Value
    ) -> tuple[ir.Value, ir.Value]:
        """The range of a block, and of those behind it that have the same lookups where these depend on nothing else,
        and the same factors of blocks of rows; an empty one of a block behind such a one."""
        e, p, i32 = self.e, self.problem, ir.IntegerType.get_signless(32)
        first = e.arith("arith.muli", number, block)

        def end(count: ir.Value) -> ir.Value:
            """Where so many blocks behind the first end: a whole one more may be beyond what an i32 holds."""
            left = e.arith("arith.subi", extent, first)
            return e.arith("arith.addi", first, e.arith("arith.minui", left, e.arith("arith.muli", count, block)))

        if not p.in_runs:
            return first, end(e.i32(1))
        made = e.op("tile.run", [ir.IntegerType.get_signless(1), i32], [number, blocks], regions=1)
        found = made.regions[0].blocks.append(i32)
        with ir.InsertionPoint(found):
            at = {p.blocks[0]: e.arith("arith.muli", found.arguments[0], block)}
            values = [self.read_index(x.index, at) for x in p.constant_lookups if x.dim]
            promoted = [s for x in (p.lhs, p.rhs) if x.rows == p.blocks[0] for s in x.promoted]
            rows = sorted({s.rows for s in promoted} - {1, WHOLE})
            values += [e.arith("arith.divui", at[p.blocks[0]], e.i32(x)) for x in rows]
            e.op("tile.same", operands=[values])
        begins, behind = made.results
        count = e.arith("arith.subi", behind, number)
        count = e.op("arith.select", [i32], [begins, count, e.i32(0)]).result
        return first, end(count)

    def look_up(self, w: Work) -> tuple[Work, ir.Value | None]:
        """The tile's lookups, and whether all of them lead somewhere; None where there are none."""
        e, leads = self.e, None
        for lookup in self.problem.constant_lookups:
            value = self.read_index(lookup.index, self.positions(w))
            for extent in lookup.extents:
                inside = e.compare("lt", value, self.size(extent))  # unsigned: a negative one is beyond any
                leads = inside if leads is None else e.arith("arith.andi", leads, inside)
            w = replace(w, outer=w.outer | {lookup.name: value})
        return w, leads

    def range_of_k(self, h: Handles, domain: Domain, w: Work) -> tuple[ir.Value, ...]:
        """What an item says of a range of K: where its first K block begins, from there up to its end, and the range.
        K blocks begin where those of all of K do; where groups are apart, where the range does, or copies begin before
        that. Of an empty range the first K block behind all of K: of whatever lies there, copies make zeros, scales
        too."""
        e, depth, apart = self.e, self.schedule.tile[2], self.problem.apart(domain.dim)
        at = self.positions(w)
        low, high = (self.bound(x, at) for x in (domain.low, domain.high))
        low = e.op("tile.clamp", [low.type], [low, e.i32(0), h.k]).result
        high = e.op("tile.clamp", [low.type], [high, low, h.k]).result
        empty = e.arith("arith.subi", e.i32(1), e.arith("arith.minui", e.arith("arith.subi", high, low), e.i32(1)))
        behind, step = self.padded(self.problem.k), e.i32(depth)
        low, high = (
            e.arith("arith.addi", x, e.arith("arith.muli", empty, e.arith("arith.subi", to, x)))
            for x, to in ((low, behind), (high, e.arith("arith.addi", behind, step)))
        )
        if apart:  # as promised: if that is not so, copies would begin where none can
            low = self.multiple(low, math.gcd(domain.step, depth))
        k0 = self.multiple(low, depth) if not apart else low
        if not self.problem.wraps:
            return k0, e.arith("arith.subi", high, k0), low, high
        k0 = self.multiple(low, self.problem.lhs.begins)
        copied = e.arith("arith.subi", high, k0)
        whole, own = (
            e.arith("arith.divui", e.arith("arith.addi", x, e.i32(depth - 1)), step)
            for x in (copied, e.arith("arith.subi", high, low))
        )
        less = e.arith("arith.subi", whole, own)
        return k0, copied, low, high, e.arith("arith.subi", e.arith("arith.muli", own, step), less)

    def from_page(self, domain: Domain, ends: list[ir.Value], extent: ir.Value) -> list[ir.Value]:
        """A range's ends, from where the page begins that it begins in; of an empty one as they are."""
        if domain.floored == 1:
            return ends
        e = self.e
        low, high = (e.op("tile.clamp", [x.type], [x, e.i32(0), extent]).result for x in ends)
        begins = self.multiple(low, domain.floored)
        return [e.op("arith.select", [low.type], [e.compare("lt", low, high), begins, high]).result, high]

    def multiple(self, value: ir.Value, of: int) -> ir.Value:
        """A number rounded down to a multiple."""
        step = self.e.i32(of)
        return self.e.arith("arith.muli", self.e.arith("arith.divui", value, step), step) if of > 1 else value

    def bound(self, x: Index | Coord | int, at: dict[str, ir.Value]) -> ir.Value:
        """A bound of a range."""
        if isinstance(x, Index):
            return self.read_index(x, at)
        return self.placed(x, at) if isinstance(x, Coord) else self.e.i32(x)

    def positions(self, w: Work) -> dict[str, ir.Value]:
        """Where a tile is along each dimension: of one that overhangs, as those of a cluster do, where the dimension or
        its block ends. So all CTAs of a cluster find the same."""
        e, p = self.e, self.problem
        last = [
            e.arith("arith.minui", first, e.arith("arith.subi", end, e.i32(1)))
            for first, end in ((w.m0, w.m_end), (w.n0, w.n_end))
        ]
        return {p.m.name: last[0], p.n.name: last[1], **w.outer}
