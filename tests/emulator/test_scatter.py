"""Rows of results that are scattered, on every target: where an index says, whole, and nothing else is written."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.guarded import Guarded
from scalec.checking.launch import values_of
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from tests.emulator.running import TARGETS
from tests.emulator.test_several_results import run
from tests.tiers import SEEDS

BLACKWELL = TARGETS[1:]
BF16 = "A[m,k] @ B[n,k]"
RAGGED = "for m in off[g]:off[g+1]"

CASES: dict[str, tuple[str, list[str]]] = {
    "rows": (f"C[idx[m],n] = {BF16}", TARGETS),
    "f32": (f"C[idx[m],n]:f32 = gelu({BF16} + b[n])", TARGETS),
    "4 bits": (f"C[idx[m],n]:e2m1 = {BF16}", TARGETS),
    "a weight of a row": (f"C[idx[m],n] = r[m] * ({BF16})", TARGETS),
    "inputs at both": (f"C[idx[m],n] = x[idx[m],n] + y[m,n] + z[idx[m]] * ({BF16})", TARGETS),
    "+=": (f"C[idx[m],n]:f32 += r[m] * ({BF16})", TARGETS),
    "+= to bf16": (f"C[idx[m],n] += {BF16}", TARGETS),
    "blocks": ("C[idx[m],n] = A[m,k] @ B[e[m/64],n,k] scale(1x128,1x128x128)", TARGETS),
    "ragged": (f"C[idx[m],n] = r[m] * (A[m,k] @ B[g,n,k]) {RAGGED}", TARGETS),
    "ragged +=": (f"C[idx[m],n]:f32 += A[m,k] @ B[g,n,k] {RAGGED}", TARGETS),
    "masked": ("C[g,idx[g,m],n] = A[g,m,k] @ B[g,n,k] for m < rows[g]", TARGETS),
    "groups into one": ("C[idx[g,m],n] = A[g,m,k] @ B[g,n,k] for m < rows[g]", TARGETS),
    "a matrix for each group": ("C[e[g],m,n] = A[g,m,k] @ B[g,n,k]", TARGETS),
    "a matrix for each block": (f"C[e[m/64],m,n] = {BF16}", TARGETS),
    "gathered": ("C[dst[m],n] = A[src[m],k] @ B[n,k]", TARGETS),
    "gathered, by one index": ("C[idx[m],n] = A[idx[m],k] @ B[n,k] scale(1x128, 128x128)", TARGETS),
    "the right operand's rows": ("C[idx[n],m] = A[m,k] @ B[n,k] + x[m] * y[n]", TARGETS),
    "mxfp8 result": (f"D[idx[m],n]:mxfp8 = {BF16}", TARGETS),
    "nvfp4 result": (f"D[idx[m],n]:nvfp4 = r[m] * ({BF16})", TARGETS),
    "scales by columns": (f"D[idx[m],n]:e4m3 scale(1x32:f32@col) = {BF16}", TARGETS),
    "packed scales": (f"D[idx[m],n]:e4m3 scale(1x32:ue8m0@packed) = {BF16}", TARGETS),
    "blocked scales": (f"D[idx[m],n]:e5m2 scale(1x32:ue8m0@blocked) = {BF16}", TARGETS),
    "quantised, ragged": (f"D[idx[m],n]:mxfp8 = silu(A[m,k] @ B[g,n,k]) {RAGGED}", TARGETS),
    "some of several": (
        f"T[m,n] = {BF16}; C[idx[m],n] = T + x[n]; D[m,n]:mxfp8 = relu(T); E[p[m],n]:f32 = T * r[m]",
        TARGETS,
    ),
    "of mxfp8": ("D[idx[m],n]:mxfp8 = A[m,k]:mxfp8 @ B[e[m/32],n,k]:mxfp8", BLACKWELL),
    "of nvfp4": (f"C[idx[m],n] = A[m,k]:nvfp4 @ B[g,n,k]:nvfp4 {RAGGED}", BLACKWELL),
}


def sizes(source: str, seed: int) -> dict[str, int]:
    """Of each dimension: tails in all, few rows and many, and results of more rows than are written, or as many."""
    m, n, k = (
        (70, 136, 128), (139, 264, 192), (1, 72, 64), (130, 24, 136), (200, 160, 72), (9, 8, 320), (65, 96, 128),
        (33, 232, 256),
    )[seed]  # fmt: skip
    k = -(-k // 128) * 128 if "scale(" in source or ":mxfp8 @" in source or "nvfp4 @" in source else k
    found = {"m": m, "n": n, "k": k}
    found |= {"g": 1 + seed % 4} if "[g," in source or ",g" in source else {}
    found |= {"A_0": m + 3} if "A[src" in source or "A[idx" in source else {}
    found |= {"B_0": 3} if "B[e[" in source else {}
    found |= {"x_0": 2 * m, "z_0": 2 * m} if "z[idx" in source else {}
    groups = found.get("g", 1)
    rows = n if "idx[n]" in source else m * groups if "idx[g,m]" in source else m
    for result in "CDE":
        if f"{result}[g,idx" in source:
            found[f"{result}_1"] = m + 5 * (seed % 3)
        elif f"{result}[e[" in source:
            found[f"{result}_0"] = 1 + (groups if "e[g]" in source else -(-m // 64))
        elif any(f"{result}[{index}[" in source for index in ("idx", "dst", "p")):
            found[f"{result}_0"] = rows + (0, 37, 5, 300)[seed % 4]
    return found


@pytest.mark.once(touches=lambda case, seed: {case[1]} | ({case[0]} & {*list(CASES)[::6]}))
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", [(name, target) for name, (_, targets) in CASES.items() for target in targets])
def test_scattered(case: tuple[str, str], seed: int) -> None:
    name, target = case
    source = CASES[name][0]
    dims = sizes(source, seed)
    fixed = [d for d in dims if d in ("nk", "mnk", "k", "n")[seed % 4]]
    fixed = [*fixed, "n", "k"] if name == "of nvfp4" else fixed
    run(source, target, dims, "".join(dict.fromkeys(fixed)), seed)


FIELDS = [
    ("sm_90a", "tile=128x128x64, warpgroups=2"),
    ("sm_90a", "tile=64x64x64, warpgroups=2, consumers=pingpong"),
    ("sm_90a", "tile=128x64x64, split=2"),
    ("sm_90a", "tile=128x64x64, split=2, parts=cluster"),
    ("sm_90a", "tile=256x64x64, warpgroups=2, staged=1"),
    ("sm_90a", "tile=64x64x64, cluster=2x1, epilogue=direct"),
    ("sm_90a", "swap=1, tile=64x32x64, epilogue=turned"),
    ("sm_90a", "swap=1, tile=128x16x64, warpgroups=2, epilogue=turned"),
    ("sm_90a", "swap=1, tile=64x16x64, epilogue=direct, split=2"),
    ("sm_100a", "tile=128x128x64, warpgroups=2"),
    ("sm_100a", "tile=128x64x64, split=2, scheduler=dynamic"),
    ("sm_100a", "tile=128x64x64, cta_group=2, cluster=2x1"),
    ("sm_100a", "swap=1, tile=128x32x64"),
    ("sm_120a", "tile=128x128x64, warpgroups=2"),
    ("sm_120a", "tile=64x64x64, split=2"),
    ("sm_120a", "swap=1, tile=128x32x64"),
]
SCHEDULED = f"T[m,n] = {BF16}; C[idx[m],n] = T * r[m]; D[idx[m],n]:mxfp8 = relu(T); E[m,n] = T"


@pytest.mark.once(touches=lambda case: {case[0], *(["turned"] if "turned" in case[1] else [])})
@pytest.mark.parametrize("case", FIELDS, ids=[f"{target}, {fields}" for target, fields in FIELDS])
def test_schedules(case: tuple[str, str]) -> None:
    target, fields = case
    run(f"{SCHEDULED} with {fields}", target, {"m": 139, "n": 208, "k": 136, "C_0": 150, "D_0": 150}, "nk")


@pytest.mark.once("form")
@pytest.mark.parametrize("form", ["f32", "bf16", "f16", "e4m3", "e2m1"])
@pytest.mark.parametrize("fields", ["epilogue=turned", "epilogue=direct"])
def test_formats_of_columns(form: str, fields: str) -> None:
    """Rows of the result are columns of the tile, of each type that is stored."""
    dims = {"m": 37, "n": 160, "k": 64, "C_0": 50}
    run(f"C[idx[m],n]:{form} = {BF16} with swap=1, tile=64x32x64, {fields}", "sm_90a", dims, "nk", 1)


@pytest.mark.once("form")
@pytest.mark.parametrize("swizzle", [0, 32])
@pytest.mark.parametrize("form", ["f32", "bf16", "f16", "e4m3", "e2m1"])
def test_formats_of_rows(form: str, swizzle: int) -> None:
    """Rows out of shared memory, of each type that is stored: 16 bytes a thread, as many threads a row as a swizzle
    allows; of two waves of a warpgroup."""
    dims, narrow = {"m": 137, "n": 160, "k": 64, "C_0": 150}, f", swizzle_c={swizzle}" * bool(swizzle)
    fields = f"tile=128x64x64, warpgroups=1, epilogue=rows{narrow}"
    run(f"C[idx[m],n]:{form} = {BF16} with {fields}", "sm_90a", dims, "nk", 1)


def test_rows_are_added_to_where_nothing_is_loaded() -> None:
    """Of few K blocks bulk copies would load what is added to."""
    kernel, _ = run(f"C[m,n]:f32 += {BF16} with epilogue=rows", "sm_90a", {"m": 70, "n": 72, "k": 64}, "nk")
    assert {"epilogue=rows", "adds=memory"} <= {*kernel.spec.schedule.split(", ")}


def scattered(target: str, source: str, index: np.ndarray, m: int, n: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(C as written over 0xFF bytes, the sums of rows of A with B), with these indices."""
    kernel: Kernel = scalec.compile(source, target=target, dims={"n": n, "k": 64})
    device = kernel.fixed = emulated.EmulatedDevice(target)
    device.checks = False  # which would refuse what is beyond the result
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, (x, 64)).astype(np.float32) for x in (m, n))
    stored = {"A": reference.cast(a, "bf16"), "B": reference.cast(b, "bf16"), "idx": index.astype(np.int32)}
    given = [Guarded(device, t, reference.storage(stored[t.name])) for t in kernel.spec.operands]
    out = Guarded.result(device, kernel.spec.results[0], {"C_0": rows, "n": n}, 0xFF, None)
    kernel(*given, out=out)
    assert not any(x.changed() for x in given)
    points = np.zeros((rows, n), bool)
    points[index[(index >= 0) & (index < rows)]] = True
    assert not out.changed({"C_0": rows, "n": n}, points)
    return values_of(out.spec, out), a @ b.T


@pytest.mark.parametrize("fields", ["", " with swap=1"])
@pytest.mark.parametrize("target", TARGETS)
def test_what_indices_say(target: str, fields: str) -> None:
    """The rows of a permutation, without those that are negative or beyond the result."""
    m, n, rows = 45, 72, 40
    index = np.random.default_rng(3).permutation(m + 10)[:m]  # some are beyond the result
    index[[0, 7, 8, 44]] = [-1, -(2**31), rows, 2**31 - 1]
    made, sums = scattered(target, f"C[idx[m],n]:f32 = {BF16}{fields}", index, m, n, rows)
    inside = (index >= 0) & (index < rows)
    assert (made[index[inside]] == sums[inside]).all()
    others = np.setdiff1d(np.arange(rows), index[inside])
    assert len(others)
    assert np.isnan(made[others]).all()


@pytest.mark.parametrize("target", TARGETS)
def test_no_row_at_all(target: str) -> None:
    made, _ = scattered(target, f"C[idx[m],n] = {BF16}", np.full(20, -1), 20, 64, 8)
    assert np.isnan(made.astype(np.float32)).all()
