"""Columns of a wave that are multiplied and promoted in several goes, on the emulator: right, complete and without a
finding, with tails, and with tiles that begin anywhere in a block of scales."""

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
NARROW = "C[m,n] = A[m,k]@B[n,k] scale(1x128,32x128)"
BOTH = "C[m,n] = A[m,k]@B[n,k] scale(128x128,128x128)"
WHOLE = "C[m,n] = A[m,k]@B[n,k] scale(1x128,nx128)"
BIAS = "C[m,n] = gelu(A[m,k]@B[n,k] scale(1x128,128x128) + bias[n]) + R[m,n]"

# program, schedule, (m, n, k), sizes that are known; four CTAs run at once
CASES: dict[str, tuple[str, str, tuple[int, int, int], tuple[str, ...]]] = {
    "three goes": (BLOCKS, "tile=64x48x128, mma_n=16, cluster=1x1", (70, 296, 384), ("n", "k")),
    "three blocks": (BLOCKS, "tile=128x176x128, mma_n=88, cluster=1x1", (260, 1000, 384), ("n", "k")),
    "two waves": (BLOCKS, "tile=128x112x128, mma_n=56, warpgroups=1, cluster=2x1", (260, 400, 384), ("n", "k")),
    "three warpgroups": (BLOCKS, "tile=192x176x128, mma_n=88", (200, 720, 640), ("n", "k")),
    "steps of eight columns": (BLOCKS, "tile=64x136x128, mma_n=136, cluster=1x1", (70, 1000, 256), ("n", "k")),
    "a go as wide as the blocks": (BLOCKS, "tile=64x256x128, mma_n=128, cluster=1x2", (70, 512, 256), ("n", "k")),
    "goes within a block": (BLOCKS, "tile=64x128x128, mma_n=32, unroll=2", (70, 264, 640), ("n", "k")),
    "one K block": (BLOCKS, "tile=64x80x128, mma_n=40, promote=128, stages=2", (70, 168, 100), ("n", "k")),
    "sizes that are not known": (BLOCKS, "tile=64x80x128, mma_n=40, stages=3", (70, 328, 640), ()),
    "partial sums overwritten often": (BLOCKS, "tile=128x256x128, mma_n=8", (128, 256, 512), ("n", "k")),
    "narrow blocks": (NARROW, "tile=64x80x128, mma_n=40", (70, 328, 256), ("n", "k")),
    "blocks of both": (BOTH, "tile=128x80x128, mma_n=40", (300, 328, 256), ("n", "k")),
    "one block": (WHOLE, "tile=64x80x128, mma_n=40", (70, 328, 256), ("n", "k")),
    "scales by threads": (FINE, "tile=64x80x128, mma_n=40, scale_path=thread", (70, 168, 640), ("n", "k")),
    "columns of scales": (COLUMNS, "tile=128x80x128, mma_n=16, stages=5", (132, 168, 640), ("n", "k")),
    "both by windows": (FINE, "tile=128x80x128, mma_n=40, warpgroups=1", (140, 168, 1024), ("n", "k")),
    "no scale along K": (ROWS, "tile=64x80x128, mma_n=40", (70, 168, 640), ("n", "k")),
    "epilogue that reads": (BIAS, "tile=64x80x128, mma_n=40, early_wait=1", (70, 168, 640), ("n", "k")),
    "by turns": (BLOCKS, "tile=64x80x128, mma_n=40, consumers=pingpong", (321, 168, 640), ("n", "k")),
    "parts": (BLOCKS, "tile=64x80x128, mma_n=40, split=3", (70, 168, 1152), ("n", "k")),
    "transposed": (BLOCKS, "swap=1, tile=64x48x128, mma_n=24", (90, 328, 384), ("n", "k")),
}  # fmt: skip


@pytest.mark.once(touches=lambda case: fields(CASES[case]))
@pytest.mark.parametrize("case", CASES)
def test_mma_n(case: str) -> None:
    source, schedule, (m, n, k), fixed = CASES[case]
    ran = run_on(f"{source} with {schedule}", {"m": m, "n": n, "k": k}, fixed, m + k, 5e-6, times=1)
    assert re.findall(r"mma_n=\d+", ran.kernel.spec.schedule) == re.findall(r"mma_n=\d+", schedule)


@pytest.mark.once
@pytest.mark.parametrize(
    ("element", "tile"),
    [("mxfp8", "tile=64x160x128, mma_n=40"), ("fp8_block", "tile=64x256x128, mma_n=128")],
    ids=["goes of 40", "a block each"],
)
def test_quantised(element: str, tile: str) -> None:
    """Columns that copies permute within 16, of which a go may have a half; blocks of a result's scales in two goes."""
    program = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)"
    ran = run_quantised(program, element, {"m": 70, "n": 512, "k": 256}, ("n", "k"), 3, "sm_90a", tile)
    assert "permute_n=16" in ran.spec.schedule


def test_a_go_is_promoted_before_the_next() -> None:
    """Two waves of two goes: each product is of 56 columns, and the stage goes back behind the last one."""
    kernel = scalec.compile(
        f"{BLOCKS} with tile=128x112x128, mma_n=56, warpgroups=1, unroll=1, cluster=1x1",
        target="sm_90a",
        dims={"n": 224, "k": 384},
    )
    steps = re.findall(r"wgmma\.mma_async\S*?\.(m64n\d+)k32|wgmma\.(wait_group)|(mbarrier\.arrive\.shared)", kernel.ptx)
    flat = ["".join(step) for step in steps]
    wave = [*["m64n56"] * 4, "wait_group"]
    first = flat.index("m64n56")
    assert flat[first : first + 21] == [*wave, *wave, *wave, *wave, "mbarrier.arrive.shared"]
