"""How every command reads a program, the sizes of its dimensions and a schedule."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import click

from scalec.errors import NAME, ScalecError, SourceError
from scalec.sizes import Size, fixed, parse_size, ranges

FILE = "scalec.file"
"""Where click's context has the file that the command's program comes from."""


def read_source(text: str) -> str:
    """The program that a command was given: standard input for "-", a file's text if one has that name, else `text`.

    Raises:
        OSError: the file cannot be read.
        ScalecError: it is not UTF-8 text, or `text` is neither a file nor a program.
    """
    if text == "-" or _names_a_file(text):
        _named("<stdin>" if text == "-" else text)
        return read_text(text)
    if text.strip() and not any(c in text for c in "=[#\n"):  # every program has a statement
        raise ScalecError(f"no file {text:.200}", expected="a file, -, or a program such as 'C[m,n] = A[m,k]@B[n,k]'")
    return text


def read_text(file: str) -> str:
    """The text of a file, or of standard input for "-".

    Raises:
        OSError: the file cannot be read.
        ScalecError: it is not UTF-8 text.
    """
    try:
        return sys.stdin.buffer.read().decode() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ScalecError(
            f"{file} is not text", got=f"byte 0x{error.object[error.start]:02x} at {error.start}", expected="UTF-8"
        ) from None


def _named(file: str) -> None:
    """Notes where the command's program comes from."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[FILE] = file


def located(error: ScalecError) -> ScalecError:
    """`error`, which names the file that the command's program comes from, if that is what it speaks of."""
    context = click.get_current_context(silent=True)
    file = context.meta.get(FILE) if context is not None else None
    if file is not None and error.place is not None and error.place.name == NAME:
        error.place = replace(error.place, name=file)
    elif file is not None and isinstance(error, SourceError) and error.place is None:
        error.message = f"{file}: {error.message}"
    return error


def _names_a_file(text: str) -> bool:
    try:
        return "\n" not in text and Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or no name at all
        return False


def parse_pairs(text: str) -> list[tuple[str, str]]:
    """Reads "a=1,b=2".

    Raises:
        ValueError: with a sentence for the user.
    """
    pairs = []
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise ValueError(f"{part.strip()!r:.80} is not NAME=VALUE")
        pairs.append((name, value))
    return pairs


def parse_dims(text: str) -> dict[str, Size]:
    """Reads "m=1:4096,n=7168".

    Raises:
        ValueError: with a sentence for the user.
    """
    sizes: dict[str, Size] = {}
    for name, value in parse_pairs(text):
        try:
            size = parse_size(value)
        except ValueError as error:
            raise ValueError(f"{name} = {error}") from None
        _set(sizes, name, size)
    return sizes


def fixed_sizes(dims: Mapping[str, Size], command: str, least: int = 0) -> dict[str, int]:
    """The sizes that a command runs at.

    Raises:
        ScalecError: one is a range, or less than `least`.
    """
    for name, within in ranges(dims).items():
        raise ScalecError(
            f"{name} = {within} is a range, and `{command}` needs one size", fix=f"give --dim {name}={within.high}"
        )
    for name, size in fixed(dims).items():
        if size < least:
            raise ScalecError(f"{name} = {size}: there is nothing that `{command}` could time", expected="1 or more")
    return fixed(dims)


def parse_schedule(text: str) -> dict[str, str]:
    """Reads "tile=128x128x128,stages=5"; the values are checked by the schedule's own table.

    Raises:
        ValueError: with a sentence for the user.
    """
    values: dict[str, str] = {}
    for name, value in parse_pairs(text):
        _set(values, name, value)
    return values


def merge_dims(parts: Iterable[dict[str, Size]]) -> dict[str, Size]:
    """The sizes of several `--dim`.

    Raises:
        ValueError: two of them give one dimension different sizes.
    """
    sizes: dict[str, Size] = {}
    for part in parts:
        for name, value in part.items():
            _set(sizes, name, value)
    return sizes


def _set(values: dict, name: str, value: Size | str) -> None:
    if values.setdefault(name, value) != value:
        raise ValueError(f"{name} is given twice: {values[name]} and {value}")
