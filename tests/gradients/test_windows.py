"""Gradients of products with windows, ranges of what is summed, and of vectors: texts that targets take."""

from __future__ import annotations

import pytest

import scalec
from scalec import compiler
from tests.gradients.test_texts import TARGETS, lines


def test_what_has_a_range_is_not_last_in_what_is_multiplied():
    """Copies would begin anywhere; but where groups begin at multiples of 16 bytes, or all of it at 0, they do not."""
    ranged = "C[g,m,n] = A[m,k] @ B[n,k] for k in off[g]:off[g+1]"
    assert lines(ranged, wrt="A") == ["B_n[k,n] = B[n,k]", "dA[m,k] = dC[g,m,n] @ B_n[k,n] for k in off[g]:off[g+1]"]
    (step,) = lines(f"{ranged} by 8", wrt="A")
    assert step == "dA[m,k] = dC[g,m,n] @ B[n,k] for k in off[g]:off[g+1] by 8"
    scaled = lines(ranged.replace("@ B[n,k]", "@ B[n,k]:e4m3 scale(none, 128x128)"), wrt="A")
    assert scaled[0] == "B_n[k,n] = B[n,k]:e4m3 scale(128x128)"


@pytest.mark.parametrize("window", ["t in lo[q]:hi[q]", "t < q+1"])
def test_outside_of_windows_gradients_are_zeros(window: str):
    """So no sum has a range for each row, nor reads what no window has of a gradient."""
    assert lines(f"L[q,t] = Q[q,d] @ K[t,d] for {window}") == [
        f"dL_inside[q,t] = dL[q,t] for {window} else 0",
        "dQ[q,d] = dL_inside[q,t] @ K[t,d]",
        "dK[t,d] = dL_inside[q,t] @ Q[q,d]",
    ]
    quantised = lines(f"L[q,t] = Q[q,d] @ K[t,d] for {window}", wrt="Q", quantize="mxfp8")
    assert quantised[-1] == "dQ[q,d] = dL_inside_t[q,t]:mxfp8 @ K_t[d,t]:mxfp8"


def test_products_of_vectors_are_sums():
    assert lines("C[m] = A[m,k] @ B[k]") == ["dA[m,k] = dC[m]*B[k]", "dB[k] = sum[m](dC[m]*A[m,k])"]


INDEXER = "L[q,{}]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * W[q,h]) for t in lo[q]:hi[q]{}"


@pytest.mark.parametrize(("at", "otherwise"), [("t", " else 0"), ("t-lo[q]", "")])
def test_products_that_are_reduced_in_windows_are_computed_again(at: str, otherwise: str):
    """No kernel writes them beside what is filled, or compressed."""
    g = scalec.grad(INDEXER.format(at, otherwise))
    texts = [s.text for s in g.steps]
    assert g.forward == g.source
    assert texts[0] == "L_in[q,h,t]:f32 = Q[q,h,d] @ K[t,d] for t in lo[q]:hi[q]"
    given = "dL_t" if "lo" in at else "dL"
    assert (texts[1] == "dL_t[q,t]:f32 = dL[q,L_at[q,t]]:f32") == ("lo" in at)
    assert texts[-1] == f"dW[q,h] = sum[t]({given}[q,t]:f32 * relu(L_in[q,h,t]:f32)) for t in lo[q]:hi[q]"
    if "lo" in at:
        assert "# L_at: lo[q]*-1+t for each q,t, and -1 beyond L\n" in str(g)
    assert scalec.grad(INDEXER.format("t", "")).kept == ("L_in_kept",)


@pytest.mark.once("target", "source")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "source",
    [
        INDEXER.format("t", " else 0"),
        INDEXER.format("t - lo[q]", ""),
        "C[g,m,n] = alpha[g] * (A[m,k] @ B[n,k]) for k in off[g]:off[g+1]",
        "Z[t,n] = sum[j](w[t,j] * Y[row[t,j],n])",
        "Y[m,n] = X[m,n] * X[m,t[m]]",
        "C[m,n,b] = A[b,m,k] @ B[b,n,k] * w[b]",  # whose gradient has a batch last
        "D[m, n/4*6 + n%4] = A[m,k] @ B[n,k]",  # or gaps
        "Y[m,n] = X[m,n]*w[g] + b[g,n]*r[m] for m in off[g]:off[g+1]",  # sums over n of what each g has
        "C[g,m,n] = A[idx[k],m] @ B[k,n] for k in off[g]:off[g+1]",
    ],
)
def test_texts_compile(source: str, target: str):
    for s in scalec.grad(source).steps:
        compiler.compile_source(s.text, target, {}, {}, until="tile")
