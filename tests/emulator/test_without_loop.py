"""All K blocks of a tile in a row, on the emulator: right, complete and without a finding, in CTAs of several tiles."""

from __future__ import annotations

import re

import pytest

import scalec
from tests.emulator.quantised import run_quantised
from tests.emulator.running import run_on
from tests.tiers import fields

BLOCKS = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
UNIFORM = BLOCKS.replace("1x128", "128x128", 1)
ADDED = BLOCKS.replace("] =", "]:f32 +=")
ROWS = "C[m,n] = A[m,k]@B[n,k] scale(1xk,1xk)"
BIAS = "C[m,n] = gelu(A[m,k]@B[n,k] scale(1x128,128x128) + bias[n]) + R[m,n]"

# program, schedule, (m, n, k), K blocks; two CTAs run at once
CASES: dict[str, tuple[str, str, tuple[int, int, int], int]] = {
    "four": (BLOCKS, "tile=128x64x128, cluster=2x1", (400, 136, 512), 4),
    "the last one short": (BLOCKS, "tile=128x64x128, cluster=1x1", (350, 136, 400), 4),
    "three": (BLOCKS, "tile=128x64x128, cluster=1x2", (350, 136, 384), 3),
    "more stages than blocks": (BLOCKS, "tile=128x32x128, cluster=1x1, stages=6", (350, 72, 256), 2),
    "goes": (BLOCKS, "tile=128x96x128, mma_n=48, cluster=1x1", (200, 200, 512), 4),
    "six": (BLOCKS, "tile=64x64x128, cluster=1x1", (200, 72, 768), 6),
    "no scale along K": (ROWS, "tile=128x64x128, cluster=1x1", (350, 72, 512), 4),
    "epilogue that reads": (BIAS, "tile=128x64x128, cluster=1x1", (350, 72, 512), 4),
    "f32 by panels": (ADDED, "tile=128x96x128, cluster=1x1, adds=memory", (350, 136, 512), 4),
    "waves that are staged one by one": (
        UNIFORM, "tile=256x32x128, consumers=pingpong, early_wait=0, cluster=1x2", (300, 104, 384), 3),
}  # fmt: skip

PRODUCTS = {"goes": 2, "waves that are staged one by one": 4}
"""Of a K block, of a warpgroup."""


@pytest.mark.once(touches=lambda case: fields(CASES[case]))
@pytest.mark.parametrize("case", CASES)
def test_without_a_loop(case: str) -> None:
    source, schedule, (m, n, k), blocks = CASES[case]
    ran = run_on(
        f"{source} with {schedule}, unroll={blocks}", {"m": m, "n": n, "k": k}, ("n", "k"), m + k, 5e-6, times=2, sms=2
    )
    assert ran.kernel.ptx.count("wgmma.mma_async") == 4 * blocks * PRODUCTS.get(case, 1)
    assert loops(ran.kernel.ptx) == 1  # over the tiles


def loops(ptx: str) -> int:
    """Loops around a wgmma: labels before one that something behind it jumps to."""
    labels = {found[1]: found.start() for found in re.finditer(r"^(\$L\w+):", ptx, re.MULTILINE)}
    jumps = [(labels[found[1]], found.start(), found[1]) for found in re.finditer(r"bra(?:\.uni)? \t?(\$L\w+);", ptx)]
    return len({label for to, at, label in jumps if "wgmma.mma_async" in ptx[to:at]})


def test_quantised() -> None:
    program = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)"
    ran = run_quantised(
        program, "mxfp8", {"m": 200, "n": 192, "k": 512}, ("n", "k"), 3, "sm_90a", "tile=128x64x128, unroll=4"
    )
    assert "unroll=4" in ran.spec.schedule


@pytest.mark.parametrize(("k", "products"), [(512, 16), (640, 12)])
def test_a_loop_beyond_four_blocks(k: int, products: int) -> None:
    """Four wgmma for each K block: of all of four, or of two in an iteration and the one that is left."""
    kernel = scalec.compile(f"{BLOCKS} with tile=128x128x128, cluster=1x1", target="sm_90a", dims={"n": 7168, "k": k})
    assert kernel.ptx.count("wgmma.mma_async") == products
    assert loops(kernel.ptx) == (1 if k == 512 else 3)
