"""Every function that users call, with values that nobody should give: scalec.errors, nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import compiler, frontend
from scalec.errors import ScalecError, ToolchainError
from scalec.ir import context as contexts
from scalec.passes import pipeline
from scalec.runtime.kernel import Kernel

MANY = "9" * 100_000
HUGE = 10**6000
"""Python refuses to write so many digits."""
PRODUCT = "C[m,n] = A[m,k]@B[n,k]"
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**40, 10**400, HUGE, 1.5, float("nan"), "", "x", MANY, "\0", "\ud800", "1:2:3", b"x"),
    *([], [1], (5, 2), (1, HUGE), (1, 2, 3), {}, {"m": 1}, object(), Path("x"), np.zeros(3), np.int64(0), len),
)


def only_ours(call: Callable[[], object], what: object) -> None:
    try:
        call()
    except ScalecError as error:
        said = str(error)
    except Exception as error:
        raise AssertionError(f"{str(what)[:300]}: {error!r:.300}") from error
    else:
        return
    assert said
    assert len(said.replace(MANY, "").replace(str(10**400), "")) < 5000


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


def test_calls(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALEC_DEVICE", "emulator")
    for value in VALUES:
        only_ours(lambda value=value: kernel(value), value)
        only_ours(lambda value=value: kernel(1.0, value, value), value)
        only_ours(lambda value=value: kernel(value, value, value, out=value), value)
        only_ours(lambda value=value: kernel.bind(value, value, value), value)


@pytest.mark.parametrize("ptxas", ["/bin/true", "/bin/false", "/nonexistent", "/"])
def test_ptxas(monkeypatch: pytest.MonkeyPatch, ptxas: str) -> None:
    monkeypatch.setenv("SCALEC_PTXAS", ptxas)
    with pytest.raises(ToolchainError):
        scalec.compile(PRODUCT, "sm_90a", cache=False)


def test_no_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    with pytest.raises(ToolchainError, match="temporary files"):
        scalec.compile(PRODUCT, "sm_90a", cache=False)
