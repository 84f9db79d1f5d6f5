"""Rules of scattered rows: what a program is read as, how its results leave, and what is refused, by name."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from scalec.compiler import compile_source
from scalec.errors import ScheduleError, UnsupportedError
from scalec.passes.plan.swizzle import no_turned_epilogue
from scalec.passes.problem.types import Problem
from scalec.tuning.explain import explain

BF16 = "A[m,k] @ B[n,k]"
RAGGED = "for m in off[g]:off[g+1]"


def test_rows(problem_in: Callable[..., Problem]) -> None:
    """An index for each row is no work to find: nothing is queued, and a tile is at no index of its own."""
    p = problem_in(f"C[idx[m],n] = {BF16}", "sm_90a", n=256, k=128)
    (lookup,) = p.lookups
    assert (lookup.name, lookup.dim, lookup.block, lookup.by_row) == ("idx[m]", "m", 1, True)
    assert [d.name for d in lookup.extents] == ["C_0"]
    assert p.result.scattered == (("m", "idx[m]"),)
    assert p.result.dims == ("m", "n")
    assert [c.dim for c in p.result.coords] == ["idx[m]", "n"]
    assert not p.queued
    assert p.skips == (lookup,)
    assert p.outside(p.result.coords) == ()


def test_of_several_results_each_skips_its_own(problem_in: Callable[..., Problem]) -> None:
    p = problem_in(f"T[m,n] = {BF16}; C[idx[m],n] = T; D[m,n] = T; E[p[m],n] = T * r[idx[m]]", "sm_90a")
    assert [[x.name for x in of.skips] for of in p.each] == [["idx[m]"], [], ["idx[m]", "p[m]"]]
    assert [r.lookup_of("m") for r in p.results] == ["idx[m]", "", "p[m]"]


@pytest.mark.parametrize(
    ("source", "outer", "coords"),
    [
        ("C[idx[b,m],n] = A[b,m,k] @ B[b,n,k]", ["b"], ["idx[b, m]", "n"]),
        ("C[b,idx[b,m],n] = A[b,m,k] @ B[b,n,k]", ["b"], ["b", "idx[b, m]", "n"]),
        (f"C[idx[m],n] = A[m,k] @ B[g,n,k] {RAGGED}", ["g"], ["idx[m]", "n"]),
        ("C[e[g],m,n] = A[g,m,k] @ B[g,n,k]", ["g"], ["e[g]", "m", "n"]),
        ("C[idx[n],m] = A[m,k] @ B[n,k]", [], ["idx[n]", "m"]),
        ("C[idx[m],p[n]] = A[m,k] @ B[n,k]", [], ["idx[m]", "p[n]"]),
    ],
)
def test_where_results_are_written(source, outer, coords, problem_in: Callable[..., Problem]) -> None:
    p = problem_in(source, "sm_90a")
    assert [d.name for d in p.outer] == outer
    assert [c.dim for c in p.result.coords] == coords
    assert p.queued == ("e[g]" in coords or RAGGED in source)


def test_how_rows_leave(problem_in: Callable[..., Problem]) -> None:
    """By threads; explain says why."""
    assert not no_turned_epilogue(problem_in(f"C[idx[m],n] = {BF16}", "sm_90a", n=256, k=128).transposed())

    def told(source: str, target: str = "sm_90a", n: int = 256) -> str:
        return explain(source, target, {"m": 64, "n": n, "k": 128}, {}).reasons["epilogue"]

    wanted = "rows of C are scattered, to idx[m]"
    staged = "C leaves through shared memory, out of which threads store rows"
    assert told(f"C[idx[m],n] = {BF16} with swap=0, tile=64x64x64") == staged
    assert told(f"C[m,n] = {BF16} with swap=0, tile=64x64x64, epilogue=rows") == f"given; {staged}"
    for target, n in (("sm_100a", 256), ("sm_120a", 256), ("sm_90a", 252)):
        assert told(f"C[idx[m],n] = {BF16} with swap=0", target, n) == f"C leaves from registers: {wanted}"
    assert "C is turned in shared memory" in told(f"C[idx[m],n] = {BF16} with swap=1, tile=64x32x64")
    with pytest.raises(ScheduleError, match="epilogue=bulk is not possible") as refused:
        told(f"C[idx[m],n] = {BF16} with swap=0, tile=64x64x64, epilogue=bulk")
    assert wanted in str(refused.value)
    assert "fix: epilogue=rows" in str(refused.value)


NO_ROWS = [
    (f"C[m,n] = {BF16} with swap=1", "sm_90a", 256, "swap=1 computes C by columns, and rows are stored"),
    (f"C[m,n] = {BF16}", "sm_100a", 256, "sm_100a does not multiply from shared memory into registers"),
    (f"C[m,n] = {BF16} with swap=0", "sm_90a", 252, "a row of C is 504 bytes"),
    (f"C[m,n] = {BF16} with tile=64x24x64, swap=0", "sm_90a", 256, "of the staged tiles are 48 bytes: no swizzle"),
    (
        "C[m,n] = A[g,m,k] @ B[n,k] for n in off[g]:off[g+1] with swap=0",
        "sm_90a",
        256,
        "n has a range, or blocks, which may begin",
    ),
    (
        "C[m,n] = A[m,k] @ B[idx[n],k] with swap=0",
        "sm_90a",
        256,
        r"idx\[n\] may be negative, and a thread stores several n",
    ),
    (f"C[m,n/64*96 + n%64] = {BF16}", "sm_90a", 256, "rows of C have gaps"),
]


@pytest.mark.parametrize(("source", "target", "n", "message"), NO_ROWS)
def test_no_rows(source: str, target: str, n: int, message: str) -> None:
    """What cannot leave so is refused, and another way is offered."""
    with pytest.raises(ScheduleError, match="epilogue=rows is not possible") as refused:
        compile_source(source, target, {"n": n, "k": 128}, {"epilogue": "rows"}, until="tile")
    assert re.search(message, str(refused.value))
    assert re.search("fix: epilogue=(bulk|direct|turned)", str(refused.value))


REFUSED = [
    ("C[m,idx[n]]:e2m1 = {}", r"C\[m, idx\[n\]\] is of less than a byte, and each n goes where idx\[n\] says"),
    ("C[p[m],idx[n]]:e3m2 = {}", r"is of less than a byte, and each n goes where idx\[n\] says"),
    ("C[idx[m],2*n] = {}", r"is written at n\*2"),
    ("C[m,n,e[n/8]] = {}", r"is written at e\[n/8\]"),
    ("C[idx[m]+1,n] = {}", r"is written at idx\[m\] \+ 1"),
    ("C[idx[p[m]],n] = {}", r"idx\[p\[m\]\] is read at an index that is computed"),
    ("C[idx[m],p[m],n] = {}", "has 2 indices for each m"),
    ("C[idx[m],m,n] = {}", "has 2 indices for each m"),
    ("C[e[m/128],n] = {}", "has 0 indices for each m"),
    ("C[idx[n],m,n] = {}", "has 2 indices for each n"),
    ("T[m,n] = {}; C[e[m/128],m,n] = T; D[m,n] = T", r"D and C .* one is written at e\[m/128\]"),
    ("D[idx[m],n]:fp8_block = {} * x[2*m]", "x is read at m[*]2"),
]


@pytest.mark.parametrize(("source", "message"), REFUSED)
def test_refused(source, message, problem_in: Callable[..., Problem]) -> None:
    with pytest.raises(UnsupportedError, match=message) as refused:
        problem_in(source.format(BF16), "sm_90a")
    assert refused.value.place is not None
