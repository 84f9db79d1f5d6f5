"""What an elementwise expression computes of scalars alone stands before the products, behind the wait for the kernel
before."""

from __future__ import annotations

import re
from functools import cache

import pytest

from scalec import compiler
from tests.early import without_what_follows

QUOTIENT = "D[m,n]:nvfp4 = A[m,k]:bf16 @ B[n,k]:bf16"
PRODUCTS = {"sm_90a": "wgmma.mma_async", "sm_100a": "tcgen05.ld", "sm_120a": "mma.sync"}


@cache
def ptx_of(source: str, target: str, dims: tuple[tuple[str, int], ...]) -> str:
    with without_what_follows(["ptx"]):
        return compiler.compile_source(source, target, dict(dims), until="ptx").ptx


def lines(source: str, target: str, *what: str, **dims: int) -> list[str]:
    """The first of `what` that each line of the PTX has, in order; of adjacent ones that are the same one."""
    ptx = ptx_of(source, target, tuple(dims.items()))
    found = [next((w for w in what if w in line), "") for line in ptx.splitlines()]
    kept = [w for w in found if w]
    return [w for i, w in enumerate(kept) if i == 0 or kept[i - 1] != w]


@pytest.mark.parametrize("settings", ["", " with split=2", " with swap=1", " with invariant"])
@pytest.mark.parametrize("m", [8, 512])
def test_a_scale_is_read_behind_the_wait_and_its_quotient_made_before_the_products(m: int, settings: str) -> None:
    """The kernel before may have written it."""
    wait, load, quotient, product = "griddepcontrol.wait", "ld.global.f32", "div.rn", PRODUCTS["sm_90a"]
    text = QUOTIENT + (settings if "swap" not in settings or m == 8 else "")
    assert lines(text, "sm_90a", wait, quotient, product, m=m, n=512, k=512) == [wait, quotient, product]
    seen = lines(text, "sm_90a", wait, load, product, m=m, n=512, k=512)
    assert seen[: seen.index(product)] == [wait, load]


@pytest.mark.parametrize("target", PRODUCTS)
def test_quotients_before_the_products_on_every_family(target: str) -> None:
    product = PRODUCTS[target]
    for source in (
        QUOTIENT,
        "C[m,n] = (A[m,k] @ B[n,k] + bias[n]) * (1 / (alpha + beta))",
        "C[m,n]:f32 += g[0]:f32 / beta * (A[m,k] @ B[n,k])",
    ):
        assert lines(source, target, "div.rn", product, m=128, n=512, k=512) == ["div.rn", product], source


def test_each_scalar_is_loaded_once() -> None:
    """Whatever it is part of."""
    source = "C[m,n] = (A[m,k] @ B[n,k] + s[0]:f32) * (s[0] / t[0]:f32) - s[0] * t[0]"
    ptx = ptx_of(source, "sm_90a", (("m", 256), ("n", 512), ("k", 512)))
    assert len(re.findall(r"ld\.global\.f32", ptx)) == 2
