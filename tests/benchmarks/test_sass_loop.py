"""benchmarks/sass_loop.py: on machine code written by hand, and on kernels that ptxas made."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import sass_loop
from benchmarks.sass_flow import Function, architecture, natural_loops, parse, successors
from scalec.lowering import ptxas

TRITON = Path(__file__).parents[1] / "emulator" / "data" / "triton"


def control(stall: int, waits: int = 0) -> int:
    """The upper half of an instruction's bits: other fields are set too, and must not be read."""
    return stall << 41 | waits << 52 | 0b11_0111_1 << 45 | 0x1FF


def listing(*lines: str, target: str = "sm_120a", name: str = "kernel") -> str:
    """What nvdisasm prints for lines such as `L1:` and `@P0 BRA L1 | 5`, the number being the stall count (else 1)."""
    text, address = [f"\t.target\t{target}", f"{name}:", f".text.{name}:"], 0
    for line in lines:
        if line.endswith(":"):
            text.append(f".L_x_{line[1:]}")
            continue
        code, _, stall = line.partition("|")
        for label in range(9):
            code = code.replace(f"L{label}", f"`(.L_x_{label})")
        guard, code = code.strip().split(" ", 1) if code.startswith("@") else ("", code.strip())
        text.append(f"        /*{address:04x}*/    {guard:>12} {code} ;    /* 0x{0x1234:016x} */")
        text.append(f"                                           /* 0x{control(int(stall or 1)):016x} */")
        address += 16
    return "\n".join(text)


def function(*lines: str) -> Function:
    (found,) = parse(listing(*lines))
    return found


def loop(*lines: str) -> list[str]:
    found = sass_loop.main_loop(function(*lines))
    assert found is not None
    return [x.opcode for x in found[0]]


def test_instructions_are_read():
    f = function("MOV R1, R2 | 15", "L1:", "@!P3 LDSM.16.M88.4 R4, [R3+UR11+0x4000] | 2", "NOP", "@P0 BRA L1 | 0")
    assert f.name == "kernel"
    assert [x.address for x in f.instructions] == [0, 16, 32, 48]
    assert [x.stall for x in f.instructions] == [15, 2, 1, 0]
    assert [x.guard for x in f.instructions] == ["", "!P3", "", "P0"]
    assert f.instructions[1].opcode == "LDSM.16.M88.4"
    assert f.instructions[1].operands == "R4, [R3+UR11+0x4000]"
    assert f.instructions[3].targets == [".L_x_1"]
    assert f.labels == {".L_x_1": 1}


def test_functions_are_apart():
    text = listing("EXIT", name="one") + "\n" + listing("NOP", "EXIT", name="two")
    assert [(f.name, len(f.instructions)) for f in parse(text)] == [("one", 1), ("two", 2)]
    assert architecture(text) == "sm_120a"
    assert architecture("") == ""


# as nvdisasm 13.5 prints a kernel of ptxas 13.0, with the numbers that the fields of its control words have
REAL = """
.text.k:
        /*0000*/                   QMMA.16832.F32.E4M3.E4M3 R60, R56, R14, R60 ;        /* 0x0000000e383c727a */
                                                                                        /* 0x008ffe0000002c3c */
        /*0010*/                   NOP ;                                                /* 0x0000000000007918 */
                                                                                        /* 0x000fe20000000000 */
        /*0020*/              @!PT LDS RZ, [RZ] ;                                       /* 0x00000000ff007984 */
                                                                                        /* 0x000fea0000000800 */
"""


def test_control_words():
    (f,) = parse(REAL)
    assert [(x.stall, x.board, x.awaited) for x in f.instructions] == [(15, 7, 8), (1, 7, 0), (5, 7, 0)]
    for stall in range(16):
        (x,) = function(f"NOP | {stall}").instructions
        assert (x.stall, x.awaited) == (stall, 0)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("QMMA.SF.16832.F32.E4M3.E4M3.E8 R68, R20, R4, R68, R1, R2", "tensor"),
        ("OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X R8, R4, R2, R8, R1, R3", "tensor"),
        ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24", "tensor"),
        ("LDSM.16.MT88.4 R4, [R3]", "LDSM"),
        ("LDS.128 R4, [R3]", "LDS"),
        ("STS [R3], R4", "STS"),
        ("LDGSTS.E [R3], [R4.64]", "global"),
        ("LDL R4, [R1]", "local"),
        ("IMAD.MOV.U32 R4, RZ, RZ, R5", "MOV"),
        ("IMAD.WIDE R4, R5, 0x4, R6", "ALU"),
        ("CS2R R4, SRZ", "MOV"),
        ("UMOV UR4, 0x400", "UMOV"),
        ("UIADD3 UR4, UPT, UPT, UR4, 0x1, URZ", "uniform"),
        ("@!UPT UIADD3 URZ, UPT, UPT, URZ, URZ, URZ", "NOP"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3", "mbarrier"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "sync"),
        ("FFMA R4, R5, R6, R4", "FP32"),
        ("LOP3.LUT R4, R5, 0xff, RZ, 0xc0, !PT", "ALU"),
        ("EXIT", "branch"),
    ],
)
def test_classes(text, kind):
    assert function(text).instructions[0].kind == kind


def test_what_may_run_next():
    f = function(
        "@P0 BRA L1",
        "BRA.U !UP0, L1",
        "BSSY.RECONVERGENT B0, L2",
        "@!P1 BRA L1",
        "BSYNC.RECONVERGENT B0",
        "L1:",
        "@P2 EXIT",
        "L2:",
        "BRA L1",
        "EXIT",
    )
    assert successors(f) == [[1, 5], [2, 5], [3], [4, 5], [6], [6], [5], []]


def test_where_a_table_of_branches_goes():
    f = function('BRXU UR4 -0xa20  (*"BRANCH_TARGETS L1,L2"*)', "L1:", "EXIT", "NOP", "L2:", "BRA L1")
    assert successors(f) == [[1, 3], [], [3], [1]]
    assert f.instructions[0].kind == "branch"


def test_loops_by_dominators():
    # 1 and 3 head loops, one in the other; then one that 5 heads. Below, a loop of 1 and 2 that is entered at both.
    edges = [[1], [2], [3], [4], [3, 1, 5], [6, 7], [5, 7], []]
    assert natural_loops(edges) == {1: {1, 2, 3, 4}, 3: {3, 4}, 5: {5, 6}}
    assert natural_loops([[1, 2], [2, 3], [1, 3], []]) == {}
    assert natural_loops([[0, 1], []]) == {0: {0}}


def test_two_back_edges_make_one_loop():
    assert natural_loops([[1], [2], [1, 3], [1, 4], []]) == {1: {1, 2, 3}}


def test_code_that_nothing_reaches_is_in_no_loop():
    assert natural_loops([[2], [2], [2, 3], []]) == {2: {2}}


NEST = (
    "L1:",  # tiles
    "MOV R1, R2",
    "L2:",  # K blocks
    "LDSM.16.M88.4 R4, [R3]",
    "QMMA.16832.F32.E4M3.E4M3 R8, R4, R6, R8",
    "@P0 BRA L2",
    "L3:",  # of the epilogue
    "STG [R4], R8",
    "@P1 BRA L3",
    "@P2 BRA L1",
    "EXIT",
)


def test_the_innermost_loop_with_tensor_instructions_counts():
    assert loop(*NEST) == ["LDSM.16.M88.4", "QMMA.16832.F32.E4M3.E4M3", "BRA"]


def test_retries_out_of_line_are_left_out():
    lines = (
        "L1:",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3",
        "@!P0 BRA L3",
        "L2:",
        "QMMA.16832.F32.E4M3.E4M3 R8, R4, R6, R8 | 15",
        "@P1 BRA L1",
        "EXIT",
        "L3:",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3 | 9",
        "@!P0 BRA L3 | 9",
        "BRA L2 | 9",
    )
    found = sass_loop.main_loop(function(*lines))
    assert found is not None
    code, out_of_line = found
    assert [x.address for x in code] == [0, 16, 32, 48]
    assert out_of_line == 3
    assert sum(x.stall for x in code) == 18


def test_no_loop_of_tensor_instructions():
    assert sass_loop.main_loop(function("QMMA.16832.F32.E4M3.E4M3 R8, R4, R6, R8", "L1:", "BRA L1")) is None
    assert sass_loop.measure(listing("L1:", "NOP", "@P0 BRA L1", "EXIT")) == []


QMMA = "QMMA.16832.F32.E4M3.E4M3 R8, R4, R6, R8"


def test_figures():
    lines = [
        "L1:",
        "LDSM.16.M88.4 R4, [R3] | 2",
        f"{QMMA} | 15",
        "MOV R1, R2 | 1",
        f"{QMMA} | 12",
        "@P0 BRA L1 | 5",
        "EXIT",
    ]
    (q,) = sass_loop.measure(listing(*lines))
    assert (q.kernel, q.target, q.first, q.last) == ("kernel", "sm_120a", 0, 64)
    assert (q.instructions, q.tensor, q.moves, q.ldsm_per_32) == (5, 2, 1, 16)
    assert (q.stalls, q.floor, q.ratio, q.spacing) == (35, 32, round(35 / 32, 4), 16)
    assert q.tensor_stalls == {12: 1, 15: 1}
    assert q.classes == {"tensor": 2, "LDSM": 1, "MOV": 1, "branch": 1}
    (other,) = sass_loop.measure(listing(*lines, target="sm_90a"))
    assert (other.stalls, other.floor, other.ratio) == (35, None, None)


def run(*arguments: str):
    return CliRunner().invoke(sass_loop.main, arguments)


@pytest.mark.parametrize("arguments", [[], ["a.cubin", "--dim", "m=1"], ["A", "B", "--target", "sm_90a"]])
def test_misuse(arguments):
    assert run(*arguments).exit_code == 2


def test_a_file_that_is_not_there():
    result = run("nowhere.cubin")
    assert result.exit_code == 1
    assert "nowhere.cubin" in result.stderr


def test_a_compiled_program():
    result = run(
        "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)", "--target", "sm_90a", "--dim", "n=512,k=1024",
        "--schedule", "unroll=1,tile=128x128x128", "--json", "-",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)
    assert "tile=128x128x128" in found["of"]
    assert found["target"] == "sm_90a"
    assert found["tensor"] == 128 // 64 // 2 * 4  # each warpgroup: one wave of four instructions of 32 bytes
    assert found["classes"]["FP32"] >= 64  # the promotion
    assert found["stalls"] >= found["instructions"] - found["tensor"]
    assert "ratio" in result.stderr


@pytest.mark.parametrize(("name", "tensor", "ldsm"), [("matmul_mxfp8", 16, 8), ("matmul_host_bf16", 32, 16)])
def test_kernels_of_another_compiler(tmp_path, name, tensor, ldsm):
    """The numbers are those that grep counts in the listing, from the loop's first address to its last."""
    cubin = tmp_path / f"{name}.cubin"
    source = TRITON / f"{name}.sm_120a.ptx"
    subprocess.run([ptxas.find(), "-arch=sm_120a", source, "-o", cubin], check=True)
    result = run(str(cubin), "--json", str(tmp_path / "out.json"))
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads((tmp_path / "out.json").read_text())
    assert (found["tensor"], found["classes"]["LDSM"]) == (tensor, ldsm)
    assert found["floor"] == 16 * tensor
    assert found["ratio"] == round(found["stalls"] / found["floor"], 4)
    assert found["ldsm_per_32"] == 16
