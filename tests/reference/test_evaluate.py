"""The reference against triple loops in plain Python, one program at a time."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import pairwise, product
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalec.errors import ArgumentError, ScalecError
from scalec.ir.context import context, parse
from scalec.reference import dequantize, make, quantize, round_to, run, storage
from scalec.reference.bind import find_program, granularity_of
from scalec.reference.body import gelu, sigmoid, silu
from tests.reference.reference_programs import EXAMPLES, case, compare, program

NAN = math.nan


def full(*shape: int) -> np.ndarray:
    return np.full(shape, NAN)


@settings(deadline=None, max_examples=12)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 40))
def test_scaled_contraction(m: int, n: int, k: int) -> None:
    a, r = case("C[m,n] = A[m,k]@B[n,k] scale(1x16, 4x16)", {"m": m, "n": n, "k": k})
    want = full(m, n)
    for i, j in product(range(m), range(n)):
        want[i, j] = sum(
            a["A"][i, q] * a["A_scale"][i, q // 16] * a["B"][j, q] * a["B_scale"][j // 4, q // 16] for q in range(k)
        )
    compare(r["C"], want)


@pytest.mark.parametrize("known", [True, False])
def test_a_sum_of_nothing(known: bool) -> None:
    dims = {"m": 3, "n": 40, "k": 0}
    text = "T[m,n] = A[m,k]@B[n,k] scale(1x16, 4x16); C[m,n] = max(T, x[n]); D[m,n]:f32 += T - 2"
    with program(text, dims if known else {}) as module:
        a = make(module, dims, 1)
        r = run(module, a, dims=dims, exact=True)
    assert (a["A"].shape, a["A_scale"].shape) == ((3, 0), (3, 0))
    compare(r["C"], np.broadcast_to(np.maximum(a["x"].astype(np.float64), 0), (3, 40)))
    compare(r["D"], a["D"].astype(np.float64) - 2)


def test_two_levels_and_per_row_and_whole_tensor_scales() -> None:
    a, r = case("C[m,n]:f32 = A[m,k]:nvfp4 @ B[n,k]:e4m3", {"m": 3, "n": 2, "k": 32})
    want = full(3, 2)
    for i, j in product(range(3), range(2)):
        want[i, j] = sum(
            a["A"][i, q] * a["A_scale"][i, q // 16] * a["A_scale2"][0, 0] * a["B"][j, q] for q in range(32)
        )
    compare(r["C"], want)
    a, r = case("C[m,n] = A[m,k]@B[n,k] scale(1xk, tensor)", {"m": 3, "n": 2, "k": 32})
    for i, j in product(range(3), range(2)):
        want[i, j] = sum(a["A"][i, q] * a["A_scale"][i, 0] * a["B"][j, q] * a["B_scale"][0, 0] for q in range(32))
    compare(r["C"], want)


@pytest.mark.parametrize("layout", ["row", "col", "packed", "blocked"])
def test_scale_layouts_mean_the_same(layout: str) -> None:
    with program(f"C[m,n] = A[m,k]@B[n,k] scale(1x32:ue8m0@{layout},none)") as module:
        dims = {"m": 5, "n": 3, "k": 160}
        r = run(module, make(module, dims, 3), dims=dims)
    with program("C[m,n] = A[m,k]@B[n,k] scale(1x32:ue8m0,none)") as module:
        want = run(module, make(module, dims, 3))
    assert (r["C"] == want["C"]).all()


def test_elementwise_functions_and_scalars() -> None:
    text = "C[m,n]:f32 = gelu(alpha*A[m,k]@B[n,k] + bias[n]) - silu(D[m,n]) / max(1, abs(D[m,n])) + tanh(sqrt(E[m]^2))"
    a, r = case(text, {"m": 3, "n": 4, "k": 8})
    want = full(3, 4)
    for i, j in product(range(3), range(4)):
        t = float(a["alpha"]) * sum(a["A"][i, q] * a["B"][j, q] for q in range(8)) + a["bias"][j]
        d = a["D"][i, j]
        want[i, j] = (
            t / 2 * (1 + math.erf(t / math.sqrt(2)))
            - d / (1 + math.exp(-d)) / max(1, abs(d))
            + math.tanh(abs(a["E"][i]))
        )
    np.testing.assert_allclose(r["C"], want, rtol=1e-6)  # the IR's sqrt(0.5) is an f32


def test_batched_contraction_of_any_order() -> None:
    a, r = case("Z[b,h,d] = X[b,h,r] @ Y[h,d,r]", {"b": 2, "h": 3, "d": 4, "r": 5})
    compare(r["Z"], np.einsum("bhr,hdr->bhd", a["X"], a["Y"]))
    a, r = case("Z[h,d,r] = X[b,h,d] @ Y[b,h,r]", {"b": 2, "h": 3, "d": 4, "r": 5})
    compare(r["Z"], np.einsum("bhd,bhr->hdr", a["X"], a["Y"]))


def test_accumulation_and_split_reduction() -> None:
    a, r = case("D[m,n]:f32 += A[b,m,k] @ B[b,n,k]", {"b": 3, "m": 4, "n": 5, "k": 6})
    compare(r["D"], a["D"] + np.einsum("bmk,bnk->mn", a["A"], a["B"]))


def test_grouped_with_negative_groups() -> None:
    e = np.array([1, -1, 0, 1], np.int32)
    a, r = case(
        "C[m,n] = A[m,k] @ B[e[m/4],n,k] scale(1x8,1x4x8)", {"m": 15, "n": 5, "k": 12, "B_0": 2}, given={"e": e}
    )
    want = full(15, 5)
    for i, j in product(range(15), range(5)):
        g = e[i // 4]
        if g >= 0:
            want[i, j] = sum(
                a["A"][i, q] * a["A_scale"][i, q // 8] * a["B"][g, j, q] * a["B_scale"][g, j // 4, q // 8]
                for q in range(12)
            )
    compare(r["C"], want)
    assert (r.written["C"] == ~np.isnan(want)).all()


def test_masked_groups() -> None:
    rows = np.array([0, 3, 2], np.int32)
    a, r = case(
        "C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]", {"g": 3, "m": 3, "n": 2, "k": 4}, given={"rows": rows}
    )
    want = np.einsum("gmk,gnk->gmn", a["A"], a["B"])
    for g in range(3):
        want[g, rows[g] :] = NAN
    compare(r["C"], want)


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 99))
def test_ragged_and_gathered(groups: list[int], tail: int, seed: int) -> None:
    off = np.cumsum([0, *groups]).astype(np.int32)
    m, g = max(1, int(off[-1]) + tail), len(groups)
    text = "C[m,n] = A[idx[m],k] @ B[g,n,k] scale(1x8,1x4x8) for m in off[g]:off[g+1]"
    a, r = case(text, {"m": m, "n": 5, "k": 12, "g": g, "A_0": 6}, seed, given={"off": off})
    want = full(m, 5)
    for i, j, e in product(range(m), range(5), range(g)):
        row = a["idx"][i]
        if off[e] <= i < off[e + 1] and row >= 0:
            want[i, j] = sum(
                a["A"][row, q] * a["A_scale"][row, q // 8] * a["B"][e, j, q] * a["B_scale"][e, j // 4, q // 8]
                for q in range(12)
            )
    compare(r["C"], want)


def test_ragged_contraction_of_an_empty_group_is_zero() -> None:
    off = np.array([0, 5, 5, 8], np.int32)
    text = "C[g,m,n]:f32 = A[m,k] @ B[n,k] for k in off[g]:off[g+1]"
    a, r = case(text, {"g": 3, "m": 2, "n": 3, "k": 9}, given={"off": off})
    want = np.stack([a["A"][:, s:e] @ a["B"][:, s:e].T for s, e in pairwise(off)])
    assert not want[1].any()
    compare(r["C"], want)


def test_scales_along_k_of_groups_that_are_apart() -> None:
    """Each group's blocks begin with one of its own: of blocks of 4, group g's at off[g] / 4 + g."""
    off, dims = np.array([1, 3, 3, 9, 10], np.int32), {"g": 4, "m": 2, "n": 3, "k": 11}
    text = "C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x4,2x2) for k in off[g]:off[g+1] apart"
    a, r = case(text, dims, given={"off": off})
    assert a["A_scale"].shape == (2, 3 + 4)
    assert a["B_scale"].shape == (2, 6 + 4)
    want = np.zeros((4, 2, 3))
    for g, i, j in product(range(4), range(2), range(3)):
        low = int(off[g])
        want[g, i, j] = sum(
            a["A"][i, q]
            * a["A_scale"][i, low // 4 + g + (q - low) // 4]
            * a["B"][j, q]
            * a["B_scale"][j // 2, low // 2 + g + (q - low) // 2]
            for q in range(low, off[g + 1])
        )
    compare(r["C"], want)


def test_ragged_accumulation_keeps_what_is_not_written() -> None:
    off = np.array([1, 3, 4], np.int32)
    text = "D[m,n]:f32 += A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]"
    a, r = case(text, {"g": 2, "m": 6, "n": 2, "k": 3}, given={"off": off})
    want = a["D"].copy()
    for e in range(2):
        for i in range(off[e], off[e + 1]):
            want[i] += a["B"][e] @ a["A"][i]
    compare(r["D"], want)


def test_scatter_skips_negative_rows() -> None:
    idx = np.array([3, -1, 0, 5], np.int32)
    a, r = case("C[idx[m],n] = A[m,k] @ B[n,k]", {"m": 4, "n": 3, "k": 5, "C_0": 7}, given={"idx": idx})
    want = full(7, 3)
    for i in (0, 2, 3):
        want[idx[i]] = a["B"] @ a["A"][i]
    compare(r["C"], want)


def test_quantised_rows_that_are_scattered_have_the_extent_that_is_given() -> None:
    idx = np.array([3, -1, 0, 2], np.int32)
    _, r = case("C[idx[m],k]:mxfp8 = A[m,k]", {"m": 4, "k": 64, "C_0": 7}, given={"idx": idx})
    assert r["C"].shape == (7, 64)
    assert r["C_scale"].shape == (7, 2)
    assert r.reached["C"].any(axis=1).tolist() == [True, False, True, True, False, False, False]


def test_head_splits_leave_the_gaps_unwritten() -> None:
    a, r = case("D[m, n/4*6 + n%4] = A[m,k] @ B[n,k]", {"m": 3, "n": 12, "k": 5})
    t, want = a["A"] @ a["B"].T, full(3, 16)
    for j in range(12):
        want[:, j // 4 * 6 + j % 4] = t[:, j]
    compare(r["D"], want)


def test_windows_with_a_filling_and_a_reduction() -> None:
    text = "L[q,t]:f32 = sum[h](relu(Q[q,h,d]@K[t,d] scale(none,1xd))*W[q,h]) for t in lo[q]:hi[q] else -inf"
    a, r = case(text, {"q": 4, "t": 9, "h": 3, "d": 8}, 5)
    want = np.full((4, 9), -math.inf)
    for q, t in product(range(4), range(9)):
        if a["lo"][q] <= t < a["hi"][q]:
            want[q, t] = sum(
                max(0.0, sum(a["Q"][q, h, d] * a["K"][t, d] * a["K_scale"][t, 0] for d in range(8))) * a["W"][q, h]
                for h in range(3)
            )
    assert np.isfinite(want).any()
    compare(r["L"], want)


def test_windows_that_are_longer_than_their_result() -> None:
    text = "L[q, t - lo[q]]:f32 = sum[h](Q[q,h,d]@K[t,d]) for t in lo[q]:hi[q]"
    given = {"lo": np.array([3, 0, 7, 9], np.int32), "hi": np.array([9, 4, 9, 9], np.int32)}
    a, r = case(text, {"q": 4, "t": 9, "h": 3, "d": 8, "L_1": 4}, given=given)
    want = full(4, 4)
    for q, t in product(range(4), range(9)):
        if a["lo"][q] <= t < min(a["hi"][q], a["lo"][q] + 4):
            want[q, t - a["lo"][q]] = sum(float(a["Q"][q, h] @ a["K"][t]) for h in range(3))
    assert np.isfinite(want).sum() == 4 + 4 + 2
    compare(r["L"], want)


def test_pages_and_skipped_pages() -> None:
    text = "L[s,t]:f32 = sum[h](relu(Q[s,h,d]@K[table[s,t/4],t%4,d])*W[s,h]) for t < len[s] else -inf"
    table = np.array([[2, 0, -1], [3, 99, 99]], np.int32)  # past len[1], the table is never read
    a, r = case(
        text, {"s": 2, "t": 10, "h": 2, "d": 4, "K_0": 4}, given={"table": table, "len": np.array([10, 3], np.int32)}
    )
    want = np.full((2, 10), -math.inf)
    for s, t in product(range(2), range(10)):
        if t < a["len"][s] and table[s, t // 4] >= 0:
            k = a["K"][table[s, t // 4], t % 4]
            want[s, t] = sum(max(0.0, float(a["Q"][s, h] @ k)) * a["W"][s, h] for h in range(2))
    compare(r["L"], want)


def test_a_skipped_page_of_a_contracted_dimension_adds_nothing() -> None:
    table = np.array([1, -1, 0], np.int32)
    a, r = case("O[q,d]:f32 = P[q,t] @ V[table[t/2],t%2,d]", {"q": 2, "t": 6, "d": 3, "V_0": 2}, given={"table": table})
    want = np.zeros((2, 3))
    for t in (0, 1, 4, 5):
        want += np.outer(a["P"][:, t], a["V"][table[t // 2], t % 2])
    compare(r["O"], want)


@pytest.mark.parametrize("k", [1, 3])
def test_a_skipped_point_is_left_out_whatever_the_other_operand_has(k: int) -> None:
    with program("C[m,n]:f32 = A[idx[k],m]:tf32 @ B[k,n]:tf32") as module:
        b = np.array([[np.nan, np.inf], [1.0, 2.0], [3.0, 4.0]], np.float32)[:k]
        idx = np.array([-1, 0, 1], np.int32)[:k]
        r = run(module, {"A": np.array([[1.0], [10.0]], np.float32), "B": b, "idx": idx})
    assert r["C"].tolist() == ([[31.0, 42.0]] if k == 3 else [[0.0, 0.0]])
    assert r.written["C"].all()


def test_reductions() -> None:
    a, r = case("S[m]:f32 = sum[k](A[m,k]^2)\nT[n]:f32 = max[m](abs(B[m,n]))", {"m": 3, "k": 4, "n": 5})
    compare(r["S"], (a["A"] ** 2).sum(axis=1))
    compare(r["T"], np.abs(a["B"]).max(axis=0))


@pytest.mark.parametrize("scaled", ["mxfp8", "mxfp4", "nvfp4", "e4m3 scale(1x16)", "e4m3 scale(4x4)"])
def test_quantised_results(scaled: str) -> None:
    with program(f"D[m,n]:{scaled} = gelu(A[m,k] @ B[n,k])") as module:
        arguments = make(module, {"m": 6, "n": 40, "k": 8})
        exact, rounded = run(module, arguments, exact=True), run(module, arguments)
        op = next(o for o in find_program(module).regions[0].blocks[0].operations if o.name == "scale.quantize")
        g = granularity_of(op.granularity)
    given = dict(arguments)
    second = given.pop("D_scale2", np.ones((1, 1)))
    with program("D[m,n]:f32 = gelu(A[m,k] @ B[n,k])") as module:
        x = run(module, given, exact=True)["D"] / second
    # values / scales before rounding, times the scales, are the values
    expanded = dequantize(rounded["D"], [rounded["D_scale"]], "e2m1" if "fp4" in scaled else "e4m3", [g])
    total = exact["D_scale"]
    i = np.ix_(np.arange(6) // g.block[0], np.arange(40) // g.block[1])
    np.testing.assert_allclose(exact["D"] * total[i], np.where(total[i] == 0, 0, x), rtol=1e-12)
    assert np.abs(expanded - x).max() < 0.2 * np.abs(x).max()
    if scaled == "mxfp8":
        q = quantize(x, "e4m3", [g])
        assert (rounded["D"] == q.values).all()
        assert (rounded["D_scale"].view(np.uint8) == q.scales[0].view(np.uint8)).all()


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("T[b,k,m]:e4m3 scale(1x1xm) = X[b,m,k]:f32 for m < rows[b]", {"b": 2, "m": 0, "k": 16}),
        ("Q[b,m,k]:e4m3 scale(tensor) = X[b,m,k]:f32 for m < rows[b]", {"b": 2, "m": 0, "k": 16}),
        ("Q[b,m,k]:e4m3 scale(tensor) = X[b,m,k]:f32 for m < rows[b]", {"b": 0, "m": 3, "k": 16}),
    ],
)
def test_scales_of_all_of_an_index_that_has_no_rows(text: str, sizes: dict[str, int]) -> None:
    """They are 1, and written, as where rows are there of which a range has none."""
    _, r = case(text, sizes, given={"rows": np.zeros(sizes["b"], np.int32)})
    (scales,) = (x for name, x in r.items() if name.endswith("_scale"))
    assert np.asarray(scales).size
    assert (np.asarray(scales) == 1).all()


def test_results_are_rounded_to_their_type_and_exact_ones_are_not() -> None:
    with program("C[m,n] = A[m,k] @ B[n,k]") as module:
        arguments = make(module, {"m": 4, "n": 4, "k": 64})
        rounded, exact = run(module, arguments)["C"], run(module, arguments, exact=True)["C"]
    assert rounded.dtype.name == "bfloat16"
    assert exact.dtype == np.float64
    assert (rounded.astype(np.float64) == round_to(exact, "bf16")).all()
    assert (rounded.astype(np.float64) != exact).any()


def test_unwritten_points_are_nan_in_the_results_type() -> None:
    with program("C[m,n]:e4m3 = A[m,k] @ B[e[m],n,k]") as module:
        arguments = make(module, {"m": 4, "n": 2, "k": 4, "B_0": 2}) | {"e": np.array([0, -1, 1, 1], np.int32)}
        r = run(module, arguments)
    assert r["C"].dtype.name == "float8_e4m3fn"
    assert np.isnan(r["C"][1].astype(float)).all()
    assert r.written["C"].tolist() == [[True] * 2, [False] * 2, [True] * 2, [True] * 2]


def test_a_sum_of_which_all_terms_are_skipped_is_0() -> None:
    """Whether the terms are computed first, or read: the row is written. An index without j skips all of it."""
    rows = np.array([[1.0, 2.0], [np.nan, 8.0]], np.float32)
    inv = np.array([[0, -1], [-1, -1]], np.int32)
    w = np.array([[3.0, np.nan], [np.inf, 1.0]], np.float32)
    for text in ("Y[t,n]:f32 = sum[j](w[t,j]:f32 * D[inv[t,j],n]:f32)", "Y[t,n]:f32 = sum[j](D[inv[t,j],n]:f32)"):
        with program(text) as module:
            r = run(module, {"w": w, "D": rows, "inv": inv} if "w[" in text else {"D": rows, "inv": inv})
        assert r["Y"].tolist() == [[3.0, 6.0] if "w[" in text else [1.0, 2.0], [0.0, 0.0]]
        assert r.written["Y"].all()
        with program(text) as module:  # of one term, too
            one = {"w": w[:, 1:], "D": rows, "inv": inv[:, 1:]}
            r = run(module, one if "w[" in text else {"D": rows, "inv": inv[:, 1:]})
        assert r["Y"].tolist() == [[0.0, 0.0]] * 2
        assert r.written["Y"].all()
    with program("Y[t,n]:f32 = sum[j](w[t,j]:f32 * D[e[t],n]:f32)") as module:
        r = run(module, {"w": np.ones((2, 2), np.float32), "D": rows, "e": np.array([0, -1], np.int32)})
    assert r.written["Y"].tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize(
    "text",
    [
        "C[m,n]:f32 = A[m,k] @ B[n,k] scale(1xk,1xk)",
        "C[m,n]:f32 = A[m,k] @ B[e[m/8],n,k] scale(1xk,1x1xk)",
        "C[m,n]:f32 = A[m,k] @ B[g,n,k] scale(1xk,1x1xk) for m in off[g]:off[g+1]",
    ],
)
def test_scales_that_span_the_sum_are_multiplied_in_f32_for_a_group_too(text: str) -> None:
    """Each m has one g: that one's scales are no more summed over than those of a program without groups."""
    dims = {"m": 8, "n": 3, "k": 16, "g": 1, "B_0": 1}
    with program(text) as module:
        values = make(module, dims, 0)
        values |= {name: np.full_like(x, 1e-30) for name, x in values.items() if name.endswith("_scale")}
        if "off" in values:
            values["off"] = np.array([0, 8], np.int32)
        assert (run(module, values, dims=dims, exact=True)["C"] == 0).all()  # 1e-60 is 0 in f32


def test_fused_modules_mean_the_same() -> None:
    """A scale that is constant along K is read in the map after fuse-epilogue: as text, with no front end."""
    text = """
    #mk = affine_map<(m, n, k) -> (m, k)>
    #nk = affine_map<(m, n, k) -> (n, k)>
    #mn = affine_map<(m, n, k) -> (m, n)>
    func.func @C(%A: tensor<?x?xf8E4M3FN> {scale.name = "A", scale.shape = #mk}, %B: tensor<?x?xf8E4M3FN>
                 {scale.name = "B", scale.shape = #nk}, %s: tensor<?x1xf32> {scale.name = "A_scale",
                 scale.shape = affine_map<(m, n, k) -> (m, 1)>}) -> (tensor<?x?xf32> {scale.name = "C"})
                 attributes {scale.dims = ["m", "n", "k"]} {
      %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
        : (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E4M3FN>) -> tensor<?x?xf32>
      %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x?xf32>) -> !scale.view
      %w = "scale.read"(%s) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k) -> (m, 0)>}
        : (tensor<?x1xf32>) -> !scale.view
      %c = "scale.map"(%v, %w) ({ ^bb0(%x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        "scale.yield"(%z) : (f32) -> ()
      }) {operandSegmentSizes = array<i32: 2, 0, 0>, map = #mn} : (!scale.view, !scale.view) -> tensor<?x?xf32>
      return %c : tensor<?x?xf32>
    }"""
    with context():
        module = parse(text)
        rng = np.random.default_rng(0)
        a, b, s = (round_to(rng.standard_normal(shape), "e4m3") for shape in ((3, 32), (4, 32), (3, 1)))
        given_ = [a.astype(ml_dtypes.float8_e4m3fn), b.astype(ml_dtypes.float8_e4m3fn), s.astype(np.float32)]
        compare(run(module, given_, exact=True)["C"], (a * s) @ b.T)
    compare(run(text, given_, exact=True)["C"], (a * s) @ b.T)


def test_raw_bytes_are_accepted() -> None:
    with program("C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4") as module:
        arguments = make(module, {"m": 3, "n": 4, "k": 32})
        raw = {k: storage(v) for k, v in arguments.items()}
        assert raw["A"].shape == (3, 16)
        assert (run(module, raw)["C"] == run(module, arguments)["C"]).all()


def test_refusals_name_the_argument() -> None:
    with program("C[m,n] = A[m,k] @ B[n,k]") as module:
        a = make(module, {"m": 3, "n": 4, "k": 8})
        with pytest.raises(ArgumentError, match="argument B is missing"):
            run(module, {"A": a["A"]})
        with pytest.raises(ArgumentError, match="argument D is unknown"):
            run(module, a | {"D": a["A"]})
        with pytest.raises(ArgumentError, match="argument B does not fit") as e:
            run(module, a | {"B": a["B"][:, :7]})
        assert "got: 7" in str(e.value)
        assert "expected: 8" in str(e.value)
        with pytest.raises(ArgumentError, match="argument A"):
            run(module, a | {"A": a["A"].astype(np.float32)})
        with pytest.raises(ArgumentError, match="argument A"):
            run(module, a | {"A": a["A"][0]})
        with pytest.raises(ArgumentError, match="number of arguments"):
            run(module, [a["A"]])
    with program("C[m,n] = A[m,k] @ B[n,k]", {"k": 9}) as module, pytest.raises(ArgumentError, match="wrong shape"):
        run(module, a)


def test_an_index_outside_its_tensor_is_refused_and_not_wrapped() -> None:
    with program("C[m,n] = A[idx[m],k] @ B[n,k]") as module:
        a = make(module, {"m": 4, "n": 2, "k": 4, "A_0": 3}) | {"idx": np.array([0, 1, 3, 2], np.int32)}
        with pytest.raises(ScalecError, match="A is read outside its bounds") as e:
            run(module, a)
        assert "[3, 0]" in str(e.value)
    with program("C[idx[m],n] = A[m,k] @ B[n,k]") as module:
        a = make(module, {"m": 4, "n": 2, "k": 4, "C_0": 3}) | {"idx": np.array([0, 1, 3, 2], np.int32)}
        with pytest.raises(ScalecError, match="written outside its bounds"):
            run(module, a, dims={"C_0": 3})
        assert run(module, a, {"C": np.zeros((9, 2))})["C"].shape == (9, 2)


def test_functions_hold_their_digits_where_they_are_small() -> None:
    """The tails of gelu, silu and sigmoid, which their formulas lose; limits at infinity."""
    x = np.concatenate([np.linspace(-35, 35, 4001), [0.0, 1e-300, -1e-300]])
    for f, of in (
        (gelu, lambda v: v / 2 * math.erfc(-v * math.sqrt(0.5))),
        (silu, lambda v: v * math.exp(v) / (1 + math.exp(v))),
        (sigmoid, lambda v: math.exp(v) / (1 + math.exp(v))),
    ):
        np.testing.assert_allclose(f(x), np.array([of(v) for v in x]), rtol=1e-12)
        assert math.isnan(f(NAN))
        assert f(-math.inf) == 0
    assert gelu(math.inf) == silu(math.inf) == math.inf


def test_importing_needs_neither_torch_nor_the_compiler() -> None:
    code = (
        "import sys, scalec.reference; "
        "bad = [m for m in sys.modules if m == 'torch' or m.startswith(('scalec.passes', 'scalec.lowering', "
        "'scalec.frontend', 'scalec.runtime'))]; assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_working_in_pieces_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"m": 256, "n": 256, "k": 128, "g": 3, "b": 3, "h": 2, "d": 128, "r": 128, "q": 5, "t": 70, "s": 3, "j": 4}
    with program(path.read_text()) as module:
        names = str(module.body.operations[0].attributes["scale.dims"])
        dims = {k: v for k, v in sizes.items() if f'"{k}"' in names}
        arguments = make(module, dims, 4)
        whole = run(module, arguments, dims=dims, exact=True)
        monkeypatch.setattr("scalec.reference.evaluate.CHUNK", 1000)
        monkeypatch.setattr("scalec.reference.contract.GATHER", 5000)
        pieces = run(module, arguments, dims=dims, exact=True)
    for name, want in whole.items():
        compare(pieces[name], want)
