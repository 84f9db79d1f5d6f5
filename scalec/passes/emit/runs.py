"""Kernels whose columns' operand stays for a run of tiles: the next tile's first products are on their way while the
last ones of this tile are folded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.tile_fold_columns import folded_columns
from scalec.ir.tile_types import shape_of
from scalec.passes.emit.folds_at_once import FoldsAtOnce
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.producer import Producer
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.reached import walked_window
from scalec.passes.plan.resources import asked_ahead
from scalec.passes.plan.stationary import SLOTS
from scalec.passes.plan.tensor_columns import word_rows

Begins = Callable[[ir.Value], list[ir.Value]]


@dataclass(frozen=True)
class Run:
    """Tiles of the same columns: the work of the first, and the rows where those begin, and end, that are computed."""

    w: Work
    first: ir.Value
    end: ir.Value


@dataclass(frozen=True)
class RunGo:
    """What is multiplied at a time: the sums, and where in the tile they begin."""

    sums: ir.Value
    column: int = 0
    below: int = 0


class RunRoles(Producer, FoldsAtOnce):
    """The roles of such a schedule (`Schedule.stationary`)."""

    @contextmanager
    def over_runs(self, h: Handles) -> Iterator[Run]:
        """The persistent loop over runs of output tiles, of those that have tiles within the results' window."""
        e, s, i32 = self.e, self.schedule, ir.IntegerType.get_signless(32)
        if h.items is not None:
            with self.over_items(h) as w:
                assert w.stop is not None
                yield Run(w, w.m0, w.stop)
            return
        outer, window = [d.name for d in self.problem.outer], walked_window(self.problem, s)
        with self.tiles(h, 3, run=s.run, whole=True) as block:
            m0, n0, end, *indices = block.arguments
            w = Work(m0, n0, h.m, h.n, self.length(h), outer=dict(zip(outer, indices, strict=True)))
            if window is None:
                yield Run(w, m0, end)
                return
            low, high = self.within(w, window, "tile.reached", [i32, i32], [m0, end]).results
            if h.fill is not None:
                self.fill_rows(h, w, m0, low)
            with e.region("tile.when", [e.compare("lt", low, high)]):
                yield Run(w, low, high)
            if h.fill is not None:
                self.fill_rows(h, w, high, end)

    def fill_rows(self, h: Handles, w: Work, first: ir.Value, end: ir.Value) -> None:
        """Tiles outside of the window."""
        with self.rows(first, end) as (m0, *_):
            if h.fill is not None:
                h.fill(replace(w, m0=m0))

    @contextmanager
    def rows(
        self,
        first: ir.Value,
        end: ir.Value,
        begins: Begins | None = None,
        settles: Callable[[], None] | None = None,
    ) -> Iterator[list[ir.Value]]:
        """The loop over a run's tiles; yields the first row of each, and what `begins` has read for it, which emits
        what begins one, of its row; `settles`: what its body waits for."""
        read: list[ir.Value] = []
        e, i32 = self.e, ir.IntegerType.get_signless(32)
        step = self.walked[0] * self.schedule.cluster[0]
        made = e.op("tile.run_tiles", operands=[first, end], regions=3, step=step)
        if begins is not None and settles is not None:
            with ir.InsertionPoint(made.regions[2].blocks.append()):
                settles()
            ahead = made.regions[1].blocks.append(i32)
            with ir.InsertionPoint(ahead):
                e.op("tile.begun", operands=[read := begins(ahead.arguments[0])])
        body = made.regions[0].blocks.append(i32, *(v.type for v in read))
        with ir.InsertionPoint(body):
            yield list(body.arguments)

    @contextmanager
    def over_all_tiles(self, h: Handles, asks: bool = False) -> Iterator[Work]:
        """Those of all runs, one by one."""
        with self.over_runs(h) as run, self.rows(run.first, run.end) as (m0, *_):
            yield replace(run.w, m0=m0)

    # ------------------------------------------------------------------------------------------------------- consumers

    def consumer(self, h: Handles) -> None:
        """Multiplies some columns, or rows, of a tile while others are folded."""
        e, s = self.e, self.schedule
        cursor, of_b = e.cursor(s.stages), e.cursor(SLOTS)
        kind = e.accumulator(self.waves * self.wave, s.tile[1])
        accumulator = e.op("tile.fragment", [kind]).result
        goes, by_rows = self.goes_of(accumulator), not s.mma_n
        sums = [go.sums for go in goes]
        self.hold()
        (of,) = self.problem.each
        fold = of.result.column_fold
        assert fold is not None
        with self.over_runs(h) as run:
            self.split_for(0, of, run.w)
            last = self.last[0]
            assert last is not None
            works = [self.moved(run.w, go.column) for go in goes]
            folded = self.folded(run.w, fold.size)
            memory = self.memory_of(of.behind, folded)
            bounds = self.read_ahead(run.w, accumulator, ("window",))
            every = list(zip(works, sums, strict=True))
            reads = [self.read_ahead(w, x, ("col",)) for w, x in (every[:1] if by_rows else every)]
            surely = self.surely(of, reads)
            if by_rows:
                reads, surely = [{k: dict(x) for k, x in reads[0].items()} for _ in goes], surely * len(goes)
            e.op("tile.wait", operands=[h.columns, of_b])
            tiles = {"B": e.op("tile.slot", [h.tiles["B"].type], [h.tiles["B"], of_b]).result}
            tiles = h.tiles | tiles

            def multiply(number: int) -> None:
                go, own = goes[number], [number] if by_rows else range(self.waves)
                for wave, a_wave in enumerate(own):
                    self.mma(replace(h, tiles=tiles), go.sums, cursor, a_wave, wave, 0, go.column, by_turns=by_rows)

            keys: list[tuple[int, int, Any]] = []

            def begins(m0: ir.Value) -> list[ir.Value]:
                own = goes if by_rows else goes[:1]
                read = [self.read_ahead(self.lower(run.w, m0, go.below), go.sums, ("row",)) for go in own]
                keys.extend((i, body, key) for i, x in enumerate(read) for body, each in x.items() for key in each)
                e.op("tile.wait", operands=[h.ring, cursor])
                multiply(0)
                return [value for x in read for each in x.values() for value in each.values()]

            def settles() -> None:
                e.op("tile.mma_wait", operands=sums[:1], pending=0)

            def store(shares: list[list[ir.Value]], w: Work) -> None:
                self.ahead_of, rows = bounds, shape_of(sums[0].type)[0]
                kind = e.accumulator(rows, folded_columns(s.tile[1], fold.size))
                made = e.op("tile.join_folds", [kind], [shares], kind=fold.kind).result
                self.store_folded(of, last, made, w, 0, memory)

            with self.rows(run.first, run.end, begins, settles) as (m0, *begun):
                for (i, body, key), value in zip(keys, begun, strict=True):
                    for made in [reads[i]] if by_rows else reads:
                        made[body][key] = value
                for number, made in enumerate(reads):
                    self.ahead_of = made
                    self.take_rows(h, cursor, number if by_rows else None)
                shares: list[ir.Value] = []
                for number, (w, go) in enumerate(zip(works, goes, strict=True)):
                    if number + 1 < len(goes):
                        multiply(number + 1)
                    else:
                        self.release(h, cursor)
                        e.op("tile.advance", operands=[cursor])
                        e.op("tile.ahead")
                    start = None if surely else e.op("tile.behind", [e.type("operand")], [h.ring, cursor]).result
                    self.ahead_of, more = reads[number], (start, surely[number] if surely else None)
                    at = self.lower(w, m0, go.below)
                    self.to_f32([go.sums])
                    shares.append(self.folded_sums(of, 0, [go.sums], at, more, apart=True))
                    if by_rows:
                        store([shares.pop()], replace(folded, m0=at.m0))
                    if number + 1 < len(goes):
                        e.op("tile.mma_wait", operands=[sums[number + 1]], pending=0)
                if shares:
                    store(shares, replace(folded, m0=m0))
            self.release(replace(h, ring=h.columns), of_b)
            e.op("tile.advance", operands=[of_b])
        self.drain()

    def goes_of(self, accumulator: ir.Value) -> list[RunGo]:
        """The goes of a tile: `mma_n` columns each, or a wave's rows of every unit."""
        e, s, waves = self.e, self.schedule, self.waves
        if s.mma_n:
            kind = e.accumulator(waves * self.wave, s.mma_n)
            return [
                RunGo(e.op("tile.go", [kind], [accumulator], first=x).result, column=x)
                for x in range(0, s.tile[1], s.mma_n)
            ]
        kind, below = e.accumulator(self.wave, s.tile[1]), self.units[0] * self.wave
        every = [e.op("tile.go", [kind], [accumulator], wave=i).result for i in range(waves)]
        return [RunGo(x, below=i * below) for i, x in enumerate(every)]

    def lower(self, w: Work, m0: ir.Value, below: int) -> Work:
        """The work of a go of the tile at row `m0`."""
        return replace(w, m0=self.e.arith("arith.addi", m0, self.e.i32(below)) if below else m0)

    def moved(self, w: Work, columns: int) -> Work:
        """The work of a tile's columns from some on."""
        return replace(w, n0=self.e.arith("arith.addi", w.n0, self.e.i32(columns))) if columns else w

    # ------------------------------------------------------------------------------------------------------- producers

    def producer(self, h: Handles) -> None:
        """One elected thread copies B's tile for a run, and A's of each tile."""
        e, s, (a, b) = self.e, self.schedule, self.sides
        k0 = e.i32(0)
        with e.region("tile.warp", index=0, count=1, elected=1):
            cursor, of_b = e.cursor(s.stages), e.cursor(SLOTS)
            with self.over_runs(h) as run:
                self.copy_stage(h, b, (h.columns, of_b), run.w, k0)
                with self.rows(run.first, run.end) as (m0, *_):
                    w = replace(run.w, m0=m0)
                    h.pages = {x.label: self.page_indices(h, x, w) for x in self.sides if x.operand.pages}
                    self.copy_stage(h, a, (h.ring, cursor), w, k0)
            if self.stays:
                self.stay(h.columns, of_b, SLOTS)
                self.stay(h.ring, cursor, s.stages)
        if self.producers == 1 and any(map(self.scales_threaded, self.sides)):
            self.scales(h)
        else:
            self.prefetch(h)
        self.deal(h)

    def copy_stage(self, h: Handles, side: Any, stage: tuple[ir.Value, ir.Value], w: Work, k0: ir.Value) -> None:
        """An operand, and the scales that the tensor core applies to it."""
        e, plan = self.e, self.word_plan(side)
        size = side.copied * side.operand.stored.bytes(self.schedule.tile[2])
        plan = plan if plan is not None and plan.bulk else None
        if plan is not None:
            size += 4 * word_rows(self.family, side.rows) * plan.words
        e.op("tile.acquire", operands=stage)
        e.op("tile.expect", operands=stage, bytes=size)
        self.copy_operand(h, side, stage, w, k0)
        if plan is not None:
            self.scale_copies(h, stage, w, k0, [(side, plan)], [])
        e.op("tile.advance", operands=stage[1:])

    def row_copies(self, h: Handles) -> None:
        """Scales that threads bring, each tile's loaded before the one before has an empty stage."""
        e, s, (a, b) = self.e, self.schedule, self.sides
        k0, ahead = e.i32(0), self.walked[0] * s.cluster[0]
        cursor, of_b = e.cursor(s.stages), e.cursor(SLOTS)
        of_a, columns = ([x] if self.scales_threaded(x) else [] for x in (a, b))
        rooms = {side.piece: self.room(side, 1) for side in (*of_a, *columns)}
        slots = replace(h, ring=h.columns, filled=h.columns)

        def load(sides: list[Any], w: Work) -> None:
            for side in sides:
                if self.gathers_scales(side):  # rows of pages
                    self.look_up_rows(rooms[side.piece], side, w, w.row0[side.label])
                self.load_rows(h, side, rooms[side.piece], w, k0)

        with self.over_runs(h) as run:
            load(columns, run.w)
            load(of_a, replace(run.w, m0=run.first))
            self.store_rows(slots, columns, rooms, [], of_b, 0)
            with self.rows(run.first, run.end) as (m0, *_):
                self.store_rows(h, of_a, rooms, [], cursor, 0)
                load(of_a, replace(run.w, m0=e.arith("arith.addi", m0, e.i32(ahead))))

    def prefetch(self, h: Handles) -> None:
        """A warp that has nothing else to do asks L2 for what bodies read of rows and columns, or copies that into the
        stages of tiles."""
        inputs = asked_ahead(self.problem, self.schedule) if self.problem.queued else self.ahead
        if not inputs:
            return
        e, columns = self.e, [x for x in self.ahead if x.kind == "col"]
        with e.region("tile.warp", index=1, count=1, elected=0):
            cursor = e.cursor(self.schedule.stages) if h.rows else None
            with self.over_runs(h) as run:
                self.ask(run.w, columns)
                with self.rows(run.first, run.end) as (m0, *_):
                    w = replace(run.w, m0=m0)
                    if cursor is not None:
                        self.bring_tile(h, cursor, w, inputs)
                    else:
                        self.ask(w, [x for x in inputs if x.kind == "row"])

    def ask(self, w: Work, inputs: list[Any]) -> None:
        for x in inputs:
            operands = [self.input(x, w), w.m0, w.n0, w.m_end, w.n_end]
            self.e.op("tile.prefetch_input", operands=operands, tile=self.walked)
