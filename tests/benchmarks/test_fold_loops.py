"""benchmarks/fold_loops.py: what it counts of code written by hand; that logits keep to what was reached."""

from __future__ import annotations

import pytest

from benchmarks import fold_loops
from benchmarks.fold_loops import SOURCES, sizes
from scalec.compiler import compile_source
from tests.benchmarks.test_sass_loop import function, listing

MOST = {
    ("sm_100a", "FP8"): 3.2,
    ("sm_100a", "FP8, pages"): 4.3,
    ("sm_100a", "FP8, pages, 2 tokens"): 3.5,
    ("sm_100a", "FP4"): 3.0,
    ("sm_120a", "FP8"): 17.9,
    ("sm_120a", "FP8, pages"): 30.0,
    ("sm_120a", "FP8, pages, 2 tokens"): 25.0,
    ("sm_120a", "FP4"): 9.2,
}
"""Stalls of a term (ptxas 13.0, 2026-11-29; docs/notes/sm_100a.md)."""


@pytest.mark.thorough
@pytest.mark.parametrize(("target", "name"), MOST)
def test_counts_stay(target: str, name: str, toolchain: None) -> None:
    made = compile_source(SOURCES[name], target, sizes(name))
    assert made.cubin is not None
    counts = fold_loops.count(made.cubin, str(made.schedule))
    assert counts.fold[1] <= MOST[target, name], counts


def test_the_way_with_more_to_do_is_left_out() -> None:
    short, long = (["FADD R1, R1, R1"] * n for n in (fold_loops.LONG, fold_loops.LONG + 1))
    ways = ["L0:", "@P3 BRA L1", *short, "BRA L2", "L1:", *long, "L2:", "@P0 BRA L0", "EXIT"]
    f = function(*ways)
    loop = set(range(len(f.instructions) - 1))
    assert len(fold_loops.rarely(f, loop)) == len(long)
    few = function(*[x for x in ways if x not in ("FADD R1, R1, R1",)])
    assert not fold_loops.rarely(few, set(range(len(few.instructions))))


def test_what_a_vote_jumps_over_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    code = [
        *("L0:", "UTCQMMA gdesc[UR0] | 3", "@P1 BRA L0"),
        *("L1:", "BRA.U !UP0, L2", "LDG.E R1, [R2]", "L2:", "LDTM.16dp256bit.x8 R4, tmem[UR4] | 4"),
        *("VOTE.ALL P0, P0", "@P0 BRA L3", "FMUL R4, R4, R4", "L3:", "BRA.U !UP0, L4", "STG.E [R2], R4 | 5", "L4:"),
        *("@P1 BRA L1", "EXIT"),
    ]
    monkeypatch.setattr(fold_loops, "disassemble", lambda _cubin, **_: listing(*code, target="sm_100a"))
    counts = fold_loops.count(b"")
    assert (counts.products, counts.issue, counts.terms, counts.passed) == (1, (2.0, 4.0), 32, 2)
    assert counts.fold == (round(7 / 32, 2), round(14 / 32, 2))
