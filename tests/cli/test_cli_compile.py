"""`scalec compile`: stages, files, options, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalec.commands.compile import SUFFIXES, stage_of
from tests.cli.cli_programs import FP8
from tests.early import without_what_follows

SIZES = ("--dim", "n=7168,k=2048")

MARKS = {
    "scale": "scale.contract",
    "tile": "tile.kernel",
    "nvvm": "nvvm.",
    "llvm": "define ",
    "ptx": ".target sm_90a",
    "sass": "GMMA",
}


@pytest.mark.parametrize("stage", MARKS)
def test_emit_to_stdout(invoke, stage):
    with without_what_follows([stage]):
        result = invoke("compile", FP8, *SIZES, "--emit", stage)
    assert result.exit_code == 0, result.stderr
    assert MARKS[stage] in result.stdout
    assert result.stderr == ""


def test_ptx_is_the_default(invoke):
    assert ".target sm_90a" in invoke("compile", FP8, *SIZES).stdout


def test_dims_are_specialised(invoke):
    text = invoke("compile", FP8, "--dim", "m=4096", "--dim", "n=7168,k=2048", "--emit", "scale").stdout
    assert "tensor<4096x2048xf8E4M3FN>" in text
    assert "tensor<?x2048xf8E4M3FN>" in invoke("compile", FP8, *SIZES, "--emit", "scale").stdout


def test_file_and_stdin_are_programs(invoke, tmp_path):
    file = tmp_path / "gemm.scale"
    file.write_text(FP8)
    texts = [
        invoke("compile", FP8, "--emit", "scale").stdout,
        invoke("compile", str(file), "--emit", "scale").stdout,
        invoke("compile", "-", "--emit", "scale", input=FP8).stdout,
    ]
    assert texts[0] == texts[1] == texts[2] != ""


def test_cubin_to_file_by_suffix(invoke, tmp_path):
    path = tmp_path / "folder" / "gemm.cubin"
    result = invoke("compile", FP8, *SIZES, "-o", str(path))
    assert (result.exit_code, result.stdout) == (0, "")
    assert path.read_bytes().startswith(b"\x7fELF")


def test_several_stages_to_a_folder(invoke, tmp_path):
    result = invoke("compile", FP8, *SIZES, "--emit", "scale,nvvm,ptx", "--emit", "cubin", "-o", str(tmp_path / "out"))
    assert (result.exit_code, result.stdout) == (0, "")
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {"C.scale.mlir", "C.nvvm.mlir", "C.ptx", "C.cubin"}
    assert "C.cubin" in result.stderr


def test_several_stages_need_a_folder(invoke):
    result = invoke("compile", FP8, "--emit", "ptx,cubin")
    assert result.exit_code == 1
    assert "give -o DIR" in result.stderr


def test_dash_is_stdout(invoke):
    assert invoke("compile", FP8, *SIZES, "--emit", "cubin", "-o", "-").stdout_bytes.startswith(b"\x7fELF")


@pytest.mark.parametrize(
    ("path", "stage"),
    [(None, "ptx"), ("-", "ptx"), ("x", "ptx"), *((f"a/b{suffix}", stage) for stage, suffix in SUFFIXES.items())],
)
def test_stage_of_a_path(path, stage):
    assert stage_of(path) == stage


def test_schedule_overrides(invoke):
    text = invoke("compile", FP8, *SIZES, "--schedule", "tile=128x128x128,stages=3", "--emit", "tile").stdout
    assert "depth = 3" in text


def test_print_after_goes_to_stderr(invoke):
    result = invoke(
        "compile", FP8, *SIZES, "--emit", "tile", "--print-after=choose-tiling", "--print-after=infer-roles"
    )
    assert result.exit_code == 0
    heads = [line for line in result.stderr.splitlines() if line.startswith("// -----")]
    assert heads == ["// ----- after infer-roles", "// ----- after choose-tiling"]
    assert "// -----" not in result.stdout


def test_print_after_all(invoke):
    from scalec.passes.pipeline import PIPELINE

    result = invoke("compile", FP8, *SIZES, "--emit", "tile", "--print-after-all")
    assert [f"// ----- after {p.name}" for p in PIPELINE] == [
        line for line in result.stderr.splitlines() if line.startswith("// -----")
    ]


def test_time_passes(invoke):
    result = invoke("compile", FP8, *SIZES, "--emit", "cubin", "-o", "-", "--time-passes")
    for stage in ("frontend", "choose-tiling", "ptxas", "total"):
        assert stage in result.stderr


def test_the_cache_is_used_and_can_be_passed_over(invoke, tmp_path, cache_dir, monkeypatch):
    from scalec import compiler

    def stages(*more: str) -> list[object]:
        made = invoke("compile", FP8, "--dim", "n=512,k=256,m=1:32", "--emit", "ptx,cubin", "-o", str(tmp_path), *more)
        assert made.exit_code == 0, made.stderr
        return [made.stderr, *(p.read_bytes() for p in sorted(tmp_path.glob("C*")))]

    assert stages("--no-cache")
    assert not cache_dir.exists()
    first = stages()
    kept = {p.name for p in cache_dir.glob("*.*")}
    assert {Path(name).suffix for name in kept} == {".kernel", ".note"}
    compiled = []
    monkeypatch.setattr(compiler, "compile_source", lambda *a, **k: compiled.append(a))
    assert stages() == first
    assert not compiled
    with pytest.raises(AttributeError):
        stages("--no-cache")
    assert len(compiled) == 1
    with pytest.raises(AttributeError):  # a stage that is not kept
        invoke("compile", FP8, "--dim", "n=512,k=256", "--emit", "tile")


def test_the_cache_tells_of_measured_schedules_too(invoke, tmp_path, monkeypatch):
    from scalec import compiler
    from scalec.measured import database
    from scalec.measured.database import Entry
    from scalec.sizes import Range

    own = tmp_path / "tuning.json"
    monkeypatch.setenv("SCALEC_TUNING", str(own))
    key = compiler.program_key(FP8, "sm_90a", {"n": 512, "k": 256})
    database.write(own, [Entry("sm_90a", key, 512, 256, Range(1, 8192), {}, {"tile": "64x64x128"}, {"us": 7.5})])
    first, again = (invoke("compile", FP8, "--dim", "n=512,k=256,m=64") for _ in range(2))
    assert "a measured schedule (7.5 us" in first.stderr
    assert (again.stdout, again.stderr) == (first.stdout, first.stderr)


def test_bundle(invoke, tmp_path):
    import scalec

    result = invoke("compile", FP8, *SIZES, "--bundle", str(tmp_path / "kernels"))
    assert (result.exit_code, result.stdout) == (0, "")
    assert list((tmp_path / "kernels").rglob("*.cubin"))
    assert scalec.load(tmp_path / "kernels")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--emit", "nope"], "not one of scale, tile, nvvm, llvm, ptx, cubin, sass"),
        (["--dim", "n"], "'n' is not NAME=VALUE"),
        (["--dim", "n=many"], "'many' is no number in digits"),
        (["--dim", "n=1", "--dim", "n=2"], "n is given twice: 1 and 2"),
        (["--schedule", "tile"], "'tile' is not NAME=VALUE"),
        (["--target", "sm_1"], "'sm_1' is not one of sm_90a"),
        (["--print-after", "nope"], "'nope' is not one of take-views"),
        (["--nope"], "--nope"),
    ],
)
def test_misuse(invoke, arguments, message):
    result = invoke("compile", FP8, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("program", "arguments", "messages"),
    [
        ("C[m,n] = A[m,k]@B[n,q]", [], ["error:", "1:14", "^", "expected"]),
        ("C[m,n] = ", [], ["error:", "expected"]),
        (FP8, ["--dim", "q=1"], ["'q'", "m, n, k"]),
        (FP8, ["--schedule", "nope=1"], ["no schedule field 'nope'", "tile"]),
        (FP8, ["--schedule", "tile=1024x1024x128"], ["tile=1024x1024x128"]),
        (FP8, ["-o", "/proc/none/x.ptx"], ["/proc/none", "No such file or directory"]),
    ],
)
def test_refusals(invoke, program, arguments, messages):
    result = invoke("compile", program, *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    for message in messages:
        assert message in result.stderr
    assert "Traceback" not in result.stderr
