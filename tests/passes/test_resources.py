"""Shared memory and registers, against sums done by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from scalec import compiler
from scalec.errors import ScheduleError
from scalec.ir.schedule import Request
from scalec.passes.plan.draft import draft
from scalec.passes.plan.registers import Registers
from scalec.passes.plan.resources import register_file
from scalec.passes.plan.shared_memory import SharedPlan, stages_that_fit
from scalec.passes.plan.windows import window_slots
from scalec.passes.problem.types import Problem
from scalec.targets import TARGETS, WARPGROUP, Target
from tests.passes.scale_programs import text
from tests.schedules import plain

MMA_SYNC = next(f for f in TARGETS["sm_120a"].mma if "e4m3" in f.operands)
SCHEDULE = plain(tile=(256, 128, 128), stages=3, epilogue="bulk")


def test_buffers_and_offsets(problem_of: Callable[[str], Problem]) -> None:
    plan = SharedPlan.of(problem_of(text()), SCHEDULE)
    assert [(b.name, b.offset, b.stage_bytes, b.stages) for b in plan.buffers] == [
        ("A", 0, 32768, 3),
        ("B", 98304, 16384, 3),
        ("C", 147456, 65536, 1),
        ("A_scale", 212992, 1024, 3),
        ("barriers", 216064, 16, 3),
    ]
    assert plan.total == 216064 + 48
    assert all(b.offset % b.align == 0 for b in plan.buffers)


def test_row_major_scales_come_in_windows(problem_of: Callable[[str], Problem]) -> None:
    plan = SharedPlan.of(problem_of(text()), SCHEDULE.with_fields(scale_path="bulk"))
    scales = plan.buffer("A_scale")
    assert scales is not None
    assert (scales.stage_bytes, scales.stages, scales.align) == (256 * 4 * 8, 2, 256)


def test_column_major_scales_come_with_their_stage(problem_of: Callable[[str], Problem]) -> None:
    scales = SharedPlan.of(problem_of(text(layout="col")), SCHEDULE.with_fields(scale_path="bulk")).buffer("A_scale")
    assert scales is not None
    assert (scales.stage_bytes, scales.stages, scales.align) == (1024, 3, 128)


@pytest.mark.parametrize("blocks", [4, 8, 12, 16, 20, 28, 64])
@pytest.mark.parametrize("stages", range(2, 33))
def test_no_window_is_overwritten_while_it_is_read(
    problem_of: Callable[[str], Problem], blocks: int, stages: int
) -> None:
    """A window is copied once the stage of its first K block is empty: every block `stages` before it is done with."""
    slots = window_slots(problem_of(text(k=blocks * 128)), SCHEDULE, stages)
    assert slots & (slots - 1) == 0
    windows = []  # (first K block, last K block) of each window, over a few tiles of a persistent kernel
    for tile in range(20):
        starts = range(0, blocks, 8)
        windows += [(tile * blocks + s, tile * blocks + min(s + 8, blocks) - 1) for s in starts]
    for index in range(slots, len(windows)):
        last_read = windows[index - slots][1]
        assert last_read <= windows[index][0] - stages


@pytest.mark.parametrize("split", [2, 3, 5, 16])
@pytest.mark.parametrize("stages", [2, 4, 8, 20])
def test_no_window_of_a_part_is_overwritten_while_it_is_read(
    problem_of: Callable[[str], Problem], split: int, stages: int
) -> None:
    """Likewise where K is split, for parts in any order, each of which takes up the window that it begins in."""
    blocks = 28
    slots = window_slots(problem_of(text(k=blocks * 128)), SCHEDULE.with_fields(split=split), stages)
    draw, windows, at = random.Random(split * stages), [], 0  # (first, last block) in the order of a CTA's work
    for _ in range(300):
        part = draw.randrange(split)
        low, high = part * blocks // split, (part + 1) * blocks // split
        for start in range(low // 8 * 8, high, 8):
            count = min(start + 8, high) - max(start, low)
            windows.append((at, at + count - 1))
            at += count
    for index in range(slots, len(windows)):
        assert windows[index - slots][1] <= windows[index][0] - stages


def test_scales_of_both_sides_are_rounded_to_the_copys_alignment(problem_of: Callable[[str], Problem]) -> None:
    problem = problem_of(text(b_block="1, 128"))
    plan = SharedPlan.of(problem, SCHEDULE.with_fields(tile=(64, 40, 128), epilogue="direct"))
    sizes = {b.name: b.stage_bytes for b in plan.buffers}
    assert sizes == {"A": 8192, "B": 5120, "A_scale": 256, "B_scale": 256, "barriers": 16}
    assert plan.buffer("C") is None


def test_scales_that_do_not_vary_by_row_or_along_k_take_no_room(problem_of: Callable[[str], Problem]) -> None:
    for program in (text(a_block="128, 128"), text(a_block="1, -1"), text(a_block=None)):
        assert SharedPlan.of(problem_of(program), SCHEDULE).buffer("A_scale") is None


@pytest.mark.parametrize(("tile", "epilogue", "stages"), [((256, 128, 128), "bulk", 3), ((192, 128, 128), "bulk", 4)])
def test_stages_that_fit(
    problem_of: Callable[[str], Problem], target: Target, tile: tuple[int, int, int], epilogue: str, stages: int
) -> None:
    problem, schedule = problem_of(text()), plain(tile=tile, epilogue=epilogue)
    assert stages_that_fit(problem, schedule) == stages
    assert SharedPlan.of(problem, schedule.with_fields(stages=stages)).total <= target.shared_bytes
    assert SharedPlan.of(problem, schedule.with_fields(stages=stages + 1)).total > target.shared_bytes


def test_undecided(problem_of: Callable[[str], Problem]) -> None:
    with pytest.raises(ScheduleError, match="field tile is not decided"):
        draft(problem_of(text()), Request(stages=3))


def test_registers(problem_of: Callable[[str], Problem], target: Target) -> None:
    wgmma = problem_of(text())
    mma_sync = replace(wgmma, family=MMA_SYNC)
    assert Registers.of(wgmma, plain(tile=(256, 128, 128), warps=(8, 1), promote=128)) == Registers(128, 64)
    assert Registers.of(wgmma, plain(tile=(256, 128, 128), warps=(8, 1), promote=0)) == Registers(128, 0)
    assert Registers.of(wgmma, plain(tile=(192, 128, 128), warps=(12, 1), promote=128)) == Registers(64, 64)
    # two slices of 64 rows (16 registers) and of 32 columns (8)
    assert Registers.of(mma_sync, plain(tile=(128, 128, 128), warps=(2, 4), promote=128)) == Registers(64, 64, 48)
    assert Registers.of(mma_sync, plain(tile=(64, 16, 128), warps=(4, 1), promote=0)) == Registers(8, 0, 16)
    assert [target.entry_registers(WARPGROUP * (w + 1)) for w in (1, 2, 3)] == [248, 168, 128]
    shares = ((2, (48, 232)), (3, (32, 160)))
    two, three = (plain(tile=(192, 128, 128), warpgroups=w, registers=r) for w, r in shares)
    assert register_file(wgmma, two) == register_file(wgmma, three) == 65536


@pytest.mark.parametrize(
    ("dims", "fields", "found"),
    [
        ({"m": 1024, "k": 7168}, {}, (4, 1, 1)),
        ({"m": 2048, "k": 7168}, {}, (3, 0, 0)),  # two tiles for each CTA
        ({"k": 7168}, {}, (3, 0, 0)),
        ({"m": 1024, "k": 384}, {"tile": "128x256x128"}, (3, 0, 0)),  # three K blocks
        ({"m": 1024, "k": 7168}, {"stages": "3"}, (3, 0, 0)),
        ({"m": 512, "k": 7168}, {}, (5, 0, 0)),
        ({"n": 264, "k": 7168}, {"tile": "192x160x128", "cluster": "2x1"}, (3, 0, 0)),  # three warpgroups
    ],
)
def test_lone_tiles_leave_by_panels_where_a_fourth_stage_then_has_room(
    dims: dict[str, int], fields: dict[str, str], found: tuple[int, int, int]
) -> None:
    source = "C[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128)"
    chosen = compiler.decide(source, "sm_90a", {"n": 4096, **dims}, fields, tuned=False)[0]
    assert (chosen.stages, chosen.staged, chosen.panels) == found
