"""Pairs of CTAs on sm_100a whose tensor cores multiply together: every kind of operand, scale and result."""

from __future__ import annotations

import re

import pytest

import scalec
from scalec.compiler import decide
from scalec.errors import ScheduleError
from tests.emulator.running import Ran, by_turns, k_of, limit, run_on
from tests.emulator.sm100_programs import FAMILIES, PROGRAMS
from tests.tiers import fields

TARGET = "sm_100a"

MORE = {
    "A by M": "C[m,n]:f32 = A[k,m] @ B[n,k]",
    "B by N": "C[m,n] = A[m,k] @ B[k,n]",
    "B by N, e4m3": "C[m,n]:f32 = A[m,k]:e4m3 @ B[k,n]:e5m2",
    "both, tf32": "C[m,n]:f32 = A[k,m]:tf32 @ B[k,n]:tf32",
    "both, block scales": "C[m,n]:f32 = A[k,m]:e4m3 @ B[k,n]:e5m2 scale(32x1:ue8m0, 64x8:ue8m0)",
    "B by N beside padded": "C[m,n]:f32 = A[m,k]:e2m1 @ B[k,n]:e4m3",
    "f32 of both by windows": "C[m,n] = A[m,k]@B[n,k] scale(1x128,1x128)",
}
NAMES = [
    *("bf16", "bf16 to f32", "f16", "tf32", "e4m3", "e4m3 x e5m2", "e2m1", "e2m3", "e3m2 x e2m3", "e4m3 x e2m1"),
    *("per row", "per row, per tensor", "blocks of rows", "padded, per row"),
    *("mxfp8", "mxfp6", "mxfp4", "nvfp4", "mxfp8 x mxfp4", "1x128, 128x128", "1x32 @packed, @blocked"),
    *("mxfp8 @blocked", "1x32, none", "none, 1x16", "tensor, mxfp4", "1x32, f32 128x128", "f32, e2m1"),
    *("1x96 @col, 1xk", "1x16 @blocked", "f32 1x128, 128x128", "f32 1x128, 1x128", "f32 by threads", "f32, +="),
    *("bf16, +=", "bias", "silu", "residual", *MORE),
]

# (m, n, bytes of a row, dims fixed at compile time) by seed: one CTA of a pair without rows, tails of every kind, an
# odd number of tiles along M, more tiles than CTAs
SIZES = [
    (5, 3, 20, ()),
    (130, 72, 256, ("m", "n", "k")),
    (257, 40, 150, ("n", "k")),
    (65, 136, 288, ("n", "k")),
    (300, 264, 64, ("n", "k")),
    (129, 65, 96, ("n", "k")),
    (700, 72, 132, ()),
    (1, 160, 384, ("k",)),
]


def run(source: str, schedule: str, dims: dict[str, int], fixed: tuple[str, ...], seed: int) -> Ran:
    ran = run_on(
        f"{source} with {schedule}", dims, fixed, seed, limit(source), target=TARGET, times=1 if seed % 4 else 2
    )
    assert "cta_group=2" in ran.kernel.spec.schedule
    assert ran.stats.counts["tcgen05.mma"] > 0
    assert ran.stats.counts["bank conflicts"] == 0
    return ran


@pytest.mark.once("seed")
@pytest.mark.parametrize(("name", "seed"), by_turns(NAMES, len(SIZES)))
def test_program(name: str, seed: int) -> None:
    source, _, given = (PROGRAMS | MORE)[name].partition(" with ")
    m, n, row, fixed = SIZES[seed]
    if "[k,m]" in source or "[k,n]" in source:  # rows of 16 bytes
        m, n = -(-m // 16) * 16, -(-n // 16) * 16
    k = 1024 if "windows" in name else k_of(source, row)
    path = ", scale_path=thread" if "scale_path=thread" in given else ""
    ran = run(source, f"cta_group=2, swap=0{path}", {"m": m, "n": n, "k": k}, fixed, seed)
    assert "cluster=2x1, cta_group=2" in ran.kernel.spec.schedule


SCHEDULES = {
    "bf16": [
        "tile=128x256x64",
        "tile=128x224x64, order=m, band=2",
        "tile=128x128x64, stages=2",
        "tile=128x32x64, unroll=3",
        "tile=128x96x64, epilogue=direct",
        "tile=128x64x32, swizzle_a=64, swizzle_b=64",
        "tile=128x32x16, swizzle_a=32, swizzle_b=32",
        "tile=128x64x64, staged=1, registers=48x216",
        "tile=128x128x64, swap=1",
        "tile=128x64x64, promote=64",
        "tile=128x64x64, cluster=2x2",  # two pairs share A
        "tile=128x64x64, cluster=4x1, stages=2",  # two pairs share B
        "tile=128x64x64, split=3",
        "tile=128x32x64, cluster=4x1, split=2",
    ],
    "many tiles": [
        "tile=128x32x64",
        "tile=128x64x32, stages=2, swizzle_a=64, swizzle_b=64",
        "tile=128x32x64, cluster=8x1, order=m",
        "tile=128x32x64, cluster=2x4",
        "tile=128x32x64, scheduler=dynamic",
        "tile=128x32x64, cluster=2x2, scheduler=dynamic",
    ],
    "tf32": ["tile=128x128x32"],
    "padded": ["tile=128x160x128, stages=2", "tile=128x64x128, swap=1"],
    "mxfp8": [
        "tile=128x256x128, stages=2",
        "tile=128x192x128",
        "tile=128x96x64, swizzle_a=64, swizzle_b=64",
        "tile=128x64x128, swap=1, unroll=2",
        "tile=128x64x128, cluster=2x2, stages=3, scheduler=dynamic",
        "tile=128x128x128, cluster=4x1, stages=2",
    ],
    "nvfp4": ["tile=128x256x256, stages=2", "tile=128x32x128, swizzle_a=64, swizzle_b=64"],
    "1x128": [
        "tile=128x128x128",
        "tile=128x64x128, scale_path=thread",
        "tile=128x32x128, swap=1",
        "tile=128x64x128, cluster=2x2",
        "tile=128x64x128, cluster=4x1",
        "tile=128x32x128, cluster=4x1, scale_path=thread",
    ],
}


@pytest.mark.once("family", touches=lambda schedule, **_: fields(schedule))
@pytest.mark.parametrize(("family", "schedule"), [(f, s) for f in SCHEDULES for s in SCHEDULES[f]])
def test_schedule(family: str, schedule: str) -> None:
    source, (m, n, k) = FAMILIES[family]
    ran = run(source, f"cta_group=2, {schedule}", {"m": m, "n": n, "k": k}, ("n", "k"), 3)
    assert all(field.strip() in ran.kernel.spec.schedule for field in schedule.split(","))


@pytest.mark.once("element")
@pytest.mark.parametrize(("element", "schedule"), [
    ("bf16", "tile=128x64x64, swizzle_a=64, swizzle_b=32"),
    ("bf16", "tile=128x256x32, swizzle_a=32, swizzle_b=128"),
    ("e4m3", "tile=128x64x128"),
    ("e4m3", "tile=128x256x64, swizzle_b=64, stages=2"),
])  # fmt: skip
def test_panels_of_half_of_b(element: str, schedule: str) -> None:
    source = f"C[m,n]:f32 = A[k,m]:{element} @ B[k,n]:{element}"
    run(source, f"cta_group=2, {schedule}", {"m": 272, "n": 176, "k": 200}, ("n", "k"), 5)


def test_all_instructions_are_of_two_ctas() -> None:
    """PTX ISA 9.7.16.7.1: the same .cta_group in all of a kernel."""
    source = "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8 with cta_group=2"
    ptx = scalec.compile(source, target=TARGET, dims={"n": 512, "k": 512}).ptx
    names = {*re.findall(r"tcgen05\.(\w+)\.cta_group::2", ptx)}
    assert names == {"alloc", "dealloc", "relinquish_alloc_permit", "mma", "cp", "commit"}
    copies = re.findall(r"cp\.async\.bulk\.tensor[^\n]*mbarrier[^\n]*", ptx)
    assert copies
    assert all("cta_group::2" in copy for copy in copies)
    assert "cta_group::1" not in ptx


def test_what_is_chosen() -> None:
    """Two CTAs where M has two tiles, and the larger tile copies less; one where not, or where a cluster says so."""

    def chosen(schedule: str = "", element: str = "bf16", **dims: int) -> dict[str, str]:
        source = f"C[m,n] = A[m,k]:{element} @ B[n,k]:{element} with epilogue=direct{schedule}"
        made, _ = decide(source, TARGET, {"n": 7168, "k": 2048, **dims})
        return dict(f.split("=") for f in str(made).split(", "))

    large = {"tile": "128x256x64", "cluster": "2x1", "cta_group": "2"}
    assert large.items() <= chosen().items()
    assert chosen(m=128)["cta_group"] == "1"
    assert {"cluster": "1x2", "cta_group": "1"}.items() <= chosen(", cluster=1x2").items()
    assert {"cluster": "2x1", "cta_group": "1"}.items() <= chosen(", cluster=2x1, cta_group=1").items()
    assert {"cluster": "2x1", "cta_group": "2"}.items() <= chosen(", cluster=2x1").items()
    assert {"cluster": "4x1", "cta_group": "2"}.items() <= chosen(", cluster=4x1").items()
    # 128 + 128 / 2 rows copied as 128 / 2 + 128, and less shared memory; 128 + 64 / 2 rows are more than 128 / 2 + 64
    assert chosen(", tile=128x128x64")["cta_group"] == "2"
    assert chosen(", tile=128x64x64")["cta_group"] == "1"
    assert chosen(", tile=128x240x64")["cta_group"] == "1"


@pytest.mark.parametrize(
    ("source", "schedule", "message"),
    [
        ("bf16", "cluster=1x2", r"cta_group = 2 with a cluster of 1x2\n  expected: a multiple of 2 along M"),
        ("bf16", "cluster=1x1", r"cta_group = 2 with a cluster of 1x1\n.*\n  fix: cluster=2x1, or cta_group=1"),
        ("bf16", "cluster=4x2", r"a cluster of 4x2 shares tiles in two directions.*\n  expected: 2x1, 2x2, 4x1"),
        ("bf16", "cluster=6x1", "a cluster of 6x1 .* is no power of two"),
        ("bf16", "cluster=8x2", "a cluster of 8x2 is 16 CTAs\n  expected: at most 8 on sm_100a"),
        ("bf16", "tile=128x48x64", "tile N = 48 is not a width of .* 2 CTAs\n  expected: .* 32 from 32 to 256"),
        ("bf16", "tile=256x256x64", "fix: tile M = 128, cta_group=2 for two CTAs that multiply together"),
        ("B by N, e4m3", "tile=128x32x128", "a tile of 16 of n, 16 bytes of B.*\n  fix: tile N a multiple of 64"),
        ("B by N, e4m3", "tile=128x64x128, swizzle_b=64", "is 32 bytes and swizzle_b = 64"),
    ],
)
def test_refused(source: str, schedule: str, message: str) -> None:
    text = f"{(PROGRAMS | MORE)[source]} with cta_group=2, {schedule}"
    with pytest.raises(ScheduleError, match=message):
        scalec.compile(text, target=TARGET, dims={"n": 512, "k": 512})


@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
def test_refused_where_no_two_ctas_multiply_together(target: str) -> None:
    message = f"cta_group = 2, and {target} has no product of bf16 and bf16 by 2 CTAs together\n  fix: cta_group=1"
    with pytest.raises(ScheduleError, match=message):
        scalec.compile("C[m,n] = A[m,k] @ B[n,k] with cta_group=2", target=target, dims={"n": 512, "k": 512})
