"""`parts`: in a cluster where all parts run at once and their sums have room, else in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalec import compiler
from scalec.errors import ScheduleError
from scalec.ir.schedule import Request, Schedule
from scalec.model.space import plans
from scalec.passes.choose.parts import at_once
from scalec.passes.plan.parts import FEWEST_STAGES, cluster_ctas, no_meeting
from scalec.passes.plan.resources import part_owners
from scalec.passes.plan.shared_memory import SharedPlan
from scalec.passes.problem.types import Problem
from tests.passes.scale_programs import text
from tests.schedules import plain

TILE = {"tile": (64, 64, 128), "cluster": (1, 1), "swap": 0}


@pytest.mark.parametrize(
    ("n", "fields", "parts"),
    [
        (2048, {"split": 2}, "cluster"),  # 32 clusters of two
        (4224, {"split": 2}, "cluster"),  # 66, as many as run at once
        (4288, {"split": 2}, "memory"),  # 67
        (2496, {"split": 3}, "cluster"),  # 39 clusters of three are all that GPCs have room for
        (2560, {"split": 3}, "memory"),
        (2048, {"split": 2, "cluster": (1, 2)}, "cluster"),  # 16 clusters of four
        (512, {"split": 8}, "cluster"),
        (512, {"split": 9}, "memory"),  # a portable cluster has eight CTAs
        (512, {"split": 5, "cluster": (1, 2)}, "memory"),
        (2048, {"split": 1}, "memory"),
        (512, {"split": 8, "tile": (64, 128, 128)}, "memory"),  # seven tiles of sums have 229 KB
        (512, {"split": 8, "tile": (128, 64, 128)}, "cluster"),  # and half as much where two CTAs finish halves
        (512, {"split": 3, "tile": (256, 64, 128)}, "memory"),  # beside the sums is room for three stages
        (512, {"split": 2, "stages": 10}, "cluster"),
        (512, {"split": 2, "stages": 13}, "memory"),  # those that are decided leave no room
        (2048, {"split": 4, "parts": "memory"}, "memory"),
    ],
)
def test_parts(decide: Callable[..., Schedule], n: int, fields: dict[str, object], parts: str) -> None:
    assert decide(text(m=64, n=n, k=7168), **{**TILE, **fields}).parts == parts


def test_where_m_is_not_known(decide: Callable[..., Schedule]) -> None:
    """Tiles are assumed to be many."""
    assert decide(text(m="?", n=2048, k=7168), **TILE, split=2).parts == "memory"


@pytest.mark.parametrize(
    ("target", "fields", "reason"),
    [
        ("sm_100a", {}, "sm_100a sums in tensor memory"),
        ("sm_120a", {}, "2 parts make clusters of 2 CTAs, of at most 1"),
        ("sm_90a", {"scheduler": "dynamic"}, "scheduler=dynamic"),
        ("sm_90a", {"split": 1}, "split = 1: there are no parts"),
        ("sm_90a", {}, ""),
    ],
)
def test_reasons(problem_in: Callable[..., Problem], target: str, fields: dict[str, object], reason: str) -> None:
    problem = problem_in("C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)", target, m=64, n=2048, k=7168)
    schedule = plain(**{"tile": (64, 64, 128), "split": 2, **fields})
    found = no_meeting(problem, schedule.cluster, schedule.split, schedule.scheduler)
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


@pytest.mark.parametrize(("rows", "units"), [(64, 1), (128, 1), (192, 2)])
def test_room(decide: Callable[..., Schedule], problem_of: Callable[[str], Problem], rows: int, units: int) -> None:
    """f32 sums of each other part: of the only warpgroup, of one of two, or of two of three."""
    program = text(m=64, n=512, k=7168)
    plan = SharedPlan.of(problem_of(program), decide(program, **{**TILE, "tile": (rows, 32, 128)}, split=4))
    assert (plan["parts"].bytes, plan["parts_barriers"].bytes) == (3 * units * 64 * 32 * 4, 16)


def test_one_finishes_a_tile_whose_scales_warps_find_together(problem_in: Callable[..., Problem]) -> None:
    """FP8 in blocks of 128 rows of the transposed result: eight warps of both warpgroups have one."""
    programs = (f"C[m,n]{result} = A[m,k] @ B[n,k] scale(1x128,128x128)" for result in ("", ":fp8_block"))
    problems = [problem_in(p, "sm_90a", m=16, n=2048, k=7168).transposed() for p in programs]
    given = plain(tile=(128, 16, 128), split=2, swap=1, promote=128)
    assert [part_owners(problem, given) for problem in problems] == [2, 1]


def test_a_decision_that_does_not_fit_is_refused(decide: Callable[..., Schedule]) -> None:
    with pytest.raises(ScheduleError, match="shared memory"):
        decide(text(m=64, n=2048, k=7168), **TILE, split=8, parts="cluster", stages=8)


def test_ctas_of_a_cluster() -> None:
    assert [cluster_ctas((1, 2), 3, p) for p in ("memory", "cluster")] == [2, 6]


FP8, F32 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)", "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128)"


@pytest.mark.parametrize(
    ("program", "given", "sizes"),
    [
        ("D[m,n]:nvfp4 = A[m,k]@B[n,k]", "unroll=2", (8, 2112, 2048)),  # 10 and 11
        (F32, "stages=6, warpgroups=2, swap=0, unroll=2", (16, 7168, 7168)),  # windows of both sides' scales
        (FP8, "stages=10, split=3, mma_n=16", (200, 576, 16384)),
    ],
)
def test_the_plan_taken_fits_what_is_decided(program: str, given: str, sizes: tuple[int, int, int]) -> None:
    chosen, _ = compiler.decide(
        f"{program} with {given}", "sm_90a", dict(zip("mnk", sizes, strict=True)), None, tuned=False
    )
    assert chosen.split


def test_sums_have_room_beside_four_stages_and_windows_of_both_sides() -> None:
    sizes = {"m": 33, "n": 4096, "k": 16384}
    chosen, _ = compiler.decide(f"{F32} with warpgroups=3, swap=1", "sm_90a", sizes, None, tuned=False)
    assert chosen.parts == "memory" or chosen.stages >= FEWEST_STAGES


def test_what_is_looked_at_runs_at_once(problem_of: Callable[[str], Problem]) -> None:
    """Of 200 rows, some tiles are few enough for clusters of two parts and not for those of four."""
    problem = problem_of(text(m=200, n=2112, k=7168))
    seen = {0: problem, 1: problem.transposed()}
    found = [p for _, p in plans(problem, Request(), 128, 128) if p.split > 1]
    assert {p.parts for p in found} == {"memory", "cluster"}
    together = [p for p in found if p.parts == "cluster"]
    assert all(at_once(seen[p.swap], p) for p in together)
    assert len(together) < len(found) / 2


@pytest.mark.parametrize(
    ("given", "sizes", "split"), [("split=3", {}, 3), ("split=8", {"m": 64}, 8), ("cluster=1x2", {"m": 64}, None)]
)
def test_decided_for_clusters_that_do_not_all_run_at_once(given: str, sizes: dict[str, int], split: int | None) -> None:
    dims = {**sizes, "n": 2112, "k": 7168}
    chosen, _ = compiler.decide(f"{FP8} with parts=cluster, {given}", "sm_90a", dims, None, tuned=False)
    assert chosen.parts == "cluster"
    assert chosen.split == split if split else (chosen.split or 1) > 1


@pytest.mark.parametrize(
    ("given", "sizes", "reason"),
    [
        ("split=9", {"k": 7168}, "9 parts make clusters of 9 CTAs, of at most 8 on sm_90a"),
        ("split=2, scheduler=dynamic", {"k": 7168}, "scheduler=dynamic"),
        ("split=1", {"k": 7168}, "split = 1: there are no parts"),
        ("order=n", {"k": 512}, "split = 1: there are no parts"),
    ],
)
def test_a_refusal_says_why(given: str, sizes: dict[str, int], reason: str) -> None:
    with pytest.raises(ScheduleError, match=f"got: .*{reason}"):
        compiler.decide(f"{FP8} with parts=cluster, {given}", "sm_90a", {"n": 2112, **sizes}, None, tuned=False)
