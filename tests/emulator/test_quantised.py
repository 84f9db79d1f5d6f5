"""Quantised results on every target: what is stored is, bit for bit, the reference's quantising of the f32 result."""

from __future__ import annotations

import pytest

from tests.emulator.quantised import run_quantised
from tests.emulator.running import by_turns

BF16 = "D[m,n]{} = A[m,k] @ B[n,k]"
FP8 = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)"
SIGMOID = "D[m,n]{} = sigmoid(A[m,k] @ B[n,k])"  # of columns beyond n it is no zero
BIAS = "D[m,n]{} = gelu(A[m,k] @ B[n,k] + bias[n])"
MXFP8 = "D[m,n]{} = A[m,k]:mxfp8 @ B[n,k]:mxfp8"
NVFP4 = "D[m,n]{} = A[m,k]:nvfp4 @ B[n,k]:nvfp4"

EVERYWHERE = {
    "mxfp8": (FP8, "mxfp8"),
    "mxfp8, blocked": (BF16, "e4m3 scale(1x32:ue8m0@blocked)"),
    "mxfp8, packed": (FP8, "e4m3 scale(1x32:ue8m0@packed)"),
    "mxfp8_e5m2": (BF16, "mxfp8_e5m2"),
    "mxfp4": (BF16, "mxfp4"),
    "nvfp4": (BIAS, "nvfp4"),
    "nvfp4, blocked": (BF16, "e2m1 scale(1x16:ue4m3@blocked)"),
    "fp8_block": (BF16, "fp8_block"),
    "f32 by columns": (BF16, "e4m3 scale(1x64@col)"),
    "ue8m0 by 128": (BIAS, "e5m2 scale(1x128:ue8m0)"),
}
BLACKWELL = {"mxfp8 of mxfp8": (MXFP8, "mxfp8"), "nvfp4 of nvfp4": (NVFP4, "nvfp4")}

CASES = [
    *((target, name) for target in ("sm_90a", "sm_100a", "sm_120a") for name in EVERYWHERE),
    *((target, name) for target in ("sm_100a", "sm_120a") for name in BLACKWELL),
]

# whole tiles and bulk stores; tails in m, n and k, and rows of results that no bulk store takes
SIZES = [{"m": 40, "n": 256, "k": 256}, {"m": 72, "n": 168, "k": 192}]


@pytest.mark.parametrize("dims", SIZES, ids=["whole", "tails"])
@pytest.mark.parametrize(("target", "name"), CASES)
def test_bits(target: str, name: str, dims: dict[str, int]) -> None:
    program, result = {**EVERYWHERE, **BLACKWELL}[name]
    if "nvfp4" in program:  # rows of whole 16-byte units
        dims = {**dims, "k": -(-dims["k"] // 128) * 128}
    run_quantised(program, result, dims, ("n", "k"), seed=len(name), target=target)


@pytest.mark.parametrize(("target", "seed"), by_turns(["sm_90a", "sm_100a", "sm_120a"], 8))
def test_sizes_that_are_not_known(target: str, seed: int) -> None:
    dims = {"m": 1 + 23 * seed, "n": 16 * (2 + 3 * seed), "k": 64 * (1 + seed % 3)}
    result = ["mxfp8", "e4m3 scale(1x32:ue8m0@packed)", "e4m3 scale(1x32:ue8m0@blocked)", "nvfp4"][seed % 4]
    run_quantised(BIAS, result, dims, (), seed=seed, target=target)


@pytest.mark.parametrize("layout", ["packed", "blocked"])
@pytest.mark.parametrize(("n", "fixed"), [(160, ("n", "k")), (168, ("n", "k")), (160, ())])
@pytest.mark.parametrize(
    ("target", "tile"), [("sm_90a", "128x128x64"), ("sm_90a", "64x64x64"), ("sm_120a", "128x128x64")]
)
def test_scales_of_no_block_are_zeros(target: str, tile: str, n: int, fixed: tuple[str, ...], layout: str) -> None:
    """Five or six blocks in words of four: what fills the last word up, stored with the block before it or alone."""
    result, dims = f"e4m3 scale(1x32:ue8m0@{layout})", {"m": 72, "n": n, "k": 64}
    run_quantised(SIGMOID, result, dims, fixed, 2, target, f"tile={tile}")


@pytest.mark.parametrize(
    ("target", "program", "result", "settings"),
    [
        ("sm_90a", FP8, "mxfp8", "tile=256x128x128, cluster=2x1"),
        ("sm_90a", BF16, "fp8_block", "tile=128x256x64, epilogue=direct"),
        ("sm_90a", FP8, "mxfp8", "tile=64x64x128, split=2"),
        ("sm_90a", FP8, "mxfp8", "tile=64x64x128, stream_k=1, cluster=1x1"),
        ("sm_100a", BF16, "fp8_block", "tile=128x256x64"),
        ("sm_100a", FP8, "fp8_block", "tile=128x128x128, epilogue=direct"),
        ("sm_120a", BF16, "mxfp8", "tile=128x128x64, warps=4x2"),
        ("sm_120a", MXFP8, "nvfp4", "tile=64x64x128, split=2"),
        ("sm_120a", FP8, "fp8_block", "tile=64x128x128, warps=2x4"),  # four warps find a scale together
        ("sm_120a", BF16, "e4m3 scale(1x64)", "tile=128x128x64, warps=2x4"),  # two
    ],
)
def test_schedules(target: str, program: str, result: str, settings: str) -> None:
    run_quantised(program, result, {"m": 136, "n": 384, "k": 256}, ("n", "k"), 3, target, settings)
