"""Reductions of an operand along K beside its product, which the warps take that convert it: on every target, at tails
of every dimension, for operands that are converted anyway and for others, and over nothing."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.checking.launch import made_up
from scalec.errors import ArgumentError, DeviceError, ScheduleError
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from tests.emulator.running import TARGETS, refusals
from tests.emulator.test_several_results import launched, run

PRENORM = "D[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:tf32; S[m]:f32 = sum[k](A[m,k]^2)"

SIZES = [
    ({"m": 1, "n": 24, "k": 8}, ""),
    ({"m": 13, "n": 24, "k": 200}, "nk"),
    ({"m": 137, "n": 24, "k": 136}, "n"),
    ({"m": 300, "n": 72, "k": 96}, "nk"),
    ({"m": 64, "n": 264, "k": 64}, "mnk"),
    ({"m": 130, "n": 136, "k": 168}, ""),
    ({"m": 7, "n": 1, "k": 40}, "k"),
]
"""Rows of fewer and more tiles than one, columns of several, of which one alone writes."""


@pytest.mark.once("target")
@pytest.mark.parametrize(("dims", "fixed"), SIZES)
@pytest.mark.parametrize("target", TARGETS)
def test_squares_of_rows(target: str, dims: dict[str, int], fixed: str) -> None:
    run(PRENORM, target, dims, fixed)


PROGRAMS = [
    "D[m,n] = A[m,k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k])",
    "S[n]:bf16 = max[k](abs(B[n,k])); D[m,n] = relu(A[m,k] @ B[n,k])",
    "D[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:bf16; S[m]:f32 = sum[k](silu(A[m,k])); T[n]:f16 = min[k](B[n,k] - 3)",
    "D[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:e2m1; S[n]:f32 = sum[k](exp(B[n,k])); T[n]:f32 = max[k](alpha * B[n,k])",
    "D[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:tf32; S[m]:f32 = sqrt(sum[k](A[m,k]^2) * alpha + 0.5)",
    "D[n,m]:f32 = A[m,k]:f16 @ B[n,k]:f16; S[m]:f32 = sum[k](A[m,k]^2); T[m]:f32 = max[k](A[m,k])",
    "D[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3; S[m]:e4m3 = max[k](abs(A[m,k])) / 448",
    "D[b,m,n]:f32 = A[b,m,k]:bf16 @ B[n,k]:tf32; S[b,m]:f32 = sum[k](A[b,m,k]^2); T[n]:f32 = sum[k](abs(B[n,k]))",
    "D[h,m,n]:f32 = A[m,k]:bf16 @ B[h,n,k]:tf32; S[m]:f32 = sum[k](A[m,k]^2)",
    "D[m,n]:f32 = A[m,b,k]:bf16 @ B[n,b,k]:tf32; S[m]:f32 = sum[b,k](exp(A[m,b,k])); T[m]:f32 = max[b,k](A[m,b,k])",
    "D[m,b,n]:f32 = A[m,b,k]:bf16 @ B[b,n,k]:tf32; S[m,b]:f32 = sum[k](A[m,b,k]^2)",
    "D[b,m,n]:f32 = A[m,b,k]:bf16 @ B[n,b,k]:tf32; S[b,m]:f32 = sum[k](A[m,b,k]^2)",
    "D[b,m,n]:f32 = A[b,m,k]:bf16 @ B[b,n,k]:tf32; S[m,b]:f32 = sum[k](A[b,m,k]^2); T[n,b]:f32 = max[k](B[b,n,k])",
    "D[m,n] = A[m,k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k] * w[k]); T[m]:f32 = max[k](A[m,k] * r[m])",
]


@pytest.mark.once("target", "program")
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("target", TARGETS)
def test_reductions(target: str, program: str) -> None:
    dims = {"m": 77, "n": 144, "k": 112}
    dims |= {"b": 2} if "[b," in program or "b,k]" in program or ",b," in program else {}
    dims |= {"h": 2} if "[h," in program else {}
    if "e2m1" in program:
        dims["k"] = 128
    run(program, target, dims, "nk" if "f16" in program else "", seed=5)


@pytest.mark.thorough
@pytest.mark.parametrize("program", [x for x in PROGRAMS if "S[m]:e4m3" not in x])
def test_reductions_by_consumers(program: str) -> None:
    """Of the operand that is made in registers; the other's warps reduce in shared memory."""
    k = 160 if "e2m1" in program else 136  # no whole tiles: what is behind K's end must not be reduced
    dims = {"m": 77, "n": 144, "k": k} | {x: 2 for x in "bh" if f"{x}," in program or f",{x}]" in program}
    swap = ", swap=1" if "S[n]" in program and "e2m1" in program else ""
    kernel, _ = run(f"{program} with convert=registers{swap}", "sm_90a", dims, "nk", seed=5)
    assert "wgmma" in kernel.ptx


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_end_within_16_bytes(target: str) -> None:
    """What is behind them is 0 in a tile: neither the smallest of what is above 0, nor a term of exp."""
    of_a, of_b = "S[m]:f32 = min[k](A[m,k]); T[m]:f32 = sum[k](exp(A[m,k]))", "U[n]:f32 = min[k](B[n,k])"
    k = 67
    kernel = scalec.compile(f"D[m,n]:f32 = A[m,k] @ B[n,k]; {of_a}; {of_b}", target, {"m": 17, "n": 23, "k": k})
    wide = np.random.default_rng(k).uniform(1, 2, (40, 72)).astype(ml_dtypes.bfloat16)
    _, least, sums, others = kernel(wide[:17, :k], wide[17:, :k])
    exact = wide[:, :k].astype(np.float64)
    assert np.array_equal(least, exact[:17].min(1))
    assert np.array_equal(others, exact[17:].min(1))
    assert np.allclose(sums, np.exp(exact[:17]).sum(1), rtol=1e-5)


@pytest.mark.once("target", "program")
@pytest.mark.parametrize("program", [PROGRAMS[2], PROGRAMS[9], PRENORM])
@pytest.mark.parametrize("target", TARGETS)
def test_of_nothing(target: str, program: str) -> None:
    """A sum of nothing is 0, the largest of none -inf: whatever a body makes of 0."""
    dims = {"m": 70, "n": 24, "k": 0} | ({"b": 2} if "b,k]" in program else {})
    _, made = run(program, target, dims)
    assert (made["S"] == 0).all()
    for name, value in (("T", np.inf if "min[k]" in program else -np.inf),):
        if name in made:
            assert (made[name] == value).all()
    if "b,k]" in program:
        run(program, target, dims | {"b": 0, "k": 16}, "nk")


SCHEDULES = [
    ("sm_90a", "tile=64x24x32, stages=2"),
    ("sm_90a", "swap=1, tile=64x32x32"),
    ("sm_90a", "tile=256x24x32, warpgroups=2, stages=3"),
    ("sm_90a", "tile=192x8x16, swizzle_a=64, swizzle_b=64"),
    ("sm_90a", "tile=128x24x32, cluster=2x1"),
    ("sm_90a", "tile=64x8x32, cluster=1x2"),
    ("sm_90a", "convert=registers"),
    ("sm_90a", "convert=registers, tile=128x24x64, cluster=2x1"),
    ("sm_90a", "convert=registers, tile=192x16x32, stages=3"),
    ("sm_100a", "swap=1"),
    ("sm_100a", "tile=128x16x32, scheduler=dynamic"),
    ("sm_120a", "swap=1"),
    ("sm_120a", "tile=32x32x32, scheduler=dynamic"),
]


@pytest.mark.once("target")
@pytest.mark.parametrize(("target", "schedule"), SCHEDULES)
def test_schedules(target: str, schedule: str) -> None:
    run(f"{PRENORM} with {schedule}", target, {"m": 141, "n": 40, "k": 104}, "nk")


SPLITS = [
    ("sm_90a", "split=4, parts=memory, convert=shared"),
    ("sm_90a", "split=3, parts=columns, convert=shared"),
    ("sm_90a", "split=8, parts=cluster, tile=64x24x32"),
    ("sm_90a", "split=40, tile=64x16x32"),
    ("sm_90a", "swap=1, tile=64x64x32, split=5"),
    ("sm_90a", "split=2, cluster=2x1, tile=128x24x32"),
    ("sm_90a", "convert=registers, split=5, tile=64x24x32"),
    ("sm_90a", "convert=registers, split=2, parts=cluster, tile=128x24x64"),
    ("sm_100a", "split=4"),
    ("sm_100a", "split=33, tile=128x16x32"),
    ("sm_100a", "swap=1, split=3"),
    ("sm_100a", "split=2, scheduler=dynamic"),
    ("sm_120a", "split=8"),
    ("sm_120a", "swap=1, tile=32x32x32, split=36"),
]
"""Parts of K, more than a row's lanes, than the last CTA adds at once, and of two lengths."""


@pytest.mark.once("target")
@pytest.mark.parametrize(("target", "schedule"), SPLITS)
def test_parts_of_k(target: str, schedule: str) -> None:
    """Each with sums of its own; what is launched again, with the counters as they were left, gives the same bits."""
    kernel, _ = run(f"{PRENORM} with {schedule}", target, {"m": 70, "n": 24, "k": 1304}, "nk")
    warps = 4 * (2 if "registers" in schedule and "tile=128" in schedule else 1)
    assert kernel.spec.launch.arrivals == warps
    assert kernel.spec.launch.partial_bytes


@pytest.mark.once("target")
@pytest.mark.parametrize("program", [x for x in PROGRAMS if "e4m3 = max" not in x])
@pytest.mark.parametrize("target", TARGETS)
def test_parts_of_programs(target: str, program: str) -> None:
    dims = {"m": 77, "n": 144, "k": 640} | {x: 2 for x in "bh" if f"{x}," in program or f",{x}]" in program}
    run(f"{program} with split=3", target, dims, "".join(x for x in "nkb" if x in dims), seed=6)


@pytest.mark.thorough
@pytest.mark.parametrize("target", TARGETS)
def test_reductions_of_results_beside_parts(target: str) -> None:
    """Both have room in the workspace, and counters: of the two tiles of a row, of sections of a column, and all."""
    product, squares = PRENORM.replace("D[m,n]:f32", "P[m,n]").split("; ")
    program = f"{product}; D[m,n]:f32 = P; {squares}; R[m]:f32 = max[n](P); T[n]:f32 = sum[m](P) with split=4"
    kernel, _ = run(program, target, {"m": 141, "n": 72, "k": 1024}, "nk")
    assert kernel.spec.launch.arrivals == 1 + 2 + 4


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"atom\.acq_rel(\.gpu\.global\.inc)", r"atom.relaxed\1", "race: .* is read here"),
        (r"(acq_rel\.gpu\.global\.)inc", r"\1add", "race: .* is written here"),  # not 0 again for the next launch
    ],
)
def test_the_emulator_sees_a_fault(old: str, new: str, message: str) -> None:
    program, dims = f"{PRENORM} with split=4, parts=cluster", {"m": 70, "n": 24, "k": 1024}
    made = scalec.compile(program, target="sm_90a", dims={"n": 24, "k": 1024})
    ptx, count = re.subn(old, new, made.ptx)
    assert count == 1
    kernel = Kernel(made.spec, b"", ptx=ptx)
    kernel.fixed = emulated.EmulatedDevice("sm_90a")
    with pytest.raises(DeviceError, match=message):
        launched(kernel, *made_up(program, dims, 3), dims, 3)


def test_long_k_of_few_rows_is_split() -> None:
    """One CTA took 131 us for 13 rows of 28672 on an H100 (2026-11-26), 64 parts 7.5 (2026-11-28)."""
    kernel = scalec.compile(PRENORM, target="sm_90a", dims={"m": 13, "n": 24, "k": 28672})
    assert kernel.spec.launch.split == 64


RANGE = "for m in off[g]:off[g+1]"
GROUPED = [
    f"D[m,n]:f32 = A[m,k]:bf16 @ B[g,n,k]:bf16 {RANGE}; S[m]:f32 = sum[k](A[m,k]^2) {RANGE}",
    f"D[m,n]:f32 = (A[m,k] * w[k]) @ B[g,n,k] {RANGE}; S[m]:f32 = sum[k]((A[m,k] * w[k])^2) {RANGE}",
    f"D[m,n] = A[m,k]:e4m3 @ B[g,n,k]:bf16 {RANGE} with swap=1; S[m]:f32 = max[k](abs(A[m,k])) {RANGE}",
    "D[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]; S[g,m]:f32 = min[k](A[g,m,k]) for m < rows[g]",
    "D[b,m,n]:f32 = A[b,m,k] @ B[g,n,k] for m in off[b,g]:off[b,g+1];"
    " S[b,m]:f32 = sum[k](A[b,m,k]^2) for m in off[b,g]:off[b,g+1]",
    "D[m,n]:f32 = A[m,k] @ B[n,k]:tf32 for n < rows[0]; S[n]:f32 = sum[k](B[n,k]^2) for n < rows[0]",
]


@pytest.mark.once("target", "program")
@pytest.mark.parametrize(("m", "n", "k"), [(77, 300, 136), (150, 40, 0), (1, 8, 64)])
@pytest.mark.parametrize("program", GROUPED)
@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_groups(target: str, program: str, m: int, n: int, k: int) -> None:
    """Each row once, by the tile of its group that has the first columns; rows of no group stay as they are."""
    words = re.findall(r"\w+", program)
    sizes = {"m": m, "n": n, "k": k} | {x: count for x, count in (("g", 3), ("b", 2)) if x in words}
    run(program, target, sizes, "nk" if k == 136 else "", 5)


NAMED = [
    ("D[m,n]:f32 = A[idx[m],k] @ B[n,k]; S[m]:f32 = sum[k](A[idx[m],k]^2)", {"A_0": 40}),
    ("D[m,n]:f32 = A[idx[m],k]:bf16 @ B[n,k]:tf32; S[m]:f32 = sum[k](A[idx[m],k])", {"A_0": 40}),
    ("D[m,n]:f32 = relu(A[idx[m],k]) @ B[n,k]; S[m]:f32 = sum[k](relu(A[idx[m],k]))", {"A_0": 40}),
    ("D[m,n]:f32 = A[m,k] @ B[idx[n],k]; S[n]:f32 = max[k](abs(B[idx[n],k])); T[m] = sum[k](A[m,k]^2)", {"B_0": 40}),
    ("D[m,n]:f32 = A[idx[m],k] @ B[n,k]; S[m]:f32 = sum[k](A[idx[m],k] * w[k] * r[m])", {"A_0": 40}),
    ("D[b,m,n]:f32 = A[idx[b,m],k] @ B[n,k]; S[b,m]:bf16 = sum[k](A[idx[b,m],k]^2)", {"A_0": 40, "b": 2}),
    (f"D[m,n]:f32 = A[idx[m],k] @ B[g,n,k] {RANGE}; S[m]:f32 = sum[k](A[idx[m],k]^2) {RANGE}", {"A_0": 40, "g": 3}),
    ("D[idx[m],n]:f32 = A[m,k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k]^2)", {"D_0": 90}),
    ("D[m,n]:f32 = A[m,k] @ B[n,k] + x[idx[m],n]; S[m]:f32 = sum[k](A[m,k]^2)", {"x_0": 40}),
    ("D[s,m,n]:f32 = A[s,m,k] @ B[t[s,n/64],n%64,k]; S[s,m]:f32 = sum[k](A[s,m,k]^2)", {"s": 2, "B_0": 5, "n": 128}),
]  # fmt: skip


@pytest.mark.once("target", "named")
@pytest.mark.parametrize("named", range(len(NAMED)))
@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_memory_names(target: str, named: int) -> None:
    """A row without an index is not written; what names rows of anything else leaves none out."""
    program, more = NAMED[named]
    run(program, target, {"m": 77, "n": 144, "k": 112, **more}, "", 5)


@pytest.mark.thorough
@pytest.mark.parametrize("target", TARGETS)
def test_parts_of_rows_that_memory_names(target: str) -> None:
    run(f"{NAMED[0][0]} with split=3", target, {"m": 77, "n": 72, "k": 640, "A_0": 40}, "nk", 6)


def test_several_converters_are_refused() -> None:
    with pytest.raises(ScheduleError, match="S is"):
        scalec.compile(f"{PRENORM} with converters=2", target="sm_90a", dims={"n": 24, "k": 4096})


test_refused = refusals(
    [
        ("D[m,n] = A[m,k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k]*E[m,k])", "it is not one of A or B"),
        ("D[m,n] = A[m,k] @ B[n,k]; S[k]:f32 = sum[m](A[m,k])", "it runs over m"),
        ("D[m,n] = A[m,k]:mxfp8 @ B[n,k]:bf16; S[n]:f32 += sum[k](B[n,k])", r"S is accumulated into \(\+=\)"),
        ("D[m,n] = A[m,k] @ B[n,k]; S[m]:i32 = sum[k](A[m,k])", "S is i32"),
        ("D[m,n] = A[k,m] @ B[n,k]; S[m]:f32 = sum[k](A[k,m])", "A is contiguous along m"),
        ("D[m,n] = A[m,k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k]) * x[m]", "S reads a tensor beside it"),
        ("D[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128); S[m]:f32 = sum[k](A[m,k])", "A has scales"),
        ("D[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1xk,none); S[m]:f32 = sum[k](A[m,k])", "A has scales"),
        ("D[m,n] = A[idx[m],k] @ B[n,k]; S[idx[m]]:f32 = sum[k](A[m,k])", "a reduction beside the contraction"),
        ("D[m,n] = A[idx[m],k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k])", "it is not one of A or B"),
        ("D[m,n] = A[idx[m],k] @ B[n,k]; S[m]:f32 = sum[k](A[p[m],k])", "it is not one of A or B"),
        ("D[b,m,n] = A[b,m,k] @ B[e[b],n,k]; S[b,m]:f32 = sum[k](A[b,m,k])", r"got: e\[b\]"),
        (f"D[m,n] = A[m,k] @ B[g,n,k] {RANGE}; S[m]:f32 = sum[k](A[m,k])", "the product has a range that it has not"),
        (
            "D[m,n] = A[m,k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k]) for m < rows[0]",
            "it has a range that the contraction has not",
        ),
        (f"D[m,n] = A[m,k] @ B[g,n,k] {RANGE}; S[g,n]:f32 = sum[k](B[g,n,k])", "a range of another index than n"),
        ("D[m,n] = A[m,k] @ B[n,k] for m < rows[0]; S[n]:f32 = sum[k](B[n,k])", "a range of another index than n"),
        ("D[m,n] = A[m,k] @ B[e[m/16],n,k]; S[m]:f32 = sum[k](A[m,k])", "an index read from memory"),
        ("D[m,n] = A[m,k]:i8 @ B[n,k]:i8; S[m]:f32 = sum[k](A[m,k])", r"A is i8, multiplied as i8\n(.*\n)*.*floating"),
    ]
)


def test_no_columns() -> None:
    """Where the product has none, nothing is launched, and who asks for the sums is told."""
    kernel = scalec.compile(PRENORM, target="sm_90a")
    kernel.fixed = emulated.EmulatedDevice("sm_90a")
    a, b = np.zeros((5, 16), ml_dtypes.bfloat16), np.zeros((0, 16), np.float32)
    with pytest.raises(ArgumentError, match="n = 0"):
        kernel(a, b)
    grouped = scalec.compile(GROUPED[0], target="sm_90a")
    grouped.fixed = emulated.EmulatedDevice("sm_90a")
    out = np.zeros((5, 0), np.float32), np.zeros(5, np.float32)
    with pytest.raises(ArgumentError, match="n = 0 leaves no tile to write S by"):
        grouped(a, np.zeros((1, 0, 16), ml_dtypes.bfloat16), np.array([0, 5], np.int32), out=out)
