"""Several results of one contraction, on every target: each is right, and those that are quantised are, bit for bit,
the quantising of the f32 sums that stand beside them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import scalec
from scalec.checking.launch import made_up
from scalec.formats import FORMATS
from scalec.reference.quantize import quantize
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from tests.emulator.quantised import codes, same
from tests.emulator.running import TARGETS, launched
from tests.tiers import SEEDS

EVERY = tuple(TARGETS)
BLACKWELL = ("sm_100a", "sm_120a")


def run(source: str, target: str, dims: dict[str, int], fixed: str = "", seed: int = 3) -> tuple[Kernel, Any]:
    """Two launches between guards, over NaNs and over another byte: right, equal, and nothing else written."""
    kernel = scalec.compile(source, target=target, dims={d: dims[d] for d in fixed})
    kernel.fixed = emulated.EmulatedDevice(target)
    values, expected = made_up(source, dims, seed)
    return kernel, launched(kernel, values, expected, dims, seed)


def tails(seed: int) -> dict[str, int]:
    """Sizes of which some are whole tiles, most have tails in every dimension, and one is a row or a column."""
    m, n, k = (
        (40, 128, 256), (77, 136, 192), (1, 264, 64), (130, 24, 136),
        (200, 160, 72), (9, 8, 320), (65, 96, 128), (33, 232, 200),
    )[seed]  # fmt: skip
    return {"m": m, "n": n, "k": k}


BF16, SCALED = "A[m,k] @ B[n,k]", "A[m,k] @ B[n,k] scale(1x128, 128x128)"
MXFP8, NVFP4 = "A[m,k]:mxfp8 @ B[n,k]:mxfp8", "A[m,k]:nvfp4 @ B[n,k]:nvfp4"
PLAIN = "T[m,n] = {}; C[m,n] = T[m,n] + x[n]; D[m,n]:mxfp8 = relu(T[m,n])"
TWO = "T[m,n] = {}; C[m,n]:mxfp8 = gelu(T[m,n]) * y[m]; D[m,n]:e5m2 scale(1x64) = T[m,n] - x[n]"
THREE = "T[m,n] = alpha * ({}); C[m,n]:f32 += T[m,n]; D[m,n]:f16 = T[m,n] * R[m,n]; E[m,n]:nvfp4 = T[m,n]"

STAGED = "T[m,n] = {}; C[m,n] = T + R[m,n]; D[m,n]:nvfp4 = relu(T); E[m,n]:mxfp8 = T"

CASES = {
    "a sum and a quantised one": (PLAIN.format(BF16), EVERY),
    "of FP8 with scales": (PLAIN.format(SCALED), EVERY),
    "two quantised": (TWO.format(BF16), EVERY),
    "two quantised, of FP8": (TWO.format(SCALED), EVERY),
    "three": (THREE.format(BF16), EVERY),
    "three, read at each element": (STAGED.format(BF16), EVERY),
    "of mxfp8": (PLAIN.format(MXFP8), BLACKWELL),
    "two of mxfp8": (TWO.format(MXFP8), BLACKWELL),
    "of nvfp4": (PLAIN.format(NVFP4), BLACKWELL),
}


USUAL = {"three, read at each element", "two quantised, of FP8", "of nvfp4", "swap=1", "split=2", "consumers=pingpong"}
"""What a usual run has, beside each target."""


@pytest.mark.once(touches=lambda case, seed: {case[1]} | ({case[0]} & USUAL))
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", [(name, target) for name, (_, targets) in CASES.items() for target in targets])
def test_results(case: tuple[str, str], seed: int) -> None:
    name, target = case
    dims = tails(seed)
    if name.endswith(("mxfp8", "nvfp4")):
        dims["k"] = -(-dims["k"] // 128) * 128
    if "FP8" in name:
        dims["k"] = -(-dims["k"] // 16) * 16
    fixed = ("nk", "mnk", "", "n")[seed % 4] if name != "of nvfp4" else "nk"
    kernel, _ = run(CASES[name][0], target, dims, fixed, seed)
    assert [r.name for r in kernel.spec.results if not r.name.endswith("_scale")] == list(
        "CDE"[: 2 + name.startswith("three")]
    )


BATCHED = {
    "batches": "T[b,m,n] = A[b,m,k] @ B[b,n,k]; C[b,m,n] = T[b,m,n] + x[b,n]; D[b,m,n]:mxfp8 = relu(T[b,m,n])",
    "of FP8": "T[m,b,n] = A[m,b,k] @ B[b,n,k] scale(1x128,128x128); C[m,b,n]:nvfp4 = T[m,b,n] * s[b]; "
    "D[m,b,n] = gelu(T[m,b,n])",
    "columns first": "T[m,n] = A[b,m,k] @ B[b,n,k]; C[n,m] = T[m,n] + x[m]; D[n,m]:mxfp8 = T[m,n]",
}


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.parametrize("target", TARGETS)
def test_batches(target: str, name: str, seed: int) -> None:
    run(BATCHED[name], target, {**tails(seed), "b": 1 + seed % 3}, ("nk", "bmnk", "k", "mnk")[seed % 4], seed)


@pytest.mark.once("target", "form")
@pytest.mark.parametrize("form", ["mxfp8", "fp8_block", "mxfp6", "mxfp4"])
@pytest.mark.parametrize("target", TARGETS)
def test_bits(target: str, form: str) -> None:
    """A quantised result of the sums beside these sums, as they are: in f32, first or last."""
    for order in (f"S[m,n]:f32 = T[m,n]; D[m,n]:{form} = T[m,n]", f"D[m,n]:{form} = T[m,n]; S[m,n]:f32 = T[m,n]"):
        _, made = run(f"T[m,n] = {BF16}; {order}", target, {"m": 70, "n": 264, "k": 136}, "nk")
        element, g = FORMATS[form].element, FORMATS[form].result[0]
        wanted = quantize(made["S"], element, [g])
        same(codes(made["D_scale"]), codes(wanted.scales[0].astype(made["D_scale"].dtype)), f"scales of {order}")
        got = made["D"].astype(np.float32)
        same(codes(got), codes(wanted.values.astype(np.float32)), order)


@pytest.mark.once("target", "fields")
@pytest.mark.parametrize("fields", ["epilogue=bulk", "epilogue=direct"])
@pytest.mark.parametrize("target", TARGETS)
def test_gaps(target: str, fields: str) -> None:
    """Each result has gaps of its own, or none."""
    source = "T[m,n] = A[m,k] @ B[n,k]; C[m, n + n/64*32] = T + x[n]; D[m,n]:mxfp8 = relu(T); E[m, n/64*80 + n%64] = T"
    tile = "64x128x64, warpgroups=1" if target == "sm_120a" else "128x128x64"
    run(f"{source} with tile={tile}, {fields}", target, {"m": 77, "n": 256, "k": 64}, "nk")


FIELDS = [
    ("sm_90a", "tile=128x128x64, epilogue=bulk, warpgroups=2"),
    ("sm_90a", "tile=128x128x64, epilogue=bulk, staged=1"),
    ("sm_90a", "tile=64x128x64, epilogue=bulk, staged=1, panels=1, swizzle_c=32"),
    ("sm_90a", "tile=128x96x64, epilogue=bulk"),
    ("sm_90a", "tile=64x64x64, epilogue=bulk, warpgroups=2, consumers=pingpong"),
    ("sm_90a", "tile=64x64x64, epilogue=direct, warpgroups=2, consumers=pingpong"),
    ("sm_90a", "tile=128x64x64, split=2"),
    ("sm_90a", "tile=128x64x64, split=2, parts=cluster"),
    ("sm_90a", "tile=64x64x64, promote=64, cluster=2x1"),
    ("sm_90a", "swap=1, tile=64x32x64, epilogue=turned"),
    ("sm_90a", "swap=1, tile=64x16x64, epilogue=direct, split=2"),
    ("sm_90a", "swap=1, tile=128x16x64, warpgroups=2, epilogue=turned"),
    ("sm_100a", "tile=128x128x64, epilogue=bulk, warpgroups=2"),
    ("sm_100a", "tile=128x64x64, epilogue=direct, split=2"),
    ("sm_100a", "tile=128x64x64, epilogue=bulk, split=2, scheduler=dynamic"),
    ("sm_100a", "tile=128x64x64, promote=64, epilogue=bulk"),
    ("sm_100a", "tile=128x64x64, cta_group=2, cluster=2x1"),
    ("sm_100a", "swap=1, tile=128x32x64"),
    ("sm_120a", "tile=128x128x64, epilogue=bulk, warpgroups=2"),
    ("sm_120a", "tile=64x64x64, epilogue=direct, split=2"),
    ("sm_120a", "tile=64x128x64, epilogue=bulk, staged=1"),
]
SCHEDULED = "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T[m,n] + x[n]; D[m,n]:mxfp8 = relu(T[m,n]); E[m,n] = T[m,n] * y[m]"


@pytest.mark.once(touches=lambda case: {case[0]} | ({*re.findall(r"\w+=\w+", case[1])} & USUAL))
@pytest.mark.parametrize("case", FIELDS, ids=[f"{target}, {fields}" for target, fields in FIELDS])
def test_schedules(case: tuple[str, str]) -> None:
    target, fields = case
    run(f"{SCHEDULED} with {fields}", target, {"m": 139, "n": 208, "k": 136}, "nk")


def test_warps_that_find_scales_together() -> None:
    """Each result has room of its own for what warps tell each other."""
    source = "T[m,n] = A[m,k] @ B[n,k]; C[m,n]:fp8_block = relu(T[m,n]); D[m,n]:fp8_block = T[m,n]"
    dims = {"m": 72, "n": 272, "k": 192}
    run(f"{source} with swap=1, tile=128x16x64, warpgroups=2, cluster=1x1", "sm_90a", dims, "nk")
    run(f"{source} with tile=64x128x64, warps=2x4", "sm_120a", dims, "nk")


@pytest.mark.parametrize("size", ["m", "n", "k"])
def test_empty(size: str) -> None:
    """Without products the sums are 0; without rows or columns there is nothing to write."""
    source = "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T[m,n] + x[n]; D[m,n]:f32 = relu(T[m,n])"
    run(source, "sm_90a", {"m": 40, "n": 64, "k": 64, size: 0}, "n" if size != "n" else "")
