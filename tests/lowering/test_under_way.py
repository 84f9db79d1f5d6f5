"""No instruction of a kernel touches registers of a wgmma that is under way, or tells of loads that are; no wgmma is
dropped."""

from __future__ import annotations

import re
from itertools import product

import pytest

from benchmarks import fold_loops, sm100_loops
from benchmarks.batched import PROGRAMS
from benchmarks.sass_flow import Function, Instruction, parse
from scalec.commands.sass import disassemble
from scalec.compiler import compile_source
from scalec.errors import ToolchainError
from scalec.lowering import ptxas
from scalec.lowering.llvm import _waits_first
from tests.lowering.under_way import Loads, Products, wrong_under_way

HEADS = "Z[b,h,d] = X[b,h,r] @ Y[h,d,r]"
SIZES = {"b": 128, "h": 128, "r": 512, "d": 128}
CONVERTED = {
    "MXFP4": "C[m,n] = A[m,k] @ B[n,k]:e2m1 scale(none,1x32:ue8m0)",
    "NVFP4": "C[m,n] = A[m,k] @ B[n,k]:e2m1 scale(none,1x16:ue4m3)",
    "i4": "C[m,n] = A[m,k] @ B[n,k]:i4 scale(none,1x128:bf16)",
    "FP8": "C[m,n] = A[m,k] @ B[n,k]:e4m3 scale(none,128x128)",
}
"""Of which threads bring A."""


def function_of(cubin: bytes | None) -> Function:
    assert cubin is not None
    (function,) = parse(disassemble(cubin, encoding=True))
    return function


def wrong(source: str, sizes: dict[str, int], schedule: dict[str, str]) -> list[tuple[Instruction, list[int]]]:
    made = compile_source(source, "sm_90a", sizes, schedule, tuned=False)
    function = function_of(made.cubin)
    products = [x for x in function.instructions if re.match(r"[HIQ]GMMA.* R\d", f"{x.opcode} {x.operands}")]
    assert len(products) >= (made.ptx or "").count("wgmma.mma_async"), "ptxas has dropped products"
    return wrong_under_way(function, Products())


@pytest.mark.assembled
@pytest.mark.parametrize("columns", [72, 80])
def test_results_are_not_read_before_the_last_wait(columns: int) -> None:
    """LLVM computes whether a tile has columns beyond the end before the wait; ptxas then converted before it, too."""
    assert not wrong(HEADS, SIZES, {"swap": "1", "tile": f"64x{columns}x64", "cluster": "1x1", "order": "m"})


WEIGHTED = [
    ("D[m,n] = A[m,k]:tf32 @ B[n,k]:tf32; S[m]:f32 = sum[k]((A[m,k] * wk[k])^2)", {}),
    ("D[m,n] = A[m,k]:tf32 @ B[n,k]:tf32; S[m]:f32 = sum[k]((A[m,k] * wk[k])^2)", {"m": 16, "n": 8192, "k": 8192}),
    ("D[m,n] = A[m,k]:bf16 @ B[n,k]:bf16; S[m]:f32 = max[k](abs(A[m,k]) * wk[k])", {}),
]
"""Whose threads read what belongs to K for the next block, while A's registers of this one are under way."""


@pytest.mark.assembled
@pytest.mark.parametrize(("source", "sizes"), WEIGHTED)
def test_weights_of_k_are_not_where_a_is(source: str, sizes: dict[str, int]) -> None:
    """Reductions read A meanwhile, which is no harm."""
    touched = [(x, re.search(r"\bR(\d+)", x.operands), hit) for x, hit in wrong(source, sizes, {})]
    assert not [x for x, first, hit in touched if first is not None and int(first[1]) in hit]


BY_TURNS = [
    ("C[m,n]:f32 = A[m,k]:u4 @ B[n,k]:bf16 scale(64x32:f16, none)", {"tile": "64x256x64", "convert": "registers"}),
    ("C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3", {"swap": "1", "tile": "256x64x128", "promote": "32"}),
    ("C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3", {"tile": "64x128x128", "promote": "64", "mma_n": "64"}),
    ("C[m,n]:f32 = A[m,k]:i8 @ B[n,k]:i8 scale(1x32, 1x32)", {"tile": "64x64x128", "mma_n": "32"}),
]
"""Of which several products have their sums in the same registers, and add them to nothing yet; those of integers are
converted behind each wait."""


@pytest.mark.assembled
@pytest.mark.parametrize(("source", "schedule"), BY_TURNS)
def test_no_product_is_dropped(source: str, schedule: dict[str, str]) -> None:
    assert not wrong(source, {"k": 64}, schedule)


@pytest.mark.thorough
@pytest.mark.parametrize("schedule", [{}, {"tile": "128x128x128"}, {"stationary": "1", "mma_n": "64"}])
def test_no_product_of_a_fold_is_dropped(schedule: dict[str, str]) -> None:
    assert not wrong(fold_loops.SOURCES["FP8"], fold_loops.sizes("FP8"), schedule)


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


@pytest.mark.thorough
@pytest.mark.parametrize("name", CONVERTED)
def test_a_stays_in_its_registers(name: str) -> None:
    assert not wrong(CONVERTED[name], {"n": 4096, "k": 4096}, {"convert": "registers"})


def told(ptx: str | None) -> list[Instruction]:
    """What tells of loads from tensor memory that are under way."""
    assert ptx is not None
    made = function_of(ptxas.assemble(ptx, "sm_100a", "").cubin)
    return [x for x, _ in wrong_under_way(made, Loads())]


@pytest.mark.thorough
@pytest.mark.parametrize("case", sm100_loops.CASES, ids=lambda x: x.name)
def test_columns_are_given_back_when_they_were_loaded(case: sm100_loops.Case) -> None:
    assert not told(compile_source(case.source, "sm_100a", case.dims, until="ptx").ptx)


@pytest.mark.thorough
@pytest.mark.parametrize("name", fold_loops.SOURCES)
def test_that_needs_the_last_wait(name: str) -> None:
    """What is put before it does no harm, as ptxas waits for loads by scoreboards."""
    ptx = compile_source(fold_loops.SOURCES[name], "sm_100a", fold_loops.sizes(name), until="ptx").ptx
    assert ptx is not None
    before, last, after = ptx.rpartition("tcgen05.wait::ld.sync.aligned;")
    loaded = re.findall(r"tcgen05.ld[^{]*{(%r\d+)", before)[-1]
    changed = f"{{ .reg .b32 A; mov.b32 A, {loaded}; xor.b32 {loaded}, A, 1; }} {last}"
    assert not told(ptx)
    assert not told(before + changed + after)
    assert {x.opcode.partition(".TRANS")[0] for x in told(before + after)} == {"SYNCS.ARRIVE"}


def test_an_old_ptxas_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptxas, "version", lambda: "12.9.86")
    ptxas._major.cache_clear()
    with pytest.raises(ToolchainError, match="may drop waits for loads from tensor memory"):
        ptxas.assemble("tcgen05.wait::ld.sync.aligned;", "sm_100a", "")
    ptxas._major.cache_clear()


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
    assert [at for _, at in wrong_under_way(Function("f", code, {}), Products())] == [[39], [36, 37, 38, 39]]
    assert [at for _, at in wrong_under_way(Function("f", (first, early, wait, early, x("EXIT")), {}), Products())] == [
        [31]
    ] * 2


def test_what_loads_leave_under_way() -> None:
    def x(opcode: str, operands: str = "", board: int = 7, awaited: int = 0) -> Instruction:
        return Instruction(0, "", opcode, operands, board << 46 | awaited << 52)

    def found(*code: Instruction) -> list[tuple[str, int]]:
        made = Function("f", (*code, x("EXIT", awaited=2)), {})
        return [(y.stem, len(hit)) for y, hit in wrong_under_way(made, Loads())]

    one, other = x("LDTM.x4", "R4, tmem[UR4]"), x("LDTM.16dp256bit.x2", "R8, tmem[UR4+0x100000]", 1)
    use, tell = x("FADD", "R1, R7, R2"), x("SYNCS.ARRIVE.TRANS64.A1T0", "RZ, [UR8], RZ")
    assert found(one, other, use, tell) == [("FADD", 1), ("SYNCS", 12)]
    assert found(one, other, x("NOP", awaited=2), use, tell) == []
    assert found(one, other, x("NOP", awaited=1), tell) == [("SYNCS", 12)]
    assert found(one, other, x("DEPBAR.LE", "SB1, 0x0"), use, tell) == []
    third = x("LDTM.x4", "R20, tmem[UR4+0x40]", 2)
    assert found(one, other, third, x("NOP", awaited=2), use, tell) == [("SYNCS", 4), ("EXIT", 4)]
    assert found(other, third, x("NOP", awaited=4), x("FADD", "R1, R8, R2"), tell) == []  # they come in order
    assert found(other, x("LDTM.x4", "R14, tmem[UR4]", 1), tell) == [("LDTM", 2), ("SYNCS", 10)]
