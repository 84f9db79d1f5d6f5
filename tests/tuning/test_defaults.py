"""The database that ships: each entry is asked for, and can be."""

from __future__ import annotations

import pytest

from scalec import compiler
from scalec.measured import database
from scalec.passes.problem.types import ASSUMED

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
F32 = "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,1x128)"
MXFP8 = "C[m,n]:mxfp8 = A[m,k]@B[n,k] scale(1x128,128x128)"
BF16 = "C[m,n] = A[m,k]@B[n,k]"
NVFP4 = "C[m,n]:nvfp4 = A[m,k]@B[n,k] scale(1x128,128x128)"
MXFP4 = "C[m,n]:mxfp4 = A[m,k]@B[n,k] scale(1x128,128x128)"
HEADS = "C[m,h,n] = A[m,h,k]@B[h,n,k] scale(1x128,128x128)"
BF16_HEADS = "C[m,h,n] = A[m,h,k]@B[h,n,k]"
SUMS = "C[m,n]:f32 += A[b,m,k]@B[b,n,k]"
PROGRAMS = {FP8: {}, F32: {}, MXFP8: {}, BF16: {}, NVFP4: {}, MXFP4: {}, HEADS: {"h": 8}, BF16_HEADS: {"h": 128}}
PROGRAMS |= {SUMS: {"b": 129}}
"""And the sizes of further dimensions."""
SHIPPED = [e for path in sorted(database.SHIPPED.glob("*.json")) for e in database.read(path)]


def test_there_are_defaults_and_no_two_for_the_same_thing():
    assert len(SHIPPED) > 100
    assert len({e.identity for e in SHIPPED}) == len(SHIPPED)
    for e in SHIPPED:  # medians of four rounds repeat within 1 to 2 %, of 21 within 0.3 %
        assert e.facts["us"] < (0.995 if e.facts.get("rounds", 4) >= 21 else 0.975) * e.facts["default_us"]
        assert e.facts["gpu"]
    assert all(e.m.has(e.facts["at"]) for e in SHIPPED)


OTHERS = [e for e in SHIPPED if "[s0" in e.program or not e.program.startswith(("bf16[m,n] = e4m3", "f32"))]


@pytest.mark.parametrize("entry", [*SHIPPED[::9], *OTHERS], ids=lambda e: f"{e.n}x{e.k}-{e.m.high}")
def test_a_default_is_what_the_compiler_takes(entry, monkeypatch, tmp_path):
    monkeypatch.setenv("SCALEC_TUNING", str(tmp_path / "none.json"))  # no file of a user's: what ships is asked
    sizes = {"m": entry.m.high, "n": entry.n, "k": entry.k}
    keys = {s: compiler.program_key(s, entry.target, sizes | more) for s, more in PROGRAMS.items()}
    (source,) = [s for s, key in keys.items() if key == entry.program]
    dims = sizes | PROGRAMS[source]
    chosen, _ = compiler.decide(source, entry.target, dims)  # check-schedule has seen it
    assert {name: chosen.texts()[name] for name in entry.schedule} == entry.schedule
    rest = [[e for e in entries if e.identity != entry.identity] for entries in database.entries()]
    monkeypatch.setattr(database, "entries", lambda: rest)
    without, _ = compiler.decide(source, entry.target, dims)  # the compiler's own, or what the bf16 result's entry says
    assert str(without) != str(chosen)


def test_rows_beyond_the_range_are_the_compilers_own(monkeypatch, tmp_path):
    monkeypatch.setenv("SCALEC_TUNING", str(tmp_path / "none.json"))
    dims = {"n": 2112, "k": 7168}
    assert not any(e.m.has(ASSUMED) for e in SHIPPED if (e.n, e.k) == (2112, 7168))
    with_defaults, _ = compiler.decide(FP8, "sm_90a", dims)  # m is not known
    assert str(with_defaults) == str(compiler.decide(FP8, "sm_90a", dims, tuned=False)[0])
