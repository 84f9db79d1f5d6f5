"""Where results and diagnostics go: results to stdout or a file, everything else to stderr."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scalec.errors import ScalecError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from scalec.abi import Dropped


def open_streams() -> None:
    """Whoever closed one of the standard streams (`>&-`) neither reads nor writes there: /dev/null takes its place, and
    no file that is opened later its number."""
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_WRONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), "r" if name == "stdin" else "w"))


def console(*, stderr: bool = False) -> Console:
    """A rich console on stdout or stderr that takes brackets literally; it respects NO_COLOR by itself."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)


def print_table(table: Table, *, stderr: bool = False) -> None:
    """Prints a table as wide as it needs to be, without trailing blanks: a narrow terminal wraps, nothing is cut."""
    target = console(stderr=stderr)
    target.width = 1000
    with target.capture() as captured:
        target.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    print("\n".join(lines), file=sys.stderr if stderr else sys.stdout)


def plain_table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """A table without borders; the columns in `right` are right-aligned."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    return table


def note(text: str) -> None:
    """A line for the person at the terminal, on stderr."""
    print(text, file=sys.stderr)


def note_dropped(dropped: Dropped) -> None:
    """Says that a schedule was tried and is not the kernel's."""
    note(f"note: schedule {dropped.schedule} is dropped: {dropped.reason}; choosing again")


def write_result(data: str | bytes, path: str | None) -> None:
    """Writes a result to `path`, or to stdout where it is None or "-".

    Raises:
        ScalecError: binary data would go to a terminal.
        OSError: the file cannot be written.
    """
    if path is None or path == "-":
        if isinstance(data, bytes):
            if path is None and sys.stdout.isatty():
                raise ScalecError("a cubin is binary: not written to a terminal", fix="give -o FILE, or -o -")
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            sys.stdout.write(data if data.endswith("\n") else data + "\n")
            sys.stdout.flush()
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(data, bytes):
        target.write_bytes(data)
    else:
        target.write_text(data if data.endswith("\n") else data + "\n", encoding="utf-8")
