"""Weights of 4 bits that are reordered for registers of wgmma, and what no kernel takes of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.errors import ScheduleError
from scalec.formats import FRAGMENTS, FRAGMENTS_TEXT
from scalec.layouts import for_registers
from scalec.runtime import emulated
from scalec.runtime.sequence import Sequence
from scalec.tuning.explain import explain
from tests.emulator.running import refusals, run_on
from tests.emulator.test_launches_before import check
from tests.emulator.test_several_results import run

AT16, AT8, HALVES = (FRAGMENTS_TEXT[order].format("k") for order in ("pairs", "bytes", "halves"))
OF_I4 = f"C[m,n]:f32 = A[m,k]:bf16 @ B[n, {AT16}]:i4 scale(none, 1x128:bf16)"

PROGRAMS = {
    "i4": OF_I4,
    "i4, f16": f"C[m,n]:f32 = A[m,k]:f16 @ B[n, {AT16}]:i4 scale(none, 1x64:f16)",
    "plain": f"C[m,n]:f32 = A[m,k]:bf16 @ B[n, {AT16}]:u4",
    "e2m1": f"C[m,n]:f32 = A[m,k]:bf16 @ B[n, {AT16}]:e2m1 scale(none, 1x128)",
    "mxfp4": f"C[m,n]:f32 = A[m,k]:bf16 @ B[n, {AT16}]:mxfp4",
    "nvfp4": f"C[m,n]:f32 = A[m,k]:f16 @ B[n, {AT16}]:nvfp4",
    "less 8": f"C[m,n]:f32 = A[m,k]:f16 @ (B[n, {AT16}]:u4 - 8) scale(none, 1x128:f16@col)",
    "zero points": f"C[m,n]:f32 = A[m,k]:f16 @ (B[n, {AT16}]:u4 - Z[k/128,n]) scale(none, 1x128:f16@col)",
    "folded": f"C[m,n]:f32 = A[m,k]:bf16 @ (B[n, {AT16}]:u4 - Z[n,k/32]) scale(none, 1x32:ue4m3)",
    "e4m3": f"C[m,n]:f32 = A[m,k]:e4m3 @ B[n, {AT8}]:i4 scale(1x128, 1x128:bf16)",
    "e4m3, e2m1": f"C[m,n]:f32 = A[m,k]:e4m3 @ B[n, {HALVES}]:e2m1 scale(1x128, 1x128)",
    "e4m3, e2m1 alone": f"C[m,n]:f32 = A[m,k]:e4m3 @ B[n, {HALVES}]:e2m1",
    "e4m3, less 8": f"C[m,n]:f32 = A[m,k]:e4m3 @ (B[n, {AT8}]:u4 - 8) scale(1x128, 1x128:f16)",
    "e4m3, zero points": f"C[m,n]:f32 = A[m,k]:e4m3 @ (B[n, {AT8}]:u4 - Z[n,k/128]:u4) scale(1x128, 1x128:f16)",
    "e4m3, many": f"C[m,n]:f32 += A[m,k]:e4m3 @ (B[n, {AT8}]:u4 - (Z[k/32,n] + 1)) scale(1x128, 1x128:f16)",
    "e4m3, mxfp8": f"C[m,n]:f32 = A[m,k]:mxfp8 @ B[n, {AT8}]:i4 scale(1x128)",
    "both": f"C[m,n]:f32 = A[m,k]:e4m3 @ (B[n, {AT16}]:u4 - Z[n,k/128]:i4) scale(1x128, 1x128:f16)",
    "rounded": f"C[m,n]:f32 = A[m,k]:f16 @ (B[n, {AT16}]:i4):f16 scale(none, 1x128:f16)",
    "rounded, less": f"C[m,n]:f32 = A[m,k]:f16 @ (B[n, {AT16}]:u4 - Z[k/64,n]):f16 scale(none, 1x32:f16@col)",
    "left": f"C[m,n]:f32 = A[m, {AT16}]:i4 @ B[n,k]:bf16 scale(1x128:bf16, none)",
    "N contiguous": f"C[m,n]:f32 = A[k,m]:bf16 @ B[n, {AT16}]:i4 scale(none, 1x128)",
}

SIZES: list[tuple[dict[str, int], tuple[str, ...]]] = [
    ({"m": 80, "n": 160, "k": 640}, ("n", "k")),
    ({"m": 1, "n": 272, "k": 128}, ("m", "n", "k")),
    ({"m": 144, "n": 77, "k": 384}, ("k",)),
    ({"m": 8, "n": 1, "k": 256}, ("k",)),
]
"""Sizes, and which of them the kernel knows."""


@pytest.mark.once("name", "size")
@pytest.mark.parametrize("size", range(len(SIZES)))
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, size: int) -> None:
    dims, fixed = SIZES[size]
    run_on(PROGRAMS[name], dims, fixed, 3, 1e-5)


W = f"B[e[m/16],n, {AT16}]:i4 scale(none, 1x1x128)"
MORE: list[tuple[str, dict[str, int]]] = [
    (f"C[b,m,n]:f32 = A[b,m,k]:bf16 @ B[b,n, {AT16}]:i4 scale(none, 1x1x128)", {"b": 3}),
    (f"C[m,n]:f32 = A[m,k]:bf16 @ {W}", {"B_0": 3}),
    (f"C[m,n]:f32 = A[m,k]:e4m3 @ B[g,n, {AT8}]:i4 scale(1x128, 1x1x128) for m in off[g]:off[g+1]", {"g": 3}),
    (f"C[g,m,n]:f32 = A[g,m,k]:bf16 @ B[g,n, {AT16}]:mxfp4 for m < rows[g]", {"g": 3}),
    (f"C[m,n]:f32 = A[idx[m],k]:e4m3 @ B[n, {AT8}]:i4 scale(1x128, 1x128)", {"A_0": 50}),
    (f"C[m,n]:e4m3 scale(1x128) = A[m,k]:bf16 @ B[n, {AT16}]:i4 scale(none, 1x128)", {}),
    (f"C[m,n] = relu(A[m,k]:bf16 @ B[n, {AT16}]:i4 scale(none, 1x128) + b[n])", {}),
    (f"{OF_I4} with split=2", {}),
    (f"{OF_I4} with invariant", {}),
    (f"{OF_I4} with tile=128x64x128", {}),
    (f"{OF_I4} with tile=128x256x128", {}),
    (f"{OF_I4} with tile=64x8x128, unroll=1", {}),
]


@pytest.mark.once("number")
@pytest.mark.parametrize("number", range(len(MORE)))
def test_other_programs(number: int) -> None:
    source, more = MORE[number]
    run(source, "sm_90a", {"m": 40, "n": 144, "k": 384, **more}, "k")


@pytest.mark.once("source")
@pytest.mark.parametrize(
    "source",
    [
        f"C[m,n]:e5m2 scale(1xn:ue8m0) = A[m,k]:e4m3 @ B[e[m/16],n, {AT8}]:i4 scale(1x128, 1x1x128)",
        "C[m,n]:e5m2 scale(1xn) = A[m,k]:e4m3 @ B[n,k]:i4 scale(1x128, 1x128) with swap=1",
    ],
)
def test_rows_of_results_that_no_tile_has_are_quantised_in_a_launch_of_their_own(source: str) -> None:
    """The product is transposed, and no CTAs share blocks along its rows."""
    sizes = {"m": 5, "n": 261, "k": 128} | ({"B_0": 3} if "e[" in source else {})
    kernel = scalec.compile(source, target="sm_90a", dims=sizes)
    assert isinstance(kernel, Sequence)
    assert len(kernel.launches) == 2
    check(kernel, "sm_90a", source, sizes)


@pytest.mark.parametrize("name", ["i4", "e4m3, less 8", "mxfp4"])
def test_no_rows_meet_in_a_bank(name: str) -> None:
    ran = run_on(PROGRAMS[name], {"m": 16, "n": 256, "k": 512}, ("n", "k"), 3, 1e-5)
    assert ran.stats.counts["bank conflicts"] == 0


@pytest.mark.parametrize(
    ("stored", "multiplied", "order"), [("i4", "bf16", "pairs"), ("i4", "e4m3", "bytes"), ("e2m1", "e4m3", "halves")]
)
def test_the_order_is_what_the_function_makes(stored: str, multiplied: str, order: str) -> None:
    """Of bytes drawn here, in order and reordered: the same numbers, and others where nobody reorders."""
    rng = np.random.default_rng(5)
    weights = rng.integers(0, 256, (24, 128), np.uint8)
    kind = {"bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn}[multiplied]
    a = rng.integers(-2, 3, (5, 256)).astype(kind)
    values = np.stack([weights & 15, weights >> 4], -1).reshape(24, 256).astype(np.int8)
    numbers = {"i4": [*range(8), *range(-8, 0)], "e2m1": [s * x for s in (1, -1) for x in (0, 0.5, 1, 1.5, 2, 3, 4, 6)]}
    expected = a.astype(np.float32) @ np.array(numbers[stored], np.float32)[values].T
    at = FRAGMENTS_TEXT[order].format("k")

    def made(source: str, b: np.ndarray) -> np.ndarray:
        kernel = scalec.compile(source, target="sm_90a", dims={"k": 256})
        kernel.fixed = emulated.EmulatedDevice("sm_90a")
        scales = (np.ones((5, 2), np.float32),) if multiplied == "e4m3" else ()
        return np.asarray(kernel(a, b, *scales, np.ones((24, 2), np.float32)))

    some = "1x128" if multiplied == "e4m3" else "none"
    text = f"C[m,n]:f32 = A[m,k]:{multiplied} @ B[n,{at}]:{stored} scale({some}, 1x128)"
    assert (made(text, for_registers(weights, stored, multiplied)) == expected).all()
    assert (made(text, weights) != expected).any()
    assert (made(text.replace(at, "k"), weights) == expected).all()


@pytest.mark.parametrize(
    ("program", "dims", "told"),
    [
        ("A[m,k]:bf16 @ B[n,k]:i4 scale(none, 1x128)", {"m": 16, "k": 8192}, 'for_registers(B, "i4", "bf16"), is pred'),
        ("A[m,k] @ B[n,k]:e2m1 scale(1x128, 1x128)", {"m": 16, "k": 8192}, HALVES),
        ("A[m,k]:bf16 @ B[n,k]:i4 scale(none, 1x128)", {"m": 16}, ""),
        (f"A[m,k]:bf16 @ B[n, {AT16}]:i4 scale(none, 1x128)", {"m": 16, "k": 8192}, ""),
        ("A[m,k]:bf16 @ (B[n,k]:i4):bf16 scale(none, 1x128:bf16)", {"m": 4096, "k": 8192}, ""),
    ],
)
def test_explain_says_what_is_gained(program: str, dims: dict[str, int], told: str) -> None:
    reasons = explain(f"C[m,n] = {program}", "sm_90a", {"n": 8192, **dims}, {}).reasons["converters"]
    assert told in reasons if told else "for_registers" not in reasons, reasons


def test_what_is_written_is_the_order() -> None:
    for name, order in FRAGMENTS.items():
        text = FRAGMENTS_TEXT[name].format("k").replace("/", "//")
        assert [eval(text, {"k": k}) for k in order] == [*range(len(order))]


test_refused = refusals(
    [
        (f"C[m,n] = A[m,k]:bf16 @ B[n, {AT8}]:i4", f"or at {AT16}, as bf16 is multiplied", {"k": 256}),
        (f"C[m,n] = A[m,k]:bf16 @ B[n, {AT16}]:i4", "k is of unknown size"),
        (f"C[m,n] = A[m,k]:bf16 @ B[n, {AT16}]:i4", "k = 192", {"k": 192}),
        (f"C[m,n] = A[m, {AT8}]:i4 @ B[n, {AT8}]:i4", "B is, too", {"k": 128}),
        (f"C[m,n] = A[idx[m],k]:bf16 @ B[n, {AT16}]:i4", "rows of A one by one, 64 of k at a time", {"k": 128}),
        (f"C[m,n] = (A[m,k] * w[k]) @ B[n, {AT16}]:i4", "A is computed, turned or less", {"k": 128}),
        (f"C[m,n] = A[m,k] @ B[n, {AT16}]:i4 + D[m,r] @ E[n,r]", "products are added up", {"k": 128, "r": 64}),
        (f"C[m,n] = A[m,k]:bf16 @ B[n, {AT16}]:i4 scale(none, 1x16:f16)", "a word has elements", {"k": 128}),
    ]
)
test_refused_elsewhere = refusals(
    [(OF_I4, "takes no operand that is converted from registers", t) for t in ("sm_100a", "sm_120a")],
)
test_not_in_shared_memory = refusals(
    [(f"{OF_I4} with convert=shared", "convert=registers"), (f"{OF_I4} with swap=0", "reordered for registers")],
    ScheduleError,
    dims={"k": 256},
)
