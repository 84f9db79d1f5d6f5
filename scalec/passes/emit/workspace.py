"""What tiles leave each other in memory: where it is, and how tiles are numbered there."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.meetings import tile_counters
from scalec.passes.emit.emitter import Source
from scalec.passes.emit.frame import Frame
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.parts import stored_parts
from scalec.passes.plan.reductions import Overhang, overhang
from scalec.passes.problem.access import Dim


class Workspace(Frame):
    """Sums of parts of K, behind them partial results of reductions; and the counters of tiles."""

    def memory(self) -> tuple[ir.Value, ir.Value]:
        """Where partial results are, and the counters of tiles: behind the sums of parts of K, and their counters."""
        s = self.schedule
        memory, counters = self.workspace()
        if s.split == 1 or s.parts == "cluster":
            return memory, counters
        words = (stored_parts(self.problem, s) * s.tile[0] * s.tile[1], tile_counters(s.split))
        return self.behind(memory, words[0]), self.behind(counters, words[1])

    def behind(self, memory: ir.Value, count: int) -> ir.Value:
        """What lies behind so many elements for each tile that meets."""
        operands = [memory, self.all_tiles(), self.e.i64(count)]
        return self.e.op("tile.view", [memory.type], operands).result

    def workspace(self) -> tuple[ir.Value, ir.Value]:
        """The workspace: sums of parts of K, or partial results, and the counters of tiles."""
        parts, counters = (
            self.e.parameter(self.body, ir.MemRefType.get([ir.MemRefType.get_dynamic_size()], element), Source(kind))
            for kind, element in (("parts", ir.F32Type.get()), ("counters", ir.IntegerType.get_signless(32)))
        )
        return parts, counters

    @property
    def overhang(self) -> Overhang | None:
        """How tiles are numbered that begin anywhere."""
        return overhang(self.problem, self.schedule)

    def number_along(self, w: Work, axis: int) -> ir.Value:
        """The number of the work's tile among those along M or N."""
        e, over, first, end = self.e, self.overhang, (w.m0, w.n0)[axis], (w.m_end, w.n_end)[axis]
        if over is not None and over.axis == "mn"[axis] and w.begins is not None and w.low is not None:
            first = e.arith("arith.addi", w.begins, e.arith("arith.subi", first, w.low))
        number = e.arith("arith.divui", first, e.i32(self.walked[axis]))
        if over is None or over.axis != "mn"[axis] or not (over.group or over.block):
            return number
        before = w.outer[over.group] if over.group else self.blocks_of(e.arith("arith.subi", end, e.i32(1)), over)
        return e.arith("arith.addi", number, e.arith("arith.muli", before, e.i32(over.ctas)))

    def blocks_of(self, index: ir.Value, over: Overhang) -> ir.Value:
        """The block that an index lies in."""
        return self.e.arith("arith.divui", index, self.e.i32(over.block))

    def outer_of_bands(self) -> list[Dim]:
        """The dimensions that each point of has tiles of its own."""
        over = self.overhang
        return [d for d in self.problem.outer if over is None or d.name != over.group]

    def point(self, w: Work) -> ir.Value | None:
        """The number of the work's point among all of `outer`; None where there is one."""
        e, made = self.e, None
        for d in self.outer_of_bands():
            own = w.outer[d.name]
            made = own if made is None else e.arith("arith.addi", e.arith("arith.muli", made, self.size(d)), own)
        return made

    def meeting_along(self, axis: int) -> ir.Value:
        """Tiles along M or N that meet, those beyond the last one in a cluster, and that begin anywhere, too
        (plan/reductions.py: `bands`)."""
        e, over, d = self.e, self.overhang, (self.problem.m, self.problem.n)[axis]
        made = self.tiles_along(d, axis)
        if over is None or over.axis != "mn"[axis]:
            return made
        groups = e.i32(1)
        if over.group:
            groups = next(self.size(x) for x in self.problem.outer if x.name == over.group)
        elif over.block:
            groups = self.blocks_of(e.arith("arith.addi", self.size(d), e.i32(over.block - 1)), over)
        return e.arith("arith.addi", made, e.arith("arith.muli", groups, e.i32(over.ctas)))

    def tiles_along(self, d: Dim, axis: int) -> ir.Value:
        """Tiles along M or N, those beyond the last one in a cluster too."""
        e, along = self.e, self.schedule.cluster[axis]
        extent = self.walked[axis] * along
        if d.size is not None:
            return e.i32(-(-d.size // extent) * along)
        whole = e.arith("arith.divui", e.arith("arith.addi", self.size(d), e.i32(extent - 1)), e.i32(extent))
        return e.arith("arith.muli", whole, e.i32(along)) if along > 1 else whole

    def all_tiles(self) -> ir.Value:
        """All tiles that meet."""
        e = self.e
        made = e.arith("arith.muli", *(self.meeting_along(axis) for axis in (0, 1)))
        for d in self.outer_of_bands():
            made = e.arith("arith.muli", made, self.size(d))
        return made
