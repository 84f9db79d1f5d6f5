"""Shared memory of a CTA, buffer by buffer.

`emit-tile` lays shared memory out exactly as `SharedPlan` says; the deciding passes use the same sums to choose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from scalec.ir.schedule import STAGED, Schedule
from scalec.ir.tile import ITEM_ALIGN, RESPONSE_BYTES, VECTOR, WORD_ROWS
from scalec.passes.plan.converted import brings_zeros, registers_make, scale_planes, zero_planes, zero_words
from scalec.passes.plan.gather import (
    gatherers,
    named_rows,
    stored_row,
)
from scalec.passes.plan.items import ITEMS, changes_blocks, item_bytes
from scalec.passes.plan.loaded_inputs import slot_bytes
from scalec.passes.plan.reductions import idle_warp, partials
from scalec.passes.plan.resources import (
    brought,
    copied_columns,
    exchanges,
    numbered,
    part_rooms,
    result_boxes,
    round_up,
    scale_copy,
    staged_columns,
    staged_rows,
    turned_tile,
    turns,
    units,
)
from scalec.passes.plan.shared_blocks import MEETINGS, met_bytes, shares_block
from scalec.passes.plan.stationary import SLOTS
from scalec.passes.plan.tensor_columns import bare_sides, sums_slots, word_rows
from scalec.passes.plan.windows import WINDOW, window_slots
from scalec.passes.plan.words import WordPlan
from scalec.passes.problem.types import Problem
from scalec.targets import WAVES

TILE_ALIGN = 1024
"""Alignment of a swizzled tile: one period of the 128-byte swizzle (PTX ISA 9.7.15.5, shared memory layouts)."""

STORED_ALIGN = 128
"""Alignment of a tile that warps convert, which no swizzle turns (CUDA guide, Tensor Memory Accelerator)."""

SCALE_ALIGN = 128
"""Alignment of a bulk copy's place in shared memory (CUDA guide, Tensor Memory Accelerator)."""

WINDOW_ALIGN = 256
"""One period of the 32-byte swizzle, which windows of scales have."""

RESPONSES = 3
"""Responses of cluster launch control that are kept: the copies of a tile begin when the consumers are done with the
third before it, whose products two accumulators in tensor memory have then seen off anyway."""

BARRIER_BYTES = 16
"""One full and one empty mbarrier of 8 bytes for each stage."""


FEWEST_STAGES = 3
"""That room for what a warp counts leaves (a guess: 128x256 has as many beside it)."""


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
        return self.stage_bytes * self.stages


@dataclass(frozen=True)
class SharedPlan:
    """Shared memory of one CTA: the buffers in address order, and their total in bytes."""

    buffers: tuple[Buffer, ...]
    total: int

    def buffer(self, name: str) -> Buffer | None:
        """The buffer of that name, None where the kernel has none."""
        return next((b for b in self.buffers if b.name == name), None)

    def __getitem__(self, name: str) -> Buffer:
        """The buffer of that name, which must be there."""
        return {b.name: b for b in self.buffers}[name]

    def __str__(self) -> str:
        return " + ".join(f"{b.name} {b.bytes}" for b in self.buffers) + f" = {self.total} bytes"

    @staticmethod
    def of(problem: Problem, schedule: Schedule) -> SharedPlan:
        (bm, bn, bk), stages = schedule.tile, schedule.stages
        lhs, rhs = problem.lhs, problem.rhs
        stationary = SLOTS if schedule.stationary else 0
        wanted = [
            Buffer(name, rows * x.shared_bytes(bk), count, TILE_ALIGN)
            for name, x, rows, count in (
                ("A", lhs, bm, stages),
                ("B", rhs, copied_columns(schedule), stationary or stages),
            )
            if not (x.converted and registers_make(problem, schedule, x))
        ]
        for name, operand, rows in (("A_stored", lhs, bm), ("B_stored", rhs, bn)):
            if operand.converted:
                align = TILE_ALIGN if registers_make(problem, schedule, operand) else STORED_ALIGN
                wanted.append(Buffer(name, rows * stored_row(problem, operand, bk), stages, align))
        for number, of in enumerate(problem.each):
            if schedule.epilogue in STAGED:
                row = of.result.element.bytes(staged_columns(of, schedule))
                size, align = staged_rows(of, schedule) * row, TILE_ALIGN
                wanted.append(Buffer(numbered("C", number), size, turns(schedule), align))
            if schedule.epilogue == "turned":
                rows, columns = turned_tile(of, schedule)
                size = rows * of.result.element.bytes(columns)
                wanted.append(Buffer(numbered("C", number), size, turns(schedule), VECTOR))
        if schedule.adds == "loaded":  # as given: of a reduction it is refused behind this plan
            boxes = [result_boxes(of, schedule)[1] for of in problem.each[:1]]
            wanted += [Buffer("C_barriers", BARRIER_BYTES, count, BARRIER_BYTES) for count in boxes]
        if schedule.inputs:
            wanted.append(Buffer("inputs", slot_bytes(problem, schedule), schedule.inputs, TILE_ALIGN))
            wanted.append(Buffer("inputs_barriers", BARRIER_BYTES, schedule.inputs, BARRIER_BYTES))
        for name, operand, rows in (("A_scale", lhs, bm), ("B_scale", rhs, bn)):
            plan = WordPlan.of(problem, operand, schedule)
            if plan is not None:
                size = round_up(word_rows(problem.family, rows) * 4 * plan.words, SCALE_ALIGN)
                wanted.append(Buffer(name, size, (operand is rhs and stationary) or stages, SCALE_ALIGN))
            scale = operand.by_row
            if scale is not None and scale_copy(problem, scale, schedule) == "window":
                slots = window_slots(problem, schedule, stages)
                wanted.append(Buffer(name, round_up(rows * 4 * WINDOW, WINDOW_ALIGN), slots, WINDOW_ALIGN))
            elif scale is not None:
                planes = scale_planes(schedule, operand, scale)
                wanted.append(Buffer(name, round_up(rows * 4 * planes, SCALE_ALIGN), stages, SCALE_ALIGN))
            if brings_zeros(problem, schedule, operand):
                size = round_up(4 * zero_words(operand, rows) * zero_planes(schedule, operand), SCALE_ALIGN)
                wanted.append(Buffer(f"{name[0]}_zeros", size, stages, SCALE_ALIGN))
            if (named := operand.named) is not None:
                size = round_up(4 * bk * (rows // named_rows(named, rows)), SCALE_ALIGN)
                wanted.append(Buffer(name, size, stages, SCALE_ALIGN))
            if operand.made is not None:
                size = round_up(rows * 4 * operand.made.within(bk), SCALE_ALIGN)
                wanted.append(Buffer(f"{name[0]}_made", size, stages, SCALE_ALIGN))
        size = round_up(4 * bm, SCALE_ALIGN)
        wanted += [
            Buffer(numbered("rows", i), size, stages, SCALE_ALIGN) for i in range(len(brought(problem, schedule)))
        ]
        for number, of in enumerate(problem.each):
            if shares_block(of):
                size = met_bytes(of, schedule, units(problem, schedule)[1])
                wanted.append(Buffer(numbered("amax", number), size, MEETINGS, SCALE_ALIGN))
                wanted.append(Buffer(numbered("amax_barriers", number), BARRIER_BYTES // 2, MEETINGS, BARRIER_BYTES))
            elif exchanges(of, schedule):
                size = 2 * bm // WAVES["warp"] * bn if problem.swapped else bm * units(problem, schedule)[1]
                wanted.append(Buffer(numbered("amax", number), 4 * size, 1, SCALE_ALIGN))
        if schedule.parts == "cluster":
            rooms, sums = part_rooms(problem, schedule)
            wanted.append(Buffer("parts", 4 * sums, rooms, TILE_ALIGN))
            wanted.append(Buffer("parts_barriers", BARRIER_BYTES, 1, BARRIER_BYTES))
        beside = (turns(schedule) - 1) * BARRIER_BYTES // 2  # full barriers of the other warpgroups
        wanted.append(Buffer("barriers", BARRIER_BYTES + beside, stages, BARRIER_BYTES))
        if stationary:
            wanted.append(Buffer("B_barriers", BARRIER_BYTES, stationary, BARRIER_BYTES))
        if problem.kind.tensor_memory:
            wanted.append(Buffer("sums_barriers", BARRIER_BYTES, sums_slots(problem, schedule), BARRIER_BYTES))
            wanted.append(Buffer("sums_address", BARRIER_BYTES, 1, BARRIER_BYTES))
            if schedule.scale_copier:
                wanted.append(Buffer("copied_barriers", BARRIER_BYTES, stages, BARRIER_BYTES))
            if any(bare_sides(problem)):
                wanted.append(Buffer("ones", 4 * WORD_ROWS, 1, SCALE_ALIGN))
        if problem.queued:
            wanted.append(Buffer("items", item_bytes(problem, schedule), ITEMS, ITEM_ALIGN))
            wanted.append(Buffer("item_barriers", BARRIER_BYTES, ITEMS, BARRIER_BYTES))
        if schedule.converters:
            wanted.append(Buffer("stored_barriers", BARRIER_BYTES // 2, stages, BARRIER_BYTES))
        if gatherers(problem):
            wanted.append(Buffer("row_barriers", BARRIER_BYTES // 2, stages, BARRIER_BYTES))
        if changes_blocks(problem, schedule):
            wanted.append(Buffer("cut_barriers", BARRIER_BYTES // 2, stages, BARRIER_BYTES))
        if schedule.scheduler == "dynamic":
            wanted.append(Buffer("responses", RESPONSE_BYTES, RESPONSES, RESPONSE_BYTES))
            wanted.append(Buffer("response_barriers", BARRIER_BYTES, RESPONSES, BARRIER_BYTES))
        plan = _placed(wanted)
        if idle_warp(problem, schedule) is not None:  # it counts tiles where there is room
            words = sum(p.words for p in partials(problem, schedule))
            totals = Buffer("totals", round_up(4 * words, SCALE_ALIGN), 1, SCALE_ALIGN)
            more = _placed([*wanted, totals, Buffer("totals_barriers", BARRIER_BYTES, 1, BARRIER_BYTES)])
            plan = more if more.total <= problem.target.shared_bytes else plan
        return plan


def _placed(wanted: list[Buffer]) -> SharedPlan:
    """Buffers one behind the other."""
    placed, offset = [], 0
    for buffer in wanted:
        offset = round_up(offset, buffer.align)
        placed.append(replace(buffer, offset=offset))
        offset += buffer.bytes
    return SharedPlan(tuple(placed), offset)


def stages_that_fit(problem: Problem, schedule: Schedule) -> int:
    """The most stages that fit into the target's shared memory, 0 where not even one does; one fewer where that makes
    room for what a warp counts, and enough are left."""
    per_stage = SharedPlan.of(problem, schedule.with_fields(stages=2)).total - (
        SharedPlan.of(problem, schedule.with_fields(stages=1)).total
    )
    stages = problem.target.shared_bytes // per_stage  # per_stage is rounded by alignment: step down to what fits
    while stages and SharedPlan.of(problem, schedule.with_fields(stages=stages)).total > problem.target.shared_bytes:
        stages -= 1
    if stages > FEWEST_STAGES and idle_warp(problem, schedule) is not None:
        plans = [SharedPlan.of(problem, schedule.with_fields(stages=n)) for n in (stages - 1, stages)]
        stages -= int(plans[0].buffer("totals") is not None and plans[1].buffer("totals") is None)
    return stages
