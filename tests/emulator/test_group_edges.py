"""Groups that begin where no copy can, and operands with two indices for each row."""

from __future__ import annotations

import numpy as np
import pytest

from scalec import reference
from scalec.commands.compile import Request
from scalec.commands.run import run_program
from scalec.errors import ScheduleError, UnsupportedError
from tests.emulator.pointwise import ran

RANGE = "for m in off[g]:off[g+1]"

SIZES = {"m": 208, "n": 64, "k": 256, "g": 3}

APART = (
    (f"C[m,n] = A[m,k] @ B[g,n,k] scale(1x128@col,1x128x128) {RANGE}", SIZES, ("sm_90a", "sm_100a", "sm_120a")),
    ("C[m,n] = A[m,k] @ B[e[m/50],n,k] scale(1x128@col,1x1x128)", {"m": 200, "n": 64, "k": 256}, ("sm_90a", "sm_120a")),
    (f"C[m,n] = A[m,k] @ B[g,n,k] scale(1x32:ue8m0@packed,1x1x32:ue8m0@packed) {RANGE}", SIZES, ("sm_120a",)),
    (
        "C[m,n] = A[m,k] @ B[g,n,k] for n in off[g]:off[g+1]",
        {"m": 100, "n": 200, "k": 64, "g": 3},
        ("sm_100a", "sm_120a"),
    ),
)
"""Programs whose scales, or results, copies brought from, or stored to, where no box of a copy may begin."""


@pytest.mark.parametrize(
    ("program", "sizes", "target"), [(p, sizes, t) for p, sizes, targets in APART for t in targets]
)
def test_groups_begin_where_no_copy_can(program: str, sizes: dict[str, int], target: str) -> None:
    run_program(Request(program, target, sizes), 0)


@pytest.mark.parametrize(
    "program", ["C[m,n] = A[m,k] @ B[n,e[n],k]", "C[m,n] = A[e[m],m,k] @ B[n,k]", "C[m,n] = A[e[m],f[m],k] @ B[n,k]"]
)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_operands_have_one_index_for_each_row(program: str, target: str) -> None:
    with pytest.raises(UnsupportedError, match="has 2 indices for each"):
        run_program(Request(program, target, {"m": 70, "n": 64, "k": 64}), 0)


@pytest.mark.parametrize("program", ["for k in 3:100 by 64", "for k < 100 by 64", "for k in off[0]:128"])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_numbers_that_break_a_promise_are_no_promise(program: str, target: str) -> None:
    sizes = {"m": 70, "n": 64, "k": 192}
    run_program(Request(f"C[m,n] = A[m,k] @ B[n,k] {program}", target, sizes), 0)


@pytest.mark.once("target", "program")
@pytest.mark.parametrize(
    "program",
    [
        "C[g,m,n] = A[idx[g+1,m],k] @ B[g,n,k]",
        "C[g,idx[g+1,m],n] = A[m,k] @ B[g,n,k]",
        "C[g,m,n] = A[m,k] @ B[g,n,k] + x[idx[g+1,m],n]",
        "C[g,m,n] = A[m,k] @ B[e[g+1],n,k]",
    ],
)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_indices_of_another_group(program: str, target: str) -> None:
    """A number is added to the dimension that an index is read at."""
    run_program(Request(program, target, {"m": 70, "n": 64, "k": 64, "g": 3}), 0)


WORDS = "C[m,n]:e4m3 scale(1x16:ue8m0@blocked) = A[e[n/32],m,k] @ B[n,k]"


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_words_of_scales_of_two_groups_of_columns(target: str) -> None:
    """Who stores the scales of 32 columns would write those of the next, and what pads a row, wherever a tile ends."""
    sizes = {"m": 9, "n": 240, "k": 64, "A_0": 3}
    run_program(Request(WORDS, target, sizes), 0)
    wide = {"sm_90a": "tile=64x64x64", "sm_100a": "tile=128x64x64", "sm_120a": "tile=32x64x64"}[target]
    for cut in (wide, f"{wide.replace('x64x', 'x32x')}, cluster=1x2"):
        if target == "sm_120a" and "cluster" in cut:
            continue
        with pytest.raises(ScheduleError, match="changes after each 32: C_scale has one for several"):
            run_program(Request(f"{WORDS} with swap=0, {cut}", target, sizes), 0)


SHIFTED = (
    "C[m,n] = A[m,k] @ B[e[m/16+1],n,k]",
    "C[m,n] = A[m,k] @ B[e[(m+32)/16],n,k] scale(1x128,1x1x128) * x[e[m/16+2],n]",
    "C[m,n] = A[m,k] @ B[e[m/16],n,k] + x[e[m/16+1],n]",
    "C[n,m] = A[m,k] @ B[e[m/24+1],n,k]",
)
"""Blocks whose indices stand further on in the tensor of indices."""


@pytest.mark.once("target")
@pytest.mark.parametrize("program", SHIFTED)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_blocks_whose_indices_stand_further_on(program: str, target: str) -> None:
    run_program(Request(program, target, {"m": 70, "n": 40, "k": 128}), 0)


@pytest.mark.parametrize(
    ("target", "schedule", "rows", "own"),
    [
        ("sm_90a", "tile=128x64x128, cluster=2x1", 64, (70, 0, 256, 1, 65, 10)),
        ("sm_90a", "tile=192x64x128, scale_path=bulk", 64, (10, 64, 129, 10, 2, 65)),
        ("sm_120a", "tile=128x64x128, warps=8x1", 16, (10, 65, 128, 1, 20)),
    ],
)
def test_units_without_rows_of_a_cut_tile_do_not_multiply(
    target: str, schedule: str, rows: int, own: tuple[int, ...]
) -> None:
    """Warpgroups, of `rows` rows each, or warps."""
    program = f"C[g,m,n] = A[g,m,k] @ B[g,n,k] scale(1x1x128,1x128x128) for m < own[g] with {schedule}"
    dims = {"g": len(own), "m": 256, "n": 64, "k": 512}
    made, expected, _, stats = ran(program, dims, "nk", target, change=lambda v: v.update(own=np.array(own, np.int32)))
    there = expected.reached["C"] > 0
    assert reference.diff(made["C"][there], expected["C"][there]) < 1e-5
    units = sum(-(-r // rows) for r in own)
    assert stats.counts["tensor operations"] == units * rows * dims["n"] * dims["k"]
