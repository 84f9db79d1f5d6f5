"""The table of examples/README.md, program by target; `python -m tests.examples_table` writes it anew."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from importlib import util
from pathlib import Path
from types import ModuleType
from unittest import mock

from scalec.commands import run
from scalec.commands.compile import Request
from scalec.errors import ScheduleError, UnsupportedError

FOLDER = Path(__file__).parents[1] / "examples"
PROGRAMS = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.scale"))}
TARGETS = ("sm_90a", "sm_100a", "sm_120a")
FEWER = {"q": 24}
"""Sizes for dimensions of which the default, 200, takes the emulator a quarter of a minute: queries of 64 heads."""
RUNS, REFUSED = "runs", "–"


def loaded(name: str) -> ModuleType:
    """An example in Python as a module, anew; it finds those beside it."""
    spec = util.spec_from_file_location(name, FOLDER / "python" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    with mock.patch.object(sys, "path", [str(FOLDER / "python"), *sys.path]):
        spec.loader.exec_module(module)
    return module


def refusal(source: str, target: str) -> UnsupportedError | ScheduleError | None:
    """Runs a program in the emulator, every dimension dynamic and of the default size but those that its first line
    has a size for (`--dim h=64`) and those of FEWER.

    Returns:
        why the target cannot run it, or not with the schedule that it gives; None if it ran.

    Raises:
        ScalecError: a wrong result, or a finding of the emulator.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            run.run_program(Request(source, target, fixed(source) | fewer(source)), 0)
    except (UnsupportedError, ScheduleError) as error:
        return error
    return None


def fixed(source: str) -> dict[str, int]:
    """The sizes that a program's first line says must be known."""
    return {name: int(size) for name, size in re.findall(r"--dim (\w+)=(\d+)", source.splitlines()[0])}


def fewer(source: str) -> dict[str, int]:
    """Of FEWER, the dimensions that a program has."""
    return {name: size for name, size in FEWER.items() if re.search(rf"\[(\w+,)*{name}\b", source)}


def rows() -> dict[str, list[str]]:
    """The table as it stands: the cells of each program, one for each of TARGETS."""
    lines = [line for line in (FOLDER / "README.md").read_text().splitlines() if line.startswith("| [")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].partition("]")[0].lstrip("["): row[2:] for row in cells}


def table() -> str:
    """The table, made by running every program."""
    lines = [f"| program | computes | {' | '.join(TARGETS)} |", "|---" * (2 + len(TARGETS)) + "|"]
    for name, source in PROGRAMS.items():
        cells = [RUNS if refusal(source, target) is None else REFUSED for target in TARGETS]
        about = source.splitlines()[0].removeprefix("# ").replace("|", "\\|")
        lines.append(f"| [{name}]({name}) | {about} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    os.environ |= {"SCALEC_DEVICE": "emulator", "SCALEC_TUNING": "off"}
    path = FOLDER / "README.md"
    head, _, _ = path.read_text().partition("| program")
    path.write_text(head + table())


if __name__ == "__main__":
    main()
