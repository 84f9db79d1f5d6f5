"""Programs that gather rows of an operand, on every target: repeated, unordered and negative indices, tails, groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.compare import compare
from scalec.checking.guarded import between_guards
from scalec.checking.launch import made_up, values_of
from scalec.errors import ScalecError, ScheduleError
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from tests.emulator.running import launched
from tests.tiers import SEEDS, fields

EVERY = ("sm_90a", "sm_100a", "sm_120a")
BLACKWELL = EVERY[1:]
SIZES = {"m": 70, "n": 136, "k": 384}
ROWS = {"A_0": 50, "B_0": 300}
"""Of operands that are gathered."""

PROGRAMS: dict[str, tuple[str, tuple[str, ...], dict[str, int]]] = {
    "bf16": ("C[m,n] = A[idx[m],k] @ B[n,k]", EVERY, {}),
    "f16": ("C[m,n]:f16 = A[idx[m],k]:f16 @ B[n,k]:f16", EVERY, {}),
    "tf32": ("C[m,n]:f32 = A[idx[m],k]:tf32 @ B[n,k]:tf32", BLACKWELL, {}),
    "e5m2 x e4m3": ("C[m,n]:f32 = A[idx[m],k]:e5m2 @ B[n,k]:e4m3", EVERY, {}),
    "e4m3 x e2m1": ("C[m,n] = A[idx[m],k]:e4m3 @ B[n,k]:e2m1", BLACKWELL, {}),
    "e2m1 x e4m3": ("C[m,n] = A[idx[m],k]:e2m1 @ B[n,k]:e4m3", BLACKWELL, {}),
    "1x128, 128x128": ("C[m,n] = A[idx[m],k] @ B[n,k] scale(1x128,128x128)", EVERY, {}),
    "1x128 @col both": ("C[m,n]:f32 = A[idx[m],k] @ B[n,k] scale(1x128@col,1x128@col)", EVERY, {"A_0": 52}),
    "128x128 both": ("C[m,n]:f32 = A[idx[m],k] @ B[n,k] scale(128x128,128x128)", EVERY, {"A_0": 300}),
    "24x128": ("C[m,n]:f32 = A[idx[m],k] @ B[n,k] scale(24x128,1x128)", EVERY, {"A_0": 100}),
    "1xk, 1xk": ("C[m,n] = A[idx[m],k] @ B[n,k] scale(1xk,1xk)", EVERY, {}),
    "none, 1x128": ("C[m,n]:f32 = A[idx[m],k]:e4m3 @ B[n,k] scale(none,1x128)", EVERY, {}),
    "mxfp8": ("C[m,n] = A[idx[m],k]:mxfp8 @ B[n,k]:mxfp8", BLACKWELL, {}),
    "mxfp8 x mxfp4": ("C[m,n]:f32 = A[idx[m],k]:mxfp8 @ B[n,k]:mxfp4", BLACKWELL, {}),
    "mxfp6": ("C[m,n]:f32 = A[idx[m],k]:mxfp6 @ B[n,k]:mxfp6", BLACKWELL, {}),
    "mxfp4": ("C[m,n]:f32 = A[idx[m],k]:mxfp4 @ B[n,k]:mxfp4", BLACKWELL, {}),
    "nvfp4": ("C[m,n] = A[idx[m],k]:nvfp4 @ B[n,k]:nvfp4", BLACKWELL, {}),
    "@blocked": ("C[m,n] = A[idx[m],k] @ B[n,k] scale(1x32:ue8m0@blocked,1x32:ue8m0@blocked)", BLACKWELL, {}),
    "@packed, @col": ("C[m,n] = A[idx[m],k] @ B[n,k] scale(1x32:ue8m0@packed,1x32:ue8m0@col)", BLACKWELL, {"A_0": 52}),
    "128x128:ue8m0": ("C[m,n] = A[idx[m],k] @ B[n,k] scale(128x128:ue8m0,128x128:ue8m0)", BLACKWELL, {"A_0": 300}),
    "the other operand": ("C[m,n] = A[m,k] @ B[idx[n],k] scale(1x128,1x128)", EVERY, {"n": 131}),
    "the other, mxfp8": ("C[m,n]:f32 = A[m,k]:mxfp8 @ B[idx[n],k]:mxfp8", BLACKWELL, {}),
    "both": ("C[m,n] = A[idx[m],k] @ B[jdx[n],k]", EVERY, {}),
    "few rows": ("C[m,n] = A[idx[m],k] @ B[n,k] scale(1x128,128x128)", EVERY, {"m": 5}),
    "columns first": ("C[n,m] = A[idx[m],k] @ B[n,k] scale(1x128,1x128)", EVERY, {}),
    "batches": ("C[b,m,n] = A[b,idx[b,m],k] @ B[b,n,k] scale(1x128,128x128)", EVERY, {"b": 3, "A_1": 50}),
    "an index for all batches": ("C[b,m,n]:f32 = A[b,idx[m],k] @ B[b,n,k]", EVERY, {"b": 2, "A_1": 50}),
    "sums of several": ("C[m,n]:f32 += A[b,idx[m],k] @ B[b,n,k] scale(1x128,1x128)", EVERY, {"b": 2, "A_1": 50}),
    "inputs": (
        "C[m,n] = gelu(A[idx[m],k] @ B[n,k] scale(1xk,1xk) + r[idx[m]]) * w[m] + R[idx[m],n]",
        EVERY,
        {"r_0": 50, "R_0": 50},
    ),
    "columns of inputs": ("C[m,n]:f32 = A[m,k] @ B[idx[n],k] + x[idx[n]] + R[m,idx[n]]", EVERY, {}),
    "+=": ("C[m,n]:f32 += A[idx[m],k] @ B[n,k] scale(1x128,128x128)", EVERY, {}),
    "around gaps": ("C[m,n/64*96 + n%64] = A[idx[m],k] @ B[n,k]", EVERY, {"n": 128}),
    "a part of 16 bytes at the end": ("C[m,n]:f32 = A[idx[m],k]:e4m3 @ B[n,k]:e4m3", EVERY, {"k": 213}),
    "converted, half a byte at the end": ("C[m,n]:f32 = A[idx[m],k]:e2m1 @ B[n,k]:bf16", ("sm_90a",), {"k": 213}),
    "converted, batches": ("C[b,m,n] = A[b,idx[b,m],k]:e4m3 @ B[b,n,k]", ("sm_90a",), {"b": 2, "A_1": 50, "k": 100}),
    "sums of several, a tail": ("C[m,n]:f32 = A[b,idx[m],k] @ B[b,n,k]", EVERY, {"b": 3, "A_1": 50, "k": 100}),
    "ranges of K": ("C[g,m,n]:f32 = A[idx[m],k] @ B[n,k] for k in off[g]:off[g+1]", EVERY, {"g": 3, "k": 500}),
    "ranges of K, 1x128": (
        "C[g,m,n]:f32 = A[idx[m],k] @ B[n,k] scale(1x128,1x128) for k in off[g]:off[g+1]",
        EVERY,
        {"g": 3, "k": 500},
    ),
    "e2m1 result": ("C[m,n]:e2m1 = A[idx[m],k] @ B[n,k]", EVERY, {}),
    "mxfp8 result": ("C[m,n]:mxfp8 = A[idx[m],k] @ B[n,k] scale(1x128,128x128)", EVERY, {"n": 128}),
    "nvfp4 result @blocked": (
        "C[m,n]:e2m1 scale(1x16:ue4m3@blocked) = silu(A[idx[m],k] @ B[n,k])",
        EVERY,
        {"m": 130, "n": 144},
    ),
    "fp8_block result": ("C[m,n]:fp8_block = A[idx[m],k] @ B[n,k]", EVERY, {"n": 128}),
    "several results": ("T[m,n] = A[idx[m],k] @ B[n,k]; C[m,n] = T + x[n]; D[m,n]:mxfp8 = relu(T)", EVERY, {"n": 128}),
    "ragged groups": (
        "C[m,n] = A[idx[m],k] @ B[g,n,k] scale(1x128,1x128x128) for m in off[g]:off[g+1]",
        EVERY,
        {"m": 300, "g": 5, "k": 256},
    ),
    "ragged mxfp8": (
        "C[m,n]:mxfp8 = A[idx[m],k]:mxfp8 @ B[g,n,k]:mxfp8 for m in off[g]:off[g+1]",
        BLACKWELL,
        {"m": 300, "n": 128, "g": 4, "k": 256},
    ),
    "groups of blocks": (
        "C[m,n] = A[idx[m],k] @ B[e[m/128],n,k] scale(1x128,1x128x128)",
        EVERY,
        {"m": 300, "k": 256, "B_0": 3},
    ),
    "masked groups": ("C[g,m,n]:f32 = A[idx[g,m],k] @ B[g,n,k] for m < rows[g]", EVERY, {"m": 140, "g": 3, "k": 192}),
}

USUAL = {"nvfp4", "both", "batches", "inputs", "several results", "ragged groups", "@blocked", "few rows"}
"""What a usual run has, beside each target."""


def sized(source: str, own: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a program."""
    gathered = {"A_0": "A[idx" in source, "B_0": bool(re.search(r"B\[(idx|jdx|e\[)", source))}
    return {**SIZES, **{name: ROWS[name] for name, has in gathered.items() if has and name not in own}, **own}


def indices(source: str, values: Mapping[str, Any]) -> list[str]:
    """The tensors of indices that rows or columns are gathered by."""
    return [name for name in ("idx", "jdx") if f"{name}[" in source and name in values]


def run(
    source: str,
    target: str,
    dims: dict[str, int],
    fixed: str = "",
    seed: int = 3,
    given: Callable[[str, np.ndarray], np.ndarray] = lambda name, made: made,
    change: Callable[[Kernel], Kernel] = lambda kernel: kernel,
    meant: Callable[[str, np.ndarray], np.ndarray] = lambda name, made: made,
) -> Kernel:
    """Two launches between guards, over NaNs and over another byte: right, equal, and nothing else written.

    `given` makes the indices of those that are made up, `meant` those that the reference takes in their place.
    """
    kernel = change(scalec.compile(source, target=target, dims={d: dims[d] for d in fixed}))
    kernel.fixed = emulated.EmulatedDevice(target)
    with context.context():
        program = build(source, dims)
        values = dict(reference.make(program, dims, seed))
        for name in indices(source, values):
            values[name] = given(name, values[name]).astype(np.int32)
        taken = {name: meant(name, values[name]).astype(np.int32) for name in indices(source, values)}
        expected = reference.run(program, {**values, **taken}, dims=dims, exact=True)
    launched(kernel, values, expected, dims, seed)
    return kernel


CASES = [(name, target) for name, (_, targets, _) in PROGRAMS.items() for target in targets]


@pytest.mark.once(touches=lambda case, known: {case[1]} | ({case[0]} & USUAL) | {known})
@pytest.mark.parametrize("known", [True, False], ids=["known", "open"])
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_program(case: tuple[str, str], known: bool) -> None:
    """With N and K known, and with no size known: copies then have whole rows nonetheless."""
    source, _, own = PROGRAMS[case[0]]
    run(source, case[1], sized(source, own), "nk" if known else "")


@pytest.mark.once(touches=lambda target, seed: {target})
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", EVERY)
def test_groups_of_any_size(target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, g = int(rng.integers(1, 500)), int(rng.integers(1, 9))
    source, _, _ = PROGRAMS["ragged groups"]
    run(source, target, sized(source, {"m": m, "g": g, "k": 128, "A_0": int(rng.integers(1, 200))}), "nk", seed)


ALL = ("swap=0", "swap=1", "stages=2", "split=2, swap=0", "epilogue=direct, swap=0", "epilogue=bulk, swap=0")
SCHEDULES = [
    *((schedule, target) for schedule in (*ALL, "order=m, band=1") for target in EVERY),
    ("cluster=2x1", "sm_90a"),
    ("cluster=4x1, tile=64x64x128", "sm_90a"),
    ("split=3, parts=cluster", "sm_90a"),
    ("consumers=pingpong", "sm_90a"),
    ("swap=1, tile=64x8x128, epilogue=turned", "sm_90a"),
    ("swap=1, tile=64x24x128, epilogue=direct", "sm_90a"),
    ("tile=256x64x128", "sm_90a"),
    ("cta_group=2", "sm_100a"),
    ("cta_group=2, cluster=4x1", "sm_100a"),
    ("cluster=2x1, cta_group=1", "sm_100a"),
    ("scheduler=dynamic", "sm_100a"),
    ("scheduler=dynamic", "sm_120a"),
    ("tile=16x128x128, warps=1x8", "sm_120a"),
]


@pytest.mark.once("target", touches=lambda schedule, **_: fields(schedule))
@pytest.mark.parametrize(("schedule", "target"), SCHEDULES)
def test_schedule(schedule: str, target: str) -> None:
    source, _, _ = PROGRAMS["1x128, 128x128"]
    run(f"{source} with {schedule}", target, sized(source, {"m": 150, "k": 512}), "mnk")


NARROW = [
    ("tile=64x64x32, swizzle_a=64, swizzle_b=64", "sm_90a"),
    ("tile=64x64x16, swizzle_a=32, swizzle_b=32", "sm_90a"),
    ("tile=128x64x64, swizzle_a=64, swizzle_b=64", "sm_100a"),
    ("tile=64x64x32, swizzle_a=64, swizzle_b=64", "sm_120a"),
]


@pytest.mark.once("target")
@pytest.mark.parametrize(("schedule", "target"), NARROW)
def test_rows_narrower_than_a_bulk_copys_place_come_by_threads_or_four_at_a_time(schedule: str, target: str) -> None:
    source = "C[m,n] = A[idx[m],k]:mxfp8 @ B[n,k]:mxfp8" if target == "sm_100a" else "C[m,n] = A[idx[m],k] @ B[n,k]"
    run(f"{source} with {schedule}", target, sized(source, {"m": 150}), "nk")


def test_one_row_of_less_is_refused() -> None:
    source = "C[b,m,n] = A[b,idx[m],k] @ B[b,n,k] with tile=64x64x32, swizzle_a=64, swizzle_b=64"
    with pytest.raises(ScheduleError, match="64 bytes of a row of A, which idx"):
        scalec.compile(source, target="sm_120a", dims={"n": 128, "k": 128})


SPREAD = ["bf16", "1x128, 128x128", "ragged groups", "nvfp4"]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "target"), [(name, target) for name in SPREAD for target in PROGRAMS[name][1]])
def test_rows_any_16_bytes_apart(name: str, target: str) -> None:
    """Rows of what is gathered, of its scales and of the result are further apart than they are long."""
    source, _, own = PROGRAMS[name]
    dims = sized(source, own)
    kernel = scalec.compile(source, target=target, dims={d: dims[d] for d in "nk"})
    device = kernel.fixed = emulated.EmulatedDevice(target)
    values, expected = made_up(source, dims, 3)
    lies = {t.name: {"pad": 1} for t in (*kernel.spec.operands, *kernel.spec.results) if len(t.shape) > 1}
    given, (out,) = between_guards(device, kernel.spec, values, dims, 0xFF, lies)
    a = given[0]
    assert a.strides[0] * a.itemsize % 32 == 16
    kernel(*given, out=out)
    assert not any(x.changed() for x in given)
    assert not out.changed(dims, expected.written["C"])
    assert all(c.ok for c in compare({"C": values_of(out.spec, out)}, expected))


def beyond(name: str, made: np.ndarray) -> np.ndarray:
    """Some that are beyond what they are indices of, as far as an i32 goes."""
    made = made.copy()
    made[::5], made[3], made[4] = 10**6, 2**31 - 1, -(2**31)
    return made


@pytest.mark.once("name")
@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("name", ["1x128, 128x128", "the other operand", "inputs", "mxfp8 result", "batches"])
def test_an_index_beyond_the_rows_is_as_a_negative_one(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody checks, as on a GPU. Nothing outside is read either: the emulator would say so."""
    monkeypatch.setattr(emulated.EmulatedDevice, "checks", False)
    source, _, own = PROGRAMS[name]
    dims = sized(source, own)
    extents = {"the other operand": "B_0", "batches": "A_1"}
    most = dims[extents.get(name, "A_0")]

    def spoil(tensor: str, made: np.ndarray) -> np.ndarray:
        flat = beyond(tensor, made.reshape(-1))
        return flat.reshape(made.shape)

    def skip(_: str, made: np.ndarray) -> np.ndarray:
        return np.where(made < most, made, -1)

    run(source, target, dims, "nk", given=spoil, meant=skip)


@pytest.mark.once("which")
@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("which", ["none", "one", "all of a tile", "last", "reversed"])
def test_indices(which: str, target: str) -> None:
    """No row at all, one row for all, no row of a tile, and rows in the reverse of their order."""

    def given(_: str, made: np.ndarray) -> np.ndarray:
        rows = np.arange(len(made))
        return {
            "none": np.full(len(made), -1),
            "one": np.full(len(made), 7),
            "all of a tile": np.where(rows < 256, -1, rows % 50),
            "last": np.full(len(made), 49),
            "reversed": (rows[::-1] % 50),
        }[which]

    source, _, _ = PROGRAMS["1x128, 128x128"]
    run(source, target, sized(source, {"m": 300}), "nk", given=given)


FAULTS = {
    "two of four rows change places": ("sm_120a", r"(gather4[^{]*{%r\d+), (%r\d+), (%r\d+)", r"\1, \3, \2"),
    "an index beyond the last row is read": ("sm_90a", r"@%p\d+ (ld\.global\.nc\.b32)", r"\1"),
    "rows are handed over before they have landed": (
        "sm_90a",
        r"cp\.async\.mbarrier\.arrive\.noinc\.shared::cta\.b64 (\[%r\d+\])",
        r"mbarrier.arrive.shared::cta.b64 _, \1",
    ),
    "arrivals behind copies are counted twice": ("sm_90a", r"arrive\.noinc", "arrive"),
    "rows are handed over without a fence": ("sm_90a", r"fence\.proxy\.async\.shared::cta;", ""),
    "chunks of a row change places": ("sm_90a", r"(cp\.async\.cg\.shared\.global \[%r\d+) \+ 0\]", r"\1 + 16]"),
    "every thread announces the bytes": (
        "sm_120a",
        r"@%p\d+ (bra\s+\S+;\s+bra\.uni[^\n]*\n\S+:\s+mov\.b32[^\n]*\s+mbarrier\.arrive\.expect_tx)",
        r"\1",
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault: str) -> None:
    target, old, new = FAULTS[fault]

    def change(kernel: Kernel) -> Kernel:
        ptx, count = re.subn(old, new, kernel.ptx)
        if not count or ptx == kernel.ptx:  # no AssertionError, which would be a fault that is found
            pytest.fail(f"no match of {old!r}")
        return Kernel(kernel.spec, b"", ptx=ptx)

    source, _, own = PROGRAMS["1x128, 128x128"]
    with pytest.raises((AssertionError, ScalecError)):
        run(source, target, sized(source, own), "nk", change=change)
