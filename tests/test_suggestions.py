"""Wherever a name is looked up, one that nothing has is answered with the name that was probably meant."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from click.testing import CliRunner

import scalec
from scalec import cli, compiler, env
from scalec.bench.suites import SUITES, get_suite
from scalec.errors import NAME, ScalecError
from scalec.formats import ELEMENT_TYPES, FORMATS
from scalec.frontend.names import FUNCTIONS
from scalec.ir.schedule import FIELDS
from scalec.lowering.ptxas import Assembled
from scalec.passes.pipeline import PIPELINE, find
from scalec.suggestions import ALIASES, near
from scalec.targets import TARGETS, get_target

PRODUCT = "C[m,n] = A[m,k]@B[n,k]"


@pytest.mark.parametrize(
    ("program", "meant"),
    [
        ("C[m,n] = Gelu(A[m,k]@B[n,k])", "gelu"),
        ("C[m,n] = swish(A[m,k]@B[n,k])", "silu"),
        ("y[m] = summ(A[m,n])", "sum"),
        ("y[m] = Max[n](A[m,n])", "max"),
        ("C[m,n] = A[m,k]:fp8@B[n,k]", "e4m3"),
        ("C[m,n]:float8_e5m2 = A[m,k]@B[n,k]", "e5m2"),
        ("C[m,n] = A[m,k]:nvpf4@B[n,k]", "nvfp4"),
        (f"{PRODUCT} sclae(1x128,128x128)", "scale"),
        (f"{PRODUCT} wiht stages=4", "with"),
        ("C[m,n] = A[m,k]@B[n,k] fro k in 0:4", "for"),
        (f"{PRODUCT} with tiles=128x128x128", "tile"),
        (f"{PRODUCT} with epilogue=bluk", "bulk"),
        (f"{PRODUCT} scale(1x32:e8m0,1x32:ue8m0)", "ue8m0"),
        (f"{PRODUCT} scale(1x128@column,128x128)", "col"),
        (f"{PRODUCT} scale(1xK,128x128)", "1xk"),
        (f"{PRODUCT} scale(tensr,128x128)", "tensor"),
        (f"{PRODUCT} for K in 0:4", "k"),
    ],
)
def test_in_a_program(program: str, meant: str) -> None:
    with pytest.raises(ScalecError) as caught:
        compiler.compile_source(program, until="scale")
    assert caught.value.fix == f"did you mean {meant}?"


@pytest.mark.parametrize(
    ("look_up", "meant"),
    [
        (lambda: scalec.compile(PRODUCT, "h100"), "sm_90a"),
        (lambda: get_target("B200"), "sm_100a"),
        (lambda: get_target("SM90a"), "sm_90a"),
        (lambda: compiler.compile_source(PRODUCT, dims={"M": 4}, until="scale"), "m"),
        (lambda: compiler.compile_source(PRODUCT, schedule={"num_stages": "4"}, until="scale"), "stages"),
        (lambda: compiler.compile_source(PRODUCT, until="cubim"), "cubin"),
        (lambda: find(["choose_tilin"]), "choose-tiling"),
        (lambda: get_suite("hoper-fp8"), "hopper-fp8"),
    ],
)
def test_in_a_call(look_up: Callable[[], object], meant: str) -> None:
    with pytest.raises(ScalecError) as caught:
        look_up()
    assert caught.value.fix == f"did you mean {meant}?"


def test_arguments_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler.ptxas, "assemble", lambda *_: Assembled(b"", 0))
    kernel = scalec.compile(PRODUCT, "sm_90a", cache=False)
    a = np.zeros((8, 8), np.float16)
    with pytest.raises(ScalecError) as caught:
        kernel(a, b=a)
    assert caught.value.fix == "did you mean B?"


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("compile", PRODUCT, "--target", "h100"), "sm_90a"),
        (("compile", PRODUCT, "--emit", "cubim"), "cubin"),
        (("compile", PRODUCT, "--print-after", "choose-tilin"), "choose-tiling"),
        (("opt", "--passes", "choose-tilin", "-"), "choose-tiling"),
        (("explain", "--suite", "hoper-fp8"), "hopper-fp8"),
        (("emulate", "-", "--ignore", "races"), "race"),
        (("emulate", "-", "--tensor-core", "Hoper"), "hopper"),
        (("complie", PRODUCT), "compile"),
    ],
)
def test_on_the_command_line(arguments: tuple[str, ...], meant: str) -> None:
    result = CliRunner().invoke(cli.main, arguments)
    assert result.exit_code in (1, 2)
    assert f"did you mean {meant}?" in result.stderr.replace("'", "").replace("Did", "did")


@pytest.mark.parametrize(("value", "meant"), [("Emulator", "emulator"), ("emulater", "emulator"), ("cud", "cuda")])
def test_values_of_variables(monkeypatch: pytest.MonkeyPatch, value: str, meant: str) -> None:
    monkeypatch.setenv("SCALEC_DEVICE", value)
    with pytest.raises(ScalecError) as caught:
        env.DEVICE.get()
    assert caught.value.fix == f"did you mean {meant}?"


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALEC_DEVISE", "emulator")
    sentence = "there is no environment variable SCALEC_DEVISE: did you mean SCALEC_DEVICE?"
    result = CliRunner().invoke(cli.main, ["targets"])
    assert (result.exit_code, result.stderr) == (0, f"warning: {sentence}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = CliRunner().invoke(cli.main, ["run", "C[m,n] ="])  # which calls scalec.compile
    assert isinstance(result.exception, SystemExit), "said twice"
    with pytest.warns(UserWarning, match=sentence.replace("?", r"\?")), pytest.raises(ScalecError):
        scalec.compile("nothing")


def test_aliases_are_of_names_that_there_are() -> None:
    known = {*ELEMENT_TYPES, *FORMATS, *FUNCTIONS, *FIELDS, *TARGETS, *compiler.STAGES, "sass", "row", "col", "blocked"}
    assert {name for names in ALIASES.values() for name in names} <= known
    assert not any(alias in known for alias in ALIASES), "a name that is known needs no alias"


def test_nothing_is_near_to_what_is_far() -> None:
    for names in (TARGETS, SUITES, FIELDS, [p.name for p in PIPELINE]):
        assert near("quux", names) == near("", names) == ""
        assert all(near(name.upper(), names) == name for name in names)


@pytest.mark.parametrize("text", ["C[m,n] = Gelu(A[m,k]@B[n,k])", "C[m,n] = ", f"{PRODUCT}\nD[m] = "])
def test_a_file_is_named(tmp_path, text: str) -> None:
    path = tmp_path / "gemm.scale"
    path.write_text(text)
    for command in ("compile", "explain", "run"):
        result = CliRunner().invoke(cli.main, [command, str(path)])
        assert result.exit_code == 1
        assert result.stderr.startswith(f"error: {path}:{1 + text.count(chr(10))}:")
        assert NAME not in result.stderr
    result = CliRunner().invoke(cli.main, ["compile", str(path), "--dim", "q=4"])
    assert result.stderr.startswith(f"error: {path}:")
    result = CliRunner().invoke(cli.main, ["compile", "-"], input=text)
    assert result.stderr.startswith("error: <stdin>:")


def test_each_range_is_explained() -> None:
    result = CliRunner().invoke(cli.main, ["explain", PRODUCT, "--dim", "n=4096,k=512,m=1:300", "--target", "sm_90a"])
    lines = result.stdout.splitlines()
    ranges = [line.split()[0] for line in lines[2 : lines.index("")]]
    ends = [tuple(map(int, r.split(":"))) for r in ranges]
    assert ends[0][0] == 1
    assert ends[-1][1] == 300
    assert len(ends) > 3
    assert all(low == before + 1 for (_, before), (low, _) in itertools.pairwise(ends))
    assert all(f"n=4096, k=512, m={r} on sm_90a" in lines for r in ranges)
    asked = CliRunner().invoke(
        cli.main, ["explain", PRODUCT, "--dim", "n=4096,k=512,m=1:300", "--target", "sm_90a", "--m", "5,300"]
    )
    assert [line.split()[0] for line in asked.stdout.splitlines()[2:4]] == ["5", "300"]


def test_a_file_that_is_no_database_is_not_to_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALEC_TUNING", "/etc/passwd")
    result = CliRunner().invoke(cli.main, ["explain", PRODUCT, "--dim", "m=64,n=64,k=64"])
    assert (result.exit_code, "remove" in result.stderr) == (1, False)
    assert "SCALEC_TUNING=off" in result.stderr
