"""What the lowering functions of sm_90a share: the builder, where a thread is, and what tile values became."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.table import Table
from scalec.targets import TARGETS, WARPGROUP

TARGET = TARGETS["sm_90a"]
TABLE = Table(TARGET.name)


@dataclass
class Cursor:
    """A position in a ring: `stage` and `phase` (i32), and whether a peek has seen the stage full (i32)."""

    depth: int
    stage: Variable
    phase: Variable
    ready: Variable | None


@dataclass
class Window:
    """A position in a ring of `slots` windows of `blocks` K blocks, both powers of two.

    The position is `at` (i32, counts blocks) + `ahead`. Within an iteration of an unrolled loop `at` stays, a multiple
    of the iteration's blocks, and `ahead` is known: all blocks of the iteration share one address computation.
    """

    blocks: int
    slots: int
    at: Variable
    ahead: int = 0

    def flush(self) -> None:
        """Moves what `ahead` counts into `at`."""
        if self.ahead:
            self.at.set(self.at.get_plus(self.ahead))
            self.ahead = 0


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
        return self.at(b, cursor, self.base)

    def at(self, b: Builder, cursor: Cursor, first: ir.Value, unit: int = 1) -> ir.Value:
        """`first`, an address in the first stage in units of `unit` bytes, moved to the cursor's stage."""
        return b.add(first, b.mul(cursor.stage.get(), tile.stage_bytes(self.type) // unit))

    def in_window(self, b: Builder, window: Window, first: ir.Value, swizzle: ir.Value | int = 0) -> ir.Value:
        """`first`, the address of a row in the first slot, moved to the window's slot and K block.

        K blocks are the innermost index, of f32; `swizzle` is what the row XORs into its byte offset.
        """
        at = window.at.get()
        size = tile.stage_bytes(self.type)
        slot = b.mul(b.and_(b.shr(at, window.blocks.bit_length() - 1), window.slots - 1), size)
        block = b.and_(b.shl(at, 2), 4 * (window.blocks - 1))
        return b.add(b.add(b.add(first, slot), b.xor(block, swizzle)), 4 * window.ahead)


def row_swizzle(b: Builder, row: ir.Value) -> ir.Value:
    """What row `row` of a 32-byte-swizzled tile with rows of 32 bytes XORs into offsets within the row.

    The swizzle XORs address bit 7 into bit 4 (CUDA guide, tensor maps, CU_TENSOR_MAP_SWIZZLE_32B).
    """
    return b.shl(b.and_(b.shr(row, 2), 1), 4)


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
    unrolled: int = 1
    _once: dict[Any, Any] = field(default_factory=dict)
    _anchor: Any = None

    @property
    def ctas(self) -> int:
        """CTAs of a cluster."""
        return self.cluster[0] * self.cluster[1]

    def once(self, key: Any, emit: Callable[[], Any]) -> Any:
        """What `emit` makes, made once, at the start of the role: LLVM runs without loop-invariant code motion here."""
        if key not in self._once:
            with ir.InsertionPoint(self._anchor):
                self._once[key] = emit()
        return self._once[key]

    def enter_role(self, first_warp: int) -> None:
        """Starts a role at the insertion point."""
        self.first_warp, self._once = first_warp, {}
        self._anchor = self.b.constant(0).owner

    @property
    def warpgroup(self) -> ir.Value:
        """Index of this warpgroup within its role."""
        b = self.b

        def emit() -> ir.Value:
            index = b.shr(self.warp, 2)
            return b.sub(index, self.first_warp // 4) if self.first_warp else index

        return self.once("warpgroup", emit)

    @property
    def quarter(self) -> ir.Value:
        """Index of this warp within its warpgroup."""
        return self.once("quarter", lambda: self.b.and_(self.warp, 3))

    @property
    def row_in_wave(self) -> ir.Value:
        """First of the two rows (the other is 8 below) that this thread holds of a wave's 64."""
        b = self.b
        return self.once("row", lambda: b.add(b.shl(self.quarter, 4), b.shr(self.lane, 2)))

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
        b.asm(f"bar.sync $0, {WARPGROUP};", [], [b.add(self.warpgroup, 1)])
