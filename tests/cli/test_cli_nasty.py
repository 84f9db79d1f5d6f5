"""Every command and option with values that nobody should give: an exit status and one message, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
import numpy as np
import pytest

from scalec.__main__ import run
from scalec.checking.item import Result
from scalec.cli import main
from scalec.tuning import build, gpu_timer

MANY, LONG = "9" * 100_000, "x" * 5000
PRODUCT = "C[m,n] = A[m,k]@B[n,k]"
NASTY = (
    "",
    " ",
    "-1",
    "0",
    "1e99",
    MANY,
    "é²",
    "[",
    "=",
    ",",
    "a=b=c",
    "m=",
    "m=1:0",
    "5:2",
    LONG,
    "nan",
    "-inf",
    "1e400",
    "0x10",
    "2147483648",
    "\udcff",  # how Python has a byte of the command line that is not UTF-8
    ".",
    "notes.txt",
    "notes.txt/x",
    "bits.mlir",
    "none/such",
    "~nobody/such",
    "wrong.py",
)
"""Values for any option, or argument; the last ones are files, or would be."""

PTX = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) .reqntid 32 { ret; }
"""


def _commands() -> list[tuple[tuple[str, ...], click.Command]]:
    found = []
    for name, command in main.commands.items():
        inner = command.commands.items() if isinstance(command, click.Group) else ()
        found += [((name, sub), c) for sub, c in inner] or [((name,), command)]
    return found


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("k.ptx").write_text(PTX)
    Path("notes.txt").write_text("no array\n")
    Path("latin.ptx").write_bytes(PTX.encode() + b"// \xe9\xff\n")
    Path("bits.mlir").write_bytes(b"\xff\xfe\0\0")
    Path("wrong.py").write_text("1 / 0\n")
    np.save("a.npy", np.zeros(8, np.float32))
    np.save("objects.npy", np.array([{}], object), allow_pickle=True)
    np.save("fields.npy", np.zeros(4, [("a", "f4"), ("b", "i2")]))
    np.savez("several.npz", a=np.zeros(3))
    return tmp_path


def refused(result, *statuses: int) -> None:
    assert result.exit_code in (statuses or (1, 2)), result.stdout
    assert "Traceback" not in result.stderr
    assert sum(line.lower().startswith("error: ") for line in result.stderr.splitlines()) == 1, result.stderr
    assert len(result.stderr.replace(MANY, "").replace(LONG, "")) < 3000  # click repeats what is no number


SIZES = ("--dim", "n=8,k=8")
GIVEN = {
    "run": (PRODUCT, *SIZES, "--dim", "m=8"),
    "grad": (PRODUCT,),
    "emulate": ("k.ptx", "--arg", "0", "--arg", "0"),
    "opt": ("--passes", "infer-roles", "bits.mlir"),
    "selftest": ("--target", "sm_120a"),
    "bench": (PRODUCT, *SIZES, "--dim", "m=8"),
    "tune": (PRODUCT, *SIZES, "--m", "8", "--candidates", "0", "--workers", "1"),
}
"""What a command has beside the option that is walked; the others have a program."""


@pytest.fixture
def measures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine for `tune`, where kernels take as long, and for `selftest`, where all pass; `bench` ends early."""

    class Timer:
        wrong, peers = MappingProxyType({}), ()

        def __init__(self, peers: bool) -> None:
            pass

        def facts(self) -> dict[str, str]:
            return {"gpu": "Made-up GPU", "driver": "1", "date": "2026-11-23 16:00"}

        @contextmanager
        def open(self, kernels: object, dims: object, routings: object) -> Iterator[Timer]:
            yield self

        def sample(self, name: str, routing: str) -> float:
            return 1.0

    @contextmanager
    def pool(workers: int | None) -> Iterator[object]:
        yield lambda recipes: ((recipe, build.build(recipe)) for recipe in recipes)

    def passed(listed: list[Any], jobs: int, timeout: float) -> list[Any]:
        assert 1 <= timeout <= 86400
        return [(item, Result("pass")) for item in listed[:4]]  # a table of all takes a tenth of a second

    monkeypatch.setattr("scalec.commands.selftest._run", passed)
    monkeypatch.setenv("SCALEC_DEVICE", "emulator")
    monkeypatch.setattr("scalec.commands.tune.require_gpu", lambda: None)
    monkeypatch.setattr(gpu_timer, "GpuTimer", Timer)
    monkeypatch.setattr(build, "pool", pool)
    monkeypatch.setenv("SCALEC_TUNING", str(tmp_path / "own" / "tuning.json"))


WALKS = [(path, NASTY) for path, command in _commands() if command.params and path != ("tune",)]
TUNED = [(("tune",), NASTY[::12]), pytest.param(("tune",), NASTY, marks=pytest.mark.thorough)]  # a run takes 50 ms


@pytest.mark.parametrize(("path", "values"), [*WALKS, *TUNED])
def test_every_option(invoke, files: Path, measures: None, path: tuple[str, ...], values: tuple[str, ...]) -> None:
    arguments = GIVEN.get(path[0], (PRODUCT, "--dim", "m=8,n=8,k=8"))
    options = [o for o in dict(_commands())[path].params if isinstance(o, click.Option)]
    done = set()
    for option in options:
        for value in ("",) if option.is_flag else values:
            name = option.opts[0]
            given = (name,) if option.is_flag else (f"{name}={value}",) if name.startswith("--") else (name, value)
            result = invoke(*path, *arguments, *given)
            if result.exit_code:
                refused(result)
            else:
                done.add(name)
    if path[0] not in ("opt", "bench"):  # there, what the options go with is refused: no module, and no GPU
        assert done


@pytest.mark.parametrize("path", [path for path, command in _commands() if command.params], ids=" ".join)
def test_every_argument(invoke, files: Path, path: tuple[str, ...]) -> None:
    for value in (*NASTY, "latin.ptx", "none/such.ptx", "A[", PRODUCT + " with stages=99"):
        before = ("--passes", "infer-roles") if path[0] == "opt" else ()
        refused(invoke(*path, *before, "--", value))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--seed", "5:2"),
        ("--seed", f"0:{MANY}"),
        ("--entry", "none"),
        ("--grid", "1,1,100000"),
        ("--block", "64"),
        ("--block", "1,1,1000000000"),
        ("--cluster", "64"),
        ("--shared", "-5"),
        ("--shared", "99999999999"),
        ("--save", "0=x.npy"),
        ("--save", "7=x.npy"),
        ("--ignore", "nothing"),
    ],
)
def test_launches(invoke, files: Path, arguments: tuple[str, ...]) -> None:
    refused(invoke("emulate", "k.ptx", "--arg", "1", "--arg", "2", *arguments))


@pytest.mark.parametrize(
    "argument",
    [
        *("in:notes.txt", "in:none.npy", "in:.", "in:", "in:objects.npy", "in:fields.npy", "in:several.npz"),
        *("zeros:s32[99999999999999]", f"zeros:s32[{MANY}]", f"out:u8[{'2,' * 60}2]", "zeros:quux[4]", "out:f32[x]"),
        *("map:0/box=4", "map:9/box=4", "map:0", "map:0/box=ax4", "map:0/box=4/swizzle=many", "map:0/element=u9/box=4"),
        *("map:0/box=", "map:/box=1", "map:0/box=4/atom=x", f"map:0/box={MANY}", "map:0/box=4/element="),
        *("18446744073709551616", "-9223372036854775809", MANY, "1e400x", "", "٣²"),
    ],
)
def test_launch_arguments(invoke, files: Path, argument: str) -> None:
    refused(invoke("emulate", "k.ptx", "--arg", "in:a.npy", "--arg", argument))


@pytest.mark.parametrize("text", [b"\xff\xfe", b"", PTX.replace("ret;", "{" * 9999).encode()])
def test_standard_input(invoke, text: bytes) -> None:
    for arguments in (("emulate", "-"), ("compile", "-"), ("opt", "--passes=infer-roles", "-")):
        result = invoke(*arguments, input=text)
        if text or arguments[0] != "opt":  # nothing is a module
            refused(result)
            assert result.stderr.lower().startswith(("error: ", "usage: "))


def test_standard_input_that_is_no_text(shell) -> None:
    done = shell("emulate", "-", input=b"\xff\xfe")
    assert (done.returncode, done.stderr[:7]) == (1, b"error: ")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("ptxas", ["/bin/true", "/bin/false", "/nonexistent", "/etc/passwd", "/"])
def test_ptxas(invoke, monkeypatch: pytest.MonkeyPatch, ptxas: str) -> None:
    monkeypatch.setenv("SCALEC_PTXAS", ptxas)
    refused(invoke("compile", PRODUCT), 1)
    assert invoke("env").exit_code == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_no_room(invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Temporary files, and results."""
    refused(invoke("compile", PRODUCT, "--emit", "scale", "-o", "/dev/full"), 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    refused(invoke("compile", PRODUCT), 1)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "write_text", full)
    result = invoke("compile", PRODUCT)
    refused(result, 1)
    assert "No space left on device" in result.stderr
    assert "TMPDIR" in result.stderr


def test_no_memory(invoke, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("scalec.emulator.launch.parse", empty)
    result = invoke("emulate", "k.ptx")
    assert (result.exit_code, result.stderr) == (1, "error: out of memory\n")


@pytest.mark.parametrize("module", ["scalec.cli", "click", "scalec.targets", "scalec.compiler", "scalec.lowering"])
def test_interrupted_while_importing(module: str) -> None:
    """From the first line of `scalec` on."""
    code = f"""
import os, signal, sys
import scalec.__main__ as command

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.argv = ["scalec", "compile", {PRODUCT!r}]
command.run()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, preexec_fn=_heeded)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert done.returncode in (130, -signal.SIGINT)


def _heeded() -> None:
    """A background job of a shell begins with interrupts ignored, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_nothing_is_imported_before_interrupts_are_heeded() -> None:
    code = "import sys; before = {*sys.modules}; import scalec.__main__; print(sorted({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['scalec', 'scalec.__main__']\n"


def test_interrupted_beside_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scalec.cli.main", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as caught:
            run()
        assert caught.value.code == 130
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL  # until Python has ended
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_that_is_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalec.cli.main", lambda **_: None)
    set_to = []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with monkeypatch.context() as patch:
            patch.setattr("scalec.__main__.signal.signal", lambda _, handler: set_to.append(handler))
            run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert signal.SIG_DFL not in set_to


def test_a_module_is_named(invoke, files: Path) -> None:
    Path("m.mlir").write_text("module {\n  quux\n}\n")
    result = invoke("opt", "--passes=infer-roles", "m.mlir")
    refused(result, 1)
    assert "m.mlir:2:3: " in result.stderr
