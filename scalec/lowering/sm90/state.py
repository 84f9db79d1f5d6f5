"""What the lowering functions of sm_90a share: the builder, where a thread is, and what tile values became."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.table import Table

WARPGROUP = 128  # threads
WAVE = 64  # rows of one wgmma (PTX ISA 9.7.15: M is 64)

TABLE = Table("sm_90a")


@dataclass
class Cursor:
    """A position in a ring: `stage` and `phase` (i32), and whether a peek has seen the stage full (i32)."""

    depth: int
    stage: Variable
    phase: Variable
    ready: Variable | None


@dataclass(frozen=True)
class Ring:
    """Shared addresses of the first full and the first empty barrier; 8 bytes each, `depth` of each."""

    full: ir.Value | int
    empty: ir.Value | int


@dataclass(frozen=True)
class Buffer:
    """A ring of shared tiles: shared address of the first, and its type."""

    base: ir.Value
    type: ir.Type

    def address(self, b: Builder, cursor: Cursor) -> ir.Value:
        """Shared address of the cursor's stage."""
        return b.add(self.base, b.mul(cursor.stage.get(), tile.stage_bytes(self.type)))


@dataclass(frozen=True)
class Fragment:
    """An accumulator in registers: for each wave, the N/2 f32 that a thread holds (PTX ISA 9.7.15.5.1, figure D)."""

    waves: list[list[Variable]]
    columns: int


@dataclass
class State:
    """Lowering state of one kernel."""

    b: Builder
    values: dict[Any, Any]
    threads: int
    cluster: tuple[int, int]
    tid: ir.Value
    lane: ir.Value
    warp: ir.Value
    rank: ir.Value | int
    shared: ir.Value
    remote_empty: dict[Any, ir.Value] = field(default_factory=dict)
    first_warp: int = 0
    role_warps: int = 0

    @property
    def ctas(self) -> int:
        """CTAs of a cluster."""
        return self.cluster[0] * self.cluster[1]

    @property
    def warpgroup(self) -> ir.Value:
        """Index of this warpgroup within its role."""
        index = self.b.shr(self.warp, 2)
        return self.b.sub(index, self.first_warp // 4) if self.first_warp else index

    @property
    def quarter(self) -> ir.Value:
        """Index of this warp within its warpgroup."""
        return self.b.and_(self.warp, 3)

    @property
    def row_in_wave(self) -> ir.Value:
        """First of the two rows (the other is 8 below) that this thread holds of a wave's 64."""
        return self.b.add(self.b.shl(self.quarter, 4), self.b.shr(self.lane, 2))

    @property
    def lead(self) -> ir.Value:
        """Whether this is the first thread of its warpgroup."""
        return self.b.compare("eq", self.b.and_(self.tid, WARPGROUP - 1), 0)

    def get(self, value: ir.Value) -> Any:
        """What a tile value became; a Python int for a constant."""
        return self.values[value]

    def warpgroup_barrier(self) -> None:
        """The threads of this warpgroup meet (named barriers 1.., PTX ISA 9.7.13.1; 0 is the CTA's)."""
        b = self.b
        b.asm("bar.sync $0, 128;", [], [b.add(self.warpgroup, 1)])
