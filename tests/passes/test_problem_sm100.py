"""Scales that sm_100a's instructions apply: which family they choose, and what does not go together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalec.errors import UnsupportedError
from scalec.passes.problem.types import Problem

In = Callable[..., Problem]
TARGET = "sm_100a"


@pytest.mark.parametrize(
    ("operands", "k", "scaled"),
    [
        ("A[m,k]:e4m3 @ B[n,k]:e4m3", 32, False),
        ("A[m,k] @ B[n,k] scale(1x128, 128x128)", 32, False),
        ("A[m,k]:mxfp8 @ B[n,k]:mxfp6", 32, True),
        ("A[m,k]:e2m1 @ B[n,k]:e2m1", 64, True),
        ("A[m,k]:e2m1 @ B[n,k]:e2m1 scale(1x128, 1xk)", 64, True),
        ("A[m,k]:e2m1 @ B[n,k]:e2m3", 32, False),
        ("A[m,k] @ B[n,k]:e4m3 scale(1x32:ue8m0, none)", 32, True),
        ("A[m,k] @ B[n,k] scale(1x128, 1x32:ue8m0)", 32, True),
        ("A[m,k]:nvfp4 @ B[n,k]:e2m1", 64, True),
        ("A[m,k]:mxfp4 @ B[n,k]:mxfp4", 64, True),
        ("A[m,k]:nvfp4 @ B[n,k]:nvfp4", 64, True),
    ],
)
def test_the_scales_choose_the_instruction(problem_in: In, operands: str, k: int, scaled: bool) -> None:
    family = problem_in(f"C[m,n] = {operands}", TARGET).family
    assert (family.k, bool(family.scales)) == (k, scaled)


@pytest.mark.parametrize(
    ("operands", "message", "fix"),
    [
        ("A[m,k] @ B[n,k] scale(1x16:ue4m3, 1x16:ue4m3)", "A_scale is ue4m3, which sm_100a has no instruction", "fold"),
        ("A[m,k]:nvfp4 @ B[n,k]:mxfp8", "A_scale is ue4m3, which sm_100a has no instruction", "fold A_scale"),
    ],
)
def test_what_does_not_go_together(problem_in: In, operands: str, message: str, fix: str) -> None:
    with pytest.raises(UnsupportedError) as refusal:
        problem_in(f"C[m,n] = {operands}", TARGET)
    assert message in str(refusal.value)
    assert f"fix: {fix}" in str(refusal.value)
