"""Sums over indices read from memory, `A[idx[k],m] @ B[k,n]`: points whose index names nothing are left out, and what
lies there or outside of a group's range, NaN too, is not multiplied."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import compiler, reference
from scalec.errors import ScheduleError, UnsupportedError
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from tests.emulator.running import refusals
from tests.emulator.test_range_of_k import run
from tests.tiers import SEEDS, fields

ALL = ("sm_90a", "sm_100a", "sm_120a")
RANGE = " for k in off[g]:off[g+1]"

PROGRAMS: dict[str, str] = {
    "plain": "C[m,n]:f32 = A[idx[k],m] @ B[k,n]",
    "right": "C[m,n] = A[k,m] @ B[idx[k],n]",
    "both": "C[m,n]:f32 = A[idx[k],m]:f16 @ B[jdx[k],n]:f16",
    "both by one": "C[m,n]:f32 = A[idx[k],m] @ B[idx[k],n]",
    "turned": "C[n,m]:f32 = A[idx[k],m] @ B[k,n]",
    "batches": "C[b,m,n]:f32 = A[b,idx[b,k],m] @ B[k,b,n]",
    "groups, +=": "C[g,m,n]:f32 += A[idx[k],m] @ B[k,n]" + RANGE,
    "groups": "C[g,m,n] = A[idx[k],m]:f16 @ B[k,n]:f16" + RANGE,
    "groups, right": "C[g,m,n]:f32 = A[k,m] @ B[idx[k],n]" + RANGE,
    "groups, both": "C[g,m,n]:f32 += A[idx[k],m] @ B[jdx[k],n]" + RANGE,
    "blocks of rows": "C[m,n]:f32 = A[idx[k],m] @ B[e[m/64],k,n]",
    "an epilogue": "C[m,n] = relu(A[idx[k],m] @ B[k,n] + x[n])",
}

EIGHT: dict[str, str] = {
    "8 bits": "C[m,n]:f32 = A[idx[k],m]:e4m3 @ B[k,n]:e5m2",
    "8 bits, right": "C[m,n] = A[k,m]:e5m2 @ B[idx[k],n]:e4m3",
    "two types": "C[m,n]:f32 = A[idx[k],m]:e4m3 @ B[k,n]:bf16",
    "two types, groups": "C[g,m,n]:f32 += A[k,m]:f16 @ B[idx[k],n]:e5m2" + RANGE,
    "8 bits, groups": "C[g,m,n]:f32 += A[idx[k],m]:e4m3 @ B[jdx[k],n]:e4m3" + RANGE,
}
"""8 bits, which warps turn where the tensor core does not read them so."""

SCALED: dict[str, str] = {
    "scales": "C[m,n]:f32 = A[idx[k],m]:e4m3 @ B[k,n]:e4m3 scale(none, 128x1)",
    "scales, left": "C[m,n]:f32 = A[k,m]:e5m2 @ B[idx[k],n]:e4m3 scale(128x1@col, none)",
    "scales of blocks": "C[m,n]:f32 = A[idx[k],m]:e4m3 @ B[k,n]:e4m3 scale(tensor, 128x128)",
    "ue8m0": "C[m,n]:f32 = A[idx[k],m]:e4m3 @ B[k,n]:e4m3 scale(none, 32x1:ue8m0)",
    "scales, groups": "C[g,m,n]:f32 += A[idx[k],m]:e4m3 @ B[k,n]:e4m3 scale(none, 128x1)" + RANGE,
    "scales of blocks, groups": "C[g,m,n] = A[k,m]:e4m3 @ B[idx[k],n]:e4m3 scale(128x128, none)" + RANGE,
    "ue8m0, groups": "C[g,m,n]:f32 = A[idx[k],m]:e4m3 @ B[k,n]:e4m3 scale(none, 32x1:ue8m0@col)" + RANGE,
    "scales, apart": "C[g,m,n]:f32 += A[idx[k],m]:e4m3 @ B[k,n]:e4m3 scale(none, 128x1)" + RANGE + " apart",
    "left, apart": "C[g,m,n]:f32 += A[k,m]:e4m3 @ B[idx[k],n]:e4m3 scale(128x128, none)" + RANGE + " apart",
    "ue8m0, apart": "C[g,m,n]:f32 += A[idx[k],m]:e4m3 @ B[k,n]:e4m3 scale(none, 32x1:ue8m0)" + RANGE + " apart",
}
"""Of the operand beside: of blocks of k, or of each group's."""

NAMED: dict[str, str] = {
    "named": "C[m,n]:f32 = A[idx[k],m]:e4m3 @ B[k,n]:bf16 scale(1x32:ue8m0, none)",
    "named, right": "C[m,n]:f32 = A[k,m]:bf16 @ B[idx[k],n]:e5m2 scale(none, 1xn:ue8m0)",
    "named, columns": "C[m,n]:f32 = A[idx[k],m]:e4m3 @ B[k,n]:bf16 scale(1x8:ue8m0@col, none)",
    "named, blocks": "C[m,n]:f32 = A[idx[k],m]:e4m3 @ B[k,n]:bf16 scale(4x16:ue8m0, none)",
    "named, batches": "C[b,m,n]:f32 = A[b,idx[b,k],m]:e4m3 @ B[k,b,n]:bf16 scale(1x1x32:ue8m0, none)",
    "named, both": "C[g,m,n]:f32 = A[idx[k],m]:e4m3 @ B[jdx[k],n]:e5m2 scale(1x32:ue8m0, 1x128:ue8m0)" + RANGE,
    "named, groups": "C[g,m,n]:f32 += A[idx[k],m]:e4m3 @ B[k,n]:e4m3 scale(1x128:ue8m0, 128x1)" + RANGE,
    "named, apart": "C[g,m,n]:f32 += A[idx[k],m]:e4m3 @ B[k,n]:e4m3 scale(1x32:ue8m0, 128x1)" + RANGE + " apart",
}
"""Of the rows that are gathered."""

ENDS = (3, 3, 40, 130, 131, 256, 300, 300)
ROWS = 40
"""Of a tensor that is gathered."""

DIMS = {"m": 72, "n": 104, "k": 310, "b": 2, "g": len(ENDS) - 1}


def made(text: str, dims: dict[str, int], ends: tuple[int, ...], seed: int) -> tuple[dict[str, Any], np.ndarray]:
    """Operands with indices of which some are negative and some of one row, and NaN in all rows that are not summed;
    the result."""
    rng = np.random.default_rng(seed)
    with context.context():
        program = build(text, dims)
        values = dict(reference.make(program, dims, seed=seed))
        if "off" in values:
            values["off"] = np.array(ends, np.int32)
        for name in ("idx", "jdx"):
            if name in values:
                found = rng.integers(0, ROWS, values[name].shape).astype(np.int32)
                values[name] = np.where(rng.random(found.shape) < 0.1, np.int32(-1), found)
                if "scale" in text:  # nor any of a block of scales
                    values[name][32:64] = values[name][128:256] = -1
        (wanted,) = reference.run(program, values, dims=dims, exact=True).values()
    names = {x for x in ("idx", "jdx") if x in values}
    inside = np.all([values[x] >= 0 for x in names], axis=0)
    if "off" in values:
        k = np.arange(dims["k"])
        inside = inside & (k >= ends[0]) & (k < ends[-1])
    for tensor, index in re.findall(r"([AB])\[(?:b,)?([ij]dx)\[", text) + [
        (x, "") for x in re.findall(r"([AB])\[k", text)
    ]:
        array = values[tensor]
        kept = np.zeros(array.shape[:-1], bool)
        if not index:
            kept = (inside.T if inside.ndim > 1 else inside).copy()
        elif inside.ndim > 1:
            for b in range(dims["b"]):
                kept[b, values[index][b][inside[b]]] = True
        else:
            kept[values[index][inside]] = True
        values[tensor] = np.where(kept[..., None], array, np.array(np.nan, array.dtype))
        if index and "scale(1x" in text and inside.ndim == 1 and tensor + "_scale" in values:  # of rows that none names
            scale = values[tensor + "_scale"]
            values[tensor + "_scale"] = np.where(kept[:, None], scale, np.array(np.nan, scale.dtype))
        block = re.search(r"\b(32|128)x", text)
        if block and not index and "apart" not in text:  # of blocks of which nothing is summed
            scale, first = values[tensor + "_scale"], range(0, dims["k"], int(block[1]))
            some = np.array([kept[i : i + first.step].any() for i in first])
            values[tensor + "_scale"] = np.where(some[:, None], scale, np.array(np.nan, scale.dtype))
    return values, wanted


def check(
    name: str,
    target: str,
    settings: str = "",
    ends: tuple[int, ...] = ENDS,
    seed: int = 1,
    fixed: tuple[str, ...] = ("n", "k"),
    **sizes: int,
) -> Kernel:
    """Against the reference, with NaN wherever nothing is summed."""
    text = (PROGRAMS | EIGHT | SCALED | NAMED)[name]
    dims = {d: n for d, n in (DIMS | sizes | {"g": len(ends) - 1}).items() if re.search(rf"\b{d}\b", text)}
    dims |= {f"{x}_{int(bool(b))}": ROWS for x, b in re.findall(r"([AB])\[(b,)?\w+\[", text)}
    known = {d: dims[d] for d in fixed}
    kernel = scalec.compile(text + f" with {settings}" * bool(settings), target=target, dims=known)
    values, wanted = made(text, dims, ends, seed)
    got = run(kernel, target, values, dims, seed)
    assert not np.isnan(got).any(), f"NaN: {target}, {text}, {kernel.spec.schedule}"
    assert reference.diff(got, wanted) < (1e-5 if ":f32" in text else 1e-3), f"{target}, {text}, {kernel.spec.schedule}"
    return kernel


REFUSED = {
    "scales": (
        "C[m,n] = A[idx[k],m] @ B[k,n] scale(128x1, 128x1)",
        "is gathered along k, which is summed: each has its own A_scale",
    ),
    "tf32": ("C[m,n] = A[idx[k],m]:tf32 @ B[k,n]:tf32", "expected: bf16, f16, e4m3 or e5m2"),
    "4 bits": ("C[m,n] = A[idx[k],m]:mxfp4 @ B[k,n]:bf16", "expected: bf16, f16, e4m3 or e5m2"),
    "f32 of 1x128": ("C[m,n] = A[idx[k],m] @ B[k,n] scale(1x128, 128x1)", "got: e4m3, scales of f32"),
    "few rows": ("C[m,n] = A[idx[k],m] @ B[k,n]:bf16 scale(1x4:ue8m0, none)", "expected: a multiple of 8, or all"),
    "f16": ("C[m,n] = A[idx[k],m] @ B[k,n]:f16 scale(1x32:ue8m0, none)", "an operand beside it that bf16 has too"),
    "levels": ("C[m,n] = A[idx[k],m]:nvfp4 @ B[k,n]", "got: e2m1"),
    "along K": ("C[m,n] = A[idx[k],m] @ B[n,k]", "beside B"),
    "several": ("G[m,n] = A[idx[k],m] @ B[k,n]; U[m,n] = A[idx[k],m] @ D[k,n]; H[m,n] = G*U", "of one contraction"),
    "blocks of K": ("C[m,n] = A[idx[k],m] @ B[e[k/64],k,n]", "an index for each k, in the place of k"),
    "two": ("C[m,n] = A[idx[k],jdx[k],m] @ B[k,n]", "2 indices for each k"),
    "elements": ("C[m,n] = A[m,idx[k]] @ B[n,k]", "contiguous along idx[k]"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be(what: str) -> None:
    source, why = REFUSED[what]
    with pytest.raises(UnsupportedError, match=re.escape(why)):
        compiler.compile_source(source, "sm_90a")


test_no_gathered_rows_are_shared = refusals(
    [
        ("cluster=1x2", "share tiles of A, whose rows idx[k] names"),
        ("cta_group=2", "each CTA copies its own rows of k", "sm_100a"),
    ],
    ScheduleError,
    within=PROGRAMS["plain"] + " with {}",
)


USUAL = {"plain", "groups, both", "groups, +="}


@pytest.mark.once(touches=lambda name, target: {target} | ({name} & USUAL))
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, target: str) -> None:
    check(name, target)


@pytest.mark.once(touches=lambda name, target: {target, name} - {x for x in EIGHT if x.startswith("two")})
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("name", EIGHT)
def test_eight_bits(name: str, target: str) -> None:
    check(name, target, n=112, m=80)


@pytest.mark.once(touches=lambda name, target: {name + target} & {"namedsm_90a"})
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("name", SCALED | NAMED)
def test_scales(name: str, target: str) -> None:
    check(name, target, n=112, m=80)


@pytest.mark.thorough
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("seed", SEEDS)
def test_scales_drawn(target: str, seed: int) -> None:
    """Sizes, ends and indices that are drawn, of sizes that are not known."""
    rng = np.random.default_rng(seed)
    k, programs = int(rng.integers(257, 600)), [*SCALED, *NAMED]
    name = programs[int(rng.integers(len(programs)))]
    ends = np.sort(rng.integers(0, k + 1, int(rng.integers(1, 12)) + 1))
    sizes = {"m": 16 * int(rng.integers(1, 17)), "n": 16 * int(rng.integers(1, 17)), "k": k}
    check(name, target, "", tuple(map(int, ends)), seed, (), **sizes)


SCHEDULES = [
    ("plain", "sm_90a", "swap=1"),
    ("plain", "sm_90a", "split=2"),
    ("plain", "sm_90a", "consumers=pingpong, tile=64x64x64, warpgroups=2"),
    ("plain", "sm_90a", "tile=64x32x32, swizzle_a=128, swizzle_b=64"),
    ("groups, +=", "sm_90a", "tile=128x192x64, stages=2"),
    ("groups, +=", "sm_90a", "tile=64x64x64, cluster=2x1"),
    ("groups, right", "sm_90a", "tile=64x32x64, cluster=1x2, swap=0"),
    ("groups, right", "sm_90a", "tile=64x64x16"),
    ("groups, +=", "sm_100a", "tile=128x64x64, cluster=2x1, swap=0"),
    ("plain", "sm_100a", "swap=1, stages=2"),
    ("plain", "sm_100a", "tile=128x64x32, split=2"),
    ("groups, +=", "sm_100a", "tile=128x256x64, stages=2"),
    ("plain", "sm_120a", "swap=1"),
    ("groups, +=", "sm_120a", "tile=64x64x32, stages=3"),
    ("8 bits", "sm_120a", "tile=64x64x64, swap=1"),
    ("8 bits", "sm_90a", "tile=64x96x128, swap=0"),
    ("8 bits", "sm_90a", "tile=128x48x64, promote=64, swap=1, split=2"),
    ("8 bits, groups", "sm_90a", "tile=64x128x128, stages=2"),
    ("8 bits, groups", "sm_100a", "tile=128x64x64, stages=2"),
    ("scales", "sm_90a", "tile=64x96x128, swap=0, split=2"),
    ("named", "sm_90a", "tile=64x96x64, swap=0, split=2"),
    ("named", "sm_90a", "tile=128x48x64, swap=1"),
    ("named, groups", "sm_90a", "tile=128x64x64, cluster=2x1, swap=0"),
    ("named", "sm_100a", "tile=128x64x64, swap=1"),
    ("named, groups", "sm_120a", "tile=64x64x64, stages=3"),
    ("scales, groups", "sm_90a", "tile=128x64x64, promote=64, swap=1"),
    ("ue8m0, groups", "sm_120a", "tile=64x64x64, swap=1"),
    ("ue8m0", "sm_120a", "split=2"),
    ("ue8m0, apart", "sm_100a", "tile=128x64x128, cluster=2x1, swap=0"),
]


@pytest.mark.once(touches=lambda settings, **_: {*fields(settings)} & {"swap", "split", "consumers", "cluster"})
@pytest.mark.parametrize(("name", "target", "settings"), SCHEDULES)
def test_schedule(name: str, target: str, settings: str) -> None:
    check(name, target, settings)


@pytest.mark.once("seed")
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("seed", SEEDS)
def test_drawn(target: str, seed: int) -> None:
    """Sizes, ends and indices that are drawn, of sizes that are not known."""
    rng = np.random.default_rng(seed)
    name, k = list(PROGRAMS)[int(rng.integers(len(PROGRAMS)))], int(rng.integers(1, 400))
    ends = np.sort(rng.integers(0, k + 1, int(rng.integers(1, 12)) + 1))
    sizes = {"m": 8 * int(rng.integers(1, 33)), "n": 8 * int(rng.integers(1, 33)), "k": k}
    check(name, target, "", tuple(map(int, ends)), seed, (), **sizes)


@pytest.mark.once("name", "target")
@pytest.mark.parametrize("name", ["plain", "groups, both"])
@pytest.mark.parametrize("target", ALL)
def test_nothing(name: str, target: str) -> None:
    """A sum over no k is 0."""
    check(name, target, "", (0,) * len(ENDS), 1, (), k=0)


@pytest.mark.once
@pytest.mark.parametrize("target", ALL)
def test_an_index_beyond_the_tensor_is_none(target: str) -> None:
    """Nothing is read outside, and the result is that of a negative one."""
    text, dims = PROGRAMS["groups, both"], {"g": 2, "m": 40, "n": 48, "k": 70, "A_0": ROWS, "B_0": ROWS}
    values, _ = made(text, dims, (1, 30, 69), 1)
    kernel = scalec.compile(text, target=target)
    device = kernel.fixed = emulated.EmulatedDevice(target)
    device.checks = False
    kernel.load(device)
    wanted = run(kernel, target, values, dims, 1)
    for name, far in (("idx", ROWS), ("jdx", 2**31 - 1)):
        values[name] = np.where(values[name] < 0, np.int32(far), values[name])
    assert run(kernel, target, values, dims, 1).tobytes() == wanted.tobytes()
