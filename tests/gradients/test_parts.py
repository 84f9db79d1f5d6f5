"""Gradients of a tensor that a program reads in parts, by halves or by turns: what the texts say."""

from __future__ import annotations

import pytest

import scalec
from scalec.errors import ScalecError
from tests.gradients.test_texts import lines

GATED = "G[m,n] = X[m,k] @ W[n,k]; U[m,n] = X[m,k] @ W[n+size(n),k]; H[m,n] = silu(G)*U"


@pytest.mark.parametrize(
    ("gate", "up", "said"), [("n", "n+size(n)", ("n", "n+size(n)")), ("2*n", "2*n+1", ("n*2", "n*2+1"))]
)
def test_a_tensor_in_parts_reads_as_several_do(gate: str, up: str, said: tuple[str, str]):
    source = GATED.replace("n+size(n),k", f"{up},k").replace("W[n,k]", f"W[{gate},k]")
    g = scalec.grad(source, types={"dW": "f32"})
    two = source.replace(f"W[{gate},k]", "W0[n,k]").replace(f"W[{up},k]", "W1[n,k]")
    assert [s.text for s in g.steps] == lines(two, types={"dW0": "f32", "dW1": "f32"})
    assert [s.text for s in g.steps][1:] == [
        "dX[m,k] = dU[m,n] @ W1[n,k] + dG[m,n] @ W0[n,k]",
        "dW0[n,k]:f32 = dG[m,n] @ X[m,k]",
        "dW1[n,k]:f32 = dU[m,n] @ X[m,k]",
    ]
    assert g.forward.splitlines()[:2] == [f"G[m,n] = X[m,k] @ W[{said[0]},k]", f"U[m,n] = X[m,k] @ W[{said[1]},k]"]
    assert g.of == {"X": "dX", "W": "dW"}
    assert g.steps[1].reads == {"dU": "step", "W1": "part", "dG": "step", "W0": "part"}
    assert g.parts == {
        f"{d}W{i}": scalec.gradients.Part(f"{d}W", 0, i, 2, gate == "2*n", said[i]) for d in ("", "d") for i in (0, 1)
    }
    assert f"# dW1: a view of dW, at {said[1]} along index 0, written as out=\n" in str(g)


def test_scales_of_a_tensor_in_parts_are_parts_or_those_of_all():
    source = GATED.replace("; ", "\n").replace("silu(G)*U", "silu(G) * U").replace("X[m,k]", "X[m,k]:mxfp8")
    source = source.replace(",k]\n", ",k] scale(128x128*tensor)\n")
    g = scalec.grad(source, wrt="X")
    assert {n: (p.of, p.number, p.count, p.index) for n, p in g.parts.items() if n.startswith("W1")} == {
        "W1": ("W", 1, 2, "n+size(n)"),
        "W1_scale": ("W_scale", 1, 2, "(n+size(n))/128"),
        "W1_scale2": ("W_scale2", 0, 1, ""),
    }
    assert "# W1_scale2: W_scale2\n" in str(g)
    assert g.forward.startswith(source + "\nG_kept")  # nothing of it is W1's


@pytest.mark.parametrize("options", [{}, {"quantize": "deepseek_v3"}, {"quantize": "deepseek_v3", "turned": "W"}])
def test_what_is_said_of_a_tensor_is_said_of_its_parts(options: dict):
    """Of two tensors the steps are the same."""
    source = GATED.replace("X[m,k] @ W[n,k]", "X[m,k] @ W[n,k]:e4m3 scale(none, 128x128)")
    source = source.replace("W[n+size(n),k]", "W[n+size(n),k] scale(none, 128x128)")
    two = source.replace("W[n,k]", "W0[n,k]").replace("W[n+size(n),k]", "W1[n,k]:e4m3")
    both = {**options, "turned": ("W0", "W1")} if "turned" in options else options
    g = scalec.grad(source, **options)
    assert [s.text for s in g.steps] == lines(two, **both)
    assert set(g.layouts.values()) == set(both.get("turned", ()))


def test_what_is_quantised_from_more_bits_is_not_in_parts():
    """A program quantises all of it, and both orders of it."""
    scale = " scale(1x128, 128x128)"
    source = GATED.replace(",k]; ", f",k]{scale}; ")
    with pytest.raises(ScalecError, match="W is read at two indices") as refusal:
        scalec.grad(source, quantize="deepseek_v3", quantized_from={"W": "f32"})
    assert "pass it under two names" in refusal.value.fix
    assert scalec.grad(source, quantize="deepseek_v3", quantized_from={"X": "bf16"}, wrt=["X", "W"]).of["W"] == "dW"


def test_a_part_that_no_result_depends_on_is_zeros():
    g = scalec.grad(GATED.replace("silu(G)*U", "silu(G); I[m,n] = U"), results="H", wrt="W")
    assert [n for s in g.steps for n in s.results if n[:2] == "dW"] == ["dW0"]
    assert g.of == {"W": "dW"}
    assert not g.whole("dW")
    assert "# dW: zeros but for dW0\n" in str(g)


def test_names_of_parts_are_those_of_nothing_else():
    g = scalec.grad(GATED.replace("silu(G)*U", "silu(G)*U*W0[n]"))
    assert [n for n in g.parts if n[0] == "W"] == ["W0_", "W1_"]
    assert g.of == {"X": "dX", "W": "dW", "W0": "dW0"}
