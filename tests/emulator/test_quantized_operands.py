"""Operands that are quantised anew in the kernel, block by block: their elements, their scales, and what is promoted by
these, as the reference has them."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec import compiler, reference
from scalec.errors import ScheduleError, SourceError, UnsupportedError
from scalec.reference.packing import numpy_dtype
from scalec.runtime.emulated import EmulatedDevice
from tests.emulator.running import TARGETS, refusals, run_on
from tests.emulator.test_several_results import run

PROGRAMS = {
    "nvfp4": "C[m,n]:f32 = A[m,k]:e4m3 @ quantize(B[n,k]:nvfp4, e4m3, 1x128) scale(1x128)",
    "mxfp4": "C[m,n]:f32 = A[m,k]:e4m3 @ quantize(B[n,k]:mxfp4, e4m3, 1x128) scale(1x128)",
    "mxfp4 by ue8m0": "C[m,n]:f32 = A[m,k] @ quantize(B[n,k]:mxfp4, e4m3, 1x128:ue8m0) scale(1x128@col)",
    "mxfp8": "C[m,n]:f32 = quantize(A[m,k]:mxfp8, e4m3, 1x128) @ B[n,k] scale(128x128)",
    "bf16": "C[m,n]:f32 = quantize(A[m,k], e4m3, 1x128) @ B[n,k] scale(none, 128x128)",
    "f16, both": "C[m,n]:f32 = quantize(A[m,k]:f16, e4m3, 1x128) @ quantize(B[n,k]:f16, e4m3, 1x128)",
    "f32": "C[m,n]:f32 += quantize(A[m,k]:f32, e5m2, 1x128:ue8m0) @ B[n,k]:e4m3",
    "tf32 beside none": "C[m,n]:f32 = A[m,k]:e4m3 @ quantize(B[n,k]:tf32, e4m3, 1x128)",
    "e5m2 of f32@col": "C[m,n]:f32 = quantize(A[m,k]:e5m2, e4m3, 1x128) @ B[n,k] scale(1x32@col, 1x128)",
    "i4": "C[m,n]:f32 = A[m,k] @ quantize(B[n,k]:i4, e4m3, 1x128) scale(1x128, 1x64:bf16)",
    "i4 of 64x32": "C[m,n]:f32 = A[m,k]:e4m3 @ quantize(B[n,k]:i4, e4m3, 1x128) scale(none, 64x32)",
    "u4 - 8": "C[m,n]:f32 = A[m,k] @ quantize(B[n,k]:u4 - 8, e4m3, 1x128) scale(1x128@col, 1x128:f16@col)",
    "u4 - 8 times scales": "C[m,n]:f32 = A[m,k] @ quantize((B[n,k]:u4 - 8) scale(1x64:f16), e4m3, 1x128) scale(1x128)",
    "u4 - Z": "C[m,n]:f32 = A[m,k] @ quantize(B[n,k]:u4 - Z[k/32,n], e4m3, 1x128) scale(1x128, nx128:f16)",
    "ue4m3@blocked": "C[m,n]:f32 = A[m,k] @ quantize(B[n,k]:e2m1, e4m3, 1x128) scale(1x128, 1x16:ue4m3@blocked)",
    "blocks of 64": "C[m,n]:f32 = A[m,k] @ quantize(B[n,k]:nvfp4, e4m3, 1x64) scale(1x128)",
    "rows on the left": "C[m,n]:f32 = quantize(A[m,k]:nvfp4, e4m3, 1x128) @ B[n,k]:e4m3 scale(1xk)",
    "an expression": "C[m,n]:f32 = quantize(relu(A[m,k]:f16) * w[k] * r[m]:f32, e4m3, 1x128) @ B[n,k]:e4m3",
}
"""On all targets, of every type that is stored."""

SIZES: list[tuple[dict[str, int], tuple[str, ...]]] = [
    ({"m": 80, "n": 144, "k": 416}, ("n", "k")),
    ({"m": 9, "n": 40, "k": 160}, ()),
]


@pytest.mark.once("target", "name", "size")
@pytest.mark.parametrize("size", range(len(SIZES)))
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", TARGETS)
def test_program(target: str, name: str, size: int) -> None:
    dims, fixed = SIZES[size]
    run_on(PROGRAMS[name], dims, fixed, 3, 1e-5, target=target)


@pytest.mark.parametrize("to", ["e2m1, 1x128", "e2m1, 1x32:ue8m0", "e4m3, 1x16"])
def test_converted_behind_it(to: str) -> None:
    """What sm_90a multiplies as e4m3, and blocks as short as it promotes."""
    run_on(f"C[m,n]:f32 = quantize(A[m,k], {to}) @ B[n,k]:e2m1", *SIZES[0], 3, 1e-5)


ODD = [
    ("nvfp4", {"m": 1, "n": 1, "k": 8}, ()),
    ("nvfp4", {"m": 5, "n": 70, "k": 0}, ()),
    ("bf16", {"m": 1, "n": 131, "k": 136}, ("m",)),
    ("i4", {"m": 67, "n": 13, "k": 328}, ()),
    ("f16, both", {"m": 3, "n": 70, "k": 96}, ("n", "k")),
]
"""The last has one block, of less than its elements: its scales change along K no more than those of whole rows."""


@pytest.mark.once("target", "name")
@pytest.mark.parametrize(("name", "dims", "fixed"), ODD)
@pytest.mark.parametrize("target", TARGETS)
def test_odd_sizes(name: str, dims: dict[str, int], fixed: tuple[str, ...], target: str) -> None:
    run_on(PROGRAMS[name], dims, fixed, 5, 1e-5, target=target)


SCHEDULES = [
    ("sm_90a", "nvfp4", "tile=64x8x128, swap=1"),
    ("sm_90a", "nvfp4", "tile=128x64x128, cluster=1x2, stages=3, converters=1"),
    ("sm_90a", "nvfp4", "tile=128x64x128, cluster=2x1, split=2, parts=cluster"),
    ("sm_90a", "nvfp4", "tile=256x64x128, warpgroups=2, unroll=4"),
    ("sm_90a", "bf16", "tile=64x128x128, converters=2, stages=3"),
    ("sm_90a", "bf16", "tile=128x64x128, swap=1, split=3"),
    ("sm_90a", "f16, both", "tile=128x128x128, mma_n=64, stages=2"),
    ("sm_90a", "blocks of 64", "tile=64x48x128, promote=32"),
    ("sm_90a", "i4", "tile=64x24x64, swizzle_a=64, swizzle_b=64"),
    ("sm_100a", "nvfp4", "tile=128x64x128, swap=1, converters=2"),
    ("sm_100a", "bf16", "cluster=4x1, scheduler=dynamic"),
    ("sm_100a", "i4", "split=2, warpgroups=2"),
    ("sm_120a", "nvfp4", "tile=32x64x128, scheduler=dynamic"),
    ("sm_120a", "bf16", "tile=64x32x128, split=2, swap=1"),
]


@pytest.mark.once("target", touches=lambda schedule, **_: re.findall(r"\w+(?==)", schedule))
@pytest.mark.parametrize(("target", "name", "schedule"), SCHEDULES)
def test_schedule(target: str, name: str, schedule: str) -> None:
    if "x64," in schedule and name == "i4":
        with pytest.raises(ScheduleError, match="64 of k, and quantize\\(B\\) has a scale for each 128"):
            scalec.compile(f"{PROGRAMS[name]} with {schedule}", target=target)
        return
    dims = {"m": 80, "n": 144, "k": 416}
    run_on(f"{PROGRAMS[name]} with {schedule}", dims, ("n", "k"), 3, 1e-5, target=target, times=2)


MORE = [
    ("C[m,n]:bf16 = relu(A[m,k] @ quantize(B[n,k]:nvfp4, e4m3, 1x128) scale(1x128) + x[n]) * r[m]", {}),
    ("C[b,m,n]:f32 = A[b,m,k] @ quantize(B[b,n,k]:nvfp4, e4m3, 1x128) scale(1x128)", {"b": 2}),
    ("C[m,n]:f32 = quantize(A[m,b,k], e4m3, 1x128) @ B[n,b,k] scale(none, 1x1x128)", {"b": 2}),
    ("C[m,n]:bf16 = A[m,k] @ quantize(B[e[m/16],n,k]:nvfp4, e4m3, 1x128) scale(1x128)", {"B_0": 3}),
    (
        "C[m,n]:f32 = A[m,k] @ quantize(B[g,n,k]:i4, e4m3, 1x128) scale(1x128,1x64:f16) for m in off[g]:off[g+1]",
        {"g": 3},
    ),
    ("C[m,n]:f32 = quantize(A[m,k], e4m3, 1x128) @ B[g,n,k] scale(none,128x128) for m in off[g]:off[g+1]", {"g": 3}),
    ("C[g,m,n]:f32 = quantize(A[g,m,k], e4m3, 1x128) @ B[g,n,k] scale(none,128x128) for m < rows[g]", {"g": 3}),
    ("C[m,n]:f32 = quantize(A[idx[m],k], e4m3, 1x128) @ B[n,k] scale(none,128x128)", {"A_0": 50}),
    ("C[m,n]:f32 = quantize(A[idx[m],k]:i4, e4m3, 1x128) @ B[n,k] scale(32x64, 128x128)", {"A_0": 50}),
    ("C[m,n]:f32 = quantize(relu(A[idx[m],k]) * w[k], e4m3, 1x128) @ B[n,k] scale(none,128x128)", {"A_0": 50}),
    (
        "C[m,n]:f32 = quantize(silu(A[idx[m],k]), e4m3, 1x128) @ B[g,n,k] scale(none,128x128) for m in off[g]:off[g+1]",
        {"A_0": 50, "g": 3},
    ),
    ("C[m,n]:f32 = quantize(relu(A[idx[m],k]), e4m3, 1xk) @ B[n,k] scale(none,1xk)", {"A_0": 50}),  # two launches
    ("C[idx[m],n]:f32 = quantize(A[m,k], e4m3, 1x128) @ B[n,k] scale(none,128x128)", {"C_0": 90}),
    ("C[m,b,n]:f32 = A[b,m,k] @ quantize(B[b,n,k]:i4 - Z[b,n], e4m3, 1x128) scale(1x128, 1x64)", {"b": 2}),
    ("D[m,n]:mxfp8 = A[m,k] @ quantize(B[n,k]:nvfp4, e4m3, 1x128) scale(1x128)", {}),
    (
        "G[m,n] = A[m,k] @ quantize(V[n,k]:nvfp4, e4m3, 1x128) scale(1x128); "
        "H[m,n]:bf16 = silu(G) * (A[m,k] @ quantize(W[n,k]:nvfp4, e4m3, 1x128) scale(1x128))",
        {},
    ),
    (
        "G[m,n] = quantize(A[m,k], e4m3, 1x128) @ V[n,k] scale(none, 128x128); "
        "H[m,n]:bf16 = silu(G) * (quantize(A[m,k], e4m3, 1x128) @ W[n,k] scale(none, 128x128))",
        {},
    ),
    (
        "T[m,n] = quantize(A[m,k], e4m3, 1x128) @ B[n,k] scale(none, 128x128); "
        "C[m,n]:bf16 = T; R[m]:f32 = max[n](abs(T))",
        {},
    ),
    (
        "L[q,t]:f32 = sum[h](relu(quantize(Q[q,h,k], e4m3, 1x128) @ K[t,k] scale(none,1x128)) * W[q,h])",
        {"h": 32, "q": 5},
    ),
]
"""With what else programs have."""


@pytest.mark.once("target", "program")
@pytest.mark.parametrize(("program", "sizes"), MORE)
@pytest.mark.parametrize("target", TARGETS)
def test_more(program: str, sizes: dict[str, int], target: str) -> None:
    dims = {"q": 5, "t": 150, "k": 256} if "Q[" in program else {"m": 80, "n": 160, "k": 288}
    run(program, target, {**dims, **sizes}, "hk" if "Q[" in program else "nk", 5)


HIGH = {"f32": 3.0e38, "tf32": 3.0e38, "bf16": 3.0e38, "f16": 65504.0, "e4m3": 448.0, "e5m2": 57344.0}
LOW = {"f32": 2.0**-149, "tf32": 2.0**-149, "bf16": 2.0**-133, "f16": 2.0**-24, "e4m3": 2.0**-9, "e5m2": 2.0**-16}


def ends(stored: str, rng: np.random.Generator) -> np.ndarray:
    """Rows whose blocks are of zeros, of the least numbers, of one beside the largest, of one alone, and of all sizes
    between; -0 too."""
    shape, high, low = (9, 256), HIGH[stored], LOW[stored]
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-6, 3, shape))
    x[1] = 0
    x[2] = np.where(rng.integers(2, size=256), low, -0.0)
    x[3] = rng.standard_normal(256) * low * 5
    x[4, 7], x[4, 200] = high, -high
    x[5] = high * np.linspace(-1, 1, 256)
    x[6] = 0
    x[6, 130] = -low
    x[7] = np.exp2(np.linspace(np.log2(low), np.log2(high), 256))
    x[8] = 448 * np.exp2(rng.integers(-3, 1, 256))
    return x.astype(numpy_dtype(stored))


KINDS = ("e4m3, 1x128", "e5m2, 1x128", "e4m3, 1x128:ue8m0", "e4m3, 1x64")
VALUES = [("sm_90a", stored, to) for stored in HIGH for to in KINDS]
VALUES += [(target, "f32", to) for target in TARGETS[1:] for to in ("e4m3, 1x128", "e4m3, 1x128:ue8m0")]


@pytest.mark.parametrize(("target", "stored", "to"), VALUES)
def test_each_value_is_the_reference_s(target: str, stored: str, to: str) -> None:
    """Times ones of an identity: what is multiplied, times its scale, bit for bit."""
    x = ends(stored, np.random.default_rng(3))
    _bit_equal(target, f"C[m,n]:f32 = quantize(A[m,k]:{stored}, {to}) @ B[n,k]:e4m3", [x])


@pytest.mark.parametrize("target", TARGETS)
def test_every_nvfp4_is_the_reference_s(target: str) -> None:
    """All elements by all scales of ue4m3, of which some blocks have NaN, and zero."""
    scales = np.arange(128, dtype=np.uint8).repeat(16).reshape(8, 256)[:, ::16].copy()
    scales = np.concatenate([scales, scales[::-1]]).view(ml_dtypes.float8_e4m3fn)
    x = np.tile(np.arange(16, dtype=np.uint8), (16, 16)).view(ml_dtypes.float4_e2m1fn)
    outer = np.ones((1, 1), np.float32)
    _bit_equal(target, "C[m,n]:f32 = quantize(A[m,k]:nvfp4, e4m3, 1x128) @ B[n,k]:e4m3", [x, scales, outer])


@pytest.mark.parametrize("stored", ["i4", "e2m1"])
def test_products_with_scales_are_rounded_to_f32(stored: str) -> None:
    """Elements times f32 scales of 24 bits, from the least to the largest, subnormal products and infinite ones."""
    rng = np.random.default_rng(5)
    x = rng.integers(16, size=(8, 256), dtype=np.uint8).view(numpy_dtype(stored))
    scales = (rng.uniform(1, 2, (8, 4)) * 2.0 ** rng.integers(-140, 120, (8, 4))).astype(np.float32)
    scales[1], scales[2, 1] = 0, np.float32(3e38)
    program = f"C[m,n]:f32 = quantize(A[m,k]:{stored}, e4m3, 1x128) @ B[n,k]:e4m3 scale(1x64, none)"
    _bit_equal("sm_90a", program, [x, scales])


def test_what_is_not_finite() -> None:
    """A block with NaN has a scale of NaN, and one with infinity values of NaN, which its row's results are."""
    x = np.ones((5, 256), np.float32)
    x[1, 3], x[2, 200], x[3, 0] = np.nan, np.inf, -np.inf
    _bit_equal("sm_90a", "C[m,n]:f32 = quantize(A[m,k]:f32, e4m3, 1x128) @ B[n,k]:e4m3", [x])


def _bit_equal(target: str, program: str, left: list[np.ndarray]) -> None:
    """Whether a product with the identity has the bits that the reference has, NaN where that has one."""
    identity = np.eye(256, dtype=np.float32).astype(ml_dtypes.float8_e4m3fn)
    dims = {"m": left[0].shape[0], "n": 256, "k": 256}
    kernel = scalec.compile(program, target=target, dims={"n": 256, "k": 256}, schedule={"convert": "shared"})
    kernel.fixed = EmulatedDevice(target)
    names = [x.name for x in kernel.spec.operands]
    values: dict[str, Any] = dict(zip([x for x in names if x[0] == "A"], left, strict=True)) | {"B": identity}
    with np.errstate(all="ignore"):
        got = np.asarray(kernel(*map(_stored, (values[x] for x in names))))
        with scalec.ir.context.context():
            wanted = reference.run(scalec.frontend.build(program, dims), values)["C"]
    assert (np.isnan(got) == np.isnan(wanted)).all()
    np.testing.assert_array_equal(got, wanted)


def _stored(values: np.ndarray) -> np.ndarray:
    """Elements of 4 bits packed, others as they are."""
    return reference.storage(values) if values.dtype in (ml_dtypes.int4, ml_dtypes.float4_e2m1fn) else values


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("C[m,n] = quantize(A[m,k], e4m3, 1x256) @ B[n,k]:e4m3", "in blocks of 1x256"),
        ("C[m,n] = quantize(A[m,k], e4m3, 1x128:ue4m3) @ B[n,k]:e4m3", "with scales of ue4m3"),
        ("C[m,n] = quantize(A[k,m], e4m3, 128x1) @ B[n,k]:e4m3", "contiguous along m"),
        ("C[m,n] = quantize(A[m,k]:mxfp6, e4m3, 1x128) @ B[n,k]:e4m3", "a type that f32 holds"),
        ("C[m,n] = quantize(A[m,k], e4m3, 1x128) @ B[n,k]:bf16", "a tile has 64 of a block of 128"),
        ("C[g,m,n]:f32 = quantize(A[m,k], e4m3, 1x128) @ B[n,k]:e4m3 for k in off[g]:off[g+1]", "a range"),
        ("C[m,n] = quantize(relu(A[m,k]:mxfp8), e4m3, 1x128) @ B[n,k]:e4m3", "computed of a tensor with scales"),
        ("C[m,n] = quantize(A[m,k]:e2m1, e4m3, 1x128) @ B[n,k]:e4m3 scale(1x8:ue4m3, none)", "each 8 elements of k"),
        ("C[m,n] = quantize(A[m,k]:e2m1, e4m3, 1x128) @ B[n,k]:e4m3 scale(1x16:ue4m3*1x64, none)", "2 levels of"),
        ("C[m,n] = quantize(A[m,k]:e2m1, e4m3, 1x128) @ B[n,k]:e4m3 scale(1xk:ue4m3, none)", "multiplies all of that"),
    ],
)
def test_no_kernel_alone(program: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        compiler.compile_source(program, "sm_90a")


test_text_refused = refusals(
    [
        ("C[m,n] = quantize(A[m,k], bf16, 1x128) @ B[n,k]", "bf16 is no type to quantise to"),
        ("C[m,n] = quantize(A[m,k], e4m3, none) @ B[n,k]", "none are no scales"),
        ("C[m,n] = quantize(A[m,k], e4m3, 1x128:bf16) @ B[n,k]", "1x128:bf16 are no scales"),
        ("C[m,n] = quantize(A[m,k], e4m3, 1x128@col) @ B[n,k]", "1x128@col are no scales"),
        ("C[m,n] = quantize(A[m,k] * D[k,m], e4m3, 1x128) @ B[n,k]", "in which order the indices"),
        ("C[m,n] = quantize(A[idx[m],k] * r[m], e4m3, 1x128) @ B[n,k]", "A at an index from memory and of something"),
        ("C[m,n] = quantize(relu(A[idx[m],k+1]), e4m3, 1x128) @ B[n,k]", "A at an index from memory and of something"),
        (
            "C[m,n] = quantize(relu(A[t[m/8],m%8,k]), e4m3, 1x128) @ B[n,k]",
            "A at an index from memory and of something",
        ),
        (
            "C[m,n] = quantize(relu(A[idx[m],k]), e4m3, 1x128) @ B[n,k]; D[t,k] = A[2*t,k]",
            "A at an index from memory and of something",
        ),
        ("C[m,n] = quantize(A[m,k], e4m3, 1x128) + x[n]", "only an operand of @ is quantised"),
        ("C[m,n] = quantize(A[m,k]:mxfp8, e4m3, 1x128) @ B[n,k] scale(1x128, 1x128)", "another number of entries"),
        ("C[m,n] = quantize(silu(A[m,k]), e4m3, 1x128) @ B[n,k] scale(1x128, 1x128)", "only a tensor in memory"),
    ],
    SourceError,
)
