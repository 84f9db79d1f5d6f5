"""What a schedule takes of an SM: shared memory, buffer by buffer, and registers.

`emit-tile` lays shared memory out exactly as `SharedPlan` says; the deciding passes use the same sums to choose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from scalec.errors import ScheduleError
from scalec.ir.schedule import Schedule
from scalec.passes.problem import Problem
from scalec.targets import Target

WARPGROUP = 128
"""Threads of a warpgroup (PTX ISA 9.7.15: four contiguous warps)."""

TILE_ALIGN = 1024
"""Alignment of a swizzled tile: one period of the 128-byte swizzle (PTX ISA 9.7.15.5, shared memory layouts)."""

SCALE_ALIGN = 128
"""Alignment of a bulk copy's place in shared memory (CUDA guide, Tensor Memory Accelerator)."""

BARRIER_BYTES = 16
"""One full and one empty mbarrier of 8 bytes for each stage."""

OVERHEAD_REGISTERS = 32
"""Registers of a consumer thread beside accumulators: addresses, scales, loop state. The largest that lets the
192x128 tile (64 + 64 accumulators at 160 registers) through, which ran without spills: H200, 2026-11-21."""


def round_up(value: int, step: int) -> int:
    """The least multiple of `step` that is at least `value`."""
    return -(-value // step) * step


@dataclass(frozen=True)
class Buffer:
    """A part of shared memory: `stages` slots of `stage_bytes` each, from `offset` on (bytes)."""

    name: str
    stage_bytes: int
    stages: int
    align: int
    offset: int = 0

    @property
    def bytes(self) -> int:
        """All its bytes."""
        return self.stage_bytes * self.stages


@dataclass(frozen=True)
class SharedPlan:
    """Shared memory of one CTA: the buffers in address order, and their total in bytes."""

    buffers: tuple[Buffer, ...]
    total: int

    def buffer(self, name: str) -> Buffer | None:
        """The buffer of that name, None where the kernel has none."""
        return next((b for b in self.buffers if b.name == name), None)

    def __str__(self) -> str:
        return " + ".join(f"{b.name} {b.bytes}" for b in self.buffers) + f" = {self.total} bytes"

    @staticmethod
    def of(problem: Problem, schedule: Schedule) -> SharedPlan:
        """The plan for a schedule whose tile, stages and epilogue are decided.

        Raises:
            ScheduleError: one of them is not.
        """
        if schedule.tile is None or schedule.stages is None or schedule.epilogue is None:
            raise ScheduleError("shared memory depends on tile, stages and epilogue", got=str(schedule))
        (bm, bn, bk), stages = schedule.tile, schedule.stages
        lhs, rhs = problem.lhs, problem.rhs
        wanted = [
            Buffer("A", bm * lhs.element.bytes(bk), stages, TILE_ALIGN),
            Buffer("B", bn * rhs.element.bytes(bk), stages, TILE_ALIGN),
        ]
        if schedule.epilogue == "bulk":
            wanted.append(Buffer("C", bm * problem.result.element.bytes(bn), 1, TILE_ALIGN))
        if any(s.rows == 1 for s in lhs.scales):
            wanted.append(Buffer("A_scale", round_up(bm * 4, SCALE_ALIGN), stages, SCALE_ALIGN))
        if any(s.rows == 1 for s in rhs.scales):
            wanted.append(Buffer("B_scale", round_up(bn * 4, SCALE_ALIGN), stages, SCALE_ALIGN))
        wanted.append(Buffer("barriers", BARRIER_BYTES, stages, BARRIER_BYTES))
        placed, offset = [], 0
        for buffer in wanted:
            offset = round_up(offset, buffer.align)
            placed.append(replace(buffer, offset=offset))
            offset += buffer.bytes
        return SharedPlan(tuple(placed), offset)


def stages_that_fit(problem: Problem, schedule: Schedule) -> int:
    """The most stages that fit into the target's shared memory, 0 where not even one does."""
    per_stage = SharedPlan.of(problem, schedule.with_fields(stages=2)).total - (
        SharedPlan.of(problem, schedule.with_fields(stages=1)).total
    )
    stages = problem.target.shared_bytes // per_stage  # per_stage is rounded by alignment: step down to what fits
    while stages and SharedPlan.of(problem, schedule.with_fields(stages=stages)).total > problem.target.shared_bytes:
        stages -= 1
    return stages


@dataclass(frozen=True)
class Registers:
    """Registers of one consumer thread, estimated.

    Attributes:
        accumulators: FP32 sums of its part of the tile.
        partials: FP32 sums of the wave that is being promoted; 0 without promotion.
    """

    accumulators: int
    partials: int

    @property
    def total(self) -> int:
        """With what a thread needs beside the sums."""
        return self.accumulators + self.partials + OVERHEAD_REGISTERS

    @staticmethod
    def of(tile: tuple[int, ...], warpgroups: int, promote: int) -> Registers:
        """For a tile of (M, N, K): a wave is 64 rows of a warpgroup, N/2 sums a thread."""
        waves, wave = tile[0] // (64 * warpgroups), tile[1] // 2
        return Registers(waves * wave, wave if promote else 0)


def threads(warpgroups: int) -> int:
    """Threads of a CTA: the consumers and one producer warpgroup."""
    return WARPGROUP * (warpgroups + 1)


def entry_registers(warpgroups: int, target: Target) -> int:
    """Registers that every thread has at entry, before setmaxnreg: the register file shared out, in steps of 8."""
    return min(target.registers // threads(warpgroups), target.max_registers) // 8 * 8


def register_file(registers: tuple[int, int], warpgroups: int) -> int:
    """Registers of a CTA whose (producer, consumer) threads have `registers`."""
    return WARPGROUP * (registers[0] + warpgroups * registers[1])
