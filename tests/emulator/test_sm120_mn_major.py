"""Operands with M or N contiguous on sm_120a: right, complete, without a finding and without a bank conflict."""

from __future__ import annotations

import pytest

from tests.emulator.running import by_turns, run_on
from tests.emulator.test_several_results import run as gated
from tests.emulator.test_sm100_mn_major import STORED, product

TYPES = ["bf16", "f16", "tf32", "e4m3"]
DEEP = {"bf16": 176, "f16": 176, "tf32": 80, "e4m3": 336}
"""A K of two or three K tiles, the last not whole."""

# m, n, k; the tails of k end within a K tile, those of m and n within a panel
TAILS = [(72, 136, 80), (136, 144, 208), (16, 128, 176)]


def run(source: str, dims: tuple[int, int, int], seed: int, limit: float, fixed: tuple[str, ...] = ("n", "k")) -> None:
    m, n, k = dims
    stats = run_on(source, {"m": m, "n": n, "k": k}, fixed, seed, limit, target="sm_120a").stats
    assert stats.counts["shared wavefronts"] > 0
    assert stats.counts["bank conflicts"] == 0


@pytest.mark.once("stored", "element", "seed")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("stored", STORED)
def test_types(stored: str, element: str, seed: int) -> None:
    run(f"C[m,n]:f32 = {product(stored, element)}", TAILS[seed], seed, 1e-9, ("n", "k") if seed else ())


@pytest.mark.once("stored", "element", "warps")
@pytest.mark.parametrize("warps", ["2x4", "4x2"])
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("stored", STORED)
def test_bf16_results_of_both_arrangements_of_warps(stored: str, element: str, warps: str) -> None:
    run(f"C[m,n] = {product(stored, element)} with warps={warps}", (134, 136, DEEP[element]), 4, 3e-6)


# widths of panels, by warps that begin within one, at one, or across several; K tiles of any depth where both are so
@pytest.mark.once("element", "schedule")
@pytest.mark.parametrize(
    "schedule",
    [
        "tile=128x64x{0}, swizzle_a=64, swizzle_b=32",
        "tile=64x128x{0}, swizzle_a=32, swizzle_b=64",
        "tile=96x128x{0}, warps=2x4",
        "tile=64x192x{0}, warps=4x2",
        "tile=32x64x{1}, stages=2",
        "tile=64x64x{2}, stages=6",
        "tile=64x64x{3}, stages=3, order=m",
    ],
)
@pytest.mark.parametrize(("element", "k"), [("bf16", 16), ("tf32", 8), ("e4m3", 32)])
def test_panels(element: str, k: int, schedule: str) -> None:
    tiles = (4 * k, 8 * k, 2 * k, 6 * k)
    run(f"C[m,n]:f32 = {product('both', element)} with {schedule.format(*tiles)}", (112, 208, DEEP[element]), 5, 1e-9)


@pytest.mark.once
@pytest.mark.parametrize("element", ["bf16", "tf32", "e4m3"])
def test_few_rows_are_columns_of_the_transposed_result(element: str) -> None:
    run(f"C[m,n]:f32 = {product('B', element)} with swap=1", (16, 136, DEEP[element]), 6, 1e-9)


@pytest.mark.once("seed")
@pytest.mark.parametrize(
    "scales",
    [
        "scale(32x1:ue8m0, 32x1:ue8m0)",
        "scale(32x1:ue8m0@col, 128x1:ue8m0@col)",
        "scale(64x8:ue8m0, none)",
        "scale(128x1, 128x128)",
        "scale(128x1@col, 128x1)",
        "scale(128x16, 32x1:ue8m0@col)",
        "scale(kx1, kx8)",
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_scales(scales: str, seed: int) -> None:
    dims = ((72, 144, 256), (136, 160, 400))[seed]
    run(f"C[m,n]:f32 = {product('both', 'e4m3', 'e5m2')} {scales}", dims, seed, 1e-9, ("n", "k") if seed else ())


@pytest.mark.once("stored", "a", "b")
@pytest.mark.parametrize(("a", "b"), [("e4m3", "e2m1"), ("e2m1", "e4m3"), ("e3m2", "e2m3"), ("e5m2", "e3m2")])
@pytest.mark.parametrize("stored", STORED)
def test_padded(stored: str, a: str, b: str) -> None:
    run(f"C[m,n]:f32 = {product(stored, a, b)}", (256, 128, 384), 7, 1e-9)


PACKED = {
    "A": ("A[k,m]:e2m1 @ B[n,k]:e2m1", (0,)),
    "B": ("A[m,k]:e2m1 @ B[k,n]:e2m1", (1,)),
    "both": ("A[k,m]:e2m1 @ B[k,n]:e2m1", (0, 1)),
}


@pytest.mark.once("case", "seed")
@pytest.mark.parametrize(("case", "seed"), by_turns([f"{s}, {k}" for s in PACKED for k in ("ue8m0", "ue4m3")], 8))
def test_4_bit_elements_are_packed_on_the_way(case: str, seed: int) -> None:
    """Blocks of two and four times the instruction's at half of the seeds. The other operand is K-major too: a wrong
    order of K within a block changes no sum where both have it."""
    stored, kind = case.split(", ")
    block = (32 if kind == "ue8m0" else 16) << (seed % 4 if seed % 2 == 0 else 0)
    product, turned = PACKED[stored]
    layout = "@col" if seed % 2 else ""
    sides = [f"{block}x1:{kind}{layout}" if i in turned else f"1x{block}:{kind}" for i in range(2)]
    m, n, k = (128, 128, 256 + 64 * (seed % 3)) if seed < 6 else (256, 128, 128)
    fixed = ("n", "k") if seed else ()
    run(f"C[m,n]:f32 = {product} scale({', '.join(sides)})", (m, n, k), seed, 1e-9, fixed)


@pytest.mark.once("stored", "schedule")
@pytest.mark.parametrize("schedule", ["warps=4x2", "stages=2", "unroll=1"])
@pytest.mark.parametrize("stored", PACKED)
def test_schedules_of_4_bit_elements(stored: str, schedule: str) -> None:
    run(f"C[m,n] = {PACKED[stored][0]} with {schedule}", (256, 256, 352), 3, 3e-6)


def test_fused() -> None:
    run("C[m,n] += relu(A[k,m] @ B[k,n] + bias[n]) * 0.5", (72, 264, 336), 8, 5e-6)
    run("C[m,n] = alpha * gelu(A[m,k] @ B[k,n]) + R[m,n]", (72, 264, 336), 9, 5e-6)


@pytest.mark.parametrize("element", ["e4m3", "i8"])
def test_warps_of_gated_layers_have_columns_in_panels(element: str) -> None:
    """Of two contractions, of rows of 32 bytes at least: of fewer warps along N."""
    product = f"X[m,k]:{element} @ {{}}[k,n]:{element}"
    source = f"G[m,n] = {product.format('V')}; H[m,n]:f32 = silu(G) * ({product.format('W')})"
    gated(source, "sm_120a", {"m": 40, "n": 160, "k": 200}, "k" if element == "i8" else "")
