"""Parts of K that meet in a cluster on the emulator: right, no finding, bit-equal to those that meet in memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

from scalec import reference
from scalec.runtime.kernel import Kernel
from tests.emulator.launches import WRONG, compiled, found_as, made, outcome
from tests.tiers import fields

BLOCKS = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
# program, largest diff from the float64 result, (m, n, k)
PROGRAMS: dict[str, tuple[str, float, tuple[int, int, int]]] = {
    "of 3 and 2 blocks": (f"{BLOCKS} with split=3, tile=128x64x128", 3e-6, (140, 200, 1000)),
    "windows of scales": (f"{BLOCKS} with split=2, tile=64x64x128, scale_path=bulk, unroll=1", 3e-6, (65, 72, 1536)),
    "unrolled": (f"{BLOCKS} with split=2, tile=128x64x128, unroll=2", 3e-6, (300, 72, 1536)),
    "by threads": (
        "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128) with split=4, scale_path=thread, tile=64x32x128, cluster=1x1",
        1e-7, (40, 72, 784)),
    "few rows": (f"{BLOCKS} with split=2, swap=1, tile=64x8x128", 3e-6, (3, 200, 1024)),
    "copies shared along N": (f"{BLOCKS} with split=2, tile=64x32x128, cluster=1x2", 3e-6, (140, 72, 1024)),
    "copies shared along M": (f"{BLOCKS} with split=2, tile=64x48x128, cluster=4x1", 3e-6, (300, 72, 1024)),
    "sums of the tensor core": ("C[m,n] = gelu(A[m,k] @ B[n,k] + b[n]) with split=5, tile=64x32x64, cluster=1x1", 3e-6,
                                (150, 72, 328)),
    "shared by pairs": ("C[m,n] = A[m,k] @ B[n,k] with split=4, tile=64x32x64, cluster=2x1", 3e-6, (250, 72, 328)),
    "three units of two owners": (f"{BLOCKS} with split=2, tile=192x32x128, cluster=1x1", 3e-6, (400, 72, 1024)),
    "three units of three parts": (f"{BLOCKS} with split=3, tile=192x16x128, cluster=1x2", 3e-6, (200, 72, 1024)),
    "two waves of each unit": (f"{BLOCKS} with split=4, tile=256x16x128, cluster=1x1", 3e-6, (300, 72, 1024)),
    "accumulated": ("C[m,n] += A[m,k] @ B[n,k] with split=2, tile=64x64x64", 3e-6, (140, 70, 256)),
    "eight": ("C[m,n]:f32 = A[m,k] @ B[n,k] with split=8, tile=64x16x64, cluster=1x1", 1e-9, (70, 70, 640)),
}  # fmt: skip


@pytest.mark.once(touches=lambda name: fields(PROGRAMS[name]))
@pytest.mark.parametrize("name", PROGRAMS)
def test_parts_in_a_cluster(name: str) -> None:
    """Bit-equal over seeds and over how many clusters run at once: a lone one works on all tiles in turn."""
    source, limit, (m, n, k) = PROGRAMS[name]
    dims = {"m": m, "n": n, "k": k}
    kernel = compiled("sm_90a", f"{source}, parts=cluster", (("n", n), ("k", k)))
    launch = kernel.spec.launch
    assert (launch.split, launch.part_bytes) == (1, 0)
    assert launch.cluster > 1
    values, expected = made("sm_90a", source, dims, seed=m)
    runs = ((0, launch.cluster, 2), (1, 3 * launch.cluster, 1))
    found = [x for seed, sms, launches in runs for x in outcome(kernel, values, dims, seed, sms, launches)]
    assert len({x.tobytes() for x in found}) == 1
    diff = reference.diff(found[0].astype(np.float64), expected)
    assert diff < limit, f"{kernel.spec.schedule}: diff {diff:.2e}"
    other = compiled("sm_90a", f"{source}, parts=memory", (("n", n), ("k", k)))
    (in_memory,) = outcome(other, values, dims, 0, 4)
    assert np.array_equal(in_memory, found[0])


SOURCE = f"{BLOCKS} with split=3, tile=128x32x128, cluster=1x1, parts=cluster"
TILES, CTAS = (130, 72, 1024), 6  # nine tiles of three parts, for two clusters
LATE = ("race", "in-flight", "uninitialised", WRONG)
HANDED = r"mbarrier\.arrive\.shared::cluster\.b64 _, \[%r\d+\]"
WAITED = r"mbarrier\.try_wait\.parity\.acquire\.cluster\.shared::cta\.b64 P1, \[%r\d+\], %r\d+, 0x989680;"
NEXT = r"(?=(?:(?!try_wait)[\s\S])*"
FAULTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "nobody waits for the sums": (rf"{WAITED}{NEXT}ld\.shared\.v4)", "setp.eq.u32 P1, 0, 0;", LATE),
    "nobody waits for the room": (rf"{WAITED}{NEXT}st\.async)", "setp.eq.u32 P1, 0, 0;", LATE),
    "one part less is waited for": (r"(arrive\.expect_tx\.relaxed[^;]*), %r\d+;", r"\1, 8192;", LATE),
    "nobody hands the room back": (f"{HANDED};", "", ("deadlock",)),
    "it is handed back twice": (f"({HANDED});", r"\1, 2;", LATE),
    "and when nobody sends again": (
        r"(setp\.ge\.u32[^;]*;\s+)@%p\d+ bra[^;]*;(\s+bar\.warp\.sync)", r"\1\2", ("bounds",)),
    "both parts in one place": (r"shl\.b32 \t(%r\d+), %r\d+, 13;", r"mov.b32 \1, 8192;", ("race", "in-flight", WRONG)),
    "one part is added twice": (r"(ld\.shared\.v4\.f32 [^\n]*) \+ 8192\]", r"\1 + 0]", (WRONG,)),
    "an arrival that releases nothing": (r"arrive(\.shared::cluster)", r"arrive.relaxed.cluster\1", ("race",)),
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_found(what: str) -> None:
    old, new, kinds = FAULTS[what]
    (m, n, k), limit = TILES, 3e-6
    dims = {"m": m, "n": n, "k": k}
    kernel = compiled("sm_90a", SOURCE, (("n", n), ("k", k)))
    ptx, count = re.subn(old, new, kernel.ptx)
    assert count, "the PTX has changed: the fault fits nothing"
    values, expected = made("sm_90a", SOURCE, dims, seed=7)
    assert found_as(kernel, values, dims, 0, CTAS, expected, limit) == ""
    faulty = Kernel(kernel.spec, kernel.cubin, ptx=ptx)
    found = {found_as(faulty, values, dims, seed, CTAS, expected, limit) for seed in range(4)} - {""}
    assert found
    assert found <= set(kinds)
