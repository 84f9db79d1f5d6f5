"""`split`: a power of two whose parts all run at once and are long enough, and that moves the fewest bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from scalec.passes.plan.parts import part_blocks, parts, split_of
from scalec.passes.problem.types import Problem
from scalec.targets import MMA, TCGEN05, get_target
from tests.passes.scale_programs import text
from tests.schedules import plain

TILE = plain(tile=(64, 128, 128))


def seen(problem: Problem) -> Problem:
    """The problem as a target sees it whose tensor core takes operands from registers, of 188 SMs."""
    family = replace(problem.family, kind=MMA)
    return replace(problem, family=family, target=get_target("sm_120a"))


@pytest.mark.parametrize(
    ("m", "n", "k", "split"),
    [
        (64, 4096, 7168, 4),  # 32 tiles: 128 parts of 14 blocks; 256 would not run at once
        (64, 2048, 7168, 8),  # 16 tiles: 128 parts of 7 blocks
        (64, 256, 7168, 8),  # 2 tiles: parts of 7 blocks; of 16, some would have 3
        (64, 128, 1 << 20, 32),  # no more than 32
        (64, 128, 65536, 16),  # 786 KB of A and B and 17 * 32 KB of sums; of 32 parts 393 KB and 33 * 32 KB
        (64, 12032, 7168, 2),  # 94 tiles: just twice
        (64, 12160, 7168, 1),  # 95 tiles
        (64, 4096, 896, 1),  # parts of 3 and 4 blocks
        ("?", 4096, 7168, 1),
        (64, 4096, "?", 1),
    ],
)
def test_split(problem_of: Callable[[str], Problem], m: int | str, n: int, k: int | str, split: int) -> None:
    assert split_of(seen(problem_of(text(m=m, n=n, k=k))), TILE) == split


def test_a_cluster_counts_as_one(problem_of: Callable[[str], Problem]) -> None:
    problem = seen(problem_of(text(m=64, n=4096, k=7168)))
    assert split_of(problem, TILE.with_fields(cluster=(1, 4))) == 4


def test_a_result_that_is_loaded_beside_the_products_is_that_of_one_cta(problem_of: Callable[[str], Problem]) -> None:
    problem = seen(problem_of(text(m=64, n=4096, k=7168)))
    assert split_of(problem, TILE.with_fields(adds="loaded")) == 1


def test_sums_of_large_tiles_cost_more_than_copies(problem_of: Callable[[str], Problem]) -> None:
    problem = seen(problem_of(text(m=64, n=256, k=2048)))
    assert [split_of(problem, TILE.with_fields(tile=(m, n, 128))) for m, n in ((64, 64), (128, 256))] == [4, 1]


def test_where_the_tensor_core_reads_shared_memory(problem_of: Callable[[str], Problem]) -> None:
    """On 132 SMs."""
    assert [split_of(problem_of(text(m=64, n=n, k=7168)), TILE) for n in (256, 4096, 16384)] == [8, 4, 1]


def test_where_sums_are_in_tensor_memory(problem_of: Callable[[str], Problem]) -> None:
    """On 148 SMs, tiles of 128 rows."""
    problems = [problem_of(text(m=64, n=n, k=7168)) for n in (256, 4096, 16384)]
    target = get_target("sm_100a")
    tensor = [replace(p, family=replace(p.family, kind=TCGEN05), target=target) for p in problems]
    assert [split_of(p, TILE.with_fields(tile=(128, 128, 128))) for p in tensor] == [4, 4, 1]


@pytest.mark.parametrize(
    ("k", "unroll", "split"), [(7168, 2, 4), (7168, 4, 2), (7168, 8, 1), (2176, 2, 1), (2176, 1, 4)]
)
def test_parts_that_a_decided_unroll_divides(
    problem_of: Callable[[str], Problem], k: int, unroll: int, split: int
) -> None:
    """56 blocks in 2, 4 or 8 parts; 17 blocks in parts of 4 and 5."""
    problem = problem_of(text(m=8, n=2112, k=k))
    assert split_of(problem, TILE.with_fields(tile=(64, 64, 128), unroll=unroll)) == split


@pytest.mark.parametrize("split", [1, 2, 3, 7, 16])
def test_parts_are_all_of_k(problem_of: Callable[[str], Problem], split: int) -> None:
    problem, schedule = problem_of(text(k=2048)), TILE.with_fields(split=split)
    dealt = parts(problem, schedule)
    assert [block for part in dealt for block in part] == list(range(16))
    fewest, most = part_blocks(problem, schedule)
    assert {len(p) for p in dealt} <= {fewest, most}
    assert most - fewest <= 1
