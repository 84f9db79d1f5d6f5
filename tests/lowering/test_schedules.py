"""ptxas over a grid of schedules: each must assemble without a spill or a remark. No GPU is needed."""

from __future__ import annotations

import re

import pytest

from scalec.compiler import compile_source
from scalec.errors import ScheduleError
from scalec.ir.schedule import parse_field

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
BF16 = "C[m,n] = A[m,k]@B[n,k]"
BIAS = "C[m,n] = gelu(A[m,k]@B[n,k] scale(1x128,128x128) + bias[n])"
ROWS = "C[m,n] = A[m,k]@B[n,k] scale(1xk,1xk)"
BOTH = "C[m,n] = A[m,k]@B[n,k] scale(1x128,1x128)"
MXFP8 = "D[m,n]:mxfp8 = A[m,k]@B[n,k] scale(1x128,128x128)"
DIMS = {"m": 4096, "n": 7168, "k": 2048}

GOAL = {"n": 2112, "k": 7168}

GRID: list[tuple[str, dict[str, int], dict[str, str]]] = [
    (FP8, DIMS, {"tile": "64x64x128", "cluster": "1x1", "stages": "2"}),
    (FP8, DIMS, {"tile": "64x128x128", "cluster": "2x1", "stages": "8"}),
    (FP8, DIMS, {"tile": "128x64x128", "cluster": "2x1", "stages": "7"}),
    (FP8, DIMS, {"tile": "128x128x128", "cluster": "1x2", "stages": "4"}),
    (FP8, DIMS, {"tile": "192x128x128", "cluster": "1x2", "stages": "3"}),
    (FP8, DIMS, {"tile": "256x128x128", "cluster": "1x2", "stages": "3"}),
    (FP8, DIMS, {"tile": "256x128x128", "cluster": "1x1", "stages": "4", "epilogue": "direct"}),
    (FP8, {}, {"tile": "128x128x128"}),
    (FP8, {"n": 7168, "k": 7168}, {"tile": "192x128x128"}),
    (FP8.replace("C[m,n]", "C[m,n]:f32"), DIMS, {"tile": "128x128x128", "stages": "6"}),
    (FP8.replace("C[m,n]", "C[m,n]:f16"), DIMS, {"tile": "64x128x128", "cluster": "1x1", "stages": "5"}),
    (FP8.replace("A[m,k]", "A[m,k]:e5m2"), DIMS, {"tile": "128x64x128"}),
    (FP8.replace("1x128,", "1x128:f32@col,"), DIMS, {"tile": "128x128x128"}),
    (BOTH, DIMS, {"tile": "64x128x128"}),
    (ROWS, DIMS, {"tile": "128x128x128"}),
    (BIAS, DIMS, {"tile": "64x64x128", "cluster": "1x1"}),
    (FP8, {"m": 100, "n": 136, "k": 2000}, {"tile": "64x64x128"}),
    (BF16, DIMS, {"tile": "128x128x64", "stages": "5"}),
    (BF16, {}, {"tile": "64x128x64"}),
    (FP8, {"k": 100}, {"tile": "128x128x128"}),
    (BF16, {"k": 7169}, {"tile": "128x128x64", "unroll": "1"}),
    (
        BF16.replace("A[m,k]", "A[m,k]:f16").replace("B[n,k]", "B[n,k]:f16"),
        DIMS,
        {"tile": "64x64x64", "cluster": "2x1"},
    ),
    (BF16.replace("=", "+="), {"m": 100, "n": 1000, "k": 72}, {"tile": "64x64x64"}),
    (FP8, DIMS, {"consumers": "pingpong", "tile": "128x128x128", "cluster": "1x2"}),
    (FP8, {}, {"consumers": "pingpong", "tile": "64x128x128", "cluster": "2x1"}),
    (MXFP8, {"m": 4096, "n": 32768, "k": 512}, {"consumers": "pingpong", "tile": "128x128x128"}),
    (BOTH, DIMS, {"consumers": "pingpong", "tile": "64x64x128", "warpgroups": "3"}),
    (BF16, DIMS, {"consumers": "pingpong", "tile": "128x192x64"}),
    (BF16, DIMS, {"consumers": "pingpong", "tile": "64x256x64"}),
    (ROWS, DIMS, {"consumers": "pingpong", "tile": "128x128x128"}),
    (FP8, GOAL, {"tile": "192x176x128", "cluster": "1x2", "mma_n": "88"}),
    (FP8, GOAL, {"tile": "192x160x128", "cluster": "1x2", "mma_n": "80"}),
    (FP8, GOAL, {"tile": "256x160x128", "cluster": "1x2", "mma_n": "80"}),
    (FP8, GOAL, {"tile": "128x256x128", "cluster": "1x2", "mma_n": "128"}),
    (FP8, GOAL, {"tile": "256x144x128", "cluster": "1x2", "mma_n": "72"}),
    (FP8, GOAL, {"tile": "256x136x128", "cluster": "1x2", "mma_n": "136"}),
    (FP8, {}, {"tile": "192x160x128", "mma_n": "80"}),
    (BOTH, DIMS, {"tile": "192x160x128", "mma_n": "80"}),
    (ROWS, DIMS, {"tile": "192x176x128", "mma_n": "88"}),
]


@pytest.mark.once("source", touches=lambda schedule, **_: schedule)
@pytest.mark.parametrize(
    ("source", "dims", "schedule"), GRID, ids=lambda x: x if isinstance(x, str) else ",".join(map(str, x.values()))
)
def test_assembles(source: str, dims: dict[str, int], schedule: dict[str, str]) -> None:
    made = compile_source(source, dims=dims, schedule=schedule)
    assert made.cubin
    assert made.cubin[:4] == b"\x7fELF"
    assert 0 < made.registers <= 255
    assert {name: getattr(made.schedule, name) for name in schedule} == {
        name: parse_field(name, value) for name, value in schedule.items()
    }


@pytest.mark.parametrize(
    ("source", "schedule", "message"),
    [
        (FP8, {"tile": "256x256x128"}, "about 416 registers: 256 accumulators, 128 partial sums, 32 for the rest"),
        (FP8, {"tile": "256x128x128", "stages": "5"}, r"needs \d{6} bytes of shared memory and sm_90a has 232448"),
        (FP8, {"tile": "256x128x128", "stages": "5", "epilogue": "direct"}, r"fix: fewer stages, or a smaller tile$"),
        (BF16, {"tile": "256x256x256", "epilogue": "direct"}, r"fix: a smaller tile$"),
        (FP8, {"cluster": "4x4"}, "a cluster of 4x4 is 16 CTAs\n  expected: at most 8 on sm_90a"),
        (BF16, {"tile": "100x128x64"}, r"tile M = 100 is not a multiple of 64"),
    ],
)  # fmt: skip
def test_the_impossible_is_refused_with_numbers(source: str, schedule: dict[str, str], message: str) -> None:
    with pytest.raises(ScheduleError) as refusal:
        compile_source(source, dims=DIMS, schedule=schedule)
    assert re.search(message, str(refusal.value)), str(refusal.value)
