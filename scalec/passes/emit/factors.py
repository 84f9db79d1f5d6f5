"""Factors of the sums that consumers promote: scales that travel with the stages, or are fetched ahead."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from scalec.formats import ALL, NUMBERS, WHOLE
from scalec.ir.mlir import ir
from scalec.passes.emit.epilogue import Epilogue
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.sums import Point
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.column_factors import by_block, fetched, held, step_of
from scalec.passes.plan.promotion import plane
from scalec.passes.problem.operand import Scale
from scalec.passes.problem.products import partly_scaled


@dataclass(frozen=True)
class Positions:
    """Where a consumer is: in the ring of stages and, if there is one, in the ring of windows."""

    cursor: ir.Value
    window: ir.Value | None


Fetched = dict[str, list[ir.Value]]
"""By side, room for the scales of blocks of rows that are fetched ahead: for each of those that a K tile has."""

Known = dict[tuple[str, int, int], ir.Value]
"""Factors of a K tile: by side, wave, and which of those that a K tile has."""


class Factors(Epilogue):
    """What consumers multiply sums by that they promote."""

    def scalars(self, side: Side) -> list[ir.Value]:
        """Room for the side's block scales: one a wave of A, one for each step of columns of B; for each of a K tile's,
        where blocks are shorter."""
        scale, count = self.block_scale(side), self.fetch_shape(side)[0] * len(side.operand.panes)
        element = {} if scale.type == "f32" else {"element": scale.type}
        made = range(scale.within(self.schedule.tile[2]))
        return [self.e.op("tile.scalars", [self.e.type("registers")], count=count, **element).result for _ in made]

    def fetch_shape(self, side: Side) -> tuple[int, int, int]:
        """(count, rows between them, rows between warpgroups or warps) of the side's block scales in a tile; of several
        contractions of each."""
        rows = self.block_scale(side).rows
        if rows == WHOLE:
            return 1, 0, 0
        if side.label == "A":
            return self.waves, self.wave, self.waves * self.wave
        panes = len(side.operand.panes)
        own = side.rows // self.units[1] // panes
        step = step_of(own, rows)
        count, spacing = fetched(self.schedule, own, rows) if panes == 1 else (own // step, step)
        return count, spacing, own if self.units[1] > 1 else 0

    def fetch(self, h: Handles, side: Side, fetched: Fetched, w: Work, k0: ir.Value) -> None:
        """Loads the side's block scales of the K tile at element `k0` of the tensors."""
        scale = self.block_scale(side)
        if scale is None:
            return
        count, spacing, own = self.fetch_shape(side)
        depth = self.schedule.tile[2]
        sizes: dict[str, Any] = {
            "row_block": ALL if scale.rows == WHOLE else scale.rows,
            "axis": "m" if side.label == "A" else "n",
            "own": own,
            "spacing": spacing,
        }
        rooms, panes, place = fetched[side.label], len(side.operand.panes), side.operand.scales.index(scale)
        points = self.points(h, w, k0)
        for number, pane, point in product(range(len(rooms)), range(panes), points):
            own_side = next(x for x in point.sides if x.label == side.label)
            own = own_side.operand.panes[pane].scales
            if not own:
                continue  # ones were loaded
            room, of, w = rooms[number], own[place], point.w
            part = (pane * count, count) if panes > 1 else None
            source = self.at(self.pointer(of.name, of.argument_index), of.name, of.coords, w)
            at, end = self.within_range(h, scale, point, number * depth // len(rooms), depth // len(rooms))
            where = [*self.scale_rows(side.label, scale, w), at, end]
            if scale.type in NUMBERS:
                operands = [room, source, *self.strides(of), *where]
                zeros = self.beyond(scale) if point is points[0] else {}  # the others' are loaded over the first one's
                self.e.op("tile.fetch", operands=operands, **sizes, k_block=scale.k, part=part, **zeros)
            else:
                operands = [room, source, *self.byte_strides(of), *where]
                first = {"ones": scale.type} if partly_scaled(self.problem) else {}
                kept = first if point is points[0] else {"keeps": True}
                sizes |= {"block": scale.k, "layout": scale.layout, **kept}
                self.e.op("tile.fetch_bytes", operands=operands, **sizes, part=part)

    def within_range(self, h: Handles, scale: Scale, point: Point, first: int, unit: int) -> tuple[ir.Value, ir.Value]:
        """The K element `first` of a K tile at a point, and the end of K, as a scale counts them; so that nothing is
        loaded of `unit` elements, a part of a tile, outside of a range of K: their scale may be NaN, which zeros of
        operands do not stop. In the K of another product the element is beyond the end, also before 0: unsigned."""
        e, w, k0 = self.e, point.w, point.k0
        k = e.arith("arith.addi", k0, e.i32(first)) if first else k0
        at, end = self.scale_k(h, scale, w, k, point.end)
        if w.k_low is None or w.k_high is None or unit == self.schedule.tile[2]:
            return at, end
        before = e.compare("lt", e.arith("arith.addi", k, e.i32(unit - 1)), w.k_low)
        inside = e.compare("lt", k, w.k_high)
        at = e.op("arith.select", [at.type], [inside, at, end]).result
        return e.op("arith.select", [at.type], [before, end, at]).result, end

    def factors(
        self,
        h: Handles,
        at: Positions,
        fetched: Fetched,
        wave: int,
        column0: ir.Value | None = None,
        slice_: int = 0,
        known: Known | None = None,
    ) -> tuple[ir.Value | None, ir.Value | None]:
        """The two sides' scale factors for a wave and a slice of K; `column0`, the tile's first column as scales of B
        count them, is there where `mma_n` is. `known`: those that were read for the same K tile."""
        known = {} if known is None else known
        a, b = (self.factor(h, side, at, fetched, wave, column0, slice_, known) for side in self.sides)
        return a, b

    def factor(
        self,
        h: Handles,
        side: Side,
        at: Positions,
        fetched: Fetched,
        wave: int,
        column0: ir.Value | None,
        slice_: int,
        known: Known,
    ) -> ir.Value | None:
        """Those of one side."""
        row, block = self.row_scale(side), self.block_scale(side)
        scale = row if row is not None else block
        if scale is None:
            return None
        which = plane(self.schedule, scale, slice_)
        key = side.label, wave if side.label == "A" else 0, which
        if key not in known:
            known[key] = (
                self.row_factor(h, side, at, wave, which)
                if row is not None
                else self.block_factor(side, fetched[side.label][which], wave, column0)
            )
        return known[key]

    def row_factor(self, h: Handles, side: Side, at: Positions, wave: int, which: int) -> ir.Value:
        """Factors of rows of A or B, which have several in a K tile or one."""
        position = at.window if self.copy_of(side) == "window" else at.cursor
        tiles = h.scale_tiles if side.operand.made is None else h.made
        operands, result = [tiles[side.label], position], [self.e.type("factors")]
        plane = which or None
        if side.label == "A":
            return self.e.op("tile.row_factors", result, operands, wave=wave, waves=self.waves, plane=plane).result
        return self.e.op("tile.column_factors", result, operands, plane=plane, held=held(self.schedule) or None).result

    def block_factor(self, side: Side, room: ir.Value, wave: int, column0: ir.Value | None) -> ir.Value:
        """Factors of blocks of rows, which `fetch` brought."""
        e, scale, result = self.e, self.block_scale(side), [self.e.type("factors")]
        panes = len(side.operand.panes)
        if side.label == "B" and panes == 1 and by_block(self.schedule, side.rows, scale.rows):
            assert column0 is not None
            sizes = {"block": scale.rows, "step": step_of(side.rows, scale.rows)}
            return e.op("tile.block_factors", result, [room, column0], **sizes).result
        count, spacing, own = self.fetch_shape(side)
        by_wave = own and side.label == "A"
        first, number, span = (wave, 1, 0) if by_wave else (0, count, spacing if count > 1 else 0)
        if panes > 1:
            number, span = panes * count, spacing or side.rows // self.units[1] // panes
        return e.op("tile.uniform_factors", result, [room], first=first, count=number, span=span).result
