"""benchmarks/sm100_loops.py: its counts on code written by hand; that kernels keep to what was reached."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import sm100_loops
from benchmarks.sass_flow import parse
from scalec.commands import sass
from scalec.compiler import compile_source
from tests.benchmarks.test_sass_loop import listing

MOST = {
    "BF16": 6.5,
    "BF16, B[k,n]": 6.5,
    "BF16, k not known": 6.5,
    "FP8": 6.5,
    "FP8, ue8m0 1x128": 8.0,
    "MXFP8": 8.0,
    "MXFP4": 7.5,
    "NVFP4": 8.0,
    "FP8, f32 1x128 by 128x128": 7.5,
}
"""Instructions for each tcgen05.mma (ptxas 13.0; fewer with 13.5: 2026-11-21)."""

WITHIN = {
    "MXFP8 @blocked, N 64": 7.1,
    "MXFP8 @blocked, N 192": 8.1,
    "NVFP4 @blocked, N 64": 7.8,
    "NVFP4 @blocked, N 192": 6.9,
}
"""Likewise of tiles that begin within a tile of scales: 7.06, 8.07, 7.75, 6.88 with 13.0; 6.19, 6.43, 7.64, 5.58 with
13.5 (2026-11-26)."""


CASES = {c.name: c for c in sm100_loops.CASES}


@pytest.mark.parametrize("name", WITHIN)
def test_counts_of_tiles_within_a_tile_of_scales(name: str, toolchain: None) -> None:
    counts = sm100_loops.count(CASES[name])
    assert counts.loop.tensor >= 16
    assert counts.per_product <= WITHIN[name], counts.loop.classes


@pytest.mark.once
@pytest.mark.parametrize("case", [CASES[name] for name in MOST], ids=lambda c: c.name)
def test_counts_stay(case: sm100_loops.Case, toolchain: None) -> None:
    counts = sm100_loops.count(case)
    assert counts.loop.tensor >= 16
    assert counts.per_product <= MOST[case.name], counts.loop.classes
    if case.name == "FP8, f32 1x128 by 128x128":  # columns are kept for the next K block
        return
    assert counts.epilogue is not None
    assert counts.epilogue <= (45 if case.name == "NVFP4" else 29)  # NVFP4 has two tensor scales, multiplied before
    assert counts.converted == 16


@pytest.mark.parametrize("case", [c for c in sm100_loops.CASES if c.name in ("NVFP4", "FP8, f32 1x128 by 128x128")])
def test_packed_arithmetic_needs_no_moves(case: sm100_loops.Case, toolchain: None) -> None:
    """Adjacent columns are in adjacent registers from tensor memory to where they are rounded."""
    made = compile_source(case.source, "sm_100a", case.dims)
    assert made.cubin is not None
    (function,) = parse(sass.disassemble(made.cubin, encoding=True))
    counts = Counter(x.stem for x in function.instructions)
    # of a thread's 256 sums, a product each; of 128, one sum of a product each
    assert {"NVFP4": counts["FMUL2"] == 128, "FP8, f32 1x128 by 128x128": counts["FFMA2"] == 64}[case.name]
    assert counts["FMUL"] == (1 if case.name == "NVFP4" else 0)  # of the two tensors' scales, before the tiles
    assert not counts["FFMA"]
    first, *_, last = sm100_loops.taking(function)
    assert not [x for x in function.instructions[first:last] if x.kind == "MOV"]


def test_most_is_within_the_goal() -> None:
    assert max(MOST.values()) <= sm100_loops.GOAL
    assert MOST.keys() | WITHIN.keys() == CASES.keys()


def test_an_epilogue_is_counted_from_loads_to_loads() -> None:
    part = [
        "LDTM.16dp256bit.x4 R0, tmem[UR4]",
        "NOP",
        "LDTM.16dp256bit.x4 R8, tmem[UR4+0x100000]",
        *["FADD R1, R1, R1"] * 5,
    ]
    functions = parse(listing(*part, *part, "NOP", *part, *part, "EXIT", target="sm_100a"))
    (function,) = functions
    assert list(sm100_loops.taking(function)) == [0, 8, 17, 25]
    assert sm100_loops.epilogue(functions) == 9
    wide = [line.replace(".x4", ".x8") for line in part]  # 64 columns: half as many for 32
    assert sm100_loops.epilogue(parse(listing(*wide, *wide, *wide, "EXIT", target="sm_100a"))) == 4
    assert sm100_loops.epilogue(parse(listing(*part, *part, "EXIT", target="sm_100a"))) is None


def test_conversions_under_the_next_loads() -> None:
    def loads(first: int, column: str) -> list[str]:
        return [f"LDTM.16dp256bit.x4 R{first}, tmem[UR4{column}]", f"LDTM.16dp256bit.x4 R{first + 16}, tmem[UR4+0x1]"]

    def converts(first: int) -> list[str]:
        return [f"F2FP.BF16.F32.PACK_AB R{i}, R{i + 1}, R{i}" for i in range(first, first + 32, 2)]

    store, end, wait = "STSM.16.M88.4 [R2], R128", "EXIT", ["NOP"] * 4
    parts = [loads(0, ""), loads(32, "+0x20"), loads(64, "+0x40"), loads(96, "+0x60")]
    under = [*parts[0], *wait, *parts[1], *converts(0), store, *parts[2], *converts(32), store, *parts[3], end]
    assert sm100_loops.converted(parse(listing(*under, target="sm_100a"))) == 16
    # those of the second part before the third is loaded
    early = [*parts[0], *wait, *parts[1], *converts(0), *converts(32), *parts[2], *converts(64), *parts[3], end]
    assert sm100_loops.converted(parse(listing(*early, target="sm_100a"))) == 0
    assert sm100_loops.converted(parse(listing(*parts[0], *converts(0), end, target="sm_100a"))) is None
