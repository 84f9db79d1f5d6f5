"""Warpgroups that take tiles by turns, and promotion under the next product, on the emulator: right, complete, without
a finding, and bit-equal in whatever order the warps run."""

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

PARTIALS: dict[str, tuple[str, str, tuple[int, int, int], tuple[str, ...]]] = {
    "one K block": (BLOCKS, "tile=128x128x128", (140, 136, 100), ("n", "k")),
    "two": (BLOCKS, "tile=128x64x128", (140, 72, 256), ("n", "k")),
    "three, no loop": (BLOCKS, "tile=128x64x128, unroll=4", (140, 72, 384), ("n", "k")),
    "three, a loop": (BLOCKS, "tile=128x64x128, unroll=1", (140, 72, 384), ("n", "k")),
    "an odd number": (BLOCKS, "tile=128x64x128, unroll=2", (140, 72, 1100), ("n", "k")),
    "an even number, windows": (BLOCKS, "tile=128x64x128, unroll=2, stages=2", (200, 72, 1536), ("n", "k")),
    "iterations of four": (BLOCKS, "tile=128x64x128, unroll=4, early_wait=0", (140, 72, 1400), ("n", "k")),
    "two waves": (BLOCKS, "tile=256x64x128, unroll=1, stages=2, cluster=2x1", (300, 72, 1100), ("n", "k")),
    "two waves, iterations of three": (BLOCKS, "tile=256x64x128, unroll=3", (300, 72, 1024), ("n", "k")),
    "three waves": (BLOCKS, "tile=192x64x128, warpgroups=1, unroll=2, stages=2", (300, 72, 1024), ("n", "k")),
    "scales by threads": (FINE, "tile=128x64x128, scale_path=thread", (140, 72, 900), ("n", "k")),
    "columns of scales": (COLUMNS, "tile=128x64x128, stages=3", (140, 72, 640), ("n", "k")),
    "both by windows": (FINE, "tile=128x64x128, stages=3", (140, 72, 1024), ("n", "k")),
    "parts": (BLOCKS, "tile=64x64x128, split=3", (140, 72, 1152), ("n", "k")),
    "all at once": (ROWS, "tile=128x64x128", (140, 72, 640), ("n", "k")),
    "by turns": (BLOCKS, "tile=64x64x128, consumers=pingpong, stages=3", (161, 72, 640), ("n", "k")),
    "by turns, windows": (
        BLOCKS, "tile=128x64x128, consumers=pingpong, stages=4, cluster=1x1", (300, 72, 1536), ("n", "k")),
}  # fmt: skip


def run(case: tuple[str, str, tuple[int, int, int], tuple[str, ...]], field: str, times: int, sms: int) -> None:
    source, schedule, (m, n, k), fixed = case
    dims = {"m": m, "n": n, "k": k}
    ran = run_on(f"{source} with {field}, {schedule}", dims, fixed, m + k, 5e-6, times=times, sms=sms)
    assert field in ran.kernel.spec.schedule


@pytest.mark.once(touches=lambda case: fields(TURNS[case]))
@pytest.mark.parametrize("case", TURNS)
def test_turns(case: str) -> None:
    run(TURNS[case], "consumers=pingpong", times=2, sms=MORE_AT_ONCE.get(case, AT_ONCE))


@pytest.mark.once(touches=lambda case: fields(PARTIALS[case]))
@pytest.mark.parametrize("case", PARTIALS)
def test_partials(case: str) -> None:
    run(PARTIALS[case], "partials=2", times=1, sms=AT_ONCE)


@pytest.mark.once("dims", "field")
@pytest.mark.parametrize("field", ["consumers=pingpong", "partials=2"])
@pytest.mark.parametrize(
    "dims", [{"m": 321, "n": 256, "k": 256}, {"m": 200, "n": 168, "k": 384}], ids=["whole", "tails"]
)
def test_quantised(dims: dict[str, int], field: str) -> None:
    program = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)"
    run_quantised(program, "mxfp8", dims, ("n", "k"), 3, "sm_90a", f"{field}, tile=128x64x128")


def test_a_warpgroup_waits_for_barriers_of_its_own() -> None:
    """A full barrier for each stage and warpgroup, an empty one for each stage, which one warpgroup hands back."""
    schedule = "consumers=pingpong, tile=64x64x128, cluster=1x2, stages=4"
    kernel = scalec.compile(f"{BLOCKS} with {schedule}", target="sm_90a", dims={"n": 256, "k": 512})
    counts = re.findall(r"mbarrier\.init\.shared\.b64 \t\[[^\]]*\], (%r\d+)", kernel.ptx)
    values = dict(re.findall(r"mov\.b32 \t(%r\d+), (\d+);", kernel.ptx))
    assert [values[c] for c in counts] == ["1"] * 8 + ["8"] * 4


def test_products_are_issued_before_the_sums_before_them_are_promoted() -> None:
    """K of three blocks and no loop: 1 2 w 3 w w, where w waits for all but the last product issued, then for all."""
    kernel = scalec.compile(
        f"{BLOCKS} with partials=2, tile=128x64x128, unroll=4", target="sm_90a", dims={"n": 256, "k": 384}
    )
    steps = re.findall(r"wgmma\.(commit_group|wait_group\.sync\.aligned \d)", kernel.ptx)
    issued, waits = "commit_group", "wait_group.sync.aligned "
    assert steps == [issued, issued, waits + "1", issued, waits + "1", waits + "0"]
