"""What is read from memory: lookups and ranges of a problem, what an item says of them, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from scalec import compiler
from scalec.errors import ScheduleError, UnsupportedError
from scalec.ir.schedule import Request
from scalec.passes.plan.draft import draft
from scalec.passes.plan.items import RANGE_OF_K, cut_along, item_bytes, item_words
from scalec.passes.plan.swizzle import no_bulk_epilogue
from scalec.passes.problem.types import Coord, Domain, Index, Problem

RAGGED = "C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]"
MASKED = "C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]"
OFFSETS = Index(2, "off", (Coord("g"),)), Index(2, "off", (Coord("g", offset=1),))


def test_a_lookup(problem_in: Callable[..., Problem]) -> None:
    problem = problem_in("C[m,n] = A[m,k] @ B[e[m/24],n,k]", "sm_90a")
    (lookup,) = problem.lookups
    assert (lookup.name, lookup.dim, lookup.block) == ("e[m/24]", "m", 24)
    assert [d.name for d in lookup.extents] == ["B_0"]
    assert problem.blocks == ("m", 24)
    assert problem.queued


def test_lookups_with_blocks_in_common(problem_in: Callable[..., Problem]) -> None:
    problem = problem_in("C[b,m,n] = A[b,m,k] @ B[e[m/16],f[m/24],h[b],n,k]", "sm_90a")
    assert problem.blocks == ("m", 8)
    assert [(x.dim, x.block) for x in problem.lookups] == [("m", 16), ("m", 24), ("", 1)]


@pytest.mark.parametrize(("source", "low", "high", "group"), [
    (RAGGED, *OFFSETS, "g"),
    (MASKED, 0, Index(2, "rows", (Coord("g"),)), "g"),
    ("C[m,n] = A[m,k] @ B[n,k] for m in 3:70", 3, 70, ""),
    ("C[m,n] = A[m,k] @ B[n,k] for m < rows[0]", 0, Index(2, "rows", (Coord(),)), ""),
])  # fmt: skip
def test_a_range(
    source: str, low: Index | int, high: Index | int, group: str, problem_in: Callable[..., Problem]
) -> None:
    problem = problem_in(source, "sm_90a")
    assert problem.ragged == Domain("m", low, high, group)


def test_a_tile_runs_along_a_range(problem_in: Callable[..., Problem]) -> None:
    problem = problem_in("C[m,b,n] = A[b,m,k] @ B[g,n,b,k] for m in off[g]:off[g+1]", "sm_90a", m=5)
    assert problem.m.name == "m"
    problem = problem_in("C[m,b,n] = A[b,m,k] @ B[g,n,k] for m in off[g]:off[g+1]", "sm_90a", m=5)
    assert problem.m.name == "m"
    assert problem_in("C[m,b,n] = A[b,m,k] @ B[n,k]", "sm_90a", m=5).m.name == "b"


CUT = {
    "C[m,n] = A[m,k] @ B[n,k]": "",
    RAGGED: "m",
    MASKED: "m",
    "C[m,n] = A[m,k] @ B[e[m/128],n,k]": "",
    "C[m,n] = A[m,k] @ B[e[m/256],n,k]": "",
    "C[m,n] = A[m,k] @ B[e[m/64],n,k]": "m",
    "C[m,n] = A[m,k] @ B[e[m/192],n,k]": "m",
    "C[b,m,n] = A[b,m,k] @ B[e[b],n,k]": "",
    "C[m,n] = A[m,k] @ B[e[n/64],n,k]": "",
    "C[m,n] = A[m,k] @ B[e[n/32],n,k]": "n",
}


@pytest.mark.parametrize(("source", "dim"), CUT.items())
def test_cut_along(source: str, dim: str, problem_in: Callable[..., Problem]) -> None:
    problem = problem_in(source, "sm_90a")
    assert cut_along(problem, draft(problem, Request(tile=(128, 64, 64)))) == dim


def test_a_cluster_is_no_wider_than_a_block(problem_in: Callable[..., Problem]) -> None:
    problem = problem_in("C[m,n] = A[m,k] @ B[e[m/128],n,k]", "sm_100a")
    for fields, dim in (
        ({"cluster": (2, 1)}, "m"),
        ({"cluster": (1, 2)}, ""),
        ({"cluster": (2, 1), "cta_group": 2}, "m"),
    ):
        assert cut_along(problem, draft(problem, Request(tile=(128, 64, 64), **fields))) == dim  # type: ignore[arg-type]


WORDS = {
    RAGGED: ("m0", "n0", "end", "g"),
    MASKED: ("m0", "n0", "end", "g"),
    "C[m,n] = A[m,k] @ B[e[m/128],n,k]": ("m0", "n0", "e[m/128]"),
    "C[m,n] = A[m,k] @ B[e[m/8],n,k]": ("m0", "n0", "end", "e[m/8]"),
    "C[b,m,n] = A[b,m,k] @ B[e[b],f[m/8],n,k]": ("m0", "n0", "end", "b", "e[b]", "f[m/8]"),
    "C[b,m,n] = A[b,m,k] @ B[g,b,n,k] for m in off[g]:off[g+1]": ("m0", "n0", "end", "g", "b"),
}


@pytest.mark.parametrize(("source", "words"), WORDS.items())
def test_the_words_of_an_item(source: str, words: tuple[str, ...], problem_in: Callable[..., Problem]) -> None:
    problem = problem_in(source, "sm_90a")
    schedule = draft(problem, Request(tile=(128, 64, 64)))
    assert item_words(problem, schedule) == words
    assert item_bytes(problem, schedule) == (16 if len(words) <= 4 else 32)
    assert not {*RANGE_OF_K} & {*words}


def test_copies_do_not_add_to_a_tile_that_is_cut(problem_in: Callable[..., Problem]) -> None:
    for source, reason in ((RAGGED, True), ("C[m,n] = A[m,k] @ B[e[m/128],n,k]", False)):
        problem = problem_in(source.replace("C[m,n] =", "C[m,n]:f32 +="), "sm_90a", n=128)
        schedule = draft(problem, Request(tile=(128, 64, 64), epilogue="bulk"))
        assert bool(re.search("would add to what is not to be written", no_bulk_epilogue(problem, schedule))) is reason


REFUSED = {
    "an index from memory, divided": ("C[m,n] = A[idx[m]/8,k] @ B[n,k]", r"A\[idx\[m\]/8, k\] has a computed index"),
    "lengths added to offsets": (
        "C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g]+rows[g]",
        r"the range of m ends at off\[g\] \+ rows\[g\]",
    ),
    "three ranges": (
        "C[m,n] = A[m,k] @ B[n,k] for m in 3:70 for n < 60 for k < 9",
        r"C has ranges of m and of n, both of which end within a tile",
    ),
    "a range of a batch": (
        "C[b,m,n] = A[b,m,k] @ B[b,n,k] for b < 3",
        r"b has a range\n(.*\n)*.*expected: one range in a program, of m or n",
    ),
    "a range, and blocks": (
        "C[m,n] = A[m,k] @ B[e[m/128],n,k] for m < rows[0]",
        r"m has a range, and e\[m/128\] changes within\n(.*\n)*.*fix: give each group its index: B\[e\[g\],n,k\]",
    ),
    "bounds of two dimensions, of which the result has one": (
        "C[b,m,n] = A[b,m,k] @ B[b,g,n,k] for m in lo[b,g]:hi[b,g]",
        r"the ranges of m for each g may overlap(.*\n)*.*expected: off\[b, g\]:off\[b, g\+1\] of one tensor",
    ),
    "offsets of the other dimension": (
        "C[b,m,n] = A[b,m,k] @ B[b,g,n,k] for m in off[b,g]:off[b+1,g]",
        r"the ranges of m for each g may overlap",
    ),
    "offsets of two dimensions, of which the result has none": (
        "C[m,n] = A[m,k] @ B[b,g,n,k] for m in off[b,g]:off[b,g+1]",
        r"the ranges of m for each b and g may overlap(.*\n)*.*fix: view b and g as one index, and write the bounds",
    ),
    "a sum of other lengths for each row": (
        "C[b,m,n] = A[b,m,k] @ B[b,n,k] for k < len[b,m]",
        r"k has a range for each b and m\n(.*\n)*.*fix: write zeros into an operand outside of each range",
    ),
    "a sum of a range for each group, which nothing tells": (
        "C[m,n] = A[m,k] @ B[g,n,k] for k in off[g]:off[g+1]",
        r"k has a range for each g, and the result is a sum over g, too\n(.*\n)*.*fix: write g into the result",
    ),
    "a sum of a length for each group, and rows that may overlap": (
        "C[m,n]:f32 += A[m,k] @ B[g,n,k] for k < len[g] for m in lo[g]:hi[g]",
        r"k has a range for each g, and the result is a sum over g, too",
    ),
    "a sum of a range for each group, told by what comes behind": (
        "C[b,m,n] = A[m,k] @ B[g,n,k] + x[b] for k in off[g]:off[g+1] for b in cut[g]:cut[g+1]",
        r"k has a range for each g, and the result is a sum over g, too",
    ),
    "what is added to, and rows that tell a sum's group": (
        "C[m,n]:f32 += A[m,k] @ B[g,n,k] for k in off[g]:off[g+1] for m in cut[g]:cut[g+1]",
        r"C is added to \(\+=\), and the ranges of m for each g are those of single points",
    ),
    "two ranges of a group, of which one is a batch's": (
        "C[b,m,n] = A[b,m,k] @ B[g,n,k] for m in off[g]:off[g+1] for b in cut[g]:cut[g+1]",
        r"b has a range for each g, and m too",
    ),
    "a range of single points of what is quantised": (
        "C[m,n]:mxfp8 = A[m,k] @ B[n,k] for n < len[m]",
        r"C is quantised, and n has a range that is C's points' own",
    ),
    "two ranges of single points": (
        "C[m,n] = A[m,k] @ B[n,k] for n < len[m] for m < rows[n]",
        r"C has ranges of n and of m, both of which end within a tile",
    ),
    "two ranges, and else": (
        "C[g,m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1] for n < cols[g] else 0",
        r"C has ranges of m and of n, and is filled outside \(else\)",
    ),
    "else where groups share rows out": (
        "C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1] else 0",
        r"C is filled outside ranges of m that g shares out",
    ),
    "a reduction of what a range leaves": (
        "T[m,n] = A[m,k] @ B[n,k] for n < len[m]; C[m,n] = T; R[m]:f32 = max[n](T)",
        r"R is a max over n, and n has a range that ends within tiles",
    ),
    "bounds that are computed": (
        "C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < 2*g",
        r"the range of m ends at g\*2\n(.*\n)*.*expected: a number, or an element of a tensor of offsets",
    ),
    "an index of an index": (
        "C[m,n] = A[m,k] @ B[e[f[m/128]],n,k]", r"e\[f\[m/128\]\] is read at an index that is computed"
    ),
    "an index of rows and columns": (
        "C[m,n] = A[m,k] @ B[e[m/128,n/64],n,k]",
        r"(?s)B is read at e\[m/128,n/64\], another matrix for each m.*fix: view m as two indices there, m and h",
    ),
    "a quantised result that a range cuts": (
        "C[n,m]:mxfp8 = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]",
        "m has a range, and C has blocks of 32 along it",
    ),
    "a quantised result that blocks cut": (
        "C[n,m]:mxfp8 = A[m,k] @ B[e[m/24],n,k]", "m has blocks of 24, and C has blocks of 32 along it"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
def test_what_is_refused(source: str, message: str, target: str, problem_in: Callable[..., Problem]) -> None:
    with pytest.raises(UnsupportedError, match=message):
        problem_in(source, target)


ROWS_ALONG_K = {
    "C[m,n] = A[k,m] @ B[g,n,k] for m in off[g]:off[g+1]": "m has a range, and A is contiguous along it",
    "C[m,n] = A[k,m] @ B[e[m/24],n,k]": "",
    "C[m,n] = A[k,m] @ B[e[m/4],n,k]": "m has blocks of 4, and A is contiguous along it",
    "C[m,n] = A[k,m]:e4m3 @ B[e[m/24],n,k]:e4m3": "m has blocks of 24, and A is contiguous along it",
    "C[m,n] = A[k,m]:e4m3 @ B[e[m/32],n,k]:e4m3": "",
    "C[g,m,n] = A[g,k,m] @ B[g,n,k] for m < rows[g]": "",
    "C[m,n] = A[k,m] @ B[n,k] for m in 16:70": "",
    "C[m,n] = A[k,m] @ B[n,k] for m in 12:70": "m has a range, and A is contiguous along it",
    "C[m,n] = A[m,k] @ B[k/8,n,k%8]:i4 for n in lo[0]:hi[0]": "n has a range, and B has words of its rows beside",
    "C[m,n] = A[m,k] @ B[k/8,n,k%8]:i4 for n in lo[0]:hi[0] by 4": "",
    "C[m,n] = A[k/8,m,k%8]:i4 @ B[e[m/6],n,k]:bf16": "m has blocks of 6, and A has words of its rows beside each other",
    "C[m,n] = A[m,k] @ B[g,k,n] for m in off[g]:off[g+1]": "",
}


@pytest.mark.parametrize(("source", "message"), ROWS_ALONG_K.items())
def test_copies_begin_where_a_group_does(source: str, message: str, problem_in: Callable[..., Problem]) -> None:
    if not message:
        assert problem_in(source, "sm_120a").queued
        return
    with pytest.raises(UnsupportedError, match=message):
        problem_in(source, "sm_120a")


BLOCKS_OF_SCALES = {
    "C[m,n] = A[m,k] @ B[g,n,k] scale(64x128, 1x1x128) for m in off[g]:off[g+1]": "one scale for each 64 of m",
    "C[m,n] = A[m,k] @ B[e[m/24],n,k] scale(64x128, 1x1x128)": "blocks of 24, and A_scale has one scale for each 64",
    "C[m,n] = A[m,k] @ B[e[m/128],n,k] scale(64x128, 1x1x128)": "",
    "C[m,n] = A[m,k] @ B[e[m/8],n,k] scale(64x128, 1x1x128)": "",
    "C[g,m,n] = A[g,m,k] @ B[g,n,k] scale(1x64x128, 1x1x128) for m < rows[g]": "",
    "C[m,n] = A[m,k] @ B[g,n,k] scale(mx128, 1x128x128) for m in off[g]:off[g+1]": "",
    "C[m,n] = A[m,k] @ B[g,n,k] scale(32xk, 1x1xk) for m in off[g]:off[g+1]": "",
}


@pytest.mark.parametrize(("source", "message"), BLOCKS_OF_SCALES.items())
def test_rows_of_an_instruction_have_one_scale(source: str, message: str, problem_in: Callable[..., Problem]) -> None:
    if not message:
        assert problem_in(source, "sm_90a").queued
        return
    with pytest.raises(UnsupportedError, match=message):
        problem_in(source, "sm_90a")


SCHEDULES = {
    "split=2": "split = 2, and .* read from memory",
    "scheduler=static": "scheduler=static is not possible",
    "scheduler=dynamic": "scheduler=dynamic is not possible",
    "consumers=pingpong": "pingpong",
}


@pytest.mark.parametrize(("fields", "message"), SCHEDULES.items(), ids=SCHEDULES)
@pytest.mark.parametrize("source", [RAGGED, "C[m,n] = A[m,k] @ B[e[m/128],n,k]"])
def test_schedules_that_are_not(source: str, fields: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        compiler.compile_source(f"{source} with {fields}", "sm_90a", {"n": 128, "k": 256})


def test_a_queue_is_for_what_is_read_from_memory() -> None:
    with pytest.raises(ScheduleError, match="scheduler=queue is not possible"):
        compiler.compile_source("C[m,n] = A[m,k] @ B[n,k] with scheduler=queue", "sm_90a", {"n": 128, "k": 256})


@pytest.mark.parametrize(
    ("block", "schedule", "clusters"),
    [
        (8, "tile=64x64x64, cluster=1x1", 32),  # a tile for each block
        (200, "tile=64x64x64, cluster=1x1", 6),  # four of one and one of the other: at least as many
        (128, "tile=64x64x64, cluster=1x1", 4),
        (96, "tile=64x64x64, cluster=2x1", 3),
    ],
)
def test_a_launch_has_a_cluster_for_each_tile_of_a_block(block: int, schedule: str, clusters: int) -> None:
    text = f"C[m,n] = A[m,k] @ B[e[m/{block}],n,k] with swap=0, {schedule}"
    spec = compiler.compile_source(text, "sm_90a", {"n": 64, "k": 64}, until="ptx").spec
    assert spec is not None
    assert spec.launch.units({"m": 256, "n": 64}) == clusters
