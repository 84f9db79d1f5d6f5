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


@pytest.mark.parametrize(
    ("operand", "becomes", "value"),
    [
        ("quantize(B[k/8,n,k%8]:i4, e4m3, 1x128)", "", "B[k/8,n,k%8]:i4 scale(1x128:bf16)"),
        (
            "quantize(B[n, k/8*8 + k%2*4 + k%8/2]:i4, e4m3, 1x128)",
            "",
            "B[n, k/8*8 + k%2*4 + k%8/2]:i4 scale(1x128:bf16)",
        ),
        ("quantize((B[k/8,n,k%8]:u4 - Z[n]), e4m3, 1x128)", "", "(B[k/8,n,k%8]:u4 - Z[n]:u4) scale(1x128:bf16)"),
        ("B[k/8,n,k%8]:e2m1", "e4m3", "B[k/8,n,k%8]:e2m1 scale(1x128:bf16)"),
    ],
)
def test_words_become_rows(operand: str, becomes: str, value: str) -> None:
    parts = cut_operand(f"C[m,n] = A[m,k] @ {operand} scale(1x128, 1x128:bf16)", "B", becomes)
    scale = "" if becomes else " scale(1x128)"
    assert parts is not None
    assert parts.first == f"B_e4m3[n,k]:e4m3{scale} = {value}"
    assert parts.second == f"C[m,n] = A[m,k] @ B_e4m3[n,k]:e4m3 scale(1x128, {'none' if becomes else '1x128'})"


def test_rows_of_words_that_memory_names_are_those_of_the_tensor() -> None:
    parts = cut_operand("C[m,n] = A[m,k]:bf16 @ B[k/8,idx[n],k%8]:nvfp4", "B", "bf16")
    assert parts is not None
    assert parts.first == "B_bf16[B_0,k]:bf16 = B[k/8,B_0,k%8]:e2m1 scale(1x16:ue4m3)"
    assert parts.second == "C[m,n] = (A[m,k]:bf16 @ B_bf16[idx[n],k]:bf16 * B_scale2[0,0]:f32)"
