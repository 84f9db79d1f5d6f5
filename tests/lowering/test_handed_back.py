"""No warp tells that it has read a stage, or a slot, while loads of it are under way."""

from __future__ import annotations

import re

import pytest

from benchmarks.sass_flow import Function, Instruction
from tests.emulator.test_several_results import run
from tests.lowering.handed_back import HandOver, Watch, early, under_way

BF16 = "C[m,n]:bf16 = A[m,k]:bf16 @ B[n,k]:bf16"
FINE = "C[m,n]:f32 = A[m,k] @ B[n,k] scale(1x128@col, 1x128@col)"
SLOTS = f"{BF16} + X[m,n]:f32", "tile=128x64x64, inputs=2, cluster=1x1, stages=3", {"m": 260, "n": 128, "k": 128}
WIDE, FEW = {"m": 64, "n": 64, "k": 640}, {"m": 64, "n": 64, "k": 192}
"""Of K blocks as many as go through the stages several times."""

CASES: dict[str, tuple[str, str, str, dict[str, int]]] = {
    "factors": ("sm_90a", FINE, "tile=64x64x128, stages=2, cluster=1x1, split=1", WIDE),
    "slots of an input": ("sm_90a", *SLOTS),
    "operands that are converted": ("sm_90a", "C[m,n] = A[m,k]:bf16 @ B[n,k]:i4 scale(none,1x128)", "stages=3", WIDE),
    "factors of sums in tensor memory": ("sm_100a", FINE, "tile=128x64x128, stages=2, cluster=1x1, split=1", WIDE),
    "operands that warps convert": ("sm_100a", "C[m,n] = A[m,k]:bf16 @ B[n,k]:nvfp4", "stages=2", WIDE),
    "slices, some blocks": ("sm_120a", BF16, "tile=128x64x64, stages=2", FEW),
    "slices, a loop": ("sm_120a", "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8", "tile=64x64x128, stages=2", WIDE),
    "K outermost": ("sm_120a", "C[m,n] = A[m,k]:bf16 @ B[k,n]:bf16", "tile=128x64x64, stages=2", FEW),
    "slices and factors": ("sm_120a", FINE, "tile=64x64x128, stages=2", WIDE),
}


def looked_at(case: str) -> tuple[str, str, set[HandOver]]:
    target, program, schedule, dims = CASES[case]
    with Watch().on() as watch:
        run(f"{program} with {schedule}", target, dims, "nk")
    ((ptx, found),) = watch.found.items()
    return ptx, target, found


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_what_is_handed_back_was_loaded(case: str) -> None:
    ptx, target, found = looked_at(case)
    assert found
    lines = ptx.splitlines()
    assert not [(lines[x.load - 1], lines[x.tell - 1], at) for x, at in early(ptx, target, found)]


@pytest.mark.thorough
def test_slots_need_their_fence() -> None:
    """On a GPU: tests/gpu/test_schedules.py."""
    ptx, target, found = looked_at("slots of an input")
    assert early(re.sub(r"fence\.proxy\.async\.shared::cta;", "//", ptx), target, found)


def test_what_counts_as_under_way() -> None:
    def x(opcode: str, board: int = 7, awaited: int = 0, operands: str = "") -> Instruction:
        return Instruction(0, "", opcode, operands, board << 46 | awaited << 52)

    def found(*code: Instruction, passed: int = 0, labels: dict[str, int] | None = None) -> int:
        tells = [i for i, y in enumerate(code) if y.stem == "SYNCS"]
        return len(under_way(Function("f", (*code, x("EXIT")), labels or {}), 0, tells, passed))

    load, other, none, tell = x("LDS", 1), x("LDSM", 2), x("LDSM"), x("SYNCS.ARRIVE")
    assert found(load, tell) == found(none, tell) == found(load, other, x("NOP", awaited=8), tell) == 1
    assert found(load, x("NOP", awaited=2), tell) == found(load, x("SYNCS.ARRIVE", awaited=2)) == 0
    assert found(load, x("DEPBAR.LE", operands="SB1, 0x0"), tell) == found(load, x("MEMBAR.ALL.CTA"), tell) == 0
    assert found(none, other, x("NOP", awaited=4), tell) == found(load, other, x("NOP", awaited=4), tell) == 0
    around = (load, tell, x("NOP", awaited=2), x("BRA", operands="`(.L_0)"))
    assert found(*around, labels={".L_0": 1}) == 1
    assert found(*around, labels={".L_0": 1}, passed=1) == 0
