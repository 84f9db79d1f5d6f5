"""Operands with M or N contiguous on sm_90a, which wgmma reads so in 16 bits, and tf32, which it does not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.running import Ran, run_on
from tests.emulator.test_groups import Device
from tests.emulator.test_several_results import run as of_groups
from tests.tiers import fields

STORED = {"A": "A[k,m]{0} @ B[n,k]{0}", "B": "A[m,k]{0} @ B[k,n]{0}", "both": "A[k,m]{0} @ B[k,n]{0}"}

# m, n, k: tails of m and n within a panel and a tile, those of k within a K tile and within an instruction
TAILS = [(72, 136, 80), (136, 144, 203), (200, 264, 176), (1, 8, 1), (8, 100, 33)]


def run(source: str, dims: tuple[int, int, int], seed: int, limit: float, fixed: tuple[str, ...] = ("n", "k")) -> Ran:
    m, n, k = dims
    return run_on(source, {"m": m, "n": n, "k": k}, fixed, seed, limit, target="sm_90a")


@pytest.mark.once("stored", "element", "seed")
@pytest.mark.parametrize(("element", "seed"), [*(("bf16", seed) for seed in range(len(TAILS))), ("f16", 1)])
@pytest.mark.parametrize("stored", STORED)
def test_types(stored: str, element: str, seed: int) -> None:
    source = f"C[m,n]:f32 = {STORED[stored].format(':' + element)}"
    run(source, TAILS[seed], seed, 1e-9, ("n", "k") if seed % 2 else ())


@pytest.mark.once("seed")
@pytest.mark.parametrize("seed", range(len(TAILS)))
def test_tf32(seed: int) -> None:
    run("C[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:tf32", TAILS[seed], seed, 1e-9, ("n", "k") if seed % 2 else ())


# panels of each width, one of them and several; waves and warpgroups, whose rows begin at panels of their own; CTAs
# that share copies, whose shared addresses have their rank above 14 bits
@pytest.mark.once(touches=lambda schedule: fields(schedule))
@pytest.mark.parametrize(
    "schedule",
    [
        "tile=64x64x64, swizzle_a=64, swizzle_b=32, warpgroups=1",
        "tile=128x256x32, swizzle_a=32, swizzle_b=64, warpgroups=2, stages=2",
        "tile=256x128x64, warpgroups=2, cluster=2x1",
        "tile=192x96x48, warpgroups=3, cluster=1x2",
        "tile=128x128x128, swizzle_a=128, swizzle_b=128, stages=2, consumers=pingpong, warpgroups=2",
        "tile=64x32x16, cluster=1x1, split=2, parts=memory",
        "tile=64x64x64, cluster=2x1, split=2, parts=cluster",
        "tile=128x144x64, swizzle_b=32, unroll=2",
        "tile=64x64x64, swap=1",
    ],
)
def test_schedules(schedule: str) -> None:
    run(f"C[m,n]:f32 = {STORED['both'].format('')} with {schedule}", (200, 176, 176), 5, 1e-9)


@pytest.mark.parametrize(
    ("source", "dims"),
    [
        ("Z[b,h,d] = X[b,h,r]:bf16 @ Y[h,r,d]:bf16", {"b": 5, "h": 3, "r": 70, "d": 72}),
        ("D[m,n]:f16 = gelu(A[k,m] @ B[k,n] + b[n])", {"m": 72, "n": 128, "k": 77}),
    ],
)
def test_programs(source: str, dims: dict[str, int]) -> None:
    run_on(source, dims, tuple(dims)[1:], 4, 3e-6, target="sm_90a")


@pytest.mark.parametrize(
    ("source", "dims"),
    [
        ("C[g,m,n]:f32 = A[m,k]:tf32 @ B[n,k]:tf32 for k in off[g]:off[g+1]", {"m": 72, "n": 72, "k": 203, "g": 4}),
        ("C[m,n]:f32 = A[m,k] @ B[g,k,n] for m in off[g]:off[g+1]", {"m": 203, "n": 72, "k": 70, "g": 4}),
        ("C[m,n]:f32 = A[m,k]:tf32 @ B[g,n,k]:tf32 for m in off[g]:off[g+1]", {"m": 203, "n": 72, "k": 70, "g": 4}),
    ],
)
def test_groups(source: str, dims: dict[str, int]) -> None:
    """Ranges that begin and end anywhere, one of them empty."""
    made = Device("sm_90a", source, dims, ("n",))
    made.values["off"] = np.array([0, 67, 67, 131, 203], np.int32)
    made.upload()
    got, written = made.run()
    value, points = made.expected()
    assert np.array_equal(written, points)
    assert np.array_equal(got[points], value[points])


RANGE = "for k in off[g]:off[g+1]"


@pytest.mark.once("element")
@pytest.mark.parametrize("element", ["e4m3", "i8", "tf32"])
@pytest.mark.parametrize("stored", ["m,k k,n", "k,m k,n"])
def test_ranges_of_k_cut_each_contraction(stored: str, element: str) -> None:
    """Where warps turn operands, those of a gated layer lie one behind the other."""
    left, right = stored.split()
    product = f"X[{left}]:{element} @ {{}}[{right}]:{element} {RANGE}"
    source = f"G[g,m,n] = {product.format('V')}; U[g,m,n] = {product.format('W')}; H[g,m,n]:f32 = silu(G) * U"
    of_groups(source, "sm_90a", {"m": 24, "n": 72, "k": 203, "g": 3}, "k" if element == "i8" else "")
