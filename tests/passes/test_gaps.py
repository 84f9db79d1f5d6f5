"""Computed indices of results: which reduce to gaps of one size at one distance, and which are refused, by name."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from scalec import compiler, frontend
from scalec.errors import ScheduleError, UnsupportedError
from scalec.ir.schedule import Request
from scalec.measured.key import describe
from scalec.passes.pipeline import find, run_pipeline
from scalec.passes.plan.draft import draft
from scalec.passes.plan.swizzle import no_bulk_epilogue
from scalec.passes.plan.tiles import no_swap
from scalec.passes.problem.access import Gaps
from scalec.passes.problem.read import read
from scalec.passes.problem.types import Problem
from scalec.targets import Target

READ = {
    "n + n/128*64": Gaps(64, 128, 0),
    "n/128*192 + n%128": Gaps(64, 128, 0),
    "n + (n+128)/256*64": Gaps(64, 256, 128),
    "64 + n + n/128*64": Gaps(64, 128, 128),
    "n/128*192 + n%128 + 128": Gaps(64, 128, 256),
    "n + (n+300)/128*64 - 128": Gaps(64, 128, 44),
    "n + n/8/16*64": Gaps(64, 128, 0),
    "n + (n/8+1)/16*64": Gaps(64, 128, 8),
    "n/16*16 + n%16 + n/128*64": Gaps(64, 128, 0),
    "n + (n+1)/3": Gaps(1, 3, 1),
}


@pytest.mark.parametrize(("index", "gaps"), READ.items(), ids=READ)
def test_reading(index: str, gaps: Gaps, problem_in: Callable[..., Problem]) -> None:
    problem = problem_in(f"D[m, {index}] = A[m,k] @ B[n,k]", "sm_90a")
    assert problem.result.gaps == gaps
    assert [at.dim for at in problem.result.coords] == ["m", "n"]
    program = index.replace("/", "//")
    for n in range(1000):
        assert gaps.at(n) == eval(program, {"n": n})
    assert no_swap(problem)


def test_what_has_none_is_read_as_before(problem_in: Callable[..., Problem]) -> None:
    assert problem_in("D[m,n] = A[m,k] @ B[n,k]", "sm_90a").result.gaps is None


def test_the_last_index_may_be_one_of_the_left_operand(problem_in: Callable[..., Problem]) -> None:
    problem = problem_in("D[n, m + m/64*8] = A[m,k] @ B[n,k]", "sm_90a")
    assert (problem.result.dims, problem.result.gaps) == (("n", "m"), Gaps(8, 64, 0))


def described(index: str, target: Target) -> str:
    module = frontend.build(f"D[m, {index}] = A[m,k] @ B[n,k]")
    run_pipeline(module, target, passes=find(["infer-roles", "fuse-epilogue"]))
    return describe(read(module.body.operations[0], target))


def test_a_program_with_gaps_is_another_to_the_tuner(target: Target) -> None:
    assert len({described(index, target) for index in ("n", "n + n/64*8", "n + n/8*64", "n + (n+8)/64*8")}) == 4


REFUSED = {
    "two distances": (
        "D[m, n + n/128*64 + n/1024*32] = A[m,k] @ B[n,k]",
        r"D\[m, .*\] has a computed index\n.*\n.*\n  expected: D\[m, n\], or its last index x written as x \+ "
        r"size\*\(\(x \+ phase\)/every\).*\n  fix: write D\[m, n\], and move it to its places after the call",
    ),
    "every second": ("D[m, n*2] = A[m,k] @ B[n,k]", "has a computed index"),
    "backwards": ("D[m, n%4 + n/4*8 + 2 - n%2*2] = A[m,k] @ B[n,k]", "has a computed index"),
    "a constant that is no gap": ("D[m, n + 5] = A[m,k] @ B[n,k]", "has a computed index"),
    "half a gap in front": ("D[m, n + n/128*64 + 32] = A[m,k] @ B[n,k]", "has a computed index"),
    "no gap at all": ("D[m, n/128*128 + n%128] = A[m,k] @ B[n,k]", "has a computed index"),
    "rows": ("D[m + m/64*8, n] = A[m,k] @ B[n,k]", r"D\[.*, n\] has a computed index\n.*\n.*\n  expected: D\[m, n\]"),
    "a batch": ("D[b + b/2, m, n] = A[b,m,k] @ B[b,n,k]", "has a computed index"),
    "two dimensions": ("D[m, h*64 + d] = A[m,k] @ B[h,d,k]", "has a computed index"),
    "split into two": ("D[m, n/64, n%64] = A[m,k] @ B[n,k]", "has a computed index"),
    "torn blocks": (
        "D[m, n + (n+32)/128*64]:fp8_block = A[m,k] @ B[n,k]",
        r"D is quantised in blocks of 128 along n, and its gaps tear some\n.*\n.*\n"
        r"  got: gaps of 64 every 128 of n, 96 in front of the first\n  expected: multiples of 128: .*\n  fix: say",
    ),
    "half bytes": (
        "D[m, n + n/3*2]:e2m1 = A[m,k]:e4m3 @ B[n,k]:e4m3",
        r"D is e2m1, and its index is computed: .*\n.*\n.*\n  expected: whole bytes: gaps of an even size",
    ),
    "6 bits": (
        "D[m, n + n/8*8]:e3m2 = A[m,k]:e4m3 @ B[n,k]:e4m3",
        r"D is e3m2, and its index is computed: .*\n.*\n.*\n  expected: whole bytes\n  fix: write D\[m, n\], and",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what: str) -> None:
    source, message = REFUSED[what]
    with pytest.raises(UnsupportedError) as caught:
        compiler.compile_source(source, "sm_90a")
    assert caught.value.place is not None
    assert re.search(message, str(caught.value)), str(caught.value)


BULK = {  # index, N, why copies do not store it with the widest swizzle: 64 columns of bf16
    "between boxes": ("n + n/128*64", 512, ""),
    "phase between boxes": ("n + (n+64)/256*64", 512, ""),
    "N is not known": ("n + n/128*64", None, "n is not known"),
    "N ends within a box": ("n + n/128*64", 288, "a copy stores 64 columns, and D has gaps of 64 every 128 of n = 288"),
    "a gap within a box": ("n + n/96*64", 384, "a copy stores 64 columns, .* every 96 .*, 96 in front of the first"),
    "the first gap within one": ("n + (n+32)/128*64", 512, "a copy stores 64 columns, .*, 96 in front of the first"),
    "rows of odd bytes": ("n + n/128*4", 512, "a row of D with its gaps is 524 columns: it may be misaligned"),
}


@pytest.mark.parametrize("what", BULK)
def test_copies_store_what_has_no_gap_within_a_box(what: str, problem_in: Callable[..., Problem]) -> None:
    index, n, message = BULK[what]
    problem = problem_in(f"D[m, {index}] = A[m,k] @ B[n,k]", "sm_90a", **({} if n is None else {"n": n}))
    reason = no_bulk_epilogue(problem, draft(problem, Request(tile=(128, 128, 64), epilogue="bulk")))
    assert re.search(message, reason) if message else not reason, reason


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("swap=1", r"swap=1 is not possible\n  got: D has gaps along n.*\n  fix: swap=0"),
        ("epilogue=turned", r"epilogue=turned is not possible\n.*\n  fix: epilogue=direct"),
        ("epilogue=bulk", r"epilogue=bulk is not possible\n  got: a copy stores \d+ columns.*\n  fix: epilogue=direct"),
    ],
)
def test_schedules_that_cannot_be(schedule: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        compiler.compile_source(f"D[m, n + n/24*8] = A[m,k] @ B[n,k] with {schedule}", "sm_90a", dims={"n": 240})


def test_quantised_rows_of_a_transposed_tile_have_no_gaps() -> None:
    source = "G[m,n] = V[m,k] @ A[n,k]; D[m, n + n/128*64]:mxfp8 = G * (W[m,k] @ A[n,k])"
    for schedule in ({}, {"swap": "0"}, {"swap": "1"}):
        with pytest.raises(
            UnsupportedError, match=r"neither swap=0 nor swap=1 is possible\n(.*\n)*  got: V and W .*; D has gaps"
        ) as refused:
            compiler.compile_source(source, "sm_90a", dims={"n": 512}, schedule=schedule)
        assert refused.value.__cause__ is None


@pytest.mark.parametrize("m", [4, 16])
def test_few_rows_are_not_swapped(m: int) -> None:
    """Where they would be without gaps."""
    chosen = [
        compiler.compile_source(
            f"D[m, {i}] = A[m,k] @ B[n,k]", "sm_90a", dims={"m": m, "n": 512, "k": 128}
        ).spec.schedule
        for i in ("n", "n + n/128*64")
    ]
    assert ["swap=1" in s for s in chosen] == [True, False]
