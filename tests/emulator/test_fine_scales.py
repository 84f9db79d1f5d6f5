"""Scales of a byte, and of blocks shorter than a K tile, where sums are promoted in parts of a tile (sm_90a)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import compiler, reference
from scalec.checking.launch import upload
from scalec.errors import ScheduleError, UnsupportedError
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from tests.emulator.running import by_turns, run_on
from tests.emulator.test_range_of_k import check as check_range

PROGRAMS = {
    "mxfp8": "C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:mxfp8_e5m2",
    "mxfp8 @packed, @blocked": "C[m,n]:f32 = A[m,k] @ B[n,k] scale(1x32:ue8m0@packed, 1x32:ue8m0@blocked)",
    "mxfp8 @col, none": "C[m,n]:f32 = A[m,k] @ B[n,k]:e5m2 scale(1x32:ue8m0@col, none)",
    "1x128, 128x128 bytes": "C[m,n]:f32 = A[m,k] @ B[n,k] scale(1x128:ue8m0, 128x128:ue8m0)",
    "tiled bytes": "C[m,n]:f32 = A[m,k] @ B[n,k] scale(64x256:ue8m0@blocked, 8x128:ue8m0@packed)",
    "bytes beside f32": "C[m,n]:f32 += A[m,k] @ B[n,k] scale(1x32:ue8m0, 128x128)",
    "f32 beside bytes": "C[m,n]:f32 = A[m,k] @ B[n,k] scale(1x128@col, 8x32:ue8m0@col)",
    "1x64, 128x128": "C[m,n]:f32 = A[m,k] @ B[n,k] scale(1x64, 128x128)",
    "64x64 @col, 64x32": "C[m,n]:f32 = A[m,k] @ B[n,k] scale(64x64@col, 64x32)",
    "mx32, 8x32": "C[m,n]:f32 = A[m,k] @ B[n,k] scale(mx32, 8x32)",
    "1x32 @col, 1x64 @col": "C[m,n]:f32 = A[m,k] @ B[n,k] scale(1x32@col, 1x64@col)",
    "1x64 f16, 128x32 bf16": "C[m,n]:f32 = A[m,k] @ B[n,k] scale(1x64:f16, 128x32:bf16)",
    "bytes beside bf16": "C[m,n]:f32 += A[m,k] @ B[n,k] scale(64x128:bf16@col, 1x32:ue8m0)",
    "1x96, 64x192": "C[m,n]:f32 = A[m,k] @ B[n,k] scale(1x96, 64x192)",
}

SIZES: list[tuple[dict[str, int], tuple[str, ...]]] = [
    ({"m": 72, "n": 136, "k": 416}, ("n", "k")),
    ({"m": 1, "n": 136, "k": 400}, ("m", "n", "k")),
    ({"m": 20, "n": 24, "k": 48}, ("n",)),
    ({"m": 140, "n": 72, "k": 16}, ("m",)),
    ({"m": 5, "n": 264, "k": 272}, ()),
]
"""Sizes, and which of them the kernel knows: tails of tiles, of a stage and of a part of it, one row, one part."""


def fitting(name: str, dims: dict[str, int], fixed: tuple[str, ...]) -> bool:
    """Whether copies bring the scales @col of so many rows, in columns of whole 16 bytes, or threads."""
    return not ("@col" in name and dims["m"] % 4 and "m" not in fixed)


@pytest.mark.once("name", "size")
@pytest.mark.parametrize(
    ("name", "size"), [(name, i) for name, i in by_turns(PROGRAMS, len(SIZES)) if fitting(name, *SIZES[i])]
)
def test_program(name: str, size: int) -> None:
    dims, fixed = SIZES[size]
    run_on(PROGRAMS[name], dims, fixed, 3, 1e-5)


SCHEDULES = [
    "tile=64x64x128, warpgroups=1, stages=2",
    "tile=128x40x128, warpgroups=2, stages=3, unroll=2",
    "tile=192x64x128, warpgroups=3",
    "tile=256x64x128, cluster=1x2",
    "tile=64x64x128, cluster=2x1",
    "split=2, parts=memory",
    "split=3, parts=cluster",
    "swap=1, epilogue=direct",
    "swap=1, tile=64x16x128, epilogue=turned",
    "tile=128x80x128, mma_n=40, warpgroups=1",
    "consumers=pingpong, tile=64x64x128, stages=3",
    "early_wait=0, scale_path=thread",
]


SCHEDULED = ["mxfp8", "1x128, 128x128 bytes", "64x64 @col, 64x32", "1x32 @col, 1x64 @col"]


@pytest.mark.once("name", "schedule")
@pytest.mark.parametrize(("name", "schedule"), [(n, SCHEDULES[i]) for n, i in by_turns(SCHEDULED, len(SCHEDULES))])
def test_schedule(name: str, schedule: str) -> None:
    dims = {"m": 72, "n": 136, "k": 416}
    if "epilogue=turned" in schedule:
        dims |= {"n": 160}
    run_on(f"{PROGRAMS[name]} with {schedule}", dims, ("n", "k"), 5, 1e-5)


@pytest.mark.parametrize(("m", "k"), [(70, 416), pytest.param(1, 33, marks=pytest.mark.thorough)])
def test_sums_of_exact_products_are_exact(m: int, k: int) -> None:
    """Small integers times powers of two that differ by row, 64 rows and K block: bit for bit."""
    dims, source = {"m": m, "n": 72, "k": k}, "C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:mxfp8"
    values = drawn(source, dims)
    rng = np.random.default_rng(k)
    for name in ("A", "B"):
        element, scale = values[name], values[f"{name}_scale"]
        values[name] = rng.integers(-3, 4, element.shape).astype(element.dtype)
        rows, blocks = np.indices(scale.shape)
        values[f"{name}_scale"] = np.exp2((rows + rows // 64 + blocks) % 4 - 1).astype(scale.dtype)
    got, wanted = both(source, dims, values, known=("n",))
    assert (got == wanted).all()


@pytest.mark.parametrize("source", [PROGRAMS["mxfp8"], PROGRAMS["1x128, 128x128 bytes"]], ids=["1x32", "128x128"])
def test_codes_at_the_ends(source: str) -> None:
    """0 is 2^-127, a subnormal f32; 255 is NaN, of its block's rows and columns alone."""
    dims = {"m": 20, "n": 136, "k": 160}
    values = drawn(source, dims)
    a, b = (values[f"{x}_scale"].view(np.uint8) for x in ("A", "B"))
    a[:], b[:] = 127, 127
    a[3], b[0] = 0, 253  # 2^-127 * 2^126
    a[7, 1] = 255
    got, wanted = both(source, dims, values)
    assert (np.isnan(got) == np.isnan(wanted)).all()
    assert np.isnan(got[7]).all()
    assert not np.isnan(np.delete(got, 7, axis=0)).any()
    fine = np.abs(wanted) < 1e30
    assert reference.diff(got[fine], wanted[fine]) < 1e-5
    assert got[3, 0] != 0
    np.testing.assert_allclose(got[3], wanted[3], rtol=1e-4, atol=2.0**-140)


@pytest.mark.parametrize("source", [PROGRAMS["1x64, 128x128"], "C[m,n]:f32 = A[m,k] @ B[n,k] scale(64x64, 128x32)"])
def test_scales_beyond_the_end_are_of_no_block(source: str) -> None:
    """A K tile is not full, and the scales that its last parts had in the tile before are NaN."""
    dims = {"m": 72, "n": 136, "k": 128 + 24}
    values = drawn(source, dims)
    for name in ("A_scale", "B_scale"):
        values[name] = values[name].copy()
        values[name][0, 1] = np.nan  # of K elements that the last K tile does not have
    got, wanted = both(source, dims, values)
    assert (np.isnan(got) == np.isnan(wanted)).all()
    assert np.isfinite(wanted).any()


RANGES = [
    "C[g,m,n]:f32 += A[m,k]:mxfp8 @ B[n,k]:mxfp8 {}",
    "C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x128:ue8m0,128x128:ue8m0) {}",
    "C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x32@col,128x32) {}",
    "C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(64x32:ue8m0,1x32) {}",
]


@pytest.mark.once
@pytest.mark.parametrize("source", RANGES)
def test_a_range_of_k(source: str) -> None:
    check_range(source, "sm_90a")


MORE = {
    "batched": ("C[b,m,n] = gelu(A[b,m,k]:mxfp8 @ B[b,n,k]:mxfp8 + x[n])", {"b": 2}),
    "two dimensions of K": ("C[m,n]:f32 = A[m,b,k]@B[n,b,k] scale(1x1x32:ue8m0,1x1x64)", {"b": 2}),
    "blocks of groups": ("C[m,n] = A[m,k]@B[e[m/64],n,k] scale(1x128:ue8m0,1x128x128:ue8m0)", {"B_0": 3}),
    "ragged groups": ("C[m,n] = A[m,k]:mxfp8 @ B[g,n,k]:mxfp8 for m in off[g]:off[g+1]", {"g": 3}),
    "masked groups": ("C[g,m,n] = A[g,m,k]:mxfp8 @ B[g,n,k]:mxfp8 for m < rows[g]", {"g": 3}),
    "gathered rows": ("C[m,n] = A[idx[m],k]@B[n,k] scale(1x32:ue8m0,128x128:ue8m0)", {"A_0": 40}),
    "gathered blocks": ("C[m,n] = A[idx[m],k]@B[n,k] scale(64x128:ue8m0@blocked,128x64)", {"A_0": 130}),
    "columns first": ("C[n,m] = A[m,k]:mxfp8 @ B[n,k]:mxfp8", {}),
}


@pytest.mark.once("name")
@pytest.mark.parametrize("name", MORE)
def test_more_dimensions(name: str) -> None:
    source, more = MORE[name]
    dims = {"m": 70, "n": 136, "k": 192} | more
    run_on(source, dims, tuple(d for d in dims if d != "m"), 7, 1e-3)


@pytest.mark.parametrize(
    ("source", "k"),
    [
        ("C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:mxfp8", 16),
        ("C[m,n]:f32 = A[m,k] @ B[n,k] scale(1x128:ue8m0, 128x128:ue8m0)", 128),
    ],
)
def test_a_sum_within_one_block(source: str, k: int) -> None:
    """Bytes stay scales, though they do not change along K: no elementwise expression reads them."""
    run_on(source, {"m": 40, "n": 48, "k": k}, ("n", "k"), 3, 1e-5)


def test_a_part_is_a_divisor_of_what_scales_allow() -> None:
    with pytest.raises(ScheduleError, match="promote = 128 with tile K = 128") as error:
        scalec.compile(PROGRAMS["1x64, 128x128"] + " with promote=128", dims={"n": 128, "k": 256})
    assert "promote = 64 or 32" in str(error.value)
    run_on(PROGRAMS["1x64, 128x128"] + " with promote=32", {"m": 40, "n": 72, "k": 160}, ("n", "k"), 1, 1e-5)


SHORT = [
    ("sm_120a", "A[m,k]:bf16 @ B[n,k]:e4m3 scale(none, 1x128)", "64x64x32", 32),
    ("sm_120a", "A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1x128, 128x128)", "64x64x64", 64),
    ("sm_100a", "A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1x128, 128x128)", "128x64x32", 32),
    ("sm_90a", "A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1x128, 128x128)", "64x64x64", 64),
    ("sm_90a", "A[m,k]:e4m3 @ B[n,k]:e5m2", "64x64x64", 64),
]


@pytest.mark.once("target")
@pytest.mark.parametrize(("target", "product", "tile", "promote"), SHORT)
def test_a_tile_of_less_k_is_promoted_more_often(target: str, product: str, tile: str, promote: int) -> None:
    """A tile that is decided, of fewer elements of K than tiles have by themselves: 128 were promoted at once, which it
    has not, and the schedule was refused."""
    source = f"C[m,n]:f32 = {product} with tile={tile}"
    ran = run_on(source, {"m": 40, "n": 72, "k": 160}, ("n", "k"), 1, 1e-5, target=target)
    assert f"promote={promote}" in ran.kernel.spec.schedule


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("C[m,n] = A[m,k] @ B[n,k] scale(1x8, 128x128)", "one scale for each 8 elements of k"),
        ("C[m,n] = A[m,k] @ B[n,k] scale(1x16:ue4m3, none)", "ue4m3, which scales have no kernel for on sm_90a"),
        ("C[m,n] = A[m,k]:mxfp6 @ B[n,k]:mxfp6", "no tensor-core instruction for e3m2"),
    ],
)
def test_what_is_refused_in_one_kernel(source: str, found: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(found)):
        compiler.compile_source(source, "sm_90a")


def drawn(source: str, dims: dict[str, int]) -> dict[str, Any]:
    """Operands."""
    with context.context():
        return dict(reference.make(build(source, dims), dims, seed=1))


def both(
    source: str, dims: dict[str, int], values: dict[str, Any], known: tuple[str, ...] = ("n", "k")
) -> tuple[np.ndarray, np.ndarray]:
    """What a kernel computes, and the reference."""
    with context.context():
        (wanted,) = reference.run(build(source, dims), values, dims=dims, exact=True).values()
    kernel = scalec.compile(source, target="sm_90a", dims={d: dims[d] for d in known})
    device = kernel.fixed = emulated.EmulatedDevice("sm_90a")
    arguments, (out,) = upload(device, kernel.spec, values, dims)
    kernel(*arguments, out=out)
    return np.array(out.numpy().astype(np.float64)), wanted
