"""Parts of K that meet in memory, where each CTA adds some columns: right, no finding, the bits of parts=memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

from scalec import reference
from scalec.runtime.kernel import Kernel
from tests.emulator.launches import WRONG, compiled, found_as, made, outcome

SUM = "C[m,n]:f32 += A[b,m,k] @ B[b,n,k]"
# target, program, largest diff from the float64 result, sizes
PROGRAMS: dict[str, tuple[str, str, float, dict[str, int]]] = {
    "over batches": ("sm_90a", f"{SUM} with split=3, tile=64x32x64, cluster=1x1", 1e-9,
                     {"b": 3, "m": 70, "n": 40, "k": 72}),
    "copies shared, fewer parts than columns": ("sm_90a", f"{SUM} with split=2, tile=64x64x64, cluster=2x1", 1e-9,
                                                {"b": 2, "m": 130, "n": 70, "k": 136}),
    "warpgroups that take others": ("sm_90a", f"{SUM} with split=7, tile=128x16x64, cluster=1x1", 1e-9,
                                    {"b": 7, "m": 130, "n": 16, "k": 64}),
    "computed, transposed": ("sm_90a", "C[m,n] = gelu(A[m,k]@B[n,k] scale(1x128,128x128) + b[n]) "
                             "with split=5, tile=64x16x128, swap=1", 3e-6, {"m": 10, "n": 72, "k": 700}),
    "rounded sums": ("sm_90a", "C[m,n] += A[m,k] @ B[n,k] with split=3, tile=192x24x64", 3e-6,
                     {"m": 200, "n": 25, "k": 300}),
    "an odd number of columns": ("sm_90a", "C[m,n]:f32 += relu(A[m,k] @ B[n,k]) with split=4, tile=64x16x64", 1e-9,
                                 {"m": 33, "n": 21, "k": 256}),
    "warps alone": ("sm_120a", f"{SUM} with split=3, tile=64x32x64, warps=4x1", 1e-9,
                    {"b": 3, "m": 70, "n": 40, "k": 64}),
    "promoted by warps alone": ("sm_120a", "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128) "
                                "with split=2, tile=64x48x128, warps=4x1", 3e-6, {"m": 70, "n": 60, "k": 500}),
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("name", PROGRAMS)
def test_columns_of_parts(name: str) -> None:
    """Where two CTAs run at once, the last to come adds all; where all run, each adds its share."""
    target, source, limit, dims = PROGRAMS[name]
    fixed = tuple((d, size) for d, size in dims.items() if d != "m")
    kernel = compiled(target, f"{source}, parts=columns", fixed)
    values, expected = made(target, source, dims, seed=dims["m"])
    runs = ((0, 2, 2), (1, 64, 2), (5, 64, 1))
    found = [x for seed, sms, launches in runs for x in outcome(kernel, values, dims, seed, sms, launches)]
    (other,) = outcome(compiled(target, f"{source}, parts=memory", fixed), values, dims, 2, 12)
    assert {x.tobytes() for x in found} == {other.tobytes()}
    diff = reference.diff(found[0].astype(np.float64), expected)
    assert diff < limit, f"{kernel.spec.schedule}: diff {diff:.2e}"


SOURCE = "C[m,n]:f32 += A[m,k] @ B[n,k] with split=3, tile=64x32x64, cluster=1x1, parts=columns"
SIZES = {"m": 70, "n": 40, "k": 200}
LATE = ("race", "uninitialised", WRONG)
COUNTED = r"atom\.acq_rel\.gpu(\.global\.add\.u32 %r\d+, \[%rd\d+\], %r\d+;)"
# text, what stands in its place, CTAs at once, what is found
FAULTS: dict[str, tuple[str, str, int, tuple[str, ...]]] = {
    "who waits acquires nothing": (r"ld\.acquire\.gpu", "ld.relaxed.gpu", 64, ("race",)),
    "who waits does not ask who has begun": (r"(ld\.relaxed\.gpu\.global\.u32 (%r\d+), [^;]*;)", r"mov.u32 \2, 3;", 2,
                                             ("deadlock", "illegal", "instructions")),
    "nobody waits": (r"(setp\.eq\.b32 \t(%p\d+), %r\d+, 384;)", r"\1 setp.eq.u32 \2, 0, 0;", 64, LATE),
    "who counts itself releases nothing": (COUNTED, r"atom.acquire.gpu\1", 64, ("race",)),
    "nobody leaves": (r"atom\.relaxed\.gpu\.global\.add\.u32 [^;]*;", "", 64, (WRONG,)),
    "nobody clears the counter": (r"st\.relaxed\.gpu\.global\.u32 [^;]*;", "", 64, (WRONG,)),
    "all add the same columns": (r"mul\.wide\.u32 (\t%rd\d+), %r\d+, 4096;", r"mov.u64 \1, 0;", 64, (WRONG,)),
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_found(what: str) -> None:
    old, new, sms, kinds = FAULTS[what]
    kernel = compiled("sm_90a", SOURCE, (("n", SIZES["n"]), ("k", SIZES["k"])))
    ptx, count = re.subn(old, new, kernel.ptx)
    assert count, "the PTX has changed: the fault fits nothing"
    values, expected = made("sm_90a", SOURCE, SIZES, seed=7)
    faulty = Kernel(kernel.spec, kernel.cubin, ptx=ptx)
    assert next(filter(None, (found_as(faulty, values, SIZES, s, sms, expected, 1e-9) for s in range(4))), "") in kinds
