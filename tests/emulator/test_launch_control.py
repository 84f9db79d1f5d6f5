"""Tiles dealt out by cluster launch control, on the emulator: each once, whoever works on it, and to the last bit.

A request may fail there although clusters are left, by the seed: those then begin by themselves when others end.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import scalec
from scalec.abi import KernelSpec
from scalec.errors import ScheduleError
from scalec.runtime.kernel import Kernel
from tests.emulator.launches import made, outcome
from tests.emulator.running import by_turns, k_of, limit, run_on

TENSOR, WARPS = "sm_100a", "sm_120a"
FP8 = "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3"
BLOCKS = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
PROGRAMS: dict[str, tuple[str, str]] = {
    "fp8": (TENSOR, f"{FP8} with tile=128x64x128, cluster=1x1, stages=3, epilogue=bulk"),
    "fp8, a cluster along n": (TENSOR, f"{FP8} with tile=128x32x128, cluster=1x2, stages=2, swap=0"),
    "bf16, a cluster along m": (TENSOR, "C[m,n]:f32 = A[m,k] @ B[n,k] with tile=128x64x64, cluster=2x1, swap=0"),
    "mxfp8, warps bring scales": (
        TENSOR, "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8 with tile=128x48x128, cluster=1x2, swap=0"),
    "promoted": (TENSOR, f"{BLOCKS} with tile=128x64x128, cluster=1x1, swap=0"),
    "one product a tile": (
        TENSOR, "C[m,n] = A[m,k] @ B[n,k] with tile=128x16x64, cluster=1x1, order=m, band=2, swap=0"),
    "sm_120a, mxfp8": (WARPS, "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8 with tile=64x64x128, swap=0"),
    "sm_120a, parts of K": (WARPS, "C[m,n] = gelu(A[m,k] @ B[n,k] + bias[n]) with tile=64x64x64, split=2, swap=0"),
}  # fmt: skip

# (m, n, bytes of a row, whether n is fixed) by seed: one tile; fewer than four CTAs, as many, more; tails; one K block
SIZES = [
    (1, 8, 512, True),
    (128, 16, 384, True),
    (128, 64, 512, False),
    (130, 136, 272, True),
    (257, 72, 640, True),
    (300, 200, 256, False),
    (140, 264, 288, True),
    (520, 40, 400, False),
]


@pytest.mark.once("seed")
@pytest.mark.parametrize(("name", "seed"), by_turns(PROGRAMS, len(SIZES)))
def test_program(name: str, seed: int) -> None:
    target, source = PROGRAMS[name]
    m, n, row, fixed = SIZES[seed]
    dims = {"m": m, "n": n, "k": 64 if name == "one product a tile" else k_of(source, row)}
    known = ("n", "k") if fixed or "bulk" in source else ("k",)
    ran = run_on(f"{source}, scheduler=dynamic", dims, known, seed, limit(source), target=target)
    launch = ran.kernel.spec.launch
    assert launch.one_each
    assert KernelSpec.from_json(ran.kernel.spec.to_json()) == ran.kernel.spec
    units = launch.units(dims)
    assert launch.grid(dims, 4) == units * launch.cluster
    # a request for each tile that is taken over, and one, which fails, of each cluster that began: all its CTAs hear
    assert ran.stats.bytes["launch control -> shared"] == 16 * units * launch.cluster


@cache
def compiled(target: str, source: str, n: int, k: int) -> Kernel:
    return scalec.compile(source, target=target, dims={"n": n, "k": k})


@pytest.mark.once(touches=lambda name: PROGRAMS[name][:1])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_the_static_order(name: str) -> None:
    """The same bits, however many CTAs run at once."""
    target, source = PROGRAMS[name]
    dims = {"m": 270, "n": 136, "k": k_of(source, 512)}
    values, _ = made(target, source, dims, seed=3)
    found = []
    for scheduler, sms in (("static", 4), ("dynamic", 2), ("dynamic", 16)):
        kernel = compiled(target, f"{source}, scheduler={scheduler}", dims["n"], dims["k"])
        found += [x.view(np.uint8).tobytes() for x in outcome(kernel, values, dims, 11, sms)]
    assert len(set(found)) == 1


def test_a_target_without_it_is_refused() -> None:
    wanted = "scheduler=dynamic is not possible\n  got: sm_90a has no cluster launch control\n  fix: scheduler=static"
    with pytest.raises(ScheduleError, match=wanted):
        scalec.compile(f"{BLOCKS} with scheduler=dynamic", target="sm_90a")


def test_static_kernels_ask_nothing() -> None:
    kernel = compiled(TENSOR, f"{PROGRAMS['fp8'][1]}, scheduler=static", 136, 640)
    assert "clusterlaunchcontrol" not in kernel.ptx
    assert not kernel.spec.launch.one_each
    assert kernel.spec.launch.grid({"m": 1000, "n": 136}, 4) == 4
