"""Up to eight rows on sm_90a, which are the eight columns of a tile of the transposed result: right on the emulator."""

from __future__ import annotations

import pytest

import scalec
from scalec.runtime.dispatch import Program
from scalec.runtime.kernel import Kernel
from tests.emulator.quantised import run_quantised
from tests.emulator.running import run_on
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
