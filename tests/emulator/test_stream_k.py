"""Tiles cut into shares (stream-K) on the emulator: right, complete, no finding, bit-equal whoever comes last."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from scalec import reference
from scalec.abi import Launch
from scalec.checking.launch import upload
from scalec.compiler import compile_source
from scalec.runtime.kernel import Kernel
from tests.early import without_what_follows
from tests.emulator.launches import WRONG, Recording, compiled, found_as, made, outcome
from tests.emulator.running import run_on
from tests.emulator.test_split import BLOCKS
from tests.tiers import fields

F32 = "C[m,n]:f32 = A[m,k]@B[n,k]"
# target, program, largest diff from the float64 result, (m, n, k), CTAs that run at once; all with stream_k=1
PROGRAMS: dict[str, tuple[str, str, float, tuple[int, int, int], tuple[int, ...]]] = {
    "Hopper, promoted": ("sm_90a", f"{BLOCKS} with tile=64x64x128, cluster=1x1", 3e-6, (250, 72, 1000), (3, 7)),
    "Hopper, windows of shares": (
        "sm_90a", f"{BLOCKS} with tile=64x64x128, scale_path=bulk, cluster=1x1", 3e-6, (130, 72, 1536), (4, 5)),
    "Hopper, many stages, short shares": (
        "sm_90a", f"{BLOCKS} with tile=64x16x128, scale_path=bulk, stages=8, cluster=1x1", 3e-6, (150, 40, 1536), (7,)),
    "Hopper, tiles cut in three": ("sm_90a", f"{BLOCKS} with tile=64x64x128, cluster=1x1", 3e-6, (100, 64, 1536), (5,)),
    "Hopper, two halves": ("sm_90a", f"{BLOCKS} with tile=64x64x128, cluster=1x1", 3e-6, (100, 64, 1024), (4,)),
    "Hopper, unrolled": (
        "sm_90a", f"{BLOCKS} with tile=128x64x128, unroll=2, cluster=1x1", 3e-6, (300, 72, 1024), (5,)),
    "Hopper, unrolled by four": (
        "sm_90a", f"{BLOCKS} with tile=192x32x128, unroll=4, cluster=1x1", 3e-6, (300, 72, 2048), (4,)),
    "Hopper, by threads": (
        "sm_90a", f"{F32} scale(1x128,1x128) with scale_path=thread, tile=64x32x128, cluster=1x1", 1e-7,
        (40, 136, 784), (3,)),
    "Hopper, by threads, unrolled": (
        "sm_90a", f"{F32} scale(1x128,1x128) with scale_path=thread, tile=64x32x128, unroll=2, cluster=1x1", 1e-7,
        (40, 136, 1024), (3,)),
    "Hopper, clusters along M": (
        "sm_90a", "C[m,n] = gelu(A[m,k] @ B[n,k] + b[n]) with cluster=2x1, tile=64x64x64", 3e-6, (310, 72, 328), (8,)),
    "Hopper, clusters along N, order m": (
        "sm_90a", f"{BLOCKS} with cluster=1x2, tile=64x32x128, order=m, group=2", 3e-6, (140, 130, 1024), (8,)),
    "Hopper, swapped": (
        "sm_90a", "C[m,n] = A[m,k] @ B[n,k] with swap=1, tile=64x16x64, cluster=1x1", 3e-6, (5, 300, 640), (3,)),
    "Hopper, accumulated": (
        "sm_90a", f"{F32.replace('=', '+=', 1)} with tile=64x64x64, cluster=1x1", 1e-9, (70, 140, 256), (5,)),
    "registers, promoted": ("sm_120a", f"{BLOCKS} with tile=64x64x128, cluster=1x1", 3e-6, (140, 136, 1000), (5, 7)),
    "registers, windows of shares": (
        "sm_120a", f"{BLOCKS} with tile=64x64x128, scale_path=bulk, unroll=1", 3e-6, (130, 72, 1536), (5,)),
    "registers, tiles cut in four": (
        "sm_120a", "C[m,n] = A[m,k] @ B[n,k] with tile=64x64x64, unroll=1", 3e-6, (40, 72, 1216), (7,)),
    "registers, unrolled": (
        "sm_120a", "C[m,n] = A[m,k] @ B[n,k] with tile=64x64x64, unroll=2", 3e-6, (100, 136, 512), (4,)),
    "registers, mxfp8": (
        "sm_120a", "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8 with tile=64x64x128", 3e-6, (40, 200, 640), (3,)),
    "registers, nvfp4, packed words": (
        "sm_120a", "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4 with tile=64x64x256", 3e-6, (40, 200, 1024), (3,)),
}  # fmt: skip


def streamed(source: str) -> str:
    return f"{source}, stream_k=1" if " with " in source else f"{source} with stream_k=1"


def dealt(launch: Launch, dims: dict[str, int], sms: int) -> list[list[range]]:
    """For each cluster the units of its share, a range for each tile, counted from the tile's first."""
    clusters = launch.grid(dims, sms // launch.cluster) // launch.cluster
    shares, units = launch.dealt(dims, sms // launch.cluster), launch.k_units
    found, at = [], 0
    for c in range(clusters):
        end = at + shares.share + (c < shares.longer)
        mine = []
        while at < end:
            begins = at // units * units
            mine.append(range(at - begins, min(end, begins + units) - begins))
            at = begins + mine[-1].stop
        found.append(mine)
    assert at == shares.cut * units
    return found


@pytest.mark.once(touches=lambda name: [PROGRAMS[name][0], *fields(PROGRAMS[name])])
@pytest.mark.parametrize("name", PROGRAMS)
def test_stream_k(name: str) -> None:
    target, source, limit, (m, n, k), at_once = PROGRAMS[name]
    dims = {"m": m, "n": n, "k": k}
    kernel = compiled(target, streamed(source), (("n", n), ("k", k)))
    values, expected = made(target, source, dims, seed=m)
    for sms in at_once:
        assert any(len(piece) < kernel.spec.launch.k_units for mine in dealt(kernel.spec.launch, dims, sms)
                   for piece in mine), "no tile is cut"  # fmt: skip
        found = [x for seed, launches in ((0, 2), (1, 1)) for x in outcome(kernel, values, dims, seed, sms, launches)]
        assert len({x.tobytes() for x in found}) == 1, "the order of arrival shows in the result"
        diff = reference.diff(found[0].astype(np.float64), expected)
        assert diff < limit, f"{kernel.spec.schedule}: diff {diff:.2e}"


def test_the_programs_have_shares_of_every_kind() -> None:
    kinds = set()
    for target, source, _, (m, n, k), at_once in PROGRAMS.values():
        with without_what_follows(["tile"]):
            launch = compile_source(streamed(source), target, {"n": n, "k": k}).spec.launch
        dims = {"m": m, "n": n, "k": k}
        for sms in at_once:
            units = launch.k_units
            for mine in dealt(launch, dims, sms):
                ends = [("begins", p.start > 0, "ends", p.stop < units) for p in mine]
                kinds |= {("pieces", len(mine)), *ends}
            kinds.add(("whole waves", launch.dealt(dims, sms // launch.cluster).whole > 0))
    within = ("begins", True, "ends", True)  # of one tile
    assert {("pieces", 1), ("pieces", 2), ("pieces", 3), within, ("whole waves", True)} <= kinds


def test_sizes_of_one_kernel() -> None:
    """Whole tiles alone, some cut, all cut, with sizes of M that come at the launch."""
    source = f"{BLOCKS} with tile=64x64x128, cluster=1x1"
    kernel = compiled("sm_90a", streamed(source), (("n", 64), ("k", 1024)))
    for m, cut in ((250, 0), (300, 5), (30, 1), (129, 3), (570, 5)):
        dims = {"m": m, "n": 64, "k": 1024}
        assert kernel.spec.launch.dealt(dims, 4).cut == cut
        values, expected = made("sm_90a", source, dims, seed=m)
        (found,) = outcome(kernel, values, dims, m, 4)
        assert reference.diff(found.astype(np.float64), expected) < 3e-6


def test_one_block_of_k() -> None:
    """Sums begin as zeros and meet a product at once, without a loop between: none moves behind wgmma.fence."""
    run_on("C[m,n]:f32 = A[m,k] @ B[n,k] with stream_k=1", {"m": 7, "n": 30, "k": 39}, ("m", "k"), 0, 1e-9)


FIRST: dict[str, bytes] = {}
"""The result of the first order of arrival that was tried."""
ORDERED = ("Hopper, promoted", "Hopper, two halves", "Hopper, tiles cut in three")


@pytest.mark.once
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ORDERED)
def test_orders_of_arrival(name: str, seed: int) -> None:
    target, source, _, (m, n, k), (sms, *_) = PROGRAMS[name]
    dims = {"m": m, "n": n, "k": k}
    kernel = compiled(target, streamed(source), (("n", n), ("k", k)))
    values, _ = made(target, source, dims, seed=m)
    (found,) = outcome(kernel, values, dims, seed, sms)
    assert FIRST.setdefault(name, found.tobytes()) == found.tobytes()


def test_clusters_one_after_the_other() -> None:
    """Nobody waits for a cluster that has not begun: with one at a time the shares of the grid come in turns."""
    target, source, limit, (m, n, k), (sms, *_) = PROGRAMS["Hopper, tiles cut in three"]
    dims = {"m": m, "n": n, "k": k}
    kernel = compiled(target, streamed(source), (("n", n), ("k", k)))
    values, expected = made(target, source, dims, seed=m)
    device = Recording(target, sms, 0)
    device.options = replace(device.options, sms=1)
    arguments, (out,) = upload(device, kernel.spec, values, dims)
    Kernel(kernel.spec, kernel.cubin, ptx=kernel.ptx, device=device)(*arguments, out=out)
    assert reference.diff(out.numpy().astype(np.float64), expected) < limit


TWO, THREE = "Hopper, two halves", "Hopper, tiles cut in three"
FAULTS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "the counter is not reset": (TWO, r"st\.relaxed\.gpu\.global\.u32 \[%rd\d+\], 0;", "", (WRONG, "deadlock")),
    "no release": (TWO, r"red\.release\.gpu", "red.relaxed.gpu", ("race",)),
    "no acquire": (TWO, r"ld\.acquire\.gpu", "ld.relaxed.gpu", ("race",)),
    "a share that is stored is not counted": (TWO, r"red\.release\.gpu\.global\.add\.u32 (\[%rd\d+\]), 1;", "",
                                              ("deadlock",)),
    "both take the first number": (TWO, r"atom\.relaxed\.gpu\.global\.add\.u32 (%r\d+), (\[%rd\d+\]), 65536;",
                                   r"atom.relaxed.gpu.global.add.u32 \1, \2, 0;", (WRONG, "deadlock", "uninitialised")),
    "consumers do not meet": (TWO, r"bar\.sync 8, 128;", "", ("race", "uninitialised", WRONG)),
    "of three as of two": (THREE, r"setp\.gt\.u32 \t(%p\d+), (%r\d+), 1;", r"setp.gt.u32 \t\1, \2, 2;", (WRONG,)),
    "one of three left out": (THREE, r"(add\.s64 \t%rd\d+, %rd\d+), 16384;(\s+setp\.lt\.u64)", r"\1, 32768;\2",
                              (WRONG,)),
    "a share in the place of another": (
        TWO, r"(mul\.wide\.u32 \t%rd\d+, %r\d+), 16384;(\s+add\.s64 [^;]*;\s+// begin inline asm\s+st\.global)",
        r"\1, 0;\2", (WRONG, "uninitialised", "race")),
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_found(what: str) -> None:
    name, old, new, kinds = FAULTS[what]
    target, source, limit, (m, n, k), (sms, *_) = PROGRAMS[name]
    dims = {"m": m, "n": n, "k": k}
    kernel = compiled(target, streamed(source), (("n", n), ("k", k)))
    ptx, count = re.subn(old, new, kernel.ptx)
    assert count, "the PTX has changed: the fault fits nothing"
    values, expected = made(target, source, dims, seed=m)
    faulty = Kernel(kernel.spec, kernel.cubin, ptx=ptx)
    runs = (found_as(faulty, values, dims, seed, sms, expected, limit) for seed in range(6))
    assert next((kind for kind in runs if kind), "nothing") in kinds


SLOW = r"""{
.reg .pred P;
.reg .b32 R;
mov.b32 R, 10000;
SLOW:
sub.u32 R, R, 1;
setp.ne.u32 P, R, 0;
@P bra SLOW;
}
red.release.gpu"""
"""A CTA that has stored its sums takes long to say so: the others have arrived by then."""


@pytest.mark.parametrize("waits", [True, False])
def test_a_slow_share_is_waited_for(waits: bool) -> None:
    target, source, limit, (m, n, k), (sms, *_) = PROGRAMS[TWO]
    dims = {"m": m, "n": n, "k": k}
    kernel = compiled(target, streamed(source), (("n", n), ("k", k)))
    ptx, slow = re.subn(r"red\.release\.gpu", SLOW, kernel.ptx)
    assert slow == 1
    if not waits:
        ptx, count = re.subn(r"(ld\.acquire\.gpu\.global\.u32 R, \[%rd\d+\];\n[^@]*)@P bra WAIT;", r"\1", ptx)
        assert count == 1
    values, expected = made(target, source, dims, seed=m)
    found = found_as(Kernel(kernel.spec, kernel.cubin, ptx=ptx), values, dims, 0, sms, expected, limit)
    assert found == ("" if waits else "race")
