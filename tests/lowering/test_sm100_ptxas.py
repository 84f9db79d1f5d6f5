"""ptxas on every program of sm_100a's table at a real size: no spills, no local memory, two stages or more; for sm_103a
on one of each kind of product.

The ptxas on PATH is used where there is one, as the one of the wheel may be another version; SCALEC_PTXAS wins.
"""

from __future__ import annotations

import shutil

import pytest

import scalec
from scalec import env
from scalec.ir.schedule import parse_field
from tests.emulator.sm100_programs import PROGRAMS

NEXT = ("bf16", "mxfp8", "nvfp4", "f32 1x128, 128x128", "e4m3 x e2m1")
PATHS = [
    *((name, "sm_100a", 1) for name in PROGRAMS),
    *((name, "sm_100a", 2) for name, source in PROGRAMS.items() if " with " not in source),
    *((name, "sm_103a", 2) for name in NEXT),
]


@pytest.mark.parametrize(("name", "target", "ctas"), PATHS)
def test_no_spills(name: str, target: str, ctas: int, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = shutil.which("ptxas")
    if on_path is not None and not env.PTXAS.get():
        monkeypatch.setenv("SCALEC_PTXAS", on_path)
    schedule = {} if " with " in PROGRAMS[name] else {"cta_group": str(ctas)}
    dims = {"n": 7168, "k": 2048}
    kernel = scalec.compile(PROGRAMS[name], target=target, dims=dims, schedule=schedule)  # refuses spills
    fields = dict(f.strip().split("=") for f in kernel.spec.schedule.split(","))
    assert parse_field("stages", fields["stages"]) >= 2
    assert fields["tile"].split("x")[0] == "128"
    if " with " not in PROGRAMS[name]:  # with promotion, a thread holds a sum for each column
        wide = ("128",) if fields["promote"] == "128" else ("192", "256") if ctas == 1 else ("256",)
        assert fields["tile"].split("x")[1] in wide, kernel.spec.schedule
