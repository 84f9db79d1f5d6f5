"""Schedules of operands with M or N contiguous: what is chosen for their tiles, and what cannot be."""

from __future__ import annotations

import pytest

import scalec
from scalec.errors import ScheduleError

BOTH = "C[m,n] = A[k,m]:{0} @ B[k,n]:{1}"

REFUSED = {
    ("e4m3", "e4m3", "tile=32x64x128, swizzle_a=64"): (
        "a row of the tile of A, contiguous along m, is 32 bytes and swizzle_a = 64\n"
        "  expected: a divisor of the row: a box of the bulk copy is as wide as the swizzle\n"
        "  fix: swizzle_a=32"
    ),
    ("bf16", "bf16", "tile=32x64x64, swizzle_b=0"): (
        "a row of the tile of B, contiguous along n, is 128 bytes and swizzle_b = 0\n"
        "  expected: a divisor of the row: a box of the bulk copy is as wide as the swizzle\n"
        "  fix: swizzle_b=128"
    ),
    ("e4m3", "e4m3", "tile=16x64x128"): (
        "a tile of 16 of m, 16 bytes of A: no swizzle divides it\n  fix: tile M a multiple of 32"
    ),
    ("e4m3", "e2m1", "tile=32x64x128"): (
        "a tile of 64 of n: B is copied 128 at a time\n  fix: tile N a multiple of 128"
    ),
    ("e4m3", "e2m1", "tile=32x128x128, swizzle_b=64"): (
        "a row of the tile of B, contiguous along n, is 128 bytes and swizzle_b = 64\n"
        "  expected: a divisor of the row: a box of the bulk copy is as wide as the swizzle\n"
        "  fix: swizzle_b=128"
    ),
    ("e4m3", "e4m3", "tile=32x64x512"): (
        "tile K = 512 is more rows of A than one bulk copy brings\n  expected: at most 256\n  fix: tile K = 256"
    ),
    ("bf16", "bf16", "tile=32x64x48"): (
        "tile K = 48 is not a multiple of 32: instructions take turns with two sets of registers\n  fix: tile K = 64"
    ),
}


@pytest.mark.parametrize(("a", "b", "schedule"), REFUSED)
def test_refused(a: str, b: str, schedule: str) -> None:
    with pytest.raises(ScheduleError) as refusal:
        scalec.compile(f"{BOTH.format(a, b)} with {schedule}", target="sm_120a", dims={"n": 1024, "k": 1024})
    assert str(refusal.value) == REFUSED[a, b, schedule]


@pytest.mark.parametrize(
    ("a", "m", "swizzle"), [("bf16", 16, 32), ("bf16", 32, 64), ("tf32", 16, 64), ("e4m3", 64, 64), ("e4m3", 96, 32)]
)
def test_panels_are_as_wide_as_the_tile_allows(a: str, m: int, swizzle: int) -> None:
    k = {"bf16": 64, "tf32": 32, "e4m3": 128}[a]
    warps = "1x8" if m == 16 else "2x4"
    source = f"{BOTH.format(a, a)} with tile={m}x128x{k}, warps={warps}"
    schedule = scalec.compile(source, target="sm_120a", dims={"n": 1024, "k": 1024}).spec.schedule
    assert f"swizzle_a={swizzle}, swizzle_b=128" in str(schedule)


def test_padded_operands_take_tiles_of_whole_boxes() -> None:
    made = scalec.compile(BOTH.format("e4m3", "e2m1"), target="sm_120a", dims={"m": 64, "n": 256, "k": 1024})
    assert "x128x128, cluster" in str(made.spec.schedule)
