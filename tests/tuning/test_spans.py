"""Which indices of a program may be walked as one, and what is predicted for them."""

from __future__ import annotations

import pytest

from scalec.model.cost import Load
from scalec.model.predict import Prediction
from scalec.sizes import Range
from tests.schedules import plain
from tests.tuning.test_outer import problem_of

ROWS = "C[b,s,n] = A[b,s,k] @ W[n,k]"


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        (ROWS, "s with b"),
        (f"{ROWS} * y[b,s] + x[n]", "s with b"),
        ("C[a,b,s,n] = A[a,b,s,k] @ W[n,k]", "s with b, s with a"),
        ("C[b,s,n] = E[i[b,s],k] @ W[n,k]", "s with b"),
        ("C[m,h,n] = A[m,k] @ W[h,n,k]", "n with h"),
        ("D[n,k]:f32 += G[b,s,n] @ A[b,s,k]", "s with b"),
        (f"{ROWS} scale(1x128x128, 128x128)", "s with b"),  # at a call whose s is a multiple of 128
        (f"{ROWS} + x[s,n]", ""),  # the same for each b
        (f"{ROWS} + x[b]", ""),
        ("C[m,h,n] = A[m,k] @ W[h,n,k] + x[n%64]", ""),  # computed of one of them
        ("C[s,b,n] = A[b,s,k] @ W[n,k]", ""),  # in another order
        ("D[m,n]:f32 += A[b,m,k] @ B[b,n,k]", ""),  # with rows between them where tensors are contiguous
        ("C[b,s,n] = A[b,s,k] @ W[b,n,k]", ""),  # a batch
        ("S[b,n] = max[s](A[b,s,k] @ W[n,k])", ""),
        ("C[g,s,n] = A[g,s,k] @ W[n,k] for s in 0:count[g]", ""),
    ],
)
def test_programs_that_are_the_same_for_one_index(program: str, wanted: str) -> None:
    try:
        found = problem_of(program).spans
    except Exception as error:
        pytest.skip(str(error))
    assert ", ".join(f"{dim} with {other}" for dim, other in found) == wanted


def test_known_sizes_are_walked_by_coordinates() -> None:
    """A kernel that has a size as a number cannot walk another one; one that checks it alone can."""
    assert problem_of(ROWS, s=20).spans == problem_of(ROWS, b=64).spans == ()
    only = problem_of(ROWS, b=Range(64, 64), s=Range(20, 20))
    assert {*only.spans[0]} == {"b", "s"}
    assert only.m.most == 1280


def test_predictions_are_those_of_all_rows_as_one() -> None:
    problem, dense = problem_of(ROWS), problem_of("C[m,n] = A[m,k] @ W[n,k]")
    sizes = {"b": 64, "s": 20, "n": 4096, "k": 4096}
    schedule = plain(tile=(128, 128, 64))
    made = Prediction.of(problem, schedule, problem.sizes(sizes))
    same = Prediction.of(dense, schedule, {"m": 1280, "n": 4096, "k": 4096})
    assert (made.tiles, made.bytes, made.times) == (320, same.bytes, same.times)
    assert Load.of(problem, sizes) == Load.of(dense, {"m": 1280, "n": 4096, "k": 4096})
