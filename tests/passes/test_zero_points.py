"""What is read of zero points: blocks, their order, and what is added; as what an operand is multiplied then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalec import compiler
from scalec.formats import WHOLE
from scalec.passes.problem.types import Problem
from scalec.passes.problem.zero_points import ZeroPoints
from scalec.zero_points import Order

AWQ = Order(((8, 8, 0), (4, 1, 2), (1, 2, 4)))
READ: dict[str, tuple[int, int, Order | None, Order | None]] = {
    "k/128, n": (1, 128, None, None),
    "n/4": (4, WHOLE, None, None),
    "k/128, n/8*8 + n%2*4 + n%8/2": (1, 128, AWQ, None),
    "k/128, n%2*4 + n%8/2 + n/8*8": (1, 128, AWQ, None),
    "n, k/32/8*8 + k/32%2*4 + k/32%8/2": (1, 32, None, AWQ),
    "n/16*8 + n/2%2*4 + n%16/4, k/64": (2, 64, AWQ, None),
    "n%24/3, k/48%2": (3, 48, Order(((1, 1, 8),)), Order(((1, 1, 2),))),
    "n%64%8": (1, WHOLE, Order(((1, 1, 8),)), None),
    "n%8%64": (1, WHOLE, Order(((1, 1, 8),)), None),
    "n/16*16 + 15 - n%16": (1, WHOLE, Order(((16, 16, 0), (-1, 1, 16)), 15), None),
}
"""By their index the rows and elements of K that share one, and the orders of both."""


def zeros_in(text: str, problem_in: Callable[..., Problem]) -> ZeroPoints:
    zeros = problem_in(f"C[m,n] = A[m,k]:bf16 @ (B[n,k]:u4 - {text})", "sm_90a").rhs.zeros
    assert zeros is not None
    return zeros


@pytest.mark.parametrize("index", READ)
def test_reading(index: str, problem_in: Callable[..., Problem]) -> None:
    zeros, (rows, k, *orders) = zeros_in(f"Z[{index}]:i8", problem_in), READ[index]
    assert (zeros.rows, zeros.k) == (rows, k)
    for found, order in zip(zeros.orders, orders, strict=True):
        assert (found is None) == (order is None)
        assert found is None or order is None or sorted(found.terms) == sorted(order.terms)
        assert found is None or order is None or found.constant == order.constant


@pytest.mark.parametrize(
    ("text", "bounds", "told"),
    [
        ("Z[n] + 1", (1, 16), "Z + 1"),
        ("3 + Z[n]:i4", (-5, 10), "Z + 3"),
        ("Z[n]:i8 - 127", (-255, 0), "Z - 127"),
        ("Z[n] + 0", (0, 15), "Z"),
        ("8", (8, 8), "8"),
    ],
)
def test_what_is_added(text: str, bounds: tuple[int, int], told: str, problem_in: Callable[..., Problem]) -> None:
    zeros = zeros_in(f"({text})", problem_in)
    assert (zeros.bounds, zeros.told) == (bounds, told)


@pytest.mark.parametrize(
    ("zeros", "made"), [("Z[n] + 1", "e4m3"), ("Z[n] + 2", "bf16"), ("Z[n]:i4 - 1", "bf16"), ("Z[n] - 1", "e4m3")]
)
def test_a_difference_is_exact_in_what_is_multiplied(zeros: str, made: str, problem_in: Callable[..., Problem]) -> None:
    problem = problem_in(f"C[m,n] = A[m,k]:e4m3 @ (B[n,k]:u4 - ({zeros}))", "sm_90a")
    assert problem.rhs.element.name == made


def test_another_order_is_another_program_to_the_tuner() -> None:
    keys = {
        compiler.program_key(f"C[m,n] = A[m,k] @ (B[n,k]:u4 - {z})", "sm_90a", {"m": 16, "n": 256, "k": 256})
        for z in ("Z[k/64,n]", "Z[k/64,n/8*8 + n%2*4 + n%8/2]", "(Z[k/64,n] + 1)")
    }
    assert len(keys) == 2
