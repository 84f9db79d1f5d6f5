"""Rows of an odd number of 4-bit elements, which end in half a byte: results are written whole, of operands what pads
them is not multiplied."""

from __future__ import annotations

import re

import numpy as np
import pytest

from scalec import reference
from scalec.errors import DeviceError, ScheduleError
from scalec.frontend import build
from scalec.ir import context
from scalec.reference.packing import unpack4
from tests.emulator.quantised import changed, codes, compile_, in_f32, launch, run_quantised, same
from tests.emulator.running import TARGETS
from tests.tiers import fields

E4M3 = "D[m,n]{} = A[m,k]:e4m3 @ B[n,k]:e4m3 + bias[n]"

SIZES = [
    ({"m": 4, "n": 3, "k": 128}, ("m", "k"), ""),  # by columns, as rows are known to be few
    ({"m": 5, "n": 35, "k": 128}, ("m", "n", "k"), ""),
    ({"m": 20, "n": 7, "k": 128}, ("k",), ""),
    ({"m": 33, "n": 63, "k": 128}, ("n", "k"), ""),  # rows of whole 16 bytes, which copies store
]
TURNED = ({"m": 33, "n": 63, "k": 128}, ("n", "k"), " with swap=1, tile=64x32x128, epilogue=turned")


@pytest.mark.once("target", "size")
@pytest.mark.parametrize(("target", "size"), [*((t, s) for t in TARGETS for s in SIZES), ("sm_90a", TURNED)], ids=str)
def test_results(target: str, size: tuple[dict[str, int], tuple[str, ...], str]) -> None:
    dims, fixed, settings = size
    values, sums = in_f32(E4M3.format(":f32"), "", target, tuple(dims.items()), fixed, 1)
    kernel = compile_(E4M3.format(":e2m1") + settings, target, dims, fixed)
    (got,), _ = launch(kernel, target, values, dims, 1)
    elements = unpack4(got.view(np.uint8), dims["n"])
    same(codes(elements), codes(reference.round_to(sums, "e2m1").astype(elements.dtype)), kernel.spec.schedule)


@pytest.mark.once("target", "size")
@pytest.mark.parametrize("size", SIZES[:2], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_quantised_results(target: str, size: tuple[dict[str, int], tuple[str, ...], str]) -> None:
    run_quantised(E4M3, "mxfp4", size[0], size[1], 1, target, times=1)


E2M1 = "C[m,n]:f32 = A[m,k]:e2m1 @ B[n,k]:e2m1"
NVFP4 = "C[m,n]:f32 = A[m,k]:nvfp4 @ B[n,k]:nvfp4"

OPERANDS = [  # a block of K whose first, a middle or the last slice is cut; blocks before it; parts of K; both sides
    ("sm_120a", E2M1, 1, ""),
    ("sm_120a", NVFP4, 95, ""),
    ("sm_120a", E2M1, 255, ""),
    ("sm_120a", NVFP4, 517, "unroll=2"),
    ("sm_120a", E2M1, 517, "split=3"),
    ("sm_120a", NVFP4, 129, "tile=128x16x256, warps=4x1, warpgroups=1"),
    ("sm_120a", NVFP4, 129, "tile=16x128x256, warps=1x4, warpgroups=1"),
    ("sm_120a", f"{E2M1} scale(1x128,1x128)", 383, ""),
    ("sm_100a", E2M1, 1, ""),
    ("sm_100a", NVFP4, 95, ""),
    ("sm_100a", NVFP4, 1533, "stages=2, unroll=2"),
    ("sm_100a", NVFP4, 513, "scale_copier=1"),
    ("sm_100a", E2M1, 513, "split=2"),
    ("sm_100a", E2M1, 257, "cluster=1x2, tile=128x16x256"),
    ("sm_100a", E2M1, 129, "tile=128x64x128"),
    ("sm_100a", f"{E2M1} scale(1x128,1x128)", 383, ""),
    # converted on both sides: to elements of 8 bits, and of 16; parts of K, stages by turns
    ("sm_90a", E2M1, 1, ""),
    ("sm_90a", E2M1, 517, "converters=2, split=2"),
    ("sm_90a", f"{E2M1} scale(1x128,1x128)", 383, ""),
    ("sm_90a", NVFP4, 95, ""),
    ("sm_90a", "C[m,n]:f32 = A[m,k]:i4 @ B[n,k]:e2m1", 77, "swap=1"),
    ("sm_90a", "C[m,n]:f32 = (A[m,k]:u4 - 8) @ B[n,k]:e2m1", 77, ""),
    ("sm_90a", "C[m,n]:f32 = A[m,k]:mxfp4 @ B[n,k]:mxfp4", 95, ""),
    ("sm_100a", "C[m,n]:f32 = A[m,k]:i4 @ B[n,k]:i4", 77, ""),
    ("sm_120a", "C[m,n]:f32 = A[m,k]:i4 @ B[n,k]:i4", 77, ""),
]


GROUPED = "C[m,n]:f32 = A[m,k]:nvfp4 @ B[e[m/128],n,k]:nvfp4"


@pytest.mark.once("target", "source", touches=lambda settings, **_: fields(settings))
@pytest.mark.parametrize(
    ("target", "source", "k", "settings"),
    [*OPERANDS, *((t, GROUPED, 61, "") for t in ("sm_90a", "sm_100a", "sm_120a"))],
)
def test_operands(target: str, source: str, k: int, settings: str) -> None:
    """Bit for bit, as the data are small integers: the halves of bytes that pad rows hold the largest numbers."""
    dims = {"m": 10, "n": 24, "k": k} | ({"m": 140, "B_0": 3} if source == GROUPED else {})
    kernel = compile_(source + f" with {settings}" * bool(settings), target, dims, ("n", "k"))
    with context.context():
        program = build(source, dims)
        values = dict(reference.make(program, dims, seed=1, exact=True))
        (wanted,) = reference.run(program, values, dims=dims, exact=True).values()
    for name in "AB":
        values[name] = padded_with_sixes(values[name])
    (got,), _ = launch(kernel, target, values, dims, 3)
    assert (got == wanted).all(), kernel.spec.schedule


def padded_with_sixes(values: np.ndarray) -> np.ndarray:
    """As stored, an odd number in a row."""
    stored = reference.storage(values).copy()
    stored[..., -1] |= 0x70
    return stored


def test_infinity_beside_rows() -> None:
    """Where what pads a row is infinite times the scale that is multiplied into it, both operands have zeros there."""
    source, dims = "C[m,n]:f32 = A[m,k]:mxfp4 @ B[n,k]:mxfp4", {"m": 10, "n": 24, "k": 1}
    with context.context():
        values = dict(reference.make(build(source, dims), dims, seed=1))
    for name, exponent in (("A", 127), ("B", -126)):
        values[name] = padded_with_sixes(np.full_like(values[name], 0.5))
        scale = values[f"{name}_scale"]
        values[f"{name}_scale"] = np.full(scale.shape, 127 + exponent, np.uint8).view(scale.dtype)
    (got,), _ = launch(compile_(source, "sm_90a", dims, ("n", "k")), "sm_90a", values, dims, 1)
    assert (got == 0.5).all()


def test_beside_an_operand_with_k_outermost() -> None:
    """Its copies give zeros behind the last row, and tell an odd K that is not known before."""
    source, dims = "C[m,n]:f32 = A[k,m]:e2m1 @ B[n,k]:e2m1", {"m": 128, "n": 24, "k": 77}
    with context.context():
        program = build(source, dims)
        values = dict(reference.make(program, dims, seed=1, exact=True))
        (wanted,) = reference.run(program, values, dims=dims, exact=True).values()
    values["B"] = padded_with_sixes(values["B"])
    for fixed in (("m", "n"), ("m", "n", "k")):
        (got,), _ = launch(compile_(source, "sm_120a", dims, fixed), "sm_120a", values, dims, 3)
        assert (got == wanted).all()


def test_products_of_two_ctas() -> None:
    """A CTA sees its own half of B alone. Left to itself the compiler takes one."""
    dims = {"m": 4096, "n": 4096, "k": 4095}
    assert "cta_group=1" in compile_(E2M1, "sm_100a", dims, ("m", "n", "k")).spec.schedule
    with pytest.raises(ScheduleError, match=re.escape("cta_group = 2, and rows of k = 4095 end in half a byte")):
        compile_(f"{E2M1} with cta_group=2", "sm_100a", dims, ("m", "n", "k"))


def test_a_missing_fence_is_found() -> None:
    """Behind the bytes that a warp stores in a stage, which the tensor core reads."""
    dims = {"m": 10, "n": 24, "k": 95}
    without = changed(r"(st\.shared\.b8 .*\n(?:.*\n){0,4})\tfence\.proxy\.async\.shared::cta;", r"\1")
    with context.context():
        values = dict(reference.make(build(NVFP4, dims), dims, seed=1))
    with pytest.raises(DeviceError, match="proxy"):
        launch(without(compile_(NVFP4, "sm_100a", dims, ("n", "k"))), "sm_100a", values, dims, 1)
