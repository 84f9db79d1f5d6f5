"""Runs the lit suite, so that one `pytest` runs everything: each file in this process, a few by lit itself too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scalec.passes import pipeline
from tests.lit import inprocess

LIT = Path(__file__).parent / "lit"
FILES = sorted(p.relative_to(LIT).as_posix() for p in LIT.rglob("*") if p.suffix in (".mlir", ".scale"))

# %roundtrip; %invalid; env, %S and prefixes; a file that is a program
BY_LIT = [
    "dialect/tile_words.mlir", "dialect/tile_invalid.mlir", "passes/recall-tuned.mlir", "lowering/bf16.scale",
]  # fmt: skip


@pytest.mark.parametrize("file", FILES)
def test_file(file: str) -> None:
    inprocess.run(LIT / file, whole=False)


@pytest.mark.thorough
@pytest.mark.parametrize("file", [f for f in FILES if "--emit" in (LIT / f).read_text()])
def test_ptxas_takes_what_a_file_shows(file: str) -> None:
    """Where it did not, the line would show another schedule."""
    inprocess.run(LIT / file)


def test_each_pass_has_a_file_of_its_name_or_rows() -> None:
    rows = (LIT.parent / "passes/decisions.txt").read_text()
    lacking = [p.name for p in pipeline.PIPELINE if f"passes/{p.name}.mlir" not in FILES]
    assert [name for name in lacking if f"\n{name} on sm_" not in rows] == []


def lit(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from lit.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_lit_finds_the_same_files() -> None:
    assert re.findall(r"scalec :: (\S+)", lit("--show-tests", str(LIT)).stdout) == FILES


@pytest.mark.once
@pytest.mark.parametrize("file", BY_LIT)
def test_lit_runs_them_too(file: str) -> None:
    done = lit("-v", str(LIT / file))
    assert done.returncode == 0, done.stdout + done.stderr


MODULE = (LIT / "passes/infer-roles.mlir").read_text().partition("\n")[2].replace("CHECK", "THERE")


def written(folder: Path, text: str) -> Path:
    path = folder / "case.mlir"
    path.write_text(text)
    return path


RUN = "// RUN: scalec opt --passes= %s | filecheck %s"
FAILING = {  # what the command that fails says
    "a check": (f"{RUN}\n// CHECK: scale.nothing", 'match "scale.nothing"'),
    "a check of the second line": (
        f"{RUN}\n{RUN} --check-prefix=OTHER\n// CHECK: func.func\n// OTHER: scale.nothing",
        'check-prefix=OTHER\nexits with 1.*match "scale.nothing"'),
    "a check that nothing is there": (f"{RUN}\n// CHECK-NOT: func.func", "filecheck .*exits with 1"),
    "no check": (RUN, "filecheck .*exits with"),
    "no check of the prefix": (f"{RUN} --check-prefix=OTHER\n// CHECK: func.func", "filecheck .*exits with"),
    "the first command": (
        "// RUN: scalec opt --passes=nothing %s | filecheck %s --allow-empty\n// CHECK-NOT: func.func",
        "scalec .*exits with 2"),
    "an option of the last": (f"{RUN} --nothing\n// CHECK: func.func", "Unconsumed arguments"),
    "%roundtrip": (
        "// RUN: %roundtrip %s | filecheck %s --allow-empty\nfunc.func\n// CHECK-NOT: func.func",
        "roundtrip-tool .*exits with 1"),
    "%invalid": ("// RUN: %invalid none %s\n// EXPECT: is refused", "invalid-tool .*exits with 1"),
    "the environment": (
        "// RUN: env SCALEC_TARGET=none scalec compile 'C[m,n] = A[m,k]@B[n,k]' --emit scale", "unknown target 'none'"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILING)
def test_fails(case: str, tmp_path: Path) -> None:
    text, message = FAILING[case]
    with pytest.raises(inprocess.Failed, match=f"(?s){message}"):
        inprocess.run(written(tmp_path, f"{text}\n{MODULE}"))


def test_passes(tmp_path: Path) -> None:
    inprocess.run(written(tmp_path, f"{RUN}\n// CHECK: func.func\n{MODULE}"))


@pytest.mark.parametrize(
    "line",
    [
        "not scalec opt %s", "! scalec opt %s", "cat %s | filecheck %s", "env A=1", "env -u A scalec opt %s",
        "scalec opt %s > out", "scalec opt < %s", "scalec opt %s 2>&1 | filecheck %s", "scalec opt %s |& filecheck %s",
        "scalec opt %s && filecheck %s", "scalec opt %s || filecheck %s", "scalec opt %s; filecheck %s",
        "scalec opt %s &", "scalec opt %s |", "scalec opt *.mlir", "scalec opt %t", "scalec opt %scale",
        "scalec opt \\", "",
    ],
)  # fmt: skip
def test_other_run_lines_are_errors(line: str, tmp_path: Path) -> None:
    with pytest.raises(inprocess.Unsupported):
        inprocess.run(written(tmp_path, f"// RUN: {line}\n{MODULE}"))


@pytest.mark.parametrize("text", ["", "// XFAIL: *", "// REQUIRES: gpu", "// UNSUPPORTED: *", "// END."])
def test_other_lines_of_lit_are_errors(text: str, tmp_path: Path) -> None:
    with pytest.raises(inprocess.Unsupported):
        inprocess.run(written(tmp_path, f"{RUN if text else ''}\n// CHECK: func.func\n{text}\n{MODULE}"))
