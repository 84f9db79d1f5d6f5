"""Operands whose rows an index from memory names: the problem, what cannot be with them, and what is chosen."""

from __future__ import annotations

import pytest

from scalec import compiler, frontend
from scalec.errors import ScheduleError, UnsupportedError
from scalec.formats import WHOLE
from scalec.ir.schedule import Request
from scalec.passes.base import problem_of, programs
from scalec.passes.pipeline import find, run_pipeline
from scalec.passes.plan.gather import gathered_together
from scalec.passes.problem.access import Coord
from scalec.passes.problem.types import Problem
from scalec.targets import get_target

SIZES = {"n": 4096, "k": 4096}
FP8 = "C[m,n] = A[idx[m],k] @ B[n,k] scale(1x128,128x128)"
OTHER = "C[m,n] = A[m,k] @ B[idx[n],k] scale(1x128,128x128)"
BOTH = "C[m,n] = A[idx[m],k] @ B[jdx[n],k]"


def read(source: str, target: str = "sm_90a", **sizes: int) -> Problem:
    """The problem of a program."""
    row, module = get_target(target), frontend.build(source, {**SIZES, **sizes})
    run_pipeline(module, row, passes=find(["infer-roles", "fuse-epilogue"]))
    return problem_of(next(programs(module)), row, Request())


def test_facts() -> None:
    problem = read("C[m,n] = gelu(A[idx[m],k] @ B[n,k] scale(24x128,1xk) + r[idx[m]])")
    (lookup,) = problem.lookups
    assert (lookup.name, lookup.dim, lookup.block, lookup.by_row) == ("idx[m]", "m", 1, True)
    assert [d.name for d in lookup.extents] == ["A_0", "r_0"]
    assert (problem.lhs.gathered, problem.lhs.rows, problem.lhs.row_axis) == ("idx[m]", "m", 0)
    (scale,) = problem.lhs.scales
    assert (scale.gathered, scale.rows, scale.coords) == ("idx[m]", 1, (Coord("idx[m]", 24), Coord("k", 128)))
    assert [(x.name, x.kind, x.coords) for x in problem.inputs] == [
        ("B_scale", "col", (Coord("n"), Coord(""))),
        ("r", "row", (Coord("idx[m]"),)),
    ]


def test_nothing_is_dealt_out_by_a_warp_for_a_gather() -> None:
    assert not read(FP8).queued
    assert read("C[m,n] = A[idx[m],k] @ B[e[m/128],n,k]").queued
    assert [x.name for x in read("C[m,n] = A[idx[m],k] @ B[e[m/128],n,k]").constant_lookups] == ["e[m/128]"]


def test_as_many_rows_are_moved_as_are_named() -> None:
    problem = read(FP8)
    assert problem.sizes({"m": 300, "A_0": 7})["idx[m]"] == 300


def test_a_scale_of_all_rows_is_not_gathered() -> None:
    (scale,) = read("C[m,n] = A[idx[m],k] @ B[n,k] scale(64x128,1x128)", A_0=50).lhs.scales
    assert (scale.rows, scale.gathered) == (WHOLE, "")


@pytest.mark.parametrize(
    ("source", "target", "together"),
    [
        (FP8, "sm_90a", 1),
        (FP8, "sm_100a", 4),
        (FP8, "sm_120a", 4),
        ("C[b,m,n] = A[b,idx[m],k] @ B[b,n,k]", "sm_100a", 1),
    ],
)
def test_rows_of_a_copy(source: str, target: str, together: int) -> None:
    problem = read(source, target)
    assert gathered_together(problem, problem.lhs) == together


CLUSTERED = r"CTAs of a cluster of {} share tiles of {}, whose rows idx\[{}\] names"
REFUSED: dict[str, tuple[str, str, str, str]] = {
    "A shared": (FP8, "sm_90a", "cluster=1x2", CLUSTERED.format("1x2", "A", "m")),
    "B shared": (OTHER, "sm_90a", "cluster=2x1", CLUSTERED.format("2x1", "B", "n")),
    "A shared, swapped": (FP8, "sm_90a", "swap=1, cluster=2x1", CLUSTERED.format("2x1", "A", "m")),
    "B shared by pairs": (OTHER, "sm_100a", "cta_group=2, cluster=4x1", CLUSTERED.format("4x1", "B", "n")),
    "A shared by pairs": (FP8, "sm_100a", "cta_group=2, cluster=2x2", CLUSTERED.format("2x2", "A", "m")),
    "bulk scales": (FP8, "sm_90a", "scale_path=bulk", r"A_scale is of rows that idx\[m\] names"),
    "narrow rows": (
        "C[b,m,n] = A[b,idx[m],k] @ B[b,n,k]",
        "sm_120a",
        "tile=64x64x32, swizzle_a=64, swizzle_b=64",
        "64 bytes of a row of A",
    ),
    "narrow rows that are converted": (
        "C[m,n] = A[idx[m],k]:e2m1 @ B[n,k]:bf16",
        "sm_90a",
        "tile=64x64x16, swizzle_a=32, swizzle_b=32",
        "8 bytes of a row of A, and copies bring multiples of 16",
    ),
    "an instruction's sums": (
        "C[m,n] = A[idx[m],k] @ B[n,k]",
        "sm_90a",
        "tile=128x256x64",
        "sums of an instruction for more than the 128 registers",
    ),
    "added in memory": (
        "C[m,n]:f32 += A[idx[m],k] @ B[n,k]",
        "sm_90a",
        "epilogue=bulk",
        r"idx\[m\] may be negative, and copies would add",
    ),
    "turned": (OTHER, "sm_90a", "swap=1, epilogue=turned", r"idx\[n\] may be negative, and a thread stores several n"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_schedules(name: str) -> None:
    source, target, schedule, message = REFUSED[name]
    with pytest.raises(ScheduleError, match=message):
        compiler.compile_source(f"{source} with {schedule}", target, {**SIZES, "m": 4096}, until="tile")


UNSUPPORTED: dict[str, tuple[str, str]] = {
    "half bytes": ("C[m,n]:e2m1 = A[m,k] @ B[idx[n],k]", r"idx\[n\] may be negative, and C has blocks of 2 along n"),
    "blocks": ("C[m,n]:mxfp8 = A[m,k] @ B[idx[n],k]", r"idx\[n\] may be negative, and C has blocks of 32 along n"),
    "rows of blocks": ("C[m,n] = A[e[m/64],k] @ B[n,k]", r"A\[e\[m/64\], k\] has no index of its own for each m"),
    "of a sum over more": ("C[m,n] = A[b,idx[b,m],k] @ B[b,n,k]", r"idx\[b, m\] is read at b, over which the sum runs"),
    "of a sum over more groups": ("C[m,n] = A[b,m,k] @ B[e[b],n,k]", r"e\[b\] is read at b, over which the sum runs"),
    "rows contiguous": ("C[m,n] = A[k,idx[m]] @ B[n,k]", r"A\[k, idx\[m\]\] is contiguous along idx\[m\]"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_refused_programs(name: str) -> None:
    source, message = UNSUPPORTED[name]
    with pytest.raises(UnsupportedError, match=message):
        compiler.compile_source(source, "sm_90a", SIZES, until="tile")


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("source", [FP8, OTHER, BOTH])
@pytest.mark.parametrize("m", [8, 4096])
def test_what_is_chosen_can_be(source: str, target: str, m: int) -> None:
    """A tile, a cluster whose CTAs do not share what is gathered, and copies that store whole tiles."""
    made = compiler.compile_source(source, target, {**SIZES, "m": m}, until="tile")
    assert made.schedule is not None
    along_m, along_n = made.schedule.cluster
    if made.schedule.swap:
        along_m, along_n = along_n, along_m
    assert along_n == 1 or "A[idx" not in source
    assert along_m <= made.schedule.cta_group or "B[m" not in source
    if m == 4096 and source == FP8:
        assert made.schedule.epilogue == "bulk"


def test_a_cluster_may_share_the_other_operand() -> None:
    made = compiler.compile_source(f"{FP8} with cluster=2x1", "sm_90a", {**SIZES, "m": 4096}, until="tile")
    assert "multicast = 1" in made.texts["tile"] or "multicast = 2" in made.texts["tile"]


@pytest.mark.parametrize(
    ("source", "schedule", "registers", "threads"),
    [
        (FP8, "tile=128x192x128", (40, 216), 512),
        (FP8, "tile=256x128x128", (56, 200), 512),
        (FP8, "tile=192x128x128", (48, 128), 640),
        (BOTH, "tile=128x128x64", (56, 200), 512),
        ("C[m,n] = A[idx[m],k]:nvfp4 @ B[n,k]:bf16", "tile=128x128x64", (72, 128), 640),
        ("C[m,n] = A[m,k] @ B[n,k]", "tile=128x192x64", (40, 232), 384),
    ],
)
def test_consumers_have_the_registers_that_are_left(
    source: str, schedule: str, registers: tuple[int, int], threads: int
) -> None:
    """By a warpgroup that copies rows, the more the more rows a thread has, and by one that converts."""
    made = compiler.compile_source(f"{source} with {schedule}", "sm_90a", SIZES, until="tile")
    assert made.schedule is not None
    assert made.schedule.registers == registers
    assert f"threads = {threads}" in made.texts["tile"]


def test_only_threads_that_need_to_copy_rows() -> None:
    """Where a tensor copy brings four at once, it does."""
    for target, copies in (("sm_90a", "tile.copy_rows"), ("sm_100a", "tile.gather"), ("sm_120a", "tile.gather")):
        text = compiler.compile_source(FP8, target, SIZES, until="tile").texts["tile"]
        assert {x for x in ("tile.copy_rows", "tile.gather") if f'"{x}"' in text} == {copies}


@pytest.mark.parametrize(
    ("source", "dims"),
    [
        ("C[m,n] = A[idx[m],k] @ B[n,k]", {}),
        ("C[m,n] = A[idx[m],k] @ B[n,k]", {"n": 4096, "k": 2080}),
        (FP8, {"n": 4096}),
        (FP8, {"n": 4096, "k": 2880}),
        ("C[m,n] = A[m,k] @ B[idx[n],k] scale(1x128,1x128)", {"n": 4096, "k": 2880}),
    ],
)
def test_tiles_stay_large_where_k_has_a_tail(source: str, dims: dict[str, int]) -> None:
    """Copies of K tiles that may reach beyond K take more registers: with those of whole ones ptxas spilled, and the
    compiler went down to tiles of 64x64 and 64x32."""
    made = compiler.compile_source(source, "sm_90a", dims, tuned=False)
    assert made.spec is not None
    assert made.schedule is not None
    assert made.schedule.tile[0] * made.schedule.tile[1] >= 128 * 128
