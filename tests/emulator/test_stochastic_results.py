"""Results of products that are rounded by chance: the bits are those of the same rounding without a product, on every
target, wherever a kernel stores an element from. Sums are of integers, so that they are the reference's, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from tests.emulator.pointwise import TARGETS, Values, bit_equal
from tests.emulator.quantised import changed
from tests.emulator.running import refusals

MNK = {"m": 70, "n": 104, "k": 64}


def integers(values: Values) -> None:
    """Operands and inputs of integers whose sums f32 has and results have not, scales of powers of two; what is an
    index stays."""
    rng = np.random.default_rng(5)
    for name, x in values.items():
        if name.endswith("_scale2"):
            x[...] = 64
        elif name.endswith("_scale"):
            x[...] = rng.choice([0.5, 1, 2], x.shape).astype(x.dtype)
        elif isinstance(x, np.ndarray) and x.dtype != np.int32:
            most = 15 if x.dtype.itemsize == 1 else 127
            x[...] = rng.integers(-most, most + 1, x.shape).astype(x.dtype)


def equal(source: str, dims: dict[str, int], fixed: str, target: str, **more: Any) -> None:
    bit_equal(source, dims, fixed, target, **{"change": integers, **more})


RESULTS = ["bf16", "f16", "e4m3", "e5m2", "e2m1", "mxfp8", "mxfp8_e5m2", "mxfp4", "nvfp4", "fp8_block"]
RESULTS += ["e4m3 scale(1x64:f32@col)", "e5m2 scale(1x32:ue8m0@blocked)", "e2m1 scale(1x24)"]


USUAL = {"mxfp8", "nvfp4", "scattered in batches", "swap=1", "permute_n=16"}
"""What a usual run has, beside each target."""

SMALL = {"sm_90a": "tile=64x64x64", "sm_100a": "tile=128x64x64", "sm_120a": "tile=64x64x64"}


SMALLER = {"e4m3": 2**10, "e5m2": 2**5, "e2m1": 2**14, "f16": 2}
"""What sums are divided by that are rounded without scales, so that most are below the largest number."""


@pytest.mark.once(touches=lambda result, target, fixed: {target, *({result} & USUAL)})
@pytest.mark.parametrize("fixed", ["nk", ""])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("result", RESULTS)
def test_types(result: str, target: str, fixed: str) -> None:
    dims = MNK if fixed else {"m": 33, "n": 75, "k": 40}
    value = f"A[m,k] @ B[n,k] * {1 / SMALLER.get(result, 1)}"
    tile = f" with {SMALL[target]}" if result not in ("fp8_block", "e2m1 scale(1x24)") else ""
    equal(f"D[m,n]:{result} = stochastic({value}, s[0], s[1]){tile}", dims, fixed, target)


SCALED = "A[m,k] @ B[n,k] scale(1x128, 128x128)"
SCHEDULES = {
    "sm_90a": [
        *("swap=1", "epilogue=direct", "split=2", "split=2, parts=cluster", "consumers=pingpong, tile=64x128x64"),
        *("cluster=2x1", "tile=64x64x64, warpgroups=1"),
    ],
    "sm_100a": ["swap=1", "epilogue=direct", "split=2", "cta_group=2, cluster=2x1", "warpgroups=2"],
    "sm_120a": ["swap=1", "epilogue=direct", "split=2", "warps=1x4", "tile=32x64x64"],
}
SCHEDULED = [(t, s, r) for t, all_ in SCHEDULES.items() for s in all_ for r in ("bf16", "mxfp8", "nvfp4")]
SCHEDULED += [("sm_90a", "swap=1, epilogue=turned", r) for r in ("f16", "mxfp8")]
SCHEDULED += [("sm_90a", "permute_n=16", "mxfp8"), ("sm_90a", "permute_n=32, tile=64x128x128", "nvfp4")]


@pytest.mark.once(touches=lambda target, schedule, result: {schedule} & USUAL)
@pytest.mark.parametrize(("target", "schedule", "result"), SCHEDULED)
def test_schedules(target: str, schedule: str, result: str) -> None:
    product = SCALED if "permute" in schedule else "A[m,k] @ B[n,k]"
    dims = {"m": 70, "n": 128, "k": 256}
    equal(f"D[m,n]:{result} = stochastic({product}, s[0]) with {schedule}", dims, "nk", target)


BMN = {"b": 2, "m": 37, "n": 40, "k": 32}
PROGRAMS = {
    "batches": ("D[b,m,n]:mxfp8 = stochastic(A[b,m,k] @ B[b,n,k], s[0])", BMN, "nk"),
    "a batch within": ("D[m,b,n]:nvfp4 = stochastic(A[m,b,k] @ B[b,n,k], s[0], s[1], s[2])", BMN, "nk"),
    "columns first": ("D[n,m] = stochastic(A[m,k] @ B[n,k] + x[m], s[0])", {"m": 37, "n": 41, "k": 32}, ""),
    "several columns": ("D[m,b,n]:f16 = stochastic(A[m,k] @ B[b,n,k], s[1,0])", BMN, ""),
    "scales": (f"D[m,n]:mxfp8 = stochastic(relu({SCALED}), s[0])", {"m": 70, "n": 104, "k": 256}, "nk"),
    "several results": (
        "T[m,n] = A[m,k] @ B[n,k]; C[m,n]:f32 = T; D[m,n]:mxfp8 = stochastic(T, s[0]); E[m,n] = stochastic(T, s[1])",
        MNK,
        "nk",
    ),
    "a gate": ("D[m,n]:mxfp8 = stochastic((A[m,k] @ B[n,k]) * relu(A[m,k] @ E[n,k]), s[0])", MNK, "nk"),
    "products added up": ("D[m,n]:mxfp8 = stochastic(A[m,k] @ B[n,k] + E[m,r] @ F[n,r], s[0])", MNK | {"r": 16}, "nk"),
    "scattered": ("D[idx[m],n]:mxfp8 = stochastic(A[m,k] @ B[n,k], s[0])", MNK | {"D_0": 90}, "nk"),
    "scattered in batches": ("D[b,idx[b,m],n] = stochastic(A[b,m,k] @ B[b,n,k], s[0])", BMN | {"D_1": 50}, "nk"),
    "gathered": ("D[m,n] = stochastic(A[idx[m],k] @ B[n,k], s[0])", MNK | {"A_0": 50}, "nk"),
    "ragged": ("D[m,n]:mxfp8 = stochastic(A[m,k] @ B[g,n,k], s[0]) for m in off[g]:off[g+1]", MNK | {"g": 3}, "nk"),
    "masked": ("D[g,m,n]:nvfp4 = stochastic(A[g,m,k] @ B[g,n,k], s[0]) for m < rows[g]", MNK | {"g": 2}, "nk"),
    "blocks": ("D[m,n] = stochastic(A[m,k] @ B[e[m/32],n,k], s[0])", MNK | {"B_0": 3}, "nk"),
    "a range of K": (
        "D[g,m,n]:mxfp8 = stochastic(A[m,k] @ B[n,k], s[0]) for k in off[g]:off[g+1]",
        {"g": 2, "m": 24, "n": 40, "k": 96},
        "nk",
    ),
}


@pytest.mark.once(touches=lambda name, target: {name} & USUAL)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, target: str) -> None:
    source, dims, fixed = PROGRAMS[name]
    tile = f" with {SMALL[target]}" if name not in ("scales", "several columns") else ""
    equal(source + tile, dims, fixed, target)


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dims", [(0, 40, 64), (1, 1, 64), (3, 40, 0), (1, 40, 1), (3, 0, 64)], ids=str)
@pytest.mark.parametrize("result", ["bf16", "mxfp8"])
def test_sizes_of_0_and_1(result: str, dims: tuple[int, int, int], target: str) -> None:
    sizes = dict(zip("mnk", dims, strict=True))
    equal(f"D[m,n]:{result} = stochastic(A[m,k] @ B[n,k], s[0]) with {SMALL[target]}", sizes, "", target)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        ("D[m,n] = stochastic(A[m,k] @ B[n,k], s[0])", r"(shfl\.sync\.bfly\.b32[^;]*,) 1,", r"\1 2,"),
        ("D[m,n] = stochastic(A[m,k] @ B[n,k], s[0]) with swap=1", r"(shfl\.sync\.bfly\.b32[^;]*,) 8,", r"\1 4,"),
    ],
)
def test_faults_are_found(source: str, old: str, new: str) -> None:
    """Words of other lanes."""
    dims = {"m": 64, "n": 64, "k": 16}
    with pytest.raises((AssertionError, scalec.ScalecError)):
        equal(source.replace(" with swap", " with tile=64x64x64, swap"), dims, "nk", "sm_90a", fault=changed(old, new))


test_refused = refusals(
    [
        ("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T; R[m] = stochastic(max[n](T), s[0])", "rounded by chance"),
        (
            "L[q,t] = stochastic(sum[h](Q[q,h,d] @ K[t,d]), s[0])",
            "L is rounded by chance, and is a reduction",
            {"h": 64},
        ),
        ("D[m,n] = stochastic(A[m,k] @ B[n,k], s[0]) for n in lo[0]:hi[0]", "D has blocks of 4 along it"),
        ("D[n,m] = stochastic(A[m,k] @ B[g,n,k], s[0]) for m in o[g]:o[g+1]", "D has blocks of 4 along it"),
        ("D[m,n] = A[m,k] @ B[n,k]; S[m] = stochastic(sum[k](A[m,k]^2), s[0])", "different indices"),
    ]
)
