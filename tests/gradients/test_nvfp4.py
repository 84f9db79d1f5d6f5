"""The recipe `nvfp4`: texts, and what the reference makes of them."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.formats import Granularity
from scalec.gradients import RECIPES, MadeIndex
from scalec.gradients.steps import SIGNS
from tests.gradients.running import Arrays, _ran, backward
from tests.gradients.test_texts import lines

LINEAR = "Y[m,n] = X[m,k]:nvfp4 @ W[n,k]:e2m1 scale(16x16:ue4m3*tensor)"
GIVEN = {"X": "bf16", "W": "f32"}
ROW, SQUARE = Granularity((1, 16), "ue4m3"), Granularity((16, 16), "ue4m3")


def test_the_text_is_the_published_recipe():
    """Weights in squares, which are the same in both orders; both operands of their gradient transformed along m; all
    gradients rounded by chance, each by bits of its own."""
    g = scalec.grad(LINEAR, quantize="nvfp4", quantized_from=GIVEN)
    assert [s.text for s in g.quantisers] == [
        "X_scale2[0,0]:f32 = max[m,k](abs(X_bf16[m,k])) / 2688\n"
        "X_m_scale2[0,0]:f32 = max[m,k](abs(X_bf16[m,k])) / 672\n"  # a sum of 16, over 4
        "X[m,k]:nvfp4 = X_bf16[m,k]\n"
        "X_m[k,m]:nvfp4 = hadamard(X_bf16[m,k]*signs[m], 16)",
        "W_scale2[0,0]:f32 = max[n,k](abs(W_f32[n,k]:f32)) / 2688\n"
        "W_n_scale2[0,0]:f32 = max[n,k](abs(W_f32[n,k])) / 2688\n"
        "W[n,k]:e2m1 scale(16x16:ue4m3*tensor) = W_f32[n,k]\n"
        "W_n[k,n]:e2m1 scale(16x16:ue4m3*tensor) = W_f32[n,k]",
    ]
    assert [s.text for s in g.steps] == [
        "dY_n_scale2[0,0]:f32 = max[m,n](abs(dY[m,n])) / 2688\n"
        "dY_m_scale2[0,0]:f32 = max[m,n](abs(dY[m,n])) / 672\n"
        "dY_n[m,n]:nvfp4 = stochastic(dY[m,n], seed[0])\n"
        "dY_m[n,m]:nvfp4 = stochastic(hadamard(dY[m,n]*signs[m], 16), seed[1])",
        "dX[m,k] = dY_n[m,n]:nvfp4 @ W_n[k,n]:e2m1 scale(16x16:ue4m3*tensor)",
        "dW[n,k]:f32 = dY_m[n,m]:nvfp4 @ X_m[k,m]:nvfp4",
    ]
    assert g.steps[0].makes == ("dY_n", "dY_n_scale", "dY_n_scale2", "dY_m", "dY_m_scale", "dY_m_scale2")
    assert [s.whole for s in (*g.quantisers, *g.steps)] == [{"m": 16}, {}, {"m": 16}, {}, {}]
    assert g.indices["signs"] == MadeIndex("signs", "m", "X", 0)
    assert "# signs: +++-+------+-+-- as 1 and -1, again and again, for each m\n" in str(g)
    assert "# seed: 2 of i32, any, others each time\n" in str(g)
    alone = g.quantisers[0].first()
    assert alone.text == "X_scale2[0,0]:f32 = max[m,k](abs(X_bf16[m,k])) / 2688\nX[m,k]:nvfp4 = X_bf16[m,k]"
    assert (alone.makes, alone.whole) == (("X", "X_scale", "X_scale2"), {})


@pytest.mark.parametrize(("promise", "transformed"), [("", False), (" by 8", False), (" by 16", True)])
def test_what_is_transformed_together_is_of_one_group(promise: str, transformed: bool):
    texts = lines(f"Y[m,n] = X[m,k] @ W[g,n,k] for m in off[g]:off[g+1]{promise}", wrt="W", quantize="nvfp4")
    assert all(("hadamard" in x) == transformed for x in texts[:2])
    assert all(x.endswith(f"for m in off[g]:off[g+1]{promise}") for x in texts)  # what no group has is in no maximum


def test_a_temporary_is_rounded_once():
    first, *_ = lines("Y[m,n] = relu(X[m,k] @ W[n,k])", quantize="nvfp4", wrt="X")
    assert first.splitlines()[1:] == [
        "dXW_n_scale2[0,0]:f32 = max[m,n](abs(dXW)) / 2688",
        "dXW_n[m,n]:nvfp4 = stochastic(dXW, seed[0])",
    ]


def made(m: int, n: int, k: int) -> tuple[scalec.gradients.Gradients, Arrays, Arrays]:
    rng = np.random.default_rng(7)
    x, w, d = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (n, k), (m, n)))
    d *= 2.0 ** rng.integers(-6, 6, (m, 1))
    g = scalec.grad(
        LINEAR.replace("Y[m,n]", "Y[m,n]:f32"),
        quantize="nvfp4",
        quantized_from={"X": "f32", "W": "f32"},
        types={"dX": "f32", "dW": "f32"},
    )
    values: Arrays = {"X_f32": x, "W_f32": w, "signs": np.resize(SIGNS, m).astype(ml_dtypes.bfloat16)}
    for s in g.quantisers:
        values |= _ran(s.text, {n: values[n] for n in s.reads}, {}, {})
    return g, values, {"x": x, "w": w, "dY": d}


def test_gradients_are_near_those_of_what_is_not_quantised_and_on_average_those_of_what_is():
    g, values, exact = made(48, 40, 24)
    runs = []
    for seed in range(24):
        given = {"dY": exact["dY"], "seed": np.array([seed, seed + 1000], np.int32)}
        runs.append(backward(g, values, {"dY": given["dY"]}, {}, {"seed": given["seed"], "signs": values["signs"]}))

    def off(found: np.ndarray, wanted: np.ndarray) -> float:
        return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))

    for name, wanted in (("X", exact["dY"] @ exact["w"]), ("W", exact["dY"].T @ exact["x"])):
        assert off(runs[0][name], wanted) < 0.25, name
    levels = [SQUARE, Granularity((), "f32", tensor=True)]
    w = reference.dequantize(values["W_n"], [values["W_n_scale"], values["W_n_scale2"]], "e2m1", levels)
    mean = np.mean([r["X"] for r in runs], axis=0)
    one, many = (off(found, exact["dY"] @ w.T) for found in (runs[0]["X"], mean))
    assert many < one / 3  # 24 times as many: by the root of that, if nothing is biased


def test_nothing_is_transformed_where_a_recipe_says_so():
    texts = lines("Y[m,n] = X[m,k] @ W[n,k]", wrt="W", quantize=replace(RECIPES["nvfp4"], hadamard=0, stochastic=False))
    assert texts[0].splitlines()[-1] == "dY_m[n,m]:nvfp4 = dY[m,n]"


def test_the_second_level_is_that_of_weights_less_their_zero_points():
    """Of weights that are all 0, with zero points that are not, the largest is no 0."""
    g = scalec.grad("C[m,n] = A[m,k] @ (B[n,k]:u4 - Z[n,k/128]) scale(none, 1x128:f16)", wrt="A", quantize="nvfp4")
    text = next(s.text for s in g.steps if "B_n" in s.makes)
    n, k = 16, 128
    b, z = np.zeros((n, k), ml_dtypes.uint4), np.full((n, 1), 8, ml_dtypes.uint4)
    found = _ran(text, {"B": b, "Z": z, "B_scale": np.ones((n, 1), np.float16)}, {}, {})
    assert found["B_n_scale2"] == np.float32(8) / np.float32(2688)
    levels = [ROW, Granularity((), "f32", tensor=True)]
    values = reference.dequantize(found["B_n"], [found["B_n_scale"], found["B_n_scale2"]], "e2m1", levels)
    assert np.allclose(values, -8)
