"""benchmarks/group_loops.py: its counts on code written by hand; loops of groups stay beside those of dense kernels."""

from __future__ import annotations

import pytest

from benchmarks import group_loops
from benchmarks.group_loops import Count
from benchmarks.sass_flow import parse
from tests.benchmarks.test_sass_loop import listing

BEYOND = {("sm_100a", kind, "multiply"): 1.03 for kind in ("ragged", "masked", "gathered")}
"""Where a loop has more than GOAL allows of the dense kernel's (ptxas 13.0; docs/notes/groups.md says why)."""

ITEM = {"blocks": 300, "along": 135}
"""Stalls of the warp that says which tile is next, for an item, at the most; others have MOST_OF_ITEM."""
MOST_OF_ITEM = 430


@pytest.mark.thorough
@pytest.mark.parametrize("kind", group_loops.KINDS)
@pytest.mark.parametrize("target", group_loops.TARGETS)
def test_loops_are_the_dense_ones(kind: str, target: str, toolchain: None) -> None:
    groups, dense = group_loops.count(kind, target)
    assert groups.tensor == dense.tensor
    assert (groups.promote is None) == (dense.promote is None) == (target == "sm_120a")
    for name in ("multiply", "promote"):
        found, beside = getattr(groups, name), getattr(dense, name)
        most = BEYOND.get((target, kind, name), group_loops.GOAL)
        for what in ("instructions", "stalls") if found is not None else ():
            assert getattr(found, what) <= most * getattr(beside, what), (name, what, found, beside)
    assert groups.item is not None
    assert dense.item is None
    assert groups.item.stalls <= ITEM.get(kind, MOST_OF_ITEM)


def test_what_a_tile_costs_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    issues = ["L0:", "SYNCS | 2", "L1:", "UTCQMMA gdesc[UR0] | 3", "@P0 BRA L5 | 1", "@P1 BRA L1 | 4", "@P2 BRA L0 | 5"]
    copies = ["L2:", "R2UR UR4, R1 | 6", "L3:", "UTMALDG.2D [UR4] | 7", "@P1 BRA L3 | 8", "@P2 BRA L2 | 9"]
    deals = ["L4:", "STS [R1], R2 | 10", "@P3 BRA L4 | 11", "EXIT"]
    # a barrier's retry, which ptxas puts behind the end
    text = listing(*issues, *copies, *deals, "L5:", "SYNCS | 15", "BRA L1 | 15", target="sm_100a")
    assert len(parse(text)) == 1
    monkeypatch.setattr(group_loops, "disassemble", lambda _cubin, **_: text)
    made = group_loops.loops_of(b"", "by hand")
    assert (made.multiply, made.multiply_item) == (Count(3, 8), Count(2, 7))
    assert (made.copy, made.copy_item) == (Count(2, 15), Count(2, 15))
    assert (made.tensor, made.promote, made.item) == (1, None, Count(2, 21))
