"""Fused programs mean what they meant: with indices from memory and ragged ranges, evaluated before and after."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from scalec.frontend import build
from scalec.ir.context import context
from scalec.ir.mlir import ir
from scalec.ir.scale import map_of, symbols_in
from scalec.passes.base import programs
from scalec.passes.pipeline import find, run_pipeline
from scalec.reference import make, run
from scalec.targets import get_target
from tests.tiers import SEEDS

RAGGED = "for m in off[g]:off[g+1]"
DIMS = {"m": 20, "n": 24, "k": 40, "g": 5, "A_0": 20, "B_0": 5, "r_0": 20}

# (program, scales that stay on operands, ranges of the contraction, of its maps)
FUSED: list[tuple[str, int, int, int]] = [
    ("C[m,n] = relu(A[m,k] @ B[e[m/8],n,k] scale(1xk,1x1xk) + bias[e[m/8],n])", 0, 0, 0),
    ("C[m,n] = A[m,k] @ B[e[m/8],n,k] scale(1xk,1xnxk)", 0, 0, 0),
    ("C[m,n] = A[m,k] @ B[e[m/8],n,k] scale(1x16,1x8xk)", 1, 0, 0),
    ("C[m,n] = A[m,k] @ B[e[m/8],n,k] scale(1x16,1x8x16)", 2, 0, 0),
    ("C[m,n] = A[m,k] @ B[p[e[m/8]],n,k] scale(1xk,1x1xk) * r[p[e[m/8]]]", 0, 0, 0),
    ("C[m,n] = A[m,k] @ B[n,x[k]] scale(1xk,1x1)", 1, 0, 0),
    ("C[m,n] = A[m,k] @ B[x[k/8],n,k] scale(1xk,1x1xk)", 1, 0, 0),
    ("C[m,n] = A[idx[m],k] @ B[n,k] scale(1xk,1xk) * r[idx[m]]", 0, 0, 0),
    ("C[idx[m],n] = r[m] * (A[m,k] @ B[e[m/8],n,k] scale(1xk,1x1xk))", 0, 0, 0),
    ("C[idx[m],n]:f32 += r[m] * (A[idx[m],k] @ B[n,k] scale(1xk,1xk))", 0, 0, 0),
    ("T[m,n] = A[m,k] @ B[n,k] scale(1xk,1xk); U[m,n] = T * r[idx[m]]; C[m,n] = U + r[e[m]]", 0, 0, 0),
    (f"C[m,n] = gelu(A[m,k] @ B[g,n,k] scale(1xk,1x1xk)) * r[m] {RAGGED}", 0, 1, 1),
    (f"T[m,n] = A[m,k] @ B[g,n,k] {RAGGED}; C[m,n] = gelu(T) * r[m]", 0, 1, 1),
    (f"T[m,n] = A[m,k] @ B[g,n,k] scale(1xk,1xnxk) {RAGGED}; C[m,n] = gelu(T[m,n]) * r[m]", 0, 1, 1),
    (f"T[m,n] = A[m,k] @ B[g,n,k] scale(1xk,1x1xk) {RAGGED}; U[m,n] = T*T; C[m,n] = U + T; D[m,n] = U", 0, 1, 1),
    ("T[m,n] = A[m,k] @ B[n,k] scale(1xk,1xk); C[m,n] = relu(T) for m < len[0]", 0, 1, 1),
    ("T[m,n] = A[m,k] @ B[n,k] for m < len[0]; C[m,n] = relu(T) for m < len[0]; D[m,n] = T for m < len[0]", 0, 1, 1),
    ("C[m,n] = relu(A[m,k] @ B[n,k] scale(1xk,1xk)) for m < len[0] for n < 20", 0, 2, 2),
    ("T[m,n] = A[m,k] @ B[n,k] scale(1xk,1xk) for m < len[0]; C[m,n] = relu(T) for n < 20", 0, 2, 2),
    ("C[g,m,n] = A[g,m,k] @ B[g,n,k] scale(1x1xk,1x1xk) + b[g,n] for m < rows[g]", 0, 1, 1),
    ("C[g,m,n] = A[g,m,k] @ B[g,n,k] scale(1x1xk,1x1xk) for m < rows[g] else 7", 0, 1, 1),
    ("T[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]; C[g,m,n] = relu(T) for m < rows[g] else 7", 0, 1, 1),
    ("C[g,m,n]:f32 += A[g,m,k] @ B[g,n,k] scale(1x1xk,1x1xk) for m < rows[g]", 0, 1, 1),
    ("T[g,m,n] = A[g,m,k]:mxfp8 @ B[g,n,k]:mxfp8 for m < rows[g]; C[g,m,n] = T*2; D[g,m,n]:mxfp8 = relu(T)", 2, 1, 1),
    ("D[m,n]:mxfp8 = gelu(A[m,k] @ B[e[m/8],n,k] scale(1xk,1x1xk))", 0, 0, 0),
    (f"T[m,n] = A[idx[m],k] @ B[g,n,k] scale(1xk,1x1xk) {RAGGED}; C[m,n] = silu(T); D[m,n]:mxfp8 = T * r[m]", 0, 1, 1),
    (f"T[m,n] = A[m,k] @ B[g,n,k] scale(1xk,1x1xk) {RAGGED}; C[idx[m],n] = T * r[m]", 0, 1, 1),
    (f"C[m,n] = A[m,k] @ B[e[g],n,k] scale(1xk,1x1xk) {RAGGED}", 0, 1, 1),
    ("C[g,m,n]:f32 += A[m,k] @ B[n,k] scale(1xk,1xk) for k in off[g]:off[g+1]", 0, 1, 0),
    ("C[g,m,n] = relu(A[m,k] @ B[n,k] scale(1x16,1xk)) for k in off[g]:off[g+1]", 1, 1, 0),
    ("C[m,n] = A[m,k] @ B[g,n,k] scale(1xk,1x1xk) for k in off[g]:off[g+1]", 1, 1, 0),
    ("C[m,n] = A[m,k] @ B[g,n,k] scale(1xk,1x1xk) for m < rows[g]", 1, 1, 1),
]

APART: list[tuple[str, int, list[int]]] = [  # and the ranges of the contraction and of each map
    ("T[m,n] = A[m,k] @ B[n,k] scale(1xk,1xk) for m < len[0]; C[m,n] = relu(T) for m < few[0]", 1, [1, 1]),
    ("T[m,n] = A[m,k] @ B[n,k] scale(1xk,1xk) for m < len[0] else 3; C[m,n] = relu(T)", 1, [1]),
    ("T[m,n] = A[m,k] @ B[n,k] for m < len[0]; U[m,n] = T+1 for m < few[0]; C[m,n] = U; D[m,n] = T", 1, [1, 1]),
    ("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = relu(T) for m < len[0]; D[m,n] = T", 0, [1, 0]),
    ("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T; D[m,n] = relu(T) for m < len[0]", 0, [0, 1]),
    ("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = relu(T) for m < len[0]; S[m] = sum[n](T)", 0, [1, 0]),
    ("T[m,n] = A[m,k] @ B[n,k]; C[g,m,n] = T[m,n] * b[g] for m < rows[g]", 0, [1]),
    ("T[m,n] = A[m,k] @ B[n,k]; C[g,m,n] = T[m,n] * b[g] for g < few[0]", 0, [1]),
]
"""Different ranges of one index, a filling value, and ranges that the contraction cannot have."""


def arguments(module: ir.Module, seed: int) -> dict[str, Any]:
    """Small whole numbers, so that no order of factors rounds; some indices are -1, some groups are empty."""
    made = make(module, DIMS, seed, exact=True)
    rng = np.random.default_rng(seed)
    for name in made.keys() & {"e", "p", "x", "idx"}:
        made[name] = np.where(rng.random(made[name].shape) < 0.2, -1, made[name]).astype(np.int32)
    for name in made.keys() & {"off"}:
        most = made[name].max()
        made[name] = np.sort(rng.integers(0, most + 1, made[name].shape) // 4 * 4).astype(np.int32)
    for name in made.keys() & {"len", "few", "rows"}:
        made[name] = rng.integers(0, DIMS["g" if name == "few" else "m"] + 1, made[name].shape).astype(np.int32)
    return made


def same(text: str, target: str = "sm_90a", seeds: Iterable[int] = SEEDS) -> ir.Module:
    """The fused module, whose results are those of the module as built."""
    module = build(text)
    drawn = [arguments(module, seed) for seed in seeds]
    before = [run(module, values, dims=DIMS, exact=True) for values in drawn]
    run_pipeline(module, get_target(target), passes=find(["infer-roles", "fuse-epilogue"]))
    for values, want in zip(drawn, before, strict=True):
        got = run(module, values, dims=DIMS, exact=True)
        assert got.keys() == want.keys()
        for name in want:
            np.testing.assert_array_equal(got[name], want[name], err_msg=name)
            np.testing.assert_array_equal(got.written[name], want.written[name], err_msg=name)
    return module


def ops(module: ir.Module, name: str) -> list[Any]:
    return [op for op in next(programs(module)).body.blocks[0].operations if op.operation.name == f"scale.{name}"]


@pytest.mark.parametrize(("text", "scales", "ranges", "of_maps"), FUSED, ids=[x[0] for x in FUSED])
def test_one_contraction_and_one_map_for_each_result(text: str, scales: int, ranges: int, of_maps: int) -> None:
    with context():
        module = same(text)
        (contract,) = ops(module, "contract")
        results = len([r for r in text.split(";") if not r.strip().startswith(("T[", "U["))])
        maps = ops(module, "map")
        assert len(maps) == results
        assert len(ops(module, "dequantize")) == scales
        assert len(contract.domains) == ranges
        assert "roles" in contract.operation.attributes
        assert [len(op.domains) for op in [*maps, *ops(module, "scatter")]] == [of_maps] * (
            results + len(ops(module, "scatter"))
        )
        for op in maps:
            assert all(d in list(contract.domains) for d in op.domains)
            assert any(view.owner.opview.source == contract.result for view in op.views)
        for view in ops(module, "read"):  # no list of symbols holds more than its op reads
            assert symbols_in(map_of(view.map)) == set(range(len(view.symbols)))
            assert len(set(map(ir.Value, view.symbols))) == len(view.symbols)
            assert all(s.owner.name == "scale.index" for s in view.symbols)


@pytest.mark.parametrize(("text", "ranges", "of_maps"), APART, ids=[x[0] for x in APART])
def test_different_ranges_stay_apart(text: str, ranges: int, of_maps: list[int]) -> None:
    with context():
        module = same(text)
        assert [len(op.domains) for op in ops(module, "contract")] == [ranges]
        assert [len(op.domains) for op in ops(module, "map")] == of_maps


@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
@pytest.mark.parametrize("text", [x[0] for x in FUSED[::6]])
def test_other_targets(target: str, text: str) -> None:
    with context():
        same(text, target, [1])


def test_one_op_for_each_index_and_range_first_in_the_function() -> None:
    at = "for m < len[0]"
    text = f"T[m,n] = A[m,k] @ B[n,k] {at}; C[m,n] = T * r[e[m]] {at}; D[m,n] = T + s[e[m]] {at}"
    with context():
        module = build(text)
        assert len(ops(module, "domain")) == 3
        run_pipeline(module, get_target("sm_90a"), passes=find(["fuse-epilogue"]))
        assert (len(ops(module, "index")), len(ops(module, "domain"))) == (2, 1)
        names = [op.operation.name for op in next(programs(module)).body.blocks[0].operations]
        assert sorted(names[:3]) == ["scale.domain", *["scale.index"] * 2]
