"""Two warpgroups on sm_100a that share the accumulators in tensor memory: every kind of program, quantised results,
parts of K, pairs of CTAs and either scheduler."""

from __future__ import annotations

import re

import pytest

import scalec
from scalec.compiler import decide
from scalec.errors import ScheduleError
from tests.emulator.quantised import run_quantised
from tests.emulator.running import Ran, by_turns, k_of, limit, refusals, run_on
from tests.emulator.sm100_programs import PROGRAMS

TARGET = "sm_100a"

# tiles that halves of whole stmatrix do not share are widened
NAMES = {name: re.sub(r"tile=128x(48|80)x", "tile=128x96x", source) for name, source in PROGRAMS.items()}

# (m, n, bytes of a row, dims fixed at compile time) by seed: the second warpgroup without columns, tails of every kind,
# more tiles than CTAs
SIZES = [
    (5, 3, 20, ()),
    (130, 72, 256, ("m", "n", "k")),
    (300, 264, 64, ("n", "k")),
    (33, 77, 132, ()),
    (140, 40, 384, ("k",)),
    (129, 65, 96, ("n", "k")),
    (1, 8, 150, ("n", "k")),
    (65, 136, 288, ("n", "k")),
]


def run(source: str, schedule: str, dims: dict[str, int], fixed: tuple[str, ...], seed: int, wide: float = 0) -> Ran:
    join = ", " if " with " in source else " with "
    ran = run_on(
        f"{source}{join}warpgroups=2{schedule}", dims, fixed, seed, wide or limit(source), target=TARGET,
        times=1 if seed % 4 else 2,
    )  # fmt: skip
    schedule = ran.kernel.spec.schedule
    assert "warpgroups=2," in schedule
    assert "warps=4x2" in schedule
    return ran


@pytest.mark.once("seed")
@pytest.mark.parametrize(("name", "seed"), by_turns(NAMES, len(SIZES)))
def test_program(name: str, seed: int) -> None:
    m, n, row, fixed = SIZES[seed]
    ran = run(NAMES[name], "", {"m": m, "n": n, "k": k_of(NAMES[name], row)}, fixed, seed)
    assert ran.stats.counts["bank conflicts"] == 0


BF16 = "C[m,n] = A[m,k] @ B[n,k]"
F32 = "C[m,n]:f32 = A[m,k] @ B[n,k]"
BLOCKS = "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,128x128)"
WINDOWS = "C[m,n] = A[m,k]@B[n,k] scale(1x128,1x128)"
NVFP4 = "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4"

SCHEDULES = {
    "the widest": (BF16, "tile=128x256x64, cta_group=1", (300, 520, 192)),
    "three parts each": (BF16, "tile=128x192x64", (140, 392, 192)),
    "the narrowest": (F32, "tile=128x32x64", (300, 72, 192)),
    "halves of 48 columns": (BF16, "tile=128x96x64, staged=1", (140, 200, 192)),
    "stored from registers": (BF16, "tile=128x128x64, epilogue=direct", (140, 200, 192)),
    "f32 by copies, added in memory": (F32.replace("=", "+=", 1), "tile=128x128x64, epilogue=bulk", (140, 200, 192)),
    "swapped": (BF16, "tile=128x64x64, swap=1", (40, 300, 192)),
    "pairs": (BF16, "tile=128x256x64, cta_group=2", (530, 520, 192)),
    "dynamic": (F32, "tile=128x32x64, scheduler=dynamic, cluster=1x2", (700, 136, 64)),
    "dynamic, pairs": (BLOCKS, "tile=128x128x128, scheduler=dynamic, cta_group=2", (700, 264, 256)),
    "parts of K": (BF16, "tile=128x128x64, split=3", (140, 200, 320)),
    "parts of K, staged": (NVFP4, "tile=128x192x256, split=2, epilogue=bulk", (140, 200, 1056)),
    "parts of K, promoted": (BLOCKS, "tile=128x64x128, split=3", (140, 136, 1000)),
    "parts of K, dynamic": (F32, "tile=128x64x64, split=2, scheduler=dynamic", (530, 136, 256)),
    "promoted, 256 columns": (BLOCKS, "tile=128x256x128", (300, 520, 512)),
    "promoted, windows": (WINDOWS, "tile=128x192x128, scale_path=bulk", (140, 392, 1024)),
    "promoted, by threads, pairs": (WINDOWS, "tile=128x256x128, scale_path=thread, cta_group=2", (300, 520, 512)),
    "a warp that copies scales": (NVFP4, "tile=128x192x256, scale_copier=1, scale_path=thread", (300, 392, 1056)),
    "a warp that copies tiles of scales": (
        "C[m,n] = A[m,k]:mxfp4 @ B[n,k]:mxfp4", "tile=128x256x256, scale_copier=1, cta_group=2", (300, 520, 544)),
}  # fmt: skip
USUAL = {"stored from registers", "swapped", "pairs", "dynamic", "parts of K", "promoted, windows"}


@pytest.mark.once(touches=lambda name, seed: {name} & USUAL)
@pytest.mark.parametrize(("name", "seed"), by_turns(SCHEDULES, 4))
def test_schedule(name: str, seed: int) -> None:
    source, schedule, (m, n, k) = SCHEDULES[name]
    wide = 3e-6 if "split" in schedule or "C[m,n] =" in source else limit(source)
    ran = run(source, f", {schedule}", {"m": m, "n": n, "k": k}, ("n", "k"), seed, wide)
    assert all(field in ran.kernel.spec.schedule for field in schedule.split(", ")), ran.kernel.spec.schedule


@pytest.mark.once("dims")
@pytest.mark.parametrize(
    ("program", "result", "schedule"),
    [
        ("D[m,n]{} = A[m,k] @ B[n,k]", "mxfp8", "tile=128x128x64"),
        ("D[m,n]{} = A[m,k] @ B[n,k]", "e4m3 scale(1x32:ue8m0@packed)", "tile=128x64x64, epilogue=direct"),
        ("D[m,n]{} = A[m,k] @ B[n,k]", "e4m3 scale(1x32:ue8m0@blocked)", "tile=128x192x64, cta_group=2"),
        ("D[m,n]{} = A[m,k] @ B[n,k]", "fp8_block", "tile=128x256x64"),
        ("D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)", "mxfp8", "tile=128x64x128"),
        ("D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)", "mxfp8", "tile=128x192x128"),
        ("D[m,n]{} = A[m,k]:nvfp4 @ B[n,k]:nvfp4", "nvfp4", "tile=128x256x256"),
        ("D[m,n]{} = relu(A[m,k] @ B[n,k] + bias[n])", "nvfp4", "tile=128x64x64, split=2"),
    ],
)
@pytest.mark.parametrize("dims", [{"m": 136, "n": 384, "k": 256}, {"m": 72, "n": 176, "k": 384}])
def test_quantised(program: str, result: str, schedule: str, dims: dict[str, int]) -> None:
    kernel = run_quantised(program, result, dims, ("n", "k"), 3, TARGET, f"{schedule}, warpgroups=2")
    assert "warpgroups=2" in kernel.spec.schedule


@pytest.mark.thorough
def test_blocks_as_wide_as_a_warpgroups_columns_are_promoted() -> None:
    """Where N is no multiple of them, ptxas 13.5 spills a register of this tile."""
    program, dims = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)", {"m": 136, "n": 384, "k": 256}
    kernel = run_quantised(program, "fp8_block", dims, ("n", "k"), 3, TARGET, "tile=128x256x128, warpgroups=2")
    assert "warpgroups=2" in kernel.spec.schedule


def test_sums_for_more_than_a_threads_registers_are_shared() -> None:
    """The rule: one warpgroup, unless a thread of it would hold more sums than it has registers for."""
    dims = {"n": 7168, "k": 2048}
    for tile, wanted in {"128x256x128": 2, "128x160x128": 2, "128x128x128": 1}.items():
        assert f"warpgroups={wanted}, " in str(decide(f"{BLOCKS} with tile={tile}", TARGET, dims)[0])
    assert "warpgroups=1, " in str(decide(BF16, TARGET, dims)[0])


REFUSED = {
    "warpgroups=3": "3 warpgroups, and sums in tensor memory are for 1 or 2",
    "warpgroups=2, tile=128x48x64": "a tile of columns that 2 warpgroups cannot share by 16\n.*\n.*tile N = 64",
    "warpgroups=2, tile=128x16x64": "a tile of columns that 2 warpgroups cannot share by 16",
    "warpgroups=2, warps=8x1, tile=128x64x64": "warps = 8x1, and each warp .*a quarter of the rows.*\n.*expected: 4x2",
    "warpgroups=1, warps=4x2, tile=128x64x64": "warps = 4x2, and each warp .*a quarter of the rows.*\n.*expected: 4x1",
    "warpgroups=2, registers=240x240, tile=128x64x64": "240 and 2 x 240 registers a thread are 92160 a CTA",
}


test_refused = refusals(REFUSED.items(), ScheduleError, TARGET, {"n": 264, "k": 192}, within=BF16 + " with {}")


@pytest.mark.parametrize(("result", "tile"), [("fp8_block", "128x128x64"), ("e4m3 scale(1x64)", "128x192x64")])
def test_blocks_beyond_a_warps_columns_are_refused(result: str, tile: str) -> None:
    source = f"D[m,n]:{result} = A[m,k] @ B[n,k] with warpgroups=2, tile={tile}"
    with pytest.raises(ScheduleError, match=r"a tile of .*columns for 2 warps: D_scale has one for each"):
        scalec.compile(source, target=TARGET, dims={"n": 384, "k": 192})
