"""Elements of 4 bits times powers of two that are multiplied as one e4m3 each, over a power of two of each K block."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.runtime.emulated import EmulatedDevice
from tests.emulator.test_addends import forms, of_kinds, schedules, sums_are_close
from tests.emulator.test_converted import pack

PROGRAM = "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:mxfp4 scale(1x128)"
WEIGHTS_FIRST = "C[n,m]:f32 = B[n,k]:mxfp4 @ A[m,k]:e4m3 scale(1x128)"
FORMS = {
    "results": "C[m,n] = A[m,k]:e4m3 @ B[n,k]:mxfp4 scale(1x128)",
    "blocked": "C[m,n] += A[m,k]:e4m3 @ B[n,k]:e2m1 scale(1x128, 1x32:ue8m0@blocked)",
    "packed": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(128x128, 1x32:ue8m0@packed)",
    "no other scale": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(none, 1x32:ue8m0)",
    "tiled": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(1x128, 8x32:ue8m0)",
    "batches": "C[b,m,n]:f32 = A[b,m,k]:e4m3 @ B[b,n,k]:mxfp4 scale(1x128)",
    "groups": "C[m,n]:f32 = A[m,k]:e4m3 @ B[g,n,k]:mxfp4 scale(1x128) for m in off[g]:off[g+1]",
    "quantised": "C[m,n]:mxfp8 = A[m,k]:e4m3 @ B[n,k]:mxfp4 scale(1x128)",
}
SCHEDULES = [
    "tile=64x16x128, stages=2",
    "tile=128x24x128, split=2, parts=cluster",
    "tile=192x64x128",
    "tile=256x64x128, cluster=1x2",
    "tile=128x64x128, mma_n=32",
    "tile=64x16x128, consumers=pingpong",
]
E4M3, E2M1, UE8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu


def made(program: str, codes: np.ndarray, scales: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """[tokens, weights], of weights' codes and scale bytes, and e4m3 tokens whose scales are 1."""
    kernel = scalec.compile(program, target="sm_90a")
    kernel.fixed = EmulatedDevice("sm_90a")
    left = tokens.astype(E4M3), np.ones((len(tokens), tokens.shape[1] // 128), np.float32)
    right: tuple[Any, ...] = pack(codes), scales.view(UE8M0)
    if program.startswith("C[n,m]"):
        return np.asarray(kernel(right[0], left[0], right[1], left[1])).T
    return np.asarray(kernel(left[0], right[0], left[1], right[1]))


def values(codes: np.ndarray, scales: np.ndarray, block: int = 32) -> np.ndarray:
    """What weights stand for."""
    with np.errstate(all="ignore"):
        return codes.view(E2M1).astype(np.float64) * np.repeat(scales.view(UE8M0).astype(np.float64), block, axis=1)


@pytest.mark.once
@pytest.mark.parametrize("beside", [0, 100, 120, 250])
@pytest.mark.parametrize("program", [PROGRAM, pytest.param(WEIGHTS_FIRST, marks=pytest.mark.thorough)])
def test_every_scale_times_every_element(program: str, beside: int) -> None:
    """A row for each byte of a scale, each in a tile whose other rows have scales that are alike, in reach or not."""
    rows = np.arange(256, dtype=np.uint8)
    codes, bytes_ = np.zeros((256, 256), np.uint8), np.full((256, 8), beside, np.uint8)
    codes[:, 32:48], bytes_[:, 1] = np.arange(16), rows
    tokens = np.zeros((16, 256), np.float32)
    tokens[:, 32:48] = np.eye(16)
    found = made(f"{program} with convert=addends", codes, bytes_, tokens)
    with np.errstate(over="ignore"):
        wanted = values(codes, bytes_)[:, 32:48].T.astype(np.float32)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.once
@pytest.mark.parametrize("first", [0, 5, 90, 116, 122, 225])
def test_scales_in_reach_are_multiplied_once(first: int) -> None:
    """Twelve powers of two that follow each other, of which each row has four, in K blocks of one kind or mixed."""
    drawn, counts = np.random.default_rng(first), []
    for beyond in (0, 1):  # one more than twelve
        scales = drawn.integers(first, first + 12, (128, 16)).astype(np.uint8)
        scales[3, 2], scales[70, 1] = first, first + 11 + beyond
        codes, tokens = drawn.integers(0, 16, (128, 512), np.uint8), drawn.integers(-8, 9, (9, 512))
        kernel = scalec.compile(f"{PROGRAM} with convert=addends, swap=1, tile=128x16x128", target="sm_90a")
        kernel.fixed = device = EmulatedDevice("sm_90a")
        ones = np.ones((9, 4), np.float32)
        found = np.asarray(kernel(tokens.astype(E4M3), pack(codes), ones, scales.view(UE8M0)))
        sums_are_close(found, tokens, values(codes, scales))
        assert device.stats is not None
        counts.append(device.stats.counts["wgmma"])
    assert counts[1] == 2 * counts[0]  # of four K blocks one, each 32 of K by themselves


@pytest.mark.once
@pytest.mark.parametrize("seed", [0, *(pytest.param(x, marks=pytest.mark.thorough) for x in range(1, 8))])
def test_blocks_of_unlike_scales(seed: int) -> None:
    """K blocks whose scales are alike, elsewhere alike, or anything that products of f32 hold, in any order."""
    codes, scales, tokens = of_kinds([(116, 128), (100, 112), (112, 124), (60, 180)], 4, seed)
    sums_are_close(made(f"{PROGRAM} with convert=addends", codes, scales, tokens), tokens, values(codes, scales))


@pytest.mark.once
@pytest.mark.parametrize("tile", ["64x72x128", "64x16x128, promote=32", "64x16x128"])
def test_scales_of_half_of_what_an_instruction_multiplies(tile: str) -> None:
    """Out of reach of each other: of each instruction's 32 of K one half counts at a time."""
    drawn = np.random.default_rng(2)
    scales, codes = drawn.integers(60, 160, (40, 16), np.uint8), drawn.integers(0, 16, (40, 256), np.uint8)
    tokens = drawn.integers(-8, 9, (5, 256)).astype(np.float32)
    program = "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(1x128, 1x16:ue8m0)"
    found = made(f"{program} with convert=addends, swap=1, tile={tile}", codes, scales, tokens)
    sums_are_close(found, tokens, values(codes, scales, 16))


test_forms = forms(FORMS)
test_schedules = schedules(PROGRAM, SCHEDULES)
