"""`stream_k`: where tiles may be cut into shares, and into how many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from scalec import compiler
from scalec.errors import ScheduleError
from scalec.ir.schedule import Schedule
from scalec.passes.parts import MOST_BLOCKS, k_units, most_shares, no_stream_k, split_of
from scalec.passes.problem import Problem
from scalec.targets import get_target
from tests.passes.scale_programs import text

CUT = Schedule(tile=(256, 128, 128), cluster=(1, 2), stream_k=1)


@pytest.mark.parametrize(
    ("k", "unroll", "units", "shares"),
    [(7168, 1, 56, 14), (7168, 2, 28, 14), (7168, 4, 14, 14), (7168, 8, 7, 7), (1280, 2, 5, 2), (384, 1, 3, 1)],
)
def test_shares_are_four_blocks_or_more(
    problem_of: Callable[[str], Problem], k: int, unroll: int, units: int, shares: int
) -> None:
    problem, schedule = problem_of(text(k=k)), CUT.with_fields(unroll=unroll)
    assert (k_units(problem, schedule), most_shares(problem, schedule)) == (units, shares)
    assert shares == 1 or units // shares * unroll >= 4


def test_a_tile_that_is_cut_into_shares_is_not_split(problem_of: Callable[[str], Problem]) -> None:
    problem = problem_of(text(m=64, n=4096, k=7168))
    assert [split_of(problem, CUT.with_fields(stream_k=v, tile=(64, 128, 128))) for v in (0, 1)] == [4, 1]


def test_why_not(problem_of: Callable[[str], Problem]) -> None:
    problem = problem_of(text(k=7168))
    tensor = replace(problem, family=replace(problem.family, sums_in="tensor"), target=get_target("sm_100a"))
    long = problem_of(text(k=128 * (MOST_BLOCKS + 1)))
    for seen, schedule, reason in (
        (problem, CUT, ""),
        (problem, CUT.with_fields(scheduler="dynamic"), "scheduler=dynamic takes over whole tiles"),
        (tensor, CUT, "sm_100a sums in tensor memory"),
        (long, CUT, "k has 1048577 K blocks, of at most 1048576"),
    ):
        found = no_stream_k(seen, schedule)
        assert found.startswith(reason), found
        assert bool(found) == bool(reason)


def test_tensor_memory_is_refused_in_words() -> None:
    with pytest.raises(ScheduleError, match="stream_k=1 is not possible") as refused:
        compiler.decide("C[m,n] = A[m,k] @ B[n,k]", "sm_100a", {"n": 4096, "k": 512}, {"stream_k": "1"})
    assert "sums in tensor memory" in str(refused.value)
