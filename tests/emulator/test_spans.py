"""Several indices of M, N or K that lie one behind the other are walked as one, others by their coordinates: the same
bits, between guards, on every target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scalec
from scalec.checking.compare import compare
from scalec.checking.guarded import FILLS, Guarded, between_guards
from scalec.checking.launch import made_up, values_of
from scalec.runtime import emulated
from scalec.runtime.plan import Plan
from scalec.sizes import Range

TARGETS = ("sm_90a", "sm_100a", "sm_120a")


def launched(
    source: str,
    target: str,
    dims: dict[str, int],
    known: dict[str, Any],
    gap: int,
    seed: int = 3,
    orders: dict[str, tuple[int, ...]] | None = None,
) -> tuple[Plan, list[bytes]]:
    """The plan and the results of a launch over tensors whose outer indices have a gap of so many rows between them,
    with axes from the outermost to the contiguous one in these `orders`: right, and nothing else written."""
    kernel = scalec.compile(source, target=target, dims=known)
    kernel = kernel.kernels[0] if isinstance(kernel, scalec.Program) else kernel
    device = emulated.EmulatedDevice(target)
    device.options = replace(device.options, seed=seed)
    loaded = kernel.load(device)
    kernel.fixed = device
    values, expected = made_up(source, dims, seed)
    lies = {
        t.name: {"gap": gap, "order": (orders or {}).get(t.name)} for t in kernel.spec.operands + kernel.spec.results
    }
    given, outs = between_guards(device, kernel.spec, values, dims, FILLS[0], lies)
    kernel(*given, out=tuple(outs))
    assert not any(x.changed() for x in given if isinstance(x, Guarded))
    assert not any(x.changed(dims) for x in outs)
    with np.errstate(all="ignore"):
        checks = compare({x.spec.name: values_of(x.spec, x) for x in outs}, expected)
    assert all(c.ok for c in checks), f"{source}, {dims}: {checks}"
    return next(reversed(loaded.plans.values())), [x.contents(dims) for x in outs]


def numbers(sizes: str) -> dict[str, int]:
    return {d: int(size) for d, size in (x.split("=") for x in sizes.split())}


CASES = {
    # program, sizes, those known, sizes as the kernel walks them, tiles walked by coordinates and as one
    "rows": ("C[b,s,n] = A[b,s,k] @ W[n,k] + x[n]", "b=5 s=20 n=72 k=64", "nk", "b=1 s=100"),
    "rows of scales": (
        "C[b,s,n] = A[b,s,k] @ W[n,k] scale(1x1x128, 128x128) + R[b,s,n]", "b=3 s=50 n=128 k=256", "nk", "b=1 s=150"
    ),
    "blocks of rows": (
        "C[b,s,n] = A[b,s,k] @ W[n,k] scale(1x128x128, 128x128)", "b=2 s=128 n=64 k=256", "nk", "b=1 s=256"
    ),
    "quantised": (
        "C[b,s,n]:mxfp8 = relu(A[b,s,k]:mxfp8 @ W[n,k]:mxfp8) * y[b,s]", "b=3 s=9 n=64 k=128", "nk", "b=1 s=27"
    ),
    "tiles of scales": (
        "C[b,s,n]:e4m3 scale(1x32:ue8m0@blocked) = A[b,s,k] @ W[n,k]", "b=2 s=128 n=128 k=64", "nk", "b=1 s=256"
    ),
    "decode": ("C[b,s,n] = A[b,s,k] @ W[n,k]", "b=33 s=1 n=64 k=64", "nk", "b=1 s=33"),
    "three": ("C[a,b,s,n] = A[a,b,s,k] @ W[n,k]", "a=2 b=3 s=7 n=64 k=64", "nk", "a=1 b=1 s=42"),
    "gathered": ("C[b,s,n] = E[i[b,s],k] @ W[n,k]", "b=3 s=20 n=64 k=64", "nk", "b=1 s=60"),
    "largest": ("R[b,s] = max[n](A[b,s,k] @ W[n,k])", "b=3 s=20 n=136 k=64", "nk", "b=1 s=60"),
    "by chance": ("C[b,s,n]:e4m3 = stochastic(A[b,s,k] @ W[n,k], seed[0])", "b=3 s=20 n=64 k=64", "nk", "b=1 s=60"),
    "columns": ("C[m,h,n] = A[m,k] @ W[h,n,k]", "m=40 h=5 n=24 k=64", "k", "h=1 n=120"),
    "tokens": ("D[n,k]:f32 += G[b,s,n] @ A[b,s,k]", "b=3 s=20 n=64 k=64", "nk", "b=1 s=60"),
}  # fmt: skip


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_what_lies_behind_each_other_is_walked_as_one(name: str, target: str) -> None:
    source, sizes, fixed, wanted = CASES[name]
    dims = numbers(sizes)
    walked = dims | numbers(wanted)
    known = {d: dims[d] for d in fixed}
    plan, made = launched(source, target, dims, known, gap=0)
    assert [{d: of[d] for d in dims} for of in (plan.sizes, plan.dims)] == [dims, walked]
    apart, others = launched(source, target, dims, known, gap=1)
    assert {d: apart.dims[d] for d in dims} == (
        walked if name == "decode" else dims
    )  # a gap behind one row is a longer way to the next
    assert plan.grid <= apart.grid
    if name != "tokens":  # which are added up in blocks of K that begin elsewhere
        assert made == others


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
def test_the_index_that_tiles_run_along_may_be_the_outer_one(target: str) -> None:
    """The larger one is M: a tile then has rows of all b of one s, and of the next."""
    source = "C[s,b,n]:e4m3 = stochastic(A[s,b,k] @ W[n,k], seed[0])"
    dims, known = {"s": 20, "b": 3, "n": 64, "k": 64}, {"s": Range(1, 8192), "n": 64, "k": 64}
    plan, made = launched(source, target, dims, known, gap=0)
    assert plan.dims == {**dims, "s": 60, "b": 1}
    apart, others = launched(source, target, dims, known, gap=1)
    assert apart.dims == dims
    assert made == others


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
def test_blocks_that_would_meet_are_walked_by_coordinates(target: str) -> None:
    """136 rows end within a block of 128."""
    source, dims = CASES["blocks of rows"][0], {"b": 2, "s": 136, "n": 64, "k": 256}
    plan, _ = launched(source, target, dims, {"n": 64, "k": 256}, gap=0)
    assert plan.dims == dims


PERMUTED = {
    # program, sizes, orders of axes in memory, sizes as the kernel walks them
    "products": (
        "D[m,n]:f32 += A[b,m,k] @ B[b,n,k]",
        "b=3 m=40 n=24 k=40",
        {"A": (1, 0, 2), "B": (1, 0, 2)},
        "b=1 k=120",
    ),
    "of one operand": ("D[m,n]:f32 += A[b,m,k] @ B[b,n,k]", "b=3 m=40 n=24 k=40", {"A": (1, 0, 2)}, ""),
    "blocks of products": (
        "D[m,n]:f32 += A[b,m,k]:e4m3 @ B[b,n,k]:e4m3 scale(1x1x128, 1x128x128)",
        "b=3 m=40 n=128 k=256",
        dict.fromkeys(("A", "B", "A_scale", "B_scale"), (1, 0, 2)),
        "b=1 k=768",
    ),
    "rows": ("C[s,b,n] = A[b,s,k] @ W[n,k]", "b=3 s=20 n=64 k=64", {"C": (1, 0, 2)}, "b=60 s=1"),
}


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PERMUTED)
def test_what_permuted_tensors_have_behind_each_other_is_walked_as_one(name: str, target: str) -> None:
    source, sizes, orders, wanted = PERMUTED[name]
    dims = numbers(sizes)
    known = {d: dims[d] for d in ("n" if "k" in wanted or not wanted else "nk")}
    plan, _ = launched(source, target, dims, known, gap=0, orders=orders)
    assert plan.dims == dims | numbers(wanted)
    contiguous, _ = launched(source, target, dims, known, gap=0)
    assert contiguous.dims == dims


CHANCE = {
    # program, sizes, orders of axes in memory, sizes as the kernel walks them
    "b within s": (
        "C[b,s,n]:e4m3 = stochastic(A[b,s,k] @ W[n,k], seed[0])",
        "b=3 s=20 n=64 k=64",
        {"A": (1, 0, 2), "C": (1, 0, 2)},
        "",
    ),
    "b between": (
        "C[a,b,s,n]:e4m3 = stochastic(A[a,b,s,k] @ W[n,k], seed[0])",
        "a=2 b=3 s=8 n=64 k=64",
        {"A": (1, 0, 2, 3), "C": (1, 0, 2, 3)},
        "",
    ),
    "nothing between": (
        "C[a,b,s,n]:e4m3 = stochastic(A[a,b,s,k] @ W[n,k], seed[0])", "a=2 b=1 s=8 n=64 k=64", {}, "a=1 s=16"
    ),
    "columns of no whole words": ("C[m,h,n] = stochastic(A[m,k] @ W[h,n,k], seed[0])", "m=24 h=5 n=22 k=64", {}, ""),
    "columns of whole words": (
        "C[m,h,n] = stochastic(A[m,k] @ W[h,n,k], seed[0])", "m=24 h=5 n=24 k=64", {}, "h=1 n=120"
    ),
}  # fmt: skip


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CHANCE)
def test_random_bits_are_those_of_an_element_s_place_however_it_is_walked(name: str, target: str) -> None:
    source, sizes, orders, wanted = CHANCE[name]
    dims = numbers(sizes)
    known = {d: dims[d] for d in ("k" if "h" in dims else "nk")}
    plan, made = launched(source, target, dims, known, gap=0, orders=orders)
    assert plan.dims == dims | numbers(wanted)
    _, others = launched(source, target, dims, known, gap=1, orders=orders)
    assert made == others
