"""Warpgroups that take tiles by turns, on the emulator: right, complete, without a finding, and bit-equal in whatever
order the warps run."""

from __future__ import annotations

import re

import pytest

import scalec
from tests.emulator.quantised import run_quantised
from tests.emulator.running import run_on
from tests.tiers import fields

BLOCKS = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
FINE = "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128)"
COLUMNS = "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128@col,1x128@col)"
ROWS = "C[m,n] = A[m,k]@B[n,k] scale(1xk,1xk)"
BF16 = "C[m,n] = A[m,k] @ B[n,k]"
BIAS = "C[m,n] = gelu(A[m,k]@B[n,k] scale(1x128,128x128) + bias[n]) + R[m,n]"

# CTAs that run at once: each has several tiles, of few
AT_ONCE = 2
MORE_AT_ONCE = {"a tile for some CTAs": 4, "clusters along M": 4}
# program, schedule, (m, n, k), sizes that are known
TURNS: dict[str, tuple[str, str, tuple[int, int, int], tuple[str, ...]]] = {
    "one tile": (BLOCKS, "tile=128x128x128, cluster=1x1", (100, 120, 640), ("n", "k")),
    "a tile for some CTAs": (BLOCKS, "tile=64x64x128, cluster=1x1", (130, 64, 640), ("n", "k")),
    "two tiles for some": (BLOCKS, "tile=64x64x128, cluster=1x1", (161, 72, 640), ("n", "k")),
    "odd numbers of tiles": (BLOCKS, "tile=64x64x128, cluster=1x1, stages=3", (420, 64, 384), ("n", "k")),
    "windows, one a tile": (BLOCKS, "tile=64x64x128, cluster=1x1, stages=4", (161, 72, 512), ("n", "k")),
    "windows, some not whole": (BLOCKS, "tile=64x128x128, cluster=1x2, stages=3", (161, 264, 1536), ("n", "k")),
    "more stages than K blocks": (BLOCKS, "tile=64x64x128, cluster=1x1, stages=7", (161, 72, 256), ("n", "k")),
    "one K block": (BLOCKS, "tile=64x64x128, cluster=2x1, stages=2", (161, 72, 100), ("n", "k")),
    "K blocks are whole rounds": (BLOCKS, "tile=64x64x128, cluster=1x1, stages=2", (161, 72, 512), ("n", "k")),
    "sizes that are not known": (BLOCKS, "tile=64x64x128, stages=3", (161, 72, 640), ()),
    "K that is not known": (BF16, "tile=64x64x64, stages=4, cluster=1x1", (161, 72, 328), ("n",)),
    "clusters along M": (BF16, "tile=128x64x64, cluster=4x1, stages=3", (600, 72, 328), ("n", "k")),
    "staged wave by wave": (BF16, "tile=128x64x64, cluster=1x2, staged=1", (200, 264, 200), ("n", "k")),
    "direct stores": (BF16, "tile=64x64x64, cluster=1x2, epilogue=direct", (140, 264, 200), ("n", "k")),
    "three warpgroups": (BF16, "tile=64x64x64, cluster=1x1, warpgroups=3, stages=5", (450, 72, 264), ("n", "k")),
    "scales by threads": (FINE, "tile=64x64x128, scale_path=thread, stages=3", (161, 72, 640), ("n", "k")),
    "columns of scales": (COLUMNS, "tile=64x64x128, stages=5", (164, 72, 640), ("n", "k")),
    "both by windows": (FINE, "tile=128x64x128, stages=3, cluster=1x1", (200, 72, 1024), ("n", "k")),
    "scales of rows": (ROWS, "tile=64x64x128, stages=4", (161, 72, 640), ("n", "k")),
    "epilogue that reads": (BIAS, "tile=64x64x128, stages=4, early_wait=0", (161, 72, 640), ("n", "k")),
    "transposed": (BLOCKS, "swap=1, tile=64x16x128, cluster=1x1", (40, 350, 512), ("n", "k")),
}


@pytest.mark.once(touches=lambda case: fields(TURNS[case]))
@pytest.mark.parametrize("case", TURNS)
def test_turns(case: str) -> None:
    source, schedule, (m, n, k), fixed = TURNS[case]
    program, sms = f"{source} with consumers=pingpong, {schedule}", MORE_AT_ONCE.get(case, AT_ONCE)
    ran = run_on(program, {"m": m, "n": n, "k": k}, fixed, m + k, 5e-6, times=2, sms=sms)
    assert "consumers=pingpong" in ran.kernel.spec.schedule


@pytest.mark.once("dims")
@pytest.mark.parametrize(
    "dims", [{"m": 321, "n": 256, "k": 256}, {"m": 200, "n": 168, "k": 384}], ids=["whole", "tails"]
)
def test_quantised(dims: dict[str, int]) -> None:
    program = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)"
    run_quantised(program, "mxfp8", dims, ("n", "k"), 3, "sm_90a", "consumers=pingpong, tile=128x64x128")


def test_a_warpgroup_waits_for_barriers_of_its_own() -> None:
    """A full barrier for each stage and warpgroup, an empty one for each stage, which one warpgroup hands back."""
    schedule = "consumers=pingpong, tile=64x64x128, cluster=1x2, stages=4"
    kernel = scalec.compile(f"{BLOCKS} with {schedule}", target="sm_90a", dims={"n": 256, "k": 512})
    counts = re.findall(r"mbarrier\.init\.shared\.b64 \t\[[^\]]*\], (%r\d+)", kernel.ptx)
    values = dict(re.findall(r"mov\.b32 \t(%r\d+), (\d+);", kernel.ptx))
    assert [values[c] for c in counts] == ["1"] * 8 + ["8"] * 4
