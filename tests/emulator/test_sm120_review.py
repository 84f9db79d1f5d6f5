"""sm_120a beside its powers of two: scale blocks that no tile divides, schedules of users, odd warps."""

from __future__ import annotations

import pytest

import scalec
from scalec.errors import ScheduleError
from tests.emulator.running import run_on

FINE = "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,{}x128)"
DIMS = {"m": 40, "n": 140, "k": 400}


def schedule_of(source: str, dims: dict[str, int], limit: float = 1e-7, target: str = "sm_120a") -> str:
    """The schedule of a program that runs as it should."""
    return run_on(source, dims, tuple(dims), 1, limit, target=target).kernel.spec.schedule


@pytest.mark.parametrize(
    ("source", "k"),
    [
        ("C[m,n]:f32 = A[m,k]@B[n,k] scale(1x96:ue8m0,1x160:ue8m0)", 400),
        ("C[m,n]:f32 = A[m,k]@B[n,k] scale(1x96:ue8m0@packed,1x160:ue8m0@blocked) with tile=64x64x64", 1200),
        ("C[m,n]:f32 = A[m,k]:e2m1@B[n,k]:e2m1 scale(1x48:ue4m3,1x80:ue4m3@col)", 480),
    ],
)
def test_scale_blocks_that_a_stage_does_not_hold_whole(source, k):
    schedule_of(source, DIMS | {"k": k})


def test_a_warp_straddles_scale_blocks():
    schedule_of(FINE.format(32) + " with tile=64x96x128, warps=4x2", DIMS)


@pytest.mark.parametrize(("rows", "schedule"), [(24, ""), (40, ""), (48, " with tile=64x64x128, warps=2x4")])
def test_blocks_of_columns_that_are_no_power_of_two(rows, schedule):
    schedule_of(FINE.format(rows) + schedule, DIMS | {"m": 70, "n": 200})


@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
@pytest.mark.parametrize("schedule", ["epilogue=bulk", "tile=64x32x64", "staged=1", "order=m"])
def test_what_the_user_decided_of_few_rows_is_not_turned_around(target, schedule):
    source = f"C[m,n] = A[m,k]@B[n,k] with {schedule}"
    assert schedule_of(source, {"m": 16, "n": 256, "k": 64}, 3e-6, target).startswith("swap=0")


def test_few_rows_are_turned_around_where_all_is_left_to_the_compiler():
    assert schedule_of("C[m,n] = A[m,k]@B[n,k]", {"m": 16, "n": 256, "k": 64}, 3e-6).startswith("swap=1")


@pytest.mark.parametrize(("schedule", "fix"), [("staged=1, epilogue=direct", "epilogue=bulk, or"), ("staged=1", "")])
def test_staged_without_staging(schedule, fix):
    n = 136 if fix else 137
    with pytest.raises(ScheduleError, match=r"staged = 1, and no copy stores C \(epilogue=direct\)") as refused:
        scalec.compile(f"C[m,n] = A[m,k]@B[n,k] with {schedule}", target="sm_120a", dims={"m": 150, "n": n, "k": 80})
    assert f"fix: {fix or 'leave staged out'}" in str(refused.value)


def test_warps_that_no_warpgroups_have():
    with pytest.raises(ScheduleError, match="3x3 warps, of 2 warpgroups that have 8"):
        scalec.compile("C[m,n] = A[m,k]@B[n,k] with warps=3x3", target="sm_120a", dims=DIMS)


def test_looking_ahead_before_a_promotion_that_is_not_there():
    with pytest.raises(ScheduleError, match="early_wait = 1 looks ahead before each promotion"):
        scalec.compile("C[m,n] = A[m,k]@B[n,k] with early_wait=1", target="sm_90a", dims=DIMS)
