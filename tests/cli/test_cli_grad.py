"""`scalec grad`."""

from __future__ import annotations


def test_it_prints_programs_as_they_are_compiled(invoke):
    ran = invoke("grad", "C[m,n] = relu(A[m,k] @ B[n,k])", "--type", "dB=f32", "--wrt", "B")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout.endswith("dB[n,k]:f32 = dAB[m,n] @ A[m,k]\n")
    assert "C_in_kept[m,n] = C_in\n" in ran.stdout


def test_a_refusal_names_the_place_and_the_fix(invoke):
    source = "C[m,n]:mxfp8 = A[m,k] @ B[n,k]"
    ran = invoke("grad", source)
    assert ran.exit_code == 1
    assert "C is quantised" in ran.stderr
    assert "straight_through" in ran.stderr
    assert invoke("grad", source, "--straight-through", "--once", "A").exit_code == 1
    assert invoke("grad", source, "--straight-through").exit_code == 0
