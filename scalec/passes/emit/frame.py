"""A kernel while `emit-tile` builds it: where its values are made, its loops, how each scale travels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from scalec.abi import PADDED, TILE_WORDS, TILES
from scalec.formats import WORD_BITS, WORDS, ElementType
from scalec.ir.mlir import ir
from scalec.ir.schedule import STAGED, Schedule
from scalec.ir.tile import LANES, RESPONSE_BYTES, WORD_ROWS
from scalec.ir.tile_types import atom_of, element_of, int_of, shape_of, swizzle_of
from scalec.passes.emit.emitter import Emitter, Source
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.sums import Sums
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.converted import (
    brings_zeros,
    holds_words,
    registers_make,
    scale_planes,
    stored_swizzle,
    zero_planes,
    zero_words,
)
from scalec.passes.plan.few_rows import rows_there
from scalec.passes.plan.gather import copied_by_threads, named_rows, stored_row
from scalec.passes.plan.items import ITEMS, cut_along, item_bytes, item_words, range_of_k, run_words
from scalec.passes.plan.joined_folds import joins_folds
from scalec.passes.plan.panes import Strip, strips
from scalec.passes.plan.parts import k_blocks, part_blocks
from scalec.passes.plan.promotion import promoted_one_by_one
from scalec.passes.plan.reductions import partials
from scalec.passes.plan.resources import (
    asked_ahead,
    brought,
    copied_columns,
    loads_tiles,
    numbered,
    part_rooms,
    producer_warpgroups,
    result_boxes,
    result_columns,
    scale_warps,
    staged_columns,
    staged_rows,
    turned_tile,
    turns,
    units,
)
from scalec.passes.plan.shared_blocks import MEETINGS, shares_block
from scalec.passes.plan.shared_memory import RESPONSES, SharedPlan
from scalec.passes.plan.stationary import SLOTS
from scalec.passes.plan.tensor_columns import word_rows
from scalec.passes.plan.windows import WINDOW
from scalec.passes.problem.operand import Operand, Scale
from scalec.passes.problem.products import partly_scaled
from scalec.passes.problem.types import Problem
from scalec.targets import ATOM


def element_in_memory(operand: Operand) -> ir.Type:
    """Of the tiles that copies of an operand fill: packed or padded ones are of bytes, or of words."""
    return ir.IntegerType.get_signless(WORD_BITS) if operand.in_words else in_bytes(operand.stored)


def in_bytes(element: ElementType) -> ir.Type:
    """An element type in shared memory, where packed ones are of bytes."""
    return ir.IntegerType.get_signless(8) if element.bits < 8 else ir.Type.parse(element.mlir)


class Frame(Sums):
    """One kernel being built."""

    def __init__(self, problem: Problem, schedule: Schedule, plan: SharedPlan, function: ir.OpView) -> None:
        self.problem, self.schedule, self.plan, self.function = problem, schedule, plan, function
        self.e = Emitter()
        s = self.schedule
        (cm, cn), halves = s.cluster, s.cta_group  # ranks go along M first
        a, b = cm if cn > 1 else 0, halves if cn == 1 and cm > halves else 0
        self.sides = (
            Side(
                "A",
                problem.lhs,
                s.tile[0],
                s.tile[0],
                s.swizzle_a,
                0,
                a,
                a,
                problem.k.name,
                stored_row(problem, problem.lhs, s.tile[2]),
                (Strip(0, 0, rows_there(problem, s), 0),),
                s.tile[0],
                "A",
            ),
            Side(
                "B",
                problem.rhs,
                s.tile[1],
                copied_columns(s),
                s.swizzle_b,
                s.permute_n,
                b,
                int(cn == 1 and cm > 1),
                problem.k.name,
                stored_row(problem, problem.rhs, s.tile[2]),
                strips(problem, s),
                s.tile[1],
                "B",
            ),
        )
        a_side, b_side = self.sides
        self.pairs = (
            self.sides,
            *(
                (a_side.of_product(x.lhs, x.k.name, number), b_side.of_product(x.rhs, x.k.name, number))
                for number, x in enumerate(problem.added, 1)
            ),
        )
        self.family = problem.family
        self.walked = s.tile[0], result_columns(problem, s)
        self.producers, self.scale_warps = producer_warpgroups(problem, s), scale_warps(problem, s)
        self.converters = s.converters
        self.wave = self.family.wave
        self.units, self.turns = units(problem, s), turns(s)
        self.waves = s.tile[0] // (self.wave * self.units[0])
        self.consumers = 4 * s.warpgroups

    @property
    def ctas(self) -> int:
        """CTAs of a cluster that share copies."""
        return math.prod(self.schedule.cluster)

    @property
    def ends_together(self) -> bool:
        """Whether all threads of the cluster meet before they exit: where tensor memory is given back then, or answers
        of the scheduler may come. Else only barriers of empty stages, and of room for sums of parts, are arrived at
        from other CTAs, and a CTA's producer, or who sends sums next, waits for these: 0.96 to 0.99 of the time at few
        rows, as nobody waits for all that is under way (H200, 2026-11-22). A CTA alone meets too: 0.99 of the time at
        one row, same run, for no reason known."""
        alone = self.ctas == 1 and self.schedule.parts != "cluster"
        return alone or self.family.kind.tensor_memory or self.schedule.scheduler == "dynamic"

    @property
    def stays(self) -> bool:
        """Whether those who fill a ring wait at the end until all of it is empty: no thread of another CTA, and no
        tcgen05.commit, then arrives at barriers of a CTA that has exited, and who meets needs no more than to meet.
        The responses of clusters that take tiles over are a ring of which nobody does."""
        return not self.ends_together or (self.family.kind.tensor_memory and self.schedule.scheduler != "dynamic")

    def handles(self) -> Handles:
        """Parameters, shared memory and barriers."""
        e, s = self.e, self.schedule
        m, n, k = (self.size(d) for d in (self.problem.m, self.problem.n, self.problem.k))
        h = Handles(m, n, k, None, None)
        depth = s.tile[2]
        for side in self.sides:
            operand = side.operand
            element = element_in_memory(operand)
            self.map_operand(h, side)
            if operand.converted:
                name, shape, swizzle = (
                    f"{side.label}_stored",
                    side.stored(depth),
                    stored_swizzle(self.problem, s, operand),
                )
                h.stored[side.label] = h.tiles[side.label] = self.shared(name, shape, element, swizzle, s.stages)
                element = in_bytes(operand.element)
            if not (operand.converted and registers_make(self.problem, s, operand)):
                shape, stages = side.shape(depth), self.plan[side.label].stages
                h.tiles[side.label] = self.shared(side.label, shape, element, side.swizzle, stages, operand.atom)
                if side.brought < side.copied:
                    self.e.op("tile.clear_rows", operands=[h.tiles[side.label]], first=side.brought)
            name, plan = f"{side.label}_scale", self.word_plan(side)
            if plan is not None and plan.tiles:
                pair, width = ir.IntegerType.get_signless(64), TILE_WORDS * plan.words
                shape = (word_rows(self.family, side.rows) // WORD_ROWS, width)
                h.scale_tiles[side.label] = self.shared(name, shape, pair, 0, self.plan[name].stages)
                rows = shape[0] * side.strips[0].rows // side.copied if len(side.strips) > 1 else shape[0]
                self.map_scales(h, side, plan.scale, (width, rows), plan.scale.axes[::-1], pair, element=TILES)
            elif plan is not None:
                word = ir.IntegerType.get_signless(32)
                shape = (plan.words, word_rows(self.family, side.rows))
                h.scale_tiles[side.label] = self.shared(name, shape, word, 0, self.plan[name].stages)
                if plan.bulk:
                    self.map_scales(h, side, plan.scale, (self.strip_rows(side), plan.words), plan.scale.axes, word)
            if brings_zeros(self.problem, s, operand):
                kind, shape = ir.IntegerType.get_signless(32), (zero_planes(s, operand), zero_words(operand, side.rows))
                h.zeros[side.label] = self.shared(f"{side.label}_zeros", shape, kind, 0, s.stages)
            scale, f32 = side.operand.by_row, ir.F32Type.get()
            if (new := side.operand.made) is not None:
                shape = (new.within(depth), side.rows)
                h.made[side.label] = self.shared(f"{side.label}_made", shape, f32, 0, s.stages)
            if (named := operand.named) is not None:
                shape = (side.rows // named_rows(named, side.rows), depth)
                h.scale_tiles[side.label] = self.shared(name, shape, f32, 0, s.stages)
            if scale is None:
                continue
            copy = self.copy_of(side)
            planes = scale_planes(s, operand, scale)
            shape = (side.rows, WINDOW) if copy == "window" else (planes, side.rows)
            swizzle = 4 * WINDOW if copy == "window" else 0  # 8 adjacent rows then lie in different banks
            kind = ir.IntegerType.get_signless(32) if holds_words(self.problem, s, operand) else f32
            h.scale_tiles[side.label] = self.shared(name, shape, kind, swizzle, self.plan[name].stages)
            if copy != "thread":
                rows, k = scale.axes
                axes = (k, rows) if copy == "window" else (rows, k)
                count = self.strip_rows(side)
                box = (WINDOW, count) if copy == "window" else (count, shape[0])
                self.map_scales(h, side, scale, box, axes, f32, swizzle=swizzle)
        for number, of in enumerate(self.problem.each if s.epilogue in ("turned", *STAGED) else ()):
            name, element = numbered("C", number), ir.Type.parse(of.result.element.mlir)
            turned = s.epilogue == "turned"
            shape = turned_tile(of, s) if turned else (staged_rows(of, s), staged_columns(of, s))
            h.tiles[name] = self.shared(name, shape, element, 0 if turned else s.swizzle_c, self.turns)
        for number, x in enumerate(brought(self.problem, s)):
            shape, name = (1, s.tile[0]), numbered("rows", number)
            h.rows[x.name, x.coords] = self.shared(name, shape, ir.F32Type.get(), 0, s.stages)
        if s.adds == "loaded":
            slots = result_boxes(self.problem, s)[1]
            h.result_ring = self.ring("C_barriers", depth=slots, full=1, empty=self.consumers)
        if s.parts == "cluster":
            f32 = ir.F32Type.get()
            h.parts = self.shared("parts", part_rooms(self.problem, s), f32, 0, 1)
            h.parts_ring = self.ring("parts_barriers", depth=1, full=1, empty=self.consumers)
        if self.plan.buffer("totals") is not None:
            words = sum(p.words for p in partials(self.problem, s))
            h.totals = self.shared("totals", (1, words), ir.F32Type.get(), 0, 1)
            h.totals_ring = self.ring("totals_barriers", depth=1, full=self.consumers, empty=1)
        for number, of in enumerate(self.problem.each):
            if shares_block(of):
                name, full = numbered("amax_barriers", number), 1 + self.consumers * s.cluster[1]
                h.meetings[number] = self.ring(name, "tile.cut_ring", depth=MEETINGS, full=full), None
        by_threads = any(self.threaded(side) for side in self.sides)
        ctas = s.cluster[0] * s.cluster[1]
        by_turns: dict[str, Any] = {"op": "tile.turn_ring", "turns": self.turns} if self.turns > 1 else {}
        lanes = LANES if brought(self.problem, s) else 0
        filled = 4 if self.converters else self.arrivals + lanes
        h.ring = h.filled = self.ring("barriers", depth=s.stages, full=filled, empty=self.handers(ctas), **by_turns)
        if s.stationary:
            h.columns = self.ring("B_barriers", depth=SLOTS, full=self.arrivals, empty=self.handers(ctas))
        bringers = self.scale_warps[1] if by_threads else 0
        if s.scheduler == "dynamic":
            h.responses = e.op("tile.responses", [e.responses(RESPONSES)], offset=self.plan["responses"].offset).result
            walkers = self.walkers(bringers, ctas)
            h.response_ring = self.ring("response_barriers", depth=RESPONSES, full=1, empty=walkers)
        if self.problem.queued:
            words, offset = item_bytes(self.problem, self.schedule) // 4, self.plan["items"].offset
            h.items = e.op("tile.items", [e.items(words, ITEMS)], offset=offset).result
            h.item_ring = self.ring("item_barriers", depth=ITEMS, full=1, empty=self.takers(bringers))
        return h

    def map_operand(self, h: Handles, side: Side) -> None:
        """The tensor maps of a side's operand, of each contraction's, and of each product's that is added."""
        number = self.sides.index(side)
        for own_side in (x[number] for x in self.pairs):
            operand = own_side.operand
            if copied_by_threads(self.problem, operand):
                continue
            swizzle = stored_swizzle(self.problem, self.schedule, operand) if operand.converted else side.swizzle
            box, pages = own_side.box(self.schedule.tile[2], swizzle), operand.pages or operand.pages_k
            element = element_in_memory(operand)
            for pane, own in enumerate(operand.panes):
                source = Source(
                    "tensor_map",
                    own.name,
                    box=self.boxed(operand.coords, box, pages),
                    swizzle=swizzle,
                    atom=operand.atom,
                    element=WORDS if operand.in_words else PADDED if operand.padded else "",
                    permuted=own_side.permuted,
                    align=operand.align,
                    axes=self.axes(operand.coords, *own_side.axes, pages=pages) or own_side.axes * operand.in_words,
                )
                made = self.e.descriptor(box, element, swizzle, operand.atom)
                h.maps[own_side.map_of(pane)] = self.e.parameter(self.body, made, source)

    def strip(self, tile: ir.Value, strip: Strip, count: int, axis: int = 0, unit: int = 1) -> ir.Value:
        """The part of a shared tile that a copy of a strip fills: the tile itself where it fills all `count` rows;
        `unit` rows of these are one of the tile's, and `axis` is 1 where these are its columns."""
        if strip.rows == count:
            return tile
        shape = [*shape_of(tile.type)]
        shape[axis] = strip.rows // unit
        of = tile.type
        kind = self.e.buffer((shape[0], shape[1]), element_of(of), swizzle_of(of), int_of(of.stages), atom_of(of))
        return self.e.op("tile.strip", [kind], [tile], first=strip.first // unit, axis=axis).result

    def turned_strip(self, h: Handles, side: Side, number: int) -> ir.Value:
        """Of the tile that copies bring and warps turn, or of words, the strip of a number."""
        lines, _ = shape_of(h.stored[side.label].type)
        strip = Strip(0, number * lines // len(side.strips), lines // len(side.strips), 0)
        return self.strip(h.stored[side.label], strip, lines)

    def takers(self, scale_warps: int) -> int:
        """Warps of a CTA that take items: one that copies, `scale_warps` that bring scales, one that asks L2 or brings
        what a fold reads, or that loads results, and consumers."""
        others = bool(asked_ahead(self.problem, self.schedule)) + loads_tiles(self.schedule)
        return 1 + scale_warps + others + self.consumers + 4 * self.converters

    def walkers(self, scale_warps: int, ctas: int) -> int:
        """Warps of a cluster that walk the tiles: one of a CTA that copies, `scale_warps` that bring scales, one that
        loads results where they are, and consumers."""
        others = int(loads_tiles(self.schedule)) + 4 * self.converters
        return ctas * (1 + scale_warps + others + self.consumers)

    def handers(self, ctas: int) -> int:
        """Arrivals that hand a stage back: one of each consumer warp that reads it."""
        return ctas * self.consumers // self.turns

    @property
    def arrivals(self) -> int:
        """Of those who copy operands into a stage."""
        by_threads = any(self.threaded(side) for side in self.sides)
        return 1 + (self.scale_arrivals if by_threads else 0)

    @property
    def scale_arrivals(self) -> int:
        """Arrivals of those who bring scales to a stage: each warp's."""
        return self.scale_warps[1]

    @contextmanager
    def leading(self, h: Handles) -> Iterator[None]:
        """What one CTA does for all that multiply together."""
        if h.pair_rank is None:
            yield
            return
        with self.e.region("tile.when", [self.e.compare("eq", h.pair_rank, self.e.i32(0))]):
            yield

    @property
    def gathering(self) -> list[Side]:
        """The sides of which all threads of the warp that copies bring some rows each."""
        return [x for x in self.sides if x.operand.gathered and not copied_by_threads(self.problem, x.operand)]

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """What one thread of the warp that copies does, where there are others."""
        if not self.gathering:
            yield
            return
        with self.e.region("tile.elect"):
            yield

    def give_back(self, h: Handles) -> None:
        """What the kernel does when all roles are done."""

    def shared(
        self, name: str, shape: tuple[int, int], element: ir.Type, swizzle: int, stages: int, atom: int = ATOM
    ) -> ir.Value:
        return self.e.op(
            "tile.shared",
            [self.e.buffer(shape, element, swizzle, stages, atom)],
            offset=self.plan[name].offset,
        ).result

    def ring(self, name: str, op: str = "tile.ring", **counts: Any) -> ir.Value:
        """A ring's barriers, which the plan has by that name."""
        return self.e.op(op, [self.e.type("stages")], offset=self.plan[name].offset, **counts).result

    def tiles(self, h: Handles, count: int, **ways: Any) -> AbstractContextManager[ir.Block]:
        """A loop over all output tiles, whose body takes `count` numbers and the tile's indices along further
        dimensions; `ways` in which it is not the plainest."""
        s, sizes = self.schedule, [self.size(d) for d in self.problem.outer]
        walk = {"tile": self.walked, "cluster": s.cluster, "order": s.order, "band": s.band, "split": 1, "turns": 1}
        arguments = (ir.IntegerType.get_signless(32),) * (count + len(sizes))
        return self.e.region("tile.tiles", [h.m, h.n, sizes], arguments, **(walk | ways))

    @contextmanager
    def over_tiles(self, h: Handles, asks: bool = False, turns: int = 1) -> Iterator[Work]:
        """The persistent loop over output tiles, or over the parts of K of each; with `turns`, over a warpgroup's own.

        Where tiles are dealt out dynamically, the thread that `asks` does so at the start of each tile, for the next
        one: no earlier, or the first clusters to ask would take tiles that others could begin sooner.
        """
        e, s, i32 = self.e, self.schedule, ir.IntegerType.get_signless(32)
        if h.items is not None:
            with self.over_items(h) as w:
                yield w
            return
        response: list[ir.Value] = []
        outer = [d.name for d in self.problem.outer]
        if h.response_ring is not None:
            response = [h.response_ring, e.cursor(RESPONSES)]
        count, run = 4 if s.split > 1 else 2, s.run if s.run > 1 else None
        with self.tiles(h, count, split=s.split, turns=turns, run=run) as block:
            m0, n0, *rest = block.arguments
            part, indices = rest[: -len(outer)] if outer else rest, rest[len(rest) - len(outer) :]
            if response and asks:
                with self.one_thread():
                    e.op("tile.expect", operands=response, bytes=RESPONSE_BYTES)
                    e.op("tile.try_cancel", operands=[*response, h.responses])
            w = Work(m0, n0, h.m, self.end_of_columns(h), self.length(h))
            w = self.part(w, *part) if part else w
            yield replace(w, outer=dict(zip(outer, indices, strict=True)))
            if response:
                e.op("tile.wait", operands=response)
                e.op("tile.query_cancel", [i32], operands=[*response, h.responses])
                e.op("tile.advance", operands=response[1:])

    def end_of_columns(self, h: Handles) -> ir.Value:
        """Where the columns of tiles end: their number, as a parameter where ptxas would see of a lone tile which sums
        are never stored. Where a product is one wgmma, it then has results that nobody reads, and ptxas 13.0 serialises
        all products (C7511)."""
        n, lone = self.problem.n, promoted_one_by_one(self.problem, self.schedule)
        return self.parameter_of(n) if lone and n.size is not None and n.size < self.walked[1] else h.n

    @contextmanager
    def over_items(self, h: Handles) -> Iterator[Work]:
        """The loop over the items that are posted."""
        e, p, s = self.e, self.problem, self.schedule
        words, count = item_words(p, s), item_bytes(p, s) // 4
        cursor = e.cursor(ITEMS)
        operands, i32 = [h.item_ring, cursor, h.items], ir.IntegerType.get_signless(32)
        with e.region("tile.work", operands, (i32,) * count, tile=self.walked, turns=1, runs=run_words(p, s)) as block:
            at = dict(zip(words, block.arguments, strict=False))
            ends = {p.m.name: h.m, p.n.name: h.n}
            if cut := cut_along(p, self.schedule):
                ends[cut] = at["end"]
            outer = {x.name: at[x.name] for x in (*p.outer, *p.constant_lookups)}
            # known elsewhere, it would tell ptxas 13.0 which sums of a wgmma nobody reads (C7511)
            whole = joins_folds(p, self.schedule) and self.schedule.cluster[1] == 1 and cut != p.n.name
            n0 = e.i32(0) if whole and p.n.size is not None and p.n.size <= self.walked[1] else at["n0"]
            w = Work(at["m0"], n0, ends[p.m.name], ends[p.n.name], self.length(h), outer=outer)
            w = self.of_range(replace(w, low=at.get("low"), stop=at.get("stop")))
            if p.range_of_k is not None:
                w = replace(w, **{name: at[name] for name in range_of_k(p)})
            yield replace(w, grids=self.grids(h, w))

    def part(self, w: Work, part: ir.Value, number: ir.Value) -> Work:
        """The K of a part: blocks part * blocks / split up to those of the next part, rounded down."""
        e, (_, _, depth), split = self.e, self.schedule.tile, self.schedule.split
        blocks, (fewest, most) = k_blocks(self.problem, self.schedule), part_blocks(self.problem, self.schedule)
        if fewest == most:
            length = fewest * depth
            k0 = e.arith("arith.muli", part, e.i32(length))
            return replace(w, k=e.i32(length), k0=k0, part=part, number=number)

        def first(part: ir.Value) -> ir.Value:
            block = e.arith("arith.divui", e.arith("arith.muli", part, e.i32(blocks)), e.i32(split))
            return e.arith("arith.muli", block, e.i32(depth))

        k0, end = first(part), first(e.arith("arith.addi", part, e.i32(1)))
        return replace(w, k=e.arith("arith.subi", end, k0), k0=k0, part=part, number=number)

    @contextmanager
    def over_all_tiles(self, h: Handles, asks: bool = False) -> Iterator[Work]:
        """The loop over output tiles of those who fill stages, of whoever's turn the tile is."""
        if self.turns == 1:
            with self.over_tiles(h, asks) as w:
                yield w
            return
        e, ring = self.e, h.ring
        turn = e.cursor(self.turns)
        with self.over_tiles(h, asks) as w:
            h.ring = h.filled = e.op("tile.of_turn", [e.type("stages")], [ring, turn]).result
            yield w
            e.op("tile.advance", operands=[turn])
        h.ring = h.filled = ring

    @contextmanager
    def over_k(
        self,
        w: Work,
        unroll: int = 1,
        step: int = 0,
        start: int = 0,
        cursors: Sequence[ir.Value] = (),
        once: bool = False,
    ) -> Iterator[ir.Value]:
        """The loop over the K of a tile or part from its element `start` on, in steps of one K block unless `step`
        says otherwise; yields the K element counted from that of the work, which `at_k` makes one of the tensors. Its
        iterations begin where `cursors` are at stage 0, if any. `once`: one is all."""
        i32 = ir.IntegerType.get_signless(32)
        step = step or self.schedule.tile[2]
        how: dict[str, Any] = {"start": start, "step": step, "unroll": unroll, "once": once}
        with self.e.region("tile.steps", [w.k, list(cursors)], (i32,), **how) as block:
            yield block.arguments[0]

    def beyond(self, scale: Scale) -> dict[str, Any]:
        """Of what loads f32 scales: of an empty range of K a block beyond the end of K is walked, and of several in a K
        tile some may lie there, whose scales are then multiplied by; of products that are added up one may have none:
        it has ones, from the end of the others' K on."""
        if partly_scaled(self.problem):
            return {"ones": True}
        asked = self.problem.range_of_k is not None or scale.within(self.schedule.tile[2]) > 1
        return {"zeros": asked}

    def at_k(self, w: Work, k: ir.Value | None = None) -> ir.Value:
        """The K element of the tensors that is element `k` (None: the first) of a tile or part."""
        if k is None:
            return self.e.i32(0) if w.k0 is None else w.k0
        return k if w.k0 is None else self.e.arith("arith.addi", k, w.k0)
