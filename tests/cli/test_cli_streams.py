"""`scalec` as a process: pipes, terminals, colours, exit codes."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from tests.cli.cli_programs import FP8

SCALEC = [sys.executable, "-m", "scalec.cli"]


def on_terminal(*arguments: str, **environment: str) -> tuple[int, bytes]:
    """Runs with stdout and stderr on a terminal: the exit code and what was shown."""
    main, side = pty.openpty()
    process = subprocess.Popen(
        [*SCALEC, *arguments], stdin=subprocess.DEVNULL, stdout=side, stderr=side, env={**os.environ, **environment}
    )
    os.close(side)
    shown = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(main)
    return process.wait(), shown


def test_a_cubin_is_not_written_to_a_terminal():
    code, shown = on_terminal("compile", FP8, "--emit", "cubin")
    assert code == 1
    assert b"not written to a terminal" in shown
    assert b"ELF" not in shown


def test_colour_on_a_terminal_only(shell):
    wrong = ("emulate", "no such file.ptx", "--grid", "1", "--block", "1")
    without = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    assert b"\x1b[" in on_terminal(*wrong, TERM="xterm", NO_COLOR="")[1]
    assert b"\x1b[" not in on_terminal(*wrong, TERM="xterm", NO_COLOR="1")[1]
    done = shell(*wrong, env=without)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"error: ")
    assert b"\x1b[" not in done.stderr


def test_no_color_in_tables():
    shown = on_terminal("targets", TERM="xterm", NO_COLOR="1")[1]
    assert b"sm_90a" in shown
    assert not re.search(rb"\x1b\[[\d;]*[34]\dm", shown)


@pytest.mark.once
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("given", "code"), [("targets", 0), ("compile 'C['", 1), ("compile -", 1), ("nope", 2), ("--version", 0)]
)
def test_streams_that_are_closed(given: str, code: int, closed: str):
    """As of a process that a script starts with `>&-`."""
    command = f"exec {sys.executable} -m scalec.cli {given} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=100, input=b"")
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False)


def test_pipes(shell):
    module = shell("compile", "-", "--emit", "scale", input=FP8.encode())
    assert (module.returncode, module.stderr) == (0, b"")
    after = shell("opt", "--passes=infer-roles", "-", input=module.stdout)
    assert (after.returncode, after.stderr) == (0, b"")
    assert b"roles" in after.stdout


def test_a_reader_that_leaves():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*SCALEC, "compile", FP8, "--emit", "scale"], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert done.returncode == 1
    assert done.stderr == b""


def test_missing_file(shell, tmp_path):
    missing = str(tmp_path / "module.mlir")
    done = shell("opt", "--passes=infer-roles", missing)
    assert (done.returncode, done.stdout) == (1, b"")
    assert missing.encode() in done.stderr
    assert b"No such file or directory" in done.stderr
