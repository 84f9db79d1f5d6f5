"""Candidates: they compile, the best predicted is what the compiler chooses, and what is given is kept."""

from __future__ import annotations

import pytest

from scalec import compiler
from scalec.errors import ScalecError
from scalec.model import cost
from scalec.tuning.ranking import ranked, work

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
ADDED = "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,128x128)"
BESIDE = ("stages", "staged", "panels", "unroll", "epilogue", "swizzle_c")
SIZES = {"m": 64, "n": 2112, "k": 7168}
PROGRAMS = [
    ("sm_90a", FP8),
    ("sm_90a", "C[m,n] = A[m,k]@B[n,k]"),
    ("sm_120a", FP8),
    ("sm_100a", "C[m,n]=A[m,k]@B[n,k]"),
]


@pytest.mark.parametrize(("target", "source"), PROGRAMS)
def test_best_first_and_legal(target: str, source: str) -> None:
    found = ranked(source, target, SIZES)
    assert len(found) > 10
    assert [r.seconds for r in found] == sorted(r.seconds for r in found)
    assert len({tuple(r.schedule.items()) for r in found}) == len(found)
    for one in found[:3]:
        chosen, _ = compiler.decide(source, target, SIZES, one.schedule)
        assert {f: chosen.texts()[f] for f in one.schedule} == one.schedule


@pytest.mark.parametrize("m", [1, 64, 4096])
def test_the_first_is_what_the_compiler_chooses_where_launches_were_measured(m: int) -> None:
    sizes = {**SIZES, "m": m}
    chosen, _ = compiler.decide(FP8, "sm_90a", sizes, tuned=False)
    first = ranked(FP8, "sm_90a", sizes)[0].schedule
    assert {f: chosen.texts()[f] for f in first} == first


@pytest.mark.parametrize(
    "source",
    [
        "C[m,n] = A[m,k]:bf16 @ B[n,k]:nvfp4",
        "C[m,n] = A[m,k]:e4m3 @ B[g,n,k]:nvfp4 scale(1x128) for m in off[g]:off[g+1]",
        "C[m,n] = relu(A[m,k]) @ B[n,k]",
    ],
)
def test_it_is_of_operands_that_are_converted_too(source: str) -> None:
    """Where they are: the same tile in another place is another kernel."""
    sizes = {"m": 256, "n": 2048, "k": 4096} | ({"g": 8} if "[g" in source else {})
    best = ranked(source, "sm_90a", sizes)[0].schedule
    chosen, _ = compiler.decide(source, "sm_90a", sizes, tuned=False)
    assert compiler.decide(source, "sm_90a", sizes, best)[0] == chosen
    assert best["convert"] == chosen.convert != "shared"


def test_what_is_given_is_kept() -> None:
    for r in ranked(f"{FP8} with split=2, swap=0", "sm_90a", SIZES):
        assert (r.schedule["split"], r.schedule["swap"]) == ("2", "0")
    for r in ranked(f"{FP8} with invariant", "sm_120a", SIZES):
        assert (r.schedule["split"], r.schedule["swap"], r.schedule["cta_group"]) == ("1", "0", "1")
    (only,) = ranked(f"{FP8} with tile=128x64x128", "sm_90a", SIZES)
    assert only.schedule["tile"] == "128x64x128"


@pytest.mark.parametrize(
    ("target", "source", "k", "other"),
    [
        ("sm_90a", ADDED, 512, "memory"),
        ("sm_90a", ADDED, 1536, "loaded"),
        ("sm_90a", ADDED, 4096, None),  # measured to be slower
        ("sm_120a", ADDED, 4096, "loaded"),  # not measured
        ("sm_90a", f"{ADDED} with adds=memory", 1536, None),
        ("sm_90a", f"{ADDED} with epilogue=direct", 512, None),
        ("sm_90a", ADDED.replace("+=", "="), 512, None),
        ("sm_90a", ADDED.replace(":f32", ""), 512, None),
    ],
)
def test_the_best_are_tried_with_both_ways_of_adding(target: str, source: str, k: int, other: str | None) -> None:
    sizes = {"m": 4096, "n": 2048, "k": k}
    found = [r.schedule for r in ranked(source, target, sizes)]
    varied = [i for i, schedule in enumerate(found) if "adds" in schedule]
    assert varied == [] if other is None else varied[:1] == [1]
    assert len(varied) <= 2
    for i in varied:
        assert found[i] == {**found[i - 1], "adds": other}
    for i in varied[:1]:
        ways = [compiler.decide(source, target, sizes, found[j])[0] for j in (i - 1, i)]
        assert ways[1] == ways[0].with_fields(adds=other, **{f: getattr(ways[1], f) for f in BESIDE})
        assert ways[1].epilogue == "bulk"


def test_a_given_tile_is_tried_with_both_ways_of_adding() -> None:
    found = ranked(f"{ADDED} with tile=128x128x128", "sm_90a", {"m": 4096, "n": 2048, "k": 512})
    assert [r.schedule.get("adds") for r in found] == [None, "memory", None]


@pytest.mark.parametrize(
    ("source", "m", "others"),
    [
        ("C[m,n] = A[m,k]@B[n,k]", 4096, ["n", "m"]),  # each the other of its own
        ("C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)", 4096, ["m", "m"]),
        ("C[m,n] = A[m,k]@B[n,k] with order=m", 4096, []),
        ("C[m,n] = A[m,k]@B[n,k]", 64, []),  # each cluster has one tile
    ],
)
def test_the_best_are_tried_in_both_orders_of_tiles(source: str, m: int, others: list[str]) -> None:
    sizes = {"m": m, "n": 7168, "k": 4096}
    found = [r.schedule for r in ranked(source, "sm_90a", sizes)]
    varied = [i for i, schedule in enumerate(found) if "order" in schedule]
    assert [found[i]["order"] for i in varied] == others
    for i, other in zip(varied, others, strict=True):
        assert found[i] == {**found[i - 1], "order": other}
        own, varies = (compiler.decide(source, "sm_90a", sizes, found[j])[0].order for j in (i - 1, i))
        assert varies == other != own


@pytest.mark.parametrize(
    ("source", "m", "k", "blocks"),
    [
        (FP8, 4096, 1536, "12"),
        (FP8, 4096, 512, None),  # so chosen anyway
        (FP8, 4096, 2176, None),  # more than an iteration may have
        (FP8, 64, 1536, None),  # one wave
        (f"{FP8} with unroll=2", 4096, 1536, None),
        (ADDED.replace("128x128", "1x128"), 4096, 1536, None),  # two factors for each sum
        ("C[m,n] = A[m,k]@B[n,k]", 4096, 512, None),  # nothing is promoted
    ],
)
def test_the_best_are_tried_without_a_loop(source: str, m: int, k: int, blocks: str | None) -> None:
    sizes = {"m": m, "n": 8192, "k": k}
    found = [r.schedule for r in ranked(source, "sm_90a", sizes)]
    varied = [i for i, schedule in enumerate(found) if "unroll" in schedule]
    assert [found[i]["unroll"] for i in varied] == ([blocks] * 2 if blocks else [])
    for i in varied[:1]:
        assert found[i] == {**found[i - 1], "unroll": blocks}
        assert str(compiler.decide(source, "sm_90a", sizes, found[i])[0].unroll) == blocks


def test_the_roofline() -> None:
    moved = 64 * 7168 + 2112 * 7168 + 2 * 64 * 2112 + 4 * (64 * 56 + 17 * 56)
    assert work(FP8, "sm_90a", SIZES)[1] == pytest.approx(moved / 4.8e12, rel=0.01)
    large = {"m": 8192, "n": 8192, "k": 8192}
    assert work(FP8, "sm_90a", large)[1] == pytest.approx(2 * 8192**3 / 1.979e15, rel=0.01)


def test_a_wrong_program_is_refused() -> None:
    with pytest.raises(ScalecError, match="no schedule field"):
        ranked(f"{FP8} with tiles=2", "sm_90a", SIZES)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_programs_that_look_rows_and_groups_up_are_ranked(target: str) -> None:
    """By what they are on average: of ragged rows a group's share, of lookups as many as there are."""
    sizes = {"m": 1024, "n": 256, "k": 256}
    scattered = "C[to[m],n] = A[idx[m],k] @ B[g,n,k] for m in off[g]:off[g+1]"
    programs = {"C[m,n] = A[m,k] @ B[e[m/128],n,k]": {"B_0": 8}, scattered: {"g": 8, "A_0": 1024, "C_0": 1024}}
    for source, more in programs.items():
        assert ranked(source, target, {**sizes, **more})
        assert work(source, target, {**sizes, **more})[0] == 2 * 1024 * 256 * 256
    about = {"m": 1024, "n": 256, "k": 256, "g": 8}
    assert work("C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g] about 20", target, about)[0] == 2 * 8 * 20 * 256 * 256


def test_ranges_that_may_be_longer_than_a_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a few waves: tiles of 1.3 of the mean would have one wave, and with longer ranges two."""
    ragged = "C[m,n] = A[m,k] @ B[g,n,k] scale(1x128,1x128x128) for m in off[g]:off[g+1]"
    sizes = {"m": 231, "g": 8, "n": 4096, "k": 7168}
    assert ranked(ragged, "sm_90a", sizes)[0].schedule["tile"] == "128x48x128"
    monkeypatch.setattr(cost, "FAR_SHARE", 0)
    assert ranked(ragged, "sm_90a", sizes)[0].schedule["tile"] == "256x40x128"


@pytest.mark.parametrize(
    ("promise", "tile"), [("by 128", "192x128x128"), ("by 16", "128x256x128"), ("", "128x256x128")]
)
def test_copies_whose_rows_lie_in_two_lines_of_l2(promise: str, tile: str) -> None:
    along = "C[g,m,n]:f32 += A[m,k] @ B[n,k] scale(1x128@col,1x128@col) for k in off[g]:off[g+1]"
    found = ranked(f"{along} {promise} apart", "sm_90a", {"g": 16, "m": 7168, "n": 2048, "k": 32768})
    assert found[0].schedule["tile"] == tile
