"""What rows and columns are reduced to beside a product, on a GPU: sums of exponentials over tiles that meet, and what
rows of groups are reduced to on their way to the tensor core. Twice over memory of different bytes, between guards."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import scalec
from scalec.checking import launch
from scalec.runtime import emulated
from tests.emulator.running import launched
from tests.emulator.test_reductions import close
from tests.emulator.test_row_statistics import GROUPED, PLAIN, SCALED, of_columns, of_rows

pytestmark = pytest.mark.gpu

ROWS = f"C[m,n] = T; {of_rows('0.05*T')}"
BOTH = f"{ROWS}; {of_columns('0.05*T')}"
TILES = {
    "bf16, 128x256": (PLAIN + ROWS, "tile=128x256x64"),
    "bf16, 192x128": (PLAIN + ROWS, "tile=192x128x64"),
    "bf16, 256x64": (PLAIN + BOTH, "tile=256x64x64"),
    "FP8, 128x256": (SCALED + of_rows("0.05*T"), "tile=128x256x128"),
    "FP8, 192x128": (SCALED + ROWS, "tile=192x128x128"),
    "FP8, 256x64": (SCALED + BOTH, "tile=256x64x128"),
}
SIZES = ({"m": 130, "n": 530, "k": 256}, {"m": 1, "n": 136, "k": 256}, {"m": 1000, "n": 4104, "k": 512})
"""Tails of every tile; of the last ones a CTA has several tiles."""


@cache
def made_up(source: str, *sizes: tuple[str, int]) -> Any:
    return launch.made_up(source, dict(sizes), 3)


def need_right(here: Any, source: str, sizes: tuple[dict[str, int], ...], known: str, near: str = "") -> None:
    """At each of the sizes, the largest ones on a GPU alone; results in `near` each element by itself."""
    kernels: dict[str, Any] = {}
    for dims in sizes:
        if isinstance(here, emulated.EmulatedDevice) and dims.get("m", 0) > 300:
            continue
        fixed = {d: dims[d] for d in known}
        kernel = kernels.get(str(fixed)) or scalec.compile(source, "sm_90a", fixed)
        kernels[str(fixed)] = kernel
        values, expected = made_up(source.partition(" with ")[0], *dims.items())
        made = launched(kernel, values, expected, dims, 3)
        close(made, expected, *near)


@pytest.mark.parametrize("name", TILES)
def test_sums_of_exponentials(here: Any, name: str) -> None:
    """Of FP8 tensor cores keep fewer bits of a sum than f32 has."""
    source, schedule = TILES[name]
    near = "" if "scale(" in source else "SZ" if "Z[n]" in source else "S"
    need_right(here, f"{source} with {schedule}", SIZES, "k", near)


@pytest.mark.parametrize("name", ["ragged", "masked", "gathered"])
def test_sums_of_exponentials_of_groups(here: Any, name: str) -> None:
    """Of others nothing is written."""
    source, more = GROUPED[name]
    kept = "g,m" if "T[g" in source else "m"
    source += f"M[{kept}] = max[n](0.1*T); R[{kept}]:f32 = M[{kept}]; S[{kept}]:f32 = sum[n](exp(0.1*T - M[{kept}]))"
    need_right(here, source, ({"m": 150, "n": 520, "k": 64, **more}, {"m": 777, "n": 2056, "k": 64, **more}), "k")


RANGE = "for m in off[g]:off[g+1]"
PRENORM = {
    "ragged": f"D[m,n]:f32 = A[m,k] @ B[g,n,k] {RANGE}; S[m]:f32 = sum[k](A[m,k]^2) {RANGE}",
    "ragged, computed": f"D[m,n] = (A[m,k] * w[k]) @ B[g,n,k] {RANGE}; S[m]:f32 = sum[k]((A[m,k] * w[k])^2) {RANGE}",
    "masked": "D[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]; S[g,m]:f32 = sum[k](A[g,m,k]^2) for m < rows[g]",
}


@pytest.mark.parametrize("name", PRENORM)
def test_rows_of_groups_reduced_along_k(here: Any, name: str) -> None:
    """Each row once, by the tile of its group that has the first columns; rows of no group stay as they are."""
    sizes = tuple({"m": m, "n": 300, "k": 520, "g": 5} for m in (150, 1, 2000))
    need_right(here, PRENORM[name], sizes, "nk")
