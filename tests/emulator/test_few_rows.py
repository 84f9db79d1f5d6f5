"""Few rows: up to eight are the eight columns of a tile of the transposed result on sm_90a, and of tiles of more rows,
as those of gated layers, copies bring those that are there. Right on the emulator."""

from __future__ import annotations

import re

import pytest

import scalec
from scalec.checking.launch import made_up
from scalec.runtime import emulated
from scalec.runtime.dispatch import Program
from scalec.runtime.kernel import Kernel
from tests.emulator.quantised import run_quantised
from tests.emulator.running import launched, run_on
from tests.emulator.test_several_results import EVERY, run
from tests.gpu.programs import PROGRAMS

ROWS = (1, 3, 5, 7, 8)
NAMES = ("1x128, 128x128", "both fine, accumulated", "1x128@col", "per row", "bf16", "bf16 accumulated", "epilogue")


@pytest.mark.once("i", "split")
@pytest.mark.parametrize("i", range(len(ROWS)))
@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_rows_that_are_known(name: str, split: int, i: int) -> None:
    source, limit = PROGRAMS[name]
    if split > 1:
        source += f" with split={split}"
    dims = {"m": ROWS[i], "n": (72, 136, 328)[i % 3], "k": 1024}
    assert tile(name) in run_on(source, dims, ("m", "n", "k"), i, limit, times=1).kernel.spec.schedule


def tile(name: str) -> str:
    return f"swap=1, tile=64x8x{64 if name.startswith('bf16') else 128}"


@pytest.mark.once("split")
@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_rows_that_are_not_and_may_be_more_than_a_tiles_columns(name: str, split: int) -> None:
    limit = PROGRAMS[name][1]
    source = f"{PROGRAMS[name][0]} with {tile(name)}, split={split}"
    for m in (1, 6, 8, 11):
        run_on(source, {"m": m, "n": 136, "k": 1024}, ("n", "k"), m, limit, times=1)


@pytest.mark.once("result", "split")
@pytest.mark.parametrize("i", range(len(ROWS)))
@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize("result", ["mxfp8", "nvfp4", "fp8_block"])
def test_quantised_results(result: str, split: int, i: int) -> None:
    program = "D[m,n]{} = A[m,k]@B[n,k] scale(1x128,128x128) + b[n]"
    dims = {"m": ROWS[i], "n": (160, 272, 384)[i % 3], "k": 1024}
    kernel = run_quantised(program, result, dims, ("m", "n", "k"), i, "sm_90a", f"split={split}", times=1)
    assert f"swap=1, tile={128 if result == 'fp8_block' else 64}x8x128" in kernel.spec.schedule


def test_ranges() -> None:
    """One that ends at eight rows has a kernel of such tiles; one that goes on has another from nine rows on."""
    source, limit = PROGRAMS["1x128, 128x128"]
    sizes = {"n": 136, "k": 1024}
    for given, tiles in (("1:8", ["64x8"]), ("3:5", ["64x8"]), ("1:16", ["64x8", "64x16"]), ("9:16", ["64x16"])):
        made = scalec.compile(source, target="sm_90a", dims={"m": given, **sizes})
        assert isinstance(made, Program)
        found = [kernel.spec.schedule for kernel in made.kernels]
        assert [text.split("tile=")[1].split("x128,")[0] for text in found] == tiles, given
    made = scalec.compile(source, target="sm_90a", dims={"m": "1:8", **sizes})
    assert isinstance(made, Program)
    few = made.kernels[0]
    for m in (1, 6, 8):
        own = Kernel(few.spec, few.cubin, ptx=few.ptx)
        run_on(source, {"m": m, **sizes}, (), m, limit, times=1, change=lambda _, own=own: own)


SCALES = "scale(1x128,128x128)"
UPRIGHT = {
    "gated": "G[m,n] = A[m,k] @ B[n,k]; H[m,n] = silu(G) * (A[m,k] @ W[n,k])",
    "gated, quantised": f"G[m,n] = A[m,k] @ B[n,k] {SCALES}; H[m,n]:mxfp8 = silu(G) * (A[m,k] @ W[n,k] {SCALES})",
    "split": f"C[m,n] = A[m,k] @ B[n,k] {SCALES} with swap=0, split=2",
    "reduced": "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T; R[n]:f32 = sum[m](T*T); S[n]:f32 = max[m](T) with swap=0",
    "an adapter": "C[m,n] = A[m,k] @ B[n,k] + alpha * (D[m,r] @ E[n,r]) with swap=0, split=2",
    "batches": "C[b,m,n] = A[b,m,k] @ B[b,n,k] with swap=0",
    "mxfp8": "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8 with swap=0",
    "a cluster": f"C[m,n] = A[m,k] @ B[n,k] {SCALES} with swap=0, cluster=1x2",
    "a cluster of rows": "C[m,n] = A[m,k] @ B[n,k] with swap=0, cluster=2x1",
    "converted": "C[m,n] = A[m,k]:bf16 @ B[n,k]:nvfp4 with swap=0, convert=shared",
}


@pytest.mark.once("target", touches=lambda name, **_: {name} & {"gated, quantised", "a cluster", "an adapter"})
@pytest.mark.parametrize("m", [1, 9])
@pytest.mark.parametrize(
    ("target", "name"), [(t, x) for t in EVERY for x in UPRIGHT if t != "sm_120a" or "cluster" not in UPRIGHT[x]]
)
def test_tiles_of_more_rows(name: str, target: str, m: int) -> None:
    """What copies do not bring is zero, and no row reads another's."""
    dims = {"m": m, "n": 256, "k": 256, "r": 64, "b": 3}
    own = {d: size for d, size in dims.items() if re.search(rf"\b{d}[],/]", UPRIGHT[name])}
    kernel, _ = run(UPRIGHT[name], target, own, "".join(own))
    boxes = {x.box[1] for x in kernel.spec.arguments if x.tensor in ("A", "D") and x.box}
    assert boxes == {8 if m == 1 else 16}


def test_rows_of_a_range_that_end_within_a_tile() -> None:
    """One row and all that may come; not where a call may walk several dimensions of rows as one."""
    source, sizes = UPRIGHT["gated"], {"n": 64, "k": 64}
    for text, rows in ((source, 8), (source.replace("[m,", "[b,m,"), 64)):
        made = scalec.compile(text, target="sm_90a", dims={"m": "1:8", **sizes})
        assert isinstance(made, Program)
        few = made.kernels[0]
        assert {x.box[1] for x in few.spec.arguments if x.tensor == "A"} == {rows}
        for m in (1, 8):
            dims = {"m": m, **sizes} | ({"b": 3} if rows > 8 else {})
            own = Kernel(few.spec, few.cubin, ptx=few.ptx)
            own.fixed = emulated.EmulatedDevice("sm_90a")
            launched(own, *made_up(text, dims, 3), dims, 3)


SECOND = [("C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:mxfp8", 256), ("C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x32)", 64)]


@pytest.mark.assembled  # ptxas refused them
@pytest.mark.parametrize(("program", "k"), SECOND)
def test_no_thread_has_a_second_row(program: str, k: int) -> None:
    """Of an instruction's 64 rows eight are there, and no loop keeps the sums of the others."""
    made = run_on(program, {"m": 2, "n": 8, "k": k}, ("m", "n", "k"), 3, 1e-5, times=1)
    assert not made.kernel.spec.dropped
