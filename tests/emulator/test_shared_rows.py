"""Results quantised by blocks that no tile has: CTAs of a cluster find their scales together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import compiler
from scalec.checking.compare import compare
from scalec.checking.launch import made_up, upload, values_of
from scalec.emulator.findings import Finding
from scalec.errors import DeviceError, ScheduleError, UnsupportedError
from scalec.runtime.kernel import Kernel
from tests.emulator.launches import WRONG, Recording
from tests.emulator.quantised import run_quantised
from tests.emulator.running import refusals
from tests.tiers import SEEDS

TARGETS = ["sm_90a", "sm_100a"]  # sm_120a has no clusters that share copies
BF16 = "D[m,n]{} = A[m,k] @ B[n,k]"
FP8 = "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)"
BIAS = "D[m,n]{} = relu(A[m,k] @ B[n,k] + bias[n])"


@pytest.mark.once("target")
@pytest.mark.parametrize(
    ("program", "result", "n", "settings"),
    [
        (BF16, "e4m3 scale(1xn)", 264, "cluster=1x2, promote=64"),
        (BF16, "e2m1 scale(1xn)", 640, "cluster=1x4, promote=64"),
        (BIAS, "e5m2 scale(1xn:ue8m0)", 1000, "cluster=1x8"),
        (FP8, "e4m3 scale(1xn@col)", 512, "cluster=1x8"),
        (FP8, "e4m3 scale(1xn)", 2041, "cluster=1x8"),
        (BF16, "e4m3 scale(1x512)", 1100, "cluster=1x4, promote=64"),  # narrower than a row, the last of 76 columns
        (BF16, "e4m3 scale(1x256@packed:ue8m0)", 1025, "tile=128x64x64, cluster=1x4"),
        (BF16, "e4m3 scale(1x128)", 200, "tile=128x64x64, cluster=1x2"),  # of which another tile would have whole ones
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_bits(target: str, program: str, result: str, n: int, settings: str) -> None:
    """Rows with NaN, infinities and zeros among them: the reference's quantising of the f32 result."""
    result = result.replace("@packed:ue8m0", ":ue8m0@packed")
    sizes = {"m": 70, "n": n, "k": 128 if n < 2000 else 256}  # of one K block, 256 columns and FP8 ptxas spills
    kernel = run_quantised(program, result, sizes, ("n", "k"), 5, target, settings, times=1)
    assert kernel.spec.launch.cluster == int(settings[settings.index("cluster=1x") + 10])


SIZES = {"m": 40, "n": 264, "k": 64}
PROGRAMS: dict[str, tuple[str, dict[str, int]]] = {
    "batch": ("D[b,m,n]:e4m3 scale(1x1xn) = A[b,m,k] @ B[b,n,k]", {"b": 3, **SIZES}),
    "ragged": ("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]", {"g": 3, **SIZES, "m": 300}),
    "masked": ("D[g,m,n]:e4m3 scale(1x1xn) = A[g,m,k] @ B[g,n,k] for m < rows[g]", {"g": 2, **SIZES, "m": 150}),
    "blocks": ("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[e[m/128],n,k]", {"B_0": 3, **SIZES, "m": 500}),
    "scattered": ("D[o[m],n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", {"D_0": 60, **SIZES}),
    "range of K": ("D[g,m,n]:e4m3 scale(1x1xn) = A[m,k] @ B[n,k] for k in off[g]:off[g+1]", {"g": 3, **SIZES, "k": 96}),
    "several": (
        "T[m,n] = A[m,k] @ B[n,k]; E[m,n]:bf16 = T[m,n]; D[m,n]:e4m3 scale(1xn) = relu(T); R[m] = max[n](abs(T)); "
        "F[m,n]:e5m2 scale(1xn:ue8m0) = -T[m,n]",
        SIZES,
    ),
    "gated": ("G[m,n] = X[m,k]@V[n,k]; U[m,n] = X[m,k]@W[n,k]; D[m,n]:e4m3 scale(1xn) = silu(G)*U", SIZES),
    "by chance": ("D[m,n]:e4m3 scale(1xn) = stochastic(x * (A[m,k] @ B[n,k]), w[0])", SIZES),
    "tiles of scales": ("D[m,n]:e4m3 scale(1x512:ue8m0@blocked) = A[m,k] @ B[n,k]", {**SIZES, "m": 140, "n": 1100}),
    "added": ("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k] + E[m,r] @ F[n,r]", {**SIZES, "r": 40}),
    "4 bits": ("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]:nvfp4", SIZES),
}  # fmt: skip


@pytest.mark.once("target")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", TARGETS)
def test_against_the_reference(target: str, name: str, seed: int) -> None:
    """One cluster works on all tiles, and three do: the same bits."""
    program, sizes = PROGRAMS[name]
    kernel = scalec.compile(program + " with cluster=1x4", target=target, dims={"n": sizes["n"]})
    assert isinstance(kernel, Kernel)
    values, expected = made_up(program, sizes, seed)
    outs = [outcome(kernel, values, sizes, seed, sms) for sms in (4, 12)]
    for found in compare(dict(zip((r.name for r in kernel.spec.results), outs[0], strict=True)), expected):
        assert found.ok, found
    for one, other in zip(*outs, strict=True):
        assert one.tobytes() == other.tobytes()


def outcome(kernel: Kernel, values: Mapping[str, Any], sizes: dict[str, int], seed: int, sms: int) -> list[np.ndarray]:
    device = Recording(kernel.spec.target, sms, seed)
    runner = Kernel(kernel.spec, kernel.cubin, ptx=kernel.ptx, device=device)
    arguments, outs = upload(device, kernel.spec, values, sizes)
    runner(*arguments, out=tuple(outs) if len(outs) > 1 else outs[0])
    return [values_of(r, o) for r, o in zip(kernel.spec.results, outs, strict=True)]


SENT = r"st\.async\.shared::cluster\.mbarrier::complete_tx::bytes\.f32"
ARRIVES = rf"({SENT}[\s\S]*?)mbarrier\.arrive\.shared::cluster\.b64 _, (\[%r\d+\]);"
WAITS = r"mbarrier\.try_wait\.parity\.acquire\.cluster\.shared::cta\.b64 P1, \[%r\d+\], %r\d+, 0x989680;"
FAULTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "nobody waits": (WAITS, "setp.eq.u32 P1, 0, 0;", ("race", "in-flight", "uninitialised", WRONG)),
    "half of the bytes are waited for": (
        r"(arrive\.expect_tx\.relaxed\.cta[^;]*\]), 512;", r"\1, 256;", ("race", "in-flight", "deadlock", WRONG)),
    "one CTA is sent nothing": (rf"@%p\d+ {SENT}[^;]*;", "", ("deadlock",)),
    "tiles have one place": (r"shl\.b32 \t(%r\d+), %r\d+, 9;", r"mov.b32 \t\1, 0;", ("race", WRONG)),
    "arrivals order nothing": (
        ARRIVES, r"\1mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, \2;", ("race",)),
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("what", FAULTS)
def test_faults_are_found(what: str) -> None:
    """Of nine tiles of rows that one cluster works on."""
    old, new, kinds = FAULTS[what]
    program, sizes = "D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", {"m": 560, "n": 264, "k": 64}
    kernel = scalec.compile(program + " with cluster=1x2, tile=64x192x64", "sm_90a", {"n": 264, "k": 64})
    assert isinstance(kernel, Kernel)
    ptx, made = re.subn(old, new, kernel.ptx, count=1)
    if not made or ptx == kernel.ptx:
        pytest.fail(f"no match of {old!r}")
    broken = Kernel(kernel.spec, b"", ptx=ptx)
    values, expected = made_up(program, sizes, 3)
    seen = set[str]()
    for seed in range(4):
        try:
            outs = outcome(broken, values, sizes, seed, 2)
        except DeviceError as error:
            seen.add(error.__cause__.kind if isinstance(error.__cause__, Finding) else str(error))
            continue
        found = compare(dict(zip((r.name for r in kernel.spec.results), outs, strict=True)), expected)
        seen |= {WRONG} if not all(x.ok for x in found) else set()
    assert seen & set(kinds), seen


test_schedules_that_cannot_be = refusals(
    [
        ("cluster=1x2, consumers=pingpong", "2 CTAs find D_scale together"),
        ("cluster=1x2, split=2, parts=memory", "2 CTAs find D_scale together"),
        ("cluster=1x2, split=8", "clusters of 16 CTAs, of at most 8"),
        ("cluster=1x4, tile=64x192x64", "no multiple of 80"),
    ],
    (ScheduleError, UnsupportedError),
    dims={"n": 264, "k": 512},
    within="D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k] with {}",
)


def test_columns_of_a_tile_that_are_rows_of_a_result() -> None:
    """Tiles that are transposed have no whole rows of it, whatever the cluster: another launch quantises it."""
    source = "D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k] with cluster=1x2, swap=1"
    kernel: Any = scalec.compile(source, "sm_90a", {"n": 264, "k": 512})
    assert len(kernel.launches) == 2
    assert "swap=1" in kernel.spec.schedule


GATED = (
    "G[m,n] = A[m,k]@B[n,k] scale(1x128,128x128); U[m,n] = A[m,k]@W[n,k] scale(1x128,128x128); "
    "H[m,n]:fp8_block = silu(G)*U"
)


@pytest.mark.parametrize(("m", "ctas", "parts"), [(16, 2, "cluster"), (64, 2, "cluster"), (4096, 1, "memory")])
def test_few_rows_have_narrower_tiles_than_blocks(m: int, ctas: int, parts: str) -> None:
    """Tiles with whole blocks of both contractions have 256 columns: too few of them, where one has all rows."""
    _, schedule, _ = compiler.decided(GATED, "sm_90a", {"m": m, "n": 2048, "k": 7168})
    assert (schedule.cluster[1], schedule.parts) == (ctas, parts)


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
def test_gates_of_few_rows(target: str) -> None:
    run_quantised(
        GATED.replace("H[m,n]:fp8_block", "H[m,n]{}"),
        "fp8_block",
        {"m": 9, "n": 392, "k": 256},
        ("n", "k"),
        5,
        target,
        "tile=64x64x128, cluster=1x4" if target == "sm_90a" else "tile=128x64x128, cluster=1x4",
        times=1,
    )


SPLIT: dict[str, tuple[str, dict[str, int], str]] = {
    "blocks": (FP8.format(":e4m3 scale(1xn)"), {"m": 150, "n": 250, "k": 384}, "tile=64x128x128, cluster=1x2, split=3"),
    "two warpgroups": (
        BIAS.format(":e5m2 scale(1xn:ue8m0)"), {"m": 200, "n": 120, "k": 250}, "tile=128x64x64, cluster=1x2, split=2"),
    "batch": (PROGRAMS["batch"][0], {"b": 3, **SIZES, "k": 250}, "tile=64x80x64, cluster=1x4, split=2"),
    "scattered": (PROGRAMS["scattered"][0], {"D_0": 60, **SIZES, "k": 128}, "tile=64x80x64, cluster=1x4, split=2"),
    "several": (
        "T[m,n] = A[m,k] @ B[n,k]; E[m,n]:bf16 = T[m,n]; D[m,n]:e4m3 scale(1xn) = relu(T); "
        "F[m,n]:e5m2 scale(1xn:ue8m0) = -T[m,n]", {**SIZES, "m": 150, "k": 256}, "tile=64x80x64, cluster=1x4, split=2"),
    "gates": (GATED, {"m": 70, "n": 392, "k": 384}, "tile=64x128x128, cluster=1x2, split=3"),
    "one row": (GATED, {"m": 1, "n": 128, "k": 512}, "tile=64x64x128, cluster=1x4, split=2"),
    "no rows": (GATED, {"m": 0, "n": 256, "k": 512}, "tile=64x64x128, cluster=1x4, split=2"),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SPLIT)
def test_parts_meet_in_the_cluster_too(name: str, seed: int) -> None:
    """CTAs with the first part add up the sums, then find scales together: one cluster of all tiles, and several."""
    program, sizes, settings = SPLIT[name]
    kernel = scalec.compile(f"{program} with {settings}", "sm_90a", {"n": sizes["n"], "k": sizes["k"]})
    assert isinstance(kernel, Kernel)
    assert "parts=cluster" in str(kernel.spec.schedule)
    assert "arrive.release.cluster" not in kernel.ptx  # a barrier of all memory, for each tile
    values, expected = made_up(program, sizes, seed)
    size = kernel.spec.launch.cluster
    outs = [outcome(kernel, values, sizes, seed, sms) for sms in (size, 3 * size)]
    for found in compare(dict(zip((r.name for r in kernel.spec.results), outs[0], strict=True)), expected):
        assert found.ok, found
    for one, other in zip(*outs, strict=True):
        assert one.tobytes() == other.tobytes()
