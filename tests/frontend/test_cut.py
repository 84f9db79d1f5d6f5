"""Programs of several launches, cut into texts: what is not a question of sizes."""

from collections.abc import Callable

import pytest

from scalec.frontend.cut import Cut, cut, without
from scalec.frontend.cut_operands import cut_operand

QUANTISED = """# a line of its own
C[m,n] = quantize(silu(  # after a bracket
    A[m,k]), e4m3, 1xk) @ B[n,k] scale(none,  # within
    1xk)  # at an end
"""
RESULT = """# a line of its own
D[m,n]:e4m3 scale(1xn) = relu(  # after a bracket
    A[m,k] @ B[n,k]) for m < rows[  # within a range
        0]
"""


@pytest.mark.parametrize(("by", "program", "name"), [(cut_operand, QUANTISED, "A"), (cut, RESULT, "D")])
def test_comments_are_left_out(by: Callable[[str, str], Cut | None], program: str, name: str) -> None:
    parts = by(program, name)
    assert parts is not None
    assert "#" not in parts.first + parts.second
    assert not any(line != line.rstrip() or not line for text in parts[:2] for line in text.split("\n"))


def test_what_a_comment_stood_before_is_kept() -> None:
    parts = cut(RESULT, "D")
    assert parts is not None
    assert parts.second == "D[m,n]:e4m3 scale(1xn) = D_f32[m,n]:f32 for m < rows[ 0]"


@pytest.mark.parametrize(
    ("clauses", "left"),
    [
        (" with convert=before", ""),
        (" with stages=4, convert = before # told", " with stages=4 # told"),
        (" with convert=before, stages=4", " with stages=4"),
        (" with convert=shared", " with convert=shared"),
    ],
)
def test_without_a_decision(clauses: str, left: str) -> None:
    product = "C[m,n] = A[m,k] @ B[n,k]"
    assert without(product + clauses, "convert", "before").rstrip() == product + left


def test_what_is_quantised_may_be_stored_with_its_last_indices_exchanged() -> None:
    program = "C[b,m,n] = quantize(relu(A[b,k,m]), e4m3, 1x128x4) @ B[b,n,k] scale(none, 1x1x128)"
    parts = cut_operand(program, "A", turns=True)
    assert parts == Cut(
        "A_e4m3[b,m,k]:e4m3 scale(1x4x128) = relu(A[b,k,m])",
        "C[b,m,n] = A_e4m3[b,m,k]:e4m3 @ B[b,n,k] scale(1x4x128, 1x1x128)",
        "A_e4m3",
    )
    assert cut_operand(program.replace("1x128x4", "tensor"), "A", turns=True) is None
