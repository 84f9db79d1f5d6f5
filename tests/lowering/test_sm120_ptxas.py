"""ptxas on every program of sm_120a's table at a real size: no spills, no local memory, two stages or more.

The ptxas on PATH is used where there is one, as the one of the wheel may be another version; SCALEC_PTXAS wins.
"""

from __future__ import annotations

import shutil

import pytest

import scalec
from scalec import env
from scalec.ir.schedule import parse_field
from tests.emulator.sm120_programs import PROGRAMS


@pytest.mark.once
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_spills(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = shutil.which("ptxas")
    if on_path is not None and not env.PTXAS.get():
        monkeypatch.setenv("SCALEC_PTXAS", on_path)
    kernel = scalec.compile(PROGRAMS[name], target="sm_120a", dims={"n": 7168, "k": 2048})  # refuses spills
    fields = dict(f.strip().split("=") for f in kernel.spec.schedule.split(","))
    assert parse_field("stages", fields["stages"]) >= 2
    assert fields["tile"].split("x")[:2] in (["128", "128"], ["128", "64"]), kernel.spec.schedule


@pytest.mark.once("scales", "result")
@pytest.mark.parametrize("result", ["e4m3", "mxfp8", "fp8_block", "e5m2 scale(1x32:ue8m0@blocked)"])
@pytest.mark.parametrize("scales", ["1x128,128x128", "1x128,1x128"])
def test_narrow_results_beside_promotion_do_not_spill_at_first(
    result: str, scales: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = shutil.which("ptxas")
    if on_path is not None and not env.PTXAS.get():
        monkeypatch.setenv("SCALEC_PTXAS", on_path)
    source = f"D[m,n]:{result} = A[m,k] @ B[n,k] scale({scales})"
    kernel = scalec.compile(source, target="sm_120a", dims={"m": 4096, "n": 7168, "k": 2048})
    assert not kernel.spec.dropped, kernel.spec.dropped


@pytest.mark.parametrize("result", ["H[m,n]", "H[m,n]:f32"])
def test_gated_layers_of_8_bits_by_n_have_a_tile(result: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four warps along N of a tile have rows of 16 bytes of each contraction, which no swizzle divides."""
    on_path = shutil.which("ptxas")
    if on_path is not None and not env.PTXAS.get():
        monkeypatch.setenv("SCALEC_PTXAS", on_path)
    source = f"G[m,n] = X[m,k]:e4m3 @ V[k,n]:e4m3; {result} = silu(G) * (X[m,k]:e4m3 @ W[k,n]:e4m3)"
    kernel = scalec.compile(source, target="sm_120a")
    assert "warps=4x2" in kernel.spec.schedule
