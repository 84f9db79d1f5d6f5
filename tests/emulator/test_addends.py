"""Elements of 4 bits that are multiplied as two e4m3 each, of which their product with a scale is the sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.errors import ScheduleError
from scalec.runtime.emulated import EmulatedDevice
from tests.emulator.running import refusals
from tests.emulator.test_converted import pack
from tests.emulator.test_several_results import run

PROGRAM = "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:nvfp4 scale(1x128)"
WEIGHTS_FIRST = "C[n,m]:f32 = B[n,k]:nvfp4 @ A[m,k]:e4m3 scale(1x128)"
FORMS = {
    "results": "C[m,n] = A[m,k]:e4m3 @ B[n,k]:nvfp4 scale(1x128)",
    "blocked": "C[m,n] += A[m,k]:e4m3 @ B[n,k]:e2m1 scale(1x128, 1x16:ue4m3@blocked)",
    "blocks of 32": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(128x128, 1x32:ue4m3)",
    "no other scale": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(none, 1x16:ue4m3)",
    "tiled": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(1x128, 8x16:ue4m3)",
    "mxfp8": "C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:nvfp4",
    "batches": "C[b,m,n]:f32 = A[b,m,k]:e4m3 @ B[b,n,k]:nvfp4 scale(1x128)",
    "groups": "C[m,n]:f32 = A[m,k]:e4m3 @ B[g,n,k]:nvfp4 scale(1x128) for m in off[g]:off[g+1]",
    "quantised": "C[m,n]:mxfp8 = A[m,k]:e4m3 @ B[n,k]:nvfp4 scale(1x128)",
}
SCHEDULES = [
    "tile=64x16x128, stages=2",
    "tile=128x24x128, split=2, parts=cluster",
    "tile=192x64x128",
    "tile=256x48x128, cluster=1x2",
    "tile=256x24x128, stages=3",
    "tile=128x64x128, mma_n=32",
    "tile=64x8x64, promote=64",
]
E4M3, E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn

EDGES = (0, 1, 7, 8, 0x1F, 0x20, 0x38, 0x66, 0x67, 0x7E, 0x7F, 0x80, 0x81, 0x9F, 0xA0, 0xB8, 0xFE, 0xFF)
"""Scale bytes at the ends of what addends are made of: zeros, subnormal, low, ordinary ones, and NaN, of both signs."""


def made(program: str, codes: np.ndarray, scales: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """[tokens, weights], of weights' codes and scale bytes, and e4m3 tokens whose scales are 1."""
    kernel = scalec.compile(program, target="sm_90a")
    kernel.fixed = EmulatedDevice("sm_90a")
    left = tokens.astype(E4M3), np.ones((len(tokens), tokens.shape[1] // 128), np.float32)
    right: list[Any] = [pack(codes), scales.view(E4M3), np.ones((), np.float32)]
    if program.startswith("C[n,m]"):
        return np.asarray(kernel(right[0], left[0], *right[1:], left[1])).T
    return np.asarray(kernel(left[0], right[0], left[1], *right[1:]))


def values(codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """What weights stand for."""
    with np.errstate(all="ignore"):
        return codes.view(E2M1).astype(np.float64) * np.repeat(scales.view(E4M3).astype(np.float64), 16, axis=1)


def of_kinds(kinds: Sequence[tuple[int, int]], count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes and scales of weights, and tokens, of nine K blocks with `count` scales each, each of one of the kinds."""
    drawn = np.random.default_rng(seed)
    blocks = [drawn.integers(*kinds[drawn.integers(len(kinds))], (70, count), np.uint8) for _ in range(9)]
    codes = drawn.integers(0, 16, (70, 9 * 128), np.uint8)
    return codes, np.concatenate(blocks, axis=1), drawn.integers(-8, 9, (9, 9 * 128)).astype(np.float32)


def sums_are_close(found: np.ndarray, tokens: np.ndarray, weights: np.ndarray) -> None:
    tokens = tokens.astype(np.float64)
    assert (np.abs(found - tokens @ weights.T) <= 2.0**-11 * (np.abs(tokens) @ np.abs(weights).T)).all()


def forms(programs: Mapping[str, str]) -> Callable[..., None]:
    """A test of programs, with sizes that are known and without."""

    @pytest.mark.once
    @pytest.mark.parametrize("known", ["nk", ""])
    @pytest.mark.parametrize("name", programs)
    def test_forms(name: str, known: str) -> None:
        dims = {"m": 24, "n": 80, "k": 416} | {x: 3 for x in "bg" if f"[{x}," in programs[name]}
        kernel, _ = run(f"{programs[name]} with convert=addends", "sm_90a", dims, known)
        assert "convert=addends" in kernel.spec.schedule

    return test_forms


def schedules(program: str, every: Sequence[str]) -> Callable[..., None]:
    """A test of a program with each of these."""

    @pytest.mark.once
    @pytest.mark.parametrize("schedule", every)
    def test_schedules(schedule: str) -> None:
        run(f"{program} with convert=addends, {schedule}", "sm_90a", {"m": 40, "n": 80, "k": 416}, "nk")

    return test_schedules


@pytest.mark.once
@pytest.mark.parametrize("beside", [0x38, 0x10, 0x03])
@pytest.mark.parametrize(
    ("program", "scales"), [(PROGRAM, EDGES), pytest.param(WEIGHTS_FIRST, range(256), marks=pytest.mark.thorough)]
)
def test_every_scale_times_every_element(program: str, scales: Any, beside: int) -> None:
    """A row for each byte of a scale, beside a scale that is ordinary, low or small; a column for each element."""
    rows = np.array(scales, np.uint8)
    codes, bytes_ = np.zeros((len(rows), 256), np.uint8), np.full((len(rows), 16), beside, np.uint8)
    codes[:, 16:32], bytes_[:, 1] = np.arange(16), rows
    tokens = np.zeros((16, 256), np.float32)
    tokens[:, 16:32] = np.eye(16)
    found = made(f"{program} with convert=addends", codes, bytes_, tokens)
    np.testing.assert_array_equal(found, values(codes, bytes_)[:, 16:32].T)


@pytest.mark.once
@pytest.mark.parametrize("seed", [0, *(pytest.param(x, marks=pytest.mark.thorough) for x in range(1, 8))])
def test_blocks_of_unlike_scales(seed: int) -> None:
    """K blocks whose scales are ordinary, low, small, or all of these, in any order: sums are told anew each time."""
    codes, scales, tokens = of_kinds([(0x20, 0x7E), (0x08, 0x66), (0x00, 0x20), (0x00, 0x7E)], 8, seed)
    sums_are_close(made(f"{PROGRAM} with convert=addends", codes, scales, tokens), tokens, values(codes, scales))


@pytest.mark.once
@pytest.mark.parametrize("tile", ["64x8x128", "128x8x128"])
def test_low_scales_are_multiplied_again_in_one_block(tile: str) -> None:
    """As all are alike; also where a warp that brings scales has no rows."""
    counts = {}
    for name, scale in (("ordinary", 0x38), ("low", 0x10)):
        kernel = scalec.compile(f"{PROGRAM} with convert=addends, swap=1, tile={tile}", target="sm_90a")
        kernel.fixed = device = EmulatedDevice("sm_90a")
        codes, scales = np.full((128, 1024), 2, np.uint8), np.full((128, 64), scale, np.uint8)
        ones = np.ones((8, 8), np.float32)
        args = np.ones((8, 1024), E4M3), pack(codes), ones, scales.view(E4M3), np.ones((), np.float32)
        assert (np.asarray(kernel(*args)) == 1024 * np.uint8(scale).view(E4M3).astype(np.float32)).all()
        assert device.stats is not None
        counts[name] = device.stats.counts["wgmma"]
    blocks = 1024 // 128
    assert counts["low"] * blocks == counts["ordinary"] * (blocks + 1)


test_forms = forms(FORMS)
test_schedules = schedules(PROGRAM, SCHEDULES)


def test_a_row_beside_others_where_that_must_not_matter() -> None:
    """Its scales are low, theirs ordinary, so that its addends would be others than those of it alone."""
    program = "C[m,n]:f32 = A[m,k]:nvfp4 @ B[n,k]:e4m3 scale(1x128) with invariant"
    kernel = scalec.compile(program, target="sm_90a", dims={"n": 64, "k": 512})
    kernel.fixed = EmulatedDevice("sm_90a")
    drawn = np.random.default_rng(1)
    codes, scales = drawn.integers(0, 16, (40, 512), np.uint8), drawn.integers(0x20, 0x7E, (40, 32), np.uint8)
    scales[0] = drawn.integers(0x08, 0x66, 32, np.uint8)
    other, factors = drawn.normal(size=(64, 512)).astype(E4M3), drawn.random((64, 4)).astype(np.float32)

    def first(rows: int) -> bytes:
        args = pack(codes[:rows]), other, scales[:rows].view(E4M3), np.ones((), np.float32), factors
        return np.asarray(kernel(*args))[0].tobytes()

    assert first(1) == first(40)


def test_three_warpgroups() -> None:
    """Producers of scales keep registers for what they look for in these: with 32 they spilled."""
    kernel = scalec.compile(
        f"{PROGRAM} with convert=addends, tile=192x64x128", target="sm_90a", dims={"n": 4096, "k": 512}
    )
    assert "warpgroups=3" in kernel.spec.schedule


test_refused = refusals(
    [
        (f"{PROGRAM} with convert=addends, swap=0", "wgmma takes its left operand alone from registers"),
        (f"{PROGRAM} with convert=addends", "no instruction that takes one operand from registers", "sm_100a"),
        ("C[m,n] = A[m,k]:bf16 @ B[n,k]:mxfp4 with convert=addends", "no product of sm_90a"),
        ("C[m,n] = A[i[m],k]:bf16 @ B[n,k]:nvfp4 with convert=addends", "no product of sm_90a"),
        (f"{PROGRAM} with convert=addends, tile=64x16x32", "not whole words of 4"),
    ],
    ScheduleError,
)


def test_the_way_out_of_a_tile_keeps_the_addends() -> None:
    """Without `swap` the operand that is converted is the right one."""
    program = "C[m,n]:fp8_block = A[m,k]:e4m3 @ B[n,k]:nvfp4 scale(1x128) with convert=addends, tile={}x160x128"
    with pytest.raises(ScheduleError, match="no multiple of 128") as error:
        scalec.compile(program.format(64), target="sm_90a", dims={"n": 2048, "k": 512})
    assert error.value.fix == "tile M = 128"
    scalec.compile(program.format(128), target="sm_90a", dims={"n": 2048, "k": 512})


def test_sums_that_are_not_promoted() -> None:
    program = "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(none, 1x16:ue4m3) with convert=addends, promote=0"
    with pytest.raises(ScheduleError, match="sums are not promoted"):
        scalec.compile(program, target="sm_90a", dims={"k": 128})
