"""What keeps copies from permuting B's rows, beyond what the lit test has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scalec.formats import WHOLE
from scalec.passes.plan.column_factors import no_permuted_columns
from scalec.passes.problem.operand import Product
from tests.schedules import plain

PLANNED = plain(tile=(128, 96, 128), epilogue="bulk")


@pytest.fixture
def problem(problem_in):
    return problem_in("D[m,n]:mxfp8 = A[m,k]@B[n,k] scale(1x128,128x128)", "sm_90a", n=512, k=1024)


def test_nothing_does(problem) -> None:
    assert no_permuted_columns(problem, PLANNED, 16) == ""


def test_rows_of_b_that_are_not_contiguous(problem) -> None:
    other = replace(problem, rhs=replace(problem.rhs, contiguous="n"))
    assert no_permuted_columns(other, PLANNED, 16) == "B is contiguous along n, and copies permute whole rows"


def test_rows_of_b_in_a_batch(problem_in) -> None:
    """A map of rows that are permuted has five dimensions without a batch."""
    batched = problem_in("D[m,h,n]:mxfp8 = A[m,k] @ B[h,n,k] scale(1x128,128x128)", "sm_90a", n=512, k=1024)
    reason = "B has 3 indices, and copies that permute rows take five coordinates for two"
    assert no_permuted_columns(batched, PLANNED, 16) == reason
    rows = problem_in("D[b,m,n]:mxfp8 = A[b,m,k] @ B[n,k] scale(1x128,128x128)", "sm_90a", n=512, k=1024)
    assert no_permuted_columns(rows, PLANNED, 16) == ""
    added = replace(rows, added=(Product(batched.lhs, replace(batched.rhs, name="E"), batched.k),))
    assert no_permuted_columns(added, PLANNED, 16) == reason.replace("B", "E", 1)


def test_blocks_of_the_result_that_are_narrower(problem) -> None:
    scale = replace(problem.result.scale, block=24)
    other = replace(problem, results=(replace(problem.result, scale=scale),))
    assert no_permuted_columns(other, PLANNED, 16) == "blocks of 24 are no multiple of 16 columns, and no half of them"


@pytest.mark.parametrize(("within", "block"), [(16, 8), (32, 16), (16, 16), (32, 64)])
def test_blocks_that_two_lanes_have_or_all(problem, within, block) -> None:
    element = replace(problem.result.element, bits=128 // within)
    result = replace(problem.result, element=element, scale=replace(problem.result.scale, block=block))
    assert no_permuted_columns(replace(problem, results=(result,)), PLANNED, within) == ""


@pytest.mark.parametrize(
    ("within", "columns", "rows", "able"),
    [
        (16, 96, 1, True), (16, 96, WHOLE, True), (16, 96, 16, True), (16, 96, 48, True), (16, 176, 128, True),
        (16, 96, 8, False), (16, 96, 24, False), (32, 96, 16, False), (32, 96, 48, False), (32, 96, 128, True),
    ],
)  # fmt: skip
def test_blocks_of_b_that_end_within_what_is_permuted(problem, within, columns, rows, able) -> None:
    rhs = replace(problem.rhs, scales=(replace(problem.rhs.scales[0], rows=rows),))
    result = replace(problem.result, scale=None, element=replace(problem.result.element, bits=128 // within))
    told = no_permuted_columns(
        replace(problem, rhs=rhs, results=(result,)), PLANNED.with_fields(tile=(128, columns, 128)), within
    )
    assert told.startswith("" if able else f"B_scale changes within {within} columns")
    assert (told == "") == able


@pytest.mark.parametrize(("size", "told"), [(None, "n is not known"), (24, "n is 24")])
def test_rows_of_b_that_are_no_whole_groups(problem, size, told) -> None:
    other = replace(problem, n=replace(problem.n, size=size))
    assert no_permuted_columns(other, PLANNED, 16).startswith(told)


def test_a_tile_of_no_whole_groups(problem) -> None:
    assert (
        no_permuted_columns(problem, PLANNED.with_fields(tile=(128, 24, 128)), 16)
        == "tile N = 24 is not a multiple of 16"
    )
