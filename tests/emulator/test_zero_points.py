"""Integer weights less their zero points: of memory and one number, on both sides, at every granularity."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.errors import ArgumentError
from scalec.frontend import build
from scalec.ir import context
from scalec.reference.packing import numpy_dtype, pack4
from scalec.runtime.emulated import EmulatedDevice
from scalec.zero_points import RANGES, SHIFTED, converts, takes_zeros
from tests.emulator.running import TARGETS, refusals, run_on
from tests.tiers import SEEDS

PROGRAMS = {
    "bf16": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/128]:u4) scale(none, 1x128:f16)",
    "e4m3": "C[m,n]:f32 += A[m,k]:e4m3 @ (B[n,k]:u4 - Z[n,k/128]:u4) scale(1x128, 1x128:f16)",
    "tf32": "C[m,n]:f32 = A[m,k]:tf32 @ (B[n,k]:u4 - Z[n,k/32]) scale(none, 1x32:f16)",
    "f16, rows contiguous": "C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:u4 - Z[k/64,n]) scale(none, 1x64:f16)",
    "left": "C[m,n]:f32 = (A[m,k]:u4 - Z[m,k/64]) @ B[n,k]:bf16 scale(1x64:bf16, none)",
    "8": "C[m,n]:bf16 = A[m,k]:bf16 @ (B[n,k]:u4 - 8) scale(none, 1x128:f16)",
    "e4m3, 8": "C[m,n]:f32 = A[m,k]:e4m3 @ (B[n,k]:u4 - 8) scale(1x128, 1x128:f16)",
    "e4m3, 7": "C[m,n]:f32 = A[m,k]:e4m3 @ (B[n,k]:u4 - 7) scale(1x128, 1x128:f16)",
    "100": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:i4 - 100)",
    "i8": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/128]:i8) scale(none, 1x128:f16)",
    "e4m3, i8": "C[m,n]:f32 = A[m,k]:e4m3 @ (B[n,k]:u4 - Z[k/128,n]:i8) scale(1x128, 1x128:f16)",
    "i4 by rows": "C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:i4 - Z[n/16]:i4) scale(none, 1xk:f16)",
    "u4 - i4": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n/3,k/16]:i4)",
    "blocks of rows, packed": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[k/48,n/3])",
    "by K alone": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[k/256]:u4) scale(none, 1x64)",
    "ue4m3 folded": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/32]) scale(none, 1x32:ue4m3)",
    "ue4m3 not folded": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:i4 - Z[n,k/32]) scale(none, 1x32:ue8m0)",
    "u4 alone": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:u4 scale(1x128, 1x128:f16)",
    "u4 as 16 bits": "C[m,n]:f32 = A[m,k]:u4 @ B[n,k]:f16 scale(1x64:f16, none)",
}

SIZES: list[tuple[dict[str, int], tuple[str, ...]]] = [
    ({"m": 80, "n": 144, "k": 416}, ("n", "k")),
    ({"m": 1, "n": 272, "k": 160}, ("m", "n", "k")),
    ({"m": 300, "n": 15, "k": 1056}, ()),
]
"""Sizes, and which of them the kernel knows: tails of tiles along each dimension, and of blocks along K."""


@pytest.mark.once("target", "name", "size")
@pytest.mark.parametrize("size", range(len(SIZES)))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(target: str, name: str, size: int) -> None:
    (dims, fixed), program = SIZES[size], PROGRAMS[name]
    run_on(program, dims, fixed, 3, 1e-2 if ":bf16 =" in program else 1e-5, target=target)


MORE: list[tuple[str, dict[str, int]]] = [
    ("C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/128]) scale(none, 1x128:f16)", {"n": 1, "k": 8}),
    ("C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/128]) scale(none, 1x128:f16)", {"n": 3, "k": 0}),
    ("C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/16])", {"n": 3, "k": 264}),
    ("C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[k/64,n]:i8)", {"n": 3, "k": 264}),
    ("C[m,n]:bf16 = silu(A[m,k]:f16 @ (B[n,k]:u4 - Z[n,k/128]) scale(none, 1x128)) + x[m,n]", {}),
    ("C[m,n]:f32 += A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/64]) scale(none, 1x64)", {}),
    ("C[m,b,n]:f32 = A[b,m,k]:bf16 @ (B[b,n,k]:u4 - Z[b,k/128,n]) scale(none, 1x128)", {"b": 2}),
    ("C[m,n]:f32 = A[m,b,k]:bf16 @ (B[n,b,k]:u4 - Z[n,b,k/64]) scale(none, 1x1x64:f16)", {"b": 2}),
    ("C[m,h,n]:f32 = A[m,k]:bf16 @ (B[h,n,k]:u4 - Z[n,h]:i8) scale(none, 1x1x64)", {"h": 2}),
    ("C[m,n]:bf16 = A[m,k]:e4m3 @ (B[e[m/16],n,k]:u4 - Z[e[m/16],n,k/128]) scale(1x128, 1x128:f16)", {"B_0": 3}),
    ("C[m,n]:f32 = A[m,k]:bf16 @ (B[e[m/16],n,k]:u4 - Z[e[m/16]/2,n,k/64])", {"B_0": 5}),
    ("C[m,n]:f16 = A[m,k]:bf16 @ (B[g,n,k]:u4 - Z[g,n,k/64]) scale(none,1x64) for m in off[g]:off[g+1]", {"g": 3}),
    ("C[g,m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/64]) scale(none, 1x64) for k in off[g]:off[g+1]", {"g": 3}),
    ("C[g,m,n]:f32=A[m,k]:bf16@(B[n,k]:u4-Z[n,k/64]) scale(none,1x64) for k in off[g]:off[g+1] by 32 apart", {"g": 3}),
    ("C[m,n]:f32 = A[idx[m],k]:bf16 @ (B[n,k]:u4 - Z[n,k/128]) scale(none, 1x128)", {"A_0": 50}),
    ("C[m,n]:f32 = (A[idx[m],k]:u4 - 8) @ B[n,k]:f16 scale(1x64:bf16, none)", {"A_0": 50}),
]
"""With what else programs have, and further sizes."""


@pytest.mark.once("target", "program")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("program", "sizes"), MORE)
def test_more(program: str, sizes: dict[str, int], target: str) -> None:
    dims = {"m": 80, "n": 144, "k": 288, **sizes}
    fixed = tuple(d for d in "nk" if d not in sizes)
    run_on(program, dims, fixed, 3, 1e-5 if "]:f32" in program else 2e-2, target=target)


IN_REGISTERS = [x for x in PROGRAMS if x not in ("tf32", "u4 alone")]


@pytest.mark.once("size")
@pytest.mark.parametrize("size", range(len(SIZES)))
@pytest.mark.parametrize("name", IN_REGISTERS)
def test_in_registers(name: str, size: int) -> None:
    (dims, fixed), program = SIZES[size], PROGRAMS[name]
    swap = int(")" not in program.partition("@")[0] and ":u4 @" not in program)
    program = f"{program} with convert=registers, swap={swap}"
    run_on(program, dims, fixed, 3, 1e-2 if ":bf16 =" in program else 1e-5)


OTHERS = [x for x in MORE if not any(some in x[0] for some in ("for k in", "(A[idx"))]


@pytest.mark.once
@pytest.mark.parametrize(("program", "sizes"), OTHERS)
def test_more_in_registers(program: str, sizes: dict[str, int]) -> None:
    """Groups, batches, sums over two indices, rows of the other operand that are gathered."""
    dims = {"m": 24, "n": 144, "k": 288, **sizes}
    fixed = tuple(d for d in "nk" if d not in sizes)
    program = f"{program} with convert=registers, swap=1"
    run_on(program, dims, fixed, 3, 1e-5 if "]:f32" in program else 2e-2)


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
def test_random_tiles_in_registers(seed: int) -> None:
    """Any block of zero points by any tile, one row of activations and more."""
    rng = np.random.default_rng(100 + seed)
    made, stored, zeros = (str(rng.choice(x)) for x in (("bf16", "f16", "e4m3"), SHIFTED, list(RANGES)))
    zeros = stored if made == "e4m3" else zeros
    at = [f"k/{16 * rng.integers(1, 20)}", str(rng.choice(["n", "n/2", "n/7"]))]
    scale = int(rng.choice([32, 64, 128]))
    program = f"C[m,n]:f32 = A[m,k]:{made} @ (B[n,k]:{stored} - Z[{','.join(rng.permutation(at))}]:{zeros})"
    tile = f"{64 * rng.integers(1, 5)}x{8 * rng.integers(1, 9)}x{64 * rng.integers(1, 3)}"
    left = "none" if made != "e4m3" else "1x128"
    tail = f" scale({left}, 1x{scale}:f16) with swap=1, convert=registers, tile={tile}, split={rng.integers(1, 3)}"
    dims = {"m": int(rng.integers(1, 70)), "n": int(rng.integers(1, 300)), "k": 8 * int(rng.integers(1, 90))}
    fixed = ("k", *(d for d in "mn" if rng.integers(2)))  # which is split
    run_on(program + tail, dims, fixed, seed, 1e-5)


SCHEDULES = [
    ("sm_90a", "bf16", "tile=64x64x64, swap=1, convert=shared"),
    ("sm_90a", "bf16", "tile=128x64x64, cluster=1x2, converters=1"),
    ("sm_90a", "bf16", "tile=128x32x64, cluster=2x1, split=2, parts=cluster, convert=shared"),
    ("sm_90a", "bf16", "tile=64x64x64, split=3, convert=shared"),
    ("sm_90a", "bf16", "tile=192x40x64, converters=2, stages=3"),
    ("sm_90a", "e4m3", "tile=128x24x128, converters=2"),
    ("sm_90a", "tf32", "tile=64x24x32, stages=2"),
    ("sm_100a", "bf16", "tile=128x96x64, swap=1"),
    ("sm_100a", "bf16", "tile=128x32x64, cluster=4x1, stages=4, scheduler=dynamic"),
    ("sm_100a", "e4m3", "tile=128x64x128, cluster=1x1, split=2"),
    ("sm_120a", "left", "swap=1"),
    ("sm_120a", "e4m3", "tile=128x32x128, split=2"),
]


@pytest.mark.once("target", touches=lambda schedule, **_: re.findall(r"\w+(?==)", schedule))
@pytest.mark.parametrize(("target", "name", "schedule"), SCHEDULES)
def test_schedule(target: str, name: str, schedule: str) -> None:
    program, dims = PROGRAMS[name], {"m": 80, "n": 144, "k": 416}
    run_on(f"{program} with {schedule}", dims, ("n", "k"), 3, 1e-5, target=target, times=2)


EVERY = [
    (stored, zeros, made, convert)
    for stored in SHIFTED
    for zeros, bounds in RANGES.items()
    for made in converts(stored, *bounds)
    for convert in ("shared", "registers")
    if convert == "shared" or takes_zeros(stored, made)
]


@pytest.mark.once("convert", "made", "zeros")
@pytest.mark.parametrize(("stored", "zeros", "made", "convert"), EVERY)
def test_every_element_less_every_zero_point(stored: str, zeros: str, made: str, convert: str) -> None:
    """Row z of the weights has zero point z, and at 2i and 2i + 1 both halves of byte i: A picks each by itself."""
    codes = np.arange(256, dtype=np.uint8)
    elements = np.stack([codes & 15, codes >> 4], axis=-1).reshape(1, 512).view(numpy_dtype(stored))
    points = np.arange(16, dtype=np.uint8).view(numpy_dtype(zeros)) if zeros != "i8" else np.arange(-128, 128, 5)
    points = points.reshape(-1, 1).astype(numpy_dtype(zeros))
    weights = np.repeat(elements, len(points), axis=0)
    program = f"C[m,n]:f32 = A[m,k]:{made} @ (B[n,k]:{stored} - Z[n]:{zeros}) with swap=1, convert={convert}"
    kernel = scalec.compile(program, target="sm_90a")
    kernel.fixed = EmulatedDevice("sm_90a")
    given = pack(points[:, 0], zeros)
    got = np.asarray(kernel(np.eye(512, dtype=np.float32).astype(numpy_dtype(made)), pack4(weights), given))
    wanted = elements.astype(np.int32).T - points.astype(np.int32).T
    assert (got == wanted).all()


def pack(points: Any, kind: str) -> Any:
    """As a call takes them."""
    return points.astype(np.int8) if kind == "i8" else pack4(points)


@pytest.mark.parametrize("convert", ["shared", "registers"])
def test_differences_of_all_pairs_of_bytes_along_k(convert: str) -> None:
    """Zero points packed two in a byte, of 16 blocks along K: each half of each byte, at each element."""
    rng = np.random.default_rng(1)
    rows, k = 256, 512
    weights = rng.integers(0, 16, (rows, k)).astype(ml_dtypes.uint4)
    halves = np.stack([np.arange(256) & 15, np.arange(256) >> 4], axis=-1)
    points = np.concatenate([np.roll(halves, i, axis=0) for i in range(k // 64)], axis=1).astype(ml_dtypes.uint4)
    a = rng.integers(-2, 3, (3, k)).astype(ml_dtypes.bfloat16)
    program = f"C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/32]:u4) with swap=1, convert={convert}"
    kernel = scalec.compile(program, target="sm_90a")
    kernel.fixed = EmulatedDevice("sm_90a")
    got = np.asarray(kernel(a, pack4(weights), pack4(points)))
    shifted = weights.astype(np.float64) - np.repeat(points.astype(np.float64), 32, axis=1)
    assert (got == a.astype(np.float64) @ shifted.T).all()


test_refused = refusals(
    [
        ("C[m,n] = (A[m,k]:u4 - 8) @ (B[n,k]:u4 - 8)", "A and B have zero points"),
        ("C[m,n] = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/8])", "one zero point for each 8 elements of k"),
        ("C[m,n] = (A[idx[m],k]:u4 - Z[idx[m],k/64]) @ B[n,k]:bf16", "gathered by idx.*, and has zero points"),
        ("C[m,h,n] = A[m,k]:bf16 @ (B[h,n,k]:u4 - Z[n,h])", "u4, packed along h"),
        ("C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:i4 - 8); S[n]:f32 = sum[k](B[n,k])", "where B has zero points"),
    ]
)


def test_a_call_checks_zero_points() -> None:
    kernel = scalec.compile("C[m,n] = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/128]:u4)", target="sm_90a")
    kernel.fixed = EmulatedDevice("sm_90a")
    a, b = np.zeros((4, 512), ml_dtypes.bfloat16), np.zeros((8, 256), np.uint8)
    with pytest.raises(ArgumentError, match="Z"):
        kernel(a, b, np.zeros((8, 4), np.uint8))  # four blocks are two bytes
    with pytest.raises(ArgumentError, match="Z"):
        kernel(a, b, np.zeros((8, 2), np.float32))
    assert np.asarray(kernel(a, b, np.zeros((8, 2), np.uint8))).shape == (4, 8)


def test_blocks_of_groups_are_as_many_as_groups_need() -> None:
    with context.context():
        program = build("C[m,n] = A[m,k]:bf16 @ (B[e[m/16],n,k]:u4 - Z[e[m/16]/2,n,k/64])")
        values = reference.make(program, {"m": 80, "n": 3, "k": 100, "B_0": 5})
    assert (values["B"].shape, values["Z"].shape) == ((5, 3, 100), (3, 3, 2))
