"""Products that share nothing but the result, `A @ B + D @ E`: one kernel sums both, whatever their sizes."""

from __future__ import annotations

import pytest

import scalec
from scalec import abi
from scalec.operations import operations
from tests import tiers
from tests.emulator.running import TARGETS, in_pairs, refusals
from tests.emulator.test_several_results import run

SUM = "A[m,k] @ B[n,k] + D[m,r] @ E[n,r]"


def scaled(scales: str, last: str = "") -> str:
    """The sum, each product with scales, and an index in front of the right operands' others."""
    return f"A[m,k] @ B[{last}n,k] scale({scales}) + D[m,r] @ E[{last}n,r] scale({scales})"


PROGRAMS = {
    "bf16": f"C[m,n] = relu({SUM} + x[n])",
    "between": "C[m,n] = A[m,k] @ B[n,k] + x[m] + D[m,r] @ E[n,r]",
    "f16": "C[m,n]:f32 = A[m,k]:f16 @ B[n,k]:f16 + D[m,r]:f16 @ E[n,r]:f16",
    "tf32": "C[m,n]:f32 += A[m,k]:tf32 @ B[n,k]:tf32 + D[m,r]:tf32 @ E[n,r]:tf32",
    "fp8": "C[m,n]:f16 = A[m,k]:e4m3 @ B[n,k]:e5m2 + D[m,r]:e4m3 @ E[n,r]:e5m2",
    "rows last": "C[m,n] = A[k,m] @ B[k,n] + D[r,m] @ E[r,n]",
    "quantised": f"C[m,n]:mxfp8 = gelu({SUM})",
    "one K": "C[m,n] = A[m,k] @ B[n,k] + D[m,k] @ E[n,k] + F[m,r] @ G[n,r]",
    "operands the other way": "C[m,n] = E[n,r] @ D[m,r] + A[m,k] @ B[n,k]",
    "columns last": f"C[n,m] = {SUM}",
    "two results": f"T[m,n] = {SUM}; C[m,n] = T; F[m,n]:f32 = relu(T)",
    "factor of all": f"C[m,n] = alpha * ({SUM}) * x[m]",
    "batches": "C[b,m,n] = A[b,m,k] @ B[n,k] + D[m,r] @ E[b,n,r]",
    "other batches": "C[b,m,n] = A[b,m,k] @ B[n,k] + D[b,r] @ E[m,n,r]",
    "several K": "C[m,n] = A[m,k] @ B[n,k] + D[m,b,r] @ E[n,b,r]",
    "several K of the first": "C[m,n] = A[b,m,k] @ B[b,n,k] + D[m,r] @ E[n,r]",
    "reduced": f"T[m,n] = {SUM}; C[m,n] = T; R[m]:f32 = max[n](abs(T))",
    "a part of a tensor": "C[m,n] = A[m,k] @ B[n,k] + D[m,r] @ E[n+size(n),r]",
    "fp8 blocks": f"C[m,n] = relu({scaled('1x128, 128x128')} + x[n])",
    "fp8 rows": f"C[m,n]:f32 = {scaled('1x128@col, 1x128@col')}",
    "fp8 blocks of both": f"C[m,n]:mxfp8 = {scaled('128x128, 128x128:bf16')}",
    "fp8 of one side": "C[m,n] = A[m,k]:e4m3 @ B[n,k] scale(none, 128x128) + D[m,r]:e4m3 @ E[n,r] scale(none, 128x128)",
    "fp8, several K": "C[m,n] = A[b,m,k] @ B[b,n,k] scale(1x128, 128x128) + D[m,r] @ E[n,r] scale(1x128, 128x128)",
    "fp8, other blocks of rows": "C[m,n] = A[m,k] @ B[n,k] scale(1x128, 128x128) + D[m,r] @ E[n,r] scale(1x128, 1x128)",
    "fp8, a factor of each": "C[m,n] = A[m,k] @ B[n,k] scale(1x128, 1xk) + D[m,r] @ E[n,r] scale(1x128, 1xr)",
}
"""On all targets. Blocks of scales are longer than R, or not: either way the scales of its product change along it."""

NARROW = {
    "fp8 fine": f"C[m,n]:f32 = {scaled('1x64, 128x64')}",
    "e2m1": "C[m,n] = A[m,k]:e2m1 @ B[n,k]:e2m1 + D[m,r]:e2m1 @ E[n,r]:e2m1",
    "e2m1 by e4m3": "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e2m1 + D[m,r]:e4m3 @ E[n,r]:e2m1",
}
"""Some targets convert operands of these: sm_90a those of 4 bits, sm_120a those whose scales change within a K tile."""

SIZES: list[tuple[dict[str, int], str]] = [
    ({"m": 77, "n": 128, "k": 200, "r": 16, "b": 3}, "nkrb"),
    ({"m": 136, "n": 72, "k": 72, "r": 136, "b": 2}, ""),
    ({"m": 40, "n": 264, "k": 64, "r": 64, "b": 2}, "nk"),
]
"""Sizes, and which of them the kernel knows: tails of tiles along each dimension, the first K longer, or the second."""


USUAL = {"bf16", "rows last", "quantised", "batches", "several K", "reduced", "fp8 blocks", "fp8, several K", "e2m1"}
"""Of the programs, those of a usual run."""


def rounded(dims: dict[str, int], program: str) -> dict[str, int]:
    """With sizes that are multiples of what rows of the program's types are copied by."""
    step = 128 if "e2m1" in program else 16 if "e4m3" in program or "scale(" in program else 8
    along = {"k": step, "r": step, "m": 4} if "[k,m]" not in program else {"m": step}
    made = {d: -(-size // along.get(d, 1)) * along.get(d, 1) for d, size in dims.items()}
    return {d: size for d, size in made.items() if any(f"{d}{end}" in program for end in ",]+")}


@pytest.mark.once("target", "size", touches=lambda name, **_: {name} & USUAL)
@pytest.mark.parametrize(("target", "name", "size"), in_pairs(TARGETS, PROGRAMS | NARROW, len(SIZES)))
def test_program(target: str, name: str, size: int) -> None:
    (dims, fixed), program = SIZES[size], (PROGRAMS | NARROW)[name]
    if ":mxfp8" in program:
        fixed = fixed if "n" in fixed else fixed + "n"
        dims = {**dims, "n": 128}
    dims = rounded(dims, program)
    run(program, target, dims, "".join(d for d in fixed if d in dims))


EDGES = (
    ({"m": 5, "n": 24, "k": 0, "r": 16}, "krn"),
    ({"m": 5, "n": 24, "k": 200, "r": 0}, ""),
    ({"m": 5, "n": 24, "k": 0, "r": 0}, ""),
    ({"m": 1, "n": 1, "k": 8, "r": 8}, "mnkr"),
    ({"m": 1, "n": 8, "k": 8, "r": 72}, ""),
    ({"m": 0, "n": 8, "k": 8, "r": 8}, ""),
)
"""Sums over nothing, of one product or of both, and results of one element or none."""


@pytest.mark.once("case", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", range(len(EDGES)))
def test_edge(case: int, target: str) -> None:
    dims, fixed = EDGES[case]
    run(f"C[m,n] = {SUM} + x[n]", target, dims, fixed)


@pytest.mark.once("k", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("k", "r"), [(0, 16), (144, 0)])
def test_edge_with_scales(k: int, r: int, target: str) -> None:
    """Of an empty product no scale is read, and the other's are its own."""
    run(f"C[m,n] = {scaled('1x128, 128x128')}", target, {"m": 5, "n": 24, "k": k, "r": r}, "")


@pytest.mark.parametrize("target", TARGETS)
def test_odd_k_without_rows_of_16_bytes(target: str) -> None:
    """With M and N last, K is any number."""
    run(PROGRAMS["rows last"], target, {"m": 72, "n": 40, "k": 67, "r": 3}, "n")


GROUPED = {
    "C[m,n] = A[m,k] @ B[e[m/128],n,k] + D[m,r] @ E[e[m/128],n,r]": {"m": 300, "B_0": 3},
    "C[m,n] = A[m,k] @ B[e[m/128],n,k] + D[m,r] @ E[f[m/128],n,r]": {"m": 300, "B_0": 3, "E_0": 2},
    "C[m,n] = A[m,k] @ B[g,n,k] + D[m,r] @ E[g,n,r] for m in off[g]:off[g+1]": {"m": 200, "g": 3},
    "C[m,n] = A[m,k] @ B[g,n,k] + D[m,r] @ E[n,r] for m in off[g]:off[g+1]": {"m": 200, "g": 3},
    f"C[m,n] = {scaled('1x128, 128x128', 'e[m/128],')}": {"m": 300, "B_0": 3, "k": 144},
    "C[g,m,n] = A[g,m,k] @ B[g,n,k] + D[g,m,r] @ E[g,n,r] for m < rows[g]": {"m": 70, "g": 3},
    "C[idx[m],n] = A[m,k] @ B[n,k] + D[m,r] @ E[n,r]": {"m": 100, "C_0": 150},
}


@pytest.mark.once("target", "program")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("program", GROUPED)
def test_groups(program: str, target: str) -> None:
    """An adapter for each group of rows, or one for all."""
    run(program, target, {"n": 136, "k": 72, "r": 16} | GROUPED[program], "nkr")


SCHEDULES = {
    "sm_90a": ("split=3, parts=memory", "split=2", "consumers=pingpong", "swap=1", "cluster=2x1", "cluster=1x2"),
    "sm_100a": ("split=3", "cta_group=2, cluster=2x1", "scheduler=dynamic", "swap=1", "cluster=1x2"),
    "sm_120a": ("split=3", "scheduler=dynamic", "swap=1", "stages=2"),
}


@pytest.mark.once("target", touches=lambda fields, **_: tiers.fields(fields))
@pytest.mark.parametrize(("target", "fields"), [(t, x) for t in TARGETS for x in SCHEDULES[t]])
def test_schedule(target: str, fields: str) -> None:
    """Parts of K begin within either product; K blocks of both go through one ring of stages."""
    dims = {"m": 136, "n": 264, "k": 200, "r": 72}
    kernel, _ = run(f"C[m,n] = {SUM} with {fields}", target, dims, "mnkr")
    assert set(fields.split(", ")) <= set(kernel.spec.schedule.split(", "))


SCALED_SCHEDULES = {
    "sm_90a": ("split=2", "consumers=pingpong", "swap=1", "scale_path=thread"),
    "sm_100a": ("split=2", "cta_group=2, cluster=2x1"),
    "sm_120a": ("split=2", "stages=2"),
}


@pytest.mark.once("target")
@pytest.mark.parametrize(("target", "fields"), [(t, x) for t in TARGETS for x in SCALED_SCHEDULES[t]])
def test_scaled_schedule(target: str, fields: str) -> None:
    """Scales of K blocks of both products, whoever brings them."""
    dims = {"m": 136, "n": 264, "k": 272, "r": 144}
    scales = "1x128, 1x128@col" if fields == "swap=1" else "1x128@col, 128x128"
    kernel, _ = run(f"C[m,n] = {scaled(scales)} with {fields}", target, dims, "mnkr")
    assert set(fields.split(", ")) <= set(kernel.spec.schedule.split(", "))


def test_operations() -> None:
    """What a call multiplies is what both products do, and what a sum counts is K blocks of both."""
    spec = scalec.compile(f"C[m,n] = {SUM}", target="sm_90a", dims={"n": 128, "k": 100, "r": 16}).spec
    sizes = {"m": 10, "n": 128, "k": 100, "r": 16}
    assert operations(spec, sizes) == 2 * 10 * 128 * 116
    assert spec.launch.length(sizes) == 128 + 64
    assert abi.KernelSpec.from_json(spec.to_json()) == spec


def test_scales_are_asked_for() -> None:
    """A warp asks L2 for the scales of blocks of rows of each product, before consumers load them."""
    dims = {"m": 1024, "n": 256, "k": 512, "r": 256}
    ptx = scalec.compile(f"C[m,n] = {scaled('1x128@col, 128x128')}", target="sm_90a", dims=dims).ptx
    assert ptx.count("prefetch.global.L2") == 2


# operands that no tile has in the place of the others', and sums of which more is to be known
REFUSED = {
    "C[m,n] = A[m,k] @ B[n,k] + D[m,r] @ E[r,n]": "differ in their layouts",
    "C[b,m,n] = A[m,k] @ B[b,n,k] + D[b,r] @ E[m,n,r]": "m is a row of one product, and not of another",
    "G[m,n] = A[m,k] @ B[n,k]; C[m,n] = silu(G) * (A[m,k] @ F[n,k] + D[m,r] @ E[n,r])": "meet other products",
    "C[g,m,n]:f32 += A[k,m] @ B[k,n] + D[k,m] @ E[k,n] for k in off[g]:off[g+1]": "k has a range",
    "C[m,n] = A[m,j,k] @ B[n,j,k] + D[m,k,j] @ E[n,k,j]": "is the last index of one sum",
    "C[m,n]:f32 = A[m,k] @ B[n,k] + D[m,r] @ E[n,r]; S[m]:f32 = sum[k](A[m,k]^2)": "S is what an operand is reduced to",
}


test_refused = refusals(REFUSED.items())


def test_one_left_operand_stays_panes() -> None:
    """Products of one left operand are one product with columns of both, as ever."""
    spec = scalec.compile("C[m,n] = A[m,k] @ B[n,k] + A[m,k] @ E[n,k]", target="sm_90a").spec
    assert spec.panes == 2
    assert not spec.launch.added
