"""Made data: valid, deterministic, and such that a wrong scale index shows."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scalec.errors import ScalecError
from scalec.reference import diff, make, run
from tests.reference.reference_programs import EXAMPLES, program

SIZES = {"m": 256, "n": 256, "k": 384, "g": 4, "b": 3, "h": 4, "d": 128, "r": 128, "q": 9, "t": 200, "s": 5, "j": 4}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_every_example_runs(path: Path) -> None:
    with program(path.read_text()) as module:
        names = str(module.body.operations[0].attributes["scale.dims"])
        dims = {k: v for k, v in SIZES.items() if f'"{k}"' in names}
        first, second = make(module, dims, 7), make(module, dims, 7)
        assert all((a.view(np.uint8) == second[k].view(np.uint8)).all() for k, a in first.items() if a.ndim)
        results = run(module, first, dims=dims)
        for name, r in results.items():
            written = results.written[name]
            assert written.any()
            assert not np.isnan(r.astype(np.float64)[written]).any()
        exact = make(module, dims, 7, exact=True)
        for name, a in exact.items():
            if a.dtype != np.int32 and name != "Z":
                v = a.astype(np.float64)
                if name == "B" and "Z" in exact:  # elements near their zero points
                    v = v - np.repeat(exact["Z"].astype(np.float64), 128, axis=1)[:, : v.shape[1]]
                assert (np.abs(v) <= 2).all()
                assert (v * 2 == np.rint(v * 2)).all()


SCALED = [
    ("C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)", {"m": 200, "n": 300, "k": 640}),
    ("C[m,n] = A[m,k]@B[n,k] scale(1x128,1x128)", {"m": 130, "n": 140, "k": 512}),
    ("C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp4", {"m": 70, "n": 40, "k": 256}),
    ("C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4", {"m": 70, "n": 40, "k": 128}),
    ("C[m,n] = A[m,k] @ B[e[m/16],n,k] scale(1x128,1x128x128)", {"m": 64, "n": 300, "k": 512, "B_0": 3}),
]


# diff between a bf16 result and its exact value: a relative error uniform within 2^-9, squared
BF16_ROUNDING = 2.0**-18 / 3


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(SCALED), st.sampled_from(["A_scale", "B_scale"]), st.data())
def test_a_swap_of_two_scales_shows(case: tuple[str, dict[str, int]], name: str, data: st.DataObject) -> None:
    text, dims = case
    with program(text) as module:
        arguments = make(module, dims, 11)
        if "e" in arguments:
            arguments["e"] = np.array([0, 1, 2, 1], np.int32)
        right = run(module, arguments, exact=True)["C"]
        scales = arguments[name].copy()
        flat = scales.reshape(-1)
        i, j = (data.draw(st.integers(0, flat.size - 1)) for _ in range(2))
        low, high = sorted(float(flat[x]) for x in (i, j))
        assume(high > 1.25 * low)  # scales of neighbours in size, by chance of the data: nothing to see
        flat[i], flat[j] = flat[j], flat[i]
        wrong = run(module, arguments | {name: scales}, exact=True)["C"]
    # in the rows or columns that the swapped blocks reach
    changed = (wrong != right) & np.isfinite(right)
    assert diff(wrong[changed], right[changed]) > 2 * BF16_ROUNDING


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)", 0.06),
        ("C[m,n] = A[m,k]@B[n,k] scale(1x128,1x128)", 0.06),
        ("C[m,n] = A[m,k]:nvfp4@B[n,k]:nvfp4", 0.08),
        # a power of two has few values to be: rounding the scale makes some neighbours meet
        ("C[m,n] = A[m,k]:mxfp8@B[n,k]:mxfp8", 0.25),
    ],
)
def test_scales_at_the_strides_of_likely_mistakes_differ(text: str, limit: float) -> None:
    """Next row, block, 8x8 core matrix, warp, 64-row chunk, tile: few scales there are within 10 % of each other.

    A row term that cycles on its own cancelled the block's cycle at a stride of 4: 28 % met.
    """
    with program(text) as module:
        a = make(module, {"m": 512, "n": 1024, "k": 2048}, 0)
    for name in ("A_scale", "B_scale"):
        s = a[name].astype(np.float64)
        assert np.log2(s.max() / s.min()) >= 3
        for axis, step in product((0, 1), (1, 2, 4, 8, 16, 32, 64, 128)):
            if step >= s.shape[axis] or (axis == 1 and step > 4):
                continue
            x, y = (np.take(s, range(first, s.shape[axis] - step + first), axis) for first in (0, step))
            assert (np.maximum(x / y, y / x) < 1.1).mean() < limit, (name, axis, step)


def test_shifted_scale_slices_show_everywhere() -> None:
    dims = {"m": 256, "n": 256, "k": 1024}
    with program("C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)") as module:
        a = make(module, dims, 2)
        right = run(module, a, exact=True)["C"]
        for name, axis in (("A_scale", 0), ("A_scale", 1), ("B_scale", 0), ("B_scale", 1)):
            wrong = run(module, a | {name: np.roll(a[name], 1, axis)}, exact=True)["C"]
            assert diff(wrong, right) > 0.05
            assert min(diff(x, y) for x, y in zip(wrong, right, strict=True)) > 1e-4  # every row


def test_exact_data_makes_exact_sums() -> None:
    with program("C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)") as module:
        a = make(module, {"m": 64, "n": 128, "k": 4096}, 0, exact=True)
        x = run(module, a, exact=True)["C"]
    assert (x == x.astype(np.float32)).all()
    assert (x * 4 == np.rint(x * 4)).all()
    scales = a["A_scale"].astype(np.float64)
    assert set(np.unique(scales)) == {0.5, 1.0, 2.0}
    # f32 in another order gives the same bits
    f32 = np.zeros((64, 128), np.float32)
    for k in range(4095, -1, -1):
        left = a["A"][:, k].astype(np.float32) * a["A_scale"][:, k // 128]
        right = a["B"][:, k].astype(np.float32) * a["B_scale"][0, k // 128]
        f32 += left[:, None] * right
    assert (f32 == x).all()


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 9), st.integers(1, 300))
def test_offsets_are_sorted_and_in_range(seed: int, g: int, m: int) -> None:
    with program("C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]") as module:
        off = make(module, {"m": m, "n": 4, "k": 8, "g": g}, seed)["off"]
        aligned = make(module, {"m": 256, "n": 4, "k": 8, "g": g}, seed, align={"m": 64})["off"]
    assert off.shape == (g + 1,)
    assert off[0] == 0
    assert (np.diff(off) >= 0).all()
    assert off[-1] <= m
    assert (aligned % 64 == 0).all()
    if g >= 3:
        assert (np.diff(off) == 0).any()


def test_indices_of_a_tensor_without_rows_skip() -> None:
    with program("C[m,n] = A[m,k] @ B[e[m/8],n,k]") as module:
        made = make(module, {"m": 60, "n": 8, "k": 8, "B_0": 0})
        assert made["e"].tolist() == [-1] * 8
        assert not run(module, made).written["C"].any()


def test_index_tensors_fit_their_role() -> None:
    with program("C[idx[m],n] = A[m,k] @ B[e[m/16],n,k]") as module:
        a = make(module, {"m": 200, "n": 4, "k": 8, "B_0": 5, "C_0": 220}, 0)
    rows = a["idx"][a["idx"] >= 0]
    assert len(set(rows.tolist())) == len(rows)
    assert (a["idx"] < 0).any()
    assert rows.max() < 220
    assert set(a["e"].tolist()) <= {-1, 0, 1, 2, 3, 4}
    assert (a["e"] < 0).any()
    with program("D[idx[m],n]:mxfp8 = A[m,k] @ B[n,k]") as module:
        a = make(module, {"m": 200, "n": 64, "k": 8, "D_0": 220}, 0)
    rows = a["idx"][a["idx"] >= 0]
    assert len(set(rows.tolist())) == len(rows) > 150
    text = "L[q,t]:f32 = sum[h](Q[q,h,d]@K[table[q,t/8],t%8,d]) for t in lo[q]:hi[q] else -inf"
    with program(text) as module:
        a = make(module, {"q": 6, "t": 60, "h": 2, "d": 8}, 3)
    assert (a["lo"] <= a["hi"]).all()
    assert a["hi"].max() == 60
    with program("L[q,t]:f32 = sum[h](Q[q,h,d]@K[t,d]) for t in lo[1]:hi[q] else -inf") as module:
        b = make(module, {"q": 6, "t": 60, "h": 2, "d": 8}, 3)
    assert (b["lo"][1] <= b["hi"]).all()
    assert (b["hi"] <= 60).all()
    with program("C[b,m,n] = A[b,m,k] @ B[g,n,k] for m in off[g,b]:off[g+1,b]") as module:
        off = make(module, {"b": 3, "m": 60, "n": 4, "k": 8, "g": 5}, 3)["off"]
    assert off.shape == (6, 3)
    assert (np.diff(off, axis=0) >= 0).all()
    pages = a["table"][a["table"] >= 0]
    assert len(set(pages.tolist())) == len(pages)
    assert a["K"].shape == (48, 8, 8)


@pytest.mark.parametrize("source", ["D[m,n]:nvfp4 = A[m,k] @ B[n,k]", "D[m,n]:nvfp4 = A[m,k]:nvfp4 @ B[n,k]:nvfp4"])
@pytest.mark.parametrize("k", [128, 4096])
def test_a_given_scale_of_a_result_suits_it(source: str, k: int) -> None:
    with program(source) as module:
        arguments = make(module, {"m": 64, "n": 64, "k": k}, seed=5)
        scales = run(module, arguments)["D_scale"].astype(float)
    assert arguments["D_scale2"] > 0
    assert (scales == 0).mean() < 0.01
    assert (scales == 448).mean() < 0.01
    assert scales.max() > 16


def test_a_missing_size_is_named() -> None:
    with program("C[m,n] = A[m,k] @ B[n,k]") as module, pytest.raises(ScalecError, match="shape of B needs") as e:
        make(module, {"m": 4, "k": 8})
    assert "none for n" in str(e.value)


@pytest.mark.parametrize("result", ["D[idx[m],n]", "D[idx[m],n]:mxfp8"])
def test_scattered_rows_go_to_many_places(result: str) -> None:
    """Also where they are quantised: once, all but one index was drawn negative then."""
    with program(f"{result} = A[m,k] @ B[n,k]") as module:
        made = make(module, {"m": 64, "n": 64, "k": 64, "D_0": 80})
    named = made["idx"][made["idx"] >= 0]
    assert len(named) > 40
    assert len(set(named)) == len(named)
