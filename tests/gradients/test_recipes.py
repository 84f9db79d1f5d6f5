"""What gradients' operands are quantised to: texts, and their values against products of operands quantised here."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.errors import ArgumentError, UnsupportedError
from scalec.formats import Granularity
from scalec.gradients import RECIPES, Recipe
from tests.gradients.running import backward

FP8 = "C[m,n] = A[m,k] @ B[n,k] scale(1x128, 128x128)"
ROW, BLOCK, MX = Granularity((1, 128)), Granularity((128, 128)), Granularity((1, 32), "ue8m0")


def test_deepseek_v3_keeps_the_weights_blocks_and_quantises_all_else_along_the_sum():
    g = scalec.grad(FP8, quantize="deepseek_v3", types={"dB": "f32"})
    assert [s.text for s in g.steps] == [
        "dC_n[m,n]:e4m3 scale(1x128) = dC[m,n]\ndC_m[n,m]:e4m3 scale(1x128@col) = dC[m,n]",
        "A_m[k,m]:e4m3 scale(1x128@col) = A[m,k]:fp8_block",
        "dA[m,k] = dC_n[m,n] @ B[n,k] scale(1x128, 128x128)",
        "dB[n,k]:f32 = dC_m[n,m] @ A_m[k,m] scale(1x128@col, 1x128@col)",
    ]
    assert g.steps[0].makes == ("dC_n", "dC_n_scale", "dC_m", "dC_m_scale")


def test_gradients_in_square_blocks():
    g = scalec.grad(FP8, quantize="deepseek_v3_2d", types={"dB": "f32"})
    assert [s.text for s in g.steps][::2] == [
        "dC_n[m,n]:e4m3 scale(128x128) = dC[m,n]\ndC_m[n,m]:e4m3 scale(128x128@col) = dC[m,n]",
        "dA[m,k] = dC_n[m,n] @ B[n,k] scale(128x128, 128x128)",
    ]
    assert g.steps[3].text == "dB[n,k]:f32 = dC_m[n,m] @ A_m[k,m] scale(128x128@col, 1x128@col)"


def test_what_is_computed_to_be_quantised_is_rounded_once():
    g = scalec.grad("C[m,n] = relu(A[m,k] @ B[n,k] scale(1x128, 128x128))", quantize="deepseek_v3")
    first, *rest = [s.text for s in g.steps]
    lines = first.splitlines()
    assert lines[-3].startswith("dAB[m,n] = dC[m,n]")
    assert lines[-2:] == ["dAB_n[m,n]:e4m3 scale(1x128) = dAB", "dAB_m[n,m]:e4m3 scale(1x128@col) = dAB"]
    assert not any("dAB[" in text for text in rest)
    biased = scalec.grad("C[m,n] = relu(A[m,k]@B[n,k] scale(1x128, 128x128) + b[n])", quantize="deepseek_v3")
    assert "dAB" in biased.steps[0].results  # which the bias reads too


def test_operands_that_are_given_turned():
    g = scalec.grad(FP8, quantize="deepseek_v3", turned="B")
    assert g.layouts == {"B_n": "B"}
    dA = next(s for s in g.steps if "A" in s.of)
    assert dA.text == "dA[m,k] = dC_n[m,n] @ B_n[k,n] scale(1x128, 128x128)"
    assert dA.reads["B_n_scale"] == "layout"
    both = scalec.grad(FP8.replace("128x128", "64x128"), quantize="deepseek_v3", turned=["A", "B"])
    assert [s.text for s in both.steps if s.of] == [  # blocks turn too
        "dA[m,k] = dC_n[m,n] @ B_n[k,n] scale(1x128, 128x64)",
        "dB[n,k] = dC_m[n,m] @ A_m[k,m] scale(1x128@col, 1x128@col)",
    ]
    assert both.layouts == {"B_n": "B", "A_m": "A"}
    with pytest.raises(scalec.ArgumentError, match="turned names A, which no gradient reads so"):
        scalec.grad(FP8, quantize="deepseek_v3", turned=["A", "B"], wrt="A")


def test_operands_that_are_quantised_of_what_a_caller_has():
    given = {"A": "bf16", "B": "f32"}
    g = scalec.grad(FP8, quantize="deepseek_v3", quantized_from=given)
    assert [s.text for s in g.quantisers] == [  # B's blocks are square, and are read as they are
        "A[m,k]:e4m3 scale(1x128) = A_bf16[m,k]\nA_m[k,m]:e4m3 scale(1x128@col) = A_bf16[m,k]",
        "B[n,k]:e4m3 scale(128x128) = B_f32[n,k]:f32",
    ]
    assert g.quantisers[0].makes == ("A", "A_scale", "A_m", "A_m_scale")
    assert [s.text for s in g.steps if s.of] == [
        "dA[m,k] = dC_n[m,n] @ B[n,k] scale(1x128, 128x128)",
        "dB[n,k]:f32 = dC_m[n,m] @ A_m[k,m] scale(1x128@col, 1x128@col)",  # of the type that B is given in
    ]
    assert str(g).startswith("# A, A_m: quantised from A_bf16\nA[m,k]:e4m3")
    turned = scalec.grad(FP8, quantize="deepseek_v3", quantized_from=given, turned="B")
    assert turned.quantisers[1].text.endswith("\nB_n[k,n]:e4m3 scale(128x128) = B_f32[n,k]")
    blocks = scalec.grad("C[m,n] = A[m,k]:mxfp8 @ B[e[m/128],n,k]:mxfp8", quantize="mxfp8", quantized_from={"B": "f32"})
    (of_groups,) = blocks.quantisers
    assert of_groups.text == "B[r_,n,k]:mxfp8 = B_f32[r_,n,k]:f32\nB_n[r_,k,n]:mxfp8 = B_f32[r_,n,k]"


def test_mxfp8_reads_the_other_layout_of_what_is_quantised_already():
    g = scalec.grad("C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8", quantize="mxfp8")
    assert g.layouts == {"A_m": "A", "B_n": "B"}
    assert [s.text for s in g.steps if s.of] == [
        "dA[m,k] = dC_n[m,n]:mxfp8 @ B_n[k,n]:mxfp8",
        "dB[n,k] = dC_m[n,m]:mxfp8 @ A_m[k,m]:mxfp8",
    ]
    assert g.steps[-1].reads["A_m_scale"] == "layout"
    assert "# A_m: what A was made of, quantised with the index last" in str(g)


def test_unsaid_nothing_is_quantised():
    texts = [s.text for s in scalec.grad(FP8).steps]
    assert texts == [
        "A_bf16[m,k] = A[m,k]:fp8_block",
        "dA[m,k] = dC[m,n] @ B[n,k] scale(none, 128x128)",
        "dB[n,k] = dC[m,n] @ A_bf16[m,k]",
    ]


def test_a_recipe_of_ones_own():
    recipe = Recipe("mine", ("e5m2", Granularity((1, 64), "ue8m0")), ("e4m3", Granularity((1, 64), "ue8m0")))
    first = scalec.grad("C[m,n] = A[m,k] @ B[n,k]", quantize=recipe, wrt="A").steps
    assert [s.text for s in first] == [
        "dC_n[m,n]:e5m2 scale(1x64:ue8m0) = dC[m,n]",
        "B_n[k,n]:e4m3 scale(1x64:ue8m0) = B[n,k]",
        "dA[m,k] = dC_n[m,n]:e5m2 @ B_n[k,n] scale(1x64:ue8m0, 1x64:ue8m0)",
    ]


@pytest.mark.parametrize("recipe", [n for n, x in RECIPES.items() if not x.stochastic])  # nvfp4: test_nvfp4.py
def test_values_are_those_of_the_operands_quantised(recipe: str):
    """With tails of every block, and rows whose magnitudes differ."""
    m, n, k = 130, 150, 140
    rng = np.random.default_rng(3)
    a, b, dc = (
        (rng.standard_normal(s) * 2.0 ** rng.integers(-6, 6, (s[0], 1))).astype(np.float32)
        for s in ((m, k), (n, k), (m, n))
    )
    row = RECIPES[recipe]
    quantised = {
        "A": reference.quantize(a, "e4m3", [ROW]),
        "B": reference.quantize(b, "e4m3", [BLOCK]),
        "A_m": reference.quantize(a.T, row.operand[0], [row.operand[1]]),
    }
    values = {
        name: v for q, made in quantised.items() for name, v in ((q, made.values), (f"{q}_scale", made.scales[0]))
    }
    g = scalec.grad(FP8.replace("C[m,n]", "C[m,n]:f32"), quantize=recipe, types={"dA": "f32", "dB": "f32"})
    got = backward(g, values, {"dC": dc}, {}, {})

    def rounded(x: np.ndarray, element: str, scales: Granularity) -> np.ndarray:
        made = reference.quantize(x, element, [scales])  # pyright: ignore[reportArgumentType]
        return reference.dequantize(made.values, made.scales, element, [scales])  # pyright: ignore[reportArgumentType]

    left = reference.dequantize(values["A"], [values["A_scale"]], "e4m3", [ROW])
    right = reference.dequantize(values["B"], [values["B_scale"]], "e4m3", [BLOCK])
    other = rounded(a.T, *row.operand) if row.both else rounded(left.T.astype(np.float32), *row.operand)
    np.testing.assert_allclose(got["A"], rounded(dc, *row.gradient) @ right, rtol=0, atol=1e-6 * np.abs(got["A"]).max())
    np.testing.assert_allclose(
        got["B"], rounded(dc.T, *row.gradient) @ other.T, rtol=0, atol=1e-6 * np.abs(got["B"]).max()
    )
    for found, exact in ((got["A"], dc @ right), (got["B"], dc.T @ a)):  # and near those of what is not quantised
        assert np.abs(found - exact).max() < (0.15 if recipe == "mxfp8_e5m2" else 0.1) * np.abs(exact).max()


def test_what_is_quantised_of_rows_that_an_index_names_is_made_of_all_of_them_once():
    made = str(scalec.grad("C[m,n] = quantize(relu(A[idx[m],k]), e4m3, 1x128) @ B[n,k]", straight_through=True))
    assert "A_q[r,k]:e4m3 scale(1x128) = relu(A[r,k])\n" in made


def test_scales_of_groups_are_read_as_they_lie_and_others_as_those_of_all_rows():
    """The program's own operand has tiles of each group; what steps make has scales of all of m."""
    source = "C[m,n] = A[m,k] @ B[g,n,k] scale(1x32:ue8m0@blocked, 1x1x32:ue8m0@blocked) for m in off[g]:off[g+1] apart"
    plain = [s.text for s in scalec.grad(source).steps]
    assert "A_bf16[m,k] = A[m,k]:e4m3 scale(1x32:ue8m0@blocked) for m in off[g]:off[g+1] apart" in plain
    assert "dB[g,n,k] = dC[m,n] @ A_bf16[m,k] for m in off[g]:off[g+1]" in plain
    recipe = [s.text for s in scalec.grad(source, quantize="mxfp8").steps]
    assert "dB[g,n,k] = dC_m[n,m]:mxfp8 @ A_m[k,m]:mxfp8 for m in off[g]:off[g+1]" in recipe
    with pytest.raises(ArgumentError, match="A has blocks, or tiles, of scales for each of groups"):
        scalec.grad(source, quantize="mxfp8", quantized_from={"A": "bf16"})
    several = "C[m,n] = A[m,k] @ B[g,n,k] scale(32x128, 1x128x128) for m in off[g]:off[g+1] by 32 apart"
    with pytest.raises(UnsupportedError, match="dC_m has scales of all of m, beside those of groups apart"):
        scalec.grad(several, quantize="deepseek_v3")
