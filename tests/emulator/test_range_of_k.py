"""Sums over a range of K for each group: what lies outside, of whoever else's, is not multiplied, not even NaN."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.launch import upload
from scalec.errors import DeviceError, ScheduleError, UnsupportedError
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from tests.emulator.quantised import changed
from tests.tiers import SEEDS, fields

BOTH = ("sm_100a", "sm_120a")
ALL = ("sm_90a", *BOTH)
RANGE = "for k in off[g]:off[g+1]"

PROGRAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "1x128, +=": ("C[g,m,n]:f32 += A[m,k] @ B[n,k] scale(1x128,1x128) {}", ALL),
    "1x128 @col": ("C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x128@col,1x128@col) {}", ALL),
    "128x128, +=": ("C[g,m,n]:f32 += A[m,k] @ B[n,k] scale(128x128,128x128) {}", ALL),
    "1x128, 128x128": ("C[g,m,n] = A[m,k] @ B[n,k] scale(1x128,128x128) {}", ALL),
    "128x256, 1x256": ("C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(128x256,1x256) {}", ALL),
    "bf16, +=": ("C[g,m,n]:f32 += A[m,k]:bf16 @ B[n,k]:bf16 {}", ALL),
    "bf16": ("C[g,m,n] = A[m,k]:bf16 @ B[n,k]:bf16 {}", ALL),
    "bf16 by M and N": ("C[g,m,n] = A[k,m]:bf16 @ B[k,n]:bf16 {}", ALL),
    "f16 by M": ("C[g,m,n]:f32 += A[k,m]:f16 @ B[n,k]:f16 {}", ALL),
    "tf32": ("C[g,m,n]:f32 = A[m,k]:tf32 @ B[n,k]:tf32 {}", ALL),
    "tf32 by M and N": ("C[g,m,n]:f32 = A[k,m]:tf32 @ B[k,n]:tf32 {}", ALL),
    "e5m2 x e4m3": ("C[g,m,n]:f32 = A[m,k]:e5m2 @ B[n,k]:e4m3 {}", ALL),
    "e4m3 by M and N": ("C[g,m,n]:f32 += A[k,m]:e4m3 @ B[k,n]:e4m3 {}", ALL),
    "mxfp8": ("C[g,m,n]:f32 += A[m,k]:mxfp8 @ B[n,k]:mxfp8 {}", ALL),
    "mxfp8 @packed, @blocked": ("C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x32:ue8m0@packed,1x32:ue8m0@blocked) {}", ALL),
    "mxfp8 @blocked": ("C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x32:ue8m0@blocked,1x32:ue8m0@blocked) {}", ALL),
    "mxfp8 @packed": ("C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x32:ue8m0@packed,1x32:ue8m0@packed) {}", ALL),
    "1x128:ue8m0": ("C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x128:ue8m0,1x128:ue8m0) {}", ALL),
    "1x128, 1x32": ("C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x128,1x32:ue8m0) {}", ALL),
    "mxfp6": ("C[g,m,n]:f32 = A[m,k]:e2m3 @ B[n,k]:e3m2 scale(1x32:ue8m0,1x32:ue8m0) {}", BOTH),
    "mxfp8 x mxfp4": ("C[g,m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:mxfp4 {}", ALL),
    "mxfp4": ("C[g,m,n]:f32 = A[m,k]:mxfp4 @ B[n,k]:mxfp4 {}", ALL),
    "1x16:ue4m3": ("C[g,m,n]:f32 = A[m,k]:e2m1 @ B[n,k]:e2m1 scale(1x16:ue4m3,1x16:ue4m3@blocked) {}", ALL),
    "1x16:ue4m3 @blocked": (
        "C[g,m,n]:f32 = A[m,k]:e2m1 @ B[n,k]:e2m1 scale(1x16:ue4m3@blocked,1x16:ue4m3@blocked) {}",
        ALL,
    ),
    "e2m1": ("C[g,m,n]:f32 = A[m,k]:e2m1 @ B[n,k]:e2m1 {}", ALL),
    "bf16 x 1x16:ue4m3": ("C[g,m,n]:f32 = A[m,k]:bf16 @ B[n,k]:e2m1 scale(none,1x16:ue4m3) {}", ALL),
    "e4m3 by M x 1x16:ue4m3": ("C[g,m,n]:f32 = A[k,m]:e4m3 @ B[n,k]:e2m1 scale(none,1x16:ue4m3@blocked) {}", ALL),
    "bf16 x e4m3 by N, 128x128": ("C[g,m,n]:f32 += A[m,k]:bf16 @ B[k,n]:e4m3 scale(none,128x128) {}", ALL),
    "e4m3 by M and N, 1x128": ("C[g,m,n]:f32 += A[k,m]:e4m3 @ B[k,n]:e4m3 scale(128x1@col,128x1) {}", ALL),
    "1x64:bf16, 64x64:f16": ("C[g,m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1x64:bf16,128x64:f16) {}", ALL),
    "bf16 x i4 1x32:f16": ("C[g,m,n]:f32 += A[m,k]:bf16 @ B[n,k]:i4 scale(none,1x32:f16) {}", ALL),
    "swapped": ("C[g,n,m]:f32 += A[m,k] @ B[n,k] scale(1x128,1x128) {}", ALL),
}
"""By name: a program, where {} is for the range, and the targets that have it."""

ENDS = (3, 3, 40, 130, 131, 256, 517, 768, 768)
"""Of eight groups: two empty, one within a block, one over two, one of one element, some that end with a block; three
elements are nobody's."""

DIMS = {"g": len(ENDS) - 1, "m": 40, "n": 72, "k": ENDS[-1]}


def made(source: str, dims: dict[str, int], ends: tuple[int, ...], seed: int) -> tuple[dict[str, Any], np.ndarray]:
    """Operands, and the result."""
    with context.context():
        program = build(source, dims)
        values = dict(reference.make(program, dims, seed=seed))
        values["off"] = np.array(ends, np.int32)
        (wanted,) = reference.run(program, values, dims=dims, exact=True).values()
    return values, wanted


def poisoned(kernel: Kernel, values: dict[str, Any], dims: dict[str, int], inside: np.ndarray) -> dict[str, Any]:
    """With NaN, or the largest number of a type that has none, where K is not `inside`, and of scales where that is so
    for all that they scale."""
    after = dict(values)
    for t in kernel.spec.operands:
        if t.name[0] not in "AB":
            continue
        array = values[t.name]
        if not t.name.endswith("_scale"):
            axis = list(array.shape).index(len(inside))
            bad = np.array(6 if array.dtype.name.startswith(("float4", "float6", "int4")) else np.nan, array.dtype)
            shape = [-1 if i == axis else 1 for i in range(array.ndim)]
            after[t.name] = np.where(inside.reshape(shape), array, bad)
            continue
        rows, count = (e.value(dims) for e in t.shape)
        shape, dtype = ((rows, 4 * count), "ue8m0") if t.layout == "packed" else ((rows, count), t.dtype)
        logical = np.array(reference.from_layout(array, t.layout, shape, dtype))
        axis = list(values[t.name[0]].shape).index(len(inside))  # K's, of the operand and so of its scales
        block = next(b for b in (16, 32, 64, 128, 256) if b * shape[axis] >= len(inside))
        needed = np.add.reduceat(inside, np.arange(0, len(inside), block)) > 0
        needed = np.append(needed, np.zeros(shape[axis] - len(needed), bool)).reshape([-1, 1] if axis == 0 else [1, -1])
        nan = np.array(np.nan, logical.dtype)
        after[t.name] = reference.to_layout(np.where(needed, logical, nan), t.layout).view(array.dtype)
    return after


def run(kernel: Kernel, target: str, values: dict[str, Any], dims: dict[str, int], seed: int) -> np.ndarray:
    """The result of a launch, whose bytes are all written, from NaN on."""
    device = kernel.fixed
    if not isinstance(device, emulated.EmulatedDevice):
        device = kernel.fixed = emulated.EmulatedDevice(target)
        ends = values.get("off", np.zeros(1))
        device.checks = bool((np.diff(ends) >= 0).all() and ends[0] >= 0 and ends[-1] <= dims["k"])
    device.options = replace(device.options, seed=seed)
    arguments, (out,) = upload(device, kernel.spec, values, dims)
    kernel(*arguments, out=out)
    return np.array(out.numpy().astype(np.float64))


def check(
    source: str,
    target: str,
    settings: str = "",
    ends: tuple[int, ...] = ENDS,
    seed: int = 1,
    fixed: tuple[str, ...] = ("n", "k"),
    dims: dict[str, int] = DIMS,
    change: Callable[[Kernel], Kernel] = lambda kernel: kernel,
) -> Kernel:
    """Against the reference; then with NaN where K is of every other group, or of none: the same bits in the others."""
    text = source.format(RANGE)
    dims = dims | {"g": len(ends) - 1}
    known = {d: dims[d] for d in fixed}
    kernel = change(scalec.compile(text + f" with {settings}" * bool(settings), target=target, dims=known))
    values, wanted = made(text, dims, ends, seed)
    got = run(kernel, target, values, dims, seed)
    what = f"{target}, {text}, {kernel.spec.schedule}"
    assert reference.diff(got, wanted) < (1e-5 if ":f32" in source else 1e-3), what
    for g in range(dims["g"]):
        scale = max(1e-30, float(np.abs(wanted[g]).max()))
        assert np.abs(got[g] - wanted[g]).max() <= 0.01 * scale, f"group {g} of {what}"
    bounds = np.clip(ends, 0, dims["k"])
    for turn in (0, 1):
        groups = range(turn, dims["g"], 2)
        inside = np.zeros(dims["k"], bool)
        for g in groups:
            inside[bounds[g] : bounds[g + 1]] = True
        again = run(kernel, target, poisoned(kernel, values, dims, inside), dims, seed + turn)
        for g in groups:
            assert again[g].tobytes() == got[g].tobytes(), f"beside NaN group {g} of {what}"
    return kernel


USUAL = {"bf16 by M and N", "mxfp8 @blocked", "mxfp8 @packed", "1x128, +="}


@pytest.mark.once(touches=lambda name, target: {target} | ({name} & USUAL))
@pytest.mark.parametrize(("name", "target"), [(name, t) for name, (_, targets) in PROGRAMS.items() for t in targets])
def test_program(name: str, target: str) -> None:
    check(PROGRAMS[name][0], target)


COMMON = ["swap=1", "stages=2", "order=m, band=1", "epilogue=direct"]
SCHEDULES: list[tuple[str, str, str]] = [
    *(("1x128, +=", t, s) for t in ALL for s in COMMON),
    *(("1x128 @col", t, s) for t in ALL[:2] for s in ("cluster=2x1, tile=128x64x128", "cluster=1x2, swap=0")),
    *(("bf16", t, s) for t in ALL[:2] for s in ("cluster=2x1", "cluster=1x2, swap=0", "epilogue=bulk")),
    *(("128x128, +=", "sm_90a", f"adds=loaded, {s}") for s in ("cluster=1x2", "tile=64x64x128, panels=1, staged=1")),
    ("bf16, +=", "sm_120a", "adds=loaded, epilogue=bulk"),
    ("1x128 @col", "sm_90a", "tile=64x32x128, warpgroups=1, cluster=1x1"),
    ("1x128 @col", "sm_90a", "tile=192x64x128, warpgroups=3"),
    ("1x128 @col", "sm_90a", "tile=128x80x128, mma_n=40, warpgroups=1"),
    ("bf16", "sm_90a", "tile=128x128x16, swizzle_a=32, swizzle_b=32"),
    ("bf16", "sm_90a", "tile=64x24x32, swizzle_a=64, swizzle_b=64"),
    ("bf16", "sm_100a", "tile=128x64x16, swizzle_a=32, swizzle_b=32"),
    ("bf16", "sm_100a", "unroll=1"),
    ("bf16 by M and N", "sm_100a", "tile=128x128x64, cluster=2x1"),
    ("1x128, +=", "sm_100a", "tile=128x128x128, warpgroups=2"),
    ("mxfp8", "sm_100a", "tile=128x64x64, swizzle_a=64, swizzle_b=64"),
    ("mxfp8 @blocked", "sm_100a", "tile=128x64x128, cluster=2x1, stages=4, unroll=4"),
    ("mxfp8 @blocked", "sm_100a", "scale_path=thread"),
    ("1x16:ue4m3 @blocked", "sm_100a", "tile=128x128x256, stages=2"),
    ("mxfp8 @packed", "sm_120a", "tile=64x128x128, stages=3"),
    ("mxfp8 @packed", "sm_120a", "scale_path=thread"),
    ("bf16", "sm_120a", "tile=64x64x32, swizzle_a=64, swizzle_b=64"),
]


@pytest.mark.once(touches=lambda settings, **_: {*fields(settings)} & {"swap", "cluster", "scale_path", "unroll"})
@pytest.mark.parametrize(("name", "target", "settings"), SCHEDULES)
def test_schedule(name: str, target: str, settings: str) -> None:
    check(PROGRAMS[name][0], target, settings)


SHORT = {"m": 24, "n": 40, "k": 384}

BOUNDS = {
    "all in one": (0, 384),
    "of one element": tuple(range(250, 290)),
    "beyond the end": (-7, 100, 384, 1000, 2_000_000_000),
    "falling": (200, 100, 300, 50, 50, 384),
    "nothing": (384, 384, 384),
}


@pytest.mark.once("ends")
@pytest.mark.parametrize("ends", BOUNDS)
@pytest.mark.parametrize("target", ALL)
def test_bounds(target: str, ends: str) -> None:
    """Wherever a group lies, and of bounds that are no range what is one."""
    check(PROGRAMS["1x128 @col"][0], target, "", BOUNDS[ends], dims=SHORT)


@pytest.mark.once("seed")
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("seed", SEEDS)
def test_drawn(target: str, seed: int) -> None:
    """Ends that are drawn, of sizes that are not known; K blocks that groups share in any way."""
    rng = np.random.default_rng(seed)
    k = 16 * int(rng.integers(1, 60))
    ends = np.sort(rng.integers(0, k + 1, int(rng.integers(1, 20)) + 1))
    dims = {"m": int(rng.integers(1, 150)), "n": 8 * int(rng.integers(1, 40)), "k": k}
    names = sorted(name for name, (_, targets) in PROGRAMS.items() if target in targets and "6" not in name[:5])
    name = names[int(rng.integers(len(names)))]
    step = 256 if "mxf" in name or ":u" in name else 16
    dims["k"] = -(-k // step) * step
    check(PROGRAMS[name][0], target, "", tuple(map(int, ends)), seed, (), dims)


_OUT = r"fence\.proxy\.async\.shared::cta;(?=\n.*\n\tbar\.warp\.sync \t-1;\n.*\n\t@%p\d+ mbarrier)"
_SENT = r"(fence\.proxy\.async\.shared::cta;\n.*\n\tbar\.warp\.sync \t-1;\n.*\n\t)@%p\d+ mbarrier"

FAULTS = {  # what goes wrong, where, and what is then found
    "no fence behind what is cut": (_OUT, "", "proxy"),
    "copies are not waited for": (
        r"and\.b32 \t(%r\d+), (%r\d+), 1;(?=\n.*\n\t\{\n\.reg \.pred P1;\nWAIT:)",
        r"and.b32 \t\1, \2, 1;\n\txor.b32 \t\1, \1, 1;",
        "in-flight|race|deadlock",
    ),
    "the stage is not passed on": (_SENT + r".*;", r"\1", "deadlock"),
    "all lanes pass it on": (_SENT, r"\1mbarrier", "barrier|race|deadlock"),
    "copies do not take the detour": (
        r"selp\.b32 \t(%r\d+), \d{3,}, (\d{3,}), %p\d+;",
        r"mov.b32 \t\1, \2;",
        "deadlock",
    ),
    "rounds of a stage are not counted": (
        r"(shl\.b32 \t(%r\d+), %r\d+, %r\d+;\n\txor\.b32 \t%r\d+, %r\d+, )\2;",
        r"\g<1>0;",
        "deadlock|race|in-flight",
    ),
    "whole stages are not passed over": (r"setp\.lt\.u32 \t(%p\d+), (%r\d+), 128;(?=\n\t@%p\d+ bra)",
                                         r"setp.lt.u32 \t\1, \2, 256;", "deadlock|race|in-flight"),
}  # fmt: skip


@pytest.mark.once("fault")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    old, new, finding = FAULTS[fault]
    ends = (3, 3, 40, 130, 131, 256, 517, 768, 1400, 2048)
    with pytest.raises(DeviceError, match=finding):
        check(PROGRAMS["1x128 @col"][0], "sm_90a", "stages=3", ends, dims=DIMS | {"k": 2048}, change=changed(old, new))


def test_an_element_that_is_left_is_found() -> None:
    """The last one of 16 bytes."""
    with pytest.raises(AssertionError, match="diff"):
        check(
            PROGRAMS["1x128 @col"][0],
            "sm_90a",
            "stages=3",
            change=changed(r"mov\.b32 \t(%r\d+), 16;(?=\n.*\n\tmin\.s32)", r"mov.b32 \t\1, 15;"),
        )


@pytest.mark.parametrize(
    ("settings", "target", "why"),
    [
        ("cta_group=2", "sm_100a", "each CTA cuts its own tiles where a range of k ends"),
        ("scale_copier=1", "sm_100a", "its warp cuts K blocks where a range of k begins and ends"),
        ("consumers=pingpong", "sm_90a", "what there is to do is read from memory"),
        ("split=2", "sm_90a", "what there is to do is read from memory"),
        ("scheduler=static", "sm_120a", "what there is to do is read from memory"),
        ("adds=loaded", "sm_100a", "by a warp, and none is left that could load and store C"),
    ],
)
def test_what_cannot_be(settings: str, target: str, why: str) -> None:
    name = "mxfp8 @blocked" if "copier" in settings else "1x128, +="
    with pytest.raises(ScheduleError, match=re.escape(why)):
        scalec.compile(f"{PROGRAMS[name][0].format(RANGE)} with {settings}", target=target, dims={"n": 512, "k": 2048})


def test_of_two_summed_dimensions() -> None:
    with pytest.raises(UnsupportedError, match="k has a range for each g"):
        scalec.compile(f"C[g,m,n] = A[m,j,k] @ B[n,j,k] {RANGE}", target="sm_90a")


ALIGNED = (0, 0, 256, 512, 512, 704)

PROMISED = [
    *(("1x128 @col", t, "") for t in ALL),
    *(("128x128, +=", t, "adds=loaded, epilogue=bulk") for t in ALL),
    ("bf16", "sm_90a", ""),
    ("bf16 by M and N", "sm_100a", "cta_group=2"),
    ("1x128 @col", "sm_100a", "cta_group=2"),
    ("mxfp4", "sm_100a", "scale_copier=1"),
    ("1x16:ue4m3", "sm_100a", "scale_copier=1, cta_group=2"),
    ("mxfp8 @packed, @blocked", "sm_120a", ""),
]


@pytest.mark.once("target", touches=lambda settings, **_: fields(settings))
@pytest.mark.parametrize(("name", "target", "settings"), PROMISED)
def test_a_promise_that_blocks_are_whole(name: str, target: str, settings: str) -> None:
    """Nothing is cut then, but where K ends, by copies. Slots that C was loaded into, and added to, leave in the same
    way."""
    source, dims = f"{PROGRAMS[name][0]} by 256", DIMS | {"k": ALIGNED[-1]}
    kernel = check(source, target, settings, ALIGNED, dims=dims)
    sent = [kernel.ptx[x.start() - 300 : x.start()] for x in re.finditer(_SENT, kernel.ptx)]
    assert bool(sent) == ("adds=loaded" in settings)
    assert all("add.rn.f32" in before for before in sent)


def test_scales_behind_a_row_of_tiles() -> None:
    """Where tiles of `@blocked` lie follows from all of K, and not from where a range ends."""
    dims = {"g": 1, "m": 9, "n": 1100, "k": 576}
    source = "C[g,m,n]:f32 = A[m,k] @ B[n,k] scale(1x64:ue8m0, 8x64:ue8m0@blocked) for k in off[g]:off[g+1]"
    values, wanted = made(source, dims, (5, 100), 1)
    kernel = scalec.compile(source, target="sm_90a", dims={"n": 1100, "k": 576})
    assert reference.diff(run(kernel, "sm_90a", values, dims, 1), wanted) < 1e-5
