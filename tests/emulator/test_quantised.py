"""Quantised results on every target: what is stored is, bit for bit, the reference's quantising of the f32 result."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.compiler import decide
from scalec.errors import ScheduleError
from scalec.formats import ELEMENT_TYPES
from scalec.frontend import build
from scalec.ir import context
from scalec.reference.quantize import quantize
from tests.emulator.quantised import codes, compile_, launch, parsed, run_quantised, same
from tests.emulator.running import by_turns

BF16 = "D[m,n]{} = A[m,k] @ B[n,k]"
FP8 = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)"
POSITIVE = "D[m,n]{} = max(A[m,k] @ B[n,k], 0.5)"  # of columns beyond n it is no zero
BIAS = "D[m,n]{} = relu(A[m,k] @ B[n,k] + bias[n])"
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
    "i8": ("D[m,n]{} = gelu(A[m,k]:i8 @ B[n,k]:i8 scale(1xk,1xk))", "i8 scale(1x64)"),
}
BLACKWELL = {"mxfp8 of mxfp8": (MXFP8, "mxfp8"), "nvfp4 of nvfp4": (NVFP4, "nvfp4")}

CASES = [
    *((target, name) for target in ("sm_90a", "sm_100a", "sm_120a") for name in EVERYWHERE),
    *((target, name) for target in ("sm_100a", "sm_120a") for name in BLACKWELL),
]

# whole tiles and bulk stores; tails in m, n and k, and rows of results that no bulk store takes
SIZES = [{"m": 40, "n": 256, "k": 256}, {"m": 72, "n": 168, "k": 192}]


@pytest.mark.once("target", "name", "dims")
@pytest.mark.parametrize("dims", SIZES, ids=["whole", "tails"])
@pytest.mark.parametrize(("target", "name"), CASES)
def test_bits(target: str, name: str, dims: dict[str, int]) -> None:
    program, result = {**EVERYWHERE, **BLACKWELL}[name]
    if "nvfp4" in program:  # rows of whole 16-byte units
        dims = {**dims, "k": -(-dims["k"] // 128) * 128}
    run_quantised(program, result, dims, ("n", "k"), seed=5, target=target, times=1 if dims["m"] == 40 else 2)


@pytest.mark.once("target", "result", "n")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize(
    ("result", "n"), [("mxfp8", 24), ("mxfp8", 1), ("nvfp4", 6), ("e4m3 scale(1x128:ue8m0@blocked)", 31)]
)
def test_a_block_of_more_columns_than_are_known(target: str, result: str, n: int) -> None:
    run_quantised(BF16, result, {"m": 9, "n": n, "k": 64}, ("n", "k"), seed=5, target=target, times=1)


@pytest.mark.once("target", "program")
@pytest.mark.parametrize("n", [1, 100, 128, 136, 192])
@pytest.mark.parametrize("program", [BF16, FP8, BIAS])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_whole_rows(target: str, program: str, n: int) -> None:
    """One scale a row, of which a tile has all; columns behind the last one count as nothing."""
    result = {100: "e5m2 scale(1xn:ue8m0)", 136: "e2m1 scale(1xn@col)"}.get(n, "e4m3 scale(1xn)")
    settings = "promote=64" if target == "sm_100a" and n > 128 and program != FP8 else ""  # for the f32 result too
    run_quantised(program, result, {"m": 70, "n": n, "k": 128}, ("n", "k"), 5, target, settings, times=1)


@pytest.mark.once("settings")
@pytest.mark.parametrize(
    ("target", "settings"),
    [("sm_90a", "swap=1"), ("sm_90a", "split=2"), ("sm_100a", "cta_group=2, cluster=2x1"), ("sm_120a", "warps=1x8")],
)
def test_whole_rows_by_other_schedules(target: str, settings: str) -> None:
    run_quantised(BF16, "e4m3 scale(1xn)", {"m": 70, "n": 128, "k": 256}, ("n", "k"), 5, target, settings, times=1)


@pytest.mark.once("target", "result")
@pytest.mark.parametrize(("result", "n"), [("e4m3 scale(1x24)", 240), ("e5m2 scale(1x40:ue8m0@packed)", 200)])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_blocks_of_no_power_of_two(target: str, result: str, n: int) -> None:
    settings = "promote=64" if target == "sm_100a" else ""  # what is chosen for the f32 result too, bit for bit
    kernel = run_quantised(BF16, result, {"m": 9, "n": n, "k": 128}, ("n", "k"), 5, target, settings, times=1)
    alone = scalec.compile(BF16.format(":" + result), target=target, dims={"n": n, "k": 128})
    assert alone.spec.schedule == kernel.spec.schedule


@pytest.mark.once("target", "result")
@pytest.mark.parametrize("result", ["e2m1 scale(1x16:ue4m3)", "e4m3 scale(1x16:ue4m3)"])
@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
def test_scales_at_ties_and_beside_them(target: str, result: str) -> None:
    """Largest magnitudes whose quotients lie halfway between two of e4m3's numbers, and their neighbours: each row's
    scale, with which sums of 1 are multiplied."""
    element, g, _ = parsed(result)
    normal = np.ldexp(np.arange(17, 32, 2) / 16, [[e] for e in (-6, -3, 0, 3)]).ravel()
    ties = np.concatenate([(np.arange(8) + 0.5) * 2.0**-9, normal]) * ELEMENT_TYPES[element].max
    bits = ties.astype(np.float32).view(np.uint32)[:, None] + np.arange(-1, 2)
    amax = bits.astype(np.uint32).view(np.float32).ravel()
    program, dims = "D[m,n]:{} = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1xk,1xk)", {"m": len(amax), "n": 32, "k": 128}
    with context.context():
        values = dict(reference.make(build(program.format("f32"), dims), dims, seed=3))
    for name in "AB":
        values[name][:] = 0
        values[name][:, 0] = 1
    values["A_scale"][:, 0], values["B_scale"][:, 0] = amax, 1
    (_, scales), _ = launch(compile_(program.format(result), target, dims, ("n", "k")), target, values, dims, 5)
    wanted = quantize(np.repeat(amax[:, None], 32, axis=1), element, [g])
    same(codes(scales), codes(wanted.scales[0]), "scales")


@pytest.mark.once("target", "kind")
@pytest.mark.parametrize("kind", ["ue8m0", "f32"])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_a_scale_of_the_whole_result(target: str, kind: str) -> None:
    """Beside scales with the exponents of f32: five times a block of zeros' reciprocal, 2^127, is no f32."""
    result = f"e4m3 scale(1x32:{kind}*tensor)"
    run_quantised(BF16, result, {"m": 40, "n": 96, "k": 64}, ("n", "k"), seed=3, target=target, times=1)


@pytest.mark.once("result", "whole")
@pytest.mark.parametrize("whole", [-0.2, 2.0**-126, -(2.0**-126)])
@pytest.mark.parametrize("result", ["nvfp4", "e4m3 scale(1x32:ue8m0*tensor)"])
def test_scales_of_the_whole_that_are_none(result: str, whole: float) -> None:
    """Values take the sign of a negative one; with one that is too small they are the largest, and zeros."""
    run_quantised(BF16, result, {"m": 24, "n": 64, "k": 64}, ("n", "k"), 3, "sm_90a", times=1, whole=whole)


@pytest.mark.once
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_sizes_that_are_not_known(target: str, seed: int) -> None:
    dims = {"m": 1 + 23 * seed, "n": 16 * (2 + 3 * seed), "k": 64 * (1 + seed % 3)}
    result = ["mxfp8", "e4m3 scale(1x32:ue8m0@packed)", "e4m3 scale(1x32:ue8m0@blocked)", "nvfp4"][seed % 4]
    run_quantised(BIAS, result, dims, (), seed=seed, target=target)


@pytest.mark.once("target", "n", "fixed", "layout")
@pytest.mark.parametrize("layout", ["packed", "blocked"])
@pytest.mark.parametrize(("n", "fixed"), [(160, ("n", "k")), (168, ("n", "k")), (160, ())])
@pytest.mark.parametrize(
    ("target", "tile"), [("sm_90a", "128x128x64"), ("sm_90a", "64x64x64"), ("sm_120a", "128x128x64")]
)
def test_scales_of_no_block_are_zeros(target: str, tile: str, n: int, fixed: tuple[str, ...], layout: str) -> None:
    """Five or six blocks in words of four: what fills the last word up, stored with the block before it or alone."""
    result, dims = f"e4m3 scale(1x32:ue8m0@{layout})", {"m": 72, "n": n, "k": 64}
    run_quantised(POSITIVE, result, dims, fixed, 2, target, f"tile={tile}", times=1)


# few rows are the columns of a tile, whose rows a block runs along: what result, on which targets a warp has its rows
SWAPPED = {
    "mxfp8": (FP8, "mxfp8", ("sm_90a", "sm_100a", "sm_120a")),
    "mxfp8, packed": (POSITIVE, "e4m3 scale(1x32:ue8m0@packed)", ("sm_90a", "sm_100a", "sm_120a")),
    "mxfp8 of mxfp8": (MXFP8, "mxfp8_e5m2", ("sm_100a", "sm_120a")),
    "mxfp4, blocked": (BIAS, "e2m1 scale(1x32:ue8m0@blocked)", ("sm_100a", "sm_120a")),
    "nvfp4": (BIAS, "nvfp4", ("sm_90a", "sm_100a", "sm_120a")),
    "nvfp4, blocked": (BF16, "e2m1 scale(1x16:ue4m3@blocked)", ("sm_90a", "sm_100a", "sm_120a")),
    "f32 by columns": (POSITIVE, "e4m3 scale(1x16@col)", ("sm_90a", "sm_100a", "sm_120a")),
    "nvfp4 of nvfp4": (NVFP4, "nvfp4", ("sm_100a", "sm_120a")),
}


@pytest.mark.once(touches=lambda case, seed: case[:1])
@pytest.mark.parametrize(
    ("case", "seed"), by_turns([(target, name) for name, (*_, targets) in SWAPPED.items() for target in targets], 8)
)
def test_blocks_along_the_rows_of_a_tile(case: tuple[str, str], seed: int) -> None:
    target, (program, result, _) = case[0], SWAPPED[case[1]]
    dims = {"m": 1 + 5 * seed, "n": 32 * (1 + 2 * (seed % 3)) + (16, 8, 0, 2)[seed % 4], "k": 64 * (1 + seed % 2)}
    if "nvfp4" in program or "mxfp8" in program:
        dims["k"] = 128 * (1 + seed % 2)
    fixed = ((), ("n", "k"), ("n",), ("m", "n", "k"))[seed % 4] if "nvfp4" not in program else ("n", "k")
    kernel = run_quantised(program, result, dims, fixed, seed, target, "swap=1")
    assert kernel.spec.schedule.startswith("swap=1")


@pytest.mark.once
@pytest.mark.parametrize(
    ("target", "result", "settings"),
    [
        ("sm_90a", "nvfp4", "swap=1, tile=256x32x64, warpgroups=2"),  # two waves of each warpgroup
        ("sm_90a", "e5m2 scale(1x16:ue8m0@packed)", "swap=1, tile=64x64x64, split=2"),
        ("sm_90a", "fp8_block", "swap=1, tile=256x32x64, warpgroups=2"),  # both waves, or both warpgroups, share blocks
        ("sm_90a", "fp8_block", "swap=1, tile=128x16x64, warpgroups=2, cluster=1x1"),
        ("sm_90a", "fp8_block", "swap=1, tile=128x48x64, warpgroups=1"),
        ("sm_90a", "mxfp8", "swap=1, tile=64x16x64, split=3, cluster=1x1"),
        ("sm_90a", "nvfp4", "swap=1, tile=64x8x64, split=3, cluster=2x1"),
        ("sm_90a", "fp8_block", "swap=1, tile=128x8x64, warpgroups=2"),
        ("sm_90a", "e4m3 scale(1x48:ue8m0)", "swap=1, tile=192x16x64, warpgroups=1"),  # three warps of any two waves
        ("sm_90a", "e4m3 scale(1x64)", "swap=1, tile=192x32x64, warpgroups=3, cluster=1x1"),  # those of a warpgroup
        ("sm_90a", "e2m1 scale(1x32:ue8m0@blocked)", "swap=1, tile=192x32x64, warpgroups=3"),
        ("sm_100a", "mxfp8", "swap=1, tile=128x96x64"),  # columns in parts
        ("sm_100a", "mxfp4", "swap=1, tile=128x32x64, split=2"),
        ("sm_100a", "mxfp8", "swap=1, tile=128x64x64, cta_group=2, cluster=2x1"),
        ("sm_120a", "mxfp8", "swap=1, tile=64x64x64, warps=1x4, split=2"),
    ],
)
def test_schedules_of_such_blocks(target: str, result: str, settings: str) -> None:
    run_quantised(BIAS, result, {"m": 72, "n": 272, "k": 192}, ("n", "k"), 3, target, settings)


@pytest.mark.assembled
def test_many_rows_that_are_columns_of_narrow_tiles() -> None:
    """With M and N not known: of 128 sums, each of a column of its own, a thread would spill some."""
    made = compile_("D[m,n]:e4m3 scale(1x16:ue4m3) = A[m,k] @ B[n,k] with swap=1", "sm_90a", {}, ())
    assert not made.spec.dropped, made.spec.dropped


def test_chosen_where_few_rows_are_the_columns_of_a_tile() -> None:
    source = "D[m,n]:{} = A[m,k] @ B[n,k]"
    for target, result, swap in (
        ("sm_100a", "mxfp8", 1), ("sm_100a", "nvfp4", 1), ("sm_120a", "nvfp4", 1),
        ("sm_120a", "mxfp8", 0), ("sm_100a", "fp8_block", 0), ("sm_90a", "mxfp8", 1), ("sm_90a", "fp8_block", 1),
    ):  # fmt: skip
        made, _ = decide(source.format(result), target, {"m": 16, "n": 7168, "k": 2048})
        assert str(made).startswith(f"swap={swap}"), (target, result)


@pytest.mark.parametrize(
    ("target", "result", "settings", "message"),
    [
        (
            "sm_90a",
            "fp8_block",
            "swap=1, tile=64x16x64",
            "rows that are no multiple of 128(.|\n)*fix: tile M = 128, or swap=0",
        ),
        ("sm_90a", "mxfp8", "swap=1, tile=128x128x64, warpgroups=2, consumers=pingpong", "find the scales of 32 rows"),
        ("sm_100a", "fp8_block", "swap=1", "for each 128 columns.* a warp has 32 adjacent ones"),
        ("sm_100a", "e4m3 scale(1x24)", "swap=1", "rows that are no multiple of 24"),
        ("sm_120a", "mxfp8", "swap=1, tile=64x64x64, warps=4x2", "a tile of 64 rows for 4 warps: D_scale"),
    ],
)
def test_blocks_of_more_rows_than_a_warp_has(target: str, result: str, settings: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message) as refusal:
        compile_(f"D[m,n]:{result} = A[m,k] @ B[n,k] with {settings}", target, {"n": 384, "k": 256}, ("n", "k"))
    assert refusal.value.fix


@pytest.mark.once
@pytest.mark.parametrize(
    ("target", "program", "result", "settings"),
    [
        ("sm_90a", FP8, "mxfp8", "tile=256x128x128, cluster=2x1"),
        ("sm_90a", BF16, "fp8_block", "tile=128x256x64, epilogue=direct"),
        ("sm_90a", FP8, "mxfp8", "tile=64x64x128, split=2"),
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
