"""`@blocked` scales on sm_100a: tiles of them come to the stages as they lie, and no thread rearranges one.

running.py puts NaN into all bytes that pad the tiles.
"""

from __future__ import annotations

import pytest

import scalec
from scalec.errors import ScheduleError
from tests.emulator.running import by_turns, run_on

MX = "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x32:ue8m0@blocked, 1x32:ue8m0@blocked)"
FP4 = "C[m,n]:f32 = A[m,k]:e2m1@B[n,k]:e2m1 scale(1x{0}@blocked, 1x{0}@blocked)"
PROGRAMS = {
    "mxfp8": MX,
    "mxfp4": FP4.format("32:ue8m0"),
    "nvfp4": FP4.format("16:ue4m3"),
    "mxfp8 x mxfp4": "C[m,n]:f32 = A[m,k]:e4m3@B[n,k]:e2m1 scale(1x32:ue8m0@blocked, 1x32:ue8m0@blocked)",
    "A alone": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x32:ue8m0@blocked, 1x32:ue8m0@packed)",
    "B alone": "C[m,n]:f32 = A[m,k]:e2m1@B[n,k]:e2m1 scale(1x16:ue4m3, 1x16:ue4m3@blocked)",
}
COLUMNS = [64, 192, 256, 128]
# m, n, k: rows within a tile of scales, and within the second half of one; words that end within a stage; few of all.
# K is whole words: 128 elements, or 64 of nvfp4
SIZES = [
    (5, 200, 256), (1, 264, 384), (130, 72, 128), (65, 136, 640), (33, 300, 896), (300, 500, 384), (140, 330, 128),
    (260, 3, 256),
]  # fmt: skip


def threads_bring(ptx: str) -> bool:
    """Whether any thread loads scales."""
    return "ld.global" in ptx


@pytest.mark.once("name", "seed")
@pytest.mark.parametrize(("name", "seed"), by_turns(PROGRAMS, len(SIZES)))
def test_tiles(name: str, seed: int) -> None:
    (m, n, k), columns = SIZES[seed], COLUMNS[seed % 4]
    if name == "nvfp4":
        k -= 64
    depth = 256 if "e2m1@" in PROGRAMS[name] else 128
    source = f"{PROGRAMS[name]} with tile=128x{columns}x{depth}, swap=0"
    # the columns of a tile take turns at beginning a tile of scales and within one
    ran = run_on(source, {"m": m, "n": n, "k": k}, ("n", "k") if seed % 2 else ("k",), seed, 1e-9, target="sm_100a")
    assert ran.stats.counts["bank conflicts"] == 0
    assert "scale_path=bulk" in ran.kernel.spec.schedule
    assert threads_bring(ran.kernel.ptx) == ("alone" in name)


@pytest.mark.once("name")
@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        ("mxfp8", "tile=128x64x128, cluster=4x1, stages=2, unroll=2"),
        ("mxfp8", "tile=128x192x128, cluster=1x2, stages=3, order=m"),
        ("mxfp8", "tile=128x64x128, swap=1"),
        ("mxfp8", "tile=128x128x128, cluster=2x1, scale_path=thread"),
        ("nvfp4", "tile=128x64x128, swizzle_a=64, swizzle_b=64, cluster=1x4"),
        ("nvfp4", "tile=128x192x256, cluster=2x1, stages=2"),
        ("A alone", "tile=128x64x128, cluster=2x1"),
        ("A alone", "tile=128x192x128, cluster=1x2, swap=1"),
    ],
)
def test_schedules(name: str, schedule: str) -> None:
    source = f"{PROGRAMS[name]} with {schedule}"
    ran = run_on(source, {"m": 300, "n": 456, "k": 640}, ("n", "k"), 3, 1e-9, target="sm_100a")
    assert all(field.strip() in ran.kernel.spec.schedule for field in schedule.split(","))
    threads = "alone" in name or "scale_path=thread" in schedule
    assert threads_bring(ran.kernel.ptx) == threads


# what pads K would be multiplied: threads leave it out, of `packed` words too
@pytest.mark.once("target", "k", "fixed")
@pytest.mark.parametrize("fixed", [(), ("n", "k")])
@pytest.mark.parametrize("k", [32, 160, 400])
@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_what_pads_k_does_not_count(target: str, k: int, fixed: tuple[str, ...]) -> None:
    for source in (MX, "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x32:ue8m0@packed, 1x32:ue8m0@packed)"):
        run_on(source, {"m": 132, "n": 72, "k": k}, fixed, 2, 1e-9, target=target)


@pytest.mark.parametrize(
    ("scales", "schedule", "k", "reason"),
    [
        ("1x32:ue8m0, 1x32:ue8m0", "", 512, "A_scale is not blocked, one scale for each m"),
        ("128x128:ue8m0@blocked, 128x128:ue8m0@blocked", "", 512, "A_scale is not blocked, one scale for each m"),
        ("1x128:ue8m0@blocked, 1x128:ue8m0@blocked", "", 512, "a stage has 128 of k, no whole words of A_scale"),
        ("1x32:ue8m0@blocked, 1x32:ue8m0", "", 400, "k = 400 has 13 scales, and what pads the last word of A_scale"),
        ("1x32:ue8m0@blocked, 1x32:ue8m0", "", None, "k is not known, and what pads the last word of A_scale"),
        ("1x32:ue8m0, 1x32:ue8m0@blocked", "tile=128x96x128", 512, "; a tile has 96 of n, not a multiple of 64"),
        ("1x32:ue8m0@blocked, 1x32:ue8m0", "swap=1, tile=128x96x128", 512, "; a tile has 96 of m, not a mul"),
    ],
)
def test_why_threads(scales: str, schedule: str, k: int | None, reason: str) -> None:
    fields = ", ".join(x for x in (schedule, "scale_path=bulk") if x)
    dims = {"n": 512} if k is None else {"n": 512, "k": k}
    with pytest.raises(ScheduleError, match=f"scale_path=bulk is not possible\n  got: .*{reason}") as refusal:
        scalec.compile(f"C[m,n] = A[m,k]@B[n,k] scale({scales}) with {fields}", target="sm_100a", dims=dims)
    assert "fix: scale_path=thread, or @blocked scales" in str(refusal.value)
