"""Runs a lit test in this process, where starting `scalec` for each RUN line would take most of the time.

A RUN line is read by lit's own parser of shell commands. What it may hold is what the suite uses: commands of COMMANDS,
joined by pipes, each with `env NAME=VALUE ...` before it or not; %s and %S. Anything else is an error.
"""

from __future__ import annotations

import io
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import filecheck.main
from lit.ShCommands import Command, Pipeline
from lit.ShUtil import ShParser

import scalec.cli
from tests.early import without_what_follows
from tests.lit import tool

ROUNDTRIP, INVALID = "roundtrip-tool", "invalid-tool"
COMMANDS: dict[str, Callable[[list[str]], object]] = {
    "scalec": lambda arguments: scalec.cli.main.main(arguments, prog_name="scalec"),
    "filecheck": lambda arguments: filecheck.main.main(["filecheck", *arguments]),
    ROUNDTRIP: lambda arguments: tool.roundtrip(*arguments),
    INVALID: lambda arguments: tool.invalid(*arguments),
}
_OTHERS = re.compile(r"\b(?:XFAIL|REQUIRES|UNSUPPORTED|ALLOW_RETRIES|DEFINE|REDEFINE|END)[:.]")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


class Unsupported(Exception):
    """A RUN line holds what is not run here."""


class Failed(AssertionError):
    """A command of a RUN line failed."""


def run(path: Path, whole: bool = True) -> None:
    """Runs all RUN lines of a file.

    Args:
        whole: whether programs are compiled to machine code where a line shows an earlier stage, as the command does.

    Raises:
        Unsupported: one holds something else than the module's docstring says, or there is none.
        Failed: a command did not exit with 0.
    """
    for line in [parsed(text, path) for text in run_lines(path)]:
        _pipeline(line, whole)


def run_lines(path: Path) -> list[str]:
    text = path.read_text()
    if other := _OTHERS.search(text):
        raise Unsupported(f"{path}: {other.group()}")
    lines = [line.strip() for line in re.findall(r"RUN:(.*)", text)]
    if not lines:
        raise Unsupported(f"{path}: no RUN line")
    return lines


def parsed(line: str, path: Path) -> list[tuple[dict[str, str], list[str]]]:
    """The commands of a pipeline: what each has in its environment, and its words."""
    text = line.replace("%roundtrip", ROUNDTRIP).replace("%invalid", INVALID)
    text = re.sub(r"%s\b", str(path), text)
    text = re.sub(r"%S\b", str(path.parent), text)
    if "%" in text or line.endswith("\\"):
        raise Unsupported(f"{path}: {line}")
    try:
        pipeline = ShParser(text).parse()
    except (ValueError, IndexError) as error:  # the latter at a line that ends with an operator
        raise Unsupported(f"{path}: {line}: {error}") from error
    if not isinstance(pipeline, Pipeline):
        raise Unsupported(f"{path}: {line}")
    return [_command(c, f"{path}: {line}") for c in pipeline.commands]


def _command(command: Command, where: str) -> tuple[dict[str, str], list[str]]:
    words = list(command.args)
    if command.redirects or not all(isinstance(word, str) for word in words):  # redirected, or a glob
        raise Unsupported(where)
    environment = {}
    if words[0] == "env":
        words.pop(0)
        while words and (found := _ASSIGNMENT.fullmatch(words[0])):
            environment[found[1]] = found[2]
            words.pop(0)
    if not words or words[0] not in COMMANDS:
        raise Unsupported(f"{where}: {words[:1]}")
    return environment, words


def _stages(arguments: list[str]) -> list[str]:
    """The stages that a command shows."""
    shown = [stages for option, stages in pairwise(arguments) if option == "--emit"]
    return ",".join(shown or ["cubin"]).split(",")


def _pipeline(commands: list[tuple[dict[str, str], list[str]]], whole: bool) -> None:
    data = b""
    for environment, (name, *arguments) in commands:
        end = without_what_follows(["cubin"] if whole else _stages(arguments))
        with end, patch.dict(os.environ, environment), _streams(data) as (out, err):
            code = _exit_code(COMMANDS[name], arguments)
            sys.stdout.flush()
            sys.stderr.flush()
            data, errors = out.getvalue(), err.getvalue()
        if code != 0:  # lit has pipefail set: no later command makes up for it
            raise Failed(f"{name} {' '.join(arguments)}\nexits with {code}\n{(errors + data).decode()}")


@contextmanager
def _streams(data: bytes) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """stdin that holds `data`; what comes to stdout and to stderr."""
    out, err = io.BytesIO(), io.BytesIO()
    texts = [io.TextIOWrapper(stream, encoding="utf-8") for stream in (io.BytesIO(data), out, err)]
    with patch.object(sys, "stdin", texts[0]), redirect_stdout(texts[1]), redirect_stderr(texts[2]):
        yield out, err


def _exit_code(function: Callable[[list[str]], object], arguments: list[str]) -> object:
    """What a process that calls the function would exit with: 0 if it returns nothing."""
    try:
        return function(arguments) or 0
    except SystemExit as end:
        return end.code or 0
    except Exception:
        traceback.print_exc()
        return 1
