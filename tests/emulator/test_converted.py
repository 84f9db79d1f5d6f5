"""Operands that warps convert between copies and products: other element types, scales folded in, rows turned."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.errors import ScheduleError
from scalec.formats import CONVERTED, ELEMENT_TYPES
from scalec.reference.packing import numpy_dtype
from scalec.runtime.emulated import EmulatedDevice
from tests.emulator.running import TARGETS, in_pairs, refusals, run_on

PROGRAMS = {
    "bf16 x nvfp4": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:nvfp4",
    "nvfp4 x f16": "C[m,n]:f32 = A[m,k]:nvfp4 @ B[n,k]:f16",
    "bf16 x mxfp4": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:mxfp4",
    "bf16 x ue4m3@blocked": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:e2m1 scale(none, 1x16:ue4m3@blocked)",
    "bf16 x tiled ue4m3": "C[m,n]:f32 += A[m,k]:bf16 @ B[n,k]:e2m1 scale(none, 8x32:ue4m3)",
    "bf16 x e4m3": "C[m,n]:bf16 = A[m,k]:bf16 @ B[n,k]:e4m3",
    "e5m2 x f16": "C[m,n]:f32 = A[m,k]:e5m2 @ B[n,k]:f16",
    "bf16 x e4m3 128x128": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:e4m3 scale(none, 128x128)",
    "e4m3 1x128 x nvfp4": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:nvfp4 scale(1x128)",
    "bf16 x tf32": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:tf32",
    "f16 x bf16": "C[m,n]:f32 = A[m,k]:f16 @ B[n,k]:bf16",
    "tf32 x nvfp4": "C[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:nvfp4",
    "bf16 x i4": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:i4 scale(none, 1x128)",
    "e4m3 1x128 x i4": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:i4 scale(1x128, 1x128)",
    "i4 x f16": "C[m,n]:f32 += A[m,k]:i4 @ B[n,k]:f16",
    "tf32 x i4": "C[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:i4 scale(none, 128x128)",
    "i4 x i4": "C[m,n]:bf16 = A[m,k]:i4 @ B[n,k]:i4 scale(1x128, 1xk)",
    "bf16 x i4 ue4m3": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:i4 scale(none, 1x32:ue4m3)",
    "bf16 x i4 1x32": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:i4 scale(none, 1x32)",
    "bf16 x i4 1x64 of bf16": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:i4 scale(none, 1x64:bf16)",
    "f16 x i4 64x96 of f16": "C[m,n]:f32 = A[m,k]:f16 @ B[n,k]:i4 scale(none, 64x96:f16@col)",
    "e4m3 of bf16 x i4 1x64 of f16": "C[m,n]:f32 += A[m,k]:e4m3 @ B[n,k]:i4 scale(1x128:bf16@col, 1x64:f16)",
    "bf16 x i4 1xk of f16": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:i4 scale(none, 1xk:f16)",
    "tf32 x i4 1x64": "C[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:i4 scale(none, 1x64)",
    "e4m3 1x64 x e4m3": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1x64, 128x128:bf16)",
    "mxfp8 x i4": "C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:i4",
    "bf16 x e4m3[k,n]": "C[m,n]:f32 = A[m,k]:bf16 @ B[k,n]:e4m3",
}
"""On all targets."""

HOPPER = {
    "nvfp4 x nvfp4": "C[m,n]:f32 = A[m,k]:nvfp4 @ B[n,k]:nvfp4",
    "mxfp4 x mxfp4": "C[m,n]:f32 = A[m,k]:mxfp4 @ B[n,k]:mxfp4",
    "mxfp8 x mxfp4": "C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:mxfp4",
    "e4m3 x e2m1": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(1x128, 1x128)",
    "bf16 x mxfp8": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:mxfp8",
    "bf16 x e4m3 1x64": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:e4m3 scale(none, 1x64)",
    "e4m3[m,k] x e4m3[k,n]": "C[m,n]:f32 = A[m,k]:e4m3 @ B[k,n]:e4m3 scale(1x128, 128x128)",
    "e5m2[k,m] x e4m3[k,n]": "C[m,n]:f32 += A[k,m]:e5m2 @ B[k,n]:e4m3 scale(128x1, none)",
    "tf32[k,m] x tf32[k,n]": "C[m,n]:f32 = A[k,m]:tf32 @ B[k,n]:tf32",
    "1x16, 128x128": "C[m,n]:f32 = A[m,k] @ B[n,k] scale(1x16, 128x128)",
    "e4m3 1x128 x tf32": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:tf32 scale(1x128, none)",
    "e4m3[k,m] x nvfp4": "C[m,n]:f32 = A[k,m]:e4m3 @ B[n,k]:nvfp4",
}
"""What only sm_90a converts: elsewhere instructions take it as it is."""

SIZES: list[tuple[dict[str, int], tuple[str, ...]]] = [
    ({"m": 80, "n": 144, "k": 416}, ("n", "k")),
    ({"m": 16, "n": 272, "k": 160}, ("m", "n", "k")),
    ({"m": 144, "n": 16, "k": 32}, ()),
]
"""Sizes, and which of them the kernel knows: tails of tiles along each dimension. Rows are multiples of 16, for copies
of what has M or N last."""


@pytest.mark.once("target", "name", "size")
@pytest.mark.parametrize(
    ("target", "name", "size"),
    [*in_pairs(TARGETS, PROGRAMS, len(SIZES)), *(("sm_90a", name, s) for name in HOPPER for s in range(len(SIZES)))],
)
def test_program(target: str, name: str, size: int) -> None:
    (dims, fixed), program = SIZES[size], (PROGRAMS | HOPPER)[name]
    if "blocked" in program or "packed" in program:
        fixed = ("n", "k") if "k" in fixed else ()
    run_on(program, dims, fixed, 3, 1e-4 if ":bf16 =" in program else 1e-5, target=target)


ODD = [
    ("C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:nvfp4", {"m": 1, "n": 1, "k": 16}),
    ("C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:nvfp4", {"m": 67, "n": 13, "k": 8}),
    ("C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:nvfp4", {"m": 5, "n": 70, "k": 0}),
    ("C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:e4m3 scale(none, 128x128)", {"m": 3, "n": 131, "k": 144}),
    ("C[m,n]:f32 += A[m,k]:e4m3 @ B[n,k]:nvfp4 scale(1x128)", {"m": 129, "n": 7, "k": 304}),
    ("C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:i4 scale(none, 1x128)", {"m": 1, "n": 1, "k": 8}),
    ("C[m,n]:f32 += A[m,k]:e4m3 @ B[n,k]:i4 scale(1x128, 1x128)", {"m": 67, "n": 135, "k": 288}),
    ("C[m,n]:f32 = A[m,k]:f16 @ B[n,k]:i4 scale(none, 1x32:f16)", {"m": 5, "n": 131, "k": 104}),
    ("C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:i4 scale(none, 1x64:bf16)", {"m": 3, "n": 7, "k": 0}),
]


@pytest.mark.once("target", "program")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("program", "dims"), ODD)
def test_odd_sizes(program: str, dims: dict[str, int], target: str) -> None:
    run_on(program, dims, (), 5, 1e-5, target=target)


SCHEDULES = [
    ("sm_90a", "bf16 x nvfp4", "tile=64x8x64, swap=1"),
    ("sm_90a", "bf16 x nvfp4", "tile=128x64x64, cluster=1x2, stages=3"),
    ("sm_90a", "bf16 x nvfp4", "tile=128x32x64, cluster=2x1, split=2, parts=cluster"),
    ("sm_90a", "bf16 x nvfp4", "tile=64x64x64, split=3"),
    ("sm_90a", "bf16 x nvfp4", "tile=64x64x64, converters=1, stages=2"),
    ("sm_90a", "bf16 x e4m3 128x128", "tile=64x32x64, converters=2, stages=3"),
    ("sm_90a", "e4m3[m,k] x e4m3[k,n]", "tile=128x64x128, converters=2, stages=3, swap=1"),
    ("sm_90a", "e4m3 1x128 x nvfp4", "tile=128x24x64, swap=1, promote=32"),
    ("sm_90a", "e4m3 1x128 x nvfp4", "tile=256x64x64, warpgroups=2"),
    ("sm_90a", "bf16 x e4m3 128x128", "tile=192x64x64"),
    ("sm_90a", "mxfp8 x mxfp4", "tile=64x40x128, epilogue=direct"),
    ("sm_90a", "e4m3[m,k] x e4m3[k,n]", "tile=128x112x128, stages=2"),
    ("sm_90a", "tf32[k,m] x tf32[k,n]", "tile=64x24x16, swizzle_a=64, swizzle_b=64"),
    ("sm_90a", "bf16 x i4", "tile=64x64x64, swap=1"),
    ("sm_90a", "e4m3 1x128 x i4", "tile=128x64x128, cluster=2x1, stages=2"),
    ("sm_90a", "bf16 x i4 1x64 of bf16", "tile=64x64x64, split=2"),
    ("sm_100a", "bf16 x i4 1x64 of bf16", "tile=128x64x32, promote=32, split=2"),
    ("sm_100a", "e4m3 1x64 x e4m3", "cta_group=1, swap=1"),
    ("sm_120a", "bf16 x i4 1x32", "tile=64x64x32, swap=1"),
    ("sm_100a", "bf16 x nvfp4", "tile=128x96x64, swap=1"),
    ("sm_100a", "bf16 x nvfp4", "tile=128x64x64, converters=2, stages=3"),
    ("sm_100a", "bf16 x nvfp4", "tile=128x32x64, cluster=4x1, stages=4, scheduler=dynamic"),
    ("sm_100a", "e4m3 1x128 x nvfp4", "tile=128x64x64, cluster=1x1, split=2"),
    ("sm_120a", "bf16 x nvfp4", "tile=64x64x64, scheduler=dynamic"),
    ("sm_120a", "e4m3 1x128 x nvfp4", "tile=128x32x64, split=2"),
    ("sm_120a", "bf16 x nvfp4", "tile=32x64x32, swizzle_a=64, swizzle_b=64, swap=1"),
]


@pytest.mark.once("target", touches=lambda schedule, **_: re.findall(r"\w+(?==)", schedule))
@pytest.mark.parametrize(("target", "name", "schedule"), SCHEDULES)
def test_schedule(target: str, name: str, schedule: str) -> None:
    program, dims = (PROGRAMS | HOPPER)[name], {"m": 80, "n": 144, "k": 416}
    run_on(f"{program} with {schedule}", dims, ("n", "k"), 3, 1e-5, target=target, times=2)


MORE = [
    ("C[m,n]:bf16 = relu(A[m,k]:bf16 @ B[n,k]:nvfp4 + x[n]) * r[m]", {}),
    ("C[b,m,n]:f32 = A[b,m,k]:bf16 @ B[b,n,k]:nvfp4", {"b": 2}),
    ("C[m,n]:f32 = A[m,b,k]:bf16 @ B[n,b,k]:e4m3", {"b": 2}),
    ("C[m,n]:bf16 = A[m,k]:bf16 @ B[e[m/16],n,k]:nvfp4", {"B_0": 3}),
    ("C[m,n]:f32 = A[m,k]:e4m3 @ B[g,n,k]:nvfp4 scale(1x128) for m in off[g]:off[g+1]", {"g": 3}),
    ("C[m,n]:f32 = A[idx[m],k]:nvfp4 @ B[n,k]:bf16", {"A_0": 50}),
    ("C[m,n]:bf16 = silu(A[m,k]:f16 @ B[n,k]:i4 scale(none, 1x128)) + x[m,n]", {}),
    ("C[m,b,n]:f32 = A[b,m,k]:bf16 @ B[b,n,k]:i4 scale(none, 1x128)", {"b": 2}),
    ("C[m,n]:bf16 = A[m,k]:e4m3 @ B[e[m/16],n,k]:i4 scale(1x128, 1x128)", {"B_0": 3}),
    ("C[m,n]:f16 = A[m,k]:bf16 @ B[g,n,k]:i4 scale(none, 1x1x64:f16) for m in off[g]:off[g+1]", {"g": 3}),
    ("C[m,n]:f32 = A[idx[m],k]:bf16 @ B[n,k]:i4 scale(none, 1x128)", {"A_0": 50}),
    ("C[m,n]:f32 = A[idx[m],k]:i4 @ B[n,k]:f16 scale(1x64:bf16, none)", {"A_0": 50}),
    ("C[m,n]:f32 = A[m,b,k]:bf16 @ B[n,b,k]:i4 scale(none, 1x1x64:f16)", {"b": 2}),
    ("C[m,n]:bf16 = A[idx[m],k]:e4m3 @ B[e[m/16],n,k]:nvfp4 scale(1x128)", {"A_0": 50, "B_0": 3}),
]
"""With what else programs have, and further sizes."""


@pytest.mark.once("target", "program")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("program", "sizes"), MORE)
def test_more(program: str, sizes: dict[str, int], target: str) -> None:
    dims = {"m": 80, "n": 160, "k": 128, **sizes}
    run_on(program, dims, ("n", "k"), 3, 1e-3, target=target)


BYTES = np.arange(256, dtype=np.uint8)
ELEMENTS = {
    "e2m1": np.stack([BYTES & 15, BYTES >> 4], axis=-1).reshape(1, 512).view(ml_dtypes.float4_e2m1fn),
    "i4": np.stack([BYTES & 15, BYTES >> 4], axis=-1).reshape(1, 512).view(ml_dtypes.int4),
    "e4m3": BYTES.reshape(1, 256).view(ml_dtypes.float8_e4m3fn),
    "e5m2": BYTES.reshape(1, 256).view(ml_dtypes.float8_e5m2),
    "bf16": (257 * np.arange(255, dtype=np.uint16)).reshape(1, 255).view(ml_dtypes.bfloat16),
    "f16": (257 * np.arange(255, dtype=np.uint16)).reshape(1, 255).view(np.float16),
}
"""Every byte of such elements, of those of 16 bits every highest one."""
EVERY = [(stored, made) for stored in ELEMENTS for made in ("e4m3", "bf16", "f16", "tf32") if made in CONVERTED[stored]]


@pytest.mark.parametrize(("stored", "made"), EVERY)
def test_every_element_is_the_same_behind_it(stored: str, made: str) -> None:
    """In shared memory."""
    every_element_is_the_same(stored, made, "convert=shared")


def every_element_is_the_same(stored: str, made: str, schedule: str) -> None:
    """Each times one, and zeros elsewhere, in a row of its own; of those that are not finite the rest of the row is
    NaN too."""
    raw = ELEMENTS[stored][0]
    finite = np.isfinite(raw.astype(np.float32))
    weights = np.zeros((len(raw), 32), raw.dtype)
    weights[:, 0], ones = raw, np.eye(1, 32, dtype=np.float32)
    kernel = scalec.compile(f"C[m,n]:f32 = A[m,k]:{made} @ B[n,k]:{stored} with {schedule}", target="sm_90a")
    kernel.fixed = EmulatedDevice("sm_90a")
    a = ones.astype(numpy_dtype(made))
    packed = pack(weights) if ELEMENT_TYPES[stored].bits == 4 else weights
    got = np.asarray(kernel(a, packed))[0]
    assert (got[finite] == raw.astype(np.float32)[finite]).all()
    assert not np.isfinite(got[~finite]).any()


def pack(values: np.ndarray) -> np.ndarray:
    """Two elements a byte, the first in the low bits."""
    nibbles = values.view(np.uint8)
    return nibbles[:, ::2] | nibbles[:, 1::2] << 4


test_schedules_refused = refusals(
    [
        ("convert=shared, converters=0", "converters=0, and an operand is converted"),
        ("convert=registers, swap=1, converters=1", "converters=1, and consumers convert B in registers"),
        ("swap=1, tile=128x192x64, converters=2", "sums of an instruction for more than the 96 registers"),
    ],
    ScheduleError,
    within="C[m,n] = A[m,k]:bf16 @ B[n,k]:nvfp4 with {}",
)


BOXES = [
    ("sm_90a", "A[m,k]:tf32 @ B[n,k]:i4 with tile=64x64x16", "B"),
    ("sm_100a", "A[m,k] @ B[n,k]:i4 with tile=128x64x16", "B"),
    ("sm_120a", "A[n,k]:e2m1 @ B[m,k]:tf32 with tile=128x64x16", "A"),
]


@pytest.mark.parametrize(("target", "product", "name"), BOXES)
def test_a_row_of_a_tile_is_16_bytes_in_memory(target: str, product: str, name: str) -> None:
    with pytest.raises(ScheduleError, match=f"8 bytes of a row of {name}, and copies bring multiples of 16"):
        scalec.compile(f"C[m,n] = {product}", target=target)


def test_a_tile_is_not_halved_below_what_copies_bring() -> None:
    """Where memory is the bound a shallower tile leaves more stages: of tf32 one of 16, which of i4 is 8 bytes."""
    program = "C[m,n]:f32 = A[k,m]:tf32 @ B[n,k]:{} scale(none, 16x128)"
    kernels = [scalec.compile(program.format(b), target="sm_120a", dims={"m": 242, "k": 128}) for b in ("i4", "e4m3")]
    assert [re.findall(r"tile=\d+x\d+x(\d+)", kernel.spec.schedule) for kernel in kernels] == [["32"], ["16"]]


test_refused = refusals(
    [
        ("C[m,n]:f32 = A[k,m]:bf16 @ B[n,k]:tf32", "multiplies bf16 by tf32"),
        (
            "C[m,n]:f32 = A[m,k]:i4 @ B[n,k]:i4 + D[m,r]:i4 @ E[n,r]:i4",
            "k = 33 end in half a byte, of A and of B",
            {"k": 33},
        ),
        ("C[m,n]:i4 = A[m,k] @ B[n,k]", "C is i4, which results of a product have no kernel for"),
        ("C[m,n] = A[m,k] @ B[n,k] + x[m,n]:i4", "x is i4, which the elementwise expression has no kernel for"),
        ("C[m,n]:e4m3 scale(1x32:f16) = A[m,k] @ B[n,k]", "C is quantised with scales in f16"),
    ]
)
