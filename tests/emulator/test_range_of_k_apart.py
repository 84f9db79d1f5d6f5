"""Sums over a range of K for each group, where each group's scales begin with a block of their own: K blocks begin
where the group does. What lies outside, in the operands or between the scales of groups, is not multiplied."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import layouts, reference
from scalec.errors import ArgumentError
from scalec.formats import UNITS
from scalec.reference.packing import from_layout
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from tests.emulator.running import refusals
from tests.emulator.test_range_of_k import ALL, BOTH, made, run
from tests.emulator.test_several_results import run as guarded
from tests.tiers import SEEDS, fields

PROGRAMS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "1x128 @col, +=": ("C[g,m,n]:f32 += A[m,k] @ B[n,k] scale(1x128@col,1x128@col)", 16, ALL),
    "1x128": ("C[g,m,n] = A[m,k] @ B[n,k] scale(1x128,1x128)", 16, ALL),
    "1x128, 128x128": ("C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x128@col,128x128)", 16, ALL),
    "128x256, 1x256": ("C[g,m,n] += A[m,k] @ B[n,k] scale(128x256,1x256)", 16, ALL),
    "1x64, 8x32": ("C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x64,8x32)", 16, ("sm_90a",)),
    "1x64:bf16, 8x32:f16": ("C[g,m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:i4 scale(1x64:bf16,8x32:f16)", 32, ALL),
    "1x32, 8x64:ue8m0": ("C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x32:ue8m0@packed,8x64:ue8m0@blocked)", 16, ("sm_90a",)),
    "mxfp8": ("C[g,m,n]:f32 += A[m,k]:mxfp8 @ B[n,k]:mxfp8", 16, ALL),
    "mxfp8 @blocked": ("C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x32:ue8m0@blocked,1x32:ue8m0@blocked)", 16, BOTH),
    "mxfp8 @packed": ("C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x32:ue8m0@packed,1x32:ue8m0@packed)", 16, BOTH),
    "1x128, 1x32": ("C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x128@col,1x32:ue8m0)", 16, BOTH),
    "mxfp6": ("C[g,m,n]:f32 = A[m,k]:e2m3 @ B[n,k]:e3m2 scale(1x32:ue8m0,1x32:ue8m0)", 128, BOTH),
    "mxfp4": ("C[g,m,n]:f32 = A[m,k]:mxfp4 @ B[n,k]:mxfp4", 32, BOTH),
    "1x16:ue4m3": ("C[g,m,n]:f32 = A[m,k]:e2m1 @ B[n,k]:e2m1 scale(1x16:ue4m3@blocked,1x16:ue4m3)", 32, BOTH),
    "by M and N": ("C[g,m,n]:f32 += A[k,m]:e4m3 @ B[k,n]:e4m3 scale(32x1:ue8m0,32x1:ue8m0@col)", 1, BOTH),
    "128x1 by M and N": ("C[g,m,n]:f32 = A[k,m]:e4m3 @ B[k,n]:e4m3 scale(128x1,128x1)", 1, BOTH),
    "e2m1 by M": ("C[g,m,n]:f32 = A[k,m]:e2m1 @ B[n,k]:e2m1 scale(16x1:ue4m3,1x16:ue4m3)", 32, ("sm_120a",)),
    "swapped": ("C[g,n,m]:f32 = A[m,k] @ B[n,k] scale(1x128@col,128x128)", 16, ALL),
}
"""By name: a program, at a multiple of how many elements copies begin, and the targets that have it."""

ANYWHERE: dict[str, tuple[str, int, tuple[str, ...]]] = {
    **{
        f"{name}, anywhere": (source, 2 if any(x in source for x in ("e2m1", "mxfp4", ":i4")) else 1, targets)
        for name, (source, step, targets) in PROGRAMS.items()
        if step not in (1, 128)
    },
    "bf16 x 1x16:ue4m3": ("C[g,m,n]:f32 = A[m,k]:bf16 @ B[n,k]:e2m1 scale(none,1x16:ue4m3)", 2, ALL),
    "bf16 x 1x128": ("C[g,m,n]:f32 = A[m,k]:bf16 @ B[n,k]:e4m3 scale(none,1x128)", 1, ALL),
    "gathered": ("C[g,m,n]:f32 = A[idx[m],k] @ B[n,k] scale(1x128,1x128)", 1, ALL),
    "1x128:ue8m0": ("C[g,m,n]:f32 = A[m,k] @ B[n,k]:e5m2 scale(1x128:ue8m0,1x256:ue8m0)", 1, ALL),
    "by M, along K": ("C[g,m,n]:f32 = A[k,m]:e4m3 @ B[n,k] scale(32x1:ue8m0,1x32:ue8m0)", 1, BOTH),
}
"""Likewise such of which groups begin at any element, or any byte: a warp wraps K blocks of what is contiguous along K,
or warps shift it."""

EVERY = PROGRAMS | ANYWHERE

ENDS = (3, 3, 40, 130, 131, 256, 517, 752, 752)
"""Of eight groups, in multiples of what the program promises, some rounded up: two empty, one within a block, one over
two, one of one unit; some elements are nobody's."""


def text_of(source: str, step: int) -> str:
    return f"{source} for k in off[g]:off[g+1]{f' by {step}' * (step > 1)} apart"


def ends_of(step: int, ends: tuple[int, ...] = ENDS) -> tuple[int, ...]:
    return tuple(-(-x // step) * step for x in ends)


def needed(count: int, k: int, ends: tuple[int, ...], unit: int, groups: Sequence[int]) -> np.ndarray:
    """Which of `count` scales along K are those of elements of `groups`; each group's are padded to so many scales."""
    every = len(ends) - 1
    block = next(b for b in (16, 32, 64, 128, 256) if (-(-k // (b * unit)) + every) * unit == count)
    found = np.zeros(count, bool)
    for g in groups:
        first = (ends[g] // (block * unit) + g) * unit
        found[first : first - (-(ends[g + 1] - ends[g]) // block)] = True
    return found


def poisoned(
    kernel: Kernel,
    source: str,
    values: dict[str, Any],
    dims: dict[str, int],
    ends: tuple[int, ...],
    groups: Sequence[int] | None = None,
) -> dict[str, Any]:
    """With NaN, or the largest number of a type that has none, outside of all groups, or of those `groups`, and of all
    scales in between."""
    after, k = dict(values), dims["k"]
    groups = range(len(ends) - 1) if groups is None else groups
    inside = np.zeros(k, bool)
    for g in groups:
        inside[ends[g] : ends[g + 1]] = True
    for t in kernel.spec.operands:
        if t.name[0] not in "AB":
            continue
        array, axis = values[t.name], int(f"{t.name[0]}[k," not in source)
        shape = [-1 if i == axis else 1 for i in range(2)]
        if not t.name.endswith("_scale"):
            bad = np.array(6 if array.dtype.name.startswith(("float4", "float6", "int4")) else np.nan, array.dtype)
            after[t.name] = np.where(inside.reshape(shape), array, bad)
            continue
        extents = [e.value(dims) for e in t.shape]
        extents, dtype = ([extents[0], 4 * extents[1]], "ue8m0") if t.layout == "packed" else (extents, t.dtype)
        logical = np.array(reference.from_layout(array, t.layout, tuple(extents), dtype))
        kept = needed(extents[axis], k, ends, UNITS.get(t.layout, (1, 1))[axis], groups)
        nan = np.array(np.nan, logical.dtype)
        after[t.name] = reference.to_layout(np.where(kept.reshape(shape), logical, nan), t.layout).view(array.dtype)
    return after


def check(
    name: str,
    target: str,
    settings: str = "",
    ends: tuple[int, ...] | None = None,
    fixed: tuple[str, ...] = ("n", "k"),
    seed: int = 1,
    step: int = 0,
    **sizes: int,
) -> Kernel:
    """Against the reference, with NaN where nothing of any group is; where groups begin anywhere, then with NaN in
    every other group: the same bits in the others."""
    source, least, _ = EVERY[name]
    step = step or least
    ends = ends_of(step) if ends is None else ends
    padded = 128 if name.startswith("e2m1 by M") else 0
    dims = (
        {"m": padded or 48, "n": 80, "k": -(-752 // step) * step}
        | sizes
        | {"g": len(ends) - 1}
        | ({"A_0": 60} if "idx" in source else {})
    )
    text = text_of(source, step)
    kernel = scalec.compile(
        text + f" with {settings}" * bool(settings), target=target, dims={d: dims[d] for d in fixed}
    )
    values, wanted = made(text, dims, ends, seed)
    got = run(kernel, target, poisoned(kernel, source, values, dims, ends), dims, seed)
    what = f"{target}, {text}, {kernel.spec.schedule}"
    unwritten = np.isnan(wanted)  # rows whose index is negative
    assert np.isnan(got[unwritten]).all(), what
    got, wanted = (np.where(unwritten, 0, x) for x in (got, wanted))
    assert reference.diff(got, wanted) < (1e-5 if ":f32" in source else 1e-3), what
    for g in range(dims["g"]):
        scale = max(1e-30, float(np.abs(wanted[g]).max()))
        assert np.abs(got[g] - wanted[g]).max() <= 0.01 * scale, f"group {g} of {what}"
    some = range(seed % 2, dims["g"], 2) if name in ANYWHERE else ()
    if some:
        again = run(kernel, target, poisoned(kernel, source, values, dims, ends, some), dims, seed)
        for g in some:
            same = np.where(unwritten[g], 0, again[g]).astype(again.dtype).tobytes()
            assert same == got[g].astype(again.dtype).tobytes(), f"beside NaN group {g} of {what}"
    return kernel


USUAL = {"1x128 @col, +=", "mxfp8 @blocked", "mxfp8 @packed", "by M and N"}


@pytest.mark.once(touches=lambda name, target: {target} | ({name} & USUAL))
@pytest.mark.parametrize(("name", "target"), [(name, t) for name, (*_, targets) in PROGRAMS.items() for t in targets])
def test_program(name: str, target: str) -> None:
    check(name, target)


USUAL_ANYWHERE = {"1x128 @col, +=, anywhere", "mxfp8 @blocked, anywhere", "1x16:ue4m3, anywhere"}


@pytest.mark.once(touches=lambda name, target: {target} | ({name} & USUAL_ANYWHERE))
@pytest.mark.parametrize(("name", "target"), [(name, t) for name, (*_, targets) in ANYWHERE.items() for t in targets])
def test_anywhere(name: str, target: str) -> None:
    check(name, target)


def test_blocks_of_a_result_in_permuted_columns() -> None:
    """Threads then have whole blocks of a row, as rows of B's tile are in another order: which are wrapped, too."""
    source = "C[g,m,n]:fp8_block = A[m,k] @ B[n,k] scale(1x128,1x128) for k in off[g]:off[g+1] apart"
    kernel, _ = guarded(source, "sm_90a", {"m": 40, "n": 128, "k": 740, "g": 3}, "n")
    assert "permute_n=16" in kernel.spec.schedule


SCHEDULES = [
    ("1x128 @col, +=", "sm_90a", "swap=1"),
    ("1x128 @col, +=", "sm_90a", "cluster=2x1, tile=128x64x128"),
    ("1x128 @col, +=", "sm_90a", "tile=128x80x128, mma_n=40, warpgroups=1"),
    ("1x128", "sm_90a", "stages=2"),
    ("1x128 @col, +=", "sm_100a", "tile=128x128x128, warpgroups=2"),
    ("mxfp8", "sm_100a", "tile=128x64x64, swizzle_a=64, swizzle_b=64"),
    ("mxfp8 @blocked", "sm_100a", "tile=128x64x128, cluster=2x1, stages=4, unroll=4"),
    ("mxfp8 @blocked", "sm_100a", "scale_path=thread"),
    ("by M and N", "sm_100a", "swap=1"),
    ("mxfp8 @packed", "sm_120a", "tile=64x128x128, stages=3"),
    ("mxfp8 @packed", "sm_120a", "scale_path=thread"),
    ("bf16 x 1x128", "sm_90a", "converters=2, cluster=2x1, tile=128x64x64"),
    ("1x128 @col, +=, anywhere", "sm_90a", "stages=2, cluster=2x1, tile=128x64x128"),
    ("1x128, 128x128, anywhere", "sm_90a", "tile=128x64x64, promote=64, swizzle_a=64, swizzle_b=64"),
    ("1x128 @col, +=, anywhere", "sm_90a", "swap=1, tile=64x24x128, warpgroups=1"),
    ("mxfp8, anywhere", "sm_100a", "tile=128x64x64, swizzle_a=64, swizzle_b=64"),
    ("mxfp8 @packed, anywhere", "sm_120a", "tile=64x64x128, stages=2, scale_path=thread"),
    ("1x16:ue4m3, anywhere", "sm_120a", "tile=64x64x128, swizzle_a=64, swizzle_b=64"),
]


@pytest.mark.once(touches=lambda settings, **_: {*fields(settings)} & {"swap", "cluster", "scale_path"})
@pytest.mark.parametrize(("name", "target", "settings"), SCHEDULES)
def test_schedule(name: str, target: str, settings: str) -> None:
    check(name, target, settings)


BOUNDS = {
    "all in one": (0, 400),
    "of one element": tuple(range(250, 262)),
    "an empty one at the end": (0, 7, 399, 400, 400, 400),
    "in the chunk behind a K block": (5, 133, 260, 264, 400),
    "nothing": (400, 400, 400),
    "none": (0, 0, 0, 0),
}


@pytest.mark.once("ends", "name")
@pytest.mark.parametrize("ends", BOUNDS)
@pytest.mark.parametrize(
    ("name", "target"),
    [*(("by M and N", t) for t in BOTH), *(("1x128, anywhere", t) for t in ALL), ("mxfp8, anywhere", "sm_100a")],
)
def test_bounds(name: str, target: str, ends: str) -> None:
    """Wherever a group begins and ends."""
    check(name, target, "", BOUNDS[ends], k=400, m=32)


@pytest.mark.once("k")
@pytest.mark.parametrize("k", [384, 391])
@pytest.mark.parametrize("target", ALL)
def test_an_end_that_is_no_multiple(target: str, k: int) -> None:
    """The last group, and empty ones behind it, end where K does."""
    check("1x128 @col, +=", target, "", (0, 0, 144, k, k, k), k=k)


@pytest.mark.once
@pytest.mark.parametrize("target", ALL)
def test_nothing_behind_half_a_block(target: str) -> None:
    """The K block of an empty group is behind all of K, and so its scales, of twice as many elements, are none."""
    check("128x256, 1x256", target, "", (0, 128, 128, 640, 640), k=640)


@pytest.mark.once
@pytest.mark.parametrize("target", ALL)
def test_windows(target: str) -> None:
    """Rows of scales that lie along K come by bulk copies where all of such a row, with one for each group, is so many
    times 16 bytes: from any block of a window on."""
    ends = ends_of(16, (3, 3, 40, 1100, 1100, 2300, 2301, 3000))
    kernel = check("1x128", target, "scale_path=bulk", ends, ("n", "k", "g"), k=3200)  # 25 + 7 of a row
    assert "scale_path=bulk" in kernel.spec.schedule


PROMISED = [
    *(("1x128 @col, +=", t, "") for t in ALL),
    ("mxfp4", "sm_100a", "scale_copier=1"),
    ("mxfp8 @blocked", "sm_100a", "scale_copier=1, cta_group=2"),
    ("mxfp8 @packed", "sm_120a", ""),
]


@pytest.mark.once("target", touches=lambda settings, **_: fields(settings))
@pytest.mark.parametrize(("name", "target", "settings"), PROMISED)
def test_a_promise_that_blocks_are_whole(name: str, target: str, settings: str) -> None:
    """Nothing is cut then, and CTAs multiply together."""
    kernel = check(name, target, settings, (0, 0, 256, 512, 512, 768), step=256, k=768)
    assert "cut" not in kernel.spec.schedule
    assert not re.search(
        r"fence\.proxy\.async\.shared::cta;(?=\n.*\n\tbar\.warp\.sync \t-1;\n.*\n\t@%p\d+ mbar)", kernel.ptx
    )


@pytest.mark.parametrize("k", [704, 768])
def test_scales_behind_a_promised_end(k: int) -> None:
    """K ends within a K block, whose last scales are another group's or nobody's: they are cut, if nothing else is."""
    check("mxfp8 @blocked", "sm_100a", "", (0, 256, 256, k), ("n",), step=256, k=k)


@pytest.mark.once("seed")
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("seed", SEEDS)
def test_drawn(target: str, seed: int) -> None:
    """Ends that are drawn, of sizes that are not known."""
    rng = np.random.default_rng(seed)
    names = sorted(name for name, (*_, targets) in EVERY.items() if target in targets)
    name = names[int(rng.integers(len(names)))]
    step, rows = EVERY[name][1], max(EVERY[name.removesuffix(", anywhere")][1], 16)
    k = -(-int(rng.integers(1, 700)) // rows) * rows
    ends = np.sort(rng.integers(0, k // step + 1, int(rng.integers(1, 20)) + 1)) * step
    step_m = 128 if name.startswith("e2m1 by M") else 16
    sizes = {"m": step_m * int(rng.integers(1, 8 * 16 // step_m + 1)), "n": 16 * int(rng.integers(1, 10))}
    check(name, target, "", tuple(map(int, ends)), (), seed, k=k, **sizes)


@pytest.mark.once
@pytest.mark.parametrize("target", ALL)
def test_a_broken_promise(target: str) -> None:
    """Copies then still begin where some can, and groups that keep it have what they should."""
    source, step, _ = PROGRAMS["1x128 @col, +="]
    ends, dims = (0, 131, 256, 300), {"g": 3, "m": 32, "n": 48, "k": 384}
    kernel = scalec.compile(text_of(source, step), target=target, dims={"n": 48, "k": 384})
    device = kernel.fixed = emulated.EmulatedDevice(target)
    device.checks = False
    kernel.load(device)
    values, wanted = made(text_of(source, 1), dims, ends, 1)
    got = run(kernel, target, values, dims, 1)
    assert reference.diff(got[2], wanted[2]) < 1e-5


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("layout", ["row", "col", "packed", "blocked"])
def test_layout(layout: str, kind: str) -> None:
    """Scales of each group alone stand where the program's are: made up for it, taken out and put together again, they
    are these, but for padding."""
    ends, k, block, words = (3, 3, 40, 130, 131, 256, 300, 300), 310, 32, layout in ("packed", "blocked")
    unit = block * UNITS[layout][1] if words else block
    shape = (150, (-(-k // unit) + len(ends) - 1) * unit // block)
    rng = np.random.default_rng(1)
    whole, kept = rng.integers(1, 255, shape, np.uint8), np.zeros(shape[1], bool)
    for g, (low, high) in enumerate(pairwise(ends)):
        kept[(low // unit + g) * unit // block :][: -(-(high - low) // block)] = True
    scales, offsets = whole[:, kept], np.array(ends, np.int32)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        made = layouts.columns_by_group(torch.from_numpy(scales), torch.from_numpy(offsets), k, block, layout).numpy()
    else:
        made = layouts.columns_by_group(scales, offsets, k, block, layout)
    assert layout not in ("col", "packed") or made.flags.f_contiguous
    found = from_layout(made, layout, shape, "ue8m0") if words else made
    assert (np.asarray(found).view(np.uint8) == np.where(kept, whole, 0)).all()


@pytest.mark.parametrize(
    ("shape", "itemsize", "count", "layout"),
    [((4,), 1, 2, "row"), ((4, 4), 4, 2, "packed"), ((4, 4), 1, 1, "row"), ((4, 4), 1, 2, "tiled")],
)
def test_no_layout(shape: tuple[int, ...], itemsize: int, count: int, layout: str) -> None:
    scales = np.zeros(shape, f"u{itemsize}")
    with pytest.raises(ArgumentError, match="scales of columns"):
        layouts.columns_by_group(scales, np.arange(count, dtype=np.int32), 4, 1, layout)


APART = "for k in off[g]:off[g+1]"
test_what_cannot_be = refusals(
    [
        (f"A[m,k]:mxfp4 @ B[n,k]:mxfp4 {APART} apart", "multiples of 2: a byte has several", "sm_120a"),
        (f"A[m,k]:mxfp6 @ B[n,k]:mxfp6 {APART} by 64 apart", "multiples of 128: copies pad A", "sm_100a"),
        (f"A[m,k]:e4m3 @ (B[n,k]:u4 - 8) scale(1x128,1x64:f16) {APART} by 2 apart", "B is less zero points"),
        (f"A[idx[m],k] @ B[n,k] scale(1x64,1x128) {APART} by 8 apart", "rows of A are named by idx[m]"),
        (f"A[m,k]:tf32 @ B[n,k]:mxfp4 {APART} by 16 apart", "B becomes one of 8 times its bits", "sm_120a"),
    ],
    within="C[g,m,n]:f32 = {}",
)
