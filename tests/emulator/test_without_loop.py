"""All K blocks of a tile in a row, on the emulator: right, complete and without a finding, in CTAs of several tiles."""

from __future__ import annotations

import pytest

import scalec
from tests.emulator.quantised import run_quantised
from tests.emulator.running import run_on

BLOCKS = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
ROWS = "C[m,n] = A[m,k]@B[n,k] scale(1xk,1xk)"
BIAS = "C[m,n] = gelu(A[m,k]@B[n,k] scale(1x128,128x128) + bias[n]) + R[m,n]"

# program, schedule, (m, n, k), K blocks; four CTAs run at once
CASES: dict[str, tuple[str, str, tuple[int, int, int], int]] = {
    "four": (BLOCKS, "tile=128x64x128, cluster=2x1", (700, 136, 512), 4),
    "the last one short": (BLOCKS, "tile=128x64x128, cluster=1x1", (700, 136, 400), 4),
    "three": (BLOCKS, "tile=128x64x128, cluster=1x2", (700, 136, 384), 3),
    "more stages than blocks": (BLOCKS, "tile=128x32x128, cluster=1x1, stages=6", (700, 136, 256), 2),
    "goes": (BLOCKS, "tile=128x96x128, mma_n=48, cluster=1x1", (400, 296, 512), 4),
    "six": (BLOCKS, "tile=64x64x128, cluster=1x1", (400, 72, 768), 6),
    "no scale along K": (ROWS, "tile=128x64x128, cluster=1x1", (700, 136, 512), 4),
    "epilogue that reads": (BIAS, "tile=128x64x128, cluster=1x1", (400, 136, 512), 4),
}

PRODUCTS = {"goes": 2}
"""Of a K block, of a warpgroup."""


@pytest.mark.parametrize("case", CASES)
def test_without_a_loop(case: str) -> None:
    source, schedule, (m, n, k), blocks = CASES[case]
    ran = run_on(
        f"{source} with {schedule}, unroll={blocks}", {"m": m, "n": n, "k": k}, ("n", "k"), m + k, 5e-6, times=2
    )
    loops = ran.kernel.ptx.count("wgmma.mma_async") // (4 * blocks)
    assert loops == PRODUCTS.get(case, 1)


def test_quantised() -> None:
    program = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)"
    ran = run_quantised(
        program, "mxfp8", {"m": 300, "n": 320, "k": 512}, ("n", "k"), 3, "sm_90a", "tile=128x64x128, unroll=4"
    )
    assert "unroll=4" in ran.spec.schedule


@pytest.mark.parametrize(("k", "products"), [(512, 16), (640, 12)])
def test_a_loop_beyond_four_blocks(k: int, products: int) -> None:
    """Four wgmma for each K block: of all of four, or of two in an iteration and the one that is left."""
    kernel = scalec.compile(f"{BLOCKS} with tile=128x128x128, cluster=1x1", target="sm_90a", dims={"n": 7168, "k": k})
    assert kernel.ptx.count("wgmma.mma_async") == products
