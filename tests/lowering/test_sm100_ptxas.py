"""ptxas on every program of sm_100a's table at a real size: no spills, no local memory, two stages or more.

The ptxas on PATH is used where there is one, as the one of the wheel may be another version; SCALEC_PTXAS wins.
"""

from __future__ import annotations

import shutil

import pytest

import scalec
from scalec import env
from scalec.ir.schedule import parse_field
from tests.emulator.sm100_programs import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_spills(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = shutil.which("ptxas")
    if on_path is not None and not env.PTXAS.get():
        monkeypatch.setenv("SCALEC_PTXAS", on_path)
    kernel = scalec.compile(PROGRAMS[name], target="sm_100a", dims={"n": 7168, "k": 2048})  # refuses spills
    fields = dict(f.strip().split("=") for f in kernel.spec.schedule.split(","))
    assert parse_field("stages", fields["stages"]) >= 2
    assert fields["tile"].split("x")[0] == "128"
    if " with " not in PROGRAMS[name]:  # with promotion, a thread holds a sum for each column
        wide = ("128",) if fields["promote"] == "128" else ("192", "256")
        assert fields["tile"].split("x")[1] in wide, kernel.spec.schedule
