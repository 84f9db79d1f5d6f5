"""No instruction of a kernel touches sums of a wgmma that is under way."""

from __future__ import annotations

from itertools import product

import pytest

from benchmarks.batched import PROGRAMS
from benchmarks.sass_flow import Function, Instruction, parse
from scalec.commands.sass import disassemble
from scalec.compiler import compile_source
from scalec.lowering.llvm import _waits_first
from tests.lowering.under_way import touched_under_way

HEADS = "Z[b,h,d] = X[b,h,r] @ Y[h,d,r]"
SIZES = {"b": 128, "h": 128, "r": 512, "d": 128}


def wrong(source: str, sizes: dict[str, int], schedule: dict[str, str]) -> list[tuple[Instruction, list[int]]]:
    made = compile_source(source, "sm_90a", sizes, schedule, tuned=False)
    assert made.cubin is not None
    (function,) = parse(disassemble(made.cubin, encoding=True))
    return touched_under_way(function)


@pytest.mark.assembled
@pytest.mark.parametrize("columns", [72, 80])
def test_results_are_not_read_before_the_last_wait(columns: int) -> None:
    """LLVM computes whether a tile has columns beyond the end before the wait; ptxas then converted before it, too."""
    assert not wrong(HEADS, SIZES, {"swap": "1", "tile": f"64x{columns}x64", "cluster": "1x1", "order": "m"})


@pytest.mark.thorough
@pytest.mark.parametrize(("columns", "order"), [*product((8, 16, 40, 48, 64, 72, 80, 96, 112, 128), "mn")])
@pytest.mark.parametrize("cluster", ["1x1", "2x1"])
def test_of_every_width(columns: int, order: str, cluster: str) -> None:
    assert not wrong(HEADS, SIZES, {"swap": "1", "tile": f"64x{columns}x64", "cluster": cluster, "order": order})


@pytest.mark.thorough
@pytest.mark.parametrize("name", PROGRAMS)
def test_of_what_is_measured(name: str) -> None:
    for sizes in PROGRAMS[name].shapes[::3]:
        assert not wrong(PROGRAMS[name].source, sizes, {}), sizes


@pytest.mark.parametrize(
    ("before", "moved"),
    [
        ("\tsetp.eq.b32 \t%p10, %r14, 0;\n\tadd.s32 \t%r1, %r2, -8;\n", True),
        ("\twgmma.commit_group.sync.aligned;\n", False),
        ("\tadd.s32 \t%r1, %r2, -8;\n\tst.shared.b32 \t[%r1], %r2;\n", False),
    ],
)
def test_a_wait_comes_first_of_what_only_computes(before: str, moved: bool) -> None:
    label, wait = "$L__BB0_19:\n", "\t// begin inline asm\n\twgmma.wait_group.sync.aligned 0;\n\t// end inline asm\n"
    assert _waits_first(label + before + wait) == label + (wait + before if moved else before + wait)


def test_what_counts_as_under_way() -> None:
    def x(opcode: str, operands: str = "") -> Instruction:
        return Instruction(0, "", opcode, operands, 0)

    first = x("HGMMA.64x16x16.F32.BF16", "R24, gdesc[UR8], R24, gsb0")
    second = x("HGMMA.64x16x16.F32.BF16", "R32, gdesc[UR8], R32, gsb0")
    wait, all_ = x("WARPGROUP.DEPBAR.LE", "gsb0, 0x1"), x("WARPGROUP.DEPBAR.LE", "gsb0, 0x0")
    early, late, stored = x("FADD", "R1, R31, R2"), x("FADD", "R1, R39, R2"), x("STG.E.128", "desc[UR4][R2.64], R36")
    code = (first, second, wait, early, late, stored, all_, late, x("EXIT"))
    assert [at for _, at in touched_under_way(Function("f", code, {}))] == [[39], [36, 37, 38, 39]]
    assert [at for _, at in touched_under_way(Function("f", (first, early, wait, early, x("EXIT")), {}))] == [[31]] * 2
