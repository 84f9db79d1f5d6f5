"""Operands of 4 bits whose adjacent elements lie along M or N, in order and as AWQ stores weights, on all targets."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import scalec
from scalec.errors import ArgumentError, ScheduleError
from scalec.layouts import AWQ_ORDER, awq_weights
from scalec.runtime import emulated
from scalec.runtime.dispatch import Program
from scalec.sizes import Range
from tests.emulator.running import TARGETS, refusals, run_on
from tests.emulator.test_several_results import run

AT = "n/8*8 + n%2*4 + n%8/2"
AWQ = f"C[m,n]:f32 = A[m,k]:f16 @ (B[k, {AT}]:u4 - Z[k/128, {AT}]) scale(none, 128x1:f16)"

PROGRAMS = {
    "plain": "C[m,n]:f32 = A[m,k]:bf16 @ B[k,n]:u4",
    "signed": "C[m,n]:f32 = A[m,k]:f16 @ B[k,n]:i4 scale(none, 64x1:bf16)",
    "floats": "C[m,n]:f32 = A[m,k]:bf16 @ B[k,n]:e2m1",
    "AWQ": AWQ,
    "in order": AWQ.replace(AT, "n"),
    "AWQ, signed": f"C[m,n]:f32 = A[m,k]:bf16 @ (B[k, {AT}]:i4 - (Z[k/64, {AT}]:i4 + 8)) scale(none, 128x1:bf16)",
    "AWQ, far": f"C[m,n]:f32 = A[m,k]:f16 @ (B[k, {AT}]:u4 - (Z[k/64, {AT}] + 50))",
    "zero points in order": f"C[m,n]:f32 = A[m,k]:f16 @ (B[k, {AT}]:u4 - Z[k/32,n])",
    "AWQ, zero points along k": f"C[m,n]:f32 = A[m,k]:bf16 @ (B[k, {AT}]:u4 - (Z[n,k/128]:i4 + 1)) scale(none, 128x1)",
    "another order": "C[m,n]:f32 = A[m,k]:bf16 @ B[k, n/8*8 + 7 - n%8]:e2m1",
    "one zero point": f"C[m,n]:f32 = A[m,k]:bf16 @ (B[k, {AT}]:u4 - 8) scale(none, 128x1:f16)",
    "e4m3": f"C[m,n]:f32 += A[m,k]:e4m3 @ (B[k, {AT}]:u4 - (Z[k/128, {AT}] + 1)) scale(1x128, 128x1:f16)",
    "e4m3, one": "C[m,n]:f32 = A[m,k]:e4m3 @ (B[k,n]:u4 - 8) scale(1x128, 128x1:f16)",
    "e4m3, floats": "C[m,n]:f32 = A[m,k]:e4m3 @ B[k,n]:e2m1 scale(1x128, 128x128)",
    "tf32": "C[m,n]:f32 = A[m,k]:tf32 @ (B[k,n]:u4 - Z[k/32,n]:i8) scale(none, 32x1:f16)",
    "tf32, signed": f"C[m,n]:f32 = A[m,k]:tf32 @ B[k, {AT}]:i4",
    "folded": f"C[m,n]:f32 = A[m,k]:f16 @ (B[k, {AT}]:u4 - Z[k/16,n]) scale(none, 32x1:ue4m3)",
    "folded floats": "C[m,n]:f32 = A[m,k]:bf16 @ B[k,n]:e2m1 scale(none, 16x1:ue4m3)",
    "rounded": f"C[m,n]:f32 = A[m,k]:f16 @ (B[k, {AT}]:u4 - Z[k/128, {AT}]):f16 scale(none, 128x1:f16)",
    "of fine blocks": "C[m,n]:f32 = A[m,k]:bf16 @ (B[k,n]:u4 - Z[k/48,n]:i4) scale(none, 64x1)",
    "left": "C[m,n]:f32 = (A[k, m/8*8 + m%2*4 + m%8/2]:u4 - (Z[k/64,m] - 8)) @ B[n,k]:bf16 scale(64x1:bf16, none)",
    "both": "C[m,n]:f32 = A[k,m]:e2m1 @ (B[k,n]:u4 - Z[k/64,n]) scale(64x1, none)",
    "beside rows": "C[m,n]:f32 = A[m,k]:i4 @ B[k,n]:i4 scale(1x64, 64x1)",
    "beside i8": "C[m,n]:f32 = A[m,k]:i8 @ B[k,n]:i4",
}

SIZES: list[tuple[dict[str, int], tuple[str, ...]]] = [
    ({"m": 80, "n": 160, "k": 416}, ("n", "k")),
    ({"m": 1, "n": 272, "k": 156}, ("m", "n", "k")),
    ({"m": 130, "n": 20, "k": 544}, ()),
    ({"m": 3, "n": 77, "k": 66}, ("k",)),
    ({"m": 1, "n": 1, "k": 32}, ()),
    ({"m": 3, "n": 9, "k": 0}, ()),
]
"""Sizes, and which of them the kernel knows: tails of tiles, of words and of bytes."""

NATIVE = [("sm_120a", "e4m3, floats")]
"""What the tensor core reads so, of multiples of 128."""


@pytest.mark.once("target", "name", "size")
@pytest.mark.parametrize("size", range(len(SIZES)))
@pytest.mark.parametrize(("target", "name"), [(t, n) for t in TARGETS for n in PROGRAMS if (t, n) not in NATIVE])
def test_program(target: str, name: str, size: int) -> None:
    dims, fixed = SIZES[size]
    run_on(PROGRAMS[name], dims, fixed, 3, 1e-5, target=target)


ZERO = f"Z[k/32, {AT}]"
RANGE = "for k in off[g]:off[g+1]"
HALF = f"[g,m,n] = X[m,k]:bf16 @ {{}}[k,n]:i4 {RANGE}; "
GATED_BY_RANGES = f"G{HALF.format('V')}U{HALF.format('W')}H[g,m,n]:f32 = silu(G) * U"
MORE: list[tuple[str, dict[str, int], str]] = [
    (f"C[b,m,n]:f32 = A[b,m,k]:bf16 @ (B[b,k, {AT}]:u4 - Z[b,k/32, {AT}]) scale(none, 64x1:f16)", {"b": 3}, ""),
    (f"C[b,m,n]:f32 = A[b,m,k]:bf16 @ B[k, {AT}]:i4", {"b": 3}, ""),
    ("C[m,h,n]:f32 = A[m,k]:bf16 @ B[k,h,n]:i4", {"h": 2}, ""),
    ("C[m,h,n]:f32 = A[m,k]:bf16 @ B[k,h,n]:i4", {"h": 2, "n": 136}, "n"),
    (f"C[m,n]:f32 = A[m,b,k]:bf16 @ (B[b,k, {AT}]:u4 - Z[b,k/32, {AT}])", {"b": 2}, ""),
    (
        f"C[m,n]:f32 = A[m,k]:e4m3 @ (B[e[m/16],k, {AT}]:u4 - Z[e[m/16],k/32, {AT}]) scale(1x128, 128x1:f16)",
        {"B_0": 3},
        "",
    ),
    (
        f"C[m,n]:f32 = A[m,k]:bf16 @ (B[g,k, {AT}]:u4 - Z[g,k/32, {AT}]) scale(none, 64x1) for m in off[g]:off[g+1]",
        {"g": 3},
        "",
    ),
    (f"C[m,n]:f32 = A[idx[m],k]:bf16 @ (B[k, {AT}]:u4 - {ZERO}) scale(none, 128x1)", {"A_0": 50}, ""),
    ("C[g,m,n]:f32 = A[m,k]:bf16 @ B[k,n]:i4 for k in off[g]:off[g+1]", {"g": 3}, ""),
    (f"C[g,m,n]:f32 = A[m,k]:bf16 @ (B[k, {AT}]:u4 - 8) for k in off[g]:off[g+1]", {"g": 3}, ""),
    (GATED_BY_RANGES, {"g": 3}, ""),  # strips, each of which a range cuts
    (GATED_BY_RANGES.replace(":i4", ":i4 scale(none, 64x1:f16)").replace("+1]", "+1] apart"), {"g": 3}, ""),
    (
        f"H[m,n]:f32 = silu(X[m,k]:f16 @ (V[k, {AT}]:u4 - {ZERO}) scale(none, 64x1)) * "
        f"(X[m,k]:f16 @ (W[k, {AT}]:u4 - Y[k/32, {AT}]) scale(none, 64x1))",
        {},
        "",
    ),
    ("H[m,n] = silu(X[m,k]:bf16 @ (V[k,n]:u4 - 8)) * (X[m,k]:bf16 @ (W[k,n]:u4 - 8))", {}, ""),
    (
        "H[m,n]:f32 = silu(X[m,k]:bf16 @ V[k,n]:e2m1 scale(none, 32x1:ue8m0)) * (X[m,k]:bf16 @ W[k,n]:e2m1 "
        "scale(none, 32x1:ue8m0))",
        {},
        "",
    ),
    (f"C[n,m]:f32 = (B[k, {AT}]:u4 - {ZERO}) @ A[m,k]:bf16", {}, ""),
    ("C[m,n]:e4m3 scale(1x128) = A[m,k]:bf16 @ B[k,n]:i4", {}, ""),
    ("C[m,n] = relu(A[m,k]:bf16 @ B[k,n]:i4 + b[n])", {}, ""),
    ("C[m,n]:f32 = (A[m,k] * w[k]) @ (B[k,n]:u4 - 8)", {}, ""),
    (f"C[m,n]:f32 = A[m,k] @ (B[k, {AT}]:u4 - {ZERO}) with split=2", {}, "k"),
    (f"C[m,n]:f32 = A[m,k] @ (B[k, {AT}]:u4 - {ZERO}) with swap=1", {}, ""),
    (f"C[m,n]:f32 = A[m,k] @ (B[k, {AT}]:u4 - {ZERO}) scale(none, 64x1) with converters=1", {}, ""),
    (f"C[m,n]:f32 = A[m,k] @ (B[k, {AT}]:u4 - {ZERO}) with tile=128x96x64", {}, ""),  # words of no whole warpgroup
    (f"C[m,n]:f32 = A[m,k] @ (B[k, {AT}]:u4 - {ZERO}) with tile=128x64x32", {}, ""),
    (f"C[m,n]:f32 = A[m,k]:e4m3 @ (B[k, {AT}]:u4 - {ZERO}) with tile=128x32x64", {}, ""),
    ("C[m,n]:f32 = A[m,k] @ B[k,n]:e2m1 scale(none, 16x1:ue4m3) with tile=128x160x64", {}, ""),
]


@pytest.mark.once("target", "number")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(len(MORE)))
def test_other_programs(number: int, target: str) -> None:
    source, more, fixed = MORE[number]
    if target == "sm_120a":
        source = source.replace("128x160", "64x160")  # ptxas spills the larger one
    run(source, target, {"m": 40, "n": 144, "k": 156, **more}, fixed)


ODD = [
    ("C[m,n]:f32 = A[m,k]:i4 @ B[k,n]:u4", "k"),
    ("C[m,n]:f32 = A[m,k]:i4 @ B[k,n]:u4", ""),
    ("C[m,n]:f32 = A[m,k]:i4 @ (B[k,n]:u4 - Z[k/32,n])", "k"),
    ("C[m,n]:f32 = A[m,k]:e2m1 @ B[k,n]:e2m1 scale(1x64, 64x1)", ""),
]


@pytest.mark.parametrize(("source", "fixed"), ODD)
@pytest.mark.parametrize("target", TARGETS)
def test_rows_beside_it_may_end_in_half_a_byte(source: str, fixed: str, target: str) -> None:
    run(source, target, {"m": 40, "n": 144, "k": 73}, fixed)


BESIDE = [
    ("C[m,n]:f32 = A[m,k]:e2m1 @ B[k,n]:e2m1", "sm_100a"),
    ("C[m,n]:f32 = A[m,k]:e2m1 @ B[k,n]:e2m1", "sm_120a"),
    ("C[m,n]:f32 = A[k,m]:e2m1 @ B[n,k]:e2m1 scale(16x1:ue4m3, 1x16:ue4m3)", "sm_100a"),
    ("C[m,n]:f32 = A[m,k]:mxfp8 @ B[k,n]:e2m1 scale(32x1:ue8m0)", "sm_120a"),
    ("C[m,n]:f32 = A[m,k]:mxfp4 @ B[k,n]:e2m1 scale(32x1:ue8m0)", "sm_90a"),
]


@pytest.mark.parametrize(("source", "target"), BESIDE)
def test_what_is_multiplied_as_it_is_stored_elsewhere(source: str, target: str) -> None:
    run(source, target, {"m": 40, "n": 256, "k": 256})


@pytest.mark.parametrize("cluster", ["2x1", "1x2"])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_clusters_share_words(target: str, cluster: str) -> None:
    run(f"{AWQ} with cluster={cluster}", target, {"m": 300, "n": 288, "k": 156})


@pytest.mark.parametrize(
    ("target", "schedule"),
    [
        ("sm_90a", "swap=1, tile=128x8x64"),
        ("sm_90a", "swap=0, tile=64x256x64"),
        ("sm_100a", "tile=128x128x64"),
        ("sm_120a", "tile=64x128x64"),
    ],
)
def test_no_words_meet_in_a_bank(target: str, schedule: str) -> None:
    ran = run_on(f"{AWQ} with {schedule}", {"m": 16, "n": 256, "k": 256}, (), 3, 1e-5, target=target)
    assert ran.stats.counts["bank conflicts"] == 0


def test_the_order_is_that_of_the_words() -> None:
    """The same words, as columns in order, are other weights; as AWQ has them they are those that are repacked."""
    rng = np.random.default_rng(7)
    weights, zeros = (rng.integers(-(1 << 31), 1 << 31, (rows, 8), np.int32) for rows in (64, 2))
    a, scales = rng.integers(-2, 3, (5, 64)).astype(np.float16), np.ones((2, 64), np.float16)
    text = AWQ.replace("128", "32")

    def made(source: str, *operands: object) -> NDArray[np.float32]:
        kernel = scalec.compile(source, target="sm_90a")
        kernel.fixed = emulated.EmulatedDevice("sm_90a")
        return np.asarray(kernel(a, *operands))

    b, z, scale = awq_weights(weights, zeros, scales)
    repacked = made("C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:u4 - Z[k/32,n]:u4) scale(none, 1x32:f16@col)", b, z, scale)
    assert (made(text, weights, zeros, scales) == repacked).all()
    columns = (8 * np.arange(8)[:, None] + np.argsort(AWQ_ORDER)).reshape(-1)
    plain = made(text.replace(AT, "n"), weights, zeros, scales)
    assert (plain[:, columns] == repacked).all()
    assert (plain != repacked).any()


def test_words_alone_tell_whole_eights() -> None:
    kernel = scalec.compile(f"C[m,n]:f32 = A[m,k]:bf16 @ B[k, {AT}]:i4", target="sm_90a")
    kernel.fixed = emulated.EmulatedDevice("sm_90a")
    assert np.asarray(kernel(np.zeros((3, 16), ml_dtypes.bfloat16), np.zeros((16, 4), np.int32))).shape == (3, 32)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (np.zeros((16, 5), np.int32), "extent 20 along index 1 (8*ceil(n/8)), expected 16"),
        (np.zeros((16, 4), np.int64), "int64"),
        (np.zeros((4, 16), np.int32).T, "not contiguous along index 1"),
        (np.zeros((16, 3), np.int32), "multiple of 16"),
    ],
)
def test_words_that_no_kernel_reads(words: NDArray[np.generic], message: str) -> None:
    n = 24 if words.shape[1] == 3 else 32
    kernel = scalec.compile(f"C[m,n]:f32 = A[m,k]:bf16 @ B[k, {AT}]:i4 scale(none, 16x1)", target="sm_90a")
    kernel.fixed = emulated.EmulatedDevice("sm_90a")
    with pytest.raises(ArgumentError) as refusal:
        kernel(np.zeros((3, 16), ml_dtypes.bfloat16), words, np.ones((1, n), np.float32))
    assert message in str(refusal.value), str(refusal.value)


def test_zero_points_in_words_begin_with_one() -> None:
    kernel = scalec.compile(AWQ, target="sm_90a")
    kernel.fixed = emulated.EmulatedDevice("sm_90a")
    points = np.zeros((1, 18), np.uint8)
    operands = np.zeros((3, 16), np.float16), np.zeros((16, 4), np.int32)
    assert kernel(*operands, points[:, :16], np.ones((1, 32), np.float16)).shape == (3, 32)
    with pytest.raises(ArgumentError, match="multiple of 4"):
        kernel(*operands, points[:, 2:], np.ones((1, 32), np.float16))


ALONG_K = AT.replace("n", "k")
test_refused = refusals(
    [
        (f"C[m,n] = A[m,k] @ B[n, {ALONG_K}]:u4", "expected: elements in order, as k is summed"),
        ("C[m,n] = A[m,k] @ B[k, n/16*16 + n%2*8 + n%16/2]:u4", "has a computed index"),
        ("C[m,n] = A[m,k] @ B[k, n/8*8 + n%2*4 + n%8/4]:u4", "has a computed index"),
        (f"C[m,n] = A[m,k] @ B[k, {AT}]:e4m3", "has a computed index"),
        ("C[m,n] = A[m,k] @ relu(B[k,n]:i4):bf16", "is contiguous along n"),
        ("C[m,n] = A[m,k] @ B[k,idx[n]]:i4", "idx[n]"),
        ("C[m,n] = A[m,k] @ B[idx[k],n]:i4", "is read through memory along k"),
        ("C[m,n] = A[m,k] @ B[k,t[n/8],n%8]:i4", "has pages of n"),
        ("G[m,n] = X[m,k] @ W[k,n]:i4; U[m,n] = X[m,k] @ W[k,n+size(n)]:i4; H[m,n] = G * U", "share a byte"),
        ("C[g,m,n] = A[m,k] @ B[k,n]:i4 for n in off[g]:off[g+1]", "tiles that begin at multiples of 32"),
        ("C[m,n] = A[m,k] @ (B[k,n]:u4 - Z[k/8,n])", "one zero point for each 8"),
        ("C[m,n] = A[m,k] @ B[k,n]:i4 scale(none, 8x1:f16)", "one scale for each 8 elements of k"),
        ("C[m,n] = (A[k,m]:u4 - 8) @ (B[k,n]:u4 - 8)", "A and B have zero points"),
        ("C[m,n] = A[m,k]:i4 @ (B[k,n]:u4 - 8)", "may end in half a byte"),
        (AWQ.replace("128x1:f16", "1x128:f16@col"), "fix: say 128x1, as B has k before n"),
        ("C[m,n] = A[m,k]:e4m3 @ B[k,n]:e4m3 scale(1x128, 1xn)", "fix: quantise B in blocks of 16 along k"),
        (f"C[m,n] = A[m,k]:f16 @ B[k, {AT}]", "fix: say a type of 4 bits, B[k, "),
    ]
)


def test_registers_take_rows_along_k() -> None:
    with pytest.raises(ScheduleError, match="a thread has elements that are adjacent along k"):
        scalec.compile(f"{AWQ} with convert=registers, swap=1", target="sm_90a")


@pytest.mark.parametrize("target", TARGETS)
def test_no_converters_are_refused(target: str) -> None:
    with pytest.raises(ScheduleError, match="converters=0, and an operand is converted"):
        scalec.compile("C[m,n] = A[m,k]:f16 @ B[k,n]:u4 with converters=0", target=target)


def test_half_a_byte_behind_zero_points_is_in_no_range() -> None:
    """n is odd, and the most that the kernel was compiled for; the bytes of Z have an element more."""
    source = "C[m,n]:f32 = A[m,k]:f16 @ (B[k/8,n,k%8]:u4 - Z[k/32,n])"
    program = scalec.compile(source, target="sm_90a", dims={"n": Range(33, 63)})
    assert isinstance(program, Program)
    (kernel,) = program.kernels
    kernel.fixed = emulated.EmulatedDevice("sm_90a")
    words, points = np.zeros((4, 64, 4), np.uint8), np.zeros((1, 32), np.uint8)
    assert np.asarray(kernel(np.zeros((3, 32), np.float16), words[:, :63], points)).shape == (3, 63)
    with pytest.raises(ArgumentError, match="compiled for n = 33:63"):
        kernel(np.zeros((3, 32), np.float16), words, points)
