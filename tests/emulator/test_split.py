"""K split into parts on the emulator: right, complete, without a finding, and bit-equal whatever part comes first."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from scalec import reference
from scalec.runtime.kernel import Kernel
from tests.emulator.launches import WRONG, compiled, found_as, made, outcome
from tests.tiers import fields

BLOCKS = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
# target, program, largest diff from the float64 result, (m, n, k)
PROGRAMS: dict[str, tuple[str, str, float, tuple[int, int, int]]] = {
    "promoted, parts of 3 and 2 blocks": ("sm_120a", f"{BLOCKS} with split=3", 3e-6, (70, 136, 1000)),
    "promoted, windows of parts": (
        "sm_120a", f"{BLOCKS} with split=2, tile=64x64x128, scale_path=bulk", 3e-6, (65, 72, 1536)),
    "promoted, by threads, 1 and 2 blocks": (
        "sm_120a", "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128) with split=4, scale_path=thread", 1e-7,
        (40, 72, 784)),
    "vectors of scales": (
        "sm_120a", "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128@col,1x128@col) with split=3", 1e-7, (64, 72, 1024)),
    "longer blocks": (
        "sm_120a", "C[m,n]:f32 = A[m,k]@B[n,k] scale(16x256,128x512) with split=3", 1e-7, (40, 136, 1024)),
    "bf16 with tails": ("sm_120a", "C[m,n] = A[m,k] @ B[n,k] with split=4, swap=0", 3e-6, (33, 77, 328)),
    "bf16 swapped": ("sm_120a", "C[m,n] = A[m,k] @ B[n,k] with split=3, swap=1", 3e-6, (5, 100, 512)),
    "unrolled": ("sm_120a", "C[m,n] = A[m,k] @ B[n,k] with split=2, unroll=2, tile=64x64x64", 3e-6, (40, 70, 512)),
    "accumulated": ("sm_120a", "C[m,n]:f32 += A[m,k] @ B[n,k] with split=2, tile=64x64x64", 1e-9, (70, 70, 256)),
    "epilogue": (
        "sm_120a", "C[m,n] = alpha * silu(A[m,k] @ B[n,k] + bias[n]) + R[m,n] with split=2, epilogue=bulk", 5e-6,
        (40, 72, 256)),
    "mxfp8": ("sm_120a", "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8 with split=3", 3e-6, (40, 72, 640)),
    "nvfp4": ("sm_120a", "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4 with split=3", 3e-6, (40, 72, 1024)),
    "packed words": (
        "sm_120a", "C[m,n] = A[m,k] @ B[n,k] scale(1x32:ue8m0@packed, 128x128:ue8m0@blocked) with split=3", 3e-6,
        (40, 136, 640)),
    "Hopper, promoted": ("sm_90a", f"{BLOCKS} with split=3, tile=128x64x128", 3e-6, (140, 72, 1000)),
    "Hopper, windows of parts": (
        "sm_90a", f"{BLOCKS} with split=2, tile=64x64x128, scale_path=bulk, unroll=1", 3e-6, (65, 72, 1536)),
    "Hopper, unrolled": ("sm_90a", f"{BLOCKS} with split=2, tile=128x64x128, unroll=2", 3e-6, (100, 72, 1536)),
    "Hopper, by threads": (
        "sm_90a", "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128) with split=4, scale_path=thread, tile=64x32x128", 1e-7,
        (40, 72, 784)),
    "Hopper, bf16": ("sm_90a", "C[m,n] = gelu(A[m,k] @ B[n,k] + b[n]) with split=5, cluster=2x1", 3e-6, (150, 72, 328)),
    "tensor memory, tails": ("sm_100a", "C[m,n] = A[m,k] @ B[n,k] with split=4, swap=0", 3e-6, (33, 77, 328)),
    "tensor memory, swapped": ("sm_100a", "C[m,n] = A[m,k] @ B[n,k] with split=3, swap=1", 3e-6, (5, 100, 512)),
    "tensor memory, accumulated": (
        "sm_100a", "C[m,n]:f32 += A[m,k] @ B[n,k] with split=2, tile=128x48x64", 1e-9, (140, 70, 256)),
    "tensor memory, scales, staged": (
        "sm_100a", "C[m,n] = gelu(A[m,k]:mxfp8 @ B[n,k]:mxfp8 + b[n]) with split=3, epilogue=bulk, tile=128x96x128",
        3e-6, (140, 200, 640)),
    "tensor memory, tiles of scales": (
        "sm_100a", "C[m,n]:f32 = A[m,k] @ B[n,k] scale(1x32:ue8m0@blocked, 1x32:ue8m0@blocked) with split=2, "
        "tile=128x192x128, cluster=1x2", 1e-9, (100, 420, 640)),
    "tensor memory, ones": ("sm_100a", "C[m,n]:f32 = A[m,k]:e2m1 @ B[n,k]:e2m1 with split=3", 1e-9, (40, 72, 1026)),
    "tensor memory, promoted": ("sm_100a", f"{BLOCKS} with split=3, tile=128x64x128", 3e-6, (140, 72, 1000)),
    "tensor memory, windows of parts": (
        "sm_100a", f"{BLOCKS} with split=2, tile=128x64x128, scale_path=bulk", 3e-6, (65, 72, 1536)),
    "by steps": ("sm_120a", "C[m,n] = A[m,k] @ B[n,k] with split=35, tile=32x32x64", 3e-6, (33, 24, 2300)),
    "Hopper, by steps": (
        "sm_90a", "C[m,n]:f32 += A[m,k] @ B[n,k] with split=64, tile=64x32x64, cluster=1x2", 1e-9, (50, 64, 4200)),
    "Hopper, by steps, many warpgroups": (
        "sm_90a", "C[m,n]:f32 = A[m,k] @ B[n,k] with split=33, tile=192x16x64", 1e-9, (150, 16, 2112)),
    "Hopper, accumulated": ("sm_90a", "C[m,n] += A[m,k] @ B[n,k] with split=2, tile=64x64x64", 3e-6, (70, 70, 256)),
}  # fmt: skip


@pytest.mark.once(touches=lambda name: [PROGRAMS[name][0], *fields(PROGRAMS[name])])
@pytest.mark.parametrize("name", PROGRAMS)
def test_split(name: str) -> None:
    """Bit-equal over seeds and over how many CTAs run at once: one of them works on all parts in turn."""
    target, source, limit, (m, n, k) = PROGRAMS[name]
    dims = {"m": m, "n": n, "k": k}
    kernel = compiled(target, source, (("n", n), ("k", k)))
    assert kernel.spec.launch.split > 1
    values, expected = made(target, source, dims, seed=m)
    runs = ((0, 3, 2), (1, 12, 1))
    found = [x for seed, sms, launches in runs for x in outcome(kernel, values, dims, seed, sms, launches)]
    assert len({x.tobytes() for x in found}) == 1, "the order of arrival shows in the result"
    diff = reference.diff(found[0].astype(np.float64), expected)
    assert diff < limit, f"{kernel.spec.schedule}: diff {diff:.2e}"


FIRST: dict[str, bytes] = {}
"""The result of the first order of arrival that was tried."""


@pytest.mark.once
@pytest.mark.parametrize(("name", "seed"), [("promoted, parts of 3 and 2 blocks", seed) for seed in range(4)])
def test_orders_of_arrival(name: str, seed: int) -> None:
    target, source, limit, (m, n, k) = PROGRAMS[name]
    dims = {"m": m, "n": n, "k": k}
    kernel = compiled(target, source, (("n", n), ("k", k)))
    values, expected = made(target, source, dims, seed=7)
    (found,) = outcome(kernel, values, dims, seed, 3 + seed)
    assert reference.diff(found.astype(np.float64), expected) < limit
    assert FIRST.setdefault("order", found.tobytes()) == found.tobytes()


SMS = 6
"""CTAs that run at once where faults are looked for."""

FAULTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "the counter is not reset": (r"global\.inc\.u32 (%r\d+), (\[%rd\d+\]), 2;", r"global.add.u32 \1, \2, 1;", (WRONG,)),
    "no release": (r"atom\.acq_rel", "atom.acquire", ("race",)),
    "no acquire": (r"atom\.acq_rel", "atom.release", ("race",)),
    "neither": (r"atom\.acq_rel", "atom.relaxed", ("race",)),
    "the first to arrive adds": (r"setp\.eq\.u32 P, (%r\d+), 2;", r"setp.ne.u32 P, \1, 1;", ("race", WRONG)),
    "a part in the place of another": (r"(ld\.global\.v4\.f32 .*) \+ 16384\];", r"\1 + 0];", (WRONG,)),
}


@pytest.mark.once("what", "seed")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_found(what: str, seed: int) -> None:
    old, new, kinds = FAULTS[what]
    target, source, limit, (m, n, k) = "sm_120a", f"{BLOCKS} with split=3, tile=64x64x128", 3e-6, (70, 136, 1000)
    dims = {"m": m, "n": n, "k": k}
    kernel = compiled(target, source, (("n", n), ("k", k)))
    ptx, count = re.subn(old, new, kernel.ptx)
    assert count, "the PTX has changed: the fault fits nothing"
    values, expected = made(target, source, dims, seed=7)
    faulty = Kernel(kernel.spec, kernel.cubin, ptx=ptx)
    assert found_as(faulty, values, dims, seed, SMS, expected, limit) in kinds


STEPS = "C[m,n]:f32 = A[m,k] @ B[n,k] with split=36, tile=64x16x64, swap=0"
FAULTS_OF_STEPS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "a counter is not reset": (r"global\.inc\.u32 (%r\d+), (\[%rd\d+\]), 3;", r"global.add.u32 \1, \2, 1;", (WRONG,)),
    "no release": FAULTS["no release"],
    "no acquire": FAULTS["no acquire"],
    "the first to arrive adds": (r"setp\.eq\.u32 P, (%r\d+), 3;", r"setp.eq.u32 P, \1, 0;", ("race", WRONG)),
    "a sum in the place of another": (r"(add\.s64 \t%rd\d+, %rd\d+), 16384;", r"\1, 8192;", (WRONG, "race")),
}

PIECES = "C[m,n]:f32 = A[m,k] @ B[n,k] with split=3, tile=128x64x64, cluster=1x1, epilogue=direct, swap=0"
FAULTS_OF_PIECES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "the counter is not reset": FAULTS["the counter is not reset"],
    "no acquire": FAULTS["no acquire"],
    "a piece stored where another is": (r"st\.global\.v4\.f32 \[(%rd\d+) \+ 16384\]", r"st.global.v4.f32 [\1 + 0]",
                                        (WRONG, "uninitialised", "race")),
    "a piece of another added": (r"(ld\.global\.v4\.f32 [^\n]*) \+ 16384\]", r"\1 + 0]", (WRONG,)),
    "a part in the place of another": (r"(add\.s64 \t%rd\d+, %rd\d+), 32768;", r"\1, 16384;", (WRONG, "race")),
}  # fmt: skip
PARTLY = [
    *(("sm_90a", STEPS, (60, 16, 2304), fault) for fault in FAULTS_OF_STEPS.values()),
    *(("sm_100a", PIECES, (140, 136, 320), fault) for fault in FAULTS_OF_PIECES.values()),
]


@pytest.mark.once
@pytest.mark.parametrize(("target", "source", "sizes", "fault"), PARTLY, ids=[*FAULTS_OF_STEPS, *FAULTS_OF_PIECES])
def test_a_fault_of_steps_is_found(target: str, source: str, sizes: tuple[int, int, int], fault: Any) -> None:
    (old, new, kinds), (m, n, k), limit = fault, sizes, 1e-9
    dims = {"m": m, "n": n, "k": k}
    kernel = compiled(target, source, (("n", n), ("k", k)))
    ptx, count = re.subn(old, new, kernel.ptx)
    assert count, "the PTX has changed: the fault fits nothing"
    values, expected = made(target, source, dims, seed=7)
    assert found_as(kernel, values, dims, 0, SMS, expected, limit) == ""
    assert found_as(Kernel(kernel.spec, kernel.cubin, ptx=ptx), values, dims, 0, SMS, expected, limit) in kinds
