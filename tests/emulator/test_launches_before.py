"""Operands that launches before a product quantise or convert, on every target."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

import scalec
from scalec.checking.compare import compare
from scalec.checking.launch import made_up
from scalec.errors import ArgumentError, UnsupportedError
from scalec.launches import launches
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from scalec.runtime.sequence import Sequence
from scalec.sizes import Range
from tests.emulator.test_sequences import TARGETS, launched, upload
from tests.tiers import SEEDS

ANEW: dict[str, tuple[str, dict[str, int], tuple[str, ...]]] = {
    "rows": ("C[m,n]:f32 = quantize(A[m,k], e4m3, 1xk) @ B[n,k] scale(none, 1xk)", {"m": 70, "n": 72}, ("A",)),
    "computed": (
        "C[m,n]:f32 = quantize(silu(A[m,k]) * w[k], e4m3, 1xk) @ B[n,k] scale(none, 128x128) + b[n]",
        {"m": 70, "n": 72},
        ("A",),
    ),
    "right": ("C[m,n]:f32 = A[m,k] @ quantize(B[n,k]:mxfp8, e5m2, 1xk) scale(1x128)", {"m": 9, "n": 72}, ("B",)),
    "scaled": (
        "C[m,n]:f32 = quantize(A[m,k]:e5m2, e4m3, 1xk) @ B[n,k] scale(1x64:f32@col, 1x128)",
        {"m": 9, "n": 72},
        ("A",),
    ),
    "both": (
        "C[m,n]:f32 = quantize(A[m,k], e4m3, 1xk) @ quantize(B[n,k]:f16, e4m3, 128x128)",
        {"m": 9, "n": 200},
        ("A", "B"),
    ),
    "levels": ("C[m,n]:f32 = quantize(A[m,k]:nvfp4, e4m3, 1xk) @ B[n,k]:e4m3", {"m": 9, "n": 72}, ("A",)),
    "integers": ("C[m,n]:f32 = quantize(A[m,k]:u4 - 8, e4m3, 1xk) @ B[n,k]:e4m3", {"m": 9, "n": 72}, ("A",)),
    "zero points": (
        "C[m,n]:f32 = quantize(A[m,k]:u4 - Z[k/32,m], e4m3, 1xk) @ B[n,k] scale(1x32:f16, 1x128)",
        {"m": 9, "n": 72},
        ("A",),
    ),
    "zero points plus 1": (
        "C[m,n]:f32 = quantize((A[m,k]:i4 - (Z[m,k/32] + 1)) scale(1x32:f16), e4m3, 1xk) @ B[n,k] scale(1x128)",
        {"m": 9, "n": 72},
        ("A",),
    ),
    "batches": ("C[b,m,n]:f32 = quantize(A[b,m,k], e4m3, 1x1xk) @ B[b,n,k]:e4m3", {"b": 2, "m": 9, "n": 72}, ("A",)),
    "groups": (
        "C[m,n]:f32 = quantize(A[m,k], e4m3, 1xk) @ B[g,n,k]:e4m3 for m in off[g]:off[g+1]",
        {"m": 40, "n": 72, "g": 3},
        ("A",),
    ),
    "gated": (
        "G[m,n] = quantize(X[m,k], e4m3, 1xk) @ V[n,k]:e4m3; "
        "H[m,n]:f32 = silu(G) * (quantize(X[m,k], e4m3, 1xk) @ W[n,k]:e4m3)",
        {"m": 40, "n": 72},
        ("X",),
    ),
    "and a result": (
        "D[m,n]:e4m3 scale(1xn) = quantize(A[m,k], e4m3, 1xk) @ B[n,k] scale(none, 1xk)",
        {"m": 40, "n": 272},
        ("A",),
    ),
    "gathered": (
        "C[m,n]:f32 = quantize(A[idx[m],k], e4m3, 1xk) @ B[g,n,k] scale(none, 1x1xk) for m in off[g]:off[g+1]",
        {"m": 40, "n": 72, "g": 3, "A_0": 17},
        ("A",),
    ),
    "columns": (
        "C[m,n]:f32 = quantize(A[k,m], e4m3, 128x1) @ quantize(B[k,n]:f16, e4m3, 128x1)",
        {"m": 80, "n": 144},
        ("A", "B"),
    ),
    "columns of groups": (
        "C[g,m,n]:f32 = quantize(A[k,m], e4m3, 128x1) @ B[k,n]:e4m3 scale(none,128x1) for k in off[g]:off[g+1] by 128",
        {"m": 80, "n": 144, "g": 2},
        ("A",),
    ),
    "added": ("C[m,n]:f32 += quantize(A[m,k], e4m3, 1xk) @ B[n,k] scale(none, 1xk)", {"m": 40, "n": 272}, ("A",)),
}


@pytest.mark.once
@pytest.mark.parametrize("name", ANEW)
@pytest.mark.parametrize("target", TARGETS)
def test_operands_quantised_by_whole_rows(target: str, name: str) -> None:
    program, sizes, operands = ANEW[name]
    sizes = sizes | {"k": 272 if "mxfp8" not in program else 256}
    kernel = scalec.compile(program, target=target, dims={"k": sizes["k"]})
    assert isinstance(kernel, Sequence)
    left = {x for o in operands for t in ("e4m3", "e5m2") for x in (f"{o}_{t}", f"{o}_{t}_scale")}
    assert {t.name for t in kernel.between} <= left | {"D_f32"}
    assert len(kernel.launches) == 1 + len(operands) + ("a result" in name)
    check(kernel, target, program, sizes)


WORDS = {
    "words": "quantize(B[k/8,n,k%8]:i4, e4m3, 1x128) scale(1x128, 1x64:bf16)",
    "words, whole rows": "quantize(B[k/8,n,k%8]:u4, e4m3, 1xk) scale(1x128, none)",
    "words, computed": "quantize(relu(B[k/8,n,k%8]:i4) * w[n], e5m2, 1x128) scale(1x128, none)",
    "words, less zero points": (
        "quantize((B[k/8,n,k%8]:u4 - (Z[k/64,n]:u4 + 1)), e4m3, 1x128) scale(1x128, 1x64:f16@col)"
    ),
    "words, less one zero point": "quantize((B[k/8,n,k%8]:u4 - 8), e4m3, 1x128) scale(1x128, 1x128:bf16)",
    "words, of each block of rows": "quantize(B[e[m/128],k/8,n,k%8]:i4, e4m3, 1x128) scale(1x128, 1x128:bf16)",
    "words, of groups": "quantize(B[g,k/8,n,k%8]:i4, e4m3, 1x128) scale(1x128, 1x128:bf16) for m in off[g]:off[g+1]",
    "words, gathered": "quantize(B[k/8,idx[n],k%8]:i4, e4m3, 1x128) scale(1x128, 1x128:bf16)",
    "words, gathered, of a format": "A[m,k]:bf16 @ B[k/8,idx[n],k%8]:nvfp4",
    "words, of each block of rows, of a format": "A[m,k]:f16 @ B[e[m/128],k/8,n,k%8]:mxfp4 with convert=before",
    "another order": "quantize(B[n, k/8*8 + k%2*4 + k%8/2]:u4, e4m3, 1x128) scale(1x128, 1x128:bf16)",
    "another order, columns": (
        "quantize((B[k, n/8*8 + n%2*4 + n%8/2]:u4 - Z[k/64, n/8*8 + n%2*4 + n%8/2]:u4), e4m3, 128x1) "
        "scale(1x128, 64x1:f16)"
    ),
}
"""What is quantised, or converted, of weights that no kernel that multiplies does this with."""


@pytest.mark.once("target")
@pytest.mark.parametrize("known", ["k", ""])
@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("target", TARGETS)
def test_words_are_quantised_before(target: str, name: str, known: str) -> None:
    program = "C[m,n]:f32 = " + "A[m,k]:e4m3 @ " * (" @ " not in WORDS[name]) + WORDS[name]
    sizes = {"m": 130, "n": 72, "k": 384}
    sizes |= (
        {"g": 3} if "g+1" in program else {"B_0": 90} if "idx" in program else {"B_0": 4} if "e[" in program else {}
    )
    kernel = scalec.compile(program, target=target, dims={d: sizes[d] for d in known})
    assert isinstance(kernel, Sequence)
    check(kernel, target, program, sizes)


FIRST: dict[str, tuple[str, int]] = {
    "columns": ("C[m,n]:f32 = quantize(A[k,m], e4m3, kx1) @ B[n,k]:e4m3", 3),
    "columns of both": ("C[m,n]:f32 = quantize(relu(A[k,m]), e4m3, kx1) @ quantize(B[k,n]:f16, e5m2, kx1)", 5),
    "columns of batches": ("C[b,m,n]:f32 = B[b,m,k]:bf16 @ quantize(A[b,k,n], e4m3, 1xkx1)", 3),
    "columns of groups": ("C[g,m,n]:f32 = quantize(A[k,m], e4m3, kx1) @ B[k,n]:e4m3 for k in off[g]:off[g+1]", 3),
    "all": ("C[m,n]:f32 = quantize(A[m,k], e4m3, tensor) @ quantize(B[n,k], e4m3, 1xk)", 5),
    "all, gated": (
        "G[m,n] = quantize(X[k,m], e4m3, kxm) @ V[n,k]:e4m3; "
        "H[m,n]:f32 = silu(G) * (quantize(X[k,m], e4m3, kxm) @ W[n,k]:e4m3)",
        4,
    ),
}
"""Operands whose blocks no kernel finds beside their values, each with the number of launches."""


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("target", TARGETS)
def test_magnitudes_are_found_first(target: str, name: str, seed: int) -> None:
    """Of whole columns, or of all: what quantises reads what one launch more has found."""
    program, count = FIRST[name]
    m, n, k = ((80, 144, 272), (16, 48, 77), (48, 16, 1), (16, 16, 130))[seed % 4]
    sizes = {"m": m, "n": n, "k": -(-k // 16) * 16 if ",k]" in program else k}
    sizes |= {"b": 2} if "[b," in program else {"g": 3} if "off" in program else {}
    kernel = scalec.compile(program, target=target, dims={"k": sizes["k"]} if seed % 2 else {})
    assert isinstance(kernel, Sequence)
    assert len(kernel.launches) == count
    check(kernel, target, program, sizes)


BEFORE: dict[str, tuple[str, dict[str, int], str]] = {
    "4 bits": ("C[m,n]:f32 = A[m,k] @ quantize(B[n,k]:mxfp4, e4m3, 1x128) scale(1x128)", {"m": 9, "n": 72}, "B"),
    "integers": (
        "C[m,n]:f32 = A[m,k] @ quantize(B[n,k]:i4, e4m3, 1x128) scale(1x128, 1x64:bf16)",
        {"m": 9, "n": 72},
        "B",
    ),
    "two levels": (
        "C[m,n]:f32 = x[m] * A[m,k]:e4m3 @ quantize(B[n,k]:nvfp4, e4m3, 1x128) scale(1x128) + y[n]",
        {"m": 9, "n": 72},
        "B",
    ),
    "levels said": (
        "C[m,n]:f32 = A[m,k]:e4m3 @ quantize(B[n,k]:e5m2, e4m3, 1x64) scale(1x64, 1x32:bf16*tensor)",
        {"m": 9, "n": 72},
        "B",
    ),
    "a tensor's": (
        "C[m,n]:f32 = quantize(A[m,k]:e5m2, e4m3, 1x128) @ B[n,k] scale(tensor:bf16, 128x128)",
        {"m": 9, "n": 72},
        "A",
    ),
    "gated": (
        "G[m,n] = quantize(X[m,k], e4m3, 1x128) @ V[n,k]:e4m3; "
        "U[m,n] = quantize(X[m,k], e4m3, 1x128) @ W[n,k]:e4m3; C[m,n]:f32 = silu(G)*U",
        {"m": 9, "n": 72},
        "X",
    ),
    "ragged": (
        "C[m,n]:f32 = A[m,k] @ quantize(B[g,n,k]:nvfp4, e4m3, 1x1x128) scale(1x128) for m in off[g]:off[g+1]",
        {"g": 3, "m": 40, "n": 72},
        "B",
    ),
    "blocks": (
        "C[m,n]:f32 = A[m,k] @ quantize(B[e[m/32],n,k]:nvfp4, e4m3, 1x128) scale(1x128)",
        {"B_0": 3, "m": 70, "n": 72},
        "B",
    ),
    "gathered": (
        "C[m,n]:f32 = quantize(A[idx[m],k], e4m3, 1x128) @ B[n,k] scale(none, 128x128)",
        {"A_0": 17, "m": 40, "n": 72},
        "A",
    ),
}


WIDE: dict[str, tuple[str, dict[str, int], tuple[str, ...]]] = {
    "formats": ("C[m,n]:f32 = x[m] * A[m,k]:mxfp8 @ B[n,k]:mxfp4 + y[n]", {"m": 9, "n": 72, "k": 288}, ("A", "B")),
    "two levels": ("C[m,n]:f32 = A[m,k]:nvfp4 @ B[n,k]:nvfp4", {"m": 9, "n": 72, "k": 272}, ("A", "B")),
    "one": ("C[m,n]:f32 += A[m,k] @ B[n,k]:mxfp8_e5m2", {"m": 9, "n": 72, "k": 288}, ("B",)),
    "said": (
        "C[m,n]:f32 = A[m,k]:e5m2 @ B[n,k] scale(1x32:ue8m0@packed, 1x64:ue8m0*tensor)",
        {"m": 9, "n": 72, "k": 320},
        ("A", "B"),
    ),
    "gated": (
        "G[m,n] = X[m,k]:mxfp8 @ V[n,k]:mxfp8; U[m,n] = X[m,k]:mxfp8 @ W[n,k]:mxfp8; C[m,n]:f32 = silu(G)*U",
        {"m": 9, "n": 72, "k": 256},
        ("X", "V", "W"),
    ),
    "groups": (
        "C[m,n]:f32 = A[m,k]:mxfp8 @ B[g,n,k]:mxfp8 for m in off[g]:off[g+1]",
        {"g": 3, "m": 40, "n": 72, "k": 256},
        ("A", "B"),
    ),
    "looked up": (
        "C[m,n]:f32 = A[idx[m],k]:mxfp8 @ B[e[m/32],n,k]:mxfp8",
        {"m": 70, "n": 72, "k": 256, "A_0": 31, "B_0": 3},
        ("A", "B"),
    ),
    "along K": (
        "C[g,m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:mxfp8 for k in off[g]:off[g+1]",
        {"g": 3, "m": 9, "n": 72, "k": 288},
        ("A", "B"),
    ),
    "added": (
        "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:mxfp4 + D[m,r]:mxfp4 @ E[n,r]:bf16",
        {"m": 9, "n": 72, "k": 64, "r": 32},
        ("B", "D"),
    ),
    "gathered along K": (
        "C[m,n]:f32 = A[idx[k],m]:mxfp4 @ B[k,n]:bf16",
        {"m": 64, "n": 72, "k": 50, "A_0": 70},
        ("A",),
    ),
    "6 bits": ("C[m,n]:f32 = A[m,k]:mxfp6 @ B[n,k]:mxfp6_e2m3", {"m": 9, "n": 72, "k": 256}, ("A", "B")),
}


@pytest.mark.once
@pytest.mark.parametrize("name", WIDE)
def test_operands_made_16_bits_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements times their scales, exactly."""
    monkeypatch.setattr("scalec.launches.GAIN", 0)
    program, sizes, operands = WIDE[name]
    known = {x: size for x, size in sizes.items() if x != "m"}
    kernel = scalec.compile(program, target="sm_90a", dims=known, cache=False)
    assert isinstance(kernel, Sequence)
    assert {t.name for t in kernel.between} == {f"{x}_bf16" for x in operands}
    check(kernel, "sm_90a", program, sizes)


def test_groups_with_scales_of_their_own_are_not_made_before() -> None:
    """What is laid out by group only a program with the groups reads."""
    program = "C[g,m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:mxfp8 for k in off[g]:off[g+1] by 128 apart"
    sizes = {"g": 8, "m": 8192, "n": 8192, "k": 8192}
    assert len(launches(program, "sm_90a", sizes).texts) == 1
    assert len(launches(program.removesuffix(" apart"), "sm_90a", sizes).texts) == 3


ROWS = "for m in off[g]:off[g+1] apart"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("target", "program", "count"),
    [
        ("sm_90a", f"C[m,n]:f32 = A[m,k]:mxfp6 @ B[g,n,k]:mxfp6 {ROWS}", 3),
        ("sm_90a", f"D[m,n]:e4m3 scale(1x32:ue8m0@blocked) = A[m,k]:mxfp6 @ B[g,n,k]:mxfp6 {ROWS}", 3),
        ("sm_100a", f"C[m,n]:f32 = A[m,k]:bf16 @ B[g,n,k]:mxfp8 {ROWS}", 2),
        ("sm_120a", f"C[m,n]:f32 = A[m,k]:bf16 @ B[g,n,k]:mxfp8 {ROWS}", 2),
        ("sm_90a", f"C[m,n]:f32 = quantize(A[m,k], e4m3, 1xk) @ B[g,n,k] scale(none, 1x1xk) {ROWS}", 2),
    ],
)
def test_groups_whose_rows_have_scales_of_their_own(target: str, program: str, count: int) -> None:
    """Of a row alone, so that all of a tensor is made before."""
    sizes = {"m": 70, "n": 64, "k": 256, "g": 3}
    kernel = scalec.compile(program, target=target, dims={"n": 64, "k": 256}, cache=False)
    assert isinstance(kernel, Sequence)
    assert len(kernel.kernels) == count
    check(kernel, target, program, sizes)


def test_tiles_of_groups_are_not_made_before() -> None:
    program = f"C[m,n] = A[m,k]:e3m2 @ B[g,n,k]:e3m2 scale(1x32:ue8m0@blocked, 1x1x32:ue8m0) {ROWS}"
    for text, count in ((program, 1), (program.removesuffix(" apart"), 3)):
        assert len(launches(text, "sm_90a", {"n": 64, "k": 256}).texts) == count


@pytest.mark.once
@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_formats_of_8_bits_beside_16_bits(target: str) -> None:
    """Which no instruction of these targets multiplies with their scales."""
    program, sizes = "C[m,n]:f32 = A[m,k] @ B[n,k]:mxfp8", {"m": 9, "n": 72, "k": 288}
    kernel = scalec.compile(program, target=target, dims={"n": 72, "k": 288})
    assert isinstance(kernel, Sequence)
    check(kernel, target, program, sizes)


ALONE: dict[str, tuple[str, dict[str, int], Collection[str]]] = {
    "16 bits": ("C[m,n]:f32 = quantize(A[m,k], e4m3, 1x128) @ B[n,k]:bf16", {"m": 9, "n": 72, "k": 272}, TARGETS),
    "a range": (
        "C[g,m,n]:f32 = quantize(A[m,k], e4m3, 1x128) @ B[n,k]:e4m3 for k in off[g]:off[g+1]",
        {"g": 3, "m": 9, "n": 72, "k": 272},
        TARGETS,
    ),
    "4 bits": (
        "C[m,n]:f32 = quantize(A[m,k], e2m1, 1x128) @ B[n,k]:e2m1",
        {"m": 9, "n": 72, "k": 256},
        ("sm_100a", "sm_120a"),
    ),
    "other scales": (
        "C[m,n]:f32 = quantize(A[m,k], e4m3, 1x128) @ B[n,k] scale(none, 1x64)",
        {"m": 9, "n": 72, "k": 256},
        ("sm_100a", "sm_120a"),
    ),
    "long blocks": ("C[m,n]:f32 = quantize(A[m,k], e4m3, 1x256) @ B[n,k]:e4m3", {"m": 9, "n": 72, "k": 640}, TARGETS),
    "6 bits": ("C[m,n]:f32 = quantize(A[m,k]:mxfp6, e4m3, 1x128) @ B[n,k]:e4m3", {"m": 9, "n": 72, "k": 256}, TARGETS),
    "computed": (
        "C[m,n]:f32 = quantize(relu(A[m,k]:mxfp8), e4m3, 1x128) @ B[n,k]:e4m3",
        {"m": 9, "n": 72, "k": 256},
        TARGETS,
    ),
    "short blocks": (
        "C[m,n]:f32 = quantize(A[m,k]:e2m1, e4m3, 1x128) @ B[n,k]:e4m3 scale(1x8:ue4m3*1x64, none)",
        {"m": 9, "n": 72, "k": 256},
        TARGETS,
    ),
}


@pytest.mark.once
@pytest.mark.parametrize(("name", "target"), [(name, x) for name, (*_, some) in ALONE.items() for x in some])
def test_operands_that_no_kernel_quantises(target: str, name: str) -> None:
    program, sizes, _ = ALONE[name]
    kernel = scalec.compile(program, target=target, dims={"k": sizes["k"]})
    assert isinstance(kernel, Sequence)
    check(kernel, target, program, sizes)


@pytest.mark.once
@pytest.mark.parametrize("name", BEFORE)
@pytest.mark.parametrize("target", TARGETS)
def test_operands_quantised_before(target: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one kernel could do too, where a launch before is taken to be faster."""
    monkeypatch.setattr("scalec.launches.GAIN", 0)
    program, sizes, operand = BEFORE[name]
    sizes = sizes | {"k": 272 if "mxfp4" not in program else 256}
    known = {x: size for x, size in sizes.items() if x != "m"}  # how much is quantised must be
    kernel = scalec.compile(program, target=target, dims=known, cache=False)
    assert isinstance(kernel, Sequence)
    assert {t.name for t in kernel.between} == {f"{operand}_e4m3", f"{operand}_e4m3_scale"}
    one = scalec.compile(program, target=target, dims=known, schedule={"convert": "shared"}, cache=False)
    assert isinstance(one, Kernel)
    assert [(t.name, t.dtype) for t in kernel.spec.operands] == [(t.name, t.dtype) for t in one.spec.operands]
    assert kernel.spec.reads == one.spec.reads
    check(kernel, target, program, sizes)


@pytest.mark.parametrize(
    ("sizes", "schedule", "several"),
    [
        ({"m": 16}, {}, False),
        ({"m": 4096}, {}, True),
        ({"m": Range(1, 8192)}, {}, True),
        ({"m": Range(1, 32)}, {}, False),
        ({"m": 4096}, {"convert": "shared"}, False),
        ({"m": 4096}, {"invariant": "1"}, False),  # whatever M is
    ],
)
def test_who_quantises_an_operand(sizes: dict[str, Any], schedule: dict[str, str], several: bool) -> None:
    """A launch before, where many rows would each have the warps of a product quantise it again."""
    program = "C[m,n] = quantize(A[m,k], e4m3, 1x128) @ B[n,k] scale(none, 128x128)"
    every = launches(program, "sm_90a", {"n": 8192, "k": 8192, **sizes}, schedule)
    assert (len(every.texts) == 2) == several


def test_a_schedule_for_one_kernel_has_that_ones_refusal() -> None:
    with pytest.raises(UnsupportedError, match="no tensor-core instruction for e3m2"):
        scalec.compile("C[m,n] = A[m,k]:mxfp6 @ B[n,k]:mxfp6 with convert=shared, converters=2", target="sm_90a")


@pytest.mark.parametrize(
    ("operands", "m", "count"),
    [
        ("A[m,k]:mxfp8 @ B[n,k]:mxfp8", 64, 1),
        ("A[m,k]:mxfp8 @ B[n,k]:mxfp8", 4096, 3),
        ("A[m,k]:bf16 @ B[n,k]:mxfp8", 4096, 2),
        ("A[m,k]:bf16 @ B[n,k]:nvfp4", 4096, 1),  # consumers make it in registers
        ("A[m,k]:nvfp4 @ B[n,k]:nvfp4", 1024, 1),
        ("A[m,k]:nvfp4 @ B[n,k]:nvfp4", 4096, 3),
    ],
)
def test_who_converts_operands(operands: str, m: int, count: int) -> None:
    """As was measured on an H100 (docs/notes/converted.md)."""
    assert len(launches(f"C[m,n] = {operands}", "sm_90a", {"m": m, "n": 8192, "k": 8192}).texts) == count


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "operands",
    [
        "A[m,k]:f16 @ B[n,k]:f16 scale(1x32:ue8m0, none)",
        "A[m,k]:bf16 @ B[n,k]:bf16 scale(1x16:ue4m3, none)",
        "A[m,k]:bf16 @ B[n,k]:e2m1 scale(none, 1x16:ue4m3*1x128)",
    ],
)
def test_what_16_bits_would_round_is_refused(operands: str, target: str) -> None:
    """Elements of 16 bits times scales, and others times two, have more significant bits than a bf16."""
    program = f"C[m,n] = {operands}"
    assert launches(program, target, {"n": 512, "k": 512}).texts == (program,)
    with pytest.raises(UnsupportedError, match=r"scales that vary along k|no kernel for"):
        scalec.compile(program, target=target, dims={"n": 512, "k": 512})


def check(kernel: Sequence, target: str, program: str, sizes: dict[str, int]) -> None:
    """Compares what all launches give with the reference."""
    values, expected = made_up(program, sizes, 3)
    outs, _ = launched(kernel, target, values, sizes)
    for found in compare(dict(zip((r.name for r in kernel.spec.results), outs, strict=True)), expected):
        assert found.ok, found


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize(
    ("program", "wrong", "message"),
    [
        ("C[m,n]:f32 += A[m,k]:mxfp8 @ B[e[m/16],n,k]:mxfp6", "e", "no index of B[B_0,n,k]:mxfp6, which has 3 (B_0)"),
        ("C[m,n]:f32 = A[m,k]:mxfp8 @ B[e[m/16],n,k]:mxfp6", "e", "no index of B[B_0,n,k]:mxfp6, which has 3 (B_0)"),
        (
            "C[m,n]:f32 += quantize(A[idx[m],k]:f32, e4m3, 1xk) @ B[n,k]:e4m3",
            "idx",
            "no index of the scale of quantize(A[A_0,k]:f32, e4m3, 1xk), which has 3 (A_0)",
        ),
    ],
)
def test_wrong_indices_are_told_of_what_the_caller_wrote(program: str, wrong: str, message: str, bound: bool) -> None:
    sizes = {"m": 32, "n": 64, "k": 64, "A_0" if wrong == "idx" else "B_0": 3}
    values, _ = made_up(program, sizes, 3)
    values[wrong][0] = 77
    kernel = scalec.compile(program, "sm_90a")
    assert isinstance(kernel, Sequence)
    device = kernel.fixed = emulated.EmulatedDevice("sm_90a")
    arguments, outs = upload(device, kernel.spec, values, sizes)
    with pytest.raises(ArgumentError) as refusal:
        kernel.bind(*arguments, out=tuple(outs))() if bound else kernel(*arguments, out=tuple(outs))
    assert message in refusal.value.message
