"""The tuning database: which entry a program gets, and what becomes of it in the compiler."""

from __future__ import annotations

import json
import os

import pytest

import scalec
from scalec import compiler
from scalec.errors import ScalecError, ScheduleError
from scalec.ladder import rungs
from scalec.measured import database
from scalec.measured.database import Entry
from scalec.runtime import cache
from scalec.sizes import Range
from scalec.tuning.explain import explain

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
RENAMED = "Y[i,j]:bf16 = X[i,r]:e4m3@W[j,r]:e4m3 scale(1x128:f32, 128x128:f32)   # another name for everything"
N, K = 512, 1024
TILE = {"tile": "64x64x128", "cluster": "1x1", "stages": "3", "swap": "0", "split": "2"}


def entry(schedule: dict[str, str] = TILE, m: tuple[int, int] = (1, 64), **fields: object) -> Entry:
    key = compiler.program_key(FP8, "sm_90a", {"n": N, "k": K})
    facts = {"us": 7.5, "at": m[1], "gpu": "NVIDIA H200", "date": "2026-11-21 20:00"}
    made = {"target": "sm_90a", "program": key, "n": N, "k": K, "given": {}, "facts": facts, **fields}
    return Entry(m=Range(*m), schedule=dict(schedule), **made)  # type: ignore[arg-type]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The user's file, empty; nothing is shipped."""
    path = tmp_path / "own" / "tuning.json"
    monkeypatch.setenv("SCALEC_TUNING", str(path))
    monkeypatch.setattr(database, "SHIPPED", tmp_path / "shipped")
    (tmp_path / "shipped").mkdir()
    return path


def chosen(source: str = FP8, schedule: dict[str, str] | None = None, target: str = "sm_90a", **dims: object) -> dict:
    sizes = {"n": N, "k": K, **dims}
    return compiler.decide(source, target, sizes, schedule)[0].texts()  # type: ignore[arg-type]


def taken(fields: dict[str, str]) -> bool:
    return all(fields[name] == value for name, value in TILE.items())


def test_what_is_written_is_read(own) -> None:
    one, other = entry(), entry(m=(65, 128))
    database.write(own, [one])
    database.write(own, [other, entry({"tile": "64x32x128"})])  # replaces its like
    assert database.read(own) == [entry({"tile": "64x32x128"}), other]
    database.write(own, [], gone=[other])
    assert database.read(own) == [entry({"tile": "64x32x128"})]
    assert database.read(own.parent / "none.json") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is no tuning database"), ('{"version": 1, "entries": [{}]}', "is no tuning database"),
     ('{"version": 9, "entries": []}', "is a tuning database of version 9"), ("[" * 5000, "is no tuning database"),
     ('{"version": 1, "entries": [], "version": 1}', "is no tuning database"), ("5", "is no tuning database")],
)  # fmt: skip
def test_another_file_is_refused_with_the_way_out(own, text: str, message: str) -> None:
    own.parent.mkdir()
    own.write_text(text)
    with pytest.raises(ScalecError, match=message) as caught:
        chosen(m=16)
    assert "SCALEC_TUNING=off" in caught.value.fix


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [("n", 0, "entries[0].n: 0, expected 1 to 2147483647"), ("n", "7168", "entries[0].n: '7168', expected an integer"),
     ("m", [5, 1], "entries[0].m: an array of 2, expected a range, its smaller end first"), ("x", 1, "no field 'x'"),
     ("m", [1], "an array of 1, expected an array of 2"), ("schedule", {"tile": 3}, "tile: 3, expected a text"),
     ("facts", {"us": []}, "facts.us: an array of 0, expected a text or a number"), ("given", None, "None, expected")],
)  # fmt: skip
def test_an_entry_that_is_none_is_named(own, name: str, value: object, fault: str) -> None:
    database.write(own, [entry()])
    document = json.loads(own.read_text())
    document["entries"][0][name] = value
    own.write_text(json.dumps(document))
    with pytest.raises(ScalecError) as caught:
        database.read(own)
    assert fault in caught.value.got
    assert "remove" not in caught.value.fix  # SCALEC_TUNING=/etc/passwd


@pytest.mark.parametrize("kind", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused(tmp_path, kind) -> None:
    kind(tmp_path / "tuning.json")
    with pytest.raises(ScalecError, match="cannot be read as a tuning database"):
        database.read(tmp_path / "tuning.json")


def test_where_a_link_leads_is_written(tmp_path) -> None:
    (tmp_path / "tuning.json").symlink_to("kept.json")
    database.write(tmp_path / "tuning.json", [entry()])
    assert (tmp_path / "tuning.json").is_symlink()
    assert database.read(tmp_path / "kept.json") == [entry()]


def test_the_compiler_takes_it(own) -> None:
    assert not taken(chosen(m=16))
    database.write(own, [entry()])
    for m in (1, 16, 64, Range(1, 64), Range(2, 3)):
        assert taken(chosen(m=m)), m
    assert taken(compiler.decide(RENAMED, "sm_90a", {"j": N, "r": K, "i": 16})[0].texts())
    made = compiler.compile_source(FP8, "sm_90a", {"m": 16, "n": N, "k": K}, until="tile")
    assert made.tuned == entry()
    assert made.schedule is not None
    assert taken(made.schedule.texts())


def test_what_it_is_not_for_does_not_get_it(own) -> None:
    database.write(own, [entry()])
    assert not taken(chosen(m=65))
    assert not taken(chosen(m=16, n=1024))
    assert not taken(chosen(m=16, k=2048))
    assert not taken(chosen())  # M is assumed to be large
    assert not taken(chosen("C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,128x128)", m=16))
    assert not taken(chosen("C[m,n] = A[m,k]@B[n,k] scale(1x128@col,128x128)", m=16))
    assert not taken(chosen("C[m,n] = A[m,k]@B[n,k]", m=16))
    assert not taken(chosen(target="sm_120a", m=16))
    with_n_open = compiler.decide(FP8, "sm_90a", {"m": 16, "k": K})[0].texts()
    assert not taken(with_n_open)


@pytest.mark.parametrize(
    ("source", "kin"),
    [
        ("C[m,n] = relu(A[m,k]@B[n,k] scale(1x128,128x128))", True),
        ("C[m,n]:mxfp8 = A[m,k]@B[n,k] scale(1x128,128x128)", True),
        ("C[m,n]:f16 = gelu(A[m,k]@B[n,k] scale(1x128,128x128) + b[n])", True),
        ("C[m,n + n/128*64] = A[m,k]@B[n,k] scale(1x128,128x128)", True),
        ("C[m,n] += A[m,k]@B[n,k] scale(1x128,128x128)", False),  # reads C too
        ("C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,128x128)", False),  # writes twice as much
    ],
)
def test_what_else_is_made_of_the_sums_gets_the_contraction_s(own, source: str, kin: bool) -> None:
    database.write(own, [entry()])
    assert taken(chosen(source, m=16)) == kin
    if kin:
        assert "of the contraction with a bf16 result" not in _why(FP8)
        assert "the contraction with a bf16 result" in _why(source)
        key = compiler.program_key(source, "sm_90a", {"m": 16, "n": N, "k": K})
        database.write(own, [entry({**TILE, "stages": "5"}, program=key)])
        assert chosen(source, m=16)["stages"] == "5"  # its own comes first


def test_what_cannot_be_swapped_takes_nothing_that_is(own) -> None:
    swapped = {"tile": "64x16x128", "cluster": "1x1", "swap": "1"}
    database.write(own, [entry(swapped)])
    made = compiler.compile_source(FP8.replace("C[m,n]", "C[m,n + n/128*64]"), "sm_90a", {"m": 16, "n": N, "k": K})
    assert "swap=0" in made.spec.schedule
    assert made.spec.dropped == ()  # nothing that a user must be told


def _why(source: str) -> str:
    return explain(source, "sm_90a", {"m": 16, "n": N, "k": K}, {}).reasons["tile"]


def test_fields_that_are_given_win(own) -> None:
    database.write(own, [entry()])
    assert chosen(m=16, schedule={"stages": "4"})["stages"] == "4"
    assert not taken(chosen(f"{FP8} with stages=4", m=16))
    with_order = entry({**TILE, "stages": "5"}, given={"order": "m"})
    database.write(own, [with_order])
    assert chosen(f"{FP8} with order=m", m=16)["stages"] == "5"
    assert chosen(m=16)["stages"] == "3"


def test_off(own, monkeypatch) -> None:
    database.write(own, [entry()])
    assert not taken(compiler.decide(FP8, "sm_90a", {"m": 16, "n": N, "k": K}, tuned=False)[0].texts())
    monkeypatch.setenv("SCALEC_TUNING", "off")
    assert not taken(chosen(m=16))


def test_a_file_that_cannot_be_read(own, tmp_path, monkeypatch) -> None:
    own.mkdir(parents=True)
    with pytest.raises(ScalecError, match=r"cannot be read as a tuning database\n  got: Is a directory"):
        chosen(m=16)
    monkeypatch.setenv("SCALEC_TUNING", "")  # nobody asked for that of the data directory
    monkeypatch.setattr(database, "_platform_file", lambda: own)
    monkeypatch.setattr("os.access", lambda path, mode: path != own)
    assert "tile" in chosen(m=16)


def test_the_users_wins_over_what_is_shipped_and_narrow_over_wide(own) -> None:
    database.write(database.SHIPPED / "h200.json", [entry({**TILE, "stages": "5"})])
    assert chosen(m=16)["stages"] == "5"
    database.write(own, [entry()])
    assert chosen(m=16)["stages"] == "3"
    database.write(own, [entry({**TILE, "stages": "4"}, m=(9, 16))])
    assert (chosen(m=16)["stages"], chosen(m=17)["stages"]) == ("4", "3")


def test_invariant_takes_only_what_adds_in_its_order(own) -> None:
    database.write(own, [entry(given={"invariant": "1"}), entry()])
    assert chosen(f"{FP8} with invariant", m=16)["split"] == "1"
    for other in ({"promote": "0"}, {"swap": "1"}, {"tile": "64x64x64"}):
        database.write(own, [entry({**TILE, "split": "1", **other}, given={"invariant": "1"})])
        assert chosen(f"{FP8} with invariant", m=16)["stages"] != "3"
    database.write(own, [entry({**TILE, "split": "1", "promote": "128"}, given={"invariant": "1"})])
    found = chosen(f"{FP8} with invariant", m=16)
    assert (found["tile"], found["split"]) == ("64x64x128", "1")


def test_one_that_does_not_compile_is_left_and_told(own) -> None:
    database.write(own, [entry({**TILE, "stages": "31"})])
    told = []
    made = compiler.compile_source(FP8, "sm_90a", {"m": 16, "n": N, "k": K}, until="tile", on_drop=told.append)
    assert (made.tuned, made.schedule is not None) == (None, True)
    assert told[0].reason.startswith("tuned: ")
    assert "stages=31" in told[0].schedule
    database.write(own, [entry({"tiles": "64"})])  # a field of another scalec
    assert "tile" in chosen(m=16)
    with pytest.raises(ScheduleError):
        compiler.compile_source(FP8, "sm_90a", {"m": 16, "n": N, "k": K}, {"stages": "31", "tile": "256x128x128"})


def test_one_that_does_not_compile_is_left_for_ranges_and_by_explain(own) -> None:
    dims = {"m": Range(1, 64), "n": N, "k": K}
    before = rungs(FP8, "sm_90a", dims)
    database.write(own, [entry({**TILE, "stages": "31"})])
    assert rungs(FP8, "sm_90a", dims) == before
    told = explain(FP8, "sm_90a", {**dims, "m": 16}, {})
    assert (told.tuned, told.schedule.texts()) == (None, chosen(m=16))
    with pytest.raises(ScheduleError, match="stages"):
        rungs(FP8, "sm_90a", dims, {"stages": "31", "tile": "256x128x128"})


def test_the_disk_cache_knows_what_the_database_says(own, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SCALEC_CACHE_DIR", str(tmp_path / "cache"))
    dims = {"m": 16, "n": N, "k": K}
    before = scalec.compile(FP8, "sm_90a", dims)
    database.write(own, [entry(n=640)])  # of other sizes
    assert database.digest("sm_90a", dims.values()) == ""
    database.write(own, [entry()])
    after = scalec.compile(FP8, "sm_90a", dims)
    assert "tile=64x64x128" in after.spec.schedule
    assert scalec.compile(FP8, "sm_90a", dims, tuning=False).spec == before.spec
    assert len(cache.entries()) == 3
    assert scalec.compile(FP8, "sm_90a", dims).spec == after.spec
    assert len(cache.entries()) == 3


def test_ranges_end_where_entries_do(own) -> None:
    dims = {"m": Range(1, 64), "n": N, "k": K}
    assert all(r.high != 23 for r in rungs(FP8, "sm_90a", dims))
    database.write(own, [entry(m=(10, 23))])
    found = rungs(FP8, "sm_90a", dims)
    assert Range(10, 23) in found
    assert [r.low for r in found] == [1, *(r.high + 1 for r in found[:-1])]


def test_explain_tells_where_a_field_comes_from(own) -> None:
    database.write(own, [entry()])
    told = explain(FP8, "sm_90a", {"m": 16, "n": N, "k": K}, {})
    assert told.tuned == entry()
    assert told.reasons["tile"].startswith("measured; 7.5 us at 64 rows, NVIDIA H200, 2026-11-21 20:00; ")
    assert told.reasons["split"] == "measured"
    assert told.reasons["stages"].startswith("measured; ")
    assert not told.reasons["epilogue"].startswith("measured")
    assert explain(FP8, "sm_90a", {"m": 65, "n": N, "k": K}, {}).tuned is None


def test_what_ships_is_a_database() -> None:
    for path in database.SHIPPED.glob("*.json"):
        for e in database.read(path):
            assert e.facts.keys() >= {"us", "default_us", "at", "gpu", "driver", "date", "commit"}, path
        assert json.loads(path.read_text())["version"] == database.VERSION
    assert {p.name for p in database.SHIPPED.glob("*.json")} >= {"h100.json", "h200.json"}
