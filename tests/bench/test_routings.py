"""Index tensors for timing: valid whatever the program, the same from the same seed, and as uneven as they say."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from scalec.abi import KernelSpec
from scalec.bench.routings import ANY, ROUTINGS, combined, index_tensors, routings
from scalec.compiler import compile_source
from scalec.runtime.indices import check

RAGGED = "C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]"
MASKED = "C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]"
BLOCKS = "C[m,n] = A[m,k] @ B[e[m/128],n,k]"
ALONG_K = "C[g,m,n]:f32 += A[m,k] @ B[n,k] for k in off[g]:off[g+1]"
SCATTERED = "C[to[m],n] = A[idx[m],k] @ B[g,n,k] for m in off[g]:off[g+1]"
SIZES = {"m": 1000, "n": 64, "k": 520, "g": 16, "B_0": 16, "A_0": 300, "C_0": 1000}


def spec(source: str) -> KernelSpec:
    made = compile_source(source, target="sm_90a", dims={"n": 64}, until="nvvm").spec
    assert made is not None
    return made


@pytest.mark.parametrize(
    "source",
    [RAGGED, f"{RAGGED} by 64", f"{RAGGED} about 7", MASKED, f"{MASKED} by 16 about 20", BLOCKS, ALONG_K,
     f"{ALONG_K} by 128", SCATTERED, "C[to[m],n] = A[m,k] @ B[n,k]", "C[m,n] = A[m,k] @ B[n,k] for m < rows[0]",
     "C[g,m,n] = A[m,k] @ B[g,n,k] for m in lo[g]:hi[g]"],
)  # fmt: skip
def test_tensors_are_valid_and_the_seed_makes_them(source: str) -> None:
    made = spec(source)
    for sizes in (SIZES, {**SIZES, "m": 129, "g": 1, "B_0": 1, "k": 64}, {**SIZES, "m": 1, "A_0": 0, "g": 200}):
        for routing in (*ROUTINGS, ""):
            held = index_tensors(made, sizes, routing, 3)
            assert held.keys() == {t.name for t in made.operands if t.dtype == "i32"}
            for t in made.operands:
                assert t.dtype != "i32" or held[t.name].shape == tuple(e.value(sizes) for e in t.shape)
            check(made, sizes, held)
            again = index_tensors(made, sizes, routing, 3)
            assert all(np.array_equal(held[name], again[name]) for name in held)


@pytest.mark.parametrize("source", [RAGGED, MASKED, BLOCKS, ALONG_K])
def test_how_uneven_groups_are(source: str) -> None:
    made, sizes = spec(source), {**SIZES, "m": 128 * 64}
    assert routings(made) == ("balanced", "zipf", "one-hot")

    def lengths(routing: str, seed: int) -> np.ndarray:
        (held,) = index_tensors(made, sizes, routing, seed).values()
        return np.bincount(held, minlength=16) if source == BLOCKS else held if source == MASKED else np.diff(held)

    whole = {BLOCKS: 64, ALONG_K: 520}.get(source, 128 * 64)
    most = whole if source == MASKED else None
    balanced, zipf, hot = (lengths(routing, 1) for routing in ROUTINGS)
    assert balanced.min() >= (most or whole / 16) * 0.5
    assert np.count_nonzero(hot) == 1
    assert hot.sum() == whole
    if most is None:
        assert balanced.sum() == zipf.sum() == whole
        assert zipf.max() == pytest.approx(whole / sum(1 / (1 + i) for i in range(16)), abs=1)
    assert len({int(lengths("one-hot", seed).argmax()) for seed in range(12)}) > 3


def test_expected_rows_of_a_group_say_how_many_there_are() -> None:
    (masked,) = index_tensors(spec(f"{MASKED} about 20"), SIZES, "balanced", 1).values()
    assert masked.sum() == pytest.approx(16 * 20, abs=16)
    (off,) = index_tensors(spec(f"{RAGGED} about 7"), SIZES, "one-hot", 1).values()
    assert np.diff(off).max() == off[-1] == 16 * 7


def test_programs_without_groups_have_one_routing() -> None:
    for source in ("C[m,n] = A[m,k] @ B[n,k]", "C[m,n] = A[idx[m],k] @ B[n,k]"):
        assert routings(spec(source)) == ANY


def test_what_counts_is_the_geometric_mean() -> None:
    assert combined([3.0]) == 3.0
    assert combined([1.0, 2.0, 4.0]) == pytest.approx(2.0)


def test_inputs_have_index_tensors_in_place_of_noise() -> None:
    inputs = import_module("scalec.bench.inputs")
    made = spec(SCATTERED)
    first = inputs.make_inputs(made, SIZES, 3, device="cpu")
    check(made, SIZES, {name: first.values[name].numpy() for name in ("to", "idx", "off")})
    hot = first.routed(made, SIZES, "one-hot", 3)
    assert hot.values["A"] is first.values["A"]
    assert int(hot.values["off"].diff().max()) == SIZES["m"]
