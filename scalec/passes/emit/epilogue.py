"""From accumulators to the results: of each the elementwise body and its inputs, and the store."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from scalec.formats import ELEMENT_TYPES, TRANSFORMED
from scalec.ir.mlir import ir
from scalec.ir.schedule import LANES, STAGED
from scalec.ir.tile import VECTOR
from scalec.ir.tile_fold_columns import folded_columns
from scalec.ir.tile_types import shape_of, str_of
from scalec.passes.emit.body import Split, Sums, kind_of
from scalec.passes.emit.emitter import Source
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.stores import Memory, Stores
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.items import cut_along
from scalec.passes.plan.joined_folds import joins_folds
from scalec.passes.plan.parts import part_columns
from scalec.passes.plan.registers import FEW_FREE, crowded, fold_registers, free_registers
from scalec.passes.plan.resources import brought, exchanges, numbered, part_owners
from scalec.passes.plan.shared_blocks import MEETINGS
from scalec.passes.plan.swizzle import no_rows_epilogue
from scalec.passes.problem.access import Chance, Coord
from scalec.passes.problem.result import ResultScale
from scalec.passes.problem.types import Problem

WORD_BLOCKS = 4
"""Blocks of a row whose scales are a word of the layouts "blocked" and "packed" (scalec.formats.Granularity)."""


class Epilogue(Stores):
    """Writes the results."""

    def finish(self, h: Handles, w: Work, accumulator: ir.Value) -> None:
        """The epilogue; where K is split, of the sums of all parts: by the CTA whose part is the last to arrive, by
        each CTA of some columns, or by units of a cluster's first ones."""
        e, s, w = self.e, self.schedule, self.told(w)
        if s.split == 1:
            self.epilogue(h, accumulator, w)
            return
        result = ir.IntegerType.get_signless(1)
        if s.parts == "cluster":
            operands = [accumulator, h.parts, h.parts_ring, h.parts_cursor, w.part]
            owners = part_owners(self.problem, s)
            how = {"split": s.split, "owners": owners, "whole": self.whole}
            last = e.op("tile.sum_in_cluster", [result], operands, **how).result
        elif s.parts == "columns":
            (rows, columns), space = shape_of(accumulator.type), str_of(accumulator.type.space)
            some = e.op("tile.fragment", [e.accumulator(rows, part_columns(columns, s.split), space)]).result
            operands, i32 = [accumulator, some, *self.workspace(), w.part, w.number], ir.IntegerType.get_signless(32)
            with e.region("tile.add_columns", operands, [i32], split=s.split, whole=self.whole) as block:
                n0 = e.arith("arith.addi", w.n0, block.arguments[0])
                self.epilogue(h, some, replace(w, n0=n0))
            return
        elif self.segments_meet:
            last = e.op("tile.last_part", [result], [self.workspace()[1], w.number], split=s.split).result
        else:
            operands = [accumulator, *self.workspace(), w.part, w.number]
            last = e.op("tile.sum_parts", [result], operands, split=s.split, whole=self.whole).result
        with e.region("tile.when", [last]):
            if self.segments_meet:
                self.add_segments(accumulator, w)
            self.epilogue(h, accumulator, w)

    def begin_meetings(self, h: Handles) -> None:
        """Before a consumer's loop over tiles: where it is among what CTAs send each other of each tile, what warps
        leave for the one that counts tiles, and what copies bring for results."""
        self.begin_inputs()
        if h.totals_ring is not None:
            h.totals_cursor = self.e.cursor(1)
        for number, (ring, _) in h.meetings.items():
            h.meetings[number] = ring, self.e.cursor(MEETINGS)

    def begin(self, w: Work) -> Work:
        """A tile begins, or a part of one."""
        if self.schedule.parts == "columns":
            self.e.op("tile.begin_part", operands=[self.workspace()[1], w.number])
        return self.judged(w)

    def epilogue(self, h: Handles, accumulator: ir.Value, w: Work) -> None:
        """Each reduction, then each result: all but the last of a copy of the sums."""
        bodies, totals = self.problem.bodies, self.totals(h)
        self.to_f32([accumulator] if self.whole else [])
        for number in range(len(bodies)):
            sums = accumulator
            if number < len(bodies) - 1:
                sums = self.e.op("tile.copy_sums", [accumulator.type], [accumulator]).result
            self.compute(h, number, sums, w, totals)
            if number == len(totals) - 1:
                self.leave(h, w, totals)
        self.meet_tiles(h, w)

    def compute(
        self, h: Handles, number: int, sums: Sums, w: Work, totals: list[ir.Value | None], column: int = 0
    ) -> None:
        """What one of the problem's `bodies` is for: sums of the tile's columns from `column` on, as `w` has it."""
        reductions = len(self.problem.reductions)
        if number < reductions:
            self.reduce(h, number, sums, w, totals, column)
        else:
            self.write(h, number - reductions, sums, w)

    def write(self, h: Handles, number: int, sums: Sums, w: Work) -> None:
        """The elementwise body of one result, then its store: the accumulator, or those of each contraction, has the
        sums no more."""
        e, s, of = self.e, self.schedule, self.problem.each[number]
        result, body = of.result, number + len(self.problem.reductions)
        place = [w.m0, w.n0, w.m_end, w.n_end]
        if body not in self.ahead_of:
            self.split_for(body, of, w)
        if (last := self.last[body]) is not None:
            self.fold_columns(of, body, last, self.panes(sums), w)
            return
        accumulator = self.elementwise(of, self.split[body], self.panes(sums), place)
        if result.transformed:
            n, known = ("m", of.m.size) if of.swapped else ("n", of.n.size)
            ragged = known is None or known % TRANSFORMED != 0
            operands = [accumulator, *place]
            e.op("tile.transform_sums", operands=operands, by_rows=int(n == "m"), ragged=int(ragged))
        if result.scale is not None:
            self.quantize(h, number, of, accumulator, result.scale, place, w)
        if result.chance is not None:
            self.round(of, accumulator, result.chance, place, w)
        staging = h.tiles.get(numbered("C", number))
        if self.loads_results:
            self.add_to_loaded(h, accumulator)
        elif s.epilogue == "bulk" and w.whole is not None:
            with e.region("tile.when", [w.whole]):
                self.store_bulk(of, accumulator, staging, w)
            with e.region("tile.when", [e.negated(w.whole)]):
                if not no_rows_epilogue(self.problem, s):
                    self.store_staged(of, accumulator, staging, w, copied=True)
                else:
                    self.store_direct(of, accumulator, w)
        elif s.epilogue == "bulk":
            self.store_bulk(of, accumulator, staging, w)
        elif s.epilogue == "rows":
            self.store_staged(of, accumulator, staging, w)
        elif s.epilogue == "turned":
            target, stride = self.result_memory(of, VECTOR, w)
            operands = [accumulator, staging, target, stride, *place, self.skips(of, w)]
            e.op("tile.store_turned", operands=operands, to=self.goes_to(of))
        elif result.window is not None:
            self.store_within(of, result.window, accumulator, w, {})
        else:
            self.store_direct(of, accumulator, w)

    @property
    def at_once(self) -> bool:
        """Whether all columns of a tile are folded before what they come to is joined."""
        return bool(self.schedule.stationary) or joins_folds(self.problem, self.schedule)

    def read_ahead(
        self, w: Work, accumulator: ir.Value, kinds: tuple[str, ...] = ("row", "col", "window")
    ) -> dict[int, dict[Any, ir.Value]]:
        """What folds read for each row and column of a tile, and windows, is read before its products, as far as
        registers go: by the number of their body."""
        e, held = self.e, fold_registers(self.problem, self.schedule)
        free = free_registers(self.problem, self.schedule) + held
        able = {"row": free >= FEW_FREE, "col": free >= held > 0}
        bounds = ("col",) if self.schedule.stationary else ("row", "col")  # those of rows are each tile's
        every: dict[int, dict[Any, ir.Value]] = {}
        for number, of in enumerate(self.problem.each if self.problem.panes == 1 else ()):
            if of.result.column_fold is None:
                continue
            body = number + len(self.problem.reductions)
            if not self.at_once:
                self.split_for(body, of, w)
            made = every[body] = {}
            window, size = of.result.window, of.result.column_fold.size
            for x in window.read if window is not None and "window" in kinds else ():
                if free >= FEW_FREE and x.kind in bounds and not self.looked_up(x):
                    value, at = self.input(x, w, adjacent=False), self.folded(w, size)
                    operands = [value, accumulator, at.m0, at.n0, at.m_end, at.n_end]
                    how: dict[str, Any] = {"size": size, "folded": True, "joined": self.at_once}
                    made[x.name, x.coords] = e.op("tile.read_ahead", [value.type], operands, **how).result
            later = self.brought_values(of, body)
            for value in self.split[body].held.values():
                if kind_of(value) in kinds and able.get(kind_of(value)) and value not in later:
                    operands = [value, accumulator, w.m0, w.n0, w.m_end, w.n_end]
                    made[value] = e.op("tile.read_ahead", [value.type], operands, size=size).result
        return every

    def brought_values(self, of: Problem, body: int) -> dict[ir.Value, tuple[str, tuple[Coord, ...]]]:
        """What a fold reads that comes into the stages (`Handles.rows`), by the operands that read it from memory."""
        keys = {(x.name, x.coords) for x in brought(self.problem, self.schedule)}
        held = self.split[body].held
        views = {x.view: (x.name, x.coords) for x in of.result.inputs if (x.name, x.coords) in keys}
        return {held[self.body_of(of.result).arguments[view]]: key for view, key in views.items()}

    def take_rows(self, h: Handles, cursor: ir.Value, wave: int | None = None) -> None:
        """Reads it in a stage that is full; of one `wave`, or all that a unit has one behind the other."""
        e, own = self.e, range(self.waves) if wave is None else (wave,)
        how: dict[str, Any] = {"waves": self.waves, "by_turns": None if wave is None else True}
        for number, of in enumerate(self.problem.each if h.rows else ()):
            body = number + len(self.problem.reductions)
            for value, key in self.brought_values(of, body).items():
                factors = [
                    e.op("tile.row_factors", [e.type("factors")], [h.rows[key], cursor], wave=w, **how).result
                    for w in own
                ]
                made = e.op("tile.rows_held", [value.type], [factors]).result
                self.ahead_of[body][value] = made

    def fold_columns(self, of: Problem, body: int, last: Split, sums: list[ir.Value], w: Work) -> None:
        """Terms of adjacent columns become one value, of which the rest of a result is computed: threads store it."""
        fold = of.result.column_fold
        assert fold is not None
        self.store_folded(of, last, self.folded_sums(of, body, sums, w), self.folded(w, fold.size), body)

    def folded_sums(
        self,
        of: Problem,
        body: int,
        sums: list[ir.Value],
        w: Work,
        more: tuple[ir.Value | None, ...] = (None, None),
        **apart: Any,
    ) -> ir.Value:
        """What terms of adjacent columns come to; `more` are the op's `start` and `sure`."""
        e, result, fold = self.e, of.result, of.result.column_fold
        assert fold is not None
        first, *others = dict.fromkeys(result.panes)
        accumulator, ahead = sums[first], self.ahead_of.get(body, {})
        split, factors = self.without_factors(result, self.split[body])
        read = [e.op("tile.input_sums", [e.type("operand")], [sums[x]]).result for x in others]
        inputs, factors = ([ahead.get(v, v) for v in x] for x in ([*split.held.values(), *read], factors))
        (rows, columns), space = shape_of(accumulator.type), str_of(accumulator.type.space)
        made = e.op(
            "tile.fold_columns",
            [e.accumulator(rows, folded_columns(columns, fold.size), space)],
            [accumulator, w.m0, w.n0, w.m_end, w.n_end, inputs, factors, *more],
            regions=1,
            kind=fold.kind,
            size=fold.size,
            piecewise=crowded(of, self.schedule),
            **apart,
        )
        block = made.regions[0].blocks.append(*(ir.F32Type.get(),) * (1 + len(inputs)))
        with ir.InsertionPoint(block):
            self.computed_in(block, result, split)
        return made.result

    def store_folded(
        self, of: Problem, last: Split, made: ir.Value, w: Work, body: int, memory: Memory | None = None
    ) -> None:
        """The rest of a result, of what has been folded; `memory`: where it goes, if columns are known for a run. Of
        tiles that are dealt out by the window's range, what is there is what is within."""
        left = of.behind
        self.elementwise(left, last, [made], [w.m0, w.n0, w.m_end, w.n_end])
        if left.result.window is None or self.problem.ragged is not None:
            self.store_direct(left, made, w)
        else:
            self.store_within(left, left.result.window, made, w, self.ahead_of.get(body, {}), memory=memory)

    def fill(self, w: Work) -> None:
        """What stands in place of the results of a tile outside of their window."""
        e = self.e
        for of in self.problem.each:
            window, fold = of.result.window, of.result.column_fold
            if window is None or window.otherwise is None or fold is None:
                continue
            rows, columns = (x // y for x, y in zip(self.walked, self.units, strict=True))
            space = "registers" if not self.family.kind.tensor_memory and self.family.kind.warps > 1 else "warp"
            kind = e.accumulator(rows, folded_columns(columns, fold.size), space)
            nothing = e.op("tile.fragment", [kind], live=columns // fold.size).result
            empty = replace(window, low=0, high=0)
            self.store_within(of.behind, empty, nothing, self.folded(w, fold.size), {}, named=False)

    def judged(self, w: Work) -> Work:
        """The tile when it begins, and whether all of it is to be written, as far as that is known without what indices
        have, which is asked for: copies then store it (`told`)."""
        e, s, p = self.e, self.schedule, self.problem
        cut = cut_along(p, s) if s.epilogue == "bulk" else ""
        if s.epilogue not in STAGED or not (cut or p.row_lookups):
            return w
        whole: ir.Value | None = None
        rows, columns = self.walked
        if cut:
            first, end, extent = (w.m0, w.m_end, rows) if cut == p.m.name else (w.n0, w.n_end, columns)
            whole = e.compare("lt", e.arith("arith.addi", first, e.i32(extent - 1)), end)
        asked: dict[str, ir.Value] = {}
        for lookup in p.row_lookups:
            by_m = lookup.dim == p.m.name
            first, end, count = (w.m0, w.m_end, rows // self.units[0]) if by_m else (w.n0, w.n_end, columns)
            operands = [self.row_index(lookup.name, w), first, end]
            asked[lookup.name] = e.op("tile.ask_named", [e.type("registers")], operands, count=count).result
        return replace(w, whole=whole, asked=asked)

    def told(self, w: Work) -> Work:
        """The tile when its products are done, by when what was asked has come."""
        e, i1, whole = self.e, ir.IntegerType.get_signless(1), w.whole
        for asked in w.asked.values() if self.schedule.epilogue == "bulk" else ():
            named = e.op("tile.all_named", [i1], [asked]).result
            whole = named if whole is None else e.arith("arith.andi", whole, named)
        return replace(w, whole=whole)

    def quantize(
        self,
        h: Handles,
        number: int,
        of: Problem,
        accumulator: ir.Value,
        scale: ResultScale,
        place: list[ir.Value],
        w: Work,
    ) -> None:
        """The scales of the tile's blocks, and what remains to be rounded."""
        e, by_rows, result = self.e, of.swapped, of.result
        n, ctas = self.problem.m if by_rows else self.problem.n, scale.ctas if scale.ctas > 1 else None
        memory = e.memory(self.returned(scale.index).type)
        words = scale.layout in ("packed", "blocked")
        padding = 0
        if words:
            padding = WORD_BLOCKS - 1 if n.size is None else -scale.stored(n.size) % WORD_BLOCKS
        together = 1 if by_rows else self.scales_together(scale, accumulator.type)
        target = e.parameter(self.body, memory, Source("pointer", scale.name, align=together))
        target = self.at(target, scale.name, result.coords, w)
        last = len(result.coords) - 1
        outer = {"row": self.row_axis(of), "col": last, "packed": last}.get(
            scale.layout
        )  # tiles of "blocked" have no gaps
        stride = e.i64(0) if outer is None else self.stride(scale.name, outer)
        inverse, moved = self.split[number + len(self.problem.reductions)].inverse, self.moved_by(scale.apart, w)
        e.op(
            "tile.quantize",
            operands=[
                accumulator,
                target,
                stride,
                *place,
                inverse,
                self.skips(of, w),
                moved,
                *h.meetings.get(number, (None, None)),
            ],
            block=scale.block,
            by_rows=int(by_rows),
            element=ir.TypeAttr.get(ir.Type.parse(result.element.mlir)),
            scale=scale.type,
            layout=scale.layout,
            ragged=int(n.size is None or n.size % scale.width != 0),
            padding=padding,
            together=together,
            exchange=self.plan[numbered("amax", number)].offset if exchanges(of, self.schedule) else -1,
            to=self.goes_to(of),
            ctas=ctas,
            rows=self.schedule.tile[0] if ctas else None,
            gaps=None if scale.blocks_around is None else scale.blocks_around.numbers,
        )

    def round(self, of: Problem, accumulator: ir.Value, chance: Chance, place: list[ir.Value], w: Work) -> None:
        """What is left of it are numbers of the result's type."""
        e, result, row = self.e, of.result, self.row_axis(of)
        outer = [at for axis, at in enumerate(result.coords[:-1]) if axis != row]
        at, extents = [self.placed(x, w.outer) for x in outer], [self.size(d) for d in chance.extents[1:]]
        words = [self.drawn[x] for x in chance.words]
        e.op(
            "tile.round_sums",
            operands=[accumulator, *place, at, extents, words, self.skips(of, w)],
            by_rows=int(of.swapped),
            along=-1 if row is None else row,
            element=ir.TypeAttr.get(ir.Type.parse(result.element.mlir)),
            to=self.goes_to(of),
        )

    def scales_together(self, scale: ResultScale, accumulator: ir.Type) -> int:
        """Bytes of adjacent scales that a lane stores at once: 4, or as many as divide a row of the tile and of the
        tensor. Of numbers that take as few stores the least, which gives most of the lanes that share a row a share."""
        if ELEMENT_TYPES[scale.type].bits > 8 or scale.layout == "col":
            return 1
        rows, columns = shape_of(accumulator)
        blocks = max(1, columns // scale.block)
        # lanes that share a row have blocks by turns where these are narrower than what is permuted
        most = math.gcd(max(1, columns // max(scale.block, self.schedule.permute_n)), WORD_BLOCKS)
        if scale.layout == "row":
            n = self.problem.n
            most = 1 if n.size is None else math.gcd(most, scale.stored(n.size))
        if scale.blocks_around is not None:  # none on both sides of a gap
            most = math.gcd(most, *scale.blocks_around.numbers)
        held = 2 * (rows // self.wave) * blocks  # of a thread's rows r and r + 8
        return min((x for x in (1, 2, 4) if x <= most), key=lambda x: (-(-held // (x * LANES)), x))

    def drain(self) -> None:
        """At the end of a consumer role: its bulk stores are complete."""
        if self.schedule.epilogue == "bulk" and not self.loads_results:
            self.e.op("tile.drain")
