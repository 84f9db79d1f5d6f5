"""Every function that users call, with values that nobody should give: scalec.errors, nothing else."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import scalec
from scalec import compiler, frontend
from scalec.errors import ScalecError, ToolchainError, UnsupportedError
from scalec.ir import context as contexts
from scalec.passes import pipeline
from scalec.runtime.kernel import Kernel
from scalec.tuning.explain import explain
from tests.nasty import HUGE, MANY, VALUES, only_ours

PRODUCT = "C[m,n] = A[m,k]@B[n,k]"


@pytest.mark.parametrize("name", ["source", "target", "dims", "schedule"])
def test_compile(name: str) -> None:
    for value in VALUES:
        arguments = {"source": PRODUCT, "target": "sm_90a", name: value}
        if name == "source" or value is not None:  # None, but for a source, compiles
            only_ours(lambda arguments=arguments: scalec.compile(**arguments, cache=False), arguments)


@pytest.mark.parametrize("name", ["dims", "schedule"])
def test_entries(name: str) -> None:
    for key, value in itertools.product(("k", "tile", "q", "", "\0", MANY, 3, None), VALUES):
        given = {"source": PRODUCT, "target": "sm_90a", name: {"k" if name == "dims" else "tile": "0", key: value}}
        only_ours(lambda given=given: scalec.compile(**given, cache=False), (key, value))


PROGRAMS = (
    *(
        "(" * 50_000,
        "C[m]=" + "-" * 50_000 + "x[m]",
        f"C[m] = {MANY}*x[m]",
        f"C[m] = x[m]^{MANY}",
        f"C[m] = x[m+{MANY}]",
    ),
    *(f"{PRODUCT} scale({MANY}x{MANY},1x1)", f"{PRODUCT} with stages={MANY}", "C[m,n] = " + "A[m,k]@B[n,k]+" * 5000),
    *("\ud800[m] = x[m]", "C[m]\0 = x[m]", ";" * 100_000, f"{'a' * 50_000}[m] = x[m]", f"C[m] = {'f(' * 9000}"),
)
MODULES = ("", "\ud800", "module {", "\0", MANY, "func.func @f() {", "module {" * 9000)


def test_programs() -> None:
    for text in PROGRAMS:
        only_ours(lambda text=text: compiler.compile_source(text, until="scale"), text)


def test_modules() -> None:
    for text, passes in itertools.product(MODULES, (["infer-roles"], ["x"], [])):
        only_ours(lambda text=text, passes=passes: pipeline.opt(text, passes), (text, passes))
    with contexts.context():
        for value in (0, -1, True, 1.5, 2**40, None, "4"):
            only_ours(lambda value=value: frontend.build(PRODUCT, {"k": value}), value)


def test_long_lines_are_cut_around_their_place() -> None:
    with pytest.raises(ScalecError) as caught:
        compiler.compile_source(f"C[m] = {' ' * 999}Gelu(x[m]){' ' * 999}", until="scale")
    _, line, caret, *_ = str(caught.value).splitlines()
    assert len(line) < 210
    assert line[caret.index("^") : caret.index("^") + 4] == "Gelu"


@pytest.mark.parametrize("dims", [{}, {"n": 4096}, {"m": "1:64"}], ids=str)
@pytest.mark.parametrize(
    "source",
    [
        "D[m,n]:e4m3 scale(1xn:bf16) = A[m,k] @ B[n,k]",  # asked how many launches it takes
        "D[m,n]:e4m3 scale(mxn) = A[m,k] @ B[n,k]",
        "D[m,n] = A[m,k]:i8 @ B[n,k] scale(1x8, none)",
    ],
)
def test_refusals_show_their_line(source: str, dims: dict[str, int | str]) -> None:
    """Wherever it is that a pass refuses."""
    with pytest.raises(UnsupportedError) as refused:
        scalec.compile(source, "sm_90a", dims, cache=False)
    _, line, caret, *_ = str(refused.value).splitlines()
    assert (line, caret.strip("^").strip(), caret[-1]) == (f"  {source}", "", "^")
    with pytest.raises(UnsupportedError) as explained:
        explain(source, "sm_90a", {}, {})
    assert str(explained.value).splitlines()[1] == f"  {source}"


def test_load(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff\0")
    (tmp_path / "empty").mkdir()
    for value in (tmp_path / "file", tmp_path / "empty", tmp_path / "none", str(tmp_path / "none"), HUGE):
        with pytest.raises((ScalecError, OSError)):
            scalec.load(value)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    made = scalec.compile("C[m,n] = alpha*A[m,k]@B[n,k]", "sm_90a", {"n": 16, "k": 16})
    assert isinstance(made, Kernel)
    return made


def test_calls(kernel: Kernel, on_the_emulator: None) -> None:
    for value in VALUES:
        only_ours(lambda value=value: kernel(value), value)
        only_ours(lambda value=value: kernel(1.0, value, value), value)
        only_ours(lambda value=value: kernel(value, value, value, out=value), value)
        only_ours(lambda value=value: kernel.bind(value, value, value), value)


@pytest.mark.parametrize(
    ("ptxas", "message"),
    [
        ("/bin/true", "/bin/true made no cubin"),
        ("/bin/false", "exit status 1 of /bin/false, and no output"),
        ("#!/bin/sh\nkill -9 $$\n", "was killed by signal 9"),
        ("/nonexistent", "cannot run ptxas"),
        ("/", "cannot run ptxas"),
    ],
)
def test_ptxas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ptxas: str, message: str) -> None:
    if ptxas.startswith("#!"):
        script = tmp_path / "ptxas"
        script.write_text(ptxas)
        script.chmod(0o755)
        ptxas = str(script)
    monkeypatch.setenv("SCALEC_PTXAS", ptxas)
    with pytest.raises(ToolchainError, match=message):
        scalec.compile(PRODUCT, "sm_90a", cache=False)


def test_no_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(ToolchainError, match="temporary files"):
        scalec.compile(PRODUCT, "sm_90a", cache=False)
